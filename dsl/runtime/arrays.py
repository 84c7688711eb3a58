"""What a launch must know about an array of any framework: `frameworks.describe(x)` gives an `Array`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dsl.runtime.dtypes import DTYPES

HOST_ALIGNMENT = 16
"""A launch copies host memory to an address with the same remainder modulo this: numpy promises no larger alignment."""
MAX_ALIGNMENT = 256
"""Bytes: the alignment of `cuMemAlloc`."""
MOST_TRIED = 10_000
"""Most solutions that are tried to find a byte that two strided arrays share. The problem is NP-hard; this takes 15 ms
at most. Attention heads of one packed array take 3 µs in all."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array as a kernel sees it.

    `pointer` is the address of element (0, 0, …); `strides` count elements and may be negative; `dtype` is one of
    `dsl.runtime.dtypes.DTYPES`; `device` is the CUDA ordinal, None for host memory. `immutable`: arrays of its
    framework can never be written."""

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
        """The number of elements."""
        product = 1
        for extent in self.shape:
            product *= extent
        return product

    @property
    def span(self) -> tuple[int, int]:
        """The bytes that the elements occupy, relative to `pointer`: from (inclusive), to (exclusive)."""
        if not self.size:
            return 0, 0
        # Negative strides reach in front of element (0, 0, …).
        low, high = ends(self.shape, self.strides)
        return low * self.itemsize, (high + 1) * self.itemsize

    @property
    def reach(self) -> int:
        return reach(self.shape, self.strides)

    @property
    def alignment(self) -> int:
        """The largest power of two, at most 256, that divides the address that the kernel will get."""
        # A host array is copied to an address that keeps only the remainder modulo 16.
        if self.device is None and self.pointer % HOST_ALIGNMENT == 0:
            return MAX_ALIGNMENT
        return min(self.pointer & -self.pointer, MAX_ALIGNMENT) if self.pointer else MAX_ALIGNMENT

    @property
    def copy_offset(self) -> int:
        """Bytes to leave free before the span in a copy aligned to MAX_ALIGNMENT, so that `alignment` holds for the
        copy."""
        return (self.pointer % HOST_ALIGNMENT + self.span[0]) % MAX_ALIGNMENT

    @property
    def is_contiguous(self) -> bool:
        """Row-major without gaps. The stride of an axis with one element does not matter."""
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            # Frameworks give any stride to an axis of one element.
            if extent != 1 and stride != expected and self.size:
                return False
            expected *= extent
        return True

    @property
    def has_gaps(self) -> bool:
        """Whether the span may contain bytes that are not elements."""
        low, high = self.span
        return high - low != self.size * self.itemsize or self.may_overlap_itself

    @property
    def may_overlap_itself(self) -> bool:
        """True unless the strides alone prove that no two elements share an address."""
        reach = 0
        # From the smallest stride on: each stride must exceed everything that the smaller ones reach.
        axes = sorted((abs(stride), extent) for extent, stride in zip(self.shape, self.strides, strict=True))
        for stride, extent in axes:
            if extent > 1 and stride <= reach:
                return self.size > 0
            reach += (extent - 1) * stride
        return False


def share_memory(a: Array, b: Array, distance: int) -> bool | None:
    """Whether elements of both arrays share a byte, with `a` lying `distance` bytes behind `b`; None if that is too
    hard to decide. Reads no memory."""
    import numpy

    # numpy decides by shapes and strides alone.
    first, second = _Placed(a, distance), _Placed(b, 0)
    try:
        return bool(numpy.shares_memory(first, second, max_work=MOST_TRIED))  # type: ignore[arg-type]
    except numpy.exceptions.TooHardError:
        return None


class _Placed:
    """A stand-in for numpy: the array's shape and strides at an address of nothing."""

    def __init__(self, array: Array, distance: int) -> None:
        size = array.itemsize
        self.__array_interface__: dict[str, Any] = {
            # Half of the address space on each side: no span of either array wraps.
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
    """Offsets of the first and the last element, in elements, relative to element (0, 0, …)."""
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)


def occupied(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Number of elements from the first to the last, gaps included; strides are not negative."""
    return ends(shape, strides)[1] + 1 if 0 not in shape else 0


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The greatest number, in elements, that offsets are computed with: an extent, a stride, or the distance from
    element (0, 0, …) to another. A stride counts even if its axis has one element, since the kernel gets it as an
    argument."""
    low, high = ends(shape, strides) if 0 not in shape else (0, -1)
    return max(-low, high + 1, *shape, *map(abs, strides))


def host_view(array: Array, pointer: int) -> Any:
    """A one-dimensional numpy view of the bytes that a host array at `pointer` spans."""
    import numpy

    low, high = array.span
    # An empty array may have no memory at all.
    if low == high:
        return numpy.empty(0, numpy.uint8)
    return numpy.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(pointer + low))


def elements_in(image: Any, array: Array) -> Any:
    """A view of the elements in `image`, a one-dimensional numpy array of the bytes that an array spans."""
    import numpy

    if not array.has_gaps:
        return image
    size = array.itemsize
    steps = [stride * size for stride in array.strides]
    return numpy.ndarray(array.shape, f"V{size}", image, -array.span[0], steps)
