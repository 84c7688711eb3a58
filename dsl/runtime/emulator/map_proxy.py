"""Tensor maps in global memory. Checks that a tensor copy sees all earlier changes of the map that it reads.

Tensor copies read maps through the tensormap proxy. Ordinary stores and `tensormap.replace` change a map through
another proxy, so a release and an acquire must follow the change. The release is a
`fence.proxy.tensormap::generic.release`, or the `tensormap.cp_fenceproxy` that wrote the map. The acquire is a
`fence.proxy.tensormap::generic.acquire` of the map's address, after the release and before the copy. A thread needs
both even for a map that it wrote itself. A map that was written before the launch must be acquired, too. The start of a
kernel acquires only for the other proxies (PTX ISA 8.9.4). Maps in parameters and constants need no fences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from .code import Site
from .findings import Kind
from .memory import GLOBAL_WINDOW
from .shadow import WRITES
from .stamps import LAST_TIME, THREAD_SHIFT, TIME_SHIFT, U, threads_of
from .tensor_maps import BYTES

# No write has this value as its stamp.
NEVER = U((1 << 64) - 1)


class MapRelease(Struct, frozen=True):
    """A release by one thread. It covers the thread's own earlier writes, and the writes that barriers have ordered
    before it.

    `whole_warp` is true if all lanes of the thread's warp release together. `row` is a copy of the thread's vector
    clock, or None if the program needs no vector clocks.
    """

    thread: int
    time: int
    scope: int
    block_since: int
    warp_since: int
    row: Any
    whole_warp: bool = False

    def covers(self, write: int, block_lanes: int) -> bool:
        """Returns whether the write with the stamp `write` is ordered before this release."""
        thread, time = int(threads_of(U(write))), write >> TIME_SHIFT
        if time == LAST_TIME:
            return False
        in_warp = thread >> 5 == self.thread >> 5
        if thread == self.thread or (in_warp and self.whole_warp):
            return time <= self.time
        if time < self.block_since and thread // block_lanes == self.thread // block_lanes:
            return True
        if in_warp and time < self.warp_since:
            return True
        if self.row is None:
            return False
        size = len(self.row)
        return thread // size == self.thread // size and time <= int(self.row[thread % size])


class MapAcquire(Struct, frozen=True):
    """An acquire of a map by one thread. `writes` has the stamp (time and thread) of the last write to each granule of
    the map before the acquire. The stamp is NEVER if that write was not released."""

    time: int
    writes: Any


class MapProxy:
    """Releases and acquires of tensor maps by the threads of a launch."""

    def __init__(self, launch: Any):
        self.launch = launch
        # By cluster, the last release of each thread and scope.
        self.releases: dict[int, dict[tuple[int, int], MapRelease]] = {}
        self.copied: dict[int, dict[int, MapRelease]] = {}  # releases by `tensormap.cp_fenceproxy`; keys: address, warp
        self.acquired: dict[int, dict[int, MapAcquire]] = {}  # by address and thread

    # Fences

    def release(self, g: Any, scope: int) -> None:
        time = self.launch.clock.tick()
        for lane in range(g.n):
            found = self.made(g, lane, time, scope)
            known = self.releases.setdefault(found.thread // g.ordering.cluster_lanes, {})
            known[found.thread, scope] = found

    def release_copy(self, g: Any, lane: int, address: int, scope: int) -> None:
        """Records that a warp has copied a map to `address`. `lane` is the warp's lowest lane, and the release counts
        for all lanes of the warp."""
        found = self.made(g, lane, self.launch.clock.tick(), scope, whole_warp=True)
        self.copied.setdefault(address, {})[found.thread >> 5] = found

    def made(self, g: Any, lane: int, time: int, scope: int, whole_warp: bool = False) -> MapRelease:
        ordering, position = g.ordering, int(g.index()[lane])
        since = int(ordering.block_since[position // ordering.block_lanes]), int(ordering.warp_since[position >> 5])
        row = ordering.row(position).copy() if ordering.vector else None
        return MapRelease(int(g.lane("gid")[lane]), time, scope, *since, row, whole_warp)

    def acquire(self, g: Any, addresses: Any, scope: int) -> None:
        """Acquires those writes to the map at each lane's address whose release is ordered before this acquire."""
        time = self.launch.clock.tick()
        for lane, address in enumerate(addresses.tolist()):
            writes = self.writes_at(address)
            for write in np.unique(writes[writes != 0]).tolist():
                if not self.is_released(write, address, g, lane, scope):
                    writes[writes == U(write)] = NEVER
            self.acquired.setdefault(address, {})[int(g.lane("gid")[lane])] = MapAcquire(time, writes)

    def is_released(self, write: int, address: int, g: Any, lane: int, scope: int) -> bool:
        """Returns whether `write` was released before the lane's acquire. The scopes of the release and of the acquire
        must include both threads."""
        cluster = self.releases.get(int(threads_of(U(write))) // g.ordering.cluster_lanes, {})
        for found in (*self.copied.get(address, {}).values(), *cluster.values()):
            if not found.covers(write, g.wave.block_lanes) or not self.is_before(found, g, lane):
                continue
            if self.includes(found, g, lane, min(scope, found.scope)):
                return True
        return False

    def includes(self, found: MapRelease, g: Any, lane: int, scope: int) -> bool:
        causality, size = g.wave.causality, g.wave.block_lanes
        return bool(causality.includes(found.thread // size, scope, int(g.lane("gid")[lane]) // size))

    def is_before(self, found: MapRelease, g: Any, lane: int) -> bool:
        mine = int(g.lane("gid")[lane])
        in_warp = found.whole_warp and found.thread >> 5 == mine >> 5
        return in_warp or bool(ordered([found.thread], [found.time], g, lane)[0])

    # Uses

    def writes_at(self, address: int) -> Any:
        """Returns the stamp of the last write to each granule of the map at `address`. The stamp is 0 if this launch
        has not written the granule."""
        shadow = self.launch.device.shadow
        first, count = (address - GLOBAL_WINDOW) // shadow.granule, BYTES // shadow.granule
        found = np.zeros(count, U)
        for kind, record in shadow.records.items():
            if kind.base in WRITES:
                np.maximum(found, record[first : first + count], out=found)
        return found

    def check_use(self, address: int, g: Any, site: Site) -> None:
        """Reports the first lane that uses the map at `address` and has not acquired the map's current content."""
        writes, acquired = self.writes_at(address), self.acquired.get(address, {})
        for lane in range(g.n):
            own = acquired.get(int(g.lane("gid")[lane]))
            if own is not None and (own.writes == writes).all():
                continue
            # Another thread's acquire is enough if a barrier orders it before the copy.
            others = list(acquired.items())
            times = [each.time for _, each in others]
            before = ordered([thread for thread, _ in others], times, g, lane)
            known = [each for (_, each), is_before in zip(others, before, strict=True) if is_before]
            if any((each.writes == writes).all() for each in known):
                continue
            message = "a tensor copy reads a map in global memory with no fence.proxy.tensormap::generic.acquire before"
            if known:
                message = (
                    "a tensor copy reads a map that was changed with no fence.proxy.tensormap::generic.release after "
                    "the change, or no acquire after that"
                )
            author = f"written by {g.launch.origins.author(writes.max())}" if writes.any() else None
            g.launch.report(Kind.RACE, message, g, lane, site, author)
            return


def ordered(threads: list[int], at: list[int], g: Any, lane: int) -> Any:
    """Returns a mask: is the access of `threads[i]` at the time `at[i]` ordered before the current instruction of
    `lane`?"""
    stamps = np.array(threads, U) << U(THREAD_SHIFT) | np.array(at, U) << U(TIME_SHIFT)
    return g.ordering.ordered(stamps, np.zeros(len(stamps), np.int64), g, np.full(len(stamps), lane))
