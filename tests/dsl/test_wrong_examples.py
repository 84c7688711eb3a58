"""An example that shows nothing does not pass: arrays that nobody wrote, NaN against NaN, nothing compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from dsl import command as cli
from dsl.examples.comparison import NOTHING_COMPARED, compare
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.report import Report
from dsl.examples.run import ExampleRun, run_example
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import FindingError
from dsl.text.program import parse_program

KERNELS = """
kernel twice(y: f32[n], x: f32[n]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = 2.0 * x[i : i + B]

kernel double(x: f32[n]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    x[i : i + B] = 2.0 * x[i : i + B]

kernel half(y: f32[n], x: f32[n]; B = 128):                          # only the first ones
    grid 1
    y[0 : B] = x[0 : B]

kernel adds(y: f32[m], x: f32[m, n]; B = 128):
    grid m, cdiv(n, B)
    j = block(1) * B
    atomic_add(y[block(0)], sum(x[block(0), j : j + B], axis=0))

kernel turned(y: f32[n, m], x: f32[m, n]; B = 16):
    grid cdiv(m, B), cdiv(n, B)
    i, j = block(0) * B, block(1) * B
    y[j : j + B, i : i + B] = x[i : i + B, j : j + B].T

kernel maybe(y: f32[n], x: f32[n], c: f32[n], beta: f32; B = 128):    # as products have it: c is not read for 0
    grid cdiv(n, B)
    i = block(0) * B
    v = x[i : i + B]
    if beta != 0.0:
        v = v + beta * c[i : i + B]
    y[i : i + B] = v

dispatch steps(y, t, x):
    twice(t, x)
    twice(y, t)

example:
    n = 300
"""


def run(lines: str) -> Report:
    text = KERNELS + "".join(f"    {line}\n" for line in lines.splitlines())
    program = parse_program(text)
    return run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings())


def on_gpu(lines: str) -> ExampleRun:
    """As on a device, where no emulator sees what is read: lines are judged by headers alone."""
    program = parse_program(KERNELS + "".join(f"    {line}\n" for line in lines.splitlines()))
    made = ExampleRun(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings(measure=False))
    made.empty.tracked = dict  # type: ignore[method-assign, assignment]
    return made


SWAPPED = [
    "x, y = randn(f32[n]), empty(f32[n])\ntwice(x, y)\nexpect y ~= 2.0 * x within 1e-6",
    "x, y = randn(f32[n]), empty(f32[n])\nwanted = 2.0 * x\ntwice(x, y)\nexpect y ~= wanted within 1e-6",
    "x, y = randn(f32[n, n]), empty(f32[n, n])\nturned(x, y)\nexpect y ~= transpose(x, [1, 0]) within 0",
    "m = 4\nx, y = randn(f32[m, n]), empty(f32[m])\nadds(y, x)\nexpect y ~= sum(x, axis=1) within 1e-3",
    "x, y, z = randn(f32[n]), empty(f32[n]), empty(f32[n])\nhalf(y, x)\ntwice(z, y)\nexpect z[0 : 4] == 2 * x[0 : 4]",
]


@pytest.mark.parametrize("lines", SWAPPED)
def test_a_kernel_that_reads_what_nothing_has_written_is_a_finding(lines: str) -> None:
    """Outputs and inputs swapped passed, NaN against NaN; so may a sum that was never set."""
    with pytest.raises(FindingError, match=r"that nobody has written: an element of [xy]"):
        run(lines)


@pytest.mark.parametrize("lines", SWAPPED[:3])
def test_an_expect_over_what_no_launch_writes_is_an_error(lines: str) -> None:
    """By the headers alone, as on a GPU."""
    made = on_gpu(lines)
    with pytest.raises(TileError, match="no launch has written 'y'"):
        made.run()


@pytest.mark.parametrize(
    "lines",
    [
        "x, y = randn(f32[n]), empty(f32[n])\nexpect y == x",
        "x, y, z = randn(f32[n]), empty(f32[n]), empty(f32[n])\ntwice(y, x)\nexpect z == y",
        "x, y, z = randn(f32[n]), empty(f32[n]), empty(f32[n])\nd = z - x\ntwice(y, x)\nexpect all(d == d)",
        "x, y, z = randn(f32[n]), empty(f32[n]), empty(f32[n])\nd = z - x\ne = d * 2\ntwice(y, x)\nexpect e == e",
        "x, y, z = randn(f32[n]), empty(f32[n]), empty(f32[n])\ntwice(y, x)\nexpect y ~= 2 * x within max(z)",
    ],
)
def test_host_expressions_over_what_nothing_has_written(lines: str) -> None:
    with pytest.raises(TileError):
        run(lines)


@pytest.mark.parametrize(
    "lines",
    [
        "x, y, t = randn(f32[n]), empty(f32[n]), empty(f32[n])\nsteps(y, t, x)\nexpect y == 4 * x\nexpect t == 2 * x",
        "x, y, z = randn(f32[n]), empty(f32[n]), empty(f32[n])\ntwice(y, x)\ntwice(z, y)\nexpect z == 4.0 * x",
        "x, y = randn(f32[n]), empty(f32[n])\nhalf(y, x)\nexpect y[0 : 100] == x[0 : 100]",
        "x, y, c = randn(f32[n]), empty(f32[n]), empty(f32[n])\nmaybe(y, x, c, 0.0)\nexpect y == x",
        "x, y = randn(f32[n]), empty(f32[n])\ny = zeros(f32[n])\nexpect y == 0.0 * x",
        "x, y = randn(f32[20, 15]), empty(f32[15, 20])\nturned(y, x)\nv = reshape(y, [300])\nexpect v == v\n"
        "moves bytes(x) + bytes(y)",
        "x, y = randn(f32[20, 15]), empty(f32[300])\nv = reshape(y, [15, 20])\nturned(v, x)\nexpect v == v",
    ],
)
def test_what_launches_have_written_is_read(lines: str) -> None:
    report = run(lines)
    assert report.passed, report.checks


IN_PLACE = [
    "was = x[0 : 50]\ndouble(x)\nexpect x[0 : 50] == was",
    "was = x\ndouble(x)\nexpect x == was",
    "was = reshape(x, [20, 15])\ndouble(x)\nexpect reshape(x, [20, 15]) == was",
    "was = transpose(x[:, None], [1, 0])\ndouble(x)\nexpect all(x[None, :] == was)",
    "was = broadcast(x, [2, n])\ndouble(x)\nexpect x == was[0]",
    "old = x.to(f32)\nwas = x[:, None]\ndouble(x)\nexpect x[:, None] == was\nexpect x == 2.0 * old",
]


@pytest.mark.parametrize("lines", IN_PLACE)
def test_a_view_from_before_a_launch_has_no_old_values(lines: str) -> None:
    """They passed whatever a kernel wrote in place: the view showed the new values, too."""
    with pytest.raises(TileError, match="'was' is memory of 'x', and a launch has written it since"):
        run(f"x = randn(f32[n])\n{lines}")


@pytest.mark.parametrize(
    "lines",
    [
        "was = x[0 : 50].to(f32)\ndouble(x)\nexpect x[0 : 50] == 2.0 * was",
        "double(x)\nnow = x[0 : 50]\nexpect now == x[0 : 50]",
        "m = reshape(x, [30, 10])\nq, k = m[:, 0 : 5], m[:, 5 : 10]\nold = m + 0.0\ndouble(x)\n"
        "expect all(q - k == 2.0 * old[:, 0 : 5] - 2.0 * old[:, 5 : 10])",
        "was, a, b = x + 0.0, x[0 : 9], x[9 : 300]\ndouble(x)\nexpect concatenate(a, b, axis=0) == 2.0 * was",
    ],
)
def test_copies_and_views_from_behind_a_launch_are_compared(lines: str) -> None:
    assert run(f"x = randn(f32[n])\n{lines}").passed


def test_nan_on_both_sides_everywhere_compares_nothing() -> None:
    """0 / 0 on both sides passed."""
    nan = np.full((4, 5), np.nan)
    some = np.where(np.arange(20).reshape(4, 5) % 2, nan, 1.0)
    made = compare(nan, nan, 1e-6)
    assert not made.passed and made.pattern == NOTHING_COMPARED and made.wrong == 20
    assert compare(some, some, 0).passed and compare(np.zeros(0), np.zeros(0), 0).passed
    for lines in ("expect y ~= z within 1e-6", "expect y == z"):
        report = run(f"z = 0.0 * randn(f32[n])\nx = (z / z).to(f32)\nz = x\ny = empty(f32[n])\ntwice(y, x)\n{lines}")
        assert report.passed is False and report.checks[0].pattern == NOTHING_COMPARED


def test_a_nan_on_both_sides_is_equal_where_others_are_compared() -> None:
    """`==` failed, and said no more than that."""
    lines = "x = sqrt(randn(f32[n])).to(f32)\ny = empty(f32[n])\nx0 = x * 1\ntwice(y, x)\n"
    for expect in ("y == 2 * x0", "y ~= 2 * x0 within 0"):
        assert run(f"{lines}expect {expect}").passed
    assert run(f"{lines}expect y == x0").passed is False


def said(tmp_path: Path, lines: str, *words: str) -> Any:
    file = tmp_path / "k.tile"
    file.write_text(KERNELS + "".join(f"    {line}\n" for line in lines.splitlines()))
    result = CliRunner().invoke(cli.cli, ["run", str(file), "--device", "emulator", *words], standalone_mode=False)
    result.exit_code = result.return_value
    return result


def test_a_run_without_an_expect_says_that_nothing_was_compared(tmp_path: Path) -> None:
    lines = "x, y = randn(f32[n]), empty(f32[n])\ntwice(y, x)"
    result = said(tmp_path, lines)
    assert result.exit_code == 0 and "nothing: no result was compared" in result.output
    assert "no result was compared" not in said(tmp_path, lines + "\nexpect y == 2.0 * x").output
    result = said(
        tmp_path, "x = randn(f32[n])\nz = 0.0 * x\nx = (z / z).to(f32)\ny = empty(f32[n])\ntwice(y, x)\nexpect y == x"
    )
    assert result.exit_code == 1 and "nothing was compared" in result.output


@pytest.mark.parametrize(
    "expect",
    ["1 == 1", "x == x", "z ~= x within 1e-6", "y == y", "y ~= y within 0", "v == y", "u == y", "y[0 : 0] == x[0 : 0]"],
)
def test_a_run_whose_expects_show_nothing_says_so(expect: str) -> None:
    """Numbers, inputs, an array and itself, no elements: they passed, and nothing said that they compare nothing."""
    lines = "x, y = randn(f32[n]), empty(f32[n])\nz = 1.0 * x\nhalf(y, x)\nv = y\nu = reshape(y, [300])\n"
    report = run(f"{lines}expect {expect}")
    assert report.passed and not report.compares
    for more in ("y[0 : 128] == z[0 : 128]", "w == x[0 : 128]", "x[0 : 128] ~= u[0 : 128] within 0"):
        assert run(f"{lines}w = y[0 : 128] * 1\nexpect {expect}\nexpect {more}").compares


def test_what_is_wrong_says_the_mend(tmp_path: Path) -> None:
    result = said(tmp_path, SWAPPED[0])
    assert result.exit_code == 3 and "order of the arguments" in result.output and "zeros(…)" in result.output
    result = said(tmp_path, "x, y = randn(f32[n]), empty(f32[n])\nexpect y == x")
    assert result.exit_code == 2 and "outputs come first" in result.output
