"""Emulates the `.approx` and `.full` instructions. Infinities, NaNs and zeros follow the tables of the PTX ISA.

The ISA bounds the errors of these instructions, but does not define every bit of the results. The emulator computes
most results in float64 and rounds once, which is within the bounds. The PTX ISA describes ex2, lg2, sin, cos, tanh,
rcp, rsqrt, sqrt and div in "Floating Point Instructions", and the f16 and bf16 forms in "Half Precision ...". Arrays
represent element types and NaNs as in `formats.py`.
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
    """Computes `NAME.approx{.ftz}`, where `name` is a key of `FUNCTIONS`.

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
    """Applies `function` to float64 numbers, but uses only the upper 32 bits of the operand and of the result. These 32
    bits include 20 bits of the fraction (PTX ISA, "rcp.approx.ftz.f64"). A NaN result becomes 0x7fffffff00000000."""
    high = np.uint64(0xFFFFFFFF00000000)
    r = flush(function((flush(x, "f64").view(np.uint64) & high).view(np.float64)), "f64")
    nan = np.isnan(r)
    # To round to nearest, half of the last kept bit is added before the lower bits are cleared.
    bits = (r.view(np.uint64) + np.uint64(0x80000000)) & high
    bits[nan] = 0x7FFFFFFF00000000
    return bits.view(np.float64)


def div_approx(a: Array, b: Array, dtype: str, ftz: bool = False) -> Array:
    """Computes `div.approx{.ftz}.f32` as a * (1 / b). If |b| > 2^126, the function replaces 1 / b by 0. The result is
    then NaN if a is infinite, else 0."""
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
    """Computes `div.full{.ftz}.f32`: a / b, rounded to nearest. The ISA allows an error of 2 units in the last
    place."""
    with np.errstate(all="ignore"):
        if ftz:
            a, b = flush(a, dtype), flush(b, dtype)
        r = np.asarray(np.divide(a, b))
        if ftz:
            r = flush(r, dtype)
        return canonicalise(r, dtype)
