"""Measures candidates against each other: shuffled rounds, medians with intervals, and ties with the best candidate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import comb
from random import Random
from statistics import median

RUNGS = (8, 16, 32)
"""The number of rounds in each stage ("rung") of a contest. After a rung, candidates that are certainly slower than the
best drop out."""
CONFIDENCE = 0.95
Measure = Callable[[list[Callable[[], object]], int, Random], list[list[float]]]
"""Maps (launches, rounds, order) to one list of times for each launch, in microseconds, with one time for each
round."""


@cache
def order_rank(count: int) -> int:
    """Of `count` sorted values, the number on each side outside of the confidence interval of the median.

    For a rank k, the interval runs from the k-th smallest to the k-th greatest value. The interval misses the median if
    fewer than k values lie on one side of the median. The number of values on one side has a binomial distribution with
    probability one half (David and Nagaraja, Order Statistics, 7.1). A result of 0 stands for the whole range. The
    confidence of the whole range is below 0.95 for fewer than 6 values.
    """
    tail = 0.0
    for rank in range(count):
        tail += comb(count, rank) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            return max(0, rank - 1)
    return 0


def median_interval(times: list[float]) -> tuple[float, float, float]:
    """The median, and the two ends of its distribution-free confidence interval. All are NaN if `times` is empty."""
    if not times:
        return (float("nan"),) * 3
    ordered, rank = sorted(times), order_rank(len(times))
    return median(ordered), ordered[rank], ordered[-1 - rank]


def tying(times: Mapping[int, list[float]]) -> list[int]:
    """The candidates that tie with the fastest one, sorted by median. A candidate ties if its interval overlaps the
    interval of the fastest candidate."""
    return overlapping({key: median_interval(values) for key, values in times.items()})


def overlapping(intervals: Mapping[int, tuple[float, float, float]]) -> list[int]:
    """The same as `tying`, for given intervals (median, low, high)."""
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
    """The times of each launch, in microseconds.

    All launches take part in the first rung. Later rungs have the reference and the launches that still tie with the
    fastest launch.
    """
    times: dict[int, list[float]] = {key: [] for key in launches}
    # All rungs draw from one random sequence, so the order of rounds does not repeat systematically.
    order = Random(seed)
    running = list(launches)
    for rounds in rungs:
        found = measure([launches[key] for key in running], rounds, order)
        for key, values in zip(running, found, strict=True):
            times[key] += values
        still = tying({key: times[key] for key in running})
        # Different contests are compared by ratios to the reference, so the reference needs all rounds.
        running = still if reference is None or reference in still else [*still, reference]
    return times


# ---- pairs of one round ----


def ratio_interval(times: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """The median and the confidence interval of the ratios `times` / `base`, with one ratio for each round. Drift from
    round to round cancels."""
    return median_interval([mine / other for mine, other in zip(times, base, strict=True)])


def sign_probability(times: Sequence[float], base: Sequence[float]) -> float:
    """The probability that pure chance favours one side at least as often as observed.

    This is the two-sided sign test of the hypothesis that neither side is slower. Rounds with equal times do not count.
    """
    above = sum(mine > other for mine, other in zip(times, base, strict=True))
    below = sum(mine < other for mine, other in zip(times, base, strict=True))
    count, rarer = above + below, min(above, below)
    return min(1.0, 2 * sum(comb(count, k) for k in range(rarer + 1)) / 2**count)


def differing(probabilities: Mapping[int, float]) -> set[int]:
    """The keys whose probability is significant after a correction for the number of comparisons.

    The probability of any false alarm stays below 1 - CONFIDENCE (Holm, A simple sequentially rejective multiple test
    procedure, 1979).
    """
    ordered = sorted(probabilities, key=lambda key: probabilities[key])
    found: set[int] = set()
    for place, key in enumerate(ordered):
        if probabilities[key] > (1 - CONFIDENCE) / (len(ordered) - place):
            break
        found.add(key)
    return found
