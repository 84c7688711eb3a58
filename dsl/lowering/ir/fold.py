"""Folds constants: finds constant values, and computes operations on constants in the kernel's integer types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import copysign
from typing import Any

from dsl.lowering.ir.function import Value
from dsl.lowering.ir.types import DType, int_range


def constant_of(value: Value) -> int | float | bool | None:
    """Returns the number of a constant value, even if operations have changed its shape. Returns None if the value is
    not constant."""
    op = value.op
    while op is not None and op.spec.elements.reshapes:
        op = op.operands[0].op
    return op.attrs["value"] if op is not None and op.spec.elements.kind == "number" else None


def is_zero_of_bits(value: Value) -> bool:
    """Returns whether a value is a constant whose bits are all 0. For -0.0, the result is False. Copies write such
    zeros where their mask is false."""
    number = constant_of(value)
    return number == 0 and copysign(1, number) > 0


def wrap(value: int, dtype: DType) -> int | None:
    """Wraps `value` around in `dtype`, for example 256 to 0 in u8. Returns None for an index that does not fit 32 bits,
    because the width of indices is not known yet."""
    low, high = int_range(dtype)
    if low <= value <= high:
        return value
    if dtype.kind == "index":
        return None
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_signed and value > high else value


Compute = Callable[..., Any]
"""Computes an operation on integers (i1: bools), before wrapping. Returns None if there is no result, as for 1 / 0."""


def computed(computes: Compute | None, numbers: Sequence[int | float], dtype: DType) -> int | None:
    """Returns the result of an operation on these numbers, wrapped around in `dtype`. Returns None if the result is not
    known."""
    result = None if computes is None else computes(*numbers)
    return None if result is None else wrap(result, dtype)
