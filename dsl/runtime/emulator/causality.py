"""Emulates release and acquire, by which threads synchronise through memory (PTX ISA 8.7 to 8.9).

A thread *knows* an access if the access is ordered before everything that the thread does next. A thread knows its own
accesses, and those that a barrier or an acquire has ordered before it. A release pattern (for example, a fence and then
a strong write) publishes all accesses that its thread knew at the pattern's first operation. An acquire pattern makes
the published accesses known to the reading thread only. Other threads learn of these accesses at their next barrier
with the reading thread. A release and an acquire synchronise only if the scope of each includes the thread of the
other. Atomic operations of other threads may come between the two. Then each atomic operation and the write that it
observes must also include each other in their scopes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from msgspec import Struct

from .knowledge import ANYBODY, CLUSTER, CTA, GPU, Items, Knowledge, Pages, Published, either, merged
from .stamps import Clock

# Largest number of threads whose knowledge at their last fence is cached. Each strong write after a fence needs this
# knowledge.
MOST_CACHED = 64


class Strong(Struct, frozen=True):
    """How a strong access (such as atomic, volatile, relaxed) synchronises. `size` is the size of one element in bytes
    (PTX ISA 8.2.4, 8.2.5)."""

    scope: int
    size: int
    acquires: bool = False
    releases: bool = False
    observes: bool = True  # can the access be the read of an acquire pattern? A `red` cannot
    heard: bool = True  # does any instruction use the value that the access reads (`answers.py`)?


class Fences(Struct):
    """For one scope, the last fence of each thread: its time, and what the thread knew then. Time 0 means that the
    thread has executed no fence."""

    time: Any
    known: Any
    block_since: Any
    warp_since: Any
    rows: Any


class Causality:
    """Stores what each thread has learned through memory, for the blocks that the emulator runs together (a wave).
    `ordering.py` stores what the threads have learned at barriers."""

    def __init__(self, clock: Clock, ordering: Any, blocks: Any, narrow: bool):
        """`ordering` is the wave's `Ordering`. `blocks` contains the linear numbers of the wave's blocks. `narrow` is
        true if the program uses a scope narrower than .gpu."""
        self.clock, self.ordering, self.blocks, self.narrow = clock, ordering, blocks, narrow
        self.block_lanes = ordering.block_lanes
        self.cluster = ordering.cluster_lanes // ordering.block_lanes
        lanes = len(ordering.limit)
        self.known = np.zeros(lanes, np.int64)  # each thread's key in `held`; 0 if it has learned nothing
        self.held: dict[int, Knowledge] = {}
        self.kept = 64  # if `held` is larger, values that no thread refers to are dropped
        self.mixed = np.zeros(len(blocks), bool)  # by block: has one thread learned more than another?
        self.reads = np.zeros(lanes, np.int64)  # each thread's key in `pending`: what it read without acquiring
        self.pending: dict[int, Items] = {}
        self.numbers = itertools.count(1)
        self.fences: dict[int, Fences] = {}
        self.at_fence: dict[tuple[int, int], tuple[int, Knowledge]] = {}

    # Learning

    def learn(self, lanes: Any, knowledge: Knowledge) -> None:
        """Adds `knowledge` to the knowledge of the threads `lanes`. In this class, `lanes` contains positions of
        threads in the wave."""
        serials = self.known[lanes]
        for serial in distinct(serials):
            found = knowledge.join(self.held.get(serial))
            if found.serial != serial:
                self.held[found.serial] = found
                self.known[lanes[serials == serial]] = found.serial
        slots = lanes // self.block_lanes
        self.mixed[slots] = True
        self.ordering.learned[slots] = self.clock.now
        if len(self.held) > self.kept:
            self.forget()

    def forget(self) -> None:
        serials = np.concatenate([self.known, *(each.known for each in self.fences.values())])
        self.held = {serial: self.held[serial] for serial in np.unique(serials).tolist() if serial}
        # The next search for unused values starts when `held` has doubled. So a search costs little for each new value.
        self.kept = 2 * len(self.held) + 64

    def end(self) -> None:
        """Drops the knowledge of all threads after they have ended."""
        for table in (self.held, self.pending, self.fences, self.at_fence):
            table.clear()

    def together(self, lanes: Any) -> Knowledge | None:
        """Returns the union of what the threads `lanes` have learned, or None if they have learned nothing."""
        if not self.held:
            return None
        found: Knowledge | None = None
        for serial in np.unique(self.known[lanes]).tolist():
            found = either(found, self.held.get(serial))
        return found

    def share(self, lanes: Any) -> None:
        """Merges the knowledge of the threads `lanes`, which have met at a barrier."""
        found = self.together(lanes)
        if found is not None:
            self.known[lanes] = found.serial
            self.held[found.serial] = found

    def share_blocks(self, slots: Any) -> None:
        if self.held:
            for slot in np.flatnonzero(self.mixed[slots]) if isinstance(slots, slice) else slots[self.mixed[slots]]:
                self.share(slice(slot * self.block_lanes, (slot + 1) * self.block_lanes))
                # Now all threads of the block have the same knowledge, so the block's next barrier has nothing to
                # share.
                self.mixed[slot] = False

    def share_warps(self, warps: Any) -> None:
        if self.held:
            per_block = self.block_lanes // 32
            for warp in np.arange(len(self.known) // 32)[warps]:
                if self.mixed[warp // per_block]:
                    self.share(slice(32 * warp, 32 * warp + 32))

    # Patterns

    def state(self, lane: int, until: int, known: int, block_since: int, warp_since: int, row: Any) -> Knowledge:
        """Returns what the thread `lane` knew when `known`, `block_since`, `warp_since` and `row` were its state. The
        result includes the thread's own accesses up to the time `until`."""
        clock, size = self.clock, self.block_lanes
        before = self.held.get(known, clock.nothing)
        slot, thread = divmod(lane, size)
        block = int(self.blocks[slot])
        threads = dict(before.threads)
        if row is not None:
            first = block // self.cluster * self.cluster
            for rank, times in enumerate(row.reshape(self.cluster, size)):
                if times.any():
                    threads[first + rank] = np.maximum(times, threads.get(first + rank, 0))
        page = threads.get(block, clock.blank).copy()
        warp = page[thread // 32 * 32 : thread // 32 * 32 + 32]
        np.maximum(warp, max(warp_since - 1, 0), out=warp)
        page[thread] = until
        threads[block] = page
        times = before.until
        if block_since > int(times[block]) + 1:
            times = times.copy()
            times[block] = block_since - 1
        return Knowledge(times, threads, before.writes, before)

    def now(self, lane: int, until: int) -> Knowledge:
        ordering = self.ordering
        block_since = int(ordering.block_since[lane // self.block_lanes])
        row = ordering.row(lane) if ordering.vector else None
        return self.state(lane, until, int(self.known[lane]), block_since, int(ordering.warp_since[lane // 32]), row)

    def before_fence(self, scope: int, lane: int) -> Knowledge:
        fences = self.fences[scope]
        time = int(fences.time[lane])
        cached = self.at_fence.get((scope, lane))
        if cached is not None and cached[0] == time:
            return cached[1]
        row = None if fences.rows is None else fences.rows[lane]
        since = int(fences.block_since[lane]), int(fences.warp_since[lane])
        found = self.state(lane, time, int(fences.known[lane]), *since, row)
        if len(self.at_fence) >= MOST_CACHED:
            self.at_fence.clear()
        self.at_fence[scope, lane] = time, found
        return found

    def key(self, block: int, scope: int) -> tuple[int, int]:
        return (block, scope) if self.narrow else ANYBODY

    def released(self, lane: int, strong: Strong, addresses: range, until: int) -> Items:
        """Returns the knowledge that a strong write of the thread `lane` publishes. Only a release, or a write after a
        fence, publishes any."""
        slot, thread = divmod(lane, self.block_lanes)
        block = int(self.blocks[slot])
        items: Items = {}
        if strong.releases:
            items[self.key(block, strong.scope)] = self.now(lane, until)
        # The loop begins with the fence of the widest scope. A fence of a narrower scope adds knowledge only if it is
        # later.
        latest = 0
        for scope in (GPU, CLUSTER, CTA):
            fences = self.fences.get(scope)
            if fences is None or int(fences.time[lane]) <= latest or (strong.releases and strong.scope >= scope):
                continue
            latest = int(fences.time[lane])
            found = self.before_fence(scope, lane).with_write(addresses, block, thread, self.clock.blank, until)
            items[self.key(block, scope)] = found
        return items

    def includes(self, block: int, scope: int, other: int) -> bool:
        """Checks whether the block `other` is in the scope `scope` of an operation that `block` executes."""
        return scope == GPU or block == other or (scope == CLUSTER and block // self.cluster == other // self.cluster)

    def can_observe(self, found: Published, block: int, strong: Strong) -> bool:
        """Checks whether the access `strong` of a thread in `block` is morally strong with the write `found` (PTX ISA
        8.7)."""
        return (
            found.size == strong.size
            and self.includes(found.block, found.scope, block)
            and self.includes(block, strong.scope, found.block)
        )

    def usable(self, items: Items, block: int, scope: int) -> tuple[Knowledge | None, Items]:
        """Splits `items` for an acquire in `block` with the scope `scope`. Returns (the knowledge that the acquire
        learns, the items of writes outside the scope)."""
        # If the program names no scope below .gpu, all scopes include each other.
        if not self.narrow:
            return reduce(either, items.values(), None), {}
        taken: Knowledge | None = None
        left: Items = {}
        for (other, width), each in items.items():
            if self.includes(other, width, block) and self.includes(block, scope, other):
                taken = either(taken, each)
            else:
                left[other, width] = each
        return taken, left

    # Strong accesses and fences

    def read(self, found: Published, lanes: Any, strong: Strong) -> None:
        """Records that the threads `lanes` have read the value of the write `found`. If the read is an acquire, the
        threads learn at once what the write published. Otherwise they learn it at a later fence. If `narrow` is true,
        all threads must belong to one block."""
        block = int(self.blocks[int(lanes[0]) // self.block_lanes])
        if not strong.observes or not self.can_observe(found, block, strong):
            return
        items = found.items
        if self.ordering.time is not None:
            self.ordering.time.reach(lanes, found.came)
        # If no instruction uses the value, the read counts only for threads that have observed the same items by an
        # earlier read.
        if not strong.heard:
            lanes = lanes[[self.has_read(int(lane), items) for lane in lanes]]
            if not len(lanes):
                return
        if items and strong.acquires:
            taken, items = self.usable(items, block, strong.scope)
            if taken is not None:
                self.learn(lanes, taken)
        if items:
            numbers = self.reads[lanes]
            for number in distinct(numbers):
                before = self.pending.get(number, {})
                together = merged(before, items)
                if together is not before:
                    fresh = next(self.numbers)
                    self.pending[fresh] = together
                    self.reads[lanes[numbers == number]] = fresh
            # Entries that no thread refers to any more are dropped from time to time.
            if len(self.pending) > 256:
                self.pending = {each: self.pending[each] for each in np.unique(self.reads).tolist() if each}

    def observe(self, addresses: Any, lanes: Any, strong: Strong, earlier: Any = None) -> None:
        """Records a strong load. In lanes where the mask `earlier` is true, the load returned the value from before the
        last write."""
        published = self.clock.published
        if not published or not len(lanes):
            return
        # Lanes are sorted by address, so that each address is looked up only once.
        order = np.argsort(addresses, kind="stable")
        addresses, lanes = addresses[order], lanes[order]
        earlier = np.zeros(len(lanes), bool) if earlier is None else earlier[order]
        fresh = np.flatnonzero(addresses[1:] != addresses[:-1]) + 1
        for start, end in itertools.pairwise([0, *fresh.tolist(), len(lanes)]):
            found = published.get(int(addresses[start]))
            if found is not None:
                late, part = earlier[start:end], lanes[start:end]
                self.read_by(part[late].tolist(), found.previous, strong)
                self.read_by(part[~late].tolist(), found, strong)

    def publish(self, addresses: Any, lanes: Any, strong: Strong, granule: int) -> None:
        """Records strong stores, one after another. Each store replaces the knowledge published at its address."""
        clock = self.clock
        until = clock.tick()
        for address, lane in self.concerned(addresses, lanes, strong):
            found = clock.published.get(address)
            own = self.released(lane, strong, range(address, address + strong.size, granule), until)
            # A release and a later store of the same thread to the same word form one release pattern.
            if found is not None and self.is_writer(found, lane):
                own = merged(own, found.own)
            if own or found is not None or self.ordering.time is not None:
                self.put(address, lane, strong, own, own, found, until)

    def modify(self, addresses: Any, lanes: Any, writes: Any, strong: Strong, granule: int) -> None:
        """Records atomic operations in their order. Each operation observes the knowledge that earlier operations
        published at its address, and publishes it again (PTX ISA 8.9.2)."""
        clock = self.clock
        until = clock.tick()
        wrote = None if writes is True else dict(zip(lanes.tolist(), writes.tolist(), strict=True))
        readers: dict[int, list[int]] = {}
        for address, lane in self.concerned(addresses, lanes, strong):
            found = clock.published.get(address)
            if wrote is not None and not wrote[lane]:
                if found is not None:
                    readers.setdefault(address, []).append(lane)
                continue
            self.read_by(readers.pop(address, []), found, strong)
            block = int(self.blocks[lane // self.block_lanes])
            chain = found if found is not None and self.can_observe(found, block, strong) else None
            if chain is not None:
                self.read(chain, np.array([lane]), strong)
            own = self.released(lane, strong, range(address, address + strong.size, granule), until)
            if own or found is not None or self.ordering.time is not None:
                self.put(address, lane, strong, merged(chain.items, own) if chain else own, own, found, until)
        for address, those in readers.items():
            self.read_by(those, clock.published[address], strong)

    def has_read(self, lane: int, items: Items) -> bool:
        """Checks whether an earlier read of the thread has already observed all `items`. A read counts only if an
        instruction uses its value."""
        before = self.pending.get(int(self.reads[lane]), {})
        return all(key in before and before[key].contains(each) for key, each in items.items())

    def read_by(self, lanes: list[int], found: Published | None, strong: Strong) -> None:
        """Calls `read` for the threads `lanes`, which may belong to several blocks."""
        if lanes and found is not None:
            for part in self.by_block(np.array(lanes)):
                self.read(found, part, strong)

    def by_block(self, lanes: Any) -> list[Any]:
        """Splits `lanes` into one array for each block. If the program uses no scope narrower than .gpu, returns a
        single array."""
        if not self.narrow:
            return [lanes]
        slots = lanes // self.block_lanes
        return [lanes[slots == slot] for slot in np.unique(slots)]

    def concerned(self, addresses: Any, lanes: Any, strong: Strong) -> Iterator[tuple[int, int]]:
        """Yields (address, lane) for each strong write that must be recorded. A write is recorded if it publishes
        something, or if something is already published at its address. If the program reads a clock, all strong writes
        are recorded, since each of them has a logical time."""
        pairs = zip(addresses.tolist(), lanes.tolist(), strict=True)
        fenced = np.full(len(lanes), strong.releases)
        for fences in self.fences.values():
            fenced |= fences.time[lanes] != 0
        fenced |= self.ordering.time is not None
        published = self.clock.published
        # Without a fence or a release, a strong store publishes nothing. In most programs, nothing is recorded here.
        if published or fenced.any():
            for pair, publishes in zip(pairs, fenced.tolist(), strict=True):
                if publishes or pair[0] in published:
                    yield pair

    def is_writer(self, found: Published, lane: int) -> bool:
        slot, thread = divmod(lane, self.block_lanes)
        return found.thread == thread and found.block == int(self.blocks[slot])

    def put(
        self, address: int, lane: int, strong: Strong, items: Items, own: Items, found: Published | None, time: int
    ) -> None:
        slot, thread = divmod(lane, self.block_lanes)
        if found is not None:
            # Only the value just before the last write can still be read late.
            found.previous = None
        block = int(self.blocks[slot])
        came = 0 if self.ordering.time is None else self.ordering.time.behind(lane)
        made = Published(time, block, thread, strong.scope, strong.size, items, own, found, came)
        self.clock.published[address] = made

    def fence(self, lanes: Any, scope: int, acquires: bool, releases: bool, sequential: bool) -> None:
        """Executes a fence in each of the threads `lanes`. If the fence acquires, the thread learns what its earlier
        strong reads have observed. If the fence releases, later strong writes of the thread publish what the thread
        knows at the fence.

        All `fence.sc` instructions of a launch have one order (PTX ISA 8.9.3). So after a `fence.sc`, a thread sees all
        writes before any earlier `fence.sc` (`delays.py`). The order of these fences depends on timing, so the emulator
        does not use it to order plain accesses.
        """
        before = self.clock.tick()
        # After a fence.sc, the block's loads no longer return old values (`delays.py`).
        if sequential:
            self.ordering.learned[lanes // self.block_lanes] = self.clock.now
        if acquires and self.pending:
            numbers = self.reads[lanes]
            for number in np.unique(numbers[numbers != 0]).tolist():
                self.acquire_pending(number, lanes[numbers == number], scope)
        if releases:
            self.set_fence(lanes, scope, before)

    def acquire_pending(self, number: int, lanes: Any, scope: int) -> None:
        for part in self.by_block(lanes):
            taken, left = self.usable(self.pending[number], int(self.blocks[int(part[0]) // self.block_lanes]), scope)
            if taken is not None:
                self.learn(part, taken)
            fresh = 0
            if left:
                fresh = next(self.numbers)
                self.pending[fresh] = left
            self.reads[part] = fresh

    def set_fence(self, lanes: Any, scope: int, before: int) -> None:
        ordering = self.ordering
        fences = self.fences.get(scope)
        if fences is None:
            count = len(self.known)
            rows = np.zeros((count, ordering.cluster_lanes), np.uint32) if ordering.vector else None
            time, known, block_since, warp_since = (np.zeros(count, np.int64) for _ in range(4))
            fences = self.fences[scope] = Fences(time, known, block_since, warp_since, rows)
        fences.time[lanes] = before
        fences.known[lanes] = self.known[lanes]
        fences.block_since[lanes] = ordering.block_since[lanes // self.block_lanes].astype(np.int64)
        fences.warp_since[lanes] = ordering.warp_since[lanes >> 5].astype(np.int64)
        if fences.rows is not None:
            clusters, within = np.divmod(lanes, ordering.cluster_lanes)
            fences.rows[lanes] = ordering.clocks[clusters, within]

    # Questions

    def ordered(self, ok: Any, time: Any, thread: Any, level: Any, blocks: Any, addresses: Any, lanes: Any) -> None:
        """Sets `ok[i]` if the thread `lanes[i]` has learned of the earlier access i. `time`, `thread`, `level`,
        `blocks` and `addresses` describe the earlier accesses."""
        rest = np.flatnonzero(~ok)
        serials = self.known[lanes[rest]]
        for serial in np.unique(serials).tolist():
            if serial:
                asked = rest[serials == serial]
                ok[asked] = self.knows(self.held[serial], time, thread, level, blocks, addresses, asked)

    def knows(
        self, knowledge: Knowledge, time: Any, thread: Any, level: Any, blocks: Any, addresses: Any, asked: Any
    ) -> Any:
        times, where = time[asked].astype(np.int64), blocks[asked].astype(np.int64)
        ok = times <= knowledge.until[where]
        for pages, address in [(knowledge.threads, None), *((each, at) for at, each in knowledge.writes.items())]:
            chosen = np.flatnonzero(~ok if address is None else ~ok & (addresses[asked] == address))
            if len(chosen) and pages:
                which = asked[chosen]
                threads = thread[which].astype(np.int64) - where[chosen] * self.block_lanes
                ok[chosen] = times[chosen] <= self.latest(pages, where[chosen], threads, level[which])
        return ok

    def latest(self, pages: Pages, blocks: Any, threads: Any, level: Any) -> Any:
        """Returns, for each thread, the time up to which `pages` contain its accesses. If its stamp stands for a whole
        warp or block (`level`), returns the least time of that warp or block."""
        named, rows = np.unique(blocks, return_inverse=True)
        size = self.block_lanes
        table = np.concatenate([pages.get(block, self.clock.blank) for block in named.tolist()])
        starts = rows * size
        found = table[starts + threads]
        # The stamp of a whole warp or block is known only if the accesses of all its threads are known.
        for each in np.flatnonzero(level):
            width = 32 if level[each] == 1 else size
            start = starts[each] + threads[each] // width * width
            found[each] = table[start : start + width].min()
        return found.astype(np.int64)


def distinct(numbers: Any) -> list[int]:
    return np.unique(numbers).tolist() if len(numbers) > 1 else [int(numbers[0])]
