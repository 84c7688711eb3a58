"""The interface of cost models: features of a trial → microseconds. A model orders points; the best is measured.

Your own model is a class derived from `Model`, registered under a name:

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
"""The default figure of a model: microseconds. Other figures are counters of the emulator."""
CODE = ("registers", "shared_bytes", "threads", "sass", "idle")
"""Features that are known once a point is compiled, if ptxas is installed."""
Features = Mapping[str, float]
FIELDS: dict[str, tuple[type, str]] = {"model": (str, "a name"), "of": (str, "a name"), "state": (dict, "an object")}
"""The fields of a file of `save`: type, and its name in messages."""


class Model:
    """Predicts a figure of a launch from its features; only the order of the predictions matters.

    of: the figure. needs_counters: whether `predict` reads counters of the emulator; if not, points are only compiled
    before they are ordered. needs_machine_code: whether it reads `sass`, for which each point is disassembled.
    """

    of = TIME
    needs_counters = True
    needs_machine_code = False

    def fit(self, rows: Sequence[Features], values: Sequence[float]) -> None:
        """Learns from trials, all of one kind of device. A model that learns nothing leaves this out. Raises
        TileError."""

    @property
    def has_order(self) -> bool:
        """Whether its predictions differ at all; after a fit to too few trials they may not."""
        return True

    def predict(self, features: Features) -> float:
        """Raises KeyError for a missing feature."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What `fit` has learnt, as a JSON object."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state`."""


Class = TypeVar("Class", bound=type[Model])
MODELS: dict[str, type[Model]] = {}
"""Classes of models by name."""


def model(name: str) -> Callable[[Class], Class]:
    """Registers a class derived from `Model` for `dsl model` and `dsl tune --model`. ValueError for a name that another
    file has registered, TypeError for anything else than such a class."""

    def register(made: Class) -> Class:
        if not isinstance(made, type) or not issubclass(made, Model):
            raise TypeError(f"{made!r:.60} is no class derived from Model")
        # Loading a plug-in's file again replaces its own class.
        if name in MODELS and not is_anew(MODELS[name], made):
            raise ValueError(f"there is a model '{name}' already: {MODELS[name].__module__}")
        MODELS[name] = made
        return made

    return register


def model_named(name: str) -> Model:
    """A new instance of the class registered under this name. TileError `option`."""
    if name not in MODELS:
        hint = closest(name, MODELS) or f"known: {', '.join(MODELS)}"
        raise TileError("option", None, f"there is no model '{name}'", hint)
    with called(MODELS[name], "__init__"):
        return MODELS[name]()


def features_of(trial: Trial) -> dict[str, float]:
    """The known facts of a trial except its time: all numbers of `Trial.figures`, and `idle`, the threads that a
    multiprocessor can hold over those that it holds."""
    found = {name: float(value) for name, value in trial.figures().items() if isinstance(value, int | float)}
    found.pop(TIME, None)
    busy = [each.occupancy for each in trial.launches if each.occupancy]
    return found | ({"idle": 1 / min(busy)} if busy else {})


def known_before(features: Features, of: str) -> dict[str, float]:
    """The features from which a figure may be predicted; for a counter of the emulator only those of the code."""
    # A counter must not be predicted from itself, or from others of the same run.
    return {name: value for name, value in features.items() if of == TIME or name in CODE}


def figure_of(trial: Trial, of: str) -> float | None:
    """The true value of a model's figure; None if it is unknown, 0 or infinite."""
    value = trial.figures().get(of) if trial.is_fine else None
    # The built-in model takes logarithms.
    return float(value) if isinstance(value, int | float) and 0 < value < math.inf else None


def save(made: Model, name: str, path: Path, about: Mapping[str, Any]) -> None:
    """Writes a fitted model for `dsl tune --model FILE.json`. TileError `file`."""
    write_text(path, json.dumps({"model": name, "of": made.of, **about, "state": state_of(made)}, indent=1) + "\n")


def state_of(made: Model) -> dict[str, Any]:
    """What a model has learnt. TileError `plugin` for a state that is not JSON."""
    with called(made, "state"):
        state = made.state()
        json.dumps(state, allow_nan=False)
    if not isinstance(state, dict):
        raise wrong(made, "state", f"gave {state!r:.60}", "a dict of what JSON has")
    return state


def predicted(made: Model, features: Features) -> float:
    """The prediction of a model. Raises KeyError for a missing feature, TileError `plugin`."""
    missing: KeyError | None = None
    value: Any = None
    with called(made, "predict"):
        try:
            value = made.predict(features)
        except KeyError as error:
            # A KeyError of the model's own code, not of a missing feature.
            if error.args and error.args[0] in features:
                raise
            missing = error
    # Outside of `called`, which would report it as a fault of the plug-in.
    if missing is not None:
        raise missing
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        raise wrong(made, "predict", f"gave {value!r:.60}", "return a number: points with small ones are tried first")
    return float(value)


def load_model(text: str) -> Model:
    """A model by its name, or from a file of `save`. TileError."""
    path = Path(text)
    if path.suffix != ".json":
        return model_named(text)

    def fault(what: str) -> TileError:
        return TileError("file", None, f"{path} is not a model: {what}", "dsl model LOG -o FILE.json")

    try:
        record = json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise fault("it is not JSON") from None
    for name, (kind, words) in FIELDS.items():
        if not isinstance(record, dict) or not isinstance(record.get(name), kind):
            raise fault(f"'{name}' is missing or not {words}")
    made = model_named(record["model"])
    # Before `restore`, which may depend on the figure.
    made.of = record["of"]
    try:
        # `restore` may be a plug-in's, and never end.
        with limited():
            made.restore(record["state"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, Overdue):
        raise fault(f"its 'state' does not fit the model '{record['model']}'") from None
    return made
