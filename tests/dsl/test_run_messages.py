"""What `dsl run` says of what it cannot run: in words, and as data."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
    when n > 10: k with narrow
    otherwise: k with narrow

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


def test_a_schedule_that_no_branch_launches(file: Path) -> None:
    """It was told to add an 'otherwise:' branch, which there is."""
    done = run(file, "--schedule", "wide")
    assert done.returncode == 2
    assert "no branch of 'copied' launches a kernel with the schedule 'wide'" in done.stderr
    assert "its branches have: narrow" in done.stderr and "otherwise" not in done.stderr


def test_every_schedule_of_rmsnorm_takes_few_columns() -> None:
    done = run(ROOT / "samples" / "rmsnorm.tile", "--schedule", "block", "cols=100", "rows=8")
    assert done.returncode == 0, done.stderr


def test_errors_as_data(file: Path) -> None:
    file.write_text(TEXT.replace("copied(y, x)\n    expect", "copied(y, ones(f32[99]))\n    expect"))
    told = json.loads(run(file, "--json").stdout)
    assert not told["passed"] and told["status"] == 2
    (error,) = told["errors"]
    assert (error["code"], error["line"], error["column"]) == ("dim", 1, 21)
    assert "'n' is 100, and 99 in 'x'" in error["message"]
