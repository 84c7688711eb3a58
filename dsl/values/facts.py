"""What is known of an array: its type, shape and place in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowering.types import DTYPES


@dataclass(frozen=True, slots=True)
class ArrayFacts:
    """What a dispatch knows of an array argument: shape, element type, and bytes that its pointer is a multiple of."""

    shape: tuple[int, ...]
    dtype: str
    align: int = 16
    strides: tuple[int, ...] | None = None
    """Of one that a kernel takes strided, their class (`stride_class`). None: row-major, as examples make them."""


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
