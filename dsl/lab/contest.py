"""Times candidates against each other in shuffled rounds. Computes medians with intervals, and the ties with the
best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import comb
from random import Random
from statistics import fmean, median

RUNGS = (8, 16, 32)
"""The number of rounds in each stage ("rung") of a contest. After a rung, candidates that are certainly slower than the
best drop out."""
CONFIDENCE = 0.95
RESAMPLES = 2000
"""How often values are resampled to compute the interval of their mean."""
Measure = Callable[[list[Callable[[], object]], int, Random], list[list[float]]]
"""Maps (launches, rounds, order) to one list of times for each launch, in microseconds, with one time for each
round."""


@cache
def order_rank(count: int) -> int:
    """Returns how many of `count` sorted values lie below the confidence interval of the median. As many lie above it.

    An interval from the k-th smallest to the k-th greatest value misses the median if fewer than k values lie on one
    side of the median. The number of values on one side has a binomial distribution with probability one half (David
    and Nagaraja, Order Statistics, 7.1). If the result is 0, the interval is the whole range. Its confidence is below
    0.95 for fewer than 6 values.
    """
    tail = 0.0
    for rank in range(count):
        tail += comb(count, rank) / 2**count
        if tail > (1 - CONFIDENCE) / 2:
            return max(0, rank - 1)
    return 0


def median_interval(times: list[float]) -> tuple[float, float, float]:
    """The median, and the two ends of its distribution-free confidence interval. All three are NaN if `times` is
    empty."""
    if not times:
        return (float("nan"),) * 3
    ordered, rank = sorted(times), order_rank(len(times))
    return median(ordered), ordered[rank], ordered[-1 - rank]


def tying(times: Mapping[int, list[float]]) -> list[int]:
    """The candidates that tie with the fastest one, sorted by median. A candidate ties if its interval overlaps the
    interval of the fastest."""
    return overlapping({key: median_interval(values) for key, values in times.items()})


def overlapping(intervals: Mapping[int, tuple[float, float, float]]) -> list[int]:
    """Does the same as `tying`, but for intervals (median, low, high) instead of times."""
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
    """Times the launches against each other. Returns the times of each launch, in microseconds.

    All launches are timed in the first stage (rung). Each later stage times only the reference, and the launches that
    still tie with the fastest.
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
    """Returns the median and the confidence interval of `times[i] / base[i]` over the rounds i. Drift from round to
    round cancels."""
    return median_interval([mine / other for mine, other in zip(times, base, strict=True)])


def mean_interval(values: Sequence[float], random: Random) -> tuple[float, float]:
    """The 95 % interval of a mean, by Efron's bootstrap."""
    means = sorted(fmean(random.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]


def sign_probability(times: Sequence[float], base: Sequence[float]) -> float:
    """Returns the probability that pure chance favours one side at least as often as observed.

    This is the two-sided sign test. Its null hypothesis is that neither side is slower. Rounds with equal times do not
    count.
    """
    above = sum(mine > other for mine, other in zip(times, base, strict=True))
    below = sum(mine < other for mine, other in zip(times, base, strict=True))
    count, rarer = above + below, min(above, below)
    return min(1.0, 2 * sum(comb(count, k) for k in range(rarer + 1)) / 2**count)


def differing(probabilities: Mapping[int, float]) -> set[int]:
    """The keys whose probability is significant, after a correction for the number of comparisons.

    The probability of even one false alarm is at most 1 - CONFIDENCE (Holm, A simple sequentially rejective multiple
    test procedure, 1979).
    """
    ordered = sorted(probabilities, key=lambda key: probabilities[key])
    found: set[int] = set()
    for place, key in enumerate(ordered):
        if probabilities[key] > (1 - CONFIDENCE) / (len(ordered) - place):
            break
        found.add(key)
    return found
