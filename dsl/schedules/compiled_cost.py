"""Compiles a cost to a Python function of the dims.

The first call with new extents evaluates the costs of all schedules that a launch names. Walking the text of those of
samples/matmul.tile takes 2 ms. So the walk is done once, with a `Traced` in place of each dim and of each array of
points. It writes the operations down as Python code, which later calls run.

The code does what `AllPoints` does, operation by operation, and its results are equal. Some costs cannot be traced,
such as one that compares a dim with a word. They are walked each time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from math import inf, nan, prod
from typing import Any

import numpy as np
from msgspec import Struct

from dsl.lowering.ir.location import Loc, TileError
from dsl.schedules.all_points import FUNCTIONS, INFIX, MAX_POINTS, AllPoints, Evaluated, divided, stacked
from dsl.schedules.definitions import Definition, Said
from dsl.schedules.properties import Setting
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.values.arithmetic import ConstantError, call
from dsl.values.table import Builtin
from dsl.values.walk import MISSING, NUMBERS

MOST_KEPT, MOST_OF_KEY = 256, 16
"""The greatest number of costs of a program, for the constants that a caller gives and the dims that are known. Each is
compiled for at most so many combinations of types and other facts that it reads."""
MOST_EXCLUDED = 1024
"""The greatest number of points that are all evaluated, also those that a condition excludes. Leaving these out takes
30 us, and an operation on 1,000 numbers 1 us."""
NAMES = re.compile(r"\b[a-z]+_\d+\b")


class Traced(Struct, frozen=True):
    """A number of a class of calls, or an array of the points. `code` is its name in the function. `is_flag` says
    whether it is a condition."""

    code: str
    is_array: bool
    is_flag: bool = False


def is_array(value: Any) -> bool:
    return isinstance(value, Traced) and value.is_array


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
        self.functions: dict[str, str] = {}
        self.rank, self.most, self.points = 0, 1, self.let("()", False)
        self.counted: Traced | None = None  # which points count: others are evaluated in vain

    # ---- code ----

    def let(self, code: str, is_array: bool, is_flag: bool = False, may_fold: bool = True) -> Traced:
        """The value of an expression. If the expression reads no dim, it is computed now."""
        key = code, is_array
        if key not in self.same:
            if may_fold and all(name in self.constants for name in NAMES.findall(code)):
                name = self.constant(eval(code, self.constants))
            else:
                name = f"t_{len(self.code)}"
                self.code.append(CodeLine(name, code))
            self.same[key] = Traced(name, is_array, is_flag)
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
        return self.let(f"-{self.text(value)}" if op == "-" else f"-1 - {self.text(value)}", value.is_array)

    def joined(self, op: str, left: Any, right: Any, loc: Loc) -> Any:
        if op not in INFIX:
            self.error("type", loc, f"'{op}' is not traced")
        joins, (a, b) = is_array(left) or is_array(right), map(self.text, (left, right))
        if op == "/" and not joins:
            return self.let(f"divided({a}, {b})", False)
        return self.let(f"{a} {op} {b}", joins, op in ("==", "!=", "<", "<=", ">", ">="))

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
            return self.let(f"{self.known_constant(function.name, FUNCTIONS[function.name])}({args})", True)
        if function.numbers is None or keywords:
            self.error("call", loc, f"'{function.name}' is not traced")
        name, numbers = function.name, function.numbers
        called = self.known_constant(f"number {name}", lambda *args: call(name, numbers, list(args)))
        return self.let(f"{called}({args})", False)

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
            return self.let(f"np.where({flag}, {a}, {b} + 0.0)", True)
        return self.let(f"{a} if {flag} else {b}", is_array(yes) or is_array(no))

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

        def of_points(value: Traced) -> Traced:
            return self.let(f"np.broadcast_to({value.code}, {shape}).reshape(-1)[{kept.code}]", True)

        # Only the sets are gathered. What depends on them is computed anew at the kept points, which is faster.
        numbers = {name: value for name, value in self.asked.items() if not is_array(value)}
        self.asked = numbers | {name: of_points(self.asked[name]) for name in self.sets if name not in numbers}
        self.places = {name: of_points(place) for name, place in self.places.items()}
        self.points, self.rank = self.let(f"({kept.code}.size,)", False), 1

    def compiled(self, setting: Setting, extents: Sequence[str], known: Mapping[str, Any]) -> CompiledCost:
        """Compiles a cost to a function of these dims. `known` has the names of the scope, with their values."""
        function, names = self.function(setting, extents), self.scope.names
        assert isinstance(names, RecordedNames)
        facts = [(name, known.get(name, MISSING)) for name in sorted(names.read) if name not in extents]
        return CompiledCost(function, facts, [*self.sets], (setting, self.definitions))

    def function(self, setting: Setting, extents: Sequence[str]) -> Callable[[Mapping[str, int]], Any] | None:
        """The function from dims to the cost, the shape of the points, and for each set its values, places and numbers.
        Returns None if the cost cannot be traced."""
        self.cost = setting.values[0]
        self.scope.names.update({name: self.let(f"dims[{name!r}]", False, may_fold=False) for name in extents})
        try:
            with np.errstate(all="ignore"):
                found = setting.read(self)
        except (TileError, ArithmeticError):
            return None
        if isinstance(found, Traced) and found.is_flag:
            return None  # the walk says that a condition is no cost
        found = found if self.counted is None else self.selected(self.counted, found, inf)
        cost = self.text(found)
        result = f"return {cost}, {self.points.code}, {self.sets_so_far()}"
        # What no later line reads is left out, such as names that are gathered and then not used.
        needed: set[str] = set()
        body: list[str] = []
        for line in reversed([*self.code, CodeLine(None, result)]):
            if line.target is None or line.target in needed:
                needed.update(NAMES.findall(line.code))
                body.insert(0, f"    {line.text}\n")
        made = {name: value for name, value in self.constants.items() if name in needed or not NAMES.match(name)}
        exec(f"def cost(dims):\n{''.join(body)}", made)
        function: Callable[[Mapping[str, int]], Any] = made["cost"]
        return function

    def sets_so_far(self) -> str:
        """The code of the values, places and numbers of the sets so far."""
        values = ", ".join(
            f"[{', '.join(self.text(each, is_flag=True) for each in one)}]" for one in self.sets.values()
        )
        places, numbers = (", ".join(self.text(each[name]) for name in self.sets) for each in (self.places, self.asked))
        return f"[{values}], [{places}], [{numbers}]"


class RecordedNames(dict[str, Any]):
    """Names with their values, which records the names that were looked up."""

    def __init__(self, names: Mapping[str, Any]):
        super().__init__(names)
        self.read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        self.read.add(str(name))
        return super().__contains__(name)


class CompiledCost(Struct, frozen=True):
    """A compiled cost. `function` is None if the cost is not compiled. `facts` has the known names that it depends on,
    with their values. `sets` names the sets that it reads, in their order. `kept` keeps alive what its key names by
    its address."""

    function: Callable[[Mapping[str, int]], Any] | None
    facts: Sequence[tuple[str, Any]]
    sets: Sequence[str]
    kept: Any

    def serves(self, known: Mapping[str, Any]) -> bool:
        """Whether the facts have these values and types. 1, 1.0 and True differ."""
        for name, value in self.facts:
            now = known.get(name, MISSING)
            if now is not value and (type(now) is not type(value) or now != value):
                return False
        return True

    def __call__(self, dims: Mapping[str, int]) -> Evaluated | None:
        """Returns the cost at all points, or None if it has to be walked."""
        if self.function is None:
            return None
        try:
            with np.errstate(all="ignore"):
                cost, shape, *parts = self.function(dims)
        except (ArithmeticError, ConstantError):
            return None  # the walk raises the error with its place
        values, places, numbers = (dict(zip(self.sets, each, strict=False)) for each in parts)
        return Evaluated(cost, shape, values, places, numbers)


class CompiledCosts:
    """The compiled costs of a program. A cost is walked at its first evaluation, and compiled at the second one."""

    def __init__(self, program: Program):
        self.program = program
        self.found: dict[Any, list[CompiledCost]] = {}  # an empty list for a cost that was walked once

    def evaluated(
        self, setting: Setting, said: Said, known: Mapping[str, Any], given: Mapping[str, Any], dims: Collection[str]
    ) -> Evaluated | None:
        """Returns the cost at all points, or None if it has to be walked."""
        extents = [name for name in dims if type(known.get(name)) is int]
        constants = [(name, type(value), value) for name, value in given.items()]
        key = id(setting.values[0]), id(said.definitions), *constants, *extents
        try:
            compiled = self.found.get(key)
        except TypeError:
            return None  # a value that is no constant: the walk or the compiler reports it
        if compiled is None:
            self.found[key] = []
            if len(self.found) > MOST_KEPT:
                self.found.pop(next(iter([*self.found])), None)
            return None
        for each in compiled:
            if each.serves(known):
                return each(known)
        tracer = Tracer(self.program, RecordedNames(known), said.definitions, given, dims)
        tracer.broken = {*said.mistakes.broken}
        compiled.append(tracer.compiled(setting, extents, known))
        if len(compiled) > MOST_OF_KEY:
            del compiled[0]
        return compiled[-1](known)
