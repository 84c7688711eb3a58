"""Configurations of a Triton kernel. Several processes compile them beforehand, and a race finds the fastest one with
right results."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, TypeVar

from harness import Interval, LeftOut, interleaved

Variant, Configuration = TypeVar("Variant"), TypeVar("Configuration")
Launch = Callable[[], Any]


def try_compile(compile_one: Callable[[Variant, Configuration], Any], job: tuple[Variant, Configuration]) -> None:
    """Compiles a job in a worker process. A kernel that cannot be compiled is left out later, during tuning."""
    try:
        compile_one(*job)
    except Exception as error:
        print(f"Triton does not compile {job[1]} of {job[0]}: {type(error).__name__}: {error}", flush=True)


def compile_ahead(
    compile_one: Callable[[Variant, Configuration], Any], jobs: Iterable[tuple[Variant, Configuration]], processes: int
) -> None:
    """Compiles all jobs into Triton's cache on disk. Several processes compile, since each job takes a second or more.

    `compile_one` must be a function of a module, so that the processes can import it.
    """
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(partial(try_compile, compile_one), jobs))


def fastest(
    configurations: Iterable[Configuration],
    prepare: Callable[[Configuration], Launch],
    is_right: Callable[[Launch], bool],
    rest: float = 0.0,
    rounds: tuple[int, int] = (3, 7),
    finalists: int = 3,
) -> tuple[Launch, str]:
    """The launch and a description of the fastest configuration with right results. All configurations run in a short
    race, then the best ones in a second race.

    `rest` is as in `interleaved`. `rounds` holds the rounds of the first and the second race. `finalists` is the number
    of configurations in the second race. Raises LeftOut if no configuration compiles, or if all finalists give wrong
    results.
    """
    launches: dict[Configuration, Launch] = {}
    reason = "no configuration compiles"
    for configuration in configurations:
        try:
            made = prepare(configuration)
            made()
        except Exception as error:  # it does not compile, or needs too much shared memory
            if "CUDA error" in str(error):
                raise
            reason = str(error) or type(error).__name__
            continue
        launches[configuration] = made
    if not launches:
        raise LeftOut(reason.splitlines()[0])
    race = {c: Interval.of(t).median for c, t in interleaved(launches, rounds[0], warmups=1, rest=rest).items()}
    best = [c for c in sorted(race, key=race.__getitem__)[:finalists] if is_right(launches[c])]
    if not best:
        raise LeftOut("no configuration gives a right result")
    finals = interleaved({c: launches[c] for c in best}, rounds[1], warmups=1, rest=rest)
    final = {c: Interval.of(t).median for c, t in finals.items()}
    winner = min(final, key=final.__getitem__)
    return launches[winner], f"{winner}, of {len(launches)}"
