"""The launches of an example with marks: their timelines, one behind the other, and the file that has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsl.examples.report import LaunchReport
from dsl.examples.timeline import Timeline, TimelineSettings, check_lines, timeline_of, write_trace
from dsl.examples.times import in_turn
from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import TileError
from dsl.runtime.renewed import KeptMemory


class MarkedLaunches:
    """On a GPU, or on the emulator for None."""

    def __init__(self, settings: TimelineSettings, ordinal: int | None):
        self.settings, self.ordinal = settings, ordinal
        self.timelines: list[Timeline] = []

    def add(self, header: Any, grid: Sequence[int], warps: Any) -> Timeline:
        """The timeline of a launch, which begins where the one before ends. warps: what they recorded."""
        start = max((each.end for each in self.timelines), default=0.0)
        self.timelines.append(timeline_of(header, grid, warps, self.ordinal is not None, len(self.timelines), start))
        return self.timelines[-1]

    def record(self, plain: Any, kernel: Any, values: list[Any], report: LaunchReport, kept: KeptMemory) -> None:
        """The timeline of a launch on a GPU that was made before, so that its code is there; the L2 is cold. Beside it
        time and registers of the kernel without marks, which is `plain`, and with them. kept: what the launch
        changes, as it was before."""
        from dsl.runtime.cuda.timing import flush_l2

        assert self.ordinal is not None
        asked = self.settings.events, self.settings.blocks
        launches = [plain.bind(*values), kernel.bind(*values, timeline=asked)]
        times = in_turn([kept.before(launch) for launch in launches], self.ordinal)
        kept.put_back()
        flush_l2(self.ordinal)
        result = kernel.run(*values, timeline=asked)
        if result.timeline is not None:
            made = self.add(kernel.header, report.grid, result.timeline)
            made.times_us = times
            attributes = [each.attributes(self.ordinal) for each in (plain, kernel)]
            made.registers = [[each.registers, each.local_bytes] for each in attributes]
            report.timeline = made.as_record()

    def write(self, headers: Sequence[Any], functions: Sequence[Function], device: str) -> None:
        """Writes the file. headers, functions: of all kernels. TileError where there is none, or for lines without
        operations."""
        check_lines(self.settings.marks, headers, functions)
        if not self.timelines:
            raise TileError("call", None, "the example launches nothing that has a timeline")
        write_trace(self.settings.path, self.timelines, device)
