"""Files that are imported under a name: their functions, parts and choices, apart from the file's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.program import load

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

choice sized(length):
    when base(length) > 100: many
    otherwise: few

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
    match pieces.sized(n):
        otherwise: k

dispatch e(y):
    match pieces.sized(n):
        otherwise: k with many, ACT = pieces.shadowed

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
        ("d", 64, lambda i: (i + 11) * 3),  # few, by the module's choice and its part
        ("d", 128, lambda i: i + 11),  # many
        ("e", 128, lambda i: i + 5),
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
    assert list(program.kernels) == ["k", "l"] and list(program.parts) == ["pieces.small", "pieces.smaller"]
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
    with pytest.raises(dsl.TileError, match="'pieces' has no function, part or choice 'scale'") as caught:
        load(file)
    assert len(caught.value.errors) == 1 and "'scaled'" in (caught.value.errors[0].hint or "")
