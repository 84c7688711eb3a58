"""How long prepared launches take on a GPU, in microseconds: medians, the L2 cold before each."""

from __future__ import annotations

from collections.abc import Callable


def copy_time(size: float, device: int) -> float:
    """Microseconds in which the device copies, reading and writing so many bytes together; the L2 cold, the median."""
    from dsl.runtime.cuda.timing import measure_copy, percentiles

    return percentiles(measure_copy(max(int(size) // 2, 1), device))[1]


def timed(launch: Callable[[], object], ordinal: int) -> list[float]:
    """Microseconds of a prepared launch: 20th percentile, median, 80th of 20 runs, the L2 cold before each."""
    from dsl.runtime.cuda.timing import measure, percentiles

    return list(percentiles(measure(launch, device=ordinal)))


def in_turn(launches: list[Callable[[], object]], ordinal: int) -> list[float]:
    """The median microseconds of each of these launches, which take turns, the L2 cold before each."""
    from dsl.runtime.cuda.timing import measure_rounds, percentiles

    return [percentiles(times)[1] for times in measure_rounds(launches, 20, device=ordinal)]
