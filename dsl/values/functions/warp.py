"""Shuffles and votes between the lanes of a warp."""

from __future__ import annotations

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Value
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import I1, U32
from dsl.values.bindings import Binding
from dsl.values.building import Building
from dsl.values.functions.threads import together
from dsl.values.table import Meaning, rows

row = rows("Lanes of a warp")


def _shuffle(mode: str) -> Meaning:
    name = f"shfl.{mode}"

    def tiles(
        b: Building, loc: Loc, value: Binding, distance: Binding, axis: Binding = None, width: Binding = None
    ) -> Value:
        together(b, loc, name, warp=True)
        tile = b.as_value(value, loc)
        if not tile.tile.shape:
            b.error("shape", loc, f"{name} takes a tile: it is defined on elements along an axis")
        rank = len(tile.tile.shape)
        along = b.axis(rank - 1 if axis is None else axis, loc, rank)
        extent = tile.tile.shape[along]
        lanes = b.whole(min(extent, 32) if width is None else width, loc, "width=")
        b.check_extent(lanes, loc, "width=")
        if lanes > extent:
            b.error("shape", loc, f"width={lanes} is more than the {extent} elements of the axis")
        operands = [tile]
        if isinstance(distance, Value) and (number := constant_of(distance)) is not None:
            distance = number
        if isinstance(distance, Value):
            if distance.tile.shape or not distance.dtype.is_int:
                b.error("type", loc, f"the distance of a shuffle is an integer scalar; this is {distance.tile}")
            operands.append(distance)
            distance = None
        elif not isinstance(distance, int) or not 0 <= distance < lanes:
            b.error("shape", loc, f"a shuffle within {lanes} elements has no distance {distance}")
        b.place(loc)
        return b.ir.op("shuffle", operands, mode=mode, axis=along, width=lanes, distance=distance).result

    return tiles


for _mode in ("xor", "up", "down", "idx"):
    row(f"shfl.{_mode}(tile, distance, axis=, width=)", "the element of another lane",
        tiles=_shuffle(_mode))  # fmt: skip


def _vote(mode: str) -> Meaning:
    def tiles(b: Building, loc: Loc, flags: Binding) -> Value:
        together(b, loc, f"vote.{mode}", warp=True)
        tile = b.as_value(flags, loc)
        if not tile.tile.shape:
            message = f"vote.{mode} takes a tile, an element of each lane; a scalar is the same in all lanes"
            b.error("type", loc, message, "use the flag as it is")
        b.place(loc)
        return b.ir.op("vote", [tile], mode=mode, dtype=U32 if mode == "ballot" else I1).result

    return tiles


for _mode in ("any", "all", "ballot"):
    row(f"vote.{_mode}(tile)", "a vote of the warp's lanes", "i1", tiles=_vote(_mode))
