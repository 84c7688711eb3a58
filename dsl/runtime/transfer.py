"""Copies host arrays to a device, and passes them to other frameworks without a copy."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dsl.runtime.capsules import DlpackExport
from dsl.runtime.cuda.memory import DeviceArray
from dsl.runtime.errors import LaunchError
from dsl.runtime.frameworks import describe


def to_device(x: Any, device: int = 0) -> DeviceArray:
    """Copies a host array (numpy, torch on the CPU, …) to a new DeviceArray with the same strides.

    The array must have no gaps, but its axes may be in any order, as in `x.T`. Raises LaunchError `array` for other
    arrays."""
    array = describe(x)
    # If the axes are sorted by stride, the largest first, the array must be row-major.
    axes = sorted(range(len(array.shape)), key=lambda axis: -array.strides[axis])
    shape, strides = (tuple(of[axis] for axis in axes) for of in (array.shape, array.strides))
    if array.device is not None or not (
        array.is_contiguous or replace(array, shape=shape, strides=strides).is_contiguous
    ):
        raise LaunchError("array", "to_device takes an array in host memory without gaps, its axes in any order")
    copy = DeviceArray(array.shape, array.dtype, device)
    copy.allocation.copy_in(array.pointer, copy.allocation.size)
    return copy if array.is_contiguous else copy.lying(array.strides)


def by_dlpack(x: Any) -> DlpackExport:
    """Returns an object that `from_dlpack` of torch, CuPy, JAX and numpy take, without a copy, for a host array of any
    element type. numpy exports no types of ml_dtypes, such as the bf16 of an output of the emulator.

    Raises LaunchError `array` for an array in device memory: it offers `__dlpack__` itself."""
    array = describe(x)
    if array.device is not None:
        raise LaunchError("array", "by_dlpack takes an array in host memory", "from_dlpack takes a device array itself")
    return DlpackExport(array, x)
