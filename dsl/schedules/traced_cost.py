"""Turns a cost into a Python function of the dims.

The text is walked once, with a `Traced` in place of each dim and of each array of points. The walk writes the
operations down as Python code. The code does what `AllPoints` does, operation by operation, and its results are equal.
Some costs cannot be traced, such as one that compares a dim with a word. They are walked each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import inf, nan, prod
from typing import Any

import numpy as np
from msgspec import Struct

from dsl.lowering.ir.location import Loc, TileError
from dsl.schedules.all_points import FUNCTIONS, INFIX, MAX_POINTS, AllPoints, divided, stacked
from dsl.schedules.definitions import Definition
from dsl.schedules.properties import Setting
from dsl.text import tree as ast
from dsl.values.arithmetic import COMPARISONS, limited
from dsl.values.table import Builtin
from dsl.values.walk import NUMBERS
from dsl.values.written import NO_VALUE

MOST_EXCLUDED = 1024
"""The greatest number of points that are all evaluated, also those that a condition excludes. Leaving these out takes
30 us, and an operation on 1,000 numbers 1 us."""
MOST_EXACT = 1 << 53
"""Below this number, f64 has all whole numbers."""
LEAST_ROUNDED = 128
"""The least number of quotients that are rounded by floor. For fewer, the check takes longer than numpy's function."""
WHOLE_INFIX = ("+", "-", "*", "//", "%")
"""Operations whose results are whole for whole operands, as are those of all FUNCTIONS."""
NAMES = re.compile(r"\b[a-z]+_\d+\b")


class Traced(Struct, frozen=True):
    """A number of a class of calls, or an array of the points. `code` is its name in the function. `is_flag` says
    whether it is a condition, and `is_whole` that all of its numbers are whole."""

    code: str
    is_array: bool
    is_flag: bool = False
    is_whole: bool = False


def is_array(value: Any) -> bool:
    return isinstance(value, Traced) and value.is_array


def are_whole(*values: Any) -> bool:
    """Whether all numbers of these operands are whole."""
    return all(each.is_whole if isinstance(each, Traced) else each == each // 1 for each in values)


def _factor_of_one(left: Any, right: Any) -> Traced | None:
    """The other factor of a product with 1. Parts of schedules multiply by constants that often are 1."""
    for one, other in ((left, right), (right, left)):
        # 1.0 makes a float of an integer, but arrays are floats.
        if one == 1 and isinstance(other, Traced) and not other.is_flag and (type(one) is int or other.is_array):
            return other
    return None


def _are_exact(a: Any) -> bool:
    """Whether whole numbers, of which some may be beyond 2^53, are all within it."""
    if isinstance(a, np.ndarray):
        return bool(a.size and a.max() < MOST_EXACT and a.min() > -MOST_EXACT)
    return -MOST_EXACT < a < MOST_EXACT


def floor_of_whole(a: Any, b: Any) -> Any:
    """a // b for whole numbers. numpy's floor_divide takes 15 us for 700 numbers, since it computes remainders, and
    this 3 us. A quotient of whole numbers below 2^53 rounds to no other whole number."""
    count = a.size if isinstance(a, np.ndarray) else b.size
    return a // b if count < LEAST_ROUNDED or not _are_exact(a) else np.floor(a / b)


def cdiv_of_whole(a: Any, b: Any) -> Any:
    return -floor_of_whole(-a, b)


class CodeLine(Struct, frozen=True):
    """A line of the function. `target` is the name that it sets, or None for a line that has another effect."""

    target: str | None
    code: str

    @property
    def text(self) -> str:
        return self.code if self.target is None else f"{self.target} = {self.code}"


class Tracer(AllPoints):
    """Evaluates a cost to the code of a function. `dims` of the scope are Traced."""

    operands = "numbers"

    def __init__(self, *what: Any):
        super().__init__(*what)
        self.code: list[CodeLine] = []
        self.places: dict[str, Any] = {}
        self.same: dict[tuple[str, bool], Traced] = {}  # equal expressions are computed once
        self.constants: dict[str, Any] = {"np": np, "inf": inf, "nan": nan, "divided": divided, "stacked": stacked}
        self.constants |= {"floor_of_whole": floor_of_whole, "limited": limited}
        self.functions: dict[str, str] = {}
        self.rank, self.most, self.points = 0, 1, self.let("()", False)
        self.counted: Traced | None = None  # which points count: others are evaluated in vain

    # ---- code ----

    def let(
        self, code: str, is_array: bool, is_flag: bool = False, may_fold: bool = True, is_whole: bool = False
    ) -> Any:
        """The value of an expression. If the expression reads no dim, it is computed now."""
        key = code, is_array
        if key not in self.same:
            if may_fold and all(name in self.constants for name in NAMES.findall(code)):
                value = eval(code, self.constants)
                name = self.constant(value)
                is_whole = is_array and bool((value == np.floor(value)).all())
            else:
                name = f"t_{len(self.code)}"
                self.code.append(CodeLine(name, code))
            self.same[key] = Traced(name, is_array, is_flag, is_whole or is_flag)
        return self.same[key]

    def constant(self, value: Any) -> str:
        name = f"c_{len(self.constants)}"
        self.constants[name] = value
        return name

    def text(self, value: Any, is_flag: bool = False) -> str:
        """The code of an operand. A condition counts as 0 or 1, unless the operation takes conditions."""
        if isinstance(value, Traced):
            return f"({value.code} + 0.0)" if value.is_flag and not is_flag else value.code
        return repr(value)

    def joins(self, value: Any) -> bool:
        return isinstance(value, Traced)

    # ---- operations ----

    def prefixed(self, op: str, value: Any, loc: Loc) -> Any:
        if op == "not":
            flag = self.text(value, is_flag=True)
            return self.let(f"np.logical_not({flag})" if value.is_array else f"not {flag}", value.is_array, True)
        code = f"-{self.text(value)}" if op == "-" else f"-1 - {self.text(value)}"
        return self.let(code, value.is_array, is_whole=value.is_whole)

    def joined(self, op: str, left: Any, right: Any, loc: Loc) -> Any:
        if op not in INFIX:
            self.error("type", loc, f"'{op}' is not traced")
        if op == "*" and (same := _factor_of_one(left, right)) is not None:
            return same
        joins, (a, b) = is_array(left) or is_array(right), map(self.text, (left, right))
        if op == "/" and not joins:
            return self.let(f"divided({a}, {b})", False)
        is_whole = op in WHOLE_INFIX and are_whole(left, right)
        if op == "//" and joins and is_whole:
            return self.let(f"floor_of_whole({a}, {b})", True, is_whole=True)
        return self.let(f"{a} {op} {b}", joins, op in COMPARISONS, is_whole=is_whole)

    def both(self, op: str, left: Any, right: Any, node: ast.Binary | None = None) -> Any:
        a, b = self.text(left, is_flag=True), self.text(right, is_flag=True)
        if is_array(left) or is_array(right):
            return self.let(f"np.logical_{op}({a}, {b})", True, True)
        return self.let(f"bool({a}) {op} bool({b})", False, True)

    def conjoined(self, left: Any, right: Any, loc: Loc) -> Any:
        return self.both("and", left, right)

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Any:
        if not any(map(self.joins, values)):
            return super().of(function, values, keywords, loc, node)
        self.check(function, function.form_of_numbers, len(values), keywords, loc)
        args = ", ".join(map(self.text, values))
        if any(map(is_array, values)):
            if function.name not in FUNCTIONS:
                self.error("call", loc, f"'{function.name}' is not traced")
            name, is_whole = function.name, are_whole(*values)
            if name == "clamp":  # as its function does, which takes 1 us longer
                x, low, high = map(self.text, values)
                return self.let(f"np.minimum(np.maximum({x}, {low}), {high})", True, is_whole=is_whole)
            if name in ("minimum", "maximum") and len(values) == 2:
                called = f"np.{name}"
            elif name == "cdiv" and is_whole:
                called = self.known_constant("whole cdiv", cdiv_of_whole)
            else:
                called = self.known_constant(name, FUNCTIONS[name])
            return self.let(f"{called}({args})", True, is_whole=is_whole)
        if function.numbers is None or keywords:
            self.error("call", loc, f"'{function.name}' is not traced")
        called = self.known_constant(f"number {function.name}", function.numbers)
        return self.let(f"limited({called}({args}))", False, is_whole=function.name in FUNCTIONS and are_whole(*values))

    def known_constant(self, key: str, value: Any) -> str:
        """The name of a function in the code, the same at each use."""
        name = self.functions.get(key)
        if name is None:
            name = self.functions[key] = self.constant(value)
        return name

    def _call(self, node: ast.Call) -> Any:
        if isinstance(node.function, ast.Name) and node.function.id == "where" and len(node.args) == 3:
            condition, yes, no = node.args
            if node is not self.cost or not (isinstance(no, ast.Name) and no.id == "inf"):
                chosen = self.expr(condition)
                if not isinstance(chosen, Traced):
                    return self.expr(yes if chosen else no)
                return self.selected(chosen, *(self.skipped(each, chosen, "where") for each in (yes, no)))
        return super()._call(node)

    def skipped(self, node: ast.Expr, condition: Any, op: str) -> Any:
        """Evaluates an expression that the walk may skip, if the condition is a number. Such an expression must read no
        set that is not read elsewhere, since the walk would then have other points."""
        before = len(self.sets)
        value = self.side(self.expr(node), node, op)
        if isinstance(condition, Traced) and not condition.is_array and len(self.sets) > before:
            self.error("type", node.loc, "a set that only one side reads is not traced")
        return value

    def logic(self, node: ast.Binary, side: Callable[[ast.Expr], Any]) -> Any:
        left = side(node.left)
        if isinstance(left, NUMBERS) and bool(left) == (node.op == "or"):
            return bool(left)
        right = self.skipped(node.right, left, node.op)
        if isinstance(left, NUMBERS):
            return bool(right) if isinstance(right, NUMBERS) else right
        return self.both(node.op, left, right, node)

    def selected(self, condition: Traced, yes: Any, no: Any) -> Traced:
        flag, a, b = self.text(condition, is_flag=True), self.text(yes), self.text(no)
        if condition.is_array:
            return self.let(f"np.where({flag}, {a}, {b} + 0.0)", True, is_whole=are_whole(yes, no))
        return self.let(f"{a} if {flag} else {b}", is_array(yes) or is_array(no), is_whole=are_whole(yes, no))

    # ---- points ----

    def with_axis(self, definition: Definition, values: list[Any]) -> Any:
        count, apart = len(values), (1,) * self.rank
        self.most *= count
        if self.most > MAX_POINTS:
            self.error("limit", definition.loc, "too many points to be traced")
        self.sets[definition.name] = values
        self.places[definition.name] = Traced(self.constant(np.arange(count).reshape(count, *apart)), True)
        if any(map(self.joins, values)):
            found = self.let(f"stacked([{', '.join(map(self.text, values))}], {self.rank})", True)
        else:
            found = Traced(self.constant(np.array(values, np.float64).reshape(count, *apart)), True)
        self.points = self.let(f"({count}, *{self.points.code})", False)
        self.rank += 1
        return found

    def keep(self, condition: Any) -> None:
        flag, shape = self.text(condition, is_flag=True), self.points.code
        if not condition.is_array:
            self.code.append(CodeLine(None, f"if not {flag}: return inf, {self.points.code}, {self.sets_so_far()}"))
            return
        if self.counted is not None:
            condition, self.counted = self.both("and", self.counted, condition), None
            flag = condition.code
        # A few points are all evaluated, since what depends on their sets alone is known beforehand.
        if condition.code not in self.constants and prod(self.constants.get(shape, (inf,))) <= MOST_EXCLUDED:
            self.code.append(CodeLine(None, f"if not {flag}.any(): return inf, {shape}, {self.sets_so_far()}"))
            self.counted = condition
            return
        kept = self.let(f"np.flatnonzero(np.broadcast_to({flag}, {shape}))", False)
        self.code.append(CodeLine(None, f"if not {kept.code}.size: return inf, {shape}, {self.sets_so_far()}"))
        self.gather(kept)

    def gather(self, kept: Traced) -> None:
        """Drops all points but those at the places `kept`."""
        shape = self.points.code

        def of_points(value: Traced) -> Traced:
            code = f"np.broadcast_to({value.code}, {shape}).reshape(-1)[{kept.code}]"
            return self.let(code, True, is_whole=value.is_whole)

        # Only the sets are gathered. What depends on them is computed anew at the kept points, which is faster.
        numbers = {name: value for name, value in self.asked.items() if not is_array(value)}
        self.asked = numbers | {name: of_points(self.asked[name]) for name in self.sets if name not in numbers}
        self.places = {name: of_points(place) for name, place in self.places.items()}
        self.points, self.rank = self.let(f"({kept.code}.size,)", False), 1

    def function(self, setting: Setting, extents: Sequence[str]) -> Callable[[Mapping[str, int]], Any] | None:
        """The function from dims to the cost, the shape of the points, and for each set its values, places and numbers.
        Returns None if the cost cannot be traced."""
        self.cost = setting.values[0]
        dims = {name: self.let(f"dims[{name!r}]", False, may_fold=False, is_whole=True) for name in extents}
        self.scope.names.update(dims)
        try:
            with np.errstate(all="ignore"):
                found = setting.read(self)
        except (TileError, *NO_VALUE):
            return None
        if isinstance(found, Traced) and found.is_flag:
            return None  # the walk says that a condition is no cost
        found = found if self.counted is None else self.selected(self.counted, found, inf)
        cost = self.text(found)
        result = f"return {cost}, {self.points.code}, {self.sets_so_far()}"
        # What no later line reads is left out, such as names that are gathered and then not used.
        needed: set[str] = set()
        body: list[str] = []
        for line in reversed([*self.arranged(self.code), CodeLine(None, result)]):
            if line.target is None or line.target in needed:
                needed.update(NAMES.findall(line.code))
                body.insert(0, f"    {line.text}\n")
        made = {name: value for name, value in self.constants.items() if name in needed or not NAMES.match(name)}
        exec(f"def cost(dims):\n{''.join(body)}", made)
        function: Callable[[Mapping[str, int]], Any] = made["cost"]
        return function

    def arranged(self, lines: list[CodeLine]) -> list[CodeLine]:
        return lines

    def sets_so_far(self) -> str:
        """The code of the values, places and numbers of the sets so far."""
        values = ", ".join(
            f"[{', '.join(self.text(each, is_flag=True) for each in one)}]" for one in self.sets.values()
        )
        places, numbers = (", ".join(self.text(each[name]) for name in self.sets) for each in (self.places, self.asked))
        return f"[{values}], [{places}], [{numbers}]"
