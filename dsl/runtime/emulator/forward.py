"""Loops that may wait for another block, and the order of the rehearsal that shows whether they can hang.

Blocks start in the order of their numbers, as many at once as a device has room for. A block that waits for a later one
keeps its place meanwhile. If all that run wait so, the later one never starts. That is a fault even if the launch is
small enough for an empty device to run all blocks at once, and even if the later block happened to run before here.

So a launch whose loops may wait is rehearsed first (`launch.py`), with its first blocks alone: one, another one, two
more, four, …, each part after those before it have ended. If they stand still, they wait for a later block. All blocks
may meet, as at a barrier of the grid: then the later ones stand still, too, without the first ones, and who launches
them must know that they fit. If the later ones end by themselves, nobody meets: that is a deadlock.
"""

from __future__ import annotations

from typing import Any

from .answers import AMONG_LANES, READS, STRONG
from .provenance import spaces_of

# Clusters of a rehearsal. A chain of waits stands still with the first of them; so 5,000 blocks that hang are found in
# 0.2 s.
FEW = 32
# Steps of a rehearsal, about 0.4 s. What takes longer is not known to stand still. With 50,000 the litmus tests took
# 167 s.
MOST_STEPS = 10_000
WAITS_FOR_LATER = (
    "waits for a block that comes later in the grid and may not have started: let a block wait for earlier ones only, "
    "or let blocks take numbers from a counter"
)
# Instructions in a loop that leave global memory as it is.
HARMLESS = {*AMONG_LANES, *READS, "bar", "barrier", "fence", "membar", "nanosleep", "mbarrier"}


def doubled(clusters: Any) -> list[Any]:
    """Cuts the clusters into parts of 1, 1, 2, 4, …"""
    starts, start = [0], 1
    while start < len(clusters):
        starts.append(start)
        start *= 2
    return [clusters[start:end] for start, end in zip(starts, [*starts[1:], len(clusters)], strict=True)]


def may_wait(segments: list[Any]) -> bool:
    """Is there a loop from a strong read of global memory back to itself that does nothing but look?"""
    quiet = {segment.number for segment in segments if all(is_quiet(step, segment) for step in segment.steps)}
    return any(
        comes_back(segments, segment.number, quiet)
        for segment in segments
        if segment.number in quiet and any(is_look(step.ins.opcode) for step in segment.steps)
    )


def comes_back(segments: list[Any], start: int, quiet: set[int]) -> bool:
    seen: set[int] = set()
    work = [start]
    while work:
        for target in segments[work.pop()].end.targets:
            if target == start:
                return True
            if target in quiet and target not in seen:
                seen.add(target)
                work.append(target)
    return False


def is_look(opcode: tuple[str, ...]) -> bool:
    if "shared" in spaces_of(opcode):
        return False
    return opcode[0] == "atom" or (opcode[0] == "ld" and not STRONG.isdisjoint(opcode))


def is_quiet(step: Any, segment: Any) -> bool:
    """Does an instruction leave global memory as it is, or may it (an atomic operation whose result is used)?"""
    opcode = step.ins.opcode
    if not step.effect or step.site is segment.end.site or opcode[0] in HARMLESS:
        return True
    return opcode[0] == "st" and "shared" in spaces_of(opcode)
