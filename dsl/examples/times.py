"""Measures prepared launches on a GPU. Times are medians in microseconds, with a cold L2 before each launch."""

from __future__ import annotations

from collections.abc import Callable


def copy_time(size: float, device: int) -> float:
    """Returns the median microseconds of a device copy with a cold L2. `size` is the bytes read plus the bytes
    written."""
    from dsl.runtime.cuda.timing import measure_copy, percentiles

    # Half of the bytes are read and half are written.
    return percentiles(measure_copy(max(int(size) // 2, 1), device))[1]


def timed(launch: Callable[[], object], ordinal: int) -> list[float]:
    """Times a prepared launch. Returns the 20th percentile, median and 80th percentile of 20 runs, in microseconds,
    with a cold L2 before each run."""
    from dsl.runtime.cuda.timing import measure, percentiles

    return list(percentiles(measure(launch, device=ordinal)))


def in_turn(launches: list[Callable[[], object]], ordinal: int) -> list[float]:
    """Returns the median microseconds of each of these launches. The launches alternate, so that a change of the clock
    affects all of them. The L2 is cold before each launch."""
    from dsl.runtime.cuda.timing import measure_rounds, percentiles

    # 20 rounds, as for a single launch.
    return [percentiles(times)[1] for times in measure_rounds(launches, 20, device=ordinal)]
