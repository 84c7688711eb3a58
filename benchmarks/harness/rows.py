"""One row of results: an operation at one shape, with our kernels and the peers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .intervals import Interval
from .launches import Facts

OURS, COPY = "dsl", "copy"
INTEGERS = ("s8", "u8", "s4", "u4")


@dataclass(slots=True)
class Row:
    """The results of an operation at one shape.

    `moves` is the number of bytes that the operation must read and write. `times` and `errors` are by variant, and
    `bound` limits the errors. `launches` are those of our kernels. `notes` describes the tuning of peers. `counters`
    are the emulator's counters of our kernels at `counted_shape`. `yardstick` names a variant that does only the
    necessary work. `computes` counts operations, or is 0 if rates count bytes. `clocks` are the multiprocessors' clocks
    during the measurement, in MHz. `replayed` has the time of a CUDA graph of many launches, divided by their number,
    for each variant.
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
        """The fastest variant with right results. The yardstick and our variants, whose names begin with OURS, do not
        count."""
        peers = [
            name
            for name in self.times
            if name.split()[0] != OURS and name != self.yardstick and not self.is_wrong(name)
        ]
        return min(peers, key=lambda name: self.times[name].median, default=None)

    @property
    def against_best(self) -> float | None:
        """How many times faster our variant is than the best peer."""
        best = self.best_peer
        if best is None or OURS not in self.times:
            return None
        return self.times[best].median / self.times[OURS].median

    @property
    def keeps_up(self) -> bool:
        """Whether our variant keeps up with the best peer (see `Interval`)."""
        best = self.best_peer
        return best is None or OURS not in self.times or self.times[OURS].keeps_up_with(self.times[best])

    def share_of_yardstick(self, name: str = OURS) -> float | None:
        """The yardstick's median, divided by the median of a variant."""
        if name not in self.times or self.yardstick not in self.times:
            return None
        return self.times[self.yardstick].median / self.times[name].median

    @property
    def unit(self) -> str:
        """The unit of rates."""
        return "GB/s" if not self.computes else "TOPS" if self.dtype in INTEGERS else "TFLOPS"

    def rate(self, name: str = OURS) -> float | None:
        """Gigabytes per second from `moves`, or 10^12 operations per second from `computes`."""
        if name not in self.times:
            return None
        return (self.computes / 1e6 or self.moves / 1e3) / self.times[name].median
