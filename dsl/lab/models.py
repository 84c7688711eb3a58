"""The built-in cost model, and the evaluation of models on kernels that they were not fitted to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from dsl.lab.by_users import called
from dsl.lab.model import CODE, TIME, Features, Model, features_of, figure_of, known_before, model, predicted
from dsl.lab.trial import Log, Trial
from dsl.lowering.ir.location import TileError, closest

MOST_EXPONENT = 700.0
"""Predictions are limited to e to the power of this number, so that all predictions are finite in f64. The largest
possible exponent is 709."""
LEAST = 3
"""A rank correlation is computed for cases with at least this many trials."""


@model("linear")
class LogLinear(Model):
    """A least-squares fit: log value = intercept + Σ weight · log(1 + feature).

    All weights are 0 or more, because a higher cost never takes less time. Features whose weight would be negative are
    left out, and so are features that some trial lacks.
    """

    def __init__(self) -> None:
        self.intercept = 0.0
        self.weights: dict[str, float] | None = None

    def fit(self, rows: Sequence[Features], values: Sequence[float]) -> None:
        import numpy as np

        names = sorted(set(rows[0]).intersection(*rows))
        # A feature that never varies cannot be distinguished from the intercept.
        names = [name for name in names if len({row[name] for row in rows}) > 1]
        wanted = np.log(np.array(values))
        # Drops the most negative weight and fits again, until no weight is negative.
        while True:
            # log(1 + x), since counters may be 0.
            columns = [np.log1p([row[name] for row in rows]) for name in names]
            solved, *_ = np.linalg.lstsq(np.stack([np.ones(len(rows)), *columns], axis=1), wanted, rcond=None)
            least = min(range(len(names)), key=lambda at: solved[1 + at], default=None)
            if least is None or solved[1 + least] >= 0:
                break
            del names[least]
        self.restore({"intercept": solved[0], "weights": dict(zip(names, solved[1:], strict=True))})

    @property
    def has_order(self) -> bool:
        return any((self.weights or {}).values())

    def predict(self, features: Features) -> float:
        if self.weights is None:
            raise TileError("option", None, "the model 'linear' is not fitted", "dsl model LOG -o FILE.json")
        total = sum(weight * math.log1p(features[name]) for name, weight in self.weights.items())
        return math.exp(min(self.intercept + total, MOST_EXPONENT))  # only the order matters

    def state(self) -> dict[str, Any]:
        return {"intercept": self.intercept, "weights": self.weights}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.intercept = float(state["intercept"])
        self.weights = {str(name): float(weight) for name, weight in state["weights"].items()}
        if not all(abs(each) <= MOST_EXPONENT for each in (self.intercept, *self.weights.values())):
            raise ValueError("a weight is no number, or a huge one")
        self.needs_counters = not self.weights.keys() <= {*CODE}
        self.needs_machine_code = "sass" in self.weights


# ---- how well it orders ----


class Scored(Struct, frozen=True):
    """How well a model that was fitted to the other kernels orders the trials of this kernel.

    `within` is the mean rank correlation over the kernel's cases, or None.
    """

    kernel: str
    cases: int
    trials: int
    within: float | None


class Evaluation(Struct, frozen=True):
    """How well a model orders trials.

    `held_out` is True if each kernel was predicted by a model that was fitted to the other kernels. `within` is the
    mean rank correlation over the cases of all kernels. `across` is the rank correlation over all trials.
    """

    kernels: list[Scored]
    held_out: bool
    within: float | None
    across: float | None


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Computes Spearman's rank correlation, where equal values share their mean rank. Returns None if all values in `a`
    or all values in `b` are equal."""
    import numpy as np

    if len(a) < 2 or len({*a}) == 1 or len({*b}) == 1:
        return None

    def ranks(values: Sequence[float]) -> Any:
        _, places, counts = np.unique(np.array(values), return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[places]

    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


FIGURES = (TIME, "work")
"""Default figures of `dsl model`. The first figure that the trials have is used."""


def has_figure(paths: Sequence[Path], of: str) -> bool:
    """Whether at least one trial in these logs has the figure."""
    trials = (trial for path in paths if path.is_file() for trial in Log(path).trials.values())
    return any(figure_of(trial, of) is not None for trial in trials)


def read_trials(
    paths: Sequence[Path],
    of: str,
    device: str | None,
    note: Callable[[str], None] = lambda text: None,
    instead: str = "of the emulator: --of work, --of sectors or --of wavefronts",
) -> list[Trial]:
    """Reads the trials in these logs that have the figure, without duplicates.

    `note` is called with messages about unreadable lines and old trials. Raises a TileError if no trial has the figure,
    or if the trials are from several devices. If no trial has a time, its hint is `instead`.
    """
    found: dict[str, Trial] = {}
    for path in paths:
        if not path.is_file():
            raise TileError("file", None, f"cannot read {path}: there is no such file")
        log = Log(path)
        found |= log.trials
        for text in (*log.notes(), *log.repeated()):
            note(f"{path}: {text}")
    good = [trial for trial in found.values() if figure_of(trial, of) is not None]
    if device is not None:
        good = [trial for trial in good if trial.device == device]
    devices = list(dict.fromkeys(trial.device for trial in good))
    if not good:
        known = sorted({name for trial in found.values() for name in features_of(trial)})
        hint = instead if of == TIME else closest(of, known)
        raise TileError("option", None, f"no trial of the logs has a figure '{of}'", hint)
    if len(devices) > 1:
        hint = " or ".join(f"--device '{name}'" for name in devices)
        raise TileError("option", None, "the logs have trials of several devices, which one model does not fit", hint)
    return good


def kernel_of(trial: Trial) -> str:
    return " + ".join(step["kernel"] for step in trial.steps)


def case_of(trial: Trial) -> tuple[Any, ...]:
    """A key for the case of a trial. Trials with equal keys do the same work."""
    return trial.source, kernel_of(trial), *(str(sorted(d.items())) for d in (trial.types, trial.dims, trial.options))


def fitted(make: Callable[[], Model], trials: Iterable[Trial], of: str) -> Model:
    """Makes a model, and fits it to the trials that have the figure `of`."""
    made, known = make(), [(trial, figure_of(trial, of)) for trial in trials]
    made.of = of
    rows = [known_before(features_of(trial), of) for trial, value in known if value is not None]
    with called(made, "fit"):
        made.fit(rows, [value for _, value in known if value is not None])
    return made


def evaluate(make: Callable[[], Model], trials: Sequence[Trial], of: str) -> Evaluation:
    """Predicts each kernel's trials with a model that was fitted to the other kernels."""
    kernels = list(dict.fromkeys(map(kernel_of, trials)))
    held_out = len(kernels) > 1
    actual: list[float] = []
    predicted: list[float] = []
    rows: list[Scored] = []
    all_within: list[float] = []
    for kernel in kernels:
        mine = [trial for trial in trials if kernel_of(trial) == kernel]
        others = [trial for trial in trials if kernel_of(trial) != kernel] if held_out else mine
        pairs = pairs_of(fitted(make, others, of), mine, of)
        cases: dict[Any, list[tuple[float, float]]] = {}
        for trial, pair in zip(mine, pairs, strict=True):
            cases.setdefault(case_of(trial), []).append(pair)
        found = [rank_correlation(*zip(*case, strict=True)) for case in cases.values() if len(case) >= LEAST]
        within = [value for value in found if value is not None]
        rows.append(Scored(kernel, len(cases), len(mine), mean(within)))
        all_within += within
        actual += [pair[0] for pair in pairs]
        predicted += [pair[1] for pair in pairs]
    return Evaluation(rows, held_out, mean(all_within), rank_correlation(actual, predicted))


def pairs_of(made: Model, trials: Sequence[Trial], of: str) -> list[tuple[float, float]]:
    """The true value and the predicted value for each trial. Raises a TileError if a trial lacks a feature."""
    found = []
    for trial in trials:
        try:
            said = predicted(made, known_before(features_of(trial), of))
        except KeyError as error:
            raise lacks(kernel_of(trial), error) from None
        found.append((figure_of(trial, of) or 0.0, said))
    return found


def lacks(what: str, error: KeyError) -> TileError:
    """Returns the error for a trial that lacks a feature of the model."""
    hint = "ptxas gives registers, idle and sass; on a GPU, dsl tune --counters has the emulator's counters"
    return TileError("option", None, f"the model needs {error} of {what}, which is unknown", hint)


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
