"""How many passes over the banks, and how many sectors, the addresses of warps need."""

from __future__ import annotations

from typing import Any

import numpy as np

from .counters import SECTOR

# Bytes of a line of global memory: a pass of `cp.async` writes bytes of one line.
LINE = 128
LANE = np.arange(32, dtype=np.int64)


def phase_lanes(size: int) -> int:
    """Lanes that shared memory serves in one pass: 32 with up to 4 bytes, 16 with 8 bytes, 8 with 16 bytes."""
    return 32 if size <= 4 else 16 if size == 8 else 8


def shared_wavefronts(rows: Any, size: int) -> tuple[int, int]:
    """(wavefronts, phases with an active lane) for addresses [warps, 32] in bytes; -1 for an absent lane.

    The passes of a phase are the largest number of distinct 4-byte words in one of the 32 banks.
    """
    lanes = phase_lanes(size)
    phases = rows.reshape(-1, lanes)
    ramp = LANE[:lanes] * size
    # Lanes side by side have no conflict: nothing to sort.
    if (phases[:, 0] >= 0).all() and (phases == phases[:, :1] + ramp).all():
        return len(phases), len(phases)
    # Equal words of a phase are one access, so only the first of each counts after sorting.
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
    """Passes of atomic operations on shared addresses [warps, 32] in bytes; -1 for an absent lane.

    A pass changes each word once: lanes of one bank take turns, and so do those of one word.
    """
    phases = rows.reshape(-1, phase_lanes(size))
    keys = ((phases >> 2) & 31) + 32 * np.arange(len(phases))[:, None]
    turns = np.bincount(keys[phases >= 0], minlength=32 * len(phases))
    return int(turns.reshape(-1, 32).max(1).sum())


def copy_wavefronts(rows: Any, lines: Any, size: int) -> int:
    """Passes of `cp.async` to shared addresses [warps, 32], from these lines of global memory [warps, 32]; -1 for none.

    A pass writes bytes of one line of 128. Nsight Compute on sm_90 counts the same (benchmarks/wavefronts.py): 8 lanes
    of 16 bytes take two passes from two rows of 64 bytes, four from four of 32, whatever their banks. Rows that share a
    line, or begin 16 bytes past a multiple of 32, take more there than are counted here.
    """
    lanes = phase_lanes(size)
    phases, lines = rows.reshape(-1, lanes), lines.reshape(-1, lanes)
    passes = 0
    # One line of global memory at a time.
    while (phases >= 0).any():
        line = np.where(phases >= 0, lines, -1).max(1, keepdims=True)
        now = (phases >= 0) & ((lines == line) | (lines < 0))
        passes += shared_wavefronts(np.where(now, phases, -1), size)[0]
        phases = np.where(now, -1, phases)
    return passes


def global_sectors(offsets: Any, size: int, edges: Any, sizes: Any, alone: bool = False) -> tuple[int, int]:
    """(sectors, bytes that fewer could hold) of the lanes' offsets in bytes. Accesses are aligned.

    Lanes are in the order of their threads. `edges` [lanes - 1] says where another warp begins, `sizes` [warps] how
    many lanes each warp has. The bytes are the distinct ones of each warp, in whole sectors if they fill one: the rest
    of a row after its last whole sector takes another one. alone: always in whole sectors, for atomic operations, which
    change one word after another and share nothing with other warps.
    """
    # Mostly offsets ascend within a warp, and need no sorting.
    if not ((offsets[1:] >= offsets[:-1]) | edges).all():
        warp = np.repeat(np.arange(len(sizes)), sizes)
        offsets = offsets[np.lexsort((offsets, warp))]
    sectors = offsets >> 5
    found = int(np.count_nonzero((sectors[1:] != sectors[:-1]) | edges)) + 1
    fresh = np.concatenate(([True], (offsets[1:] != offsets[:-1]) | edges)).astype(np.int64)
    each = np.add.reduceat(fresh, np.cumsum(sizes) - sizes) * size
    whole = -(-each // SECTOR) * SECTOR
    return found, int(np.where((each >= SECTOR) | alone, whole, each).sum())
