"""Workspaces in a launch. Tracks which of their granules have not been written since the call began. Finds bytes that a
launch leaves nonzero in workspaces that must be zero afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .findings import Location
from .memory import GLOBAL_WINDOW, DevicePointer
from .origins import last_writes
from .shadow import WRITES, Shadow
from .workspace import Left, Scratch

Placed = tuple[DevicePointer, Scratch]  # the address of a workspace, and the workspace
# Takes the stamp of a store. Returns its source location, its PTX line, and a text that names the thread.
WrittenBy = Callable[[int], tuple[Location | None, int | None, str]]


def unwritten_granules(shadow: Shadow, placed: list[Placed]) -> Any:
    """Returns a mask of the granules of global memory that belong to workspaces and have not been written. Returns None
    if there are none."""
    found = None
    for pointer, scratch in placed:
        if scratch.unwritten is None or not scratch.is_read or not scratch.unwritten.any():
            continue
        if found is None:
            found = np.zeros(shadow.count, bool)
        first, before, behind = granules_of(pointer, scratch, shadow.granule)
        parts = np.pad(scratch.unwritten, (before, behind)) if before or behind else scratch.unwritten
        # The bytes are reduced to granules before the mask is indexed. Indexing each byte of a 16 MB array took 54 ms,
        # and this takes 1 ms.
        words = parts.view(f"u{min(shadow.granule, 8)}").reshape(-1, max(shadow.granule // 8, 1))
        found[first : first + len(words)] |= words.any(axis=1)
    return found


def granules_of(pointer: DevicePointer, scratch: Scratch, granule: int) -> tuple[int, int, int]:
    """Returns the number of a workspace's first granule, and two numbers of bytes. The first granule may begin before
    the workspace, and the last may end after it, by these numbers of bytes."""
    start = pointer.address - GLOBAL_WINDOW
    return start // granule, start % granule, -(start + scratch.size) % granule


def end_scratch(shadow: Shadow, data: Any, placed: list[Placed], writer: WrittenBy) -> None:
    """Updates the workspaces after a launch. Records which parts the launch has written, and the first byte that it has
    left nonzero."""
    for pointer, scratch in placed:
        start = pointer.address - GLOBAL_WINDOW
        if scratch.must_be_zero:
            left = np.flatnonzero(data[start : start + scratch.size])
            note_left(shadow, scratch, start, int(left[0]) if len(left) else None, writer)
        elif scratch.unwritten is not None and scratch.unwritten.any():
            first, before, behind = granules_of(pointer, scratch, shadow.granule)
            last = (start + scratch.size + behind) // shadow.granule
            left = np.ones(last - first, bool)
            for kind, record in shadow.records.items():
                if kind.base in WRITES:
                    left &= record[first:last] == 0
            scratch.unwritten &= np.repeat(left, shadow.granule)[before : before + scratch.size]


def note_left(shadow: Shadow, scratch: Scratch, start: int, byte: int | None, writer: WrittenBy) -> None:
    """Records the first byte that is not zero, and the store that wrote it. If this launch has not written the byte, an
    earlier launch's record of the same byte is kept."""
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
