"""Tracks asynchronous copies and wgmma products in flight: the memory that they access, and when they complete.

A `wgmma` is an asynchronous operation that only reads memory (`products.py`). A `cp.async` completes when its thread
waits for the copy's group, or when an mbarrier's phase completes (`landings.py`). Tensor copies complete in the same
two ways (`tensor_copies.py`). Until a copy is complete, no thread may write to its source or access its destination. On
completion, the emulator records a read of the source and a write of the destination. Both belong to the issuing thread
and have the time of the completion.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from .code import Site
from .findings import Kind
from .landings import Landing, Landings
from .shadow import PLAIN_READ, SpacePlace
from .spaces import Space
from .stamps import U

# This constant has the type of the counters, since numpy's `add.at` is fast only for equal types.
ONE_READER = np.int32(1)

Source = tuple[Any, SpacePlace]  # positions in `Operation.threads`, and the place that each of these threads reads


class Operation(Struct):
    """The asynchronous operations in flight that one instruction has issued, one for each thread. `threads` contains
    the positions of these threads in the wave. `target` is None for wgmma products, which write registers."""

    site: Site
    threads: Any
    groups: Any  # for each copy, the number of its group within its thread
    numbers: Any  # for each copy, its number in the wave
    memory: Space
    target: SpacePlace | None
    device: Space
    sources: list[Source]
    stamps: Any  # without the time

    def part(self, lanes: Any) -> Operation:
        """Returns the operations of some threads only. `lanes` contains indices into `threads`."""
        position = np.full(len(self.threads), -1)
        position[lanes] = np.arange(len(lanes))
        sources = []
        for readers, place in self.sources:
            kept = np.flatnonzero(position[readers] >= 0)
            if len(kept):
                sources.append((position[readers[kept]], place.restricted(kept)))
        target = None if self.target is None else self.target.restricted(lanes)
        columns = {name: getattr(self, name)[lanes] for name in ("threads", "groups", "numbers", "stamps")}
        return replace(self, target=target, sources=sources, **columns)

    def units(self) -> Any:
        """Returns the numbers of the shadow memory's granules in each thread's destination, [threads, granules]."""
        assert self.target is not None
        return self.target.units(self.memory.shadow.granule)


class Tracked(Struct):
    """A `cp.async.mbarrier.arrive` of some threads. Each thread arrives at the mbarrier when its earlier copies are
    complete."""

    site: Site
    threads: Any
    known: Any  # the accesses that are ordered before the arrivals
    copies: list[list[tuple[Landings, Any, int]]]  # for each thread and copy: table, granules, number
    began: int = 0  # the logical time


class Sources:
    """Counts the copies in flight that read each granule of one memory space. Includes the copies of all waves."""

    def __init__(self, count: int, size: int):
        self.granule = size
        self.readers = np.zeros(count, np.int32)
        self.operations: dict[int, tuple[Any, Operation]] = {}

    def add(self, wave: Any, operation: Operation) -> None:
        self.operations[id(operation)] = (wave, operation)
        for _, place in operation.sources:
            np.add.at(self.readers, place.covered(self.granule), ONE_READER)

    def remove(self, operation: Operation) -> None:
        if self.operations.pop(id(operation), None) is not None:
            for _, place in operation.sources:
                np.subtract.at(self.readers, place.covered(self.granule), ONE_READER)

    def check_write(self, place: SpacePlace, g: Any, site: Site) -> None:
        """Reports a write to memory that a copy in flight still reads."""
        if not self.operations:
            return
        met = place.take(self.readers, self.granule) > 0
        if not met.any():
            return
        where = np.nonzero(met)
        lane, unit = int(where[0][0]), int(place.granules(where, self.granule)[0])
        writer = f"written by {g.launch.origins.author(g.stamps(site)[lane])}"
        for wave, operation in self.operations.values():
            message = "the source of an asynchronous copy is written before the copy is complete"
            if operation.target is None:
                message = "an operand of a product is written before the product is complete"
            for readers, source in operation.sources:
                rows = np.flatnonzero((source.units(self.granule) == unit).any(1))
                if len(rows):
                    reader = int(readers[rows[0]])
                    part = wave.lanes_at(operation.threads[reader : reader + 1])
                    g.launch.report(Kind.SOURCE_CHANGED, message, part, 0, operation.site, writer)
                    return


class Copies:
    """The asynchronous copies of a wave."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.open = np.zeros(wave.lanes, np.int64)
        self.made = 0
        self.pending: list[Operation] = []
        self.landed: list[Operation] = []  # completed by an mbarrier, but not awaited by their own threads
        self.most_landed = 64

    def start(
        self,
        g: Any,
        site: Site,
        memory: Space,
        target: SpacePlace | None,
        device: Space,
        sources: list[tuple[Any, SpacePlace]],
    ) -> None:
        threads = g.index()
        numbers = self.made + 1 + np.arange(g.n)
        self.made += g.n
        stamps = g.lane("gid stamp") | U(site.stamp)
        groups = self.open[threads]
        # If no store of the program can reach a source, the source needs no check.
        written = [source for source in sources if not source[1].unwritten]
        operation = Operation(site, threads, groups, numbers, memory, target, device, written, stamps)
        if self.wave.program.tracks_copies and target is not None:
            landings_of(memory, self.wave).started(operation.units(), numbers)
        self.begin(operation)

    def begin(self, operation: Operation) -> None:
        self.pending.append(operation)
        if operation.sources:
            sources_of(operation.device).add(self.wave, operation)

    def commit(self, g: Any) -> None:
        self.open[g.index()] += 1

    # Completion by waiting

    def wait(self, g: Any, allowed: int | None) -> None:
        """Completes the copies of the threads in `g`. Copies in the `allowed` latest committed groups and uncommitted
        copies stay in flight. If `allowed` is None, all copies complete."""
        if not self.pending and not self.landed:
            return
        done_below = np.zeros(self.wave.lanes, np.int64)
        index = g.index()
        done_below[index] = self.open[index] + 1 if allowed is None else self.open[index] - allowed
        for operation in self.taken("pending", lambda each: each.groups < done_below[each.threads]):
            self.complete(operation)
        for operation in self.taken("landed", lambda each: each.groups < done_below[each.threads]):
            self.settle(operation)

    def taken(self, name: str, chosen: Any) -> list[Operation]:
        """Removes copies from the list `name` ("pending" or "landed") and returns them. `chosen(operation)` returns a
        mask of the threads whose copies are removed."""
        found, rest = [], []
        for operation in getattr(self, name):
            done = chosen(operation)
            if done.all():
                self.released(operation)
                found.append(operation)
            elif done.any():
                self.released(operation)
                found.append(operation.part(np.flatnonzero(done)))
                rest.append(operation.part(np.flatnonzero(~done)))
                # The copies that stay in the list are still reading their source.
                if name == "pending" and rest[-1].sources:
                    sources_of(operation.device).add(self.wave, rest[-1])
            else:
                rest.append(operation)
        setattr(self, name, rest)
        return found

    def released(self, operation: Operation) -> None:
        if operation.sources:
            sources_of(operation.device).remove(operation)

    def complete(self, operation: Operation) -> None:
        if operation.target is not None:
            operation.memory.shadow.finish_copy(operation.target, operation.stamps, self.wave.ordering.clock.now)
        for readers, place in operation.sources:
            part = self.wave.lanes_at(operation.threads[readers])
            operation.device.shadow.access(PLAIN_READ, place, part, operation.site)

    # Completion by an mbarrier

    def tracked(self, g: Any, lanes: Any, site: Site) -> Tracked:
        """Creates a pending arrival of the threads `lanes` (positions in the group) at an mbarrier. It takes effect
        after all copies that these threads have issued so far."""
        threads = g.index()[lanes]
        copies: list[list[tuple[Landings, Any, int]]] = [[] for _ in threads]
        for operation in self.pending:
            units = operation.units()
            where = np.searchsorted(operation.threads, threads)
            for lane, at in enumerate(where.tolist()):
                if at < len(operation.threads) and operation.threads[at] == threads[lane]:
                    copies[lane].append(
                        (landings_of(operation.memory, self.wave), units[at], int(operation.numbers[at]))
                    )
        began = 0 if self.wave.time is None else self.wave.time.behind(threads)
        return Tracked(site, threads, self.wave.ordering.snapshot(threads), copies, began)

    def land(self, tracked: Tracked, lane: int, landing: Landing) -> None:
        """Records in `landing` that the copies of the thread `lane` have arrived at the mbarrier."""
        for landings, units, number in tracked.copies[lane]:
            landings.land(units, number, landing)
        arrived = [number for _, _, number in tracked.copies[lane]]
        if arrived:
            self.landed += self.taken("pending", lambda each: np.isin(each.numbers, arrived))
            self.forget_landed()

    def forget_landed(self) -> None:
        """Drops landed copies whose whole destination has been overwritten. Each remaining copy is the last write to at
        least one granule. So the size of the memory limits their number."""
        if len(self.landed) > self.most_landed:
            self.taken("landed", lambda each: ~is_current(each, self.wave).any(1))
            self.most_landed = 64 + 2 * len(self.landed)

    def settle(self, operation: Operation) -> None:
        """Records that the threads of `operation` have waited for its copies, which an mbarrier has completed
        earlier."""
        current = is_current(operation, self.wave)
        operation.memory.shadow.settle_copy(operation.units(), current, operation.stamps, self.wave.ordering.clock.now)


def is_current(operation: Operation, wave: Any) -> Any:
    """Returns a mask [threads, granules]: whether the thread's copy was the last write to the granule."""
    return landings_of(operation.memory, wave).copies[operation.units()] == operation.numbers[:, None]


def sources_of(space: Space) -> Sources:
    shadow = space.shadow
    if shadow.sources is None:
        shadow.sources = Sources(shadow.count, shadow.granule)
    return shadow.sources


def landings_of(memory: Space, wave: Any) -> Landings:
    shadow = memory.shadow
    if shadow.landings is None:
        shadow.landings = Landings(shadow.count, wave.block_lanes)
    return shadow.landings
