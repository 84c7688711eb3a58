"""Relaxed arrivals and waits. Together with fences they order accesses like a release or an acquire.

A relaxed arrival at a cluster barrier or an mbarrier publishes the knowledge that its thread had at its last fence. The
knowledge from a relaxed wait applies from the thread's next fence on (PTX ISA 8.8, release and acquire patterns).
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from .knowledge import Snapshot

BLOCK, CLUSTER = range(2)  # the reach of a fence; a fence with a wider scope counts as CLUSTER


class Relaxed:
    """The effect of fences on the relaxed arrivals and waits of a wave's threads. Threads are positions in the wave."""

    def __init__(self, wave: Any):
        self.ordering = wave.ordering
        self.wanted = wave.program.relaxes
        self.known: list[dict[int, Snapshot]] = [{}, {}]  # the knowledge at the last fence, by reach and thread
        self.seen: dict[int, list[Snapshot]] = {}

    def acquire(self, g: Any) -> None:
        """Executes a fence: these threads now learn the knowledge that they have seen in relaxed waits."""
        if self.seen:
            for lane in g.index().tolist():
                for what in self.seen.pop(lane, []):
                    self.ordering.learn(np.array([lane]), what)

    def release(self, g: Any, words: tuple[str, ...]) -> None:
        """Executes a fence: the current knowledge of these threads is what their later relaxed arrivals publish."""
        if not self.wanted:
            return
        reach = BLOCK if "cta" in words else CLUSTER
        for lane in g.index().tolist():
            known = self.ordering.snapshot(np.array([lane]))
            for each in range(reach + 1):
                self.known[each][lane] = known

    def released(self, lanes: Any, reach: int) -> Snapshot | None:
        """The knowledge that relaxed arrivals of these threads publish together. None if none of these threads has
        executed a fence."""
        found = [self.known[reach][lane] for lane in lanes.tolist() if lane in self.known[reach]]
        return reduce(Snapshot.join, found) if found else None

    def saw(self, lanes: Any, what: Snapshot) -> None:
        """Notes that these threads have seen the knowledge `what` in a relaxed wait."""
        for lane in lanes.tolist():
            self.seen.setdefault(lane, []).append(what)
