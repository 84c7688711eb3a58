"""Blocks that wait for a later block of their grid, which may not have started.

Blocks start in the order of their numbers, as many at once as a device has room for. One that waits for a later one
keeps a place meanwhile: where all that run wait so, the later one never starts. That a launch is small, so that here
and on an empty device all of its blocks run at once, does not make it right. So it is a finding where a loop that does
nothing but look at a word has seen it stay as it was, and then another value of a later block.

It is none where the later block has shown that it runs before the loop began, by a strong write: it holds a lock, or
has drawn a number. Nor where the block that waits has made one itself: then all of them meet, and who launches them
must know that they fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .answers import AMONG_LANES, STRONG
from .code import Site
from .findings import Kind
from .shadow import SpacePlace
from .spaces import Space
from .stamps import threads_of

HARMLESS = {*AMONG_LANES, "bar", "barrier", "fence", "membar", "nanosleep"}


@dataclass
class Look:
    """By block, the last look by one instruction: where, what was there, whether it was so before, since when."""

    unit: Any
    value: Any
    stood: Any
    since: Any


class ForwardWaits:
    """What the blocks of a launch have seen in loops that wait for a word of global memory."""

    def __init__(self, launch: Any):
        self.launch = launch
        self.spoke = np.zeros(launch.blocks, np.int64)  # when each block first changed memory by a strong write, or 0
        self.looks: dict[int, Look | None] = {}  # by site; None where its loop does more than look

    def wrote(self, g: Any) -> None:
        """These lanes have changed global memory by a strong write."""
        blocks = self.blocks_of(g)
        self.spoke[blocks[self.spoke[blocks] == 0]] = self.launch.clock.now

    def blocks_of(self, g: Any) -> Any:
        return (g.lane("gid") // np.uint64(self.launch.block_lanes)).astype(np.int64)

    def read(self, site: Site, place: SpacePlace, memory: Space, values: Any, g: Any) -> None:
        """A strong read of global memory in a loop: [lanes] or [lanes, elements] what was there."""
        look = self.look_of(site)
        if look is None:
            return
        blocks = self.blocks_of(g)
        lanes = np.flatnonzero(np.diff(blocks, prepend=-1))  # one of each block
        blocks = blocks[lanes]
        units = place.start + lanes if place.index is None else place.index[lanes]
        found = np.ascontiguousarray(values.reshape(g.n, -1)[lanes, 0])
        seen = found.view(f"u{found.dtype.itemsize}").astype(np.uint64)
        is_same_word, is_same = look.unit[blocks] == units, look.value[blocks] == seen
        ended = is_same_word & look.stood[blocks] & ~is_same
        if ended.any():
            self.check(look, blocks[ended], lanes[ended], place, memory, g, site)
        look.since[blocks[~is_same_word]] = self.launch.clock.now
        look.stood[blocks] = is_same_word & is_same
        look.unit[blocks], look.value[blocks] = units, seen

    def check(self, look: Look, blocks: Any, lanes: Any, place: SpacePlace, memory: Space, g: Any, site: Site) -> None:
        """Blocks whose words have changed at last: by whom?"""
        launch = self.launch
        stamps = place.restricted(lanes).take(memory.delays.stamps, memory.shadow.granule)  # type: ignore[union-attr]
        writers = threads_of(stamps if stamps.ndim == 1 else stamps[:, 0]).astype(np.int64)
        others = writers // launch.block_lanes
        since = look.since[blocks]
        began = [(self.spoke[each] != 0) & (self.spoke[each] <= since) for each in (blocks, others)]
        later = (others // launch.cluster_size > blocks // launch.cluster_size) & ~began[0] & ~began[1]
        for at in np.flatnonzero(later)[:1]:
            (x, y, z), _ = launch.origins.where(int(writers[at]))
            message = (
                f"waits for block {(x, y, z)}, which comes later in the grid and may not have started: let a block "
                "wait for earlier ones only (`order descending` turns the order of the first axis round), or let "
                "blocks take numbers from a counter"
            )
            launch.report(Kind.DEADLOCK, message, g, int(lanes[at]), site)

    def look_of(self, site: Site) -> Look | None:
        if site.number not in self.looks:
            n = len(self.spoke)
            look = Look(np.full(n, -1), np.zeros(n, np.uint64), np.zeros(n, bool), np.zeros(n, np.int64))
            self.looks[site.number] = look if self.launch.program.only_looks(site) else None
        return self.looks[site.number]


def only_looks(segments: list[Any], site: Site) -> bool:
    """Is there nothing on the shortest way round from this instruction to itself but looking and waiting?"""
    start = next(segment for segment in segments if any(step.site is site for step in segment.steps))
    back: dict[int, int] = {}
    work = [start.number]
    while work and start.number not in back:
        fresh = []
        for number in work:
            for target in segments[number].end.targets:
                if target not in back:
                    back[target] = number
                    fresh.append(target)
        work = fresh
    if start.number not in back:
        return False
    number, around = back[start.number], [start]
    while number != start.number:
        around.append(segments[number])
        number = back[number]
    return all(
        step.site is site or not step.effect or step.site is segment.end.site or is_harmless(step.ins.opcode)
        for segment in around
        for step in segment.steps
    )


def is_harmless(opcode: tuple[str, ...]) -> bool:
    if opcode[0] in {"ld", "st"} and any(word.startswith("shared") for word in opcode):
        return True
    return opcode[0] in HARMLESS or (opcode[0] == "ld" and not STRONG.isdisjoint(opcode))
