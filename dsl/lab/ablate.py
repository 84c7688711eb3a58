"""Measures what each choice of the compiler is worth. In each row, one group of choices has another option, and all
other choices are unchanged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct, field

from dsl.lab.assignments import Assignment, ChoiceGroup, groups
from dsl.lab.contest import differing, ratio_interval, sign_probability
from dsl.lab.experiment import ROUNDS, Experiment
from dsl.lab.trial import Trial

Interval = tuple[float, float, float]


class Flip(Struct):
    """A row of an ablation: the code in which one group of choices has another option.

    The chosen code is the code without this change. In each round, the row's time is divided by the time of the chosen
    code. `ratio` is the median of these quotients with its confidence interval. `differs` is True if the ratio differs
    significantly from 1, corrected for the number of rows. `moved` lists other choices that changed as a consequence.
    `is_same` is True if the code equals the chosen code.
    """

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


class Ablation(Struct):
    """The rows of one launch. `null` compares further times of the chosen code with its first times, as ratios. The
    true ratio is 1."""

    experiment: Experiment
    base: Trial
    flips: list[Flip]
    null: list[Interval] = field(default_factory=list)

    @property
    def is_broken(self) -> bool:
        """Whether the chosen code, or code with a safe option, gave a wrong result."""
        # Unsafe options (--ceiling) may race. The option's row shows such a race, but the race is not a fault.
        told = [self.base, *(flip.trial for flip in self.flips if not flip.is_unsafe)]
        return any(trial.verdict not in ("right", "refused") for trial in told)


class AblationChoice(Struct, frozen=True):
    """Which rows an ablation has, and how they are timed.

    `kinds` and `keys` select choices; an empty list selects all. With `each`, every choice is a group of its own. With
    `ceiling`, options that may give wrong results get rows, too. `null` is how often the chosen code is timed again.
    """

    kinds: Sequence[str] = ()
    keys: Sequence[str] = ()
    each: bool = False
    ceiling: bool = False
    rounds: int = ROUNDS
    null: int = 0


def flips_of(experiment: Experiment, choice: AblationChoice) -> list[tuple[str, str, Assignment, bool]]:
    """A tuple for each row: the group's label, its new option, its assignment, and whether the option may give wrong
    results."""
    found = groups(experiment.made, choice.kinds, choice.keys, choice.each)
    rows = []
    for group in found:
        for option in group.options:
            if choice.ceiling or not group.is_unsafe(option):
                rows.append((group.label, option, group.assignment(option), group.is_unsafe(option)))
    return rows + (ceilings(found) if choice.ceiling else [])


def ceilings(found: Sequence[ChoiceGroup]) -> list[tuple[str, str, Assignment, bool]]:
    """Makes one row for each option that may give wrong results. In this row, all groups that have the option get it.

    There is no such row if only one group has the option, or for options of the kind `pass`.
    """
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
    """Compiles and runs all rows. On a GPU, then times the rows that can be launched, in shuffled rounds.

    Raises DeviceError, TileError.
    """
    # The chosen code runs first, since all rows are compared with this code. A fault that the chosen code already has
    # is not blamed on a row.
    base = experiment.trial({})
    wanted = flips_of(experiment, choice)
    flips = []
    # Other processes compile all code while the first rows run.
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
    """Times all rows in shuffled rounds. Then sets `ratio` and `differs` of each row."""
    # Rows with equal code would have equal times and only add launches.
    others = [flip for flip in made.flips if not flip.is_same]
    null = made.experiment.measure([made.base, *(flip.trial for flip in others)], choice.rounds, choice.null)
    base = made.base.times_us
    made.null = [ratio_interval(times, base) for times in null]
    timed = {place: flip for place, flip in enumerate(others) if flip.trial.times_us and base}
    for flip in timed.values():
        flip.ratio = ratio_interval(flip.trial.times_us, base)
        flip.probability = sign_probability(flip.trial.times_us, base)
    # `differing` corrects for the number of rows, since out of thirty 95% intervals some miss 1 by chance.
    told = differing({place: flip.probability or 0.0 for place, flip in timed.items()})
    for place, flip in timed.items():
        flip.differs = place in told


def as_json(made: Ablation) -> dict[str, Any]:
    """The data that `dsl ablate --json` prints for a launch."""
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
    return {"name": name, "reason": trial.reason, **trial.figures(), **trial.timing}
