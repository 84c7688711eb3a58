"""`subtile`: a tile, and all that is computed with it, as several tiles."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.kernels.variant import Request
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import compile_kernel, launch

ROWS = """
kernel k(y: f32[n, n], x: f32[n, n], z: f32[n]; R = 16, C = 64):
    grid cdiv(n, R), cdiv(n, C)
    i, j = block(0) * R, block(1) * C
    total = zeros(f32[R, C])
    for p in range(3):
        v = x[i : i + R, j : j + C] * (p + 1).to(f32)
        if n > 20 + p:
            v = v + z[i : i + R][:, None]
        else:
            v = v - z[j : j + C][None, :]
        total = total + where(v > 0, v, v * 2)
    y[i : i + R, j : j + C] = total

schedule s of k:
    warps = 1
    {lines}
"""


def rows(n: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    random = np.random.default_rng(n)
    args = {"x": random.integers(-9, 9, (n, n)).astype(np.float32), "z": random.integers(-9, 9, n).astype(np.float32)}
    args["y"] = np.zeros((n, n), np.float32)
    total = np.zeros((n, n), np.float32)
    for p in range(3):
        v = args["x"] * (p + 1)
        v = v + args["z"][:, None] if n > 20 + p else v - args["z"][None, :]
        total += np.where(v > 0, v, v * 2)
    return args, total


@pytest.mark.parametrize(
    "lines", ["subtile total: 8, 64", "subtile total: 16, 16", "subtile total: 4, 32", "subtile v: 8, 8"]
)
@pytest.mark.parametrize("n", [16, 21, 22, 70])
def test_through_loops_and_branches(lines: str, n: int) -> None:
    args, wanted = rows(n)
    launch(compile_kernel(ROWS.format(lines=lines), args), args)
    assert np.array_equal(args["y"], wanted)


@pytest.mark.parametrize(("extents", "part"), [("R = 24, C = 96", "8, 32"), ("R = 16, C = 48", "16, 16")])
def test_extents_need_not_be_powers_of_two(extents: str, part: str) -> None:
    args, wanted = rows(70)
    text = ROWS.format(lines=f"subtile total: {part}").replace("R = 16, C = 64", extents)
    launch(compile_kernel(text, args), args)
    assert np.array_equal(args["y"], wanted)


def test_meaning_is_the_same_behind_every_pass() -> None:
    args, _ = rows(37)
    program = parse_program(ROWS.format(lines="subtile total: 4, 16"))
    assert verify_kernel(program, Request("k", "s", {"n": 37}), args).divergence is None


SUMS = """
kernel k(c: f16[m, n], a: f16[m, k], b: f16[n, k]; TM = 128, TN = 128, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(f32[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc.to(f16)
"""


def test_a_large_sum_of_products_is_done_in_four() -> None:
    """Their operands are loaded twice, not four times, into one tile each."""
    random = np.random.default_rng(0)
    args = {"a": random.integers(-3, 4, (130, 64)).astype(np.float16), "c": np.zeros((130, 136), np.float16)}
    args["b"] = random.integers(-3, 4, (136, 64)).astype(np.float16)
    kernel = compile_kernel(SUMS + "schedule s of k:\n    instruction acc: mma.sync\n", args)
    assert kernel.variant.function.choices.keyed()["subtile.acc"].taken == "64, 64"
    assert kernel.count("shared_alloc") == 4 and kernel.count("store") == 4
    launch(kernel, args)
    assert np.array_equal(args["c"], (args["a"].astype(np.float32) @ args["b"].T.astype(np.float32)).astype(np.float16))


def test_a_small_one_is_not() -> None:
    args = {"a": np.ones((64, 64), np.float16), "b": np.ones((64, 64), np.float16), "c": np.ones((64, 64), np.float16)}
    kernel = compile_kernel(SUMS.replace("TM = 128, TN = 128", "TM = 64, TN = 64"), args)
    assert "subtile.acc" not in kernel.variant.function.choices.keyed()


def test_joined_sums_whose_rows_are_added_stay_whole() -> None:
    """`split` gives the joined sums the name of the accumulator. It was cut, and they could not be: an error without
    a place."""
    source = SUMS.replace("c: f16[m, n]", "c: f32[m, n], s: f32[columns, m]").replace("acc.to(f16)", "acc")
    line = "    s[j // TN, i : i + TM] = sum(acc, axis=1)\n    c["
    split = source.replace("    c[", line) + "schedule s of k:\n    instruction acc: mma.sync\n    split p: 2\n"
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (rows, 128)).astype(np.float16) for rows in (130, 136))
    args = {"a": a, "b": b, "c": np.zeros((130, 136), np.float32), "s": np.zeros((2, 130), np.float32)}
    kernel = compile_kernel(split, args)
    assert "subtile.acc" not in kernel.variant.function.choices.keyed()
    launch(kernel, args)
    wanted = a.astype(np.float32) @ b.T.astype(np.float32)
    assert np.array_equal(args["c"], wanted) and np.array_equal(args["s"].sum(axis=0), wanted.sum(axis=1))


@pytest.mark.parametrize("rows", [8, 16])
def test_through_what_is_stacked(rows: int) -> None:
    """Parts of rows, beside what a stack counts: a convolution of u8 with something to add was an error."""
    text = """
kernel k(y: s32[n, 64], x: u8[n, 32]; R = 16):
    grid cdiv(n, R)
    i = block(0) * R
    v = x[i : i + R, 0 : 32]
    w = reshape(stack(v & 15, v >> 4).to(s32), [R, 64])
    y[i : i + R, 0 : 64] = w * 3

schedule s of k:
    warps = 1
    subtile w: {rows}, 64
"""
    x = np.random.default_rng(3).integers(0, 256, (21, 32)).astype(np.uint8)
    args = {"y": np.zeros((21, 64), np.int32), "x": x}
    launch(compile_kernel(text.format(rows=rows), args), args)
    assert np.array_equal(args["y"], 3 * np.stack([x & 15, x >> 4], -1).reshape(21, 64))
