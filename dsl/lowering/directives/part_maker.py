"""Computes parts of tiles along an axis. Each part is computed from parts of the tile's operands."""

from __future__ import annotations

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import copied_region
from dsl.lowering.directives.wide import Wide
from dsl.lowering.hopper.boxes import CopiedBox, with_box
from dsl.lowering.ir.function import Block, Op, Value, walk

EDGES = "its rows begin anywhere, and their edges are parts of their own"
"""The reason why accesses that `align` has rewritten cannot be TMA boxes."""


class PartMaker:
    """Computes parts of `part` elements. `memo` has the parts that are already available. `origin` is the start of the
    current part.

    If each row of a part has columns of its own, `rows` has the extents of all axes except the last one. These extents
    are then the same in all parts. If `named`, parts have the name of the tile.
    """

    def __init__(self, b: Builder, part: int):
        self.b, self.part = b, part
        self.memo: dict[Wide, Value] = {}
        self.origin = b.index(0)
        self.rows: tuple[int, ...] | None = None
        self.named = True

    def of(self, value: Value, axis: int) -> Value:
        """The current part of a tile along an axis."""
        found = self.memo.get((value, axis))
        if found is None:
            assert value.op is not None
            self.compute(value.op, value, axis)
            found = self.memo[value, axis]
        return found

    def compute(self, op: Op, value: Value, axis: int) -> None:
        """Repeats an operation for the current part, and stores its results in `memo`."""
        through = op.spec.elements.along
        along = through(op, value, axis) if through is not None else None
        assert along is not None
        operands = [self.of(o, along[o]) if o in along else self.now(o) for o in op.operands]
        self.b.place = (op.loc or self.b.loc, None)
        attrs = dict(op.attrs)
        if "box" in attrs:
            operands = with_box(attrs, operands, self.box(op, axis))
        if op.spec.elements.reshapes:
            attrs["shape"] = self.shape(value, axis)
        if op.spec.elements.kind == "places":
            results = [self.counted()]
        elif op.spec.elements.reshapes and self.rows is not None:
            results = [self.b.broadcast(operands[0], attrs["shape"])]
        elif op.spec.pure and not value.name:  # `b.value` folds operations and shares equal ones
            results = [self.b.value(op.name, *operands, **attrs)]
        else:
            results = self.b.op(op.name, operands, [self.region_of(each) for each in op.regions], **attrs).results
            if self.named:
                for new, old in zip(results, op.results, strict=True):
                    new.stands_for(old)
        for new, old in zip(results, op.results, strict=True):
            self.memo[old, along.get(old, axis)] = new

    def store(self, op: Op, operands: list[Value], axis: int, **more: object) -> None:
        """Stores a part along `axis`."""
        attrs = {**op.attrs, **more}
        if "box" in attrs:
            operands = with_box(attrs, operands, self.box(op, axis))
        self.b.op(op.name, operands, **attrs)

    def box(self, op: Op, axis: int) -> CopiedBox | str:
        """The TMA box of a part, or the reason why there is none."""
        return CopiedBox.of(op).part(self.b, axis, self.origin, self.part) if self.rows is None else EDGES

    def counted(self) -> Value:
        """The indices of the part's elements in the tile."""
        counted = self.b.value("arange", extent=self.part)
        return self.b.value("add", self.b.broadcast(self.origin, (self.part,)), counted)

    def shape(self, value: Value, axis: int) -> tuple[int, ...]:
        """The shape of a part of a tile."""
        if self.rows is not None:
            return (*self.rows, self.part)
        return (*value.shape[:axis], self.part, *value.shape[axis + 1 :])

    def now(self, value: Value) -> Value:
        """The current value that replaces `value`, which is not computed in parts."""
        return value

    def region_of(self, region: Block) -> Block:
        """A copy of the region of a reduction."""
        made = copied_region(region)
        for op in walk(made):
            op.operands = [self.now(v) for v in op.operands]
        return made
