"""Device times of several variants of one computation, measured so that their ratios are meaningful.

Absolute times drift with clocks and temperature. So every round runs all variants once, in a newly shuffled order. Each
launch is between two events, and the L2 is overwritten before the first event. Long launches heat the device until its
power limit lowers the clocks, so a rest may follow each round.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import Any

from dsl.runtime.cuda import driver
from dsl.runtime.cuda.context import context
from dsl.runtime.cuda.memory import Allocation
from dsl.runtime.cuda.timing import FLUSH_FACTOR

ROUNDS = 41
WARMUPS = 3
AHEAD = 32
"""Number of L2 overwrites that are queued before each round, so that the device never waits for the host between two
events.

These overwrites take more than 1 ms. In this time, a host launches a hundred kernels of peers.
"""


class LeftOut(Exception):
    """A variant that cannot be measured here, with the reason."""


@contextmanager
def paired_events(owner: Any, names: Iterable[Any], rounds: int) -> Iterator[dict[Any, list[tuple[Any, Any]]]]:
    """Two events per round for each name, to be recorded before and after the timed launch. The context `owner` must be
    current."""
    cuda = driver.bindings()

    def event() -> Any:
        return owner.call(cuda.cuEventCreate, 0)

    events = {name: [(event(), event()) for _ in range(rounds)] for name in names}
    try:
        yield events
    finally:
        for made in chain.from_iterable(chain.from_iterable(events.values())):
            cuda.cuEventDestroy(made)


def microseconds(owner: Any, pairs: Iterable[tuple[Any, Any]]) -> list[float]:
    """The microseconds between the two events of each pair."""
    return [1e3 * owner.call(driver.bindings().cuEventElapsedTime, *pair) for pair in pairs]


def interleaved(
    launches: Mapping[Any, Callable[[], object]],
    rounds: int = ROUNDS,
    *,
    warmups: int = WARMUPS,
    rest: float = 0.0,
    watch: Callable[[], object] = lambda: None,
    device: int = 0,
    stream: int = 0,
    seed: int = 0,
) -> dict[Any, list[float]]:
    """The microseconds of each variant, one for each round. Every variant must launch on the stream with the raw handle
    `stream`.

    After a round the device rests for `rest` times the duration of the round. `watch` is called while the device works.
    """
    cuda, owner = driver.bindings(), context(device)
    trash = Allocation(owner, FLUSH_FACTOR * owner.facts.l2_bytes)
    handle, order, shuffler = cuda.CUstream(stream), list(launches), random.Random(seed)

    def flush() -> None:
        owner.call(cuda.cuMemsetD32Async, trash.pointer, 0, trash.size // 4, handle)

    with owner.current(), paired_events(owner, launches, rounds) as events:
        for launch in launches.values():
            for _ in range(warmups):
                launch()
        for turn in range(rounds):
            begun = time.perf_counter()
            shuffler.shuffle(order)
            for _ in range(AHEAD):
                flush()
            for name in order:
                start, end = events[name][turn]
                flush()
                owner.call(cuda.cuEventRecord, start, handle)
                launches[name]()
                owner.call(cuda.cuEventRecord, end, handle)
            watch()
            if rest:
                owner.synchronize()
                time.sleep(rest * (time.perf_counter() - begun))
        owner.synchronize()
        return {name: microseconds(owner, pairs) for name, pairs in events.items()}


def copy_of(moves: int) -> Callable[[], object]:
    """A copy of flat arrays. The copy moves `moves` bytes, counting reads and writes."""
    import torch

    source = torch.empty(moves // 2, dtype=torch.uint8, device="cuda").random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)
