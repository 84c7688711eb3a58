"""What came of tuning one launch at one case: its trials, which are best, and which of them tie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from dsl.lab.contest import overlapping
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

    def intervals(self) -> dict[int, tuple[float, float, float]]:
        """(median, low, high) of each point that was measured, in microseconds of the median contest: what another
        contest measured, on another device or day, is scaled by what both say of the reference point."""
        measured = {index: trial for index, trial in self.trials.items() if trial.status == "measured"}
        of_contest = {t.contest: t.reference_us for t in measured.values() if t.reference_us}
        usual = median(of_contest.values()) if of_contest else 1.0
        scales = {index: usual / trial.reference_us if trial.reference_us else 1.0 for index, trial in measured.items()}
        return {
            index: (scales[index] * middle, scales[index] * low, scales[index] * high)
            for index, (middle, low, high) in ((index, trial.interval) for index, trial in measured.items())
        }

    @property
    def fine(self) -> list[int]:
        """Points that are not thrown out, the best first."""
        intervals = self.intervals()
        good = [index for index, trial in self.trials.items() if trial.is_fine]
        ranks = {index: intervals[index][:1] if index in intervals else self.trials[index].rank for index in good}
        return sorted(good, key=lambda index: (ranks[index], index))

    @property
    def thrown_out(self) -> list[int]:
        return sorted(index for index, trial in self.trials.items() if not trial.is_fine)

    @property
    def ties(self) -> list[int]:
        """Those that tie with the best, the best first: by intervals, or by equal counters."""
        fine = self.fine
        if fine and self.trials[fine[0]].status == "counted":
            return [index for index in fine if self.trials[index].rank == self.trials[fine[0]].rank]
        intervals = self.intervals()
        return overlapping({index: intervals[index] for index in fine})

    @property
    def winner(self) -> int | None:
        """Among those that tie, the first in the order of the file's sets."""
        return min(self.ties, default=None)
