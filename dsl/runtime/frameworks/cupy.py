"""Reads CuPy's arrays."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import Any

from dsl.runtime.arrays import Array
from dsl.runtime.dtypes import DTYPES, numpy_dtype
from dsl.runtime.frameworks.framework import Framework, Recogniser, dtype_name, element_strides


class CuPy(Framework):
    name = "cupy"
    modules = ("cupy",)
    types = ("ndarray",)

    def probe(self, x: Any) -> tuple[int, Hashable]:
        memory = x.data
        return memory.ptr, (x.dtype, x.shape, x.strides, memory.device_id)

    @staticmethod
    def reader(arrays: Sequence[Any], pointers: list[Any], signatures: list[Any]) -> None:
        for x in arrays:
            memory = x.data
            pointers.append(memory.ptr)
            signatures.append((x.dtype, x.shape, x.strides, memory.device_id))

    def recogniser(self, arrays: Sequence[Any]) -> Recogniser:
        # The recogniser makes one C call for each array. CuPy builds a tuple at each access to the strides. If the
        # arrays are contiguous, a flag gives the same information.
        contiguous = all(getattr(x, "_c_contiguous", False) for x in arrays)
        signature = attrgetter("dtype", "shape", "_c_contiguous" if contiguous else "strides", "data.device_id")
        known = [*map(signature, arrays)]
        return lambda *others: [*map(signature, others)] == known

    def pointer(self) -> Callable[[Any], int]:
        return attrgetter("data.ptr")

    def describe(self, x: Any) -> Array:
        dtype = dtype_name(x, x.dtype.name)
        strides = element_strides(x, x.strides, DTYPES[dtype].bytes)
        return Array(self.name, x.data.ptr, x.shape, strides, dtype, x.data.device_id)

    def current_stream(self) -> Callable[[int], int]:
        get = sys.modules["cupy"].cuda.get_current_stream
        return lambda device: get(device).ptr

    def clear(self, x: Any) -> None:
        x.data.memset_async(0, x.nbytes)  # this uses the current stream

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        cupy = sys.modules["cupy"]
        # CuPy allocates on the current device.
        with cupy.cuda.Device(x.data.device_id):
            return cupy.empty(shape, numpy_dtype(dtype))

    def lying(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return sys.modules["cupy"].lib.stride_tricks.as_strided(x, shape, [step * x.itemsize for step in strides])
