"""Computes the values of clock registers. They count the turns of a warp, not time.

A warp takes one turn for each instruction that it issues, even for a memory access. All blocks begin at turn 0, as if
all of them fit the device at once. A warp that has waited for others continues no earlier than the turn of the last
arrival (after Lamport 1978). A warp waits at barriers of blocks and clusters. It also waits for the phase of an
mbarrier and for the copies that this mbarrier counts. A strong load that reads a strong store of another thread also
counts as a wait. A polling loop takes one turn for each instruction of each iteration, and the emulator's schedule
determines the number of iterations. So `%clock`, `%clock64` and `%globaltimer` show which warp waits for which, and for
how many instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

CLOCKS = {"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}


class LogicalTime:
    """Stores the current turn of each warp of a wave. `position` is the position of the running instruction in its
    basic block."""

    def __init__(self, lanes: int):
        self.of_warps = np.zeros(lanes // 32, np.int64)
        self.position = 0

    def now(self, g: Any) -> Any:
        """Returns the current turn of each lane of the group."""
        return self.of_warps[g.index() >> 5] + self.position

    def latest(self, lanes: Any) -> int:
        """Returns the latest turn of the threads `lanes` (positions in the wave)."""
        return int(self.of_warps[np.asarray(lanes) >> 5].max()) + self.position

    def behind(self, lanes: Any) -> int:
        """Returns the latest turn of the threads `lanes` (positions in the wave) after the running instruction."""
        return self.latest(lanes) + 1

    def reach(self, lanes: Any, turn: int) -> None:
        """Records that the warps of `lanes` have waited for an event at the turn `turn`. Sets their turns to at least
        `turn`."""
        warps = np.asarray(lanes) >> 5
        # `position` is subtracted, since it is added again when the clock is read.
        self.of_warps[warps] = np.maximum(self.of_warps[warps], turn - self.position)

    def meet_blocks(self, slots: Any, warps: int) -> None:
        """Records that all warps of each block in `slots` have met. Each block has `warps` warps."""
        blocks = self.of_warps.reshape(-1, warps)
        blocks[slots] = blocks[slots].max(1, keepdims=True)

    def passed(self, g: Any, instructions: int) -> None:
        """Adds `instructions` turns to the warps of a group that has run a basic block or has arrived at a barrier."""
        self.of_warps[slice(None) if g.threads is None else g.warp_rows[0]] += instructions
