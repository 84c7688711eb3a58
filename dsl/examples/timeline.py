"""Makes the timeline of a launch. The records of warps become spans, a table of the marks, and Chrome-trace JSON. Times
are microseconds on a GPU. On the emulator, times are turns: a warp takes one turn for each instruction that it
issues."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import prod
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field, to_builtins
from msgspec.structs import replace

from dsl.lowering.ir.function import Function
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import WARP
from dsl.lowering.passes.marks import BARRIERS, EMPTY, LIFE, LINES, lines_name, marked_lines, parse_marks, range_text
from dsl.text.files import write_text

if TYPE_CHECKING:
    from dsl.runtime.header import Header, HeaderMark
    from dsl.runtime.timeline import WarpRecord

TURNS, MICROSECONDS = "turns", "us"
HEAD, ABOUT = b'{"traceEvents":', b'"otherData":{"device":'
"""A file that contains these texts was written by `write_trace`."""
LEAST_STEPS = 4
"""A launch must last at least this many steps of %globaltimer. Otherwise the rate of %clock64 cannot be computed."""


class TimelineSettings(Struct, frozen=True):
    """What a timeline records, and to which file it is written. `marks` is a text that `dsl/lowering/passes/marks.py`
    reads. `events` is the greatest number of events that a warp records. A span needs two events. `blocks` is the
    number of blocks to record, from the first block on. None means the default of `dsl/runtime/timeline.py`."""

    path: str
    marks: str
    events: int
    blocks: int | None = None


class MarkedSpan(Struct, frozen=True):
    """The time between the begin and end of a mark, in clocks. `inner` is the number of events within the span."""

    mark: int
    begin: int
    end: int
    inner: int


class MarkRow(Struct):
    """The sums of one mark over all warps: how often it occurred, and its times without the cost of marks. `share` is
    the mark's time divided by the lifetimes of the `warps` that reached the mark."""

    kind: str
    name: str
    line: int
    count: int
    total: float
    mean: float
    longest: float
    share: float
    warps: int


class Timeline(Struct):
    """The timeline of one launch.

    `blocks` is the number of recorded blocks. `cost` is the time that one mark takes. `marks_share` is the fraction of
    the warps' lifetimes that marks take. `dropped` is the number of events that did not fit. `unfinished` is the number
    of spans without an end. `unreached` names marks without an event.

    `step_ns` is the step of %globaltimer. `clock_mhz` is the clock rate of the SMs. Both are computed from the records.
    `times_us` holds two times: of the kernel without marks, and with marks. `registers` holds the registers and the
    spilled bytes of a thread, likewise without and with marks."""

    kernel: str
    unit: str
    blocks: int
    grid_blocks: int
    warps: int
    events: int
    dropped: int
    unfinished: int
    cost: float
    marks_share: float
    rows: list[MarkRow]
    step_ns: int | None = None
    clock_mhz: float | None = None
    times_us: list[float] | None = None
    registers: list[list[int]] | None = None
    unreached: list[str] = field(default_factory=list)
    trace: list[dict[str, Any]] = field(default_factory=list)
    end: float = 0.0

    def as_record(self) -> dict[str, Any]:
        """Returns the data for a report, without `trace` and `end`. The added `longest_wait` is the wait on which all
        warps together spend the most time."""
        found = to_builtins(replace(self, trace=[]))
        del found["trace"], found["end"]
        waits = [row for row in found["rows"] if row["kind"] == BARRIERS]
        return {**found, "longest_wait": max(waits, key=lambda row: row["total"], default=None)}


class Scale:
    """Converts the clock of each SM to a time that all SMs share. `rate` is the time of one clock."""

    unit = TURNS
    step_ns: int | None = None
    clock_mhz: float | None = None

    def __init__(self) -> None:
        self.rate, self.zero = 1.0, 0.0
        self.offsets: dict[int, float] = defaultdict(float)

    def time(self, sm: int, clock: int) -> float:
        return clock * self.rate + self.offsets[sm] - self.zero


class DeviceScale(Scale):
    """The scale of a GPU. It is computed from the pairs (%globaltimer, %clock64) that each warp reads at its begin and
    end. All SMs have the same rate, fitted to all pairs. Each SM has its own offset, which is the mean over the SM's
    pairs."""

    unit = MICROSECONDS

    def __init__(self, warps: Sequence[WarpRecord]):
        super().__init__()
        pairs: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for warp in warps:
            pairs[warp.sm] += [warp.begin, *([] if warp.end is None else [warp.end])]
        first = min(ns for each in pairs.values() for ns, _ in each)
        times = sorted({ns for each in pairs.values() for ns, _ in each})
        self.step_ns = min((b - a for a, b in pairwise(times)), default=0)
        if times[-1] - times[0] < LEAST_STEPS * self.step_ns or not self.step_ns:
            message = f"the launch takes {times[-1] - times[0]} ns, and the device's clock of all SMs goes in steps of "
            hint = "a larger shape: the rates of the SMs' own clocks are found by it"
            raise TileError("limit", None, f"{message}{self.step_ns} ns", hint)
        # Least squares around the mean of each SM. %globaltimer moves in steps. The error of the steps cancels over
        # many pairs.
        above = below = 0.0
        middles = {}
        for sm, each in pairs.items():
            ns, clock = mean(t - first for t, _ in each), mean(c - each[0][1] for _, c in each) + each[0][1]
            middles[sm] = ns, clock
            above += sum((t - first - ns) * (c - clock) for t, c in each)
            below += sum((c - clock) ** 2 for _, c in each)
        self.rate = above / below / 1e3
        self.clock_mhz = 1 / self.rate
        self.offsets.update({sm: ns / 1e3 - clock * self.rate for sm, (ns, clock) in middles.items()})
        self.zero = min(self.time(warp.sm, warp.begin[1]) for warp in warps)


class Recorded(Struct, frozen=True):
    """The prepared records of a launch. `spans` holds the spans of each warp. `cost` is the cost of a mark, in
    clocks."""

    header: Header
    grid: Sequence[int]
    warps: Sequence[WarpRecord]
    spans: Sequence[Sequence[MarkedSpan]]
    cost: float
    scale: Scale

    def net(self, span: MarkedSpan) -> float:
        """Returns the time of a span without the cost of marks. Two costs are subtracted: the rest of the span's own
        begin mark, and all marks inside the span."""
        return max(span.end - span.begin - self.cost * (1 + span.inner), 0.0) * self.scale.rate

    def life(self, warp: WarpRecord) -> MarkedSpan:
        number = next(i for i, mark in enumerate(self.header.timeline) if mark.kind == LIFE)
        return MarkedSpan(number, warp.begin[1], end_of(warp), len(warp.events) + warp.dropped)


def timeline_of(
    header: Header, grid: Sequence[int], warps: Sequence[WarpRecord], on_gpu: bool, number: int = 0, start: float = 0.0
) -> Timeline:
    """Makes the timeline of a launch. `number` is the launch's number within the trace. `start` is the time in the
    trace at which the launch begins."""
    if not warps:
        raise TileError("call", None, f"no warp of {header.label} recorded anything")
    scale = DeviceScale(warps) if on_gpu else Scale()
    found = [spans_of(warp) for warp in warps]
    spans = [each for each, _ in found]
    of = Recorded(header, grid, warps, spans, cost_of(header, spans), scale)
    trace = [*trace_of(of, number, start)]
    return Timeline(
        header.label,
        scale.unit,
        len({warp.block for warp in warps}),
        prod(grid),
        len(warps),
        sum(len(warp.events) for warp in warps),
        sum(warp.dropped for warp in warps),
        sum(unfinished for _, unfinished in found),
        of.cost * scale.rate,
        marks_share(of),
        rows_of(of),
        scale.step_ns,
        scale.clock_mhz,
        unreached=unreached(header, warps),
        trace=trace,
        end=max(each["ts"] + each["dur"] for each in trace if each["ph"] == "X"),
    )


def unreached(header: Header, warps: Sequence[WarpRecord]) -> list[str]:
    """Returns the marks that have no event in any warp: lane 0 never reached the mark, or its events did not fit into
    the records."""
    seen = {mark for warp in warps for mark, *_ in warp.events}
    missing = [mark for number, mark in enumerate(header.timeline) if number not in seen]
    # Two kinds of marks are left out. Lives of warps are recorded separately, and empty pairs only measure the cost of
    # a mark.
    return [with_line(mark) for mark in missing if mark.kind not in (LIFE, EMPTY)]


def with_line(mark: HeaderMark) -> str:
    """The name of a mark, with its line."""
    return mark.name if not mark.line or mark.kind == LINES else f"{mark.name} (line {mark.line})"


def is_trace(path: Path) -> bool:
    """Returns whether a file is empty or was written by `write_trace`, judged by its start and its last MiB."""
    with path.open("rb") as file:
        head = file.read(len(HEAD))
        file.seek(max(0, file.seek(0, os.SEEK_END) - (1 << 20)))
        return not head or (head == HEAD and ABOUT in file.read())


def end_of(warp: WarpRecord) -> int:
    """Returns the last clock that a warp recorded."""
    return warp.end[1] if warp.end is not None else warp.events[-1][2] if warp.events else warp.begin[1]


def spans_of(warp: WarpRecord) -> tuple[list[MarkedSpan], int]:
    """Pairs the nested begins and ends of a warp to spans. Also returns the number of begins without an end, which
    occur if the record was full."""
    open_ones: list[tuple[int, int, int]] = []
    found = []
    for at, (mark, begins, clock) in enumerate(warp.events):
        if begins:
            open_ones.append((mark, clock, at))
            continue
        begun, begin, first = open_ones.pop()
        if begun != mark:
            raise AssertionError(f"mark {begun} of block {warp.block}, warp {warp.warp} ends as {mark}")
        found.append(MarkedSpan(mark, begin, clock, at - first - 1))
    return found, len(open_ones)


def cost_of(header: Header, spans: Sequence[Sequence[MarkedSpan]]) -> float:
    """Returns the number of clocks that a mark costs: the median over pairs of marks with nothing between them."""
    empty = {number for number, mark in enumerate(header.timeline) if mark.kind == EMPTY}
    # The first pair of each warp is left out, because the warp's code is fetched during this pair.
    found = [[span.end - span.begin for span in each if span.mark in empty][1:] for each in spans]
    return float(median([clocks for each in found for clocks in each] or [0]))


def marks_share(of: Recorded) -> float:
    """Returns the time that marks take in all warps, divided by the sum of the warps' lifetimes."""
    lives = [of.life(warp) for warp in of.warps]
    whole = sum(each.end - each.begin for each in lives)
    return 1 - sum(map(of.net, lives)) / of.scale.rate / whole if whole else 0.0


def rows_of(of: Recorded) -> list[MarkRow]:
    """Returns a row for each mark that a warp reached, largest total first."""
    times: dict[int, list[float]] = defaultdict(list)
    lives: dict[int, list[float]] = defaultdict(list)  # of the warps that reached the mark
    for warp, spans in zip(of.warps, of.spans, strict=True):
        for span in spans:
            times[span.mark].append(of.net(span))
        for number in {span.mark for span in spans}:
            lives[number].append(of.net(of.life(warp)))
    rows = []
    for number, found in times.items():
        mark, total, whole = of.header.timeline[number], sum(found), sum(lives[number])
        if mark.kind != EMPTY:
            figures = len(found), total, total / len(found), max(found), total / whole if whole else 0.0
            rows.append(MarkRow(mark.kind, mark.name, mark.line, *figures, len(lives[number])))
    return sorted(rows, key=lambda row: -row.total)


def trace_of(of: Recorded, number: int, start: float) -> Iterator[dict[str, Any]]:
    """Yields events of the Trace Event Format. SMs are processes, warps are threads, and spans are complete events."""
    # The process numbers of different launches do not collide, because no device has 65,536 SMs.
    header, scale, first = of.header, of.scale, number << 16
    for sm in sorted({warp.sm for warp in of.warps}):
        yield _metadata("process_name", first + sm, 0, f"{header.kernel}: SM {sm}")
        yield _metadata("process_sort_index", first + sm, 0, first + sm)
    for warp, spans in zip(of.warps, of.spans, strict=True):
        block = _corner(warp.block, of.grid)
        pid, tid = first + warp.sm, warp.block * -(-header.threads // WARP) + warp.warp
        yield _metadata("thread_name", pid, tid, _thread_name(of, warp))
        yield _metadata("thread_sort_index", pid, tid, tid)
        for span in (of.life(warp), *sorted(spans, key=lambda each: (each.begin, -each.end))):
            mark, begin = header.timeline[span.mark], scale.time(warp.sm, span.begin)
            yield {
                "ph": "X",
                "pid": pid,
                "tid": tid,
                "ts": start + begin,
                "dur": scale.time(warp.sm, span.end) - begin,
                "name": with_line(mark),
                "cat": mark.kind,
                "args": {
                    "block": block,
                    "warp": warp.warp,
                    "line": mark.line,
                    "mark": span.mark,
                    "net": of.net(span),
                },
            }


def _corner(block: int, grid: Sequence[int]) -> list[int]:
    """Returns the x, y and z of the block with the linear number `block`."""
    return [block % grid[0], block // grid[0] % grid[1], block // (grid[0] * grid[1])]


def _thread_name(of: Recorded, warp: WarpRecord) -> str:
    """Returns the name of a warp in the trace, for example `block 3, 1 warp 2` for a grid with two axes."""
    axes = max((axis + 1 for axis in range(3) if of.grid[axis] > 1), default=1)
    place = ", ".join(map(str, _corner(warp.block, of.grid)[:axes]))
    multiplying = of.header.constants.get("warps")
    # Warps beyond the schedule's number are producers, which the compiler adds.
    role = " (copies)" if isinstance(multiplying, int) and warp.warp >= multiplying else ""
    return f"block {place} warp {warp.warp}{role}"


def _metadata(about: str, pid: int, tid: int, value: int | str) -> dict[str, Any]:
    args = {"name" if about.endswith("name") else "sort_index": value}
    return {"ph": "M", "pid": pid, "tid": tid, "ts": 0, "name": about, "args": args}


def check_lines(marks: str, headers: Sequence[Header], functions: Sequence[Function]) -> None:
    """Raises TileError `option` if these kernels have no operation on a line that is to be marked."""
    names = {mark.name for header in headers for mark in header.timeline if mark.kind == LINES}
    for lines in parse_marks(marks)[1]:
        if lines_name(lines) not in names:
            kernels = ", ".join(dict.fromkeys(header.kernel for header in headers))
            message = f"nothing that {kernels} computes or moves comes from line {range_text(lines)}"
            found = sorted({line for function in functions for line in marked_lines(function)})
            raise TileError("option", None, message, f"these lines have marks: {', '.join(map(str, found))}")


def write_trace(path: str, timelines: Sequence[Timeline], device: str) -> None:
    """Writes the launches to one file, one after another. Raises TileError `file` if the file cannot be written."""
    units = "microseconds" if timelines[0].unit == MICROSECONDS else "turns: instructions that a warp has issued"
    about = {"device": device, "ts and dur": units, "launches": [each.as_record() for each in timelines]}
    events = [event for each in timelines for event in each.trace]
    text = json.dumps({"traceEvents": events, "otherData": about}, separators=(",", ":"), allow_nan=False)
    write_text(Path(path), text + "\n")
