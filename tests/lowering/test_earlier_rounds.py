"""Places that a loop carries lie before those of the iteration: of equals the first one is kept without a
comparison."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.kernels.variant import Request, build_variant
from dsl.lowering.ir.function import walk
from dsl.lowering.passes import PASSES, run_passes
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import compile_kernel, launch, through

FIRST = """
kernel first(at: s64[1], x: s32[n]; TILE = 32):
    grid 1
    v, k = full(s32[TILE], -100), full(index[TILE], {start})
    for i in range({iterations}):
        w, j = load(x[i : i + TILE], other=-100), {place}
        take = (w > v) | ((w == v) & ({compared}))
        v, k = where(take, w, v), where(take, j, k)
    def join(v, i, w, j):
        take = (w > v) | ((w == v) & (j < i))
        return where(take, w, v), where(take, j, i)
    best, place = reduce(join, (v, k), axis=0)
    at[0] = place.to(s64)

schedule s of first:
    warps = 1
    {lines}
"""
UPWARDS = {
    "start": "0",
    "iterations": "0, n, TILE",
    "place": "i + arange(TILE)",
    "compared": "j < k",
    "lines": "unroll i: 2",
}


def compared_in_rounds(text: str) -> int:
    """Comparisons with the place that a loop carries, once the pass has run."""
    variant = build_variant(parse_program(text), Request("first", "s", {"n": 1024}))
    run_passes(variant.function, variant.target, through("earlier_iterations"))
    (loop,) = [
        op for op in walk(variant.function.body) if op.spec.control.counters and op.regions[0].args[0].name == "i"
    ]
    (place,) = [v for v in loop.regions[0].args[1:] if v.name == "k"]
    sums = {place} | {op.result for op in walk(loop.regions[0]) if op.name == "add" and place in op.operands}
    read = [op for op in walk(loop.regions[0]) if op.name in ("lt", "gt", "le", "ge") and sums & set(op.operands)]
    return len(read)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"compared": "k > j"},
        {"place": "2 * i + arange(TILE)"},
        {"start": "5", "iterations": "5, n, TILE"},
        {"lines": "split i: 3"},
        {"lines": "peel i"},
    ],
)
def test_a_comparison_with_rounds_before_is_decided(changed: dict[str, str]) -> None:
    assert compared_in_rounds(FIRST.format(**UPWARDS | changed)) == 0


@pytest.mark.parametrize("compared", ["j < k", "k > j", "not_last(j, k)"])
@pytest.mark.parametrize("n", [1, 31, 100, 1024])
def test_the_first_of_equals(compared: str, n: int) -> None:
    text = "def not_last(j, k):\n    return ~(k <= j)\n" + FIRST.format(**UPWARDS | {"compared": compared})
    x, at = np.random.default_rng(n).integers(0, 4, n).astype(np.int32), np.zeros(1, np.int64)
    args = {"at": at, "x": x}
    launch(compile_kernel(text, args), args)
    assert args["at"][0] == x.argmax()


@pytest.mark.parametrize(
    "changed",
    [
        {"start": "7"},  # the first iteration has lesser ones
        {"iterations": "n - TILE, -1, 0 - TILE"},  # the later iterations have lesser ones
        {"place": "n - i + arange(TILE)"},
        {"place": "arange(TILE)"},  # each iteration has the same
        {"compared": "j <= k"},  # the start may be equal
        {"compared": "j < k + 1"},
    ],
)
def test_what_rounds_do_not_decide_stays(changed: dict[str, str]) -> None:
    text = FIRST.format(**UPWARDS | {"lines": "unroll i: 1"} | changed)
    assert compared_in_rounds(text) == 1


def test_verify_agrees() -> None:
    x = np.random.default_rng(0).integers(0, 4, 500).astype(np.int32)
    args = {"at": np.zeros(1, np.int64), "x": x}
    found = verify_kernel(parse_program(FIRST.format(**UPWARDS)), Request("first", "s", {"n": 500}), args)
    assert found.divergence is None and found.levels == len(PASSES)
