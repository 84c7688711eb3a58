"""Functions on float formats: flushing subnormals, clamping, canonical NaNs, exact widening to f64, and rounding from
f64.

Arrays store f16, f32 and f64 as numpy's float16, float32 and float64. Formats that numpy lacks are stored as bit
patterns: bf16 in uint16, e4m3 and e5m2 in uint8. A tf32 is a float32 whose 13 lowest bits are zero.

Rounding twice gives the same result as rounding once if the first rounding is *to odd* (Boldo and Melquiond, "Emulation
of FMA and correctly rounded sums", 2008). Rounding to odd truncates, and sets the last bit if the result is inexact.
The intermediate format then needs only two more bits of precision than the final format. This holds for every rounding
mode, and for subnormals, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from msgspec import Struct

Array = np.ndarray[Any, Any]

ROUNDINGS = ("rn", "rz", "rm", "rp")


class Format(Struct, frozen=True):
    """One binary float format: its storage types, the widths of its fields, and some bit patterns."""

    storage: type[np.generic]
    bits: type[np.unsignedinteger[Any]]
    signed: type[np.signedinteger[Any]]
    fraction: int  # explicit bits of the significand
    width: int
    nan: int  # canonical NaN (PTX ISA, "Floating Point Instructions": 0x7fffffff in f32, 0x7fff in 16 bits)
    infinity: int  # bits of +infinity
    one: int  # bits of 1.0

    @property
    def sign(self) -> int:
        """A mask with only the sign bit set."""
        return 1 << (self.width - 1)


FORMATS = {
    "f16": Format(np.float16, np.uint16, np.int16, 10, 16, 0x7FFF, 0x7C00, 0x3C00),
    "bf16": Format(np.uint16, np.uint16, np.int16, 7, 16, 0x7FFF, 0x7F80, 0x3F80),
    "f32": Format(np.float32, np.uint32, np.int32, 23, 32, 0x7FFFFFFF, 0x7F800000, 0x3F800000),
    "tf32": Format(np.float32, np.uint32, np.int32, 10, 32, 0x7FFFE000, 0x7F800000, 0x3F800000),
    "f64": Format(np.float64, np.uint64, np.int64, 52, 64, 0x7FF8000000000000, 0x7FF0000000000000, 0x3FF0000000000000),
}


def bits_of(x: Array, dtype: str) -> Array:
    """Returns the bit patterns of `x` as unsigned integers. The result is a view, not a copy."""
    return x.view(FORMATS[dtype].bits)


def is_nan(x: Array, dtype: str) -> Array:
    """Returns a mask that is true where `x` is a NaN."""
    if dtype == "f32" or dtype == "f64" or dtype == "tf32":
        return np.isnan(x)
    row = FORMATS[dtype]
    return (x.view(row.bits) & row.bits(row.sign - 1)) > row.bits(row.infinity)


def canonicalise(x: Array, dtype: str) -> Array:
    """Replaces every NaN in `x` by the canonical NaN, in place, and returns `x`. NaNs of f64 keep their payloads, as
    the PTX ISA requires."""
    if dtype != "f64":
        nan = is_nan(x, dtype)
        if nan.any():
            bits_of(x, dtype)[nan] = FORMATS[dtype].nan
    return x


def flush(x: Array, dtype: str) -> Array:
    """Emulates `.ftz`: replaces subnormals by zeros of the same sign. Returns `x` itself if it contains no
    subnormals."""
    row = FORMATS[dtype]
    bits = x.view(row.bits)
    normal = (bits & row.bits(row.infinity)) != 0
    if normal.all():
        return x
    keep = np.negative(normal.astype(row.bits))
    keep |= row.bits(row.sign)
    keep &= bits
    return keep.view(row.storage)


def flush_rounded_up(r: Array, exact: Callable[[], Array], dtype: str, rounding: str) -> None:
    """Emulates `.ftz` for results that were rounded up to the least normal number. Hardware flushes some of them to 0,
    too.

    Hardware first rounds to the format's precision as if the exponent were unbounded. If this rounded value is below
    the least normal number, hardware flushes the result (measured on an H200; the ISA leaves this open). This function
    sets these elements of `r` to 0, in place. `exact()` returns the results in float64, either exact or rounded to odd.
    """
    row = FORMATS[dtype]
    least = 1 << row.fraction
    edge = (r.view(row.bits) & row.bits(row.sign - 1)) == row.bits(least)
    if edge.any():
        # After scaling up, no value is subnormal, so the exponent is in effect unbounded.
        scale = 2.0**8
        unbounded = to_f64(round_f64(exact()[edge] * scale, dtype, rounding), dtype)
        least_value = to_f64(np.full(1, least, row.bits).view(row.storage), dtype)
        bits = r.view(row.bits)
        bits[edge] -= (np.abs(unbounded) < least_value * scale).astype(row.bits) * row.bits(least)


def saturate_unit(x: Array, dtype: str) -> Array:
    """Emulates `.sat`: clamps `x` to [+0, 1] in place. NaN becomes +0. The function compares bit patterns as integers,
    since the pattern of a negative float is a negative integer."""
    row = FORMATS[dtype]
    nan = is_nan(x, dtype)
    bits = x.view(row.signed)
    if nan.any():
        bits[nan] = 0
    np.maximum(bits, row.signed(0), out=bits)
    np.minimum(bits, row.signed(row.one), out=bits)
    return x


def clamp_negative(x: Array, dtype: str) -> Array:
    """Emulates `.relu`: replaces negative values and -0 by +0, and NaN by the canonical NaN, in place."""
    row = FORMATS[dtype]
    bits = x.view(row.signed)
    nan = is_nan(x, dtype)
    if nan.any():
        bits[nan] = row.nan
    np.maximum(bits, row.signed(0), out=bits)
    return x


def bf16_to_f32(x: Array) -> Array:
    """Converts bf16 to float32, exactly. A bf16 is the upper half of a float32."""
    return (x.astype(np.uint32) << np.uint32(16)).view(np.float32)


def to_f32(x: Array, dtype: str) -> Array:
    """Converts a 16- or 8-bit format to float32, exactly. Returns a float32 array unchanged."""
    if dtype == "f16":
        return x.astype(np.float32)
    if dtype == "bf16":
        return bf16_to_f32(x)
    if dtype in ("e4m3", "e5m2"):
        return fp8_values(dtype).take(x)
    return x


def to_f64(x: Array, dtype: str) -> Array:
    """Converts any format to float64, exactly. Returns a float64 array unchanged."""
    if dtype == "f64":
        return x
    if dtype == "f16":
        return x.astype(np.float64)
    return to_f32(x, dtype).astype(np.float64)


@cache
def fp8_values(dtype: str) -> Array:
    """Returns the float32 values of the 256 codes of e4m3 or e5m2. e4m3 has the exponent bias 7 and no infinity. Its
    only NaNs have all exponent and fraction bits set. e5m2 has the exponent bias 15."""
    fraction, bias = (3, 7) if dtype == "e4m3" else (2, 15)
    code = np.arange(256)
    exponent = (code & 0x7F) >> fraction
    significand = (code & ((1 << fraction) - 1)) + np.where(exponent > 0, 1 << fraction, 0)
    value = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - bias - fraction)
    # e4m3 has no infinity. Codes with the largest exponent are numbers, except for one NaN of each sign.
    if dtype == "e4m3":
        value[(code & 0x7F) == 0x7F] = np.nan
    else:
        value[(code & 0x7F) == 0x7C] = np.inf
        value[(code & 0x7F) > 0x7C] = np.nan
    value = np.where(code >= 128, -value, value)
    return canonicalise(value.astype(np.float32), "f32")


@cache
def fp8_of_f16(dtype: str) -> Array:
    """Returns the fp8 code of each of the 65,536 float16 patterns, rounded to nearest even and saturated
    (`.rn.satfinite`). The code of NaN is 0x7f."""
    finite = fp8_values(dtype)[: 0x7F if dtype == "e4m3" else 0x7C].astype(np.float64)
    midpoints = (finite[:-1] + finite[1:]) / 2
    pattern = np.arange(65536, dtype=np.uint16)
    x = np.abs(pattern.view(np.float16).astype(np.float64))
    code = np.searchsorted(midpoints, x, side="left")
    tie = np.append(midpoints, np.inf)[np.minimum(code, len(midpoints))] == x
    code += tie & (code % 2 == 1) & (code < len(midpoints))
    code |= (pattern >> 15).astype(code.dtype) << 7
    code[np.isnan(x)] = 0x7F
    return code.astype(np.uint8)


def rounded_to_odd(x: Array, dtype: str) -> Array:
    """Converts float64 to f32, or float32 to f16, rounded to odd."""
    near = x.astype(FORMATS[dtype].storage)
    back = near.astype(x.dtype)
    bits = bits_of(near, dtype)
    # This rounds towards zero first, and then sets the last bit if the result is inexact.
    bits -= (np.abs(back) > np.abs(x)).astype(bits.dtype)
    bits |= (back != x).astype(bits.dtype)
    return near


def bf16_of_f32(x: Array) -> Array:
    """Converts float32 to bf16, rounded to nearest even. NaN becomes 0x7fff."""
    bits = x.view(np.uint32)
    up = bits >> np.uint32(16)
    up &= np.uint32(1)
    up += np.uint32(0x7FFF)
    up += bits
    up >>= np.uint32(16)
    r = up.astype(np.uint16)
    nan = np.isnan(x)
    if nan.any():
        r[nan] = 0x7FFF
    return r


def nearest_of_f32(x: Array, dtype: str) -> Array:
    """Converts float32 to f16, bf16, tf32, e4m3 or e5m2, rounded once to nearest even. Conversions to e4m3 and e5m2
    saturate. Always returns a new array."""
    if dtype == "f16":
        return x.astype(np.float16)
    if dtype == "bf16":
        return bf16_of_f32(x)
    if dtype == "tf32":
        bits = x.view(np.uint32)
        r = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
        nan = np.isnan(x)
        if nan.any():
            r[nan] = FORMATS["tf32"].nan
        return r.view(np.float32)
    if dtype in ("e4m3", "e5m2"):
        # Converts to f16, rounded to odd, and then to fp8. This is exact, since f16 has over two bits more precision
        # than each fp8 format. A table of all f16 values has only 65,536 entries.
        return fp8_of_f16(dtype).take(rounded_to_odd(x, "f16").view(np.uint16))
    return x.copy()


def nearest_of_f64(x: Array, dtype: str) -> Array:
    """Converts float64 to `dtype`, rounded once to nearest even. Always returns a new array."""
    if dtype == "f32":
        return x.astype(np.float32)
    if dtype == "f16":
        return x.astype(np.float16)
    if dtype == "f64":
        return x.copy()
    return nearest_of_f32(rounded_to_odd(x, "f32"), dtype)


def round_f64(x: Array, dtype: str, rounding: str) -> Array:
    """Converts float64 to f16, bf16, f32 or f64, rounded once in the mode rn, rz, rm or rp. Always returns a new array.

    `x` may already have been rounded to odd. The function rounds to the nearest value first. It then moves to the
    neighbouring value if `rounding` requires it. The bit patterns of two neighbours differ by 1, even if one of them is
    infinity or zero.
    """
    r = nearest_of_f64(x, dtype)
    if rounding == "rn":
        return r
    back = to_f64(r, dtype)
    if rounding == "rz":
        shrink = np.abs(back) > np.abs(x)
        grow = np.zeros_like(shrink)
    elif rounding in ("rm", "rp"):
        wrong = back > x if rounding == "rm" else back < x
        grow = wrong & ((x < 0) if rounding == "rm" else (x > 0))
        shrink = wrong & ~grow
    else:
        raise ValueError(f"unknown rounding {rounding!r}")
    row = FORMATS[dtype]
    bits = r.view(row.bits)
    bits += grow.astype(row.bits)
    bits -= shrink.astype(row.bits)
    return r
