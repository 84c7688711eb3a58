"""Finds the numbers that a kernel computes past the end of a row, where its loads are masked off."""

from __future__ import annotations

from dsl.lowering.directives.wide import WideRegion, starts_with
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import I1
from dsl.lowering.known.forms import Forms
from dsl.lowering.ops import operand


class MostOfRow:
    """Represents the maximum of a row, as an abstract value. The maximum is -∞ only if all elements of the row are -∞.
    Then -∞ minus the maximum is NaN at all positions, in the row and past its end. Otherwise it is -∞."""


Told = float | int | bool | MostOfRow
MOST = MostOfRow()
EXACT = {*range(-128, 128), float("inf"), float("-inf")}
"""Numbers that all float types of at least 16 bits represent exactly, without rounding."""


class Beyond(Forms[Told]):
    """Finds the values that a region computes at positions past the end of a row. `inside` contains the flags that are
    true exactly at the positions in the row."""

    def __init__(self, region: WideRegion, inside: set[Value]):
        self.region, self.inside = region, inside
        self.known: dict[Value, Told | None] = {}

    def of(self, value: Value) -> Told | None:
        """Returns the number in `value` at positions past the end of a row, or None if it is unknown."""
        if value not in self.known:
            self.known[value] = self._of(value)
        return self.known[value]

    def _of(self, value: Value) -> Told | None:
        number, op = constant_of(value), value.op
        if value in self.inside or number is not None or op is None:
            return False if value in self.inside else number
        if op in self.region.sinks:
            return MOST if starts_with(op) == float("-inf") else None
        if op.spec.access.kind:
            mask, other = operand(op, "mask"), operand(op, "other")
            off = mask is not None and self.of(mask) is False
            return (0 if other is None else self.of(other)) if off else None
        if op.spec.algebra.masks == "all" and any(self.of(each) is False for each in op.operands):
            return False
        found = self.told(value)
        return self._computed(op) if found is None and op.spec.elementwise else found

    def _computed(self, op: Op) -> Told | None:
        """Computes the result of `op` from the numbers of its operands. Returns None if an operand is unknown, or if
        the result may depend on the type."""
        numbers = [self.of(each) for each in op.operands]
        if any(number is None or isinstance(number, MostOfRow) for number in numbers):
            return None
        if op.spec.algebra.lowest is not None:
            return op.spec.algebra.lowest if numbers == [float("-inf")] else None
        computes = op.spec.algebra.computes
        result = numbers[0] if op.spec.algebra.keeps == "number" else None if computes is None else computes(*numbers)
        dtype = op.result.dtype
        if dtype.is_float or dtype is I1:
            return result if result in EXACT else None
        if isinstance(result, int | float) and result in range(128):
            return int(result)  # a conversion to an integer makes 0 of 0.0
        return None

    def leaves(self, sink: Op) -> bool:
        """Whether the reduction `sink` returns the same result with and without the positions past the end of a row."""
        number = starts_with(sink)
        return number is not None and self.of(sink.operands[0]) == number

    # ---- rules by the form of an operation ----

    def added(self, op: Op, sign: int) -> Told | None:
        a, b = (self.of(each) for each in op.operands)
        return float("-inf") if a == float("-inf") and b is MOST and sign < 0 else None

    def chosen(self, op: Op) -> Told | None:
        flag = self.of(op.operands[0])
        return None if flag is None or isinstance(flag, MostOfRow) else self.of(op.operands[1 if flag else 2])

    def repeated(self, op: Op) -> Told | None:
        return self.of(op.operands[0])

    reshaped = repeated
