"""Indices outside of their axes and inside of the memory: asserted on request; and equal shapes in expect."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.run import run_example
from dsl.lowering.ir.location import TileError
from dsl.runtime import synchronize
from dsl.runtime.errors import DeviceAssertError
from dsl.text.program import parse_program

KERNEL = """
kernel shift(y: f32[rows, cols], x: f32[rows, cols]; C = 16):
    grid rows
    shared s: f32[8, 16]
    r = block(0)
    c = arange(C)
    {line}
"""
OUTSIDE = {
    "a load": ("v = load(x[r, c + 1], mask=r < rows - 1)\n    y[r, c] = v", 1),
    "a store": ("store(y[r, c + 1], c.to(f32), mask=r < rows - 1)", 1),
    "rows": ("v = load(x[rows + c // 16, c - 16], mask=r < rows - 1)\n    y[r, c] = v", 0),
    "an atomic": ("v = atomic_add(y[r, c - 1], 1.0, mask=r > 0)", 1),
    "a shared tile": ("v = load(s[r, c + r], mask=r < 4)\n    y[r, c] = v", 1),
    "a copy": ("copy(s[0, c], x[r, c + 1], mask=r < rows - 1)\n    commit()\n    wait(0)\n    y[r, c] = s[0, c]", 1),
    "a branch of threads": ("if c < 16:\n        y[r, c] = load(x[r, c + 1], mask=r < rows - 1)", 1),
}
INSIDE = {
    "the user's mask": "v = load(x[r, c + 1], mask=c + 1 < cols)\n    y[r, c] = v",
    "a slice": "v = x[r, 1 : 1 + C]\n    y[r, c] = v",
    "a scalar": "y[r, c] = x[r, r + 100]",
    "a flat view": "v = load(flat(x)[r * cols + c + 1], mask=r < rows - 1)\n    y[r, c] = v",
}


def launch(line: str, strict: bool, device: str) -> None:
    module = dsl.parse(KERNEL.format(line=line), device=device, strict_bounds=strict)
    x = np.ones((4, 16), np.float32)
    module.compile("shift")(np.zeros((4, 16), np.float32), x)
    synchronize()


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_index_outside_of_its_axis_and_inside_of_the_memory_is_found_on_request(name: str, device: str) -> None:
    line, axis = OUTSIDE[name]
    if name != "a shared tile":  # nobody has written it
        launch(line, False, device)
    with pytest.raises(DeviceAssertError, match=f"an index of shift lies outside of axis {axis}") as caught:
        launch(("s[:, :] = 1.0\n    " if "shared" in name else "") + line, True, device)
    assert caught.value.line == 7 + ("if c" in line) + ("shared" in name)
    assert caught.value.axis == axis


@pytest.mark.parametrize("name", INSIDE)
def test_what_is_masked_or_meant_is_not_reported(name: str, device: str) -> None:
    launch(INSIDE[name], True, device)


PAGES = """
kernel paged(y: f32[batch, N], x: f32[count, p, N], pages: s32[batch, most], n: s32; N = 16, TN = 8):
    grid batch
    b = block(0)
    acc = zeros(f32[N])
    for j in range(0, most * p, TN):
        page, r = pages[b, j // p], j % p
        acc = acc + sum({load}, axis=0)
    y[b, 0 : N] = acc

schedule s of paged:
    warps = 1
    {lines}
"""
ENTRY = "x[page, r : r + TN, 0 : N]"


@pytest.mark.parametrize("lines", ["stage x: ahead", "split j: 2", "split j: 2, cluster", "split j: stream"])
@pytest.mark.parametrize("entry", [3, -1])
def test_an_entry_of_a_table_outside_of_its_axis_is_found_on_request(entry: int, lines: str) -> None:
    """Accesses by scalars are masked, so that a wrong entry of a table of pages read zeros without a word."""
    x, pages = np.ones((3, 16, 16), np.float32), np.array([[0, 1], [2, entry]], np.int32)
    text = PAGES.format(load=ENTRY, lines=lines)
    for strict in (False, True):
        module = dsl.parse(text, device="emulator", arch="sm_90a", strict_bounds=strict)
        y = np.zeros((2, 16), np.float32)
        if not strict:
            module.paged(y, x, pages, 1)
            assert (y[0] == 32).all() and (y[1] == 16).all()
            continue
        with pytest.raises(DeviceAssertError, match="an index of paged with s lies outside of axis 0") as caught:
            module.paged(y, x, pages, 1)
        assert (caught.value.line, caught.value.axis) == (8, 0)


@pytest.mark.parametrize("load", [f"load({ENTRY}, mask=page >= 0)", "x[(page + n - n) % 3, r : r + TN, 0 : N]"])
def test_an_entry_that_is_masked_or_inside_is_not_reported(load: str) -> None:
    x, pages = np.ones((3, 16, 16), np.float32), np.array([[0, 1], [2, -1]], np.int32)
    module = dsl.parse(PAGES.format(load=load, lines=""), device="emulator", strict_bounds=True)
    module.paged(np.zeros((2, 16), np.float32), x, pages, 1)


WIDE = """
kernel copy_rows(y: f32[rows, n], x: f32[rows, n]; TILE = 128):
    grid rows
    i = arange(TILE)
    {line}
"""


@pytest.mark.parametrize(("rows", "line"), [
    (3, "y[block(0), i] = x[block(0), i]"),  # the last row's load lies outside of the array, too
    (1, "y[block(0), i] = x[block(0), i]"),
    (3, "y[block(0), i] = 1.0"),  # two blocks store what the next row begins with: a race
])  # fmt: skip
def test_an_index_outside_is_told_before_what_it_leads_to(rows: int, line: str) -> None:
    text = WIDE.format(line=line)
    module = dsl.parse(text, device="emulator", strict_bounds=True)
    x, y = np.ones((rows, 100), np.float32), np.zeros((rows, 100), np.float32)
    with pytest.raises(DeviceAssertError, match="an index of copy_rows lies outside of axis 1") as caught:
        module.copy_rows(y, x)
    assert (caught.value.axis, caught.value.line) == (1, 5)


def test_checked_and_plain_variants_are_two() -> None:
    program = KERNEL.format(line=OUTSIDE["a load"][0])
    plain, strict = (dsl.parse(program, device="emulator", strict_bounds=b).compile("shift").ptx for b in (False, True))
    assert "atom" not in plain and "atom" in strict


EXAMPLE = """
kernel one(y: f32[n], x: f32[n]):
    grid n
    r = block(0)
    y[r] = x[r]

example:
    n = 5
    x = randn(f32[n])
    y = empty(f32[n])
    one(y, x)
    expect {condition}
"""


@pytest.mark.parametrize(
    "condition",
    [
        "y == x[:, None]",
        "y ~= x[:, None] within 1",
        "y ~= x[0:1] within 100",
        "y <= x[:, None]",
        "y == x and y == x[0:1]",
    ],
)
def test_an_expectation_broadcasts_nothing_but_numbers(condition: str) -> None:
    program = parse_program(EXAMPLE.format(condition=condition))
    with pytest.raises(TileError, match="are not equal") as caught:
        run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings())
    assert caught.value.code == "shape" and caught.value.loc is not None


@pytest.mark.parametrize(
    "condition", ["y == x", "y * 0 == 0", "y[0] == x[0]", "y ~= x within 0", "y - x ~= 0 within 0"]
)
def test_an_expectation_of_equal_shapes_or_numbers_is_compared(condition: str) -> None:
    program = parse_program(EXAMPLE.format(condition=condition))
    report = run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings())
    assert [check.passed for check in report.checks] == [True]


def test_the_command_line_takes_strict_bounds(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from dsl.command import cli

    path = tmp_path / "k.tile"
    path.write_text(
        KERNEL.format(line=OUTSIDE["a load"][0])
        + "example:\n    y = zeros(f32[4, 16])\n    x = ones(f32[4, 16])\n    shift(y, x)\n    expect y[0] == 1\n"
    )
    arguments = ["run", str(path), "--device", "emulator"]
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    result = CliRunner().invoke(cli, [*arguments, "--strict-bounds"])
    assert "k.tile:7:" in result.output and "outside of axis 1" in result.output
