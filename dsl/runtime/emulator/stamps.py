"""The stamps of accesses (time, thread, level, instruction), the clock, and what barriers make known about them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .knowledge import Knowledge, Published
from .logical_time import LogicalTime

# A stamp is one number of 64 bits, so that numpy compares many at once: 12 bits of instruction, 28 of thread, 2 of
# level, 22 of time. The time is on top: a larger stamp is not earlier.
U = np.uint64
SITE_BITS, THREAD_BITS, LEVEL_BITS, TIME_BITS = 12, 28, 2, 22
THREAD_SHIFT, LEVEL_SHIFT, TIME_SHIFT = SITE_BITS, SITE_BITS + THREAD_BITS, SITE_BITS + THREAD_BITS + LEVEL_BITS
SITE_MASK, THREAD_MASK, LEVEL_MASK = (1 << SITE_BITS) - 1, (1 << THREAD_BITS) - 1, (1 << LEVEL_BITS) - 1
LAST_TIME = (1 << TIME_BITS) - 1
# No access has this time. A thread that knows another one up to it knows that the other one's block has begun.
BEGUN = 1
# A copy in flight has the last time and the widest level, so it is ordered before nothing, not even its own thread.
IN_FLIGHT = U(LAST_TIME << TIME_SHIFT | LEVEL_MASK << LEVEL_SHIFT)
OWNER = U((LEVEL_MASK << THREAD_BITS | THREAD_MASK) << THREAD_SHIFT)  # the bits of the thread and the level
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


class Clock:
    """The time of a launch, which its waves share, and what its strong writes have published, by address."""

    def __init__(self, blocks: int, exists: Any) -> None:
        """`exists`: [threads of a block], rounded up to whole warps."""
        self.now = BEGUN + 1
        self.nothing = Knowledge(np.zeros(blocks, np.int64), {}, {})
        # Nothing is known of a block's threads. Threads that do not exist are known up to the last time, so that the
        # minimum over a warp or block leaves them out.
        self.blank = np.where(exists, 0, 0xFFFFFFFF).astype(np.uint32)
        self.published: dict[int, Published] = {}

    def tick(self) -> int:
        """A synchronisation event. Returns the time up to which everything is before it."""
        before = self.now
        self.now += 1
        if self.now >= LAST_TIME:
            raise OverflowError("the launch has more synchronisation events than the race detector can stamp")
        return before


class BarrierTimes:
    """What barriers make known to the threads of one wave. `vector` gives each thread a clock of its own. `time` exists
    in programs that read a clock (`timed`)."""

    def __init__(
        self, clock: Clock, blocks: Any, block_lanes: int, cluster: int, exists: Any, vector: bool, timed: bool = False
    ):
        """`blocks` are linear numbers."""
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
        self.learned = np.zeros(len(blocks), np.int64)  # when threads of the block last learned from outside of it

    def row(self, lane: int) -> Any:
        """The clock of one lane."""
        cluster, within = divmod(lane, self.cluster_lanes)
        return self.clocks[cluster, within]
