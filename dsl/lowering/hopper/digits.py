"""Expresses index tiles as digits of an element's position, such as `pixel // q % p` with `pixel = first +
arange(128)`."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import INDEX, S32
from dsl.lowering.known.facts import Analysis
from dsl.lowering.known.forms import Forms


class Digit(Struct, frozen=True):
    """The index `(origin + position) // step % count * factor`. `position` is an element's position along `axis` of a
    tile.

    If `origin` is None, it is 0. If `count` is 0, there is no `% count`.
    """

    axis: int
    step: int = 1
    count: int = 0
    factor: int = 1
    origin: Value | None = None

    def split(self, by: int) -> tuple[tuple[Digit, ...], tuple[Digit, ...]] | None:
        """Divides the digit by `by`. Returns the digits of the quotient and of the remainder, or None if they are not
        digits."""
        if by == 1 or (self.count and by % self.count == 0):
            return ((self,), ()) if by == 1 else ((), (self,))
        if self.count % by:
            return None
        quotient = replace(self, step=self.step * by, count=self.count // by)
        return (quotient,), (replace(self, count=by),)


class TileIndex(Struct, frozen=True):
    """An index tile, as the sum of the scalar `start` and of digits."""

    start: Value
    digits: tuple[Digit, ...] = ()


class Digits(Forms[TileIndex]):
    """Converts the index tiles of a kernel to TileIndex, by following their definitions. `b` builds the scalars."""

    def __init__(self, b: Builder, facts: Analysis):
        self.b, self.facts = b, facts

    def of(self, value: Value) -> TileIndex | None:
        return self.told(value) if value.tile.shape else TileIndex(value)

    def number(self, op: Op) -> TileIndex:
        return TileIndex(self.b.constant(op.attrs["value"], op.result.dtype))

    def counted(self, op: Op) -> TileIndex:
        """Returns an `arange` as one digit."""
        # An `arange` with one element is the number 0. So after a broadcast, the index is constant along that axis.
        extent = op.attrs["extent"]
        return TileIndex(self.b.constant(0, op.result.dtype), (Digit(0, count=extent),) if extent > 1 else ())

    def added(self, op: Op, sign: int) -> TileIndex | None:
        x, y = map(self.of, op.operands)
        if x is None or y is None:
            return None
        turned = tuple(replace(digit, factor=sign * digit.factor) for digit in y.digits)
        return TileIndex(self.b.value("add" if sign > 0 else "sub", x.start, y.start), (*x.digits, *turned))

    def multiplied(self, op: Op) -> TileIndex | None:
        x, y = map(self.of, op.operands)
        if x is None or y is None:
            return None
        if x.digits:
            x, y = y, x
        factor = constant_of(x.start)
        if x.digits or (y.digits and factor is None):
            return None
        digits = tuple(replace(digit, factor=digit.factor * int(factor or 0)) for digit in y.digits)
        return TileIndex(self.b.value("mul", x.start, y.start), digits if factor else ())

    def divided(self, op: Op) -> TileIndex | None:
        parts = self._parts(op)
        return None if parts is None else parts[0]

    def left_over(self, op: Op) -> TileIndex | None:
        parts = self._parts(op)
        return None if parts is None else parts[1]

    def _parts(self, op: Op) -> tuple[TileIndex, TileIndex] | None:
        """Returns the quotient and the remainder of the division `op`."""
        index, divisor = map(self.of, op.operands)
        if index is None or divisor is None or divisor.digits:
            return None
        start, by = index.start, constant_of(divisor.start)
        if not index.digits:
            made = [TileIndex(self.b.value(name, start, divisor.start)) for name in ("floordiv", "mod")]
            return made[0], made[1]
        if by is None or by < 1 or len(index.digits) > 1 or index.digits[0].factor != 1:
            return None
        (digit,), zero = index.digits, self.b.constant(0, start.dtype)
        parts = digit.split(int(by)) if constant_of(start) == 0 else None
        if parts is None and digit == Digit(digit.axis, count=op.result.tile.shape[digit.axis]):
            parts, start = Digit(digit.axis, origin=start).split(int(by)), zero
        if parts is None:
            return None
        return TileIndex(self.b.value("floordiv", start, divisor.start), parts[0]), TileIndex(zero, parts[1])

    def repeated(self, op: Op) -> TileIndex | None:
        index, by = self.of(op.operands[0]), len(op.result.tile.shape) - len(op.operands[0].tile.shape)
        if index is None:
            return None
        return TileIndex(index.start, tuple(replace(digit, axis=digit.axis + by) for digit in index.digits))

    def reshaped(self, op: Op) -> TileIndex | None:
        """Returns the digits of the operand, if only axes of one element are added or removed."""
        before, after = op.operands[0].tile.shape, op.result.tile.shape
        if [extent for extent in before if extent > 1] != [extent for extent in after if extent > 1]:
            return None
        index = self.of(op.operands[0])
        long = [axis for axis, extent in enumerate(after) if extent > 1]
        places = dict(zip((axis for axis, extent in enumerate(before) if extent > 1), long, strict=True))
        if index is None or any(digit.axis not in places for digit in index.digits):
            return None
        return TileIndex(index.start, tuple(replace(digit, axis=places[digit.axis]) for digit in index.digits))

    def converted(self, op: Op) -> TileIndex | None:
        """Returns the index of the s32 operand of a conversion."""
        # If an s32 sum overflows, its conversion to an index is undefined. So the sum's terms may be converted instead.
        source = op.operands[0]
        index = self.of(source) if op.result.dtype is INDEX and source.dtype in (S32, INDEX) else None
        if index is None:
            return None
        digits = (replace(digit, origin=digit.origin and self._index(digit.origin)) for digit in index.digits)
        return TileIndex(self._index(index.start), tuple(digits))

    def _index(self, value: Value) -> Value:
        return value if value.dtype is INDEX else self.b.value("cast", value, to=INDEX, saturate=False, rounding=None)
