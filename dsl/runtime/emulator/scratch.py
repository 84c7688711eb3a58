"""Workspaces in a launch. The module tracks which granules nobody has written since the call began. It also finds the
bytes that a launch leaves nonzero in workspaces that must be zero after the launch."""

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
# A function of a store's stamp. It returns the place in the source, the line of PTX, and a text that names the thread.
WrittenBy = Callable[[int], tuple[Location | None, int | None, str]]


def unwritten_granules(shadow: Shadow, placed: list[Placed]) -> Any:
    """A mask of the granules of global memory that belong to workspaces and are not written. None if there are no such
    granules."""
    found = None
    for pointer, scratch in placed:
        if scratch.unwritten is None or not scratch.is_read or not scratch.unwritten.any():
            continue
        if found is None:
            found = np.zeros(shadow.count, bool)
        first, before, behind = granules_of(pointer, scratch, shadow.granule)
        parts = np.pad(scratch.unwritten, (before, behind)) if before or behind else scratch.unwritten
        # The mask is by granule and not by byte. An index of 8 bytes for each byte of a 16 MB array took 54 ms, and
        # this takes 1 ms.
        words = parts.view(f"u{min(shadow.granule, 8)}").reshape(-1, max(shadow.granule // 8, 1))
        found[first : first + len(words)] |= words.any(axis=1)
    return found


def granules_of(pointer: DevicePointer, scratch: Scratch, granule: int) -> tuple[int, int, int]:
    """Three numbers for a workspace. The first is the number of its first granule. The second counts the bytes of this
    granule that lie before the workspace. The third counts the bytes of the last granule that lie after the
    workspace."""
    start = pointer.address - GLOBAL_WINDOW
    return start // granule, start % granule, -(start + scratch.size) % granule


def end_scratch(shadow: Shadow, data: Any, placed: list[Placed], writer: WrittenBy) -> None:
    """Updates the workspaces after a launch. It records which parts the launch wrote, and the first byte that the
    launch left nonzero."""
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
    """Records the first byte that is not zero, and its writer. If this launch did not write the byte, the record of the
    earlier launch stays."""
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
