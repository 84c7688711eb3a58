"""`dsl check`: what it accepts a run accepts, what it leaves out it says, and a file's guesses have an end."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dsl.studies.check
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import Overrides
from dsl.examples.run import run_example
from dsl.examples.shapes import examine
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceError
from dsl.runtime.tools import find
from dsl.studies import check
from dsl.studies.check import check_file
from dsl.text.program import load
from tests.work import at_most

ROOT = Path(__file__).resolve().parents[2]

KERNEL = """\
kernel scaled(y: f32[n], x: f32[n], w: f32[n]?, by: f32; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * by

schedule a of scaled:
    BLOCK = 64

example:
    n = 300
    x = ones(f32[n])
    y = empty(f32[n])
"""

TAPS = """\
kernel conv(y: T[n], x: T[n], w: f32[taps]; T in f32|f16|bf16, TAPS, BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    acc = zeros(f32[BLOCK])
    for static t in range(TAPS):
        acc = acc + x[i + t : i + t + BLOCK].to(f32) * w[t] + exp(acc * w[t])
    y[i : i + BLOCK] = acc.to(T)

"""


def of_check(tmp_path: Path, text: str) -> list[TileError]:
    path = tmp_path / "a.tile"
    path.write_text(text)
    return check_file(path).errors


def of_run(tmp_path: Path, text: str) -> TileError | None:
    path = tmp_path / "a.tile"
    path.write_text(text)
    try:
        program = load(path)
        run_example(program, program.examples[0], "emulator", "", Overrides(), LaunchSettings())
    except TileError as error:
        return error.errors[0]
    return None


@pytest.mark.parametrize(
    "lines",
    [
        "scaled(y, x, 2.0)\nexpect y ~= 2 * x",
        "scaled(y, x, 2.0)\nexpect y ~= 2 * x within 0",
        "scaled(y, x, 2.0)\nexpect y ~= 2 * x within 1e-6, 1e-6",
        "scaled(y, x, 2.0)\nexpect y ~= 2 * x within inf",
        "scaled(y, x, 2.0)\nexpect y ~= 2 * x within 1, inf",
        "scaled(y, x, 2.0)\nexpect y ~= 2 * x within nan",
        "scaled(y, x, 2.0)\nexpect y ~= 2 * x within -1",
        "scaled(y, x, 2.0)\nexpect y ~= 2 * x within 1, 2, 3",
        "scaled(y, x, 2.0)\nexpect y ~= 2 * x within x",
        "scaled(y, x, 2.0)\nexpect y ~= 2 * x within true",
        "scaled(y, x, 2.0) with a\nmoves bytes(x)",
        "moves bytes(x)\nscaled(y, x, 2.0)",
        "n += 1\nscaled(y, x, 2.0)",
        "scaled(y, x, 2.0) with a, a",
        "scaled(y, x, x, 2.0)",
        "scaled(y, x, by=2.0)",
        "scaled(y, x, by=2.0, w=x)",
        "scaled(y, x, 2.0, x, x)",
        "scaled(y, x, 2.0, by=3.0)",
        "scaled(y, x)",
        "scaled(y, 2.0 * x, 2.0)",
        "scaled(y, (2.0 * x).to(f32), 2.0)",
        "scaled(y, -x, 2.0)",
        "scaled(y, exp(x), 2.0)",
        "scaled(y, exp(x).to(f32), 2.0)",
        "z = (x + ones(f32[4, n])).to(f32)\nscaled(y, z, 2.0)",
    ],
)
def test_what_check_accepts_a_run_accepts(tmp_path: Path, lines: str) -> None:
    text = KERNEL + "".join(f"    {line}\n" for line in lines.splitlines())
    found, error = of_check(tmp_path, text), of_run(tmp_path, text)
    assert [(e.code, e.message, e.loc and e.loc.line) for e in found[:1]] == (
        [] if error is None else [(error.code, error.message, error.loc and error.loc.line)]
    )


def test_a_run_tells_the_launch_line_of_a_wrong_dim(tmp_path: Path) -> None:
    error = of_run(tmp_path, KERNEL + "    scaled(y, ones(f32[299]), 2.0)\n")
    assert error is not None and "called from" in error.render() and "scaled(y, ones(f32[299]), 2.0)" in error.render()


def test_a_launch_that_is_not_planned_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.tile"
    path.write_text(KERNEL + "    z = maximum(x, 0.0)\n    scaled(y, z, 2.0)\n")
    done = subprocess.run(
        [sys.executable, "-m", "dsl", "check", str(path)], capture_output=True, text=True, cwd=ROOT, timeout=60
    )
    assert done.returncode == 0 and "no errors" in done.stdout
    assert "a.tile:14:5: note: this launch is not planned: only a run computes 'x'" in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "dsl", "check", "--json", str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    assert json.loads(done.stdout)["files"][0]["notes"][0]["line"] == 14


@pytest.mark.long
@pytest.mark.parametrize("schedules", [1, 2])
def test_a_static_loop_over_a_guessed_extent_has_an_end(tmp_path: Path, schedules: int) -> None:
    """A typo in the dims of an example left `taps` at 1024 for each schedule and type."""
    text = TAPS + "".join(f"schedule s{i} of conv:\n    TAPS, BLOCK = taps, {64 << i}\n" for i in range(schedules))
    text += "example:\n    n, tap = 1000, 5\n    conv(empty(f32[n]), ones(f32[n]), ones(f32[taps]))\n"
    with at_most(calls=3_000_000 * schedules):
        errors = of_check(tmp_path, text)
    assert [e.message for e in errors] == ["unknown name 'taps'"]


@pytest.mark.parametrize(
    ("value", "extent", "codes"),
    [("x[0 : N] + zeros(f32[256])", "n", ["shape"]), ("x[0 : N]", "n - 3072", [])],
)
def test_dims_that_suit_excuse_extents_and_not_shapes(
    tmp_path: Path, value: str, extent: str, codes: list[str]
) -> None:
    """Dims of 256 are guessed, too, and have that shape by chance. An extent below 0 at 1024 is one at 4096."""
    path = tmp_path / "guessed.tile"
    kernel = f"kernel k(y: f32[n], x: f32[n]; N):\n    grid 1\n    y[0 : N] = {value}\n"
    path.write_text(f"{kernel}\nschedule s of k:\n    N = {extent}\n")
    assert [error.code for error in check_file(path).sorted()] == codes


def test_the_guesses_of_a_file_have_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dsl.studies.check, "FILE_OPERATIONS", 200)
    path = tmp_path / "a.tile"
    path.write_text(TAPS + "".join(f"schedule s{i} of conv:\n    TAPS, BLOCK = 20, {64 << i}\n" for i in range(4)))
    found = check_file(path)
    assert not found.errors
    assert [note.message for note in found.notes] == [
        "11 variants of 'conv' skipped: the guesses of this file cost too much"
    ]


def test_a_loop_that_is_too_long_for_any_dims_is_an_error(tmp_path: Path) -> None:
    (error,) = of_check(tmp_path, TAPS + "schedule s of conv:\n    TAPS = 1000000\n")
    assert error.code == "limit"


@pytest.mark.parametrize("file", sorted(p.name for p in (ROOT / "samples").glob("*.tile")))
def test_check_knows_the_types_and_shapes_that_a_run_has(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all arguments that it says it knows."""
    program = load(ROOT / "samples" / file)
    for example in program.examples:
        known = examine(program, example)
        assert not known.errors
        met: list[dict[str, Any]] = []

        class Stop(Exception):
            """All launches of the example are seen."""

        def seen(
            self: Any, function: Any, given: Any, *rest: Any, met: list = met, most: int = len(known.launches)
        ) -> None:
            from dsl.runtime import describe, is_array

            met.append({n: (d.shape, d.dtype) for n, v in given.items() if is_array(v) and (d := describe(v))})
            if len(met) == most:
                raise Stop

        monkeypatch.setattr("dsl.examples.launches.Launcher.launch", seen)
        size = sum(getattr(a, "shape", [0])[0] for launch in known.launches for a in launch.arguments.values() if a)
        if size > 1 << 22:
            continue
        with pytest.raises(Stop):
            run_example(program, example, "emulator", "", Overrides(), LaunchSettings())
        for launch, arguments in zip(known.launches, met, strict=True):
            for name, facts in launch.arguments.items():
                if hasattr(facts, "dtype"):
                    assert (tuple(facts.shape), facts.dtype) == (tuple(arguments[name][0]), arguments[name][1])


def test_other_constants_of_a_second_example_are_looked_at(tmp_path: Path) -> None:
    """The first launch alone of a kernel and schedule was, and 'no errors in 1 variant' said so of all."""
    text = """\
kernel k(y: f32[n], x: f32[n]; R = 1):
    grid 1
    if R == 2:
        y[0 : 64] = x[0 : 64] + nothing
    else:
        y[0 : 64] = x[0 : 64]

example:
    n = 64
    x, y = ones(f32[n]), empty(f32[n])
    k(y, x)

example two:
    n = 64
    x, y = ones(f32[n]), empty(f32[n])
    k(y, x) with R=2
"""
    (error,) = of_check(tmp_path, text)
    assert "nothing" in error.message and error.loc is not None and error.loc.line == 4


def test_a_layout_of_a_value_in_a_branch_that_constants_leave_out_is_void(tmp_path: Path) -> None:
    """The schedule of a kernel with variants could name no value that only some of them have."""
    text = KERNEL.replace("BLOCK = 128)", "KEEP = false, BLOCK = 128)").replace(
        "    y[i :", "    if KEEP:\n        u = exp(x[i : i + BLOCK])\n        store(y[i : i + BLOCK], u)\n    y[i :", 1
    )
    path = tmp_path / "a.tile"
    for keep, notes in (("false", 1), ("true", 0)):
        layout = f"    KEEP = {keep}\n    warps = 1\n    layout u: vector [2], lanes [32], warps [1]\n"
        path.write_text(text.replace("    BLOCK = 64\n", "    BLOCK = 64\n" + layout))
        found = check_file(path)
        assert not found.errors and len(found.notes) == notes
        assert all("has no 'u'" in note.message for note in found.notes)
    path.write_text(path.read_text().replace("layout u:", "layout uu:"))
    assert [error.message for error in check_file(path).errors] == ["kernel 'scaled' has no value 'uu' to lay out"]


def test_a_schedule_that_does_not_fit_the_dims_of_the_examples_is_told(tmp_path: Path) -> None:
    """'no errors' was all, as it fits other dims, and a run of the example with it failed."""
    text = """\
kernel k(y: f32[n], x: f32[n]; TILE = 64):
    grid cdiv(n, TILE)
    i = block(0) * TILE
    v = x[i : i + TILE]
    y[i : i + TILE] = v

schedule small of k:
    TILE = 32

schedule large of k:
    TILE = n
    warps = n // 128
    layout v: vector [4], lanes [32], warps [n // 128]

example:
    n = 96
    x, y = ones(f32[n]), empty(f32[n])
    k(y, x)
"""
    path = tmp_path / "a.tile"
    path.write_text(text)
    found = check_file(path)
    (note,) = found.notes
    assert not found.errors and note.message.startswith("'k with large' does not fit the dims of the examples: ")
    path.write_text(text.replace("n = 96", "n = 256"))
    assert not check_file(path).notes


@pytest.fixture
def first_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kernel with its first types alone: all of them take three times as long."""
    alternatives = check._alternatives
    monkeypatch.setattr(check, "_alternatives", lambda kernel: [next(alternatives(kernel))])


def test_a_line_of_an_imported_part_need_not_have_an_effect(first_types: None) -> None:
    """`instruction acc, part: wgmma` of std/products.tile is for kernels that have one of both, or both."""
    found = check_file(Path(__file__).parents[2] / "samples" / "matmul.tile")
    assert not found.errors and not any("no effect" in note.message for note in found.notes)


def test_assembled_variants_that_spill_are_told(tmp_path: Path) -> None:
    try:
        find("ptxas")
    except DeviceError as error:
        pytest.skip(str(error))
    file = tmp_path / "big.tile"
    file.write_text("""
kernel big(y: f32[n], x: f32[n]; N = 4096):
    grid 1
    v = load(x[0 : N])
    w = load(x[N : 2 * N])
    store(y[0 : N], cumsum(v * w) + v / w + w)

schedule capped of big:
    maxnreg 32

schedule free of big:
    warps = 4
""")
    notes = [note.message for note in check_file(file, assemble=True).notes]
    assert len(notes) == 1 and re.match(r"'big' with capped spills \d+ bytes a thread of 32 registers", notes[0])
    assert not check_file(file).notes


@pytest.mark.long
@pytest.mark.parametrize("file", sorted(p.name for p in (ROOT / "samples").glob("*.tile")))
def test_samples_have_no_errors(file: str, first_types: None) -> None:
    """Of schedules that no example launches, what was guessed was an error."""
    assert check_file(ROOT / "samples" / file).errors == []


GUESSED = """\
kernel k(y: f32[m, n; strided], x: f32[m, n], w: f32[n]?, s: s32; TM = 32, TN = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    v = x[i : i + TM, j : j + TN]
    if given(w):
        v = v * w[j : j + TN][None, :]
    y[i : i + TM, j : j + TN] = v

schedule of_few of k:
    {line}
"""


@pytest.mark.parametrize(
    "line",
    [
        "maxnreg 20 + s",  # too few for both numbers that are tried
        "TM = where(given(w), 48, 32)",  # right without w
        "warps = s",  # a power of two, where s is 2
    ],
)
def test_what_no_guess_suits_is_a_note_where_it_differs_with_the_guess(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.tile"
    path.write_text(GUESSED.format(line=line))
    assert check_file(path).errors == []


@pytest.mark.parametrize("line", ["maxnreg 7", "TM = 48", "layout z: vector [4]", "warps = 3", "stage z: tma"])
def test_what_is_wrong_for_all_guesses_is_an_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "a.tile"
    path.write_text(GUESSED.format(line=line))
    (error, *_) = check_file(path).errors
    assert error.loc is not None


UNSET = """\
kernel k(y: f32[m, n], x: f32[m, n]; C, W{more}):
    grid m
    assert C >= n
    i = block(0)
    y[i, 0 : C] = cumsum(x[i, 0 : C], axis=0) * {body}

schedule s of k:
    warps = {warps}
"""


@pytest.mark.parametrize(("body", "warps"), [("2.0", "1"), ("W", "1"), ("ACT(2.0)", "1")])
def test_a_constant_that_only_a_caller_sets_is_a_note(tmp_path: Path, body: str, warps: str) -> None:
    """A file of kernels for Python is right; what its constants are is guessed: numbers where they are functions."""
    path = tmp_path / "a.tile"
    path.write_text(UNSET.format(body=body, warps=warps, more=", ACT" * ("ACT" in body)))
    found = check_file(path)
    assert not found.errors
    assert "W" in {note.message.split("'")[1] for note in found.notes}


def test_what_is_wrong_beside_a_constant_that_nothing_sets_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.tile"
    path.write_text(UNSET.format(body="nosuch", warps="1", more=""))
    assert [error.message for error in check_file(path).errors] == ["unknown name 'nosuch'"]


def test_a_dispatch_that_leaves_out_an_argument_is_told(tmp_path: Path) -> None:
    """In a branch that no example takes."""
    path = tmp_path / "a.tile"
    dispatch = "\ndispatch d(y, x, w):\n    if n > 300: scaled(y, x, w, 2.0)\n    else: scaled(y, x, w)\n"
    path.write_text(KERNEL.split("\nexample:")[0] + dispatch)
    assert [error.message for error in check_file(path).errors] == ["'scaled' needs 'by'"]


@pytest.mark.parametrize(("block", "message"), [(8, "has no value along x: a division by zero"), (4, "has -75 blocks")])
def test_the_grid_of_a_planned_launch_is_evaluated(tmp_path: Path, block: int, message: str) -> None:
    kernel = KERNEL.replace("cdiv(n, BLOCK)", "cdiv(n, BLOCK - 8)").replace("BLOCK = 64", f"BLOCK = {block}")
    (error,) = of_check(tmp_path, f"{kernel}    scaled(y, x, None, 2.0) with a\n")
    assert error.code == "grid" and message in error.message


def test_a_dispatch_with_a_branch_that_is_wrong_is_not_planned(tmp_path: Path) -> None:
    """A name that only what is wrong would bind was told to be unknown."""
    text = KERNEL.split("\nexample:")[0] + (
        "\ndispatch one(y, x):\n    scaled(y, x, None, 2.0)\n\n"
        "dispatch two(y, x):\n    t = workspace(f32[n])\n    one(t, x, y)\n"
        "    scaled(y, t, None, 2.0)\n\nexample:\n    x, y = ones(f32[300]), empty(f32[300])\n    two(y, x)\n"
    )
    (error,) = of_check(tmp_path, text)
    assert error.message == "'one' takes 2 arguments; got 3"
