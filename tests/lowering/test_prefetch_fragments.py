"""`prefetch_fragments`: the products of a pipelined loop go step by step along k, their fragments a step ahead."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.kernels.variant import Request
from dsl.lowering.ir.function import Op
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import Kernel, compile_kernel, launch
from tests.whole import some

PRODUCT = """
kernel k(c: S[m, n], a: T[m, k], b: T[n, k]; T in f16|s8|f32, S in f32|s32, TM = 32, TN = 32, TK = 64):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(S[TM, TN])
    for p in range(0, k, TK):
        x = a[i : i + TM, p : p + TK]
        y = b[j : j + TN, p : p + TK].T
        if T == f32:
            acc = dot(x.to(tf32), y.to(tf32), acc)
        else:
            acc = dot(x, y, acc)
    c[i : i + TM, j : j + TN] = acc

schedule s of k:
    warps = 2
    {lines}
"""
SUMS = {
    "f16": (np.float16, "f32", np.float32),
    "s8": (np.int8, "s32", np.int32),
    "f32": (np.float32, "f32", np.float32),
}


def product(lines: str, type: str, m: int, n: int, k: int) -> tuple[Kernel, dict[str, np.ndarray]]:
    array, total, out = SUMS[type]
    random = np.random.default_rng(k)
    args = {"a": random.integers(-3, 4, (m, k)).astype(array), "b": random.integers(-3, 4, (n, k)).astype(array)}
    args["c"] = np.full((m, n), -1, out)
    return compile_kernel(PRODUCT.format(lines=lines), args, types={"T": type, "S": total}), args


def loops(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.ops if op.spec.control.counters]


WAYS = {
    "early": "prefetch_fragments p: early\n    unroll p: 1",
    "late": "prefetch_fragments p: late\n    unroll p: 1",
    "two iterations": "prefetch_fragments p: early\n    unroll p: 2",
    "two stages": "pipeline p: 2\n    unroll p: 1",
    "two iterations of two stages": "prefetch_fragments p: early\n    pipeline p: 2\n    unroll p: 2",
    "tiles": "persistent 1\n    l2_group 1",
    "parts": "subtile acc: 16, 16\n    prefetch_fragments p: late",
    "shares": "split p: stream",
}


@pytest.mark.parametrize("word", ["early", "late"])
def test_rows_that_begin_anywhere_have_neither_pipeline_nor_steps(word: str) -> None:
    """`pipeline` steps back where no copy takes 53 columns of f16; `prefetch_fragments` beside it was an error."""
    kernel, args = product(f"pipeline p: 3\n    prefetch_fragments p: {word}", "f16", 33, 45, 53)
    launch(kernel, args)
    assert np.array_equal(args["c"], (args["a"].astype(np.float64) @ args["b"].T.astype(np.float64)))
    assert not any(op.spec.in_flight for op in kernel.ops)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("type", SUMS)
@pytest.mark.parametrize(("m", "n", "k"), some([(65, 96, 328), (32, 32, 64), (32, 64, 0), (64, 33, 200)], 2))
def test_products_are_right_step_by_step(way: str, type: str, m: int, n: int, k: int) -> None:
    kernel, args = product(WAYS[way], type, m, n, k)
    launch(kernel, args)
    assert np.array_equal(args["c"], (args["a"].astype(np.float64) @ args["b"].T.astype(np.float64)))


def test_a_round_reads_the_first_fragments_of_the_next_one_behind_its_barrier() -> None:
    """4 steps of 16: the loop's products are four, with the wait in front of the last one, and it carries two
    fragments."""
    kernel, _ = product(WAYS["early"], "f16", 64, 64, 512)
    (loop,) = loops(kernel)
    order = [op.name for op in loop.regions[0].ops if op.name in ("dot", "wait", "ldmatrix", "barrier", "commit")]
    assert order == ["ldmatrix"] * 2 + ["dot"] + ["ldmatrix"] * 2 + ["dot"] + ["ldmatrix"] * 2 + ["dot"] + [
        "commit", "wait", "barrier", "ldmatrix", "ldmatrix", "dot"
    ]  # fmt: skip
    assert [arg.shape for arg in loop.regions[0].args[1:]] == [(32, 32), (32, 16), (16, 32)]


def test_late_reads_a_fragment_where_its_registers_are_free() -> None:
    kernel, _ = product(WAYS["late"], "f16", 64, 64, 512)
    (loop,) = loops(kernel)
    order = [op.name for op in loop.regions[0].ops if op.name in ("dot", "wait", "ldmatrix")]
    assert order == (["dot"] + ["ldmatrix"] * 2) * 3 + ["dot", "wait", "ldmatrix", "ldmatrix"]


@pytest.mark.parametrize(("m", "type", "way"), [(256, "f16", "early"), (264, "f16", "late"), (264, "f32", "early")])
def test_masks_of_copies_need_the_registers_of_fragments(m: int, type: str, way: str) -> None:
    """128 accumulators and 16 copies a thread: with masks, `early` spills in f16."""
    array, total, out = SUMS[type]
    columns = 512 // np.dtype(array).itemsize
    text = PRODUCT.replace("TM = 32, TN = 32, TK = 64", f"TM = 128, TN = 128, TK = {columns // 4}")
    args = {"a": np.zeros((m, columns), array), "b": np.zeros((m, columns), array), "c": np.zeros((m, m), out)}
    text = text.replace("warps = 2\n    {lines}", "warps = 4")
    kernel = compile_kernel(text, args, arch="sm_80", types={"T": type, "S": total})
    assert kernel.variant.function.choices.keyed()["prefetch_fragments.p"].taken == way


def test_copies_are_spread_over_the_products() -> None:
    """A tile of 32 x 64 halves is 4 KiB: four copies of 16 bytes a thread, between the products."""
    kernel, _ = product(WAYS["early"], "f16", 64, 64, 512)
    (loop,) = loops(kernel)
    names = [op.name for op in loop.regions[0].ops if op.name in ("dot", "copy")]
    assert names.count("copy") == 8 and names.index("dot") < len(names) - names[::-1].index("copy") - 1


def test_meaning_is_the_same_behind_every_pass() -> None:
    program = parse_program(PRODUCT.format(lines="subtile acc: 16, 32"))
    random = np.random.default_rng(0)
    args = {"a": random.standard_normal((40, 136)).astype(np.float16), "c": np.zeros((40, 33), np.float32)}
    args["b"] = random.standard_normal((33, 136)).astype(np.float16)
    request = Request("k", "s", {"m": 40, "n": 33, "k": 136}, types={"T": "f16", "S": "f32"})
    assert verify_kernel(program, request, args).divergence is None


def test_a_round_that_does_more_is_done_as_it_is_written() -> None:
    """A loop that goes on behind its products, as that of attention does, keeps whole iterations without being
    asked."""
    text = """
kernel k(y: f32[m, 32], q: f16[m, 32], x: f16[n, 32]; TM = 16, TN = 32):
    grid cdiv(m, TM)
    i = block(0) * TM
    qs, acc = q[i : i + TM, 0 : 32], zeros(f32[TM, 32])
    for j in range(0, n, TN):
        xs = x[j : j + TN, 0 : 32]
        acc = dot(dot(qs, xs.T).to(f16), xs, acc)
    y[i : i + TM, 0 : 32] = acc
"""
    args = {"y": np.zeros((16, 32), np.float32), "q": np.ones((16, 32), np.float16), "x": np.ones((64, 32), np.float16)}
    kernel = compile_kernel(text, args)
    assert "prefetch_fragments.j" not in kernel.variant.function.choices.keyed()


@pytest.mark.parametrize("n", [33, 64])
def test_operands_that_lie_across_k_are_loaded_where_their_rows_begin_anywhere(n: int) -> None:
    """Of 33 columns the variant was an error: that the operand is loaded was not seen through its transposes."""
    text = PRODUCT.replace("b: T[n, k]", "b: T[k, n]")
    text = text.replace("b[j : j + TN, p : p + TK].T", "b[p : p + TK, j : j + TN].T.T")
    random = np.random.default_rng(n)
    args = {"a": random.integers(-3, 4, (64, 128)).astype(np.float16), "c": np.full((64, n), -1, np.float32)}
    args["b"] = random.integers(-3, 4, (128, n)).astype(np.float16)
    kernel = compile_kernel(text.format(lines="prefetch_fragments p: late"), args, types={"T": "f16", "S": "f32"})
    launch(kernel, args)
    assert (args["c"] == args["a"].astype(np.float32) @ args["b"].astype(np.float32)).all()
    assert kernel.variant.function.choices.keyed()["prefetch_fragments.p"].taken == ("late" if n == 64 else "whole")
