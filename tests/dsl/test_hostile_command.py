"""The command line with files, names, numbers and outputs that mean nothing: a sentence each, and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import dsl
from dsl.command import cli
from dsl.kernels.compile import compile_variant
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import PASSES
from dsl.runtime import LaunchError
from dsl.studies.check import check_file
from dsl.text.program import load

TEXT = """\
kernel double(y: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * 2.0

example:
    n = 300
    x = randn(f32[n])
    y = empty(f32[n])
    double(y, x)
    expect y ~= x + x within 0
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "double.tile"
    path.write_text(TEXT)
    return path


def said(*arguments: Any) -> tuple[int, str]:
    """(exit status, all that is printed) of a command; no exception leaves it."""
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)
    if isinstance(result.exception, click.ClickException):
        return result.exception.exit_code, result.exception.format_message()
    assert result.exception is None, result.exception
    assert "internal error" not in result.output
    return result.return_value or 0, result.output


# ---- options ----


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("tune", "--for", "n=5:1"), "is empty: 5 is above 1"),
        (("tune", "--for", "n=:"), "has neither end"),
        (("tune", "--for", "n=1:2", "--for", "n=2:3"), "'n' has a range already"),
        (("tune", "--for", "n=1:" + "9" * 5000), "has at most 18 digits"),
        (("tune", "--for", "n=-1:5"), "is not NAME=LOW:HIGH"),
        (("tune", "--for", "m=1:5"), "there is no dim 'm'"),
        (("tune", "n=1", "n=2"), "'n' is given twice"),
        (("tune", "n=1,,2"), "'' is no value"),
        (("tune", "--seconds", "nan"), "nan is not a time"),
        (("tune", "--seconds", "-1"), "-1 is not a time"),
        (("tune", "--jobs", "100000"), "is not in the range"),
        (("tune", "--budget", "0"), "is not in the range"),
        (("tune", "--seed", "-1"), "is not in the range"),
        (("run", "--time-limit", "nan"), "nan is not a time"),
        (("run", "--time-limit", "-1"), "-1 is not a time"),
        (("run", "--time-limit", "0"), "0 is not a time"),
        (("run", "--time-limit", "inf"), "inf is not a time"),
        (("run", "--time-limit", "soon"), "is not a number of seconds"),
        (("run", "--seed", "-1"), "is not in the range"),
        (("run", "n=5", "n=6"), "'n' is given twice"),
        (("run", "n=1e3"), "an extent is an integer"),
        (("run", "n=" + "9" * 400), "is beyond 128 bits"),
        (("run", "n=" + "9" * 5000), "is beyond every type"),
        (("run", "n=nan"), "an extent is an integer"),
        (("bench", "--time-limit", "nan"), "nan is not a time"),
        (("bench", "n=1e3"), "an extent is an integer"),
        (("compile", "n=1e3"), "an extent is an integer"),
        (("compile", "n=true"), "an extent is an integer"),
        (("compile", "--skip-pass", "assign_layouts"), "cannot be left out"),
        (("layout", "n=1e3"), "an extent is an integer"),
    ],
)
def test_an_option_that_means_nothing_is_refused(file: Path, arguments: tuple[str, ...], says: str) -> None:
    command, *rest = arguments
    place = {"run": ["--device", "emulator"], "bench": ["--device", "emulator"], "tune": ["--emulator"]}
    status, output = said(command, file, *rest, *place.get(command, []))
    assert status == 2 and says in output, output


@pytest.mark.parametrize("name", [each.name for each in PASSES])
def test_a_pass_is_left_out_or_refused(name: str) -> None:
    program = load(Path(__file__).parents[2] / "samples" / "softmax.tile")
    request = Request("softmax_rows", "whole", {"rows": 64, "cols": 512})
    if not next(each for each in PASSES if each.name == name).may_go:
        with pytest.raises(TileError, match=f"no choice has the key 'pass.{name}'"):
            compile_variant(program, replace(request, constants={f"pass.{name}": "off"}))
    else:
        assert compile_variant(program, replace(request, constants={f"pass.{name}": "off"})).ptx


# ---- files ----


def test_what_is_no_file_is_named(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = file.parent
    (folder / "a").symlink_to(folder / "b")
    (folder / "b").symlink_to(folder / "a")
    os.mkfifo(folder / "pipe")
    for command in ("run", "check", "compile", "layout", "bench", "tune"):
        for name in ("", "/", ".", "..", folder / "a", folder / "pipe", "/dev/zero", "x" * 5000, "\1"):
            status, output = said(command, name)
            assert status == 2 and "error[file]: cannot read" in output, (command, name, output)
    monkeypatch.chdir(folder)
    for name in ("", "/", ".", "..", "a/", "\1", "vprintf", "dsl_mine", "if"):
        assert said("new", name)[0] == 2
    status, output = said("run", file, "--ptx", "/dev/zero", "--device", "emulator")
    assert status == 2 and "it is no regular file" in output
    status, output = said("tune", file, "--emulator", "--log", "/dev/zero")
    assert status == 2 and "it is no regular file" in output
    status, output = said("compile", file, "-o", folder / "none" / "x")
    assert status == 2 and "cannot write" in output


@pytest.mark.parametrize("name", ["l1.tile", "a\0b", "x" * 5000, "pipe", "."])
def test_an_import_of_no_file_is_located(file: Path, name: str) -> None:
    (file.parent / "l1.tile").symlink_to(file.parent / "l2.tile")
    (file.parent / "l2.tile").symlink_to(file.parent / "l1.tile")
    os.mkfifo(file.parent / "pipe")
    file.write_text(f'import "{name}"\n{TEXT}')
    (error,) = check_file(file).errors
    assert error.code == "import" and error.loc is not None and error.loc.line == 1


# ---- names and grids ----


@pytest.mark.parametrize("name", ["dsl_shared", "dsl_text0", "vprintf", "WARP_SZ", "_"])
def test_names_that_ptx_has_are_no_kernels(file: Path, name: str) -> None:
    file.write_text(TEXT.replace("double", name))
    error, *_ = check_file(file).errors
    assert f"a kernel cannot be called '{name}'" in error.message and error.loc is not None


NAMES = ("__", "_x", "printf", "add", "shared", "reg", "main", "llvm", "compile", "tuned", "program", "device")


@pytest.mark.parametrize("name", NAMES)
def test_other_names_run(file: Path, name: str) -> None:
    body = 'print("{}", n)\n    shared s: f32[128]\n    s[arange(128)] = x[i : i + BLOCK]\n    y[i : i + BLOCK] = '
    file.write_text(TEXT.replace("double", name).replace("y[i : i + BLOCK] = x", body + "x"))
    status, output = said("run", file, "--device", "emulator")
    assert status == 0, output
    x = np.ones(3, np.float32)
    y = np.zeros_like(x)
    dsl.load(file, device="emulator")[name](y, x)
    assert (y == 2).all()


def test_a_grid_that_is_too_large_to_emulate_is_refused() -> None:
    text = "kernel k(y: f32[n]; B = 128):\n    grid 2147483647\n    y[0] = 1.0\n"
    with pytest.raises(LaunchError, match="2147483647 blocks are too many to emulate") as caught:
        dsl.parse(text, device="emulator").k(np.zeros(3, np.float32))
    assert caught.value.code == "grid"


# ---- outputs ----


@pytest.mark.parametrize("arguments", [("compile",), ("run", "--device", "emulator", "--json")])
def test_an_output_that_nobody_takes_is_no_traceback(file: Path, arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "dsl", arguments[0], str(file), *arguments[1:]]
    reader, writer = os.pipe()
    os.close(reader)
    broken = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (broken.returncode, broken.stderr) == (141, "")


def test_arrays_of_a_ptx_text_are_bounded(file: Path) -> None:
    ptx = file.with_suffix(".ptx")
    assert said("compile", file, "-o", ptx)[0] == 0
    status, output = said("count", ptx, "--device", "emulator", f"n={1 << 40}")
    assert status == 2 and "the arrays of double are larger than 8 GiB" in output, output
    line, _, rest = ptx.read_text().partition("\n")
    ptx.write_text(line.replace('"dims":["n"],"strided"', '"dims":["n",4611686018427387903],"strided"') + "\n" + rest)
    status, output = said("count", ptx, "--device", "emulator")
    assert status == 2 and "error[limit]" in output, output


def test_a_kernel_without_an_end_is_stopped_at_its_line(file: Path) -> None:
    endless = "    a = n\n    while a > 0:\n        a = maximum(a, 1) + 1\n    y[i"
    file.write_text(TEXT.replace("    y[i", endless, 1))
    for command in ("run", "bench"):
        status, output = said(command, file, "--device", "emulator", "--time-limit", "0.3")
        assert status == 3 and "double.tile:5:5: error[finding]" in output and "did not end in 0.3 seconds" in output
