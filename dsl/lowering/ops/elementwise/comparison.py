"""Declares comparisons, minimum and maximum, and `select`."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import I1, INDEX, DType, Type, int_range
from dsl.lowering.known.facts import Analysis, Facts, either, gcd, start_of
from dsl.lowering.ops.elementwise.declare import Number, Shortcut, elementwise, same_operands
from dsl.lowering.ops.spec import Algebra, ElementFacts, Makes, Mismatch, row


def _by_ranges(name: str) -> Shortcut:
    def shortcut(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
        decided = None if builder.facts is None else _known(name, builder.facts, *operands)
        return None if decided is None else builder.constant(decided, I1, operands[0].tile.shape)

    return shortcut


def _known(name: str, facts: Analysis, a: Value, b: Value) -> bool | None:
    """Returns the result of a comparison if it is the same for all elements and calls, otherwise None."""
    decided = _decided(name, facts.of(a), facts.of(b))
    if decided is None and _always(name, facts, a, b):
        return True
    if decided is None and name in OPPOSITE and _always(OPPOSITE[name], facts, a, b):
        return False
    return decided


OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def _decided(name: str, a: Facts, b: Facts) -> bool | None:
    """Returns the result of a comparison if it is the same for all values within the known ranges, otherwise None."""
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


def _always(name: str, facts: Analysis, a: Value, b: Value) -> bool:
    """Returns whether a comparison of two indices is certainly true for all values of the kernel's dims."""
    if name in ("gt", "ge"):
        a, b = b, a
    return name not in ("eq", "ne") and facts.bounds.not_above(a, b, int(name in ("lt", "gt")))


def _order_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    left, right = (an.of(o) for o in op.operands)
    name = op.name
    if name in ("gt", "le"):  # b > a is a < b
        left, right, name = right, left, {"gt": "lt", "le": "ge"}[name]
    same, falls, rises = [], [], []
    for i in range(len(shape)):
        group = min(left.same[i], right.same[i])
        forward, backward = min(left.run[i], right.same[i]), min(left.same[i], right.run[i])
        # All flags of a group of elements are equal if the runs of `left` begin at multiples of the group's length, and
        # the elements of `right` are multiples of this length.
        group = max(group, min(forward, start_of(left, i, forward), right.every))
        if name == "ge":
            forward, backward = backward, forward
        same.append(group)
        falls.append(max(group, forward))
        rises.append(max(group, backward))
    ones = (1,) * len(shape)
    convex = tuple(map(max, falls, rises))
    return Facts(1, ones, ones, tuple(same), 0, 1, tuple(falls), tuple(rises), convex)


for _name, _symbol, _computes, _mirror, _form in (
    ("eq", "==", lambda a, b: a == b, None, None),
    ("ne", "!=", lambda a, b: a != b, None, None),
    ("lt", "<", lambda a, b: a < b, "gt", lambda forms, op: forms.ordered(op, 0, 1)),
    ("le", "<=", lambda a, b: a <= b, "ge", lambda forms, op: forms.ordered(op, 0, 0)),
    ("gt", ">", lambda a, b: a > b, "lt", lambda forms, op: forms.ordered(op, 1, 1)),
    ("ge", ">=", lambda a, b: a >= b, "le", lambda forms, op: forms.ordered(op, 1, 0)),
):
    elementwise(
        _name, 2, "a number or i1", I1, symbol=_symbol, shortcuts=(_by_ranges(_name),),
        algebra=Algebra(_computes, commutes=_mirror is None, mirror=_mirror),
        elements=ElementFacts(None if _mirror is None else _order_facts, _form),
    )  # fmt: skip


def _extreme_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    every = gcd(a.every, b.every)
    same = tuple(min(x, y) for x, y in zip(a.same, b.same, strict=True))
    lows, highs = [x for x in (a.low, b.low) if x is not None], [x for x in (a.high, b.high) if x is not None]
    if op.name == "minimum":
        low = min(lows) if len(lows) == 2 else None
        high = min(highs, default=None)
    else:
        low = max(lows, default=None)
        high = max(highs) if len(highs) == 2 else None
    return Facts(every, (1,) * len(shape), (every,) * len(shape), same, low, high)


def _extreme(dtype: DType, end: int) -> int | float | bool | None:
    """Returns the least (`end` is 0) or the greatest value (`end` is 1) of a type. Returns None for an index, because
    its width depends on the variant."""
    if dtype.is_float:
        return (-inf, inf)[end]
    number = int_range(dtype)[end]
    return None if dtype is INDEX else bool(number) if dtype is I1 else number


def _never_beyond(name: str) -> Shortcut:
    """Folds to the constant that is never above, or below, the other operand. So `minimum(block(0), rows - 1)` is 0 if
    there is one row."""
    order = {"minimum": "le", "maximum": "ge"}[name]

    def shortcut(builder: Makes, operands: Sequence[Value], numbers: Sequence[Number]) -> Value | None:
        if builder.facts is None or numbers[1] is None or operands[0].dtype is not INDEX:
            return None
        return operands[1] if _known(order, builder.facts, operands[1], operands[0]) else None

    return shortcut


for _name, _picks, _starts, _form in (
    ("minimum", min, lambda dtype: _extreme(dtype, 1), lambda forms, op: forms.lesser(op)),
    ("maximum", max, lambda dtype: _extreme(dtype, 0), lambda forms, op: forms.greater(op)),
):
    elementwise(
        _name, 2, "a number or i1", shortcuts=(same_operands, _never_beyond(_name)),
        elements=ElementFacts(_extreme_facts, _form),
        algebra=Algebra(_picks, commutes=True, sums=(None, _name), idempotent=True, starts=_starts),
    )  # fmt: skip


def _infer_select(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    condition, yes, no = (o.tile for o in operands)
    if condition.dtype is not I1:
        raise Mismatch(f"the condition is {condition.dtype}, not i1")
    if yes.dtype is not no.dtype or not (condition.shape == yes.shape == no.shape):
        raise Mismatch(f"cannot choose between {yes} and {no}")
    return [yes]


def _fold_select(builder: Makes, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
    condition = constant_of(operands[0])
    if condition is not None:
        return operands[1] if condition else operands[2]
    return operands[1] if operands[1] is operands[2] else None


def _choice_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    choice, a, b = (an.of(o) for o in op.operands)
    return either(a, b, choice.same)


row(
    "select", 3, _infer_select, elementwise=True,
    algebra=Algebra(lambda c, a, b: a if c else b, _fold_select, selects=True),
    elements=ElementFacts(_choice_facts, lambda forms, op: forms.chosen(op)),
)  # fmt: skip
