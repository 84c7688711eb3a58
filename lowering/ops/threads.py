"""What the threads of a warp or a block do together: reductions, scans, shuffles, votes, exchanges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.ir import Value
from lowering.ops.spec import Mismatch, row, same_types
from lowering.types import I1, TileType, Type


def _infer_reduce(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    axis = attrs["axis"]
    out: list[Type] = []
    for operand in operands:
        shape = operand.shape
        if shape != operands[0].shape:
            raise Mismatch("tiles of different shapes are reduced together")
        out.append(TileType((*shape[:axis], *shape[axis + 1 :]), operand.dtype))
    return out


def _infer_vote(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    if operands[0].dtype is not I1:
        raise Mismatch(f"a vote takes i1; got {operands[0].dtype}")
    return [operands[0].tile.with_dtype(attrs["dtype"])]


def _infer_partial(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    axis, parts = attrs["axis"], attrs["parts"]
    return [TileType((*o.shape[:axis], parts, *o.shape[axis + 1 :]), o.dtype) for o in operands]


row("reduce", (1, None), _infer_reduce, "axis", regions=1)
row("partial_reduce", (1, None), _infer_partial, "axis parts", regions=1)  # one part for each warp along the axis
row("scan", (1, None), same_types, "axis reverse", regions=1)
row("shuffle", (1, 2), lambda o, a: [o[0].tile], "mode axis width distance", keep=True)
row("vote", 1, _infer_vote, "mode dtype", keep=True)
row("convert_layout", 1, same_types, "layout")
