"""How layouts go through operations: the signatures of the rules in a row.

`spread`: given the layout of one value of an operation, the layouts of its other values. `takes`: the layout of an
operand, given the layout in which the operation is done. `place`: the layouts in which the operation is done.
`exchange`: replaces an operation that moves elements between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import TileType
from dsl.lowering.layouts.layout import Layout


class Placing(Protocol):
    """A function that is rebuilt with the layouts of its values."""

    warps: int
    layouts: Mapping[Value, Layout]

    def chosen(self, value: Value) -> Layout | None:
        """The layout of a value at the place of the operation."""

    def of_branch(self, value: Value) -> Layout | None:
        """The layout that a surrounding branch of single threads gives a value."""

    def is_cheap(self, value: Value) -> bool:
        """Whether a value is computed again in another layout, not converted."""

    def access_layout(self, op: Op) -> Layout:
        """The layout that makes a memory access wide and coalesced."""

    def widest(self, op: Op, layout: Layout | None) -> Layout | None:
        """The layout with the same elements in each thread, in the order that gives the widest access."""

    def copy_layout(self, op: Op) -> Layout:
        """The layout of an asynchronous copy."""


Spread = Callable[[Op, Value, Layout], list[tuple[Value, Layout]]]
Takes = Callable[[Op, Value, Layout], Layout]
Placed = tuple[list[Layout | None], list[Layout | None]]
"""The layouts of operands and of results."""
Place = Callable[[Placing, Op], Placed]


class Exchanging(Protocol):
    """A function in which data that crosses warps goes through shared memory. Each method returns whether it replaced
    the operation."""

    def reduce(self, op: Op) -> bool:
        """Each warp reduces its part; then all parts are reduced in registers."""

    def convert(self, op: Op) -> bool:
        """Converts the operand to the layout in the attribute `layout`."""

    def share(self, op: Op, one_thread: bool = False) -> bool:
        """One thread does an access for all that need its result. one_thread: mark the access so."""


Exchange = Callable[[Exchanging, Op], bool]


def alike(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    """All operands and results have one layout."""
    values = (*op.operands, *op.results)
    return [(v, layout) for v in values if isinstance(v.type, TileType) and v.type.shape]


def apart(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    """The layout of one value does not determine that of another."""
    return []


def same(op: Op, value: Value, layout: Layout) -> Layout:
    """Operands have the layout of the result."""
    return layout


def in_one(op: Op, layout: Layout | None) -> Placed:
    """The layouts of an operation that is done in one layout, from which those of its operands follow."""
    operands = [
        op.spec.placement.takes(op, o, layout)
        if layout is not None and isinstance(o.type, TileType) and o.tile.shape
        else None
        for o in op.operands
    ]
    return operands, [layout if isinstance(r.type, TileType) and r.tile.shape else None for r in op.results]


def plain(a: Placing, op: Op) -> Placed:
    """Done in the layout of its first result that has one, else in that of its first operand."""
    for result in op.results:
        if result in a.layouts:
            return in_one(op, a.chosen(result))
    for o in op.operands:
        if isinstance(o.type, TileType) and o.tile.shape:
            return in_one(op, a.chosen(o) or Layout.default(o.tile.shape, a.warps))
    return in_one(op, None)
