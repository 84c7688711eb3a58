"""Measuring candidates against each other: shuffled rounds, medians with intervals, and who ties with the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import comb
from random import Random

RUNGS = (8, 16, 32)
"""Rounds of each rung; after one, those that are certainly slower than the best go no further."""
CONFIDENCE = 0.95
Measure = Callable[[list[Callable[[], object]], int, Random], list[list[float]]]
"""(launches, rounds, order) → microseconds of each round, for each launch."""


@cache
def order_rank(count: int) -> int:
    """How many of the least, and as many of the greatest, of `count` values the confidence interval leaves out.

    The median lies between the k-th value and the k-th from the end, unless fewer than k of the values lie on one side
    of it; each side is binomial with one half (David and Nagaraja, Order Statistics, 7.1). 0 is the whole range, which
    below 6 values has less than the confidence.
    """
    tail = 0.0
    for rank in range(count):
        tail += comb(count, rank) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            return max(0, rank - 1)
    return 0


def median_interval(times: list[float]) -> tuple[float, float, float]:
    """(median, low, high): the distribution-free confidence interval of the median. NaN for no times."""
    if not times:
        return (float("nan"),) * 3
    ordered = sorted(times)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    rank = order_rank(len(ordered))
    return median, ordered[rank], ordered[-1 - rank]


def tying(times: Mapping[int, list[float]]) -> list[int]:
    """Those whose interval overlaps that of the least median, which is among them, by median."""
    return overlapping({key: median_interval(values) for key, values in times.items()})


def overlapping(intervals: Mapping[int, tuple[float, float, float]]) -> list[int]:
    """The same of intervals: (median, low, high)."""
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
    """Microseconds of each launch. All are in the first rung; the rungs after it are for those that still tie, and
    the reference."""
    times: dict[int, list[float]] = {key: [] for key in launches}
    order = Random(seed)
    running = list(launches)
    for rounds in rungs:
        found = measure([launches[key] for key in running], rounds, order)
        for key, values in zip(running, found, strict=True):
            times[key] += values
        still = tying({key: times[key] for key in running})
        running = still if reference is None or reference in still else [*still, reference]
    return times


# ---- pairs of one round ----


def ratio_interval(times: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """(median, low, high) of the ratios of one round each, so that what drifts from round to round cancels."""
    return median_interval([mine / other for mine, other in zip(times, base, strict=True)])


def sign_probability(times: Sequence[float], base: Sequence[float]) -> float:
    """How probable it is, if neither is slower, that as many rounds or more go to one side (sign test, two-sided;
    rounds of equal times say nothing)."""
    above = sum(mine > other for mine, other in zip(times, base, strict=True))
    below = sum(mine < other for mine, other in zip(times, base, strict=True))
    count, rarer = above + below, min(above, below)
    return min(1.0, 2 * sum(comb(count, k) for k in range(rarer + 1)) / 2**count)


def differing(probabilities: Mapping[int, float]) -> set[int]:
    """Those that differ although so many were asked about: all false alarms together are as rare as one may be (Holm,
    A simple sequentially rejective multiple test procedure, 1979)."""
    ordered = sorted(probabilities, key=lambda key: probabilities[key])
    found: set[int] = set()
    for place, key in enumerate(ordered):
        if probabilities[key] > (1 - CONFIDENCE) / (len(ordered) - place):
            break
        found.add(key)
    return found
