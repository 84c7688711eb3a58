"""Asynchronous reductions in flight. Checks other accesses to their destinations.

A reduction changes each element at some time between its issue and its completion, by a relaxed strong operation. The
scope is the device (PTX ISA, "cp.reduce.async.bulk"), or the cluster for `red.async`. So several reductions may change
the same memory at the same time. Any other access to this memory must be ordered before the issue, which `shadow.py`
checks, or after the completion, which this module checks.

A reduction in global memory completes when its thread waits for its bulk group. It then becomes a strong write of that
thread, at the time of the wait. A reduction in shared memory completes at an mbarrier. The emulator still keeps it,
since it is complete only for threads that know of a wait for the mbarrier (`landings.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from .code import Site
from .findings import Kind
from .knowledge import CLUSTER, GPU
from .landings import Landing
from .shadow import PLAIN_WRITE, WRITES, AccessKind, Shadow, SpacePlace
from .stamps import TIME_SHIFT, U


class ReductionInFlight(Struct, eq=False):
    """A reduction that may not be complete. `stamps` names the reducing thread of each unit, without a time. `landing`
    is the phase of the mbarrier that completes the reduction, or None."""

    kind: AccessKind
    units: Any
    stamps: Any
    landing: Landing | None = None


class ReductionsInFlight:
    """The reductions of all waves in one memory space. `counts` has the number of reductions that are changing each
    granule."""

    def __init__(self, shadow: Shadow):
        self.shadow = shadow
        self.counts = np.zeros(shadow.count, np.int32)
        self.entries: dict[int, ReductionInFlight] = {}

    def begin(self, kind: AccessKind, place: SpacePlace, g: Any, site: Site) -> ReductionInFlight:
        """Begins a reduction by these lanes. The caller must have checked the access to the destination."""
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
        """Reports an access to memory that a reduction is changing. Other reductions of the same kind are allowed."""
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
        """Returns whether an access of any thread is morally strong with a reduction."""
        everybody = GPU if self.shadow.name == "global" else CLUSTER
        same = bool(kind.size) and (kind.size, kind.proxy) == (other.size, other.proxy)
        return same and min(kind.scope, other.scope) >= everybody

    def is_known(self, found: ReductionInFlight, kind: AccessKind, units: Any, lanes: Any, g: Any) -> bool:
        """Returns whether all these lanes know that the reduction is complete. If they do and the access is a plain
        write, the written units are removed from the reduction."""
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
        """Completes a reduction whose thread has waited for it. The reduction becomes a strong write at the current
        time. `place` and `g` must be the arguments of `begin`."""
        self.end(found)
        stamps = g.stamps(site)
        column = stamps[:, None] if place.size != self.shadow.granule else stamps
        self.shadow.note(found.kind, place, column, None, g, site)

    def end_launch(self, now: int) -> None:
        """At the end of a launch, completes the reductions that no thread has waited for. They become strong writes at
        the time `now`."""
        for found in self.entries.values():
            self.shadow.record(found.kind)[found.units] = found.stamps | U(now << TIME_SHIFT)
