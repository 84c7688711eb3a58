"""Facts about an array that are known before a run: its type, shape, strides and alignment."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict, replace

if TYPE_CHECKING:
    from dsl.lowering.ir.types import DType


ROW = 16
"""The size of the widest memory access in bytes, which is also its required alignment. TMA requires the same alignment
of rows."""
PITCH = 64
"""The rows of a padded copy begin at multiples of this number of bytes. TMA then reads 128 bytes of a row in 2.95
cycles. At other multiples of 16 bytes, it takes 3.45 to 4.7 cycles (H200, docs/choosing.md)."""


class ArrayFacts(Struct, frozen=True):
    """The facts about an array argument that a dispatch can use. The address of the array is a multiple of `align`
    bytes."""

    shape: tuple[int, ...]
    dtype: str
    align: int = 16
    strides: tuple[int, ...] | None = None
    """The strides of a view, or the class of its strides (`stride_class`) if a kernel takes the array strided. The
    field is None for row-major arrays, which examples make."""
    is_far: bool = False
    """Whether an offset between two elements of the array may exceed 32 bits."""

    @property
    def steps(self) -> Sequence[int]:
        """The strides in elements, also of row-major arrays."""
        from dsl.lowering.layouts.layout import row_major  # a call from the compile cache does without layouts

        return self.strides or row_major(self.shape)

    @property
    def bytes(self) -> int:
        """The size of all elements in bytes."""
        return prod(self.shape) * element_type(self.dtype).bytes

    @property
    def turned(self) -> ArrayFacts:
        """The facts of the transposed array `x.T`."""
        strides = tuple(self.steps)
        return replace(self, shape=self.shape[::-1], strides=strides[::-1])

    @property
    def neighbours(self) -> int | None:
        """The last axis with stride 1, along which elements are contiguous, or None if there is no such axis."""
        strides = self.steps
        return max((axis for axis, stride in enumerate(strides) if stride == 1), default=None)

    def is_contiguous(self, axis: int) -> bool:
        """Whether an axis has stride 1."""
        return self.steps[axis] == 1

    @property
    def rows_are_aligned(self) -> bool:
        """Whether the array and each of its rows begin at a multiple of 16 bytes. Here, a row is along the axis of
        stride 1."""
        near, strides = self.neighbours, self.steps
        pitches = [stride * element_type(self.dtype).bits // 8 for axis, stride in enumerate(strides) if axis != near]
        return near is not None and self.align % ROW == 0 and all(pitch % ROW == 0 for pitch in pitches)

    def pitched(self, near: int | None = None) -> tuple[int, ...]:
        """The strides of a copy of the array whose rows are padded to multiples of 64 bytes. Axis `near` of the copy is
        contiguous, by default the same axis as in the array."""
        if near is None:
            near = self.neighbours if self.neighbours is not None else len(self.shape) - 1
        order = [near, *(axis for axis in reversed(range(len(self.shape))) if axis != near)]
        strides, step, each = [0] * len(self.shape), 1, max(1, 8 * PITCH // element_type(self.dtype).bits)
        for axis in order:
            strides[axis] = step
            step *= max(1, self.shape[axis]) if axis != near else max(1, -(-self.shape[axis] // each)) * each
        return tuple(strides)


def element_type(name: str) -> DType:
    from dsl.lowering.ir.types import DTYPES

    return DTYPES[name]


class CallArray(ArrayFacts, frozen=True):
    """The facts about an array argument of a call, for the dispatch's expressions. `argument` is its name in the
    dispatch."""

    argument: str = ""

    @classmethod
    def of(cls, facts: ArrayFacts, argument: str) -> CallArray:
        return cls(**asdict(facts), argument=argument)


class Unknown:
    """A value that becomes known only when the program runs."""


UNKNOWN = Unknown()


def widened(*sides: Any) -> Any:
    """Returns the facts about the result of host arithmetic on arrays and numbers. If an array has float elements, the
    result has type f64 and the broadcast shape. Otherwise returns UNKNOWN."""
    arrays = [side for side in sides if isinstance(side, ArrayFacts)]
    numbers = [side for side in sides if isinstance(side, int | float) and not isinstance(side, bool)]
    if len(arrays) + len(numbers) < len(sides) or not any(element_type(a.dtype).is_float for a in arrays):
        return UNKNOWN
    shape: list[int] = []
    for axis in range(1, max(len(a.shape) for a in arrays) + 1):
        extents = {a.shape[-axis] for a in arrays if axis <= len(a.shape)} - {1} or {1}
        if len(extents) > 1:
            return UNKNOWN
        shape.insert(0, extents.pop())
    return ArrayFacts(tuple(shape), "f64") if shape else UNKNOWN
