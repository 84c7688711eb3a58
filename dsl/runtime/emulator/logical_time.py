"""What clocks show: turns of a warp, not time.

A warp has a turn for each instruction that it issues, whatever that does. Memory takes none. All blocks begin at turn
0, as if the device held them all at once. A warp that has waited for others continues no earlier than the last of these
came: at barriers of blocks and clusters, for the phase of an mbarrier and the copies that it counts, and after a strong
load that reads a strong store of another thread (after Lamport 1978). A warp that polls a word has a turn for each
instruction of these iterations; their number depends on the emulator. So `%clock`, `%clock64` and `%globaltimer` show
who waits for whom, and for how many instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

CLOCKS = {"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}


class LogicalTime:
    """The turns of the warps of one wave. position: that of the running instruction in its basic block."""

    def __init__(self, lanes: int):
        self.of_warps = np.zeros(lanes // 32, np.int64)
        self.position = 0

    def now(self, g: Any) -> Any:
        """[lanes of the group]: the turn of each."""
        return self.of_warps[g.index() >> 5] + self.position

    def latest(self, lanes: Any) -> int:
        """The latest turn of these lanes (positions in the wave)."""
        return int(self.of_warps[np.asarray(lanes) >> 5].max()) + self.position

    def behind(self, lanes: Any) -> int:
        """The same, after the running instruction."""
        return self.latest(lanes) + 1

    def reach(self, lanes: Any, turn: int) -> None:
        """These lanes have waited for something that came at a turn."""
        warps = np.asarray(lanes) >> 5
        # The position is added again when the clock is read.
        self.of_warps[warps] = np.maximum(self.of_warps[warps], turn - self.position)

    def meet_blocks(self, slots: Any, warps: int) -> None:
        """All warps of these blocks, `warps` of each, have met."""
        blocks = self.of_warps.reshape(-1, warps)
        blocks[slots] = blocks[slots].max(1, keepdims=True)

    def passed(self, g: Any, instructions: int) -> None:
        """A group has run a basic block or has come to a barrier."""
        self.of_warps[slice(None) if g.threads is None else g.warp_rows()[0]] += instructions
