"""Converts expressions that a launch evaluates to the header's JSON trees (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import dsl.values.functions  # noqa: F401 (the rows)
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.types import DTYPES, DType
from dsl.text import tree as ast
from dsl.values.scope import Closure, Scope
from dsl.values.table import Builtin, find
from dsl.values.walk import MISSING, NUMBERS, WORDS, Walk

KNOWN = "dims, constants, scalar parameters and 'sms' are known to a launch"


def to_tree(node: ast.Expr, names: Mapping[str, Any], types: Mapping[str, DType]) -> Any:
    """Converts an expression to a JSON tree. `names` contains the names that the launch knows. A name whose value is
    None stays a name in the tree, and any other name is replaced by its value. The entry `given(x)` tells whether the
    caller passes the optional tensor x."""
    tree = Trees(names, types).operand(node, "a launch")
    if (limit := beyond(tree)) is not None:
        raise TileError("limit", node.loc, f"what a launch evaluates {limit}", "a constant, or a shorter expression")
    return tree


def beyond(tree: Any) -> str | None:
    """Returns, in words, the limit on header expressions that a tree exceeds. Returns None if it exceeds none."""
    from dsl.runtime.expressions import MAX_DEPTH, MAX_NODES

    # A shared subtree counts once for each use, since it is written out each time. A chain of definitions that use the
    # previous definition twice doubles the text at each step.
    left, count = [(tree, 1)], 0
    while left:
        node, depth = left.pop()
        count += 1
        if depth > MAX_DEPTH:
            return f"is nested deeper than {MAX_DEPTH}"
        if count > MAX_NODES:
            return f"has more than {MAX_NODES} parts"
        if isinstance(node, list):
            left += [(each, depth + 1) for each in node[1:]]
    return None


class Trees(Walk):
    domain = "trees"
    NAMED = (DType,)  # A str is a name that the launch knows, so `alike` must not compare it as a word.

    def __init__(self, names: Mapping[str, Any], types: Mapping[str, DType]):
        known = {name: name if value is None else value for name, value in names.items()}
        super().__init__(Scope(Scope(None, known), dict(types)))

    def joins(self, value: Any) -> bool:
        return isinstance(value, list | str)

    def fail(self, node: ast.Expr, message: str) -> NoReturn:
        self.error("constant", node.loc, message, KNOWN)

    def _name(self, node: ast.Name) -> Any:
        found = self.scope.find(node.id, MISSING)
        if found is not MISSING:
            return found
        if node.id in DTYPES or isinstance(WORDS.get(node.id), bool):
            return DTYPES.get(node.id, WORDS.get(node.id))
        self.error("name", node.loc, f"unknown name '{node.id}'", closest(node.id, self.scope.all_names()) or KNOWN)

    def _unary(self, node: ast.Unary) -> Any:
        inner = self.operand(node.value, node.op)
        return ["not", inner] if node.op == "not" else ["-", 0, inner] if node.op == "-" else ["^", -1, inner]

    def _binary(self, node: ast.Binary) -> Any:
        if node.op in ("**", "@"):
            self.fail(node, f"'{node.op}' is not known to a launch")
        return [node.op, self.operand(node.left, node.op), self.operand(node.right, node.op)]

    def _compare(self, node: ast.Compare) -> Any:
        sides = [self.expr(each) for each in node.operands]
        parts = []
        for op, a, b in zip(node.ops, sides, sides[1:], strict=False):
            same = self.alike(op, a, b, node.loc)
            parts.append([op, a, b] if same is None else same)
        out = parts[0]
        for each in parts[1:]:
            out = ["and", out, each]
        return out

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Any:
        self.check(function, function.form_of_numbers, len(values), keywords, loc)
        if function.trees is not None:
            for value in values:
                if not isinstance(value, NUMBERS) and not self.joins(value):
                    self.error("type", loc, f"{function.name} takes numbers; this is {self.describe(value)}")
            return function.trees(*values)
        return self.meaning(function, loc)(self, loc, *values)

    def function_of(self, name: str, loc: Loc) -> Builtin:
        found = find(name)
        if found is None or not found.stands_in("trees"):
            self.error("constant", loc, f"a launch cannot evaluate '{name}'", KNOWN)
        return found

    def call_def(self, closure: Closure, node: ast.Call) -> NoReturn:
        self.fail(node, "a launch cannot evaluate this")

    def _other(self, node: ast.Expr) -> NoReturn:
        self.fail(node, "a launch cannot evaluate this")
