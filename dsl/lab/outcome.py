"""The result of tuning one launch with one set of values: its trials, the best point, and the points that tie with
it."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from msgspec import Struct, field

from dsl.lab.contest import overlapping
from dsl.lab.space import Candidate, TuningCall
from dsl.lab.trial import Trial


def intervals_of(trials: Mapping[int, Trial]) -> dict[int, tuple[float, float, float]]:
    """Maps each measured trial of a launch to the median and the interval of its time, in microseconds.

    Times from other devices or days are scaled so that the reference point has the same time in all contests.
    """
    measured = {index: trial for index, trial in trials.items() if trial.status == "measured"}
    of_contest = {t.contest: t.reference_us for t in measured.values() if t.reference_us}
    # Reference times are scaled to their median over all contests, so that a throttled device does not set the scale.
    usual = median(of_contest.values()) if of_contest else 1.0
    scales = {index: usual / trial.reference_us if trial.reference_us else 1.0 for index, trial in measured.items()}
    return {
        index: (scales[index] * middle, scales[index] * low, scales[index] * high)
        for index, (middle, low, high) in ((index, trial.interval) for index, trial in measured.items())
    }


class Outcome(Struct):
    """The result of tuning a launch with one set of values.

    `points` is the number of points. `candidates` maps indices to points that were tried, found in the log or left out
    for lack of time. `trials` maps indices to trials. `left_out` counts the points left out, and `found` the trials
    from the log. `moves` is the number of bytes that the launch moves, or None if unknown. `predicted` maps indices to
    a model's predictions. `costs` maps them to the costs in microseconds that the schedules compute. `slower` maps the
    points that the search left out, since costs predict that they are slower than the best one, to predicted times.
    """

    call: TuningCall
    values: dict[str, Any]
    points: int
    candidates: dict[int, Candidate] = field(default_factory=dict)
    trials: dict[int, Trial] = field(default_factory=dict)
    left_out: int = 0
    found: int = 0
    moves: float | None = None
    predicted: Mapping[int, float] = field(default_factory=dict)
    costs: Mapping[int, float] = field(default_factory=dict)
    slower: Mapping[int, float] = field(default_factory=dict)

    def intervals(self) -> dict[int, tuple[float, float, float]]:
        return intervals_of(self.trials)

    @property
    def fine(self) -> list[int]:
        """The points with a right result, best first."""
        intervals = self.intervals()
        good = [index for index, trial in self.trials.items() if trial.is_fine]
        ranks = {index: intervals[index][:1] if index in intervals else self.trials[index].rank for index in good}
        # The index decides between equal points, so that the result does not depend on the order of trials.
        return sorted(good, key=lambda index: (ranks[index], index))

    @property
    def thrown_out(self) -> list[int]:
        return sorted(index for index, trial in self.trials.items() if not trial.is_fine)

    @property
    def ties(self) -> list[int]:
        """The points that tie with the best point, best first. Points tie if their intervals overlap or their counters
        are equal."""
        fine = self.fine
        if fine and self.trials[fine[0]].status == "counted":
            return [index for index in fine if self.trials[index].rank == self.trials[fine[0]].rank]
        intervals = self.intervals()
        return overlapping({index: intervals[index] for index in fine})

    @property
    def winner(self) -> int | None:
        """The winner: of the points that tie, the one with the smallest index. So if the same points tie again, the
        tuned data does not change."""
        return min(self.ties, default=None)
