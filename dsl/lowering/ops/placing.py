"""How layouts propagate through operations. This file defines the types of the rules for layouts in an operation's row.

`spread` computes the layouts of an operation's other values from the layout of one value. `takes` returns the layout of
an operand if the operation is executed in a given layout. `place` chooses the layouts of operands and results.
`exchange` replaces an operation that moves elements between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import TileType
from dsl.lowering.layouts.layout import Layout


class Placing(Protocol):
    """The pass that rebuilds a function with a layout for each value. The functions `place` call these methods."""

    warps: int
    layouts: Mapping[Value, Layout]

    def chosen(self, value: Value) -> Layout | None:
        """Returns the layout of a value at the place where the current operation uses it, or None."""

    def of_branch(self, value: Value) -> Layout | None:
        """Returns the layout that an enclosing branch requires for a value, or None. Such a branch has a tile as its
        condition, so that threads may diverge."""

    def is_cheap(self, value: Value) -> bool:
        """Returns whether recomputing a value in another layout is cheaper than converting it."""

    def access_layout(self, op: Op) -> Layout:
        """Returns the layout that makes a memory access wide and coalesced."""

    def widest(self, op: Op, layout: Layout | None) -> Layout | None:
        """Returns a layout in which each thread holds the same elements as in `layout`, in the register order that
        allows the widest access."""

    def copy_layout(self, op: Op) -> Layout:
        """Returns the layout of an asynchronous copy."""


Spread = Callable[[Op, Value, Layout], list[tuple[Value, Layout]]]
Takes = Callable[[Op, Value, Layout], Layout]
Placed = tuple[list[Layout | None], list[Layout | None]]
"""The layouts of an operation's operands and of its results."""
Place = Callable[[Placing, Op], Placed]


class Exchanging(Protocol):
    """The pass that rewrites operations whose data crosses warps, so that the data is exchanged through shared memory.
    Each method returns whether it replaced the operation."""

    def reduce(self, op: Op) -> bool:
        """Lets each warp reduce its own elements. The results of all warps are then reduced in registers."""

    def convert(self, op: Op) -> bool:
        """Converts the operand to the layout in the attribute `layout`."""

    def gather(self, op: Op) -> bool:
        """Lets threads gather from shared memory, if shuffles cannot or need not do it."""

    def share(self, op: Op, one_thread: bool = False) -> bool:
        """Lets one thread execute an access for all threads that need the result. With `one_thread`, the access gets
        the attribute `one_thread`."""


Exchange = Callable[[Exchanging, Op], bool]


def alike(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    """A `spread` rule: all operands and results have the same layout."""
    values = (*op.operands, *op.results)
    return [(v, layout) for v in values if isinstance(v.type, TileType) and v.type.shape]


def apart(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    """A `spread` rule: the layout of one value does not determine any other layout."""
    return []


def same(op: Op, value: Value, layout: Layout) -> Layout:
    """A `takes` rule: each operand has the same layout as the result."""
    return layout


def spread_back(op: Op, value: Value, layout: Layout) -> Layout:
    """A `takes` rule: the rule `spread` computes the layout of an operand from the layout of the result."""
    return dict(op.spec.placement.spread(op, op.result, layout))[value]


def in_one(op: Op, layout: Layout | None) -> Placed:
    """Returns the layouts of the operands and results, if the operation is executed in `layout`."""
    operands = [
        op.spec.placement.takes(op, o, layout)
        if layout is not None and isinstance(o.type, TileType) and o.tile.shape
        else None
        for o in op.operands
    ]
    return operands, [layout if isinstance(r.type, TileType) and r.tile.shape else None for r in op.results]


def plain(a: Placing, op: Op) -> Placed:
    """A `place` rule: the operation is executed in the layout of the first result whose layout is known. If there is
    none, it is executed in the layout of its first operand."""
    for result in op.results:
        if result in a.layouts:
            return in_one(op, a.chosen(result))
    for o in op.operands:
        if isinstance(o.type, TileType) and o.tile.shape:
            return in_one(op, a.chosen(o) or Layout.default(o.tile.shape, a.warps))
    return in_one(op, None)
