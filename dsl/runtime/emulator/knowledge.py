"""What is before a point of a launch: values that threads share, publish with their writes and learn (PTX ISA 8.9.5).

A time is a count of synchronisation events (`ordering.py`). Knowledge belongs to a thread. A block stands for all of
its threads where a barrier has joined them; beyond that, single threads have times of their own.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

CTA, CLUSTER, GPU = range(3)  # scopes (PTX ISA 8.5); a launch is on one device, so that .sys is .gpu
Pages = dict[int, Any]  # by block, the times of its threads; never changed, so that knowledge can share them
# A value remembers this many of the earlier values that it contains: then joining these costs nothing.
MOST_COVERED = 16


def scope_of(words: tuple[str, ...]) -> int:
    """The scope of a strong operation or a fence, from the words of its opcode. An `atom` without a scope has .gpu."""
    if "cta" in words:
        return CTA
    return CLUSTER if "cluster" in words else GPU


def joined(one: Pages, other: Pages) -> Pages:
    if one is other or not other:
        return one
    # The smaller one is walked.
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
    """What is before a point of the launch. Never changed, so that addresses and threads can share it.

    `until`: [blocks], everything that all threads of each block did up to this time. `threads`: the same for single
    threads. `writes`: by address, strong writes to that address alone. They come after the fence that made them a
    release, and so after what the fence publishes.
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
        # Values are shared and not copied where both are the same array.
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


# What a release pattern publishes, by (block, scope) of the pattern's first operation. An acquire pattern learns from
# those with which its last operation is morally strong. If a program names no narrow scope, all have one key.
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


@dataclass
class Published:
    """The last strong write to an address where synchronisation goes on, and what observing it publishes.

    `own` is the writer's part of `items`. `previous` is what the write has replaced, for those who see it late.
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


@dataclass
class Snapshot:
    """What threads knew when they arrived at a barrier. Others learn it when the barrier completes."""

    row: Any  # times of the threads of their cluster
    knowledge: Knowledge | None

    def join(self, other: Snapshot) -> Snapshot:
        return Snapshot(np.maximum(self.row, other.row), either(self.knowledge, other.knowledge))


def either(one: Knowledge | None, other: Knowledge | None) -> Knowledge | None:
    return other if one is None else one.join(other)
