"""Kernels whose loops are split, called as any other: workspaces are the launch's, and no caller sees them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import dsl
from dsl.command import cli

ON = ("--device", "emulator")
TEXT = """\
kernel total(y: f32[rows], x: f32[rows, cols]; STEP = 32, PARTS = 1):
    grid rows
    r = block(0)
    acc = zeros(f32[STEP])
    for p in range(0, cols, STEP):
        acc = acc + load(x[r, p : p + STEP])
    y[r] = sum(acc)

schedule whole of total:
    warps = 1

schedule shared of total:
    warps = 1
    PARTS = clamp(sms // rows, 1, 16)
    split p: PARTS

kernel scale(z: f32[rows], y: f32[rows]):
    grid cdiv(rows, 32)
    i = block(0) * 32
    z[i : i + 32] = y[i : i + 32] * 2.0

dispatch totals(y, x):
    if rows <= 64: total with shared
    else: total with whole

dispatch twice(z, x):
    y = workspace(f32[rows])
    total(y, x) with shared
    scale(z, y)

example:
    rows, cols = 3, 300
    x = randint(f32[rows, cols], -9, 10)
    y = empty(f32[rows])
    totals(y, x)
    expect y == sum(x, 1)
    moves bytes(x)
"""
ON = ("--device", "emulator")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "totals.tile"
    file.write_text(TEXT)
    return file


def rows(count: int, cols: int) -> np.ndarray:
    return np.random.default_rng(count).integers(-9, 10, (count, cols)).astype(np.float32)


def test_dispatch_kernel_bound_and_run(path: Path) -> None:
    m = dsl.load(path, device="emulator")
    for count, cols in ((3, 300), (3, 301), (100, 70), (1, 1), (3, 300)):
        x = rows(count, cols)
        assert np.array_equal(m.totals(x), x.sum(1))
        assert np.array_equal(m.total(x, schedule="shared"), x.sum(1))
        assert np.array_equal(m.twice(x), 2 * x.sum(1))
    x, y = rows(5, 200), np.zeros(5, np.float32)
    kernel = m.compile("total", "shared", rows=5, cols=200, PARTS=7)
    bound = kernel.bind(y, x)
    for _ in range(2):
        y[:] = 0
        bound()
        assert np.array_equal(y, x.sum(1))
    found = kernel.run(y, x, counters=True, writers=True)
    assert found.grid == (5, 1, 7) and found.writers[0].start == y.ctypes.data
    assert [(w.name, w.each, w.zero) for w in kernel.compiled.header.workspaces] == [
        ("acc_parts", 1, False), ("arrived", 1, True)
    ]  # fmt: skip


def test_the_number_of_parts_goes_with_the_dims(path: Path) -> None:
    m = dsl.load(path, device="emulator")
    grids = {}
    for count in (1, 40, 64):
        plan = m.totals.plan_for({"y": np.zeros(count, np.float32), "x": rows(count, 64)}, {})
        grids[count] = plan.kernels[0].compiled.header.grid[2]
    assert grids == {1: 16, 40: 3, 64: 2}


@pytest.mark.parametrize("command", ["run", "bench", "verify", "check"])
def test_commands(path: Path, command: str) -> None:
    words = [*(["--json"] if command in ("run", "verify") else []), *(ON if command in ("run", "bench") else [])]
    result = CliRunner().invoke(cli, [command, str(path), *words])
    assert result.exit_code == 0, result.output
    if command == "run":
        assert json.loads(result.output)["passed"] is True
    if command == "verify":
        kernels: list[dict[str, Any]] = json.loads(result.output)["examples"][0]["kernels"]
        assert kernels and all(each["divergence"] is None and each["undecided"] is None for each in kernels)


def test_saved_ptx_runs_by_its_header(path: Path, tmp_path: Path) -> None:
    ptx = tmp_path / "k.ptx"
    made = CliRunner().invoke(cli, ["compile", str(path), "--schedule", "shared", "-o", str(ptx)])
    assert made.exit_code == 0, made.output
    for words in (["count", str(ptx)], ["run", str(path), "--ptx", str(ptx)]):
        result = CliRunner().invoke(cli, [*words, *ON])
        assert result.exit_code == 0, result.output


def test_schedule_and_why_tell_of_it(path: Path) -> None:
    for command, wanted in (("schedule", "split p: 16"), ("why", "split.p")):
        result = CliRunner().invoke(cli, [command, str(path)])
        assert result.exit_code == 0 and wanted in result.output, result.output
