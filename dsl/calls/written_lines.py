"""Keeps the expressions of dispatches as Python functions.

Each new class of calls evaluates the lines and conditions of a dispatch. Those of samples/matmul.tile take 110 us when
they are walked, and 25 us as functions. An expression is walked at its first evaluation, and written at the second one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from dsl.calls.line_names import OWN, DispatchNames, LineNames, LinePlanner
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import DType
from dsl.text import tree as ast
from dsl.text.program import Program
from dsl.values.scope import Scope
from dsl.values.table import Builtin
from dsl.values.walk import MISSING, NUMBERS
from dsl.values.written import NO_VALUE, CodeWriter, LaterNumber, RecordedNames, made_for

PLAIN = (bool, *NUMBERS)
MOST_OF_LINE = 16
"""The greatest number of functions of an expression, for combinations of types and other facts that it reads."""
QUESTIONS = {"aligned": "rows_are_aligned", "contiguous": "is_contiguous({})"}
"""What written code asks of the facts of an array. The other functions that only dispatches have are not written."""


def number(value: Any) -> Any:
    """Returns a number. A later call may give a word in its place, for which other operations are defined."""
    if type(value) not in PLAIN:
        raise TypeError
    return value


class LaterValues(RecordedNames):
    """The values at a line. Numbers are those of a later call, and the other values that are read are recorded."""

    def __init__(self, names: Mapping[str, Any], let: Callable[[str], LaterNumber]):
        super().__init__(names)
        self.let = let

    def get(self, name: str, default: Any = None) -> Any:
        value = dict.get(self, name, MISSING)
        if type(value) in NUMBERS:
            return self.let(f"number(names[{name!r}])")
        if value is not MISSING and not isinstance(value, bool | str | DType):
            raise ArithmeticError(f"'{name}' differs in each class of calls")  # the facts of an array
        return super().get(name, default)


class WrittenLine(Struct, frozen=True):
    """An expression as a function of the values and of the arrays at its line, for calls with these facts. `function`
    is None if the expression has to be walked."""

    facts: Sequence[tuple[str, Any]]
    function: Callable[..., Any] | None


class LineWriter(CodeWriter, DispatchNames):
    """Writes an expression of a dispatch."""

    def __init__(self, names: LineNames, planner: LinePlanner):
        super().__init__(names, planner)
        self.values = LaterValues(names.values, self.let)
        self.scope = Scope(self.scope.parent, self.values)
        self.constants["number"] = number

    def meaning(self, function: Builtin, loc: Loc) -> Callable[..., Any]:
        if function.name in QUESTIONS:
            return LineWriter.asked
        if function.name in OWN:
            self.error("call", loc, f"'{function.name}' is not written")
        return super().meaning(function, loc)

    def asked(self, node: ast.Call) -> LaterNumber:
        """Writes a question about an array."""
        name, (array, *axes) = ast.dotted(node.function), node.args
        axis = self.integer(axes[0], "an axis") if axes else 0
        if name is None or not isinstance(array, ast.Name) or axis < 0:
            self.error("call", node.loc, "the walk tells what is wrong")
        return self.let(f"arrays({array.id!r}).{QUESTIONS[name].format(axis)}")

    def text(self, value: Any) -> str:
        if isinstance(value, tuple):
            return f"({''.join(f'{self.text(each)}, ' for each in value)})"
        if not isinstance(value, (*NUMBERS, LaterNumber)):
            raise TypeError("only numbers are written")
        return super().text(value)

    def line(self, node: ast.Expr) -> WrittenLine:
        try:
            code = self.text(self(node))
        except (TileError, *NO_VALUE):
            return WrittenLine((), None)
        return WrittenLine(self.values.facts(), self.function("names, arrays", code))


class WrittenLines:
    """The expressions of a program's dispatches. An expression is walked at its first evaluation, and written at the
    second one."""

    def __init__(self, program: Program):
        self.found: dict[int, list[WrittenLine]] = {}  # by identity; the program keeps its expressions

    def value(self, node: ast.Expr, names: LineNames, planner: LinePlanner) -> Any:
        """Returns the value of an expression, or MISSING if it has to be walked."""
        lines = self.found.get(id(node))
        if lines is None:
            self.found[id(node)] = []
            return MISSING
        line = made_for(names.values, lines)
        if line is None:
            line = LineWriter(names, planner).line(node)
            lines.append(line)
            if len(lines) > MOST_OF_LINE:
                del lines[0]
        if line.function is None:
            return MISSING
        try:
            return line.function(names.values, lambda name: planner.known(names.passed.get(name)))
        except NO_VALUE:
            return MISSING  # the walk raises the error with its place
