"""What a launch must know of an array, whatever framework it belongs to: `frameworks.describe(x)` gives an `Array`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dsl.runtime.dtypes import DTYPES

HOST_ALIGNMENT = 16
"""Host memory is copied for a launch to an address with the same remainder modulo this: numpy promises no more."""
MAX_ALIGNMENT = 256
"""Bytes; what `cuMemAlloc` promises."""
MOST_TRIED = 10_000
"""Solutions that are tried for a byte of two arrays with strides, as the question is NP-hard: 15 ms at most. Heads of
one packed array take 3 µs in all."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array as a kernel sees it.

    `pointer` is the address of element (0, 0, …); `strides` count elements and may be negative; `dtype` is one of
    `dsl.runtime.dtypes.DTYPES`; `device` is the CUDA ordinal, None in host memory. `immutable`: no array of its
    framework can be written.
    """

    framework: str
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int | None
    readonly: bool = False
    immutable: bool = False

    @property
    def itemsize(self) -> int:
        return DTYPES[self.dtype].bytes

    @property
    def size(self) -> int:
        """Elements."""
        product = 1
        for extent in self.shape:
            product *= extent
        return product

    @property
    def span(self) -> tuple[int, int]:
        """The bytes that the elements occupy, relative to `pointer`: from (inclusive), to (exclusive)."""
        if not self.size:
            return 0, 0
        low, high = ends(self.shape, self.strides)
        return low * self.itemsize, (high + 1) * self.itemsize

    @property
    def reach(self) -> int:
        return reach(self.shape, self.strides)

    @property
    def alignment(self) -> int:
        """The largest power of two, at most 256, that divides the address that the kernel will get."""
        if self.device is None and self.pointer % HOST_ALIGNMENT == 0:
            return MAX_ALIGNMENT
        return min(self.pointer & -self.pointer, MAX_ALIGNMENT) if self.pointer else MAX_ALIGNMENT

    @property
    def copy_offset(self) -> int:
        """Bytes to leave before the span in a copy aligned to MAX_ALIGNMENT, so that `alignment` holds for the copy."""
        return (self.pointer % HOST_ALIGNMENT + self.span[0]) % MAX_ALIGNMENT

    @property
    def is_contiguous(self) -> bool:
        """Row-major without gaps. The stride of an axis of one element does not matter."""
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if extent != 1 and stride != expected and self.size:
                return False
            expected *= extent
        return True

    @property
    def has_gaps(self) -> bool:
        """Whether its span may hold more than its elements."""
        low, high = self.span
        return high - low != self.size * self.itemsize or self.may_overlap_itself

    @property
    def may_overlap_itself(self) -> bool:
        """True unless the strides alone show that no two elements share an address."""
        reach = 0
        axes = sorted((abs(stride), extent) for extent, stride in zip(self.shape, self.strides, strict=True))
        for stride, extent in axes:
            if extent > 1 and stride <= reach:
                return self.size > 0
            reach += (extent - 1) * stride
        return False


def share_memory(a: Array, b: Array, distance: int) -> bool | None:
    """Whether a byte belongs to elements of both, with `a` so many bytes behind `b`; None where that is too hard to
    tell. No memory is touched."""
    import numpy

    first, second = _Placed(a, distance), _Placed(b, 0)
    try:
        return bool(numpy.shares_memory(first, second, max_work=MOST_TRIED))  # type: ignore[arg-type]
    except numpy.exceptions.TooHardError:
        return None


class _Placed:
    """An array for numpy, at an address that stands for its own."""

    def __init__(self, array: Array, distance: int) -> None:
        size = array.itemsize
        self.__array_interface__: dict[str, Any] = {
            "data": ((1 << 62) + distance, True),
            "shape": array.shape,
            "strides": tuple(stride * size for stride in array.strides),
            "typestr": f"|V{size}",
            "version": 3,
        }


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements of a row-major array: (2, 3, 4) → (12, 4, 1)."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def ends(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Where the first and the last of some elements lie, from element (0, 0, …)."""
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)


def occupied(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first to the last, with what lies between; strides are not negative."""
    return ends(shape, strides)[1] + 1 if 0 not in shape else 0


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The greatest number, in elements, that offsets are reckoned with: an extent, a stride, or the way from element
    (0, 0, …) to another. A stride counts where its axis has one element, too: a kernel takes it."""
    low, high = ends(shape, strides) if 0 not in shape else (0, -1)
    return max(-low, high + 1, *shape, *map(abs, strides))


def host_view(array: Array, pointer: int) -> Any:
    """A one-dimensional numpy array of the bytes that a host array at `pointer` spans, not a copy."""
    import numpy

    low, high = array.span
    if low == high:
        return numpy.empty(0, numpy.uint8)
    return numpy.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(pointer + low))


def elements_in(image: Any, array: Array) -> Any:
    """Of bytes that an array spans, one-dimensional in numpy, those of its elements: a view."""
    import numpy

    if not array.has_gaps:
        return image
    size = array.itemsize
    steps = [stride * size for stride in array.strides]
    return numpy.ndarray(array.shape, f"V{size}", image, -array.span[0], steps)
