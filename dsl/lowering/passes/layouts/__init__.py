"""Gives every tile a layout, and makes each remaining layout conversion an explicit `convert_layout`.

1. Anchors are the values from which layouts propagate. They get layouts in this order: values that the schedule pins,
   operands and accumulators of MMAs, loads and stores (wide, coalesced accesses), all other values (`anchors.py`).
2. Layouts propagate from anchors through operations that determine one operand's layout from another's (`spread.py`).
   The rules for this propagation are in the operation's row in `dsl/lowering/ops/`.
3. The function is rebuilt with layouts (`rebuild.py`). A value that is needed in another layout is converted. A pure
   chain of index arithmetic (arange, constants, scalars) is recomputed in that layout instead.
"""

from __future__ import annotations

from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.passes.layouts.anchors import choose_layouts
from dsl.lowering.passes.layouts.rebuild import Rebuilding


def assign_layouts(function: Function, target: Target) -> None:
    """Gives every tile value a layout; see the docstring of the package. Raises TileError `ir` for a function in which
    the pass has already replaced products by wgmma."""
    for op in walk(function.body):
        if op.spec.wgmma:
            raise TileError("ir", op.loc, "assign_layouts has already made this product a wgmma", "--after simplify")
    Rebuilding(choose_layouts(function, target)).block(function.body)
