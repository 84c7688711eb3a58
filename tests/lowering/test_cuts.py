"""`dsl verify` cuts loops that `split` divides at random, and joins their parts by the function of the text."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.kernels.variant import Request
from dsl.lowering.meaning.cuts import MOST_PARTS, cut_runs
from dsl.studies.verify import Verified, verify_kernel
from dsl.text.program import parse_program
from tests.run_meaning import grid_of, variant_of

KERNEL = """
def after(a, b):
    return a[0] * b[0], b[0] * a[1] + b[1]

def online(a, b):
    top = maximum(a[0], b[0])
    x = where(a[0] == top, a[1], a[1] * exp(a[0] - top))
    y = where(b[0] == top, b[1], b[1] * exp(b[0] - top))
    return top, x + y

def first(v, i, w, j):
    take = (w > v) | ((w == v) & (j < i))
    return where(take, w, v), where(take, j, i)

def wrong(v, i, w, j):
    return where(w > v, w, v), where(w > v, i, j)

kernel k(y: f32[rows], x: f32[rows, cols]; N = 16, WAY = 0):
    grid rows
    r = block(0)
    a, b = {start}
    for j in range(0, cols, N):
        v = load(x[r, j : j + N], mask=j + arange(N) < cols, other=-inf)
        {body}
    {behind}

schedule s of k:
    warps = 1
    split j: {split}
"""
AFFINE = (
    "1.0, 0.0",
    "w = load(x[r, j])\n        a, b = a * w, b * w + 1.0",
    "a, b = joined({}, (a, b))\n    y[r] = a + b",
)
SOFTMAX = (
    "-inf, 0.0",
    "top = maximum(a, max(v))\n        b = where(a == top, b, b * exp(a - top)) + sum(exp(v - top))\n        a = top",
    "a, b = joined({}, (a, b))\n    y[r] = a + log(b)",
)
PAIR = (
    "full(f32[N], -inf), zeros(s32[N])",
    "a, b = {}(a, b, v, (j + arange(N)).to(s32))",
    "_, at = reduce({}, (a, b), axis=0)\n    y[r] = at.to(f32)",
)


def verified(parts: tuple[str, str, str], by: str, split: str) -> Verified:
    start, body, behind = (each.replace("{}", by) for each in parts)
    text = KERNEL.format(start=start, body=body, behind=behind, split=split)
    x = np.random.default_rng(0).integers(-3, 4, (3, 75)).astype(np.float32) / 2
    args = {"y": np.zeros(3, np.float32), "x": x}
    request = Request("k", "s", {"rows": 3, "cols": 75}, arch="sm_90a")
    return verify_kernel(parse_program(text, "k.tile"), request, args)


@pytest.mark.parametrize("split", ["3", "2, cluster", "stream", "1"])
@pytest.mark.parametrize("parts", [AFFINE, SOFTMAX, PAIR], ids=["affine", "softmax", "pair"])
def test_functions_that_join_parts_in_their_order_agree(parts: tuple[str, str, str], split: str) -> None:
    """One that does not commute, one beside -inf, and a pair that a reduction joins, too."""
    by = {AFFINE: "after", SOFTMAX: "online", PAIR: "first"}[parts]
    found = verified(parts, by, split)
    assert found.divergence is None and found.undecided is None, str(found.divergence)


@pytest.mark.parametrize("split", ["3", "2, cluster", "1"])
@pytest.mark.parametrize(
    ("parts", "by"), [(AFFINE, "online"), (SOFTMAX, "after"), (PAIR, "wrong")], ids=["affine", "softmax", "pair"]
)
def test_functions_that_join_otherwise_are_told(parts: tuple[str, str, str], by: str, split: str) -> None:
    """At the line that names the function, also where this launch has one part."""
    found = verified(parts, by, split).divergence
    assert found is not None and found.level == "split" and found.value == "y" and found.loc is not None
    assert "loop 'j' gives another result if it is cut before iterations " in found.message
    assert ("reduce(" if parts is PAIR else "joined(") in found.loc.source.line(found.loc.line)


def test_parts_are_of_all_lengths() -> None:
    """Some of the first and last ones have no iterations."""
    start, body, behind = (each.replace("{}", "after") for each in AFFINE)
    args = {"y": np.zeros(40, np.float32), "x": np.ones((40, 75), np.float32)}
    variant = variant_of(KERNEL.format(start=start, body=body, behind=behind, split="2"), args, arch="sm_90a")
    runs = list(cut_runs(variant.function, args, grid_of(variant, args)))
    cuts = [each for run in runs for each in run.cuts.values()]
    assert len(cuts) == 40 * len(runs) and all(each == sorted(each) and each for each in cuts)
    assert {each[0] for each in cuts} >= {0, 1, 2} and {each[-1] for each in cuts} >= {3, 4, 5}
    assert any(each[:2] == [0, 0] for each in cuts) and any(each[-2:] == [5, 5] for each in cuts)
    assert max(map(len, cuts)) <= MOST_PARTS + 3
