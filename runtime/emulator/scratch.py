"""Workspaces in a launch: which granules nobody has written since their call began, and what a launch leaves in those
that must be zero after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .findings import Location
from .memory import GLOBAL_WINDOW, DevicePointer
from .ordering import SITE_MASK, threads_of
from .origins import last_writes
from .shadow import WRITES, Shadow

if TYPE_CHECKING:
    from .launch import Launch


@dataclass(frozen=True, slots=True)
class Left:
    """The first byte of a workspace that a launch left other than zero, and the store that wrote it."""

    byte: int
    location: Location | None
    ptx_line: int | None
    writer: str


@dataclass(slots=True)
class Scratch:
    """What the launches of a call know of a workspace. `unwritten`: [bytes] not written since it began; None where
    that does not matter. `left`: of one that must be zero after the call."""

    size: int
    must_be_zero: bool
    unwritten: Any = None
    left: Left | None = None

    def begin(self) -> None:
        """A call begins: what an earlier one left is not to be read; a zeroed one holds zeros."""
        self.left = None
        self.unwritten = None if self.must_be_zero else np.ones(self.size, bool)


Placed = tuple[DevicePointer, Scratch]
"""Where a workspace lies."""


def unwritten_granules(shadow: Shadow, placed: list[Placed]) -> Any:
    """[granules] of global memory: part of a workspace and not written; None where nothing is."""
    found = None
    for pointer, scratch in placed:
        if scratch.unwritten is None or not scratch.unwritten.any():
            continue
        if found is None:
            found = np.zeros(shadow.count, bool)
        bytes_unwritten = np.flatnonzero(scratch.unwritten) + (pointer.address - GLOBAL_WINDOW)
        found[bytes_unwritten // shadow.granule] = True
    return found


def end_scratch(launch: Launch, placed: list[Placed]) -> None:
    """After a launch: notes in each workspace what it wrote, and the first byte that it left other than zero."""
    shadow = launch.device.shadow
    assert shadow is not None
    for pointer, scratch in placed:
        start = pointer.address - GLOBAL_WINDOW
        if scratch.must_be_zero:
            left = np.flatnonzero(launch.memory.data[start : start + scratch.size])
            note_left(launch, shadow, scratch, start, int(left[0]) if len(left) else None)
        elif scratch.unwritten is not None:
            granules = np.arange(start, start + scratch.size) // shadow.granule
            for kind, record in shadow.records.items():
                if kind.base in WRITES:
                    scratch.unwritten &= record[granules] == 0


def note_left(launch: Launch, shadow: Shadow, scratch: Scratch, start: int, byte: int | None) -> None:
    """What an earlier launch left there stays noted where this one did not write it."""
    if byte is None:
        scratch.left = None
        return
    granule = (start + byte) // shadow.granule
    stamp = last_writes(shadow, granule, granule + 1)[0]
    if stamp:
        site = launch.site_of(int(stamp))
        who = launch.who(int(threads_of(stamp)), int(stamp) & SITE_MASK)
        location, line = (None, None) if site is None else (site.location, site.ptx_line)
        scratch.left = Left(byte, location, line, who)
        return
    if scratch.left is not None and scratch.left.byte != byte:
        scratch.left = None
