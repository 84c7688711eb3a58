"""Evaluates expressions on numbers and numpy arrays. Such expressions are in examples, in dispatches and in the `def`s
that these call.

Expressions are never run as Python. An expression may use operators, functions of the table (`table.py`), `ref.NAME`
and the file's top-level `def`s. numpy is imported when the first array or random number is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, ClassVar

import dsl.values.functions  # noqa: F401 (the rows)
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.nesting import deep_recursion
from dsl.lowering.ir.types import DType
from dsl.text import tree as ast
from dsl.values.host import Host, Shaped
from dsl.values.later import on_arrays
from dsl.values.scope import Closure, Scope, scope_of
from dsl.values.walk import NUMBERS, Returned

MAX_STEPS = 1_000_000
"""The limit of statements in one evaluation. With this limit, an endless `while` ends with an error at its line."""


class Arrays(Host):
    """Evaluates expressions of numbers, types and arrays with the bindings in `names`.

    An array of another framework than numpy has only a shape and a size here. The caller may add entries to `names` at
    any time. `functions` contains the file's top-level `def`s. `seed` initializes the random generator. Errors are
    TileErrors with a source location.
    """

    def __init__(self, names: Mapping[str, Any], functions: Mapping[str, ast.Def], seed: int = 0):
        super().__init__(Scope(scope_of(functions), names), seed)  # type: ignore[arg-type]
        self.steps = 0

    def __call__(self, node: ast.Expr) -> Any:
        self.steps = 0
        with deep_recursion():
            try:
                return self.expr(node)
            except MemoryError:
                raise TileError("limit", node.loc, "there is not enough memory for this") from None

    # ---- operators ----

    def joins(self, value: Any) -> bool:
        return is_array(value)

    def _name(self, node: ast.Name) -> Any:
        value = super()._name(node)
        return on_arrays.plain(value) if type(value).__module__ == "numpy" else value

    def prefixed(self, op: str, value: Any, loc: Loc) -> Any:
        return on_arrays.prefix(self, op, value, loc)

    def joined(self, op: str, left: Any, right: Any, loc: Loc) -> Any:
        return on_arrays.infix(self, op, left, right, loc)

    def both(self, op: str, left: Any, right: Any, node: ast.Binary) -> Any:
        right = bool(right) if isinstance(right, NUMBERS) else right
        return on_arrays.logic(self, op, left, right, node.loc)

    def conjoined(self, left: Any, right: Any, loc: Loc) -> Any:
        return on_arrays.logic(self, "and", left, right, loc)

    def expectation(self, node: ast.Expr) -> Any:
        """Evaluates the condition of an `expect`. Arrays in its comparisons must have the same shape. In other
        conditions, arrays may broadcast."""
        # Broadcasting would compare a result of shape [n, 1] with [n] as n × n elements.
        if isinstance(node, ast.Compare):
            values = [self.expr(o) for o in node.operands]
            self.same_shapes(node.operands, values)
            return self.compared(node, values)
        if isinstance(node, ast.Binary) and node.op in ("and", "or"):
            return self.logic(node, self.expectation)
        if isinstance(node, ast.Binary) and node.op in ("&", "|"):
            return self.infix(node.op, self.expectation(node.left), self.expectation(node.right), node.loc)
        return self.expr(node)

    def same_shapes(self, operands: list[ast.Expr], values: list[Any]) -> None:
        """Raises an error for arrays of different shapes. A number may be compared with any array."""
        arrays = [(v.shape, o) for v, o in zip(values, operands, strict=True) if is_array(v) and v.shape]
        for (left, _), (right, each) in pairwise(arrays):
            if left != right:
                hint = "'expect' broadcasts nothing; write broadcast(x, [EXTENT, …])"
                self.error("shape", each.loc, f"shapes {list(left)} and {list(right)} are not equal", hint)

    def _index(self, node: ast.Index) -> Any:
        value = self.expr(node.value)
        if isinstance(value, DType):
            return Shaped(value, tuple(self.extent(node, each) for each in node.subscripts))
        if isinstance(value, tuple | list):
            sub = node.subscripts[0]
            at = None if isinstance(sub, ast.Slice) or len(node.subscripts) > 1 else self.integer(sub, "an index")
            if at is None or not -len(value) <= at < len(value):
                self.error("shape", node.loc, f"{self.describe(value)} has no such element")
            return value[at]
        if not is_array(value):
            self.error("type", node.value.loc, f"{self.describe(value)} cannot be indexed")
        return on_arrays.subscript(self, node, value)

    def extent(self, node: ast.Index, sub: ast.Expr | ast.Slice) -> int:
        if isinstance(sub, ast.Slice):
            self.error("shape", node.loc, "an extent, not a slice")
        extent = self.integer(sub, "an extent")
        if extent < 0:
            self.error("shape", sub.loc, f"an extent of {extent}")
        return extent

    # ---- statements of a def ----

    def statements(self, body: list[ast.Statement]) -> None:
        for statement in body:
            self.steps += 1
            if self.steps > MAX_STEPS:
                message = f"more than {MAX_STEPS} statements on the host"
                self.error("limit", statement.loc, message, "use operations on whole arrays")
            self._STATEMENTS[type(statement)](self, statement)

    def _assign(self, node: ast.Assign) -> None:
        value = self.expr(node.value)
        if node.op is not None:
            value = self.infix(node.op, self.operand(node.targets[0], node.op), value, node.value.loc)
        self.bind(node.targets, value, node.loc)

    def bind(self, targets: list[ast.Expr], value: Any, loc: Loc) -> None:
        """Binds the names of an assignment in the innermost scope. An assignment to elements of an array is an
        error."""
        if len(targets) > 1:
            for target, part in zip(targets, self.parts(value, len(targets), loc), strict=True):
                self.bind([target], part, loc)
        elif isinstance(targets[0], ast.Sequence):
            self.bind(targets[0].items, value, loc)
        elif isinstance(targets[0], ast.Name):
            self.scope.names[targets[0].id] = value
        else:
            message = "on the host a value is bound to a name, not to a part of an array"
            self.error("type", targets[0].loc, message, "where(…) gives a changed copy")

    def _expr_statement(self, node: ast.ExprStatement) -> None:
        chosen = self.chosen
        value = self.expr(node.value)
        if chosen == self.chosen:
            self.check_used(node, value)

    def _return(self, node: ast.Return) -> None:
        raise Returned(self.expr(node.value))

    def _assert(self, node: ast.Assert) -> None:
        self.chosen += 1
        if not self.truth(node.condition, "the condition of 'assert'"):
            self.error("constant", node.condition.loc, node.message or "the assertion is false")

    def truth(self, node: ast.Expr, what: str) -> bool:
        """Evaluates a condition to True or False. Raises an error unless its value is a single number or boolean."""
        value = self.expr(node)
        if not isinstance(value, bool | int | float):
            hint = "where(…) chooses by element; all(…) or any(…) give one" if is_array(value) else None
            self.error("type", node.loc, f"{what} is one truth value; this is {self.describe(value)}", hint)
        return bool(value)

    def _if(self, node: ast.If) -> None:
        self.chosen += 1
        self.statements(node.then if self.truth(node.condition, "the condition of 'if'") else node.otherwise)

    def _for(self, node: ast.For) -> None:
        self.chosen += 1
        iterable = self.range_of(node)
        ends = [self.integer(a, "a bound of a range") for a in iterable.args]
        if len(ends) == 3 and ends[2] == 0:
            self.error("constant", iterable.args[2].loc, "the step of a range is 0")
        for i in range(*ends):
            self.steps += 1  # Each iteration counts as a step in addition to the statements of its body.
            self.scope.names[node.name] = i
            self.statements(node.body)

    def _while(self, node: ast.While) -> None:
        self.chosen += 1
        while self.truth(node.condition, "the condition of 'while'"):
            self.statements(node.body)

    def _def(self, node: ast.Def) -> None:
        self.scope.names[node.name] = Closure(node, self.scope)

    def _kernel_only(self, node: ast.Grid | ast.Shared) -> None:
        word = "grid" if isinstance(node, ast.Grid) else "shared"
        self.error("call", node.loc, f"'{word}' stands only in kernels")

    _STATEMENTS: ClassVar[dict[type, Callable[..., None]]] = {
        ast.Assign: _assign,
        ast.ExprStatement: _expr_statement,
        ast.Return: _return,
        ast.Assert: _assert,
        ast.If: _if,
        ast.For: _for,
        ast.While: _while,
        ast.Def: _def,
        ast.Grid: _kernel_only,
        ast.Shared: _kernel_only,
    }


def is_array(value: Any) -> bool:
    """Whether `value` is a numpy array. The check does not import numpy."""
    return hasattr(value, "__array_interface__") and type(value).__module__.startswith("numpy")
