"""Reads the records that warps write at the marks (timed parts) of a kernel. docs/architecture.md describes the
records."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from math import prod
from typing import Any

from msgspec import Struct

from dsl.runtime.errors import LaunchError
from dsl.runtime.header import Header

HEAD = struct.Struct("<II8x")
"""The head before all records: the number of blocks that write records, and the number of events of each warp."""
RECORD = struct.Struct("<I4xQQQQI20x")
"""The head of a warp's record: %smid, two clocks at the start of the warp (%globaltimer and %clock64), the same two
clocks at the end of the warp, and the byte offset of the next event in the record."""
EVENT_BYTES = 8
"""Size of an event in bytes. An event is two u32 values: 2 · mark (plus 1 at the end of the mark), then %clock."""
NO_RECORDS = HEAD.pack(0, 0)
MOST_BYTES = 256 << 20
MOST_BLOCKS = 128
"""Default number of blocks that write records. A page can show this many blocks."""
WARP = 32


class TimelineSpace(Struct, frozen=True):
    """The memory for the records of the first `blocks` blocks. Each block has `warps` warps, and each warp has room for
    `events` events."""

    blocks: int
    events: int
    warps: int

    @property
    def stride(self) -> int:
        """Number of bytes from the record of a warp to the record of the next warp."""
        return RECORD.size + EVENT_BYTES * self.events

    @property
    def size(self) -> int:
        return HEAD.size + self.blocks * self.warps * self.stride

    @property
    def head(self) -> bytes:
        """The bytes with which the memory must begin at the launch. All other bytes must be zeros."""
        return HEAD.pack(self.blocks, self.events)


class WarpRecord(Struct, frozen=True):
    """The record of one warp of a launch. `block` is the linear number of its block.

    `begin` and `end` are the times of the warp's start and end, each as a pair: %globaltimer in nanoseconds, and
    %clock64. `end` is None if the warp has not ended. Each event is a triple: the mark, whether the event is the mark's
    start, and %clock64. `dropped` is the number of events that did not fit."""

    block: int
    warp: int
    sm: int
    begin: tuple[int, int]
    end: tuple[int, int] | None
    events: list[tuple[int, bool, int]]
    dropped: int


def space_for(header: Header, grid: tuple[int, int, int], events: int, blocks: int | None = None) -> TimelineSpace:
    """Returns the memory layout for the records of a launch. The first `blocks` blocks of the grid write records.

    By default, `blocks` is the smaller of MOST_BLOCKS and the number of blocks whose records fit. Raises LaunchError
    `limit` if the records take more than MOST_BYTES."""
    if not header.timeline:
        raise LaunchError("call", f"{header.label} has no marks", "compile it with marks")
    warps, all_blocks = -(-header.threads // WARP), prod(grid)
    # The records of each block have the same size.
    of_block = TimelineSpace(1, events, warps).size - HEAD.size
    most = (MOST_BYTES - HEAD.size) // of_block
    if not most or (blocks is not None and min(blocks, all_blocks) > most):
        message = f"records of {blocks or 1} blocks, each of {warps} warps with {events} events, take more than "
        hint = f"at most {most} blocks, or fewer events" if most else "fewer events"
        raise LaunchError("limit", f"{header.label}: {message}{MOST_BYTES >> 20} MiB", hint)
    return TimelineSpace(min(all_blocks, min(MOST_BLOCKS, most) if blocks is None else blocks), events, warps)


def records(space: TimelineSpace, raw: Any) -> list[WarpRecord]:
    """Parses the records in `raw`, the contents of the memory after a launch. Returns them in the order of blocks and
    warps. Warps that did not start are left out."""
    memory = memoryview(raw).cast("B")
    every = range(space.blocks * space.warps)
    found = (_record(space, number, memory[HEAD.size + number * space.stride :]) for number in every)
    return [record for record in found if record is not None]


def _record(space: TimelineSpace, number: int, memory: memoryview) -> WarpRecord | None:
    sm, begin_ns, begin, end_ns, end, used = RECORD.unpack_from(memory)
    # The memory is zeroed at the launch, so zeros mean that the warp has not begun.
    if not begin_ns and not begin:
        return None
    written = (used - RECORD.size) // EVENT_BYTES if used else space.events
    words = memory[RECORD.size : space.stride].cast("I")
    events = list(_events(words, min(written, space.events), begin, ended=bool(used)))
    block, warp = divmod(number, space.warps)
    last = (end_ns, end) if used else None
    return WarpRecord(block, warp, sm, (begin_ns, begin), last, events, max(written - space.events, 0) if used else 0)


def _events(words: memoryview, count: int, begin: int, ended: bool) -> Iterator[tuple[int, bool, int]]:
    """Yields the events of a warp. Each 32-bit clock is extended to 64 bits, beginning with the 64-bit clock at the
    start of the warp.

    The extension is correct if consecutive events of a warp are less than 2^32 cycles apart. If a warp has not ended,
    its events stop at the first unwritten event."""
    clock = begin
    for i in range(count):
        what, low = words[2 * i], words[2 * i + 1]
        if not ended and not what and not low:
            return
        clock += (low - clock) & 0xFFFFFFFF
        yield what >> 1, not what & 1, clock
