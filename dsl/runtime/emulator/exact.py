"""Computes float64 operations exactly with Python integers, one element at a time.

These functions compute what numpy's float64 arithmetic cannot: directed rounding of float64 results, and fused
multiply-adds whose intermediate values exceed float64's range. The functions are slow (microseconds an element) and
rarely needed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def rounded(numerator: int, denominator: int, rounding: str, *, sticky: bool = False) -> float:
    """Rounds `numerator / denominator` to float64, with subnormals and overflow (IEEE 754). The quotient must not be 0.

    The fraction need not be in lowest terms. Python's `Fraction` would reduce it, so a fused multiply-add took 8.8 us
    with `Fraction` and takes 1.1 us with this function. If `sticky` is true, the exact number is slightly further from
    zero than the quotient. Between the two, there must be no float64 and no midpoint of two neighbouring float64
    numbers.
    """
    sign = -1 if (numerator < 0) != (denominator < 0) else 1
    if rounding == "rn" and not sticky:  # Python divides integers with this rounding
        try:
            return numerator / denominator
        except OverflowError:
            return sign * math.inf
    numerator, denominator = abs(numerator), abs(denominator)
    exponent = numerator.bit_length() - denominator.bit_length()
    if numerator << max(-exponent, 0) < denominator << max(exponent, 0):
        exponent -= 1
    last = max(exponent, -1022) - 52  # exponent of the result's last bit
    if last >= 0:
        quotient, remainder = divmod(numerator, denominator << last)
        unit = denominator << last
    else:
        quotient, remainder = divmod(numerator << -last, denominator)
        unit = denominator
    inexact = remainder != 0 or sticky
    if rounding == "rn":
        up = 2 * remainder > unit or (2 * remainder == unit and (sticky or quotient % 2 == 1))
    elif rounding == "rz":
        up = False
    elif rounding in ("rm", "rp"):
        up = inexact and (sign < 0) == (rounding == "rm")
    else:
        raise ValueError(f"unknown rounding {rounding!r}")
    quotient += up
    if quotient.bit_length() + last > 1024:
        to_infinity = rounding == "rn" or (rounding != "rz" and (sign < 0) == (rounding == "rm"))
        return sign * (math.inf if to_infinity else math.ldexp(2.0**53 - 1, 971))
    return sign * math.ldexp(quotient, last)


def fma_one(a: float, b: float, c: float, rounding: str) -> float:
    """Computes a * b + c for finite operands, rounded once. If the exact result is 0, it has the sign that IEEE 754
    requires."""
    (p, q), (r, s), (t, u) = a.as_integer_ratio(), b.as_integer_ratio(), c.as_integer_ratio()
    exact = p * r * u + t * q * s
    if exact:
        return rounded(exact, q * s * u, rounding)
    product_negative = math.copysign(1.0, a) * math.copysign(1.0, b) < 0
    c_negative = math.copysign(1.0, c) < 0
    if product_negative == c_negative and (a == 0 or b == 0):
        return -0.0 if c_negative else 0.0
    return -0.0 if rounding == "rm" else 0.0


def add_one(a: float, b: float, rounding: str) -> float:
    """Computes a + b for finite operands, rounded once."""
    return fma_one(a, 1.0, b, rounding)


def mul_one(a: float, b: float, rounding: str) -> float:
    """Computes a * b for finite operands, rounded once."""
    if a == 0 or b == 0:
        return a * b
    (p, q), (r, s) = a.as_integer_ratio(), b.as_integer_ratio()
    return rounded(p * r, q * s, rounding)


def div_one(a: float, b: float, rounding: str) -> float:
    """Computes a / b for finite operands, rounded once. b must not be 0."""
    if a == 0:
        return a / b
    (p, q), (r, s) = a.as_integer_ratio(), b.as_integer_ratio()
    return rounded(p * s, q * r, rounding)


def sqrt_one(a: float, rounding: str) -> float:
    """Computes the square root of a finite positive number, rounded once."""
    mantissa, exponent = math.frexp(a)
    if exponent % 2:
        mantissa, exponent = mantissa / 2, exponent + 1
    p, q = mantissa.as_integer_ratio()
    # The integer root has 60 bits: the 53 bits of a float64, and at least one more bit for rounding. `sticky` states
    # whether the exact root has further bits.
    scaled, half = p * 4**60 // q, exponent // 2
    root = math.isqrt(scaled)
    return rounded(root << max(half, 0), 1 << 60 + max(-half, 0), rounding, sticky=root * root != scaled)


def apply(function: Callable[..., float], rounding: str, result: Array, where: Array, *operands: Array) -> None:
    """Assigns `function(*operands, rounding)` to `result[where]`, element by element. All arrays have the same
    shape."""
    chosen = [operand[where].tolist() for operand in operands]
    result[where] = [function(*row, rounding) for row in zip(*chosen, strict=True)]
