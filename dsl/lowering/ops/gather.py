"""Declares `gather`, and finds the layouts in which the lanes of a warp gather by shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from msgspec import Struct

from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import TileType, Type
from dsl.lowering.layouts.layout import Layout, bits_of, moved_index, row_major
from dsl.lowering.ops.placing import Placed, Placing
from dsl.lowering.ops.shapes import axis_of
from dsl.lowering.ops.spec import Mismatch, Placement, row


class GatherPlaces(Struct, frozen=True):
    """Where the bits of an index along the gathered axis lie: `lanes` and `registers` contain pairs (bit of the index,
    bit of the lane or register number)."""

    lanes: tuple[tuple[int, int], ...]
    registers: tuple[tuple[int, int], ...]


@lru_cache(maxsize=256)
def gather_places(source: Layout, made: Layout, axis: int) -> GatherPlaces | None:
    """Returns where an index along `axis` lies in the layout `source` of the gathered tile. Returns None if threads
    with the layout `made` of the result need elements of other warps, or if an index is no part of lane and register
    numbers."""
    if not (source.is_pure(axis) and made.is_pure(axis) and source.has_plain_copies):
        return None
    rest, wanted = source.drop(axis), made.drop(axis)
    if rest.thread != wanted.thread or {*rest.register} != {*wanted.register}:
        return None
    lanes, registers, stride = [], [], row_major(source.shape)[axis]
    for bit in range(bits_of(source.shape[axis])):
        if stride << bit in source.lane:
            lanes.append((bit, source.lane.index(stride << bit)))
        elif stride << bit in source.register:
            registers.append((bit, source.register.index(stride << bit)))
        else:
            return None
    return GatherPlaces(tuple(lanes), tuple(registers))


def gathering(layout: Layout, shape: tuple[int, ...], axis: int) -> Layout:
    """Returns a layout of `shape`, which differs from the shape of `layout` along `axis` alone. Lanes can gather by
    shuffles from a tile in it, if the result has `layout`: other axes lie in the same threads and registers, and the
    axis lies in the lanes in which it lay, and in registers."""
    mask = layout.axis_mask(axis)
    along = [row_major(shape)[axis] << bit for bit in range(bits_of(shape[axis]))]
    if shape == layout.shape and not any(basis & mask for basis in layout.warp):
        return layout

    def kept(basis: int) -> int:
        return moved_index(basis & ~mask, layout.shape, shape)

    lane = [along.pop(0) if basis & mask and along else kept(basis) for basis in layout.lane]
    register = [*along, *(kept(basis) for basis in layout.register if not basis & mask)]
    return Layout.registers(shape, register, lane, map(kept, layout.warp))


def _infer(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    (x, index), axis = (o.tile for o in operands), axis_of(operands[0], attrs)
    if not index.dtype.is_int:
        raise Mismatch(f"the indices are {index.dtype}, not integers")
    rests = [(*tile.shape[:axis], *tile.shape[axis + 1 :]) for tile in (x, index)]
    if len(index.shape) != len(x.shape) or rests[0] != rests[1]:
        hint = "give both these extents: reshape, and x + zeros(T[M, N]) broadcasts"
        raise Mismatch(f"{x} and {index} differ along other axes than {axis}", hint)
    return [TileType(index.shape, x.dtype)]


def _spread(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    (x, index), axis = op.operands, op.attrs["axis"]
    together = [(index, layout), (op.result, layout)]
    if value is x:  # its threads may have too few elements of a larger result
        is_whole = layout.is_pure(axis) and not any(basis & layout.axis_mask(axis) for basis in layout.warp)
        return together if x.tile.shape == index.tile.shape and is_whole else []
    if layout.is_pure(axis):
        source = gathering(layout, x.tile.shape, axis)
        if source.count <= layout.count:
            together.append((x, source))
    return together


def _place(a: Placing, op: Op) -> Placed:
    (x, index), axis = op.operands, op.attrs["axis"]
    made = a.chosen(op.result) or a.chosen(index) or Layout.default(index.tile.shape, a.warps)
    source = a.chosen(x)
    if source is None:
        source = gathering(made, x.tile.shape, axis) if made.is_pure(axis) else Layout.default(x.tile.shape, a.warps)
    return [source, made], [made]


# Element i of the result is the element of the tile whose index along the axis is the index in i, modulo the extent.
row(
    "gather", 2, _infer, "axis", becomes="shfl.sync.idx.b32", acts="meets",
    placement=Placement(_spread, place=_place, exchange=lambda a, op: a.gather(op)),
)  # fmt: skip
