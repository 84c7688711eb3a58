"""Records of warps at the marks of a kernel, see docs/architecture.md."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from dsl.runtime.errors import LaunchError
from dsl.runtime.header import Header

HEAD = struct.Struct("<II8x")
"""In front of all records: how many of the first blocks record, and the number of events of each of their warps."""
RECORD = struct.Struct("<I4xQQQQI20x")
"""In front of a warp's events: %smid; %globaltimer and %clock64 at its begin, and at its end; bytes from here to the
place of the next event."""
EVENT_BYTES = 8
"""Size of an event, two u32: twice the number of its mark, plus one for the end; %clock."""
NO_RECORDS = HEAD.pack(0, 0)
MOST_BYTES = 256 << 20
MOST_BLOCKS = 128
"""Default number of blocks that record: as many as a page can show."""
WARP = 32


@dataclass(frozen=True, slots=True)
class TimelineSpace:
    """Memory for the records of the first `blocks` blocks: `events` events for each of their `warps`."""

    blocks: int
    events: int
    warps: int

    @property
    def stride(self) -> int:
        """Bytes from a warp's record to the next one's."""
        return RECORD.size + EVENT_BYTES * self.events

    @property
    def size(self) -> int:
        return HEAD.size + self.blocks * self.warps * self.stride

    @property
    def head(self) -> bytes:
        """The first bytes of the memory at the launch; zeros follow."""
        return HEAD.pack(self.blocks, self.events)


@dataclass(frozen=True, slots=True)
class WarpRecord:
    """A warp of one launch. `block`: its linear number. `begin`, `end`: (ns of %globaltimer, %clock64); `end` is None
    for a warp that has not ended. `events`: (mark, whether it begins, %clock64); `dropped`: how many did not fit."""

    block: int
    warp: int
    sm: int
    begin: tuple[int, int]
    end: tuple[int, int] | None
    events: list[tuple[int, bool, int]]
    dropped: int


def space_for(header: Header, grid: tuple[int, int, int], events: int, blocks: int | None = None) -> TimelineSpace:
    """The memory for a launch. blocks: number of the grid's first blocks; by default MOST_BLOCKS, or as many as fit.
    Raises LaunchError `limit` for more than MOST_BYTES."""
    if not header.timeline:
        raise LaunchError("call", f"{header.label} has no marks", "compile it with marks")
    warps, all_blocks = -(-header.threads // WARP), prod(grid)
    # All blocks have records of one size.
    of_block = TimelineSpace(1, events, warps).size - HEAD.size
    most = (MOST_BYTES - HEAD.size) // of_block
    if not most or (blocks is not None and min(blocks, all_blocks) > most):
        message = f"records of {blocks or 1} blocks, each of {warps} warps with {events} events, take more than "
        hint = f"at most {most} blocks, or fewer events" if most else "fewer events"
        raise LaunchError("limit", f"{header.label}: {message}{MOST_BYTES >> 20} MiB", hint)
    return TimelineSpace(min(all_blocks, min(MOST_BLOCKS, most) if blocks is None else blocks), events, warps)


def records(space: TimelineSpace, raw: Any) -> list[WarpRecord]:
    """The records in the memory of a launch, by blocks and warps, without warps that did not begin."""
    memory = memoryview(raw).cast("B")
    every = range(space.blocks * space.warps)
    found = (_record(space, number, memory[HEAD.size + number * space.stride :]) for number in every)
    return [record for record in found if record is not None]


def _record(space: TimelineSpace, number: int, memory: memoryview) -> WarpRecord | None:
    sm, begin_ns, begin, end_ns, end, used = RECORD.unpack_from(memory)
    # The memory is zeroed at the launch: such a warp has not begun.
    if not begin_ns and not begin:
        return None
    written = (used - RECORD.size) // EVENT_BYTES if used else space.events
    words = memory[RECORD.size : space.stride].cast("I")
    events = list(_events(words, min(written, space.events), begin, ended=bool(used)))
    block, warp = divmod(number, space.warps)
    last = (end_ns, end) if used else None
    return WarpRecord(block, warp, sm, (begin_ns, begin), last, events, max(written - space.events, 0) if used else 0)


def _events(words: memoryview, count: int, begin: int, ended: bool) -> Iterator[tuple[int, bool, int]]:
    """The events of a warp. 32-bit clocks are continued from the begin: no two events of a warp are 2^32 cycles apart.
    A warp that has not ended has events up to the first unwritten one."""
    clock = begin
    for i in range(count):
        what, low = words[2 * i], words[2 * i + 1]
        if not ended and not what and not low:
            return
        clock += (low - clock) & 0xFFFFFFFF
        yield what >> 1, not what & 1, clock
