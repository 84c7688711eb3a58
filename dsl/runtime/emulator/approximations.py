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


def _reciprocal_root(x: Array) -> Array:
    return 1.0 / np.sqrt(x)


# The functions of one operand, by the name of the instruction. The comments state the error of hardware.
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ex2": np.exp2,  # relative, at most 2^-22.5 in f32, 2^-9.9 in f16 and 2^-7 in bf16
    "lg2": np.log2,
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,  # relative, at most 2^-11 in f32
    "sqrt": np.sqrt,
    "rcp": np.reciprocal,
    "rsqrt": _reciprocal_root,
}


def approximate(name: str, x: Array, dtype: str, ftz: bool = False) -> Array:
    """`NAME.approx{.ftz}` of a function in `FUNCTIONS`.

    `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64` use only the upper 32 bits of their operand and result.
    `rsqrt.approx.f64` uses all 64 bits.
    """
    with np.errstate(all="ignore"):
        if ftz and dtype == "f64":
            return _upper_half(FUNCTIONS[name], x)
        if ftz:
            x = flush(x, dtype)
        r = nearest_of_f64(FUNCTIONS[name](to_f64(x, dtype)), dtype)
        if ftz:
            r = flush(r, dtype)
        return canonicalise(r, dtype)


def _upper_half(function: Callable[[Array], Array], x: Array) -> Array:
    """Applies `function` to float64 numbers, but uses only the upper 32 bits of operand and result. These bits contain
    20 bits of the fraction (PTX ISA, "rcp.approx.ftz.f64"). The canonical NaN is 0x7fffffff00000000."""
    high = np.uint64(0xFFFFFFFF00000000)
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
