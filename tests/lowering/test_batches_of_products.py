"""Products with a batch axis: all instructions, layouts along the batch, transposed operands, edges, pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from dsl.lowering.layouts.layout import Layout, LayoutError
from dsl.lowering.machine.tensor_cores import Mma, accumulator, instructions, product
from tests.compile_and_run import compile_kernel, launch
from tests.lowering.test_tensor_cores import NUMPY, STORED, formula, numbers
from tests.whole import some

M16N8K16 = next(i for i in instructions() if i.name == "mma.sync.m16n8k16.f32.f16.f16.f32")
OF_INSTRUCTION = """
kernel k(d: C[h, m, n], c: C[h, m, n], a: A[h, m, ka], b: B[h, n, kb]; C in {c}, A in {a}, B in {b}, M, N, KA, KB):
    grid 1
    left, right = a[0 : 4, 0 : M, 0 : KA], b[0 : 4, 0 : N, 0 : KB]
    store(d[0 : 4, 0 : M, 0 : N], {name}({left}, transpose({right}, [0, 2, 1]), c[0 : 4, 0 : M, 0 : N]))

schedule s of k:
    M, N, KA, KB = {m}, {n}, {ka}, {kb}
    warps = 2
"""


@pytest.mark.parametrize("instruction", some(instructions(), 9), ids=lambda i: i.name)
def test_every_instruction_multiplies_each_matrix_of_a_batch(instruction: Mma) -> None:
    """Two matrices for each of two warps; exact, because the numbers are small integers."""
    random = np.random.default_rng(7)
    m, n, k = instruction.m, 2 * instruction.n, 2 * instruction.k
    (a, exact_a), (b, exact_b) = (numbers(random, t, (4 * e, k)) for t, e in ((instruction.a, m), (instruction.b, n)))
    c = random.integers(-9, 10, (4, m, n)).astype(np.int64)
    name = f"mma.sync.{instruction.shape}" + f".{instruction.modifier}" * bool(instruction.modifier)
    operands = [
        f"bitcast({v}, {t})" if t in STORED else v for v, t in (("left", instruction.a), ("right", instruction.b))
    ]
    text = OF_INSTRUCTION.format(
        c=instruction.c, a=STORED.get(instruction.a, instruction.a), b=STORED.get(instruction.b, instruction.b),
        name=name, left=operands[0], right=operands[1], m=m, n=n, ka=a.shape[1], kb=b.shape[1],
    )  # fmt: skip
    args = {"d": np.zeros((4, m, n), NUMPY[instruction.c]), "c": c.astype(NUMPY[instruction.c])}
    args |= {"a": a.reshape(4, m, -1), "b": b.reshape(4, n, -1)}
    kernel = compile_kernel(text, args, arch=instruction.row.target if instruction.row.arch > 80 else "sm_80")
    launch(kernel, args)
    for i, (left, right) in enumerate(zip(exact_a.reshape(4, m, k), exact_b.reshape(4, n, k), strict=True)):
        assert np.array_equal(args["d"][i].astype(np.float64), formula(instruction, left, right, c[i]).astype(float))
    (dot,) = (op for op in kernel.ops if op.name == "dot")
    assert (
        dot.attrs["instruction"] is instruction and dot.result.tile.layout.axis_mask(0) & dot.result.tile.layout.warp[0]
    )


@pytest.mark.parametrize(("warps", "near"), [((1, 2, 2), (1, 1)), ((4, 1, 1), (1, 4)), ((2, 2, 1), (1, 1))], ids=str)
def test_warps_have_whole_products_or_parts_of_them(warps: tuple[int, ...], near: tuple[int, int]) -> None:
    """The operands of a warp are the rows and columns of its accumulators, of the same products."""
    layout = accumulator(M16N8K16, (4, 32, 16), warps, near)
    spread = product(M16N8K16, layout, 32)
    assert spread is not None and spread.c is layout and 1 << len(spread.batch) == 4 // warps[0]

    def held(layout: Layout, warp: int, *axes: int) -> set[tuple[int, ...]]:
        layout.invert()
        places = (layout.place(warp=warp, lane=lane) ^ r for lane in range(32) for r in layout.offsets)
        return {tuple(layout.coordinates(place)[axis] for axis in axes) for place in places}

    for warp in range(1 << len(layout.warp)):
        assert held(layout, warp, 0, 1) == held(spread.a, warp, 0, 1)
        assert held(layout, warp, 0, 2) == held(spread.b, warp, 0, 2)


def test_lanes_cannot_lie_along_a_batch() -> None:
    lanes = Layout.registers((2, 16, 8), [1, 64], [2, 4, 8, 16, 128], [32])
    assert product(M16N8K16, lanes, 16) is None
    with pytest.raises(LayoutError, match="4 warps lie along a batch of 2 products"):
        accumulator(M16N8K16, (2, 16, 8), (4, 1, 1))


HEADS = """
kernel heads(d: f32[h, m, n], a: {t}[h, m, k], b: {t}[h, {b}]; H = 8, M = 16, N = 16, K = 32):
    grid cdiv(h, H)
    i = block(0) * H
    acc = zeros({c}[H, M, N])
    for p in range(0, k, K):
        x = a[i : i + H, 0 : M, p : p + K]
        y = {y}
        acc = dot(x, y, acc)
    d[i : i + H, 0 : M, 0 : N] = acc.to(f32)
schedule s of heads:
    {lines}
"""
NAMES = {np.float16: "f16", np.int8: "s8"}
ROWS, COLUMNS = "b[i : i + H, p : p + K, 0 : N]", "transpose(b[i : i + H, 0 : N, p : p + K], [0, 2, 1])"


def checked(b: str, lines: str, shape: tuple[int, ...], dtype: Any = np.float16, **request: Any) -> tuple[Any, Any]:
    """Runs small products of heads; shape is (h, m, n, k)."""
    (h, m, n, k), random = shape, np.random.default_rng(3)
    left, right = random.integers(-4, 5, (h, m, k)).astype(dtype), random.integers(-4, 5, (h, k, n)).astype(dtype)
    text = HEADS.format(
        b="n, k" if b == COLUMNS else "k, n", y=b, lines=lines, t=NAMES[dtype], c="s32" if dtype is np.int8 else "f32"
    )
    args = {"d": np.zeros((h, m, n), np.float32), "a": left, "b": right}
    if b == COLUMNS:
        args["b"] = np.ascontiguousarray(right.transpose(0, 2, 1))
    kernel = compile_kernel(text, args, **request)
    result = launch(kernel, args)
    assert np.array_equal(args["d"], left.astype(np.float32) @ right.astype(np.float32))
    return kernel, result.counters.totals


STAGED = "stage a, b: shared\n    pipeline p: 2\n    "


@pytest.mark.long
@pytest.mark.parametrize(
    ("b", "lines", "shape"),
    [
        (COLUMNS, "warps = 4", (9, 16, 16, 32)),
        (ROWS, "warps = 2\n    layout acc: warps [1, 1, 2]", (8, 16, 16, 32)),
        (ROWS, "warps = 4\n    instruction acc: mma.sync.m16n8k8", (8, 16, 16, 32)),
        (ROWS, "warps = 4", (9, 13, 11, 30)),  # edges along all axes
        (ROWS, STAGED + "warps = 4", (9, 16, 16, 64)),
        (COLUMNS, STAGED + "warps = 2\n    layout acc: warps [2, 1, 1], contiguous [1, 1, 2]", (8, 16, 16, 64)),
        (COLUMNS, STAGED + "warps = 2\n    stage d: shared", (8, 16, 16, 64)),
        (ROWS, "warps = 32", (8, 16, 16, 16)),  # more than products and their columns: some hold the same
    ],
)
def test_small_products_of_heads(b: str, lines: str, shape: tuple[int, ...]) -> None:
    kernel, counters = checked(b, lines, shape, arch="sm_90")
    if STAGED in lines:
        assert kernel.count("ldmatrix") and counters.bank_conflicts == 0


def test_a_batch_of_bytes_comes_by_tma() -> None:
    lines = "stage a, b: tma\n    pipeline p: 2\n    warps = 4"
    kernel, _ = checked(COLUMNS, lines, (16, 16, 16, 64), np.int8, arch="sm_90a")
    assert "cp.async.bulk.tensor" in kernel.ptx and "ldmatrix" in kernel.ptx


ATTENTION = """
kernel small(o: f32[h, 16, 32], q: f16[h, 16, 32], k: f16[h, 16, 32], v: f16[h, 16, 32]; H = 4):
    grid cdiv(h, H)
    i = block(0) * H
    s = q[i : i + H, 0 : 16, 0 : 32] @ transpose(k[i : i + H, 0 : 16, 0 : 32], [0, 2, 1])
    e = s - max(s, axis=2, keepdims=true)
    o[i : i + H, 0 : 16, 0 : 32] = e.to(f16) @ v[i : i + H, 0 : 16, 0 : 32]
"""


def test_a_batch_multiplies_a_batch_in_its_registers() -> None:
    random = np.random.default_rng(5)
    args = {name: random.integers(-2, 3, (6, 16, 32)).astype(np.float16) for name in "qkv"}
    args["o"] = np.zeros((6, 16, 32), np.float32)
    kernel = compile_kernel(ATTENTION, args)
    launch(kernel, args)
    q, k, v = (args[name].astype(np.float32) for name in "qkv")
    s = q @ k.transpose(0, 2, 1)
    assert np.array_equal(args["o"], (s - s.max(2, keepdims=True)) @ v)
    assert kernel.count("shared_alloc") == 0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("instruction acc: wgmma", "product 'acc' cannot be one of warp groups: it has a batch axis"),
        ("layout acc: warps [4, 1]", "'warps' has 2 extents; the tile has rank 3"),
        ("layout acc: warps [4, 1, 1], contiguous [2, 1, 1]", "elements along a batch axis are not neighbours"),
        ("layout acc: vector [1, 1, 1], lanes [2, 4, 4], warps [4, 1, 1]", "cannot have this layout"),
        ("layout acc: warps [1, 4, 1]", "4 warps of m16n8k16 need 64 rows; the tile has 16"),
    ],
)
def test_lines_that_a_batch_cannot_follow(lines: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        checked(ROWS, lines, (8, 16, 16, 32), arch="sm_90a")
    assert message in str(caught.value) and caught.value.loc is not None
