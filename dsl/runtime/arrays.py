"""The facts that a launch needs about an array of any framework. `frameworks.describe(x)` returns them as an
`Array`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from dsl.runtime.dtypes import DTYPES

HOST_ALIGNMENT = 16
"""A number of bytes. A launch copies a host array to a device address with the same remainder modulo this number. The
number is 16 because numpy guarantees no larger alignment."""
MAX_ALIGNMENT = 256
"""Alignment in bytes of the memory that `cuMemAlloc` returns."""
MOST_TRIED = 10_000
"""The search for a byte that two strided arrays share tries at most this number of solutions. The problem is NP-hard,
and with this limit the search takes at most 15 ms. For attention heads of one packed array, the search takes 3 µs in
all."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array as a kernel sees it.

    `pointer` is the address of element (0, 0, …). `strides` are in elements and may be negative. `dtype` is a name in
    `dsl.runtime.dtypes.DTYPES`. `device` is the CUDA ordinal, or None for host memory. `immutable` is True if arrays of
    this framework can never be written."""

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
        return prod(self.shape)

    @property
    def span(self) -> tuple[int, int]:
        """The range of bytes from the first to the last element, relative to `pointer`: begin (inclusive) and end
        (exclusive)."""
        if not self.size:
            return 0, 0
        # With negative strides the range begins before element (0, 0, …).
        low, high = ends(self.shape, self.strides)
        return low * self.itemsize, (high + 1) * self.itemsize

    @property
    def reach(self) -> int:
        return reach(self.shape, self.strides)

    @property
    def alignment(self) -> int:
        """The largest power of two, at most 256, that divides the address passed to the kernel."""
        # For a host array, the kernel gets the address of a copy. This address modulo 256 is `pointer % 16`.
        if self.device is None and self.pointer % HOST_ALIGNMENT == 0:
            return MAX_ALIGNMENT
        return min(self.pointer & -self.pointer, MAX_ALIGNMENT) if self.pointer else MAX_ALIGNMENT

    @property
    def copy_offset(self) -> int:
        """Number of unused bytes before the span in a copy that is aligned to MAX_ALIGNMENT. With this offset, the copy
        has the alignment that `alignment` returns."""
        return (self.pointer % HOST_ALIGNMENT + self.span[0]) % MAX_ALIGNMENT

    @property
    def is_contiguous(self) -> bool:
        """Whether the array is row-major without gaps. The stride of an axis with one element does not matter."""
        expected = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            # Frameworks may give an axis of one element any stride.
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
        """False if the strides alone prove that no two elements share an address, and True otherwise."""
        reach = 0
        # Axes in the order of their strides. Each stride must exceed the distance covered by all smaller strides.
        axes = sorted((abs(stride), extent) for extent, stride in zip(self.shape, self.strides, strict=True))
        for stride, extent in axes:
            if extent > 1 and stride <= reach:
                return self.size > 0
            reach += (extent - 1) * stride
        return False


def share_memory(a: Array, b: Array, distance: int) -> bool | None:
    """Whether an element of `a` and an element of `b` share a byte if `a` starts `distance` bytes after `b`.

    The result None means that the question is too hard to decide. The function reads no memory."""
    import numpy

    # numpy needs only the shapes, the strides and the addresses.
    first, second = _Placed(a, distance), _Placed(b, 0)
    try:
        return bool(numpy.shares_memory(first, second, max_work=MOST_TRIED))  # type: ignore[arg-type]
    except numpy.exceptions.TooHardError:
        return None


class _Placed:
    """A stand-in that numpy accepts as an array. The stand-in has the shape and the strides of `array`, but no
    memory."""

    def __init__(self, array: Array, distance: int) -> None:
        size = array.itemsize
        self.__array_interface__: dict[str, Any] = {
            # An address far from both ends of the address space: no span of either array wraps.
            "data": ((1 << 62) + distance, True),
            "shape": array.shape,
            "strides": tuple(stride * size for stride in array.strides),
            "typestr": f"|V{size}",
            "version": 3,
        }


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a row-major array in elements: (2, 3, 4) → (12, 4, 1)."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def ends(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """The lowest and the highest offset of an element, in elements, relative to element (0, 0, …)."""
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)


def occupied(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Number of elements from the first to the last, including gaps. Strides must not be negative."""
    return ends(shape, strides)[1] + 1 if 0 not in shape else 0


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """The largest number that occurs in a kernel's offset computations, in elements.

    The number is an extent, a stride, or the distance from element (0, 0, …) to another element. The stride of an axis
    with one element counts, too, because the kernel gets this stride as an argument."""
    low, high = ends(shape, strides) if 0 not in shape else (0, -1)
    return max(-low, high + 1, *shape, *map(abs, strides))


def host_view(array: Array, pointer: int) -> Any:
    """A one-dimensional numpy view of all bytes that a host array spans. `pointer` is the address of the array."""
    import numpy

    low, high = array.span
    # An empty array may have no memory at all.
    if low == high:
        return numpy.empty(0, numpy.uint8)
    return numpy.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(pointer + low))


def elements_in(image: Any, array: Array) -> Any:
    """A view of the array's elements in `image`. `image` is a one-dimensional numpy array of the bytes that the array
    spans."""
    import numpy

    if not array.has_gaps:
        return image
    size = array.itemsize
    steps = [stride * size for stride in array.strides]
    return numpy.ndarray(array.shape, f"V{size}", image, -array.span[0], steps)
