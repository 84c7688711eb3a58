"""Stamps of accesses, and the clock of a launch. A stamp has a time, a thread, a level and an instruction."""

from __future__ import annotations

from typing import Any

import numpy as np

from .knowledge import Knowledge, Published

# A stamp is one number of 64 bits, so that numpy compares many stamps at once. It has 12 bits for the instruction, 28
# for the thread, 2 for the level, and 22 for the time. The time has the highest bits, so a larger stamp is not earlier.
U = np.uint64
SITE_BITS, THREAD_BITS, LEVEL_BITS, TIME_BITS = 12, 28, 2, 22
THREAD_SHIFT, LEVEL_SHIFT, TIME_SHIFT = SITE_BITS, SITE_BITS + THREAD_BITS, SITE_BITS + THREAD_BITS + LEVEL_BITS
SITE_MASK, THREAD_MASK, LEVEL_MASK = (1 << SITE_BITS) - 1, (1 << THREAD_BITS) - 1, (1 << LEVEL_BITS) - 1
LAST_TIME = (1 << TIME_BITS) - 1
# No access has this time. If thread A knows the accesses of thread B up to this time, A only knows that B's block has
# begun.
BEGUN = 1
# A copy in flight has the last time and the widest level. So no access is ordered after it, not even a later access of
# its own thread.
IN_FLIGHT = U(LAST_TIME << TIME_SHIFT | LEVEL_MASK << LEVEL_SHIFT)
OWNER = U((LEVEL_MASK << THREAD_BITS | THREAD_MASK) << THREAD_SHIFT)  # the bits of the thread and the level
# Levels of a stamp. A stamp stands for accesses of one thread, or of several threads of one warp, one block, or several
# blocks.
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
    """The time of a launch, shared by its waves. `published` has, for each address, what the last strong write has
    published."""

    def __init__(self, blocks: int, exists: Any) -> None:
        """`blocks` is the number of blocks. `exists` states which threads of a block exist, since a block is rounded up
        to whole warps."""
        self.now = BEGUN + 1
        self.nothing = Knowledge(np.zeros(blocks, np.int64), {}, {})
        # The row of a vector clock if nothing is known about a block's threads. Threads that do not exist have the last
        # time, so that they never are the minimum of a warp or block.
        self.blank = np.where(exists, 0, 0xFFFFFFFF).astype(np.uint32)
        self.published: dict[int, Published] = {}

    def tick(self) -> int:
        """Counts a synchronisation event. Returns its time: all accesses up to this time are before the event."""
        before = self.now
        self.now += 1
        if self.now >= LAST_TIME:
            raise OverflowError("the launch has more synchronisation events than the race detector can stamp")
        return before
