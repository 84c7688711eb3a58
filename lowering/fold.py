"""What an operation need not compute: folding of constants and of what facts decide, with the run-time's own meaning of
integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lowering.ir import Value
from lowering.types import I1, DType, TileType, int_range

if TYPE_CHECKING:
    from lowering.builder import Builder
    from lowering.facts import Analysis, Facts


def constant_of(value: Value) -> int | float | bool | None:
    """The number that a value is, through broadcasts; None if it is not constant."""
    op = value.op
    while op is not None and op.name in ("broadcast", "reshape"):
        op = op.operands[0].op
    return op.attrs["value"] if op is not None and op.name == "constant" else None


def wrap(value: int, dtype: DType) -> int | None:
    """`value` as the type stores it; None for an index that would not fit 32 bits (its width is not known yet)."""
    low, high = int_range(dtype)
    if low <= value <= high:
        return value
    if dtype.kind == "index":
        return None
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_signed and value > high else value


_INTEGER: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else None,
    "mod": lambda a, b: a % b if b else None,
    "minimum": min,
    "maximum": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << b if 0 <= b < 64 else None,
    "shr": lambda a, b: a >> b if 0 <= b < 64 else None,
}
_COMPARE: dict[str, Callable[..., bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def computed(name: str, numbers: Sequence[int], dtype: DType) -> int | None:
    """What an operation on integers of this type makes of these numbers; None where that is not known here."""
    if name in _COMPARE:
        return _COMPARE[name](*numbers)
    if name == "select":
        return numbers[1] if numbers[0] else numbers[2]
    result = _INTEGER[name](*numbers) if name in _INTEGER else None
    return None if result is None else wrap(result, dtype)


_WHOLE = {"round": "rn", "floor": "rm", "ceil": "rp", "trunc": "rz"}


def fold(builder: Builder, name: str, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
    """The value that the operation needs not compute, or None."""
    if not operands or not isinstance(operands[0].type, TileType):
        return None
    if name in ("broadcast", "reshape"):
        return _fold_shape(builder, name, operands[0], tuple(attrs["shape"]))
    if name == "cast" and operands[0].dtype is attrs["to"]:
        return operands[0]
    if name == "cast" and attrs["to"].is_int and attrs["rounding"] in (None, "rz"):
        whole = operands[0].op
        if whole is not None and whole.name in _WHOLE:  # rounded by the conversion itself
            return builder.value("cast", whole.operands[0], **attrs | {"rounding": _WHOLE[whole.name]})

    numbers = [constant_of(v) for v in operands]
    dtype, shape = operands[0].dtype, operands[0].tile.shape

    def number(value: int | float | bool, of: DType = dtype) -> Value:
        return builder.constant(value, of, shape)

    if name == "select":
        if numbers[0] is not None:
            return operands[1] if numbers[0] else operands[2]
        return operands[1] if operands[1] is operands[2] else None
    if dtype.is_float:
        return None  # the machine's rounding is the machine's business, and a constant is rounded only there
    if name in _COMPARE and None not in numbers:
        return number(_COMPARE[name](*numbers), I1)
    if dtype is I1:
        return _fold_logic(name, operands, numbers, number)
    if None not in numbers and name in _INTEGER:
        result = _INTEGER[name](*numbers)
        wrapped = None if result is None else wrap(result, dtype)
        return None if wrapped is None else number(wrapped)
    if name == "neg" and numbers[0] is not None:
        wrapped = wrap(-int(numbers[0]), dtype)
        return None if wrapped is None else number(wrapped)
    if name == "cast" and numbers[0] is not None and attrs["to"].is_int and not attrs["saturate"]:
        wrapped = wrap(int(numbers[0]), attrs["to"])
        return None if wrapped is None else number(wrapped, attrs["to"])
    if len(operands) != 2:
        return None
    a, b = operands
    if name in ("add", "or", "xor") and numbers[0] == 0:
        return b
    if name in ("add", "sub", "or", "xor", "shl", "shr") and numbers[1] == 0:
        return a
    if name == "mul" and numbers[0] == 1:
        return b
    if name in ("mul", "floordiv") and numbers[1] == 1:
        return a
    if name in ("mul", "and") and 0 in numbers:
        return number(0)
    if name == "mod" and numbers[1] == 1:
        return number(0)
    if name in ("minimum", "maximum") and a is b:
        return a
    if name == "sub" and b.op is not None and b.op.name == "mod" and b.op.operands[0] is a:
        divisor = b.op.operands[1]  # a - a % n is a // n * n, of which the divisor is seen
        if constant_of(divisor):
            return builder.value("mul", builder.value("floordiv", a, divisor), divisor)
    return _fold_known(builder.facts, name, operands, number) if builder.facts is not None else None


def _fold_shape(builder: Builder, name: str, value: Value, shape: tuple[int, ...]) -> Value | None:
    """Of several changes of shape one after the other, the last is enough."""
    if value.tile.shape == shape:
        return value
    if value.op is not None:
        made, source = value.op.name, value.op.operands[0] if value.op.operands else None
        if made == "reshape" and name == "reshape" and source is not None:
            return builder.reshape(source, shape)
        if made == "broadcast" and source is not None and not source.tile.shape:
            return builder.value("broadcast", source, shape=shape)
    return None


def _fold_known(facts: Analysis, name: str, operands: Sequence[Value], number: Any) -> Value | None:
    """What ranges and divisors decide: comparisons, and multiples of n divided by n with nothing left over."""
    if name in _COMPARE:
        decided = _decided(name, *map(facts.of, operands))
        return None if decided is None else number(decided, I1)
    if name == "mod":
        divisor = constant_of(operands[1])
        return number(0) if divisor and _is_multiple(facts, operands[0], divisor) else None
    if name == "mul":
        for quotient, factor in (operands, reversed(operands)):
            made = quotient.op
            if made is not None and made.name == "floordiv":
                whole, divisor = made.operands[0], constant_of(made.operands[1])
                if divisor and divisor == constant_of(factor) and _is_multiple(facts, whole, divisor):
                    return whole
    return None


def _is_multiple(facts: Analysis, value: Value, of: int | float | bool) -> bool:
    return of > 0 and facts.of(value).every % of == 0


def _decided(name: str, a: Facts, b: Facts) -> bool | None:
    """The outcome of a comparison that is the same for all values within the ranges, or None."""
    if name in ("gt", "le"):  # b < a
        a, b = b, a
    below = a.high is not None and b.low is not None and a.high < b.low
    not_below = a.low is not None and b.high is not None and a.low >= b.high
    if name in ("eq", "ne"):
        above = a.low is not None and b.high is not None and a.low > b.high
        return name == "ne" if below or above else None
    if not below and not not_below:
        return None
    return below == (name in ("lt", "gt"))


def _fold_logic(name: str, operands: Sequence[Value], numbers: list, number: Any) -> Value | None:
    if name == "not":
        return None if numbers[0] is None else number(not numbers[0])
    if name not in ("and", "or") or len(operands) != 2:
        return None
    for mine, other in ((0, 1), (1, 0)):
        if numbers[mine] is not None:
            absorbing = (name == "or") == bool(numbers[mine])
            return number(name == "or") if absorbing else operands[other]
    return operands[0] if operands[0] is operands[1] else None
