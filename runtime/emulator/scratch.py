"""Workspaces in a launch: which granules nobody has written since their call began, and what a launch leaves in those
that must be zero after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .findings import Location
from .memory import GLOBAL_WINDOW, DevicePointer
from .origins import last_writes
from .shadow import WRITES, Shadow
from .workspace import Left, Scratch

Placed = tuple[DevicePointer, Scratch]
"""Where a workspace lies."""
WrittenBy = Callable[[int], tuple[Location | None, int | None, str]]
"""From the stamp of a store to its place in the source, its line of PTX, and who made it."""


def unwritten_granules(shadow: Shadow, placed: list[Placed]) -> Any:
    """[granules] of global memory: part of a workspace and not written; None where nothing is."""
    found = None
    for pointer, scratch in placed:
        if scratch.unwritten is None or not scratch.is_read or not scratch.unwritten.any():
            continue
        if found is None:
            found = np.zeros(shadow.count, bool)
        bytes_unwritten = np.flatnonzero(scratch.unwritten) + (pointer.address - GLOBAL_WINDOW)
        found[bytes_unwritten // shadow.granule] = True
    return found


def end_scratch(shadow: Shadow, data: Any, placed: list[Placed], writer: WrittenBy) -> None:
    """After a launch: notes in each workspace what it wrote, and the first byte that it left other than zero."""
    for pointer, scratch in placed:
        start = pointer.address - GLOBAL_WINDOW
        if scratch.must_be_zero:
            left = np.flatnonzero(data[start : start + scratch.size])
            note_left(shadow, scratch, start, int(left[0]) if len(left) else None, writer)
        elif scratch.unwritten is not None:
            granules = np.arange(start, start + scratch.size) // shadow.granule
            for kind, record in shadow.records.items():
                if kind.base in WRITES:
                    scratch.unwritten &= record[granules] == 0


def note_left(shadow: Shadow, scratch: Scratch, start: int, byte: int | None, writer: WrittenBy) -> None:
    """What an earlier launch left there stays noted where this one did not write it."""
    if byte is None:
        scratch.left = None
        return
    granule = (start + byte) // shadow.granule
    stamp = last_writes(shadow, granule, granule + 1)[0]
    if stamp:
        scratch.left = Left(byte, *writer(int(stamp)))
        return
    if scratch.left is not None and scratch.left.byte != byte:
        scratch.left = None
