"""Numbers that a kernel computes at positions past the end of a row, where the loads are masked off."""

from __future__ import annotations

from dsl.lowering.directives.wide import WideRegion, starts_with
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import I1
from dsl.lowering.known.forms import Forms
from dsl.lowering.ops import operand


class MostOfRow:
    """The greatest element of a row. This element is -∞ only if all elements are -∞. In that case, -∞ minus this
    element is NaN at all positions."""


Told = float | int | bool | MostOfRow
MOST = MostOfRow()
EXACT = {*range(-128, 128), float("inf"), float("-inf")}
"""Results that have the same value in each type, because no type rounds them. Integers of 8 bits represent -128 to
127."""


class Beyond(Forms[Told]):
    """The values that a region computes at positions past the end of a row. `inside` has the flags that are true for
    positions in the row."""

    def __init__(self, region: WideRegion, inside: set[Value]):
        self.region, self.inside = region, inside
        self.known: dict[Value, Told | None] = {}

    def of(self, value: Value) -> Told | None:
        """The number that `value` has at positions past the end of a row. Returns None if the number is unknown."""
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
        """The result of an operation on known numbers. Returns None if the result may depend on the type."""
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
        """Whether positions past the end of a row leave the result of a reduction unchanged."""
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
