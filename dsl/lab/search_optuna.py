"""The search `optuna`: optuna's tree-structured Parzen estimator, through its ask-and-tell interface. Needs optuna."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dsl.lab.search import Point, Search, search
from dsl.lab.trial import Trial
from dsl.lowering.ir.location import TileError

BATCH = 8
"""Limit of points with pending results. The sampler learns from each result before it suggests the next point."""
REPEATS = 32
"""After this many suggestions of known points in a row, a fresh point is drawn at random."""


@search("optuna")
class ByOptuna(Search):
    """Each setting is a categorical parameter of optuna. The sampler suggests one setting after another.

    A parameter's name contains the setting and its possible values, such as `warps in 4, 8`. If the possible values
    depend on other settings, each list of values is a parameter of its own. (Akiba et al., Optuna: A Next-generation
    Hyperparameter Optimization Framework, 2019.)
    """

    def __init__(self, points: Sequence[Point], budget: int | None, seed: int):
        super().__init__(points, budget, seed)
        try:
            import optuna
        except ImportError:
            raise TileError("tool", None, "--search optuna needs optuna", "pip install 'dsl[optuna]'") from None
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.optuna = optuna
        # constant_liar: pending points count as bad, so that a batch does not suggest the same region eight times.
        self.study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        self.in_order = sorted(points, key=lambda point: point.index)
        self.open: dict[int, Any] = {}
        """optuna's trials that have no result yet, by the point's index."""
        for point in points:
            # The defaults come first, as in every search, since one of them is the reference.
            if point.is_default:
                self.enqueue(point)

    def ask(self, count: int) -> Sequence[Point]:
        found: list[Point] = []
        repeats = 0
        while self.left and len(self.open) < BATCH and len(found) < count and (fresh := self.fresh()):
            if repeats == REPEATS:
                self.enqueue(self.random.choice(fresh))
            trial = self.study.ask()
            point = self.suggested(trial)
            if self.is_fresh(point):
                found += self.take([point], 1)
                self.open[point.index] = trial
                repeats = 0
            else:  # known, or pending
                self.note(trial, self.told.get(point.index))
                repeats += 1
        return found

    def enqueue(self, point: Point) -> None:
        """Makes the sampler suggest this point next."""
        self.study.enqueue_trial({name: chosen for name, _, chosen in self.parameters(point)})

    def suggested(self, trial: Any) -> Point:
        """The point that the sampler suggests, setting by setting."""
        points = self.in_order
        while (step := next_step(points)) is not None:
            parameter, name, options = step
            chosen = trial.suggest_categorical(parameter, options)
            points = [point for point in points if str(point.settings.get(name)) == chosen]
        return points[0]

    def parameters(self, point: Point) -> Iterator[tuple[str, list[str], str]]:
        """Yields the parameters that identify a point, in order. Each is a tuple: the name, its options, and the option
        of the point."""
        points = self.in_order
        while (step := next_step(points)) is not None:
            parameter, name, options = step
            chosen = str(point.settings.get(name))
            yield parameter, options, chosen
            points = [each for each in points if str(each.settings.get(name)) == chosen]

    def tell(self, trials: Mapping[int, Trial]) -> None:
        by_index = {point.index: point for point in self.points}
        for index, trial in trials.items():
            if index in self.open:
                self.note(self.open.pop(index), trial)
            elif index not in self.told:  # from the log
                steps = list(self.parameters(by_index[index]))
                made = self.optuna.trial.create_trial(
                    params={name: chosen for name, _, chosen in steps},
                    distributions={
                        name: self.optuna.distributions.CategoricalDistribution(options) for name, options, _ in steps
                    },
                    value=value_of(trial),
                )
                self.study.add_trial(made)
        super().tell(trials)

    def note(self, of: Any, trial: Trial | None) -> None:
        """Reports the result of a suggestion to optuna's study.

        If `trial` is None, the suggested point is already being tried. Then it is reported as failed, which the study
        ignores.
        """
        if trial is not None:
            self.study.tell(of, value_of(trial))
        else:
            self.study.tell(of, state=self.optuna.trial.TrialState.FAIL)


def value_of(trial: Trial) -> float:
    """The value of a trial for the study. The value of a wrong point is infinity, the worst value.

    If a wrong point were reported as failed, the sampler would ignore the report and suggest the point again and again.
    This was measured in three spaces of 625 points, of which 28, 70 and 52 % are wrong. Of the last 50 of 100
    suggestions (5 seeds each), 45, 72 and 70 % are wrong if wrong points are reported as failed. With infinity, 31, 62
    and 50 % are wrong.
    """
    return as_number(trial.rank) if trial.is_fine else math.inf


def next_step(points: Sequence[Point]) -> tuple[str, str, list[str]] | None:
    """The first setting in which the points differ, as (parameter, setting, options). Returns None for a single
    point."""
    if len(points) == 1:
        return None
    for name in dict.fromkeys(name for point in points for name in point.settings):
        options = list(dict.fromkeys(str(point.settings.get(name)) for point in points))
        if len(options) > 1:
            return f"{name} in {', '.join(options)}", name, options
    return None


def as_number(rank: Sequence[float]) -> float:
    """Maps a rank (a tuple) to one number, so that the numbers have the same order as the ranks. All elements except
    the first must be whole numbers.

    The number is the first element plus a fraction below 1, which encodes the other elements.
    """
    first, *others = rank
    if not others:
        return float(first)
    rest = as_number(others)
    return float(first + rest / (1 + rest))
