"""Reads arrays of unknown frameworks through the CUDA array interface."""

from __future__ import annotations

from typing import Any

from dsl.runtime.arrays import Array, row_major
from dsl.runtime.frameworks.framework import Framework, dtype_name, element_strides, refuse

INTERFACE_LETTERS = {"i": "int", "u": "uint", "f": "float"}


class CudaArrayInterface(Framework):
    """Objects with `__cuda_array_interface__`, version 2 or 3. Numba's documentation defines this interface."""

    name = "cuda_array_interface"
    attribute = "__cuda_array_interface__"
    turn = 1
    foreign = True

    def describe(self, x: Any) -> Array:
        from dsl.runtime.cuda.memory import device_of_pointer

        interface = x.__cuda_array_interface__
        # A kernel would ignore the mask and compute with masked elements.
        if interface.get("mask") is not None:
            raise refuse(x, "with a mask cannot be passed to a kernel")
        order, letter, width = interface["typestr"][0], interface["typestr"][1], int(interface["typestr"][2:])
        numpy_name = "bool" if letter == "b" else f"{INTERFACE_LETTERS.get(letter, letter)}{width * 8}"
        dtype = dtype_name(x, numpy_name if order in "<|" else interface["typestr"])
        shape = tuple(interface["shape"])
        pointer, readonly = interface["data"]
        strides = interface.get("strides")
        elements = row_major(shape) if strides is None else element_strides(x, strides, width)
        # The null pointer of an empty array belongs to no device.
        device = device_of_pointer(pointer) if pointer else 0
        return Array(self.name, pointer, shape, elements, dtype, device, bool(readonly))

    def settle(self, x: Any) -> None:
        from dsl.runtime.cuda.memory import wait_for_stream

        stream = x.__cuda_array_interface__.get("stream")
        if stream is not None:
            wait_for_stream(self.device_of(x), stream)

    def device_of(self, x: Any) -> int:
        """Returns the CUDA ordinal of the array's device. Raises LaunchError for an array in host memory."""
        device = self.describe(x).device
        if device is None:
            raise refuse(x, "lies in host memory")
        return device
