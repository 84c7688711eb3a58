"""Counts the registers of each warp. With `setmaxnreg`, warps can release registers for other warps.

`setmaxnreg` changes no value. An increase waits until other warps have released as many registers. So at the end, the
warps of a block together must not have more registers than at the launch. The four warps of a warp group must execute
the same `setmaxnreg`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import Site
from .findings import Kind
from .products import GROUP
from .reader import PtxFunction

# Number of registers of an SM.
FILE = 1 << 16
# Maximum number of registers of a thread.
MOST = 255


def at_launch(threads: int, function: PtxFunction) -> int:
    """Returns the number of registers of each thread at the launch, at most `.maxnreg` or 255. As many blocks as
    `.minnctapersm` states must fit into an SM, whose registers are allocated in multiples of eight a thread."""
    return min(function.most_registers or MOST, FILE // (threads * function.least_blocks) // 8 * 8)


class RegisterCounts:
    """The number of registers of each warp of a wave. `changes` counts the `setmaxnreg` that each warp has executed.
    `sites` has each warp's last `setmaxnreg`."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.first = at_launch(wave.block_lanes, wave.program.function)
        self.counts = np.full(wave.lanes // 32, self.first)
        self.changes = np.zeros(wave.lanes // 32, np.int64)
        self.sites: dict[int, Site] = {}

    def set(self, g: Any, site: Site, count: int, more: bool) -> None:
        warps = g.index()[::32] >> 5
        wrong = np.flatnonzero(self.counts[warps] > count if more else self.counts[warps] < count)
        if len(wrong):
            have = int(self.counts[warps[wrong[0]]])
            message = f"setmaxnreg.{'inc' if more else 'dec'} to {count} registers, of {have}"
            g.launch.report(Kind.REGISTERS, message, g, int(32 * wrong[0]), site)
        self.counts[warps] = count
        self.changes[warps] += 1
        self.sites.update(dict.fromkeys(warps.tolist(), site))

    def end(self) -> None:
        """Checks two things at the end of the wave: each block's total number of registers, and that the warps of each
        warp group agree."""
        if not self.sites:
            return
        per_block = self.wave.block_lanes // 32
        for first in range(0, len(self.counts), per_block):
            for warp in range(first, first + per_block, GROUP):
                self.check_group(warp, min(warp + GROUP, first + per_block))
            total = 32 * int(self.counts[first : first + per_block].sum())
            if total > self.first * self.wave.block_lanes:
                message = f"the warps of the block have {total} registers in the end, and began with "
                message += f"{self.first * self.wave.block_lanes}: {self.first} a thread"
                self.report(message, int(np.argmax(self.counts[first : first + per_block])) + first)

    def check_group(self, first: int, last: int) -> None:
        counts, changes = self.counts[first:last], self.changes[first:last]
        if not changes.any():
            return
        if last - first < GROUP:
            self.report(f"setmaxnreg is for warp groups, and the last {last - first} warps are none", first)
        elif (counts != counts[0]).any() or (changes != changes[0]).any():
            self.report("the four warps of a warp group have not executed the same setmaxnreg", first)

    def report(self, message: str, warp: int) -> None:
        site = self.sites.get(warp) or next(iter(self.sites.values()))
        lanes = self.wave.lanes_at(np.arange(32 * warp, 32 * warp + 32))
        self.wave.launch.report(Kind.REGISTERS, message, lanes, 0, site)
