"""Finds loops that may wait for another block, and splits the grid for the rehearsal, a trial run that finds hangs.

A device starts blocks in the order of their numbers, as many at once as it has room for. A block that waits for a later
block stays resident while it waits. If all running blocks wait for later blocks, the later blocks never start. The
emulator reports such a wait even if an empty device could run all blocks of the launch at once, or if the emulator
happened to run the later block first.

So if a program has loops that may wait, the emulator rehearses the launch first (`launch.py`). The rehearsal runs only
the first clusters of the grid, in parts of 1, 1, 2, 4, … clusters. Each part starts after the earlier parts have ended.
If all threads of these clusters poll and nothing changes, they wait for a later block. Then, the emulator rehearses the
later blocks without the first ones. If the later blocks stop making progress, too, the wait is a barrier of the whole
grid. The user must then ensure that all blocks fit the device. If the later blocks end by themselves, the wait of the
first blocks is a deadlock.
"""

from __future__ import annotations

from typing import Any

from .answers import AMONG_LANES, READS, STRONG
from .provenance import spaces_of

# Number of clusters in a rehearsal. If each block of a launch waits for the next one, these few clusters already hang.
# So a hang of 5,000 blocks is found in 0.2 s.
FEW = 32
# Largest number of steps in a rehearsal. This many steps take about 0.4 s. A rehearsal that needs more steps ends
# without a result. With a limit of 50,000 steps, the litmus tests took 167 s.
MOST_STEPS = 10_000
WAITS_FOR_LATER = (
    "waits for a block that comes later in the grid and may not have started: let a block wait for earlier ones only, "
    "or let blocks take numbers from a counter"
)
# Instructions that a waiting loop may contain. Each of them may leave global memory unchanged.
HARMLESS = {*AMONG_LANES, *READS, "bar", "barrier", "fence", "membar", "nanosleep", "mbarrier"}


def doubled(clusters: Any) -> list[Any]:
    """Splits the clusters into parts of 1, 1, 2, 4, … clusters."""
    starts, start = [0], 1
    while start < len(clusters):
        starts.append(start)
        start *= 2
    return [clusters[start:end] for start, end in zip(starts, [*starts[1:], len(clusters)], strict=True)]


def may_wait(segments: list[Any]) -> bool:
    """Checks whether the program has a loop that only polls global memory with strong reads."""
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
    """Checks whether an instruction may leave global memory unchanged. This includes `atom`, for example a failed
    compare-and-swap, but not `red`."""
    opcode = step.ins.opcode
    if not step.effect or step.site is segment.end.site or opcode[0] in HARMLESS:
        return True
    return opcode[0] == "st" and "shared" in spaces_of(opcode)
