"""How layouts propagate through operations: the signatures of the rules in an operation's row.

`spread` maps the layout of one value of an operation to the layouts of its other values. `takes` returns the layout of
an operand if the operation is done in a given layout. `place` chooses the layouts in which the operation is done.
`exchange` replaces an operation that moves elements between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import TileType
from dsl.lowering.layouts.layout import Layout


class Placing(Protocol):
    """The pass that rebuilds a function with a layout for each value, as the functions `place` use it."""

    warps: int
    layouts: Mapping[Value, Layout]

    def chosen(self, value: Value) -> Layout | None:
        """The layout of a value where the current operation uses it."""

    def of_branch(self, value: Value) -> Layout | None:
        """The layout that a value must have because of an enclosing branch that each thread executes for itself."""

    def is_cheap(self, value: Value) -> bool:
        """Whether it is cheaper to recompute a value in another layout than to convert the value."""

    def access_layout(self, op: Op) -> Layout:
        """The layout that makes a memory access wide and coalesced."""

    def widest(self, op: Op, layout: Layout | None) -> Layout | None:
        """A layout in which each thread has the same elements as in `layout`, in the register order that allows the
        widest access."""

    def copy_layout(self, op: Op) -> Layout:
        """The layout of an asynchronous copy."""


Spread = Callable[[Op, Value, Layout], list[tuple[Value, Layout]]]
Takes = Callable[[Op, Value, Layout], Layout]
Placed = tuple[list[Layout | None], list[Layout | None]]
"""The layouts of an operation's operands and of its results."""
Place = Callable[[Placing, Op], Placed]


class Exchanging(Protocol):
    """The pass that rewrites operations whose data crosses warps, so that the data goes through shared memory. Each
    method returns whether it replaced the operation."""

    def reduce(self, op: Op) -> bool:
        """Lets each warp reduce its own elements. The results of the warps are then reduced in registers."""

    def convert(self, op: Op) -> bool:
        """Converts the operand to the layout in the attribute `layout`."""

    def share(self, op: Op, one_thread: bool = False) -> bool:
        """Lets one thread do an access for all threads that need the result. With `one_thread`, the access gets the
        attribute `one_thread`."""


Exchange = Callable[[Exchanging, Op], bool]


def alike(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    """All operands and results have the same layout."""
    values = (*op.operands, *op.results)
    return [(v, layout) for v in values if isinstance(v.type, TileType) and v.type.shape]


def apart(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    """The layout of one value does not determine the layout of any other value."""
    return []


def same(op: Op, value: Value, layout: Layout) -> Layout:
    """Each operand has the same layout as the result."""
    return layout


def spread_back(op: Op, value: Value, layout: Layout) -> Layout:
    """An operand has the layout that follows for it from the layout of the result."""
    return dict(op.spec.placement.spread(op, op.result, layout))[value]


def in_one(op: Op, layout: Layout | None) -> Placed:
    """The layouts of the operands and results, if the operation is done in `layout`."""
    operands = [
        op.spec.placement.takes(op, o, layout)
        if layout is not None and isinstance(o.type, TileType) and o.tile.shape
        else None
        for o in op.operands
    ]
    return operands, [layout if isinstance(r.type, TileType) and r.tile.shape else None for r in op.results]


def plain(a: Placing, op: Op) -> Placed:
    """The operation is done in the layout of its first result for which a layout is known. If there is none, the
    operation is done in the layout of its first operand."""
    for result in op.results:
        if result in a.layouts:
            return in_one(op, a.chosen(result))
    for o in op.operands:
        if isinstance(o.type, TileType) and o.tile.shape:
            return in_one(op, a.chosen(o) or Layout.default(o.tile.shape, a.warps))
    return in_one(op, None)
