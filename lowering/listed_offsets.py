"""Element offsets that are no linear form of coordinates, listed one by one: `arange(32) ^ 1`, `i // 3 * 5 + i % 3`."""

from __future__ import annotations

from typing import NamedTuple

from lowering.affine import Terms
from lowering.facts import linear
from lowering.fold import computed
from lowering.ir import Value
from lowering.types import S32, TileType, int_range

MOST_LISTED = 1 << 12  # elements of a tile: a pass over 4096 of them takes about a millisecond an operation


class Listed(NamedTuple):
    """Element offsets of a tile: elements (row-major) + Σ terms + constant; `terms` as in `Affine`."""

    elements: tuple[int, ...]
    terms: Terms
    constant: int
    kind: str = "listed"  # two elements are never equal to the two coefficients of an `Affine`

    def reach(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """The least and the greatest offset, terms left out."""
        return self.constant + min(self.elements), self.constant + max(self.elements)

    def values(self, shape: tuple[int, ...]) -> list[int]:
        """All offsets, terms left out."""
        return [self.constant + e for e in self.elements]

    def one_to_one(self, shape: tuple[int, ...]) -> bool:
        """True if different elements have different offsets."""
        return len(set(self.elements)) == len(self.elements)


Sum = tuple[list[int], dict[int, int]]
"""A number for each element, and the scalars added to all of them with their factors."""


class ListedOffsets:
    """The offsets of one function's values, computed on demand."""

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
                return [0], {id(value): 1}  # it wrapped: i + 200 - i + 100 of u8
            return [constant], {id(v): k for v, k in terms.items()}
        if op is None or not op.spec.pure:
            return None
        if op.name == "arange":
            return list(range(shape[0])), {}
        if op.name == "constant":
            return ([int(op.attrs["value"])] * value.tile.size, {}) if value.dtype.is_int else None
        parts = [self.sum(operand) for operand in op.operands]
        if any(part is None for part in parts):
            return None
        return self._combined(value, op.name, [part for part in parts if part is not None])

    def _combined(self, value: Value, name: str, parts: list[Sum]) -> Sum | None:
        op = value.op
        assert op is not None
        elements, terms = parts[0] if parts else ([], {})
        if name == "reshape" or name == "convert_layout":
            return elements, terms
        if name == "broadcast":
            return _spread(elements, op.operands[0].tile.shape, value.tile.shape), terms
        if name == "transpose":
            return _transposed(elements, op.operands[0].tile.shape, op.attrs["axes"]), terms
        if name == "cast" and value.dtype.is_int and op.operands[0].dtype.is_int:
            low, high = int_range(value.dtype)
            if op.operands[0].dtype is S32 and value.dtype.kind == "index":
                return elements, terms
            return (elements, {}) if not terms and all(low <= e <= high for e in elements) else None
        if name in ("add", "sub") and value.dtype.kind == "index":
            (a, of_a), (b, of_b) = parts
            sign = 1 if name == "add" else -1
            joined = {v: of_a.get(v, 0) + sign * of_b.get(v, 0) for v in of_a.keys() | of_b.keys()}
            return [x + sign * y for x, y in zip(a, b, strict=True)], joined
        if any(of for _, of in parts):
            return None
        out = [computed(name, row, op.operands[0].dtype) for row in zip(*(e for e, _ in parts), strict=True)]
        return ([int(e) for e in out if e is not None], {}) if None not in out else None


def _spread(elements: list[int], old: tuple[int, ...], new: tuple[int, ...]) -> list[int]:
    out = elements
    for axis in reversed(range(len(new))):
        extent = old[axis] if old else 1
        inner = 1
        for e in new[axis + 1 :]:
            inner *= e
        if extent != new[axis]:
            out = [x for i in range(0, len(out), inner) for x in out[i : i + inner] * new[axis]]
    return out


def _transposed(elements: list[int], shape: tuple[int, ...], axes: tuple[int, ...]) -> list[int]:
    strides = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    out = [0]
    for axis in axes:
        out = [i + x * strides[axis] for i in out for x in range(shape[axis])]
    return [elements[i] for i in out]
