"""Copies that an mbarrier completes: who knows that they are complete.

`cp.async.mbarrier.arrive` makes copies arrive at an mbarrier.  From then on they are complete for those who have waited
for that phase and for what is ordered after such a wait; for all others, the thread that issued them too, they are in
flight as before.  So their stamps stay, and beside them stands which arrival they came with.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .shadow import SpacePlace
from .stamps import threads_of


class Landing:
    """The copies that arrived in one phase of one mbarrier; `waiters` are stamps of waits that saw it complete."""

    def __init__(self) -> None:
        self.waiters = np.zeros(0, np.uint64)

    def seen_by(self, stamps: Any) -> None:
        fresh = ~np.isin(threads_of(stamps), threads_of(self.waiters))
        self.waiters = np.concatenate([self.waiters, stamps[fresh]])

    def known(self, addresses: Any, g: Any, lanes: Any) -> Any:
        """For lanes (positions in the group): is a wait of theirs, or one ordered before, among the waiters?"""
        known = np.isin(g.lane("gid")[lanes], threads_of(self.waiters))
        for stamp in self.waiters:
            rest = np.flatnonzero(~known)
            if not len(rest):
                break
            known[rest] = g.ordering.ordered(np.full(len(rest), stamp), addresses[rest], g, lanes[rest])
        return known


class Landings:
    """For each granule of a shadow: the copy that last filled it, and its landing (0: none)."""

    def __init__(self, count: int):
        self.copies = np.zeros(count, np.int64)
        self.landing = np.zeros(count, np.int32)
        self.list: list[Landing] = []
        self.numbers: dict[int, int] = {}

    def started(self, units: Any, numbers: Any) -> None:
        self.copies[units] = numbers[:, None]
        self.landing[units] = 0

    def overwritten(self, place: SpacePlace, granule: int) -> None:
        place.put(self.copies, granule, 0)
        place.put(self.landing, granule, 0)

    def land(self, units: Any, number: int, landing: Landing) -> None:
        """The copy `number` has arrived; granules that something else fills since are left alone."""
        at = self.numbers.get(id(landing))
        if at is None:
            self.list.append(landing)
            at = self.numbers[id(landing)] = len(self.list)
        own = units[self.copies[units] == number]
        self.landing[own] = at

    def known(self, units: Any, addresses: Any, g: Any, lanes: Any) -> Any:
        """For accesses to granules by lanes: does the lane know that the copy there is complete?"""
        which = self.landing[units]
        known = np.zeros(len(units), bool)
        for number in np.unique(which[which > 0]).tolist():
            asked = np.flatnonzero(which == number)
            known[asked] = self.list[number - 1].known(addresses[asked], g, lanes[asked])
        return known
