"""The `.approx` and `.full` instructions, computed in float64 and rounded once. Special values follow the ISA's tables.

The ISA bounds the errors of these instructions, but does not define the results to the bit. The emulator's results are
within all of these bounds. The sections of the PTX ISA are "Floating Point Instructions" (ex2, lg2, sin, cos, tanh,
rcp, rsqrt, sqrt, div) and, for f16 and bf16, "Half Precision ...". Element types and NaNs are represented as in
`numerics.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .formats import Array, canonicalise, flush, nearest_of_f64, to_f64


def _approximate(function: Callable[[Array], Array], x: Array, dtype: str, ftz: bool) -> Array:
    with np.errstate(all="ignore"):
        if ftz:
            x = flush(x, dtype)
        r = nearest_of_f64(function(to_f64(x, dtype)), dtype)
        if ftz:
            r = flush(r, dtype)
        return canonicalise(r, dtype)


def ex2_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`ex2.approx{.ftz}`: 2^x. The relative error of hardware is at most 2^-22.5 in f32, 2^-9.9 in f16 and 2^-7 in
    bf16."""
    return _approximate(np.exp2, x, dtype, ftz)


def lg2_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`lg2.approx{.ftz}`: log2(x). The result is -inf for zeros and NaN for negative numbers."""
    return _approximate(np.log2, x, dtype, ftz)


def sin_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`sin.approx{.ftz}`: the sine of x in radians. The result is NaN for infinities."""
    return _approximate(np.sin, x, dtype, ftz)


def cos_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`cos.approx{.ftz}`: the cosine of x in radians. The result is NaN for infinities."""
    return _approximate(np.cos, x, dtype, ftz)


def tanh_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`tanh.approx`: tanh(x). In f32, the relative error of hardware is at most 2^-11."""
    return _approximate(np.tanh, x, dtype, ftz)


def sqrt_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`sqrt.approx{.ftz}`: the square root of x. The result is -0 for -0 and NaN for negative numbers."""
    return _approximate(np.sqrt, x, dtype, ftz)


def _reciprocal(x: Array) -> Array:
    return 1.0 / x


def _reciprocal_root(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def rcp_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`rcp.approx{.ftz}`: 1 / x. The f64 form reads only the upper 32 bits of x, and the lower 32 bits of its result
    are 0."""
    return _upper_half(_reciprocal, x, ftz) if dtype == "f64" else _approximate(_reciprocal, x, dtype, ftz)


def rsqrt_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`rsqrt.approx{.ftz}`: 1 / sqrt(x). For a zero, the result is an infinity of the same sign. For a negative number,
    the result is NaN.

    `rsqrt.approx.ftz.f64` uses only the upper 32 bits of its operand and result. `rsqrt.approx.f64` uses all 64 bits.
    """
    if dtype == "f64" and ftz:
        return _upper_half(_reciprocal_root, x, ftz)
    return _approximate(_reciprocal_root, x, dtype, ftz)


def _upper_half(function: Callable[[Array], Array], x: Array, ftz: bool) -> Array:
    """Applies `function` to float64 numbers, but uses only the upper 32 bits of operand and result. These bits contain
    20 bits of the fraction (PTX ISA, "rcp.approx.ftz.f64"). The canonical NaN is 0x7fffffff00000000."""
    high = np.uint64(0xFFFFFFFF00000000)
    with np.errstate(all="ignore"):
        r = flush(function((flush(x, "f64").view(np.uint64) & high).view(np.float64)), "f64")
        nan = np.isnan(r)
        # To round to nearest, half of the last kept bit is added before the lower bits are cleared.
        bits = (r.view(np.uint64) + np.uint64(0x80000000)) & high
        bits[nan] = 0x7FFFFFFF00000000
        return bits.view(np.float64)


def div_approx(a: Array, b: Array, dtype: str, ftz: bool = False) -> Array:
    """`div.approx{.ftz}.f32`: a * (1 / b). If |b| > 2^126, the reciprocal is 0. The result is then NaN if a is
    infinite, else 0."""
    with np.errstate(all="ignore"):
        if ftz:
            a, b = flush(a, dtype), flush(b, dtype)
        reciprocal = 1.0 / b.astype(np.float64)
        # For 2^126 < |b| < 2^128, the ISA gives a quotient of NaN if the dividend is infinite, else 0.
        far = np.abs(b) > np.float32(2.0**126)
        if far.any():
            reciprocal[far] = np.copysign(0.0, b[far])
        r = (a * reciprocal).astype(np.float32)
        if ftz:
            r = flush(r, dtype)
        return canonicalise(r, dtype)


def div_full(a: Array, b: Array, dtype: str, ftz: bool = False) -> Array:
    """`div.full{.ftz}.f32`: a / b, within 2 units in the last place over the whole range."""
    with np.errstate(all="ignore"):
        if ftz:
            a, b = flush(a, dtype), flush(b, dtype)
        r = np.asarray(np.divide(a, b))
        if ftz:
            r = flush(r, dtype)
        return canonicalise(r, dtype)
