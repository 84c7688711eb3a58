"""Element types in numpy: how their values are represented, stored in memory, and rounded.

Types that numpy lacks are represented by other numpy types. A bf16 or tf32 becomes the float32 with the same value. An
e4m3 or e5m2 becomes a byte with the same bits. An s4 or u4 becomes a byte with the same value. A b1 becomes a bool.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import inf
from typing import Any

import numpy as np

from dsl.lowering.ir.types import BF16, F64, FLOATS, FP8, DType, int_range

Array = Any

_HELD = {
    "i1": np.bool_, "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64, "u8": np.uint8,
    "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "bf16": np.float32, "f32": np.float32,
    "f64": np.float64, "tf32": np.float32, "e4m3": np.uint8, "e5m2": np.uint8, "s4": np.int8, "u4": np.uint8,
    "b1": np.bool_,
}  # fmt: skip


@cache
def held(dtype: DType, index_bits: int = 32) -> np.dtype:
    """Returns the numpy type that represents values of a type. An `index` has `index_bits` bits, 32 or 64."""
    if dtype.kind == "index":
        return np.dtype(np.int64 if index_bits == 64 else np.int32)
    return np.dtype(_HELD[dtype.name])


@cache
def stored(dtype: DType) -> np.dtype:
    """Returns the numpy type of an element in memory."""
    return np.dtype(np.uint16) if dtype is BF16 else held(dtype)


def load(bits: Array, dtype: DType) -> Array:
    """Converts elements in memory to values."""
    if dtype is BF16:
        return (np.asarray(bits, np.uint32) << np.uint32(16)).view(np.float32)
    return bits


def store(values: Array, dtype: DType) -> Array:
    """Converts values to elements in memory."""
    if dtype is BF16:
        return (np.asarray(values, np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.asarray(values).astype(stored(dtype), copy=False)


def spread(x: Array, shape: tuple[int, ...]) -> np.ndarray:
    """Broadcasts an array to a shape. An array that already has this shape is returned unchanged, because
    `np.broadcast_to` would take 10 us."""
    return x if isinstance(x, np.ndarray) and x.shape == shape else np.broadcast_to(x, shape)


# ---- rounding ----


def to_bf16(x: Array) -> Array:
    """Rounds float32 values to the nearest bf16, ties to even."""
    x = np.asarray(x, np.float32)
    bits = x.view(np.uint32)
    kept = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, kept.view(np.float32))


def to_tf32(x: Array) -> Array:
    """Rounds float32 values to a fraction of 10 bits, ties away from zero."""
    x = np.asarray(x, np.float32)
    kept = (x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(x), kept.view(np.float32), x)


def upper_tf32(x: Array) -> Array:
    """Drops the 13 lowest bits of float32 values, as tensor cores do when they read tf32 operands."""
    return (np.asarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def odd_f32(x: Array) -> Array:
    """Rounds float64 values to odd in float32: truncates, and sets the last bit if the result is inexact. A later
    rounding of the result to fewer bits then equals a single rounding of the float64 value."""
    x = np.asarray(x, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        near = x.astype(np.float32)
        cut = np.where(np.abs(near.astype(np.float64)) > np.abs(x), np.nextafter(near, np.float32(0)), near)
    bits = np.asarray(cut, np.float32).view(np.uint32) | (cut.astype(np.float64) != x).astype(np.uint32)
    return np.where(np.isfinite(x) & np.isfinite(cut), bits.view(np.float32), near)


def nearest(x: Array, to: DType) -> Array:
    """Rounds float64 or float32 values once to the float type `to`: to nearest, ties to even."""
    x = np.asarray(x)
    if to is BF16:
        return to_bf16(odd_f32(x) if x.dtype == np.float64 else x)
    return x.astype(held(to), copy=False)


def _next(x: Array, up: Array, to: DType) -> Array:
    """Returns the next number of the type `to` above each value where `up` is true, and below it elsewhere."""
    if to is not BF16:
        kind = held(to).type
        return np.nextafter(x, np.where(up, kind(np.inf), kind(-np.inf)))
    bits = np.asarray(x, np.float32).view(np.int32)
    away = np.where(bits < 0, ~up, up)  # whether the next number is further away from 0
    moved: Array = np.where(away, bits + 0x10000, bits - 0x10000)
    zero = np.where(up, np.int32(0x10000), np.int32(-0x7FFF0000))
    return np.asarray(np.where(np.asarray(x) == 0, zero, moved), np.int32).view(np.float32)


def round_to(x: Array, to: DType, rounding: str | None) -> Array:
    """Rounds float64 values to a float type. The default `rounding` is to nearest. `rz` is towards zero, `rp` is up,
    and `rm` is down."""
    near = nearest(x, to)
    if rounding in (None, "rn"):
        return near
    x = np.asarray(x, np.float64)
    wide = np.asarray(near, np.float64)
    over, under = wide > x, wide < x
    if rounding == "rz":
        over, under = over & (x > 0), under & (x < 0)
    elif rounding == "rp":
        over = np.zeros_like(over)
    else:
        under = np.zeros_like(under)
    with np.errstate(all="ignore"):
        moved = np.asarray(np.where(over | under, _next(near, under, to), near), held(to))
    # A result that is 0 gets the sign of the original value.
    return np.where(moved == 0, np.copysign(moved, x.astype(held(to))), moved).astype(held(to))


# ---- 8 bits ----


@cache
def fp8_values(name: str) -> np.ndarray:
    """Returns the float32 value of each of the 256 bit patterns of an FP8 type. e4m3 has no infinity. In the NaN of
    e4m3, all bits except the sign are set."""
    fraction, bias = {"e4m3": (3, 7), "e5m2": (2, 15)}[name]
    exponent, low = np.arange(128) >> fraction, np.arange(128) & (1 << fraction) - 1
    values = np.ldexp(low + (exponent > 0) * float(1 << fraction), np.maximum(exponent, 1) - bias - fraction)
    if name == "e5m2":
        values[124], values[125:] = np.inf, np.nan
    values[127] = np.nan
    return np.concatenate([values, -values]).astype(np.float32)


def from_fp8(bits: Array, dtype: DType) -> Array:
    """Converts e4m3 or e5m2 bits to float32."""
    return fp8_values(dtype.name)[np.asarray(bits, np.uint8)]


def to_fp8(x: Array, dtype: DType) -> Array:
    """Converts float64 or float32 values to FP8 bits. Rounds once to nearest, ties to even, and saturates. NaN becomes
    0x7F. `ml_dtypes` is not used because it rounds float64 twice, through float32, and does not saturate."""
    x = np.asarray(x, np.float64)
    values = fp8_values(dtype.name)[:127].astype(np.float64)
    values = values[np.isfinite(values)]
    middle = (values[1:] + values[:-1]) / 2
    size = np.abs(x)
    below, upto = np.searchsorted(middle, size, "left"), np.searchsorted(middle, size, "right")
    code = np.where(below & 1, upto, below).astype(np.uint8)
    code = code | np.where(np.signbit(x), np.uint8(128), np.uint8(0))
    return np.where(np.isnan(x), np.uint8(0x7F), code).astype(np.uint8)


# ---- conversions ----

_WHOLE = {None: np.trunc, "rz": np.trunc, "rn": np.rint, "rp": np.ceil, "rm": np.floor}


def float_to_int(x: Array, kind: np.dtype, rounding: str | None) -> Array:
    """Converts floats to integers. Values out of range saturate, and NaN becomes 0. By default, fractions are
    truncated."""
    # In C, the conversion of a float out of the integer range is undefined. float64 lacks the greatest 64-bit integer,
    # so the bounds of the range are not converted either.
    whole = _WHOLE[rounding](np.asarray(x, np.float64))
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    inside = (whole > low) & (whole < high)
    out = np.where(inside, whole, 0).astype(kind)
    out = np.where(whole >= high, kind.type(high), out)
    return np.where(whole <= low, kind.type(low), out).astype(kind)


def int_to_float(x: Array, to: DType, rounding: str | None) -> Array:
    """Converts integers to floats. Each result is rounded once."""
    x = np.asarray(x)
    if to is F64:
        near = x.astype(np.float64)
        if rounding in (None, "rn") or x.dtype.itemsize < 8:
            return near
        flat = [_directed(int(i), float(f), rounding) for i, f in zip(x.reshape(-1), near.reshape(-1), strict=True)]
        return np.array(flat, np.float64).reshape(x.shape)
    # float64 has 53 bits: combine the lowest bits of a large integer into one sticky bit, so that it is rounded
    # correctly
    if x.dtype.itemsize == 8:
        kind = x.dtype.type
        low = x & kind(0xFFF)
        large = np.abs(x.astype(np.float64)) >= 2.0**53
        x = np.where(large, (x & ~kind(0xFFF)) | ((low != 0).astype(x.dtype) << kind(11)), x)
    return round_to(x.astype(np.float64), to, rounding)


def _directed(exact: int, near: float, rounding: str | None) -> float:
    if int(near) == exact:
        return near
    above = int(near) > exact
    down = rounding == "rm" or (rounding == "rz" and exact > 0)
    if above == down:
        return float(np.nextafter(near, -np.inf if down else np.inf))
    return near


def int_to_int(x: Array, to: DType, kind: np.dtype, saturate: bool) -> Array:
    """Converts integers to another integer type. Values wrap around, or saturate."""
    if saturate:
        low, high = (int(np.iinfo(kind).min), int(np.iinfo(kind).max)) if to.kind == "index" else int_range(to)
        info = np.iinfo(np.asarray(x).dtype)
        x = np.clip(x, max(low, info.min), min(high, info.max))
    return np.asarray(x).astype(kind)


def as_float(x: Array, dtype: DType) -> Array:
    """Converts values of any float type to float64, which represents all of them exactly."""
    return np.asarray(from_fp8(x, dtype) if dtype.name in ("e4m3", "e5m2") else x, np.float64)


def unit(dtype: DType) -> float:
    """Returns the distance from 1 to the next larger number of a float type."""
    return 2.0 ** (1 - FLOATS[dtype.name][0])


def number(value: float | int | bool, dtype: DType, index_bits: int) -> Array:
    """Converts a Python number to a constant of a type. Integers wrap, and floats are rounded."""
    kind = held(dtype, index_bits)
    if dtype is BF16:
        return nearest(np.float64(value), BF16)[()]
    if dtype in FP8:
        return to_fp8(np.float32(value), dtype)[()]
    if kind.kind in "iu":
        value = int(value) & ((1 << kind.itemsize * 8) - 1)
        return np.array(value, f"u{kind.itemsize}").view(kind)[()]
    return np.float64(value).astype(kind) if kind.kind == "f" else kind.type(value)


def least(dtype: DType) -> float:
    """Returns the least positive number of a float type, which is also the distance between neighbouring subnormal
    numbers."""
    digits, exponent, _ = FLOATS[dtype.name]
    return 2.0 ** (exponent - digits + 1)


def fused(a: Array, b: Array, c: Array, dtype: DType) -> Array:
    """Computes a·b + c, rounded once."""
    if dtype is F64:
        return _fma_of_doubles(*np.broadcast_arrays(a, b, c))
    a, b, c = (np.asarray(v, np.float64) for v in (a, b, c))
    product = a * b  # exact, because it has at most 48 bits
    total = product + c
    back = total - product
    lost = (product - (total - back)) + (c - back)
    # Round `total` to odd in float64. float64 has enough bits that a second rounding to `dtype` equals a single
    # rounding.
    inexact = np.isfinite(total) & (lost != 0) & (total != 0)
    if not np.count_nonzero(inexact):
        return nearest(total, dtype)
    bits = np.asarray(total).view(np.int64)
    beyond = (lost > 0) != (total > 0)  # the exact sum is nearer to 0 than `total`
    moved = bits - (inexact & beyond & ((bits & 1) == 0)) | inexact
    return nearest(np.asarray(moved, np.int64).view(np.float64), dtype)


def _fma_of_doubles(a: Array, b: Array, c: Array) -> Array:
    plain = np.asarray(np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, a * b + c))
    out = plain.copy().reshape(-1)
    for i, (x, y, z) in enumerate(zip(a.reshape(-1), b.reshape(-1), c.reshape(-1), strict=True)):
        if np.isfinite(x) and np.isfinite(y) and np.isfinite(z):
            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            if exact:
                try:
                    out[i] = float(exact)
                except OverflowError:
                    out[i] = inf if exact > 0 else -inf
    return out.reshape(plain.shape)
