"""Measuring candidates against each other: shuffled rounds, medians with intervals, and ties with the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import comb
from random import Random

RUNGS = (8, 16, 32)
"""Rounds of each rung. After a rung, candidates that are certainly slower than the best drop out."""
CONFIDENCE = 0.95
Measure = Callable[[list[Callable[[], object]], int, Random], list[list[float]]]
"""(launches, rounds, order) → microseconds of each round, for each launch."""


@cache
def order_rank(count: int) -> int:
    """How many of the least and of the greatest of `count` values lie outside the confidence interval of the median.

    The median lies between the k-th value and the k-th from the end, unless fewer than k of the values lie on one side
    of it; each side is binomial with one half (David and Nagaraja, Order Statistics, 7.1). 0: the whole range, whose
    confidence is below 0.95 for fewer than 6 values.
    """
    tail = 0.0
    for rank in range(count):
        tail += comb(count, rank) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            return max(0, rank - 1)
    return 0


def median_interval(times: list[float]) -> tuple[float, float, float]:
    """(median, low, high): the distribution-free confidence interval of the median. NaN without times."""
    if not times:
        return (float("nan"),) * 3
    ordered = sorted(times)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    rank = order_rank(len(ordered))
    return median, ordered[rank], ordered[-1 - rank]


def tying(times: Mapping[int, list[float]]) -> list[int]:
    """The candidates whose interval overlaps that of the least median, by median; the first is that candidate."""
    return overlapping({key: median_interval(values) for key, values in times.items()})


def overlapping(intervals: Mapping[int, tuple[float, float, float]]) -> list[int]:
    """The same for intervals (median, low, high)."""
    by_median = sorted(intervals, key=lambda key: intervals[key][0])
    highest = intervals[by_median[0]][2] if by_median else 0.0
    return [key for key in by_median if intervals[key][1] <= highest]


def contest(
    launches: Mapping[int, Callable[[], object]],
    measure: Measure,
    seed: int,
    rungs: Sequence[int] = RUNGS,
    reference: int | None = None,
) -> dict[int, list[float]]:
    """Microseconds of each launch. All take part in the first rung; later rungs have those that still tie, and the
    reference."""
    times: dict[int, list[float]] = {key: [] for key in launches}
    # Each rung continues the random sequence: no two rounds repeat an order by design.
    order = Random(seed)
    running = list(launches)
    for rounds in rungs:
        found = measure([launches[key] for key in running], rounds, order)
        for key, values in zip(running, found, strict=True):
            times[key] += values
        still = tying({key: times[key] for key in running})
        # Contests are compared by ratios to the reference, so it needs all rounds.
        running = still if reference is None or reference in still else [*still, reference]
    return times


# ---- pairs of one round ----


def ratio_interval(times: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """(median, low, high) of the ratios within each round: drift from round to round cancels."""
    return median_interval([mine / other for mine, other in zip(times, base, strict=True)])


def sign_probability(times: Sequence[float], base: Sequence[float]) -> float:
    """The probability, if neither is slower, that so many rounds or more favour one side (sign test, two-sided; rounds
    with equal times do not count)."""
    above = sum(mine > other for mine, other in zip(times, base, strict=True))
    below = sum(mine < other for mine, other in zip(times, base, strict=True))
    count, rarer = above + below, min(above, below)
    return min(1.0, 2 * sum(comb(count, k) for k in range(rarer + 1)) / 2**count)


def differing(probabilities: Mapping[int, float]) -> set[int]:
    """Those that differ significantly, corrected for the number of comparisons: the probability of any false alarm
    stays below 1 - CONFIDENCE (Holm, A simple sequentially rejective multiple test procedure, 1979)."""
    ordered = sorted(probabilities, key=lambda key: probabilities[key])
    found: set[int] = set()
    for place, key in enumerate(ordered):
        if probabilities[key] > (1 - CONFIDENCE) / (len(ordered) - place):
            break
        found.add(key)
    return found
