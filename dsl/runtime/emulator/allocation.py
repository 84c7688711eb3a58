"""Keeps the memory that numpy frees in the process.

The emulator allocates and frees arrays of 100 KiB to a few MiB all the time. From 128 KiB on, glibc maps each of them
anew, and it returns the top of the heap to the system, so their pages are faulted in again and again. An `mma` of 256
warps takes 0.51 ms then, and 0.25 ms when the memory stays with the process.
"""

from __future__ import annotations

import ctypes
from functools import cache

# glibc, <malloc.h>
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
# Bytes of an array that still gets pages of its own. glibc allows no more.
MAPPED_FROM = 32 << 20
# Bytes that the process keeps at the top of the heap.
KEPT = 512 << 20


@cache
def keep_freed_memory() -> None:
    """Sets the thresholds once per process. Other C libraries have no `mallopt`, and then nothing happens."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_THRESHOLD, MAPPED_FROM)
    mallopt(M_TRIM_THRESHOLD, KEPT)
