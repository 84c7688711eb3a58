"""Happens-before: which memory accesses are ordered before the current access of a thread.

Each access has a stamp: a time, the thread and the instruction. The time counts the launch's synchronisation events. A
thread knows an access if the access is ordered before everything that the thread does next. At a barrier, all threads
of the block, warp or cluster learn the earlier accesses of the others.

A program may synchronise only some threads of a block or warp, by named barriers, mbarriers, clusters, or partial
`bar.warp.sync`. Then each thread has a vector clock. For each other thread, it has the time up to which that thread's
accesses are known. `causality.py` stores what threads learn by release and acquire. Barriers pass this on, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .causality import Causality
from .knowledge import CTA, GPU, Snapshot
from .logical_time import LogicalTime
from .stamps import (
    BEGUN,
    BLOCK,
    GRID,
    LAST_TIME,
    ONE,
    OWNER,
    THREAD_MASK,
    THREAD_SHIFT,
    TIME_SHIFT,
    WARP,
    Clock,
    U,
    levels,
    threads_of,
    times,
    without_level,
)


class History:
    """The stamps of all accesses to granules that several blocks have accessed. The shadow memory's record keeps only
    the last stamp of a granule, and marks it with the level GRID."""

    def __init__(self) -> None:
        self.fresh: list[tuple[Any, Any]] = []
        self.fresh_count = 0
        self.units, self.stamps = np.zeros(0, np.int64), np.zeros(0, U)

    def add(self, units: Any, stamps: Any) -> None:
        """Adds a stamp for each granule in `units`. The level of a GRID stamp is cleared, since the other threads'
        stamps are already in the history."""
        own = np.where(levels(stamps) == GRID, without_level(stamps), stamps)
        self.fresh.append((units, own))
        self.fresh_count += len(units)
        # The history is sorted when its size has doubled, and at least a million stamps are new. So the cost per stamp
        # does not grow with the number of stamps.
        if self.fresh_count > max(len(self.units), 1 << 20):
            self.sort()

    def sort(self) -> None:
        """Sorts the stamps by granule, and keeps only the last stamp of each thread at a granule."""
        units = np.concatenate([self.units, *(units for units, _ in self.fresh)])
        stamps = np.concatenate([self.stamps, *(stamps for _, stamps in self.fresh)])
        self.fresh, self.fresh_count = [], 0
        owners = stamps & OWNER
        order = np.lexsort((stamps, owners, units))
        units, stamps, owners = units[order], stamps[order], owners[order]
        # A thread's accesses are ordered among themselves, so its last stamp is enough.
        last = np.ones(len(units), bool)
        last[:-1] = (units[1:] != units[:-1]) | (owners[1:] != owners[:-1])
        self.units, self.stamps = units[last], stamps[last]

    def of(self, units: Any) -> tuple[Any, Any]:
        """Returns two arrays: the number of stamps of each granule, and all these stamps, granule after granule."""
        if self.fresh:
            self.sort()
        starts = np.searchsorted(self.units, units)
        counts = np.searchsorted(self.units, units, "right") - starts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return counts, self.stamps[np.repeat(starts, counts) + within]


class Ordering:
    """What the threads of one wave know about each other's accesses. If `vector` is true, each thread has its own
    vector clock. `time` is None unless the program reads a clock (`timed`)."""

    def __init__(
        self,
        clock: Clock,
        blocks: Any,
        block_lanes: int,
        cluster: int,
        exists: Any,
        vector: bool,
        narrow: bool,
        timed: bool,
    ):
        """`blocks` has the linear numbers of the wave's blocks. `exists` has a bool for each lane. `narrow` states
        whether the program names a scope below .gpu."""
        lanes = len(exists)
        self.time = LogicalTime(lanes) if timed else None
        self.clock = clock
        self.block_lanes = block_lanes
        self.block_shift = block_lanes.bit_length() - 1 if block_lanes & (block_lanes - 1) == 0 else None
        self.cluster_lanes = block_lanes * cluster
        self.block_since = np.zeros(lanes // block_lanes, U)
        self.warp_since = np.zeros(lanes // 32, U)
        self.limit = np.zeros(lanes, U)  # stamps below this are ordered before the lane by a barrier of its block
        self.version = 0
        self.vector = vector
        self.clocks = np.zeros(0, np.uint32)
        if vector:
            size = self.cluster_lanes
            self.clocks = np.zeros((lanes // size, size, size), np.uint32)
            absent = ~exists.reshape(-1, size)
            self.clocks[np.broadcast_to(absent[:, None, :], self.clocks.shape)] = 0xFFFFFFFF
        # for each block, the time when a thread last learned of accesses of other blocks
        self.learned = np.zeros(len(blocks), np.int64)
        # Vector clocks for the copies that a thread starts, not for its other accesses. If a thread of another block
        # arrives at an mbarrier without cluster scope, this orders only such copies.
        self.freed: Any = None
        self.copies = False  # whether queries are about copies that start now
        self.causality = Causality(clock, self, blocks, narrow)

    def row(self, lane: int) -> Any:
        """Returns the vector clock of one lane."""
        cluster, within = divmod(lane, self.cluster_lanes)
        return self.clocks[cluster, within]

    # Synchronisation

    def blocks_joined(self, slots: Any) -> None:
        """Records that all threads of these blocks have met at a barrier."""
        before = self.clock.tick()
        self.block_since[slots] = self.clock.now
        self.limit.reshape(-1, self.block_lanes)[slots] = U(self.clock.now << TIME_SHIFT)
        self.version += 1
        self.causality.share_blocks(slots)
        if self.vector:
            per_cluster = self.cluster_lanes // self.block_lanes
            for slot in np.arange(len(self.block_since))[slots]:
                rows = self.clocks[slot // per_cluster]
                start = int(slot % per_cluster) * self.block_lanes
                self.meet(rows, slice(start, start + self.block_lanes), before)

    def warps_joined(self, warps: Any) -> None:
        """Records that all threads of these warps have met."""
        before = self.clock.tick()
        self.warp_since[warps] = self.clock.now
        self.causality.share_warps(warps)
        if self.vector:
            for warp in np.arange(len(self.warp_since))[warps].tolist():
                cluster, start = divmod(32 * warp, self.cluster_lanes)
                self.meet(self.clocks[cluster], slice(start, start + 32), before)

    def lanes_joined(self, lanes: Any) -> None:
        """Records that these lanes of one cluster have met at a barrier. Requires vector clocks."""
        self.causality.share(lanes)
        self.meet(*self.members(lanes), self.clock.tick())

    def members(self, lanes: Any) -> tuple[Any, Any]:
        """Returns the vector clocks of the cluster of `lanes`, and the positions of `lanes` in it. All lanes must be in
        one cluster.

        If the lanes are adjacent, the positions are a slice, so that numpy does not copy the clocks. The clocks of a
        block of 288 threads have 324 KiB.
        """
        cluster, first = divmod(int(lanes[0]), self.cluster_lanes)
        within = np.asarray(lanes) % self.cluster_lanes
        if (within == np.arange(first, first + len(within))).all():
            return self.clocks[cluster], slice(first, first + len(within))
        return self.clocks[cluster], within

    def meet(self, rows: Any, members: Any, before: int) -> None:
        """Merges the knowledge of the members. Afterwards each member knows all that any member knew, and all accesses
        of the members up to the time `before`."""
        # `joined` is the elementwise maximum of the members' vector clocks.
        joined = rows[members].max(0)
        joined[members] = np.maximum(joined[members], before)
        rows[members] = joined

    def snapshot(self, lanes: Any) -> Snapshot:
        """Returns all accesses that at least one of these lanes knows, including their own. The lanes are in one
        cluster. Other threads may learn of these accesses later."""
        before = self.clock.tick()
        rows, members = self.members(lanes)
        row = rows[members].max(0)
        row[members] = np.maximum(row[members], before)
        return Snapshot(row, self.causality.together(lanes))

    def begun(self, lanes: Any) -> Snapshot:
        """Returns the knowledge that the blocks of these lanes have begun, and nothing else."""
        rows, members = self.members(lanes)
        row = np.zeros(rows.shape[1], rows.dtype)
        row[members] = BEGUN
        return Snapshot(row, None)

    def learn(self, lanes: Any, what: Snapshot) -> None:
        rows, members = self.members(lanes)
        if isinstance(members, slice):
            np.maximum(rows[members], what.row, out=rows[members])
        else:
            rows[members] = np.maximum(rows[members], what.row)
        self.learned[lanes // self.block_lanes] = self.clock.now
        if what.knowledge is not None:
            self.causality.learn(lanes, what.knowledge)

    def learn_for_copies(self, lanes: Any, what: Snapshot) -> None:
        """Like `learn`, but the lanes know the accesses only for copies that they start from now on."""
        if self.freed is None:
            self.freed = np.zeros_like(self.clocks)
        within = np.asarray(lanes) % self.cluster_lanes
        rows = self.freed[int(lanes[0]) // self.cluster_lanes]
        rows[within] = np.maximum(rows[within], what.row)

    @contextmanager
    def of_copies(self, in_bulk: bool = True) -> Iterator[None]:
        """A context in which `ordered` answers for copies that the lanes start now, and not for ordinary accesses."""
        self.copies = in_bulk and self.freed is not None
        try:
            yield
        finally:
            self.copies = False

    # Questions

    def known(self, cluster: Any, mine: Any, theirs: Any) -> Any:
        """Returns the time up to which each thread `mine[i]` knows the accesses of the thread `theirs[i]`. Threads are
        positions in the cluster."""
        known = self.clocks[cluster, mine, theirs]
        return np.maximum(known, self.freed[cluster, mine, theirs]) if self.copies else known

    def known_of_all(self, cluster: Any, mine: Any, run: Any, width: int) -> Any:
        """Returns the time up to which each thread `mine[i]` knows the accesses of all `width` threads of the warp or
        block number `run[i]`.

        Reading the clocks of a whole warp or block at once shortened a 1024 x 1024 x 1024 product with TMA from 3.86 to
        3.28 s. It makes 340,000 such queries.
        """
        shape = (*self.clocks.shape[:2], -1, width)
        known = self.clocks.reshape(shape)[cluster, mine, run]
        if self.copies:
            known = np.maximum(known, self.freed.reshape(shape)[cluster, mine, run])
        return known.min(1)

    def ordered(self, stamps: Any, addresses: Any, g: Any, lanes: Any) -> Any:
        """Returns a mask: is the access of each stamp ordered before the current access of the lane? The stamps must
        have levels below GRID. `lanes` has a position in the group for each stamp.

        `addresses` has the address of each lane's access, since acquired knowledge may apply to one address only.
        """
        time, thread, level = times(stamps), threads_of(stamps), levels(stamps)
        me = g.lane("gid")[lanes]
        ok = (thread == me) & (level == ONE)
        in_warp = (thread >> U(5)) == (me >> U(5))
        ok |= in_warp & (level <= WARP) & (time < self.warp_since[g.lane("warp")[lanes]])
        blocks, my_blocks = self.block_of(thread), self.block_of(me)
        in_block = blocks == my_blocks
        ok |= in_block & (level <= BLOCK) & (time < self.block_since[g.lane("slot")[lanes]])
        if self.vector:
            ok |= self.ordered_by_clocks(time, thread, level, me, g, lanes)
        if self.causality.held:
            self.causality.ordered(ok, time, thread, level, blocks, addresses, g.index()[lanes])
        # An access that is still in flight is ordered before nothing.
        return ok & (time != U(LAST_TIME))

    def block_of(self, threads: Any) -> Any:
        """Returns the linear number of each thread's block."""
        if self.block_shift is not None:
            return threads >> U(self.block_shift)
        return threads // U(self.block_lanes)

    def ordered_by_clocks(self, time: Any, thread: Any, level: Any, me: Any, g: Any, lanes: Any) -> Any:
        size = U(self.cluster_lanes)
        together = (thread // size) == (me // size)
        index = g.index()[lanes] // self.cluster_lanes
        mine, theirs = (me % size).astype(np.int64), (thread % size).astype(np.int64)
        known = self.known(index, mine, theirs).astype(U)
        for several, width in ((WARP, 32), (BLOCK, self.block_lanes)):
            chosen = np.flatnonzero(level == several)
            # There are mostly few stamps of this level. They are handled 4,096 at a time, since each needs a row of
            # clocks as wide as a block.
            for start in range(0, len(chosen), 4096):
                part = chosen[start : start + 4096]
                known[part] = self.known_of_all(index[part], mine[part], theirs[part] // width, width)
        return together & (level <= BLOCK) & (time <= known)

    def beyond(self, scope: int, stamps: Any, mine: Any) -> Any:
        """Returns a mask: is the thread of each stamp outside the scope `scope` of the thread in `mine`?"""
        width = U(self.block_lanes if scope == CTA else self.cluster_lanes)
        if scope == GPU:
            return np.zeros(stamps.shape, bool)
        return threads_of(stamps) // width != threads_of(mine) // width

    def relation(self, stamps: Any, mine: Any) -> Any:
        """Returns the level of a stamp that stands for the threads of both `stamps` and `mine`: WARP for threads of one
        warp, BLOCK for threads of one block, else GRID. A higher level of the old stamp is kept."""
        if self.block_shift is None:
            blocks = (self.block_of(threads_of(each)) for each in (stamps, mine))
            other_block = np.not_equal(*blocks)
        differing = (stamps ^ mine) & U(THREAD_MASK << THREAD_SHIFT)
        # If the number of lanes of a block is a power of two, a shift replaces two divisions of 64 bits.
        if self.block_shift is not None:
            other_block = differing >= U(1 << THREAD_SHIFT + self.block_shift)
        # If the threads differ at or above bit 5, they are in different warps. If they differ above the block's bits,
        # they are in different blocks.
        level = (differing >= U(1 << THREAD_SHIFT + 5)).astype(U)
        level += other_block
        level += U(WARP)
        return np.maximum(level, levels(stamps))
