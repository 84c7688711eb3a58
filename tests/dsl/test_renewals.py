"""Launches that are timed are made again and again: each finds what the first found, and one that never ends is told.

A look-back scan with a ticket is right once; on what it left it waits for ever, or writes behind its arrays.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import dsl
from dsl import command as cli
from dsl.command import child
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import resolve
from dsl.examples.report import Report
from dsl.examples.run import ExampleRun
from dsl.lab.place import TuningPlace, find_place
from dsl.lab.runner import LazyCase, Runner, prepared
from dsl.lab.space import SpaceChoice
from dsl.runtime import renewed
from dsl.runtime.cuda import context as contexts
from dsl.runtime.cuda import driver, timing
from dsl.runtime.errors import DeviceError
from dsl.runtime.renewed import KeptMemory, Renewed, in_a_row, joined
from dsl.studies import bench
from dsl.studies.peers import peer_of
from dsl.text.program import parse_program

SCAN = """
kernel lookback(y: s32[n], ticket: u32[1], flag: u32[blocks], sums: s32[blocks], x: s32[n]; B = 32):
    grid blocks
    t = atomic_add(ticket[0], 1)
    at = t.to(s32) * B
    v = load(x[at : at + B])
    before = (0).to(s32)
    if t > 0:
        seen = (0).to(u32)
        while seen == 0:
            seen = atomic_add(flag[t - 1], 0, order=acquire)
        before = sums[t - 1]
    sums[t] = before + sum(v, axis=0)
    atomic_exchange(flag[t], 1, order=release)
    y[at : at + B] = cumsum(v, axis=0) + before

schedule one of lookback:
    warps = 1

example:
    blocks = 3
    n = 32 * blocks
    x = randint(s32[n], -9, 9)
    ticket, flag, sums, y = zeros(u32[1]), zeros(u32[blocks]), empty(s32[blocks]), empty(s32[n])
    lookback(y, ticket, flag, sums, x)
    expect y == cumsum(x, axis=0)
    expect ticket[0] == blocks
"""
STEPS = """
kernel add(y: s32[n], x: s32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = y[i : i + B] + x[i : i + B]

kernel copied(y: s32[n], x: s32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B]

dispatch both(y, z, x):                       # z is y + x; then y is z + x, and x is overwritten
    copied(z, y)
    add(z, x)
    copied(y, z)
    add(y, x)
    copied(x, z)

example:
    x, y, z = ones(s32[40]), ones(s32[40]), empty(s32[40])
    both(y, z, x)
    expect y == 3
    expect z == 2
"""


def run_of(text: str) -> tuple[ExampleRun, Report]:
    """An example that has run on the emulator."""
    program = parse_program(text)
    settings = LaunchSettings(measure=False)
    run = ExampleRun(program, program.examples[0], "emulator", "", resolve(program, program.examples[0], []), settings)
    return run, run.run()


def repeated(launch: Any) -> None:
    """A launch as those who measure make it."""
    timing.renewal_of(launch, 0)()
    launch()


# ---- what is put back ----


def test_a_scan_with_a_ticket_is_launched_again() -> None:
    run, report = run_of(SCAN)
    (call,) = run.launcher.calls
    launch, y = call.repeated(), call.given["y"]
    for _ in range(3):
        y[:] = 0
        repeated(launch)
        assert (y == np.cumsum(call.given["x"])).all() and call.given["ticket"][0] == 3
    assert report.passed


def test_each_launch_of_a_call_finds_what_it_found() -> None:
    """Alone, too: what those behind it change is put back as well."""
    run, _ = run_of(STEPS)
    (call,) = run.launcher.calls
    wanted = {0: ("z", 1), 1: ("z", 2), 2: ("y", 2), 3: ("y", 3), 4: ("x", 2)}
    for _ in range(2):
        for number, launch in enumerate(call.prepared()):
            repeated(call.renewals.of(number).before(launch))
            name, value = wanted[number]
            assert (call.given[name] == value).all(), number
    for _ in range(2):
        repeated(call.repeated())
        assert [int(call.given[name][0]) for name in "xyz"] == [2, 3, 2]


def test_nothing_is_kept_of_what_is_only_written() -> None:
    run, _ = run_of(
        STEPS.replace("both(y, z, x)\n    expect y == 3\n    expect z == 2", "copied(y, x)\n    expect y == 1")
    )
    (call,) = run.launcher.calls
    assert not isinstance(call.repeated(), Renewed) and not call.renewals.whole.copies


def test_one_array_as_input_and_output_is_kept() -> None:
    """Tensors that share memory are one: what one writes the other reads."""
    module = dsl.parse(STEPS, device="emulator")
    x, y = np.ones(40, np.int32), np.ones(40, np.int32)
    header = module.compile("copied").header
    assert renewed.changed_spans([(header, (y, x))]) == []
    (span,) = renewed.changed_spans([(header, (y[:20], y[10:30]))])
    assert span == (y.ctypes.data, y.ctypes.data + 80)
    assert joined([(8, 12), (0, 5), (4, 8), (20, 24), (21, 22)]) == [(0, 8), (8, 12), (20, 24)]


def test_the_host_s_arrays_that_are_counted_are_those_before_the_launch() -> None:
    """On a GPU the first blocks are counted behind the launch: on what it was made with."""
    run, _ = run_of(SCAN)
    (call,) = run.launcher.calls
    call.before = {name: np.zeros_like(call.given[name]) for name in ("ticket", "flag")}
    ((launch, values),) = call.on_host()
    assert launch.kernel.run(*values).counters.totals.atomics and (call.given["flag"] == 1).all()


# ---- who measures ----


class Clock:
    """In place of a GPU's: launches in turn, what they renew before each."""

    def __init__(self) -> None:
        self.launches: list[Any] = []

    def measure_rounds(self, launches: Sequence[Any], rounds: int, *, order: Random, device: int) -> list[list[float]]:
        self.launches = [*launches]
        for _ in range(2):
            for launch in launches:
                repeated(launch)
        return [[1.0] * rounds for _ in launches]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("dsl.runtime.cuda.timing.measure_rounds", made.measure_rounds)
    return made


def test_rows_of_a_benchmark_are_renewed(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    program = parse_program(SCAN)
    made = bench.Bench(program, "emulator", "", LaunchSettings(measure=False))
    made.add(program.examples[0], resolve(program, program.examples[0], []), bench.BenchWay())
    made.measure()
    (row,) = made.rows
    assert row.report is not None and row.report.times and isinstance(clock.launches[0], Renewed)
    made.calls[0][0].renewals.reason = "there is no room"
    row.report.times = None
    made.measure()
    assert row.report.times is None and row.report.untimed == "there is no room"


def test_a_peer_that_works_in_place_is_renewed(clock: Clock, tmp_path: Path) -> None:
    (tmp_path / "peers.py").write_text("def added(y, x):\n    assert (y == 1).all()\n    y += x\n")
    text = STEPS.replace("both(y, z, x)\n    expect y == 3\n    expect z == 2", "add(y, x)\n    expect y == 2")
    rows = bench.Bench(parse_program(text), "emulator", "", LaunchSettings(measure=False))
    example = rows.program.examples[0]
    rows.add(example, resolve(rows.program, example, []), bench.BenchWay())
    row = rows.add_peer(example, resolve(rows.program, example, []), peer_of(f"{tmp_path}/peers.py::added"), 0)
    assert row.failed is None
    rows.measure()
    assert len(clock.launches) == 2 and all(isinstance(each, Renewed) for each in clock.launches)


def test_points_of_tuning_are_renewed() -> None:
    from dsl.examples.shapes import find_example
    from dsl.lab.case import TuningCase

    program, place = parse_program(SCAN), find_place("emulator")
    example = find_example(program, None)
    case = LazyCase(partial(TuningCase, program, example, resolve(program, example, []), place, 0, SpaceChoice()))
    runner = Runner(place, case, 0)
    launched = case().recorder.launched[0]
    plan = launched.function.plan(launched.function.facts(launched.arrays))
    kernels = [launched.function.module.variant(step.request).kernel for step in plan.steps]
    launch = prepared(runner.ready(plan, kernels))
    for _ in range(2):
        repeated(launch)
        assert (launched.arrays["y"] == np.cumsum(launched.arrays["x"])).all()


def test_what_cannot_be_kept_is_not_timed_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(spans: Sequence[Any], ordinal: int | None) -> KeptMemory:
        if spans:
            raise DeviceError("cuda", "out of memory")
        return KeptMemory(spans, ordinal)

    monkeypatch.setattr("dsl.examples.renewals.KeptMemory", full)
    run, report = run_of(SCAN)
    run.launcher.ordinal = 0
    run.launcher.measure(run.launcher.calls[0])
    assert report.times is None and "no room" in report.untimed and "out of memory" in report.untimed
    report.device = "cuda:0"
    assert report.as_json()["untimed"] == report.untimed


# ---- outside of the measured interval ----


class Recording:
    """A driver that notes what is asked of it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.CUstream = lambda handle: handle

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            return (0, 1.0) if name in ("cuEventCreate", "cuEventElapsedTime", "cuMemAlloc") else (0,)

        return call


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    made = Recording()
    monkeypatch.setattr(driver, "bindings", lambda: made)
    owner = contexts.Context.__new__(contexts.Context)
    owner.ordinal, owner.cu_context, owner.facts = 0, 1, SimpleNamespace(l2_bytes=64)
    owner.launched, owner.records, owner.poison = {"scan": None}, [], None
    made.owner = owner  # type: ignore[attr-defined]
    monkeypatch.setattr(timing, "context", lambda ordinal: owner)
    monkeypatch.setattr("dsl.runtime.cuda.memory.driver.forked", lambda: True)  # nothing is freed
    with patch.dict(contexts._contexts, {0: owner}):
        yield made


def test_what_a_launch_changes_is_put_back_ahead_of_its_first_event(recording: Recording) -> None:
    launch = Renewed(lambda: recording.calls.append("launch"), lambda: recording.calls.append("renew"))
    timing.measure_rounds([launch, in_a_row([launch, launch])], 2, warmups=1)
    told = [name for name in recording.calls if name in ("launch", "renew", "cuEventRecord", "cuMemsetD32Async")]
    first, second = ["renew", "launch"], ["renew", "renew", "launch", "launch"]
    timed: list[str] = []
    for each in (first, second):
        split = each.index("launch")
        timed += [*each[:split], "cuMemsetD32Async", "cuEventRecord", *each[split:], "cuEventRecord"]
    assert told == [*first, *second, *["cuMemsetD32Async"] * timing.AHEAD, *timed, *timed]
    with pytest.raises(DeviceError, match="legacy default stream"):
        timing.measure_rounds([launch], 1, stream=7)


def test_rounds_are_shuffled_anew_in_an_order_of_its_own() -> None:
    assert timing.turns(3, 2, None) == [0, 1, 2, 0, 1, 2]
    found = timing.turns(5, 40, Random(1))
    assert all(sorted(found[i : i + 5]) == [0, 1, 2, 3, 4] for i in range(0, 200, 5)) and found[:5] != found[5:10]


# ---- a launch that never ends ----


def test_a_launch_that_does_not_end_is_told_within_the_limit(
    recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What only the end of the process stops: the context is poisoned, and who waits is told."""
    ends = threading.Event()
    recording.cuCtxSynchronize = lambda: (int(not ends.wait(60)),)  # type: ignore[attr-defined]
    owner = recording.owner  # type: ignore[attr-defined]
    with contexts.time_limit(0.02), pytest.raises(DeviceError, match=r"scan did not end within 0\.02 s") as caught:
        owner.synchronize()
    assert caught.value.code == "time-limit" and owner.poison is caught.value
    with pytest.raises(DeviceError, match="did not end"):
        owner.check(0, "launching")
    ends.set()
    owner.poison, owner.launched = None, {}
    with contexts.time_limit(30):
        owner.synchronize()
    recording.cuCtxSynchronize = lambda: (700,)  # type: ignore[attr-defined]
    monkeypatch.setattr(driver, "error", lambda code, doing: DeviceError("cuda", f"{doing} {code}"))
    with contexts.time_limit(30), pytest.raises(DeviceError, match="700"):
        owner.synchronize()


def test_who_times_launches_on_a_gpu_limits_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[float | None] = []
    place = TuningPlace("cuda:0", "H200", "sm_90", 132)
    with place.limited():
        seen.append(contexts._limit.get())
    with replace(place, device="emulator").limited():
        seen.append(contexts._limit.get())
    with child.waits(7.0):
        seen.append(contexts._limit.get())
    assert seen == [300.0, None, 7.0] and contexts._limit.get() is None


@pytest.mark.gpu
def test_a_scan_is_timed_on_a_gpu(tmp_path: Path) -> None:
    """Its twins: the tests above."""
    file = tmp_path / "scan.tile"
    file.write_text(SCAN)
    for command in ("run", "bench"):
        words = [command, str(file), "blocks=2000", "--device", "cuda", "--time-limit", "60"]
        result = CliRunner().invoke(cli.cli, words, standalone_mode=False)
        assert result.return_value == 0, result.output


@pytest.mark.gpu
def test_a_launch_that_never_ends_is_stopped_on_a_gpu(tmp_path: Path) -> None:
    """Its twin: the test of the limit above."""
    file = tmp_path / "scan.tile"
    file.write_text(SCAN.replace("zeros(u32[1])", "ones(u32[1])"))
    words = ["run", str(file), "--device", "cuda", "--time-limit", "3"]
    result = CliRunner().invoke(cli.cli, words, standalone_mode=False)
    assert result.return_value == 3 and "did not end within 3 s" in result.output
