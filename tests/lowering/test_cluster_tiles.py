"""`layout v: …, blocks [1, 4]`: the blocks of a cluster compute a tile together."""

from __future__ import annotations

from textwrap import indent

import numpy as np
import pytest

from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import NUMPY, compile_kernel, run

KERNEL = """
def join(m, z, n, w):
    top = maximum(m, n)
    return top, where(m == top, z, z * exp(m - top)) + where(n == top, w, w * exp(n - top))

def first(a, i, b, j):
    take = (a > b) | ((a == b) & (i < j))
    return where(take, a, b), where(take, i, j)

kernel k(y: {type}[rows, cols], place: s64[rows], mass: f32[rows], calls: s32[1], x: {type}[rows, cols];
         ROWS = 1, COLS = 2048):
    grid cdiv(rows, ROWS)
    r = block(0) * ROWS
    v = load(x[r : r + ROWS, 0 : COLS], other=-inf).to(f32)
    top, z = reduce(join, (v, full(f32[ROWS, COLS], 1.0)), axis=1)
    _, at = reduce(first, (v, full(s64[ROWS, COLS], 0) + arange(COLS).to(s64)[None, :]), axis=1)
    y[r : r + ROWS, 0 : COLS] = (exp(v - top[:, None]) / z[:, None]).to({type})
    place[r : r + ROWS] = at
    mass[r : r + ROWS] = sum(exp(v - top[:, None]), axis=1)
    atomic_add(calls[0], 1)

schedule s of k:
    warps = 2
    {lines}
"""
BLOCKS = "layout v: vector [1, 4], lanes [1, 32], warps [1, 2], blocks [1, {}]"
WAYS = {
    "one part a block": BLOCKS.format(8),
    "parts in registers": "loop v, 1: static 256\n    " + BLOCKS.format(4),
    "parts in shared memory": "loop v, 1: 256\n    stage v: shared\n    " + BLOCKS.format(2),
    "parts that are loaded again": "loop v, 1: 256\n    " + BLOCKS.format(4),
}


def given(type: str, rows: int, cols: int) -> dict[str, np.ndarray]:
    x = (np.random.default_rng(cols).standard_normal((rows, cols)) * 3).astype(NUMPY[type])
    place, mass, calls = np.zeros(rows, np.int64), np.zeros(rows, np.float32), np.zeros(1, np.int32)
    return {"y": np.zeros_like(x), "place": place, "mass": mass, "calls": calls, "x": x}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("type", "rows", "cols"), [("f16", 3, 2048), ("f32", 2, 1999), ("f16", 5, 2047), ("bf16", 1, 9)]
)
def test_blocks_of_a_cluster_compute_a_row_together(way: str, type: str, rows: int, cols: int) -> None:
    args = given(type, rows, cols)
    run(KERNEL.format(lines=WAYS[way], type=type), args, arch="sm_90a")
    wide = args["x"].astype(np.float64)
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    assert np.abs(args["y"].astype(np.float64) - e / e.sum(axis=1, keepdims=True)).max() < 4e-3
    assert (args["place"] == wide.argmax(axis=1)).all()
    np.testing.assert_allclose(args["mass"], e.sum(axis=1), rtol=1e-5)
    assert args["calls"][0] == rows  # only the first block of a cluster counts


def test_several_rows_in_a_cluster() -> None:
    args = given("f32", 5, 1500)
    run(KERNEL.format(lines=WAYS["one part a block"], type="f32"), args, arch="sm_90a", constants={"ROWS": 4})
    assert (args["place"] == args["x"].argmax(axis=1)).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cols", [2048, 2047])
def test_all_levels_agree(way: str, cols: int) -> None:
    program = parse_program(KERNEL.format(lines=WAYS[way], type="f32"), "k.tile")
    args = given("f32", 3, cols)
    args["place"] = np.zeros(3, np.int64)
    found = verify_kernel(program, Request("k", "s", {"rows": 3, "cols": cols}, arch="sm_90a"), args)
    assert found.divergence is None and found.undecided is None


REFUSED = {
    "sm_80 has no clusters of blocks": (BLOCKS.format(2), "sm_80"),
    "4 blocks cannot share 2 parts of 1024 elements equally": (
        "loop v, 1: static 1024\n    " + BLOCKS.format(4),
        "sm_90a",
    ),
    "it is not computed in parts": ("loop v, 1: static 2048\n    " + BLOCKS.format(2), "sm_90a"),
    "has the extent 3": (BLOCKS.format(3), "sm_90a"),
    "is divided among blocks along 2 axes": (BLOCKS.format(2).replace("blocks [1", "blocks [2"), "sm_90a"),
    "they cannot share the grid's tiles, too": (BLOCKS.format(2) + "\n    cluster 2", "sm_90a"),
    "without an axis 2": (BLOCKS.format(2).replace("blocks [1", "blocks [1, 1"), "sm_90a"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message: str) -> None:
    lines, arch = REFUSED[message]
    with pytest.raises(TileError) as error:
        compile_kernel(KERNEL.format(lines=lines, type="f32"), given("f32", 2, 2048), arch=arch)
    assert message in error.value.message and error.value.loc is not None


def test_a_row_in_a_loop_is_refused() -> None:
    text = KERNEL.format(lines=BLOCKS.format(2), type="f32")
    head, body = text.split("    v = load", 1)
    body, tail = body.split("    atomic_add", 1)
    text = head + "    for i in range(2):\n" + indent("    v = load" + body, "    ") + "    atomic_add" + tail
    with pytest.raises(TileError) as error:
        compile_kernel(text, given("f32", 2, 2048), arch="sm_90a")
    assert "it stands in a loop or a branch, and blocks exchange values" in error.value.message
