"""Compares logs: joins their trials by keys, and computes paired ratios and their geometric mean."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from statistics import fmean, geometric_mean
from typing import Any

from msgspec import Struct, field

from dsl.lab.contest import mean_interval, ratio_interval, sign_probability
from dsl.lab.model import TIME
from dsl.lab.models import FIGURES
from dsl.lab.trial import Log, Trial, log_lines
from dsl.lowering.ir.location import TileError, closest
from dsl.text.files import is_file

OF_LOG = "log"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
FEWEST = 10
"""The fewest rows that have an interval of their geometric mean. Of fewer, a bootstrap covers less than it claims."""


def pairs(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(values.items()))


def constants_of(trial: Trial) -> str:
    """The constants of each step. Without any, the schedule chose them."""
    return " then ".join(pairs(step.get("constants", {})) for step in trial.steps)


KEYS: dict[str, Callable[[Trial], str]] = {
    "file": lambda trial: os.path.basename(trial.file),  # machines have the file in different folders
    "call": lambda trial: trial.call,
    "shapes": lambda trial: pairs(trial.dims),
    "types": lambda trial: pairs(trial.types),
    "options": lambda trial: pairs(trial.options),
    "example": lambda trial: trial.example or ("" if trial.example_index is None else str(trial.example_index + 1)),
    "launch": lambda trial: str(trial.index + 1),
    "kernels": lambda trial: " then ".join(step["kernel"] for step in trial.steps),
    "schedule": lambda trial: " then ".join(step.get("schedule") or "" for step in trial.steps),
    "constants": constants_of,
    "choices": lambda trial: pairs(trial.choices),
    "values": lambda trial: pairs(trial.values),
    "device": lambda trial: trial.device,
    "arch": lambda trial: trial.arch,
    "driver": lambda trial: trial.driver or "",
    "host": lambda trial: trial.where.partition(" ")[0],
    "text": lambda trial: trial.source[:12],
    "compiler": lambda trial: trial.versions.get("compiler", ""),
    "commit": lambda trial: trial.commit or "",
    "plugins": lambda trial: pairs({k: v for k, v in trial.versions.items() if k.startswith("plugin ")}),
    "seed": lambda trial: str(trial.seed),
}
"""What trials may be joined by, and what sides may differ in."""
DEFAULT_KEYS = ("file", "call", "shapes", "types", "options")
TAKES: dict[str, Callable[[Sequence[Trial], str], Trial]] = {
    "best": lambda trials, figure: min(trials, key=lambda trial: float(trial.figures()[figure])),
    "first": lambda trials, figure: trials[0],
    "last": lambda trials, figure: trials[-1],
}
"""Which trial stands for a side if several have one key."""


class LogSide(Struct):
    """One side of a comparison: a name, and its trials with right results that have the figure. `left_out` counts the
    others."""

    letter: str
    name: str
    trials: list[Trial] = field(default_factory=list)
    left_out: int = 0

    def about(self) -> dict[str, Any]:
        """The side as data."""
        told: dict[str, Any] = {"side": self.letter, "name": self.name, "trials": len(self.trials)}
        told["left_out"] = self.left_out
        names = {"devices": "device", "drivers": "driver", "hosts": "host", "commits": "commit"}
        found = {name: dict.fromkeys(KEYS[key](trial) for trial in self.trials) for name, key in names.items()}
        return told | {name: [value for value in each if value] for name, each in found.items()}


class Ratio(Struct):
    """A side's figure divided by that of the first side. `low` and `high` are the ends of the interval of a ratio of
    times; `is_paired` says that both were timed in the same rounds."""

    ratio: float
    low: float | None = None
    high: float | None = None
    is_paired: bool = False

    @property
    def is_tie(self) -> bool:
        """Whether the interval contains 1. Counters tie only if they are equal."""
        return self.ratio == 1 if self.low is None or self.high is None else self.low <= 1 <= self.high


class JoinedRow(Struct):
    """Trials of all sides with equal keys. `ratios` has None if the first side's figure is 0, and another one's not."""

    key: tuple[str, ...]
    trials: list[Trial]
    values: list[float]
    ratios: list[Ratio | None]


class MeanRatio(Struct):
    """The geometric mean of a side's ratios.

    `measured` is the interval that follows from those of the rows, for these rows alone. `rows_interval` is the
    interval over the rows as a sample of other launches like them. `less`, `more` and `ties` count rows, and
    `probability` is that of a sign test on them.
    """

    rows: int
    ratio: float
    measured: tuple[float, float] | None
    rows_interval: tuple[float, float] | None
    less: int
    more: int
    ties: int
    probability: float


class LogComparison(Struct):
    """A comparison of sides. `alone` counts, for each side, the keys that some other side lacks. `means` has an entry
    for each side but the first, or None without ratios."""

    figure: str
    keys: tuple[str, ...]
    sides: list[LogSide]
    rows: list[JoinedRow]
    alone: list[int]
    means: list[MeanRatio | None]
    notes: list[str]


def compared(
    logs: Sequence[Path], keys: Sequence[str], between: str, take: str, figure: str | None, seed: int
) -> LogComparison:
    """Compares logs, or the trials of logs that differ in the key `between`. Raises TileError."""
    for name in (*keys, *([between] if between != OF_LOG else [])):
        if name not in KEYS:
            hint = closest(name, KEYS) or f"known: {', '.join(KEYS)}"
            raise TileError("option", None, f"'{name}' is no key of trials", hint)
    if between in keys:
        raise TileError("option", None, f"sides that differ in '{between}' cannot be joined by it")
    groups, notes = trials_of(logs, between)
    if not 2 <= len(groups) <= len(LETTERS):
        message = f"sides to compare: {len(groups)}; there must be 2 to {len(LETTERS)}"
        raise TileError("option", None, message, "more logs, or --between KEY: device, commit, compiler, schedule")
    of = figure or next((name for name in FIGURES if all(any(map(having(name), g)) for g in groups.values())), "work")
    sides = [LogSide(letter, name) for letter, name in zip(LETTERS, groups, strict=False)]
    for side in sides:
        side.trials = [trial for trial in groups[side.name] if trial.is_fine and having(of)(trial)]
        side.left_out = len(groups[side.name]) - len(side.trials)
        if not side.trials:
            known = sorted({name for each in groups[side.name] if each.is_fine for name in each.figures()} - {"result"})
            message = f"{side.name}: no trial with a right result has a figure '{of}'"
            raise TileError("option", None, message, closest(of, known) or f"known: {', '.join(known) or 'none'}")
    rows, alone = joined(sides, keys, take, of)
    if not rows:
        raise TileError("option", None, "no trials of the sides have equal keys", f"--by {','.join(keys[:2])}")
    means = [mean_of([row.ratios[at] for row in rows], rows, at, seed) for at in range(1, len(sides))]
    return LogComparison(of, tuple(keys), sides, rows, alone, means, notes)


def trials_of(logs: Sequence[Path], between: str) -> tuple[dict[str, list[Trial]], list[str]]:
    """The trials of each side, and messages about what of the logs is not read."""
    groups: dict[str, dict[Any, Trial]] = {}
    notes: list[str] = []
    if between == OF_LOG and (twice := [path for at, path in enumerate(logs) if path in logs[:at]]):
        raise TileError("option", None, f"{twice[0]} is given twice")
    for path in logs:
        if not is_file(path):
            raise TileError("file", None, f"cannot read {path}: there is no such file")
        # Logs of other versions are what is compared here, so only what is not read is told.
        notes += [f"{path}: {text}" for text in Log(path).unreadable()]
        if between == OF_LOG:
            groups[str(path)] = {}
        replaced = 0
        for trial in (line.trial for line in log_lines(path) if line.trial is not None):
            name = str(path) if between == OF_LOG else KEYS[between](trial) or "none"
            # Trials that are equal but for their host are what a comparison of hosts needs.
            key, found = (KEYS["host"](trial), trial.key), groups.setdefault(name, {})
            replaced += key in found
            found[key] = trial
        notes += [f"{path}: lines that a later line of the same trial replaces: {replaced}"] if replaced else []
    return {name: [*found.values()] for name, found in groups.items()}, notes


def having(figure: str) -> Callable[[Trial], bool]:
    def has(trial: Trial) -> bool:
        value = trial.figures().get(figure)
        return isinstance(value, int | float) and math.isfinite(value)

    return has


def joined(sides: Sequence[LogSide], keys: Sequence[str], take: str, figure: str) -> tuple[list[JoinedRow], list[int]]:
    """The rows whose key all sides have, in the order of the first side, and how many other keys each side has."""
    tables: list[dict[tuple[str, ...], list[Trial]]] = []
    for side in sides:
        tables.append({})
        for trial in side.trials:
            tables[-1].setdefault(tuple(KEYS[name](trial) for name in keys), []).append(trial)
    common = [key for key in tables[0] if all(key in table for table in tables)]
    rows = []
    for key in common:
        trials = [TAKES[take](table[key], figure) for table in tables]
        values = [float(trial.figures()[figure]) for trial in trials]
        rows.append(JoinedRow(key, trials, values, [ratio(trials[0], trial, figure) for trial in trials]))
    return rows, [len(table) - len(common) for table in tables]


def ratio(base: Trial, trial: Trial, figure: str) -> Ratio | None:
    """The ratio of two trials. Times of one contest are compared round by round. Other times are compared by the ends
    of both intervals: the ratio is within these bounds whenever both medians are within theirs."""
    if figure != TIME:
        a, b = float(base.figures()[figure]), float(trial.figures()[figure])
        return Ratio(1.0) if a == b else None if a == 0 or b == 0 else Ratio(b / a)
    is_paired = base.contest is not None and base.contest == trial.contest
    if is_paired and len(base.times_us) == len(trial.times_us):
        return Ratio(*ratio_interval(trial.times_us, base.times_us), True)
    (middle, low, high), (base_middle, base_low, base_high) = trial.interval, base.interval
    if not base_low:
        return None
    return Ratio(middle / base_middle, low / base_high, high / base_low)


def mean_of(ratios: Sequence[Ratio | None], rows: Sequence[JoinedRow], at: int, seed: int) -> MeanRatio | None:
    """The geometric mean of the ratios that exist, or None if there are none."""
    known = [each for each in ratios if each is not None]
    if not known:
        return None
    logs = [math.log(each.ratio) for each in known]
    ends = [(each.low, each.high) for each in known if each.low and each.high]
    measured = (geometric_mean(a for a, _ in ends), geometric_mean(b for _, b in ends)) if ends else None
    over = None
    if len(known) >= FEWEST:
        low, high = mean_interval(logs, Random(seed))
        over = (math.exp(low), math.exp(high))
    decided = [each for each in known if not each.is_tie]
    less = sum(each.ratio < 1 for each in decided)
    values, base = [row.values[at] for row in rows], [row.values[0] for row in rows]
    return MeanRatio(
        rows=len(known),
        ratio=math.exp(fmean(logs)),
        measured=measured,
        rows_interval=over,
        less=less,
        more=len(decided) - less,
        ties=len(known) - len(decided),
        probability=sign_probability(values, base),
    )
