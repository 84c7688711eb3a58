"""`peel p`: a last iteration that is not whole is done apart, and all others have no mask for the end of the loop."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

import dsl
from dsl.lowering.ir.location import TileError
from tests.compile_and_run import Kernel, compile_kernel, launch

PRODUCT = """
kernel k(c: f32[m, n], a: f16[m, k], b: f16[n, k]; TM = 16, TN = 16, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(f32[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc

schedule s of k:
    warps = 1
    stage a, b: registers
    {lines}
"""


def product(lines: str, m: int, n: int, k: int) -> tuple[Kernel, dict[str, np.ndarray]]:
    random = np.random.default_rng(k)
    args = {"a": random.integers(-3, 4, (m, k)).astype(np.float16), "c": np.full((m, n), np.nan, np.float32)}
    args["b"] = random.integers(-3, 4, (n, k)).astype(np.float16)
    return compile_kernel(PRODUCT.format(lines=lines), args), args


def masks(kernel: Kernel) -> list[bool]:
    """Of the loads, in order."""
    return ["mask" in op.attrs["has"] for op in kernel.ops if op.name == "load"]


WAYS = {"none": "maxnreg 255", "peel": "peel p", "unroll": "unroll p: 2", "both": "peel p\n    unroll p: 2"}
LOADS = {"none": "mm", "peel": "..mm", "unroll": "....mm", "both": "......mm"}
"""Loads with and without a mask: whole iterations first, what is left after them, the iteration that is not whole
last."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("k", [8, 24, 40, 72, 104, 136, 168])
def test_whole_rounds_have_no_mask(way: str, k: int) -> None:
    kernel, args = product(WAYS[way], 32, 16, k)
    assert masks(kernel) == [each == "m" for each in LOADS[way]]
    launch(kernel, args)
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ args["b"].T.astype(np.float32))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("k", [0, 1, 3, 31, 33, 65])
def test_odd_extents_and_no_rounds(way: str, k: int) -> None:
    kernel, args = product(WAYS[way], 17, 5, k)
    launch(kernel, args)
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ args["b"].T.astype(np.float32))


def test_whole_rounds_load_as_wide_as_if_there_were_no_mask() -> None:
    """Of f16, where 1 divides all that is known of k but a tile does not."""
    peeled, _ = product("peel p", 32, 16, 104)
    whole, _ = product("maxnreg 255", 32, 16, 128)
    widths = [Counter(re.findall(r"ld\.global\S*", kernel.ptx)) for kernel in (whole, peeled)]
    assert widths[0] and widths[0] <= widths[1]


def test_a_loop_whose_rounds_are_all_whole_stays() -> None:
    plain, peeled = (product(WAYS[way], 32, 16, 96)[0] for way in ("none", "peel"))
    assert masks(peeled) == [False, False] and peeled.count("for") == 1
    assert plain.variant.function.choices.keyed().keys() == peeled.variant.function.choices.keyed().keys()


LINES = """
kernel k(y: s32[iterations, 8], x: s32[n], start: {dtype}, stop: {dtype}):
    grid 1
    at = 0
    for p in range(start, stop, {step}):
        y[at, 0 : 8] = x[p : p + 8]
        at = at + 1

schedule s of k:
    warps = 1
    peel p
"""


@pytest.mark.parametrize("step", [2, 3, 8])
@pytest.mark.parametrize("dtype", ["s32", "u32", "s64", "u8", "s8"])
def test_rounds_are_those_of_python(dtype: str, step: int) -> None:
    """From starts to stops of every kind, the type's ends and stops ahead of the start among them."""
    types = {"s32": np.int32, "u32": np.uint32, "s64": np.int64, "u8": np.uint8, "s8": np.int8}
    least, most = np.iinfo(types[dtype]).min, np.iinfo(types[dtype]).max
    kernel = None
    ends = [(0, 20), (5, 5), (9, 2), (1, 18), (most - 20, most), (most - 1, most), (least, least + 17), (most, least)]
    for start, stop in ends:
        iterations = list(range(start, stop, step))
        x = np.arange(1, 41, dtype=np.int32)
        y = np.full((len(iterations) + 1, 8), -1, np.int32)
        args = {"x": x, "y": y, "start": types[dtype](start), "stop": types[dtype](stop)}
        kernel = kernel or compile_kernel(LINES.format(dtype=dtype, step=step), args)
        assert kernel.count("for") == 2
        launch(kernel, args)
        for row, p in zip(y, iterations, strict=False):
            inside = [x[i] if 0 <= i < len(x) else 0 for i in range(p, p + 8)]
            assert row.tolist() == [int(v) for v in inside], (start, stop, p)
        assert (y[len(iterations)] == -1).all()


def test_constant_bounds_leave_the_last_round_as_it_is() -> None:
    text = """
kernel k(y: f32[64], x: f32[n]):
    grid 1
    assert n == 84
    v = zeros(f32[16])
    for p in range(0, {stop}, 16):
        v = v + x[p : p + 16]
    y[0 : 16] = v

schedule s of k:
    warps = 1
    specialize n
    peel p
"""
    x = np.arange(84, dtype=np.float32)
    for stop, loops in ((84, 1), (80, 1), (17, 1), (16, 1), (15, 0), (0, 1)):
        args = {"x": x, "y": np.zeros(64, np.float32)}
        kernel = compile_kernel(text.format(stop=stop), args)
        launch(kernel, args)
        assert kernel.count("for") == loops
        wanted = sum((np.pad(x[p : p + 16], (0, 16 - len(x[p : p + 16]))) for p in range(0, stop, 16)), np.zeros(16))
        assert np.array_equal(args["y"][:16], wanted)


def test_nested_loops_peeled_both() -> None:
    text = """
kernel k(y: f32[1], x: f32[m, n]):
    grid 1
    v = zeros(f32[4, 8])
    for i in range(0, m, 4):
        for j in range(0, n, 8):
            v = v + x[i : i + 4, j : j + 8]
    y[0] = sum(v)

schedule s of k:
    warps = 1
    peel i, j
"""
    for shape in ((4, 8), (7, 9), (9, 17), (3, 7), (8, 20)):
        x = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
        args = {"x": x, "y": np.zeros(1, np.float32)}
        kernel = compile_kernel(text, args, dims={})
        assert kernel.count("for") == 6
        assert masks(kernel) == [False, True, True, True]
        launch(kernel, args)
        assert args["y"][0] == x.sum()


def body(ptx: str) -> str:
    return ptx[ptx.index(".version") :]


def test_peel_is_a_choice_and_takes_a_condition() -> None:
    text = PRODUCT.format(lines="peel p: k > 64")
    kernels = {k: dsl.parse(text, device="emulator").compile("k", m=32, n=16, k=k) for k in (40, 72)}
    assert [kernels[k].ir.count("= for(") for k in (40, 72)] == [1, 2]
    forced = dsl.parse(PRODUCT.format(lines="choose peel.p: on"), device="emulator")
    assert body(forced.compile("k", m=32, n=16, k=40).ptx) == body(kernels[72].ptx) != body(kernels[40].ptx)
    with pytest.raises(TileError, match="peel"):
        dsl.parse(PRODUCT.format(lines="peel p: 3"), device="emulator").compile("k", m=32, n=16, k=40)
