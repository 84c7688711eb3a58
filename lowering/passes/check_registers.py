"""Refuses tiles that no thread can hold, before the assembler would spend minutes on spilling them."""

from __future__ import annotations

from lowering.ir import Function, Op, walk
from lowering.location import TileError
from lowering.targets import MOST_REGISTERS, Target
from lowering.warpgroup import ATTRIBUTE

BESIDES = 26
"""Registers that ptxas 13.0 wants for a product of warp groups beside its sums (C7602, of 128 and of 256 columns)."""


def check_registers(function: Function, target: Target) -> None:
    """TileError `registers` for the first loaded or converted tile that is larger, or whose sums one instruction cannot
    have. Integer tiles are mostly index arithmetic, of which a thread keeps little."""
    for op in walk(function.body):
        if ATTRIBUTE in op.attrs:
            _check_product(function, target, op)
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


def _check_product(function: Function, target: Target, op: Op) -> None:
    """What `setmaxnreg` gives later is of no use to one instruction: it takes what a thread has at the start."""
    blocks, columns = max(1, function.number("blocks_per_sm")), op.result.tile.shape[1]
    given = target.registers // (function.launched * blocks) // 8 * 8
    given = min(given, function.number("maxregs") or MOST_REGISTERS, MOST_REGISTERS)
    needed = columns // 2 + BESIDES
    if needed > given:
        many = f"{blocks} blocks of {function.launched} threads have" if blocks > 1 else "a block has"
        raise TileError(
            "registers",
            op.loc,
            f"a product of {columns} columns takes {needed} registers of a thread, and {many} {given} for it",
            f"at most {max(8, (given - BESIDES) // 8 * 16)} columns, fewer warps, or fewer blocks_per_sm",
        )
