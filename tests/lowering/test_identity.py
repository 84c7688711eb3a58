"""A value knows which value it equals, through every rewriter: what `Value.stands_for` says, and nothing else does."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from dsl.lowering.ir.function import Value, walk
from dsl.lowering.meaning import blocks_of
from dsl.lowering.meaning.levels import LevelComparison, compare_levels, run_level
from dsl.lowering.passes import PASSES
from tests.run_meaning import grid_of, variant_of

PASSES_FOLDER = Path(__file__).parents[2] / "dsl" / "lowering" / "passes"

TEXT = """
kernel k(y: f32[n], x: f32[n]):
    grid 2
    total = zeros(f32[32])
    for i in range(10):
        part = x[i * 256 + block(0) * 32 : i * 256 + block(0) * 32 + 32]
        twice = part * 2.0
        total = total + twice
    most = max(reshape(total, [8, 4]), axis=0)
    sums = sum(reshape(total, [8, 4]), axis=0)
    y[block(0) * 4 : block(0) * 4 + 4] = most + sums

schedule s of k:
    warps = 4
    unroll i: {}
    layout total: register [], lane [[0], [0], [1], [2], [4]], warp [[8], [16]]
"""


def test_no_pass_copies_names_by_hand() -> None:
    for path in PASSES_FOLDER.rglob("*.py"):
        assert not re.search(r"\.name = \w+(\.\w+)*\.name\b", path.read_text()), path


@pytest.mark.parametrize("unroll", [1, 4, 3, 16])
def test_each_round_of_an_unrolled_loop_is_matched(unroll: int) -> None:
    """Ten iterations: in iterations of four and two more, of three and one more, and without a loop. `twice` of each
    iteration is compared with `twice` of that iteration, in which nothing else has its value."""
    random = np.random.default_rng(0)
    args = {"x": random.standard_normal(4096).astype(np.float32), "y": np.zeros(4096, np.float32)}
    variant = variant_of(TEXT.format(unroll), args)
    function, blocks = variant.function, blocks_of(grid_of(variant, args))
    comparison = LevelComparison(None)
    before = run_level(function, args, (2, 1, 1), blocks, comparison)
    (original,) = [v for v in before.traces[blocks[0]].values if v.name == "twice"]
    next(each for each in PASSES if each.name == "unroll_loops").apply(function, variant.target)
    after = LevelComparison(before)
    met: list[np.ndarray] = []
    expected = after.expected

    def noted(value: Value) -> np.ndarray | None:
        wanted = expected(value)
        if value.name == "twice":
            assert wanted is not None
            met.append(wanted)
        return wanted

    after.expected = noted  # type: ignore[method-assign]
    run_level(function, args, (2, 1, 1), blocks, after)
    assert after.first is None
    iterations = [one for block in blocks for one in before.traces[block].values[original]]
    assert len(met) == 20 and all(np.array_equal(a, b) for a, b in zip(met, iterations, strict=True))


def test_names_of_the_source_reach_the_last_stage_by_identity() -> None:
    args = {"x": np.ones(4096, np.float32), "y": np.zeros(4096, np.float32)}
    variant = variant_of(TEXT.format(1), args)
    built = {r: r.name for op in walk(variant.function.body) for r in op.results if r.name}
    found = compare_levels(variant.function, variant.target, args, (2, 1, 1), [(0, 0, 0), (1, 0, 0)])
    assert found.divergence is None and found.passes == len(PASSES)
    for op in walk(variant.function.body):
        for result in op.results:
            origin: Value | None = result
            while origin is not None and origin.origin is not None:
                origin = origin.origin
            if origin in built:
                assert result.name == built[origin]
    roots = {r.origin for op in walk(variant.function.body) for r in op.results}
    assert {"most", "sums"} <= {v.name for v in roots if v is not None}
