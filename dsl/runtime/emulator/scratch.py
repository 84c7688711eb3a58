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

Placed = tuple[DevicePointer, Scratch]  # a workspace and where it lies
# From the stamp of a store to its place in the source, its line of PTX, and its thread.
WrittenBy = Callable[[int], tuple[Location | None, int | None, str]]


def unwritten_granules(shadow: Shadow, placed: list[Placed]) -> Any:
    """[granules] of global memory: those of workspaces that are not written. None if there are none."""
    found = None
    for pointer, scratch in placed:
        if scratch.unwritten is None or not scratch.is_read or not scratch.unwritten.any():
            continue
        if found is None:
            found = np.zeros(shadow.count, bool)
        first, before, behind = granules_of(pointer, scratch, shadow.granule)
        parts = np.pad(scratch.unwritten, (before, behind)) if before or behind else scratch.unwritten
        # By granule and not by byte: an index of 8 bytes for each byte of a 16 MB array took 54 ms, and this takes 1.
        words = parts.view(f"u{min(shadow.granule, 8)}").reshape(-1, max(shadow.granule // 8, 1))
        found[first : first + len(words)] |= words.any(axis=1)
    return found


def granules_of(pointer: DevicePointer, scratch: Scratch, granule: int) -> tuple[int, int, int]:
    """The first granule of a workspace, the bytes of that granule before the workspace, and those of the last one after
    it."""
    start = pointer.address - GLOBAL_WINDOW
    return start // granule, start % granule, -(start + scratch.size) % granule


def end_scratch(shadow: Shadow, data: Any, placed: list[Placed], writer: WrittenBy) -> None:
    """After a launch: records in each workspace what it wrote, and the first byte that it left other than zero."""
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
    """A byte that an earlier launch left stays recorded if this one did not write it."""
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
