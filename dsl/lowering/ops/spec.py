"""What is stated of an operation: operands, attributes, result types, effects on memory.

Verification, dead-code removal, ordering and barrier insertion read these rows.
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
    """Operands that an operation does not take. The message is for the user; hint: what would be taken."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class AccessEffect:
    """One access to memory: which memory, which way, and `by` what the row of its instruction says of it (order, scope,
    proxy, completion). Of a `copy` they happen between its issue and a `wait`.

    An "acquire" or a "release" touches nothing itself. What its threads read there orders all that the block does to
    global memory with what other blocks do (PTX ISA 8, "Memory Consistency Model").
    """

    kind: str  # "read", "write", "acquire" or "release"
    memory: Value
    space: str  # "global", "shared" or "param"
    by: ptx_templates.Effect


class Makes(Protocol):
    """What a rule that folds asks of the builder: other values to be made, and what is known (None: nothing yet)."""

    facts: Analysis | None

    def value(self, name: str, /, *operands: Value, **attrs: Any) -> Value:
        """The result of a pure operation."""

    def constant(self, value: int | float | bool, dtype: DType, shape: tuple[int, ...] = ()) -> Value:
        """A number, in each element of a shape."""

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The elements of a value under another shape."""


Picks = Callable[[Op, Layout, Layout], list[int] | None]
"""For each register of the result in its layout, that of the operand in its own; None where threads would exchange."""

Infer = Callable[[Sequence[Value], dict[str, Any]], list[Type]]
Effects = Callable[[Op], list[AccessEffect]]

Fold = Callable[[Makes, Sequence[Value], dict[str, Any]], Value | None]
"""The value that an operation on these operands, with these attributes, need not compute."""
FactsOf = Callable[[Analysis, Op, tuple[int, ...]], Facts]
"""What holds of the elements of the result, which has this shape."""
Along = Callable[[Op, Value, int], dict[Value, int] | None]
"""Of a value of an operation and one of its axes: that axis of the other values that have it; None where the operation
mixes elements along it."""
Form = Callable[[Forms, Op], Any]
"""Which of the ways to tell a value by others is this operation's."""


def untouched(op: Op) -> list[AccessEffect]:
    """No accesses to memory."""
    return []


@dataclass(frozen=True)
class Control:
    """The regions of an operation, and how values go through them (`ops/control.py`).

    kind: what it does with its regions:
        "counts": the body runs for each number of a range;
        "repeats": the first one says whether the second one runs, again and again;
        "chooses": one of them runs;
        "parallel": they run at the same time, by other threads each;
        "joins": it makes one element of two;
        "ends": the operation has none, and ends one.
    leading: operands ahead of those that go through regions: bounds, a condition.
    """

    kind: Literal["", "counts", "repeats", "chooses", "parallel", "joins", "ends"] = ""
    leading: int = 0

    @cached_property
    def regions(self) -> int:
        """How many."""
        return {"counts": 1, "joins": 1, "repeats": 2, "chooses": 2, "parallel": 2}.get(self.kind, 0)

    @cached_property
    def flows(self) -> bool:
        """Values go through its regions, from iteration to iteration or by one way of several."""
        return self.kind in ("counts", "repeats", "chooses", "parallel")

    @cached_property
    def loops(self) -> bool:
        """Its regions run again and again; it may be left behind each but the last."""
        return self.kind in ("counts", "repeats")

    @cached_property
    def concurrent(self) -> bool:
        """Its regions run at the same time, by other threads each."""
        return self.kind == "parallel"

    @cached_property
    def counters(self) -> int:
        """Arguments of its regions ahead of those that are carried."""
        return 1 if self.kind == "counts" else 0

    @cached_property
    def ends(self) -> bool:
        """It ends a region."""
        return self.kind == "ends"


@dataclass(frozen=True)
class MemoryAccess:
    """What an operation does to memory, and what its threads wait for.

    effects: its accesses to memory.
    kind: it moves a tile between memory and registers, each thread its own elements: it is a "read", a "write" or an
        "update", which is both.
    under_mask: how a mask may change within several elements that it still moves at once, as `Facts` calls it: "convex"
        where the ends tell whether all are on, "falls" where they only go off, "same" where it may not.
    waits: what its threads wait for, in words that its attributes complete.
    at_pipeline: what it does at a pipeline with a number: "fill" it; "wait" for it; "begin" or "end" a turn of a group
    of
        warps.
    """

    effects: Effects = untouched
    kind: Literal["", "read", "write", "update"] = ""
    under_mask: Literal["convex", "falls", "same"] = "same"
    waits: str = ""
    at_pipeline: Literal["", "fill", "wait", "begin", "end"] = ""

    @cached_property
    def touches(self) -> bool:
        """It accesses memory."""
        return self.effects is not untouched


@dataclass(frozen=True)
class Placement:
    """How layouts go through an operation (`ops/placing.py`).

    spread: what it makes of one of its values having a layout; takes: the layout that an operand has where the
        operation is done in one; place: the layouts in which it is done.
    anywhere: it can be done in every layout, if it is pure.
    exchange: what becomes of it where it crosses threads.
    picks: each register of its result is one of its operand, and which.
    """

    spread: Spread = apart
    takes: Takes = same
    place: Place = plain
    anywhere: bool = True
    exchange: Exchange | None = None
    picks: Picks | None = None


@dataclass(frozen=True)
class Algebra:
    """What an operation makes of numbers, and the laws that hold of it.

    computes: the number that it makes of numbers.
    fold: the value that it need not compute.
    commutes: its two operands may change places; mirror: they may, and it is called so then.
    sums: it adds to a sum, its operand of this number (any one: None), and this operation joins parts of that sum.
    idempotent: a number that it joins twice is as if joined once.
    starts: the number of a type which, joined with another one, gives that; None where it is not known.
    unordered: it joins elements in an order that the language leaves open.
    masks: of masks, it is on where "all" are, or where "any" is.
    keeps: its operand in another type: its "number", or its "bits".
    rounds: to whole numbers, as conversions call it: "rn", "rz", "rp" or "rm".
    lowest: of a float, what it makes of -∞, if that is a number.
    divides: it divides integers, which takes tens of instructions where the divisor is no constant.
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
    """What is known of the elements of an operation's result without running it.

    facts: divisibility, runs and ranges.
    form: which of the ways to tell a value by others is its.
    along: how an axis goes through it. Where there is none, no axis does.
    remainder: a value and a constant by which it is divided, if it is what is left over.
    kind: "number": each element is the attribute `value`; "equal": of a scalar operand, all elements are equal;
        "places": each element is its own place along the only axis, whose extent is the attribute `extent`.
    reshapes: the elements are those of the operand, under another shape.
    of_grid: what it tells of the grid along its attribute `axis`: the number of the "block", how many "blocks"; or the
        number of its "cluster", and its "rank" there.
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
        """Without operands that are tiles, its elements are all the same."""
        return self.kind in ("number", "equal")


Acts = Literal["", "allocates", "checks", "records", "prints", "synchronizes", "awaits", "meets", "runs text"]


@dataclass(frozen=True)
class OpSpec:
    """The facts of one operation: what it takes and gives, and five parts.

    arity: number of operands, or (least, most); None where `infer` checks by itself.
    infer: result types from operands and attributes; raises Mismatch.
    attrs: names of the attributes it must carry.
    operands: what each may be, a kind of `ops/kinds.py`; the last one is of all that follow.
    named, needs: the same for operands that the attribute `has` names, and which of them it always has.
    symbol: how a program writes it, if it has no name there.
    elementwise: register i of the result comes from register i of the operands, all in one layout.
    becomes: the instruction that it is, as `dsl.ptx_templates` calls it, of several one: their rows differ in nothing
        that is asked here. Where operands or attributes tell which, it is a function of the operation.
    acts: what it does that is no access to memory and needs no region, because of which it is never removed or merged:
        it "allocates" a tile in shared memory; it "checks" a condition, and does nothing else; it "records" the time,
        for a timeline; it "prints"; it "synchronizes" threads or accesses; it "awaits" products of warp groups;
        all lanes of a warp "meet" at it; it "runs text" of which nothing is known.
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
        """It does something that is no access to memory: it is never removed or merged."""
        return bool(self.acts) or self.control.flows or self.control.ends

    @cached_property
    def pure(self) -> bool:
        """It does nothing but make its results."""
        return not self.access.touches and not self.keep and not self.control.regions

    @cached_property
    def allocates(self) -> bool:
        """It makes a tile in shared memory."""
        return self.acts == "allocates"

    @cached_property
    def product(self) -> bool:
        """It is a product of matrices on tensor cores, whose instruction it carries: a, b, accumulator."""
        return "instruction" in self.attrs

    @cached_property
    def _row(self) -> ptx_templates.Instruction | None:
        return ptx_templates.instruction(self.becomes) if isinstance(self.becomes, str) else None

    @cached_property
    def joins_lanes(self) -> bool:
        """All lanes of a warp arrive at it together."""
        return self._row is not None and self._row.convergent

    @cached_property
    def joint(self) -> bool:
        """The lanes of a warp access memory together, each for others too."""
        return (self.joins_lanes or self.leaves) and self.access.touches

    @cached_property
    def in_flight(self) -> bool:
        """A copy into shared memory: its accesses happen later, until its threads wait for their groups of such."""
        return self._completes_by("commit group")

    @cached_property
    def leaves(self) -> bool:
        """A store of a box out of shared memory: the same, by other groups. One lane does it for those of its warp."""
        return self._completes_by(_STORES)

    def _completes_by(self, groups: str) -> bool:
        row = self._row if self.access.touches else None
        return row is not None and any(e.completion == groups for e in row.effects)

    @cached_property
    def orders(self) -> str | None:
        """What it puts in order: "threads" (a barrier); of copies in flight it ends a "group" or awaits the "end", of
        stores in flight it ends "stores" or awaits "their end"."""
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
    """States an operation. All values of an elementwise one have one layout, and the same axes."""
    if elementwise:
        placement = replace(placement, spread=alike)
        elements = replace(elements, along=same_axis)
    OPS[name] = OpSpec(
        name, arity, infer, tuple(attrs.split()), tuple(operands.split()), named or {}, needs, symbol, elementwise,
        becomes, acts, control, access, placement, algebra, elements,
    )  # fmt: skip


def same_axis(op: Op, value: Value, axis: int) -> dict[Value, int]:
    """All tiles of one shape have the axis."""
    tiles = (v for v in (*op.operands, *op.results) if isinstance(v.type, TileType))
    return {v: axis for v in tiles if v.shape == value.shape}


def nothing(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    """No results."""
    return []


def same_types(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    """A result for each operand, of its type."""
    return [o.tile for o in operands]
