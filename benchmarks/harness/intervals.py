"""Times as medians with the interval that most runs fall in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dsl.runtime.cuda.timing import percentiles

TIE = 0.02
"""Medians nearer than this share of the other count as equal."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Microseconds: the 20th percentile, the median and the 80th of one variant's runs."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Interval:
        """Of measured times. Raises DeviceError `call` for none."""
        return cls(*percentiles(list(times)))

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high

    def keeps_up_with(self, other: Interval) -> bool:
        """Faster, within TIE, or not to be told apart."""
        return self.median <= other.median * (1 + TIE) or self.overlaps(other)


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive numbers; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
