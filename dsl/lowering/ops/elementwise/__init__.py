"""Declares elementwise operations: register i of the result depends only on register i of the operands. Each file of
this package declares some of them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from dsl.lowering.ops.elementwise.declare import CLASSES, FUNCTIONS, Element, LanguageFunction, suffix

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["CLASSES", "FUNCTIONS", "Element", "LanguageFunction", "suffix"]
