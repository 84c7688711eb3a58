"""Gives every tile a layout, and makes each remaining change of layout an explicit `convert_layout`.

1. Anchors: what the schedule pins, then what products on tensor cores require, then loads and stores (wide, coalesced
   accesses), then what is left (`anchors.py`).
2. A layout spreads from its anchor through operations that determine one operand's layout from another's
   (`spread.py`); which do, their rows say (`dsl/lowering/ops/`).
3. The function is rebuilt with layouts (`rebuild.py`). A value needed in another layout is converted; a pure chain of
   index arithmetic (arange, constants, scalars) is computed again in that layout instead.
"""

from __future__ import annotations

from dsl.lowering.ir.function import Function
from dsl.lowering.ir.targets import Target
from dsl.lowering.passes.layouts.anchors import choose_layouts
from dsl.lowering.passes.layouts.rebuild import Rebuilding


def assign_layouts(function: Function, target: Target) -> None:
    """Every tile value gets a layout; see the package's text."""
    Rebuilding(choose_layouts(function, target)).block(function.body)
