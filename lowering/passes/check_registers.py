"""Refuses tiles that no thread can hold, before the assembler would spend minutes on spilling them."""

from __future__ import annotations

from lowering.ir import Function, walk
from lowering.location import TileError
from lowering.targets import MOST_REGISTERS


def check_registers(function: Function) -> None:
    """TileError `registers` for the first loaded or converted tile that is larger. Integer tiles are mostly index
    arithmetic, of which a thread keeps little."""
    for op in walk(function.body):
        if op.attrs.get("in_place"):
            continue  # no thread holds it
        for result in op.results:
            layout = getattr(result.type, "layout", None)
            if layout is None or not result.dtype.is_float:
                continue
            needed = layout.count * result.dtype.bits // 32
            if needed > MOST_REGISTERS:
                raise TileError(
                    "registers",
                    op.loc,
                    f"this tile takes {needed} registers of a thread; there are {MOST_REGISTERS}",
                    "more warps, or a smaller tile",
                )
