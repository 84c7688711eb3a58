"""How layouts go through operations: what the rules of a row get and give.

`spread` says what an operation makes of one of its values having a layout; `takes` which layout an operand has where
the operation is done in one; `place` in which layouts it is done; `exchange` what becomes of it where it crosses
threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import TileType
from dsl.lowering.layouts.layout import Layout


class Placing(Protocol):
    """A function whose values have got their layouts, and is made anew with them."""

    warps: int
    layouts: Mapping[Value, Layout]

    def chosen(self, value: Value) -> Layout | None:
        """The layout of a value where the operation stands."""

    def of_branch(self, value: Value) -> Layout | None:
        """The layout that a branch of threads around gives a value."""

    def is_cheap(self, value: Value) -> bool:
        """True if a value is computed again in any layout."""

    def access_layout(self, op: Op) -> Layout:
        """The layout that makes an access of memory wide and coalesced."""

    def widest(self, op: Op, layout: Layout | None) -> Layout | None:
        """The same threads' elements in the order in which most are accessed at once."""

    def copy_layout(self, op: Op) -> Layout:
        """The layout of an asynchronous copy."""


Spread = Callable[[Op, Value, Layout], list[tuple[Value, Layout]]]
Takes = Callable[[Op, Value, Layout], Layout]
Placed = tuple[list[Layout | None], list[Layout | None]]
"""The layouts of operands and of results."""
Place = Callable[[Placing, Op], Placed]


class Exchanging(Protocol):
    """A function whose values have layouts, and in which what crosses warps becomes accesses of shared memory. Each
    says whether it has replaced the operation."""

    def reduce(self, op: Op) -> bool:
        """Each warp reduces its part, and all parts are reduced in registers."""

    def convert(self, op: Op) -> bool:
        """The operand in the layout that is the attribute `layout`."""

    def share(self, op: Op, one_thread: bool = False) -> bool:
        """One thread does an access for all that need its result (and is marked with `one_thread`)."""


Exchange = Callable[[Exchanging, Op], bool]


def alike(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    """Operands and results lie in one layout."""
    values = (*op.operands, *op.results)
    return [(v, layout) for v in values if isinstance(v.type, TileType) and v.type.shape]


def apart(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    """One value's layout says nothing of the others'."""
    return []


def same(op: Op, value: Value, layout: Layout) -> Layout:
    """Operands lie as the result does."""
    return layout


def in_one(op: Op, layout: Layout | None) -> Placed:
    """The operation is done in one layout, of which each operand takes its own."""
    operands = [
        op.spec.placement.takes(op, o, layout)
        if layout is not None and isinstance(o.type, TileType) and o.tile.shape
        else None
        for o in op.operands
    ]
    return operands, [layout if isinstance(r.type, TileType) and r.tile.shape else None for r in op.results]


def plain(a: Placing, op: Op) -> Placed:
    """Where the first result was given a layout, else where the first operand is."""
    for result in op.results:
        if result in a.layouts:
            return in_one(op, a.chosen(result))
    for o in op.operands:
        if isinstance(o.type, TileType) and o.tile.shape:
            return in_one(op, a.chosen(o) or Layout.default(o.tile.shape, a.warps))
    return in_one(op, None)
