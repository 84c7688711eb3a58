"""Makes texts that name the thread and instruction of a stamp. Finds the last writer of each byte of global memory in a
launch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .code import Site
from .memory import GLOBAL_WINDOW, EmulatedAllocation
from .shadow import WRITES, Shadow
from .stamps import SITE_MASK, U, threads_of, times

Extent = tuple[int, int, int]


def coordinates(linear: Any, shape: Extent) -> tuple[Any, Any, Any]:
    """The coordinates (x, y, z) of linear numbers, where x changes fastest."""
    x, y, _ = shape
    return linear % np.uint32(x), linear // np.uint32(x) % np.uint32(y), linear // np.uint32(x * y)


@dataclass(frozen=True, slots=True)
class Origins:
    """The shape of a launch and the instructions that have stamps. These data are small enough to keep after the
    launch. Threads are numbered from the first cluster that runs."""

    block: Extent
    block_lanes: int
    cluster: Extent
    cluster_grid: Extent
    first_cluster: int
    stamped: list[Site]

    def where(self, gid: int) -> tuple[Extent, Extent]:
        """The coordinates of the block and of the thread, for a thread's number in the launch."""
        linear, thread = divmod(gid, self.block_lanes)
        # Blocks are numbered cluster after cluster.
        cluster, rank = divmod(linear, self.cluster[0] * self.cluster[1] * self.cluster[2])
        base = coordinates(np.uint32(cluster + self.first_cluster), self.cluster_grid)
        within = coordinates(np.uint32(rank), self.cluster)
        block = [int(base[axis]) * self.cluster[axis] + int(within[axis]) for axis in range(3)]
        x, y, z = (int(each) for each in coordinates(np.uint32(thread), self.block))
        return (block[0], block[1], block[2]), (x, y, z)

    def site_of(self, stamp: int) -> Site | None:
        """The instruction of a stamp. None if the instruction's number is too large for a stamp."""
        number = stamp & SITE_MASK
        return self.stamped[number] if number < len(self.stamped) else None

    def author(self, stamp: Any) -> str:
        """A text that names the thread and the instruction of a stamp."""
        block, thread = self.where(int(threads_of(U(stamp))))
        site = self.site_of(int(stamp))
        at = "" if site is None else f" at {site.location or 'no source line'} (PTX line {site.ptx_line})"
        return f"thread {thread} of block {block}{at}"


@dataclass(frozen=True, slots=True)
class Writers:
    """The stamp of the last write to each granule of one allocation."""

    origins: Origins
    granule: int
    first: int  # the address of the first granule
    stamps: Any

    def __call__(self, address: int) -> str | None:
        """A text that names the last writer of the byte at an address. None if nobody wrote it."""
        stamp = self.stamps[(address - self.first) // self.granule]
        return self.origins.author(stamp) if stamp else None


def writers_of(shadow: Shadow, allocation: EmulatedAllocation, origins: Origins) -> Writers:
    """The last writers of an allocation. Call this function while the records of the launch still exist."""
    granule = shadow.granule
    start = (allocation.address - GLOBAL_WINDOW) // granule
    end = -(-(allocation.end - GLOBAL_WINDOW) // granule)
    return Writers(origins, granule, GLOBAL_WINDOW + start * granule, last_writes(shadow, start, end))


def last_writes(shadow: Shadow, start: int, end: int) -> Any:
    """The stamp of the last write to each granule from `start` to `end`, or 0 if nobody wrote it. Between two
    synchronisations the records cannot order writes of different kinds. Then the write that is later in the text
    counts."""
    last = np.zeros(end - start, U)
    for kind, record in shadow.records.items():
        if kind.base in WRITES:
            stamps = record[start:end]
            later = times(stamps) > times(last)
            later |= (times(stamps) == times(last)) & (stamps & U(SITE_MASK) >= last & U(SITE_MASK))
            last = np.where((stamps != 0) & later, stamps, last)
    return last
