"""`layout v: …, blocks [1, 4]`: the blocks of a cluster compute a tile together."""

from __future__ import annotations

from textwrap import indent

import numpy as np
import pytest

from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.lowering.ops.memory import writes
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
    args = given("f32", 2, cols)
    args["place"] = np.zeros(2, np.int64)
    found = verify_kernel(program, Request("k", "s", {"rows": 2, "cols": cols}, arch="sm_90a"), args)
    assert found.divergence is None and found.undecided is None


REFUSED = {
    "sm_80 has no clusters of blocks": (BLOCKS.format(2), "sm_80"),
    "4 blocks cannot share 'v', 2048 elements along axis 1, in parts of 1024": (
        "loop v, 1: static 1024\n    " + BLOCKS.format(4),
        "sm_90a",
    ),
    "2 blocks cannot share 'v', 2048 elements along axis 1, in parts of 2048": (
        "loop v, 1: static 2048\n    " + BLOCKS.format(2),
        "sm_90a",
    ),
    "has the extent 3": (BLOCKS.format(3), "sm_90a"),
    "a cluster has 1 to 16 blocks; this has 64": (BLOCKS.format(64), "sm_90a"),
    "are divided among blocks along 2 axes": (BLOCKS.format(2).replace("blocks [1", "blocks [2"), "sm_90a"),
    "they share the grid's tiles in another way": (BLOCKS.format(2) + "\n    cluster 2", "sm_90a"),
    "2 blocks share 'v' along axis 0, and its 'loop' goes along axis 1": (
        "loop v, 1: static 256\n    " + BLOCKS.format(1).replace("blocks [1", "blocks [2"),
        "sm_90a",
    ),
    "'blocks' has 1 extent; the tile has rank 2": (BLOCKS.format(2).replace("blocks [1, ", "blocks ["), "sm_90a"),
    "'y' cannot be stored by TMA: the blocks of a cluster ('blocks') take it in parts": (
        BLOCKS.format(2) + "\n    stage y: tma",
        "sm_90a",
    ),
    "'blocks' has 3 extents; the tile has rank 2": (BLOCKS.format(2).replace("blocks [1", "blocks [1, 1"), "sm_90a"),
}


HINTS = {
    "2 blocks cannot share 'v', 2048 elements along axis 1, in parts of 2048": (
        "loop v, 1: static 1024, or fewer blocks"
    ),
    "2 blocks share 'v' along axis 0, and its 'loop' goes along axis 1": "blocks [1, 2]",
    "'blocks' has 1 extent; the tile has rank 2": "one for each axis: blocks [1, 2]",
    "'y' cannot be stored by TMA: the blocks of a cluster ('blocks') take it in parts": "stage y: shared",
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message: str) -> None:
    lines, arch = REFUSED[message]
    with pytest.raises(TileError) as error:
        compile_kernel(KERNEL.format(lines=lines, type="f32"), given("f32", 2, 2048), arch=arch)
    assert message in error.value.message and error.value.loc is not None
    assert HINTS.get(message) in (error.value.hint, None)


def test_barriers_of_a_cluster_are_no_barriers_of_a_block() -> None:
    """An arrival and a wait counted as two barriers of the block, in contracts, too."""
    text, args = KERNEL.format(lines=WAYS["one part a block"], type="f32"), given("f32", 3, 2048)
    counted = run(text, args, arch="sm_90a").counters.totals
    ptx = compile_kernel(text, args, arch="sm_90a").ptx
    blocks, warps = 3 * 8, 2
    assert counted.barriers == blocks * warps * ptx.count("bar.sync")
    assert counted.cluster_barriers == blocks * warps * ptx.count("barrier.cluster.wait") > 0


def in_block(head: str, type: str, way: str) -> str:
    """The kernel, with the work on its rows in a block that begins with `head`."""
    before, body = KERNEL.format(lines=WAYS[way], type=type).split("    v = load", 1)
    body, tail = body.split("    atomic_add", 1)
    return f"{before}    {head}\n" + indent("    v = load" + body, "    ") + "    atomic_add" + tail


def test_a_row_in_a_branch_is_refused() -> None:
    with pytest.raises(TileError) as error:
        compile_kernel(in_block("if rows > 1:", "f32", "one part a block"), given("f32", 2, 2048), arch="sm_90a")
    assert "it stands in a branch or a while loop, and blocks exchange values" in error.value.message


IN_TURN = """
kernel k(y: {type}[rows, cols], total: f32[cols], x: {type}[rows, cols]; ROWS = {rows}, COLS = {columns}):
    grid 1
    acc, most = zeros(f32[ROWS, COLS]), full(f32[COLS], -1000.0)
    for i in range(cdiv(rows, 2 * ROWS)):
        for j in range(2):
            r = (2 * i + j) * ROWS
            v = x[r : r + ROWS, 0 : COLS].to(f32)
            a, b = sum(v, axis=1, keepdims=true), max(v, axis=1, keepdims=true)
            y[r : r + ROWS, 0 : COLS] = (v * a - b).to({type})
            acc, most = acc + v, maximum(most, max(v, axis=0))
    total[0 : COLS] = sum(acc, axis=0) + most

schedule s of k:
    warps = 2
    {lines}
"""
IN_LOOPS = {
    "one part": (1, 512, "layout v: vector [1, 4], lanes [1, 32], warps [1, 2], blocks [1, 2]"),
    "three parts": (1, 768, "loop v, 1: static 256\n    layout v: vector [1, 4], lanes [1, 32], warps [1, 2]"),
    "three parts of two blocks": (
        2, 768, "loop v, 1: static 128\n    layout v: vector [1, 4], lanes [1, 32], warps [2, 1], blocks [1, 2]",
    ),
    "iterations at once": (
        2, 512, "unroll j: 2\n    layout v: vector [1, 4], lanes [1, 32], warps [2, 1], blocks [1, 2]",
    ),
    "copies that run ahead": (
        4, 512, "loop v, 1: static 64\n    stage x: shared\n    pipeline i, j: 2\n"
        "    layout v: vector [1, 4], lanes [2, 16], warps [2, 1], blocks [1, 4]",
    ),
}  # fmt: skip


def expected(x: np.ndarray) -> dict[str, np.ndarray]:
    wide = x.astype(np.float64)
    return {"y": wide * wide.sum(1, keepdims=True) - wide.max(1, keepdims=True), "total": wide.sum(0) + wide.max(0)}


@pytest.mark.parametrize("way", IN_LOOPS)
@pytest.mark.parametrize(("type", "rows"), [("f32", 47), ("f16", 12)])
def test_a_loop_carries_tiles_of_rows(way: str, type: str, rows: int) -> None:
    # 47 rows one by one are more exchanges than the shared tile has room for
    together, columns, lines = IN_LOOPS[way]
    text = IN_TURN.format(type=type, rows=together, columns=columns, lines=lines)
    for cols in (columns, columns - 5):
        x = np.random.default_rng(cols).integers(-3, 4, (rows, cols)).astype(NUMPY[type])
        args = {"y": np.zeros_like(x), "total": np.zeros(cols, np.float32), "x": x}
        run(text, args, arch="sm_90a")
        for name, want in expected(x).items():
            np.testing.assert_array_equal(args[name].astype(np.float64), want.astype(args[name].dtype))


@pytest.mark.long
@pytest.mark.parametrize("way", IN_LOOPS)
def test_all_levels_agree_in_loops(way: str) -> None:
    together, columns, lines = IN_LOOPS[way]
    program = parse_program(IN_TURN.format(type="f32", rows=together, columns=columns, lines=lines), "k.tile")
    x = np.random.default_rng(1).integers(-3, 4, (9, columns - 5)).astype(np.float32)
    args = {"y": np.zeros_like(x), "total": np.zeros(columns - 5, np.float32), "x": x}
    request = Request("k", "s", {"rows": 9, "cols": columns - 5}, arch="sm_90a")
    found = verify_kernel(program, request, args)
    assert found.divergence is None and found.undecided is None


def test_the_named_tile_is_gone_before_its_users_are_computed_in_parts() -> None:
    # `v` only says which tiles go together: nothing reads `seen`
    text = IN_TURN.format(type="f32", rows=1, columns=256, lines=BLOCKS.format(2)).replace(
        "v = x[r : r + ROWS, 0 : COLS].to(f32)\n", "w = x[r : r + ROWS, 0 : COLS]\n            v = w * 2.0\n"
    )
    text = text.replace("(v, ", "(w, ").replace("(v * a", "(w * a").replace("acc + v", "acc + w")
    x = np.random.default_rng(1).integers(-3, 4, (6, 256)).astype(np.float32)
    args = {"y": np.zeros_like(x), "total": np.zeros(256, np.float32), "x": x}
    run(text, args, arch="sm_90a")
    for name, want in expected(x).items():
        np.testing.assert_array_equal(args[name], want.astype(np.float32))


def test_rows_whose_masks_are_the_same_for_all_columns() -> None:
    lines = "layout v: vector [1, 4], lanes [8, 4], warps [2, 1], blocks [1, 2]"
    text = IN_TURN.format(type="f32", rows=16, columns=64, lines=lines).replace("cols]", "64]")
    x = np.random.default_rng(1).integers(-3, 4, (90, 64)).astype(np.float32)
    args = {"y": np.zeros_like(x), "total": np.zeros(64, np.float32), "x": x}
    run(text, args, arch="sm_90a")
    for name, want in expected(x).items():
        np.testing.assert_array_equal(args[name], want.astype(np.float32))


ROWS = """
def both(a, i, b, j):
    return a + b, i + j

kernel k(y: f32[rows, cols], m: f32[rows], x: f32[rows, cols]; COLS = 1024):
    grid rows
    r = block(0)
    v = x[r : r + 1, 0 : COLS]
{body}

schedule s of k:
    warps = 2
    layout v: vector [1, 4], lanes [1, 32], warps [1, 2], blocks [1, 4]
"""
UNSAFE = {
    "what 'atomic' returns": "s = atomic_add(m[r], 1.0)\ny[r : r + 1, 0 : COLS] = v - s",
    "'m' is written": "m[r : r + 1] = sum(v, axis=1)\ns = m[r]\ny[r : r + 1, 0 : COLS] = v - s",
    "'y' is written": "y[r : r + 1, 0 : COLS] = v\ny[r, COLS - 1] = 5.0",
    "'x' is written": "top = max(v, axis=1)\ns = x[r, 0]\nx[r : r + 1, 0 : COLS] = v - top[:, None] - s",
    "each of them would do 'print'": "m[r : r + 1] = sum(v, axis=1)\nprint(r)",
    "the kernel has a matrix product": "w = x[0 : 64, 0 : 64].to(f16)\nm[r] = sum(dot(w, w.T)) + sum(v)",
}


@pytest.mark.parametrize("message", UNSAFE)
def test_what_blocks_would_do_differently_is_refused(message: str) -> None:
    with pytest.raises(TileError) as error:
        compile_kernel(ROWS.format(body=indent(UNSAFE[message], "    ")), rows_of(1024), arch="sm_90a")
    assert message in error.value.message and "blocks cannot compute 'v' together" in error.value.message


def rows_of(cols: int) -> dict[str, np.ndarray]:
    x = np.random.default_rng(0).integers(-9, 10, (3, cols)).astype(np.float32)
    return {"y": np.zeros_like(x), "m": np.zeros(3, np.float32), "x": x}


@pytest.mark.parametrize("cols", [1023, 1024, 700])
def test_a_join_without_a_neutral_number(cols: int) -> None:
    """Rows at odd places: positions of a part without a column must not be joined."""
    body = "_, n = reduce(both, (v, full(f32[1, COLS], 1.0)), axis=1)\nm[r : r + 1] = n\ny[r : r + 1, 0 : COLS] = v"
    args = rows_of(cols)
    run(ROWS.format(body=indent(body, "    ")), args, arch="sm_90a")
    assert (args["m"] == 1024).all() and (args["y"] == args["x"]).all()


@pytest.mark.parametrize("line", ["", "loop q, 1: static 256", "loop q, 1: 256"])
def test_the_first_block_stores_another_tile(line: str) -> None:
    body = "m[r : r + 1] = sum(v, axis=1)\nq = x[0 : 1, 0 : 1024]\ny[r : r + 1, 0 : 1024] = q - max(q, axis=1)[:, None]"
    args = rows_of(1023)
    run(ROWS.format(body=indent(body, "    ")) + f"    {line}\n", args, arch="sm_90a")
    assert (args["m"] == args["x"].sum(1)).all()
    assert (args["y"] == args["x"][:1] - args["x"][0].max()).all()


def test_a_tile_in_a_branch_that_is_not_taken_is_not_divided() -> None:
    body = (
        "m[r : r + 1] = sum(v, axis=1)\nif COLS == 8:\n    w = x[r : r + 1, 0 : COLS]\n    y[r : r + 1, 0 : COLS] = w"
    )
    args = rows_of(1024)
    text = ROWS.format(body=indent(body, "    ")).replace("layout v:", "layout w:")
    assert compile_kernel(text, args, arch="sm_90a").variant.function.blocks_of_cluster == 1
    run(text, args, arch="sm_90a")
    assert (args["m"] == args["x"].sum(1)).all()


def test_blocks_arrive_ahead_of_the_last_stores() -> None:
    """An arrival waits for the stores before it."""
    together, columns, lines = IN_LOOPS["copies that run ahead"]
    text = IN_TURN.format(type="f32", rows=together, columns=columns, lines=lines)
    args = {"y": np.zeros((9, columns), np.float32), "total": np.zeros(columns, np.float32)}
    body = compile_kernel(text, args | {"x": args["y"]}, arch="sm_90a").variant.function.body
    names = [op.name for op in body.ops if op.spec.acts == "exchanges" or writes(op)]
    assert set(names[names.index("cluster_leave") + 1 : -1]) == {"store"} and names[-1] == "cluster_wait"
