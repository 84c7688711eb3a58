"""Implements `st.async`, `red.async`, and within a cluster `cp.async.bulk` and `cp.reduce.async.bulk` (PTX ISA
9.7.9.12, 9.7.9.25.4 and 9.7.13.7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code import DTYPES, Code, Op, Site, Values
from ..deliveries import Deliveries
from ..findings import Kind
from ..memory import RANK_SHIFT
from ..reader import PtxInstruction
from ..reductions import reduction_of
from ..spaces import BadLanes, SharedSpace, check_alignment, refuse
from ..tensor_maps import UNIT
from .memory_access import VECTORS, vector_items
from .registry import instruction
from .tensor_copy import shared_addresses


def fault(g: Any, site: Site, bad: Any, kind: Kind, message: str) -> None:
    """Reports the first lane of the mask `bad` and raises BadLanes, so that no lane of the mask runs the
    instruction."""
    if bad.any():
        refuse(kind, message, g, bad, site)


def blocks_away(addresses: Any, g: Any, memory: SharedSpace, site: Site) -> tuple[Any, Any]:
    """Splits addresses of the cluster's shared memory into two arrays. The first contains the rank of the addressed
    block minus the rank of the lane's own block. The second contains the offset in the addressed block's shared
    memory."""
    rank = addresses >> RANK_SHIFT
    memory.check_rank(rank, g, site)
    away = np.where(rank == 0, 0, rank - 1 - g.lane("rank").astype(np.int64))
    return away, addresses & (1 << RANK_SHIFT) - 1


class ClusterOperands:
    """A destination in the cluster, and an mbarrier in the same block as the destination."""

    def __init__(self, site: Site, by_proxy: bool, is_remote: bool):
        """`is_remote` states whether the destination must be in another block."""
        self.site, self.by_proxy, self.is_remote = site, by_proxy, is_remote

    def found(self, g: Any, targets: Any, barriers: Any, size: int) -> tuple[Any, list[int]]:
        """Returns the offsets of the destinations in the wave's shared memory, and the numbers of their mbarriers. Each
        destination has `size` bytes."""
        memory, site = g.wave.spaces["shared"], self.site
        away, offsets = blocks_away(targets, g, memory, site)
        away_of_barrier, at = blocks_away(barriers, g, memory, site)
        message = (
            f"`{'.'.join(site.ins.opcode[:3])}` writes to its own block; it must write to another one of the cluster"
        )
        if self.is_remote:
            fault(g, site, away == 0, Kind.OUT_OF_BOUNDS, message)
        elif g.wave.cluster == 1:
            fault(g, site, np.ones(g.n, bool), Kind.OUT_OF_BOUNDS, "a copy within a cluster, in a cluster of one block")
        message = "the mbarrier lies in another block than what is written"
        fault(g, site, away != away_of_barrier, Kind.BARRIER_MISUSE, message)
        memory.check_bounds(offsets, size, g, site, True)
        keys = g.wave.mbarriers.awaited(g, memory, at, site, away, self.by_proxy)
        return (g.lane("slot") + away) * memory.arena + offsets, keys


@instruction("cp.async.bulk.shared::cluster.shared::cta", "cp.reduce.async.bulk.shared::cluster", effect=True)
def copy(code: Code, ins: PtxInstruction) -> Op:
    """The operands are `[dst], [src], size, [mbarrier]`."""
    site, reduction = code.site, reduction_of(ins.opcode)
    target, source, barrier = (code.address(ins.operands[at]) for at in (0, 1, 3))
    count = code.read(ins.operands[2], "u32")
    operands, deliveries = ClusterOperands(site, True, reduction is None), Deliveries(site, reduction, True)

    def run(v: Values, g: Any) -> None:
        memory = g.wave.spaces["shared"]
        targets, sources, barriers = (shared_addresses(v, g, each) for each in (target, source, barrier))
        sizes = np.broadcast_to(v[count], g.n).astype(np.int64)
        for lane in np.flatnonzero(sizes).tolist():
            part, size = g.part(np.array([lane])), int(sizes[lane])
            try:
                bad = (targets[lane] | sources[lane] | size) % UNIT != 0
                fault(
                    part,
                    site,
                    np.array([bad]),
                    Kind.MISALIGNED,
                    f"a bulk copy of {size} bytes from shared address "
                    f"{int(sources[lane]):#x} to {int(targets[lane]):#x}: one of these is no multiple of {UNIT}",
                )
                away, at = blocks_away(sources[[lane]], part, memory, site)
                fault(part, site, away != 0, Kind.OUT_OF_BOUNDS, "the source of a bulk copy lies in another block")
                memory.check_bounds(at, size, part, site, False)
                starts, keys = operands.found(part, targets[[lane]], barriers[[lane]], size)
            except BadLanes:
                continue  # reported; this copy is not made
            deliveries.start(part, starts, size, keys, source=int(part.lane("slot")[0]) * memory.arena + int(at[0]))

    return run


@instruction("st.async", "red.async", effect=True)
def store(code: Code, ins: PtxInstruction) -> Op:
    """The operands are `[a], b, [mbarrier]`, where b is the value to store."""
    site, reduction = code.site, reduction_of(ins.opcode)
    target, barrier = code.address(ins.operands[0]), code.address(ins.operands[2])
    dtype = np.dtype(DTYPES[f"u{ins.opcode[-1][1:]}"])
    sources = [code.read(item, f"b{ins.opcode[-1][1:]}") for item in vector_items(ins.operands[1])]
    size = dtype.itemsize * next((VECTORS[word] for word in ins.opcode if word in VECTORS), 1)
    operands = ClusterOperands(site, False, reduction is not None)
    deliveries = Deliveries(site, reduction, False)

    def run(v: Values, g: Any) -> None:
        try:
            targets, barriers = (shared_addresses(v, g, each) for each in (target, barrier))
            check_alignment(targets, size, g, site)
            starts, keys = operands.found(g, targets, barriers, size)
        except BadLanes:
            return  # reported; nothing is delivered
        values = np.stack([np.broadcast_to(v[each], g.n) for each in sources], 1).astype(dtype).view(np.uint8)
        deliveries.start(g, starts, size, keys, values)

    return run
