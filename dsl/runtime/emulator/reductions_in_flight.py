"""Asynchronous reductions in flight, and who may access their destinations meanwhile.

Each element is reduced by a relaxed strong operation of device scope, at some time between issue and completion (PTX
ISA, "cp.reduce.async.bulk"; `red.async` has cluster scope). So many may reduce into one place at a time. Any other
access to it must be ordered: before the issue, which the records show, or after the completion.

In global memory a wait for the group completes a reduction, which then is a strong write of its thread, made at that
time. In shared memory an mbarrier completes it. The entry stays, since it is complete only for those who know that they
have waited (`landings.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .code import Site
from .findings import Kind
from .knowledge import CLUSTER, GPU
from .landings import Landing
from .shadow import PLAIN_WRITE, WRITES, AccessKind, Shadow, SpacePlace
from .stamps import SITE_MASK, TIME_SHIFT, U, threads_of


@dataclass(eq=False)
class ReductionInFlight:
    """stamps: who reduces each unit, without the time. landing: the phase in which it has arrived."""

    kind: AccessKind
    units: Any
    stamps: Any
    landing: Landing | None = None


class ReductionsInFlight:
    """The reductions in one space, by all waves. counts: [granules], how many of them change each."""

    def __init__(self, shadow: Shadow):
        self.shadow = shadow
        self.counts = np.zeros(shadow.count, np.int32)
        self.entries: dict[int, ReductionInFlight] = {}

    def begin(self, kind: AccessKind, place: SpacePlace, g: Any, site: Site) -> ReductionInFlight:
        """The lanes reduce into these units, which are free for that."""
        units = place.units(self.shadow.granule)
        stamps = np.repeat(g.lane("gid stamp") | U(site.stamp), units.shape[1])
        found = ReductionInFlight(kind, units.reshape(-1), stamps)
        self.entries[id(found)] = found
        # `add.at`, as one granule may be in `units` several times.
        np.add.at(self.counts, found.units, np.int32(1))
        return found

    def end(self, found: ReductionInFlight) -> None:
        del self.entries[id(found)]
        np.subtract.at(self.counts, found.units, np.int32(1))

    def check(self, kind: AccessKind, place: SpacePlace, g: Any, site: Site) -> None:
        """Reports an access to what is being reduced, unless it is another reduction of the same kind."""
        if not self.entries:
            return
        units = place.units(self.shadow.granule)
        met = self.counts[units] > 0
        if not met.any():
            return
        for found in list(self.entries.values()):
            if self.agree(kind, found.kind):
                continue
            where = np.nonzero(met & np.isin(units, found.units))
            if len(where[0]) and not self.is_known(found, kind, units[where], where[0], g):
                self.report(found, kind, units[where], where[0], g, site)
                return

    def agree(self, kind: AccessKind, other: AccessKind) -> bool:
        """Is an access morally strong with a reduction, from any thread?"""
        everybody = GPU if self.shadow.name == "global" else CLUSTER
        same = bool(kind.size) and (kind.size, kind.proxy) == (other.size, other.proxy)
        return same and min(kind.scope, other.scope) >= everybody

    def is_known(self, found: ReductionInFlight, kind: AccessKind, units: Any, lanes: Any, g: Any) -> bool:
        """Do all of these lanes know that it is complete? A plain write that replaces it removes it."""
        if found.landing is None:
            return False
        if not found.landing.known(self.shadow.base + units * self.shadow.granule, g, lanes).all():
            return False
        if kind.base == PLAIN_WRITE:
            self.end(found)
            rest = ~np.isin(found.units, units)
            if rest.any():
                left = ReductionInFlight(found.kind, found.units[rest], found.stamps[rest], found.landing)
                self.entries[id(left)] = left
                np.add.at(self.counts, left.units, np.int32(1))
        return True

    def report(self, found: ReductionInFlight, kind: AccessKind, units: Any, lanes: Any, g: Any, site: Site) -> None:
        stamp = found.stamps[np.flatnonzero(found.units == units[0])[:1]]
        who = g.launch.who(int(threads_of(stamp)[0]), int(stamp[0]) & SITE_MASK)
        verb = "writes" if kind.base in WRITES else "reads"
        message = f"{verb} {self.shadow.name} memory that an asynchronous reduction is still changing"
        self.shadow.report(Kind.IN_FLIGHT, message, g, int(lanes[0]), site, f"reduction started by {who}")

    def complete(self, found: ReductionInFlight, place: SpacePlace, g: Any, site: Site) -> None:
        """Its thread has waited for it: it becomes a strong write, made now. place and g are those of `begin`."""
        self.end(found)
        stamps = g.stamps(site)
        column = stamps[:, None] if place.size != self.shadow.granule else stamps
        self.shadow.note(found.kind, place, column, None, g, site)

    def end_launch(self, now: int) -> None:
        """At the end of a launch those that nobody has waited for are complete, too."""
        for found in self.entries.values():
            self.shadow.record(found.kind)[found.units] = found.stamps | U(now << TIME_SHIFT)
