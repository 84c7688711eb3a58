"""One row of results: an operation at one shape, ours and the peers'."""

from __future__ import annotations

from dataclasses import dataclass, field

from .intervals import Interval
from .launches import Facts

OURS, COPY = "dsl", "copy"


@dataclass(slots=True)
class Row:
    """`moves`: bytes that the operation must read and write; `times` and `errors` by variant, `bound` of the errors;
    `launches`: ours; `notes`: what a peer was tuned to; `counters`: the emulator's of ours at `counted_shape`;
    `yardstick`: the variant that does nothing with the bytes.
    """

    operation: str
    dtype: str
    shape: dict[str, int]
    moves: int
    times: dict[str, Interval] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    bound: float = 0.0
    launches: list[Facts] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    counters: dict[str, float] | None = None
    counted_shape: dict[str, int] | None = None
    yardstick: str = COPY

    def is_wrong(self, name: str) -> bool:
        return not self.errors.get(name, 0.0) <= self.bound

    @property
    def best_peer(self) -> str | None:
        """The fastest right variant but ours and the yardstick."""
        peers = [name for name in self.times if name not in (OURS, self.yardstick) and not self.is_wrong(name)]
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

    def gbps(self, name: str = OURS) -> float | None:
        """Gigabytes a second, by `moves`."""
        return self.moves / self.times[name].median / 1e3 if name in self.times else None
