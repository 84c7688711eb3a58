"""Times as medians, with the interval that contains most runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dsl.runtime.cuda.timing import percentiles

TIE = 0.02
"""A variant keeps up with another variant if its median is larger by at most this share."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The 20th percentile, the median and the 80th percentile of one variant's runs, in microseconds."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Interval:
        """The interval of measured times. Raises DeviceError `call` for no times."""
        return cls(*percentiles(list(times)))

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high

    def keeps_up_with(self, other: Interval) -> bool:
        """Whether this variant is faster than the other variant, slower by no more than TIE, or has an overlapping
        interval."""
        return self.median <= other.median * (1 + TIE) or self.overlaps(other)


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean of positive numbers, or NaN for no numbers."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan
