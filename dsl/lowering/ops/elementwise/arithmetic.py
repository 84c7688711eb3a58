"""Declares addition, subtraction, multiplication, division of floats, and negation."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.known.facts import ANY, Analysis, Facts, gcd, start_of, wrapped
from dsl.lowering.ops.elementwise.declare import Number, absorbing, elementwise, neutral
from dsl.lowering.ops.elementwise.division import is_multiple
from dsl.lowering.ops.spec import Algebra, ElementFacts, Makes


def _without_rest(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Rewrites a - a % n to a // n * n, which shows that the result is a multiple of n."""
    a, rest = operands
    if rest.op is not None and rest.op.name == "mod" and rest.op.operands[0] is a:
        divisor = rest.op.operands[1]
        if constant_of(divisor):
            return builder.value("mul", builder.value("floordiv", a, divisor), divisor)
    return None


def _divided_and_back(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Rewrites a // n * n to a, if a is a multiple of n."""
    if builder.facts is None:
        return None
    for quotient, factor in (operands, reversed(operands)):
        made = quotient.op
        if made is not None and made.name == "floordiv":
            whole, divisor = made.operands[0], constant_of(made.operands[1])
            if divisor and divisor == constant_of(factor) and is_multiple(builder.facts, whole, divisor):
                return whole
    return None


def _bound(a: int | None, b: int | None, sign: int) -> int | None:
    return None if a is None or b is None else a + sign * b


def _sum_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    plus = op.name == "add"
    run, start, same = [], [], []
    every = gcd(a.every, b.every)
    for i in range(len(shape)):
        length, first = min(a.run[i], b.same[i]), 0
        if length > 1:
            first = gcd(start_of(a, i, length), b.every)
        if plus:
            other = min(b.run[i], a.same[i])
            if other > length:
                length, first = other, gcd(start_of(b, i, other), a.every)
        run.append(length)
        start.append(first if length > 1 else every)
        same.append(min(a.same[i], b.same[i]))
    sign, (least, most) = (1, (b.low, b.high)) if plus else (-1, (b.high, b.low))
    low, high = _bound(a.low, least, sign), _bound(a.high, most, sign)
    return wrapped(Facts(every, tuple(run), tuple(start), tuple(same), low, high), op.operands[0].dtype)


def _product_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    low = high = None
    # Bounds are known only for factors that are not negative. With negative factors, any of the four products of bounds
    # could be the least.
    if a.low is not None and b.low is not None and a.low >= 0 and b.low >= 0:
        low = a.low * b.low
        high = None if a.high is None or b.high is None else a.high * b.high
    return multiple(op, shape, a, b, b.every, low, high)


def multiple(
    op: Op, shape: tuple[int, ...], a: Facts, b: Facts, factor: int, low: int | None, high: int | None
) -> Facts:
    """Returns the facts about a product, given the facts `a` and `b` about its factors. The second factor is a multiple
    of `factor`."""
    every = min(a.every * factor, ANY)
    same = tuple(min(x, y) for x, y in zip(a.same, b.same, strict=True))
    facts = Facts(every, (1,) * len(shape), (every,) * len(shape), same, low, high)
    return wrapped(facts, op.operands[0].dtype)


elementwise(
    "add", 2, "a number", symbol="+", shortcuts=(neutral(0, 0),),
    algebra=Algebra(
        lambda a, b: a + b, commutes=True, sums=(None, "add"), starts=lambda d: -0.0 if d.is_float else 0
    ),
    elements=ElementFacts(_sum_facts, lambda forms, op: forms.added(op, 1)),
)  # fmt: skip
elementwise(
    "sub", 2, "a number", symbol="-", shortcuts=(neutral(None, 0), _without_rest),
    algebra=Algebra(lambda a, b: a - b, sums=(0, "add")),
    elements=ElementFacts(_sum_facts, lambda forms, op: forms.added(op, -1)),
)  # fmt: skip
elementwise(
    "mul", 2, "a number", symbol="*", shortcuts=(neutral(1, 1), absorbing, _divided_and_back),
    algebra=Algebra(
        lambda a, b: a * b, commutes=True, sums=(None, "mul"), starts=lambda d: 1.0 if d.is_float else 1
    ),
    elements=ElementFacts(_product_facts, lambda forms, op: forms.multiplied(op)),
)  # fmt: skip
elementwise("div", 2, "a float", symbol="/")
elementwise("neg", 1, "a number", symbol="-", algebra=Algebra(lambda a: -a))
