"""`split p: N, cluster`: the blocks of a cluster share the iterations of a loop, and each joins a part of the sums."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsl
from dsl.kernels.compile import compile_variant
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import PASSES
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import compile_kernel
from tests.lowering.test_split import PRODUCT, kernel_of, operands
from tests.random_directives.hopper_trying import request_of

WGMMA = "TM, TN, TK, warps = {rows}, {columns}, 64, {warps}\n    instruction acc: wgmma"


@pytest.mark.long
@pytest.mark.parametrize(
    ("type", "parts", "m", "n", "k"),
    [
        ("f16", 2, 70, 50, 300), ("s8", 3, 70, 50, 300), ("f16", 4, 64, 17, 97), ("s8", 8, 33, 16, 300),
        ("f16", 16, 32, 16, 97), ("s8", 2, 1, 1, 1), ("f16", 3, 20, 20, 0), ("s8", 4, 20, 20, 40),
    ],
)  # fmt: skip
def test_a_product_of_several_blocks_a_tile(type: str, parts: int, m: int, n: int, k: int) -> None:
    """Also where a tile has fewer iterations than parts, or none. Three blocks share no tile of 32 x 16: each joins all
    sums, and the first one stores them."""
    args = operands(m, n, k, type)
    kernel = kernel_of(PRODUCT.format(iterations="0, k, TK", parts=f"{parts}, cluster"), args)
    found = kernel.run(**args)
    assert found.grid == (-(-m // 32) * parts, -(-n // 16), 1) and not found.findings
    assert np.array_equal(args["c"], args["a"].astype(np.int32) @ args["b"].astype(np.int32).T)
    assert "st.async" in kernel.ptx and "atom" not in kernel.ptx


@pytest.mark.parametrize(
    ("parts", "cut", "what"),
    [(3, "16, 16", "has all of it"), (2, "16, 16", "joins a part of it"), (2, "32, 8", "joins a part of it")],
)
def test_a_tile_that_blocks_share_has_no_subtiles(parts: int, cut: str, what: str) -> None:
    text = PRODUCT.format(iterations="0, k, TK", parts=f"{parts}, cluster") + f"    subtile acc: {cut}\n"
    message = f"'acc' cannot be done in parts: the blocks of a cluster share it, and each {what}"
    with pytest.raises(TileError, match=message) as told:
        kernel_of(text, operands(33, 20, 96))
    assert told.value.loc is not None and text.splitlines()[told.value.loc.line - 1] == f"    subtile acc: {cut}"


def test_the_same_bits_in_each_run() -> None:
    random = np.random.default_rng(0)
    args: dict[str, Any] = {"c": np.zeros((33, 20), np.float32)}
    args |= {name: random.standard_normal((rows, 200)).astype(np.float16) for name, rows in (("a", 33), ("b", 20))}
    kernel = kernel_of(PRODUCT.format(iterations="0, k, TK", parts="4, cluster"), args)
    made = set()
    for seed in range(3):
        args["c"][:] = 0
        kernel.run(**args, seed=seed)
        made.add(args["c"].tobytes())
    assert len(made) == 1
    assert np.allclose(args["c"], args["a"].astype(float) @ args["b"].astype(float).T, atol=1e-3)


@pytest.mark.parametrize("iterations", ["32, k, TK", "0, minimum(k, i + TK), TK"])
@pytest.mark.parametrize("lines", ["", "pipeline p: 3", "unroll p: 2", "stage a, b: registers", "peel p", "l2_group 4"])
def test_other_directives_of_the_shorter_loop(iterations: str, lines: str) -> None:
    """All blocks of a cluster have one `block(0)`, so the loop may depend on it."""
    args = operands(70, 40, 210)
    text = PRODUCT.format(iterations=iterations, parts="2, cluster") + (f"    {lines}\n" if lines else "")
    kernel_of(text, args).run(**args)
    wanted = np.zeros((70, 40))
    for i in range(0, 70, 32):
        first, last = (32, 210) if iterations.startswith("32") else (0, min(210, i + 32))
        wanted[i : i + 32] = args["a"][i : i + 32, first:last].astype(float) @ args["b"][:, first:last].astype(float).T
    assert np.array_equal(args["c"], wanted)


@pytest.mark.long
@pytest.mark.parametrize(
    ("rows", "columns", "warps", "parts"),
    [(128, 128, 8, 2), (64, 96, 4, 3), (128, 192, 8, 2), (64, 80, 4, 5), (80, 64, 4, 5), (64, 64, 4, 4)],
)
def test_products_of_warp_groups(rows: int, columns: int, warps: int, parts: int) -> None:
    """A tile of 192 columns has six parts of 32 for two blocks. That of 80 rows is computed transposed."""
    text = PRODUCT.replace("warps = 2", WGMMA.format(rows=rows, columns=columns, warps=warps))
    m, n, k = 2 * rows - 8, columns + 24, 64 * parts + 40
    args, program = operands(m, n, k), parse_program(text.format(iterations="0, k, TK", parts=f"{parts}, cluster"))
    module = dsl.Module(program, "emulator", "sm_90a")
    kernel = module.compile("product", types={"T": "f16", "O": "f32"}, m=m, n=n, k=k)
    found = kernel.run(**args)
    assert not found.findings and "wgmma.mma_async" in kernel.ptx and "cp.async.bulk.tensor" in kernel.ptx
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ args["b"].astype(np.float32).T)


def test_threads_give_and_take_16_bytes_side_by_side() -> None:
    """128 x 128 sums of 256 threads: 32 for the other block, and the stores of a warp are contiguous."""
    text = PRODUCT.replace("warps = 2", WGMMA.format(rows=128, columns=128, warps=8))
    program = parse_program(text.format(iterations="0, k, TK", parts="2, cluster"))
    module = dsl.Module(program, "emulator", "sm_90a")
    kernel = module.compile("product", types={"T": "f16", "O": "f32"}, m=128, n=128, k=256)
    assert kernel.ptx.count("st.async") == 2 * 8 == kernel.ptx.count("complete_tx::bytes.v4.b32")
    assert kernel.ptx.count("ld.shared.v4.b32") == 2 * 8


SOFTMAX = """
def meet(a, b):
    top = maximum(a[0], b[0])
    x, y = exp(a[0] - top), exp(b[0] - top)
    return top, a[1] * x + b[1] * y, a[2] * x[:, None] + b[2] * y[:, None]

kernel weighted(o: f32[r, d], x: f32[r, t], v: f32[t, d]; TM = 16, D = 32, TN = 16):
    grid cdiv(r, TM)
    i = block(0) * TM
    m, l, acc = full(f32[TM], -3e38), zeros(f32[TM]), zeros(f32[TM, D])
    for j in range(0, t, TN):
        s = load(x[i : i + TM, j : j + TN], other=-inf)
        top = maximum(m, max(s, axis=1))
        e, shrink = exp(s - top[:, None]), exp(m - top)
        m, l = top, l * shrink + sum(e, axis=1)
        acc = acc * shrink[:, None] + sum(e[:, :, None] * v[j : j + TN, 0 : D][None, :, :], axis=1)
    m, l, acc = joined(meet, (m, l, acc))
    o[i : i + TM, 0 : D] = acc / l[:, None]

schedule s of weighted:
    warps = 2
    split j: {parts}
"""


@pytest.mark.long
@pytest.mark.parametrize("parts", [2, 4, 8])
def test_parts_that_a_function_joins(parts: int) -> None:
    """The maxima and sums go to all blocks. Each block joins its own columns of the weighted sum."""
    random = np.random.default_rng(1)
    x, v = random.standard_normal((40, 200), np.float32), random.standard_normal((200, 32), np.float32)
    args = {"o": np.full((40, 32), 7, np.float32), "x": x, "v": v}
    kernel = kernel_of(SOFTMAX.format(parts=f"{parts}, cluster"), args)
    found = kernel.run(**args)
    e = np.exp(x - x.max(1, keepdims=True).astype(float))
    assert not found.findings and np.allclose(args["o"], e / e.sum(1, keepdims=True) @ v, atol=1e-5)
    made = compile_kernel(SOFTMAX.format(parts=f"{parts}, cluster"), args).variant.function.choices.keyed()
    assert made["divide.j"].taken == "axis 1"


def test_a_function_that_mixes_columns_joins_whole_tiles() -> None:
    """Its parts cannot be joined apart, so each block joins all, and the first one stores."""
    mixed = "(a[2] + 0 * sum(b[2], axis=1, keepdims=true)) * x[:, None] +"
    text = SOFTMAX.format(parts="2, cluster").replace("a[2] * x[:, None] +", mixed)
    x, v = np.ones((20, 64), np.float32), np.ones((64, 32), np.float32)
    args = {"o": np.zeros((20, 32), np.float32), "x": x, "v": v}
    kernel = compile_kernel(text, args)
    kernel_of(text, args).run(**args)
    assert np.allclose(args["o"], 1) and kernel.variant.function.choices.keyed()["divide.j"].taken == "whole"


OF_ITS_OWN = {
    "a reduction": ("top = maximum(a[0], b[0])", "top = maximum(a[0], b[0]) + 0.0 * sum(a[1])"),
    "a loop": ("top = maximum(a[0], b[0])", "top = a[0]\n    for q in range(2):\n        top = maximum(top, b[0])"),
    "a branch that reads columns": (
        "    return top",
        "    c = a[2]\n    if max(a[0]) > 3.0:\n        c = a[2] * 1.0\n    return top",
    ),
}


@pytest.mark.parametrize("way", OF_ITS_OWN)
def test_a_function_with_loops_branches_and_reductions(way: str) -> None:
    """Those that read no columns are computed whole, with their regions; they came without."""
    old, new = OF_ITS_OWN[way]
    text = (
        SOFTMAX.format(parts="2, cluster")
        .replace(old, new)
        .replace("a[2] * x[", "c * x[" if "c =" in new else "a[2] * x[")
    )
    x, v = np.random.default_rng(1).standard_normal((20, 64), np.float32), np.ones((64, 32), np.float32)
    args = {"o": np.zeros((20, 32), np.float32), "x": x, "v": v}
    kernel_of(text, args).run(**args)
    taken = compile_kernel(text, args).variant.function.choices.keyed()["divide.j"].taken
    assert np.allclose(args["o"], 1) and taken == ("whole" if "columns" in way else "axis 1")


TWO_WIDTHS = """
def meet(a, b):
    return a[0] + b[0], a[1] + b[1]

kernel sums(c: f32[m, n], d: f32[m, l], a: f16[m, k], x: f16[n, k], y: f16[l, k]; TM = 16, TK = 16):
    grid cdiv(m, TM)
    i = block(0) * TM
    one, two = zeros(f32[TM, 16]), zeros(f32[TM, 32])
    for p in range(0, k, TK):
        one = dot(a[i : i + TM, p : p + TK], x[0:16, p : p + TK].T, one)
        two = dot(a[i : i + TM, p : p + TK], y[0:32, p : p + TK].T, two)
    one, two = joined(meet, (one, two))
    c[i : i + TM, 0:16] = one
    d[i : i + TM, 0:32] = two

schedule s of sums:
    warps = 1
    split p: 2, cluster
"""


def test_a_function_of_tiles_of_two_widths() -> None:
    """Their columns have parts of two extents, and their rows one."""
    random = np.random.default_rng(3)
    a, x, y = (random.integers(-4, 5, (rows, 70)).astype(np.float16) for rows in (20, 16, 32))
    args = {"c": np.zeros((20, 16), np.float32), "d": np.zeros((20, 32), np.float32), "a": a, "x": x, "y": y}
    kernel_of(TWO_WIDTHS, args).run(**args)
    assert np.array_equal(args["c"], a.astype(float) @ x.astype(float).T)
    assert np.array_equal(args["d"], a.astype(float) @ y.astype(float).T)
    chosen = compile_kernel(TWO_WIDTHS, args).variant.function.choices.keyed()["divide.p"]
    assert chosen.options[0] == "axis 0"


TOTAL = """
kernel total(out: f32[rows], x: f32[rows, cols]; N = 256):
    grid rows
    r = block(0)
    s = zeros(f32[N])
    for i in range(0, cols, N):
        s = s + x[r, i : i + N]
    out[r] = sum(s)

schedule s of total:
    warps = 2
    split i: 4, cluster
"""


def test_a_scalar_that_all_blocks_join_and_the_first_one_stores() -> None:
    x = np.arange(3 * 2000, dtype=np.float32).reshape(3, 2000) % 17
    args = {"out": np.zeros(3, np.float32), "x": x}
    found = kernel_of(TOTAL, args).run(**args)
    assert found.grid == (12, 1, 1) and not found.findings and np.array_equal(args["out"], x.sum(1))


def test_what_stands_between_the_loop_and_a_reduction_reads_all_parts() -> None:
    """It read the part of its block."""
    text = TOTAL.replace("out: f32[rows]", "out: f32[rows], twice: f32[rows, N]")
    text = text.replace("    s = zeros(f32[N])", "    s, t = zeros(f32[N]), zeros(f32[N])")
    text = text.replace(
        "        s = s + x[r, i : i + N]", "        v = load(x[r, i : i + N])\n        s, t = s + v, t + v"
    )
    text = text.replace("    out[r] = sum(s)", "    q = t * 2.0\n    twice[r, 0 : N] = q\n    out[r] = sum(s)")
    x = np.arange(3 * 1024, dtype=np.float32).reshape(3, 1024) % 17
    args = {"out": np.zeros(3, np.float32), "twice": np.zeros((3, 256), np.float32), "x": x}
    kernel_of(text, args).run(**args)
    assert np.array_equal(args["out"], x.sum(1)) and np.array_equal(args["twice"], 2 * x.reshape(3, 4, 256).sum(1))


def test_tiles_and_scalars_are_given_together() -> None:
    """The sum of a number and the sums of columns: what a block gives ends within 16 bytes."""
    lines = {
        "N = 256": "N = 1024",
        "out: f32[rows]": "out: f32[rows], most: f32[rows, n]",
        "    s = zeros(f32[N])": "    s, top = zeros(f32[N]), full(f32[N], -inf)",
        "        s = s + x[r, i : i + N]": "        v = load(x[r, i : i + N])\n        s, top = s + v, maximum(top, v)",
        "    out[r] = sum(s)": "    out[r] = sum(s)\n    most[r, 0 : N] = top",
    }
    text = TOTAL
    for old, new in lines.items():
        text = text.replace(old, new)
    x = np.arange(3 * 4096, dtype=np.float32).reshape(3, 4096) % 17
    args = {"out": np.zeros(3, np.float32), "most": np.zeros((3, 1024), np.float32), "x": x}
    found = kernel_of(text, args).run(**args)
    assert not found.findings and np.array_equal(args["out"], x.sum(1))
    assert np.array_equal(args["most"], x.reshape(3, 4, 1024).max(1))


def test_all_passes_mean_the_same() -> None:
    program = parse_program(PRODUCT.format(iterations="0, k, TK", parts="4, cluster"))
    request = Request("product", "s", {"m": 40, "n": 30, "k": 160}, {"T": "f16", "O": "f32"}, arch="sm_90")
    found = verify_kernel(program, request, operands(40, 30, 160), most=2)
    assert found.divergence is None and found.undecided is None and found.levels == len(PASSES)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("split p: 32, cluster", "a cluster has 1 to 16 blocks; this has 32"),
        ("split p: stream, cluster", "the parts of 'stream' meet in memory"),
        (
            "split p: 2, cluster\n    cluster 2",
            "loop 'p' cannot be split: the blocks of a cluster would share",
        ),
        ("split p: 2, blocks", "split is one of memory, cluster, true, false"),
        ("split p: 1, 2, 3", "'split' takes a number, and where the parts meet; here are 3 values"),
    ],
)
def test_lines_that_say_no_number_of_blocks(line: str, message: str) -> None:
    text = PRODUCT.format(iterations="0, k, TK", parts=2).replace("split p: 2", line)
    with pytest.raises(TileError) as told:
        kernel_of(text, operands(32, 16, 64))
    assert message in str(told.value)


def test_targets_without_clusters() -> None:
    module = dsl.Module(parse_program(PRODUCT.format(iterations="0, k, TK", parts="2, cluster")), "emulator", "sm_80")
    with pytest.raises(TileError, match="sm_80 has no clusters of blocks") as told:
        module.compile("product", types={"T": "f16", "O": "f32"}, m=32, n=16, k=64)
    assert told.value.hint == "split p: 2, memory"


def test_what_each_block_would_do() -> None:
    text = PRODUCT.format(iterations="0, k, TK", parts="2, cluster")
    text = text.replace("    c[i : i + TM", '    print("{}", i)\n    c[i : i + TM')
    with pytest.raises(TileError, match="each of them would do 'print'"):
        kernel_of(text, operands(32, 16, 64))


def test_a_tall_tile_that_blocks_share_is_refused_at_its_line() -> None:
    """Warp groups would do it in parts of rows, and each block has a half of the columns."""
    text = """
kernel k(c: f16[m, n], a: f16[m, k], b: f16[k, n]):
    grid cdiv(m, 384), cdiv(n, 32)
    i, j, acc = block(0) * 384, block(1) * 32, zeros(f32[384, 32])
    for p in range(0, k, 64):
        part = dot(a[i : i + 384, p : p + 64], b[p : p + 64, j : j + 32])
        acc = acc + part
    c[i : i + 384, j : j + 32] = acc.to(f16)

schedule s of k:
    warps = 4
    stage a, b: tma
    instruction part: wgmma
    split p: 2, cluster
"""
    module = dsl.parse(text, device="emulator", arch="sm_90a")
    args = {
        "c": np.zeros((384, 32), np.float16),
        "a": np.ones((384, 128), np.float16),
        "b": np.ones((128, 32), np.float16),
    }
    with pytest.raises(TileError, match="is not computed in parts"):
        compile_variant(module.program, request_of(module, args), check=True)
