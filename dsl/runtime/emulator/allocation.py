"""How the process keeps the memory that numpy frees.

The emulator makes and drops arrays of 100 KiB to a few MiB all the time.  glibc maps each of them afresh from 128 KiB
on, and gives the top of the heap back to the system, so that their pages are faulted in again and again: an `mma` of
256 warps takes 0.51 ms then, and 0.25 ms when the memory stays with the process.
"""

from __future__ import annotations

import ctypes
from functools import cache

# glibc, <malloc.h>
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
MAPPED_FROM = 32 << 20  # bytes of an array that still gets pages of its own; glibc allows no more
KEPT = 512 << 20  # bytes


@cache
def keep_freed_memory() -> None:
    """Sets the thresholds once a process; other C libraries have no `mallopt`, and nothing happens there."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_THRESHOLD, MAPPED_FROM)
    mallopt(M_TRIM_THRESHOLD, KEPT)
