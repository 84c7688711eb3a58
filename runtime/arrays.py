"""What a launch must know of an array, whatever framework it belongs to: `describe(x)` gives an `Array`.

torch, CuPy, JAX and numpy arrays are read by their own attributes; anything else by `__cuda_array_interface__` or
DLPack. No framework is imported that the caller has not imported: they are told by the module of the type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from runtime.dtypes import DTYPES

HOST_ALIGNMENT = 16
"""Host memory is copied for a launch to an address with the same remainder modulo this: numpy promises no more."""
MAX_ALIGNMENT = 256
"""Bytes; what `cuMemAlloc` promises."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array as a kernel sees it.

    `pointer` is the address of element (0, 0, …); `strides` count elements and may be negative; `dtype` is one of
    `runtime.dtypes.DTYPES`; `device` is the CUDA ordinal, None in host memory.
    """

    framework: str
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int | None
    readonly: bool = False

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
        steps = [(extent - 1) * stride for extent, stride in zip(self.shape, self.strides, strict=True)]
        low, high = sum(step for step in steps if step < 0), sum(step for step in steps if step > 0)
        return low * self.itemsize, (high + 1) * self.itemsize

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


def describe(x: Any) -> Array:
    """The Array of any supported array. Raises LaunchError `array` for what is none or cannot be passed."""
    from runtime.frameworks import framework_of

    return framework_of(x).describe(x)


def is_array(x: Any) -> bool:
    """Whether `describe` may take it (a number or a list is none)."""
    from runtime.frameworks import find_framework

    return find_framework(type(x)) is not None


def finish_like(x: Any, made: Any) -> Any:
    """What `empty_like(x, …)` made, once launches have written it, as an array of the framework of `x`."""
    from runtime.frameworks import framework_of

    return framework_of(x).finish(made)


def empty_like(x: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """A new uninitialised row-major array of the framework and device of `x`, for an output that was not given.

    JAX arrays cannot be written: for them it is a stand-in, until `finish_like`. Raises LaunchError `output` where
    none can be made (interface only).
    """
    from runtime.frameworks import framework_of

    return framework_of(x).empty(x, tuple(shape), dtype)
