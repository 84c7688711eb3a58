"""The `.approx` and `.full` instructions: computed in float64 and rounded once. Special values follow the ISA's tables.

The ISA bounds their error and leaves the bits open. These results are within every bound (PTX ISA, "Floating Point
Instructions": ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt, div; f16 and bf16 forms in "Half Precision ..."). Element
types and NaN are those of `numerics.py`.
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
    """`ex2.approx{.ftz}`: 2^x. Error of hardware: at most 2^-22.5 relative in f32, 2^-9.9 in f16, 2^-7 in bf16."""
    return _approximate(np.exp2, x, dtype, ftz)


def lg2_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`lg2.approx{.ftz}`: log2(x); -inf for zeros, NaN below."""
    return _approximate(np.log2, x, dtype, ftz)


def sin_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`sin.approx{.ftz}`: x in radians; NaN for infinities."""
    return _approximate(np.sin, x, dtype, ftz)


def cos_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`cos.approx{.ftz}`: x in radians; NaN for infinities."""
    return _approximate(np.cos, x, dtype, ftz)


def tanh_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`tanh.approx`: error of hardware at most 2^-11 relative in f32."""
    return _approximate(np.tanh, x, dtype, ftz)


def sqrt_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`sqrt.approx{.ftz}`: -0 for -0, NaN below."""
    return _approximate(np.sqrt, x, dtype, ftz)


def _reciprocal(x: Array) -> Array:
    return 1.0 / x


def _reciprocal_root(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


def rcp_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`rcp.approx{.ftz}`: 1 / x. f64 (`rcp.approx.ftz.f64`) reads and gives the upper 32 bits only."""
    return _upper_half(_reciprocal, x, ftz) if dtype == "f64" else _approximate(_reciprocal, x, dtype, ftz)


def rsqrt_approx(x: Array, dtype: str, ftz: bool = False) -> Array:
    """`rsqrt.approx{.ftz}`: 1 / sqrt(x); infinities of the same sign for zeros, NaN below.

    `rsqrt.approx.ftz.f64` reads and gives the upper 32 bits only; `rsqrt.approx.f64` all of them.
    """
    if dtype == "f64" and ftz:
        return _upper_half(_reciprocal_root, x, ftz)
    return _approximate(_reciprocal_root, x, dtype, ftz)


def _upper_half(function: Callable[[Array], Array], x: Array, ftz: bool) -> Array:
    """PTX ISA, "rcp.approx.ftz.f64": 20 bits of fraction in, 20 out, canonical NaN 0x7fffffff00000000."""
    high = np.uint64(0xFFFFFFFF00000000)
    with np.errstate(all="ignore"):
        r = flush(function((flush(x, "f64").view(np.uint64) & high).view(np.float64)), "f64")
        nan = np.isnan(r)
        # Rounds to nearest: half of the last bit that is kept is added before the cut.
        bits = (r.view(np.uint64) + np.uint64(0x80000000)) & high
        bits[nan] = 0x7FFFFFFF00000000
        return bits.view(np.float64)


def div_approx(a: Array, b: Array, dtype: str, ftz: bool = False) -> Array:
    """`div.approx{.ftz}.f32`: a * (1 / b), with a reciprocal that is 0 for 2^126 < |b|: 0 then, NaN for infinite a."""
    with np.errstate(all="ignore"):
        if ftz:
            a, b = flush(a, dtype), flush(b, dtype)
        reciprocal = 1.0 / b.astype(np.float64)
        # The ISA gives a quotient of 0 for 2^126 < |b| < 2^128, and NaN for an infinite dividend.
        far = np.abs(b) > np.float32(2.0**126)
        if far.any():
            reciprocal[far] = np.copysign(0.0, b[far])
        r = (a * reciprocal).astype(np.float32)
        if ftz:
            r = flush(r, dtype)
        return canonicalise(r, dtype)


def div_full(a: Array, b: Array, dtype: str, ftz: bool = False) -> Array:
    """`div.full{.ftz}.f32`: a / b within 2 units in the last place over the whole range."""
    with np.errstate(all="ignore"):
        if ftz:
            a, b = flush(a, dtype), flush(b, dtype)
        r = np.asarray(np.divide(a, b))
        if ftz:
            r = flush(r, dtype)
        return canonicalise(r, dtype)
