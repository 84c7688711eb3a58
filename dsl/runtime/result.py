"""The result of `Kernel.run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsl.runtime.timeline import WarpRecord


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """One finished launch.

    `device` is `emulator`, `cuda:0`, `cuda:1` and so on. `time_us` is the number of microseconds between two events
    around the launch. `time_us` is None unless the time was requested.

    `counters`, `findings` and `output` come from the emulator. On a GPU these three are None or empty. `writers` tells
    who wrote each byte of the written arrays, if requested. `timeline` holds the warps' records at marks, if requested.

    `moves` and `computes` are the numbers of bytes and operations of the launch, if the header states them.
    """

    device: str
    grid: tuple[int, int, int]
    threads: int
    time_us: float | None = None
    counters: Any = None
    findings: tuple[Any, ...] = ()
    output: str = ""
    writers: tuple[Any, ...] = ()
    moves: int | float | None = None
    computes: int | float | None = None
    timeline: list[WarpRecord] | None = None
