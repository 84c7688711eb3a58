"""Plans of calls in the compile cache. A first call of a known class reads which kernels it launches with which
arguments, and parses, plans and compiles nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, msgpack

from dsl.calls.front import CallFront
from dsl.calls.plan import FromCall, Output, Plan, Step, Workspace
from dsl.kernels.kept_variants import KeptText, kept_text
from dsl.kernels.loaded import Shelf
from dsl.kernels.request import Request
from dsl.lowering.ir.location import Loc, Source
from dsl.text.files import tuned_text
from dsl.values.facts import ArrayFacts

if TYPE_CHECKING:
    from dsl.runtime import DeviceFacts

PLAIN = (type(None), bool, int, float, str)


class KeptPlace(Struct, frozen=True):
    """A location. Its source is a file of the program, by the file's name in errors."""

    file: str
    start: int
    end: int


class KeptWorkspace(Struct, frozen=True):
    """A workspace. `loc` is the location in a text that need not be read before someone asks for it."""

    dtype: str
    shape: tuple[int, ...]
    zero: bool
    zeroed: bool
    strides: tuple[int, ...] | None
    place: KeptPlace


class KeptArgument(Struct, frozen=True):
    """The argument of a launch. `kind` is `call` (the name of an argument of the call), `workspace` (its number),
    `table` (a list of numbers) or `plain` (a number, or None)."""

    kind: str
    value: Any


class KeptStep(Struct, frozen=True):
    """A launch. `text` is the key of the kernel's PTX."""

    request: Request
    text: str
    arguments: tuple[KeptArgument, ...]
    names: tuple[str, ...]


class KeptPlan(Struct, frozen=True):
    """The plan of a class of calls."""

    outputs: tuple[Output, ...]
    workspaces: tuple[KeptWorkspace, ...]
    steps: tuple[KeptStep, ...]
    reasons: tuple[str, ...]
    sources: dict[str, str]
    """The texts in which workspaces have their locations, by the names of their files."""


class Unkeepable(ValueError):
    """Raised for a value that has no form on disk."""


def words(value: Any) -> str:
    """Returns a text of a value of the key of a class. Different values have different texts, in all processes. Raises
    Unkeepable for a value that may be an object of this process, such as a symbol of torch."""
    if type(value) in PLAIN:
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, type):
        return f"type {value.__module__}.{value.__qualname__}"
    if type(value) is tuple:
        return f"({', '.join(map(words, value))})"
    if type(value) is ArrayFacts:
        fields = (value.shape, value.dtype, value.align, value.strides, value.is_far)
        return f"array {words(fields)}"
    raise Unkeepable(f"{type(value).__name__}")


class KeptCalls:
    """The fronts and plans of one program's dispatches and kernels. `about` are the settings of its module that decide
    plans and code. So do the tuned data beside the file `path`."""

    def __init__(self, shelf: Shelf, about: Sequence[str], path: Path | None):
        self.shelf, self.path = shelf, path
        self.tuned = self._tuned()
        self.about = *about, self.tuned

    def _tuned(self) -> str:
        data = None if self.path is None else tuned_text(self.path)
        return "" if data is None else f"tuned {data}"

    def front(self, name: str) -> CallFront | None:
        return self.shelf.store.record("front", self.shelf.key_of("front", name), CallFront)

    def keep_front(self, name: str, front: CallFront) -> None:
        self.shelf.put("front", self.shelf.key_of("front", name), front)

    def key(self, name: str, kind: Any, arch: str, device: DeviceFacts) -> str | None:
        """Returns the key of a class of calls of the function `name`. Returns None if its plan is not kept."""
        try:
            given = words(kind)
        except Unkeepable:
            return None
        return self.shelf.key_of("plan", name, given, arch, device.name, device.arch, str(device.sms), *self.about)

    def find(self, key: str) -> tuple[KeptPlan, list[KeptText]] | None:
        """Returns a plan with the PTX of its launches, or None if one of them is not kept."""
        kept = self.shelf.store.record("plan", key, KeptPlan)
        if kept is None:
            return None
        texts = [kept_text(self.shelf.store, step.text) for step in kept.steps]
        found = [text for text in texts if text is not None]
        return (kept, found) if len(found) == len(texts) else None

    def keep(self, key: str, plan: Plan, outputs: Sequence[Output], texts: Sequence[str]) -> None:
        """Records a plan whose launches have the PTX `texts`."""
        if self._tuned() != self.tuned:  # the plan may follow the new data
            return
        try:
            found = [KeptText.of(text) for text in texts]
            made = _kept(plan, outputs, found)
            # Only what is the same after it was read again is kept. A constant may be an object of the compiler.
            raw = msgpack.encode(made)
            if msgpack.decode(raw, type=KeptPlan) == made:
                self.shelf.put("plan", key, raw, {each.key: each.text for each in found})
        except (Unkeepable, TypeError, OverflowError, ValueError):
            return


def _kept(plan: Plan, outputs: Sequence[Output], texts: Sequence[KeptText]) -> KeptPlan:
    numbers: dict[int, int] = {}
    workspaces: list[KeptWorkspace] = []
    sources: dict[str, str] = {}

    def argument(value: Any) -> KeptArgument:
        if isinstance(value, FromCall):
            return KeptArgument("call", value.name)
        if isinstance(value, Workspace):
            # By identity, because two workspaces with the same text are different memory.
            if id(value) not in numbers:
                numbers[id(value)] = len(workspaces)
                loc = value.loc
                sources[loc.source.name] = loc.source.text
                place = KeptPlace(loc.source.name, loc.start, loc.end)
                made = (value.dtype, value.shape, value.zero, value.zeroed, value.strides, place)
                workspaces.append(KeptWorkspace(*made))
            return KeptArgument("workspace", numbers[id(value)])
        if isinstance(value, tuple) and all(type(each) in PLAIN for each in value):
            return KeptArgument("table", list(value))
        if type(value) not in PLAIN:
            raise Unkeepable(type(value).__name__)
        return KeptArgument("plain", value)

    steps = tuple(
        KeptStep(step.request, text.key, tuple(map(argument, step.arguments)), step.names)
        for step, text in zip(plan.steps, texts, strict=True)
    )
    return KeptPlan(tuple(outputs), tuple(workspaces), steps, tuple(plan.reasons), sources)


def plan_of(kept: KeptPlan) -> Plan:
    """Returns the plan that was kept."""
    sources = {name: Source(name, text) for name, text in kept.sources.items()}
    made = [
        Workspace(w.dtype, w.shape, w.zero, Loc(sources[w.place.file], w.place.start, w.place.end), w.zeroed, w.strides)
        for w in kept.workspaces
    ]
    read: Mapping[str, Callable[[Any], Any]] = {
        "call": FromCall,
        "workspace": made.__getitem__,
        "table": tuple,
        "plain": lambda value: value,
    }
    steps = []
    for step in kept.steps:
        arguments = [read[each.kind](each.value) for each in step.arguments]
        steps.append(Step(step.request, arguments, step.names))
    return Plan(steps, list(kept.reasons))
