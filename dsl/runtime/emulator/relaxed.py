"""Relaxed arrivals and waits. Together with fences they order accesses like a release or an acquire.

A relaxed arrival at a cluster barrier or an mbarrier publishes the accesses that are ordered before its thread's last
fence. After a relaxed wait, the published accesses are ordered before the thread only from its next fence on (PTX ISA
8.8, release and acquire patterns).
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from .knowledge import Snapshot

BLOCK, CLUSTER = range(2)  # the scope of a fence; a wider scope counts as CLUSTER


class Relaxed:
    """What the threads of a wave knew at their last fence, and what they have seen in relaxed waits. A thread knows the
    accesses that are ordered before it. Threads are positions in the wave."""

    def __init__(self, wave: Any):
        self.ordering = wave.ordering
        self.wanted = wave.program.relaxes
        self.known: list[dict[int, Snapshot]] = [{}, {}]  # what each thread knew at its last fence, by scope and thread
        self.seen: dict[int, list[Snapshot]] = {}

    def acquire(self, g: Any) -> None:
        """Executes a fence. These threads now learn what their earlier relaxed waits have seen."""
        if self.seen:
            for lane in g.index().tolist():
                for what in self.seen.pop(lane, []):
                    self.ordering.learn(np.array([lane]), what)

    def release(self, g: Any, words: tuple[str, ...]) -> None:
        """Executes a fence. Later relaxed arrivals of these threads publish what the threads know now."""
        if not self.wanted:
            return
        reach = BLOCK if "cta" in words else CLUSTER
        for lane in g.index().tolist():
            known = self.ordering.snapshot(np.array([lane]))
            for each in range(reach + 1):
                self.known[each][lane] = known

    def released(self, lanes: Any, reach: int) -> Snapshot | None:
        """Returns what relaxed arrivals of these threads publish together. Returns None if none of the threads has
        executed a fence."""
        found = [self.known[reach][lane] for lane in lanes.tolist() if lane in self.known[reach]]
        return reduce(Snapshot.join, found) if found else None

    def saw(self, lanes: Any, what: Snapshot) -> None:
        """Records that these threads have seen the knowledge `what` in a relaxed wait."""
        for lane in lanes.tolist():
            self.seen.setdefault(lane, []).append(what)
