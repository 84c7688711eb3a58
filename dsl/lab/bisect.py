"""Finds the choices that change a predicate's answer. A binary search goes from given options to those that the
compiler chose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict

from dsl.lab.assignments import Assignment, groups, halve, reduced
from dsl.lab.contest import median_interval, ratio_interval
from dsl.lab.experiment import Experiment
from dsl.lab.predicates import Predicate, ends_differ
from dsl.lab.trial import Trial
from dsl.lowering.ir.choices import keys_of

Advance = Callable[[str], None]


class Decision(Struct, frozen=True):
    """Choices that change together.

    At the start of a bisection, the choices have the options in `assignment`. After the decision is undone, they have
    the options `taken`.
    """

    label: str
    option: str
    taken: str
    assignment: Assignment


class Bisection(Struct):
    """The result of a bisection.

    `start` contains the figures of the launch with all decisions, and `end` those after all decisions are undone.
    `found` is the decision whose undoing changes the answer; it has several elements if some trials gave no answer.
    `before` and `after` are the figures before and after `found` is undone. If requested, `needed` lists the decisions
    that the answer at the start depends on.
    """

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
    """Evaluates a predicate on the trials of assignments. Times are measured in alternation with the launch that the
    compiler chose."""

    def __init__(self, experiment: Experiment, predicate: Predicate, advance: Advance):
        self.experiment, self.predicate, self.advance = experiment, predicate, advance
        self.known: dict[int, dict[str, Any]] = {}  # maps the trial's identity to its figures

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
    """The decisions of a bisection from plain options: one for each group of choices."""
    found = []
    for group in groups(experiment.made, kinds, keys):
        assignment = group.plain()
        if assignment:
            option = " | ".join(dict.fromkeys(assignment.values()))
            found.append(Decision(group.label, option, group.taken, assignment))
    return found


def given(experiment: Experiment, assignment: Assignment) -> list[Decision]:
    """The decisions of a bisection from `assignment`: one for each key.

    The decisions are in the order in which the compiler makes the choices.
    """
    made = experiment.made
    # A key may name several choices. All of them are undone together.
    members = {key: [at for at, (name, c) in enumerate(made) if key in keys_of(name, c)] for key in assignment}

    def decision(key: str) -> Decision:
        taken = " | ".join(dict.fromkeys(made[at][1].taken for at in members[key]))
        return Decision(key, assignment[key], taken or "not made", {key: assignment[key]})

    # Keys of choices that this kernel does not make come last.
    return [decision(key) for key in sorted(assignment, key=lambda key: min(members[key], default=len(made)))]


def joined(decisions: Sequence[Decision]) -> dict[str, str]:
    return {key: option for each in decisions for key, option in each.assignment.items()}


def bisect(
    experiment: Experiment, decisions: list[Decision], predicate: Predicate, advance: Advance, reduce: bool = False
) -> Bisection:
    """Finds, by binary search, where the predicate's answer changes when the decisions are undone one after another.

    Raises a TileError if the answer is the same at both ends, or unknown at one end.
    """
    ask = Asker(experiment, predicate, advance)
    ends = [ask.figures(joined(decisions)), ask.figures({})]
    first = ends_differ(predicate, ends, ("at the start", "as chosen"))
    made = Bisection(decisions, ends[0], ends[1], first)
    # At place `at`, the first `at` decisions are undone. All later decisions have their options of the start.
    low, high = halve(len(decisions), lambda at: ask.holds(joined(decisions[at:])), first)
    made.found = decisions[low:high]
    made.before, made.after = (ask.figures(joined(decisions[at:])) for at in (low, high))
    if reduce:
        made.needed = reduce_decisions(decisions, lambda some: ask.holds(joined(some)) == first)
    made.trials = len(ask.known)
    return made


def reduce_decisions(decisions: Sequence[Decision], still: Callable[[Sequence[Decision]], bool]) -> list[Decision]:
    """A minimal part of the decisions for which `still` is true. Without any one of them, `still` is false."""
    # `reduced` works on keys. A decision may have several keys, so each decision gets a number as its key.
    by_number = {str(number): each for number, each in enumerate(decisions)}
    left = reduced(dict.fromkeys(by_number, ""), lambda some: still([by_number[number] for number in some]))
    return [by_number[number] for number in left]


def as_json(made: Bisection, predicate: Predicate) -> dict[str, Any]:
    """The data that `dsl bisect --json` prints for a launch."""
    record: dict[str, Any] = {"until": predicate.text, "choices": len(made.decisions), "trials": made.trials}
    record |= {"holds_at_start": made.holds_at_start, "start": made.start, "end": made.end}
    record |= {"found": [*map(asdict, made.found)], "before": made.before, "after": made.after}
    return record | ({} if made.needed is None else {"needed": [*map(asdict, made.needed)]})
