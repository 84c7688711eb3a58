"""Host arrays copied to a device."""

from __future__ import annotations

from typing import Any

from runtime.cuda.memory import DeviceArray
from runtime.errors import LaunchError
from runtime.frameworks import describe


def to_device(x: Any, device: int = 0) -> DeviceArray:
    """Copies a row-major host array (numpy, torch on the CPU, …) to a new DeviceArray."""
    array = describe(x)
    if array.device is not None or not array.is_contiguous:
        raise LaunchError("array", "to_device takes a row-major array in host memory")
    copy = DeviceArray(array.shape, array.dtype, device)
    copy.allocation.copy_in(array.pointer, copy.allocation.size)
    return copy
