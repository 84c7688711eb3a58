"""Computes the value and the type of PTX constant expressions such as `4 * (1 << 3)` (PTX ISA 4.5).

For 3,900 random expressions, ptxas 13.5 wrote the same values into the cubin.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from math import isfinite
from typing import Any, Protocol

from msgspec import Struct

from .findings import PtxError
from .limits import MOST_DEPTH

WARP_SIZE = 32
BITS = (1 << 64) - 1
BINARY = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
          ("*", "/", "%"))  # fmt: skip
# Precedence of each binary operator, as in C. A higher level binds more strongly.
LEVELS = {sign: level for level, signs in enumerate(BINARY) for sign in signs}
UNARY = {"-", "+", "~", "!"}
CASTS = {".s64", ".u64"}
STARTS = UNARY | {"("}
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,  # of floats
}
OF_FLOATS = {"+", "-", "*", "/", *COMPARISONS}


class Constant(Struct, frozen=True):
    """A value of type .s64, .u64 or .f64."""

    value: int | float
    type: str = "s64"

    @property
    def is_float(self) -> bool:
        return self.type == "f64"


class TokenStream(Protocol):
    """The token stream from which the functions of this module read."""

    lines: list[int]
    at: int

    def peek(self, ahead: int = 0) -> str: ...

    def peek_kind(self, ahead: int = 0) -> str: ...

    def accept(self, text: str) -> bool: ...

    def expect(self, text: str) -> int: ...


def read_constant(tokens: TokenStream, depth: int = 0) -> Constant:
    """Reads an expression from the next token on, and returns its value. Raises `PtxError` if no expression begins
    there."""
    found = _binary(tokens, 0, depth)
    if not tokens.accept("?"):
        return found
    first = read_constant(tokens, _deeper(tokens, depth))
    tokens.expect(":")
    second = read_constant(tokens, _deeper(tokens, depth))
    if found.is_float or first.is_float or second.is_float:
        raise _error(tokens, "a choice between constants is one of integers")
    return first if found.value else second


def _binary(tokens: TokenStream, least: int, depth: int) -> Constant:
    """Evaluates binary operators of precedence `least` or higher (`LEVELS`), from left to right."""
    left = _unary(tokens, depth)
    while (level := LEVELS.get(tokens.peek(), -1)) >= least:
        sign = tokens.peek()
        tokens.at += 1
        right = _binary(tokens, level + 1, _deeper(tokens, depth))
        left = _joined(tokens, sign, left, right)
    return left


def _unary(tokens: TokenStream, depth: int) -> Constant:
    sign = tokens.peek()
    if sign in UNARY:
        tokens.at += 1
        if tokens.peek()[:2].lower() in {"0f", "0d"} and tokens.peek_kind() == "float":
            raise _error(tokens, f"{tokens.peek()} has its sign in its bits")
        return _signed(tokens, sign, _unary(tokens, _deeper(tokens, depth)))
    if sign == "(":
        tokens.at += 1
        if tokens.peek() in CASTS:
            kind = tokens.peek()[1:]
            tokens.at += 1
            tokens.expect(")")
            found = _unary(tokens, _deeper(tokens, depth))
            if found.is_float:
                raise _error(tokens, f"{found.value} is no integer that could be a .{kind}")
            return wrapped(found.value, kind)
        found = read_constant(tokens, _deeper(tokens, depth))
        tokens.expect(")")
        return found
    return _literal(tokens)


def _literal(tokens: TokenStream) -> Constant:
    kind, text = tokens.peek_kind(), tokens.peek()
    if kind == "int":
        tokens.at += 1
        value = integer(text, tokens.lines[tokens.at - 1])
        # An integer is .u64 if it ends in U or does not fit .s64 (PTX ISA 4.5.1).
        return Constant(value, "u64" if text[-1] == "U" or value >> 63 else "s64")
    if kind == "float" and text[:2].lower() not in {"0f", "0d"}:
        tokens.at += 1
        return Constant(_finite(tokens, float(text)), "f64")
    if text == "WARP_SZ":
        tokens.at += 1
        return Constant(WARP_SIZE)
    raise PtxError(f"expected a constant, found {text!r}" if text else "the text ends in the middle of a statement",
                   tokens.lines[tokens.at])  # fmt: skip


def _signed(tokens: TokenStream, sign: str, of: Constant) -> Constant:
    if of.is_float:
        if sign in {"~", "!"}:
            raise _error(tokens, f"{sign} is for integers, not for {of.value}")
        return Constant(-of.value if sign == "-" else of.value, "f64")
    value = int(of.value)
    if sign == "!":
        return Constant(int(not value))
    # In ptxas, the result of `~` has the type .u64.
    return wrapped({"-": -value, "+": value, "~": ~value}[sign], "u64" if sign == "~" else of.type)


def _joined(tokens: TokenStream, sign: str, left: Constant, right: Constant) -> Constant:
    """Applies the binary operator `sign` to two integers or to two floats."""
    if left.is_float != right.is_float or (left.is_float and sign not in OF_FLOATS):
        raise _error(tokens, f"{left.value} {sign} {right.value} is no constant: both are integers, or both floats")
    if sign in COMPARISONS:
        return Constant(int(COMPARISONS[sign](*_as_one_type(left, right))))
    if sign in {"/", "%"} and not right.value:
        raise _error(tokens, f"{left.value} {sign} 0 is no constant")
    if left.is_float:
        return Constant(_finite(tokens, ARITHMETIC[sign](left.value, right.value)), "f64")
    a, b = _as_one_type(left, right)
    if sign in {"&&", "||"}:
        return Constant(int(bool(a and b) if sign == "&&" else bool(a or b)))
    # ptxas reduces shift counts modulo 64.
    if sign in {"<<", ">>"}:  # the type is that of the left operand
        a, count = int(left.value), int(right.value) & 63
        return wrapped(a << count if sign == "<<" else a >> count, left.type)
    # ptxas computes the remainder of unsigned numbers, whatever the types of the operands are.
    if sign == "%":
        return Constant((a & BITS) % (b & BITS), "u64")
    kind = "u64" if "u64" in (left.type, right.type) else "s64"
    if sign == "/":
        return wrapped(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), kind)  # towards zero
    return wrapped(ARITHMETIC[sign](a, b), kind)


def _as_one_type(left: Constant, right: Constant) -> tuple[int, int]:
    """Converts two integers to .u64 if at least one of them is .u64, else to .s64. Leaves two floats unchanged."""
    if left.is_float:
        return left.value, right.value  # type: ignore[return-value]
    kind = "u64" if "u64" in (left.type, right.type) else "s64"
    return int(wrapped(left.value, kind).value), int(wrapped(right.value, kind).value)


def wrapped(value: int | float, kind: str) -> Constant:
    """Returns the low 64 bits of an integer as a constant of the type `kind` ("s64" or "u64")."""
    bits = int(value) & BITS
    return Constant(bits - (1 << 64) if kind == "s64" and bits >> 63 else bits, kind)


def integer(text: str, line: int) -> int:
    """Returns the value of an integer constant of the PTX text. Raises PtxError if the constant has more than 64 bits,
    or if it is octal and contains an 8 or a 9."""
    digits = text.rstrip("U")
    base = 8 if re.fullmatch(r"0[0-9]+", digits) else 0
    try:
        # Python reads long numbers in quadratic time, and a number of a million digits must not stop the reader.
        value = int(digits, base) if len(digits) <= 70 else 1 << 64
    except ValueError:
        value = 1 << 64
    if value >> 64:
        raise PtxError(f"{text[:70]} is not an integer of 64 bits", line)
    return value


def _finite(tokens: TokenStream, value: float) -> float:
    if not isfinite(value):
        raise _error(tokens, "the constant is larger than a .f64 can be")
    return value


def _deeper(tokens: TokenStream, depth: int) -> int:
    if depth == MOST_DEPTH:
        raise _error(tokens, f"more than {MOST_DEPTH} signs and brackets in each other among the operands")
    return depth + 1


def _error(tokens: TokenStream, message: str) -> PtxError:
    return PtxError(message, tokens.lines[max(tokens.at - 1, 0)])
