"""Shadow memory: records the last writes and reads of each granule of a memory space, and detects races.

A granule has as many bytes as the smallest access to the space in the PTX text. Each access has a stamp: time, thread
and instruction (`stamps.py`). A record is an array with one stamp for each granule. There is one record for plain
writes, one for plain reads, and one for plain reads that an `atom.cas` checks later (`guesses.py`). Strong writes and
reads (atomics, volatile, relaxed) have one record for each scope and size.

Two accesses race if one of them writes, nothing orders them, and they are not morally strong. Two accesses are morally
strong if both are strong, have one size, and each is in the other's scope (PTX ISA 8.7).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from .alike import as_the_last
from .causality import Strong
from .code import Site
from .findings import Kind
from .knowledge import GPU
from .memory import GLOBAL_WINDOW
from .ordering import History
from .stamps import (
    BLOCK,
    GRID,
    IN_FLIGHT,
    LAST_TIME,
    LEVEL_SHIFT,
    OWNER,
    SITE_MASK,
    TIME_SHIFT,
    WARP,
    U,
    levels,
    times,
    without_level,
)

PLAIN_WRITE, PLAIN_READ, STRONG_WRITE, STRONG_READ, GUESS_READ = range(5)
# For each kind of access, the kinds of earlier accesses with which it races if nothing orders the two. Two strong
# accesses race only if their scopes, sizes or proxies differ (`may_race`).
CHECKED = {
    PLAIN_READ: (PLAIN_WRITE, STRONG_WRITE),
    PLAIN_WRITE: (PLAIN_WRITE, PLAIN_READ, STRONG_WRITE, STRONG_READ, GUESS_READ),
    STRONG_READ: (PLAIN_WRITE,),
    STRONG_WRITE: (PLAIN_WRITE, PLAIN_READ, GUESS_READ),
    GUESS_READ: (PLAIN_WRITE, STRONG_WRITE),
}
NOTED = {(GUESS_READ, STRONG_WRITE), (STRONG_WRITE, GUESS_READ)}  # harmless races (`guesses.py`)
WORDS = {
    PLAIN_WRITE: "written",
    PLAIN_READ: "read",
    STRONG_WRITE: "written atomically",
    STRONG_READ: "read",
    GUESS_READ: "read",
}
WRITES = {PLAIN_WRITE, STRONG_WRITE}


class AccessKind(NamedTuple):
    """The kind of the accesses in one record. `base` is a constant such as PLAIN_WRITE. For strong accesses, `scope`
    and `size` are the scope and the size of an element in bytes.

    `warp` is a warp's number in its block if each warp has its own record, else -1. `proxy` is true for accesses
    through the asynchronous proxy. Strong accesses through two proxies are not morally strong (PTX ISA 8.7.1).
    """

    base: int
    scope: int = GPU
    size: int = 0
    warp: int = -1
    proxy: bool = False


class SpacePlace(Struct):
    """Where the lanes of a group access a space, in units of `size` bytes. `index` has the unit of each lane.

    In the usual case the lanes access consecutive units from `start` on. Then `index` is None, and slices replace index
    arrays.
    """

    size: int
    lanes: int
    start: int = 0
    index: Any = None
    unwritten: bool = False  # whether no store of the program can reach the memory

    def take(self, array: Any, unit: int) -> Any:
        """Returns the elements of `array` that each lane accesses, as an array [lanes] or [lanes, size / unit]. Each
        element stands for `unit` bytes."""
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

    def widened(self, size: int) -> SpacePlace:
        """Returns the larger units of `size` bytes that contain these units."""
        index = self.start + np.arange(self.lanes) if self.index is None else self.index
        return SpacePlace(size, self.lanes, 0, index * self.size // size)

    def granules(self, where: Any, granule: int) -> Any:
        """Converts positions in the result of `take` to numbers of granules. `where` has the positions, as `np.nonzero`
        returns them."""
        units = self.start + where[0] if self.index is None else self.index[where[0]]
        return units if len(where) == 1 else units * (self.size // granule) + where[1]

    def units(self, granule: int) -> Any:
        """Returns the numbers of the granules, as an array [lanes, granules of each lane]."""
        ratio = self.size // granule
        index = self.start + np.arange(self.lanes) if self.index is None else self.index
        return index[:, None] * ratio + np.arange(ratio)

    def covered(self, granule: int) -> Any:
        """Returns the numbers of all accessed granules. If several lanes access a granule, its number occurs several
        times."""
        return self.units(granule).reshape(-1)

    def restricted(self, lanes: Any) -> SpacePlace:
        index = self.start + lanes if self.index is None else self.index[lanes]
        return SpacePlace(self.size, len(lanes), 0, index)


Report = Callable[..., None]


class Shadow:
    """The records of one memory space. In a `private` space each block has its own part, so a barrier of the block
    orders all accesses to this part."""

    def __init__(
        self,
        name: str,
        size: int,
        granule: int,
        private: bool,
        starts_empty: bool,
        report: Report,
        base: int = 0,
        exact: bool = False,
    ):
        """`base` is added to offsets in the space, so that addresses in different spaces of the launch differ.

        `exact` states that threads may synchronise one by one. Then a stamp must not stand for a whole warp or block.
        Plain reads of shared memory are an exception, since mostly all threads read a granule at once and synchronise
        together.
        """
        self.name = name
        self.base = base
        self.exact = exact
        self.granule = granule
        self.count = -(-size // 64) * 64 // granule
        self.private = private
        self.starts_empty = starts_empty
        self.report = report
        self.records: dict[AccessKind, Any] = {}
        self.histories: dict[AccessKind, History] = {}
        self.read_only_reads: Any = None
        # Few programs need these tables. Each is made when it is first needed.
        self.unwritten: Any = None  # a mask of the granules of global memory that nobody has written (`scratch.py`)
        self.reserved: Any = None  # a mask of the granules that are part of a valid mbarrier
        self.sources: Any = None  # memory that asynchronous copies read now (`copies.py`)
        self.reductions: Any = None  # memory that asynchronous reductions change now (`reductions_in_flight.py`)
        self.landings: Any = None  # copies that mbarriers complete (`landings.py`)
        self.by_warps = False  # whether each warp of a block has its own record of plain reads
        self.readings: Any = None  # memory that matrix products have read (`products.py`)
        self.by_proxy: Any = None  # a mask of the granules whose last plain write was by the asynchronous proxy

    def record(self, kind: AccessKind) -> Any:
        found = self.records.get(kind)
        if found is None:
            # Stamp 0 means no access, as the time of a launch begins at 2.
            found = self.records[kind] = np.zeros(self.count, U)
        return found

    def kind_of(self, base: int, strong: Strong | None, by_proxy: bool = False) -> AccessKind:
        if strong is None:
            return AccessKind(base)
        # Only one block accesses a private space, and each scope includes the whole block.
        return AccessKind(base, GPU if self.private else strong.scope, strong.size, proxy=by_proxy)

    # Accesses

    def access(
        self,
        base: int,
        place: SpacePlace,
        g: Any,
        site: Site,
        strong: Strong | None = None,
        read_modify: bool = False,
        record: bool = True,
        values: Any = None,
        by_proxy: bool = False,
    ) -> None:
        """Checks an access for races with earlier accesses, then records it.

        `values` are the values that a store writes. `by_proxy` is true for a strong access through the asynchronous
        proxy. If `record` is false, the access is only checked. Reads of copies are recorded later, when the copies are
        complete.
        """
        kind = self.kind_of(base, strong, by_proxy)
        # Each table below exists only in programs that need it.
        if self.reserved is not None:
            self.check_reserved(base, place, g, site)
        if self.reductions is not None:
            self.reductions.check(kind, place, g, site)
        if self.sources is not None and base in (PLAIN_WRITE, STRONG_WRITE):
            self.sources.check_write(place, g, site)
        if self.readings is not None and base in WRITES:
            self.readings.check_write(place, g, site)
        stamps = g.stamps(site)
        column = stamps[:, None] if place.size != self.granule else stamps
        limit = g.limit() if self.private else None
        may_be_empty = self.starts_empty or self.unwritten is not None
        needs_value = may_be_empty and (base in (PLAIN_READ, STRONG_READ, GUESS_READ) or read_modify)
        if needs_value:
            # The record of plain writes must exist, since the check for reads of unwritten memory uses it.
            self.record(AccessKind(PLAIN_WRITE))
        for other, known in self.records.items():
            is_plain_write = other.base == PLAIN_WRITE
            if self.may_race(kind, other):
                met = place.take(known, self.granule)
                suspect = self.suspects(met, column, limit)
                if suspect is not None:
                    self.check(kind, other, place, met, suspect, g, site)
                if needs_value and is_plain_write:
                    self.check_written(met, place, g, site)
        if base in WRITES and self.read_only_reads is not None:
            self.check_read_only(place, g, site)
        if not record:
            return
        if self.by_warps and base == PLAIN_READ:
            self.note_by_warps(kind, place, column, limit, g, site)
        else:
            self.note(kind, place, column, limit, g, site, values)

    def is_even(self, units: Any, size: int) -> bool:
        """Returns whether the units in each row of `units` have equal records, as after the copy of a whole TMA box. A
        unit has `size` bytes. The result is False if there are strong writes, since their order may depend on the
        address."""
        tables = [known for kind, known in self.records.items() if kind.base == PLAIN_WRITE]
        if self.landings is not None:
            tables.append(self.landings.landing)
        tables += [table for table in (self.by_proxy, self.reserved) if table is not None]
        ratio = size // self.granule
        for table in tables:
            met = table.reshape(-1, ratio)[units].reshape(len(units), -1)
            if (met != met[:, :1]).any():
                return False
        strong = (known for kind, known in self.records.items() if kind.base == STRONG_WRITE)
        return not any(known.reshape(-1, ratio)[units].any() for known in strong)

    def note_by_warps(self, kind: AccessKind, place: SpacePlace, column: Any, limit: Any, g: Any, site: Site) -> None:
        """Records the accesses separately for each warp, so that a stamp never stands for several warps."""
        warps = g.index() % g.wave.block_lanes >> 5
        for warp in np.unique(warps).tolist():
            lanes = np.flatnonzero(warps == warp)
            own = None if limit is None else limit[lanes]
            self.note(kind._replace(warp=warp), place.restricted(lanes), column[lanes], own, g.part(lanes), site)

    def may_race(self, kind: AccessKind, other: AccessKind) -> bool:
        """Returns whether accesses of two kinds can race. Two strong accesses can race only if they differ in scope,
        size, warp or proxy, or if their scope is below .gpu."""
        if other.base in CHECKED[kind.base]:
            return True
        is_conflict = kind.base in WRITES or other.base in WRITES
        return is_conflict and bool(kind.size and other.size) and not (kind[1:] == other[1:] and kind.scope == GPU)

    def volatile(self, base: int, place: SpacePlace, g: Any, site: Site) -> None:
        """Reports a volatile read and a volatile write that nothing orders. Call this function before the access is
        recorded.

        Such accesses do not race, but the value that the read returns depends on timing. A read in a loop is not
        reported, since the loop may wait for the write.
        """
        wanted = STRONG_WRITE if base == STRONG_READ else STRONG_READ
        if base == STRONG_READ and site.in_loop:
            return
        for kind in [kind for kind in self.records if kind.base == wanted]:
            for lane, stamp in zip(*self.unordered_with(kind, place, g, site), strict=True):
                first = g.launch.origins.site_of(int(stamp))
                # Only two volatile accesses are reported. A read in a loop may wait for the write, so it is not
                # reported.
                if first is not None and ".volatile" in first.text and not (wanted == STRONG_READ and first.in_loop):
                    verb, done = ("reads", "written") if base == STRONG_READ else ("writes", "read")
                    message = (
                        f"{verb} {self.name} memory that another thread has {done}, both volatile, which orders nothing"
                    )
                    author = g.launch.origins.author(stamp)
                    self.report(Kind.UNORDERED, message, g, int(lane), site, f"{done} by {author}")
                    return

    def unordered_with(self, kind: AccessKind, place: SpacePlace, g: Any, site: Site) -> tuple[Any, Any]:
        """Finds earlier accesses of this kind that are not ordered before the current access. Returns the lanes that
        meet them, and the stamps of the earlier accesses."""
        stamps = g.stamps(site)
        met = place.take(self.records[kind], self.granule)
        column = stamps[:, None] if place.size != self.granule else stamps
        suspect = self.suspects(met, column, g.limit() if self.private else None)
        if suspect is None:
            return np.zeros(0, np.int64), np.zeros(0, U)
        where = np.nonzero(suspect)
        ok, culprits = self.ordered(kind, place.granules(where, self.granule), met[suspect], g, where[0])
        return where[0][~ok], culprits[~ok]

    def suspects(self, met: Any, column: Any, limit: Any) -> Any:
        """Returns a mask of the stamps in `met` that may be unordered with this access. Excluded are empty stamps,
        stamps of the same thread, and stamps before a barrier of the block.

        Returns None if no stamp remains, which is the usual case.
        """
        if limit is not None and met.ndim == 2:
            limit = limit[:, None]
        suspect = met != 0 if limit is None else met >= limit
        # For a mask of up to 10,000 elements, `count_nonzero` takes a third of the time of `any` (0.3 of 1.1 us).
        if not np.count_nonzero(suspect):
            return None
        suspect &= ((met ^ column) & OWNER) != 0
        if limit is not None:
            suspect &= met != 0
        return suspect if np.count_nonzero(suspect) else None

    def check(
        self, kind: AccessKind, other: AccessKind, place: SpacePlace, met: Any, suspect: Any, g: Any, site: Site
    ) -> None:
        # In a copy's group, `g.each` neighbouring lanes are the rows of one thread's copy.
        if g.each > 1 and other not in self.histories and not g.ordering.causality.held:
            self.ask_once(place, met, suspect, g)
        if self.landings is not None and other.base == PLAIN_WRITE:
            where = np.nonzero(suspect)
            units = place.granules(where, self.granule)
            suspect[where] = ~self.landings.known(units, self.base + units * self.granule, g, where[0])
        where = np.nonzero(suspect)
        if not len(where[0]):
            return
        found, units = met[suspect], place.granules(where, self.granule)
        both_strong = other.base not in CHECKED[kind.base]
        agree = both_strong and (kind.size, kind.proxy) == (other.size, other.proxy)
        scope = min(kind.scope, other.scope) if agree else None
        ok, culprits = self.ordered(other, units, found, g, where[0], scope)
        bad = np.flatnonzero(~ok)
        if len(bad):
            self.conflict(kind, other, culprits[bad], where[0][bad], g, site)

    def ask_once(self, place: SpacePlace, met: Any, suspect: Any, g: Any) -> None:
        """Removes redundant checks from `suspect`. Of neighbouring granules of one thread with equal records, only the
        first is kept.

        For example, a copy into a TMA box of 16 KiB overwrites 2,048 granules that one earlier copy has filled. This
        function shortened a 1024 x 1024 x 1024 product from 1.99 to 1.70 s. It is not for threads that have learned of
        writes by reading memory: they may know a write at one address and not at the next. Nor is it for records with a
        history of several blocks.
        """
        boxes = met.reshape(g.n // g.each, -1)
        alike = boxes[:, 1:] == boxes[:, :-1]
        if self.landings is not None:
            landing = place.take(self.landings.landing, self.granule).reshape(boxes.shape)
            alike &= landing[:, 1:] == landing[:, :-1]
        asked = suspect.reshape(boxes.shape)
        alike &= asked[:, :-1]
        asked[:, 1:] &= ~alike

    def ordered(
        self, kind: AccessKind, units: Any, stamps: Any, g: Any, lanes: Any, scope: int | None = None
    ) -> tuple[Any, Any]:
        """Returns two arrays with an entry for each stamp. The first states whether all accesses that the stamp stands
        for are ordered before the lane's current access. If one is not, the second has its stamp.

        With a `scope`, an access also counts as ordered if its thread is in this scope of the lane.
        """
        addresses = self.base + units * self.granule

        def one_by_one(each: Any, addresses: Any, lanes: Any) -> Any:
            ok = g.ordering.ordered(each, addresses, g, lanes)
            return ok if scope is None else ok | ~g.ordering.beyond(scope, each, g.lane("gid stamp")[lanes])

        # A stamp of level GRID stands for threads of several blocks. The history has all their stamps.
        several = levels(stamps) == GRID
        if not several.any():
            return one_by_one(stamps, addresses, lanes), stamps
        culprits = stamps.copy()
        ok = one_by_one(np.where(several, without_level(stamps), stamps), addresses, lanes)
        asked = np.flatnonzero(ok & several)
        if len(asked):
            counts, others = self.histories[kind].of(units[asked])
            which = np.repeat(asked, counts)
            bad = ~one_by_one(others, addresses[which], lanes[which])
            ok[which[bad]] = False
            culprits[which[bad]] = others[bad]
        return ok, culprits

    def unordered(self, base: int, place: SpacePlace, g: Any, site: Site) -> tuple[int, str] | None:
        """Finds an earlier access of kind `base` that is not ordered before the current access. Returns the lane that
        meets it, and a text that names the earlier access. Returns None if there is none."""
        for kind in self.records:
            if kind.base == base:
                lanes, stamps = self.unordered_with(kind, place, g, site)
                if len(lanes):
                    return int(lanes[0]), g.launch.origins.author(stamps[0])
        return None

    def remember(self, kind: AccessKind, units: Any, stamps: Any) -> None:
        """Adds stamps to the history. The record keeps only one stamp for each granule, with the level GRID."""
        if kind not in self.histories:
            self.histories[kind] = History()
        self.histories[kind].add(units, stamps)

    def conflict(
        self, kind: AccessKind, other: AccessKind, stamps: Any, lanes: Any, g: Any, site: Site, same: Any = None
    ) -> None:
        """Reports a race with the access of the first stamp. `same` is a mask of the lanes that store the value that is
        there already (`alike.py`)."""
        alike = self.alike(kind, other, stamps, g, site) | (False if same is None else same)
        if not alike.all():
            stamps, lanes = stamps[~alike], lanes[~alike]
        who = g.launch.origins.author(stamps[0])
        verb = "writes" if kind.base in WRITES else "reads"
        # A copy in flight has the latest possible time, so that no access is ordered after it.
        if int(times(stamps[:1])[0]) == LAST_TIME:
            message = f"{verb} {self.name} memory that an asynchronous copy is still filling"
            self.report(Kind.IN_FLIGHT, message, g, int(lanes[0]), site, f"copy started by {who}")
            return
        words, reason = WORDS[other.base], "with nothing to order the two"
        if kind.size and other.size:
            apart = "of another size" if kind.size != other.size else "in a scope without the other"
            reason = f"{'by another proxy' if kind.proxy != other.proxy else apart}, {reason}"
        message = f"{verb} {self.name} memory that another thread has {words}, {reason}"
        if (kind.base, other.base) in NOTED:
            message += "; what is read is only a guess that atom.cas checks"
        elif alike.all():
            message += "; both write the same"
        if alike.all() or (kind.base, other.base) in NOTED:
            g.launch.note(Kind.RACE, message, g, int(lanes[0]), site, f"{words} by {who}")
            return
        self.report(Kind.RACE, message, g, int(lanes[0]), site, f"{words} by {who}")

    def alike(self, kind: AccessKind, other: AccessKind, stamps: Any, g: Any, site: Site) -> Any:
        """Returns a mask of the stamps that come from the store at `site`, if this store always writes the same value
        (`alike.py`)."""
        both_plain = kind.base == other.base == PLAIN_WRITE and site.stamp in g.launch.program.constant_stores
        return both_plain & (stamps & U(SITE_MASK) == site.stamp) & (times(stamps) != LAST_TIME)

    def check_written(self, stamps: Any, place: SpacePlace, g: Any, site: Site) -> None:
        empty = stamps == 0
        if self.unwritten is not None:
            empty &= place.take(self.unwritten, self.granule)
        if not empty.any():
            return
        # Some bytes may have strong writes only.
        for kind, strong in self.records.items():
            if kind.base == STRONG_WRITE:
                empty &= place.take(strong, self.granule) == 0
        if empty.any():
            lane = int(np.nonzero(empty)[0][0])
            message = f"reads {self.name} memory that nobody has written{self.of_array(place, lane, g)}"
            self.report(Kind.UNINITIALISED, message, g, lane, site, None)

    def of_array(self, place: SpacePlace, lane: int, g: Any) -> str:
        """Returns a text that names the array that a lane accesses in global memory."""
        if self.unwritten is None:
            return ""
        unit = place.start + lane if place.index is None else int(place.index[lane])
        allocation = g.launch.memory.find(GLOBAL_WINDOW + unit * place.size)
        return "" if allocation is None else f": an element of {allocation.name}"

    def check_reserved(self, kind: int, place: SpacePlace, g: Any, site: Site) -> None:
        met = place.take(self.reserved, self.granule) != 0
        if met.any():
            # PTX ISA 9.7.13.15: only mbarrier operations may access an mbarrier object.
            verb = "writes" if kind in (PLAIN_WRITE, STRONG_WRITE) else "reads"
            message = f"{verb} {self.name} memory that holds an mbarrier, which only mbarrier instructions may do"
            self.report(Kind.BARRIER_MISUSE, message, g, int(np.nonzero(met)[0][0]), site, None)

    def reserve(self, place: SpacePlace, valid: bool) -> None:
        """Records that an mbarrier at this place becomes valid or invalid."""
        if self.reserved is None:
            self.reserved = np.zeros(self.count, np.uint8)
        place.put(self.reserved, self.granule, int(valid))

    def check_read_only(self, place: SpacePlace, g: Any, site: Site) -> None:
        alias = place.take(self.read_only_reads, self.granule) != 0
        if alias.any():
            lane = int(np.nonzero(alias)[0][0])
            self.report(
                Kind.READ_ONLY_ALIAS, "writes memory that ld.global.nc has read in this launch", g, lane, site, None
            )

    def read_only(self, place: SpacePlace, g: Any, site: Site) -> None:
        """Checks and records a `ld.global.nc`. During the whole launch, nothing may write its bytes (PTX ISA,
        "ld.global.nc")."""
        # A write at any time in the launch is a fault, before or after the read.
        for kind, record in self.records.items():
            if kind.base not in WRITES:
                continue
            stamps = place.take(record, self.granule)
            if stamps.any():
                lane = int(np.nonzero(stamps)[0][0])
                who = g.launch.origins.author(stamps[stamps != 0][0])
                message = "ld.global.nc of memory that this launch has written"
                self.report(Kind.READ_ONLY_ALIAS, message, g, lane, site, f"written by {who}")
        if self.read_only_reads is None:
            self.read_only_reads = np.zeros(self.count, np.uint8)
        place.put(self.read_only_reads, self.granule, 1)

    # Recording

    def note(
        self, kind: AccessKind, place: SpacePlace, column: Any, limit: Any, g: Any, site: Site, values: Any = None
    ) -> None:
        record = self.record(kind)
        if kind.base == PLAIN_WRITE:
            place.put(record, self.granule, column)
            if self.by_proxy is not None:
                place.put(self.by_proxy, self.granule, False)
            if self.landings is not None:
                self.landings.overwritten(place, self.granule)
            if place.index is not None:
                # If several lanes store to one granule, numpy keeps the last lane's store. The other lanes' stores race
                # with it.
                again = place.take(record, self.granule)
                lost = again != column
                if lost.any():
                    lanes = np.nonzero(lost)[0]
                    is_known = values is not None and site.number not in g.launch.program.updates
                    alike = None if not is_known else as_the_last(place.index, values, g.index() >> 5)[lanes]
                    self.conflict(kind, kind, again[lost], lanes, g, site, alike)
            return
        old = place.take(record, self.granule)
        new = self.combined(kind, place, old, column, limit, g)
        place.put(record, self.granule, new)
        if place.index is not None:
            self.merge_duplicates(kind, place, new, g, site)

    def combined(self, kind: AccessKind, place: SpacePlace, old: Any, column: Any, limit: Any, g: Any) -> Any:
        """Returns the new stamps of the record. If the old stamp is ordered before the access, the new stamp replaces
        it. Otherwise the new stamp gets a higher level, and stands for the threads of both."""
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
        level = np.where(unordered, self.relation(kind, met, mine, g), U(0))
        wide = level == GRID
        if wide.any():
            self.remember(kind, units[wide], met[wide])
        new[suspect] |= level << U(LEVEL_SHIFT)
        return new

    def relation(self, kind: AccessKind, stamps: Any, mine: Any, g: Any) -> Any:
        # If threads synchronise one by one, a stamp for a whole warp or block would be too coarse. So the history is
        # used.
        if self.exact and (kind.size or self.name == "global"):
            return np.full(len(stamps), GRID, U)
        return g.ordering.relation(stamps, mine)

    def merge_duplicates(self, kind: AccessKind, place: SpacePlace, new: Any, g: Any, site: Site) -> None:
        """Handles lanes of one instruction that access the same granule. One stamp is kept, with a level that covers
        all these lanes."""
        record = self.record(kind)
        again = place.take(record, self.granule)
        where = np.nonzero(again != new)
        if not len(where[0]):
            return
        kept, lost = again[where], np.broadcast_to(new, again.shape)[where]
        # Two lanes' writes of one word are not morally strong if their scope does not include both lanes.
        if kind.base == STRONG_WRITE and kind.scope != GPU:
            apart = g.ordering.beyond(kind.scope, kept, lost)
            if apart.any():
                self.conflict(kind, kind, kept[apart], where[0][apart], g, site)
        level = np.maximum(self.relation(kind, kept, lost, g), levels(lost))
        stamps = without_level(kept) | level << U(LEVEL_SHIFT)
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

    def start_copy(self, place: SpacePlace, g: Any, site: Site, by_proxy: bool = False) -> None:
        """Checks the access to a copy's destination. Then marks the destination as in flight, even for the thread that
        has started the copy. `by_proxy` states whether the copy writes through the asynchronous proxy."""
        self.access(PLAIN_WRITE, place, g, site)
        if by_proxy:
            if self.by_proxy is None:
                self.by_proxy = np.zeros(self.count, bool)
            place.put(self.by_proxy, self.granule, True)
        stamps = g.stamps(site) | IN_FLIGHT
        column = stamps[:, None] if place.size != self.granule else stamps
        place.put(self.record(AccessKind(PLAIN_WRITE)), self.granule, column)

    def settle_copy(self, units: Any, chosen: Any, stamps: Any, now: int) -> None:
        """Records copies as complete: as writes at the time `now`. `chosen` is a mask of the granules that have not
        been overwritten since."""
        done = np.broadcast_to((stamps | U(now << TIME_SHIFT))[:, None], units.shape)
        self.record(AccessKind(PLAIN_WRITE))[units[chosen]] = done[chosen]

    def finish_copy(self, place: SpacePlace, stamps: Any, now: int) -> None:
        """Records a copy as complete: as a write of its thread at the time `now`."""
        done = stamps | U(now << TIME_SHIFT)
        column = done[:, None] if place.size != self.granule else done
        place.put(self.record(AccessKind(PLAIN_WRITE)), self.granule, column)
