"""Evaluates a schedule's `cost` for all combinations of its `tune` values at once, on numpy arrays. Such a combination
is called a point.

A cost `where(CONDITION, TIME, inf)` evaluates TIME only at the points where CONDITION is true. In the example of
samples/matmul.tile on sm_90a, these are 200 of 3,960 points.

All arrays contain f64, so integers are exact up to 2^53, and `/` returns fractions. 1 / 0 gives infinity or NaN instead
of an error, so a condition may exclude it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import inf, isfinite, nan, prod
from typing import Any

import numpy as np
from msgspec import Struct

from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.schedules.definitions import Definition, Names, through
from dsl.schedules.properties import Setting
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.values.arithmetic import COMPARISONS
from dsl.values.table import Builtin
from dsl.values.walk import NUMBERS

MAX_POINTS = 1 << 14


class Evaluated(Struct, frozen=True):
    """A cost at all points. All arrays broadcast to `shape`. `sets` maps each name with a `tune` set to the values as
    written, `places` to the index of each point's value among them, and `numbers` to the value of each point."""

    cost: Any
    shape: tuple[int, ...]
    sets: Mapping[str, Sequence[Any]]
    places: Mapping[str, np.ndarray]
    numbers: Mapping[str, Any]

    def cheapest(self) -> tuple[float, int] | None:
        """Returns the least finite cost, and the first point that has it. A cost without a value counts as infinite.
        Returns None if no cost is finite."""
        costs = self.flat(np.asarray(self.cost, np.float64))
        point = int(costs.argmin())
        if not isfinite(costs[point]):  # minus infinity and NaN count as the least
            finite = np.flatnonzero(np.isfinite(costs))
            if not len(finite):
                return None
            point = int(finite[costs[finite].argmin()])
        return float(costs[point]), point

    def cheapest_first(self) -> tuple[list[float], list[int]]:
        """Returns the finite costs in ascending order, and the point of each."""
        costs = self.flat(np.asarray(self.cost, np.float64))
        finite = np.flatnonzero(np.isfinite(costs))
        # At equal cost, the values that the text states first win. The set that was read last decides first: its axis
        # is the first one.
        order = finite[np.argsort(costs[finite], kind="stable")]
        return costs[order].tolist(), order.tolist()

    def flat(self, value: np.ndarray) -> np.ndarray:
        """Returns the value of each point, along one axis."""
        # Usually, the cost depends on all sets. To broadcast it takes 4 us.
        return (value if value.shape == self.shape else np.broadcast_to(value, self.shape)).reshape(-1)

    def values_at(self, point: int, is_first: bool = False) -> dict[str, Any]:
        """Returns the values of the sets at a point, or the first value of each set. If a value depends on other sets,
        it is the number at the point, as an integer if it is whole."""
        index: list[int] = []
        for extent in reversed(self.shape):
            point, place = divmod(point, extent)
            index.insert(0, place)

        def at(array: Any) -> Any:  # one element of the array that broadcasts to `shape`
            own = zip(index[len(index) - array.ndim :], array.shape, strict=True)
            return array.item(*(i if extent > 1 else 0 for i, extent in own))

        found = {name: values[0 if is_first else at(self.places[name])] for name, values in self.sets.items()}
        for name, value in found.items():
            if not isinstance(value, NUMBERS):
                number = at(self.numbers[name])
                found[name] = int(number) if number == int(number) else number
        return found


class AllPoints(Names):
    """Evaluates the names of a schedule at all points. A name with a `tune` set becomes an array of all values of the
    set, unless the caller gives the name a value. `sets` contains the values as written, and `places` the index of each
    point's value in its set. All arrays broadcast to `shape`. Each new set adds an axis in front, and `keep` flattens
    all axes into one."""

    def __init__(self, *what: Any):
        super().__init__(*what)
        self.sets: dict[str, list[Any]] = {}
        self.places: dict[str, np.ndarray] = {}
        self.shape: tuple[int, ...] = ()
        self.cost: ast.Expr | None = None  # the cost, until its condition is evaluated

    def evaluated_cost(self, setting: Setting) -> Evaluated:
        self.cost = setting.values[0]
        try:
            with np.errstate(all="ignore"):
                cost = setting.read(self)
        except TileError as error:
            raise through(error, setting.caller) from None
        numbers = {name: self.asked[name] for name in self.sets}
        return Evaluated(cost, self.shape, self.sets, self.places, numbers)

    def of_set(self, definition: Definition) -> Any:
        if definition.name in self.given:
            return self.given[definition.name]
        values = self.each(definition)
        for value, node in zip(values, definition.values, strict=True):
            if not isinstance(value, NUMBERS) and not self.joins(value):
                self.error("type", node.loc, f"the cost reads '{definition.name}', so its values are numbers")
        return self.with_axis(definition, values)

    def with_axis(self, definition: Definition, values: list[Any]) -> Any:
        """Adds the axis of a `tune` set. Returns the array of its values."""
        found = stacked(values, len(self.shape))
        self.sets[definition.name] = values
        self.places[definition.name] = np.arange(len(values)).reshape(-1, *(1,) * len(self.shape))
        self.shape = (len(values), *self.shape)
        if prod(self.shape) > MAX_POINTS:
            raise TileError("limit", definition.loc, f"the cost has more than {MAX_POINTS} points", "fewer values")
        return found

    def keep(self, condition: np.ndarray) -> None:
        """Drops all points where the condition is false."""
        kept = np.flatnonzero(np.broadcast_to(condition, self.shape))

        def of_points(value: Any) -> Any:
            if not isinstance(value, np.ndarray):
                return value
            return np.broadcast_to(value, self.shape).reshape(-1)[kept]

        self.asked = {name: of_points(value) for name, value in self.asked.items()}
        self.places = {name: of_points(place) for name, place in self.places.items()}
        self.shape = (len(kept),)

    def meets(self, node: ast.Expr) -> bool:
        """Drops the points where the condition is false. For `A and B`, B is evaluated only where A is true. Returns
        False if the condition is false at all points."""
        if isinstance(node, ast.Binary) and node.op == "and":
            return self.meets(node.left) and self.meets(node.right)
        condition = self.side(self.expr(node), node, "where")
        if isinstance(condition, NUMBERS):
            return bool(condition)
        if isinstance(condition, np.ndarray) and not condition.any():
            return False
        self.keep(condition)
        return True

    def joins(self, value: Any) -> bool:
        return isinstance(value, np.ndarray | np.generic)

    def _binary(self, node: ast.Binary) -> Any:
        if node.op != "/":
            return super()._binary(node)
        # A time may be a fraction. So n / TILE need not be an integer here, unlike in the value of a constant.
        left, right = self.operand(node.left, "/"), self.operand(node.right, "/")
        if self.joins(left) or self.joins(right):
            return self.joined("/", left, right, node.loc)
        return divided(left, right)

    def infix(self, op: str, left: Any, right: Any, loc: Loc) -> Any:
        if op in ("//", "%") and isinstance(left, NUMBERS) and isinstance(right, NUMBERS) and not right:
            return inf if op == "//" and left else nan  # as for arrays, and not an error
        return super().infix(op, left, right, loc)

    def _call(self, node: ast.Call) -> Any:
        # A schedule that a condition rules out at all points is not evaluated further.
        if isinstance(node.function, ast.Name) and node.function.id == "where" and len(node.args) == 3:
            condition, yes, no = node.args
            if node is self.cost and isinstance(no, ast.Name) and no.id == "inf":
                return self.side(self.expr(yes), yes, "where") if self.meets(condition) else inf
            chosen = self.expr(condition)
            if isinstance(chosen, NUMBERS):
                return self.expr(yes if chosen else no)
            return np.where(chosen, *(self.side(self.expr(each), each, "where") for each in (yes, no)))
        return super()._call(node)

    def prefixed(self, op: str, value: Any, loc: Loc) -> Any:
        return np.logical_not(value) if op == "not" else PREFIX[op](_number(value))

    def joined(self, op: str, left: Any, right: Any, loc: Loc) -> Any:
        if op not in INFIX:
            self.error("type", loc, f"a cost does not use '{op}' on names of `tune` sets", ", ".join(INFIX))
        return INFIX[op](_number(left), _number(right))

    def both(self, op: str, left: Any, right: Any, node: ast.Binary) -> Any:
        return np.logical_and(left, right) if op == "and" else np.logical_or(left, right)

    def conjoined(self, left: Any, right: Any, loc: Loc) -> Any:
        return np.logical_and(left, right)

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Any:
        if not any(map(self.joins, values)):
            by_zero = function.name == "cdiv" and len(values) == 2 and values[1] == 0
            return inf if by_zero else super().of(function, values, keywords, loc, node)
        self.check(function, function.form_of_numbers, len(values), keywords, loc)
        if function.name not in FUNCTIONS:
            hint = closest(function.name, FUNCTIONS) or ", ".join(FUNCTIONS)
            self.error("call", loc, f"a cost does not use '{function.name}' on names of `tune` sets", hint)
        for value in values:
            if not isinstance(value, NUMBERS) and not self.joins(value):
                self.error("type", loc, f"{function.name} takes numbers; this is {self.describe(value)}")
        return FUNCTIONS[function.name](*map(_number, values))


class GivenPoints(AllPoints):
    """Evaluates the names of a schedule at given points, on arrays with a number for each point. A `tune` set without a
    given value has its first value."""

    def __init__(self, points: Sequence[Mapping[str, Any]], program: Program, known: Any, definitions: Any, dims: Any):
        columns = {name: [point[name] for point in points] for name in points[0]}
        given = {
            name: values[0] if all(value == values[0] for value in values) else np.array(values, np.float64)
            for name, values in columns.items()
        }
        super().__init__(program, known, definitions, given, dims)
        self.asked |= given
        self.places, self.shape = {"": np.arange(len(points))}, (len(points),)

    def of_set(self, definition: Definition) -> Any:
        return self.evaluated(definition)

    def keep(self, condition: np.ndarray) -> None:
        super().keep(condition)
        self.given = {name: self.asked[name] for name in self.given}

    def costs(self, setting: Setting) -> np.ndarray:
        """Returns the cost of each point. It is infinite where a condition excludes the point."""
        count, found = len(self.places[""]), self.evaluated_cost(setting)
        costs = np.full(count, inf)
        costs[found.places[""]] = found.flat(np.asarray(found.cost, np.float64))
        return np.where(np.isnan(costs), inf, costs)


def stacked(values: Sequence[Any], rank: int) -> np.ndarray:
    """Returns an array of the values of a set, with its axis in front of the `rank` axes of the sets before it. A value
    may depend on those."""
    found = np.stack(np.broadcast_arrays(*values)).astype(np.float64)
    return found.reshape(found.shape[:1] + (1,) * (rank - found.ndim + 1) + found.shape[1:])


def divided(left: float, right: float) -> float:
    """Returns a quotient of numbers. It is an integer if it is a whole quotient of integers, since the value of a set
    may be the extent of a tile."""
    if not right:
        return inf if left else nan
    if isinstance(left, int) and isinstance(right, int) and left % right == 0:
        return left // right
    return left / right


def _number(value: Any) -> Any:
    """Converts a value to f64. A condition becomes 0 or 1."""
    return np.asarray(value, np.float64)


def _next_pow2(n: np.ndarray) -> np.ndarray:
    return np.exp2(np.ceil(np.log2(np.maximum(n, 1))))


def _pow2_divisor(n: np.ndarray) -> np.ndarray:
    whole = np.asarray(n).astype(np.int64)
    return (whole & -whole).astype(np.float64)


def _least(*values: Any) -> Any:
    return reduce(np.minimum, values)


def _greatest(*values: Any) -> Any:
    return reduce(np.maximum, values)


PREFIX: dict[str, Callable[[Any], Any]] = {"-": operator.neg, "~": lambda value: -1 - value}
INFIX: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    **COMPARISONS,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "minimum": _least,
    "maximum": _greatest,
    "clamp": lambda x, low, high: _least(_greatest(x, low), high),
    "cdiv": lambda a, b: -(-a // b),
    "next_pow2": _next_pow2,
    "pow2_divisor": _pow2_divisor,
}
"""What a cost may do with arrays, beside `where`."""
