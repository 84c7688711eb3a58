"""Persistent blocks and clusters compute rows one after another. What all rows read stays in registers."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.kernels.variant import Request
from dsl.lowering.directives.slices import inside
from dsl.lowering.plan.tile_loads import is_load
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import NUMPY, compile_kernel, launch, run
from tests.run_meaning import grid_of

KERNEL = """
kernel k(y: {type}[rows, cols], x: {type}[rows, cols], weight: {type}[cols]; ROWS = 1, COLS = {columns}):
    grid cdiv(rows, ROWS)
    r = block(0) * ROWS
    v = x[r : r + ROWS, 0 : COLS].to(f32)
    y[r : r + ROWS, 0 : COLS] = (sum(v, axis=1, keepdims=true) - v * weight[0 : COLS].to(f32)[None, :]).to({type})

schedule s of k:
    warps = 2
    persistent 1
    specialize cols: true
    {lines}
"""
LAYOUT = "layout v: vector [1, {}], lanes [1, 32], warps [1, 2], blocks [1, {}]"
AHEAD = "\n    stage x: shared\n    pipeline tile: 2"
WHOLE = "loop v, 1: static 128\n    align v: {}\n    "
WAYS = {
    "a block": (256, WHOLE.format(1) + LAYOUT.format(2, 1)),
    "copies ahead": (256, WHOLE.format(1) + LAYOUT.format(2, 1) + AHEAD),
    "a cluster": (512, WHOLE.format(1) + LAYOUT.format(2, 2)),
    "copies ahead of a cluster": (512, WHOLE.format(1) + LAYOUT.format(2, 4) + AHEAD),
    "rows begin anywhere": (256, WHOLE.format("where(cols % 2 > 0, 2, 1)") + LAYOUT.format(2, 1) + AHEAD),
    "rows of a cluster begin anywhere": (
        512,
        WHOLE.format("where(cols % 2 > 0, 2, 1)") + LAYOUT.format(2, 2) + AHEAD,
    ),
}


def given(type: str, rows: int, cols: int) -> dict[str, np.ndarray]:
    source = np.random.default_rng(cols)
    x, weight = (source.integers(-3, 4, shape).astype(NUMPY[type]) for shape in ((rows, cols), (cols,)))
    return {"y": np.zeros_like(x), "x": x, "weight": weight}


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("type", "rows"), [("f32", 301), ("f16", 150)])
def test_blocks_take_rows_in_turn(way: str, type: str, rows: int) -> None:
    columns, lines = WAYS[way]
    for cols in (columns, columns - 5):
        args = given(type, rows, cols)
        run(KERNEL.format(type=type, columns=columns, lines=lines), args, arch="sm_90a")
        x, weight = args["x"].astype(np.float64), args["weight"].astype(np.float64)
        np.testing.assert_array_equal(args["y"], (x.sum(1, keepdims=True) - x * weight).astype(NUMPY[type]))


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_all_levels_agree(way: str) -> None:
    columns, lines = WAYS[way]
    program = parse_program(KERNEL.format(type="f32", columns=columns, lines=lines), "k.tile")
    request = Request("k", "s", {"rows": 140, "cols": columns - 5}, arch="sm_90a")
    found = verify_kernel(program, request, given("f32", 140, columns - 5))
    assert found.divergence is None and found.undecided is None


@pytest.mark.parametrize("way", WAYS)
def test_weights_are_loaded_once(way: str) -> None:
    columns, lines = WAYS[way]
    args = given("f32", 301, columns - 5)
    kernels = [
        compile_kernel(KERNEL.format(type="f32", columns=columns, lines=lines + more), args, arch="sm_90a")
        for more in ("", "\n    choose reload.weight: where(cols > 0, always, once)")
    ]
    found = []
    for kernel in kernels:
        loop = next(op for op in kernel.ops if op.attrs.get("tiles"))
        found.append([op in inside(loop) for op in kernel.ops if is_load(op) and op.operands[0].name == "weight"])
    assert found[0] and not any(found[0]) and any(found[1])


def test_tiles_of_a_block_are_multiples_apart() -> None:
    """132 multiprocessors take 301 rows. A block of a grid of 131 would take odd and even ones."""
    columns, lines = WAYS["rows begin anywhere"]
    text = KERNEL.format(type="f32", columns=columns, lines=lines)
    for rows, blocks in ((301, 132), (131, 132), (7, 8)):
        args = given("f32", rows, 251)
        kernel = compile_kernel(text, args, arch="sm_90a")
        launch(kernel, args)
        assert grid_of(kernel.variant, args) == (blocks, 1, 1)


@pytest.mark.parametrize("bounds", ["0, n", "n, 0, -1", "n + 4, 4, -3"])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_loads_ahead_of_loops_up_and_down(bounds: str, n: int) -> None:
    """A loop without iterations loads nothing: its elements are outside of the tensor there."""
    text = f"""
kernel k(y: f32[32], w: f32[c], n: s32, first: s32):
    grid 1
    total = zeros(f32[32])
    for i in range({bounds}):
        total = total + w[first : first + 32] * (i + 1).to(f32)
    y[0:32] = total

schedule s of k:
    warps = 1
    choose reload.w: once
"""
    w = np.arange(32, dtype=np.float32)
    args = {"y": np.ones(32, np.float32), "w": w, "n": n, "first": 0 if n else 1 << 20}
    run(text, args, arch="sm_90a")
    np.testing.assert_array_equal(args["y"], w * sum(i + 1 for i in eval(f"range({bounds})")))


@pytest.mark.parametrize("lines", ["", "instruction acc: wgmma", "instruction acc: wgmma\n    stage a, b, bias: tma"])
def test_operands_of_products_stay_in_their_loop(lines: str) -> None:
    """All tiles load the same of b and bias. But copies of products and of TMA are made in a loop."""
    text = f"""
kernel k(c: f32[m, n], a: f16[m, k], b: f16[n, k], bias: f32[n]; TM = 64, TN = 64, TK = 64):
    grid cdiv(m, TM)
    i = block(0) * TM
    acc = dot(a[i : i + TM, 0 : TK], b[0 : TN, 0 : TK].T)
    c[i : i + TM, 0 : TN] = acc + bias[0 : TN][None, :]

schedule s of k:
    warps = 4
    persistent 1
    {lines}
"""
    source = np.random.default_rng(5)
    a, b = (source.integers(-3, 4, shape).astype(np.float16) for shape in ((400, 64), (64, 64)))
    args = {"c": np.zeros((400, 64), np.float32), "a": a, "b": b, "bias": np.arange(64, dtype=np.float32)}
    kernel = compile_kernel(text, args, arch="sm_90a")
    launch(kernel, args)
    np.testing.assert_array_equal(args["c"], a.astype(np.float32) @ b.T.astype(np.float32) + args["bias"])
    assert not any(is_load(op) and op.operands[0].name == "b" for op in kernel.ops)
    assert ("wgmma" in lines) == ("cp.async.bulk.tensor" in kernel.ptx)
