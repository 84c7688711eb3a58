"""Names the thread and the instruction of a stamp, for messages. Finds the last writer of each byte of global
memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from .code import Site
from .memory import GLOBAL_WINDOW, EmulatedAllocation
from .shadow import WRITES, Shadow
from .stamps import SITE_MASK, U, threads_of, times

Extent = tuple[int, int, int]


def coordinates(linear: Any, shape: Extent) -> tuple[Any, Any, Any]:
    """Converts linear numbers to coordinates (x, y, z), where x changes fastest."""
    x, y, _ = shape
    return linear % np.uint32(x), linear // np.uint32(x) % np.uint32(y), linear // np.uint32(x * y)


class Origins(Struct, frozen=True):
    """What is needed to name the thread and the instruction of a stamp after the launch. Threads are numbered from the
    first cluster that the emulator runs."""

    block: Extent
    block_lanes: int
    cluster: Extent
    cluster_grid: Extent
    first_cluster: int
    stamped: list[Site]

    def where(self, gid: int) -> tuple[Extent, Extent]:
        """Converts a thread's number in the launch to the coordinates of its block and its coordinates in the block."""
        linear, thread = divmod(gid, self.block_lanes)
        # Blocks are numbered cluster after cluster.
        cluster, rank = divmod(linear, self.cluster[0] * self.cluster[1] * self.cluster[2])
        base = coordinates(np.uint32(cluster + self.first_cluster), self.cluster_grid)
        within = coordinates(np.uint32(rank), self.cluster)
        block = [int(base[axis]) * self.cluster[axis] + int(within[axis]) for axis in range(3)]
        x, y, z = (int(each) for each in coordinates(np.uint32(thread), self.block))
        return (block[0], block[1], block[2]), (x, y, z)

    def site_of(self, stamp: int) -> Site | None:
        """Returns the instruction of a stamp. Returns None if it is one of the instructions beyond the largest number
        in a stamp."""
        number = stamp & SITE_MASK
        return self.stamped[number] if number < len(self.stamped) else None

    def author(self, stamp: Any) -> str:
        """Returns a text that names the thread and the instruction of a stamp."""
        block, thread = self.where(int(threads_of(U(stamp))))
        site = self.site_of(int(stamp))
        at = "" if site is None else f" at {site.location or 'no source line'} (PTX line {site.ptx_line})"
        return f"thread {thread} of block {block}{at}"


class Writers(Struct, frozen=True):
    """The stamps of the last writes to one allocation, one for each granule."""

    origins: Origins
    granule: int
    first: int  # the address of the first granule
    stamps: Any

    def __call__(self, address: int) -> str | None:
        """Returns a text that names the last writer of the byte at `address`, or None if no thread wrote it."""
        stamp = self.stamps[(address - self.first) // self.granule]
        return self.origins.author(stamp) if stamp else None


def writers_of(shadow: Shadow, allocation: EmulatedAllocation, origins: Origins) -> Writers:
    """Returns the last writers of an allocation. Call this function before the launch's shadow memory is dropped."""
    granule = shadow.granule
    start = (allocation.address - GLOBAL_WINDOW) // granule
    end = -(-(allocation.end - GLOBAL_WINDOW) // granule)
    return Writers(origins, granule, GLOBAL_WINDOW + start * granule, last_writes(shadow, start, end))


def last_writes(shadow: Shadow, start: int, end: int) -> Any:
    """Returns the stamp of the last write to each granule from `start` to `end`, or 0 if no thread wrote it.

    A plain and a strong write may have the same time. Then the write whose instruction is later in the text counts.
    """
    last = np.zeros(end - start, U)
    for kind, record in shadow.records.items():
        if kind.base in WRITES:
            stamps = record[start:end]
            later = times(stamps) > times(last)
            later |= (times(stamps) == times(last)) & (stamps & U(SITE_MASK) >= last & U(SITE_MASK))
            last = np.where((stamps != 0) & later, stamps, last)
    return last
