"""Which decision changes an answer: halving over the choices in which two assignments differ, and reducing them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from dsl.lab.assignments import Assignment, groups, halve, reduced
from dsl.lab.contest import median_interval, ratio_interval
from dsl.lab.experiment import Experiment
from dsl.lab.predicates import Predicate, ends_differ
from dsl.lab.trial import Trial
from dsl.lowering.ir.choices import keys_of

Advance = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Decision:
    """Choices that are undone together: as chosen they are `taken`; `assignment` is their setting at the start."""

    label: str
    option: str
    taken: str
    assignment: Assignment


@dataclass(slots=True)
class Bisection:
    """start, end: figures with all decisions, and as chosen. found: the decisions whose undoing changes the answer;
    one, unless some places could not be decided; before, after: figures on both sides. needed: the decisions on which
    the start's answer depends, if requested."""

    decisions: list[Decision]
    start: Mapping[str, Any]
    end: Mapping[str, Any]
    holds_at_start: bool
    found: list[Decision] = field(default_factory=list)
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    needed: list[Decision] | None = None
    trials: int = 0


class Asker:
    """Evaluates a predicate for assignments; times come from a contest with the launch as chosen."""

    def __init__(self, experiment: Experiment, predicate: Predicate, advance: Advance):
        self.experiment, self.predicate, self.advance = experiment, predicate, advance
        self.known: dict[int, dict[str, Any]] = {}  # figures by the trial's identity

    def figures(self, assignment: Assignment) -> dict[str, Any]:
        trial = self.experiment.trial(assignment)
        if id(trial) not in self.known:
            self.known[id(trial)] = {**trial.figures(), **self.timed(trial)}
            self.advance(trial.verdict)
        return self.known[id(trial)]

    def timed(self, trial: Trial) -> dict[str, Any]:
        if not self.predicate.is_timed:
            return {}
        base = self.experiment.trial({})
        self.experiment.measure([base, trial])
        if not trial.times_us:
            return {}
        return {"time": median_interval(trial.times_us), "ratio": ratio_interval(trial.times_us, base.times_us)}

    def holds(self, assignment: Assignment) -> bool | None:
        return self.predicate.holds(self.figures(assignment))


def plain(experiment: Experiment, kinds: Sequence[str] = (), keys: Sequence[str] = ()) -> list[Decision]:
    """The start with the plain option of each group of choices, a decision a group."""
    found = []
    for group in groups(experiment.made, kinds, keys):
        assignment = group.plain()
        if assignment:
            option = " | ".join(dict.fromkeys(assignment.values()))
            found.append(Decision(group.label, option, group.taken, assignment))
    return found


def given(experiment: Experiment, assignment: Assignment) -> list[Decision]:
    """The start with an assignment, a decision a key, in the order in which the choices are made."""
    made = experiment.made
    # A key may name several choices: all that it covers are undone together.
    members = {key: [at for at, (name, c) in enumerate(made) if key in keys_of(name, c)] for key in assignment}

    def decision(key: str) -> Decision:
        taken = " | ".join(dict.fromkeys(made[at][1].taken for at in members[key]))
        return Decision(key, assignment[key], taken or "not made", {key: assignment[key]})

    # Keys of choices that are not made in this kernel come last.
    return [decision(key) for key in sorted(assignment, key=lambda key: min(members[key], default=len(made)))]


def joined(decisions: Sequence[Decision]) -> dict[str, str]:
    return {key: option for each in decisions for key, option in each.assignment.items()}


def bisect(
    experiment: Experiment, decisions: list[Decision], predicate: Predicate, advance: Advance, reduce: bool = False
) -> Bisection:
    """Where the answer of a predicate changes as the decisions are undone from the first to the last. TileError if the
    answer is the same at both ends, or unknown there."""
    ask = Asker(experiment, predicate, advance)
    ends = [ask.figures(joined(decisions)), ask.figures({})]
    first = ends_differ(predicate, ends, ("at the start", "as chosen"))
    made = Bisection(decisions, ends[0], ends[1], first)
    # At `at` the first `at` decisions are undone.
    border = halve(len(decisions), lambda at: ask.holds(joined(decisions[at:])), first)
    made.found = decisions[border.low : border.high]
    made.before, made.after = (ask.figures(joined(decisions[at:])) for at in (border.low, border.high))
    if reduce:
        made.needed = reduce_decisions(decisions, lambda some: ask.holds(joined(some)) == first)
    made.trials = len(ask.known)
    return made


def reduce_decisions(decisions: Sequence[Decision], still: Callable[[Sequence[Decision]], bool]) -> list[Decision]:
    """A part of the decisions for which `still` holds, but for no part of it that lacks one more."""
    # `reduced` works on keys; decisions are numbered, since one may have several keys.
    by_number = {str(number): each for number, each in enumerate(decisions)}
    left = reduced(dict.fromkeys(by_number, ""), lambda some: still([by_number[number] for number in some]))
    return [by_number[number] for number in left]


def as_json(made: Bisection, predicate: Predicate) -> dict[str, Any]:
    """The data of `dsl bisect --json` for a launch."""
    record: dict[str, Any] = {"until": predicate.text, "choices": len(made.decisions), "trials": made.trials}
    record |= {"holds_at_start": made.holds_at_start, "start": made.start, "end": made.end}
    record |= {"found": [*map(asdict, made.found)], "before": made.before, "after": made.after}
    return record | ({} if made.needed is None else {"needed": [*map(asdict, made.needed)]})
