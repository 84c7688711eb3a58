"""Splits a tile of offsets into a loop-invariant tile, and a scalar that is added to all offsets.

    i, j = row + t // 3, col + t % 3             rows = image · 50176 + row · 896 + col · 32     before the loops
    place = image · 50176 + i · 896 + j · 32 + c  →  place = rows + (t // 3 · 896 + t % 3 · 32 + c)

Without the split, each iteration computes non-linear offsets again for each element, such as the offsets of pixels. The
loop-invariant part consists of small tiles, such as the sum of all terms of rows, and the sum of all terms of columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.slices import made_anew, slice_of
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.known.affine import AffineOffsets
from dsl.lowering.known.forms import Forms
from dsl.lowering.ops.memory import leave_out, operand

Shape = tuple[int, ...]


class Split(Struct):
    """Offsets after the split. `still` contains loop-invariant tiles, one for each shape. `move` is the scalar that is
    added to their sum. `ops` contains the operations that compute the scalar."""

    still: list[Value]
    move: Value
    ops: list[Op]

    def place(self, b: Builder, move: Value, shape: Shape) -> Value:
        """Computes the offsets of all elements: the sum of the tiles in `still` and the scalar `move`."""
        parts = [b.broadcast(each, shape) for each in (*self.still, move)]
        total = parts[0]
        for part in parts[1:]:
            total = b.value("add", total, part)
        return total


def is_linear(place: Value) -> bool:
    """Whether the offset of an element is a linear function of its coordinates in the tile. Code generation splits
    linear offsets without this module."""
    return AffineOffsets().offsets(place) is not None


def split(before: Builder, scope: Sequence[Op], counters: Collection[Value], place: Value) -> Split | None:
    """Splits the tile `place` of offsets. `scope` contains the operations in the loops, and `counters` the counters of
    the loops. `before` builds the loop-invariant part before the loops. Returns None if a split is impossible or
    useless."""
    if not place.tile.shape:
        return None
    part = slice_of(scope, [place])
    moving = set(counters)
    for op in part:
        if moving.intersection(op.operands):
            moving.update(op.results)
    parts = _Summands(before, part, moving)
    found = parts.of(place)
    if found is None or constant_of(found[1]) == 0:
        return None
    still: dict[Shape, Value] = {}
    for each in found[0]:
        known = still.get(each.tile.shape)
        still[each.tile.shape] = each if known is None else before.value("add", known, each)
    return Split(list(still.values()), found[1], parts.b.outermost.ops)


Parted = tuple[list[Value], Value]
"""Loop-invariant tiles and the scalar that is added to their sum."""


class _Summands(Forms[Parted]):
    """Splits values into loop-invariant tiles and a scalar. The result is None for a value that cannot be split.

    `before` builds the loop-invariant tiles from the operations in `part`. `moving` contains the values that change
    from iteration to iteration. `b` builds the scalars.
    """

    def __init__(self, before: Builder, part: Sequence[Op], moving: Collection[Value]):
        self.before, self.part, self.moving = before, part, moving
        self.b = Builder(before.loc)

    def of(self, value: Value) -> Parted | None:
        if value in self.moving:
            return self.told(value) if value.tile.shape else ([], value)
        op = value.op
        is_sum = op is not None and (op.spec.elements.splat or op.spec.algebra.sums == (None, "add"))
        found = self.told(value) if is_sum else None
        return found or ([made_anew(self.before, self.part, {}, value)], self.b.constant(0, value.dtype))

    def added(self, op: Op, sign: int) -> Parted | None:
        a, b = (self.of(v) for v in op.operands)
        if a is None or b is None or (sign < 0 and b[0]):
            return None
        return [*a[0], *b[0]], self.b.value("add" if sign > 0 else "sub", a[1], b[1])

    def multiplied(self, op: Op) -> Parted | None:
        moved, factor = op.operands if op.operands[0] in self.moving else op.operands[::-1]
        found, scale = self.of(moved), scalar_of(factor)
        if found is None or scale is None or factor in self.moving:
            return None
        b, known = self.before, made_anew(self.before, self.part, {}, scale)
        still = [b.value("mul", each, b.broadcast(known, each.tile.shape)) for each in found[0]]
        return still, self.b.value("mul", found[1], scale)

    def repeated(self, op: Op) -> Parted | None:
        found = self.of(op.operands[0])
        if found is None:
            return None
        b, rank = self.before, len(op.result.tile.shape)
        return [b.reshape(v, (1,) * (rank - len(v.tile.shape)) + v.tile.shape) for v in found[0]], found[1]

    def reshaped(self, op: Op) -> Parted | None:
        found = self.of(op.operands[0])
        if found is None:
            return None
        b, old = self.before, op.operands[0].tile.shape
        return [b.reshape(b.broadcast(v, old), op.result.tile.shape) for v in found[0]], found[1]

    def transposed(self, op: Op) -> Parted | None:
        found = self.of(op.operands[0])
        if found is None:
            return None
        return [self.before.value("transpose", v, axes=op.attrs["axes"]) for v in found[0]], found[1]


def scalar_of(value: Value) -> Value | None:
    """Returns the scalar of which `value` is a broadcast, or None if `value` is not a broadcast scalar."""
    while value.tile.shape and value.op is not None and value.op.spec.elements.splat and value.op.operands:
        value = value.op.operands[0]
    return None if value.tile.shape else value


def add_to_mask(b: Builder, op: Op, condition: Value) -> None:
    """Adds `condition`, a scalar, to the mask of an access, or gives it this mask."""
    mask, offset = operand(op, "mask"), operand(op, "offset")
    assert offset is not None
    on = b.broadcast(condition, offset.tile.shape) if mask is None else also(b, mask, condition)
    leave_out(op, "mask")
    op.operands.append(on)
    op.attrs["has"] = [*op.attrs["has"], "mask"]


def also(b: Builder, mask: Value, condition: Value) -> Value:
    """Computes `mask & condition`, where `condition` is a scalar."""
    # If the mask is a broadcast, the smaller mask before the broadcast is combined with the condition.
    op = mask.op
    if op is not None and op.spec.elements.reshapes and op.operands[0].tile.shape:
        return b.value(op.name, also(b, op.operands[0], condition), **op.attrs)
    return b.value("and", mask, b.broadcast(condition, mask.tile.shape))
