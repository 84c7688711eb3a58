"""Compares the costs of schedules with logged times. Fits the numbers of a device, which costs read, to these times."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import exp, inf, log
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from msgspec import Struct, to_builtins

from dsl.kernels.variant import Request, costs_of
from dsl.lab.models import LEAST, mean, rank_correlation, read_trials
from dsl.lab.outcome import intervals_of
from dsl.lab.trial import Trial
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.machines import COUNTS, Row, machine_numbers
from dsl.lowering.ir.targets import target
from dsl.text.program import Program, load

FACTOR = 4.0
"""A fitted number is within this factor of the number from which the fit begins."""
SCATTER, PRIOR = 0.1, log(2.0)
"""The usual errors, as logarithms, of a cost and of a number from which a fit begins. So numbers that the times do not
determine hardly move."""
STEP = 0.01
"""The change of a number, as a logarithm, that gives a slope. It is not tiny, since costs have small jumps."""
PROBES = 7
"""Values of a number, over its whole range, that are tried where slopes lead no further."""
ROUNDS, LEAST_GAIN = 40, 1e-4
"""The fit ends after so many rounds, or after a round that lessens the sum of squares by less than this share."""

Case = Sequence[int]
"""The numbers of trials that do the same work."""


class CaseScore(Struct, frozen=True):
    """How well costs order the points of one call: Spearman's rank correlation of costs and times, and the time of the
    cheapest point divided by that of the fastest one (`regret`)."""

    call: str
    case: str
    points: int
    correlation: float | None
    regret: float
    cheapest: str
    fastest: str


class ScoreSummary(Struct, frozen=True):
    """The mean correlation of several cases, and the geometric mean, the 95th percentile and the greatest of their
    regrets."""

    cases: int
    points: int
    correlation: float | None
    regret: float
    regret_95: float
    worst: float


def summary(scores: Sequence[CaseScore]) -> ScoreSummary:
    regrets = sorted(each.regret for each in scores)
    found = mean([each.correlation for each in scores if each.correlation is not None])
    geometric, points = exp(sum(map(log, regrets)) / len(regrets)), sum(each.points for each in scores)
    return ScoreSummary(len(scores), points, found, geometric, regrets[len(regrets) * 19 // 20], regrets[-1])


class LaunchGroup(Struct):
    """Launches whose costs are evaluated together: their requests differ only in numeric constants, `points`. `rows`
    are the numbers of their trials."""

    program: Program
    request: Request
    points: list[Mapping[str, Any]]
    rows: list[int]

    def costs(self, numbers: Row) -> list[float] | None:
        return costs_of(self.program, self.request, self.points, numbers)


class LoggedCosts:
    """The measured trials of logs, and the costs that today's text of their files gives them.

    `times` are in microseconds. `cases` lists the trials of each call; trials of a case also share all launches whose
    schedule states no cost. `start` are the numbers of the device. Raises TileError.
    """

    def __init__(self, trials: Sequence[Trial], note: Callable[[str], None] = lambda text: None):
        self.trials = trials
        self.start = machine_numbers(target(trials[0].requests[0].arch), trials[0].device)
        self.groups: list[LaunchGroup] = []
        without, left_out = [""] * len(trials), set[int]()
        for group in _groups(trials):
            try:
                if group.costs(self.start) is not None:
                    self.groups.append(group)
                    continue
            except TileError as error:
                note(f"{len(group.rows)} trials are left out, since their cost has no value: {error.message}")
                left_out |= {*group.rows}
            for row, point in zip(group.rows, group.points, strict=True):
                without[row] += f"{group.request.kernel} {group.request.schedule} {point}"
        if not self.groups:
            raise TileError("option", None, "no launch of the trials has a cost", "a 'cost' line (docs/choosing.md)")
        cases: dict[str, list[int]] = {}
        for row, trial in enumerate(trials):
            if row not in left_out:
                cases.setdefault(_case_key(trial) + without[row], []).append(row)
        self.cases: list[Case] = [*cases.values()]
        self.is_whole = np.array([not text for text in without])
        self.times = np.full(len(trials), np.nan)
        for rows in self.cases:
            for row, (median, *_) in intervals_of({row: trials[row] for row in rows}).items():
                self.times[row] = median

    def costs(self, numbers: Row, rows: Case | None = None) -> np.ndarray:
        """The cost of each trial in microseconds on a device with these numbers: the sum over its launches. If `rows`
        are given, only these trials have a cost."""
        found, wanted = np.zeros(len(self.trials)), None if rows is None else {*rows}
        for group in self.groups:
            if wanted is None or not wanted.isdisjoint(group.rows):
                np.add.at(found, group.rows, group.costs(numbers) or 0.0)  # a trial may launch a kernel twice
        return found

    # ---- scores ----

    def scores(self, numbers: Row, cases: Sequence[Case]) -> list[CaseScore]:
        """The scores of these cases. A case with too few points to be ordered has none."""
        costs = self.costs(numbers, [row for case in cases for row in case])
        return [found for case in cases if (found := self.score(costs, case)) is not None]

    def score(self, costs: np.ndarray, case: Case) -> CaseScore | None:
        known = [row for row in case if 0 < costs[row] < inf]
        if len(known) < LEAST:
            return None
        cheapest, fastest = (min(known, key=of.__getitem__) for of in (costs, self.times))
        correlation = rank_correlation([costs[row] for row in known], [self.times[row] for row in known])
        regret = float(self.times[cheapest] / self.times[fastest])
        trial, points = self.trials[case[0]], [_described(self.trials[row]) for row in (cheapest, fastest)]
        about = {**trial.values, **trial.types, **trial.dims, **trial.options}
        title = " ".join(f"{name}={value}" for name, value in about.items())
        return CaseScore(trial.call, title, len(known), correlation, regret, *points)

    def cross_validated(self, seed: int) -> list[CaseScore]:
        """The scores of all cases, each with numbers that are fitted to half of the cases, without this one."""
        order = [*self.cases]
        Random(seed).shuffle(order)
        order.sort(key=lambda case: self.trials[case[0]].call)  # so both halves have cases of each call
        halves = order[::2], order[1::2]
        return [score for at in (0, 1) for score in self.scores(self.fitted(halves[1 - at]), halves[at])]

    # ---- the fit ----

    def fitted(self, cases: Sequence[Case]) -> Row:
        """The numbers for which the costs of these cases agree best with their times. All launches of a trial must have
        a cost, since its time covers all of them."""
        rows = [row for case in cases for row in case if self.is_whole[row]]
        start = self.costs(self.start, rows)
        rows = [row for row in rows if 0 < start[row] < inf]
        if not rows:
            return self.start
        errors = partial(self.errors, rows)
        names = [name for name in self.start if name not in COUNTS]
        found = least_squares(lambda moves: errors(_moved(self.start, names, moves)) / SCATTER, len(names))
        return _moved(self.start, names, found)

    def errors(self, rows: Case, numbers: Row) -> np.ndarray:
        """log(cost / time) of these trials."""
        with np.errstate(invalid="ignore", divide="ignore"):  # a cost may be 0 or less
            return np.log(self.costs(numbers, rows)[[*rows]] / self.times[[*rows]])

    def error(self, numbers: Row) -> float | None:
        """The usual factor between a cost and its time, from the root mean square of the logarithm. It is None if no
        trial has a cost for all its launches."""
        rows = [row for case in self.cases for row in case if self.is_whole[row]]
        errors = self.errors(rows, numbers)
        known = errors[np.isfinite(errors)]
        return exp(float(np.sqrt(np.mean(known**2)))) if len(known) else None


def least_squares(errors: Callable[[np.ndarray], np.ndarray], count: int) -> np.ndarray:
    """The `count` logarithms of factors that make the sum of squared `errors` least, by the damped method of Gauss and
    Newton (Levenberg and Marquardt). Factors near 1 are preferred, by PRIOR, and none is beyond FACTOR."""

    def all_errors(moves: np.ndarray) -> np.ndarray:
        return np.concatenate([errors(moves), moves / PRIOR])

    def better(moves: np.ndarray, now: np.ndarray, change: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        further = np.clip(moves + change, -log(FACTOR), log(FACTOR))
        then = all_errors(further)
        return (further, then) if then @ then < now @ now else (moves, now)

    moves, damping = np.zeros(count), 1e-2
    now = all_errors(moves)
    for _ in range(ROUNDS):
        before = now @ now
        slopes = np.stack([(all_errors(moves + STEP * each) - now) / STEP for each in np.eye(count)], axis=1)
        square = slopes.T @ slopes
        while damping < 1e6 and now @ now == before:
            change = np.linalg.solve(square + damping * np.diag(np.diag(square)), -slopes.T @ now)
            moves, now = better(moves, now, change)
            damping *= 4 if now @ now == before else 1 / 8
        if before - now @ now < LEAST_GAIN * before:
            # A time that is never the longest of several has no slope, so other values of each number are tried.
            for each in np.eye(count):
                for value in np.linspace(-log(FACTOR), log(FACTOR), PROBES):
                    moves, now = better(moves, now, (value - moves @ each) * each)
            damping = 1e-2
        if before - now @ now < LEAST_GAIN * before:
            break
    return moves


def _moved(row: Row, names: Sequence[str], moves: Sequence[float] | np.ndarray) -> Row:
    """The numbers with those of these names multiplied by exp(moves)."""
    return {**row, **{name: row[name] * exp(move) for name, move in zip(names, moves, strict=True)}}


# ---- the trials of logs ----


def cost_trials(paths: Sequence[Path], device: str | None, note: Callable[[str], None]) -> list[Trial]:
    """Reads the measured trials of `dsl tune` in these logs, without kernels written by hand. Raises TileError."""
    trials = read_trials(paths, "time", device, note, "logs of a GPU, or a .tile file to measure on one")
    good = [trial for trial in trials if trial.requests and "from" not in trial.versions]
    if not good:
        raise TileError("option", None, "no trial of the logs says what its cost depends on", "logs of dsl tune --log")
    if len(good) < len(trials):
        note(f"{len(trials) - len(good)} trials are left out, since they do not say what their cost depends on")
    return good


def _groups(trials: Sequence[Trial]) -> list[LaunchGroup]:
    programs = {file: load(Path(file)) for file in dict.fromkeys(trial.file for trial in trials)}
    found: dict[str, LaunchGroup] = {}
    for row, trial in enumerate(trials):
        for facts in trial.requests:
            words = {name: value if isinstance(value, str) else 0 for name, value in facts.constants.items()}
            key = json.dumps([trial.file, {**to_builtins(facts), "constants": words}], sort_keys=True)
            group = found.setdefault(key, LaunchGroup(programs[trial.file], facts.request, [], []))
            group.points.append(facts.constants)
            group.rows.append(row)
    return [*found.values()]


def _case_key(trial: Trial) -> str:
    names = ("source", "file", "call", "example", "index", "values", "options", "types", "dims", "choices", "seed")
    return json.dumps({name: getattr(trial, name) for name in names}, sort_keys=True)


def _described(trial: Trial) -> str:
    """The schedules and constants of a trial's launches."""

    def step(each: Mapping[str, Any]) -> str:
        constants = ", ".join(f"{name}={value}" for name, value in each.get("constants", {}).items())
        return f"{each['schedule'] or each['kernel']} {constants}".strip()

    return "; ".join(map(step, trial.steps))
