"""Assigns a layout to every tile. If a tile is needed in another layout, inserts a `convert_layout` operation.

1. Anchors are the values from which layouts propagate. They get layouts in this order: values that the schedule pins,
   operands and accumulators of MMAs, loads and stores (wide, coalesced accesses), all other values (`anchors.py`).
2. Layouts propagate from anchors to all values whose layouts they determine, for example through an addition
    (`spread.py`). Each operation's entry in `dsl/lowering/ops/` contains its rule for this.
3. The function is rebuilt with layouts (`rebuild.py`). A value that is needed in another layout is converted. Pure
    index arithmetic (`arange`, constants, scalars) is instead recomputed in that layout.
"""

from __future__ import annotations

from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.passes.layouts.anchors import choose_layouts
from dsl.lowering.passes.layouts.rebuild import Rebuilding


def assign_layouts(function: Function, target: Target) -> None:
    """Assigns a layout to every tile (see the docstring of the package). Raises TileError `ir` if the pass has already
    replaced a product of the function with wgmma."""
    for op in walk(function.body):
        if op.spec.wgmma:
            raise TileError("ir", op.loc, "assign_layouts has already made this product a wgmma", "--after simplify")
    Rebuilding(choose_layouts(function, target)).block(function.body)
