"""Happens-before: which accesses of memory are ordered before what a thread does now.

Every access is stamped with the time of the launch (a count of synchronisation events), the thread, and the
instruction.  Barriers move what each block, warp or cluster knows forward.  PTX in which fewer than all threads of a
block or warp synchronise (named barriers, mbarrier, clusters, partial `bar.warp.sync`) keeps a vector clock for each
thread: the time up to which it knows each other thread's accesses.  Between blocks only release/acquire chains order
accesses; they are kept for whole blocks: a block knows another one up to a time (PTX ISA 8.9, "Causality order").
"""

from __future__ import annotations

from dataclasses import dataclass
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


def without_level(stamps: Any) -> Any:
    return stamps & ~U(LEVEL_MASK << LEVEL_SHIFT)


@dataclass(frozen=True)
class Knowledge:
    """What is before a point of the launch; never changed, so that addresses and blocks can share it.

    `until`: [blocks], all that each block did up to this time.  `writes`: (address, block) to a time: the strong writes
    of a block to one address, where they come after the fence that made them a release and so after `until`.
    """

    until: Any
    writes: dict[tuple[int, int], int]

    def join(self, other: Knowledge | None) -> Knowledge:
        if other is None or other is self:
            return self
        writes = self.writes
        if other.writes and writes is not other.writes:
            writes = {**writes, **other.writes}
            for key in self.writes.keys() & other.writes.keys():
                writes[key] = max(self.writes[key], other.writes[key])
        return Knowledge(np.maximum(self.until, other.until), writes)

    def with_block(self, block: int, until: int) -> Knowledge:
        times = self.until.copy()
        times[block] = max(times[block], until)
        return Knowledge(times, self.writes)

    def with_write(self, addresses: range, block: int, time: int) -> Knowledge:
        return Knowledge(self.until, self.writes | {(address, block): time for address in addresses})


class Clock:
    """The time of a launch, shared by its waves, and what blocks know of each other."""

    def __init__(self, blocks: int) -> None:
        self.now = 1
        self.nothing = Knowledge(np.zeros(blocks, np.uint32), {})
        self.known: dict[int, Knowledge] = {}  # by block
        self.fences: dict[int, Knowledge] = {}  # by block: what was before its last fence
        self.published: dict[int, Knowledge] = {}  # by address
        self.read: dict[int, dict[int, Knowledge]] = {}  # by block: what it has read without acquiring

    def tick(self) -> int:
        """A synchronisation event: returns the time up to which everything is before it."""
        before = self.now
        self.now += 1
        if self.now >= LAST_TIME:
            raise OverflowError("the launch has more synchronisation events than the race detector can stamp")
        return before

    def release(self, addresses: range, block: int, until: int, releases: bool, modifies: bool) -> None:
        """A strong write: it publishes what is before it if it releases, or what was before the block's last fence.

        A write that reads what it changes (`modifies`) hands on what is published there; any other takes its place.
        """
        address = addresses.start
        found: Knowledge | None
        if releases:
            found = self.known.get(block, self.nothing).with_block(block, until)
        else:
            found = self.fences.get(block)
            if found is not None:
                found = found.with_write(addresses, block, until)
        before = self.published.get(address) if modifies else None
        if found is None:
            if not modifies:
                self.published.pop(address, None)
            return
        self.published[address] = found.join(before)

    def acquire(self, address: int, block: int, acquires: bool) -> None:
        """A strong read: what is published there is known now, or from the block's next fence on."""
        found = self.published.get(address)
        if found is None:
            return
        if acquires:
            self.known[block] = found.join(self.known.get(block))
        else:
            self.read.setdefault(block, {})[id(found)] = found

    def fence(self, block: int, until: int) -> None:
        known = self.known.get(block, self.nothing)
        read = self.read.pop(block, None)
        if read is not None:
            for found in read.values():
                known = known.join(found)
            self.known[block] = known
        self.fences[block] = known.with_block(block, until)

    def forget(self, blocks: Any) -> None:
        """These blocks have ended: nobody asks what they know."""
        for block in blocks.tolist():
            for table in (self.known, self.fences, self.read):
                table.pop(block, None)


class History:
    """Stamps of several blocks at one granule, of which the record holds only the last (with level GRID)."""

    def __init__(self) -> None:
        self.fresh: list[tuple[Any, Any]] = []
        self.fresh_count = 0
        self.units, self.stamps = np.zeros(0, np.int64), np.zeros(0, U)

    def add(self, units: Any, stamps: Any) -> None:
        """A stamp of level GRID stands for its own thread only: the others of its granule are here already."""
        own = np.where(levels(stamps) == GRID, without_level(stamps), stamps)
        self.fresh.append((units, own))
        self.fresh_count += len(units)
        if self.fresh_count > max(len(self.units), 1 << 20):
            self.sort()

    def sort(self) -> None:
        """By granule; of each thread only the last stamp there."""
        units = np.concatenate([self.units, *(units for units, _ in self.fresh)])
        stamps = np.concatenate([self.stamps, *(stamps for _, stamps in self.fresh)])
        self.fresh, self.fresh_count = [], 0
        owners = stamps & OWNER
        order = np.lexsort((stamps, owners, units))
        units, stamps, owners = units[order], stamps[order], owners[order]
        last = np.ones(len(units), bool)
        last[:-1] = (units[1:] != units[:-1]) | (owners[1:] != owners[:-1])
        self.units, self.stamps = units[last], stamps[last]

    def of(self, units: Any) -> tuple[Any, Any]:
        """For each granule asked, how many stamps it has; and all of those, one granule after another."""
        if self.fresh:
            self.sort()
        starts = np.searchsorted(self.units, units)
        counts = np.searchsorted(self.units, units, "right") - starts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return counts, self.stamps[np.repeat(starts, counts) + within]


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

    def ordered(self, stamps: Any, addresses: Any, g: Any, lanes: Any) -> Any:
        """For stamps (below GRID) met by the lanes (positions in the group): is that access before what the lane does?

        `addresses` are where the stamps were met, as in `Knowledge.writes`.
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
        if self.clock.known:
            self.ordered_by_chains(ok, time, blocks, my_blocks, addresses)
        return ok & (time != U(LAST_TIME))

    def ordered_by_chains(self, ok: Any, time: Any, blocks: Any, my_blocks: Any, addresses: Any) -> None:
        """Adds to `ok` what each lane's block knows."""
        rest = np.flatnonzero(~ok)
        for block in np.unique(my_blocks[rest]).tolist():
            known = self.clock.known.get(block)
            if known is None:
                continue
            asked = rest[my_blocks[rest] == block]
            ok[asked] = time[asked] <= known.until[blocks[asked].astype(np.int64)]
            if known.writes:
                for index in asked[~ok[asked]]:
                    ok[index] = time[index] <= known.writes.get((int(addresses[index]), int(blocks[index])), 0)

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
