"""Checks a launch that may overlap earlier launches of its stream: its accesses must not conflict with theirs.

A launch with the attribute "programmatic stream serialization" may start before the previous launch has ended. It
starts once all blocks of the previous launch have executed `griddepcontrol.launch_dependents` or ended (CUDA
programming guide, "Programmatic Dependent Launch and Synchronization"). Only `griddepcontrol.wait` then orders the
accesses of the two launches. A thread continues after the wait when the earlier grids have completed, and sees their
writes (PTX ISA, "griddepcontrol").

The emulator runs launches one after another. For each launch it keeps the accessed addresses and the instructions that
accessed them. In an overlapping launch, a thread is early until it has waited, or until a wait by another thread of its
block is ordered before it. An access of an early thread must not conflict with an access of an earlier launch. In a
chain of three launches, the third also overlaps the first: the second may let it start before having waited itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from .code import Site
from .findings import Kind
from .memory import GLOBAL_WINDOW, EmulatedAllocation
from .origins import Origins
from .shadow import SpacePlace
from .stamps import U

# For a thread that has not waited itself, at most this many waits by other threads of its block are tried, earliest
# first.
MOST_ASKED = 64


class Touched(Struct, frozen=True):
    """The accesses of a launch to the addresses from `start` to `end`. `reads` and `writes` have the stamp of the last
    read and the last write of each granule, or 0. The first granule is at the address `base`. `origins` names the
    threads of the stamps, or is None if the threads are unknown."""

    start: int
    end: int
    base: int
    granule: int
    reads: Any
    writes: Any
    origins: Origins | None
    kernel: str

    @classmethod
    def somehow(cls, start: int, size: int, kernel: str) -> Touched:
        """Returns a `Touched` for memory of which a launch may have read and written any part."""
        return cls(start, start + size, start, max(size, 1), np.ones(1, U), np.ones(1, U), None, kernel)

    def moved(self, start: int, end: int, by: int) -> Touched | None:
        """Returns the part from `start` to `end`, with `by` added to its addresses. Returns None if the part is
        empty."""
        low, high = max(self.start, start), min(self.end, end)
        if low >= high:
            return None
        return replace(self, start=low + by, end=high + by, base=self.base + by)

    def met(self, stamps: Any, addresses: Any, size: int) -> Any:
        """Returns the largest stamp of the granules that each access of `size` bytes touches. Returns 0 for an access
        if none of its granules has a stamp."""
        found = np.zeros(len(addresses), U)
        lanes = np.flatnonzero((addresses + size > self.start) & (addresses < self.end))
        if not len(lanes):
            return found
        first = (np.maximum(addresses[lanes], self.start) - self.base) // self.granule
        last = (np.minimum(addresses[lanes] + size, self.end) - 1 - self.base) // self.granule
        for further in range(int((last - first).max()) + 1):
            found[lanes] = np.maximum(found[lanes], stamps[np.minimum(first + further, last)])
        return found


class Overlap:
    """Checks the accesses of a launch against earlier launches, and keeps them for later launches.

    `before` has the accesses of the launches that this launch overlaps. It is None if all earlier launches have ended
    before this launch starts.
    """

    def __init__(self, launch: Any, before: Sequence[Touched] | None, keeps: bool) -> None:
        self.launch, self.before, self.keeps = launch, before, keeps
        self.granule = launch.device.shadow.granule
        count = launch.device.shadow.count if keeps else 0
        self.reads, self.writes = np.zeros(count, U), np.zeros(count, U)
        self.waited = np.zeros((launch.blocks, launch.block_lanes), U)  # the stamp of each thread's first wait, or 0

    def access(self, place: SpacePlace, g: Any, site: Site, write: bool) -> None:
        """Checks an access to global memory against the earlier launches, and keeps it for later launches."""
        if self.before is not None:
            self.check(self.before, place, g, site, write)
        if self.keeps:
            stamps = g.stamps(site)
            if place.size < self.granule:  # a single byte, from a copy whose source is short
                place = place.widened(self.granule)
            wide = stamps[:, None] if place.size != self.granule else stamps
            place.put(self.writes if write else self.reads, self.granule, wide)

    def check(self, before: Sequence[Touched], place: SpacePlace, g: Any, site: Site, write: bool) -> None:
        early = np.flatnonzero(self.waited.reshape(-1)[g.lane("gid").astype(np.int64)] == 0)
        if not len(early):
            return
        units = place.start + early if place.index is None else place.index[early]
        addresses = units * place.size + GLOBAL_WINDOW
        for each in before:
            # A read conflicts only with writes. A write conflicts with reads and writes.
            for done, stamps in (("written", each.writes), ("read", each.reads)):
                if done == "read" and not write:
                    continue
                met = each.met(stamps, addresses, place.size)
                hit = np.flatnonzero(met)
                bad = hit[~self.knows(g, early[hit], addresses[hit])] if len(hit) else hit
                if len(bad):
                    verb = "writes" if write else "reads"
                    self.report(f"{verb} global memory", each, done, int(met[bad[0]]), g, int(early[bad[0]]), site)
                    return

    def report(self, what: str, each: Touched, done: str, stamp: int, g: Any, lane: int, site: Site) -> None:
        message = (
            f"{what} that {each.kernel} has {done}, which may still run: the launches in front of this one "
            "have ended only after griddepcontrol.wait"
        )
        last = None
        if each.origins is not None:
            last = f"{done} by {each.origins.author(stamp)} of {each.kernel}"
        self.launch.report(Kind.RACE, message, g, lane, site, last)

    def knows(self, g: Any, lanes: Any, addresses: Any) -> Any:
        """Returns a mask of the lanes that are ordered after a wait by another thread of their block."""
        blocks = (g.lane("gid")[lanes] // U(self.launch.block_lanes)).astype(np.int64)
        known = np.zeros(len(lanes), bool)
        for block in np.unique(blocks):
            mine = np.flatnonzero(blocks == block)
            waits = np.sort(self.waited[block][self.waited[block] != 0])
            for stamp in waits[:MOST_ASKED]:
                stamps = np.full(len(mine), stamp, U)
                known[mine] |= g.ordering.ordered(stamps, addresses[mine], g, lanes[mine])
                if known[mine].all():
                    break
        return known

    def wait(self, g: Any, site: Site) -> None:
        """Executes `griddepcontrol.wait`. For these threads, the earlier launches have then ended."""
        waited, gid = self.waited.reshape(-1), g.lane("gid").astype(np.int64)
        first = waited[gid] == 0
        waited[gid[first]] = g.stamps(site)[first]

    def left(self, g: Any, site: Site | None) -> None:
        """Notes that these threads have ended. Reports a block of which no thread has executed `griddepcontrol.wait`.

        Without a wait, a grid may complete while earlier launches still run. The next launch may then overlap them,
        although it waits for this launch.
        """
        if self.before is None:
            return
        wave, slots = g.wave, np.unique(g.lane("slot"))
        gone = slots[~wave.live.reshape(wave.slots, -1)[slots].any(1)]
        bad = gone[~self.waited[wave.blocks[gone]].any(1)]
        if len(bad):
            message = (
                "the block ends without griddepcontrol.wait: what comes after this launch may begin before the "
                "launches in front of it have ended"
            )
            lane = int(np.flatnonzero(g.lane("slot") == bad[0])[0])
            self.launch.report(Kind.NO_WAIT, message, g, lane, site)

    def touched(self, allocations: Sequence[EmulatedAllocation], kernel: str) -> list[Touched]:
        """Returns the launch's accesses to these allocations."""
        made = []
        for each in allocations:
            start, end = each.address - GLOBAL_WINDOW, each.end - GLOBAL_WINDOW
            units = slice(start // self.granule, -(-end // self.granule))
            reads, writes = self.reads[units].copy(), self.writes[units].copy()
            if reads.any() or writes.any():
                base = start // self.granule * self.granule + GLOBAL_WINDOW
                origins = self.launch.origins
                made.append(Touched(each.address, each.end, base, self.granule, reads, writes, origins, kernel))
        return made
