"""Writes the expressions of headers (`dsl/runtime/expressions.py`) as C. Integers have 64 bits, floats are doubles.
Operations that may have no value are functions of `support.c`, which set `bad`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dsl.runtime.expressions import Tree
from dsl.runtime.numbers import NOT_FINITE


class CValue(Struct, frozen=True):
    """A C expression. `is_float` tells a double from a 64-bit integer or a truth value."""

    text: str
    is_float: bool = False

    @property
    def as_double(self) -> str:
        return self.text if self.is_float else f"(double)({self.text})"


INTEGERS = {
    "+": "dsl_add(&bad, {0}, {1})",
    "-": "dsl_sub(&bad, {0}, {1})",
    "*": "dsl_mul(&bad, {0}, {1})",
    "/": "dsl_divide(&bad, {0}, {1})",
    "//": "dsl_floor(&bad, {0}, {1})",
    "%": "dsl_mod(&bad, {0}, {1})",
    "cdiv": "dsl_cdiv(&bad, {0}, {1})",
    "min": "dsl_min({0}, {1})",
    "max": "dsl_max({0}, {1})",
    "&": "({0} & {1})",
    "|": "({0} | {1})",
    "^": "({0} ^ {1})",
    "<<": "dsl_left(&bad, {0}, {1})",
    ">>": "dsl_right(&bad, {0}, {1})",
    "same": "({0} == {1})",
}
FLOATS = {
    "+": "dsl_finite(&bad, {0} + {1})",
    "-": "dsl_finite(&bad, {0} - {1})",
    "*": "dsl_finite(&bad, {0} * {1})",
    "/": "dsl_ratio(&bad, {0}, {1})",
    "//": "dsl_floor_ratio(&bad, {0}, {1})",
    "%": "dsl_mod_ratio(&bad, {0}, {1})",
    "min": "fmin({0}, {1})",
    "max": "fmax({0}, {1})",
    "same": "dsl_same({0}, {1})",
}
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
UNARY = {"next_pow2": "dsl_next_pow2(&bad, {0})", "pow2_divisor": "dsl_pow2_divisor(&bad, {0})"}


class NoC(Exception):
    """Raised for an expression that has no C form."""


def c_expression(tree: Tree, names: Mapping[str, CValue]) -> CValue:
    """Writes a tree as C. `names` are the C expressions of names. Raises NoC."""
    if isinstance(tree, str):
        if tree in NOT_FINITE:
            return literal(NOT_FINITE[tree])
        if tree not in names:
            raise NoC(f"{tree} is not known to C")
        return names[tree]
    if isinstance(tree, bool | int | float):
        return literal(tree)
    op, parts = tree[0], [c_expression(each, names) for each in tree[1:]]
    if len(parts) == 1:
        return _unary(op, parts[0])
    if op in ("and", "or"):
        sign = " && " if op == "and" else " || "
        return CValue(f"({sign.join(truth(each) for each in parts)})")
    if op == "where" and len(parts) == 3:
        yes, no = parts[1:]
        check_alike(op, yes, no)
        return CValue(f"({truth(parts[0])} ? {yes.text} : {no.text})", yes.is_float)
    value = parts[0]
    for part in parts[1:]:
        value = _binary(op, value, part)
    return value


def check_alike(op: str, a: CValue, b: CValue) -> None:
    """Raises NoC for an integer beside a float, where a run decides which of them is the result."""
    if a.is_float != b.is_float:
        raise NoC(f"{op} of an integer and a float has no C form")


def truth(value: CValue) -> str:
    """A value as a condition."""
    return f"({value.text} != 0.0)" if value.is_float else value.text


def literal(value: int | float | bool) -> CValue:
    """A number as C."""
    if isinstance(value, bool):
        return CValue(str(int(value)))
    if isinstance(value, int):
        if value == -(1 << 63):
            return CValue("INT64_MIN")
        return CValue(str(value) if abs(value) < 1 << 31 else f"INT64_C({value})")
    if math.isnan(value):
        return CValue("(double)NAN", True)
    if math.isinf(value):
        return CValue("(double)INFINITY" if value > 0 else "-(double)INFINITY", True)
    text = repr(value)
    return CValue(text if value >= 0 else f"({text})", True)


def _unary(op: str, value: CValue) -> CValue:
    if op == "not":
        return CValue(f"(!{truth(value)})")
    if op == "-":
        return CValue(f"(-{value.text})", True) if value.is_float else CValue(f"dsl_sub(&bad, 0, {value.text})")
    if op == "log2":
        name = "dsl_log2_of" if value.is_float else "dsl_log2"
        return CValue(f"{name}(&bad, {value.text})", value.is_float)
    if op in UNARY and not value.is_float:
        return CValue(UNARY[op].format(value.text))
    raise NoC(f"{op} of this operand has no C form")


def _binary(op: str, a: CValue, b: CValue) -> CValue:
    if op in ("min", "max"):
        check_alike(op, a, b)
    is_float = a.is_float or b.is_float
    x, y = (a.as_double, b.as_double) if is_float else (a.text, b.text)
    if op in COMPARISONS:
        return CValue(f"({x} {op} {y})")
    form = (FLOATS if is_float else INTEGERS).get(op)
    if form is None:
        raise NoC(f"{op} of these operands has no C form")
    return CValue(form.format(x, y), is_float and op != "same")


def used_names(tree: Any) -> frozenset[str]:
    """The names in a tree."""
    if isinstance(tree, str):
        return frozenset() if tree in NOT_FINITE else frozenset([tree])
    return frozenset().union(*map(used_names, tree[1:])) if isinstance(tree, list) else frozenset()
