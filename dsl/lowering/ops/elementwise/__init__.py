"""Declares elementwise operations: register i of the result depends only on register i of the operands. Each file of
this package declares some of them."""

from __future__ import annotations

from dsl.lowering.ops.elementwise import (  # noqa: F401 (the rows)
    arithmetic,
    bits,
    comparison,
    conversion,
    division,
    floats,
    integers,
)
from dsl.lowering.ops.elementwise.declare import CLASSES, FUNCTIONS, Element, LanguageFunction, suffix

__all__ = ["CLASSES", "FUNCTIONS", "Element", "LanguageFunction", "suffix"]
