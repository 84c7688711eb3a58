"""Sources of tiles, and other shapes of the same elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.ir import Value
from lowering.ops.spec import Infer, Mismatch, row
from lowering.types import INDEX, DType, TileType, Type


def _infer_constant(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(tuple(attrs.get("shape", ())), attrs["dtype"])]


def _infer_arange(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType((attrs["extent"],), INDEX)]


def _infer_reshape(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(tuple(attrs["shape"]), operands[0].dtype)]


def _infer_broadcast(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, shape = operands[0].tile, tuple(attrs["shape"])
    if source.shape and (
        len(source.shape) != len(shape) or any(a not in (1, b) for a, b in zip(source.shape, shape, strict=True))
    ):
        raise Mismatch(f"cannot broadcast {list(source.shape)} to {list(shape)}")
    return [TileType(shape, source.dtype)]


def _infer_transpose(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [TileType(tuple(operands[0].shape[a] for a in attrs["axes"]), operands[0].dtype)]


def _infer_stack(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    first = operands[0].tile
    if any(o.tile.shape != first.shape or o.dtype is not first.dtype for o in operands):
        raise Mismatch(f"cannot stack {', '.join(str(o.tile) for o in operands)}")
    return [TileType((*first.shape, len(operands)), first.dtype)]


def _infer_pick(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, axis = operands[0].tile, attrs["axis"]
    return [TileType((*source.shape[:axis], *source.shape[axis + 1 :]), source.dtype)]


def _scalar(dtype: DType) -> Infer:
    return lambda operands, attrs: [TileType((), dtype)]


row("constant", 0, _infer_constant, "value dtype")
row("arange", 0, _infer_arange, "extent")
row("broadcast", 1, _infer_broadcast, "shape")
row("reshape", 1, _infer_reshape, "shape")
row("transpose", 1, _infer_transpose, "axes")
row("stack", (2, None), _infer_stack)
row("pick", 1, _infer_pick, "axis index")  # the part of a tile at one index of an axis
row("block_id", 0, _scalar(INDEX), "axis")
row("grid_size", 0, _scalar(INDEX), "axis")
