"""Lists the offset of each element if offsets are not linear in the coordinates: `arange(32) ^ 1`, `i // 3 * 5 + i %
3`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NamedTuple

from dsl.lowering.ir.fold import computed
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import S32, TileType, int_range
from dsl.lowering.known.affine import Terms
from dsl.lowering.known.forms import Forms, linear
from dsl.lowering.layouts.layout import row_major

MOST_LISTED = 1 << 12  # the maximum number of elements of a tile: for 4096, each operation takes about a millisecond


class Listed(NamedTuple):
    """Element offsets of a tile: for each element, its entry in `elements` (row-major) + Σ terms + constant. `terms` is
    as in `Affine`."""

    elements: tuple[int, ...]
    terms: Terms
    constant: int
    kind: str = "listed"  # named tuples with equal fields are equal, and this field makes them differ from an `Affine`

    def reach(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Returns the least and the greatest offset, if all terms are 0."""
        return self.constant + min(self.elements), self.constant + max(self.elements)

    def values(self, shape: tuple[int, ...]) -> list[int]:
        """Returns the offsets of all elements, if all terms are 0."""
        return [self.constant + e for e in self.elements]

    def one_to_one(self, shape: tuple[int, ...]) -> bool:
        """Returns whether different elements have different offsets."""
        return len(set(self.elements)) == len(self.elements)


Sum = tuple[list[int], dict[int, int]]
"""A list with a number for each element, and a dict from scalars to factors. Each scalar times its factor is added to
all elements."""


class ListedOffsets(Forms[Sum]):
    """Computes the offsets that values of one function contain, on demand."""

    def __init__(self) -> None:
        self.sums: dict[Value, Sum | None] = {}

    def of(self, value: Value) -> Listed | None:
        found = self.sum(value)
        if found is None:
            return None
        elements, terms = found
        return Listed(tuple(elements), tuple(sorted((v, k) for v, k in terms.items() if k)), 0)

    def sum(self, value: Value) -> Sum | None:
        if value not in self.sums:
            known = isinstance(value.type, TileType) and value.tile.size <= MOST_LISTED
            self.sums[value] = self._compute(value) if known else None
        return self.sums[value]

    def _compute(self, value: Value) -> Sum | None:
        shape, op = value.tile.shape, value.op
        if not shape and value.dtype.is_int:
            terms, constant = linear(value)
            low, high = int_range(value.dtype)
            if value.dtype.kind != "index" and value.dtype is not S32 and not low <= constant <= high:
                return [0], {id(value): 1}  # the constant wraps: i + 200 - i + 100 of u8
            return [constant], {id(v): k for v, k in terms.items()}
        if op is None or not op.spec.pure:
            return None
        found = self.told(value)
        return self._computed(op) if found is None else found

    def _computed(self, op: Op) -> Sum | None:
        """Evaluates the operation for each element. Returns None if an operand contains unknown scalars."""
        if op.spec.algebra.computes is None:
            return None
        parts = [self.sum(operand) for operand in op.operands]
        if any(part is None or part[1] for part in parts):
            return None
        rows = zip(*(part[0] for part in parts if part is not None), strict=True)
        out = [computed(op.spec.algebra.computes, row, op.result.dtype) for row in rows]
        return ([int(e) for e in out if e is not None], {}) if None not in out else None

    # ---- forms of operations ----

    def number(self, op: Op) -> Sum | None:
        return ([int(op.attrs["value"])] * op.result.tile.size, {}) if op.result.dtype.is_int else None

    def counted(self, op: Op) -> Sum:
        return list(range(op.result.tile.shape[0])), {}

    def added(self, op: Op, sign: int) -> Sum | None:
        a, b = self.sum(op.operands[0]), self.sum(op.operands[1])
        if a is None or b is None or op.result.dtype.kind != "index":  # other integers may wrap around
            return None
        joined = {v: a[1].get(v, 0) + sign * b[1].get(v, 0) for v in a[1].keys() | b[1].keys()}
        return [x + sign * y for x, y in zip(a[0], b[0], strict=True)], joined

    def repeated(self, op: Op) -> Sum | None:
        return self._arranged(op, lambda e: _spread(e, op.operands[0].tile.shape, op.result.tile.shape))

    def transposed(self, op: Op) -> Sum | None:
        return self._arranged(op, lambda e: _transposed(e, op.operands[0].tile.shape, op.attrs["axes"]))

    def reshaped(self, op: Op) -> Sum | None:
        return self.sum(op.operands[0])

    def moved(self, op: Op) -> Sum | None:
        return self.sum(op.operands[0])

    def _arranged(self, op: Op, arrange: Callable[[list[int]], list[int]]) -> Sum | None:
        inner = self.sum(op.operands[0])
        return None if inner is None else (arrange(inner[0]), inner[1])

    def converted(self, op: Op) -> Sum | None:
        source, to, inner = op.operands[0].dtype, op.result.dtype, self.sum(op.operands[0])
        if inner is None or not (source.is_int and to.is_int):
            return None
        if source is S32 and to.kind == "index":
            return inner
        low, high = int_range(to)
        return (inner[0], {}) if not inner[1] and all(low <= e <= high for e in inner[0]) else None


def _spread(elements: list[int], old: tuple[int, ...], new: tuple[int, ...]) -> list[int]:
    out = elements
    for axis in reversed(range(len(new))):
        extent = old[axis] if old else 1
        inner = prod(new[axis + 1 :])
        if extent != new[axis]:
            out = [x for i in range(0, len(out), inner) for x in out[i : i + inner] * new[axis]]
    return out


def _transposed(elements: list[int], shape: tuple[int, ...], axes: tuple[int, ...]) -> list[int]:
    out, strides = [0], row_major(shape)
    for axis in axes:
        out = [i + x * strides[axis] for i in out for x in range(shape[axis])]
    return [elements[i] for i in out]
