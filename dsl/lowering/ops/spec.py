"""What is stated of an operation: operands, attributes, result types, effects on memory.

Verification, dead-code removal, ordering and barrier insertion read these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

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


@dataclass(frozen=True)
class OpSpec:
    """The facts of one operation.

    arity: number of operands, or (least, most); None where `infer` checks by itself.
    operands: what each may be, a kind of `ops/kinds.py`; the last one is of all that follow.
    named, needs: the same for operands that the attribute `has` names, and which of them it always has.
    attrs: names of the attributes it must carry.
    infer: result types from operands and attributes; raises Mismatch.
    becomes: the instruction that it is, as `dsl.ptx_templates` calls it, of several one: their rows differ in nothing
        that is asked here. Where operands or attributes tell which, it is a function of the operation.
    effects: accesses to memory; None means there are none.
    keep: it does something that is no memory access (synchronises, prints, ends a region): never removed or merged.
    checks: it does nothing but tell of a condition that is off.
    elementwise: register i of the result comes from register i of the operands, all in one layout.
    regions: how many.
    flows: values go through its regions, from round to round or by one way of several (`ops/control.py`).
    loops: its regions run again and again; it may be left behind each but the last.
    concurrent: its regions run at the same time, by other threads each.
    records: warps note the time there, for a timeline.
    fills: it fills a channel from one of them to another.
    at_channel: what it does there with a number: "wait" for it; "begin" or "end" a turn of a group of warps.
    leading: operands ahead of those that go through regions: bounds, a condition.
    counters: arguments of its regions ahead of those that are carried.
    ends: it ends a region.
    waits: what its threads wait for, in words that its attributes complete.
    spread, takes, place: how layouts go through it (`ops/placing.py`).
    anywhere: it can be done in every layout, if it is pure.
    accesses: it moves a tile between memory and registers, each thread its own elements: it is a "read", a "write" or
        an "update", which is both.
    under_mask: how a mask may change within several elements that it still moves at once, as `Facts` calls it: "convex"
        where the ends tell whether all are on, "falls" where they only go off, "same" where it may not.
    product: of matrices, on tensor cores: a, b, accumulator.
    allocates: it makes a tile in shared memory.
    picks: each register of its result is one of its operand, and which.
    splat: without operands that are tiles, its elements are all the same.
    constant: its attribute `value` is each of its elements.
    counts: its elements are their own places along its only axis, which its attribute `extent` says.
    along: how an axis goes through it. Where there is none, no axis does.
    starts: the number of a type which, joined with another one, gives that; None where it is not known.
    reshapes: its elements are its operand's, under another shape.
    converts: its operand, in another type.
    rounds: to whole numbers, as conversions call it: "rn", "rz", "rp" or "rm".
    commutes: its two operands may change places; mirror: they may, and it is called so then.
    conjoins: of masks, it is on where both are; disjoins: where one of them is.
    unordered: it joins elements in an order that the language leaves open.
    sums: it adds to a sum, its operand of this number (any one: None), and this operation joins parts of that sum.
    idempotent: a number that it joins twice is as if joined once.
    symbol: how a program writes it, if it has no name there.
    lowest: of a float, what it makes of -∞, if that is a number.
    computes, fold, facts, form: what is known of its elements without running it, as far as it is.
    exchange: what becomes of it where it crosses threads (`ops/placing.py`).
    divides: it divides integers, which takes tens of instructions where the divisor is no constant.
    of_grid: what it tells of the grid along its attribute `axis`: the number of the "block", how many "blocks"; or the
        number of its "cluster", and its "rank" there.
    remainder: a value and a constant by which it is divided, if it is what is left over.
    """

    name: str
    arity: int | tuple[int, int | None]
    infer: Infer
    attrs: tuple[str, ...] = ()
    operands: tuple[str, ...] = ("tile",)
    named: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    effects: Effects | None = None
    keep: bool = False
    checks: bool = False
    elementwise: bool = False
    regions: int = 0
    flows: bool = False
    loops: bool = False
    concurrent: bool = False
    records: bool = False
    fills: bool = False
    at_channel: str = ""
    leading: int = 0
    counters: int = 0
    ends: bool = False
    waits: str = ""
    spread: Spread = apart
    takes: Takes = same
    place: Place = plain
    anywhere: bool = True
    exchange: Exchange | None = None
    splat: bool = False
    accesses: str = ""
    under_mask: str = "same"
    product: bool = False
    becomes: str | Callable[[Op], str] | None = None
    allocates: bool = False
    picks: Picks | None = None
    constant: bool = False
    counts: bool = False
    along: Along | None = None
    starts: Callable[[DType], int | float | bool | None] | None = None
    reshapes: bool = False
    converts: bool = False
    rounds: str | None = None
    commutes: bool = False
    mirror: str | None = None
    conjoins: bool = False
    disjoins: bool = False
    unordered: bool = False
    sums: tuple[int | None, str] | None = None
    idempotent: bool = False
    symbol: str = ""
    lowest: float | None = None
    computes: Compute | None = None
    fold: Fold | None = None
    facts: FactsOf | None = None
    form: Form | None = None
    divides: bool = False
    of_grid: str = ""
    remainder: Callable[[Op], tuple[Value, int] | None] | None = None
    pure: bool = field(init=False)  # nothing but its results

    def __post_init__(self) -> None:
        object.__setattr__(self, "pure", self.effects is None and not self.keep and not self.regions)

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
        return (self.joins_lanes or self.leaves) and self.effects is not None

    @cached_property
    def in_flight(self) -> bool:
        """A copy into shared memory: its accesses happen later, until its threads wait for their groups of such."""
        return self._completes_by("commit group")

    @cached_property
    def leaves(self) -> bool:
        """A store of a box out of shared memory: the same, by other groups. One lane does it for those of its warp."""
        return self._completes_by(_STORES)

    def _completes_by(self, groups: str) -> bool:
        row = self._row if self.effects is not None else None
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


def row(name: str, arity: int | tuple[int, int | None], infer: Infer, attrs: str = "", **facts: Any) -> None:
    """States an operation."""
    if "operands" in facts:
        facts["operands"] = tuple(facts["operands"].split())
    if facts.get("elementwise"):
        facts.setdefault("spread", alike)
        facts.setdefault("along", same_axis)
    OPS[name] = OpSpec(name, arity, infer, tuple(attrs.split()), **facts)


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
