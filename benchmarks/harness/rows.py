"""One row of results: an operation at one shape, ours and the peers'."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .intervals import Interval
from .launches import Facts

OURS, COPY = "dsl", "copy"
INTEGERS = ("s8", "u8", "s4", "u4")


@dataclass(slots=True)
class Row:
    """`moves`: bytes that the operation must read and write; `times` and `errors` by variant, `bound` of the errors;
    `launches`: ours; `notes`: what a peer was tuned to; `counters`: the emulator's of ours at `counted_shape`;
    `yardstick`: the variant that does only what none can leave out; `computes`: operations, where rates count them and
    not bytes; `clocks`: of the multiprocessors while all this was timed, in MHz; `replayed`: a launch's share of a CUDA
    graph of many, by variant.
    """

    operation: str
    dtype: str
    shape: dict[str, Any]
    moves: int
    times: dict[str, Interval] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    bound: float = 0.0
    launches: list[Facts] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    counters: dict[str, float] | None = None
    counted_shape: dict[str, int] | None = None
    yardstick: str = COPY
    computes: int = 0
    clocks: Interval | None = None
    replayed: dict[str, Interval] = field(default_factory=dict)

    def is_wrong(self, name: str) -> bool:
        return not self.errors.get(name, 0.0) <= self.bound

    @property
    def best_peer(self) -> str | None:
        """The fastest right variant but ours (all whose names begin with OURS) and the yardstick."""
        peers = [
            name
            for name in self.times
            if name.split()[0] != OURS and name != self.yardstick and not self.is_wrong(name)
        ]
        return min(peers, key=lambda name: self.times[name].median, default=None)

    @property
    def against_best(self) -> float | None:
        """Times that ours is faster than the best peer."""
        best = self.best_peer
        if best is None or OURS not in self.times:
            return None
        return self.times[best].median / self.times[OURS].median

    @property
    def keeps_up(self) -> bool:
        """Whether ours is as fast as the best peer, or cannot be told from it."""
        best = self.best_peer
        return best is None or OURS not in self.times or self.times[OURS].keeps_up_with(self.times[best])

    def share_of_yardstick(self, name: str = OURS) -> float | None:
        """The yardstick's median over a variant's."""
        if name not in self.times or self.yardstick not in self.times:
            return None
        return self.times[self.yardstick].median / self.times[name].median

    @property
    def unit(self) -> str:
        """Of rates."""
        return "GB/s" if not self.computes else "TOPS" if self.dtype in INTEGERS else "TFLOPS"

    def rate(self, name: str = OURS) -> float | None:
        """Gigabytes a second by `moves`, or 10^12 operations a second by `computes`."""
        if name not in self.times:
            return None
        return (self.computes / 1e6 or self.moves / 1e3) / self.times[name].median
