"""Loops over ranges at the ends of every integer type, rolled and unrolled, against Python's."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES, int_range
from tests.compile_and_run import NUMPY, compile_kernel, launch, run

TYPES = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]
MOST_ITERATIONS = 40


def bounds(name: str, step: int, count: int) -> list[tuple[int, int]]:
    """Starts and stops about the ends of the type, about zero and about each other, of few iterations."""
    low, high = int_range(DTYPES[name])
    chosen = random.Random(f"{name} {step}")
    corners = [low, low + 1, low + abs(step), high, high - 1, high - abs(step), high - 9, 0, 1, 7, high // 2]
    out = [(high - 9, high), (high, 0), (7, 3), (low, high), (high, low), (0, 0)]
    while len(out) < count:
        start = min(max(chosen.choice(corners) + chosen.randint(-3, 3), low), high)
        near = start + chosen.randint(-12, 12) * abs(step) + chosen.randint(-1, 1)
        stop = chosen.choice([near, chosen.choice(corners)])
        out.append((start, min(max(stop, low), high)))
    return [(a, b) for a, b in out if (b - a) // step <= MOST_ITERATIONS]


def wanted(turns: range, bits: int) -> list[int]:
    """How many iterations there are, and a sum that tells their order."""
    total = 0
    for i in turns:
        total = (total * 3 + i) % (1 << bits)
    return [len(turns), total]


@pytest.mark.parametrize("step", [1, 4, 100, -1, -3])
@pytest.mark.parametrize("name", TYPES)
def test_a_range_counts_as_python_does_and_ends(name: str, step: int) -> None:
    """Bounds that only the run knows: one kernel, rolled and by threes; a block for each pair of bounds."""
    if step < 0 and name.startswith("u"):
        pytest.skip("no such number of this type")
    pairs = bounds(name, step, 24)
    dtype, bits = NUMPY[name], DTYPES[name].bits
    starts, stops = (np.array(side, dtype) for side in zip(*pairs, strict=True))
    loop = "    for {0} in range(start, stop, {step}):\n        {0}_n, {0}_t = {0}_n + 1, {0}_t * 3 + {0}\n"
    names = ["i"] if step < 0 else ["i", "j"]
    text = f"kernel k(out: {name}[pairs, 4], a: {name}[pairs], b: {name}[pairs]):\n    grid pairs\n"
    text += "    start, stop = a[block(0)], b[block(0)]\n"
    for each in names:
        text += f"    {each}_n, {each}_t = start - start, start - start\n" + loop.format(each, step=step)
    for k, part in enumerate(f"{each}_{what}" for each in names for what in "nt"):
        text += f"    out[block(0), {k}] = {part}\n"
    text += "schedule s of k:\n    warps = 1\n" + "    unroll j: 3\n" * (step > 0)
    args = {"out": np.zeros((len(pairs), 4), dtype), "a": starts, "b": stops}
    if 3 * step > int_range(DTYPES[name])[1]:
        with pytest.raises(TileError, match=f"iterations of 3 steps of {step} pass what {name} holds"):
            compile_kernel(text, args)
        text = text.replace("    unroll j: 3\n", "")
    launch(compile_kernel(text, args), args)
    for (start, stop), got in zip(pairs, args["out"], strict=True):
        want = [v % (1 << bits) for v in wanted(range(start, stop, step), bits)] * len(names)
        assert [int(v) % (1 << bits) for v in got[: len(want)]] == want, (start, stop)


@pytest.mark.parametrize("unroll", [1, 3])
@pytest.mark.parametrize("index_bits", [32, 64])
def test_a_range_of_numbers_ends_at_the_last(index_bits: int, unroll: int) -> None:
    """`index`, between literals and with a bound that was a scalar."""
    cases = [("2147483638, 2147483647, 4", range((1 << 31) - 10, (1 << 31) - 1, 4)),
             ("n - 9, n, 4", range((1 << 31) - 10, (1 << 31) - 1, 4)),
             ("n.to(index) - 9, n.to(index), 4", range((1 << 31) - 10, (1 << 31) - 1, 4)),
             ("-2147483640, -2147483648, -3", range(-(1 << 31) + 8, -(1 << 31), -3))]  # fmt: skip
    for text, turns in cases:
        down = unroll if turns.step > 0 else 1
        out = np.zeros(2, np.int64)
        kernel = f"""
kernel k(out: s64[2], n: s32):
    grid 1
    count, total = n.to(s64) - n.to(s64), n.to(s64) - n.to(s64)
    for i in range({text}):
        count, total = count + 1, total * 3 + i.to(s64)
    out[0] = count
    out[1] = total
schedule s of k:
    warps = 1
    unroll i: {down}
"""
        run(kernel, {"out": out, "n": (1 << 31) - 1}, index_bits=index_bits)
        assert [int(v) % (1 << 64) for v in out] == wanted(turns, 64), text


@pytest.mark.parametrize("name", TYPES)
def test_literals_take_the_type_of_the_other_bounds(name: str) -> None:
    out = np.zeros(1, NUMPY[name])
    text = f"""
kernel k(out: {name}[1], n: {name}):
    grid 1
    total = n - n
    for i in range(2, n, 3):
        total = total + i
    for i in range(n):
        total = total + i
    out[0] = total
"""
    run(text, {"out": out, "n": 12})
    assert out[0] == sum(range(2, 12, 3)) + sum(range(12))


def test_what_a_range_is_not_made_of() -> None:
    for text, message in (
        ("0.0, n", "integer; this is f32"),
        ("0, v", "scalar; this is s32"),
        ("true", "integer"),
    ):
        with pytest.raises(TileError, match=message):
            run(f"kernel k(y: s32[4], n: s32):\n    grid 1\n    v = arange(4).to(s32)\n    for i in range({text}):\n"
                "        store(y[0 : 4], v)\n", {"y": np.zeros(4, np.int32), "n": 1})  # fmt: skip


PIPELINE = """
kernel k(y: f32[n], x: f32[n]; BLOCK = 128, STAGES = {stages}):
    grid 1
    shared s: f32[ring STAGES, BLOCK]
    iterations = n // BLOCK
    for static j in range(STAGES - 1):
        copy(s[j], x[j * BLOCK : j * BLOCK + BLOCK])
        commit()
    for i in range({iterations}):
        wait({left})
        v = s[i, 0 : BLOCK]
        j = i + STAGES - 1
        copy(s[j], x[j * BLOCK : j * BLOCK + BLOCK])
        commit()
        store(y[i * BLOCK : i * BLOCK + BLOCK], v * 2.0)
schedule p of k:
    warps = 2
    unroll i: {unroll}
"""


@pytest.mark.parametrize("iterations", ["iterations", "11"])
@pytest.mark.parametrize("stages", [3, 4])
def test_the_plain_pipeline_of_copies_unrolls(stages: int, iterations: str) -> None:
    """The rest goes on where iterations of several end, in the stage that follows."""
    x = np.arange(11 * 128, dtype=np.float32)
    for unroll in (2, 3, 4):
        args = {"y": np.zeros_like(x), "x": x}
        text = PIPELINE.format(stages=stages, iterations=iterations, left=stages - 2, unroll=unroll)
        launch(compile_kernel(text, args), args)
        assert np.array_equal(args["y"], x * 2), unroll
        with pytest.raises(TileError, match="in flight"):
            compile_kernel(text.replace(f"wait({stages - 2})", f"wait({stages - 1})"), args)
