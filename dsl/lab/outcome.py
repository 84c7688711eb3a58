"""What came of tuning one launch at one case: its trials, which are best, and which of them tie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dsl.lab.contest import tying
from dsl.lab.space import Candidate, TuningCall
from dsl.lab.trial import Trial


@dataclass(slots=True)
class Outcome:
    """A launch at one case. points: how many it has; candidates: those that were tried, found in the log or left out,
    by index; trials: by the same; left_out: candidates that there was no time for; found: trials that the log had;
    moves: bytes of the launch, None if unknown; predicted: what a model said of points."""

    call: TuningCall
    values: dict[str, Any]
    points: int
    candidates: dict[int, Candidate] = field(default_factory=dict)
    trials: dict[int, Trial] = field(default_factory=dict)
    left_out: int = 0
    found: int = 0
    moves: float | None = None
    predicted: Mapping[int, float] = field(default_factory=dict)

    @property
    def fine(self) -> list[int]:
        """Candidates that are not thrown out, the best first."""
        good = [index for index, trial in self.trials.items() if trial.is_fine]
        return sorted(good, key=lambda index: (self.trials[index].rank, index))

    @property
    def thrown_out(self) -> list[int]:
        return sorted(index for index, trial in self.trials.items() if not trial.is_fine)

    @property
    def ties(self) -> list[int]:
        """Those that tie with the best, the best first: by intervals, or by equal counters."""
        fine = self.fine
        if fine and self.trials[fine[0]].status == "counted":
            return [index for index in fine if self.trials[index].rank == self.trials[fine[0]].rank]
        return tying({index: self.trials[index].times_us for index in fine})

    @property
    def winner(self) -> int | None:
        """Among those that tie, the first in the order of the file's sets."""
        return min(self.ties, default=None)
