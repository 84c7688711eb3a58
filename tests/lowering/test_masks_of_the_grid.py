"""Masks that the grid, loops and divisors decide: they go where each element is inside, and stay in what looks alike.

Each kernel is run on the strict emulator at shapes on both sides of the tiles' edges: without a mask that it needs, an
access would be outside of its tensor or the result another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.compile_and_run import Kernel, compile_kernel, launch

ROWS, COLS = 8, 64
TEXT = """
kernel k(y: f32[m, n], x: f32[m, n], rows: s32; BM = 8, BN = 64):
    grid {grid}
    def work(i, j):
        {work}
    def corner(t, tm, tn):
        first = t // (3 * tn) * 3
        high = minimum(tm - first, 3)
        return first + t % (3 * tn) % high, t % (3 * tn) // high
    tm, tn = cdiv(m, BM), cdiv(n, BN)
{lines}"""
STORED = "y[i : i + BM, j : j + BN] = x[i : i + BM, j : j + BN] + 1.0"
ADDED = "old = atomic_add(y[i : i + BM, j : j + BN], x[i : i + BM, j : j + BN] + 1.0)"
"""For tiles that lie one over the other."""
TILES = "cdiv(m, BM) * cdiv(n, BN)"
GO: dict[str, tuple[str, str]] = {
    "a block a tile": ("cdiv(m, BM), cdiv(n, BN)", "work(block(0) * BM, block(1) * BN)"),
    "axes of the grid the other way iteration": ("cdiv(n, BN), cdiv(m, BM)", "work(block(1) * BM, block(0) * BN)"),
    "rows of tiles": (TILES, "work(block(0) // tn * BM, block(0) % tn * BN)"),
    "columns of tiles": (TILES, "work(block(0) % tm * BM, block(0) // tm * BN)"),
    "groups of rows of tiles": (TILES, "i, j = corner(block(0), tm, tn)\nwork(i * BM, j * BN)"),
    "fewer blocks, in steps of a number": (
        f"minimum(5, {TILES})",
        "for z in range(cdiv(tm * tn - block(0), 5)):\n"
        "    i, j = corner(block(0) + z * 5, tm, tn)\n    work(i * BM, j * BN)",
    ),
    "fewer blocks, in steps of the grid": (
        f"minimum({TILES}, 5)",
        "for t in range(block(0), tm * tn, grid(0)):\n    work(t // tn * BM, t % tn * BN)",
    ),
    "fewer blocks, counted by iterations": (
        f"minimum({TILES}, 3)",
        "for z in range(cdiv(tm * tn - block(0), grid(0))):\n"
        "    t = block(0) + z * grid(0)\n    work(t // tn * BM, t % tn * BN)",
    ),
    "a loop over a dim": ("cdiv(m, BM)", "for j in range(0, n, BN):\n    work(block(0) * BM, j)"),
    "a loop over tiles": ("cdiv(m, BM)", "for q in range(cdiv(n, BN)):\n    work(block(0) * BM, q * BN)"),
    "a loop down": ("cdiv(m, BM)", "for j in range(n - BN, -1, -BN):\n    work(block(0) * BM, j)"),
    "a loop over what a block leaves": (
        "1",
        "for i in range(block(0) * BM, m, BM):\n    for j in range(0, n, BN):\n        work(i, j)",
    ),
    "the last row of tiles first": ("cdiv(m, BM), cdiv(n, BN)", "work((tm - 1 - block(0)) * BM, block(1) * BN)"),
    "a branch that chooses": (
        "cdiv(m, BM), cdiv(n, BN)",
        "i = block(0) * BM\nif block(1) > 0:\n    i = (tm - 1 - block(0)) * BM\nwork(i, block(1) * BN)",
    ),
    "a dim moved there and back": ("cdiv(m, BM), cdiv(n, BN)", "work((block(0) + tm) * BM - tm * BM, block(1) * BN)"),
}
STAY: dict[str, tuple[str, str]] = {
    "off by one": ("cdiv(m, BM), cdiv(n, BN)", "work(block(0) * BM + 1, block(1) * BN)"),
    "one less than the start": ("cdiv(m, BM), cdiv(n, BN)", "work(block(0) * BM - 1, block(1) * BN)"),
    "the next block's": ("cdiv(m, BM), cdiv(n, BN)", "work((block(0) + 1) * BM, block(1) * BN)"),
    "the block before": ("cdiv(m, BM), cdiv(n, BN)", "work((block(0) - 1) * BM, block(1) * BN)"),
    "the other dim": ("cdiv(n, BM), cdiv(n, BN)", "work(block(0) * BM, block(1) * BN)"),
    "the other axis": ("cdiv(m, BM), cdiv(n, BN)", "work(block(1) * BM, block(0) * BN)"),
    "tiles of half the extent": ("cdiv(m, BM / 2), cdiv(n, BN)", "work(block(0) * BM, block(1) * BN)"),
    "tiles that overlap the end": ("cdiv(m, BM / 2), cdiv(n, BN)", "work(block(0) * (BM / 2), block(1) * BN)"),
    "a block too many": ("cdiv(m, BM) + 1, cdiv(n, BN)", "work(block(0) * BM, block(1) * BN)"),
    "at least some blocks": ("maximum(cdiv(m, BM), 4), cdiv(n, BN)", "work(block(0) * BM, block(1) * BN)"),
    "a number of blocks": ("4, cdiv(n, BN)", "work(block(0) * BM, block(1) * BN)"),
    "blocks of a scalar": ("cdiv(rows, BM), cdiv(n, BN)", "work(block(0) * BM, block(1) * BN)"),
    "divided by the other number of tiles": (TILES, "work(block(0) // tm * BM, block(0) % tn * BN)"),
    "what is left of the other number": (TILES, "work(block(0) // tn * BM, block(0) % tm * BN)"),
    "a row of tiles before the first": ("cdiv(m, BM), cdiv(n, BN)", "work((tm - 2 - block(0)) * BM, block(1) * BN)"),
    "a branch that chooses one that is not inside": (
        "cdiv(m, BM), cdiv(n, BN)",
        "i = block(0) * BM\nif block(1) > 0:\n    i = (tm - block(0)) * BM\nwork(i, block(1) * BN)",
    ),
    "tiles and one": (f"{TILES} + 1", "work(block(0) // tn * BM, block(0) % tn * BN)"),
    "groups without a last one": (
        TILES,
        "first = block(0) // (3 * tn) * 3\nwork((first + block(0) % 3) * BM, block(0) % (3 * tn) // 3 * BN)",
    ),
    "steps that are too wide": (
        f"minimum(5, {TILES})",
        "for z in range(cdiv(tm * tn - block(0), 5)):\n    t = block(0) + z * 6\n    work(t // tn * BM, t % tn * BN)",
    ),
    "an iteration too many": ("cdiv(m, BM)", "for q in range(cdiv(n, BN) + 1):\n    work(block(0) * BM, q * BN)"),
    "a loop from the middle": ("cdiv(m, BM)", "for j in range(BN / 2, n, BN):\n    work(block(0) * BM, j)"),
    "a loop in half steps": ("cdiv(m, BM)", "for j in range(0, n, BN / 2):\n    work(block(0) * BM, j)"),
    "a loop over the other dim": ("cdiv(m, BM)", "for j in range(0, m, BN):\n    work(block(0) * BM, j)"),
    "a loop past the end": ("cdiv(m, BM)", "for j in range(0, n + BN, BN):\n    work(block(0) * BM, j)"),
    "a loop ahead": ("cdiv(m, BM)", "for j in range(0, n, BN):\n    work(block(0) * BM, j + BN)"),
    "a loop down too far": ("cdiv(m, BM)", "for j in range(n - BN, -BN - 1, -BN):\n    work(block(0) * BM, j)"),
    "the greater of the edge and the start": (
        "cdiv(m, BM), cdiv(n, BN)",
        "work(maximum(block(0) * BM, m - 4), block(1) * BN)",
    ),
}
SHAPES = [(1, 1), (7, 63), (8, 64), (9, 65), (15, 128), (16, 64), (16, 192), (24, 65), (40, 128), (33, 200)]
WHOLE = [(m, n) for m, n in SHAPES if m % ROWS == 0 and n % COLS == 0]


def compiled(case: tuple[str, str], m: int, n: int, work: str = STORED) -> Kernel:
    grid, lines = case
    text = TEXT.format(grid=grid, work=work, lines="".join(f"    {line}\n" for line in lines.split("\n")))
    return compile_kernel(text, dims={"m": m, "n": n})


def is_masked(kernel: Kernel) -> bool:
    return any("mask" in op.attrs["has"] for op in kernel.ops if op.name in ("load", "store", "atomic"))


def corner(t: int, tm: int, tn: int) -> tuple[int, int]:
    first = t // (3 * tn) * 3
    high = min(tm - first, 3)
    return first + t % (3 * tn) % high, t % (3 * tn) // high


def expected(case: tuple[str, str], x: np.ndarray) -> np.ndarray:
    """What the text says, as Python runs it."""
    y = np.zeros_like(x)
    m, n = x.shape

    def work(i: int, j: int) -> None:
        (r, s), (c, d) = (max(i, 0), max(i + ROWS, 0)), (max(j, 0), max(j + COLS, 0))
        y[r:s, c:d] += x[r:s, c:d] + 1.0

    names: dict[str, Any] = {"m": m, "n": n, "BM": ROWS, "BN": COLS, "rows": 8, "corner": corner, "work": work}
    names |= {"cdiv": lambda a, b: -(-a // b), "minimum": min, "maximum": max}
    names |= {"tm": -(-m // ROWS), "tn": -(-n // COLS)}
    grid, lines = (part.replace("BM / 2", "BM // 2").replace("BN / 2", "BN // 2") for part in case)
    extents = eval(f"({grid},)", dict(names))
    for block in blocks(extents):
        exec(lines, {**names, "block": block.__getitem__, "grid": extents.__getitem__})
    return y


def blocks(extents: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return product(*map(range, extents))


def check(kernel: Kernel, case: tuple[str, str], shape: tuple[int, int]) -> None:
    x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    args = {"x": x, "y": np.zeros_like(x), "rows": 8}
    launch(kernel, args)
    assert np.array_equal(args["y"], expected(case, x)), shape


@pytest.mark.parametrize("name", GO)
def test_masks_go_where_all_is_inside(name: str) -> None:
    kernel = compiled(GO[name], 3 * ROWS, 5 * COLS)
    assert not is_masked(kernel)
    assert "ld.global.v4" in kernel.ptx and "st.global.v4" in kernel.ptx
    for shape in WHOLE:
        check(kernel, GO[name], shape)


@pytest.mark.parametrize("name", GO)
def test_masks_stay_where_tiles_may_be_cut(name: str) -> None:
    kernel = compiled(GO[name], 7, 63)
    assert is_masked(kernel)
    for shape in SHAPES:
        check(kernel, GO[name], shape)


@pytest.mark.long
@pytest.mark.parametrize("name", STAY)
def test_masks_stay_in_what_looks_alike(name: str) -> None:
    for (m, n), shapes in (((8 * ROWS, 8 * COLS), WHOLE), ((7, 63), SHAPES)):
        kernel = compiled(STAY[name], m, n, ADDED)
        assert is_masked(kernel)
        for shape in shapes:
            check(kernel, STAY[name], shape)


def test_whole_tiles_alone_have_no_mask_for_any_dims() -> None:
    case = "m // BM, n // BN", "work(block(0) * BM, block(1) * BN)"
    kernel = compiled(case, 7, 63)
    assert not is_masked(kernel)
    for shape in SHAPES:
        if min(shape[0] // ROWS, shape[1] // COLS) > 0:
            check(kernel, case, shape)
