"""Loops, branches, and what ends a region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.ir import Value
from lowering.ops.spec import nothing, row
from lowering.types import Type


def _infer_for(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [o.type for o in operands[3:]]


def _infer_carried(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [o.type for o in operands]


def _infer_if(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return list(attrs["types"])


row("for", (3, None), _infer_for, "unroll", regions=1, keep=True)  # start, stop, step, carried …
row("while", (0, None), _infer_carried, regions=2, keep=True)  # condition region, body region
row("if", 1, _infer_if, "types", regions=2, keep=True)
row("yield", (0, None), nothing, keep=True)
row("condition", (1, None), nothing, keep=True)  # ends a condition region: the flag, then what the body gets
row("assert", 1, nothing, "message line", keep=True)
row("print", (0, 16), nothing, "format", keep=True)
