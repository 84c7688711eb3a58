"""The row of an operation: operands, attributes, result types, effects on memory, rules for layouts and facts.

The verifier, dead-code removal and barrier insertion read these rows, so no pass has a list of operations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Protocol

from dsl import ptx_templates
from dsl.lowering.ir.fold import Compute
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import DType, TileType, Type
from dsl.lowering.known.facts import Analysis, Facts
from dsl.lowering.known.forms import Forms
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops.placing import Exchange, Place, Spread, Takes, alike, apart, plain, same


class Mismatch(Exception):
    """Operands that an operation does not take. The message is for the user. hint: what the operation takes."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class AccessEffect:
    """One access to memory. by: the effect in the row of its instruction (order, scope, proxy, completion). Effects of
    a `copy` happen between its issue and a `wait`.

    An "acquire" or a "release" touches nothing itself. It orders the block's accesses of global memory with those of
    other blocks (PTX ISA 8, "Memory Consistency Model").
    """

    kind: str  # "read", "write", "acquire" or "release"
    memory: Value
    space: str  # "global", "shared" or "param"
    by: ptx_templates.Effect


class Makes(Protocol):
    """The part of the builder that folding rules use. facts: None as long as nothing is known."""

    facts: Analysis | None

    def value(self, name: str, /, *operands: Value, **attrs: Any) -> Value:
        """The result of a pure operation."""

    def constant(self, value: int | float | bool, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
        """A constant tile, or a scalar."""

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value in another shape."""


Picks = Callable[[Op, Layout, Layout], list[int] | None]
"""For each register of the result, the register of the operand that it equals; None where elements change threads."""

Infer = Callable[[Sequence[Value], dict[str, Any]], list[Type]]
Effects = Callable[[Op], list[AccessEffect]]

Fold = Callable[[Makes, Sequence[Value], dict[str, Any]], Value | None]
"""A value that equals an operation on these operands, with these attributes; None if the operation is needed."""
FactsOf = Callable[[Analysis, Op, tuple[int, ...]], Facts]
"""The facts of the result, which has this shape."""
Along = Callable[[Op, Value, int], dict[Value, int] | None]
"""Given a value of an operation and one of its axes: value → the same axis there; None where the operation mixes
elements along it."""
Form = Callable[[Forms, Op], Any]
"""Calls the method of `Forms` that describes this operation's result by its operands."""


def untouched(op: Op) -> list[AccessEffect]:
    """No accesses to memory."""
    return []


@dataclass(frozen=True)
class Control:
    """The regions of an operation, and how values go through them (`ops/control.py`).

    kind: what the operation does with its regions:
        "counts": the body runs for each number of a range;
        "repeats": the first region decides whether the second one runs, again and again;
        "chooses": one of them runs;
        "parallel": they run at the same time, each by other threads;
        "joins": the region makes one element of two;
        "ends": the operation has no region; it ends one.
    leading: the number of operands before those that go through regions: bounds, a condition.
    """

    kind: Literal["", "counts", "repeats", "chooses", "parallel", "joins", "ends"] = ""
    leading: int = 0

    @cached_property
    def regions(self) -> int:
        """The number of regions."""
        return {"counts": 1, "joins": 1, "repeats": 2, "chooses": 2, "parallel": 2}.get(self.kind, 0)

    @cached_property
    def flows(self) -> bool:
        """Whether values go through its regions, from iteration to iteration or by one of several ways."""
        return self.kind in ("counts", "repeats", "chooses", "parallel")

    @cached_property
    def loops(self) -> bool:
        """Whether its regions run again and again. The loop may end behind each region but the last."""
        return self.kind in ("counts", "repeats")

    @cached_property
    def concurrent(self) -> bool:
        """Whether its regions run at the same time, each by other threads."""
        return self.kind == "parallel"

    @cached_property
    def counters(self) -> int:
        """The number of region arguments before the carried ones."""
        return 1 if self.kind == "counts" else 0

    @cached_property
    def ends(self) -> bool:
        """Whether it ends a region."""
        return self.kind == "ends"


@dataclass(frozen=True)
class MemoryAccess:
    """What an operation does to memory, and what its threads wait for.

    effects: its accesses to memory.
    kind: "read", "write", or "update" (both), if each thread moves its own elements between memory and registers.
    under_mask: how a mask may change within the elements of one wide access, in the words of `Facts`: "convex" if the
        ends tell whether all are on, "falls" if flags may only go off, "same" if it may not change.
    waits: what its threads wait for, as text with its attributes as fields.
    at_pipeline: what it does in a pipeline: "fill" a stage, "wait" for one, "begin" or "end" a warp group's turn.
    """

    effects: Effects = untouched
    kind: Literal["", "read", "write", "update"] = ""
    under_mask: Literal["convex", "falls", "same"] = "same"
    waits: str = ""
    at_pipeline: Literal["", "fill", "wait", "begin", "end"] = ""

    @cached_property
    def touches(self) -> bool:
        """Whether it accesses memory."""
        return self.effects is not untouched


@dataclass(frozen=True)
class Placement:
    """How layouts go through an operation (`ops/placing.py`).

    spread: the layouts of other values that follow from that of one; takes: the layout of an operand where the
        operation is done in a given one; place: the layouts in which it is done.
    anywhere: it can be done in any layout, if it is pure.
    exchange: its replacement where elements change threads.
    picks: for operations that only rename registers, which register of the operand each one is.
    """

    spread: Spread = apart
    takes: Takes = same
    place: Place = plain
    anywhere: bool = True
    exchange: Exchange | None = None
    picks: Picks | None = None


@dataclass(frozen=True)
class Algebra:
    """What an operation computes, and the laws that hold for it.

    computes: the result for constants.
    fold: finds a value that equals the operation.
    commutes: its two operands may be swapped; mirror: they may, and the operation then has this name (< and >).
    sums: (operand, name): it adds to its operand of that number (None: to any one), and the operation `name` joins
        partial results.
    idempotent: joining a number twice is the same as joining it once.
    starts: the neutral number of a type; None where it is not known.
    unordered: it reduces elements in an order that the language leaves open.
    masks: the result is on where "all" masks are, or where "any" is.
    keeps: it is its operand in another type, with the same "number" or the same "bits".
    rounds: it rounds to whole numbers, in this mode of conversions: "rn", "rz", "rp" or "rm".
    lowest: the result for -∞, if that is a number.
    divides: it divides integers, which takes tens of instructions unless the divisor is constant.
    """

    computes: Compute | None = None
    fold: Fold | None = None
    commutes: bool = False
    mirror: str | None = None
    sums: tuple[int | None, str] | None = None
    idempotent: bool = False
    starts: Callable[[DType], int | float | bool | None] | None = None
    unordered: bool = False
    masks: Literal["", "all", "any"] = ""
    keeps: Literal["", "number", "bits"] = ""
    rounds: str | None = None
    lowest: float | None = None
    divides: bool = False


@dataclass(frozen=True)
class ElementFacts:
    """What is known of the elements of an operation's result at compile time.

    facts: divisibility, runs and ranges.
    form: the method of `Forms` that describes the result by its operands.
    along: how an axis goes through it; None if no axis does.
    remainder: (value, constant) if the result is value % constant.
    kind: "number": each element is the attribute `value`. "equal": all elements are equal if the operand is a scalar.
        "places": each element is its own index along the only axis, whose extent is the attribute `extent`.
    reshapes: it has the elements of its operand in another shape.
    of_grid: a number of the grid along its attribute `axis`: of the "block", the count of "blocks"; or the number of
        the "cluster", and the "rank" of the block in it.
    """

    facts: FactsOf | None = None
    form: Form | None = None
    along: Along | None = None
    remainder: Callable[[Op], tuple[Value, int] | None] | None = None
    kind: Literal["", "number", "equal", "places"] = ""
    reshapes: bool = False
    of_grid: Literal["", "block", "blocks", "cluster", "rank"] = ""

    @cached_property
    def splat(self) -> bool:
        """Whether all elements are equal, unless an operand is a tile."""
        return self.kind in ("number", "equal")


Acts = Literal["", "allocates", "checks", "records", "prints", "synchronizes", "awaits", "meets", "runs text"]


@dataclass(frozen=True)
class OpSpec:
    """The row of one operation: what it takes and gives, and five parts.

    arity: the number of operands, or (least, most); most is None for any number.
    infer: result types from operands and attributes; raises Mismatch.
    attrs: names of the attributes that it must have.
    operands: the kind of each operand (`ops/kinds.py`); the last kind is that of all further operands.
    named, needs: the same for operands that the attribute `has` names, and which of them are always there.
    symbol: how a program writes it, if it has no name there.
    elementwise: register i of the result comes from register i of the operands, all in one layout.
    becomes: the name of its instruction in `dsl.ptx_templates`. Of several instructions, any one: their rows have the
        same effects. A function of the operation, if operands or attributes decide.
    acts: an effect other than on memory, for which it is never removed or merged: it "allocates" a tile in shared
        memory, "checks" a condition and does nothing else, "records" the time for a timeline, "prints", "synchronizes"
        threads or accesses, "awaits" wgmma products, "meets" (all lanes of a warp run it together), or "runs text" of
        which nothing is known.
    """

    name: str
    arity: int | tuple[int, int | None]
    infer: Infer
    attrs: tuple[str, ...] = ()
    operands: tuple[str, ...] = ("tile",)
    named: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    symbol: str = ""
    elementwise: bool = False
    becomes: str | Callable[[Op], str] | None = None
    acts: Acts = ""
    control: Control = Control()
    access: MemoryAccess = MemoryAccess()
    placement: Placement = Placement()
    algebra: Algebra = Algebra()
    elements: ElementFacts = ElementFacts()

    @cached_property
    def keep(self) -> bool:
        """Whether it has an effect other than on memory: it is never removed or merged."""
        return bool(self.acts) or self.control.flows or self.control.ends

    @cached_property
    def pure(self) -> bool:
        """Whether it only computes its results."""
        return not self.access.touches and not self.keep and not self.control.regions

    @cached_property
    def allocates(self) -> bool:
        """Whether it makes a tile in shared memory."""
        return self.acts == "allocates"

    @cached_property
    def product(self) -> bool:
        """Whether it is a matrix product on tensor cores: a, b, accumulator. Its attribute `instruction` says which."""
        return "instruction" in self.attrs

    @cached_property
    def _row(self) -> ptx_templates.Instruction | None:
        return ptx_templates.instruction(self.becomes) if isinstance(self.becomes, str) else None

    @cached_property
    def joins_lanes(self) -> bool:
        """Whether all lanes of a warp must run it together."""
        return self._row is not None and self._row.convergent

    @cached_property
    def joint(self) -> bool:
        """Whether the lanes of a warp access memory together, each also for others."""
        return (self.joins_lanes or self.leaves) and self.access.touches

    @cached_property
    def in_flight(self) -> bool:
        """Whether it is a copy into shared memory: its accesses happen later, until its threads wait for its group."""
        return self._completes_by("commit group")

    @cached_property
    def leaves(self) -> bool:
        """Whether it is a TMA store: the same, with other groups. One lane issues it for all of its warp."""
        return self._completes_by(_STORES)

    def _completes_by(self, groups: str) -> bool:
        row = self._row if self.access.touches else None
        return row is not None and any(e.completion == groups for e in row.effects)

    @cached_property
    def orders(self) -> str | None:
        """What it orders: "threads" (a barrier); a "group" of copies ends, or it waits for the "end" of groups; a group
        of TMA "stores" ends, or it waits for "their end"; None if nothing."""
        effects = self._row.effects if self._row is not None else ()
        found = (_ORDERS.get((e.action, e.completion == _STORES)) for e in effects)
        return next((each for each in found if each is not None), None)


_STORES = "bulk group"
_ORDERS = {
    ("synchronizes", False): "threads",
    ("commits", False): "group",
    ("waits", False): "end",
    ("commits", True): "stores",
    ("waits", True): "their end",
}
OPS: dict[str, OpSpec] = {}


def row(
    name: str, arity: int | tuple[int, int | None], infer: Infer, attrs: str = "", *, operands: str = "tile",
    named: Mapping[str, str] | None = None, needs: tuple[str, ...] = (), symbol: str = "", elementwise: bool = False,
    becomes: str | Callable[[Op], str] | None = None, acts: Acts = "", control: Control = Control(),
    access: MemoryAccess = MemoryAccess(), placement: Placement = Placement(), algebra: Algebra = Algebra(),
    elements: ElementFacts = ElementFacts(),
) -> None:  # fmt: skip
    """Declares an operation. All values of an elementwise one have one layout and the same axes."""
    if elementwise:
        placement = replace(placement, spread=alike)
        elements = replace(elements, along=same_axis)
    OPS[name] = OpSpec(
        name, arity, infer, tuple(attrs.split()), tuple(operands.split()), named or {}, needs, symbol, elementwise,
        becomes, acts, control, access, placement, algebra, elements,
    )  # fmt: skip


def same_axis(op: Op, value: Value, axis: int) -> dict[Value, int]:
    """The axis is the same in all tiles of this shape."""
    tiles = (v for v in (*op.operands, *op.results) if isinstance(v.type, TileType))
    return {v: axis for v in tiles if v.shape == value.shape}


def nothing(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    """No results."""
    return []


def same_types(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    """One result for each operand, with its type."""
    return [o.tile for o in operands]
