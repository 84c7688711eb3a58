"""Counts what the addresses of warps need: passes over the banks of shared memory, and sectors of global memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from .counters import SECTOR

# Number of bytes of a line of global memory. A pass of `cp.async` writes bytes of one line.
LINE = 128
LANE = np.arange(32, dtype=np.int64)


def phase_lanes(size: int) -> int:
    """Number of lanes that shared memory serves in one pass: 32 with up to 4 bytes each, 16 with 8 bytes, 8 with 16
    bytes."""
    return 32 if size <= 4 else 16 if size == 8 else 8


def shared_wavefronts(rows: Any, size: int) -> tuple[int, int]:
    """Number of wavefronts, and number of phases with an active lane. `rows` are addresses in bytes, an array [warps,
    32], with -1 for an absent lane.

    A phase takes as many passes as the largest number of distinct 4-byte words in one of the 32 banks.
    """
    lanes = phase_lanes(size)
    phases = rows.reshape(-1, lanes)
    ramp = LANE[:lanes] * size
    # Adjacent lanes have no conflict, so nothing needs sorting.
    if (phases[:, 0] >= 0).all() and (phases == phases[:, :1] + ramp).all():
        return len(phases), len(phases)
    # Equal words of a phase are one access. So after sorting only the first of equal words counts.
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
    """Number of passes of atomic operations on shared addresses. `rows` is an array [warps, 32] in bytes, with -1 for
    an absent lane.

    A pass changes each word once. So lanes in one bank take turns, and so do lanes at one word.
    """
    phases = rows.reshape(-1, phase_lanes(size))
    keys = ((phases >> 2) & 31) + 32 * np.arange(len(phases))[:, None]
    turns = np.bincount(keys[phases >= 0], minlength=32 * len(phases))
    return int(turns.reshape(-1, 32).max(1).sum())


def copy_wavefronts(rows: Any, lines: Any, size: int) -> int:
    """Number of passes of `cp.async` to the shared addresses `rows` from the lines `lines` of global memory. Both are
    arrays [warps, 32], with -1 for an absent lane.

    A pass writes bytes of one line of 128 bytes. Nsight Compute on sm_90 counts the same (benchmarks/wavefronts.py).
    For example, 8 lanes of 16 bytes may read two rows of 64 bytes, which takes two passes. If they read four rows of 32
    bytes, it takes four passes. The banks do not matter. Nsight Compute counts more passes than this function if rows
    share a line, or begin 16 bytes past a multiple of 32.
    """
    lanes = phase_lanes(size)
    phases, lines = rows.reshape(-1, lanes), lines.reshape(-1, lanes)
    passes = 0
    # Each iteration handles one line of global memory for each phase.
    while (phases >= 0).any():
        line = np.where(phases >= 0, lines, -1).max(1, keepdims=True)
        now = (phases >= 0) & ((lines == line) | (lines < 0))
        passes += shared_wavefronts(np.where(now, phases, -1), size)[0]
        phases = np.where(now, -1, phases)
    return passes


def global_sectors(offsets: Any, size: int, edges: Any, sizes: Any, alone: bool = False) -> tuple[int, int]:
    """Number of sectors that the lanes access, and number of bytes that an ideal layout would need. `offsets` are in
    bytes, and accesses are aligned.

    Lanes are in the order of their threads. `edges` [lanes - 1] is true where the next lane is in another warp. `sizes`
    [warps] has the number of lanes of each warp. The ideal bytes are the distinct bytes of each warp. The bytes of a
    warp that fill at least one sector are rounded up to whole sectors: the last sector of a row of the array may be
    partly used. With `alone` the bytes are always rounded up. `alone` is for atomic operations, which change one word
    after another and share nothing with other warps.
    """
    # Mostly the offsets ascend within a warp and need no sorting.
    if not ((offsets[1:] >= offsets[:-1]) | edges).all():
        warp = np.repeat(np.arange(len(sizes)), sizes)
        offsets = offsets[np.lexsort((offsets, warp))]
    sectors = offsets >> 5
    found = int(np.count_nonzero((sectors[1:] != sectors[:-1]) | edges)) + 1
    fresh = np.concatenate(([True], (offsets[1:] != offsets[:-1]) | edges)).astype(np.int64)
    each = np.add.reduceat(fresh, np.cumsum(sizes) - sizes) * size
    whole = -(-each // SECTOR) * SECTOR
    return found, int(np.where((each >= SECTOR) | alone, whole, each).sum())
