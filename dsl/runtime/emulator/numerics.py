"""Float arithmetic of PTX on numpy arrays. Each function computes one PTX instruction, for one element of each lane.

The element types are float16 (f16), uint16 bit patterns (bf16), float32 (f32) and float64 (f64). Operands are arrays
with at least one axis, broadcast as in numpy, and are not changed. If the ISA defines the bits of a result, the result
has these bits (PTX ISA, "Floating Point Instructions" and "Half Precision Floating Point Instructions"). The `.approx`
forms are in `approximations.py`, and `cvt` is in `conversions.py`.

NaN results are canonical: 0x7fffffff in f32, 0x7fff in f16 and bf16. An f64 NaN keeps its payload. `ftz` flushes
subnormal inputs and results to zeros of the same sign. `saturate` clamps the result to [+0, 1], and turns NaN into +0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import exact
from .formats import (
    FORMATS,
    Array,
    bf16_of_f32,
    bf16_to_f32,
    bits_of,
    canonicalise,
    clamp_negative,
    flush,
    flush_rounded_up,
    is_nan,
    nearest_of_f64,
    round_f64,
    saturate_unit,
    to_f32,
    to_f64,
)

_TINY = 2.0**-126  # the least normal number of f32 and bf16
_LEAST_S64 = -(2**63)


def _finish(r: Array, dtype: str, ftz: bool, saturate: bool = False, relu: bool = False) -> Array:
    """Applies the modifiers `ftz`, `saturate` and `relu` to the result `r`, in place."""
    if ftz:
        r = flush(r, dtype)
    if saturate:
        return saturate_unit(r, dtype)
    return clamp_negative(r, dtype) if relu else canonicalise(r, dtype)


def _sum_to_odd(p: Array, c: Array, rounding: str) -> Array:
    """Returns p + c in float64, rounded to odd: an inexact sum gets a last bit of 1. |p + c| must stay far from
    float64's limits. Infinities and NaN pass through.

    A sum that is exactly zero gets the sign that IEEE 754 requires for `rounding`. Under rm this is -0, unless both
    terms are +0.
    """
    s = p + c
    t = s - p
    # Knuth's two-sum gives the exact error of the rounded sum.
    error = (p - (s - t)) + (c - t)
    bits = s.view(np.int64)
    fix = ((error > 0) | (error < 0)) & ((bits & np.int64(1)) == 0)
    if fix.any():
        outward = (error > 0) == (s > 0)
        bits += fix & outward
        bits -= fix & ~outward
    if rounding == "rm":
        s[(s == 0) & (np.signbit(p) | np.signbit(c))] = -0.0
    return s


@np.errstate(all="ignore")
def add(a: Array, b: Array, dtype: str, rounding: str = "rn", ftz: bool = False, saturate: bool = False) -> Array:
    """`add{.rnd}{.ftz}{.sat}`: a + b, rounded once. PTX ISA, "add" (floating point and half precision)."""
    if ftz:
        a, b = flush(a, dtype), flush(b, dtype)
    if rounding == "rn":
        r = bf16_of_f32(bf16_to_f32(a) + bf16_to_f32(b)) if dtype == "bf16" else np.add(a, b)
    elif dtype == "f64":
        r = np.asarray(a + b)
        _exactly(exact.add_one, rounding, r, a, b)
    else:
        r = round_f64(_sum_to_odd(to_f64(a, dtype), to_f64(b, dtype), rounding), dtype, rounding)
    return _finish(r, dtype, ftz, saturate)


def sub(a: Array, b: Array, dtype: str, rounding: str = "rn", ftz: bool = False, saturate: bool = False) -> Array:
    """`sub{.rnd}{.ftz}{.sat}`: a - b, rounded once. PTX ISA, "sub"."""
    if rounding == "rn" and not ftz and dtype != "bf16":
        with np.errstate(all="ignore"):
            return _finish(np.subtract(a, b), dtype, ftz, saturate)
    # Negation is exact, so the sum is still rounded once.
    return add(a, neg(b, dtype), dtype, rounding, ftz, saturate)


@np.errstate(all="ignore")
def mul(a: Array, b: Array, dtype: str, rounding: str = "rn", ftz: bool = False, saturate: bool = False) -> Array:
    """`mul{.rnd}{.ftz}{.sat}`: a * b, rounded once. PTX ISA, "mul".

    The product of two bf16 numbers is exact in float32, unless it is far below half of bf16's smallest value.
    """
    if ftz:
        a, b = flush(a, dtype), flush(b, dtype)
    if rounding == "rn":
        r = bf16_of_f32(bf16_to_f32(a) * bf16_to_f32(b)) if dtype == "bf16" else np.multiply(a, b)
    elif dtype == "f64":
        r = np.asarray(a * b)
        _exactly(exact.mul_one, rounding, r, a, b)
    else:
        r = round_f64(to_f64(a, dtype) * to_f64(b, dtype), dtype, rounding)
    if ftz:
        flush_rounded_up(r, lambda: to_f64(a, dtype) * to_f64(b, dtype), dtype, rounding)
    return _finish(r, dtype, ftz, saturate)


def _exactly(function: Any, rounding: str, r: Array, *operands: Array) -> None:
    """Recomputes, in place, the elements of `r` whose operands are all finite. `function` computes each element exactly
    and rounds it once."""
    same_shape = np.broadcast_arrays(*operands)
    exact.apply(function, rounding, r, np.logical_and.reduce([np.isfinite(x) for x in same_shape]), *same_shape)


@np.errstate(all="ignore")
def div(a: Array, b: Array, dtype: str, rounding: str = "rn", ftz: bool = False) -> Array:
    """`div.rnd{.ftz}`: a / b, rounded once (IEEE 754). PTX ISA, "div".

    With another rounding than rn, an f32 quotient is computed in float64 and rounded again. This is correct: an inexact
    quotient of two 24-bit significands is never within float64's error of a float32, or of a midpoint of two float32.
    """
    if ftz:
        a, b = flush(a, dtype), flush(b, dtype)
    if dtype == "f64":
        r = np.asarray(np.divide(a, b))
        if rounding != "rn":
            finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
            exact.apply(exact.div_one, rounding, r, finite, *np.broadcast_arrays(a, b))
    elif dtype == "f32" and rounding == "rn":
        r = np.divide(a, b)
    else:
        r = round_f64(to_f64(a, dtype) / to_f64(b, dtype), dtype, rounding)
    if ftz:
        flush_rounded_up(r, lambda: to_f64(a, dtype) / to_f64(b, dtype), dtype, rounding)
    return _finish(r, dtype, ftz)


def rcp(a: Array, dtype: str, rounding: str = "rn", ftz: bool = False) -> Array:
    """`rcp.rnd{.ftz}`: 1 / a, rounded once (IEEE 754). PTX ISA, "rcp"."""
    row = FORMATS[dtype]
    one = np.full(1, row.one, row.bits).view(row.storage)
    return div(one, a, dtype, rounding, ftz)


@np.errstate(all="ignore")
def sqrt(a: Array, dtype: str, rounding: str = "rn", ftz: bool = False) -> Array:
    """`sqrt.rnd{.ftz}`: the square root, rounded once (IEEE 754). The result is NaN for negative input, and -0
    for -0. PTX ISA, "sqrt"."""
    if ftz:
        a = flush(a, dtype)
    if dtype == "f64":
        r = np.asarray(np.sqrt(a))
        if rounding != "rn":
            exact.apply(exact.sqrt_one, rounding, r, np.isfinite(a) & (a > 0), a)
    elif dtype == "f32" and rounding == "rn":
        r = np.sqrt(a)
    else:
        r = round_f64(np.sqrt(to_f64(a, dtype)), dtype, rounding)
    return _finish(r, dtype, ftz)


@np.errstate(all="ignore")
def fma(
    a: Array,
    b: Array,
    c: Array,
    dtype: str,
    rounding: str = "rn",
    ftz: bool = False,
    saturate: bool = False,
    relu: bool = False,
) -> Array:
    """`fma.rnd{.ftz}{.sat}{.relu}`: a * b + c, rounded once. PTX ISA, "fma" (floating point and half
    precision)."""
    if ftz:
        a, b, c = flush(a, dtype), flush(b, dtype), flush(c, dtype)
    if dtype == "f64":
        r = _fma_f64(a, b, c, rounding)
    else:
        wide = to_f64(c, dtype)
        product = to_f64(a, dtype) * to_f64(b, dtype)  # exact: at most 48 bits
        if rounding == "rn" and dtype == "f16":
            # If the float64 sum is inexact, one term is below 2^-13 of the other, and the larger term is a float16.
            r = (product + wide).astype(np.float16)
        # For f32 and bf16 a second rounding may be wrong. It is wrong for one of 2^29 random f32.
        elif rounding == "rn":
            r = nearest_of_f64(_safe_sum(product, wide, dtype), dtype)
        else:
            r = round_f64(_sum_to_odd(product, wide, rounding), dtype, rounding)
        if ftz:
            flush_rounded_up(r, lambda: _sum_to_odd(product, wide, rounding), dtype, rounding)
    return _finish(r, dtype, ftz, saturate, relu)


def _safe_sum(p: Array, c: Array, dtype: str) -> Array:
    """Returns p + c in float64, such that rounding the sum to the nearest f32 or bf16 is correct. c has the type
    `dtype`, and p is a product of two numbers of this type.

    Rounding the float64 sum again can be wrong in two cases: the sum is a midpoint of two results, or the result is
    subnormal. In these cases (one in 2^29 of random f32), the sum is rounded to odd, which avoids the error.
    """
    s = p + c
    below = 52 - FORMATS[dtype].fraction  # fraction bits that a float64 has and a normal result lacks
    bits = s.view(np.int64)
    # Nearly always this one pass finds that no element is suspect.
    if (bits << np.int64(64 - below)).min() != _LEAST_S64 and np.abs(s).min() >= _TINY:
        return s
    suspect = (bits & np.int64((1 << below) - 1)) == np.int64(1 << (below - 1))
    suspect |= np.abs(s) < _TINY
    t = s - p
    suspect &= (t != c) | (s - t != p)  # most sums that are still suspect are exact
    if suspect.any():
        p, c = np.broadcast_arrays(p, c)
        s[suspect] = _sum_to_odd(p[suspect], c[suspect], "rn")
    return s


def _two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns a * b as an unevaluated sum of two float64 (Dekker, Veltkamp). Requires |a|, |b| < 2^996 and no
    underflow."""
    split = 2.0**27 + 1
    t = split * a
    a_high = t - (t - a)
    a_low = a - a_high
    t = split * b
    b_high = t - (t - b)
    b_low = b - b_high
    p = a * b
    return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Returns a + b as an unevaluated sum of two float64 (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _fma_f64(a: Array, b: Array, c: Array, rounding: str) -> Array:
    """Returns a * b + c in float64, rounded once (Boldo and Melquiond 2008). Near the limits of float64's range, and
    for other roundings than rn, the sum is computed with Python integers."""
    a, b, c = np.broadcast_arrays(a, b, c)
    p, p_low = _two_product(a, b)
    u, u_low = _two_sum(c, p_low)
    t, t_low = _two_sum(p, u)
    r = np.asarray(t + _sum_to_odd(t_low, u_low, "rn"))
    size = np.abs(p)
    # Within these bounds no step overflows or loses bits to underflow.
    safe = ((size > 2.0**-900) & (size < 2.0**900)) & (np.abs(a) < 2.0**900) & (np.abs(b) < 2.0**900)
    safe &= np.abs(c) < 2.0**900
    if rounding != "rn":
        safe[...] = False
    if not safe.all():
        rest = ~safe
        finite = np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
        r[rest] = a[rest] * b[rest] + c[rest]
        if rounding == "rn":
            rest &= (a != 0) & (b != 0)  # with a zero product, the plain addition is already correctly rounded
        exact.apply(exact.fma_one, rounding, r, rest & finite, a, b, c)
        lone = rest & np.isfinite(a) & np.isfinite(b) & ~np.isfinite(c)
        r[lone] = c[lone] + 0.0
    return r


def _ordered(x: Array, dtype: str) -> Array:
    """Converts floats to signed integers that sort like the floats, with -0 just below +0."""
    row = FORMATS[dtype]
    bits = x.view(row.signed)
    key = bits >> row.signed(row.width - 1)
    key &= row.signed(row.sign - 1)
    key ^= bits
    return key


def _extreme(a: Array, b: Array, dtype: str, nan: bool, xorsign_abs: bool, ftz: bool, larger: bool) -> Array:
    row = FORMATS[dtype]
    if ftz:
        a, b = flush(a, dtype), flush(b, dtype)
    # The fast path uses numpy alone. It is right if no result is NaN and no result is a zero that may have either sign.
    if dtype == "f32" and not xorsign_abs:
        propagating, avoiding = (np.maximum, np.fmax) if larger else (np.minimum, np.fmin)
        r = np.asarray((propagating if nan else avoiding)(a, b))
        if (r.size and np.abs(r).min() > 0) or not (np.isnan(r) | _zeros_of_two_signs(a, b)).any():
            return r
    sign = None
    if xorsign_abs:
        sign = (a.view(row.bits) ^ b.view(row.bits)) & row.bits(row.sign)
        a, b = ((x.view(row.bits) & row.bits(row.sign - 1)).view(row.storage) for x in (a, b))
    a_nan, b_nan = is_nan(a, dtype), is_nan(b, dtype)
    key = (np.maximum if larger else np.minimum)(_ordered(a, dtype), _ordered(b, dtype))
    bits = key >> row.signed(row.width - 1)
    bits &= row.signed(row.sign - 1)
    bits ^= key
    r = bits.view(row.bits)
    if sign is not None:
        r |= sign
    if a_nan.any() or b_nan.any():
        a_bits, b_bits, a_nan, b_nan = np.broadcast_arrays(a.view(row.bits), b.view(row.bits), a_nan, b_nan)
        if nan:
            r[a_nan | b_nan] = row.nan
        else:
            for missing, other in ((a_nan, b_bits), (b_nan, a_bits)):
                r[missing] = other[missing] if sign is None else other[missing] | sign[missing]
            r[a_nan & b_nan] = row.nan
    return r.view(row.storage)


def _zeros_of_two_signs(a: Array, b: Array) -> Array:
    """Returns a mask of the f32 elements where `a` and `b` are equal but have different bits (+0 and -0). For these
    elements numpy may return either operand."""
    return (a == b) & (a.view(np.uint32) != b.view(np.uint32))


def maximum(a: Array, b: Array, dtype: str, nan: bool = False, xorsign_abs: bool = False, ftz: bool = False) -> Array:
    """`max{.ftz}{.NaN}{.xorsign.abs}`. PTX ISA, "max" (floating point and half precision).

    +0 is larger than -0. If one operand is NaN, the result is the other operand. With `nan` it is the canonical NaN
    instead. If both operands are NaN, the result is the canonical NaN. With `xorsign_abs` the result is the larger
    magnitude, and its sign is the exclusive or of the operands' signs.
    """
    return _extreme(a, b, dtype, nan, xorsign_abs, ftz, larger=True)


def minimum(a: Array, b: Array, dtype: str, nan: bool = False, xorsign_abs: bool = False, ftz: bool = False) -> Array:
    """`min{.ftz}{.NaN}{.xorsign.abs}`. Like `maximum`, but returns the smaller operand. PTX ISA, "min"."""
    return _extreme(a, b, dtype, nan, xorsign_abs, ftz, larger=False)


COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal}
COMPARISONS |= {"gt": np.greater, "ge": np.greater_equal}
_NEGATED = {"equ": "ne", "neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}


@np.errstate(all="ignore")
def compare(a: Array, b: Array, op: str, dtype: str, ftz: bool = False) -> Array:
    """`setp.op{.ftz}` on floats, as a bool array. PTX ISA, "Floating Point Comparisons".

    - `op` eq ne lt le gt ge: false if an operand is NaN.
    - `op` equ neu ltu leu gtu geu: true if an operand is NaN.
    - `op` num: true if both operands are numbers. `op` nan: true if an operand is NaN.
    """
    if ftz:
        a, b = flush(a, dtype), flush(b, dtype)
    if op in ("num", "nan"):
        either = is_nan(a, dtype) | is_nan(b, dtype)
        return either if op == "nan" else ~either
    if dtype in ("f16", "bf16"):
        a, b = to_f32(a, dtype), to_f32(b, dtype)
    # numpy's != is true for NaN operands, and PTX's `ne` is false.
    if op == "ne":
        return (a < b) | (a > b)
    if op in COMPARISONS:
        return COMPARISONS[op](a, b)
    if op == "equ":
        return ~((a < b) | (a > b))
    return ~COMPARISONS[_NEGATED[op]](a, b)


def abs(a: Array, dtype: str, ftz: bool = False) -> Array:
    """`abs{.ftz}`: clears the sign bit, except of a NaN. PTX ISA, "abs"."""
    if ftz:
        a = flush(a, dtype)
    row = FORMATS[dtype]
    return _quiet((bits_of(a, dtype) & row.bits(row.sign - 1)).view(row.storage), a, dtype)


def neg(a: Array, dtype: str, ftz: bool = False) -> Array:
    """`neg{.ftz}`: flips the sign bit, except of a NaN. PTX ISA, "neg"."""
    if ftz:
        a = flush(a, dtype)
    row = FORMATS[dtype]
    return _quiet((bits_of(a, dtype) ^ row.bits(row.sign)).view(row.storage), a, dtype)


def _quiet(r: Array, a: Array, dtype: str) -> Array:
    """Replaces NaN results in place. The replacement is the canonical NaN, or in f64 the operand's NaN with the quiet
    bit set."""
    if dtype != "f64":
        return canonicalise(r, dtype)
    nan = np.isnan(a)
    if nan.any():
        row = FORMATS[dtype]
        r.view(row.bits)[nan] = a.view(row.bits)[nan] | row.bits(1 << (row.fraction - 1))
    return r


def copysign(a: Array, b: Array, dtype: str) -> Array:
    """`copysign d, a, b`: returns `b` with the sign of `a`. PTX ISA, "copysign"."""
    row = FORMATS[dtype]
    sign = bits_of(a, dtype) & row.bits(row.sign)
    return (sign | (bits_of(b, dtype) & row.bits(row.sign - 1))).view(row.storage)


def testp(a: Array, op: str, dtype: str) -> Array:
    """`testp.op`, as a bool array. `op` is finite, infinite, number, notanumber, normal or subnormal. Zeros
    count as normal. PTX ISA, "testp"."""
    row = FORMATS[dtype]
    magnitude = bits_of(a, dtype) & row.bits(row.sign - 1)
    infinity = row.bits(row.infinity)
    subnormal = (magnitude != 0) & (magnitude < row.bits(1 << row.fraction))
    return {
        "finite": magnitude < infinity,
        "infinite": magnitude == infinity,
        "number": magnitude <= infinity,
        "notanumber": magnitude > infinity,
        "normal": (magnitude < infinity) & ~subnormal,
        "subnormal": subnormal,
    }[op]
