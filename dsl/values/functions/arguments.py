"""Arguments of calls, checked: how many, which names, constants and words."""

from __future__ import annotations

from dsl.values.bindings import Binding
from dsl.values.building import Building
from lowering.fold import constant_of
from lowering.ir import Value
from lowering.location import Loc


def number_argument(b: Building, loc: Loc, value: Binding, what: str) -> int:
    if isinstance(value, Value):
        constant = constant_of(value)
        value = constant if constant is not None else value
    if isinstance(value, bool) or not isinstance(value, int):
        b.error("constant", loc, f"{what} is an integer constant")
    return value


def axis_argument(b: Building, loc: Loc, value: Binding, rank: int) -> int:
    axis = number_argument(b, loc, value, "axis=")
    if not -rank <= axis < rank:
        b.error("shape", loc, f"a tile of rank {rank} has no axis {axis}")
    return axis % rank


def flag_argument(b: Building, loc: Loc, value: Binding, name: str) -> bool:
    if not isinstance(value, bool):
        b.error("constant", loc, f"{name}= is true or false")
    return value


def together(b: Building, loc: Loc, name: str, warp: bool = False) -> None:
    """What threads do together (the block, or with `warp` a warp) cannot stand where each takes a way of its own."""
    if b.in_divided_warp if warp else b.in_tile_if:
        hint = "do it before the branch, or choose with where()"
        if name.startswith("atomic_"):
            hint = "an index that is a tile of the branch makes it one of each thread: count[0 * i]"
        if warp:
            hint = "a branch of whole warps may hold it: runs of 32 neighbours take it together, as in t < 32"
        b.error("type", loc, f"{name} inside a tile 'if': threads that do not take the branch never arrive", hint)
