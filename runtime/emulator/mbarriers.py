"""mbarrier objects (PTX ISA 9.7.13.15): phases that complete when the expected arrivals and bytes have come.

The object's 64 bits in shared memory are opaque, so the state is kept beside it, by block and address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .code import Site
from .findings import Kind
from .memory import RANK_SHIFT


@dataclass
class Mbarrier:
    expected: int
    pending: int
    phase: int = 0
    bytes: int = 0
    arriving: Any = None  # what the arrivals of this phase know
    published: Any = None  # what the completed phases made known

    def join(self, known: Any) -> None:
        self.arriving = known if self.arriving is None else np.maximum(self.arriving, known)

    def advance(self) -> bool:
        """Completes the phase if nothing is missing."""
        if self.pending or self.bytes:
            return False
        self.phase += 1
        self.pending = self.expected
        if self.arriving is not None:
            self.published = self.arriving if self.published is None else np.maximum(self.published, self.arriving)
        self.arriving = None
        return True


class Mbarriers:
    """The mbarrier objects of a wave."""

    def __init__(self, wave: Any):
        self.wave = wave
        self.objects: dict[tuple[int, int], Mbarrier] = {}

    def keys(self, g: Any, address: Any) -> list[tuple[int, int]]:
        slots = g.lane("slot")
        rank = address.astype(np.int64) >> RANK_SHIFT
        cluster = self.wave.cluster
        slots = np.where(rank == 0, slots, slots // cluster * cluster + rank - 1)
        offsets = address.astype(np.int64) & ((1 << RANK_SHIFT) - 1)
        return list(zip(slots.tolist(), offsets.tolist(), strict=True))

    def find(self, key: tuple[int, int], g: Any, lane: int, site: Site) -> Mbarrier:
        found = self.objects.get(key)
        if found is None:
            message = f"no mbarrier was initialised at shared address {key[1]:#x}"
            g.launch.report(Kind.BARRIER_MISUSE, message, g, lane, site)
            found = self.objects[key] = Mbarrier(1, 1)
        return found

    def change(self, action: str, g: Any, address: Any, amounts: Any, site: Site) -> None:
        for lane, key in enumerate(self.keys(g, np.broadcast_to(address, g.n))):
            amount = 0 if amounts is None else int(amounts[lane])
            if action == "init":
                if amount < 1:
                    g.launch.report(Kind.BARRIER_MISUSE, "an mbarrier expects at least one arrival", g, lane, site)
                self.objects[key] = Mbarrier(amount, amount)
                continue
            found = self.find(key, g, lane, site)
            if action == "inval":
                del self.objects[key]
            elif action == "expect_tx":
                found.bytes += amount
            else:
                found.bytes -= amount
                if found.advance():
                    self.wave.wake_waiters()

    def arrive(
        self, g: Any, address: Any, amounts: Any, site: Site, drops: bool = False, raises_pending: bool = False
    ) -> Any:
        """Each lane arrives; returns the phases they arrived in, which is the state that a wait names."""
        keys = self.keys(g, np.broadcast_to(address, g.n))
        amounts = np.broadcast_to(amounts, g.n)
        state = np.zeros(g.n, np.uint64)
        index = g.index()
        teams: dict[tuple[int, int], list[int]] = {}
        for lane, key in enumerate(keys):
            teams.setdefault(key, []).append(lane)
        for key, lanes in teams.items():
            found = self.find(key, g, lanes[0], site)
            known = self.wave.ordering.snapshot(index[lanes])
            for lane in lanes:
                state[lane] = found.phase
                found.join(known)
                if raises_pending:
                    found.pending += 1
                if drops:
                    found.expected -= 1
                found.pending -= int(amounts[lane])
                if found.pending < 0:
                    g.launch.report(Kind.BARRIER_MISUSE, "more arrivals at an mbarrier than it expects", g, lane, site)
                    found.pending = 0
                if found.advance():
                    self.wave.wake_waiters()
        return state

    def complete(self, g: Any, address: Any, state: Any, parity: bool, site: Site) -> Any:
        """For each lane: is the phase that it names complete?"""
        done = np.zeros(g.n, bool)
        for lane, key in enumerate(self.keys(g, address)):
            phase = self.find(key, g, lane, site).phase
            done[lane] = (phase & 1) != (int(state[lane]) & 1) if parity else phase > int(state[lane])
        return done

    def test(self, g: Any, address: Any, state: Any, parity: bool, site: Site) -> Any:
        """As `complete`; lanes that see a complete phase learn what was published with it."""
        done = self.complete(g, address, state, parity, site)
        teams: dict[tuple[int, int], list[int]] = {}
        for lane, key in enumerate(self.keys(g, address)):
            if done[lane]:
                teams.setdefault(key, []).append(lane)
        index = g.index()
        for key, lanes in teams.items():
            published = self.objects[key].published
            if published is not None:
                self.wave.ordering.learn(index[lanes], published)
        return done
