"""Tensor maps as the driver encodes them (CUDA driver API, "Tensor Map Object Management")."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

from dsl.runtime.cuda import driver
from dsl.runtime.cuda.context import Context
from dsl.runtime.tensor_map import MAP_PIECE, TensorMap

DATA_TYPES = {1: "UINT8", 2: "UINT16", 4: "UINT32", 8: "UINT64"}
"""Bytes of an element → the driver's type. A copy moves bits and fills with zeros, which have 0 bits in all types."""
TYPES = {"s32": "INT32", "s64": "INT64", "f16": "FLOAT16", "bf16": "BFLOAT16", "f32": "FLOAT32", "f64": "FLOAT64"}
"""Types of elements that a map names because reductions compute with them."""
SMALL = 1 << 17
"""Bytes of an array below which drivers up to FAULTY set a wrong bit."""
FAULTY = 13010
SMALL_BIT = 1 << 21
"""The wrong bit, in the second word of a map."""


MOST_OBJECTS = 1024
_objects: dict[tuple[int, TensorMap], Any] = {}
"""By device and map, the driver's latest object: for another array only its address is replaced. A thread that uses an
object takes it out, so that no two threads have the same one."""


def encode(context: Context, tensor_map: TensorMap, pointer: int) -> bytes:
    """The 128 bytes of a map of the array at `pointer` on the context's device. Raises DeviceError."""
    cuda, key = driver.bindings(), (context.ordinal, tensor_map)
    made = _objects.pop(key, None)
    with context.current():  # without a context the driver even refuses to replace an address
        if made is None:
            made = _encoded(context, tensor_map, pointer)
        else:  # 8 µs; encoding takes 30 µs
            context.call(cuda.cuTensorMapReplaceAddress, made, pointer)
    words = [int(word) for word in made.opaque]
    if tensor_map.span < SMALL and driver_version() <= FAULTY:
        # A fault of these drivers: they set this bit for small arrays, and copies by such maps may be wrong.
        words[1] &= ~SMALL_BIT
    if len(_objects) < MOST_OBJECTS:
        _objects[key] = made
    return struct.pack("<16Q", *words)


def driver_version() -> int:
    """The driver's CUDA version as a number: 13010 for CUDA 13.1."""
    code, version = driver.bindings().cuDriverGetVersion()
    return int(version) if code == driver.bindings().CUresult.CUDA_SUCCESS else 0


def _encoded(context: Context, tensor_map: TensorMap, pointer: int) -> Any:
    """The driver's object for a new map."""
    cuda, rank, window = driver.bindings(), len(tensor_map.extents), tensor_map.window
    strides = tensor_map.strides or (MAP_PIECE,)  # one axis has no stride, and the driver refuses an empty list
    swizzle = f"{tensor_map.swizzle}B" if tensor_map.swizzle else "NONE"
    encode, box = cuda.cuTensorMapEncodeTiled, _numbers(tensor_map.box)
    parts: tuple[Any, ...] = (box, _numbers((1,) * rank))
    if window is not None:
        # The manual lists the corners as D, H, W, but CUTLASS passes W, H, D: innermost first, like everything else.
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
        # Reads of global memory fetch whole lines of 128 bytes into the L2.
        _word("L2promotion", "L2_128B"),
        # Outside of the array are zeros, not NaN.
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
"""The driver's enumerations of a map → the prefixes of their members."""


def _word(enumeration: str, name: str) -> Any:
    words = getattr(driver.bindings(), f"CUtensorMap{enumeration}")
    return getattr(words, f"CU_TENSOR_MAP_{PREFIXES[enumeration]}_{name}")
