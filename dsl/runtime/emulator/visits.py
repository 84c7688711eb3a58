"""Checks accesses to the shared memory of other blocks of a cluster. The other block must have begun and must not have
ended.

The blocks of a cluster start together. But before a thread accesses another block's memory, it must know that the block
has begun. A thread knows this after a barrier of the cluster, or after anything that orders an event of that block
before the thread.

A block ends when its last thread ends. So each access to the block's memory must be ordered before a later event in one
of its threads. For an arrival at an mbarrier it is enough that a thread of the block has waited for its phase. Writes
by copies to other blocks need no check here, since a thread of that block waits for their bytes (`mbarriers.py`). But a
copy also reads memory of its own block. So a thread of its own block must know that the copy has arrived.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import Site
from .findings import Kind
from .landings import Landing
from .stamps import BEGUN, TIME_SHIFT, U


class Visits:
    """For each thread and each other block, the time and the instruction of the thread's last access to the block's
    shared memory. Threads are positions in the wave, and blocks are ranks in the cluster."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.times = np.zeros((wave.lanes if wave.cluster > 1 else 0, wave.cluster), np.int64)
        self.sites: dict[tuple[int, int], Site] = {}
        self.begun = np.zeros(self.times.shape, bool)  # by thread and block: has this already been checked?
        self.early: tuple[Any, int, Site] | None = None  # the first access to a block that may not have begun
        # for each copy to another block: the thread that started the copy, the instruction, and the arrival
        self.read: list[tuple[Any, Site, Landing]] = []

    def note(self, g: Any, slots: Any, site: Site) -> None:
        """Records that each lane accesses shared memory of the block in `slots`. This may be the lane's own block."""
        away = np.flatnonzero(slots != g.lane("slot"))
        if len(away):
            self.check_begun(g, slots, site)
            threads, ranks = g.index()[away], slots[away] % self.wave.cluster
            self.times[threads, ranks] = self.wave.ordering.clock.now
            self.sites.update(dict.fromkeys(zip(threads.tolist(), ranks.tolist(), strict=True), site))

    def note_one(self, thread: int, rank: int, time: int, site: Site) -> None:
        """Records an access of one thread to the block of rank `rank`, which may not be the thread's last access."""
        if time >= self.times[thread, rank]:
            self.times[thread, rank], self.sites[thread, rank] = time, site

    def check_begun(self, g: Any, slots: Any, site: Site) -> None:
        """Checks whether each lane knows that the block in `slots` has begun. The first lane that does not is reported
        at the end of the wave."""
        away = np.flatnonzero(slots != g.lane("slot"))
        ranks = slots[away] % self.wave.cluster
        rest = ~self.begun[g.index()[away], ranks]
        for lane, rank, slot in zip(away[rest].tolist(), ranks[rest].tolist(), slots[away][rest].tolist(), strict=True):
            if not self.knows_of(g, lane, slot):
                self.early = self.early or (g.part(np.array([lane])), rank, site)
            # Each thread and block is checked once, since knowledge is never lost.
            self.begun[g.index()[lane], rank] = True

    def knows_of(self, g: Any, lane: int, slot: int) -> bool:
        """Returns whether a lane of the group knows of any event in the block `slot`. The earliest such event is the
        block's start, at time 1."""
        wave = self.wave
        others = wave.lanes_at(slot * wave.block_lanes + np.flatnonzero(wave.exists[: wave.block_lanes]))
        stamps = others.lane("gid stamp") | U(BEGUN << TIME_SHIFT)
        nowhere = np.zeros(others.n, np.int64)
        return bool(wave.ordering.ordered(stamps, nowhere, g, np.full(others.n, lane)).any())

    def end(self) -> None:
        """Reports at most one fault, at the end of the wave, since a race would be reported earlier and is more
        informative.

        First, it looks for an access to a block that may not have begun. Second, for a copy whose arrival no thread of
        its own block knows. Third, for an access that no thread of the accessed block knows.
        """
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
