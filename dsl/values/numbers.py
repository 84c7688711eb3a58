"""Evaluates expressions of numbers and types, which are in schedules, defaults, literal dims and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dsl.values.functions  # noqa: F401 (the rows)
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import DTYPES, DType
from dsl.text import tree as ast
from dsl.text.tree import names_in
from dsl.values.scope import Scope
from dsl.values.table import Builtin
from dsl.values.walk import WORDS, Walk


class Numbers(Walk):
    """Evaluates expressions of numbers with the bindings in `names`."""

    domain = "numbers"

    def __init__(self, names: Mapping[str, Any]):
        super().__init__(Scope(None, names))  # type: ignore[arg-type]

    def of(
        self, function: Builtin, values: list[Any], keywords: dict[str, Any], loc: Loc, node: ast.Call | None = None
    ) -> Any:
        # The default of a type parameter may depend on another one: `O in f16|s32 = where(T == s8, s32, T)`.
        if function.name == "where" and len(values) == 3 and isinstance(values[0], bool):
            return values[1] if values[0] else values[2]
        return super().of(function, values, keywords, loc, node)


def default_type(default: ast.Expr | None, known: Mapping[str, DType], choices: Sequence[str]) -> str | None:
    """Returns the name of the type that a type parameter has by its default. `known` holds the types of other type
    parameters. Returns None if there is no default, if the default reads a type that is not known, and if its value is
    none of `choices`. Raises TileError `type` if its value is no type."""
    if default is None or not names_in(default) <= {*known, *DTYPES, *WORDS}:
        return None
    found = Numbers(known)(default)
    if not isinstance(found, DType):
        raise TileError("type", default.loc, "the default of a type parameter is a type", "O in f16|f32 = T")
    return found.name if found.name in choices else None
