"""Division of integers, rounded down, and what is left over."""

from __future__ import annotations

from collections.abc import Sequence

from lowering.facts import Analysis, Facts, gcd, power_of_two_divisor, start_of, wrapped
from lowering.fold import constant_of
from lowering.ir import Op, Value
from lowering.ops.elementwise.declare import Number, elementwise, neutral
from lowering.ops.spec import Makes


def is_multiple(facts: Analysis, value: Value, of: int | float | bool) -> bool:
    return of > 0 and facts.of(value).every % of == 0


def _nothing_left(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    a, divisor = operands[0], numbers[1]
    if divisor == 1 or (divisor and builder.facts is not None and is_multiple(builder.facts, a, divisor)):
        return builder.constant(0, a.dtype, a.tile.shape)
    return None


def _group(a: Facts, b: Facts, axis: int, extent: int) -> int:
    """Along `axis`, how many neighbours of a run divide by one positive number `b` without passing a multiple of it."""
    if b.same[axis] != extent or b.low is None or b.low < 0:
        return 1
    return min(a.run[axis], a.start[axis], b.every)


def _quotient_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    by = constant_of(op.operands[1])
    same = tuple(max(min(a.same[i], b.same[i]), _group(a, b, i, e)) for i, e in enumerate(shape))
    exact = by is not None and by > 0 and power_of_two_divisor(int(by)) == by
    every = max(a.every // int(by), 1) if by is not None and exact else 1
    low = 0 if a.low is not None and a.low >= 0 and b.low is not None and b.low >= 0 else None
    high = None
    if a.high is not None and b.low is not None and b.low >= 0:  # the divisor is 1 or more
        high = a.high // max(b.low, 1) if a.high >= 0 else -1
    facts = Facts(every, (1,) * len(shape), (every,) * len(shape), same, low, high)
    return facts if b.low is not None and b.low >= 0 else wrapped(facts, op.operands[0].dtype)  # least // -1 wraps


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
    "floordiv", 2, "an integer", symbol="//", computes=lambda a, b: a // b if b else None,
    shortcuts=(neutral(None, 1),), facts=_quotient_facts, form=lambda forms, op: forms.divided(op),
    divides=True,
)  # fmt: skip
elementwise(
    "mod", 2, "an integer", symbol="%", computes=lambda a, b: a % b if b else None, shortcuts=(_nothing_left,),
    facts=_rest_facts, form=lambda forms, op: forms.left_over(op), remainder=_remainder, divides=True,
)  # fmt: skip
