"""Asynchronous reductions in flight, and checks of other accesses to their destinations.

A reduction changes each element by a relaxed strong operation of device scope, at some time between issue and
completion (PTX ISA, "cp.reduce.async.bulk"; `red.async` has cluster scope). Several reductions may therefore change the
same memory at the same time. Any other access to this memory must be ordered before the issue or after the completion.
The records of accesses show whether an access is ordered before the issue.

In global memory a reduction completes when the issuing thread waits for the reduction's bulk group. The reduction then
becomes a strong write of its thread at the time of the wait. In shared memory an mbarrier completes a reduction. The
emulator still keeps this reduction, since it is complete only for threads that know of a wait (`landings.py`).
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
from .stamps import TIME_SHIFT, U


@dataclass(eq=False)
class ReductionInFlight:
    """A reduction that may not be complete. `stamps` has a stamp for each unit. Each stamp names the reducing thread
    and has no time. `landing` is the phase of the mbarrier that completes the reduction."""

    kind: AccessKind
    units: Any
    stamps: Any
    landing: Landing | None = None


class ReductionsInFlight:
    """All waves' reductions in one memory space. `counts` has the number of reductions that change each granule."""

    def __init__(self, shadow: Shadow):
        self.shadow = shadow
        self.counts = np.zeros(shadow.count, np.int32)
        self.entries: dict[int, ReductionInFlight] = {}

    def begin(self, kind: AccessKind, place: SpacePlace, g: Any, site: Site) -> ReductionInFlight:
        """Begins a reduction by these lanes. The caller has checked that the destination is free."""
        units = place.units(self.shadow.granule)
        stamps = np.repeat(g.lane("gid stamp") | U(site.stamp), units.shape[1])
        found = ReductionInFlight(kind, units.reshape(-1), stamps)
        self.entries[id(found)] = found
        # `add.at` is needed, as a granule may be in `units` several times.
        np.add.at(self.counts, found.units, np.int32(1))
        return found

    def end(self, found: ReductionInFlight) -> None:
        del self.entries[id(found)]
        np.subtract.at(self.counts, found.units, np.int32(1))

    def check(self, kind: AccessKind, place: SpacePlace, g: Any, site: Site) -> None:
        """Reports an access to memory that is being reduced. Other reductions of the same kind are allowed."""
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
        """Whether an access by any thread is morally strong with a reduction."""
        everybody = GPU if self.shadow.name == "global" else CLUSTER
        same = bool(kind.size) and (kind.size, kind.proxy) == (other.size, other.proxy)
        return same and min(kind.scope, other.scope) >= everybody

    def is_known(self, found: ReductionInFlight, kind: AccessKind, units: Any, lanes: Any, g: Any) -> bool:
        """Whether all of these lanes know that the reduction is complete. If they all know and the access is a plain
        write, the overwritten units no longer belong to the reduction."""
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
        who = g.launch.origins.author(found.stamps[np.argmax(found.units == units[0])])
        verb = "writes" if kind.base in WRITES else "reads"
        message = f"{verb} {self.shadow.name} memory that an asynchronous reduction is still changing"
        self.shadow.report(Kind.IN_FLIGHT, message, g, int(lanes[0]), site, f"reduction started by {who}")

    def complete(self, found: ReductionInFlight, place: SpacePlace, g: Any, site: Site) -> None:
        """Completes a reduction, since its thread has waited for it. The reduction becomes a strong write at the
        current time. `place` and `g` are the arguments of `begin`."""
        self.end(found)
        stamps = g.stamps(site)
        column = stamps[:, None] if place.size != self.shadow.granule else stamps
        self.shadow.note(found.kind, place, column, None, g, site)

    def end_launch(self, now: int) -> None:
        """At the end of a launch, completes the reductions that no thread has waited for."""
        for found in self.entries.values():
            self.shadow.record(found.kind)[found.units] = found.stamps | U(now << TIME_SHIFT)
