"""Launches the kernels of an example with marks, which are instructions that record times. Writes the timelines of
these launches to one file, one after another."""

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
    """The marked launches of an example. `ordinal` is the GPU's number, or None for the emulator."""

    def __init__(self, settings: TimelineSettings, ordinal: int | None):
        self.settings, self.ordinal = settings, ordinal
        self.timelines: list[Timeline] = []

    def add(self, header: Any, grid: Sequence[int], warps: Any) -> Timeline:
        """Adds the timeline of a launch, which begins where the previous timeline ends. `warps` are the records of the
        launch's warps."""
        start = max((each.end for each in self.timelines), default=0.0)
        self.timelines.append(timeline_of(header, grid, warps, self.ordinal is not None, len(self.timelines), start))
        return self.timelines[-1]

    def record(self, plain: Any, kernel: Any, values: list[Any], report: LaunchReport, kept: KeptMemory) -> None:
        """Records a launch on a GPU again, with a cold L2. Adds the times and registers of `kernel`, which has marks,
        and of `plain`, which has none. `kept` holds the old contents of memory that the launch changes."""
        from dsl.runtime.cuda.timing import flush_l2

        assert self.ordinal is not None
        asked = self.settings.events, self.settings.blocks
        launches = [plain.bind(*values), kernel.bind(*values, timeline=asked)]
        # The launch has run before, so its code is loaded. The two kernels alternate, so that clock drift affects them
        # equally.
        times = in_turn([kept.before(launch) for launch in launches], self.ordinal)
        # The timed launches have changed the inputs and filled the L2.
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
        """Writes the file. `headers` and `functions` are those of all kernels. Raises TileError if nothing was
        recorded, or if a marked line has no operations."""
        check_lines(self.settings.marks, headers, functions)
        if not self.timelines:
            raise TileError("call", None, "the example launches nothing that has a timeline")
        write_trace(self.settings.path, self.timelines, device)
