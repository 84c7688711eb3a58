"""Arrays of the language's element types in numpy: how they are made, widened for arithmetic and narrowed again.

numpy has no bf16, e4m3 and e5m2. Here they are structured types of one field of their bits: they can be cut, copied and
passed to a kernel, and numpy refuses to calculate with them, so that bits are never taken for numbers.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from dsl.lowering.ir.types import DTYPES, DType, int_range

BF16 = np.dtype([("bf16", np.uint16)])
FP8 = {name: np.dtype([(name, np.uint8)]) for name in ("e4m3", "e5m2")}
POISON = 0xA5
"""Every byte of an integer array that `empty` makes; floats are NaN, i1 is true."""
CHUNK = 1 << 22
"""Elements that are made or converted at once, where a whole array in float64 could be too large."""

_NUMPY: dict[str, np.dtype] = {
    "i1": np.dtype(np.bool_), "s8": np.dtype(np.int8), "s16": np.dtype(np.int16), "s32": np.dtype(np.int32),
    "s64": np.dtype(np.int64), "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "f16": np.dtype(np.float16), "bf16": BF16, "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64), "index": np.dtype(np.int64), **FP8,
}  # fmt: skip
_OURS = {dtype: name for name, dtype in _NUMPY.items() if name != "index"}
_ELSEWHERE = {"bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
"""ml_dtypes' names."""


def numpy_type(dtype: DType) -> np.dtype:
    """The numpy dtype of an element type."""
    return _NUMPY[dtype.name]


def element_type(array: np.ndarray) -> DType | None:
    """The element type of a numpy array; None if the language has none."""
    name = _ELSEWHERE.get(array.dtype.name) or _OURS.get(array.dtype)
    return None if name is None else DTYPES[name]


def widen(array: np.ndarray) -> np.ndarray:
    """float64, int64 or bool with the same values; uint64 where a value needs it. TypeError for other types."""
    if array.dtype == BF16:
        with np.errstate(invalid="ignore"):  # signalling NaNs
            return (array["bf16"].astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    for name, structured in FP8.items():
        if array.dtype == structured:
            return fp8_values(name)[array[name]]
    if array.dtype.kind == "f" or array.dtype.name in _ELSEWHERE:
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "b":
        return array
    if array.dtype == np.uint64 and array.size and int(array.max()) >= 1 << 63:
        return array
    if array.dtype.kind in "iu":
        return array.astype(np.int64, copy=False)
    raise TypeError(f"an array of {array.dtype} is none of the language")


def bf16_bits(values: np.ndarray) -> np.ndarray:
    """Bits of the nearest bf16, ties to even, of float64 values, rounded once; NaN is 0x7FC0.

    The values become f32 rounded to odd first: with 16 more bits than bf16, the second rounding is then the only one.
    """
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    bits = np.array(narrow.view(np.uint32))
    exact = narrow.astype(np.float64)
    bits -= (np.abs(exact) > np.abs(values)).astype(np.uint32)
    bits |= ((exact != values) & ~np.isnan(values)).astype(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


@cache
def fp8_values(name: str) -> np.ndarray:
    """What each of the 256 bytes means. e4m3 has no infinity, and NaN where all other bits are set."""
    fraction, bias = (3, 7) if name == "e4m3" else (2, 15)
    magnitude = np.arange(128)
    exponent, low = magnitude >> fraction, magnitude & (1 << fraction) - 1
    values = np.ldexp(low + (exponent > 0) * float(1 << fraction), np.maximum(exponent, 1) - bias - fraction)
    if name == "e4m3":
        values[127] = np.nan
    else:
        values[124], values[125:] = np.inf, np.nan
    return np.concatenate([values, -values])


def fp8_bits(values: np.ndarray, name: str) -> np.ndarray:
    """Bytes of the nearest e4m3 or e5m2, ties to even, of float64 values, rounded once; beyond the largest finite value
    that value, as the hardware converts. NaN is 0x7F."""
    finite = fp8_values(name)[: 127 if name == "e4m3" else 124]
    size = np.minimum(np.abs(np.where(np.isnan(values), 0.0, values)), finite[-1])
    above = np.clip(np.searchsorted(finite, size), 1, finite.size - 1)
    middle = (finite[above - 1] + finite[above]) / 2
    nearest = np.where((size > middle) | ((size == middle) & (above % 2 == 0)), above, above - 1)
    return np.where(np.isnan(values), 0x7F, nearest + 128 * np.signbit(values)).astype(np.uint8)


def narrow(values: np.ndarray, dtype: DType, saturate: bool = False) -> np.ndarray:
    """Widened values as elements of `dtype`: floats round to nearest even, float to integer drops the fraction and
    clamps (NaN is 0), integer to integer wraps, or clamps with `saturate`."""
    to = numpy_type(dtype)
    if dtype.kind == "bool":
        return values != 0
    if dtype.name == "bf16":
        out = np.empty(values.shape, BF16)
        out["bf16"] = bf16_bits(values.astype(np.float64, copy=False))
        return out
    if dtype.name in FP8:
        out = np.empty(values.shape, to)
        out[dtype.name] = fp8_bits(values.astype(np.float64, copy=False), dtype.name)
        return out
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return values.astype(to)
    low, high = (-(1 << 63), (1 << 63) - 1) if dtype.kind == "index" else int_range(dtype)
    if values.dtype.kind == "f":
        whole = np.trunc(values)
        inside = (whole > float(low)) & (whole < float(high))
        limited = np.where(inside, whole, 0.0).astype(to)
        limited[whole >= float(high)] = high
        limited[whole <= float(low)] = low
        return limited
    if saturate and values.dtype.kind != "b":
        span = np.iinfo(values.dtype)
        values = np.clip(values, max(low, int(span.min)), min(high, int(span.max)))
    return values.astype(to)


def fill(shape: tuple[int, ...], dtype: DType, draw: Any) -> np.ndarray:
    """A new array; `draw(n)` gives its next n elements as float64 or integers, in row-major order."""
    out = np.empty(prod(shape), numpy_type(dtype))
    for start in range(0, out.size, CHUNK):
        part = out[start : start + CHUNK]
        part[...] = narrow(draw(part.size), dtype)
    return out.reshape(shape)


def poisoned(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """A new array whose elements show that nothing has written them: NaN, or bytes of 0xA5."""
    out = np.empty(shape, numpy_type(dtype))
    if dtype.kind == "bool":
        out[...] = True
    elif dtype.name == "bf16":
        out["bf16"] = 0x7FC0
    elif dtype.name in FP8:
        out[dtype.name] = 0x7F
    elif dtype.is_float:
        out[...] = np.nan
    else:
        out.reshape(-1).view(np.uint8)[...] = POISON
    return out
