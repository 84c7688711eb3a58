"""Checks accesses to the shared memory of other blocks of a cluster. Such a block must have begun and must not have
ended.

The blocks of a cluster start together. But before a thread accesses the memory of another block, the thread must know
that this block has begun. It learns this from a barrier of the cluster, or from something that a thread of that block
has done.

A block ends when its last thread does. So each access to the block's memory must be ordered before something that a
thread of the block does. Writes by copies to other blocks are not checked here: a thread that waits for a copy's bytes
knows of the copy (`mbarriers.py`). But a copy also reads memory of its own block. So some thread of that block must
know that the copy has arrived.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import Site
from .findings import Kind
from .landings import Landing
from .stamps import BEGUN, TIME_SHIFT, U


class Visits:
    """The time and the instruction of each thread's last access to each other block. Threads are positions in the wave,
    and blocks are ranks."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.times = np.zeros((wave.lanes if wave.cluster > 1 else 0, wave.cluster), np.int64)
        self.sites: dict[tuple[int, int], Site] = {}
        self.begun = np.zeros(self.times.shape, bool)  # whether each thread knows that each block has begun
        self.early: tuple[Any, int, Site] | None = None  # the first access to a block that may not have begun
        # for each copy to another block: the thread that started the copy, the instruction, and the arrival
        self.read: list[tuple[Any, Site, Landing]] = []

    def note(self, g: Any, slots: Any, site: Site) -> None:
        """Notes that each lane accesses memory of the block in its entry of `slots`. This may be the lane's own
        block."""
        away = np.flatnonzero(slots != g.lane("slot"))
        if len(away):
            self.check_begun(g, slots, site)
            threads, ranks = g.index()[away], slots[away] % self.wave.cluster
            self.times[threads, ranks] = self.wave.ordering.clock.now
            self.sites.update(dict.fromkeys(zip(threads.tolist(), ranks.tolist(), strict=True), site))

    def check_begun(self, g: Any, slots: Any, site: Site) -> None:
        """Notes lanes that access another block without knowing that it has begun. `slots` has the block of each
        lane."""
        away = np.flatnonzero(slots != g.lane("slot"))
        ranks = slots[away] % self.wave.cluster
        rest = ~self.begun[g.index()[away], ranks]
        for lane, rank, slot in zip(away[rest].tolist(), ranks[rest].tolist(), slots[away][rest].tolist(), strict=True):
            if not self.knows_of(g, lane, slot):
                self.early = self.early or (g.part(np.array([lane])), rank, site)
            # Each thread and block is checked once, since knowledge is never lost.
            self.begun[g.index()[lane], rank] = True

    def knows_of(self, g: Any, lane: int, slot: int) -> bool:
        """Whether a lane of the group knows anything of the threads of a block. The least that it can know is that the
        block has begun, which is time 1."""
        wave = self.wave
        others = wave.lanes_at(slot * wave.block_lanes + np.flatnonzero(wave.exists[: wave.block_lanes]))
        stamps = others.lane("gid stamp") | U(BEGUN << TIME_SHIFT)
        nowhere = np.zeros(others.n, np.int64)
        return bool(wave.ordering.ordered(stamps, nowhere, g, np.full(others.n, lane)).any())

    def end(self) -> None:
        """Reports at most one finding, at the end of the wave. The first check finds an access to a block that may not
        have begun. The second check finds a copy whose arrival no thread of its own block knows. The third check finds
        an access that no thread of the accessed block knows. These checks come last, since a race would be reported
        earlier and is more informative."""
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
