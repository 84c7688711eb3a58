"""Tracks which asynchronous copies an mbarrier has completed, and for which threads.

`cp.async.mbarrier.arrive` makes a thread's earlier copies arrive at an mbarrier. A tensor copy (`tensor_copies.py`)
arrives when its bytes are written. An arrived copy is complete for threads that have waited for the mbarrier's phase,
and for accesses that are ordered after such a wait. For all other accesses, even those of the issuing thread, the copy
stays in flight. So the shadow memory still marks the destination as in flight, and a separate table stores the
arrivals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import Site
from .shadow import SpacePlace
from .stamps import U, threads_of


class Landing:
    """The copies that arrived in one phase of one mbarrier. `waiters` contains the stamps of the waits that have
    returned true for this phase.

    `loads` contains the copies whose bytes the mbarrier counts, such as tensor copies. `visitors` contains, for each
    thread of another block that has arrived in this phase, the time and the instruction of its arrival.
    """

    def __init__(self) -> None:
        self.waiters = np.zeros(0, np.uint64)
        self.loads: list[Any] = []
        self.visitors: dict[int, tuple[int, Site]] = {}
        self.table: Landings | None = None
        self.number = 0

    def seen_by(self, stamps: Any) -> None:
        threads = threads_of(stamps)
        if self.table is None:  # no copy of this phase has filled shared memory
            known = np.isin(threads, threads_of(self.waiters))
        else:
            known = self.table.has_waited(self.number, threads)
        fresh = stamps[~known]
        if len(fresh):
            self.waiters = np.concatenate([self.waiters, fresh])
            if self.table is not None:
                self.table.seen_by(self.number, threads_of(fresh))

    def known(self, addresses: Any, g: Any, lanes: Any) -> Any:
        """Returns a mask of `lanes` (positions in the group): whether the lane itself has waited, or another thread's
        wait is ordered before the lane's access."""
        known = np.isin(g.lane("gid")[lanes], threads_of(self.waiters))
        for stamp in self.waiters:
            rest = np.flatnonzero(~known)
            if not len(rest):
                break
            known[rest] = g.ordering.ordered(np.full(len(rest), stamp), addresses[rest], g, lanes[rest])
        return known


class Landings:
    """Stores, for each granule of a shadow memory, the number of the copy that filled the granule last, and the number
    of that copy's `Landing`. 0 means that there is none."""

    def __init__(self, count: int, block_lanes: int):
        self.copies = np.zeros(count, np.int64)
        self.landing = np.zeros(count, np.int32)
        self.list: list[Landing] = []
        self.block_lanes = block_lanes
        # A table stores which threads have waited, since all threads of a block may wait for many landings.
        self.waited = np.zeros((64, block_lanes), bool)  # by landing and thread of the mbarrier's block
        self.blocks = np.zeros(64, np.int64)

    def started(self, units: Any, numbers: Any) -> None:
        self.copies[units] = numbers[:, None]
        self.landing[units] = 0

    def overwritten(self, place: SpacePlace, granule: int) -> None:
        place.put(self.copies, granule, 0)
        place.put(self.landing, granule, 0)

    def land(self, units: Any, number: int, landing: Landing) -> None:
        """Records that the copy `number` has arrived. Skips granules that have been overwritten since the copy."""
        if landing.table is None:
            self.list.append(landing)
            landing.table, landing.number = self, len(self.list)
            if len(self.list) == len(self.blocks):
                self.waited = np.concatenate([self.waited, np.zeros_like(self.waited)])
                self.blocks = np.concatenate([self.blocks, np.zeros_like(self.blocks)])
        own = units[self.copies[units] == number]
        self.landing[own] = landing.number

    def has_waited(self, number: int, threads: Any) -> Any:
        """Returns a mask of `threads`, which must belong to the mbarrier's block: whether each has waited for the
        landing `number`."""
        return self.waited[number, (threads % U(self.block_lanes)).astype(np.int64)]

    def seen_by(self, number: int, threads: Any) -> None:
        """Records that `threads` have waited for the landing `number`. All these threads belong to one block, since
        only threads of an mbarrier's own block can wait for it."""
        size = U(self.block_lanes)
        self.waited[number, (threads % size).astype(np.int64)] = True
        self.blocks[number] = int(threads[0] // size)

    def known(self, units: Any, addresses: Any, g: Any, lanes: Any) -> Any:
        """Returns a mask: whether the copy that filled the granule `units[i]` is complete for the lane `lanes[i]`."""
        which = self.landing[units]
        thread = g.lane("gid")[lanes].astype(np.int64)
        known = self.waited[which, thread % self.block_lanes]
        known &= self.blocks[which] == thread // self.block_lanes
        rest = np.flatnonzero(~known & (which > 0))
        if len(rest):
            known[rest] = self.known_by_order(which[rest], addresses[rest], g, lanes[rest])
        return known

    def known_by_order(self, which: Any, addresses: Any, g: Any, lanes: Any) -> Any:
        """Like `known`, but for lanes that have not waited themselves: checks whether a wait of another thread is
        ordered before the access. Each pair of lane and landing is checked once. The waits of other threads are checked
        one after another, since the first wait is mostly ordered before the access."""
        asked, first, back = np.unique(which.astype(np.int64) * g.n + lanes, return_index=True, return_inverse=True)
        waiters = [self.list[number - 1].waiters for number in which[first].tolist()]
        found, count = np.zeros(len(asked), bool), 0
        rest = [each for each, stamps in enumerate(waiters) if len(stamps)]
        while rest:
            at = first[rest]
            stamps = np.array([waiters[each][count] for each in rest], U)
            found[rest] = g.ordering.ordered(stamps, addresses[at], g, lanes[at])
            count += 1
            rest = [each for each in rest if not found[each] and len(waiters[each]) > count]
        return found[back]
