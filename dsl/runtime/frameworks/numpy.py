"""Reads numpy's arrays, which are in host memory."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from typing import Any

from dsl.runtime.arrays import Array
from dsl.runtime.dtypes import BIT_FIELDS, DTYPES, numpy_dtype
from dsl.runtime.frameworks.framework import Framework, dtype_name, element_strides, refuse


class Numpy(Framework):
    name = "numpy"
    modules = ("numpy",)
    types = ("ndarray", "memmap")
    closed = True

    def probe(self, x: Any) -> tuple[int, Hashable]:
        return x.ctypes.data, (self.name, x.dtype, x.shape, x.strides, x.flags.writeable)

    def describe(self, x: Any) -> Array:
        # A type that numpy lacks is either a type of ml_dtypes or a structure, which needs no other package. The
        # structure has one integer field, and the name of the field is the name of the type.
        field = x.dtype.names[0] if x.dtype.names and len(x.dtype.names) == 1 else ""
        bits = field in BIT_FIELDS and x.dtype[0].name == BIT_FIELDS[field]
        dtype = field if bits else dtype_name(x, x.dtype.name)
        if not x.dtype.isnative:
            raise refuse(
                x, "in the other byte order cannot be passed to a kernel", "x.astype(x.dtype.newbyteorder('='))"
            )
        strides = element_strides(x, x.strides, DTYPES[dtype].bytes)
        return Array(self.name, x.ctypes.data, x.shape, strides, dtype, None, not x.flags.writeable)

    def clear(self, x: Any) -> None:
        # Zeroing bytes needs no conversion to the types of ml_dtypes.
        x.reshape(-1).view("uint8")[...] = 0

    def empty(self, x: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return sys.modules["numpy"].empty(shape, numpy_dtype(dtype))

    def lying(self, x: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        return sys.modules["numpy"].lib.stride_tricks.as_strided(x, shape, [step * x.itemsize for step in strides])
