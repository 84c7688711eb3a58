"""A group: threads of a wave that run the same basic block together, with their registers.

The wave has one row for each register slot, with one element for each thread. A group of all threads works on these
rows directly. A smaller group works on copies of its threads' elements. It fetches the copy of a register when a basic
block first reads this register. The group keeps the copies while its threads stay the same. It writes the copies back
when it splits or merges with another group.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .code import Site, seen_as
from .stamps import TIME_SHIFT, U


class Lanes:
    """The threads that execute an instruction. `threads` has the positions of the threads in the wave, in ascending
    order. None means all threads of the wave."""

    def __init__(self, wave: Any, threads: Any):
        self.wave = wave
        self.launch = wave.launch
        self.ordering = wave.ordering
        self.threads = threads
        self.each = 1  # this many neighbouring lanes are one thread (`repeated`)
        self.n = wave.lanes if threads is None else len(threads)
        self.fetched: dict[str, Any] = {}
        self.limit_version = -1
        self.limits: Any = None

    def lane(self, name: str) -> Any:
        """The per-thread constant `name` of the wave (gid, slot, warp, rank, thread identifiers, …) for the threads of
        the group."""
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
        """A stamp for each lane. Barriers of the lane's block order all accesses with lower stamps before the lane."""
        ordering = self.ordering
        if self.threads is None:
            return ordering.limit
        if self.limit_version != ordering.version:
            self.limits, self.limit_version = ordering.limit[self.threads], ordering.version
        return self.limits

    def stamps(self, site: Site) -> Any:
        now = self.ordering.clock.now << TIME_SHIFT
        return self.lane("gid stamp") | U(now | site.stamp)

    @cached_property
    def warps(self) -> int:
        """Number of warps of the group."""
        return self.n // 32 if self.threads is None else int(np.count_nonzero(self.warp_edges)) + 1

    @cached_property
    def whole(self) -> bool:
        """Whether all 32 lanes of each warp are in the group."""
        return self.n == 32 * self.warps

    @cached_property
    def warp_rows(self) -> tuple[Any, Any]:
        """The group's warps as rows of a table: (warp of each row, row of each lane)."""
        warps = self.index() >> 5
        if self.whole:
            return warps[::32], np.repeat(np.arange(self.n // 32), 32)
        fresh = np.ones(self.n, bool)
        fresh[1:] = self.warp_edges
        return warps[fresh], np.cumsum(fresh) - 1

    @cached_property
    def warp_edges(self) -> Any:
        """[n - 1]: does the next lane belong to another warp?"""
        warps = self.index() >> 5
        return warps[1:] != warps[:-1]

    def warp_sizes(self) -> Any:
        """[warps]: how many lanes of each warp are in the group."""
        return np.diff(np.flatnonzero(self.warp_edges), prepend=-1, append=self.n - 1)

    def by_warp(self, values: Any, absent: int | bool = -1) -> Any:
        """`values` as an array [warps, 32]. Lanes of a warp that are not in the group have the value `absent`."""
        if self.whole:
            return values.reshape(-1, 32)
        warps, rows = self.warp_rows
        table = np.full((len(warps), 32), absent, values.dtype)
        table[rows, self.index() & 31] = values
        return table

    @cached_property
    def presence(self) -> Any:
        """[warps, 32]: is the lane in the group?"""
        return self.by_warp(np.ones(self.n, bool), False)

    def part(self, lanes: Any) -> Lanes:
        """Some lanes (positions in the group) as a group of their own."""
        return Lanes(self.wave, self.index()[lanes])

    def repeated(self, each: int) -> Lanes:
        """A group with each lane `each` times, side by side. Instructions whose threads access many places at once use
        such a group."""
        found = Lanes(self.wave, np.repeat(self.index(), each))
        found.each = each
        return found

    def run_on(self, lanes: Any, op: Any, values: Any, entries: list[int], written: list[int]) -> None:
        """Runs `op` for some lanes (positions in the group) on copies of the operands, and writes the results back to
        `values`."""
        part = Lanes(self.wave, self.index()[lanes])
        copies: dict[int, Any] = {}
        for entry in entries:
            array = values[entry]
            copies[entry] = array[lanes] if len(array) == self.n else array
        op(copies, part)
        for entry in written:
            values[entry][lanes] = copies[entry]


class Group(Lanes):
    """Threads that are at the start of a basic block.

    `turn` and `back_edges` serve to let other groups run while this group may be waiting in a loop.
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
                # These rows are not fetched, since the block writes them before it reads them.
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
        """Writes the values of live slots back to the wave's rows."""
        if self.threads is None:
            return
        for slot in self.dirty & live:
            self.wave.rows[slot][self.threads] = self.rows[slot]
