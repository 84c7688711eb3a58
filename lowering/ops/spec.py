"""What is stated of an operation: operands, attributes, result types, effects on memory.

Verification, dead-code removal, ordering and barrier insertion read these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lowering.ir import Op, Value
from lowering.layout import Layout
from lowering.ops.placing import Place, Spread, Takes, alike, apart, plain, same
from lowering.types import Type


class Mismatch(Exception):
    """Operands that an operation does not take. The message is for the user."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One access to memory: which memory, and which way. Of a `copy` they happen between its issue and a `wait`.

    An "acquire" or a "release" touches nothing itself. What its threads read there orders all that the block does to
    global memory with what other blocks do (PTX ISA 8, "Memory Consistency Model").
    """

    kind: str  # "read", "write", "acquire" or "release"
    memory: Value
    space: str  # "global", "shared" or "param"


Picks = Callable[[Op, Layout, Layout], list[int] | None]
"""For each register of the result in its layout, that of the operand in its own; None where threads would exchange."""

Infer = Callable[[Sequence[Value], dict[str, Any]], list[Type]]
Effects = Callable[[Op], list[Effect]]


@dataclass(frozen=True, slots=True)
class OpSpec:
    """The facts of one operation.

    arity: number of operands, or (least, most); None where `infer` checks by itself.
    attrs: names of the attributes it must carry.
    infer: result types from operands and attributes; raises Mismatch.
    effects: accesses to memory; None means there are none.
    keep: it does something that is no memory access (synchronises, prints, ends a region): never removed or merged.
    elementwise: register i of the result comes from register i of the operands, all in one layout.
    regions: how many.
    flows: values go through its regions, from round to round or by one way of several (`ops/control.py`).
    loops: its regions run again and again; it may be left behind each but the last.
    leading: operands ahead of those that go through regions: bounds, a condition.
    counters: arguments of its regions ahead of those that are carried.
    ends: it ends a region.
    spread, takes, place: how layouts go through it (`ops/placing.py`).
    anywhere: it can be done in every layout, if it is pure.
    accesses: it moves a tile between memory and registers, each thread its own elements.
    product: of matrices, on tensor cores: a, b, accumulator.
    joins_lanes: all lanes of a warp arrive at it together.
    in_flight: its accesses happen later, until what waits for them.
    joint: the lanes of a warp access memory together, each for others too.
    allocates: it makes a tile in shared memory.
    orders: what it puts in order: "threads" (a barrier); of accesses in flight it ends a "group" or awaits the "end".
    picks: each register of its result is one of its operand, and which.
    splat: without operands that are tiles, its elements are all the same.
    """

    name: str
    arity: int | tuple[int, int | None]
    infer: Infer
    attrs: tuple[str, ...] = ()
    effects: Effects | None = None
    keep: bool = False
    elementwise: bool = False
    regions: int = 0
    flows: bool = False
    loops: bool = False
    leading: int = 0
    counters: int = 0
    ends: bool = False
    spread: Spread = apart
    takes: Takes = same
    place: Place = plain
    anywhere: bool = True
    splat: bool = False
    accesses: bool = False
    product: bool = False
    joins_lanes: bool = False
    in_flight: bool = False
    joint: bool = False
    allocates: bool = False
    orders: str | None = None
    picks: Picks | None = None
    pure: bool = field(init=False)  # nothing but its results

    def __post_init__(self) -> None:
        object.__setattr__(self, "pure", self.effects is None and not self.keep and not self.regions)


OPS: dict[str, OpSpec] = {}


def row(name: str, arity: int | tuple[int, int | None], infer: Infer, attrs: str = "", **facts: Any) -> None:
    """States an operation."""
    if facts.get("elementwise"):
        facts.setdefault("spread", alike)
    OPS[name] = OpSpec(name, arity, infer, tuple(attrs.split()), **facts)


def nothing(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    """No results."""
    return []


def same_types(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    """A result for each operand, of its type."""
    return [o.tile for o in operands]
