"""Describes the result of an operation in terms of its operands.

Each analysis has its own kind of description, for example a linear form. It defines a subclass of `Forms` with a method
for each kind of operation. The field `form` in the table row of an operation calls this method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import S32

F = TypeVar("F")


class Forms(Generic[F]):
    """Describes the results of operations in terms of their operands, with one method for each kind of operation. A
    method returns None if the result cannot be described."""

    def told(self, value: Value) -> F | None:
        """Returns the description of a value by the operation that computes it, or None."""
        op = value.op
        return op.spec.elements.form(self, op) if op is not None and op.spec.elements.form is not None else None

    def number(self, op: Op) -> F | None:
        """Describes a constant: each element is the attribute `value`."""
        return None

    def counted(self, op: Op) -> F | None:
        """Describes the elements 0, 1, 2 …"""
        return None

    def added(self, op: Op, sign: int) -> F | None:
        """Describes the first operand plus `sign` times the second operand."""
        return None

    def multiplied(self, op: Op) -> F | None:
        """Describes the product of both operands."""
        return None

    def scaled(self, op: Op, factor: int) -> F | None:
        """Describes the first operand times the constant `factor`."""
        return None

    def divided(self, op: Op) -> F | None:
        """Describes the first operand divided by the second operand, rounded down."""
        return None

    def left_over(self, op: Op) -> F | None:
        """Describes the remainder of the first operand divided by the second operand, for a quotient rounded down."""
        return None

    def lesser(self, op: Op) -> F | None:
        """Describes the lesser of the two operands."""
        return None

    def greater(self, op: Op) -> F | None:
        """Describes the greater of the two operands."""
        return None

    def chosen(self, op: Op) -> F | None:
        """Describes a select: each element comes from the second or the third operand."""
        return None

    def ordered(self, op: Op, low: int, apart: int) -> F | None:
        """Describes a comparison: whether operand number `low`, plus `apart`, is at most the other operand."""
        return None

    def block(self, op: Op) -> F | None:
        """Describes the index of the block along the axis in the attribute `axis`."""
        return None

    def blocks(self, op: Op) -> F | None:
        """Describes the number of blocks along the axis in the attribute `axis`."""
        return None

    def repeated(self, op: Op) -> F | None:
        """Describes a broadcast of the operand."""
        return None

    def reshaped(self, op: Op) -> F | None:
        """Describes the operand's elements, in row-major order, in another shape."""
        return None

    def transposed(self, op: Op) -> F | None:
        """Describes the operand with its axes in the order of the attribute `axes`."""
        return None

    def converted(self, op: Op) -> F | None:
        """Describes the operand converted to another type."""
        return None

    def moved(self, op: Op) -> F | None:
        """Describes the operand moved to other threads."""
        return None


class ValueOrder(NamedTuple):
    """The statement that low + apart <= high for each element."""

    low: Value
    high: Value
    apart: int


class ValueOrders(Forms[ValueOrder]):
    """Describes the results of comparisons of two values."""

    def ordered(self, op: Op, low: int, apart: int) -> ValueOrder:
        return ValueOrder(op.operands[low], op.operands[1 - low], apart)


class ScalableForms(Forms[F]):
    """Descriptions that can be multiplied by a constant."""

    def times(self, value: Value, factor: int) -> F | None:
        """Returns the description of a value times a constant."""
        raise NotImplementedError

    def multiplied(self, op: Op) -> F | None:
        for value, other in (op.operands, op.operands[::-1]):
            factor = constant_of(other)
            if factor is not None:
                return self.times(value, int(factor))
        return None

    def scaled(self, op: Op, factor: int) -> F | None:
        return self.times(op.operands[0], factor)


K = TypeVar("K")


def plus(a: Mapping[K, int], b: Mapping[K, int], times: int = 1) -> dict[K, int]:
    """Returns `a` plus `times` · `b`. Both map terms to factors. Terms with the factor 0 are left out of the result."""
    out = dict(a)
    for term, factor in b.items():
        out[term] = out.get(term, 0) + factor * times
    return {term: factor for term, factor in out.items() if factor}


Linear = tuple[dict[Value, int], int]
"""Σ coefficient · value + constant."""


def linear(value: Value) -> Linear:
    """Writes a scalar integer as Σ coefficient · value + constant. Sums and products with constants are expanded.

    >>> # r * 4 + 3  →  ({r: 4}, 3)

    An s32 that is converted to an index keeps its sum, because an s32 sum that overflows is undefined as an index.
    """
    number = constant_of(value)
    if number is not None:
        return {}, int(number)
    form = _LINEAR.told(value)
    return ({value: 1}, 0) if form is None else form


class _LinearForms(ScalableForms[Linear]):
    def added(self, op: Op, sign: int) -> Linear:
        terms, constant = linear(op.operands[0])
        more, extra = linear(op.operands[1])
        return plus(terms, more, sign), constant + sign * extra

    def times(self, value: Value, factor: int) -> Linear:
        terms, constant = linear(value)
        return {b: k * factor for b, k in terms.items() if factor}, constant * factor

    def converted(self, op: Op) -> Linear | None:
        source = op.operands[0]
        return linear(source) if op.result.dtype.kind == "index" and source.dtype is S32 else None


_LINEAR = _LinearForms()
