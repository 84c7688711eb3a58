"""What a cost model is: features of a trial → microseconds. It orders points; what is best is measured.

A model of one's own is a class derived from `Model`, registered under a name:

    @model("bytes")
    class Bytes(Model):
        def predict(self, features):
            return features["sectors"]
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from dsl.lab.by_users import called, is_anew, wrong
from dsl.lab.trial import Trial
from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.time_limit import Overdue, limited
from dsl.text.files import read_text, write_text

TIME = "time"
"""What a model predicts if nothing else is said: microseconds. Other figures are what the emulator counts."""
CODE = ("registers", "shared_bytes", "threads", "sass", "idle")
"""Features that are known when a point is compiled, where ptxas is installed."""
Features = Mapping[str, float]
FIELDS: dict[str, tuple[type, str]] = {"model": (str, "a name"), "of": (str, "a name"), "state": (dict, "an object")}
"""Of a file of `save`: what each is, in words, too."""


class Model:
    """Predicts a figure of a launch from its features; only the order of the predictions matters.

    of: the figure. needs_counters: whether `predict` reads what the emulator counts; without, points are only compiled
    before they are ordered. needs_machine_code: whether it reads `sass`, for which each is disassembled.
    """

    of = TIME
    needs_counters = True
    needs_machine_code = False

    def fit(self, rows: Sequence[Features], values: Sequence[float]) -> None:
        """Learns from trials, all of one kind of device; one that has nothing to learn leaves this out. Raises
        TileError."""

    @property
    def has_order(self) -> bool:
        """Whether its predictions differ at all; after a fit to too little they may not."""
        return True

    def predict(self, features: Features) -> float:
        """Raises KeyError for a feature that it needs and the point has not."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What `fit` has learnt, as JSON."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""


Class = TypeVar("Class", bound=type[Model])
MODELS: dict[str, type[Model]] = {}
"""By name."""


def model(name: str) -> Callable[[Class], Class]:
    """Registers a class derived from `Model` under a name for `dsl model` and `dsl tune --model`. ValueError for a name
    that another file has given, TypeError for what is no such class."""

    def register(made: Class) -> Class:
        if not isinstance(made, type) or not issubclass(made, Model):
            raise TypeError(f"{made!r:.60} is no class derived from Model")
        if name in MODELS and not is_anew(MODELS[name], made):
            raise ValueError(f"there is a model '{name}' already: {MODELS[name].__module__}")
        MODELS[name] = made
        return made

    return register


def model_named(name: str) -> Model:
    """A new one of the class that is registered under a name. TileError `option`."""
    if name not in MODELS:
        hint = closest(name, MODELS) or f"known: {', '.join(MODELS)}"
        raise TileError("option", None, f"there is no model '{name}'", hint)
    with called(MODELS[name], "__init__"):
        return MODELS[name]()


def features_of(trial: Trial) -> dict[str, float]:
    """What is known of a trial beside its time: all of `Trial.figures` that is a number, and `idle`, the quotient of
    the threads that a multiprocessor could hold and those that it has."""
    found = {name: float(value) for name, value in trial.figures().items() if isinstance(value, int | float)}
    found.pop(TIME, None)
    busy = [each.occupancy for each in trial.launches if each.occupancy]
    return found | ({"idle": 1 / min(busy)} if busy else {})


def known_before(features: Features, of: str) -> dict[str, float]:
    """The features from which a figure may be predicted: for one that the emulator counts, those of the code alone."""
    return {name: value for name, value in features.items() if of == TIME or name in CODE}


def figure_of(trial: Trial, of: str) -> float | None:
    """What a model of this figure should have said; None where it is not known, or nothing."""
    value = trial.figures().get(of) if trial.is_fine else None
    return float(value) if isinstance(value, int | float) and 0 < value < math.inf else None


def save(made: Model, name: str, path: Path, about: Mapping[str, Any]) -> None:
    """Writes a fitted model for `dsl tune --model FILE.json`. TileError `file`."""
    write_text(path, json.dumps({"model": name, "of": made.of, **about, "state": state_of(made)}, indent=1) + "\n")


def state_of(made: Model) -> dict[str, Any]:
    """What a model has learnt. TileError `plugin` for what is no JSON."""
    with called(made, "state"):
        state = made.state()
        json.dumps(state, allow_nan=False)
    if not isinstance(state, dict):
        raise wrong(made, "state", f"gave {state!r:.60}", "a dict of what JSON has")
    return state


def predicted(made: Model, features: Features) -> float:
    """What a model says. Raises KeyError for a feature that it needs and the point has not, TileError `plugin`."""
    missing: KeyError | None = None
    value: Any = None
    with called(made, "predict"):
        try:
            value = made.predict(features)
        except KeyError as error:
            if error.args and error.args[0] in features:
                raise
            missing = error
    if missing is not None:
        raise missing
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        raise wrong(made, "predict", f"gave {value!r:.60}", "a number: the less, the earlier it is tried")
    return float(value)


def load_model(text: str) -> Model:
    """A model by its name, or from a file of `save`. TileError."""
    path = Path(text)
    if path.suffix != ".json":
        return model_named(text)

    def fault(what: str) -> TileError:
        return TileError("file", None, f"{path} is no model: {what}", "dsl model LOG -o FILE.json")

    try:
        record = json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise fault("it is no JSON") from None
    for name, (kind, words) in FIELDS.items():
        if not isinstance(record, dict) or not isinstance(record.get(name), kind):
            raise fault(f"it has no '{name}' that is {words}")
    made = model_named(record["model"])
    made.of = record["of"]
    try:
        with limited():
            made.restore(record["state"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, Overdue):
        raise fault(f"its 'state' is none of the model '{record['model']}'") from None
    return made
