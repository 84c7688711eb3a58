"""`peel j: seen`: the iterations in which a flag is on throughout are a loop of their own, without it."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import TileError
from tests.compile_and_run import Kernel, compile_kernel, launch
from tests.whole import some

SUMS = """
kernel k(y: s32[m, 16], x: s32[n], bound: s32[b], first: s32[f]):
    grid 1
    limit, end = bound[0], minimum(n, bound[0])
    rows = arange(16)
    acc = zeros(s32[16, 16])
    for j in range({range}):
        {flag}
        v = x[j : j + 16]
        acc = acc + where(seen, v[None, :], -1)
    y[0 : 16, 0 : 16] = acc

schedule s of k:
    warps = 1
    peel j: seen
"""
FLAGS = {
    "below": "seen = (j + arange(16) < end)[None, :] & (rows >= 0)[:, None]",
    "not above": "seen = (j + arange(16))[None, :] <= (end - 5 + rows)[:, None]",
    "mirrored": "seen = (end + rows)[:, None] > (j + arange(16))[None, :]",
    "two of them": "seen = (j + arange(16) < end)[None, :] & (j + arange(16)[None, :] <= (n - 40 + 2 * rows)[:, None])",
    "twice the counter": "seen = (2 * j - arange(16) < end)[None, :] & (rows < 16)[:, None]",
    "the lesser": "seen = (j + arange(16))[None, :] < minimum(end, rows + 20)[:, None]",
    "a remainder": "seen = (j + arange(16))[None, :] < (end + rows % 8)[:, None]",
    "goes on": "seen = (j + arange(16) >= end)[None, :] & (rows >= 0)[:, None]",
    "goes on by two": "seen = ((end + rows)[:, None] < j + arange(16)[None, :]) & (3 * j > rows)[:, None]",
    "a window": "seen = (j + arange(16) >= end - 30)[None, :] & (j + arange(16)[None, :] <= (end - 1 + rows)[:, None])",
    "a window of a row": "seen = (j + arange(16) + 40 > n)[None, :] & (j < end) & (rows < limit.to(index))[:, None]",
    "one that may not count": "seen = ((j + arange(16))[None, :] < (end - rows)[:, None]) | (limit > 70)",
    "two that may not": "low, high = limit < 0, n < 70\n        seen = (low | (j + arange(16) >= end - 30)[None, :]) & "
    "((j + arange(16)[None, :] <= (end - 1 + rows)[:, None]) | high | low)",
    "named again": "seen = (j + arange(16) < end)[None, :]\n        seen = seen & (j + arange(16) < n - rows)[:, None]",
}
RANGES = {"0, n, 16": (0, 16), "0, n, 24": (0, 24), "minimum(n, first[0]), n, 8": (None, 8)}


def flag_of(name: str, j: int, n: int, end: int, b: int) -> np.ndarray:
    i, r = np.arange(16)[None, :], np.arange(16)[:, None]
    return {
        "below": (j + i < end) & (r >= 0), "not above": j + i <= end - 5 + r, "mirrored": end + r > j + i,
        "two of them": (j + i < end) & (j + i <= n - 40 + 2 * r), "twice the counter": (2 * j - i < end) & (r < 16),
        "a remainder": j + i < end + r % 8,
        "goes on": (j + i >= end) & (r >= 0), "goes on by two": (end + r < j + i) & (3 * j > r),
        "the lesser": j + i < np.minimum(end, r + 20), "named again": (j + i < end) & (j + r < n - r),
        "a window": (j + i >= end - 30) & (j + i <= end - 1 + r),
        "a window of a row": (j + i + 40 > n) & (j < end) & (r < b),
        "one that may not count": (j + i < end - r) | (b > 70),
        "two that may not": ((b < 0) | (j + i >= end - 30)) & ((j + i <= end - 1 + r) | (n < 70) | (b < 0)),
    }[name]  # fmt: skip


def selects(kernel: Kernel) -> list[int]:
    """In the loops, one behind the other: how many choices by a flag."""
    loops = [op for op in walk(kernel.variant.function.body) if op.name == "for"]
    return [sum(op.name == "select" for op in walk(loop.regions[0])) for loop in loops]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("range_", RANGES)
def test_the_first_loop_ends_where_an_element_goes_off(flag: str, range_: str) -> None:
    kernel = None
    for n, bound, first in some([(0, 9, 0), (64, 64, 0), (100, 73, 3), (70, -5, 16), (50, 99, 60)], 2):
        random = np.random.default_rng(n)
        args = {"y": np.zeros((16, 16), np.int32), "x": random.integers(-9, 9, n).astype(np.int32)}
        args["bound"], args["first"] = np.array([bound], np.int32), np.array([first], np.int32)
        kernel = compile_kernel(SUMS.format(range=range_, flag=FLAGS[flag]), args)
        launch(kernel, args)
        wanted = np.zeros((16, 16), np.int64)
        start, step = RANGES[range_]
        for j in range(min(n, first) if start is None else start, n, step):
            v = np.array([args["x"][j + i] if j + i < n else 0 for i in range(16)])
            wanted += np.where(flag_of(flag, j, n, min(n, bound), bound), v[None, :], -1)
        assert np.array_equal(args["y"], wanted), (n, bound, first)
    loops = [1, 0, 1] if "window" in flag or flag == "two that may not" else [1, 0] if "goes on" in flag else [0, 1]
    assert kernel is not None and selects(kernel) == loops


PRODUCT = """
kernel k(c: f32[m, n], a: f16[m, k], b: f16[n, k]; TM = 16, TN = 16, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(f32[TM, TN])
    for p in range(0, k, TK):
        lower = (p + arange(TK))[None, :] <= (i + arange(TM))[:, None]
        acc = dot(where(lower, a[i : i + TM, p : p + TK], 0), b[j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc

schedule s of k:
    warps = 1
    unroll p: 1
    {lines}
"""


@pytest.mark.parametrize(("stages", "line"), [(1, ""), (3, ""), *((e, "peel p: lower") for e in (1, 2, 3, 5))])
@pytest.mark.parametrize(("m", "k"), [(16, 32), (40, 200), (200, 40), (200, 200), (33, 8), (300, 96)])
def test_a_ring_goes_on_from_the_first_loop_to_the_second(stages: int, line: str, m: int, k: int) -> None:
    """The lower triangle of a, times b, also without the line: no copy is made twice, and none is missed."""
    random = np.random.default_rng(k)
    args = {"c": np.zeros((m, 16), np.float32), "a": random.integers(-2, 3, (m, k)).astype(np.float16)}
    args["b"] = random.integers(-2, 3, (16, k)).astype(np.float16)
    lines = f"stage a, b: shared\n    pipeline p: {stages}\n    {line}"
    kernel = compile_kernel(PRODUCT.format(lines=lines), args)
    assert kernel.count("for") == 2 and kernel.count("commit") == 2 + (stages - 1 if stages > 1 else 0)
    launch(kernel, args)
    assert np.array_equal(args["c"], np.tril(args["a"]).astype(np.float32) @ args["b"].T.astype(np.float32))


@pytest.mark.parametrize(("stages", "unroll"), [(1, 1), (3, 2)])
def test_a_ring_goes_on_through_the_three_loops_of_a_window(stages: int, unroll: int) -> None:
    """A band of a, times b; a bound that is negative is none, of the band to its left or to its right."""
    band = "((left < 0) | (col >= row - left)) & ((right < 0) | (col <= row + right))"
    places = "col, row = (p + arange(TK))[None, :], (i + arange(TM))[:, None]"
    text = PRODUCT.replace(
        "lower = (p + arange(TK))[None, :] <= (i + arange(TM))[:, None]", f"{places}; lower = {band}"
    )
    text = text.replace("; lower", "\n        lower").replace("b: f16[n, k];", "b: f16[n, k], left: s32, right: s32;")
    text = text.replace("unroll p: 1", f"unroll p: {unroll}")
    lines = f"stage a, b: shared\n    pipeline p: {stages}\n    peel p: lower"
    for m, k, left, right in [(40, 200, 90, 60), (120, 100, -1, 40), (90, 200, 33, -1)]:
        random = np.random.default_rng(k)
        args = {"c": np.zeros((m, 16), np.float32), "a": random.integers(-2, 3, (m, k)).astype(np.float16)}
        args["b"] = random.integers(-2, 3, (16, k)).astype(np.float16)
        kernel = compile_kernel(text.format(lines=lines), args)
        launch(kernel, args | {"left": left, "right": right})
        near, far = -m if left < 0 else -left, k if right < 0 else right
        kept = np.tril(np.triu(args["a"], near), far).astype(np.float32)
        assert np.array_equal(args["c"], kept @ args["b"].T.astype(np.float32)), (m, k, left, right)


@pytest.mark.long
@pytest.mark.parametrize("unroll", [2, 3, 4])
@pytest.mark.parametrize("stages", [2, 3, 5])
def test_rounds_of_several_leave_copies_for_the_second_loop(stages: int, unroll: int) -> None:
    """What is left of the first loop copies for iterations of the second one; it was taken to be past the end."""
    for m, k in [(40, 200), (200, 200), (150, 330)]:
        args = {"c": np.zeros((m, 16), np.float32), "a": np.ones((m, k), np.float16), "b": np.ones((16, k), np.float16)}
        lines = f"stage a, b: shared\n    pipeline p: {stages}\n    peel p: lower"
        text = PRODUCT.format(lines=lines).replace("unroll p: 1", f"unroll p: {unroll}")
        launch(compile_kernel(text, args), args)
        assert np.array_equal(args["c"], np.tril(args["a"]).astype(np.float32) @ args["b"].T.astype(np.float32))


def test_a_layout_holds_in_both_loops() -> None:
    """What is chosen by the flag has its name where nothing is chosen, too."""
    named = "w = where(seen, v[None, :] * 3, -1)\n        acc = acc + w"
    text = SUMS.replace("acc = acc + where(seen, v[None, :], -1)", named)
    text = text.replace("peel j: seen", "peel j: seen\n    layout w: vector [1, 1], lanes [2, 16], warps [1, 1]")
    args = {"y": np.zeros((16, 16), np.int32), "x": np.arange(99, dtype=np.int32)}
    args["bound"] = args["first"] = np.array([3], np.int32)
    kernel = compile_kernel(text.format(range="0, n, 16", flag=FLAGS["below"]), args)
    loops = [op for op in walk(kernel.variant.function.body) if op.name == "for"]
    layouts = [{str(r.type) for op in walk(loop.regions[0]) for r in op.results if r.name == "w"} for loop in loops]
    assert len(layouts[0]) == 1 and layouts[0] == layouts[1]


@pytest.mark.parametrize(
    ("before", "flag"),
    [
        ("", "seen = (j + arange(16) < n)[None, :] & (rows >= 0)[:, None]"),
        ("assert n % 8 == 0 or n < end", "seen = j + 16 <= n"),
    ],
)
def test_a_flag_that_always_is_on_needs_no_second_loop(before: str, flag: str) -> None:
    """Also if the same constant stands before the loop."""
    text = SUMS.format(range="0, n, 16", flag=flag).replace("rows = arange(16)", f"rows = arange(16)\n    {before}")
    args = {"y": np.zeros((16, 16), np.int32), "x": np.arange(64, dtype=np.int32)}
    args["bound"] = args["first"] = np.array([3], np.int32)
    kernel = compile_kernel(text, args)
    assert selects(kernel) == [0]
    launch(kernel, args)
    assert np.array_equal(args["y"], np.broadcast_to(args["x"].reshape(4, 16).sum(0), (16, 16)))


WRONG = {
    "seem = (j + arange(16) < end)[None, :] & (rows >= 0)[:, None]\n        seen = seem | (j > 9)": "depends on 'j'",
    "seen = (j + arange(16) < end)[None, :] | (j > 2 * rows)[:, None]": "no comparison",
    "seen = (rows < end)[:, None] & (arange(16) < n)[None, :]": "does not become false, or true",
    "seen = (j * j + arange(16) < end)[None, :] & (rows >= 0)[:, None]": "depends on 'j'",
    "seen = (j + arange(16) < end)[None, :] & (acc < 7)": "no comparison",
    "seen = (j + arange(16) < bound[j])[None, :] & (rows >= 0)[:, None]": "depends on a 'load'",
}


@pytest.mark.parametrize("flag", WRONG)
def test_what_cannot_be_told_before_the_loop_is_refused(flag: str) -> None:
    args = {"y": np.zeros((16, 16), np.int32), "x": np.arange(99, dtype=np.int32)}
    args["bound"] = args["first"] = np.arange(99, dtype=np.int32)
    text = SUMS.format(range="0, n, 16", flag=flag)
    with pytest.raises(TileError) as caught:
        compile_kernel(text, args)
    assert WRONG[flag] in caught.value.message and caught.value.loc is not None and caught.value.hint
    assert caught.value.loc.line == 15 + flag.count("\n")


def test_a_flag_that_no_loop_computes_is_refused_with_those_that_there_are() -> None:
    text = SUMS.format(range="0, n, 16", flag=FLAGS["below"]).replace("peel j: seen", "peel j: sen")
    args = {"y": np.zeros((16, 16), np.int32), "x": np.arange(99, dtype=np.int32)}
    args["bound"] = args["first"] = np.arange(99, dtype=np.int32)
    with pytest.raises(TileError, match="no loop over 'j' of kernel 'k' computes a flag 'sen'") as caught:
        compile_kernel(text, args)
    assert caught.value.hint == "did you mean 'seen'?"


def test_a_peeled_loop_is_told_and_may_be_left_whole() -> None:
    args = {"y": np.zeros((16, 16), np.int32), "x": np.arange(99, dtype=np.int32)}
    args["bound"] = args["first"] = np.array([3], np.int32)
    text = SUMS.format(range="0, n, 16", flag=FLAGS["below"])
    function = compile_kernel(text, args).variant.function
    assert function.choices.keyed()["peel.seen"].taken == "on"
    assert selects(compile_kernel(text + "    choose peel.seen: off\n", args)) == [1]
