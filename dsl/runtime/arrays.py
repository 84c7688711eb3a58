"""Describes arrays of any framework by their address, shape, strides and type. `frameworks.describe(x)` returns the
`Array` that describes `x`."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

from msgspec import Struct

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


class Array(Struct, frozen=True):
    """Everything that a launch needs to know about an array.

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
        """The byte range from the lowest to the highest element, as (begin, end) relative to `pointer`. `end` is
        exclusive. With negative strides, `begin` is negative."""
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
        """The largest power of two, at most 256, that divides the address that the kernel gets."""
        # For a host array, the kernel gets the address of a copy. This address modulo 256 is `pointer % 16`.
        if self.device is None and self.pointer % HOST_ALIGNMENT == 0:
            return MAX_ALIGNMENT
        return min(self.pointer & -self.pointer, MAX_ALIGNMENT) if self.pointer else MAX_ALIGNMENT

    @property
    def copy_offset(self) -> int:
        """The number of unused bytes before the elements if a launch copies this host array. The memory of the copy is
        aligned to MAX_ALIGNMENT. This offset gives the copy the alignment that `alignment` returns."""
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
        """Whether `span` may contain bytes that belong to no element."""
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
    """Returns whether an element of `a` and an element of `b` have a byte in common. `distance` is the pointer of `a`
    minus the pointer of `b`.

    Returns None if MOST_TRIED trials do not decide the question. Reads no elements."""
    import numpy

    # numpy needs only the shapes, the strides and the addresses.
    first, second = _Placed(a, distance), _Placed(b, 0)
    try:
        return bool(numpy.shares_memory(first, second, max_work=MOST_TRIED))  # type: ignore[arg-type]
    except numpy.exceptions.TooHardError:
        return None


class _Placed:
    """An object that numpy accepts as an array. It has the shape and the strides of `array`, but no memory."""

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
    """Returns the strides, in elements, of a row-major array. For the shape (2, 3, 4) they are (12, 4, 1)."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def ends(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """Returns the lowest and the highest offset that an element has from element (0, 0, …). Offsets are in elements."""
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)]
    return sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)


def occupied(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Returns the number of elements, including gaps, from the first to the last element in memory. Strides must not be
    negative."""
    return ends(shape, strides)[1] + 1 if 0 not in shape else 0


def reach(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Returns the largest number, in elements, that can occur in a kernel's offset computations.

    This number is an extent, a stride, or the distance from element (0, 0, …) to another element. Strides of axes with
    one element are included, because the kernel gets them as arguments."""
    low, high = ends(shape, strides) if 0 not in shape else (0, -1)
    return max(-low, high + 1, *shape, *map(abs, strides))


def host_view(array: Array, pointer: int) -> Any:
    """Returns all bytes from the lowest to the highest element of a host array, as a one-dimensional numpy view.
    `pointer` is the address of element (0, 0, …)."""
    import numpy

    low, high = array.span
    # An empty array may have no memory at all.
    if low == high:
        return numpy.empty(0, numpy.uint8)
    return numpy.ctypeslib.as_array((ctypes.c_uint8 * (high - low)).from_address(pointer + low))


def elements_in(image: Any, array: Array) -> Any:
    """Returns a numpy view of the elements of `array` in `image`. `image` is a one-dimensional array of all bytes from
    the lowest to the highest element."""
    import numpy

    if not array.has_gaps:
        return image
    size = array.itemsize
    steps = [stride * size for stride in array.strides]
    return numpy.ndarray(array.shape, f"V{size}", image, -array.span[0], steps)
