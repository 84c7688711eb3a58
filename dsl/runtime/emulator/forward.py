"""Loops that may wait for another block, and the order in which a launch is rehearsed to see whether they can hang.

Blocks start in the order of their numbers, as many at once as a device has room for. One that waits for a later one
keeps a place meanwhile: where all that run wait so, the later one never starts. That a launch is small, so that on an
empty device all of its blocks run at once, does not make it right; nor that here the later one may have run before.

So a launch whose loops may wait is rehearsed first (`launch.py`), with its first blocks alone: one, another one, two
more, four, ..., each wave when those before it have ended. Where they stand still they wait for a later block. It may
be that all of them meet, as at a barrier of the grid: then the later ones stand still, too, without the first ones, and
who launches them must know that they fit. Where the later ones end by themselves, nobody meets: that is a deadlock.
"""

from __future__ import annotations

from typing import Any

from .answers import AMONG_LANES, READS, STRONG
from .provenance import spaces_of

FEW = 32  # clusters of a rehearsal: a chain stands still with the first of them
MOST_STEPS = 10_000  # of a rehearsal, 0.4 s: what takes longer is not known to stand still
WAITS_FOR_LATER = (
    "waits for a block that comes later in the grid and may not have started: let a block wait for earlier ones only, "
    "or let blocks take numbers from a counter"
)
HARMLESS = {*AMONG_LANES, *READS, "bar", "barrier", "fence", "membar", "nanosleep", "mbarrier"}


def doubled(clusters: Any) -> list[Any]:
    """Parts of 1, 1, 2, 4, ... clusters."""
    starts, start = [0], 1
    while start < len(clusters):
        starts.append(start)
        start *= 2
    return [clusters[start:end] for start, end in zip(starts, [*starts[1:], len(clusters)], strict=True)]


def may_wait(segments: list[Any]) -> bool:
    """Is there a way round from a strong read of global memory to itself on which nothing is done but looking?"""
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
    """Does an instruction leave global memory as it is, or may it (an atomic operation that asks)?"""
    opcode = step.ins.opcode
    if not step.effect or step.site is segment.end.site or opcode[0] in HARMLESS:
        return True
    return opcode[0] == "st" and "shared" in spaces_of(opcode)
