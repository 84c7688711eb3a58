"""Happens-before: which accesses of memory are ordered before what a thread does now.

Each access is stamped with the time of the launch (a count of synchronisation events), the thread, and the instruction.
Barriers advance what each block, warp or cluster knows. If fewer than all threads of a block or warp may synchronise
(named barriers, mbarriers, clusters, partial `bar.warp.sync`), each thread has a vector clock: the time up to which it
knows each other thread's accesses. What a thread learns from memory, by release and acquire, is kept in `causality.py`,
and passes from thread to thread at these barriers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .causality import Causality
from .knowledge import CTA, GPU, Snapshot
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
    BarrierTimes,
    Clock,
    U,
    levels,
    threads_of,
    times,
    without_level,
)


class History:
    """Stamps of several blocks at one granule. The record holds only the last of them, with level GRID."""

    def __init__(self) -> None:
        self.fresh: list[tuple[Any, Any]] = []
        self.fresh_count = 0
        self.units, self.stamps = np.zeros(0, np.int64), np.zeros(0, U)

    def add(self, units: Any, stamps: Any) -> None:
        """A stamp of level GRID stands for its own thread only: the others of its granule are here already."""
        own = np.where(levels(stamps) == GRID, without_level(stamps), stamps)
        self.fresh.append((units, own))
        self.fresh_count += len(units)
        # Sorted when it has doubled, and not below a million: so the cost of an entry does not grow with their number.
        if self.fresh_count > max(len(self.units), 1 << 20):
            self.sort()

    def sort(self) -> None:
        """Sorts by granule, and keeps only the last stamp of each thread there."""
        units = np.concatenate([self.units, *(units for units, _ in self.fresh)])
        stamps = np.concatenate([self.stamps, *(stamps for _, stamps in self.fresh)])
        self.fresh, self.fresh_count = [], 0
        owners = stamps & OWNER
        order = np.lexsort((stamps, owners, units))
        units, stamps, owners = units[order], stamps[order], owners[order]
        # A thread's later access comes after its earlier ones, so the last one stands for all.
        last = np.ones(len(units), bool)
        last[:-1] = (units[1:] != units[:-1]) | (owners[1:] != owners[:-1])
        self.units, self.stamps = units[last], stamps[last]

    def of(self, units: Any) -> tuple[Any, Any]:
        """For each granule: how many stamps it has. And all of these stamps, one granule after another."""
        if self.fresh:
            self.sort()
        starts = np.searchsorted(self.units, units)
        counts = np.searchsorted(self.units, units, "right") - starts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return counts, self.stamps[np.repeat(starts, counts) + within]


class Ordering(BarrierTimes):
    """What the threads of one wave know. `vector` gives each thread a clock of its own."""

    def __init__(
        self,
        clock: Clock,
        blocks: Any,
        block_lanes: int,
        cluster: int,
        exists: Any,
        vector: bool,
        narrow: bool,
        timed: bool = False,
    ):
        """`blocks` are linear numbers. `narrow`: does the program name a scope below .gpu? `timed`: does it read a
        clock?"""
        super().__init__(clock, blocks, block_lanes, cluster, exists, vector, timed)
        # Clocks of what is before the copies that a thread starts, though not before its other accesses: an arrival
        # from another block without a cluster scope orders only these.
        self.freed: Any = None
        self.copies = False  # are copies being started?
        self.causality = Causality(clock, self, blocks, narrow)

    # Synchronisation

    def blocks_joined(self, slots: Any) -> None:
        """All threads of these blocks have met at a barrier."""
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
        """All threads of these warps have met."""
        before = self.clock.tick()
        self.warp_since[warps] = self.clock.now
        self.causality.share_warps(warps)
        if self.vector:
            for warp in np.arange(len(self.warp_since))[warps].tolist():
                cluster, start = divmod(32 * warp, self.cluster_lanes)
                self.meet(self.clocks[cluster], slice(start, start + 32), before)

    def lanes_joined(self, lanes: Any) -> None:
        """These lanes of one cluster have met. Needs vector clocks."""
        self.causality.share(lanes)
        self.meet(*self.members(lanes), self.clock.tick())

    def members(self, lanes: Any) -> tuple[Any, Any]:
        """(clocks of the cluster, positions in it) of lanes of one cluster. For neighbours the positions are a slice,
        so that their rows are not copied: those of a block of 288 threads are 324 KiB."""
        cluster, first = divmod(int(lanes[0]), self.cluster_lanes)
        within = np.asarray(lanes) % self.cluster_lanes
        if (within == np.arange(first, first + len(within))).all():
            return self.clocks[cluster], slice(first, first + len(within))
        return self.clocks[cluster], within

    def meet(self, rows: Any, members: Any, before: int) -> None:
        """Each member learns what any member knew, and all that the others did."""
        # The vector clocks of all members, element by element.
        joined = rows[members].max(0)
        joined[members] = np.maximum(joined[members], before)
        rows[members] = joined

    def snapshot(self, lanes: Any) -> Snapshot:
        """What these lanes of one cluster know together, for other threads to learn later."""
        before = self.clock.tick()
        rows, members = self.members(lanes)
        row = rows[members].max(0)
        row[members] = np.maximum(row[members], before)
        return Snapshot(row, self.causality.together(lanes))

    def begun(self, lanes: Any) -> Snapshot:
        """The knowledge that the blocks of these lanes have begun, and nothing of what the lanes did."""
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
        """Like `learn`, but only for the copies that these lanes start from now on."""
        if self.freed is None:
            self.freed = np.zeros_like(self.clocks)
        within = np.asarray(lanes) % self.cluster_lanes
        rows = self.freed[int(lanes[0]) // self.cluster_lanes]
        rows[within] = np.maximum(rows[within], what.row)

    @contextmanager
    def of_copies(self, in_bulk: bool = True) -> Iterator[None]:
        """Meanwhile questions are about what is before copies that the lanes start."""
        self.copies = in_bulk and self.freed is not None
        try:
            yield
        finally:
            self.copies = False

    # Questions

    def known(self, cluster: Any, mine: Any, theirs: Any) -> Any:
        """Up to which times threads know others of their cluster."""
        known = self.clocks[cluster, mine, theirs]
        return np.maximum(known, self.freed[cluster, mine, theirs]) if self.copies else known

    def known_of_all(self, cluster: Any, mine: Any, run: Any, width: int) -> Any:
        """Up to which times threads know all of a run of `width` others: a warp or a block of their cluster. A run is
        read as a whole and not by thread: a matrix product of 1024 x 1024 x 1024 by TMA asks for 340,000, and this took
        it from 3.86 to 3.28 s."""
        shape = (*self.clocks.shape[:2], -1, width)
        known = self.clocks.reshape(shape)[cluster, mine, run]
        if self.copies:
            known = np.maximum(known, self.freed.reshape(shape)[cluster, mine, run])
        return known.min(1)

    def ordered(self, stamps: Any, addresses: Any, g: Any, lanes: Any) -> Any:
        """For stamps (below GRID) that the lanes (positions in the group) meet: is that access before what the lane
        does?

        `addresses` are where the stamps were met. What a thread has learned may hold for one address only.
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
        # Nothing is ordered after what is still in flight.
        return ok & (time != U(LAST_TIME))

    def block_of(self, threads: Any) -> Any:
        """Linear numbers of the blocks of these threads."""
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
            # Mostly there are none or few. In parts of 4,096, since each row of clocks is as wide as a block.
            for start in range(0, len(chosen), 4096):
                part = chosen[start : start + 4096]
                known[part] = self.known_of_all(index[part], mine[part], theirs[part] // width, width)
        return together & (level <= BLOCK) & (time <= known)

    def beyond(self, scope: int, stamps: Any, mine: Any) -> Any:
        """Were these accesses made outside of a scope around `mine`?"""
        width = U(self.block_lanes if scope == CTA else self.cluster_lanes)
        if scope == GPU:
            return np.zeros(stamps.shape, bool)
        return threads_of(stamps) // width != threads_of(mine) // width

    def relation(self, stamps: Any, mine: Any) -> Any:
        """The level of stamps that accesses of other threads, with the stamps `mine`, join."""
        if self.block_shift is None:
            blocks = (self.block_of(threads_of(each)) for each in (stamps, mine))
            other_block = np.not_equal(*blocks)
        differing = (stamps ^ mine) & U(THREAD_MASK << THREAD_SHIFT)
        # With a power of two of lanes in a block, a shift replaces two divisions of 64 bits.
        if self.block_shift is not None:
            other_block = differing >= U(1 << THREAD_SHIFT + self.block_shift)
        # Threads differ above bit 5: another warp. Above the block's bits: another block.
        level = (differing >= U(1 << THREAD_SHIFT + 5)).astype(U)
        level += other_block
        level += U(WARP)
        return np.maximum(level, levels(stamps))
