"""What a launch must know of an array, whatever framework it belongs to: `frameworks.describe(x)` gives an `Array`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runtime.dtypes import DTYPES

HOST_ALIGNMENT = 16
"""Host memory is copied for a launch to an address with the same remainder modulo this: numpy promises no more."""
MAX_ALIGNMENT = 256
"""Bytes; what `cuMemAlloc` promises."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array as a kernel sees it.

    `pointer` is the address of element (0, 0, …); `strides` count elements and may be negative; `dtype` is one of
    `runtime.dtypes.DTYPES`; `device` is the CUDA ordinal, None in host memory. `immutable`: no array of its framework
    can be written.
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
    def may_overlap_itself(self) -> bool:
        """True unless the strides alone show that no two elements share an address."""
        reach = 0
        axes = sorted((abs(stride), extent) for extent, stride in zip(self.shape, self.strides, strict=True))
        for stride, extent in axes:
            if extent > 1 and stride <= reach:
                return self.size > 0
            reach += (extent - 1) * stride
        return False


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
