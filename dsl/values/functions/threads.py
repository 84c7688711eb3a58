"""Checks for operations that all threads of a block or warp must execute together."""

from __future__ import annotations

from dsl.lowering.ir.location import Loc
from dsl.values.building import Building


def together(b: Building, loc: Loc, name: str, warp: bool = False) -> None:
    """Raises an error for a collective operation in a branch that some threads may not take. The operation needs all
    threads of the block, or with `warp` all threads of a warp."""
    if b.in_divided_warp if warp else b.in_tile_if:
        hint = "do it before the branch, or choose with where()"
        if name.startswith("atomic_"):
            hint = "index it by a tile of the branch, so that each thread does one: count[0 * i]"
        if warp:
            hint = "a branch of whole warps may hold it: runs of 32 neighbours take it together, as in t < 32"
        b.error("type", loc, f"{name} inside a tile 'if': threads that do not take the branch never arrive", hint)
