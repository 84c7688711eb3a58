"""Checks and evaluates the expressions in a header. They state a launch's grid, its conditions, the bytes that it
moves, and its number of operations.

An expression is a JSON tree: an int, a float, a bool, a name, or `[op, argument, …]`. The tree comes from an untrusted
file, so it is never passed to Python's `eval`. `compile_expression` checks the form, depth and size of a tree, and
turns the tree into nested closures. Calling the outermost closure with the values of all names evaluates the tree.

The operation `same` compares values exactly: 0.0 differs from -0.0, and NaN equals NaN. The strings `inf`, `-inf` and
`nan` represent these floats, which JSON lacks.

Integers have 64 bits, and overflow is an error. The quotient `/` of two integers must be an integer. `//` and `%` round
down. In place of an integer, a symbol of a tracer such as torch's SymInt may be given.

    >>> compile_expression(["cdiv", "rows", 4]).evaluate({"rows": 10})
    3
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from dsl.runtime.numbers import NOT_FINITE, same_number

Number = int | float | bool
Tree = Any
"""A JSON value: an int, a float, a bool, a string or a list [op, argument, …]. A string is a name or a word of
NOT_FINITE."""
Closure = Callable[[Mapping[str, Number]], Number]

MAX_DEPTH = 64
MAX_NODES = 4096
INT_LIMIT = 1 << 63


class ExpressionError(ValueError):
    """Raised if a tree is malformed, or has no value. A division by zero, an inexact `/` and an overflow have no
    value."""


class Expression(Struct, frozen=True):
    """A compiled tree. `evaluate(values)` returns the value of the tree, given the values of its names. `names` are the
    names that the tree contains."""

    tree: Tree
    names: frozenset[str]
    evaluate: Closure


def _exact_divide(a: Number, b: Number) -> Number:
    if is_integer(a) and is_integer(b):
        if a % b:
            raise ExpressionError(f"{a} / {b} is not exact")
        return a // b
    return a / b


def is_integer(value: Any) -> bool:
    """Returns whether a value is an integer, or stands for one, as a symbol of torch's tracers does."""
    return isinstance(value, int) or (hasattr(type(value), "__index__") and not hasattr(value, "shape"))


def _integers(name: str, *values: Number) -> None:
    for value in values:
        if not is_integer(value):
            raise ExpressionError(f"{name} takes integers, not {value!r}")


def _cdiv(a: Number, b: Number) -> Number:
    _integers("cdiv", a, b)
    return -(-a // b)


def _next_pow2(n: Number) -> Number:
    _integers("next_pow2", n)
    return 1 if n <= 1 else 1 << (int(n) - 1).bit_length()


def _pow2_divisor(n: Number) -> Number:
    """Returns the largest power of two that divides `n`. For 0, returns 2^62, the largest power of two that fits in a
    signed 64-bit integer."""
    _integers("pow2_divisor", n)
    return int(n) & -int(n) if n else 1 << 62


def _log2(n: Number) -> Number:
    if n <= 0:
        raise ExpressionError(f"log2 of {n!r}")
    if isinstance(n, float):
        return math.log2(n)
    if n & (n - 1):
        raise ExpressionError(f"log2 takes a power of two, not {n}")
    return n.bit_length() - 1


def _shift(name: str, left: bool) -> Callable[[Number, Number], Number]:
    def shift(a: Number, b: Number) -> Number:
        _integers(name, a, b)
        # Python would allocate the result of a large shift before the 64-bit check.
        if not 0 <= b < 64:
            raise ExpressionError(f"a shift by {b}")
        return int(a) << int(b) if left else int(a) >> int(b)

    return shift


def _bitwise(name: str, operation: Callable[[int, int], int]) -> Callable[[Number, Number], Number]:
    def apply(a: Number, b: Number) -> Number:
        _integers(name, a, b)
        return operation(int(a), int(b))

    return apply


UNARY: dict[str, Callable[[Number], Number]] = {
    "-": lambda a: -a,
    "not": lambda a: not a,
    "next_pow2": _next_pow2,
    "pow2_divisor": _pow2_divisor,
    "log2": _log2,
}
BINARY: dict[str, Callable[[Number, Number], Number]] = {
    "-": lambda a, b: a - b,
    "/": _exact_divide,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "cdiv": _cdiv,
    "==": lambda a, b: a == b,
    "same": same_number,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "<<": _shift("<<", left=True),
    ">>": _shift(">>", left=False),
}
FOLDED: dict[str, Callable[[Number, Number], Number]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "min": lambda a, b: min(a, b),
    "max": lambda a, b: max(a, b),
    "&": _bitwise("&", lambda a, b: a & b),
    "|": _bitwise("|", lambda a, b: a | b),
    "^": _bitwise("^", lambda a, b: a ^ b),
}
"""Operations with two or more arguments. They are applied from left to right."""
LAZY = ("and", "or", "where")
"""Operations that evaluate only the arguments that they need: `n != 0 and m % n == 0` has a value for n = 0."""
OPERATIONS = frozenset([*UNARY, *BINARY, *FOLDED, *LAZY])


def _checked(value: Number) -> Number:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ExpressionError("a value that is not finite")
    # The size of a symbol is checked when it has a value: at the launch.
    elif isinstance(value, int) and not -INT_LIMIT <= value < INT_LIMIT:
        raise ExpressionError(f"{value} does not fit in 64 bits")
    return value


def compile_expression(tree: Tree) -> Expression:
    """Checks an expression tree and compiles it to closures. Raises ExpressionError for a malformed tree."""
    names: set[str] = set()
    nodes = 0

    def build(node: Tree, depth: int) -> Closure:
        nonlocal nodes
        # Nodes are counted here, so that a header of 1 MiB cannot make a million closures.
        nodes += 1
        if depth > MAX_DEPTH:
            raise ExpressionError(f"nested deeper than {MAX_DEPTH}")
        if nodes > MAX_NODES:
            raise ExpressionError(f"more than {MAX_NODES} nodes")
        if isinstance(node, str) and node in NOT_FINITE:
            number = NOT_FINITE[node]
            return lambda _: number
        if isinstance(node, str):
            names.add(node)
            return _name(node)
        if isinstance(node, (bool, int, float)):
            constant = _checked(node)
            return lambda _: constant
        if not isinstance(node, list) or not node or not isinstance(node[0], str):
            raise ExpressionError(f"{node!r} is not an expression")
        return _operation(node[0], [build(argument, depth + 1) for argument in node[1:]])

    closure = build(tree, 1)

    # Python's own errors are handled here, so that each operation can be a single expression.
    def evaluate(values: Mapping[str, Number]) -> Number:
        try:
            return closure(values)
        except ZeroDivisionError:
            raise ExpressionError("a division by zero") from None
        except OverflowError:
            raise ExpressionError("a value that is not finite") from None

    return Expression(tree, frozenset(names), evaluate)


def _name(name: str) -> Closure:
    def read(values: Mapping[str, Number]) -> Number:
        value: Any = values.get(name)
        if not isinstance(value, (bool, int, float)) and not is_integer(value):
            raise ExpressionError(f"{name} has no value" if value is None else f"{name} is no number: {value!r}")
        return value

    return read


def _operation(op: str, arguments: list[Closure]) -> Closure:
    count = len(arguments)
    if count == 1 and op in UNARY:
        unary, a = UNARY[op], arguments[0]
        return lambda values: _checked(unary(a(values)))
    if count == 2 and op in BINARY:
        binary, a, b = BINARY[op], arguments[0], arguments[1]
        return lambda values: _checked(binary(a(values), b(values)))
    if count >= 2 and op in FOLDED:
        return _fold(FOLDED[op], arguments)
    if op == "where" and count == 3:
        condition, yes, no = arguments
        return lambda values: yes(values) if condition(values) else no(values)
    if op == "and" and count >= 2:
        return lambda values: all(argument(values) for argument in arguments)
    if op == "or" and count >= 2:
        return lambda values: any(argument(values) for argument in arguments)
    if op in OPERATIONS:
        raise ExpressionError(f"{op} does not take {count} arguments")
    raise ExpressionError(f"{op!r} is not an operation")


def _fold(binary: Callable[[Number, Number], Number], arguments: list[Closure]) -> Closure:
    first, rest = arguments[0], arguments[1:]

    def fold(values: Mapping[str, Number]) -> Number:
        value = first(values)
        for argument in rest:
            value = _checked(binary(value, argument(values)))
        return value

    return fold


INFIX = frozenset(
    ["+", "-", "*", "/", "//", "%", "and", "or", "==", "!=", "<", "<=", ">", ">=", "&", "|", "^", "<<", ">>"]
)


def show(tree: Tree) -> str:
    """Formats a tree for messages: `["cdiv", "rows", 4]` becomes `cdiv(rows, 4)`."""
    if not isinstance(tree, list):
        return str(tree).lower() if isinstance(tree, bool) else str(tree)
    op, arguments = tree[0], [show(argument) for argument in tree[1:]]
    if op in INFIX and len(arguments) > 1:
        nested = zip(tree[1:], arguments, strict=True)
        return f" {op} ".join(f"({text})" if isinstance(node, list) else text for node, text in nested)
    return f"{op}({', '.join(arguments)})"
