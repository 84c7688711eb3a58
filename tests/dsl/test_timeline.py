"""`dsl run --timeline`: what warps do when, of samples, on the emulator in turns and on a GPU in microseconds."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dsl.command import cli
from dsl.examples.timeline import DeviceScale, MarkedSpan, Recorded, Scale, cost_of, rows_of, spans_of
from dsl.kernels.compile import compile_variant
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import LaunchError
from dsl.runtime.header import HeaderMark
from dsl.runtime.launch import Kernel
from dsl.runtime.timeline import MOST_BYTES, WarpRecord, space_for
from dsl.text.program import parse_program

SAMPLES = Path(__file__).parents[2] / "samples"
TEXT = """
kernel sums(y: f32[rows], x: f32[rows, n]; N = 64):
    grid rows
    r = block(0)
    acc = zeros(f32[N])
    for p in range(0, n, N):
        acc = acc + x[r, p : p + N]
    y[r] = sum(acc)

schedule s of sums:
    warps = 2
    expect barriers <= 2

example:
    rows, n = 3, 256
    x, y = ones(f32[rows, n]), empty(f32[rows])
    sums(y, x)
    expect y == sum(x, axis=1)
    expect spills == 0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sums.tile"
    path.write_text(TEXT)
    return path


def run(*arguments: object) -> Result:
    """What it prints; its exit status is the `return_value`."""
    return CliRunner().invoke(cli, ["run", *map(str, arguments)], standalone_mode=False)


def timeline(tmp_path: Path, *arguments: object) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What `--json` says of the first launch, and the trace."""
    trace = tmp_path / "t.json"
    done = run(*arguments, "--timeline", trace, "--json")
    assert done.return_value == 0, done.output
    said = json.loads(done.output)
    assert said["passed"]
    return said["timelines"][0], json.loads(trace.read_text())["traceEvents"]


def check_trace(events: list[dict[str, Any]]) -> None:
    """Processes and threads have names; spans of a thread lie in its life, and one in the other or apart."""
    named = {(each["name"], each["pid"], each["tid"]) for each in events if each["ph"] == "M"}
    threads: dict[tuple[int, int], list[dict[str, Any]]] = defaultdict(list)
    for each in events:
        assert each["ph"] in ("M", "X")
        if each["ph"] == "X":
            threads[each["pid"], each["tid"]].append(each)
            assert {"line", "block", "warp", "mark"} <= each["args"].keys()
            assert each["ts"] >= 0 and each["dur"] >= 0
    assert threads
    for (pid, tid), spans in threads.items():
        assert ("process_name", pid, 0) in named and ("thread_name", pid, tid) in named
        assert spans[0]["cat"] == "life"
        ends: list[float] = []
        for span in spans:
            while ends and span["ts"] >= ends[-1] - 1e-9:
                ends.pop()
            end = span["ts"] + span["dur"]
            assert not ends or end <= ends[-1] + 1e-9, "spans overlap"
            ends.append(end)


def test_rounds_of_a_loop_are_counted_and_lie_in_it(tmp_path: Path, file: Path) -> None:
    said, events = timeline(tmp_path, file, "--device", "emulator")
    check_trace(events)
    rows = {row["name"]: row for row in said["rows"]}
    assert (rows["loop p"]["count"], rows["iteration of loop p"]["count"]) == (3 * 2, 3 * 2 * 4)
    assert rows["loop p"]["line"] == rows["iteration of loop p"]["line"] == 6
    assert rows["loop p"]["total"] >= rows["iteration of loop p"]["total"] > 0
    assert rows["barrier of the block"]["count"] == 3 * 2 * said["rows"][0]["warps"] // 6
    assert (said["unit"], said["blocks"], said["warps"], said["dropped"]) == ("turns", 3, 6, 0)
    counts = Counter(each["name"] for each in events if each["ph"] == "X")
    assert counts["iteration of loop p (line 6)"] == 24
    assert said["longest_wait"]["line"] == 8


def test_contracts_are_of_kernels_without_marks(file: Path, tmp_path: Path) -> None:
    done = run(file, "--device", "emulator", "--timeline", tmp_path / "t.json")
    assert "barriers <= 2 (line 12): it applies to the kernel without marks" in done.output
    assert "spills == 0 (line 19): it applies to the example as written, without --timeline" in done.output


def test_a_full_record_says_what_is_missing(tmp_path: Path, file: Path) -> None:
    whole, _ = timeline(tmp_path, file, "--device", "emulator")
    some, events = timeline(tmp_path, file, "--device", "emulator", "--events", 16)
    check_trace(events)
    assert some["events"] == 16 * some["warps"]
    assert some["events"] + some["dropped"] == whole["events"]
    assert some["unfinished"] and not whole["unfinished"]
    done = run(file, "--device", "emulator", "--events", 16, "--timeline", tmp_path / "t.json")
    assert f"{some['dropped']:,} events did not fit and are missing" in done.output


def test_the_first_blocks_record_alone(tmp_path: Path, file: Path) -> None:
    said, events = timeline(tmp_path, file, "--device", "emulator", "--blocks", 2)
    assert (said["blocks"], said["grid_blocks"]) == (2, 3)
    assert {each["args"]["block"][0] for each in events if each["ph"] == "X"} == {0, 1}


def test_roles_wait_for_each_other(tmp_path: Path) -> None:
    """Of a product by boxes one warp copies, and eight multiply. The one runs ahead until the ring is full; then it
    waits for a stage in each iteration."""
    dims, iterations = ("m=128", "n=64", "k=1536", "TM=128", "SHARES=1"), 1536 // 64
    file, marks = SAMPLES / "matmul.tile", ("--marks", "barriers", "--device", "emulator")
    said, events = timeline(tmp_path, file, *dims, "--arch", "sm_90a", "--schedule", "wgmma", *marks)
    check_trace(events)
    rows = {row["name"]: row for row in said["rows"]}
    full, free = rows["wait for a full stage"], rows["wait for a free stage"]
    assert (full["count"], full["warps"]) == (iterations * 8 * said["blocks"], 8 * said["blocks"])
    assert (free["count"], free["warps"]) == (iterations * said["blocks"], said["blocks"])
    waits = [each for each in events if each["ph"] == "X" and each["name"].startswith("wait for a free stage")]
    net = [each["args"]["net"] for each in waits if each["args"]["block"] == [0, 0, 0]]
    assert len({*net[:6]}) == len({*net[-6:]}) == 1 and net[-1] > 2 * net[0]
    names = {each["args"]["name"] for each in events if each["name"] == "thread_name"}
    assert any(name.endswith("warp 8 (copies)") for name in names)


def test_copies_in_flight_have_marks(tmp_path: Path) -> None:
    said, events = timeline(tmp_path, SAMPLES / "int8_conv.tile", "--device", "emulator", "--marks", "barriers,48-54")
    check_trace(events)
    kinds = Counter(row["kind"] for row in said["rows"])
    assert kinds["lines"] == 1 and kinds["barriers"] >= 3
    assert {row["name"] for row in said["rows"]} >= {"wait for copies", "barrier of the block", "lines 48-54"}


def test_marks_cost_what_empty_ones_do(tmp_path: Path, file: Path) -> None:
    """On the emulator they are subtracted to the turn: an iteration takes as long with others' marks inside as
    without."""
    plain, _ = timeline(tmp_path, file, "--device", "emulator", "--marks", "loops")
    more, _ = timeline(tmp_path, file, "--device", "emulator", "--marks", "loops,7")
    longest = [
        next(row for row in said["rows"] if row["name"] == "iteration of loop p")["longest"] for said in (plain, more)
    ]
    assert longest[0] == longest[1]
    assert plain["cost"] == more["cost"] > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--marks", "iterations"), "'iterations' is nothing that can have marks"),
        (("--marks", "3"), "comes from line 3\n  hint: these lines have marks: 6, 7, 8"),
        (("--counters",), "--timeline and --counters exclude each other"),
        (("--all",), "--timeline and --all exclude each other"),
        (("--blocks", "100", "--events", "1000000", "rows=100"), "take more than 256 MiB"),
    ],
)
def test_what_makes_no_timeline_is_told(file: Path, options: tuple[str, ...], words: str) -> None:
    done = run(file, "--device", "emulator", "--timeline", file.with_name("t.json"), *options)
    assert words in done.output
    assert done.return_value == 2


def test_options_of_a_timeline_are_nothing_without_one(file: Path) -> None:
    done = run(file, "--marks", "loops")
    assert done.return_value == 2 and "--marks is of a timeline" in done.output
    done = run(file, "--timeline", file.with_name("none") / "t.json")
    assert done.return_value == 2 and "there is no folder none" in done.output


def test_nothing_but_an_own_trace_is_overwritten(file: Path) -> None:
    """By what a file is, not by its name."""
    path = file.with_name("notes")
    for text in (TEXT, '{"traceEvents":[]}\n', "tile-ir 1\n"):
        path.write_text(text)
        done = run(file, "--device", "emulator", "--timeline", path)
        assert done.return_value == 2 and f"would overwrite {path}, which is none of its traces" in done.output
        assert path.read_text() == text
    path.write_text("")
    for _ in range(2):
        assert run(file, "--device", "emulator", "--timeline", path).return_value == 0
        assert json.loads(path.read_text())["otherData"]["launches"]


HALF = """
kernel half(y: f32[n], x: f32[n]):
    grid 1
    i = arange(64)
    if i >= 33:
        y[i] = x[i] + 1.0
    else:
        y[i] = x[i]

schedule s of half:
    warps = 2

example:
    x, y = ones(f32[64]), empty(f32[64])
    half(y, x)
    expect y[0] == 1
"""


def test_marks_that_lane_0_does_not_come_to_are_told(file: Path) -> None:
    """Line 6 is of threads 33 and up: of no warp's first one."""
    file.write_text(HALF)
    asked = (file, "--device", "emulator", "--timeline", file.with_name("t.json"))
    done = run(*asked, "--marks", "6,8")
    assert "  lane 0 of no warp came to: line 6\n" in done.output and "1 block of 64 threads" in done.output
    assert json.loads(run(*asked, "--marks", "6,8", "--json").output)["timelines"][0]["unreached"] == ["line 6"]
    assert "came to" not in run(*asked, "--marks", "8").output


def test_waits_are_said_to_hold_marks_of_others(file: Path) -> None:
    asked = (file, "--device", "emulator", "--timeline", file.with_name("t.json"))
    words = "waits include the cost of marks in the warps that others wait for"
    assert words in run(*asked).output and words not in run(*asked, "--marks", "loops").output


def marked_kernel() -> Kernel:
    program = parse_program(TEXT)
    return Kernel(
        compile_variant(program, Request("sums", "s", {"rows": 3, "n": 256}, marks="loops")).ptx, device="emulator"
    )


def test_records_have_a_limit() -> None:
    header = marked_kernel().header
    space = space_for(header, (100_000, 1, 1), 1024)
    assert space.blocks == 128 and space.size < MOST_BYTES
    assert space_for(header, (3, 1, 1), 1024, 7).blocks == 3
    with pytest.raises(LaunchError, match="take more than 256 MiB") as error:
        space_for(header, (100_000, 1, 1), 1 << 20, 100)
    assert error.value.code == "limit" and "at most" in (error.value.hint or "")


def test_a_kernel_with_marks_runs_without_anybody_who_records() -> None:
    import numpy as np

    x, y = np.ones((3, 256), np.float32), np.zeros(3, np.float32)
    kernel = marked_kernel()
    kernel(y, x)
    assert (y == 256).all()
    assert kernel.run(y, x).timeline is None
    assert len(kernel.run(y, x, timeline=(64, None)).timeline or []) == 6


# ---- the arithmetic, of records as a GPU makes them ----

LIFE, EMPTY, LOOP = HeaderMark("life", "life", 0), HeaderMark("empty", "empty", 0), HeaderMark("loops", "loop p", 6)
STEP = 32


def device_records(step: int = STEP, span: int = 60_000) -> tuple[list[WarpRecord], dict[int, tuple[float, int]]]:
    """Warps of four SMs of one rate, 1.755 GHz, each with a clock that began at another time; %globaltimer goes in
    steps. By SM, (ns at which its clock is 0, ...)."""
    random_ = random.Random(5)
    zeros = {sm: random_.uniform(0, 1e15) for sm in range(4)}
    warps = []
    for block in range(16):
        for warp in range(8):
            sm = block % 4
            begin = 1e15 + random_.uniform(0, 2_000)
            end = begin + random_.uniform(0.8, 1) * span
            pairs = [(int(t // step * step), int((t - zeros[sm]) * 1.755)) for t in (begin, end)]
            warps.append(WarpRecord(block, warp, sm, pairs[0], pairs[1], [], 0))
    return warps, {sm: (zero, 0) for sm, zero in zeros.items()}


def test_clocks_of_all_sms_become_one_time() -> None:
    """To a fraction of a step of the timer that they share."""
    warps, zeros = device_records()
    scale = DeviceScale(warps)
    assert scale.step_ns == STEP
    assert scale.clock_mhz == pytest.approx(1755, rel=1e-3)
    errors = [scale.time(warp.sm, warp.begin[1]) * 1e3 - (warp.begin[1] / 1.755 + zeros[warp.sm][0]) for warp in warps]
    assert max(errors) - min(errors) < STEP / 2
    assert min(scale.time(warp.sm, warp.begin[1]) for warp in warps) == 0


def test_a_launch_of_few_steps_has_no_rate() -> None:
    warps, _ = device_records(step=1000, span=1000)
    with pytest.raises(TileError, match="in steps of 1000 ns"):
        DeviceScale(warps)


def test_marks_are_subtracted() -> None:
    """Of a loop with an iteration inside: its own begin and the two marks of the iteration."""
    events = [(1, True, 100), (1, False, 190), (1, True, 200), (1, False, 230), (2, True, 300), (2, True, 360)]
    events += [(2, False, 460), (2, False, 500)]
    warp = WarpRecord(0, 0, 0, (0, 90), (0, 600), events, 0)
    spans, unfinished = spans_of(warp)
    header: Any = type("Header", (), {"timeline": (LIFE, EMPTY, LOOP)})
    cost = cost_of(header, [spans])
    assert (cost, unfinished) == (30, 0)
    of = Recorded(header, (1, 1, 1), [warp], [spans], cost, Scale())
    assert [of.net(span) for span in spans if span.mark == 2] == [100 - 30, 200 - 3 * 30]
    assert [(row.name, row.count, row.share) for row in rows_of(of)] == [("loop p", 2, 180 / (510 - 9 * 30))]
    assert spans_of(WarpRecord(0, 0, 0, (0, 0), None, [(2, True, 5), (2, True, 6), (2, False, 9)], 3)) == (
        [MarkedSpan(2, 6, 9, 0)],
        1,
    )


@pytest.mark.gpu
def test_on_a_gpu_times_are_microseconds(tmp_path: Path, file: Path) -> None:
    """The twin of the iterations on the emulator; the launch is timed without marks, too."""
    said, events = timeline(tmp_path, file, "--device", "cuda", "n=16384", "rows=64")
    check_trace(events)
    assert said["unit"] == "us" and said["cost"] > 0
    assert said["step_ns"] > 0 and 200 < said["clock_mhz"] < 5000
    without, with_marks = said["times_us"]
    assert without > 0 and with_marks / without > 0.5
    rows = {row["name"]: row for row in said["rows"]}
    assert rows["iteration of loop p"]["count"] == 64 * 2 * 256
    assert max(each["ts"] + each["dur"] for each in events if each["ph"] == "X") < 50 * with_marks
