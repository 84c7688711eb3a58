"""A group: threads of a wave that run the same basic block together, and their registers.

The wave has one row for each register slot, with an element for each of its threads. A group of all threads works on
those rows directly. A smaller group works on copies of its threads' elements. They are fetched when a block first reads
them, kept while the group stays the same, and written back when it splits or meets another group.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import Site, seen_as
from .stamps import TIME_SHIFT, U


class Lanes:
    """The threads that an instruction runs for. `threads` are positions in the wave, ascending; None means all of
    them."""

    def __init__(self, wave: Any, threads: Any):
        self.wave = wave
        self.launch = wave.launch
        self.ordering = wave.ordering
        self.threads = threads
        self.each = 1  # this many neighbours are one thread (`repeated`)
        self.n = wave.lanes if threads is None else len(threads)
        self.fetched: dict[str, Any] = {}
        self.limit_version = -1
        self.limits: Any = None
        self.shape: tuple[bool, int] | None = None
        self.rows_of_warps: tuple[Any, Any] | None = None
        self.present: Any = None
        self.edges: Any = None

    def lane(self, name: str) -> Any:
        """A per-thread constant of the wave (gid, slot, warp, rank, thread identifiers, …) for these threads."""
        if self.threads is None:
            return self.wave.constant(name)
        found = self.fetched.get(name)
        if found is None:
            found = self.fetched[name] = self.wave.constant(name)[self.threads]
        return found

    def index(self) -> Any:
        """Positions in the wave."""
        return self.wave.positions if self.threads is None else self.threads

    def limit(self) -> Any:
        """Stamps below this are ordered before the lane by a barrier of its block."""
        ordering = self.ordering
        if self.threads is None:
            return ordering.limit
        if self.limit_version != ordering.version:
            self.limits, self.limit_version = ordering.limit[self.threads], ordering.version
        return self.limits

    def stamps(self, site: Site) -> Any:
        now = self.ordering.clock.now << TIME_SHIFT
        return self.lane("gid stamp") | U(now | site.stamp)

    def measure(self) -> tuple[bool, int]:
        """(are these all 32 lanes of each of their warps, number of warps)."""
        if self.shape is None:
            if self.threads is None:
                self.shape = (True, self.n // 32)
            else:
                count = int(np.count_nonzero(self.warp_edges())) + 1
                self.shape = (self.n == 32 * count, count)
        return self.shape

    @property
    def whole(self) -> bool:
        return self.measure()[0]

    @property
    def warps(self) -> int:
        return self.measure()[1]

    def full_blocks(self) -> tuple[int, int]:
        """(blocks, lanes of a block) if the group is all threads of whole blocks, else (0, 0)."""
        if self.threads is None:
            return self.wave.slots, self.wave.block_lanes
        # Only the group of the whole wave is recognised.
        return 0, 0

    def warp_rows(self) -> tuple[Any, Any]:
        """(warp of each row, row of each lane)."""
        if self.rows_of_warps is None:
            warps = self.index() >> 5
            if self.whole:
                self.rows_of_warps = warps[::32], np.repeat(np.arange(self.n // 32), 32)
            else:
                fresh = np.ones(self.n, bool)
                fresh[1:] = self.warp_edges()
                self.rows_of_warps = warps[fresh], np.cumsum(fresh) - 1
        return self.rows_of_warps

    def warp_edges(self) -> Any:
        """[n - 1]: does another warp begin after this lane?"""
        if self.edges is None:
            warps = self.index() >> 5
            self.edges = warps[1:] != warps[:-1]
        return self.edges

    def warp_sizes(self) -> Any:
        """[warps]: how many lanes of each warp are in the group."""
        return np.diff(np.flatnonzero(self.warp_edges()), prepend=-1, append=self.n - 1)

    def by_warp(self, values: Any, absent: int = -1) -> Any:
        """[warps, 32], with `absent` for lanes of the warp that are not in the group."""
        if self.whole:
            return values.reshape(-1, 32)
        warps, rows = self.warp_rows()
        table = np.full((len(warps), 32), absent, values.dtype)
        table[rows, self.index() & 31] = values
        return table

    def presence(self) -> Any:
        """[warps, 32]: is the lane in the group?"""
        if self.present is None:
            if self.whole:
                self.present = np.ones((self.n // 32, 32), bool)
            else:
                warps, rows = self.warp_rows()
                self.present = np.zeros((len(warps), 32), bool)
                self.present[rows, self.index() & 31] = True
        return self.present

    def part(self, lanes: Any) -> Lanes:
        """Some lanes (positions in the group) as a group of their own."""
        return Lanes(self.wave, self.index()[lanes])

    def repeated(self, each: int) -> Lanes:
        """Each lane `each` times, side by side: for what a thread does to many places at once."""
        found = Lanes(self.wave, np.repeat(self.index(), each))
        found.each = each
        return found

    def run_on(self, lanes: Any, op: Any, values: Any, entries: list[int], written: list[int]) -> None:
        """Runs an operation for some lanes (positions in the group), on copies of its operands."""
        part = Lanes(self.wave, self.index()[lanes])
        copies: dict[int, Any] = {}
        for entry in entries:
            array = values[entry]
            copies[entry] = array[lanes] if len(array) == self.n else array
        op(copies, part)
        for entry in written:
            values[entry][lanes] = copies[entry]


class Group(Lanes):
    """Threads at the start of a basic block.

    With `turn` and `back_edges` a group that may be waiting in a loop lets the others run.
    """

    def __init__(self, wave: Any, threads: Any, turn: int = 0, back_edges: int = 0):
        super().__init__(wave, threads)
        self.turn, self.back_edges = turn, back_edges
        self.rows: dict[int, Any] = {}
        self.dirty: set[int] = set()
        self.prepared: set[int] = set()
        self.values: list[Any] = wave.values if threads is None else list(wave.launch.constants)

    def frame(self, segment: Any) -> list[Any]:
        """The values that a basic block works on."""
        if self.threads is None:
            return self.values
        if segment.number not in self.prepared:
            self.prepare(segment)
        self.dirty |= segment.written_slots
        return self.values

    def prepare(self, segment: Any) -> None:
        rows, wave = self.rows, self.wave
        program = self.launch.program
        for slot in segment.exposed_slots:
            if slot not in rows:
                rows[slot] = wave.rows[slot].take(self.threads)
        for slot in segment.written_slots:
            if slot not in rows:
                # Not fetched: the block writes these before it reads them.
                rows[slot] = np.empty(self.n, wave.rows[slot].dtype)
        for number in segment.entries:
            if self.values[number] is None:
                entry = program.code.entries[number]
                if entry.kind == "register":
                    slot = program.slots[entry.name]
                    self.values[number] = seen_as(rows[slot], entry.type, entry.register_bytes)
                else:
                    self.values[number] = wave.values[number].take(self.threads)
        self.prepared.add(segment.number)

    def write_back(self, live: frozenset[int]) -> None:
        """Puts the values that are still needed into the wave's rows."""
        if self.threads is None:
            return
        for slot in self.dirty & live:
            self.wave.rows[slot][self.threads] = self.rows[slot]
