"""Evaluates expressions before a run. At this time, only numbers and the types and shapes of arrays are known. This
module does not import numpy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dsl.values.functions  # noqa: F401 (the rows)
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import DType
from dsl.text import tree as ast
from dsl.values.facts import UNKNOWN, ArrayFacts, widened
from dsl.values.host import Shaped
from dsl.values.scope import Closure, Scope, scope_of
from dsl.values.table import Builtin
from dsl.values.walk import Walk, are_numbers


class Shapes(Walk):
    """Evaluates numbers exactly, and arrays as ArrayFacts. The value of any other expression is UNKNOWN, but its names
    are still checked."""

    domain = "shapes"
    home = "arrays"
    runs_library = True

    def __init__(self, names: Mapping[str, Any], functions: Mapping[str, ast.Def]):
        super().__init__(Scope(scope_of(functions), names))  # type: ignore[arg-type]

    def joins(self, value: Any) -> bool:
        return True

    def prefixed(self, op: str, value: Any, loc: Loc) -> Any:
        return widened(value) if op == "-" else UNKNOWN

    def joined(self, op: str, left: Any, right: Any, loc: Loc) -> Any:
        return widened(left, right) if op in ("+", "-", "*", "/") else UNKNOWN

    def both(self, op: str, left: Any, right: Any, node: ast.Binary) -> Any:
        return UNKNOWN

    def conjoined(self, left: Any, right: Any, loc: Loc) -> Any:
        return UNKNOWN

    def member(self, node: ast.Attribute, value: Any) -> Any:
        if node.name == "T":
            return value.turned if isinstance(value, ArrayFacts) else UNKNOWN
        return super().member(node, value)

    def describe(self, value: Any) -> str:
        if isinstance(value, Shaped):
            return f"the type {value}"
        return f"an array of {value.dtype}" if isinstance(value, ArrayFacts) else super().describe(value)

    def _index(self, node: ast.Index) -> Any:
        value = self.expr(node.value)
        parts = [part for part in node.subscripts if not isinstance(part, ast.Slice)]
        ends = [end for part in node.subscripts if isinstance(part, ast.Slice) for end in (part.start, part.stop)]
        extents: list[Any] = [UNKNOWN if ast.is_none(p) else self.expr(p) for p in parts]
        for end in ends:
            if end is not None:
                self.expr(end)
        if not isinstance(value, DType) or ends or not all(type(extent) is int for extent in extents):
            return UNKNOWN
        for part, extent in zip(parts, extents, strict=True):
            if extent < 0:
                self.error("shape", part.loc, f"an extent of {extent}")
        return Shaped(value, tuple(int(extent) for extent in extents))

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Any:
        # A function whose arguments are all numbers is computed before a run, since extents of arrays may depend on it.
        if function.numbers is not None and values and not keywords and are_numbers(values):
            return super().of(function, values, keywords, loc)
        self.check(function, function.form, len(values) - function.is_method, keywords, loc)
        meaning = function.meaning("shapes")
        if meaning is None or any(value is UNKNOWN for value in values):
            return UNKNOWN
        return meaning(self, loc, *values, **keywords)

    def inlined(self, closure: Closure, values: list[Any], keywords: dict[str, Any], loc: Loc) -> Any:
        return UNKNOWN
