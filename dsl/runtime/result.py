"""What `Kernel.run` gives back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dsl.runtime.timeline import WarpRecord


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """One finished launch.

    `device`: `cuda:0` … or `emulator`; `time_us`: microseconds between two events around the launch, None unless asked
    for; `counters`, `findings`, `output`: the emulator's (None and empty on a GPU); `writers`: who wrote
    each byte of the arrays that the kernel writes, where that was asked for.
    `timeline`: what warps recorded at marks, where that was asked for (`WarpRecord`).
    `moves` and `computes`: bytes and operations of the launch, where the header has them.
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
