"""Implements `cp.async.bulk` and `cp.reduce.async.bulk` between global and shared memory. The emulator runs each copy
as a tensor copy of one row, with a map that it creates from the operands. So all checks of tensor copies apply to bulk
copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code import Code, Op, Values
from ..findings import Kind
from ..memory import RANK_SHIFT
from ..reader import Operand, PtxInstruction
from ..reductions import reduction_of
from ..spaces import BadLanes, refuse
from ..tensor_copies import box_at
from ..tensor_maps import UNIT, DecodedMap, PlacedMap
from .registry import instruction
from .tensor_copy import receivers, shared_addresses


class BulkOperands:
    """A range of global memory and a range of shared memory for each lane. The two ranges have the same size."""

    def __init__(self, code: Code, outside: Operand, shared: Operand, size: Operand):
        self.outside, self.shared, self.size = code.address(outside), code.address(shared), code.read(size, "u32")
        self.site = code.site

    def ranges(self, v: Values, g: Any, write: bool) -> list[tuple[int, PlacedMap, Any, Any]]:
        """Returns a tuple (lane, map, group, offset) for each lane whose size is above 0. The map describes the lane's
        range of global memory. The group contains only this lane. The offset is in the wave's shared memory.

        `write` is true if the copy writes shared memory.
        """
        base, offset = self.outside
        outside = np.broadcast_to(v[base], g.n).astype(np.int64) + offset
        inside = shared_addresses(v, g, self.shared)
        sizes = np.broadcast_to(v[self.size], g.n).astype(np.int64)
        found = []
        for lane in np.flatnonzero(sizes).tolist():
            address, at, size = int(outside[lane]), int(inside[lane]), int(sizes[lane])
            if (address | at | size) % UNIT:
                message = f"a bulk copy of {size} bytes at {address:#x} and shared address {at:#x}: one of these is no "
                g.launch.report(Kind.MISALIGNED, message + f"multiple of {UNIT}", g, lane, self.site)
                continue
            part = g.part(np.array([lane]))
            # The map has a single axis of bytes. Its TMA box is the whole range.
            placed = PlacedMap(DecodedMap(1, (size,), (), (size,), 0, None), address)
            try:
                found.append((lane, placed, part, self.start(at, part, size, write)))
            except BadLanes:
                continue  # reported; this copy is not made
        return found

    def start(self, address: int, part: Any, size: int, write: bool) -> Any:
        memory = part.wave.spaces["shared"]
        rank, own = address >> RANK_SHIFT, int(part.lane("rank")[0]) + 1
        if rank not in (0, own):
            message = "a bulk copy to another block of the cluster, which the emulator does not know"
            refuse(Kind.OUT_OF_BOUNDS, message, part, np.ones(1, bool), self.site)
        at = np.array([address & (1 << RANK_SHIFT) - 1])
        memory.check_bounds(at, size, part, self.site, write)
        return part.lane("slot") * memory.arena + at


@instruction("cp.async.bulk.shared::cluster", "cp.async.bulk.shared::cta", effect=True)
def load(code: Code, ins: PtxInstruction) -> Op:
    """The operands are `[dst], [src], size, [mbarrier]{, mask of blocks}`."""
    operands = BulkOperands(code, ins.operands[1], ins.operands[0], ins.operands[2])
    barrier, site = code.address(ins.operands[3]), code.site
    mask = code.read(ins.operands[4], "u16") if "multicast::cluster" in ins.opcode else None

    def run(v: Values, g: Any) -> None:
        barriers = shared_addresses(v, g, barrier)
        memory = g.wave.spaces["shared"]
        for lane, placed, part, start in operands.ranges(v, g, True):
            boxes, away, at = [box_at(placed, [0])], np.zeros(1, np.int64), barriers[[lane]]
            try:
                if mask is not None:
                    which, ranks = receivers(np.broadcast_to(v[mask], g.n)[[lane]], part, site)
                    away = ranks - int(part.lane("rank")[0])
                    part, boxes, at = part.part(which), boxes * len(which), at[which]
                    start = start[which] + away * memory.arena
                keys = g.wave.mbarriers.awaited(part, memory, at, site, away)
            except BadLanes:
                continue  # reported; this copy is not made
            if len(keys):
                g.wave.loads.start(part, site, boxes, start, keys)

    return run


@instruction("cp.async.bulk.global", "cp.reduce.async.bulk.global", effect=True)
def store(code: Code, ins: PtxInstruction) -> Op:
    """The operands are `[dst], [src], size`."""
    operands, site = BulkOperands(code, ins.operands[0], ins.operands[1], ins.operands[2]), code.site
    reduction = reduction_of(ins.opcode)

    def run(v: Values, g: Any) -> None:
        for _, placed, part, start in operands.ranges(v, g, False):
            g.wave.stores.store(part, site, [box_at(placed, [0])], start, reduction)

    return run
