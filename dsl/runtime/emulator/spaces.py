"""State spaces: global, shared and local memory. A space converts addresses to places in an array, and checks bounds
and alignment."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .code import Site
from .counters import Counters
from .findings import Kind
from .memory import GLOBAL_WINDOW, RANK_SHIFT, Memory
from .overlap import Overlap
from .shadow import Shadow, SpacePlace
from .traffic import atomic_wavefronts, copy_wavefronts, global_sectors, phase_lanes, shared_wavefronts

# 0, 1, 2, … for the lanes of the largest wave. Comparing addresses with this ramp shows in one pass whether they are
# adjacent.
RAMP = np.arange(1 << 15, dtype=np.int64)


class BadLanes(Exception):
    """Raised for an access that some lanes cannot make. `bad` is a mask of these lanes, and the fault has already been
    reported."""

    def __init__(self, bad: Any):
        super().__init__("lanes with a fault")
        self.bad = bad


class Space:
    """An array of bytes with its shadow memory."""

    def __init__(self, data: Any, shadow: Shadow | None):
        self.data = data
        self.shadow: Any = shadow  # None for constants, which no access can change
        self.delays: Any = None  # `Delays` in programs whose threads may load values that other threads write
        self.changes = 0  # number of writes so far; while `compares` is set, only writes that change a value count
        self.compares = False

    def place(self, address: Any, size: int, g: Any, site: Site, write: bool, counters: Counters | None) -> SpacePlace:
        """Converts the lanes' addresses to a place in `data`. If addresses are invalid, reports them and raises
        `BadLanes`."""
        raise NotImplementedError

    def count_atomic(self, index: Any, size: int, g: Any, site: Site) -> None:
        """Adds the cost of atomic operations to their instruction's counters. `index` has each lane's address in units
        of `size` bytes."""

    def elements(self, dtype: Any, count: int) -> Any:
        view = self.data.view(dtype)
        return view if count == 1 else view.reshape(-1, count)

    def load(self, place: SpacePlace, dtype: Any, count: int) -> Any:
        """Returns the elements at the lanes' places, as an array [lanes] or [lanes, count]."""
        view = self.elements(dtype, count)
        if place.index is None:
            return view[place.start : place.start + place.lanes]
        return view.take(place.index, axis=0)

    def store(self, place: SpacePlace, values: Any, dtype: Any, count: int) -> None:
        view = self.elements(dtype, count)
        # Comparing costs a load, so it happens only in a launch that seems to stand still (`spinning.py`).
        if not self.compares or (self.load(place, dtype, count) != values).any():
            self.changes += 1
        if place.index is None:
            view[place.start : place.start + place.lanes] = values
        else:
            view[place.index] = values


def refuse(kind: Kind, message: str, g: Any, bad: Any, site: Site) -> NoReturn:
    """Reports a fault of the first lane in the mask `bad`, and raises `BadLanes` for all of them."""
    g.launch.report(kind, message, g, int(np.argmax(bad)), site)
    raise BadLanes(bad)


def check_alignment(offsets: Any, size: int, g: Any, site: Site) -> None:
    if size > 1 and int(np.bitwise_or.reduce(offsets)) & (size - 1):
        low = offsets & (size - 1)
        lane = int(np.flatnonzero(low)[0])
        message = f"an access of {size} bytes at an address that is {int(low[lane])} past a multiple of {size}"
        refuse(Kind.MISALIGNED, message, g, low != 0, site)


class GlobalSpace(Space):
    """Device memory and constants. An address minus GLOBAL_WINDOW is an offset in the flat array `data`."""

    def __init__(self, memory: Memory, shadow: Shadow | None, written: set[int]):
        """`written` has the start addresses of the allocations that the program's stores may reach."""
        super().__init__(memory.data, shadow)
        self.memory = memory
        self.ends = np.array([one.end for one in memory.allocations], np.int64) - GLOBAL_WINDOW
        # The addresses are sorted, as allocations are made one after another. So a binary search finds the allocation
        # of an address.
        self.starts = np.array([one.address for one in memory.allocations], np.int64) - GLOBAL_WINDOW
        self.read_only = np.array([one.read_only for one in memory.allocations], bool)
        # Reading a workspace that no store reaches is a finding. So the reads of workspaces are checked, too.
        known = written | {one.address for pointer, _ in memory.scratch if (one := memory.find(pointer.address))}
        self.unwritten = np.array([address not in known for address in memory.starts], bool)
        self.turns: dict[int, Any] = {}  # the number of operations of each atomic instruction on each unit
        self.counters: dict[int, Counters] = {}  # the sectors of each allocation
        self.overlap: Overlap | None = None  # for a launch that overlaps others

    def place(self, address: Any, size: int, g: Any, site: Site, write: bool, counters: Counters | None) -> SpacePlace:
        if address.dtype.itemsize < 8:  # const and param accept 32-bit registers for addresses, too
            address = address.astype(np.uint64)
        offsets = address.view(np.int64) - GLOBAL_WINDOW
        n = g.n
        if len(offsets) != n:
            offsets = np.broadcast_to(offsets, n)
        first, last = int(offsets[0]), int(offsets[-1])
        if last - first == (n - 1) * size and n > 1 and first % size == 0:
            start = first // size
            # In the usual case the lanes' addresses are adjacent, which one comparison with a ramp shows. Then only the
            # first and the last offset need a check of alignment and bounds.
            ramp = RAMP[:n] * size
            ramp += first
            if np.array_equal(ramp, offsets):
                unwritten = self.check_bounds(offsets, first, last, size, g, site, write)
                if counters is not None:
                    self.count_run(first, offsets, size, g, write, counters)
                return self.seen(SpacePlace(size, n, start, unwritten=unwritten), g, site, write)
        low, high = int(offsets.min()), int(offsets.max())
        unwritten = self.check_bounds(offsets, low, high, size, g, site, write)
        check_alignment(offsets, size, g, site)
        if counters is not None:
            self.count(offsets, size, g, write, counters)
        index = offsets // size if size > 1 else offsets.copy()
        return self.seen(SpacePlace(size, n, 0, index, unwritten), g, site, write)

    def seen(self, place: SpacePlace, g: Any, site: Site, write: bool) -> SpacePlace:
        if self.overlap is not None:
            self.overlap.access(place, g, site, write)
        return place

    def check_bounds(self, offsets: Any, low: int, high: int, size: int, g: Any, site: Site, write: bool) -> bool:
        """Reports lanes whose access is outside all allocations, or writes read-only memory. Returns True if all lanes
        access one allocation that no store reaches."""
        # In the usual case all lanes access one allocation, and its bounds are compared only with the lowest and the
        # highest address.
        index = int(np.searchsorted(self.starts, low, "right")) - 1
        if index >= 0 and high + size <= self.ends[index] and not (write and self.read_only[index]):
            if write:
                self.unwritten[index] = False
            return bool(self.unwritten[index])
        which = np.searchsorted(self.starts, offsets, "right") - 1
        bad = (which < 0) | (offsets + size > self.ends[which])
        if write:
            bad |= self.read_only[which]
        if bad.any():
            lane = int(np.flatnonzero(bad)[0])
            address = int(offsets[lane]) + GLOBAL_WINDOW
            verb = "writes" if write else "reads"
            inside = which[lane] >= 0 and offsets[lane] + size <= self.ends[which[lane]]
            # If the address is computed from only one allocation's pointer, the report names this allocation, however
            # far away the address is. A store 3.9 MB past the end of an array was once reported as past the end of the
            # parameters.
            reason = "read-only memory" if inside else self.memory.nearest(address, g.launch.meant_by(site))
            message = f"{verb} {size} bytes at global address {address & (1 << 64) - 1:#x}: {reason}"
            refuse(Kind.OUT_OF_BOUNDS, message, g, bad, site)
        if write:
            self.unwritten[which] = False
        return False

    def count_run(self, first: int, offsets: Any, size: int, g: Any, write: bool, counters: Counters) -> None:
        # The formula below is for whole warps.
        if not g.whole:
            self.count(offsets, size, g, write, counters)
            return
        warps = g.n // 32
        width = 32 * size
        phase = first % 32
        starts = phase + RAMP[:warps] * width  # each lane has at least a byte, so a warp covers a sector or more
        found = warps * size if phase == 0 else int((((starts + width - 1) >> 5) - (starts >> 5) + 1).sum())
        self.add_sectors(first, counters, found, warps * width, write)

    def count(self, offsets: Any, size: int, g: Any, write: bool, counters: Counters) -> None:
        starts, sizes = g.warp_spans
        found, distinct = global_sectors(offsets, size, g.warp_edges, starts, sizes)
        self.add_sectors(int(offsets[0]), counters, found, distinct, write)

    def add_sectors(self, first: int, counters: Counters, found: int, distinct: int, write: bool) -> None:
        """Adds sectors and distinct bytes to the counters of the instruction, and to those of the allocation that the
        first lane accesses."""
        for each in (counters, self.counters_at(first)):
            if write:
                each.global_store_sectors += found
                each.global_store_bytes += distinct
            else:
                each.global_load_sectors += found
                each.global_load_bytes += distinct

    def counters_at(self, offset: int) -> Counters:
        index = int(np.searchsorted(self.starts, offset, "right")) - 1
        return self.counters.setdefault(index, Counters())

    def counted(self) -> dict[str, Counters]:
        """Returns the sector counts of each allocation, by the allocation's name."""
        out: dict[str, Counters] = {}
        for index, found in self.counters.items():
            found.settle()
            out.setdefault(self.memory.allocations[index].name, Counters()).add(found)
        return out

    def count_atomic(self, index: Any, size: int, g: Any, site: Site) -> None:
        counters = g.launch.counters_of(site)
        starts, sizes = g.warp_spans
        found, distinct = global_sectors(index * size, size, g.warp_edges, starts, sizes, alone=True)
        for each in (counters, self.counters_at(int(index[0]) * size)):
            each.global_atomic_sectors += found
            each.global_atomic_bytes += distinct
        # Atomic operations on one address take turns during the whole launch, so they are counted by address.
        turns = self.turns.get(site.number)
        if turns is None:
            turns = self.turns[site.number] = np.zeros(len(self.data) // size, np.uint32)
        np.add.at(turns, index, np.uint32(1))

    def waits(self, number: int) -> int:
        """Returns how many operations of an atomic instruction had to wait for others: the number of operations at its
        most used address, minus one."""
        turns = self.turns.get(number)
        return 0 if turns is None else int(turns.max()) - 1


class SharedSpace(Space):
    """The shared memory of a wave's blocks. Block `slot` has `arena` bytes, from the offset slot * arena on."""

    def __init__(self, slots: int, arena: int, start: int, end: int, cluster: int, shadow: Shadow):
        super().__init__(np.zeros(slots * arena, np.uint8), shadow)
        self.arena, self.start, self.end, self.cluster = arena, start, end, cluster

    def place(
        self, address: Any, size: int, g: Any, site: Site, write: bool, counters: Counters | None, arrives: bool = False
    ) -> SpacePlace:
        """`arrives` is true for an arrival at an mbarrier, whose end `mbarriers.py` observes."""
        offsets = address.astype(np.int64)
        if len(offsets) != g.n:
            offsets = np.broadcast_to(offsets, g.n)
        slots = g.lane("slot")
        if int(offsets.max()) >> RANK_SHIFT:
            rank = offsets >> RANK_SHIFT
            offsets = offsets & ((1 << RANK_SHIFT) - 1)
            self.check_rank(rank, g, site)
            # Rank 0 means the thread's own block, since an address without `mapa` has no rank (`RANK_SHIFT`).
            slots = np.where(rank == 0, slots, slots // self.cluster * self.cluster + rank - 1)
            if arrives:
                g.wave.visits.check_begun(g, slots, site)
            else:
                g.wave.visits.note(g, slots, site)
        self.check_bounds(offsets, size, g, site, write)
        check_alignment(offsets, size, g, site)
        if counters is not None:
            self.count(offsets, size, g, counters)
        index = slots * self.arena
        index += offsets
        if size > 1:
            index >>= size.bit_length() - 1
        return SpacePlace(size, g.n, 0, index)

    def check_rank(self, rank: Any, g: Any, site: Site) -> None:
        bad = (rank < 0) | (rank > self.cluster)
        if bad.any():
            lane = int(np.flatnonzero(bad)[0])
            message = f"a shared::cluster address of block rank {int(rank[lane]) - 1} in a cluster of {self.cluster}"
            refuse(Kind.OUT_OF_BOUNDS, message, g, bad, site)

    def check_bounds(self, offsets: Any, size: int, g: Any, site: Site, write: bool) -> None:
        if offsets.min() >= self.start and offsets.max() + size <= self.end:
            return
        bad = (offsets < self.start) | (offsets + size > self.end)
        lane = int(np.flatnonzero(bad)[0])
        verb = "writes" if write else "reads"
        where = f"the block has {self.end - self.start} bytes from {self.start:#x} on"
        message = f"{verb} {size} bytes at shared address {int(offsets[lane]):#x}: {where}"
        refuse(Kind.OUT_OF_BOUNDS, message, g, bad, site)

    def count(self, offsets: Any, size: int, g: Any, counters: Counters) -> None:
        passes, phases = g.launch.patterns.wavefronts(g, offsets, size)
        counters.shared_wavefronts += passes
        counters.shared_ideal += phases
        # A phase takes at least one pass.
        counters.bank_conflicts += passes - phases

    def count_atomic(self, index: Any, size: int, g: Any, site: Site) -> None:
        counters, offsets = g.launch.counters_of(site), index * size % self.arena
        self.count(offsets, size, g, counters)
        distinct = g.launch.patterns.wavefronts(g, offsets, size)[0]
        passes = atomic_wavefronts(g.by_warp(offsets), size)
        # Lanes that access one word take turns. This is not a bank conflict, since no other placement in the banks
        # would avoid it.
        counters.shared_wavefronts += passes - distinct
        counters.atomic_waits += passes - distinct

    def count_lines(self, offsets: Any, lines: Any, size: int, g: Any, counters: Counters) -> None:
        """Adds the passes that a copy needs beyond those of an ordinary access to the same offsets. `lines` are the
        lines of global memory that the lanes read. A copy writes bytes of only one line in a pass."""
        rows, by_warp = g.by_warp(offsets), g.by_warp(lines)
        phases = by_warp.reshape(-1, phase_lanes(size))
        if not (phases == phases[:, :1]).all():
            counters.shared_wavefronts += g.launch.patterns.more_of_copies(rows, by_warp, size)


class LocalSpace(Space):
    """The local memory of each thread. Thread t of the wave has `bytes` bytes, from the offset t * bytes on."""

    def __init__(self, lanes: int, size: int, shadow: Shadow):
        super().__init__(np.zeros(lanes * size, np.uint8), shadow)
        self.bytes = size

    def place(self, address: Any, size: int, g: Any, site: Site, write: bool, counters: Counters | None) -> SpacePlace:
        offsets = np.broadcast_to(address.astype(np.int64), g.n)
        bad = (offsets < 0) | (offsets + size > self.bytes)
        if bad.any():
            lane = int(np.flatnonzero(bad)[0])
            verb = "writes" if write else "reads"
            message = f"{verb} {size} bytes at local address {int(offsets[lane]):#x} of {self.bytes}"
            refuse(Kind.OUT_OF_BOUNDS, message, g, bad, site)
        check_alignment(offsets, size, g, site)
        # The bytes of a thread are contiguous here. A device interleaves the threads' bytes, but no program can see the
        # difference.
        return SpacePlace(size, g.n, 0, (g.index() * self.bytes + offsets) // size)


class PatternCache:
    """Caches the number of wavefronts of each address pattern. The same patterns occur again in other blocks and in
    other iterations of a loop."""

    def __init__(self) -> None:
        self.found: dict[tuple[int, bytes], tuple[int, int]] = {}
        self.copies: dict[tuple[int, bytes, bytes], int] = {}

    def wavefronts(self, g: Any, offsets: Any, size: int) -> tuple[int, int]:
        # If all blocks access the same offsets, counting one block is enough.
        if g.threads is None and (blocks := g.wave.slots) > 1:
            rows = offsets.reshape(blocks, -1)
            if (rows == rows[0]).all():
                passes, phases = self.look_up(rows[0].reshape(-1, 32), size)
                return passes * blocks, phases * blocks
        return self.look_up(g.by_warp(offsets), size)

    def look_up(self, rows: Any, size: int) -> tuple[int, int]:
        key = (size, rows.tobytes())
        known = self.found.get(key)
        if known is None:
            # Addresses that depend on data would make the cache grow without limit.
            if len(self.found) > 4096:
                self.found.clear()
            known = self.found[key] = shared_wavefronts(rows, size)
        return known

    def more_of_copies(self, rows: Any, lines: Any, size: int) -> int:
        """Returns how many more passes a copy takes than an ordinary access to the same rows.

        Only the distances between the lines of global memory matter, so a loop over lines has only one or two patterns.
        In tests of matrix products whose iterations several blocks share, this took 13 % of the time without the cache,
        and 7 % with it.
        """
        near = np.where(lines < 0, 1, lines - lines.max())
        key = (size, rows.tobytes(), near.tobytes())
        known = self.copies.get(key)
        if known is None:
            if len(self.copies) > 4096:
                self.copies.clear()
            known = self.copies[key] = copy_wavefronts(rows, lines, size) - shared_wavefronts(rows, size)[0]
        return known
