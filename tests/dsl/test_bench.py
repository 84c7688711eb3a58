"""`dsl bench`: which rows it shows, what their figures are of, and that wrong results and failures are told."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result
from lab_kernel import TURN, written

from dsl import load as load_module
from dsl.command import cli
from dsl.command.bench import row_as_json, show_rows
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.studies import bench
from dsl.text.program import load, parse_program

pytestmark = pytest.mark.usefixtures("no_nvdisasm")  # machine code in a table: tests/runtime/test_machine_code.py

ROOT = Path(__file__).parents[2]
REDUCTION = str(ROOT / "samples" / "reduction.tile")
SOFTMAX = str(ROOT / "samples" / "softmax.tile")
SCALE = """\
kernel scale(y: f32[n], x: f32[n]; BLOCK, FACTOR = 2):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    store(y[i : i + BLOCK], FACTOR * load(x[i : i + BLOCK]))

schedule narrow of scale:
    BLOCK = 128

schedule broad of scale:
    BLOCK = 256

schedule huge of scale:
    warps = 64
    BLOCK = 2048

dispatch twice(y, x):
    option ONCE in true, false
    w = workspace(f32[n])
    if ONCE: scale with narrow
    else:
        scale(w, x) with narrow, FACTOR = 1
        scale(y, w) with broad

example:
    n = 3000
    x = randn(f32[n])
    y = empty(f32[n])
    scale(y, x)
    expect y ~= 2 * x within 0
    moves bytes(x) + bytes(y)

example dispatched:
    n = 3000
    x = randn(f32[n])
    y = empty(f32[n])
    twice(y, x)
    expect y ~= 2 * x within 0
    moves bytes(x) + bytes(y)

example wrong:
    n = 3000
    x = randn(f32[n])
    y = empty(f32[n])
    scale(y, x) with broad, FACTOR = 3
    expect y ~= 2 * x within 0
"""


def dsl(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, ["bench", "--device", "emulator", *arguments], standalone_mode=False)
    assert result.exception is None, result.exception
    result.exit_code = result.return_value
    return result


def told(*arguments: str) -> list[dict[str, Any]]:
    return json.loads(dsl(*arguments, "--json", "-").stdout)["rows"]


@pytest.fixture
def scale(tmp_path: Path) -> str:
    path = tmp_path / "scale.tile"
    path.write_text(SCALE)
    return str(path)


def test_the_six_rungs_are_six_rows() -> None:
    result = dsl(REDUCTION, "n=4096")
    assert result.exit_code == 0 and result.stderr == ""
    table = [re.split("  +", line.strip()) for line in result.stdout.splitlines() if line.startswith("  v")]
    assert [row[0] for row in table] == ["v0", "v1", "v2", "v3", "v4", "v5"]
    title = re.split("  +", next(line.strip() for line in result.stdout.splitlines() if "divergent" in line))
    assert [row[title.index("divergent")] for row in table] == ["47", "5", "5", "5", "0", "0"]


def test_all_schedules_that_serve_a_shape_are_rows(tmp_path: Path) -> None:
    shown = dsl(SOFTMAX, "rows=3", "cols=1024", "T=f32", "--json", str(tmp_path / "rows.json")).stdout
    rows = [row for row in json.loads((tmp_path / "rows.json").read_text())["rows"] if row["example"] is None]
    assert rows[0]["schedules"] == ["block"]
    assert {"lanes", "block", "whole", "stream"} <= {row["schedules"][0] for row in rows if "passed" in row}
    assert all(row.get("passed", True) and row.get("types", {"T": "f32"}) == {"T": "f32"} for row in rows)
    assert "block *" in shown


def test_a_schedule_that_does_not_serve_says_why(scale: str) -> None:
    result = dsl(scale, "--example", "wrong")
    assert "wrong huge: warps is a power of two from 1 to 32" in result.stdout
    rows = told(scale, "--kernel", "scale", "--schedule", "broad", "--schedule", "huge")
    assert [row["schedules"] for row in rows if row.get("passed")] == [["broad"]]


def test_options_and_steps_of_a_dispatch(scale: str) -> None:
    """A branch of several launches is a row of their sum, and its schedules are not exchanged."""
    rows = told(scale, "--example", "dispatched")
    assert [(row["options"], row["schedules"]) for row in rows] == [
        ({"ONCE": True}, ["narrow"]),
        ({"ONCE": False}, ["narrow", "broad"]),
    ]
    once, both = (row["figures"] for row in rows)
    assert both["instructions"] > once["instructions"]
    assert [row["counted_blocks"] for row in rows] == [[24], [24, 12]]
    assert told(scale, "--example", "dispatched", "ONCE=false")[0]["schedules"] == ["narrow", "broad"]


def test_an_option_that_an_example_sets_belongs_to_the_problem(tmp_path: Path) -> None:
    """Another example's ONCE=false makes it no choice of the benchmark."""
    path = tmp_path / "scale.tile"
    again = SCALE[SCALE.index("example dispatched:") : SCALE.index("example wrong:")]
    path.write_text(
        SCALE + "\n" + again.replace("dispatched", "twice").replace("twice(y, x)", "twice(y, x) with ONCE=false")
    )
    for name, schedules in (("dispatched", ["narrow"]), ("twice", ["narrow", "broad"])):
        rows = told(str(path), "--example", name)
        assert rows[0]["schedules"] == schedules and all(row["passed"] and not row["options"] for row in rows)


def test_a_wrong_result_is_told(scale: str) -> None:
    result = dsl(scale, "--example", "wrong", "--schedule", "broad")
    assert result.exit_code == 1 and "WRONG" in result.stdout
    assert [row["passed"] for row in told(scale, "--example", "wrong", "--schedule", "broad")] == [False]


def test_rows_beside_one_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "out.tile"
    path.write_text(SCALE.replace("load(x[i : i + BLOCK])", "load(x[i + arange(BLOCK)])"))
    result = dsl(str(path), "n=300", "--example", "dispatched")
    assert result.exit_code == 3 and "out of bounds" in result.stderr
    path.write_text(SCALE.replace("    i = block", "    assert FACTOR > 1\n    i = block"))
    result = dsl(str(path), "n=300", "--example", "dispatched")
    assert result.exit_code == 1 and "ONCE=false: " in result.stdout and "ONCE=true" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["m=3"], "'m' to set"),
        (["--schedule", "narow"], "did you mean 'narrow'"),
        (["--example", "dispatch"], "did you mean 'dispatched'"),
        (["--kernel", "scal"], "scale"),
        (["--device", "gpu"], "auto, cuda, cuda:1 or emulator"),
    ],
)
def test_wrong_arguments_are_errors(scale: str, arguments: list[str], says: str) -> None:
    result = dsl(scale, *arguments)
    assert result.exit_code == 2 and says in result.stderr and result.stdout == ""


def test_json_goes_to_a_file(scale: str, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    result = dsl(scale, "--example", "dispatched", "--json", str(path))
    record = json.loads(path.read_text())
    assert record["device"] == "emulator" and len(record["rows"]) == 2 and "narrow" in result.stdout
    assert record["rows"][0]["times_us"] is None


@pytest.mark.parametrize("rung", ["v0", "v4"])
def test_the_first_blocks_count_as_all_do(rung: str) -> None:
    """What stands for a launch on a GPU: the same figures a block, from fewer blocks."""
    n = 512 * 2 * bench.COUNTED_BLOCKS
    made = bench.Bench(load(REDUCTION), "emulator", "test", LaunchSettings(measure=False))
    example = next(e for e in made.program.examples if e.name == rung)
    row = made.add(example, bench.resolve(made.program, example, [f"n={n}"]), bench.BenchWay())
    made.count()
    whole = row.figures()
    assert row.report is not None and row.counted[0] > bench.COUNTED_BLOCKS
    ((launch, values),) = made.calls[0][0].on_host()
    row.counted.clear()
    made.count_part(row, launch.kernel, values, row.report.launches[0])
    assert row.counted == [bench.COUNTED_BLOCKS] and row.failed is None
    assert row.figures() == pytest.approx(whole)


def test_what_the_first_blocks_of_a_launch_find_is_told_and_its_figures_stay(tmp_path: Path) -> None:
    """Of a launch on a GPU whose results were right: the other rows go on."""
    made = bench.Bench(parse_program(TURN), "emulator", "test", LaunchSettings(measure=False))
    row = made.add(made.program.examples[0], Overrides({"n": 64}), bench.BenchWay())
    assert row.report is not None and row.failed is None
    module = load_module(written(tmp_path), device="emulator", choose={"barrier.b.load": "none"})
    racing = module.compile("turn", n=64).kernel
    ((_, values),) = made.calls[0][0].on_host()
    made.count_part(row, racing, values, row.report.launches[0])
    assert row.failed is not None and row.failed.startswith("race: ") and row.is_wrong
    assert row.figures()["barriers"] == 0 and row_as_json(row)["failed"] == row.failed


def test_an_empty_launch_has_no_figures() -> None:
    (row,) = (row for row in bench.bench(load(REDUCTION), "emulator", "test", ["n=0"]) if row.kernels == ["v0"])
    assert row.figures() == {}


def test_rows_take_turns_and_wrong_ones_are_not_timed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a clock in place of the GPU's: each measured launch takes a microsecond more than the one before."""
    turns, clock = [], count(1)

    def measure_rounds(launches: Sequence[Any], rounds: int, *, order: Random, device: int) -> list[list[float]]:
        times: list[list[float]] = [[] for _ in launches]
        for _ in range(rounds):
            for launch, found in zip(launches, times, strict=True):
                turns.append(launch)
                launch()
                found.append(float(next(clock)))
        return times

    monkeypatch.setattr("dsl.runtime.cuda.timing.measure_rounds", measure_rounds)
    made = bench.Bench(parse_program(SCALE), "emulator", "test", LaunchSettings(measure=False))
    for example in made.program.examples:
        made.add(example, bench.resolve(made.program, example, []), bench.BenchWay())
    made.count()
    made.measure()
    times = [row.report.times for row in made.rows if row.report]
    assert len(turns) == 2 * bench.ROUNDS and times[2] is None
    first, second = times[0], times[1]
    assert first is not None and second is not None and [b - a for a, b in zip(first, second, strict=True)] == [1] * 3
    show_rows("scale.tile", made.rows)
    table = capsys.readouterr().out
    assert f"{first[1]:.1f}" in table and "GB/s" in table and "1.00" in table and "WRONG" in table


@pytest.mark.gpu
def test_rows_are_timed_on_a_gpu(scale: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Its twins: the tests above, which count what this one times. A child measures, and needs a real stderr."""
    rows = bench.bench(parse_program(SCALE), "cuda:0", "test", examples=["dispatched"])
    for row in rows:
        assert row.report is not None and row.report.passed
        assert row.report.times is not None and 0 < row.report.times[0] <= row.report.times[1] <= row.report.times[2]
        assert row.figures()["instructions"]
    assert cli.main(["bench", "--device", "cuda", scale], standalone_mode=False) == 1
    table = capfd.readouterr().out
    assert "GB/s" in table and "WRONG" in table


def test_a_schedule_that_no_branch_names_is_a_row(scale: str) -> None:
    """It was left out silently."""
    text = Path(scale).read_text() + "\nschedule spare of scale:\n    BLOCK = 512\n"
    Path(scale).write_text(text)
    rows = told(scale, "--example", "dispatched", "--schedule", "spare")
    assert [(row["schedules"], row["passed"]) for row in rows] == [(["spare"], True)]
    result = dsl(scale, "--example", "dispatched", "--schedule", "spare", "--schedule", "spar")
    assert result.exit_code != 0 and "can use 'spar'" in result.stderr and "'spare'" in result.stderr


def test_schedules_of_one_of_several_launches_are_rows(tmp_path: Path) -> None:
    """A launch beside others had the row of the file's own choice only, and `--schedule` hinted at the name it had."""
    once = "    option ONCE in true, false\n", "    if ONCE: scale with narrow\n    else:\n"
    text = SCALE.replace(once[0], "").replace(once[1], "").replace("        scale(", "    scale(")
    path = tmp_path / "two.tile"
    for named in ("narrow, broad, FACTOR = 1", "FACTOR = 1"):
        path.write_text(text.replace("narrow, FACTOR = 1", named))
        rows = told(str(path), "--example", "dispatched")
        passed = [row["schedules"] for row in rows if row.get("passed")]
        assert passed == [["narrow", "broad"], ["narrow", "narrow"], ["broad", "broad"]]
        (row,) = told(str(path), "--example", "dispatched", "--schedule", "broad")
        assert row["passed"] and row["schedules"] == ["broad", "broad"]


def edited(scale: str, folder: Path, name: str, emit: Sequence[str], change: tuple[str, str]) -> str:
    """A stage of `scale` by hand: what `dsl compile` writes, with a change."""
    path = folder / name
    arguments = ["compile", scale, "--kernel", "scale", *emit, "-o", str(path)]
    assert CliRunner().invoke(cli, arguments, standalone_mode=False).return_value == 0
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    return str(path)


@pytest.mark.parametrize(
    ("name", "emit", "change"),
    [
        ("k.ir", ["--after", "build"], ("kernel scale", "kernel scale")),
        ("k.ll", ["--emit", "llvm"], ("define", "define")),
        ("k.ptx", [], ("ret;", "bar.sync 0;\n\tret;")),
    ],
)
def test_a_stage_by_hand_is_a_row_beside_the_compiled_ones(
    scale: str, tmp_path: Path, name: str, emit: list[str], change: tuple[str, str]
) -> None:
    path = edited(scale, tmp_path, name, emit, change)
    compiled, rows = told(scale, "--example", "dispatched"), told(scale, "--example", "dispatched", "--from", path)
    assert rows[:-1] == compiled and rows[-1]["from"] == path and rows[-1]["passed"] is True
    (like,) = [row for row in compiled if row["schedules"] == ["narrow"] and row["options"]]
    more = rows[-1]["figures"]["barriers"] - like["figures"]["barriers"]
    assert more == (1 if name == "k.ptx" else 0)
    assert path in dsl(scale, "--example", "dispatched", "--from", path).output


def test_a_stage_by_hand_that_is_wrong_or_of_another_kernel(scale: str, tmp_path: Path) -> None:
    path = edited(scale, tmp_path, "k.ir", ["--after", "build"], ("value=2", "value=3"))
    result = dsl(scale, "--example", "dispatched", "--from", path)
    assert result.exit_code == 1 and "WRONG" in result.output
    result = dsl(REDUCTION, "--from", path)
    assert result.exit_code == 2 and "has the kernels scale; the rows launch v0, v1" in result.stderr
    out = tmp_path / "out.tile"
    out.write_text(SCALE.replace("load(x[i : i + BLOCK])", "load(x[i + arange(BLOCK)])"))
    result = dsl(str(out), "n=300", "--example", "dispatched", "--from", path)
    assert result.exit_code == 3 and "out of bounds" in result.stderr  # why there is no row to put it into
