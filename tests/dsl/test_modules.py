"""Files that are imported under a name: their functions and parts, apart from the file's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.command.failures import render
from dsl.lowering.ir.location import TileError
from dsl.lowering.text.reader import read
from dsl.runtime import LaunchError
from dsl.text.program import load, packaged_files

PIECES = """
import "deep.tile" as deep

def scaled(v; BY = 3):
    return base(v) * BY

def base(v):
    return deep.base(v) + 1

def shadowed(base):
    scaled = base + 5
    return scaled

schedule small:
    SIZE, ACT = least * 2, scaled
    like smaller

schedule smaller:
    least = OPEN

schedule whole:
    SIZE = 64

def is_long(length):
    return base(length) > 100

kernel k(y: s32[n]):
    grid 1
    y[0] = 1
"""
DEEP = """
def base(v):
    return v + 10
"""
MAIN = """
import "lib/pieces.tile" as pieces

def base(v):
    return v * 100

kernel k(y: s32[n]; SIZE, ACT = pieces.scaled):
    grid 1
    i = arange(SIZE)
    y[0 : SIZE] = ACT(i) + base(i) + pieces.shadowed(i)

kernel l(y: s32[n]; SIZE):
    grid 1
    pieces = arange(SIZE).to(s32)
    y[0 : SIZE] = pieces.to(s32)

schedule few of k:
    like pieces.small
    OPEN = 16

schedule many of k:
    SIZE, ACT = 64, pieces.base

schedule any of l:
    SIZE = 32

dispatch d(y):
    if pieces.is_long(n): k with many
    else: k with few

dispatch e(y):
    k with many, ACT = pieces.shadowed

dispatch f(y):
    if fits(k with pieces.whole): k with pieces.whole, ACT = pieces.base

example:
    n = 64
    y = empty(s32[n])
    d(y)
    i = arange(n)
    expect sum(y[0 : 32]) == sum(where(i < 32, (i + 11) * 3 + i * 100 + pieces.shadowed(i), 0))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "pieces.tile").write_text(PIECES)
    (tmp_path / "lib" / "deep.tile").write_text(DEEP)
    path = tmp_path / "main.tile"
    path.write_text(MAIN)
    return path


@pytest.mark.parametrize(
    ("call", "n", "act"),
    [
        ("d", 64, lambda i: (i + 11) * 3),  # few, by the module's function and its part
        ("d", 128, lambda i: i + 11),  # many
        ("e", 128, lambda i: i + 5),
        ("f", 128, lambda i: i + 11),  # a part of the module as a schedule of the file's kernel
    ],
)
def test_names_of_a_module_are_its_own(file: Path, call: str, n: int, act) -> None:
    module, y = dsl.load(file, device="emulator"), np.zeros(n, np.int32)
    getattr(module, call)(y)
    size = 32 if call == "d" and n == 64 else 64
    i = np.arange(size)
    assert np.array_equal(y[:size], act(i) + i * 100 + i + 5)


def test_a_local_name_wins_over_a_module(file: Path) -> None:
    y = np.zeros(32, np.int32)
    dsl.load(file, device="emulator").l(y)
    assert np.array_equal(y, np.arange(32))


def test_kernels_stay_with_their_file_and_its_text_counts(file: Path) -> None:
    program = load(file)
    assert list(program.kernels) == ["k", "l"]
    assert list(program.parts) == [f"pieces.{name}" for name in ("small", "smaller", "whole")]
    before = program.digest()
    (file.parent / "lib" / "deep.tile").write_text(DEEP.replace("10", "11"))
    assert load(file).digest() != before


def test_the_example_calls_what_it_imports(file: Path) -> None:
    from click.testing import CliRunner

    from dsl.command import cli

    result = CliRunner().invoke(cli, ["run", str(file), "--device", "emulator"], standalone_mode=False)
    assert result.exception is None and result.return_value == 0, result.stderr


def test_a_wrong_member_is_one_error(file: Path) -> None:
    """The kernel that names it is known: its schedules and the dispatches that launch it are not wrong, too."""
    text = file.read_text()
    assert text.count("pieces.scaled") >= 1
    file.write_text(text.replace("pieces.scaled", "pieces.scale", 1))
    with pytest.raises(dsl.TileError, match="'pieces' has no function or part 'scale'") as caught:
        load(file)
    assert len(caught.value.errors) == 1 and "'scaled'" in (caught.value.errors[0].hint or "")


# ---- the packaged library ----

COPY = """
import "std/rows.tile" as lines

kernel copied(y: f32[rows, cols], x: f32[rows, cols]; PART, V, EDGES):
    grid rows
    r = block(0) + arange(1)
    i, own = lines.body(r, 0, cols, ...)
    store(flat(y)[i], load(flat(x)[i], mask=own), mask=own)
    j, mine = lines.edges(r, cols, ...)
    store(flat(y)[j], load(flat(x)[j], mask=mine), mask=mine)

schedule all of copied:
    warps = 1
    PART = 64
    V = 4
    EDGES = 8

example:
    x = randn(f32[5, 37])
    y = empty(f32[5, 37])
    copied(y, x)
    expect y == x
"""


def test_a_file_anywhere_imports_the_packaged_library(tmp_path: Path) -> None:
    """What lies beside the file under the same name is another one's."""
    path = tmp_path / "copy.tile"
    path.write_text(COPY)
    (tmp_path / "std").mkdir()
    (tmp_path / "std" / "rows.tile").write_text("def body(r):\n    return r\n")
    x = np.arange(5 * 37, dtype=np.float32).reshape(5, 37)
    y = np.zeros_like(x)
    dsl.load(path, device="emulator").copied(y, x)
    assert np.array_equal(y, x)


def test_what_is_wrong_in_the_packaged_library_is_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "copy.tile"
    path.write_text(COPY.replace("lines.edges(r, cols, ...)", "lines.edges(r, cols, EDGES=EDGES, V=0)"))
    with pytest.raises(TileError) as caught:
        dsl.load(path, device="emulator").copied(np.zeros((5, 37), np.float32), np.zeros((5, 37), np.float32))
    assert "std/rows.tile:" in caught.value.render()


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("std/row.tile", "did you mean 'std/rows.tile'?"),
        ("std/zebra.tile", "std/rows.tile"),
        ("std/../program.tile", "is outside the folder of the library"),
    ],
)
def test_a_file_that_the_packaged_library_lacks(tmp_path: Path, name: str, says: str) -> None:
    path = tmp_path / "copy.tile"
    path.write_text(COPY.replace("std/rows.tile", name))
    with pytest.raises(TileError) as caught:
        load(path)
    assert f'"{name}"' in caught.value.render() and says in caught.value.render()


def test_each_packaged_file_is_checked_is_documented_and_is_in_the_wheel() -> None:
    import tomllib
    from fnmatch import fnmatch
    from importlib.resources import files

    from dsl.studies.check import check_file

    root = Path(__file__).parents[2]
    patterns = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["dsl"]
    page = (root / "docs" / "language.md").read_text()
    assert packaged_files()
    for name in packaged_files():
        assert any(fnmatch(name, pattern) for pattern in patterns)
        assert files("dsl").joinpath(name).is_file() and f"| `{name}` |" in page
        found = check_file(str(files("dsl").joinpath(name)))
        assert not found.errors and not found.notes


@pytest.mark.parametrize("stage", ["ptx", "llvm"])
def test_source_lines_of_the_packaged_library_stand_beside_the_code(tmp_path: Path, stage: str) -> None:
    from click.testing import CliRunner

    from dsl.command import cli

    path = tmp_path / "copy.tile"
    path.write_text(COPY)
    result = CliRunner().invoke(cli, ["compile", str(path), "--emit", stage, "--annotate"], standalone_mode=False)
    assert result.exception is None and "before = at < V" in result.output


def test_a_condition_of_an_imported_kernel_is_told_as_it_is_written(tmp_path: Path) -> None:
    text = "kernel even(y: f32[n]):\n    grid 1\n    assert n % 2 == 0\n    y[0 : 8] = 1.0\n"
    (tmp_path / "even.tile").write_text(text)
    (tmp_path / "main.tile").write_text('import "even.tile"\n')
    module = dsl.load(tmp_path / "main.tile", device="emulator")
    with pytest.raises(dsl.LaunchError, match=r"even: requires n % 2 == 0 \(n = 7\)"):
        module.even(np.zeros(7, np.float32))


PARTS = """
schedule fast:
    COUNT, UNREAD = 1, 3
    warps, N = COUNT, 2 * COUNT
    evict x, z: first

schedule slow:
    like fast
    N = 9
    evict z: first
"""
USER = """
import "parts.tile"

kernel k(y: s32[n], x: s32[n]; N):
    grid 1
    y[0 : 128] = x[0 : 128] + N

dispatch d(y, x):
    option SLOW in false, true
    if SLOW: k with slow, COUNT=4
    else: k with fast, COUNT=2

dispatch chosen(y, x):
    if n > 9 and fits(k with fast): k with fast, COUNT=4
"""


def test_a_launch_names_a_part_of_another_file(tmp_path: Path) -> None:
    """What the part sets for other kernels, and their tensors, are no errors. A line for others alone is one."""
    (tmp_path / "parts.tile").write_text(PARTS)
    (tmp_path / "user.tile").write_text(USER)
    module = dsl.load(tmp_path / "user.tile", device="emulator")
    y, x = np.zeros(128, np.int32), np.arange(128, dtype=np.int32)
    module.d(y, x)
    assert (y == x + 4).all() and module.program.schedules_of("k").keys() == {"slow", "fast"}
    module.d(y, x, schedule="fast", COUNT=1)
    assert (y == x + 2).all()
    module.chosen(y, x, COUNT=4)
    assert (y == x + 8).all()
    with pytest.raises(dsl.TileError, match="the kernel has no parameter 'z'"):
        module.d(y, x, SLOW=True)


def test_a_condition_of_another_file_names_the_file(tmp_path: Path) -> None:
    """Also in the IR as text. Line 3 of the kernel's own file sets no TILE."""
    (tmp_path / "lib.tile").write_text("# of tiles\n\nschedule whole:\n    TILE = next_pow2(n)\n")
    text = 'import "lib.tile"\n\nkernel k(y: f32[n]; TILE):\n    grid 1\n    y[0 : TILE] = 1.0\n'
    (tmp_path / "k.tile").write_text(f"{text}\nschedule s of k:\n    like whole\n")
    made, y = dsl.load(tmp_path / "k.tile", device="emulator").compile("k", n=100), np.zeros(200, np.float32)
    (row,) = [row for row in made.compiled.header.requires if "next_pow2" in row.text]
    library = str(tmp_path / "lib.tile")
    assert (row.line, row.file) == (4, library)
    assert [row.file for row in read(made.ir, "ir").requires if "next_pow2" in row.text] == [library]
    with pytest.raises(LaunchError, match=rf"\(line 4 of {library}\)") as raised:
        made(y)
    assert f"{library}:4:" in render(raised.value, str(tmp_path / "k.tile"))[0]
