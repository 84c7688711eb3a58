"""Defines a group: threads of a wave that run the same basic block together, with their registers.

The wave stores each register as an array (a row) with one element for each thread. A group of all threads works on
these rows directly. A smaller group works on copies of its threads' elements. It copies a register when a basic block
first reads this register, and keeps the copy while its threads stay the same. When the group splits or merges with
another group, it writes the copies back.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .code import Site, seen_as
from .stamps import TIME_SHIFT, U


class Lanes:
    """The threads that execute an instruction. `threads` contains their positions in the wave, in ascending order, or
    is None for all threads of the wave."""

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
        """Returns a per-thread constant of the wave for the threads of the group. `name` is "gid", "slot", "warp",
        "rank", a thread identifier, and so on."""
        if self.threads is None:
            return self.wave.constant(name)
        found = self.fetched.get(name)
        if found is None:
            found = self.fetched[name] = self.wave.constant(name)[self.threads]
        return found

    def index(self) -> Any:
        """Returns the positions of the group's threads in the wave."""
        return self.wave.positions if self.threads is None else self.threads

    def limit(self) -> Any:
        """Returns a stamp for each lane. Barriers order all earlier accesses of the block with lower stamps before the
        lane."""
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
        """Returns (number of each warp that has lanes in the group, index into this list for each lane)."""
        warps = self.index() >> 5
        if self.whole:
            return warps[::32], np.repeat(np.arange(self.n // 32), 32)
        fresh = np.ones(self.n, bool)
        fresh[1:] = self.warp_edges
        return warps[fresh], np.cumsum(fresh) - 1

    @cached_property
    def warp_edges(self) -> Any:
        """A mask [n - 1] that is true if the next lane belongs to another warp."""
        warps = self.index() >> 5
        return warps[1:] != warps[:-1]

    @cached_property
    def warp_spans(self) -> tuple[Any, Any]:
        """Returns (the position of each warp's first lane in the group, the number of the warp's lanes in the
        group)."""
        starts = np.zeros(self.warps, np.int64)
        starts[1:] = np.flatnonzero(self.warp_edges) + 1
        sizes = np.full(self.warps, self.n)
        sizes[:-1] = starts[1:]
        return starts, sizes - starts

    def by_warp(self, values: Any, absent: int | bool = -1) -> Any:
        """Returns `values` as an array [warps, 32]. Lanes of a warp that are not in the group get the value
        `absent`."""
        if self.whole:
            return values.reshape(-1, 32)
        warps, rows = self.warp_rows
        table = np.full((len(warps), 32), absent, values.dtype)
        table[rows, self.index() & 31] = values
        return table

    @cached_property
    def presence(self) -> Any:
        """A mask [warps, 32] that is true if the lane is in the group."""
        return self.by_warp(np.ones(self.n, bool), False)

    def part(self, lanes: Any) -> Lanes:
        """Returns a group of some lanes only. `lanes` contains positions in this group."""
        return Lanes(self.wave, self.index()[lanes])

    def repeated(self, each: int) -> Lanes:
        """Returns a group that contains each lane `each` times, side by side, for instructions with several accesses
        for each thread."""
        found = Lanes(self.wave, np.repeat(self.index(), each))
        found.each = each
        return found

    def run_on(self, lanes: Any, op: Any, values: Any, entries: list[int], written: list[int]) -> None:
        """Runs `op` for some lanes only. Copies the operands of these lanes, and writes the results back to `values`.
        `lanes` contains positions in the group."""
        part = Lanes(self.wave, self.index()[lanes])
        copies: dict[int, Any] = {}
        for entry in entries:
            array = values[entry]
            copies[entry] = array[lanes] if len(array) == self.n else array
        op(copies, part)
        for entry in written:
            values[entry][lanes] = copies[entry]


class Group(Lanes):
    """Threads that will run the same basic block next.

    The scheduler uses `turn` and `back_edges` to run other groups while this group may be waiting in a loop.
    """

    def __init__(self, wave: Any, threads: Any, turn: int = 0, back_edges: int = 0):
        super().__init__(wave, threads)
        self.turn, self.back_edges = turn, back_edges
        self.rows: dict[int, Any] = {}
        self.dirty: set[int] = set()
        self.prepared: set[int] = set()
        self.values: list[Any] = wave.values if threads is None else list(wave.launch.constants)

    def frame(self, segment: Any) -> list[Any]:
        """Returns the frame with the operands and results of the basic block `segment`."""
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
