"""What is known of an array: its type, shape and place in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lowering.layout import row_major
from lowering.types import DTYPES


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """What a dispatch knows of an array argument: shape, element type, and bytes that its pointer is a multiple of."""

    shape: tuple[int, ...]
    dtype: str
    align: int = 16
    strides: tuple[int, ...] | None = None
    """Of a view, or their class (`stride_class`) where a kernel takes it strided. None: row-major, as examples make
    them."""
    is_far: bool = False
    """Whether 32 bits do not count from one of its elements to all others."""

    @property
    def turned(self) -> ArrayFacts:
        """`x.T`."""
        strides = tuple(self.strides or row_major(self.shape))
        return replace(self, shape=self.shape[::-1], strides=strides[::-1])


class Unknown:
    """A value that only a run has."""


UNKNOWN = Unknown()


def widened(*sides: Any) -> Any:
    """What a host's arithmetic makes of arrays and numbers, of which one is an array of floats: f64, broadcast."""
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
