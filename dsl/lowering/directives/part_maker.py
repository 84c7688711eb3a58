"""Computes parts of a tile along an axis, from the same parts of the operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import copied_region
from dsl.lowering.directives.wide import Wide
from dsl.lowering.hopper.boxes import CopiedBox, with_box
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Op, Value, walk

EDGES = "its rows begin anywhere, and their edges are parts of their own"
"""The reason why accesses to unaligned rows (`align`) cannot be TMA boxes."""


class PartMaker:
    """Computes the current part of tiles: `part` elements, starting at element `origin`. `memo` maps a tile and its
    axis to the current part, once it is computed. If `rows` is not None, each row of a part has its own columns
    (`align`), and `rows` contains the extents of all other axes. If `named` is true, a part gets the name of its tile.
    `folded_away` has the names of tiles of which a part is a constant, or a value with a name of its own.
    """

    def __init__(self, b: Builder, part: int):
        self.b, self.part = b, part
        self.memo: dict[Wide, Value] = {}
        self.origin = b.index(0)
        self.rows: tuple[int, ...] | None = None
        self.named = True
        self.folded_away = set[str]()

    def of(self, value: Value, axis: int) -> Value:
        """Returns the current part of the tile `value` along `axis`, and computes it if necessary."""
        found = self.memo.get((value, axis))
        if found is None:
            assert value.op is not None
            self.compute(value.op, value, axis)
            found = self.memo[value, axis]
        return found

    def compute(self, op: Op, value: Value, axis: int) -> None:
        """Builds `op` for the current part, and stores its results in `memo`. `value` is a result of `op`."""
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
        elif (folded := self.folded(op, operands, attrs)) is not None:
            results = [folded]
        else:
            results = self.b.op(op.name, operands, [self.region_of(each) for each in op.regions], **attrs).results
            if self.named:
                for new, old in zip(results, op.results, strict=True):
                    new.stands_for(old)
        for new, old in zip(results, op.results, strict=True):
            self.memo[old, along.get(old, axis)] = new

    def folded(self, op: Op, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
        """Returns the value to which a pure operation folds for the current part, or None. It gets the name, so that
        lines of the schedule about this name still find a value. If no part can have it, these lines have no effect."""
        fold = op.spec.algebra.fold if op.spec.pure else None
        folded = fold(self.b, operands, attrs) if fold is not None else None
        if folded is not None and self.named and constant_of(folded) is None:
            folded.take_name(op.result)
        if folded is not None and op.result.name and folded.name != op.result.name:
            self.folded_away.add(op.result.name)
        return folded

    def store(self, op: Op, operands: list[Value], axis: int, **more: object) -> None:
        """Builds the store `op` for the current part. `more` contains additional attributes."""
        attrs = {**op.attrs, **more}
        if "box" in attrs:
            operands = with_box(attrs, operands, self.box(op, axis))
        self.b.op(op.name, operands, **attrs)

    def box(self, op: Op, axis: int) -> CopiedBox | str:
        """Returns the TMA box of the current part, or the reason why TMA cannot access it."""
        return CopiedBox.of(op).part(self.b, axis, self.origin, self.part) if self.rows is None else EDGES

    def counted(self) -> Value:
        """Computes the positions of the part's elements in the tile: `origin`, `origin` + 1, …"""
        counted = self.b.value("arange", extent=self.part)
        return self.b.value("add", self.b.broadcast(self.origin, (self.part,)), counted)

    def shape(self, value: Value, axis: int) -> tuple[int, ...]:
        """Returns the shape of a part of the tile `value` along `axis`."""
        if self.rows is not None:
            return (*self.rows, self.part)
        return (*value.shape[:axis], self.part, *value.shape[axis + 1 :])

    def now(self, value: Value) -> Value:
        """Returns the value that replaces `value`, which is not computed in parts."""
        return value

    def region_of(self, region: Block) -> Block:
        """Copies the region of a reduction, and replaces the values that it reads by those of `now`."""
        made = copied_region(region)
        for op in walk(made):
            op.operands = [self.now(v) for v in op.operands]
        return made
