"""`dsl calibrate`: costs of today's text at logged points, numbers of a device that are fitted to times, their file."""

from __future__ import annotations

import json
from math import inf, log
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tuned_kernel import Timer, dsl

from dsl.kernels.variant import Request, costs_of
from dsl.lab.costs import FACTOR, LoggedCosts, cost_trials, least_squares
from dsl.lab.place import TuningPlace, find_place
from dsl.lab.random_cases import MOST_BYTES, MOST_OPERATIONS, extents_of, random_cases
from dsl.lab.space import SpaceChoice, calls, candidates
from dsl.lab.trial import CostFacts, Log, Trial
from dsl.lowering.ir.machines import SHIPPED, machine_numbers, machine_rows
from dsl.lowering.ir.targets import target
from dsl.text.program import load

SAMPLES = Path(__file__).parents[2] / "samples"
TEXT = """\
kernel scaled(y: f32[n], x: f32[n]; TILE, MORE = 1):
    grid cdiv(n, TILE)
    i = block(0) * TILE
    y[i : i + TILE] = x[i : i + TILE] * 2.0

schedule wide of scaled:
    tune TILE in 256, 512, 1024, 2048
    tune MORE in 1, 2
    WAVES = cdiv(cdiv(n, TILE), sms) * 1.0
    EACH = MORE * 300 / gpu_clock + 24 * TILE / gpu_sm_bandwidth
    cost gpu_launch_time + maximum(WAVES * EACH, 8 * n / gpu_memory_bandwidth)

schedule plain of scaled:
    TILE = 256

example:
    n = 1000
    x = randn(f32[n])
    y = empty(f32[n])
    scaled(y, x)
    expect y ~= x + x within 0
"""
NAME = "NVIDIA H100 80GB HBM3"
REAL = {"gpu_launch_time": 1.5, "gpu_clock": 0.6, "gpu_sm_bandwidth": 0.5, "gpu_memory_bandwidth": 0.5}
"""What a device has, as factors of its row."""


def row(**factors: float) -> dict[str, float]:
    return {name: number * factors.get(name, 1.0) for name, number in machine_rows(SHIPPED)["H100"].items()}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    path = Path("scaled.tile")
    path.write_text(TEXT)
    return path


def trial(file: Path, n: int, time: float, schedule: str = "wide", **constants: Any) -> Trial:
    request = Request("scaled", schedule, {"n": n}, {}, constants, arch="sm_90", sms=132, device=NAME)
    steps = [{"kernel": "scaled", "schedule": schedule, "constants": constants}]
    made = Trial("s", NAME, "1", {}, "scaled", None, 0, {}, {}, {}, {"n": n}, steps, file=str(file))
    made.times_us, made.requests = [time] * 8, [CostFacts.of(request)]
    return made


def logged(file: Path, noise: float = 0.02, real: dict[str, float] = REAL) -> Path:
    """A log with the times of a device whose numbers are `real` times those of its row."""
    draw, program, path = Random(5), load(str(file)), Path("log.jsonl")
    for _ in range(16):
        n = int(2 ** draw.uniform(12, 28))
        points = [{"TILE": tile, "MORE": more} for tile in (256, 512, 1024, 2048) for more in (1, 2)]
        costs = costs_of(program, trial(file, n, 1.0).requests[0].request, points, row(**real))
        for point, cost in zip(points, costs or (), strict=True):
            Log(path).add(trial(file, n, cost * 2 ** draw.gauss(0, noise), **point))
    return path


def fitted(*arguments: Any) -> tuple[dict[str, Any], dict[str, float]]:
    """The record, and the fitted numbers as factors of those that the device has."""
    result = dsl("calibrate", *arguments, "--json")
    assert result.return_value == 0, result.output
    record = json.loads(result.stdout)
    return record, {name: record["fitted"]["numbers"][name] / row(**REAL)[name] for name in row()}


# ---- the fit ----


def test_the_numbers_of_a_device_are_found_in_its_times(file: Path) -> None:
    record, found = fitted(logged(file))
    assert [found[name] for name in REAL] == pytest.approx([1.0] * 4, rel=0.05)
    others = row().keys() - REAL.keys()
    assert others and all(found[name] == 1.0 for name in others)  # no cost reads them
    assert record["error"] > 1.3 and record["fitted"]["error"] == pytest.approx(1.014, abs=0.01)
    assert len(record["cases"]) == len(record["fitted"]["cases"]) == 16


def test_the_fit_begins_at_the_numbers_of_the_user(file: Path) -> None:
    own, path = Path("config/dsl/machines.toml"), logged(file)
    own.parent.mkdir(parents=True)
    own.write_text(f'["{NAME}"]\ngpu_clock = {2 * row()["gpu_clock"]}\ngpu_memory_bandwidth = 7_000_000\n')
    record, found = fitted(path)
    assert record["numbers"] == {**row(gpu_clock=2), "gpu_memory_bandwidth": 7e6}
    assert [found[name] for name in REAL] == pytest.approx([1.0] * 4, rel=0.05)


def test_least_squares_finds_what_no_slope_leads_to() -> None:
    wanted = np.log([0.5, 3.0])

    def errors(moves: np.ndarray) -> np.ndarray:
        times = [np.maximum(a * np.exp(moves[0]), b * np.exp(moves[1])) for a, b in ((1, 9), (5, 1), (0.1, 20))]
        real = [np.maximum(a * 0.5, b * 3.0) for a, b in ((1, 9), (5, 1), (0.1, 20))]
        return np.log(np.array(times) / real) / 0.01

    assert least_squares(errors, 2)[1] == pytest.approx(wanted[1], abs=1e-2)
    assert least_squares(lambda moves: (moves - 9.0) * 100, 2) == pytest.approx([log(FACTOR)] * 2)
    assert least_squares(lambda moves: np.zeros(3), 2) == pytest.approx([0.0, 0.0])


def test_fitted_numbers_are_written_beside_other_rows(file: Path) -> None:
    path, own = logged(file), Path("config/dsl/machines.toml")
    own.parent.mkdir(parents=True)
    own.write_text('["NVIDIA"]\ngpu_clock = 1500\n')
    result = dsl("calibrate", path, "-o", own)
    assert result.return_value == 0 and f"written to {own}" in result.stdout, result.output
    assert [*machine_rows(own)] == [NAME, "NVIDIA"] and machine_rows(own)["NVIDIA"] == {"gpu_clock": 1500.0}
    mine = machine_numbers(target("sm_90"), NAME)
    assert mine["gpu_memory_bandwidth"] == pytest.approx(row(**REAL)["gpu_memory_bandwidth"], rel=0.05)


# ---- the check of a text ----


def test_another_cost_is_judged_by_the_same_times(file: Path) -> None:
    path = logged(file, 0.0, {})
    record = json.loads(dsl("calibrate", path, "--check", "--json").stdout)
    assert "fitted" not in record and record["error"] == pytest.approx(1.0)
    assert all(each["correlation"] > 0.99 and each["regret"] == pytest.approx(1) for each in record["cases"])
    file.write_text(TEXT.replace("cost gpu", "cost 1000000 - gpu").replace("+ max", "- max"))
    turned = json.loads(dsl("calibrate", path, "--check", "--json").stdout)["cases"]
    assert all(each["correlation"] < -0.99 and each["points"] == 8 for each in turned)
    shown = dsl("calibrate", path, "--check").stdout
    worst = max(each["regret"] for each in turned)
    assert worst > 1.5 and "rank correlation" in shown and f"{worst:.2f}  scaled n=" in shown


def test_values_that_the_text_has_no_more_are_judged_too(file: Path) -> None:
    path = logged(file, 0.0, {})
    file.write_text(TEXT.replace("in 256, 512, 1024, 2048", "in 128, 256"))
    record = json.loads(dsl("calibrate", path, "--check", "--json").stdout)
    assert all(each["points"] == 8 and each["correlation"] > 0.99 for each in record["cases"])


def test_launches_without_a_cost_are_compared_with_their_like(file: Path) -> None:
    """A call of two launches, one of them without a cost: its time is not that of the cost."""

    def two(number: int, time: float, tile: int) -> Trial:
        one, other = trial(file, 1 << number, time, TILE=tile), trial(file, 1 << number, 0.0, "plain")
        return replace(one, steps=one.steps + other.steps, requests=one.requests + other.requests)

    alone = [trial(file, 1 << 20, 5.0 + tile / 512, TILE=tile) for tile in (256, 512, 1024)]
    pairs = [two(20, 50.0 - tile / 512, tile) for tile in (256, 512, 1024)]
    costs = LoggedCosts([*alone, *pairs])
    assert [[*case] for case in costs.cases] == [[0, 1, 2], [3, 4, 5]]
    assert costs.is_whole.tolist() == [True] * 3 + [False] * 3
    first, second = costs.scores(costs.start, costs.cases)
    assert first.correlation is not None and second.correlation == pytest.approx(-first.correlation)
    assert costs.fitted(costs.cases[1:]) == costs.start  # nothing to be fitted to
    assert LoggedCosts(pairs).error(costs.start) is None


def test_excluded_points_have_no_part(file: Path) -> None:
    path = logged(file, 0.0)
    file.write_text(TEXT.replace("cost gpu_launch", "cost where(TILE > 256, 1, inf) * gpu_launch"))
    costs = LoggedCosts(cost_trials([path], None, print))
    assert {each.points for each in costs.scores(costs.start, costs.cases)} == {6}
    assert np.isinf(costs.costs(costs.start)).sum() == 32 and inf > costs.error(costs.fitted(costs.cases)) >= 1


def test_trials_that_cannot_be_judged_are_left_out(file: Path) -> None:
    path = logged(file)
    notes: list[str] = []
    Log(path).add(replace(trial(file, 5, 1.0), requests=[]))
    Log(path).add(replace(trial(file, 6, 1.0), versions={"from": "abc"}))
    Log(path).add(trial(file, 7, 1.0, GONE=1))
    costs = LoggedCosts(cost_trials([path], None, notes.append), notes.append)
    assert len(costs.trials) == 129 and len(costs.cases) == 16
    assert any("2 trials are left out, since they do not say what" in note for note in notes)
    assert any("1 trials are left out, since their cost has no value: kernel 'scaled' has no" in note for note in notes)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["n=5", "log.jsonl"], "'n=5' is for a .tile file, and none is given"),
        (["none.jsonl"], "there is no such file"),
        (["scaled.tile"], "without a GPU there are no times to measure"),
        (["old.jsonl"], "no trial of the logs says what its cost depends on"),
        (["log.jsonl", "--device", "other"], "no trial of the logs has a figure 'time'"),
        (["plain.jsonl"], "no launch of the trials has a cost"),
        (["log.jsonl", "-o", "scaled.tile"], "cannot read scaled.tile"),
    ],
)
def test_what_cannot_be_fitted_is_an_error(
    file: Path, words: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TuningPlace, "is_timed", False)
    Log(Path("old.jsonl")).add(replace(trial(file, 5, 1.0), requests=[]))
    Log(Path("log.jsonl")).add(trial(file, 5, 1.0, TILE=256))
    Log(Path("plain.jsonl")).add(trial(file, 5, 1.0, "plain"))
    result = dsl("calibrate", *words)
    assert result.return_value == 2 and said in result.stderr


# ---- what is measured ----


def test_points_of_all_examples_are_measured_and_logged(file: Path, timer: Timer) -> None:
    timer.mean = lambda constants: 6.0 + constants["TILE"] / 1024 + constants["MORE"]
    result = dsl("calibrate", file, "--shapes", 3, "--points", 5, "--jobs", 0, "--log", "new.jsonl", "--json")
    assert result.return_value == 0, result.output
    record, trials = json.loads(result.stdout), cost_trials([Path("new.jsonl")], None, print)
    assert record["trials"] == len(trials) == 15 and len({each.dims["n"] for each in trials}) == 3
    assert {each.steps[0]["schedule"] for each in trials} == {"wide"}  # the other one has no cost
    again = json.loads(dsl("calibrate", "new.jsonl", "--json").stdout)
    assert again["fitted"]["numbers"] == pytest.approx(record["fitted"]["numbers"])
    given = dsl("calibrate", file, "n=640,1280", "--points", 2, "--jobs", 0, "--check", "--log", "given.jsonl")
    assert given.return_value == 0 and given.stdout.startswith("emulated H200: 4 trials"), given.output


def test_examples_without_a_cost_are_passed_over(file: Path, timer: Timer) -> None:
    timer.mean = lambda constants: 6.0 + constants["TILE"] / 1024
    begin, example = TEXT[: TEXT.index("schedule wide")], TEXT[TEXT.index("schedule plain") :]
    file.write_text(begin + example)
    words = ("calibrate", file, "--shapes", 2, "--points", 2, "--jobs", 0, "--check")
    result = dsl(*words)
    assert result.return_value == 2 and "no launch of the examples has a schedule with a cost" in result.stderr
    other = example[example.index("example:") :].replace("example:", "example other:").replace("scaled(y", "twice(y")
    wide = TEXT.replace("kernel scaled", "kernel twice").replace("of scaled", "of twice")
    unjudged = "    z = empty(f32[n])\n    twice(z, x)\n"
    file.write_text(begin + example + wide[: wide.index("example:")] + other + unjudged)
    result = dsl(*words)
    assert result.return_value == 0 and result.stdout.startswith("emulated H200: 4 trials"), result.output
    assert "no example 'none'" in dsl(*words, "--example", "none").stderr


def test_drawn_extents_keep_the_divisors_of_the_example() -> None:
    program, place = load(str(SAMPLES / "matmul.tile")), find_place("emulator")
    example = program.examples[0]
    assert extents_of(program, example) == {"m": 130, "n": 96, "k": 136}
    drawn = [each.names for each in random_cases(program, example, place, 6, 3)]
    assert len(drawn) == 6 and drawn[:2] == [each.names for each in random_cases(program, example, place, 2, 3)]
    assert all(each["m"] % 2 == each["n"] % 32 == each["k"] % 8 == 0 for each in drawn)
    assert all(2 * (m * n + n * k + m * k) <= MOST_BYTES for m, n, k in (each.values() for each in drawn))
    assert all(2 * m * n * k <= MOST_OPERATIONS for m, n, k in (each.values() for each in drawn))
    assert max(each["m"] for each in drawn) > 10 * min(each["m"] for each in drawn)


def test_points_are_those_of_all_schedules_of_the_chosen_branch() -> None:
    place = TuningPlace("cuda:0", "NVIDIA H200", "sm_90a", 132)
    program = load(str(SAMPLES / "matmul.tile"))
    (call,) = calls(program, program.examples[0], next(random_cases(program, program.examples[0], place, 1, 0)), place)
    found = candidates(call, SpaceChoice(rivals=True))
    alone = [each for each in candidates(call, SpaceChoice(schedules=["wgmma"])) if len(each.steps) == 1]
    assert 100 < len(alone) < 400  # of 3,960
    assert {each.steps[-1].schedule for each in found} == {"mma_sync", "stream_k", "wgmma"}
    assert all(len(each.steps) == 1 and each.cost is not None and each.cost < inf for each in found)
