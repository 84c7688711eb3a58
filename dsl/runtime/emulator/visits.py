"""Accesses to the shared memory of other blocks of a cluster, which must have begun and must not have ended.

The blocks of a cluster start together, but a thread knows that another block runs only by a barrier of the cluster, or
by something that a thread of that block has done.

A block ends when its last thread does. So each such access must be ordered before something that one of these threads
does. Copies to other blocks do not count here: who waits for their bytes knows of them (`mbarriers.py`). But a thread
of the block that such a copy reads must know that it has arrived, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import Site
from .findings import Kind
from .landings import Landing
from .stamps import BEGUN, TIME_SHIFT, U


class Visits:
    """By thread of the wave and rank of the other block: the time and the instruction of its last access there."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.times = np.zeros((wave.lanes if wave.cluster > 1 else 0, wave.cluster), np.int64)
        self.sites: dict[tuple[int, int], Site] = {}
        self.begun = np.zeros(self.times.shape, bool)  # which blocks does each thread know to have begun?
        self.early: tuple[Any, int, Site] | None = None  # the first access to a block that may not have begun
        self.read: list[tuple[Any, Site, Landing]] = []  # copies to other blocks: who started one, its arrival

    def note(self, g: Any, slots: Any, site: Site) -> None:
        """The lanes access memory of the blocks in these slots, some of which may be their own."""
        away = np.flatnonzero(slots != g.lane("slot"))
        if len(away):
            self.check_begun(g, slots, site)
            threads, ranks = g.index()[away], slots[away] % self.wave.cluster
            self.times[threads, ranks] = self.wave.ordering.clock.now
            self.sites.update(dict.fromkeys(zip(threads.tolist(), ranks.tolist(), strict=True), site))

    def check_begun(self, g: Any, slots: Any, site: Site) -> None:
        """Notes lanes that access blocks (in these slots) without knowing that they have begun."""
        away = np.flatnonzero(slots != g.lane("slot"))
        ranks = slots[away] % self.wave.cluster
        rest = ~self.begun[g.index()[away], ranks]
        for lane, rank, slot in zip(away[rest].tolist(), ranks[rest].tolist(), slots[away][rest].tolist(), strict=True):
            if not self.knows_of(g, lane, slot):
                self.early = self.early or (g.part(np.array([lane])), rank, site)
            # Checked once for each thread and block, since knowledge is never lost.
            self.begun[g.index()[lane], rank] = True

    def knows_of(self, g: Any, lane: int, slot: int) -> bool:
        """Does a lane of the group know anything of the threads of a block? The least is its beginning, time 1."""
        wave = self.wave
        others = wave.lanes_at(slot * wave.block_lanes + np.flatnonzero(wave.exists[: wave.block_lanes]))
        stamps = others.lane("gid stamp") | U(BEGUN << TIME_SHIFT)
        nowhere = np.zeros(others.n, np.int64)
        return bool(wave.ordering.ordered(stamps, nowhere, g, np.full(others.n, lane)).any())

    def end(self) -> None:
        """The wave has ended. Reports the first access to a block that may not have begun, the first access of which no
        thread of the other block knows, and the first copy whose own block does not know that it has arrived. These
        come last, since a race, which would be reported before, says more."""
        wave = self.wave
        if self.early is not None:
            part, rank, site = self.early
            message = (
                f"accesses shared memory of block {rank} of the cluster, which may not have begun: a barrier of the "
                "cluster (barrier.cluster.arrive and wait) must come before"
            )
            wave.launch.report(Kind.OUT_OF_BOUNDS, message, part, 0, site)
            return
        for part, site, landing in self.read:
            own = wave.lanes_at(np.arange(wave.block_lanes) + int(part.lane("slot")[0]) * wave.block_lanes)
            if not landing.known(np.zeros(own.n, np.int64), own, np.arange(own.n)).any():
                message = "the block may end before this copy to another one has read its shared memory"
                wave.launch.report(Kind.SOURCE_CHANGED, message, part, 0, site)
                return
        for thread, rank in np.argwhere(self.times).tolist():
            slot = thread // wave.block_lanes // wave.cluster * wave.cluster + rank
            others = wave.lanes_at(np.arange(wave.block_lanes) + slot * wave.block_lanes)
            author = wave.lanes_at(np.array([thread]))
            stamps = np.repeat(author.lane("gid stamp") | U(int(self.times[thread, rank]) << TIME_SHIFT), others.n)
            if not wave.ordering.ordered(stamps, np.zeros(others.n, np.int64), others, np.arange(others.n)).any():
                message = f"accesses shared memory of block {rank} of the cluster, which may have ended before"
                wave.launch.report(Kind.OUT_OF_BOUNDS, message, author, 0, self.sites[thread, rank])
                return
