"""Facts about an array: its type, shape and place in memory."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from math import prod
from typing import Any

from dsl.lowering.ir.types import DTYPES
from dsl.lowering.layouts.layout import row_major

ROW = 16
"""Bytes of the widest access, which begins at a multiple of them. TMA wants the same of rows."""


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """What a dispatch knows of an array argument. align: bytes that its pointer is a multiple of."""

    shape: tuple[int, ...]
    dtype: str
    align: int = 16
    strides: tuple[int, ...] | None = None
    """Of a view, or their class (`stride_class`) where a kernel takes it strided. None: row-major, as examples make
    them."""
    is_far: bool = False
    """Whether offsets between its elements exceed 32 bits."""

    @property
    def bytes(self) -> int:
        """Bytes of all its elements."""
        return prod(self.shape) * DTYPES[self.dtype].bytes

    @property
    def turned(self) -> ArrayFacts:
        """`x.T`."""
        strides = tuple(self.strides or row_major(self.shape))
        return replace(self, shape=self.shape[::-1], strides=strides[::-1])

    @property
    def neighbours(self) -> int | None:
        """The last axis along which elements are neighbours."""
        strides = self.strides or row_major(self.shape)
        return max((axis for axis, stride in enumerate(strides) if stride == 1), default=None)

    @property
    def rows_are_aligned(self) -> bool:
        """Whether the array and each of its rows begin at multiples of 16 bytes. Rows lie along the axis of stride
        1."""
        near, strides = self.neighbours, self.strides or row_major(self.shape)
        pitches = [stride * DTYPES[self.dtype].bits // 8 for axis, stride in enumerate(strides) if axis != near]
        return near is not None and self.align % ROW == 0 and all(pitch % ROW == 0 for pitch in pitches)

    @property
    def pitched(self) -> tuple[int, ...]:
        """Strides for an array in the same order of axes, with rows padded to multiples of 16 bytes."""
        near = self.neighbours if self.neighbours is not None else len(self.shape) - 1
        order = [near, *(axis for axis in reversed(range(len(self.shape))) if axis != near)]
        strides, step, each = [0] * len(self.shape), 1, max(1, 8 * ROW // DTYPES[self.dtype].bits)
        for axis in order:
            strides[axis] = step
            step *= max(1, self.shape[axis]) if axis != near else max(1, -(-self.shape[axis] // each)) * each
        return tuple(strides)


@dataclass(frozen=True, slots=True)
class CallArray(ArrayFacts):
    """An array of the call, as expressions of a dispatch see it: `argument` is its name there."""

    argument: str = field(default="", kw_only=True)

    @classmethod
    def of(cls, facts: ArrayFacts, argument: str) -> CallArray:
        return cls(**{each.name: getattr(facts, each.name) for each in fields(ArrayFacts)}, argument=argument)


class Unknown:
    """A value that is known only in a run."""


UNKNOWN = Unknown()


def widened(*sides: Any) -> Any:
    """The result of host arithmetic on arrays and numbers: f64 of the broadcast shape if an array has floats, else
    UNKNOWN."""
    arrays = [side for side in sides if isinstance(side, ArrayFacts)]
    numbers = [side for side in sides if isinstance(side, int | float) and not isinstance(side, bool)]
    if len(arrays) + len(numbers) < len(sides) or not any(DTYPES[a.dtype].is_float for a in arrays):
        return UNKNOWN
    shape: list[int] = []
    for axis in range(1, max(len(a.shape) for a in arrays) + 1):
        extents = {a.shape[-axis] for a in arrays if axis <= len(a.shape)} - {1} or {1}
        if len(extents) > 1:
            return UNKNOWN
        shape.insert(0, extents.pop())
    return ArrayFacts(tuple(shape), "f64") if shape else UNKNOWN
