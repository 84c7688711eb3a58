"""The result of `Kernel.run`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsl.runtime.timeline import WarpRecord


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """One finished launch.

    `device`: `cuda:0` … or `emulator`; `time_us`: microseconds between two events around the launch, None unless
    requested; `counters`, `findings`, `output`: of the emulator (None and empty on a GPU); `writers`: who wrote each
    byte of the written arrays, if requested.

    `timeline`: the warps' records at marks, if requested (`WarpRecord`).

    `moves` and `computes`: bytes and operations of the launch, if the header has them.
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
