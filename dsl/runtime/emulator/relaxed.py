"""Arrivals and waits that are relaxed: with fences beside them they order as a release or an acquire does.

A relaxed arrival at a cluster's barrier or at an mbarrier publishes what its thread knew at its last fence; what a
relaxed wait sees is known from the thread's next fence on (PTX ISA 8.8, release and acquire patterns).
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from .knowledge import Snapshot

BLOCK, CLUSTER = range(2)  # how far a fence reaches, and farther


class Relaxed:
    """What the fences of the threads of a wave (positions) make of relaxed arrivals and waits."""

    def __init__(self, wave: Any):
        self.ordering = wave.ordering
        self.wanted = wave.program.relaxes
        self.known: list[dict[int, Snapshot]] = [{}, {}]  # by reach, by thread
        self.seen: dict[int, list[Snapshot]] = {}

    def acquire(self, g: Any) -> None:
        """A fence: what these threads have seen in relaxed waits is known now."""
        if self.seen:
            for lane in g.index().tolist():
                for what in self.seen.pop(lane, []):
                    self.ordering.learn(np.array([lane]), what)

    def release(self, g: Any, words: tuple[str, ...]) -> None:
        """A fence: what these threads know now is what their relaxed arrivals publish."""
        if not self.wanted:
            return
        reach = BLOCK if "cta" in words else CLUSTER
        for lane in g.index().tolist():
            known = self.ordering.snapshot(np.array([lane]))
            for each in range(reach + 1):
                self.known[each][lane] = known

    def released(self, lanes: Any, reach: int) -> Snapshot | None:
        """What relaxed arrivals of these threads publish together; None where none has made a fence."""
        found = [self.known[reach][lane] for lane in lanes.tolist() if lane in self.known[reach]]
        return reduce(Snapshot.join, found) if found else None

    def saw(self, lanes: Any, what: Snapshot) -> None:
        """These threads have waited, relaxed, for what publishes this."""
        for lane in lanes.tolist():
            self.seen.setdefault(lane, []).append(what)
