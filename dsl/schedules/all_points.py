"""Evaluates a cost at all points of its `tune` sets at once, on numpy arrays. The 200 points of a product take as long
as two points that are evaluated one after the other."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from dsl.lowering.ir.location import Loc, TileError
from dsl.schedules.definitions import Definition, Names, through
from dsl.schedules.properties import Setting
from dsl.text import tree as ast
from dsl.values.arithmetic import ConstantError
from dsl.values.table import Builtin
from dsl.values.walk import NUMBERS

MAX_POINTS = 1 << 14
LARGE = 1 << 31
"""An integer beyond this limit counts as a float, because products of integers wrap at 64 bits in numpy."""


class AllPoints(Names):
    """The names of a schedule. A name with a `tune` set, to which the caller gives no value, has an array of all its
    values. `sets` holds these arrays. The first set is the last axis."""

    def __init__(self, *what: Any):
        super().__init__(*what)
        self.sets: dict[str, np.ndarray] = {}

    def cheapest_first(self, setting: Setting) -> tuple[list[float], Mapping[str, list[Any]]]:
        """The costs in ascending order, and the values of each set in the same order. A cost without a value counts as
        infinite."""
        try:
            with np.errstate(all="ignore"):
                cost = np.asarray(setting.read(self), np.float64)
        except TileError as error:
            raise through(error, setting.caller) from None
        shape = tuple(len(values) for values in reversed(self.sets.values()))
        costs = np.nan_to_num(np.broadcast_to(cost, shape).reshape(-1), nan=np.inf, posinf=np.inf)
        # The sort is stable: among points of equal cost, the values that the text names first win.
        order = np.argsort(costs, kind="stable")
        values = {name: np.broadcast_to(each, shape).reshape(-1)[order].tolist() for name, each in self.sets.items()}
        return costs[order].tolist(), values

    def of_set(self, definition: Definition) -> Any:
        if definition.name in self.given:
            return self.given[definition.name]
        values = self.each(definition)
        for value, node in zip(values, definition.values, strict=True):
            if not isinstance(value, NUMBERS) and not self.joins(value):
                self.error("type", node.loc, f"the cost reads '{definition.name}', so its values are numbers")
        # A value may depend on other sets. The axes of these sets exist already. The new axis is in front of them.
        stacked = np.stack(np.broadcast_arrays(*values))
        between = (1,) * (len(self.sets) - stacked.ndim + 1)
        self.sets[definition.name] = made = stacked.reshape(stacked.shape[:1] + between + stacked.shape[1:])
        if prod(len(each) for each in self.sets.values()) > MAX_POINTS:
            raise TileError("limit", definition.loc, f"the cost has more than {MAX_POINTS} points", "fewer values")
        return made

    def joins(self, value: Any) -> bool:
        return isinstance(value, np.ndarray | np.generic)

    def prefixed(self, op: str, value: Any, loc: Loc) -> Any:
        return np.logical_not(value) if op == "not" else PREFIX[op](value)

    def joined(self, op: str, left: Any, right: Any, loc: Loc) -> Any:
        if op not in INFIX:
            self.error("type", loc, f"a cost does not use '{op}' on names of `tune` sets", ", ".join(INFIX))
        return INFIX[op](_limited(left), _limited(right))

    def both(self, op: str, left: Any, right: Any, node: ast.Binary) -> Any:
        return np.logical_and(left, right) if op == "and" else np.logical_or(left, right)

    def conjoined(self, left: Any, right: Any, loc: Loc) -> Any:
        return np.logical_and(left, right)

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Any:
        if not any(map(self.joins, values)):
            return super().of(function, values, keywords, loc, node)
        self.check(function, function.form_of_numbers, len(values), keywords, loc)
        if function.name not in FUNCTIONS:
            hint = ", ".join(FUNCTIONS)
            self.error("call", loc, f"a cost does not use '{function.name}' on names of `tune` sets", hint)
        return FUNCTIONS[function.name](*map(_limited, values))


def _limited(value: Any) -> Any:
    return float(value) if isinstance(value, int) and abs(value) > LARGE else value


def _divides(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(a: Any, b: Any) -> Any:
        # numpy divides integers by 0 without an error. The result is 0.
        if not np.all(b):
            raise ConstantError("division by zero")
        return function(a, b)

    return apply


def _quotient(a: Any, b: Any) -> Any:
    if "f" in (np.asarray(a).dtype.kind, np.asarray(b).dtype.kind):
        return a / b
    if np.any(a % b):
        raise ConstantError("a quotient is no integer at some point", "'//' rounds down, cdiv(a, b) rounds up")
    return a // b


def _next_pow2(n: np.ndarray) -> np.ndarray:
    return np.exp2(np.ceil(np.log2(np.maximum(n, 1)))).astype(np.int64)


def _least(*values: Any) -> Any:
    return reduce(np.minimum, values)


def _greatest(*values: Any) -> Any:
    return reduce(np.maximum, values)


PREFIX: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "~": operator.invert}
INFIX: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divides(_quotient),
    "//": _divides(operator.floordiv),
    "%": _divides(operator.mod),
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "minimum": _least,
    "maximum": _greatest,
    "clamp": lambda x, low, high: _least(_greatest(x, low), high),
    "where": np.where,
    "cdiv": _divides(lambda a, b: -(-a // b)),
    "next_pow2": _next_pow2,
}
"""What a cost may do with arrays. Results equal those of `dsl/values/arithmetic.py` at each point."""
