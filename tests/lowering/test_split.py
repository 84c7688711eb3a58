"""`split p: N`: the iterations of a loop that adds to sums are dealt to several blocks, which meet in a workspace."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.kernels.compile import finish, level_after
from dsl.kernels.variant import Request, build_variant
from dsl.lowering.directives.joins import region_of
from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import PASSES, run_passes
from dsl.lowering.text.printer import printed
from dsl.lowering.text.reader import read
from dsl.runtime import DeviceAssertError, FindingError, LaunchError
from dsl.studies.verify import verify_kernel
from dsl.text.program import Program, parse_program
from tests.compile_and_run import compile_kernel, through

PRODUCT = """
kernel product(c: O[m, n], a: T[m, k], b: T[n, k]; T in f16|s8, O in f32|s32, TM = 32, TN = 16, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(O[TM, TN])
    for p in range({iterations}):
        acc = dot(a[i : i + TM, p : p + TK], b[j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc

schedule s of product:
    warps = 2
    split p: {parts}
"""
TYPES = {"f16": (np.float16, np.float32), "s8": (np.int8, np.int32)}


def operands(m: int, n: int, k: int, type: str = "f16") -> dict[str, np.ndarray]:
    """Small whole numbers, whose sums are exact in any order."""
    random, (given, made) = np.random.default_rng(m + k), TYPES[type]
    a, b = (random.integers(-4, 5, shape).astype(given) for shape in ((m, k), (n, k)))
    return {"c": np.full((m, n), 7, made), "a": a, "b": b}


@cache
def module_of(text: str) -> dsl.Module:
    return dsl.Module(parse_program(text), "emulator", "sm_90")


def kernel_of(text: str, args: dict[str, Any], **named: Any) -> Any:
    """A kernel as a call would get it: to be launched through the runtime, on the emulator."""
    module = module_of(text)
    types = {"T": "s8", "O": "s32"} if args.get("a", np.zeros(1)).dtype == np.int8 else {}
    return module.compile(next(iter(module.program.kernels)), types=types, **named)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("parts", [1, 2, 3, 4, 16])
@pytest.mark.parametrize(("m", "n", "k"), [(70, 50, 300), (1, 1, 1), (33, 16, 64), (64, 17, 97), (20, 20, 0)])
def test_a_product_of_several_blocks_a_tile(type: str, parts: int, m: int, n: int, k: int) -> None:
    """Also where a tile has fewer iterations than parts, or none."""
    args = operands(m, n, k, type)
    kernel = kernel_of(PRODUCT.format(iterations="0, k, TK", parts=parts), args)
    found = kernel.run(**args)
    assert found.grid == (-(-m // 32), -(-n // 16), parts) and not found.findings
    assert np.array_equal(args["c"], args["a"].astype(np.int32) @ args["b"].astype(np.int32).T)


def test_the_same_bits_whichever_block_is_the_last() -> None:
    """The blocks run in another order with each seed; floats are added in the order of the parts."""
    random = np.random.default_rng(0)
    args: dict[str, Any] = {"c": np.zeros((33, 20), np.float32)}
    args |= {name: random.standard_normal((rows, 200)).astype(np.float16) for name, rows in (("a", 33), ("b", 20))}
    kernel = kernel_of(PRODUCT.format(iterations="0, k, TK", parts=5), args)
    made = []
    for seed in range(4):
        args["c"][:] = 0
        kernel.run(**args, seed=seed)
        made.append(args["c"].tobytes())
    assert len(set(made)) == 1
    assert np.allclose(args["c"], args["a"].astype(float) @ args["b"].astype(float).T, atol=1e-3)


@pytest.mark.parametrize("iterations", ["0, k, TK", "32, k, TK", "0, minimum(k, i + TK), TK", "i, k, 2 * TK"])
@pytest.mark.parametrize("lines", ["", "pipeline p: 3", "unroll p: 2", "stage a, b: registers", "peel p", "l2_group 4"])
def test_other_directives_of_the_shorter_loop(iterations: str, lines: str) -> None:
    args = operands(70, 40, 210)
    text = PRODUCT.format(iterations=iterations, parts=3) + (f"    {lines}\n" if lines else "")
    kernel = kernel_of(text, args)
    kernel.run(**args)
    wanted = np.zeros((70, 40))
    for i in range(0, 70, 32):
        first, last, step = {
            "0, k, TK": (0, 210, 32),
            "32, k, TK": (32, 210, 32),
            "0, minimum(k, i + TK), TK": (0, min(210, i + 32), 32),
            "i, k, 2 * TK": (i, 210, 64),
        }[iterations]
        for p in range(first, last, step):
            a, b = (args[x][:, p : p + 32].astype(np.float64) for x in "ab")
            wanted[i : i + 32] += a[i : i + 32] @ b.T
    assert np.array_equal(args["c"], wanted)


# ---- stream ----


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(300, 230, 96), (70, 50, 300), (1, 1, 1), (520, 300, 33), (20, 20, 0), (0, 5, 40)]
)
def test_equal_shares_of_the_rounds_of_all_tiles(type: str, m: int, n: int, k: int) -> None:
    """132 blocks: some end a tile and begin the next, some have whole tiles, some an iteration, some nothing."""
    args = operands(m, n, k, type)
    kernel = kernel_of(PRODUCT.format(iterations="0, k, TK", parts="stream"), args)
    found = kernel.run(**args)
    assert found.grid == (132, 1, 1) and not found.findings
    assert np.array_equal(args["c"], args["a"].astype(np.int32) @ args["b"].astype(np.int32).T)


def test_sums_of_a_stream_lie_in_memory_as_in_registers() -> None:
    """A thread has two neighbours of a row, and two eight rows below: 16 bytes in memory, not twice 8."""
    ptx = kernel_of(PRODUCT.format(iterations="0, k, TK", parts="stream"), operands(70, 50, 300)).ptx
    assert ptx.count("st.global.v4.b32") == 2 and "ld.global.v4.b32" in ptx
    assert "global.v2" not in ptx


@pytest.mark.parametrize("rows", (16, 80))
def test_sums_of_a_transposed_product_lie_as_the_result(rows: int) -> None:
    """The last block stores 16 bytes of a row of the result at once, though the columns of the sums are its rows."""
    lines = f"TM, TN, TK, warps = {rows}, 64, 64, 4\n    instruction acc: wgmma"
    text = PRODUCT.format(iterations="0, k, TK", parts=2).replace("warps = 2", lines)
    args = operands(2 * rows - 8, 120, 192)
    module = dsl.Module(parse_program(text), "emulator", "sm_90a")
    kernel = module.compile("product", types={"T": "f16", "O": "f32"}, m=len(args["a"]), n=120, k=192)
    found = kernel.run(**args)
    assert not found.findings and "wgmma.mma_async" in kernel.ptx and "st.global.v4.b32" in kernel.ptx
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ args["b"].astype(np.float32).T)


def test_the_same_bits_of_a_stream() -> None:
    random = np.random.default_rng(0)
    args: dict[str, Any] = {"c": np.zeros((300, 200), np.float32)}
    args |= {name: random.standard_normal((rows, 200)).astype(np.float16) for name, rows in (("a", 300), ("b", 200))}
    kernel = kernel_of(PRODUCT.format(iterations="0, k, TK", parts="stream"), args)
    made = []
    for seed in range(3):
        args["c"][:] = 0
        kernel.run(**args, seed=seed)
        made.append(args["c"].tobytes())
    assert len(set(made)) == 1
    assert np.allclose(args["c"], args["a"].astype(float) @ args["b"].astype(float).T, atol=1e-3)


@pytest.mark.parametrize("line", ["pipeline p: 4", "unroll p: 2", "stage a, b: registers", "blocks_per_sm 2"])
@pytest.mark.parametrize("iterations", ["0, k, TK", "32, k, TK", "0, 40, TK"])
def test_other_directives_of_a_stream(line: str, iterations: str) -> None:
    args = operands(170, 200, 200)
    kernel = kernel_of(PRODUCT.format(iterations=iterations, parts="stream") + f"    {line}\n", args)
    found = kernel.run(**args)
    assert found.grid == (264 if line.startswith("blocks") else 132, 1, 1)
    first, last = {"0, k, TK": (0, 200), "32, k, TK": (32, 200), "0, 40, TK": (0, 64)}[iterations]
    a, b = (args[x][:, first:last].astype(np.int64) for x in "ab")
    assert np.array_equal(args["c"], a @ b.T)


def test_a_stream_of_a_grid_that_the_launch_alone_knows_is_refused() -> None:
    args = operands(70, 50, 300)
    text = PRODUCT.format(iterations="0, k, TK", parts="stream")
    text = text.replace("grid cdiv(m, TM)", "grid minimum(sms, cdiv(m, TM))")
    with pytest.raises(TileError, match="computed with 'sms', which the launch knows") as caught:
        kernel_of(text, args)
    assert caught.value.errors[0].loc is not None and caught.value.errors[0].loc.line == 12


def test_a_stream_whose_tiles_have_other_rounds_is_refused() -> None:
    args = operands(70, 50, 300)
    with pytest.raises(TileError, match="comes from the number of the tile, and may differ from tile to tile"):
        kernel_of(PRODUCT.format(iterations="0, minimum(k, i + TK), TK", parts="stream"), args)


# ---- sums of other kinds ----

SUMS = """
kernel sums(y: s32[rows, 4], z: f32[rows, 3, planes], x: s32[rows, cols, planes]; STEP = 16):
    grid rows, 1, planes
    r, q = block(0), block(2)
    total, bits, odd = zeros(s32[STEP]), zeros(s32[STEP]), zeros(s32[STEP])
    low, high = full(s32[STEP], 4), full(f32[STEP], -inf)
    times = full(f32[STEP], 1.0)
    count = 0
    each = full(s32[STEP], -1)
    for p in range(0, cols, STEP):
        v = load(x[r, p : p + STEP, q], mask=p + arange(STEP) < cols, other=5)
        total = total + v - 5
        for t in range(2):
            if max(v) > t:
                bits = bits | (v << t.to(s32))
            each = each & v
        odd = odd ^ v
        low = minimum(v, low)
        high = maximum(high, v.to(f32))
        times = times * where(v > 0, 2.0, 0.5)
        count = count + 1
    if q == grid(2) - 1:
        y[r, 0] = sum(total) + count * 1000
        y[r, 1] = reduce(bits, lambda_or)
        y[r, 2] = sum(odd) + min(low) * 100
        y[r, 3] = sum(each)
    z[r, 0, q] = max(high)
    z[r, 1, q] = sum(times)
    z[r, 2, q] = grid(2).to(f32)
"""


def sums_text(parts: int | str) -> str:
    text = SUMS.replace("reduce(bits, lambda_or)", "sum(bits)")
    return text + f"\nschedule s of sums:\n    warps = 1\n    split p: {parts}\n"


@pytest.mark.parametrize("cols", [1, 16, 100, 161])
@pytest.mark.parametrize("planes", [1, 2])
def test_sums_of_all_kinds_in_one_loop(cols: int, planes: int) -> None:
    """Also in loops and branches, of scalars, and with a grid of three axes."""
    x = np.random.default_rng(cols).integers(-3, 9, (3, cols, planes)).astype(np.int32)
    made = []
    for parts in (1, 3, 8, "stream"):
        args = {"y": np.zeros((3, 4), np.int32), "z": np.zeros((3, 3, planes), np.float32), "x": x}
        kernel = kernel_of(sums_text(parts), args)
        grid = kernel.run(**args).grid
        assert grid == ((132, 1, 1) if parts == "stream" else (3, 1, planes * parts))
        made.append((args["y"].tobytes(), args["z"].tobytes()))
    assert len(set(made)) == 1
    assert (args["z"][:, 2] == planes).all() and np.array_equal(
        args["z"][:, 0], np.maximum(x.max(1), 5 if cols % 16 else -99)
    )


NEST = """
kernel nest(y: s32[n, o], x: s8[c, h, n], w: s8[c, taps, o]; BN = 32, BO = 16, BC = 32, TAPS = 3):
    grid cdiv(n, BN), cdiv(o, BO)
    i, j = block(0) * BN, block(1) * BO
    acc = zeros(s32[BN, BO])
    for q in range(0, c, BC):
        for t in range(TAPS):
            at = q + arange(BC)
            inside = (i + arange(BN) + t < n)[None, :] & (at < c)[:, None]
            v = load(x[at[:, None], t, (i + arange(BN) + t)[None, :]], mask=inside, other=0)
            acc = dot(v.T, load(w[at, t, j : j + BO], mask=(at < c)[:, None], other=0), acc)
    y[i : i + BN, j : j + BO] = maximum(acc, 0)

schedule s of nest:
    warps = 2
    split q: {parts}
"""


@pytest.mark.parametrize("parts", [2, 3, "stream"])
def test_a_nest_of_loops(parts: int | str) -> None:
    """As in a convolution: the outermost loop is split, and its sums go through the inner one."""
    random = np.random.default_rng(3)
    x, w = (random.integers(-9, 9, shape).astype(np.int8) for shape in ((75, 3, 50), (75, 3, 20)))
    args = {"y": np.zeros((50, 20), np.int32), "x": x, "w": w}
    kernel_of(NEST.format(parts=parts), args).run(**args)
    wanted = np.zeros((50, 20), np.int32)
    for t in range(3):
        wanted[: 50 - t] += x[:, t, t:].astype(np.int32).T @ w[:, t].astype(np.int32)
    assert np.array_equal(args["y"], np.maximum(wanted, 0))


OWN = """
kernel turned(y: s32[16], x: s32[n]; STEP = 16):
    grid 1
    shared tile: s32[STEP]
    acc = zeros(s32[STEP])
    for p in range(0, n, STEP):
        tile[0 : STEP] = x[p : p + STEP]
        acc = acc + tile[STEP - 1 - arange(STEP)]
    y[0 : STEP] = acc

schedule s of turned:
    warps = 1
    split p: {parts}
"""


@pytest.mark.parametrize("parts", [3, "stream"])
def test_a_shared_tile_that_each_iteration_writes_before_it_reads(parts: int | str) -> None:
    x = np.random.default_rng(0).integers(-99, 99, 16 * 20).astype(np.int32)
    args = {"y": np.zeros(16, np.int32), "x": x}
    kernel_of(OWN.format(parts=parts), args).run(**args)
    assert np.array_equal(args["y"], x.reshape(-1, 16).sum(0)[::-1])


# ---- what reductions behind the loop join ----

FIRST = """
def first(v, i, w, j):
    take = (w > v) | ((w == v) & (j < i))
    return where(take, w, v), where(take, j, i)

kernel largest(y: f32[rows], at: s64[rows], total: f32[rows], x: f32[rows, cols]; TILE = 64):
    grid rows
    r = block(0)
    v, k, all = full(f32[TILE], -inf), zeros(index[TILE]), zeros(f32[TILE])
    for p in range(0, cols, TILE):
        w = load(x[r, p : p + TILE], other=-inf)
        v, k = first(v, k, w, p + arange(TILE))
        all = all + where(p + arange(TILE) < cols, w, 0.0)
    best, place = reduce(first, (v, k), axis=0)
    y[r] = best
    at[r] = place.to(s64)
    total[r] = sum(all)

schedule s of largest:
    warps = 2
    split p: {parts}
"""


@pytest.mark.parametrize("cols", [1, 64, 700, 4999])
@pytest.mark.parametrize("parts", [2, 7, 16, 100, "stream"])
def test_a_pair_that_a_def_joins(parts: int | str, cols: int) -> None:
    """Also of more parts than are joined at a time, of a number that no power of two is, and empty ones."""
    x = np.random.default_rng(cols).integers(-9, 10, (3, cols)).astype(np.float32)
    args = {"y": np.zeros(3, np.float32), "at": np.zeros(3, np.int64), "total": np.zeros(3, np.float32), "x": x}
    found = kernel_of(FIRST.format(parts=parts), args).run(**args)
    assert not found.findings
    assert np.array_equal(args["y"], x.max(1)) and np.array_equal(args["at"], x.argmax(1))
    assert np.array_equal(args["total"], x.sum(1))


@pytest.mark.parametrize(("parts", "each"), [(3, 1), ("stream", 2)])
def test_blocks_leave_what_their_reductions_made(parts: int | str, each: int) -> None:
    program = parse_program(FIRST.format(parts=parts))
    variant = build_variant(program, Request("largest", "s", {"rows": 3, "cols": 1000}))
    run_passes(variant.function, variant.target, through("split"))
    found = {w.name: w.each for w in variant.function.workspaces}
    assert found == {"best_parts": each, "place_parts": each, "all_parts": each, "arrived": 1}


ONCE = """
kernel sums(y: f32[1], x: f32[n]; SHARES = 5):
    grid 1
    w = zeros(f32[64])
    for i in range(0, SHARES):
        v = zeros(f32[64])
        for t in range(i * cdiv(n, 64 * SHARES), minimum((i + 1) * cdiv(n, 64 * SHARES), cdiv(n, 64))):
            v = v + load(x[t * 64 : t * 64 + 64])
        w = w + v * v
    y[0] = sum(w)

schedule s of sums:
    warps, SHARES = 2, {parts}
    split i: SHARES
    unroll i: 4
"""


@pytest.mark.parametrize("parts", [1, 5])
def test_the_one_iteration_of_a_block_is_no_loop(parts: int) -> None:
    x = np.random.default_rng(parts).standard_normal(3000).astype(np.float32)
    args = {"y": np.zeros(1, np.float32), "x": x}
    text = ONCE.format(parts=parts)
    variant = build_variant(parse_program(text), Request("sums", "s", {"n": 3000}))
    run_passes(variant.function, variant.target, through("unroll_loops"))
    loops = [op for op in walk(variant.function.body) if op.spec.control.counters]
    assert "t" in {op.regions[0].args[0].name for op in loops}
    assert "i" not in {op.regions[0].args[0].name for op in loops}
    assert not kernel_of(text, args).run(**args).findings
    rows = np.concatenate([x.astype(np.float64), np.zeros(-x.size % 64)]).reshape(-1, 64)
    each = -(-rows.shape[0] // parts)
    wanted = sum((rows[i * each : (i + 1) * each].sum(0) ** 2).sum() for i in range(parts))
    np.testing.assert_allclose(args["y"], wanted, rtol=1e-5)


def test_sums_that_more_is_read_of_meet_whole() -> None:
    text = FIRST.replace("total[r] = sum(all)", "total[r] = sum(all) + max(all)")
    variant = build_variant(parse_program(text.format(parts=3)), Request("largest", "s", {"rows": 3, "cols": 1000}))
    run_passes(variant.function, variant.target, through("split"))
    assert {w.name: w.each for w in variant.function.workspaces}["all_parts"] == 64


@pytest.mark.parametrize("parts", [3, "stream"])
@pytest.mark.parametrize("more", [False, True])
def test_a_def_with_a_number_that_stands_behind_the_loop_too(parts: int | str, more: bool) -> None:
    text = """
kernel nearest(y: f32[2], x: f32[n]):
    grid 1
    def nearer(v, w):
        return where((w - 0.5) * (w - 0.5) < (v - 0.5) * (v - 0.5), w, v)
    k = full(f32[16], 1000.0)
    for p in range(0, n, 16):
        k = nearer(k, load(x[p : p + 16], other=1000.0))
    y[1] = n.to(f32) * 0.5
    y[0] = reduce(nearer, k, axis=0){more}

schedule s of nearest:
    warps = 1
"""
    x = (np.random.default_rng(0).permutation(500) - 100).astype(np.float32)
    args = {"y": np.zeros(2, np.float32), "x": x}
    text = text.replace("{more}", " + 0.0 * min(k)" if more else "")
    kernel_of(f"{text}    split p: {parts}\n", args).run(**args)
    assert args["y"].tolist() in ([0.0, 250.0], [1.0, 250.0])


@pytest.mark.parametrize("parts", [2, 33, 1000])
def test_rows_of_sums_are_joined_side_by_side(parts: int) -> None:
    """Of columns, whose parts are tiles; of each block of the grid its own."""
    text = """
kernel columns(y: f32[n, cols], x: f32[n, rows, cols]; ROWS = 4, COLS = 8):
    grid cdiv(cols, COLS), n
    o, c = block(1), block(0) * COLS
    v = zeros(f32[ROWS, COLS])
    for p in range(0, rows, ROWS):
        v = v + x[o, p : p + ROWS, c : c + COLS]
    y[o, c : c + COLS] = sum(v, axis=0)

schedule s of columns:
    warps = 2
"""
    x = np.random.default_rng(0).integers(-9, 10, (2, 500, 20)).astype(np.float32)
    args = {"y": np.zeros((2, 20), np.float32), "x": x}
    kernel_of(f"{text}    split p: {parts}\n", args).run(**args)
    assert np.array_equal(args["y"], x.sum(1))


@pytest.mark.long
@pytest.mark.parametrize("parts", [6, "stream"])
def test_verify_compares_pairs(parts: int | str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 900)).astype(np.float32)
    args = {"y": np.zeros(2, np.float32), "at": np.zeros(2, np.int64), "total": np.zeros(2, np.float32), "x": x}
    program = parse_program(FIRST.format(parts=parts))
    found = verify_kernel(program, Request("largest", "s", {"rows": 2, "cols": 900}), args, most=2)
    assert found.divergence is None and found.undecided is None and found.levels == len(PASSES)


# ---- what a function joins ----

SOFTMAX = """
def meet(a, b):
    top = maximum(a[0], b[0])
    x, y = exp(a[0] - top), exp(b[0] - top)
    return top, {total}, a[2] * x[:, None] + b[2] * y[:, None]

kernel weighted(y: f32[rows, d], x: f32[rows, cols], v: f32[cols, d]; ROWS = 4, TILE = 16, D = 8):
    grid cdiv(rows, ROWS)
    r = block(0) * ROWS
    m, l, acc = full(f32[ROWS], -3e38), zeros(f32[ROWS]), zeros(f32[ROWS, D])
    for j in range(0, cols, TILE):
        w = load(x[r : r + ROWS, j : j + TILE], other=-inf)
        top = maximum(m, max(w, axis=1))
        e, shrink = exp(w - top[:, None]), exp(m - top)
        m, l = top, l * shrink + sum(e, axis=1)
        acc = acc * shrink[:, None] + sum(e[:, :, None] * v[j : j + TILE, 0 : D][None], axis=1)
    m, l, acc = joined(meet, (m, l, acc))
    y[r : r + ROWS, 0 : D] = acc / l[:, None]

schedule s of weighted:
    warps = 2
    split j: {parts}
"""
TOTAL = "a[1] * x + b[1] * y"


def weighted(cols: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Arguments, and the rows of `v` weighted by the softmax of `x`."""
    random = np.random.default_rng(cols)
    x, v = 9 * random.standard_normal((7, cols)), random.standard_normal((cols, 8))
    e = np.exp(x - x.max(1, keepdims=True))
    args = {"y": np.zeros((7, 8), np.float32), "x": x.astype(np.float32), "v": v.astype(np.float32)}
    return args, e / e.sum(1, keepdims=True) @ v


@pytest.mark.parametrize("cols", [1, 16, 333])
@pytest.mark.parametrize("parts", [1, 2, 7, 40, "stream"])
def test_parts_that_a_function_joins(parts: int | str, cols: int) -> None:
    """Also of parts without an iteration, which are the loop's start."""
    args, wanted = weighted(cols)
    kernel_of(SOFTMAX.format(parts=parts, total=TOTAL), args).run(**args)
    assert args["y"] == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("parts", [3, "stream"])
def test_a_function_joins_the_sums_of_a_product(parts: int | str) -> None:
    """The function is built for the tile's shape, and not for that of fragments in memory."""
    text = PRODUCT.replace("{iterations}", "0, k, TK").replace("{parts}", str(parts))
    text = text.replace("    c[i : i", "    acc = joined(meet, acc)\n    c[i : i")
    text = f"def meet(a, b):\n    return a + b + 0.0 * arange(32)[:, None].to(f32)\n{text}"
    args = operands(70, 50, 300)
    kernel_of(text, args).run(**args)
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ args["b"].astype(np.float32).T)


READS = """
kernel sums(y: f32[rows, N], f: f32[rows], x: f32[rows, cols]; N = 32):
    grid rows
    r = block(0)
    s, t = zeros(f32[N]), zeros(f32[N])
    for j in range(0, cols, N):
        w = load(x[r, j : j + N])
        s, t = s + w, t + w
    {behind}
    def meet(a, b):
        return (a * c + b * c) / c
    s = joined(meet, s)
    y[r, 0 : N] = s + t

schedule s of sums:
    warps = 1
    split j: {parts}
"""
TOO_LATE = {
    "c = sum(t)": "the function of 'joined' in line 12 reads 't', of which a block has only a part",
    "c = t": "the function of 'joined' in line 12 reads 't', of which a block has only a part",
    "f[r] = 2.0; c = f[r]": "reads what 'load' in line 10 gives, and the parts meet before that",
    "c = atomic_add(f[r], 1.0)": "reads what 'atomic' in line 9 gives, and the parts meet before that",
}


@pytest.mark.parametrize("parts", [3, "stream", "2, cluster"])
def test_a_function_reads_what_is_computed_behind_the_loop(parts: int | str) -> None:
    """It was an internal error."""
    x = np.arange(2 * 160, dtype=np.float32).reshape(2, 160) % 7
    args = {"y": np.zeros((2, 32), np.float32), "f": np.full(2, 2.0, np.float32), "x": x}
    text = READS.format(behind="c = f[r] * 2.0", parts=parts)
    request = Request("sums", "s", {"rows": 2, "cols": 160}, arch="sm_90a")
    found = verify_kernel(parse_program(text), request, args)
    assert found.divergence is None and found.undecided is None
    kernel_of(text, args).run(**args)
    assert np.array_equal(args["y"], 2 * x.reshape(2, 5, 32).sum(1))


@pytest.mark.parametrize("behind", TOO_LATE)
def test_a_function_that_reads_what_comes_too_late_is_refused(behind: str) -> None:
    text = READS.format(behind=behind.replace("; ", "\n    "), parts=3)
    with pytest.raises(TileError) as caught:
        compile_kernel(text)
    found = caught.value.errors[0]
    assert TOO_LATE[behind] in found.message and found.hint and found.loc is not None
    assert text.splitlines()[found.loc.line - 1] == "    split j: 3"


@pytest.mark.parametrize(
    ("behind", "message"),
    [
        ("u = joined(maximum, s + 1.0)", "joined takes the values that a loop carries, all of one loop"),
        ("if rows > 2:\n        s = joined(maximum, s)", "joined stands in a branch or a loop"),
    ],
)
def test_a_joined_that_no_loop_follows_is_refused(behind: str, message: str) -> None:
    """It was ignored."""
    text = READS.format(behind=f"c = 1.0\n    {behind}", parts=3)
    with pytest.raises(TileError, match=message) as caught:
        compile_kernel(text)
    found = caught.value.errors[0]
    assert found.code == "schedule" and found.loc is not None
    assert behind.splitlines()[-1].strip() in text.splitlines()[found.loc.line - 1]


def test_the_pass_cannot_be_left_out_where_a_function_joins() -> None:
    """What names the function was left in the kernel, and no later pass knows it."""
    for text, is_kept in ((SOFTMAX.format(parts=3, total=TOTAL), True), (FIRST.format(parts=3), False)):
        assert ("pass.split" not in compile_kernel(text).variant.function.choices.keyed()) == is_kept


def test_without_a_split_nothing_joins() -> None:
    args, wanted = weighted(100)
    text = SOFTMAX.format(parts=1, total=TOTAL).replace("    split j: 1\n", "")
    kernel_of(text, args).run(**args)
    assert args["y"] == pytest.approx(wanted, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("total", [TOTAL, "a[1] + b[1]"])
def test_verify_judges_the_function(total: str) -> None:
    """The second one leaves out that sums are of different powers."""
    args, _ = weighted(100)
    program = parse_program(SOFTMAX.format(parts=3, total=total))
    found = verify_kernel(program, Request("weighted", "s", {"rows": 7, "cols": 100, "d": 8}), args, most=2)
    assert (found.divergence is None) == (total == TOTAL)
    assert found.divergence is None or found.divergence.level == "split"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("return top, a[1] * x + b[1] * y,", "return top,", "the function joins 3 values and returns 2"),
        ("a[1] * x + b[1] * y,", "a[1][:, None] * x,", r"the function returns f32\[4, 4\] for f32\[4\]"),
        ("(m, l, acc))\n", "(m, l))\n", "a tuple of 2 has no such element"),
        ("joined(meet, (", "joined(3, (", "joined takes a function of two values first"),
    ],
)
def test_a_function_that_joins_no_parts_is_refused(old: str, new: str, message: str) -> None:
    text = SOFTMAX.format(parts=2, total=TOTAL)
    assert old in text
    text = text.replace(old, new).replace("m, l, acc = joined(meet, (m, l))", "m, l = joined(meet, (m, l))")
    with pytest.raises(TileError, match=message):
        kernel_of(text, weighted(100)[0])


def test_a_value_that_the_function_does_not_join_is_a_sum_or_refused() -> None:
    """A loop may carry sums beside the values that a function joins, but nothing else."""
    text = SOFTMAX.format(parts=2, total=TOTAL)
    for more, is_right in (("n = n + 1.0", True), ("n = n * 2.0 + 1.0", False)):
        changed = text.replace("acc = full(", "acc, n = full(").replace(
            "zeros(f32[ROWS, D])\n", "zeros(f32[ROWS, D]), 0.0\n"
        )
        changed = changed.replace("        m, l = top", f"        {more}\n        m, l = top").replace(
            "acc / l", "n * acc / l"
        )
        args, wanted = weighted(100)
        if is_right:
            kernel_of(changed, args).run(**args)
            assert args["y"] == pytest.approx(7 * wanted, rel=1e-4, abs=1e-5)
        else:
            with pytest.raises(TileError, match="'n' is made by"):
                kernel_of(changed, args)


# ---- what is recorded, printed, verified ----


def test_the_choice_and_its_line() -> None:
    args = operands(32, 16, 64)
    made = compile_kernel(PRODUCT.format(iterations="0, k, TK", parts=6), args).variant.function.choices.keyed()[
        "split.p"
    ]
    assert made.taken == "6" and made.options == ("1", "2", "4", "6") and made.override("2", "split.p")


@pytest.mark.long
@pytest.mark.parametrize(("parts", "each"), [(3, 512), ("stream", 1024)])
def test_verify_compares_all_blocks_before_and_after(parts: int | str, each: int) -> None:
    program = parse_program(PRODUCT.format(iterations="0, k, TK", parts=parts))
    random = np.random.default_rng(1)
    args = {x: random.standard_normal((40, 200)).astype(np.float16) for x in "ab"}
    args["c"] = np.zeros((40, 40), np.float32)
    request = Request("product", "s", {"m": 40, "n": 40, "k": 200})
    found = verify_kernel(program, request, args, most=2)
    assert found.divergence is None and found.undecided is None and found.levels == len(PASSES)
    variant = build_variant(program, request)
    run_passes(variant.function, variant.target, through("split"))
    assert [w.each for w in variant.function.workspaces] == [each, 1]


@pytest.mark.parametrize("fault", ["part", "order", "join"])
def test_verify_finds_a_split_that_is_wrong(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from dsl.lowering.directives import split as directive

    program = parse_program(PRODUCT.format(iterations="0, k, TK", parts=3))
    random = np.random.default_rng(1)
    args = {x: random.standard_normal((40, 200)).astype(np.float16) for x in "ab"}
    args["c"] = np.zeros((40, 40), np.float32)
    shorten, joined = directive._Split.shorten, directive._Split.joined
    if fault == "part":  # an iteration too few

        def wrong_shorten(self: Any, *part: Any) -> None:
            shorten(self, *part)
            self.loop.operands[1] = self.b.value("sub", self.loop.operands[1], self.loop.operands[2])

        monkeypatch.setattr(directive._Split, "shorten", wrong_shorten)
    elif fault == "order":  # the parts of another tile

        def wrong_place(self: Any, counter: Any, first: Any, turns: Any, place: Any) -> Any:
            return joined(self, counter, first, turns, lambda turn: self.b.value("add", first, turn))

        monkeypatch.setattr(directive._Split, "joined", wrong_place)
    else:

        def wrong_joined(self: Any, *rest: Any) -> Any:
            self.sums[0].join = region_of("maximum", self.results[0])
            return joined(self, *rest)

        monkeypatch.setattr(directive._Split, "joined", wrong_joined)
    found = verify_kernel(program, Request("product", "s", {"m": 40, "n": 40, "k": 200}), args)
    assert found.divergence is not None and found.divergence.level == "split"


def test_the_text_of_a_stage_keeps_workspaces() -> None:
    program: Program = parse_program(PRODUCT.format(iterations="0, k, TK", parts=2))
    request = Request("product", "s", {"m": 40, "n": 40, "k": 64})
    text = printed(level_after(program, request, "split"))
    assert "workspace acc_parts: f32 each 512 align 16 as %acc_parts" in text
    assert "workspace arrived: u32 each 1 zero align 16 as %arrived" in text
    again = finish(read(text, "text"))
    assert [(w.name, w.dtype, w.each, w.zero) for w in again.header.workspaces] == [
        ("acc_parts", "f32", 512, False),
        ("arrived", "u32", 1, True),
    ]


# ---- launches ----


def test_a_launch_with_fewer_blocks_is_refused() -> None:
    args = operands(70, 50, 300)
    kernel = kernel_of(PRODUCT.format(iterations="0, k, TK", parts=4), args)
    with pytest.raises(LaunchError, match="the last of the kernel's"):
        kernel(*args.values(), grid=(1, 1, 4))


def test_a_counter_that_is_left_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from dsl.lowering.directives import split as directive

    store = directive._Split._store

    def kept(self: Any, memory: Any, at: Any, value: Any) -> None:
        if memory.name != "arrived":
            store(self, memory, at, value)

    monkeypatch.setattr(directive._Split, "_store", kept)
    args = operands(32, 16, 64)
    program = parse_program(PRODUCT.format(iterations="0, k, TK", parts=2))
    kernel = dsl.Module(program, "emulator", "sm_90").compile("product")  # none that is kept
    with pytest.raises(FindingError, match=r"arrived\[0\] of the workspace u32\[2\] is 2"):
        kernel(*args.values())


def test_sums_that_meet_without_order_are_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    args = operands(32, 16, 64)
    program = parse_program(PRODUCT.format(iterations="0, k, TK", parts=2))
    request = Request("product", "s", {"m": 32, "n": 16, "k": 64})
    stage = level_after(program, request, "split")
    for op in walk(stage.function.body):
        if "order" in op.attrs:
            op.attrs["order"] = "relaxed"
    from dsl.runtime import Kernel

    with pytest.raises(FindingError, match="race"):
        Kernel(finish(stage).ptx, device="emulator").run(**args)


# ---- what does not fit ----

WRONG = """
kernel k(y: f32[n, m], x: f32[n, m], part: s32[n]; STEP = 16):
    grid n, 2
    r = block(0)
    acc, last = zeros(f32[STEP]), zeros(f32[STEP])
    shared tile: f32[STEP]
{before}
    for p in range({iterations}):
        v = load(x[r, p : p + STEP], mask=p + arange(STEP) < m, other=0.0)
{iteration}
    y[r, 0 : STEP] = acc + last

schedule s of k:
    warps = 1
    split p: 2
"""
FAULTS = {
    "no sum": ("", "0, m, STEP", "acc = acc * 0.5 + v", "is made by '"),
    "what it was": ("", "0, m, STEP", "acc = v", "is not what it was in the iteration before"),
    "twice": ("", "0, m, STEP", "acc = acc + acc", "is not what it was"),
    "start": ("acc = full(f32[STEP], 1.0)", "0, m, STEP", "acc = acc + v", "'acc' does not start at 0, and each block"),
    "start of a product": ("", "0, m, STEP", "acc = acc * v", "'acc' does not start at 1"),
    "two ways": ("", "0, m, STEP", "acc = maximum(acc + v, v)", "is made by '"),
    "read": ("", "0, m, STEP", "acc = acc + v\n        last = last + acc", "'acc' is read in the loop in line 11"),
    "decides": ("", "0, m, STEP", "acc = acc + where(acc > 0.0, v, 0.0)", "is not what it was"),
    "stores": ("", "0, m, STEP", "acc = acc + v\n        y[r, p] = 1.0", "'store' in line 11 does more than add"),
    "shared, from another iteration": (
        "    tile[0 : STEP] = zeros(f32[STEP])",
        "0, m, STEP",
        "acc = acc + tile[0 : STEP]\n        tile[0 : STEP] = v",
        "'store' in line 11 does more",
    ),
    "shared, in part": (
        "",
        "0, m, STEP",
        "tile[0 : 8] = sum(reshape(v, [2, 8]), axis=0)\n        acc = acc + tile[0 : STEP]",
        "'store' in line 10 does more",
    ),
    "shared, read behind": (
        "",
        "0, m, STEP",
        "tile[0 : STEP] = v\n        acc = acc + tile[0 : STEP]\n    last = tile[0 : STEP]",
        "'store' in line 10 does more",
    ),
    "prints": ("", "0, m, STEP", 'acc = acc + v\n        print("{}", p)', "'print' in line 11 does more"),
    "stores before": ("    part[r] = 1", "0, m, STEP", "acc = acc + v", "'store' in line 7 stands before it"),
    "atomic before": ("    atomic_add(part[r], 1)", "0, m, STEP", "acc = acc + v", "'atomic' in line 7 stands before"),
    "down": ("", "m, 0, 0 - STEP", "acc = acc + v", "its step is no positive constant"),
    "by m": ("", "0, m, m + 1", "acc = acc + v", "its step is no positive constant"),
    "nothing": ("", "0, m, STEP", "u = v + 1.0", "it carries no sum"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_split(fault: str) -> None:
    before, iterations, iteration, message = FAULTS[fault]
    before = before if before.startswith(" ") or not before else f"    {before}"
    text = WRONG.format(before=before, iterations=iterations, iteration=f"        {iteration}")
    with pytest.raises(TileError) as caught:
        compile_kernel(text)
    found = caught.value.errors[0]
    assert found.code == "schedule" and "loop 'p' cannot be split: " in found.message and message in found.message
    assert found.hint and found.loc is not None and text.splitlines()[found.loc.line - 1] == "    split p: 2"


@pytest.mark.parametrize("parts", ["2", "2, cluster", "stream"])
def test_each_block_asserts_what_its_iterations_do(parts: str) -> None:
    text = WRONG.format(
        before="", iterations="0, m, STEP", iteration="        acc = acc + v\n        assert max(v) < 9.0"
    )
    text = text.replace("split p: 2", f"split p: {parts}").replace("grid n, 2", "grid n")
    kernel = kernel_of(text, args := asserted(70))
    kernel.run(**args)
    assert np.array_equal(args["y"].sum(1), args["x"].sum(1))
    for at in (3, 69):
        args = asserted(70)
        args["x"][2, at] = 10.0
        with pytest.raises(DeviceAssertError) as caught:
            kernel.run(**args)
        assert text.splitlines()[caught.value.line - 1].endswith("assert max(v) < 9.0")


def asserted(columns: int) -> dict[str, np.ndarray]:
    x = np.arange(3 * columns, dtype=np.float32).reshape(3, columns) % 5
    return {"y": np.zeros((3, columns), np.float32), "x": x, "part": np.zeros(3, np.int32)}


PLACES = {
    "    for o in range(2):\n        for p in range(0, m, 16):\n            acc = acc + x[p]": ("", "in another loop"),
    "    if m > 5:\n        for p in range(0, m, 16):\n            acc = acc + x[p]": ("", "another loop or a branch"),
    "    for p in range(0, m, 16):\n        acc = acc + x[p]\n    for p in range(m):\n        acc = acc + x[p]": (
        "", "2 loops have this counter"
    ),
    "    for p in range(m):\n        acc = acc + x[p]\n    for q in range(m):\n        acc = acc + x[q]": (
        "    split q: 2, cluster", "loop 'q' cannot be split: loop 'p' is split"
    ),
    "    for p in range(0, m, 16):\n        acc = acc + x[p] ": ("    persistent 1", "take whole tiles"),
    "    for p in range(0, m, 16):\n        acc = acc + x[p]": ("    barriers manual", "meet after barriers"),
}  # fmt: skip


@pytest.mark.parametrize("loops", PLACES)
def test_where_a_loop_cannot_be_split(loops: str) -> None:
    line, message = PLACES[loops]
    text = f"kernel k(y: f32[1], x: f32[m]):\n    grid 1\n    acc = 0.0.to(f32)\n{loops}\n    y[0] = acc\n\n"
    text += f"schedule s of k:\n    split p: 2\n{line}\n"
    with pytest.raises(TileError, match=message):
        compile_kernel(text)


def test_one_part_is_the_loop_as_it_is() -> None:
    """Whatever the loop does."""
    before, iterations, iteration, _ = FAULTS["stores"]
    text = WRONG.format(before=before, iterations=iterations, iteration=f"        {iteration}").replace(
        "split p: 2", "split p: 1"
    )
    kernel = compile_kernel(text)
    assert kernel.variant.grid[2] == 1 and not kernel.variant.function.workspaces
