"""What clocks tell: turns of a warp, not time.

A warp has a turn for each instruction that it issues, whatever that does; memory takes none. All blocks begin at turn
0, as if the device held them at once. Who has waited for others goes on no earlier than the last of these came: at
barriers of blocks and clusters, for the phase of an mbarrier and the copies that it counts, and behind a strong load
that reads what a strong store of another thread has written (after Lamport 1978). Who asks again and again for a word
has a turn for each instruction of these rounds, and the emulator says how many those are. So `%clock`, `%clock64` and
`%globaltimer` show who waits for whom, and for how many instructions of whose.
"""

from __future__ import annotations

from typing import Any

import numpy as np

CLOCKS = {"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"}


class LogicalTime:
    """The turns of the warps of one wave. position: of the instruction that runs, in its basic block."""

    def __init__(self, lanes: int):
        self.of_warps = np.zeros(lanes // 32, np.int64)
        self.position = 0

    def now(self, g: Any) -> Any:
        """[lanes of the group]."""
        return self.of_warps[g.index() >> 5] + self.position

    def latest(self, lanes: Any) -> int:
        """Of these lanes (positions in the wave)."""
        return int(self.of_warps[np.asarray(lanes) >> 5].max()) + self.position

    def behind(self, lanes: Any) -> int:
        """The same, when the instruction that runs is done."""
        return self.latest(lanes) + 1

    def reach(self, lanes: Any, turn: int) -> None:
        """These lanes have waited for what came at a turn."""
        warps = np.asarray(lanes) >> 5
        self.of_warps[warps] = np.maximum(self.of_warps[warps], turn - self.position)

    def meet_blocks(self, slots: Any, warps: int) -> None:
        """All warps of these blocks, so many of each, have met."""
        blocks = self.of_warps.reshape(-1, warps)
        blocks[slots] = blocks[slots].max(1, keepdims=True)

    def passed(self, g: Any, instructions: int) -> None:
        """A group has run a basic block, or has come to a barrier."""
        self.of_warps[slice(None) if g.threads is None else g.warp_rows()[0]] += instructions
