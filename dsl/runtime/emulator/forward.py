"""Finds loops that may wait for another block, and orders the rehearsal that shows whether such loops can hang.

A device starts blocks in the order of their numbers, as many at once as it has room for. A block that waits for a later
block stays resident while it waits. If all running blocks wait for later blocks, the later blocks never start. Such a
wait is a fault even if an empty device could run all blocks of the launch at once. The wait is also a fault if the
emulator happened to run the later block first.

So a launch whose loops may wait is rehearsed first (`launch.py`). The rehearsal runs only the first blocks, in parts of
1, 1, 2, 4, … blocks. Each part starts after the earlier parts have ended. If the first blocks stand still, they wait
for a later block. Then, the later blocks are rehearsed without the first blocks. If the later blocks stand still, too,
the wait is a barrier of the whole grid. Whoever launches such a grid must know that all of its blocks fit the device.
If the later blocks end by themselves, the wait of the first blocks is a deadlock.
"""

from __future__ import annotations

from typing import Any

from .answers import AMONG_LANES, READS, STRONG
from .provenance import spaces_of

# Number of clusters in a rehearsal. If each block of a launch waits for the next one, these clusters already stand
# still. So a hang of 5,000 blocks is found in 0.2 s.
FEW = 32
# Largest number of steps in a rehearsal. This many steps take about 0.4 s. A rehearsal that needs more steps ends
# without a result. With 50,000 steps here, the litmus tests took 167 s.
MOST_STEPS = 10_000
WAITS_FOR_LATER = (
    "waits for a block that comes later in the grid and may not have started: let a block wait for earlier ones only, "
    "or let blocks take numbers from a counter"
)
# Instructions that a loop may contain if it only waits. Each of them leaves global memory unchanged, at least
# sometimes.
HARMLESS = {*AMONG_LANES, *READS, "bar", "barrier", "fence", "membar", "nanosleep", "mbarrier"}


def doubled(clusters: Any) -> list[Any]:
    """Cuts the clusters into parts of 1, 1, 2, 4, …"""
    starts, start = [0], 1
    while start < len(clusters):
        starts.append(start)
        start *= 2
    return [clusters[start:end] for start, end in zip(starts, [*starts[1:], len(clusters)], strict=True)]


def may_wait(segments: list[Any]) -> bool:
    """Does the program have a loop that only polls global memory with strong reads?"""
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
    """May an instruction leave global memory unchanged? An atomic operation may do so if its result is used."""
    opcode = step.ins.opcode
    if not step.effect or step.site is segment.end.site or opcode[0] in HARMLESS:
        return True
    return opcode[0] == "st" and "shared" in spaces_of(opcode)
