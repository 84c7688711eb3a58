"""The result of `Kernel.run`."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dsl.runtime.timeline import WarpRecord


class LaunchResult(Struct, frozen=True):
    """One finished launch.

    `device` is `emulator`, `cuda:0`, `cuda:1` and so on. `time_us` is the number of microseconds between two events
    around the launch. `time_us` is None unless the time was requested.

    The emulator provides `counters`, `findings` and `output`. On a GPU, these three are None or empty. `writers`
    contains the last writer of each byte of the written arrays, if requested. `timeline` contains the records that
    warps wrote at the kernel's marks, if requested.

    `moves` is the number of bytes that the launch moves, and `computes` is the number of its operations, if the header
    states them.
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
