"""Exact integer and float arithmetic on compile-time numbers: constants of kernels, schedules and dispatch."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

Number = int | float | bool


class ConstantError(ValueError):
    """The error for an operation on constants that has no result. The message is shown to the user. `hint` states what
    to write instead."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.hint = hint


# Twice the width of the widest type, so that a product of two u64 is exact. Without this limit, the results of shifts
# and powers could exhaust memory.
MAX_INT_BITS = 128


def _divide(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        if a % b:
            raise ConstantError(f"{a} / {b} is no integer", "'//' rounds down, cdiv(a, b) rounds up")
        return a // b
    return a / b


def _shift(function: Callable) -> Callable:
    def shift(a: int, b: int) -> int:
        if not 0 <= b < MAX_INT_BITS:
            raise ConstantError(f"shift by {b}")
        return function(a, b)

    return shift


def power(a: Number, b: Number) -> Number:
    # The exponent is checked first. Otherwise Python would compute a huge integer before `limited` could refuse it.
    if isinstance(b, int) and abs(b) > 1024:
        raise ConstantError(f"exponent {b} is too large")
    if a == 0 and b < 0:
        raise ConstantError("division by zero")
    return a**b


COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
INFIX: dict[str, Callable[[Any, Any], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": power,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": _shift(operator.lshift),
    ">>": _shift(operator.rshift),
    **COMPARISONS,
}


def infix(op: str, a: Number, b: Number) -> Number:
    """Computes `a op b`. Raises ConstantError if the operation has no result."""
    if op not in INFIX:
        raise ConstantError(f"'{op}' takes tiles, not constants")
    if op in ("&", "|", "^", "<<", ">>") and (isinstance(a, float) or isinstance(b, float)):
        raise ConstantError(f"'{op}' takes integers")
    if op in ("/", "//", "%") and b == 0:
        raise ConstantError("division by zero")
    try:
        result = INFIX[op](a, b)
    except (OverflowError, ZeroDivisionError):
        raise ConstantError(f"{a} {op} {b} has no value") from None
    return limited(result)


def limited(result: Number) -> Number:
    """Returns `result` if it is a valid constant. Raises ConstantError for an integer of more than MAX_INT_BITS bits
    and for a complex number. A power of a negative number may be complex."""
    if isinstance(result, int) and result.bit_length() > MAX_INT_BITS:
        raise ConstantError("an integer constant beyond 128 bits")
    if isinstance(result, complex):
        raise ConstantError("the result is not real")
    return result


def prefix(op: str, a: Number) -> Number:
    if op == "-":
        return -a
    if op == "not":
        return not a
    if isinstance(a, float):
        raise ConstantError("'~' takes integers")
    return (not a) if isinstance(a, bool) else ~a


def next_pow2(n: int) -> int:
    """Returns the least power of two that is at least n, and 1 for n below 1.

    >>> next_pow2(1000)
    1024
    """
    return 1 << max(0, int(n) - 1).bit_length()


def pow2_divisor(n: int) -> int:
    """Returns the greatest power of two that divides n, and 2**30 for n = 0.

    >>> pow2_divisor(1000)
    8
    """
    # Every power of two divides 0. 2^30 exceeds every alignment and fits in an s32.
    return n & -n if n else 1 << 30


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    if b == 0:
        raise ConstantError("division by zero")
    return -(-a // b)


def log2(n: Number) -> Number:
    if isinstance(n, int) and n > 0 and n & (n - 1) == 0:
        return n.bit_length() - 1
    if n <= 0:
        raise ConstantError(f"log2({n}) has no value")
    return math.log2(n)


def extreme(pick: Callable) -> Callable[..., Number]:
    """Returns a function of several numbers that returns the least or the greatest of them. `pick` is `min` or `max`.
    As at run time, the result is NaN if an argument is NaN, and -0 is less than 0."""

    def of_two(a: Number, b: Number) -> Number:
        if a != a or b != b:
            return math.nan
        if a == b == 0:
            return pick(a, b, key=lambda zero: math.copysign(1, zero))
        return pick(a, b)

    def apply(*numbers: Number) -> Number:
        return reduce(of_two, numbers) if len(numbers) > 1 else pick(*numbers)

    return apply


def clamp(x: Number, low: Number, high: Number) -> Number:
    return extreme(min)(extreme(max)(x, low), high)


def sign(x: Number) -> Number:
    """Returns -1 or 1, in the Python type of `x`. Zeros and NaN are returned unchanged."""
    return x if x == 0 or x != x else type(x)(math.copysign(1, x))


def rsqrt(x: Number) -> Number:
    return 1.0 / math.sqrt(x) if x else math.copysign(math.inf, x)


def call(name: str, function: Callable[..., Number], args: list[Any]) -> Number:
    """Computes `function(*args)` on numbers. Raises ConstantError, with `name` in its message, if there is no
    result."""
    try:
        return limited(function(*args))
    except (OverflowError, ValueError) as error:
        if isinstance(error, ConstantError):
            raise
        raise ConstantError(f"{name}({', '.join(map(str, args))}) has no value") from None
    except TypeError:
        raise ConstantError(f"{name} does not take numbers of these types") from None
