"""Relaxed arrivals and waits: together with fences they order like a release or an acquire.

A relaxed arrival at a cluster barrier or an mbarrier publishes what its thread knew at its last fence. What a relaxed
wait sees is known from the thread's next fence on (PTX ISA 8.8, release and acquire patterns).
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from .knowledge import Snapshot

BLOCK, CLUSTER = range(2)  # how far a fence reaches; a wider one counts as CLUSTER


class Relaxed:
    """What the fences of a wave's threads (positions) add to their relaxed arrivals and waits."""

    def __init__(self, wave: Any):
        self.ordering = wave.ordering
        self.wanted = wave.program.relaxes
        self.known: list[dict[int, Snapshot]] = [{}, {}]  # by reach, by thread
        self.seen: dict[int, list[Snapshot]] = {}

    def acquire(self, g: Any) -> None:
        """A fence: these threads now know what they have seen in relaxed waits."""
        if self.seen:
            for lane in g.index().tolist():
                for what in self.seen.pop(lane, []):
                    self.ordering.learn(np.array([lane]), what)

    def release(self, g: Any, words: tuple[str, ...]) -> None:
        """A fence: what these threads know now is what their later relaxed arrivals publish."""
        if not self.wanted:
            return
        reach = BLOCK if "cta" in words else CLUSTER
        for lane in g.index().tolist():
            known = self.ordering.snapshot(np.array([lane]))
            for each in range(reach + 1):
                self.known[each][lane] = known

    def released(self, lanes: Any, reach: int) -> Snapshot | None:
        """What relaxed arrivals of these threads publish together; None if none of them has executed a fence."""
        found = [self.known[reach][lane] for lane in lanes.tolist() if lane in self.known[reach]]
        return reduce(Snapshot.join, found) if found else None

    def saw(self, lanes: Any, what: Snapshot) -> None:
        """These threads have waited, relaxed, for an arrival that publishes this."""
        for lane in lanes.tolist():
            self.seen.setdefault(lane, []).append(what)
