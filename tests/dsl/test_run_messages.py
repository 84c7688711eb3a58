"""What `dsl run` says of what it cannot run: in words, and as data."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dsl.command.child import answer_of_child
from dsl.command.failures import ChildFailure, records
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.run import run_example
from dsl.runtime.errors import LaunchError
from dsl.text.program import parse_program

ROOT = Path(__file__).resolve().parents[2]

TEXT = """\
kernel k(y: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK]

schedule narrow of k:
    warps = 1

schedule wide of k:
    warps = 8

dispatch copied(y, x):
    if n > 10: k with narrow
    else: k with narrow

example:
    n = 100
    x, y = ones(f32[n]), empty(f32[n])
    copied(y, x)
    expect y == x
"""


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dsl", "run", *map(str, arguments), "--device", "emulator"]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.tile"
    path.write_text(TEXT)
    return path


def test_a_schedule_that_no_branch_names_serves_the_branch_of_its_kernel(file: Path) -> None:
    """It was refused until a branch named it."""
    done = run(file, "--schedule", "wide", "--explain")
    assert done.returncode == 0 and "k with wide" in done.stdout, done.stderr
    done = run(file, "--schedule", "wider")
    assert done.returncode == 2 and "'copied' has no schedule 'wider'" in done.stderr
    assert "did you mean 'wide'" in done.stderr


def test_every_schedule_of_rmsnorm_takes_few_columns() -> None:
    done = run(ROOT / "samples" / "rmsnorm.tile", "--schedule", "row_block", "cols=100", "rows=8")
    assert done.returncode == 0, done.stderr


def test_errors_as_data(file: Path) -> None:
    file.write_text(TEXT.replace("copied(y, x)\n    expect", "copied(y, ones(f32[99]))\n    expect"))
    told = json.loads(run(file, "--json").stdout)
    assert not told["passed"] and told["status"] == 2
    (error,) = told["errors"]
    assert (error["code"], error["line"], error["column"]) == ("shape", 1, 21)
    assert "'n' is 100 in 'y', and 99 in 'x'" in error["message"]
    assert error["file"] == str(file) and error["hint"]
    assert error["called_from"] == [{"file": str(file), "line": 19, "column": 5}]


def test_every_error_of_a_run_is_data(file: Path) -> None:
    """A fault of the kernel has its column, and what is no mistake of the text has a code."""
    file.write_text(TEXT.replace("x[i : i + BLOCK]", "load(x[i + arange(BLOCK)])"))
    told = json.loads(run(file, "--json").stdout)
    (fault,) = told["errors"]
    assert told["status"] == 3 and fault["code"] == "finding" and fault["hint"]
    assert (fault["file"], fault["line"], fault["column"]) == (str(file), 4, 5)
    told = json.loads(run(file, "--json", "--ptx", "/none.ptx").stdout)
    assert [error["code"] for error in told["errors"]] == ["file"] and "/none.ptx" in told["errors"][0]["message"]
    assert json.loads(run(file, "--json", "m=3").stdout)["errors"][0]["code"] == "option"


def test_errors_of_a_child_process_are_data(file: Path) -> None:
    """On a GPU the launch is in a process of its own: what it says crosses as data."""
    asked = {"file": str(file), "device": "emulator", "why": "", "values": ["m=3"]}
    with pytest.raises(ChildFailure) as caught:
        answer_of_child("dsl.command.request", asked, sys.stderr, 60)
    (error,) = records(caught.value)
    assert error["code"] == "option" and "'m'" in error["message"] and error["message"] in caught.value.text
    with pytest.raises(ChildFailure) as caught:
        answer_of_child("dsl.command.request", asked, sys.stderr, 0.01)
    assert [row["code"] for row in records(caught.value)] == ["time-limit"]


def test_dims_are_told_of_each_launch(file: Path) -> None:
    """Those of the last launch stood for all."""
    more = "    a, b = ones(f32[300]), empty(f32[300])\n    copied(b, a)\n    expect y == x"
    file.write_text(TEXT.replace("    expect y == x", more))
    told = json.loads(run(file, "--json").stdout)
    assert [launch["dims"] for launch in told["launches"]] == [{"n": 100}, {"n": 300}] and told["dims"] == {}
    shown = run(file).stdout
    assert "n=100" in shown and "n=300" in shown and "  dims " not in shown
    same = run(file, "n=300").stdout
    assert same.count("n=300") == 1 and "dims       n=300" in same


def test_what_a_child_prints_comes_where_there_is_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a notebook, whose streams have no descriptor."""
    (tmp_path / "printing.py").write_text("def answer(request):\n    print('from a kernel')\n    return request\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    stream = io.StringIO()
    assert answer_of_child("printing", {"file": "a"}, stream, 60) == {"file": "a"}
    assert stream.getvalue() == "from a kernel\n"


REFUSED = """\
kernel k(y: f32[n], x: f32[n]):
    grid 1
    assert n == 64
    y[0 : 64] = x[0 : 64] + x[63]

dispatch d(y, x):
    k(y, x)

example:
    x = ones(f32[{n}])
    y = ones(f32[{n}])
    {call}
    expect x == 1
"""


@pytest.mark.parametrize(("n", "call", "lines"), [
    (64, "k(x, x)", [12]), (64, "d(x, x)", [12]), (65, "k(y, x)", [3, 12]), (65, "d(y, x)", [3, 12]),
])  # fmt: skip
def test_what_an_example_launches_names_its_line(n: int, call: str, lines: list[int], tmp_path: Path) -> None:
    """Two arguments that share memory had no place at all, an assert of a launch only its own."""
    path = tmp_path / "k.tile"
    path.write_text(REFUSED.format(n=n, call=call))
    program = parse_program(path.read_text(), str(path))
    with pytest.raises(LaunchError) as caught:
        run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings())
    (told,) = records(caught.value, str(path))
    assert told["code"] == ("overlap" if n == 64 else "requires")
    assert [told["line"], *(each["line"] for each in told["called_from"])] == lines
