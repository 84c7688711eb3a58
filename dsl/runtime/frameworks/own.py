"""Reads the runtime's own device arrays, which are for callers without a GPU framework."""

from __future__ import annotations

from typing import Any

from dsl.runtime.arrays import Array
from dsl.runtime.frameworks.framework import Framework


class OwnArrays(Framework):
    """Arrays of the class `dsl.runtime.cuda.memory.DeviceArray`."""

    name = "dsl"
    modules = ("dsl",)
    types = ("DeviceArray",)

    def describe(self, x: Any) -> Array:
        return x.array

    def clear(self, x: Any) -> None:
        x.allocation.clear()

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return type(x)(shape, dtype, x.array.device)

    def lying(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return x.lying(strides, shape)
