"""Encodes tensor maps by calling the driver (CUDA driver API, "Tensor Map Object Management")."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from dsl.runtime.cuda import driver
from dsl.runtime.cuda.context import Context
from dsl.runtime.tensor_map import MAP_PIECE, TensorMap

DATA_TYPES = {1: "UINT8", 2: "UINT16", 4: "UINT32", 8: "UINT64"}
"""Bytes of an element → the driver's type for copies. A copy only moves bits and fills with zeros, whose bits are 0 in
all types."""
TYPES = {"s32": "INT32", "s64": "INT64", "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64"}
"""Our element type → the driver's type. A map names the type for reductions, which compute with elements."""
SMALL = 1 << 17
"""Drivers up to version FAULTY set a wrong bit in the map of an array with fewer bytes than this number."""
FAULTY = 13010
SMALL_BIT = 1 << 21
"""The wrong bit. It is in the second word of a map."""


MOST_OBJECTS = 1024
_objects: dict[tuple[int, TensorMap], Any] = {}
"""(device, map) → the driver's object for this map. For another array, only the address in the object is replaced.
While a thread uses an object, the object is not in this dict, so that no two threads use the same object."""


def encode(context: Context, tensor_map: TensorMap, pointer: int) -> bytes:
    """Returns the 128 bytes of a tensor map for an array at the device address `pointer`. Raises DeviceError if the
    driver refuses the map."""
    cuda, key = driver.bindings(), (context.ordinal, tensor_map)
    made = _objects.pop(key, None)
    with context.current():  # the driver needs a current context even to replace an address
        if made is None:
            made = _encoded(context, tensor_map, pointer)
        else:  # replacing takes 8 µs, encoding 30 µs
            context.call(cuda.cuTensorMapReplaceAddress, made, pointer)
    words = [int(word) for word in made.opaque]
    if tensor_map.span < SMALL and driver_version() <= FAULTY:
        # These drivers set this bit for small arrays by mistake. Copies with this bit set may be wrong.
        words[1] &= ~SMALL_BIT
    if len(_objects) < MOST_OBJECTS:
        _objects[key] = made
    return struct.pack("<16Q", *words)


def driver_version() -> int:
    """Returns the CUDA version that the driver supports as a number: 13010 for CUDA 13.1."""
    code, version = driver.bindings().cuDriverGetVersion()
    return int(version) if code == driver.bindings().CUresult.CUDA_SUCCESS else 0


def _encoded(context: Context, tensor_map: TensorMap, pointer: int) -> Any:
    cuda, rank, window = driver.bindings(), len(tensor_map.extents), tensor_map.window
    strides = tensor_map.strides or (MAP_PIECE,)  # a map of one axis has no strides, but the driver needs a list
    swizzle = f"{tensor_map.swizzle}B" if tensor_map.swizzle else "NONE"
    encode, box = cuda.cuTensorMapEncodeTiled, _numbers(tensor_map.box)
    parts: tuple[Any, ...] = (box, _numbers((1,) * rank))
    if window is not None:
        # The manual lists the corners as D, H, W. CUTLASS passes W, H, D: innermost first, like all other arguments.
        encode, parts = cuda.cuTensorMapEncodeIm2col, (list(window.lower), list(window.upper), *box)
        parts += (_numbers((1, *window.steps, 1)),)
    return context.call(
        encode,
        _word("DataType", TYPES.get(tensor_map.type) or DATA_TYPES[tensor_map.element_bytes]),
        rank,
        pointer,
        [cuda.cuuint64_t(extent) for extent in tensor_map.extents],
        [cuda.cuuint64_t(stride) for stride in strides],
        *parts,
        _word("Interleave", "NONE"),
        _word("Swizzle", swizzle),
        # Reads of global memory fetch whole 128-byte lines into the L2.
        _word("L2promotion", "L2_128B"),
        # Elements outside the array are read as zeros, not as NaN.
        _word("FloatOOBfill", "NONE"),
    )


def _numbers(values: Iterable[int]) -> list[Any]:
    return [driver.bindings().cuuint32_t(value) for value in values]


PREFIXES = {
    "DataType": "DATA_TYPE",
    "Interleave": "INTERLEAVE",
    "Swizzle": "SWIZZLE",
    "L2promotion": "L2_PROMOTION",
    "FloatOOBfill": "FLOAT_OOB_FILL",
}
"""Enumeration of the driver for tensor maps → the prefix of its members."""


def _word(enumeration: str, name: str) -> Any:
    words = getattr(driver.bindings(), f"CUtensorMap{enumeration}")
    return getattr(words, f"CU_TENSOR_MAP_{PREFIXES[enumeration]}_{name}")
