"""Processes that try seeds in turn; one that dies or stands still is replaced, and its seed is a failure."""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

OUTCOMES = (
    "right", "refused", "refused choice", "mismatch", "finding", "traceback", "ptxas", "generator", "device", "died",
    "time",
)  # fmt: skip
LIMIT_S = 60.0
"""Seconds for one program, compilation and all."""
START_S = 120.0
"""Seconds until a process has started: the first use of a GPU takes long."""


@dataclass
class Outcome:
    """What became of a seed. `kind`: one of OUTCOMES; `code`: a refusal's error code."""

    seed: int
    kind: str
    code: str = ""
    message: str = ""
    text: str = ""
    smaller: str = ""
    features: Counter[str] = field(default_factory=Counter)


@dataclass
class Options:
    device: str = "emulator"
    ptxas: float = 0.0
    shrink: bool = True
    choices: bool = False


def work(orders: Any, results: Any, options: Options) -> None:
    """A process: a seed in, an outcome out. After a fault of the device it ends, for its context is spoilt."""
    from tests.random_kernels.trying import attempt

    results.put(None)
    while (seed := orders.get()) is not None:
        assembled = random.Random(seed ^ 0x5EED).random() < options.ptxas
        shrink = options.shrink and options.device == "emulator"
        result = attempt(seed, options.device, assembled, shrink, options.choices)
        results.put(result)
        if result.kind == "device":
            results.close()
            results.join_thread()
            os._exit(1)


@dataclass
class Worker:
    """A process with its two queues, and the seed that it has."""

    options: Options
    work: Callable[..., None]
    seed: int | None = None
    since: float = 0.0
    ready: bool = False
    parts: Any = field(default=None)

    def __post_init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
        orders, results = context.Queue(), context.Queue()
        process = context.Process(target=self.work, args=(orders, results, self.options), daemon=True)
        process.start()
        self.parts, self.since = (orders, results, process), time.monotonic()

    def give(self, seed: int) -> None:
        self.seed, self.since = seed, time.monotonic()
        self.parts[0].put(seed)

    def take(self) -> Outcome | None:
        """The outcome of its seed, also where it died or stood still; None while it works."""
        _, results, process = self.parts
        alive = process.is_alive()
        try:
            found = results.get(block=not alive, timeout=None if alive else 0.5)
        except queue.Empty:
            if not alive:
                return self.lost("died", f"the process ended with {process.exitcode}")
            late = time.monotonic() - self.since > (LIMIT_S if self.ready else START_S)
            return self.lost("time", f"more than {LIMIT_S:.0f} s") if late else None
        if found is None:
            self.ready, self.since = True, time.monotonic()
            return None
        self.seed = None
        return found

    def lost(self, kind: str, message: str) -> Outcome:
        assert self.seed is not None or not self.ready
        seed, self.seed = self.seed if self.seed is not None else -1, None
        return Outcome(seed, kind, message=message, text=text_of(seed) if seed >= 0 else "")

    def end(self) -> None:
        self.parts[2].kill()
        self.parts[2].join()


def text_of(seed: int) -> str:
    from tests.random_kernels.kernels import kernel_of

    return kernel_of(seed).text()


def outcomes(
    seeds: Iterator[int], processes: int, options: Options, seconds: float, work: Callable[..., None] = work
) -> Iterator[Outcome]:
    """The outcomes of all seeds, in any order."""
    workers = [Worker(options, work) for _ in range(processes)]
    end = time.monotonic() + seconds
    left, unready = True, 0
    try:
        while left or any(worker.seed is not None for worker in workers):
            idle = True
            for i, worker in enumerate(workers):
                if worker.ready and worker.seed is None:
                    seed = next(seeds, None) if left and time.monotonic() < end else None
                    left = seed is not None
                    if seed is None:
                        continue
                    worker.give(seed)
                found = worker.take()
                if found is None:
                    continue
                idle = False
                if found.kind in ("died", "time", "device"):
                    worker.end()
                    workers[i] = Worker(options, work)
                if found.seed >= 0:
                    yield found
                elif (unready := unready + 1) > 3 * processes:
                    raise RuntimeError(f"processes do not start: {found.message}")
            if idle:
                time.sleep(0.002)
    finally:
        for worker in workers:
            worker.end()
