"""The header's expressions: Python's integers where they have a value in 64 bits, an error everywhere else."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dsl.runtime.expressions import INT_LIMIT, MAX_DEPTH, ExpressionError, compile_expression, show

INTS = st.integers(-(1 << 40), 1 << 40)
ARITHMETIC = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: math.floor(a / b) if abs(a) < 1 << 20 else a // b,
    "%": lambda a, b: a - b * (a // b),
    "cdiv": lambda a, b: -((-a) // b),
    "min": min,
    "max": max,
    "==": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "&": lambda a, b: a & b,
    "^": lambda a, b: a ^ b,
}


def value(tree: Any, **names: Any) -> Any:
    return compile_expression(tree).evaluate(names)


@given(st.sampled_from(sorted(ARITHMETIC)), INTS, INTS)
def test_integers_are_exact_or_an_error(op: str, a: int, b: int) -> None:
    try:
        expected = ARITHMETIC[op](a, b)
    except ZeroDivisionError:
        expected = None
    if expected is None or not -INT_LIMIT <= expected < INT_LIMIT:
        with pytest.raises(ExpressionError):
            value([op, "a", "b"], a=a, b=b)
    else:
        assert value([op, "a", "b"], a=a, b=b) == expected


@given(INTS, st.integers(1, 1 << 20))
def test_division_is_exact_or_an_error(a: int, b: int) -> None:
    assert value(["/", "a", "b"], a=a * b, b=b) == a
    if a % b:
        with pytest.raises(ExpressionError, match="not exact"):
            value(["/", "a", "b"], a=a, b=b)


@given(st.integers(1, 1 << 40))
def test_powers_of_two(n: int) -> None:
    power = value(["next_pow2", "n"], n=n)
    assert power >= n > power // 2 and power & (power - 1) == 0
    divisor = value(["pow2_divisor", "n"], n=n)
    assert n % divisor == 0 and n // divisor % 2 == 1
    assert 2 ** value(["log2", power]) == power


def test_edges_of_the_powers() -> None:
    assert value(["next_pow2", 0]) == value(["next_pow2", 1]) == 1
    assert value(["pow2_divisor", 0]) == 1 << 62
    for bad in (["log2", 12], ["log2", 0], ["<<", 1, 63], ["<<", 1, 64], ["<<", 1, -1], ["&", 1.5, 1]):
        with pytest.raises(ExpressionError):
            value(bad)


def test_conditions_evaluate_only_what_they_need() -> None:
    divides = ["and", ["!=", "n", 0], ["==", ["%", 12, "n"], 0]]
    assert value(divides, n=4) is True and value(divides, n=0) is False and value(divides, n=5) is False
    assert value(["where", ["==", "n", 0], 7, ["//", 12, "n"]], n=0) == 7
    assert value(["or", True, ["//", 1, 0]]) is True
    assert value(["not", ["<", 1, 2]]) is False


def test_folds_take_many_and_floats_work() -> None:
    assert value(["+", 1, 2, 3, ["-", 4]]) == 2
    assert value(["max", 1, 9, 3]) == 9
    assert value(["*", 0.5, "n"], n=3) == 1.5
    assert value(["/", 1.0, 4]) == 0.25


@pytest.mark.parametrize(
    "tree", [[], [1, 2], ["+"], ["+", 1], ["%", 1, 2, 3], ["where", 1], None, {}, ["exec", "x"], 1 << 63, math.inf]
)
def test_malformed_trees_are_refused_when_compiled(tree: Any) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(tree)


def test_names_without_a_number_are_errors() -> None:
    for names in ({}, {"T": "f16"}):
        with pytest.raises(ExpressionError, match="T"):
            value("T", **names)


def test_depth_and_size_are_limited() -> None:
    tree: Any = 1
    for _ in range(MAX_DEPTH - 1):
        tree = ["-", tree]
    assert abs(value(tree)) == 1
    with pytest.raises(ExpressionError, match="deeper"):
        compile_expression(["-", tree])
    with pytest.raises(ExpressionError, match="nodes"):
        compile_expression(["+"] + [1] * 5000)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_finite_or_an_error(a: float, b: float) -> None:
    try:
        assert math.isfinite(value(["*", "a", "b"], a=a, b=b))
    except ExpressionError:
        assert not math.isfinite(a * b)


def test_show_is_what_a_person_writes() -> None:
    assert show(["<=", ["cdiv", "n", 4], ["*", 2, ["+", "a", 1]]]) == "(cdiv(n, 4)) <= (2 * (a + 1))"
    assert show(["where", True, "x", 1.5]) == "where(true, x, 1.5)"
