"""Makes numpy arrays of the language's element types, widens them for arithmetic, and narrows the results."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from dsl.lowering.ir.types import DTYPES, DType
from dsl.lowering.machine.formats import float_to_int, from_fp8, int_to_int, load, nearest, store, to_fp8

# numpy has no bf16, e4m3 and e5m2. Here these types are structured types whose only field holds the bits. Arrays of
# them can be sliced, copied and passed to a kernel. numpy refuses arithmetic on such arrays, so that bits are never
# mistaken for numbers.
BF16 = np.dtype([("bf16", np.uint16)])
FP8 = {name: np.dtype([(name, np.uint8)]) for name in ("e4m3", "e5m2")}
POISON = 0xA5
"""The value of every byte of an integer array that `empty` makes. Floats are NaN instead, and i1 is true."""
CHUNK = 1 << 22
"""The number of elements that are made or converted at once. As float64, these elements take 32 MB. All elements of an
array at once could exceed memory."""

_NUMPY: dict[str, np.dtype] = {
    "i1": np.dtype(np.bool_), "s8": np.dtype(np.int8), "s16": np.dtype(np.int16), "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64), "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "f16": np.dtype(np.float16), "bf16": BF16, "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64), "index": np.dtype(np.int64), **FP8,
}  # fmt: skip
_OURS = {dtype: name for name, dtype in _NUMPY.items() if name != "index"}
_ELSEWHERE = {"bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
"""ml_dtypes' names of element types that numpy lacks, and the language's names of the same types."""


def numpy_type(dtype: DType) -> np.dtype:
    """Returns the numpy dtype of an element type."""
    return _NUMPY[dtype.name]


def element_type(array: np.ndarray) -> DType | None:
    """Returns the language's element type for a numpy array, or None if the language has no such type."""
    name = _ELSEWHERE.get(array.dtype.name) or _OURS.get(array.dtype)
    return None if name is None else DTYPES[name]


def widen(array: np.ndarray) -> np.ndarray:
    """Converts an array to float64, int64 or bool. The result is uint64 if a value does not fit in int64. Raises
    TypeError for an array whose type the language lacks."""
    if array.dtype == BF16:
        with np.errstate(invalid="ignore"):  # Converting a signalling NaN would warn.
            return load(array["bf16"], DTYPES["bf16"]).astype(np.float64)
    for name, structured in FP8.items():
        if array.dtype == structured:
            return from_fp8(array[name], DTYPES[name]).astype(np.float64)
    if array.dtype.kind == "f" or array.dtype.name in _ELSEWHERE:
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "b":
        return array
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.int64, copy=False)
    raise TypeError(f"an array of {array.dtype} is none of the language")


def narrow(values: np.ndarray, dtype: DType, saturate: bool = False) -> np.ndarray:
    """Converts widened values to elements of `dtype`.

    Floats round to nearest even. A float that is converted to an integer loses its fraction and is clamped, and NaN
    becomes 0. An integer that does not fit wraps around, or is clamped with `saturate`."""
    to = numpy_type(dtype)
    if dtype.kind == "bool":
        return values != 0
    if dtype.name == "bf16":
        out = np.empty(values.shape, BF16)
        # Our own rounding is used, since ml_dtypes 0.6.0 converts through float32 and so rounds twice: it turns
        # 1 + 2^-8 + 2^-40 into 1.0.
        out["bf16"] = np.where(
            np.isnan(values), 0x7FC0, store(nearest(values.astype(np.float64, copy=False), dtype), dtype)
        )
        return out
    if dtype.name in FP8:
        out = np.empty(values.shape, to)
        out[dtype.name] = to_fp8(values, dtype)
        return out
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return values.astype(to)
    if values.dtype.kind == "f":
        return float_to_int(values, to, None)
    return int_to_int(values, dtype, to, saturate and values.dtype.kind != "b")


def fill(shape: tuple[int, ...], dtype: DType, draw: Any) -> np.ndarray:
    """Makes an array. `draw(n)` returns the next n elements in row-major order, as float64 or integers."""
    out = np.empty(prod(shape), numpy_type(dtype))
    for start in range(0, out.size, CHUNK):
        part = out[start : start + CHUNK]
        part[...] = narrow(draw(part.size), dtype)
    return out.reshape(shape)


def poisoned(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Makes an array filled with values that mark unwritten elements: NaN for floats, true for i1, and bytes of 0xA5
    for integers."""
    out = np.empty(shape, numpy_type(dtype))
    if dtype.kind == "bool":
        out[...] = True
    elif dtype.has_fractions:
        out[...] = narrow(np.array(np.nan), dtype)
    else:
        out.reshape(-1).view(np.uint8)[...] = POISON
    return out
