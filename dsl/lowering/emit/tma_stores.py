"""Emits TMA stores from shared memory. One thread issues each store."""

from __future__ import annotations

from functools import reduce
from math import prod
from operator import or_

from dsl.lowering.emit.mbarriers import narrow
from dsl.lowering.emit.rules import rule
from dsl.lowering.emit.shared_address import shared_base
from dsl.lowering.emit.words import layout_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.hopper.boxes import CopiedBox, map_of, shape_of
from dsl.lowering.ir.function import Op
from dsl.lowering.ir.targets import WARP
from dsl.lowering.layouts.layout import row_major
from dsl.lowering.ops import operand, required
from dsl.lowering.ops.memory import tma_store_row

LANES = WARP.bit_length() - 1


@rule("tma_store")
def _tma_store(w: Writer, op: Op) -> None:
    """Emits the stores of a tile, one for each swizzle atom. Either one lane of each warp stores the warp's part, or
    one thread stores the whole tile."""
    memory, place, mask = op.operands[0], required(op, "place"), operand(op, "mask")
    map, box, size, layout = map_of(op), CopiedBox.of(op), memory.dtype.bytes, layout_of(place)
    shape, run, is_of_warps = shape_of(box), place.tile.shape[-1], op.attrs["by"] == "warp"
    inside = reduce(or_, (*layout.lane, *layout.register), 0)
    firsts = [basis & ~inside for basis in layout.warp] if is_of_warps else []

    def moved(weights: tuple[int, ...]) -> str:
        """Returns the amount that the warp index adds: Σ weight · coordinate over the coordinates of the warp's first
        element."""
        return w.head.linear((0,) * LANES + tuple(_weighed(first, shape, run, weights) for first in firsts))

    others = w.head.thread() if not is_of_warps else w.head.once(f"and i32 {w.head.thread()}, {WARP - 1}")
    # one thread issues the store, which covers the whole box
    alone = w.head.once(f"icmp eq i32 {others}, 0")
    if mask is not None:
        alone = w.let(f"and i1 {w.registers[mask][0]}, {alone}")
    rows, begins = prod(shape[:-1]), w.maps.affines.of(place)
    assert begins is not None
    pitches = (*(run * each for each in row_major(shape[:-1])), rows)
    source = w.let(f"add i32 {shared_base(w, memory)}, {moved(tuple(each * size for each in pitches))}")
    corner = []
    for axis in box.axes:
        away = moved(tuple(int(other == axis.along) for other in range(len(shape))))
        corner.append(w.let(f"add i32 {narrow(w, axis.first)}, {away}"))
        # A box whose index needs more than 32 bits is outside of the tensor and must not be stored. For this,
        # `coordinate` has no suitable value `far`.
        if w.index != "i32":
            wide = w.let(f"sext i32 {narrow(w, axis.first)} to i64")
            same = w.let(f"icmp eq i64 {wide}, {w.registers[axis.first][0]}")
            alone = w.let(f"and i1 {same}, {alone}")
    columns = (inside % shape[-1] + 1) if is_of_warps else shape[-1]
    there = w.head.once(f"ptrtoint ptr %{map.name} to i64")
    name = "@" + tma_store_row(op, len(box.axes))
    for atom in range(columns // run):
        within = (begins.constant + atom * rows * run) * size
        column = w.let(f"add i32 {corner[0]}, {atom * run}")
        w.template(name, [there, column, *corner[1:], w.let(f"add i32 {source}, {within}"), alone], op)


def _weighed(element: int, shape: tuple[int, ...], run: int, weights: tuple[int, ...]) -> int:
    """Returns Σ weight · coordinate over the coordinates of an element, whose row-major number is `element`."""
    at = [element // pitch % extent for pitch, extent in zip(row_major(shape), shape, strict=True)]
    return sum(coordinate * weight for coordinate, weight in zip(at, weights, strict=True))
