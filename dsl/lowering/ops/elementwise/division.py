"""Declares division of integers, rounded down, and remainders."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.known.facts import Analysis, Facts, gcd, power_of_two_divisor, start_of, wrapped
from dsl.lowering.ops.elementwise.declare import Number, elementwise, neutral
from dsl.lowering.ops.spec import Algebra, ElementFacts, Makes


def is_multiple(facts: Analysis, value: Value, of: int | float | bool) -> bool:
    return of > 0 and facts.of(value).every % of == 0


def _nothing_left(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    a, divisor = operands[0], numbers[1]
    if divisor == 1 or (divisor and builder.facts is not None and is_multiple(builder.facts, a, divisor)):
        return builder.constant(0, a.dtype, a.tile.shape)
    return None


def _below(builder: Makes, value: Value, number: Number) -> bool:
    """Returns whether 0 <= value < number is known."""
    if builder.facts is None or number is None:
        return False
    facts = builder.facts.of(value)
    return facts.low is not None and facts.low >= 0 and facts.high is not None and facts.high < number


def _nothing(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Rewrites i // 32 to 0, if 0 <= i < 32."""
    a = operands[0]
    return builder.constant(0, a.dtype, a.tile.shape) if _below(builder, a, numbers[1]) else None


def _all_of_it(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Rewrites i % 32 to i, if 0 <= i < 32."""
    return operands[0] if _below(builder, operands[0], numbers[1]) else None


def _whole_and_rest(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> tuple[Value, Value] | None:
    """Splits a tile that is a sum into a scalar and another tile. The scalar must be a multiple of the divisor. Returns
    None if the tile is no such sum."""
    total, divisor = operands[0].op, numbers[1]
    if builder.facts is None or not divisor or total is None or total.name != "add":
        return None
    if not total.result.tile.shape or total.result.dtype.kind != "index":
        return None  # sums of other types may wrap around, which invalidates the laws below
    for whole, rest in (total.operands, total.operands[::-1]):
        made = whole.op
        if made is None or not made.spec.elements.splat or not made.operands or made.operands[0].tile.shape:
            continue
        if is_multiple(builder.facts, whole, divisor):
            return made.operands[0], rest
    return None


def _scalar_apart(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Rewrites (32 n + a) // 32 to n + a // 32, where n is a scalar. The scalar is then divided once for all
    elements."""
    found = _whole_and_rest(builder, operands, numbers)
    number = numbers[1]
    if found is None or number is None:
        return None
    scalar, rest = found
    quotient = builder.value("floordiv", scalar, builder.constant(number, scalar.dtype))
    wide = builder.value("broadcast", quotient, shape=rest.tile.shape)
    return builder.value("add", wide, builder.value("floordiv", rest, operands[1]))


def _rest_apart(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Rewrites (32 n + a) % 32 to a % 32."""
    found = _whole_and_rest(builder, operands, numbers)
    return None if found is None else builder.value("mod", found[1], operands[1])


def _group(a: Facts, b: Facts, axis: int, extent: int) -> int:
    """Returns the number of consecutive elements along `axis` that have the same quotient by `b`. Returns 1 unless all
    elements of `b` are the same positive number."""
    if b.same[axis] != extent or b.low is None or b.low < 0:
        return 1
    return min(a.run[axis], a.start[axis], b.every)


def _quotient_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    by = constant_of(op.operands[1])
    same = tuple(max(min(a.same[i], b.same[i]), _group(a, b, i, e)) for i, e in enumerate(shape))
    exact = by is not None and by > 0 and power_of_two_divisor(int(by)) == by
    every = max(a.every // int(by), 1) if by is not None and exact else 1
    low = high = None
    if a.low is not None and a.low >= 0 and b.low is not None and b.low >= 0:
        low = a.low // b.high if b.high else 0
    if a.high is not None and b.low is not None and b.low >= 0:  # the divisor is 1 or more
        high = a.high // max(b.low, 1) if a.high >= 0 else -1
    facts = Facts(every, (1,) * len(shape), (every,) * len(shape), same, low, high)
    # the least integer // -1 wraps around
    return facts if b.low is not None and b.low >= 0 else wrapped(facts, op.operands[0].dtype)


def _rest_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    every = gcd(a.every, b.every)
    run = tuple(_group(a, b, i, e) for i, e in enumerate(shape))
    start = tuple(gcd(start_of(a, i, length), b.every) for i, length in enumerate(run))
    same = tuple(min(x, y) for x, y in zip(a.same, b.same, strict=True))
    positive = b.low is not None and b.low >= 0
    high = b.high - 1 if positive and b.high is not None else None
    if positive and a.low is not None and a.low >= 0 and a.high is not None:
        high = a.high if high is None else min(high, a.high)
    return Facts(every, run, start, same, 0 if positive else None, high)


def _remainder(op: Op) -> tuple[Value, int] | None:
    divisor = constant_of(op.operands[1])
    return (op.operands[0], int(divisor)) if divisor is not None and divisor > 0 else None


elementwise(
    "floordiv", 2, "an integer", symbol="//", shortcuts=(neutral(None, 1), _nothing, _scalar_apart),
    algebra=Algebra(lambda a, b: a // b if b else None, divides=True),
    elements=ElementFacts(_quotient_facts, lambda forms, op: forms.divided(op)),
)  # fmt: skip
elementwise(
    "mod", 2, "an integer", symbol="%", shortcuts=(_nothing_left, _all_of_it, _rest_apart),
    algebra=Algebra(lambda a, b: a % b if b else None, divides=True),
    elements=ElementFacts(_rest_facts, lambda forms, op: forms.left_over(op), remainder=_remainder),
)  # fmt: skip
