"""Times of prepared launches on a GPU, in microseconds: medians, with a cold L2 before each launch."""

from __future__ import annotations

from collections.abc import Callable


def copy_time(size: float, device: int) -> float:
    """The median microseconds that the device takes to copy with a cold L2. `size` counts the bytes read plus the bytes
    written."""
    from dsl.runtime.cuda.timing import measure_copy, percentiles

    # Half of the bytes are read and half are written.
    return percentiles(measure_copy(max(int(size) // 2, 1), device))[1]


def timed(launch: Callable[[], object], ordinal: int) -> list[float]:
    """The microseconds of a prepared launch: 20th percentile, median and 80th percentile of 20 runs, with a cold L2
    before each run."""
    from dsl.runtime.cuda.timing import measure, percentiles

    return list(percentiles(measure(launch, device=ordinal)))


def in_turn(launches: list[Callable[[], object]], ordinal: int) -> list[float]:
    """The median microseconds of each of these launches. The launches alternate, with a cold L2 before each launch, so
    that a change of the clock affects all of them."""
    from dsl.runtime.cuda.timing import measure_rounds, percentiles

    # 20 rounds, as for a single launch.
    return [percentiles(times)[1] for times in measure_rounds(launches, 20, device=ordinal)]
