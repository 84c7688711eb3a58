"""Measures the device time of launches with CUDA events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from dsl.runtime.cuda import driver
from dsl.runtime.cuda.context import context
from dsl.runtime.cuda.memory import Allocation
from dsl.runtime.errors import DeviceError

FLUSH_FACTOR = 3
"""Before each launch, this multiple of the L2's size is overwritten, so that the launch starts with a cold L2."""
QUEUED = 64
"""Number of launches in a batch. The host queues a whole batch before it waits."""
AHEAD = 64
"""Number of overwrites of the L2 that are queued before a batch. They keep the device busy while the host queues
launches, so that the device never waits for the host between two events."""


def measure(
    launch: Callable[[], object],
    *,
    device: int = 0,
    stream: int = 0,
    repeats: int = 20,
    warmups: int = 3,
    flush_l2: bool = True,
) -> list[float]:
    """Calls `launch` `repeats` times and returns the device time of each call in microseconds.

    `launch` must launch on the stream with the raw handle `stream`. Each launch is queued between two events. Before
    each wait, up to QUEUED launches are queued. So the host time of a launch does not count if it is shorter than the
    device time. If `launch` has a `renew` (`dsl.runtime.renewed`), `renew` is called before each launch, outside the
    measured interval."""
    return measure_rounds([launch], repeats, device=device, stream=stream, warmups=warmups, flush_l2=flush_l2)[0]


def measure_rounds(
    launches: Sequence[Callable[[], object]],
    rounds: int,
    *,
    order: Random | None = None,
    device: int = 0,
    stream: int = 0,
    warmups: int = 3,
    flush_l2: bool = True,
) -> list[list[float]]:
    """Measures several launches as `measure` does. In the result, `times[i][r]` is the time of launch i in round r, in
    microseconds.

    A round calls each launch once. If `order` is given, it shuffles the launches of each round. Times drift with clocks
    and temperature, but the ratio of two times in the same round does not.
    """
    cuda, owner = driver.bindings(), context(device)
    trash = Allocation(owner, FLUSH_FACTOR * owner.facts.l2_bytes if flush_l2 else 0)
    handle = cuda.CUstream(stream)
    in_turn, renewals = turns(len(launches), rounds, order), [renewal_of(launch, stream) for launch in launches]
    times: list[list[float]] = [[] for _ in launches]

    def flush(count: int) -> None:
        for _ in range(count):
            owner.call(cuda.cuMemsetD32Async, trash.pointer, 0, trash.size // 4, handle)

    with owner.current():
        # All batches use the same events.
        events = [owner.call(cuda.cuEventCreate, 0) for _ in range(2 * min(QUEUED, len(in_turn)))]
        try:
            # Warm-up calls, because the first launches load code.
            for _ in range(warmups):
                for index, launch in enumerate(launches):
                    renewals[index]()
                    launch()
            owner.synchronize()
            for first in range(0, len(in_turn), QUEUED):
                batch = in_turn[first : first + QUEUED]
                pairs = list(zip(events[::2], events[1::2], strict=True))[: len(batch)]
                if flush_l2:
                    # While the device is busy with these overwrites, the host queues launches.
                    flush(AHEAD)
                for (start, end), index in zip(pairs, batch, strict=True):
                    renewals[index]()
                    if flush_l2:
                        flush(1)
                    owner.call(cuda.cuEventRecord, start, handle)
                    launches[index]()
                    owner.call(cuda.cuEventRecord, end, handle)
                owner.synchronize()
                for (start, end), index in zip(pairs, batch, strict=True):
                    times[index].append(1e3 * owner.call(cuda.cuEventElapsedTime, start, end))
            return times
        finally:
            for event in events:
                cuda.cuEventDestroy(event)


def turns(count: int, rounds: int, order: Random | None) -> list[int]:
    """Returns the numbers of the launches in the order of their calls: [0, 1, 0, 1] for two launches and two rounds.
    `order` shuffles each round."""
    out = []
    for _ in range(rounds):
        # Without `order` all keys are equal. The sort is stable, so the result is 0, 1, 2, …
        keys = [0.0 if order is None else order.random() for _ in range(count)]
        out += sorted(range(count), key=keys.__getitem__)
    return out


def renewal_of(launch: Callable[[], object], stream: int) -> Callable[[], None]:
    """Returns the function that restores memory before each call of `launch`. If `launch` has no `renew`, this function
    does nothing.

    Raises DeviceError if `launch` has a `renew` and `stream` is not the legacy default stream."""
    renewal: Callable[[], None] | None = getattr(launch, "renew", None)
    if renewal is None:
        return lambda: None
    if stream:
        raise DeviceError("call", "what a launch changes is put back on the legacy default stream", "stream=0")
    return renewal


def flush_l2(device: int = 0) -> None:
    """Overwrites the L2, so that the next launch starts with a cold L2. Waits until the L2 is overwritten."""
    owner = context(device)
    trash = Allocation(owner, FLUSH_FACTOR * owner.facts.l2_bytes)
    with owner.current():
        owner.call(driver.bindings().cuMemsetD32, trash.pointer, 0, trash.size // 4)
        owner.synchronize()


def measure_copy(size: int, device: int = 0, repeats: int = 20) -> list[float]:
    """Measures `repeats` copies of `size` bytes within device memory. Returns the microseconds of each copy.

    Each copy starts with a cold L2."""
    cuda, owner = driver.bindings(), context(device)
    source, target = Allocation(owner, size), Allocation(owner, size)
    stream = cuda.CUstream(0)

    def copy() -> None:
        owner.call(cuda.cuMemcpyDtoDAsync, target.pointer, source.pointer, size, stream)

    return measure(copy, device=device, repeats=repeats)


def percentiles(times: list[float]) -> tuple[float, float, float]:
    """Returns the 20th percentile, the median and the 80th percentile of `times`. Raises DeviceError `call` if `times`
    is empty."""
    if not times:
        raise DeviceError("call", "nothing was measured")
    ordered = sorted(times)
    last = len(ordered) - 1
    return ordered[round(0.2 * last)], ordered[round(0.5 * last)], ordered[round(0.8 * last)]
