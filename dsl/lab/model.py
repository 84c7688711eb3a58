"""The interface of cost models. A model predicts microseconds from a trial's features, such as registers.

`dsl tune` tries points in the order of the predictions. Your own model is a class derived from `Model`, registered
under a name:

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

from dsl.lab.by_users import called, class_named, registered, wrong
from dsl.lab.trial import Trial
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.time_limit import Overdue, limited
from dsl.text.files import read_text, write_text

TIME = "time"
"""The figure that models predict by default, in microseconds. Other figures are counters of the emulator."""
CODE = ("registers", "shared_bytes", "threads", "sass", "idle")
"""Features that are known once a point is compiled, if ptxas is installed."""
Features = Mapping[str, float]
FIELDS: dict[str, tuple[type, str]] = {"model": (str, "a name"), "of": (str, "a name"), "state": (dict, "an object")}
"""The fields of a file that `save` writes: the type of each field, and the type's name in messages."""


class Model:
    """Predicts a figure of a launch from its features. Only the order of the predictions matters.

    `of` is the predicted figure. `needs_counters` is true if `predict` reads counters of the emulator. If false, points
    are only compiled. `needs_machine_code` is true if `predict` reads `sass`. Then each point is disassembled.
    """

    of = TIME
    needs_counters = True
    needs_machine_code = False

    def fit(self, rows: Sequence[Features], values: Sequence[float]) -> None:
        """Fits the model to trials of a single kind of device. A model without parameters need not override it. Raises
        TileError."""

    @property
    def has_order(self) -> bool:
        """Whether the model can order points. After a fit to too few trials, all its predictions may be equal."""
        return True

    def predict(self, features: Features) -> float:
        """The predicted figure. Raises KeyError for a missing feature."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """The parameters that `fit` has computed, as a JSON object."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Sets the parameters that `state` returned."""


Class = TypeVar("Class", bound=type[Model])
MODELS: dict[str, type[Model]] = {}
"""Model classes by name."""


def model(name: str) -> Callable[[Class], Class]:
    """Registers a class derived from `Model` for `dsl model` and `dsl tune --model`.

    Raises ValueError if another file has registered the name, and TypeError for anything but such a class.
    """
    return registered(MODELS, name, Model, "model")


def model_named(name: str) -> Model:
    """A new instance of the class registered under this name. Raises a TileError `option`."""
    made = class_named(MODELS, name, "model")
    with called(made, "__init__"):
        return made()


def features_of(trial: Trial) -> dict[str, float]:
    """The features of a trial: all numbers in `Trial.figures` except the time, and `idle`.

    `idle` is 1 / occupancy: the number of threads that fit on a multiprocessor, divided by the number that the kernel
    allows.
    """
    found = {name: float(value) for name, value in trial.figures().items() if isinstance(value, int | float)}
    found.pop(TIME, None)
    busy = [each.occupancy for each in trial.launches if each.occupancy]
    return found | ({"idle": 1 / min(busy)} if busy else {})


def known_before(features: Features, of: str) -> dict[str, float]:
    """Returns the features from which the figure `of` may be predicted. If `of` is a counter of the emulator, only
    features of the compiled code are allowed."""
    # A counter must not be predicted from itself, or from other counters of the same run.
    return {name: value for name, value in features.items() if of == TIME or name in CODE}


def figure_of(trial: Trial, of: str) -> float | None:
    """A trial's value of the figure `of`, or None if the value is unknown, 0 or infinite."""
    value = trial.figures().get(of) if trial.is_fine else None
    # The built-in model takes logarithms, which exclude 0 and infinity.
    return float(value) if isinstance(value, int | float) and 0 < value < math.inf else None


def save(made: Model, name: str, path: Path, about: Mapping[str, Any]) -> None:
    """Writes a fitted model for `dsl tune --model FILE.json`. Raises a TileError `file`."""
    write_text(path, json.dumps({"model": name, "of": made.of, **about, "state": state_of(made)}, indent=1) + "\n")


def state_of(made: Model) -> dict[str, Any]:
    """The state of a fitted model. Raises a TileError `plugin` for a state that is not JSON."""
    with called(made, "state"):
        state = made.state()
        json.dumps(state, allow_nan=False)
    if not isinstance(state, dict):
        raise wrong(made, "state", f"gave {state!r:.60}", "a dict of what JSON has")
    return state


def predicted(made: Model, features: Features) -> float:
    """A model's prediction. Raises KeyError for a missing feature, and a TileError `plugin` for any other fault of a
    plug-in's model."""
    missing: KeyError | None = None
    value: Any = None
    with called(made, "predict"):
        try:
            value = made.predict(features)
        except KeyError as error:
            # The KeyError comes from the model's own code and not from a missing feature.
            if error.args and error.args[0] in features:
                raise
            missing = error
    # Raised outside of `called`, which would report a fault of the plug-in.
    if missing is not None:
        raise missing
    if not isinstance(value, int | float) or isinstance(value, bool) or math.isnan(value):
        raise wrong(made, "predict", f"gave {value!r:.60}", "return a number: points with small ones are tried first")
    return float(value)


def load_model(text: str) -> Model:
    """Returns the model of this name, or reads it from a `.json` file that `save` wrote. Raises TileError."""
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
    # Set before `restore`, which may depend on the figure.
    made.of = record["of"]
    try:
        # `restore` may belong to a plug-in and may never end.
        with limited():
            made.restore(record["state"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, Overdue):
        raise fault(f"its 'state' does not fit the model '{record['model']}'") from None
    return made
