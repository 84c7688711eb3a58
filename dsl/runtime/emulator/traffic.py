"""Counts the costs of a warp's addresses: wavefronts of shared memory, and sectors of global memory.

A wavefront is one pass over the 32 banks of shared memory. A sector has 32 bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .counters import SECTOR

# Number of bytes of a line of global memory. One pass of a `cp.async` writes bytes of only one line.
LINE = 128
LANE = np.arange(32, dtype=np.int64)


def phase_lanes(size: int) -> int:
    """Returns the number of lanes that shared memory serves in one pass: 32 for accesses of up to 4 bytes, 16 for 8
    bytes, and 8 for 16 bytes."""
    return 32 if size <= 4 else 16 if size == 8 else 8


def shared_wavefronts(rows: Any, size: int) -> tuple[int, int]:
    """Returns the number of wavefronts, and the number of phases with an active lane. `rows` has the addresses in
    bytes, as an array [warps, 32], with -1 for an absent lane.

    A phase is the part of a warp that one pass could serve (see `phase_lanes`). Its number of passes is the largest
    number of distinct 4-byte words that it accesses in one of the 32 banks.
    """
    lanes = phase_lanes(size)
    phases = rows.reshape(-1, lanes)
    ramp = LANE[:lanes] * size
    # If the lanes' addresses are adjacent, there is no conflict.
    if (phases[:, 0] >= 0).all() and (phases == phases[:, :1] + ramp).all():
        return len(phases), len(phases)
    # Lanes that access the same word share one access. So after sorting, only the first of equal words is counted.
    words = phases >> 2
    if size > 4:
        words = (words[:, :, None] + LANE[: size // 4]).reshape(len(phases), -1)
        words[np.repeat(phases < 0, size // 4, axis=1)] = -1
    words = np.sort(words, axis=1)
    fresh = words >= 0
    fresh[:, 1:] &= words[:, 1:] != words[:, :-1]
    keys = (words & 31) + 32 * np.arange(len(words))[:, None]
    passes = np.bincount(keys[fresh], minlength=32 * len(words)).reshape(-1, 32).max(1)
    return int(passes.sum()), int((passes > 0).sum())


def atomic_wavefronts(rows: Any, size: int) -> int:
    """Returns the number of passes of atomic operations on shared memory. `rows` has the addresses in bytes, as an
    array [warps, 32], with -1 for an absent lane.

    A pass changes each word at most once. So lanes with the same bank take turns, even if they access the same word.
    """
    phases = rows.reshape(-1, phase_lanes(size))
    keys = ((phases >> 2) & 31) + 32 * np.arange(len(phases))[:, None]
    turns = np.bincount(keys[phases >= 0], minlength=32 * len(phases))
    return int(turns.reshape(-1, 32).max(1).sum())


def copy_wavefronts(rows: Any, lines: Any, size: int) -> int:
    """Returns the number of passes of a `cp.async` from the lines `lines` of global memory to the shared addresses
    `rows`. Both are arrays [warps, 32], with -1 for an absent lane.

    A pass writes bytes of only one 128-byte line. For example, 8 lanes of 16 bytes need two passes to copy two rows of
    64 bytes, and four passes to copy four rows of 32 bytes. The banks do not matter there. Nsight Compute counts the
    same on sm_90 (benchmarks/wavefronts.py). It counts more passes if rows share a line, or begin 16 bytes past a
    multiple of 32.
    """
    lanes = phase_lanes(size)
    phases, lines = rows.reshape(-1, lanes), lines.reshape(-1, lanes)
    passes = 0
    # Each iteration handles one line of global memory in each phase.
    while (phases >= 0).any():
        line = np.where(phases >= 0, lines, -1).max(1, keepdims=True)
        now = (phases >= 0) & ((lines == line) | (lines < 0))
        passes += shared_wavefronts(np.where(now, phases, -1), size)[0]
        phases = np.where(now, -1, phases)
    return passes


def global_sectors(
    offsets: Any, size: int, edges: Any, starts: Any, sizes: Any, alone: bool = False
) -> tuple[int, int]:
    """Returns the number of sectors that the lanes access, and the number of bytes that an ideal layout would transfer.
    `offsets` are in bytes, and accesses are aligned.

    Lanes are in the order of their threads. `edges` [lanes - 1] is true if the next lane is in another warp. `starts`
    [warps] has the position of each warp's first lane, and `sizes` [warps] its number of lanes. The ideal bytes are the
    distinct bytes of each warp. If they fill at least one sector, they are rounded up to whole sectors, since an
    array's row may end inside a sector. Fewer bytes are rounded up only if `alone` is true. That is for atomic
    operations, which share no sectors with other warps.
    """
    # In most cases the offsets ascend within each warp, and need no sorting.
    if not ((offsets[1:] >= offsets[:-1]) | edges).all():
        warp = np.repeat(np.arange(len(sizes)), sizes)
        offsets = offsets[np.lexsort((offsets, warp))]
    sectors = offsets >> 5
    found = int(np.count_nonzero((sectors[1:] != sectors[:-1]) | edges)) + 1
    fresh = np.ones(len(offsets), np.int64)
    fresh[1:] = (offsets[1:] != offsets[:-1]) | edges
    each = np.add.reduceat(fresh, starts) * size
    whole = -(-each // SECTOR) * SECTOR
    return found, int(np.where((each >= SECTOR) | alone, whole, each).sum())
