"""Pipelines of loops in one another: one loop of all iterations, places that are moved, rows in runs, what follows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compile_and_run import Kernel, compile_kernel, launch

TEXT = """
kernel k(y: s32[n, m], x: s8[cb, n, 32], f: s8[cb, r, m, 32], z: s32[n, m]; TN = 64, TM = 32, TK = 64, R = 3):
    grid cdiv(n, TN), cdiv(m, TM)
    pixel, o = block(0) * TN + arange(TN), block(1) * TM + arange(TM)
    acc = zeros(s32[TN, TM])
    for c in range(0, cb * 32, TK):
        for t in range({taps}):
            at, u = pixel // 5 * 5 + (pixel + 2 * t) % 5 - 1, c + arange(TK)
            inside = (0 <= at) & (at < n) & (pixel < n)
            d, e, known = (u // 32)[None, :], (u % 32)[None, :], (u < cb * 32)[None, :]
            a = load(x[d, at[:, None], e], mask=inside[:, None] & known)
            b = load(f[d, t, o[:, None], e], mask=(o < m)[:, None] & known)
            acc = dot(a, b.T, acc){more}
    v = acc
    old = load(z[pixel[:, None], o[None, :]], mask=(pixel < n)[:, None] & (o < m)[None, :])
    store(y[pixel[:, None], o[None, :]], v + old, mask=(pixel < n)[:, None] & (o < m)[None, :])

schedule s of k:
    warps = 4
    {lines}
"""


def product(lines: str, n: int, m: int, cb: int, taps: int = 3, at: str = "R", more: str = "") -> Kernel:
    """Compiled, run and compared."""
    random = np.random.default_rng(n + m + cb)
    x, f = (random.integers(-128, 128, e).astype(np.int8) for e in ((cb, n, 32), (cb, taps, m, 32)))
    z = random.integers(-9, 9, (n, m)).astype(np.int32)
    args = {"y": np.full((n, m), 77, np.int32), "x": x, "f": f, "z": z}
    kernel = compile_kernel(TEXT.format(taps=at, lines=lines, more=more), args, constants={"R": taps})
    launch(kernel, args)
    wanted = z.copy()
    for t in range(taps):
        pixel = np.arange(n)
        at_ = pixel // 5 * 5 + (pixel + 2 * t) % 5 - 1
        seen = np.where(((at_ >= 0) & (at_ < n))[None, :, None], x[:, np.clip(at_, 0, n - 1)], 0).astype(np.int32)
        wanted += np.einsum("cnk,cmk->nm", seen, f[:, t].astype(np.int32))
        if more:
            wanted += t
    assert np.array_equal(args["y"], wanted)
    return kernel


def loops(kernel: Kernel) -> int:
    return sum(op.spec.control.counters and op.attrs["unroll"] == 1 for op in kernel.ops)


WAYS = [
    "pipeline c, t: 3",
    "pipeline c, t: 2\n    prefetch_fragments t: late",
    "pipeline c, t: 5\n    prefetch_fragments t: whole",
]


@pytest.mark.parametrize("lines", WAYS)
@pytest.mark.parametrize(("n", "m", "cb"), [(64, 32, 4), (77, 40, 5), (3, 1, 1), (130, 33, 8)])
def test_rounds_of_a_nest_are_those_of_one_loop(lines: str, n: int, m: int, cb: int) -> None:
    kernel = product(f"{lines}\n    unroll t: 1", n, m, cb)
    assert loops(kernel) == 1


def test_a_nest_whose_rounds_ask_for_their_counter_stays_one() -> None:
    kernel = product("pipeline c, t: 3\n    unroll t: 1", 77, 40, 2, more="\n            acc = acc + t.to(s32)")
    assert loops(kernel) == 2


def test_a_loop_inside_may_ask_for_the_counter_of_a_pipelined_one() -> None:
    """Of its staged copies, and of nothing else in the loop around."""
    text = """
kernel k(y: f32[rows, cols], z: f32[rows, cols], x: f32[rows, cols], n: s32, e: s32; R = 4, C = 256):
    grid 1
    for h in range(n - 3, n):
        for i in range(2):
            u = x[2 * R : 2 * R + R, 0 : C]
            y[h * R : h * R + R, 0 : C] = u - max(u, axis=1, keepdims=true)
            for j in range(e):
                z[j * R : j * R + R, 0 : C] = x[i * R : i * R + R, 0 : C] * 2.0

schedule s of k:
    warps = 4
    stage x: shared
"""
    x = np.random.default_rng(1).standard_normal((12, 251)).astype(np.float32)
    args = {"y": np.zeros_like(x), "z": np.zeros_like(x), "x": x, "n": 3, "e": 3}
    launch(compile_kernel(text, args), args)
    assert np.array_equal(args["y"], np.tile(x[8:] - x[8:].max(1, keepdims=True), (3, 1)))
    assert np.array_equal(args["z"], np.tile(x[4:8] * 2, (3, 1)))


@pytest.mark.parametrize("taps", [1, 2, 3])
def test_a_loop_of_one_round_is_none(taps: int) -> None:
    """Nor is there a stage that no iteration uses."""
    kernel = product("pipeline c, t: 4\n    specialize cb", 77, 40, 2, taps)
    stages = [op.attrs["type"].shape[0] for op in kernel.ops if op.name == "shared_alloc" and op.attrs["type"].ring]
    assert stages == [min(4, taps + 1)] * 2
    assert kernel.count("for") == 0, "all iterations are written out"


def test_copies_that_run_past_the_last_round_go_where_rounds_are_written_out() -> None:
    """Of an iteration: one copy of the filters' block, and one of the pixels', for each of the two blocks."""
    kernel = product("pipeline c, t: 4\n    specialize cb", 77, 40, 2)
    assert kernel.count("copy") == 3 * 4


def test_runs_of_rows_lie_as_they_do_in_memory() -> None:
    """A block of 32 channels of all pixels before the next one, so that 512 bytes of a warp's copy are one piece: 64
    pixels of 64 bytes take the fewest passes over the banks, and no conflicts."""
    kernel = product("pipeline c, t: 3", 128, 64, 4)
    held = [op.attrs["type"].shape for op in kernel.ops if op.name == "shared_alloc" and op.attrs["type"].ring]
    assert held == [(3, 2, 64, 32), (3, 2, 32, 32)]


@pytest.mark.long
@pytest.mark.parametrize("lines", ["pipeline c, t: 3", "pipeline c, t: 1", "split c: 2\n    stage z: registers"])
@pytest.mark.parametrize("z", ["shared", "registers"])
def test_what_follows_a_loop_is_copied_before_it(lines: str, z: str) -> None:
    line = "" if "stage z" in lines else f"\n    stage z: {z}"
    kernel = product(lines + line, 77, 40, 4)
    staged = [op for op in kernel.ops if op.name == "shared_alloc" and op.attrs["name"] == "sz"]
    assert bool(staged) == (z == "shared" and bool(line))
    if staged:
        top = kernel.variant.function.body.ops
        first = next(i for i, op in enumerate(top) if op.spec.control.counters)
        assert any(op.spec.in_flight and op.operands[0] is staged[0].result for op in top[:first])
