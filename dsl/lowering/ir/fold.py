"""Constants: which values are constant, and what operations compute of constants, with the kernel's integer types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import copysign
from typing import Any

from dsl.lowering.ir.function import Value
from dsl.lowering.ir.types import DType, int_range


def constant_of(value: Value) -> int | float | bool | None:
    """The number that a value is, also through changes of shape; None if it is not constant."""
    op = value.op
    while op is not None and op.spec.elements.reshapes:
        op = op.operands[0].op
    return op.attrs["value"] if op is not None and op.spec.elements.kind == "number" else None


def is_zero_of_bits(value: Value) -> bool:
    """Whether all bits of a value are 0, as in the zeros that copies write where their mask is off. Not so for -0.0."""
    number = constant_of(value)
    return number == 0 and copysign(1, number) > 0


def wrap(value: int, dtype: DType) -> int | None:
    """`value` as the type stores it. None for an index that does not fit 32 bits, since its width is not known yet."""
    low, high = int_range(dtype)
    if low <= value <= high:
        return value
    if dtype.kind == "index":
        return None
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_signed and value > high else value


Compute = Callable[..., Any]
"""Integers (i1: bools) → the result before it wraps around; None where there is none."""


def computed(computes: Compute | None, numbers: Sequence[int | float], dtype: DType) -> int | None:
    """The result of an operation on these numbers, as a value of this type; None where that is not known."""
    result = None if computes is None else computes(*numbers)
    return None if result is None else wrap(result, dtype)
