"""How much each choice is worth: each group of choices with another option, all other choices as chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dsl.lab.assignments import Assignment, ChoiceGroup, groups
from dsl.lab.contest import differing, ratio_interval, sign_probability
from dsl.lab.experiment import ROUNDS, Experiment
from dsl.lab.trial import Trial

Interval = tuple[float, float, float]


@dataclass(slots=True)
class Flip:
    """A group of choices with another option. ratio: the median of its time over the time as chosen, round by round,
    with its interval; differs: whether the ratio differs from 1 significantly among all rows. moved: other choices that
    changed as a consequence; is_same: its code equals the code as chosen."""

    label: str
    option: str
    assignment: Assignment
    is_unsafe: bool
    trial: Trial
    is_same: bool = False
    moved: list[str] = field(default_factory=list)
    ratio: Interval | None = None
    probability: float | None = None
    differs: bool | None = None

    @property
    def name(self) -> str:
        return f"{self.label} → {self.option}"


@dataclass(slots=True)
class Ablation:
    """The rows of one launch. null: ratio intervals of further runs of the chosen code, whose true ratio is 1."""

    experiment: Experiment
    base: Trial
    flips: list[Flip]
    null: list[Interval] = field(default_factory=list)

    @property
    def is_broken(self) -> bool:
        """Whether the code as chosen, or code with a safe option, gave a wrong result."""
        # Unsafe options (--ceiling) may race: that is their verdict, not a fault.
        told = [self.base, *(flip.trial for flip in self.flips if not flip.is_unsafe)]
        return any(trial.verdict not in ("right", "refused") for trial in told)


@dataclass(frozen=True, slots=True)
class AblationChoice:
    """Which rows: of these kinds and keys (empty: all), each choice alone or in groups, with options that may be wrong;
    rounds of the contest, and how often the chosen code takes part again."""

    kinds: Sequence[str] = ()
    keys: Sequence[str] = ()
    each: bool = False
    ceiling: bool = False
    rounds: int = ROUNDS
    null: int = 0


def flips_of(experiment: Experiment, choice: AblationChoice) -> list[tuple[str, str, Assignment, bool]]:
    """(label, option, assignment, whether it may be wrong) of each row."""
    found = groups(experiment.made, choice.kinds, choice.keys, choice.each)
    rows = []
    for group in found:
        for option in group.options:
            if choice.ceiling or not group.is_unsafe(option):
                rows.append((group.label, option, group.assignment(option), group.is_unsafe(option)))
    return rows + (ceilings(found) if choice.ceiling else [])


def ceilings(found: Sequence[ChoiceGroup]) -> list[tuple[str, str, Assignment, bool]]:
    """For each kind with an option that may be wrong: all groups that have the option, together, if they are
    several."""
    unsafe: dict[tuple[str, str], list[ChoiceGroup]] = {}
    for group in found:
        for option in group.options:
            if group.is_unsafe(option):
                unsafe.setdefault((group.kind, option), []).append(group)
    return [
        (f"{kind} (all)", option, {k: o for group in members for k, o in group.assignment(option).items()}, True)
        for (kind, option), members in unsafe.items()
        if len(members) > 1 and kind != "pass"
    ]


def ablate(experiment: Experiment, choice: AblationChoice, advance: Callable[[str], None]) -> Ablation:
    """Tries all rows, then measures those that can be launched, in one contest. Raises DeviceError, TileError."""
    # First: all rows are compared with it, and its own findings are no row's fault.
    base = experiment.trial({})
    wanted = flips_of(experiment, choice)
    flips = []
    # All code is compiled side by side while the first rows run.
    experiment.begin([assignment for _, _, assignment, _ in wanted])
    for label, option, assignment, is_unsafe in wanted:
        flip = Flip(label, option, assignment, is_unsafe, experiment.trial(assignment))
        flip.is_same = experiment.is_same(flip.trial, base)
        flip.moved = experiment.moved(flip.trial, assignment)
        flips.append(flip)
        advance(flip.trial.verdict)
    made = Ablation(experiment, base, flips)
    if experiment.place.ordinal is not None:
        compare(made, choice)
    return made


def compare(made: Ablation, choice: AblationChoice) -> None:
    """Times all rows in one contest: ratios to the times as chosen, and which of them differ from 1 significantly."""
    # Equal code has an equal time: it would only lengthen the contest.
    others = [flip for flip in made.flips if not flip.is_same]
    null = made.experiment.measure([made.base, *(flip.trial for flip in others)], choice.rounds, choice.null)
    base = made.base.times_us
    made.null = [ratio_interval(times, base) for times in null]
    timed = {place: flip for place, flip in enumerate(others) if flip.trial.times_us and base}
    for flip in timed.values():
        flip.ratio = ratio_interval(flip.trial.times_us, base)
        flip.probability = sign_probability(flip.trial.times_us, base)
    # Corrected over all rows: of thirty 95% intervals some miss 1 by chance.
    told = differing({place: flip.probability or 0.0 for place, flip in timed.items()})
    for place, flip in timed.items():
        flip.differs = place in told


def as_json(made: Ablation) -> dict[str, Any]:
    """The data of `dsl ablate --json` for a launch."""
    rows = [row_as_json("as chosen", made.base)]
    for flip in made.flips:
        row = row_as_json(flip.name, flip.trial)
        row |= {"group": flip.label, "option": flip.option, "choose": dict(flip.assignment), "ceiling": flip.is_unsafe}
        row |= {"same_code": flip.is_same, "moved": flip.moved}
        if flip.ratio is not None:
            row |= {"ratio": flip.ratio[0], "ratio_interval": list(flip.ratio[1:])}
            row |= {"probability": flip.probability, "differs": flip.differs}
        rows.append(row)
    blank = made.base
    about: dict[str, Any] = {"call": blank.call, "example": blank.example, "types": blank.types, "dims": blank.dims}
    return about | {"device": blank.device, "rows": rows, "null_intervals": [list(one) for one in made.null]}


def row_as_json(name: str, trial: Trial) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "reason": trial.reason, **trial.figures()}
    if trial.times_us:
        median, low, high = trial.interval
        row |= {"median_us": median, "interval_us": [low, high], "rounds": len(trial.times_us)}
    return row
