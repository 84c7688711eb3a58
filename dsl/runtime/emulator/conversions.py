"""Emulates `cvt`, which converts between float formats and integers (PTX ISA, "Data Movement and Conversion: cvt")."""

from __future__ import annotations

import numpy as np

from .formats import (
    FORMATS,
    Array,
    canonicalise,
    clamp_negative,
    flush,
    flush_rounded_up,
    fp8_of_f16,
    nearest_of_f32,
    nearest_of_f64,
    round_f64,
    saturate_unit,
    to_f32,
    to_f64,
)

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_FP8 = ("e4m3", "e5m2")


def _integer(dtype: str) -> type[np.integer] | None:
    """Returns the numpy type of a PTX integer type (s8 to s64, u8 to u64), or None for a float format."""
    kind, width = dtype[0], dtype[1:]
    if kind not in "su" or width not in ("8", "16", "32", "64"):
        return None
    return np.dtype(("int" if kind == "s" else "uint") + width).type


@np.errstate(all="ignore")
def convert(
    x: Array,
    src: str,
    dst: str,
    rounding: str | None = None,
    saturate: bool = False,
    ftz: bool = False,
    relu: bool = False,
    satfinite: bool = False,
) -> Array:
    """Computes `cvt{.rounding}{.ftz}{.sat}{.relu}{.satfinite}.dst.src` of `x`, as a new array.

    The types are f16, bf16, f32, f64, tf32, e4m3, e5m2, s8 to s64 and u8 to u64. `formats.py` explains how arrays store
    floats. An integer input may be a signed or an unsigned array, since `src` determines its sign. Integer results are
    unsigned arrays. For a float result, `rounding` is rn, rz, rm or rp, or rna if `dst` is tf32. It may be None if the
    conversion is exact. For an integer result, `rounding` is rni, rzi, rmi or rpi. If `src == dst`, then rni, rzi, rmi
    and rpi round a float to an integral float.

    A conversion from float to integer clamps to the range of `dst`. NaN becomes 2^(width of `dst` - 1) if `src` is f64
    or `dst` has 64 bits, else 0. `saturate` (.sat) clamps integers to the range of `dst`. It clamps floats to [+0, 1]
    and replaces NaN by +0. `satfinite` replaces infinities by the largest finite value. Conversions to e4m3 and e5m2
    always clamp to finite values, even without `satfinite`. `ftz` replaces subnormal f32 inputs and results by 0.
    Raises ValueError for a rounding that does not exist for the two types.
    """
    integer_in, integer_out = _integer(src), _integer(dst)
    if integer_in is not None:
        x = x.view(integer_in)
        if integer_out is not None:
            return _integer_to_integer(x, integer_out, saturate)
        r = _integer_to_float(x, dst, rounding or "rn")
    else:
        if ftz and src == "f32":
            x = flush(x, src)
        if integer_out is not None:
            return _float_to_integer(to_f64(x, src), integer_out, rounding, src == "f64")
        r = _float_to_float(x, src, dst, rounding)
    if ftz and dst == "f32":
        if src == "f64":
            # A GPU also flushes some results that rounding has raised to the least normal number.
            flush_rounded_up(r, lambda: x, dst, rounding or "rn")
        r = flush(r, dst)
    if dst in _FP8:
        return _relu_fp8(r) if relu else r
    if satfinite:
        r = _clamp_finite(r, dst)
    if saturate:
        return saturate_unit(r, dst)
    if relu:
        return clamp_negative(r, dst)
    if dst == "tf32" or (dst == "f32" and src in ("bf16", "f32") and not ftz and rounding not in _INTEGRAL):
        return r  # a move of bits, NaN included
    return canonicalise(r, dst)


def _integer_to_integer(x: Array, dst: type[np.integer], saturate: bool) -> Array:
    unsigned = np.dtype(f"u{np.dtype(dst).itemsize}")
    if saturate:
        have, want = np.iinfo(x.dtype), np.iinfo(dst)
        x = np.clip(x, max(have.min, want.min), min(have.max, want.max))
    return x.astype(dst).view(unsigned)


def _integer_to_float(x: Array, dst: str, rounding: str) -> Array:
    """Converts integers to floats, with a single rounding. A 64-bit integer may need more bits than a float64 has. So
    its low bits are first combined into one sticky bit."""
    if x.dtype.itemsize < 8:
        return round_f64(x.astype(np.float64), dst, rounding)
    if dst == "f64":
        return _wide_to_f64(x, rounding)
    negative = x < 0
    magnitude = np.where(negative, np.negative(x.view(np.uint64)), x.view(np.uint64))
    # This rounds to odd: the 11 bits beyond the 53 of a float64 become one sticky bit. A second rounding is safe, since
    # the result's format is much narrower than float64.
    low = (magnitude & np.uint64(0x7FF)) != 0
    odd = (magnitude & np.uint64(0xFFFFFFFFFFFFF800)) | (low.astype(np.uint64) << np.uint64(11))
    magnitude = np.where(magnitude >> np.uint64(53) != 0, odd, magnitude)
    value = magnitude.astype(np.float64)
    return round_f64(np.where(negative, -value, value), dst, rounding)


def _wide_to_f64(x: Array, rounding: str) -> Array:
    r = x.astype(np.float64)
    if rounding == "rn":
        return r
    high = (x >> x.dtype.type(32)).astype(np.float64) * 2.0**32
    low = (x & x.dtype.type(0xFFFFFFFF)).astype(np.float64)
    error = low - (r - high)  # exact: x - r
    outward = {"rz": -np.sign(r), "rm": np.full_like(r, -1.0), "rp": np.full_like(r, 1.0)}[rounding]
    step = error * outward > 0
    return np.where(step, np.nextafter(r, np.inf * outward), r)


def _float_to_integer(x: Array, dst: type[np.integer], rounding: str | None, from_f64: bool) -> Array:
    if rounding not in _INTEGRAL:
        raise ValueError(f"float to integer needs rni, rzi, rmi or rpi, not {rounding!r}")
    info = np.iinfo(dst)
    unsigned = np.dtype(f"u{np.dtype(dst).itemsize}")
    whole = _INTEGRAL[rounding](x)
    nan = np.isnan(whole)
    # The comparison uses a power of two, which is exact in float64. The largest 64-bit integer is not exact in float64.
    above = whole >= 2.0 ** (info.bits if info.min == 0 else info.bits - 1)
    np.maximum(whole, float(info.min), out=whole)
    special = nan | above
    if special.any():
        whole[special] = 0.0
        r = whole.astype(dst).view(unsigned)
        r[above] = info.max
        r[nan] = 1 << (info.bits - 1) if from_f64 or info.bits == 64 else 0
        return r
    return whole.astype(dst).view(unsigned)


def _float_to_float(x: Array, src: str, dst: str, rounding: str | None) -> Array:
    if rounding in _INTEGRAL:
        if src != dst:
            raise ValueError(f"cvt.{rounding}.{dst}.{src}: rounding to an integral float keeps the type")
        return nearest_of_f64(_INTEGRAL[rounding](to_f64(x, src)), dst)
    if dst == "tf32":
        return _to_tf32(x, rounding or "rn")
    if dst in _FP8:
        if src == "f16":
            return fp8_of_f16(dst).take(x.view(np.uint16))
        return nearest_of_f32(to_f32(x, src), dst)
    if rounding in (None, "rn"):
        if src == "f64":
            return nearest_of_f64(x, dst)
        if dst == "f64":
            return to_f64(x, src) * 1.0  # makes NaN quiet
        return nearest_of_f32(to_f32(x, src), dst)
    return round_f64(to_f64(x, src), dst, rounding)


def _to_tf32(x: Array, rounding: str) -> Array:
    """Converts f32 to tf32. Infinities stay infinities, and NaN becomes 0x7fffe000."""
    if rounding == "rn":
        return nearest_of_f32(x, "tf32")
    if rounding not in ("rz", "rna"):
        raise ValueError(f"cvt.{rounding}.tf32.f32 does not exist")
    half = np.uint32(0x1000 if rounding == "rna" else 0)
    bits = (x.view(np.uint32) + half) & np.uint32(0xFFFFE000)
    bits[np.isnan(x)] = FORMATS["tf32"].nan
    return bits.view(np.float32)


def _clamp_finite(x: Array, dtype: str) -> Array:
    """Emulates `.satfinite`: replaces infinities by the largest finite value of their sign, in place."""
    row = FORMATS[dtype]
    # The last bit of a tf32 is bit 13.
    last = 1 << (13 if dtype == "tf32" else 0)
    bits = x.view(row.bits)
    infinite = (bits & row.bits(row.sign - 1)) == row.bits(row.infinity)
    bits -= infinite.astype(row.bits) * row.bits(last)
    return x


def _relu_fp8(code: Array) -> Array:
    """Replaces negative fp8 codes by +0. The code of NaN is 0x7f, which is positive, so NaN stays NaN."""
    return np.maximum(code.view(np.int8), np.int8(0)).view(np.uint8)
