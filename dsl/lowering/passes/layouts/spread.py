"""Stores the layouts of a function's values, and propagates the layout of one value to others."""

from __future__ import annotations

from dsl.lowering.directives.slices import reached
from dsl.lowering.hopper.warpgroup import Warpgroups
from dsl.lowering.ir.function import Function, Op, Value, uses, walk
from dsl.lowering.known.facts import facts_of
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops.control import names


class Layouts:
    """`found` maps values to the layouts chosen so far. `pinned` contains the values whose layout the schedule sets.
    `wgmma` contains the products that use wgmma. `copies` contains the layouts of copies whose rows are gathered."""

    def __init__(self, function: Function):
        self.function, self.warps, self.facts = function, function.warps, facts_of(function)
        self.found: dict[Value, Layout] = {}
        self.pinned: set[Value] = set()
        self.wgmma: dict[Op, Warpgroups] = {}
        self.copies: dict[Op, Layout] = {}
        self.users = uses(function.body)
        self.cheap: dict[Value, bool] = {}
        self.alike: dict[Value, list[Value]] = {}  # maps a value to the values that stand for it in loops and branches
        for each in (each for op in walk(function.body) for each in names(op)):
            for value in each:
                self.alike.setdefault(value, []).extend(each)

    def is_cheap(self, value: Value) -> bool:
        """Whether a tile is computed from arange, constants and scalars by pure operations only. Such a tile is
        recomputed in another layout instead of being converted."""
        known = self.cheap.get(value)
        if known is None:
            op = value.op
            known = (
                op is not None
                and op.spec.pure
                and op.spec.placement.anywhere
                # Integers only: they are mostly offsets and masks, and take few registers of a thread. Floats are data,
                # and computing them twice takes time.
                and not value.dtype.is_float
                and all(not o.tile.shape or self.is_cheap(o) for o in op.operands)
            ) or (op is not None and op.spec.elements.splat and not any(o.tile.shape for o in op.operands))
            self.cheap[value] = known
        return known

    def give(self, value: Value, layout: Layout) -> None:
        """Sets the layout of a value and propagates it to other values."""
        work = [(value, layout)]
        while work:
            value, layout = work.pop()
            if value in self.found or not value.tile.shape:
                continue
            if self.is_cheap(value) and value not in self.pinned:
                continue
            self.found[value] = layout
            work += self.neighbours(value, layout)

    def neighbours(self, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
        """Returns the neighbours of `value` in the data flow whose layouts `layout` determines. Each neighbour is
        paired with its layout."""
        out = value.op.spec.placement.spread(value.op, value, layout) if value.op is not None else []
        for user in self.users.get(value, ()):
            out += user.spec.placement.spread(user, value, layout)
        return out + [(name, layout) for name in self.alike.get(value, ())]

    def joined(self, result: Value) -> set[Value]:
        """Returns the values that share the layout of a product's result. Elementwise operations, loops and branches
        connect these values to the result."""
        layout = Layout.default(result.tile.shape, self.warps)

        def sharing(value: Value) -> list[Value]:
            if self.is_cheap(value):  # a constant has many users, which it must not join into one set
                return []
            return [v for v, same in self.neighbours(value, layout) if same is layout and v.tile.shape == layout.shape]

        return set(reached([result], sharing))
