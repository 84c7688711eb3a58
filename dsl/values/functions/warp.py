"""Shuffles and votes between the lanes of a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.values.functions.arguments import axis_argument, number_argument, signature, together
from dsl.values.functions.registry import BUILTINS, Handler
from lowering.fold import constant_of
from lowering.ir import Value
from lowering.location import Loc
from lowering.types import I1, U32

if TYPE_CHECKING:
    from dsl.values.expressions import Expressions


def _shuffle(mode: str) -> Handler:
    def handler(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
        name = f"shfl.{mode}"
        signature(b, loc, name, args, keywords, 2, 2, "axis width")
        together(b, loc, name, warp=True)
        tile = b.as_value(args[0], loc)
        if not tile.tile.shape:
            b.error("shape", loc, f"{name} takes a tile: it is defined on elements along an axis")
        axis = axis_argument(b, loc, keywords.get("axis", len(tile.tile.shape) - 1), len(tile.tile.shape))
        extent = tile.tile.shape[axis]
        width = number_argument(b, loc, keywords.get("width", min(extent, 32)), "width=")
        b.check_extent(width, loc, "width=")
        if width > extent:
            b.error("shape", loc, f"width={width} is more than the {extent} elements of the axis")
        distance = args[1]
        operands = [tile]
        if isinstance(distance, Value) and (number := constant_of(distance)) is not None:
            distance = number
        if isinstance(distance, Value):
            if distance.tile.shape or not distance.dtype.is_int:
                b.error("type", loc, f"the distance of a shuffle is an integer scalar; this is {distance.tile}")
            operands.append(distance)
            distance = None
        elif not isinstance(distance, int) or not 0 <= distance < width:
            b.error("shape", loc, f"a shuffle within {width} elements has no distance {distance}")
        b.place(loc)
        return b.ir.op("shuffle", operands, mode=mode, axis=axis, width=width, distance=distance).result

    return handler


for _mode in ("xor", "up", "down", "idx"):
    BUILTINS[f"shfl.{_mode}"] = _shuffle(_mode)


def _vote(mode: str) -> Handler:
    def handler(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, f"vote.{mode}", args, keywords, 1, 1)
        together(b, loc, f"vote.{mode}", warp=True)
        tile = b.as_value(args[0], loc)
        if not tile.tile.shape:
            message = f"vote.{mode} asks each lane for its element of a tile; a scalar is the same in all lanes"
            b.error("type", loc, message, "use the flag as it is")
        b.place(loc)
        return b.ir.op("vote", [tile], mode=mode, dtype=U32 if mode == "ballot" else I1).result

    return handler


for _mode in ("any", "all", "ballot"):
    BUILTINS[f"vote.{_mode}"] = _vote(_mode)
