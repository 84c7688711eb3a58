"""Declares operations on the bits of integers, and on flags (i1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import I1
from dsl.lowering.known.facts import Analysis, Facts
from dsl.lowering.known.forms import Forms
from dsl.lowering.ops.elementwise.arithmetic import multiple
from dsl.lowering.ops.elementwise.declare import Number, absorbing, elementwise, neutral, same_operands
from dsl.lowering.ops.spec import Algebra, ElementFacts, Makes


def _surely(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Rewrites true | x to true."""
    return next((v for v, number in zip(operands, numbers, strict=True) if number is True and v.dtype is I1), None)


def _true(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Rewrites true & x to x."""
    return neutral(1, 1)(builder, operands, numbers) if operands[0].dtype is I1 else None


MOST_FLAGS = 16
"""`_flags` and `_has` compare at most this many flags of a conjunction. Masks contain two to six flags."""


def _parts(mask: Value) -> list[Value]:
    """Returns the flags whose conjunction is the mask, or an empty list if it is not a conjunction. For a broadcast
    mask, returns the source of the broadcast."""
    op = mask.op
    if op is None or not op.operands or not (op.spec.algebra.masks == "all" or op.spec.elements.splat):
        return []
    return op.operands


def _flags(mask: Value) -> set[Value]:
    """Returns the flags that are certainly true wherever the mask is true."""
    found, todo = set[Value](), [mask]
    while todo and len(found) < MOST_FLAGS:
        value = todo.pop()
        if value not in found:
            found.add(value)
            todo += _parts(value)
    return found


def _has(mask: Value, other: Value) -> bool:
    """Returns whether a mask contains all flags of another mask."""
    flags, todo = _flags(mask), [other]
    for _ in range(MOST_FLAGS):
        if not todo:
            return True
        value = todo.pop()
        if value not in flags:
            parts = _parts(value)
            if not parts:
                return False
            todo += parts
    return False


def _had(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Rewrites mask & flags to mask, if the mask already contains the flags. For example, the slice `v[j : j + 64]` is
    masked at the end of v, and a load of the slice may test for the end of v again."""
    a, b = operands
    if a.dtype is not I1 or not a.tile.shape:
        return None
    return a if _has(a, b) else b if _has(b, a) else None


def _bit_of_number(builder: Makes, value: Value) -> tuple[Value, Value] | None:
    """Returns the pair (bits, number) if a flag is `bits & number != 0`, where `number` is a broadcast scalar. Returns
    None for other flags."""
    test = value.op
    if test is None or test.name != "ne" or constant_of(test.operands[1]) != 0:
        return None
    masked = test.operands[0].op
    if masked is None or masked.name != "and":
        return None
    for bits, number in (masked.operands, masked.operands[::-1]):
        op = number.op
        if op is not None and op.name == "broadcast" and not op.operands[0].tile.shape:
            return bits, op.operands[0]
    return None


def _no_bit(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
    """Rewrites (bits & number != 0) & condition to bits & select(condition, number, 0) != 0, if `condition` is a
    scalar. Then one `select` is sufficient for all elements."""
    for flags, condition in (operands, operands[::-1]):
        op, found = condition.op, _bit_of_number(builder, flags)
        if op is None or found is None or op.name != "broadcast" or op.operands[0].tile.shape:
            continue
        bits, number = found
        none = builder.constant(0, number.dtype)
        either = builder.value("select", op.operands[0], number, none)
        wide = builder.value("broadcast", either, shape=bits.tile.shape)
        masked = builder.value("and", bits, wide)
        return builder.value("ne", masked, builder.constant(0, number.dtype, bits.tile.shape))
    return None


def _and_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    ones = (1,) * len(shape)
    same, *of_masks = (tuple(map(min, x, y)) for x, y in zip(a.groups, b.groups, strict=True))
    if op.result.dtype is not I1:
        positive = [each for each in (a, b) if each.low is not None and each.low >= 0]
        most = min((each.high for each in positive if each.high is not None), default=None)
        return Facts(1, ones, ones, same, 0 if positive else None, most)
    return Facts(1, ones, ones, same, 0, 1, *of_masks)


def _low_bits(op: Op) -> tuple[Value, int] | None:
    """Reads i & (n - 1) as i % n for a power of two n, and returns (i, n). Returns None for other masks."""
    mask = constant_of(op.operands[1])
    if mask is None or mask < 0 or int(mask) & int(mask) + 1:
        return None
    return op.operands[0], int(mask) + 1


elementwise(
    "and", 2, "an integer or i1", symbol="&", shortcuts=(absorbing, _true, same_operands, _had, _no_bit),
    algebra=Algebra(lambda a, b: a & b, commutes=True, sums=(None, "and"), idempotent=True, masks="all"),
    elements=ElementFacts(_and_facts, remainder=_low_bits),
)  # fmt: skip
elementwise(
    "or", 2, "an integer or i1", symbol="|", shortcuts=(neutral(0, 0), _surely, same_operands),
    algebra=Algebra(lambda a, b: a | b, commutes=True, sums=(None, "or"), idempotent=True, masks="any"),
)  # fmt: skip
elementwise(
    "xor", 2, "an integer or i1", symbol="^", shortcuts=(neutral(0, 0),),
    algebra=Algebra(lambda a, b: a ^ b, commutes=True, sums=(None, "xor"), starts=lambda d: 0),
)  # fmt: skip


def _fold_not(builder: Makes, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
    (value,) = operands
    number = constant_of(value) if value.dtype is I1 else None
    return None if number is None else builder.constant(not number, I1, value.tile.shape)


elementwise("not", 1, "an integer or i1", symbol="~", algebra=Algebra(fold=_fold_not))


def _distance(op: Op) -> int | None:
    """Returns the distance of a shift, or None if it is not a constant below 32."""
    amount = constant_of(op.operands[1])
    return int(amount) if amount is not None and 0 <= amount < 32 else None


def _left_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    amount = _distance(op)
    factor = 1 << amount if amount is not None and amount < 30 else 1  # divisors are tracked only up to `ANY`, 2^30
    return multiple(op, shape, a, b, factor, 0 if a.low is not None and a.low >= 0 else None, None)


def _left_form(forms: Forms, op: Op) -> Any:
    amount = _distance(op)
    return None if amount is None else forms.scaled(op, 1 << amount)


def _right_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a = an.of(op.operands[0])
    same = tuple(min(f) for f in zip(a.same, an.of(op.operands[1]).same, strict=True))
    ones = (1,) * len(shape)
    return Facts(1, ones, ones, same, 0 if a.low is not None and a.low >= 0 else None, None)


elementwise(
    "shl", 2, "an integer", symbol="<<", shortcuts=(neutral(None, 0),),
    algebra=Algebra(lambda a, b: a << b if 0 <= b < 64 else None), elements=ElementFacts(_left_facts, _left_form),
)  # fmt: skip
elementwise(
    "shr", 2, "an integer", symbol=">>", shortcuts=(neutral(None, 0),),
    algebra=Algebra(lambda a, b: a >> b if 0 <= b < 64 else None), elements=ElementFacts(_right_facts),
)  # fmt: skip
