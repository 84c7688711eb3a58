"""The layouts of a function's values, and how one that is given spreads to others."""

from __future__ import annotations

from dsl.lowering.ir.function import Function, Value, uses, walk
from dsl.lowering.known.facts import facts_of
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops.control import names


class Layouts:
    """`found`: the layouts of values as far as they are chosen. `pinned`: those that the schedule lays out."""

    def __init__(self, function: Function):
        self.function, self.warps, self.facts = function, function.warps, facts_of(function)
        self.found: dict[Value, Layout] = {}
        self.pinned: set[Value] = set()
        self.users = uses(function.body)
        self.cheap: dict[Value, bool] = {}
        self.alike: dict[Value, list[Value]] = {}  # the names of what goes through a loop or a branch
        for each in (each for op in walk(function.body) for each in names(op)):
            for value in each:
                self.alike.setdefault(value, []).extend(each)

    def is_cheap(self, value: Value) -> bool:
        """A tile made of arange, constants and scalars by pure operations: computed again rather than converted."""
        known = self.cheap.get(value)
        if known is None:
            op = value.op
            known = (
                op is not None
                and op.spec.pure
                and op.spec.placement.anywhere
                # Integers are mostly offsets and masks, of which a thread reads few registers. Floats are data: to
                # compute them twice is work.
                and not value.dtype.is_float
                and all(not o.tile.shape or self.is_cheap(o) for o in op.operands)
            ) or (op is not None and op.spec.elements.splat and not any(o.tile.shape for o in op.operands))
            self.cheap[value] = known
        return known

    def give(self, value: Value, layout: Layout) -> None:
        """Sets a layout and spreads it."""
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
        """What the operations around a value make of it having `layout`."""
        out = value.op.spec.placement.spread(value.op, value, layout) if value.op is not None else []
        for user in self.users.get(value, ()):
            out += user.spec.placement.spread(user, value, layout)
        return out + [(name, layout) for name in self.alike.get(value, ())]

    def joined(self, result: Value) -> set[Value]:
        """The values that have the layout of a product's result: by elementwise operations, loops and branches."""
        layout = Layout.default(result.tile.shape, self.warps)
        joined, work = set(), [result]
        while work:
            value = work.pop()
            if value in joined:
                continue
            joined.add(value)
            if self.is_cheap(value):  # a constant belongs to all that use it
                continue
            work += [v for v, same in self.neighbours(value, layout) if same is layout and v.tile.shape == layout.shape]
        return joined
