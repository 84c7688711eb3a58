"""`stage` and `pipeline`: loads of loops through shared memory, copies that run iterations ahead."""

from __future__ import annotations

import numpy as np
import pytest

import dsl
from dsl.kernels.variant import Request, build_variant
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import run_passes
from dsl.text.program import parse_program
from tests.compile_and_run import Kernel, compile_kernel, launch, through

PRODUCT = """
kernel k(c: f32[m, n], a: {type}[m, k], b: {type}[n, k]; TM = 32, TN = 16, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros({sum}[TM, TN])
    for p in range({range}):
        acc = dot(a[i : i + TM, p : p + TK], b[j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc.to(f32)

schedule s of k:
    warps = 2
    prefetch_fragments p: whole
    {lines}
"""
TYPES = {"f16": np.float16, "s8": np.int8}


def product(
    lines: str, m: int, n: int, k: int, type: str = "f16", range: str = "0, k, TK", **request: object
) -> tuple[Kernel, dict[str, np.ndarray]]:
    random = np.random.default_rng(k)
    args = {"a": random.integers(-3, 4, (m, k)).astype(TYPES[type]), "c": np.full((m, n), np.nan, np.float32)}
    args["b"] = random.integers(-3, 4, (n, k)).astype(TYPES[type])
    text = PRODUCT.format(lines=lines, type=type, sum="s32" if type == "s8" else "f32", range=range)
    return compile_kernel(text, args, **request), args


def shape(kernel: Kernel) -> tuple[int, int, int]:
    """Copies, waits, stages of the first ring."""
    stages = [op.attrs["type"].shape[0] for op in kernel.ops if op.name == "shared_alloc" and op.attrs["type"].ring]
    return kernel.count("copy"), kernel.count("wait"), stages[0] if stages else 0


WAYS = {
    "itself": "contract off",
    "rolled": "unroll p: 1",
    "registers": "stage a, b: registers",
    "one": "stage a: registers\n    pipeline p: 1",
    "staged": "pipeline p: 1",
    "two": "pipeline p: 2\n    unroll p: 1",
    "five": "pipeline p: 5\n    unroll p: 1",
    "unrolled": "pipeline p: 3\n    unroll p: 2",
}
SHAPES = {
    "itself": (10, 5, 3), "rolled": (6, 2, 3), "registers": (0, 0, 0), "one": (1, 1, 0), "staged": (2, 1, 0),
    "two": (4, 2, 2), "five": (10, 2, 5), "unrolled": (8, 4, 3),
}  # fmt: skip
"""Of the loop; and, where it is unrolled, of the iterations that are left, which have nothing to copy ahead of."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("k", [32, 64, 104, 168])
def test_a_product_is_staged_and_pipelined_as_the_schedule_says(way: str, k: int) -> None:
    kernel, args = product(WAYS[way], 33, 17, k)
    assert shape(kernel) == SHAPES[way]
    launch(kernel, args)
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ args["b"].T.astype(np.float32))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("k", [0, 1, 3, 31, 33, 65])
@pytest.mark.parametrize("type", TYPES)
def test_odd_extents_and_no_rounds(way: str, k: int, type: str) -> None:
    """Rows of odd length have no 4 aligned bytes: nothing is staged by itself, and copies are loads and stores."""
    kernel, args = product(WAYS[way], 7, 5, k, type)
    launch(kernel, args)
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ args["b"].T.astype(np.float32))
    if way == "itself" and k % 2:
        assert kernel.count("shared_alloc") == 0


@pytest.mark.parametrize("range", ["0, k, 96", "32, k, TK", "0, k - 16, TK", "0, minimum(k, block(0) * 64), TK"])
def test_loops_that_skip_start_late_and_end_early(range: str) -> None:
    """The copies of iterations past the last one read nothing, whatever the mask of the load ends with."""
    kernel, args = product("pipeline p: 4", 64, 16, 160, range=range)
    assert shape(kernel)[2] == 4
    launch(kernel, args)
    a, b = args["a"].astype(np.float32), args["b"].astype(np.float32)
    for i in (0, 1):
        start, stop, step = eval(f"({range})", {"k": 160, "TK": 32, "minimum": min, "block": lambda axis: i})  # noqa: B023
        columns = [
            c for p in __builtins__["range"](start, stop, step) for c in __builtins__["range"](p, min(p + 32, 160))
        ]  # type: ignore[index]
        rows = slice(i * 32, i * 32 + 32)
        assert np.array_equal(args["c"][rows], a[rows][:, columns] @ b[:, columns].T)


def test_the_code_is_that_of_a_ring_written_by_hand() -> None:
    """Operation by operation, but for their order."""
    by_hand = """
kernel k(c: f32[m, n], a: f16[m, k], b: f16[n, k]; TM = 32, TN = 16, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    shared sa: f16[ring 3, TM, TK]
    shared sb: f16[ring 3, TN, TK]
    def fetch(p):
        copy(sa[p], a[i : i + TM, p * TK : p * TK + TK])
        copy(sb[p], b[j : j + TN, p * TK : p * TK + TK])
        commit()
    fetch(0)
    fetch(1)
    acc = zeros(f32[TM, TN])
    for p in range(cdiv(k, TK)):
        wait(1)
        fetch(p + 2)
        acc = dot(sa[p], sb[p].T, acc)
    wait(0)
    c[i : i + TM, j : j + TN] = acc

schedule s of k:
    warps = 2
"""
    kernel, args = product("pipeline p: 3\n    unroll p: 1", 64, 32, 128)
    hand = compile_kernel(by_hand, args)
    for name in ("shared_alloc", "copy", "commit", "wait", "barrier", "ldmatrix", "dot", "for", "store"):
        assert kernel.count(name) == hand.count(name) > 0, name


NEST = """
kernel k(y: s32[n, TM], x: s8[n, c, taps], w: s8[c, taps, TM, 32]; TM = 16, TN = 16):
    grid cdiv(n, TN)
    i = block(0) * TN
    acc = zeros(s32[TN, TM])
    for u in range(c // 32):
        for t in range({range}):
            pixels = x[i + arange(TN)[:, None], (u * 32 + arange(32))[None, :], t]
            acc = dot(pixels, w[u, t, 0 : TM, 0 : 32].T, acc)
    y[i : i + TN, 0 : TM] = acc

schedule s of k:
    warps = 1
    {lines}
"""


def nest(lines: str, taps: int, c: int, range: str = "taps") -> tuple[Kernel, dict[str, np.ndarray]]:
    random = np.random.default_rng(taps)
    args = {"y": np.zeros((32, 16), np.int32), "x": random.integers(-9, 9, (32, c, taps)).astype(np.int8)}
    args["w"] = random.integers(-9, 9, (c, taps, 16, 32)).astype(np.int8)
    return compile_kernel(NEST.format(lines=lines, range=range), args), args


@pytest.mark.parametrize("lines", ["stage x, w: registers", "pipeline t: 2", "pipeline u, t: 3", "pipeline u, t: 8"])
@pytest.mark.parametrize("taps", [1, 2, 9])
@pytest.mark.parametrize("c", [0, 32, 96])
def test_a_nest_is_one_sequence_of_rounds(lines: str, taps: int, c: int) -> None:
    kernel, args = nest(lines, taps, c)
    launch(kernel, args)
    x, w = args["x"].astype(np.int32), args["w"].astype(np.int32)
    wanted = sum((x[:, u * 32 : u * 32 + 32, t] @ w[u, t].T for u in range(c // 32) for t in range(taps)), np.int32(0))
    assert np.array_equal(args["y"], np.broadcast_to(wanted, (32, 16)))


def test_the_copies_of_a_nest_run_on_from_loop_to_loop() -> None:
    """The prologue stands before both loops, and one wait behind them."""
    kernel, _ = nest("pipeline u, t: 3", 9, 96)
    outer = next(op for op in kernel.variant.function.body.ops if op.name == "for")
    assert [op.name for op in kernel.variant.function.body.ops].count("commit") == 2
    assert [op.name for op in outer.regions[0].ops].count("commit") == 0


def test_what_the_mask_fills_with_other_than_zeros_is_put_in_again() -> None:
    text = """
kernel k(c: f32[m, 16], a: f16[m, k], b: f16[16, k]; TM = 16, TK = 16):
    grid cdiv(m, TM)
    i = block(0) * TM
    acc = zeros(f32[TM, 16])
    for p in range(0, k, TK):
        x = load(a[i : i + TM, p : p + TK], other=2)
        acc = dot(x, b[0 : 16, p : p + TK].T, acc)
    c[i : i + TM, 0 : 16] = acc

schedule s of k:
    unroll p: 1
    prefetch_fragments p: whole
"""
    random = np.random.default_rng(0)
    args = {"a": random.integers(-3, 4, (20, 40)).astype(np.float16), "c": np.zeros((20, 16), np.float32)}
    args["b"] = random.integers(-3, 4, (16, 40)).astype(np.float16)
    kernel = compile_kernel(text, args)
    # One select is for the whole k-tiles, the other for the last one.
    assert kernel.count("shared_alloc") == 2 and kernel.count("select") == 2
    launch(kernel, args)
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ args["b"].T.astype(np.float32))


ROUNDS = """
kernel k(y: f32[n], x: f32[n, m]):
    grid n
    most = full(f32[64], inf)
    for p in range(0, m, 64):
        most = minimum(most, 1.0 / load(x[block(0), p : p + 64], other=-0.0))
    y[block(0)] = min(most)

schedule s of k:
    stage x: shared
    pipeline p: 2
"""
WIDE = """
kernel k(y: f32[n], x: f32[n, m]):
    grid n
    v = load(x[block(0), 0 : 256], other=-0.0)
    total = sum(v)
    y[block(0)] = min(1.0 / v) + total * 0.0

schedule s of k:
    loop v, 0: 64
    stage v: shared
"""


@pytest.mark.parametrize("text", [ROUNDS, WIDE])
def test_a_zero_with_a_sign_is_something_else_than_zeros(text: str) -> None:
    args = {"x": np.ones((2, 200), np.float32), "y": np.zeros(2, np.float32)}
    launch(compile_kernel(text, args), args)
    assert np.array_equal(args["y"], [-np.inf, -np.inf])


def test_what_was_copied_by_hand_is_pipelined_where_the_schedule_says_so() -> None:
    text = """
kernel k(y: f32[n], x: f32[n]):
    grid 1
    shared s: f32[64]
    total = zeros(f32[64])
    for p in range(0, n, 64):
        copy(s[:], x[p : p + 64])
        commit()
        wait(0)
        total = total + s[63 - arange(64)]
    y[0 : 64] = total

schedule s of k:
    warps = 1
    {}
"""
    args = {"y": np.zeros(300, np.float32), "x": np.arange(300).astype(np.float32)}
    for lines, stages in (("contract off", 0), ("pipeline p: 3", 3)):
        kernel = compile_kernel(text.format(lines), args)
        assert shape(kernel)[2] == stages
        launch(kernel, args)
        padded = np.concatenate([args["x"], np.zeros(20, np.float32)]).reshape(5, 64)
        assert np.array_equal(args["y"][:64], padded.sum(0)[::-1])


def test_slots_are_as_many_as_fit() -> None:
    """3 stages of 2 x 256 x 64 f16 are 192 KiB: too many for sm_86, which has 99."""
    sizes = {"TM": 256, "TN": 256, "TK": 64}
    for arch, stages in (("sm_90", 3), ("sm_86", 0)):
        assert rings(sizes, arch) == stages
    assert rings({"TM": 128, "TN": 128, "TK": 64}, "sm_86") == 2


def test_slots_leave_a_multiprocessor_eight_warps() -> None:
    """3 stages of 48 KiB are one block on a multiprocessor, 2 are two: with four warps each. One of eight is enough."""
    sizes = {"TM": 128, "TN": 256, "TK": 64}
    assert rings(sizes, "sm_90", warps=4) == 2
    assert rings(sizes, "sm_90", warps=8) == 3
    assert rings({"TM": 256, "TN": 256, "TK": 64}, "sm_90", warps=4) == 3  # of 64 KiB: one block either way


def rings(constants: dict[str, int], arch: str, warps: int = 2) -> int:
    text = PRODUCT.format(lines="contract off", type="f16", sum="f32", range="0, k, TK")
    program = parse_program(text.replace("warps = 2", f"warps = {warps}"))
    request = Request("k", "s", {"m": 256, "n": 256, "k": 128}, constants=constants, arch=arch)
    variant = build_variant(program, request)
    run_passes(variant.function, variant.target, through("pipeline"))
    return shape(Kernel(variant, ""))[2]


WRONG = {
    "stage y: shared": ("name", "kernel 'k' has no tensor or value 'y' to stage"),
    "pipeline q: 2": ("name", "the kernel has no loop over 'q'"),
    "pipeline p: 200": ("schedule", "pipeline is from 1 to 16; this is 200"),
    "stage a, b: registers\n    pipeline p: 3": ("schedule", "loop 'p' has no copies at the head of its body"),
}


@pytest.mark.parametrize("lines", WRONG)
def test_what_does_not_fit_a_product_is_refused(lines: str) -> None:
    with pytest.raises(TileError) as caught:
        product(lines, 32, 16, 64)
    code, message = WRONG[lines]
    assert caught.value.code == code and caught.value.message.startswith(message) and caught.value.loc is not None


def test_a_loop_whose_loads_nothing_uses_has_nothing_to_copy() -> None:
    """`stage` removes the loads. The hint named a tensor `a`, which the loop does not load."""
    text = PRODUCT.format(lines="pipeline q: 2", type="f16", sum="f32", range="0, k, TK").replace(
        "    for p in", "    for q in range(0, k, TK):\n        x = b[q : q + TK, 0 : TN]\n    for p in"
    )
    with pytest.raises(TileError, match="loop 'q' loads no tile that is used, so nothing could run ahead") as caught:
        compile_kernel(text, dims={"m": 32, "n": 16, "k": 64}, arch="sm_90")
    assert caught.value.loc is not None and text.splitlines()[caught.value.loc.line - 1].strip() == "pipeline q: 2"


@pytest.mark.parametrize("turned", ["a", "b", "ab", ""])
def test_a_tile_lies_in_shared_memory_as_its_tensor_does(turned: str) -> None:
    """One kernel for operands either way, `b.T` of an array too: copies have 16 bytes, and matrices are turned."""
    text = """
kernel k(c: f32[m, n], a: f16[m, k; strided], b: f16[k, n; strided]; TM = 32, TN = 32, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(f32[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[p : p + TK, j : j + TN], acc)
    c[i : i + TM, j : j + TN] = acc

schedule s of k:
    warps = 2
    unroll p: 1
    prefetch_fragments p: whole
"""
    random = np.random.default_rng(0)
    arrays = {"a": random.integers(-3, 4, (64, 96)), "b": random.integers(-3, 4, (96, 64))}
    args: dict[str, np.ndarray] = {"c": np.zeros((64, 64), np.float32)}
    strides = {}
    for name, array in arrays.items():
        of = array.astype(np.float16)
        args[name] = np.ascontiguousarray(of.T).T if name in turned else of
        strides[name] = (1, 16) if name in turned else (16, 1)
    kernel = compile_kernel(text, args, strides=strides)
    assert {op.attrs["bytes"] for op in kernel.ops if op.name == "copy"} == {16} and kernel.count("ldmatrix") == 2
    launch(kernel, args)
    assert np.array_equal(args["c"], arrays["a"] @ arrays["b"])


TWICE = """
kernel k(y: f32[m, 32], q: f16[m, 32], x: f16[n, 32]; TM = 16, TN = 32):
    grid cdiv(m, TM)
    i = block(0) * TM
    qs, acc = q[i : i + TM, 0 : 32], zeros(f32[TM, 32])
    for j in range(0, n, TN):
        xs = x[j : j + TN, 0 : 32]
        acc = dot(dot(qs, xs.T).to(f16), xs, acc)
    y[i : i + TM, 0 : 32] = acc

schedule s of k:
    warps = 1
"""


def test_what_two_products_need_is_read_for_each() -> None:
    """Its tile is copied once. Without a load for each, the second product has it through a tile of its own."""
    random = np.random.default_rng(0)
    args = {"y": np.zeros((16, 32), np.float32), "q": random.integers(-2, 3, (16, 32)).astype(np.float16)}
    args["x"] = random.integers(-2, 3, (80, 32)).astype(np.float16)
    kernel = compile_kernel(TWICE, args)
    assert kernel.count("shared_alloc") == 1 and kernel.count("copy") == 3 and kernel.count("ldmatrix") >= 2
    launch(kernel, args)
    q, x = args["q"].astype(np.float32), args["x"].astype(np.float32)
    assert np.array_equal(args["y"], q @ x.T @ x)


def test_peel_of_a_pipelined_loop_says_that_there_is_nothing_to_do() -> None:
    kernel, args = product("peel p", 33, 17, 104)
    made = kernel.variant.function.choices.keyed()["peel.p"]
    assert made.options == ("off",) and "pipelined" in made.because
    launch(kernel, args)
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ args["b"].T.astype(np.float32))


def test_a_loop_of_narrow_rows_tells_that_it_copies_nothing_ahead() -> None:
    """Rows of 51 columns of f16 are 2 aligned bytes: the schedule's line stands in the record, for `dsl why`."""
    text = """
kernel product(c: f32[m, n], a: f16[m, k], b: f16[n, k]; TM = 16, TN = 16, TK = 16):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j, acc = block(0) * TM, block(1) * TN, zeros(f32[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc

schedule ahead of product:
    warps = 1
    pipeline p: 3
"""
    made = dsl.parse(text, device="emulator").compile("product", "ahead", m=16, n=16, k=51).compiled
    choice = made.variant.function.choices.keyed()["pipeline.p"]
    assert choice.is_pinned and choice.taken == "1"
    assert choice.because == "3 stages are requested, and nothing that it loads is staged"
