"""Happens-before: which accesses of memory are ordered before what a thread does now.

Every access is stamped with the time of the launch (a count of synchronisation events), the thread, and the
instruction.  Barriers move what each block, warp or cluster knows forward.  PTX in which fewer than all threads of a
block or warp synchronise (named barriers, mbarrier, clusters, partial `bar.warp.sync`) keeps a vector clock for each
thread: the time up to which it knows each other thread's accesses.  Between blocks only release/acquire chains order
accesses; they are kept for whole blocks: a block knows another one up to a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

U = np.uint64
SITE_BITS, THREAD_BITS, LEVEL_BITS, TIME_BITS = 12, 28, 2, 22
THREAD_SHIFT, LEVEL_SHIFT, TIME_SHIFT = SITE_BITS, SITE_BITS + THREAD_BITS, SITE_BITS + THREAD_BITS + LEVEL_BITS
SITE_MASK, THREAD_MASK, LEVEL_MASK = (1 << SITE_BITS) - 1, (1 << THREAD_BITS) - 1, (1 << LEVEL_BITS) - 1
LAST_TIME = (1 << TIME_BITS) - 1
# A copy in flight has the last time and the widest level, so that it is ordered before nobody, not even its thread.
IN_FLIGHT = U(LAST_TIME << TIME_SHIFT | LEVEL_MASK << LEVEL_SHIFT)
OWNER = U((LEVEL_MASK << THREAD_BITS | THREAD_MASK) << THREAD_SHIFT)  # the bits that say who
# Levels of a stamp: one thread, or several of one warp, of one block, of several blocks.
ONE, WARP, BLOCK, GRID = range(4)


def times(stamps: Any) -> Any:
    return stamps >> U(TIME_SHIFT)


def threads_of(stamps: Any) -> Any:
    return (stamps >> U(THREAD_SHIFT)) & U(THREAD_MASK)


def levels(stamps: Any) -> Any:
    return (stamps >> U(LEVEL_SHIFT)) & U(LEVEL_MASK)


class Clock:
    """The time of a launch, shared by its waves, and what blocks know of each other."""

    def __init__(self) -> None:
        self.now = 1
        self.known: dict[int, dict[int, int]] = {}
        self.published: dict[int, dict[int, int]] = {}
        self.fences: dict[int, int] = {}
        self.pending: dict[int, dict[int, int]] = {}  # block to the addresses it has read, and when

    def tick(self) -> int:
        """A synchronisation event: returns the time up to which everything is before it."""
        before = self.now
        self.now += 1
        if self.now >= LAST_TIME:
            raise OverflowError("the launch has more synchronisation events than the race detector can stamp")
        return before

    # Release and acquire, by address.

    def knowledge(self, block: int, until: int) -> dict[int, int]:
        return {**self.known.get(block, {}), block: until}

    def release(self, address: int, block: int, until: int) -> None:
        join(self.published.setdefault(address, {}), self.knowledge(block, until))

    def acquire(self, block: int, learnt: dict[int, int]) -> None:
        join(self.known.setdefault(block, {}), learnt)

    def remember(self, block: int, address: int) -> None:
        """Read without acquiring: what is published there now is known from the block's next fence on."""
        self.pending.setdefault(block, {})[address] = self.now

    def acquire_remembered(self, block: int) -> None:
        for address, read in self.pending.pop(block, {}).items():
            published = self.published[address].items()
            self.acquire(block, {other: time for other, time in published if time <= read})

    def knows(self, block: int, other: int) -> int:
        return self.known.get(block, {}).get(other, 0)


def join(into: dict[int, int], other: dict[int, int]) -> None:
    for block, time in other.items():
        into[block] = max(into.get(block, 0), time)


class Ordering:
    """What the threads of one wave know.  `vector` gives every thread a clock of its own."""

    def __init__(self, clock: Clock, lanes: int, block_lanes: int, cluster: int, exists: Any, vector: bool):
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
        self.exists = exists

    # Synchronisation

    def blocks_joined(self, slots: Any) -> None:
        """All threads of these blocks met at a barrier."""
        before = self.clock.tick()
        self.block_since[slots] = self.clock.now
        self.limit.reshape(-1, self.block_lanes)[slots] = U(self.clock.now << TIME_SHIFT)
        self.version += 1
        if self.vector:
            per_cluster = self.cluster_lanes // self.block_lanes
            for slot in np.arange(len(self.block_since))[slots]:
                rows = self.clocks[slot // per_cluster]
                start = int(slot % per_cluster) * self.block_lanes
                self.meet(rows, np.arange(start, start + self.block_lanes), before)

    def warps_joined(self, warps: Any) -> None:
        """All threads of these warps met."""
        before = self.clock.tick()
        self.warp_since[warps] = self.clock.now
        if self.vector:
            for warp in np.arange(len(self.warp_since))[warps]:
                self.lanes_joined(np.arange(32 * warp, 32 * warp + 32), before)

    def lanes_joined(self, lanes: Any, before: int | None = None) -> None:
        """These lanes of one cluster met; needs vector clocks."""
        before = self.clock.tick() if before is None else before
        cluster = int(lanes[0]) // self.cluster_lanes
        self.meet(self.clocks[cluster], np.asarray(lanes) % self.cluster_lanes, before)

    def meet(self, rows: Any, members: Any, before: int) -> None:
        """Everybody learns what anybody knew, and all that the others did."""
        joined = rows[members].max(0)
        joined[members] = np.maximum(joined[members], before)
        rows[members] = joined

    def snapshot(self, lanes: Any) -> Any:
        """What these lanes of one cluster know together, for another thread to learn later."""
        before = self.clock.tick()
        cluster = int(lanes[0]) // self.cluster_lanes
        members = np.asarray(lanes) % self.cluster_lanes
        joined = self.clocks[cluster][members].max(0)
        joined[members] = np.maximum(joined[members], before)
        return joined

    def learn(self, lanes: Any, what: Any) -> None:
        cluster = int(lanes[0]) // self.cluster_lanes
        members = np.asarray(lanes) % self.cluster_lanes
        rows = self.clocks[cluster]
        rows[members] = np.maximum(rows[members], what)

    # Questions

    def ordered(self, stamps: Any, g: Any, lanes: Any) -> Any:
        """For stamps met by the lanes (positions in the group): is that access before what the lane does now?"""
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
        if self.clock.known:
            rest = np.flatnonzero(~ok & (level < GRID))
            for index in rest:
                ok[index] = time[index] <= self.clock.knows(int(my_blocks[index]), int(blocks[index]))
        return ok & (time != U(LAST_TIME))

    def block_of(self, threads: Any) -> Any:
        """Linear numbers of the blocks of threads."""
        if self.block_shift is not None:
            return threads >> U(self.block_shift)
        return threads // U(self.block_lanes)

    def ordered_by_clocks(self, time: Any, thread: Any, level: Any, me: Any, g: Any, lanes: Any) -> Any:
        size = U(self.cluster_lanes)
        together = (thread // size) == (me // size)
        index = g.index()[lanes] // self.cluster_lanes
        mine, theirs = (me % size).astype(np.int64), (thread % size).astype(np.int64)
        known = self.clocks[index, mine, theirs].astype(U)
        for several, width in ((WARP, 32), (BLOCK, self.block_lanes)):
            chosen = np.flatnonzero(level == several)
            for part in np.array_split(chosen, len(chosen) // 1024 + 1):
                members = theirs[part, None] // width * width + np.arange(width)
                known[part] = self.clocks[index[part, None], mine[part, None], members].min(1)
        return together & (level <= BLOCK) & (time <= known)

    def relation(self, stamps: Any, mine: Any) -> Any:
        """The level that stamps get when accesses with the stamps `mine`, of other threads, join them."""
        if self.block_shift is None:
            blocks = (self.block_of(threads_of(each)) for each in (stamps, mine))
            other_block = np.not_equal(*blocks)
        differing = (stamps ^ mine) & U(THREAD_MASK << THREAD_SHIFT)
        if self.block_shift is not None:
            other_block = differing >= U(1 << THREAD_SHIFT + self.block_shift)
        level = (differing >= U(1 << THREAD_SHIFT + 5)).astype(U)
        level += other_block
        level += U(WARP)
        return np.maximum(level, levels(stamps))
