"""Shadow memory: who last wrote and read each granule, and whether an access is ordered after them.

A granule is as large as the smallest access of the PTX to that space.  Four records are kept, each an array of stamps
(`ordering.py`): plain writes, plain reads, strong writes (atomics, volatile, relaxed) and strong reads.  Accesses that
are both strong do not race with each other; any other pair does, when one of them writes and nothing orders them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .code import Site
from .findings import Kind
from .ordering import (
    BLOCK,
    GRID,
    IN_FLIGHT,
    LAST_TIME,
    LEVEL_SHIFT,
    OWNER,
    SITE_MASK,
    TIME_SHIFT,
    WARP,
    History,
    U,
    levels,
    threads_of,
    times,
    without_level,
)

PLAIN_WRITE, PLAIN_READ, STRONG_WRITE, STRONG_READ = range(4)
CHECKED = {
    PLAIN_READ: (PLAIN_WRITE, STRONG_WRITE),
    PLAIN_WRITE: (PLAIN_WRITE, PLAIN_READ, STRONG_WRITE, STRONG_READ),
    STRONG_READ: (PLAIN_WRITE,),
    STRONG_WRITE: (PLAIN_WRITE, PLAIN_READ),
}
WORDS = {PLAIN_WRITE: "written", PLAIN_READ: "read", STRONG_WRITE: "written atomically", STRONG_READ: "read"}


@dataclass
class Place:
    """Where the lanes of a group access a space: units of `size` bytes from `start` on, or at `index` for each lane."""

    size: int
    lanes: int
    start: int = 0
    index: Any = None
    unwritten: bool = False  # in memory that no store of the program can reach

    def take(self, array: Any, unit: int) -> Any:
        """The elements of `unit` bytes that each lane accesses: [lanes], or [lanes, size / unit]."""
        ratio = self.size // unit
        if self.index is None:
            part = array[self.start * ratio : (self.start + self.lanes) * ratio]
            return part if ratio == 1 else part.reshape(-1, ratio)
        return array.take(self.index) if ratio == 1 else array.reshape(-1, ratio).take(self.index, axis=0)

    def put(self, array: Any, unit: int, values: Any) -> None:
        ratio = self.size // unit
        if self.index is None:
            part = array[self.start * ratio : (self.start + self.lanes) * ratio]
            (part if ratio == 1 else part.reshape(-1, ratio))[...] = values
        elif ratio == 1:
            array[self.index] = values
        else:
            array.reshape(-1, ratio)[self.index] = values

    def widened(self, size: int) -> Place:
        """The larger units that contain these."""
        index = self.start + np.arange(self.lanes) if self.index is None else self.index
        return Place(size, self.lanes, 0, index * self.size // size)

    def granules(self, where: Any, granule: int) -> Any:
        """Numbers of the granules at some positions in what `take` gives."""
        units = self.start + where[0] if self.index is None else self.index[where[0]]
        return units if len(where) == 1 else units * (self.size // granule) + where[1]

    def restricted(self, lanes: Any) -> Place:
        index = self.start + lanes if self.index is None else self.index[lanes]
        return Place(self.size, len(lanes), 0, index)


Report = Callable[..., None]


class Shadow:
    """The records of one space.  `private` spaces belong to blocks, so that a block's barrier orders all of theirs."""

    def __init__(
        self, name: str, size: int, granule: int, private: bool, starts_empty: bool, report: Report, base: int = 0
    ):
        """`base` is added to an offset in the space for an address that no other space of the launch has."""
        self.name = name
        self.base = base
        self.granule = granule
        self.count = -(-size // 64) * 64 // granule
        self.private = private
        self.starts_empty = starts_empty
        self.report = report
        self.records: dict[int, Any] = {}
        self.histories: dict[int, History] = {}
        self.read_only_reads: Any = None

    def record(self, kind: int) -> Any:
        found = self.records.get(kind)
        if found is None:
            found = self.records[kind] = np.zeros(self.count, U)
        return found

    # Accesses

    def access(self, kind: int, place: Place, g: Any, site: Site, read_modify: bool = False) -> None:
        """Checks an access against the records that it can race with, then records it."""
        stamps = g.stamps(site)
        column = stamps[:, None] if place.size != self.granule else stamps
        limit = g.limit() if self.private else None
        needs_value = self.starts_empty and (kind in (PLAIN_READ, STRONG_READ) or read_modify)
        if needs_value:
            self.record(PLAIN_WRITE)
        for other in CHECKED[kind]:
            record = self.records.get(other)
            if record is not None:
                met = place.take(record, self.granule)
                suspect = self.suspects(met, column, limit)
                if suspect is not None:
                    self.check(kind, other, place, met, suspect, g, site)
                if needs_value and other == PLAIN_WRITE:
                    self.check_written(met, place, g, site)
        if kind in (PLAIN_WRITE, STRONG_WRITE) and self.read_only_reads is not None:
            self.check_read_only(place, g, site)
        self.note(kind, place, column, limit, g, site)

    def volatile(self, kind: int, place: Place, g: Any, site: Site) -> None:
        """Before a volatile access is recorded: reports a volatile read and a write that nothing orders.

        They do not race, but the read gives what the memory happens to hold.  A read in a loop may wait for the write.
        """
        other = STRONG_WRITE if kind == STRONG_READ else STRONG_READ
        record = self.records.get(other)
        if record is None or (kind == STRONG_READ and site.in_loop):
            return
        stamps = g.stamps(site)
        met = place.take(record, self.granule)
        column = stamps[:, None] if place.size != self.granule else stamps
        suspect = self.suspects(met, column, g.limit() if self.private else None)
        if suspect is None:
            return
        where = np.nonzero(suspect)
        ok, culprits = self.ordered(other, place.granules(where, self.granule), met[suspect], g, where[0])
        for i in np.flatnonzero(~ok):
            first = g.launch.site_of(int(culprits[i]))
            if first is not None and ".volatile" in first.text and not (other == STRONG_READ and first.in_loop):
                verb, done = ("reads", "written") if kind == STRONG_READ else ("writes", "read")
                message = (
                    f"{verb} {self.name} memory that another thread has {done}, both volatile, which orders nothing"
                )
                who = g.launch.who(int(threads_of(culprits[i : i + 1])[0]), int(culprits[i]) & SITE_MASK)
                self.report(Kind.UNORDERED, message, g, int(where[0][i]), site, f"{done} by {who}")
                return

    def suspects(self, met: Any, column: Any, limit: Any) -> Any:
        """Which stamps may be unordered with this access: neither empty nor this thread's nor before a block barrier.

        None when there are none, which is the usual case.
        """
        if limit is not None and met.ndim == 2:
            limit = limit[:, None]
        suspect = met != 0 if limit is None else met >= limit
        if not suspect.any():
            return None
        suspect &= ((met ^ column) & OWNER) != 0
        if limit is not None:
            suspect &= met != 0
        return suspect if suspect.any() else None

    def check(self, kind: int, other: int, place: Place, met: Any, suspect: Any, g: Any, site: Site) -> None:
        where = np.nonzero(suspect)
        found = met[suspect]
        ok, culprits = self.ordered(other, place.granules(where, self.granule), found, g, where[0])
        bad = np.flatnonzero(~ok)
        if len(bad):
            self.conflict(kind, other, culprits[bad], where[0][bad], g, site)

    def ordered(self, kind: int, units: Any, stamps: Any, g: Any, lanes: Any) -> tuple[Any, Any]:
        """Is all that the stamps of a record stand for before what the lanes do now?  And else, what is not?"""
        addresses = self.base + units * self.granule
        several = levels(stamps) == GRID
        if not several.any():
            return g.ordering.ordered(stamps, addresses, g, lanes), stamps
        culprits = stamps.copy()
        ok = g.ordering.ordered(np.where(several, without_level(stamps), stamps), addresses, g, lanes)
        asked = np.flatnonzero(ok & several)
        if len(asked):
            counts, others = self.histories[kind].of(units[asked])
            which = np.repeat(asked, counts)
            bad = ~g.ordering.ordered(others, addresses[which], g, lanes[which])
            ok[which[bad]] = False
            culprits[which[bad]] = others[bad]
        return ok, culprits

    def remember(self, kind: int, units: Any, stamps: Any) -> None:
        """What the stamp in the record, of level GRID, leaves out."""
        if kind not in self.histories:
            self.histories[kind] = History()
        self.histories[kind].add(units, stamps)

    def conflict(self, kind: int, other: int, stamps: Any, lanes: Any, g: Any, site: Site) -> None:
        who = g.launch.who(int(threads_of(stamps[:1])[0]), int(stamps[0]) & SITE_MASK)
        verb = "writes" if kind in (PLAIN_WRITE, STRONG_WRITE) else "reads"
        if int(times(stamps[:1])[0]) == LAST_TIME:
            message = f"{verb} {self.name} memory that an asynchronous copy is still filling"
            self.report(Kind.IN_FLIGHT, message, g, int(lanes[0]), site, f"copy started by {who}")
            return
        message = f"{verb} {self.name} memory that another thread has {WORDS[other]}, with nothing to order the two"
        self.report(Kind.RACE, message, g, int(lanes[0]), site, f"{WORDS[other]} by {who}")

    def check_written(self, stamps: Any, place: Place, g: Any, site: Site) -> None:
        empty = stamps == 0
        if not empty.any():
            return
        strong = self.records.get(STRONG_WRITE)
        if strong is not None:
            empty &= place.take(strong, self.granule) == 0
        if empty.any():
            lane = int(np.nonzero(empty)[0][0])
            self.report(Kind.UNINITIALISED, f"reads {self.name} memory that nobody has written", g, lane, site, None)

    def check_read_only(self, place: Place, g: Any, site: Site) -> None:
        alias = place.take(self.read_only_reads, self.granule) != 0
        if alias.any():
            lane = int(np.nonzero(alias)[0][0])
            self.report(
                Kind.READ_ONLY_ALIAS, "writes memory that ld.global.nc has read in this launch", g, lane, site, None
            )

    def read_only(self, place: Place, g: Any, site: Site) -> None:
        """`ld.global.nc`: the bytes must not be written in the whole launch."""
        for kind in (PLAIN_WRITE, STRONG_WRITE):
            record = self.records.get(kind)
            if record is None:
                continue
            stamps = place.take(record, self.granule)
            if stamps.any():
                lane = int(np.nonzero(stamps)[0][0])
                stamp = int(stamps[stamps != 0][0])
                who = g.launch.who(int(threads_of(U(stamp))), stamp & SITE_MASK)
                message = "ld.global.nc of memory that this launch has written"
                self.report(Kind.READ_ONLY_ALIAS, message, g, lane, site, f"written by {who}")
        if self.read_only_reads is None:
            self.read_only_reads = np.zeros(self.count, np.uint8)
        place.put(self.read_only_reads, self.granule, 1)

    # Recording

    def note(self, kind: int, place: Place, column: Any, limit: Any, g: Any, site: Site) -> None:
        record = self.record(kind)
        if kind == PLAIN_WRITE:
            place.put(record, self.granule, column)
            if place.index is not None:
                again = place.take(record, self.granule)
                lost = again != column
                if lost.any():
                    self.conflict(kind, kind, again[lost], np.nonzero(lost)[0], g, site)
            return
        old = place.take(record, self.granule)
        new = self.combined(kind, place, old, column, limit, g)
        place.put(record, self.granule, new)
        if place.index is not None:
            self.merge_duplicates(kind, place, new, g)

    def combined(self, kind: int, place: Place, old: Any, column: Any, limit: Any, g: Any) -> Any:
        """A stamp replaces what is ordered before it; otherwise it comes to stand for several threads."""
        suspect = self.suspects(old, column, limit)
        if suspect is None:
            return column
        where = np.nonzero(suspect)
        met, units = old[suspect], place.granules(where, self.granule)
        unordered = ~self.ordered(kind, units, met, g, where[0])[0]
        if not unordered.any():
            return column
        new = np.array(np.broadcast_to(column, old.shape))
        mine = np.broadcast_to(column, old.shape)[suspect]
        level = np.where(unordered, g.ordering.relation(met, mine), U(0))
        wide = level == GRID
        if wide.any():
            self.remember(kind, units[wide], met[wide])
        new[suspect] |= level << U(LEVEL_SHIFT)
        return new

    def merge_duplicates(self, kind: int, place: Place, new: Any, g: Any) -> None:
        """Several lanes of one instruction at one granule: one stamp stays and gets the level of all of them."""
        record = self.record(kind)
        again = place.take(record, self.granule)
        where = np.nonzero(again != new)
        if not len(where[0]):
            return
        kept, lost = again[where], np.broadcast_to(new, again.shape)[where]
        level = np.maximum(g.ordering.relation(kept, lost), levels(lost))
        stamps = kept | level << U(LEVEL_SHIFT)
        units = place.granules(where, self.granule)
        widest = level.max()
        if level.min() == widest:
            record[units] = stamps
        else:
            for each in (WARP, BLOCK, GRID):  # the widest is written last
                chosen = level == each
                if chosen.any():
                    record[units[chosen]] = stamps[chosen]
        if widest == GRID:
            wide = levels(record[units]) == GRID
            self.remember(kind, units[wide], lost[wide])
            self.remember(kind, units[wide], kept[wide])

    # Asynchronous copies

    def start_copy(self, place: Place, g: Any, site: Site) -> None:
        """The destination must be free to write; then it is in flight, even for the thread that issued the copy."""
        self.access(PLAIN_WRITE, place, g, site)
        stamps = g.stamps(site) | IN_FLIGHT
        place.put(self.record(PLAIN_WRITE), self.granule, stamps[:, None] if place.size != self.granule else stamps)

    def finish_copy(self, place: Place, stamps: Any, now: int) -> None:
        """The copy has become a write of the thread that issued it, made now."""
        done = stamps | U(now << TIME_SHIFT)
        place.put(self.record(PLAIN_WRITE), self.granule, done[:, None] if place.size != self.granule else done)
