"""Parts of shared tiles: what of a part reaches beyond the tile is masked off, as at the edge of the tile itself."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from tests.compile_and_run import run

ROWS, COLUMNS = 4, 64


def after(lines: str, *numbers: int) -> tuple[np.ndarray, np.ndarray]:
    """What `lines` store to y, and what they leave in s, which holds 1000 e + i: with three scalars of run time."""
    text = f"""
kernel k(y: s32[64], left: s32[4, 64], a: s32, b: s32, c: s32):
    grid 1
    shared s: s32[4, 64]
    shared guard: s32[64]
    i = arange(64).to(s32)
    for e in range(4):
        s[e, 0 : 64] = i + 1000 * e.to(s32)
    guard[0 : 64] = i
{chr(10).join("    " + line for line in lines.splitlines())}
    for e in range(4):
        store(left[e, 0 : 64], s[e, 0 : 64])
"""
    y, left = np.full(64, -7, np.int32), np.zeros((4, 64), np.int32)
    a, b, c = (*numbers, 0, 0, 0)[:3]
    run(text, {"y": y, "left": left, "a": a, "b": b, "c": c})
    return y, left


S = np.arange(ROWS)[:, None] * 1000 + np.arange(COLUMNS)


def window(row: int, start: int, size: int) -> np.ndarray:
    at = start + np.arange(size)
    inside = (at >= 0) & (at < COLUMNS) & (0 <= row < ROWS)
    return np.where(inside, S[row % ROWS, at % COLUMNS], 0)


@pytest.mark.parametrize("row", [-1, 0, 3, 4])
@pytest.mark.parametrize("start", [-65, -3, 0, 40, 60, 64])
def test_a_part_ends_where_its_tile_ends(row: int, start: int) -> None:
    y, left = after("store(y[0 : 32], s[a][b : b + 32][0 : 32])", row, start)
    assert (y[:32] == window(row, start, 32)).all() and (left == S).all()


@pytest.mark.parametrize("start", [-3, 0, 50])
@pytest.mark.parametrize("inner", [-2, 0, 5, 30])
def test_a_part_of_a_part_ends_where_both_end(start: int, inner: int) -> None:
    y, _ = after("store(y[0 : 16], s[1][a : a + 32][b : b + 16][0 : 16])", start, inner)
    at = inner + np.arange(16)
    assert (y[:16] == np.where((at >= 0) & (at < 32), window(1, start + inner, 16), 0)).all()


@pytest.mark.parametrize("start", [-3, 0, 40, 63])
@pytest.mark.parametrize("place", ["i % 32", "0 : 32"])
def test_stores_beyond_it_write_nothing(start: int, place: str) -> None:
    _, left = after(f"s[2][a : a + 32][{place}] = full(s32[32], -1)".replace("i %", "arange(32) %"), start)
    at = start + np.arange(32)
    wanted = S.copy()
    wanted[2, at[(at >= 0) & (at < COLUMNS)]] = -1
    assert (left == wanted).all()


@pytest.mark.parametrize("index", [0, 20, 31])
def test_a_scalar_of_a_part(index: int) -> None:
    y, _ = after("store(y[0 : 64], full(s32[64], s[1][a : a + 32][b]))", 48, index)
    assert (y == window(1, 48, 32)[index]).all()


def test_what_may_reach_beyond_its_tile_has_no_other_shape() -> None:
    with pytest.raises(TileError, match="may reach beyond it cannot be seen as"):
        after("store(y[0 : 8], reshape(s[1][a : a + 32], (4, 8))[0, 0 : 8])")
    y, _ = after("store(y[0 : 8], reshape(s[1][32 : 64], (4, 8))[1, 0 : 8])")
    assert (y[:8] == S[1, 40:48]).all()
