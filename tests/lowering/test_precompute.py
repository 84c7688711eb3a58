"""`precompute inside: t`: flags of a short loop as bits that are computed before it."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import TileError
from tests.compile_and_run import compile_kernel, launch

TEXT = """
kernel k(y: s32[n], x: s32[cb, n], taps: s32; FIRST = 0, LAST = 5, STEP = 1):
    grid cdiv(n, 32)
    pixel = block(0) * 32 + arange(32)
    total = zeros(s32[32])
    for u in range(cb):
        for t in range({range}):
            at = pixel + t * 2 - 3
            inside = (0 <= at) & (at < n){more}
            total = total + load(x[u, at], mask=inside) * (t + 1).to(s32)
    store(y[pixel], total, mask=pixel < n)

schedule s of k:
    warps = 1
    {lines}
"""


def compiled(lines: str, range: str, more: str = "", cb: int = 2, n: int = 45, taps: int = 5) -> tuple:
    random = np.random.default_rng(0)
    args = {"y": np.zeros(n, np.int32), "x": random.integers(-9, 10, (cb, n)).astype(np.int32), "taps": taps}
    kernel = compile_kernel(TEXT.format(lines=lines, range=range, more=more), args, scalars={"taps": taps})
    return kernel, args


def wanted(x: np.ndarray, iterations: range) -> np.ndarray:
    n = x.shape[1]
    padded = np.pad(x, ((0, 0), (200, 200))).astype(np.int64)
    return sum(
        (padded[:, 200 + 2 * t - 3 : 200 + 2 * t - 3 + n].sum(0) * (t + 1) for t in iterations), np.zeros(n, np.int64)
    )


@pytest.mark.parametrize(
    ("text", "iterations"),
    [("FIRST, LAST, STEP", range(5)), ("1, 8, 3", range(1, 8, 3)), ("6, 0, -2", range(6, 0, -2)), ("40", range(40)),
     ("3, 3", range(0)), ("64", range(64))],
)  # fmt: skip
def test_flags_are_those_of_each_round(text: str, iterations: range) -> None:
    """In words of 32 and 64 bits, and computed before both loops."""
    kernel, args = compiled("precompute inside: t", text)
    launch(kernel, args)
    assert np.array_equal(args["y"], wanted(args["x"], iterations))
    outer = next(op for op in kernel.variant.function.body.ops if op.name == "for")
    assert len(iterations) == 0 or not {"le", "lt", "ge"} & {op.name for op in walk(outer.regions[0])}


def test_what_hangs_on_a_loop_around_it_is_computed_in_that() -> None:
    kernel, args = compiled("precompute inside: t", "5", " & (u != 1)", cb=3)
    launch(kernel, args)
    assert np.array_equal(args["y"], wanted(args["x"][[0, 2]], range(5)))


WRONG = {
    "precompute total: t": ("5", "it is s32, and a flag is i1"),
    "precompute inside: q": ("5", "it is in no loop over 'q'"),
    "precompute inside: t": ("taps", "is known only at run time"),
    "precompute  inside: t": ("65", "has 65 iterations; a word has 64 bits"),
    "precompute pixel: t": ("5", "no loop of kernel 'k' computes a value 'pixel'"),
    "precompute inside: 5": ("5", "takes a name"),
}


@pytest.mark.parametrize("lines", WRONG)
def test_what_is_no_flag_of_such_a_loop_is_refused(lines: str) -> None:
    range, message = WRONG[lines]
    with pytest.raises(TileError, match=message) as caught:
        compiled(lines, range)
    assert caught.value.loc is not None and caught.value.hint != ""


def test_a_flag_that_comes_from_memory_is_refused() -> None:
    with pytest.raises(TileError, match="it comes from 'load'"):
        compiled("precompute inside: t", "5", " & (x[0, pixel] > 0)")
