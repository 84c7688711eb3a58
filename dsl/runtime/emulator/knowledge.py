"""Represents knowledge: the set of accesses that are ordered before a point of a launch. Threads publish and learn such
sets (PTX ISA 8.9.5).

Time is a count of synchronisation events (`ordering.py`). Knowledge stores, for each block, the time up to which it
contains all accesses of the block's threads. For single threads, it may store a later time.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from msgspec import Struct, field

CTA, CLUSTER, GPU = range(3)  # scopes (PTX ISA 8.5); a launch is on one device, so .sys counts as .gpu
Pages = dict[int, Any]  # for each block, the times of its threads; arrays are never modified, so they can be shared
# A `Knowledge` value stores the serial numbers of up to this many earlier values that it contains. Joining it with one
# of these values costs nothing.
MOST_COVERED = 16


def scope_of(words: tuple[str, ...]) -> int:
    """Returns the scope of a strong operation or a fence, from the words of its opcode. Without a scope, the result is
    .gpu."""
    if "cta" in words:
        return CTA
    return CLUSTER if "cluster" in words else GPU


def joined(one: Pages, other: Pages) -> Pages:
    if one is other or not other:
        return one
    # The loop runs over the smaller of the two.
    if len(one) < len(other):
        one, other = other, one
    found = dict(one)
    for block, page in other.items():
        mine = found.get(block)
        if mine is None:
            found[block] = page
        elif mine is not page:
            found[block] = np.maximum(mine, page)
    return found


class Knowledge:
    """The accesses that are ordered before a point of the launch. Objects are immutable, so that addresses and threads
    can share them.

    `until` contains one time for each block. The knowledge includes all accesses of the block's threads up to this
    time. `threads` contains such times for single threads. `writes` maps an address to such times for the strong writes
    to this address. Each of these writes forms a release pattern with an earlier fence of the same thread: the write is
    ordered after all accesses that are ordered before the fence.
    """

    serials = itertools.count(1)
    __slots__ = ("covers", "serial", "threads", "until", "writes")

    def __init__(self, until: Any, threads: Pages, writes: dict[int, Pages], *contains: Knowledge):
        self.until, self.threads, self.writes = until, threads, writes
        self.serial = next(Knowledge.serials)
        covered = {each.serial for each in contains}
        for each in contains:
            covered |= each.covers
        self.covers: frozenset[int] = frozenset(sorted(covered)[-MOST_COVERED:])

    def contains(self, other: Knowledge) -> bool:
        return other is self or other.serial in self.covers

    def join(self, other: Knowledge | None) -> Knowledge:
        if other is None or self.contains(other):
            return self
        if other.contains(self):
            return other
        writes = self.writes
        if other.writes and other.writes is not writes:
            writes = dict(writes)
            for address, pages in other.writes.items():
                writes[address] = joined(writes[address], pages) if address in writes else pages
        # If both values have the same array, the array is shared and not copied.
        until = self.until if self.until is other.until else np.maximum(self.until, other.until)
        return Knowledge(until, joined(self.threads, other.threads), writes, self, other)

    def with_write(self, addresses: range, block: int, thread: int, blank: Any, time: int) -> Knowledge:
        writes = dict(self.writes)
        for address in addresses:
            writes[address] = with_time(writes.get(address, {}), block, thread, blank, time)
        return Knowledge(self.until, self.threads, writes, self)


def with_time(pages: Pages, block: int, thread: int, blank: Any, time: int) -> Pages:
    page = pages.get(block, blank).copy()
    page[thread] = max(page[thread], time)
    return {**pages, block: page}


# The knowledge that release patterns publish. Each key is the (block, scope) of the first operation of a release
# pattern. A thread learns the knowledge if the last operation of its acquire pattern is morally strong with that first
# operation. If a program uses no scope narrower than .gpu, the only key is ANYBODY.
Items = dict[tuple[int, int], Knowledge]
ANYBODY = (-1, GPU)


def merged(one: Items, other: Items) -> Items:
    if not other or one is other:
        return one
    if not one:
        return other
    if all(key in one and one[key].contains(each) for key, each in other.items()):
        return one
    found = dict(one)
    for key, each in other.items():
        found[key] = each.join(found.get(key))
    return found


class Published(Struct):
    """The last strong write to an address, and the knowledge that this write publishes.

    `own` contains the items that the writer adds to those of earlier writes. `previous` is the write before this one.
    Threads that still load the old value (`delays.py`) observe `previous`.
    """

    time: int
    block: int
    thread: int
    scope: int
    size: int
    items: Items
    own: Items = field(default_factory=dict)
    previous: Published | None = None
    came: int = 0  # the logical time of the write


class Snapshot(Struct):
    """What threads knew when they arrived at a barrier. Other threads learn it when the barrier completes."""

    row: Any  # times of the threads of the cluster
    knowledge: Knowledge | None

    def join(self, other: Snapshot) -> Snapshot:
        return Snapshot(np.maximum(self.row, other.row), either(self.knowledge, other.knowledge))


def either(one: Any, other: Any) -> Any:
    """Returns the union of two `Knowledge` or of two `Snapshot` values. None is an empty value."""
    if one is None or other is None:
        return other if one is None else one
    return one.join(other)
