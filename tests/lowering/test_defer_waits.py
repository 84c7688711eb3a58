"""Products of warp groups that are in flight while the next iteration's begin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_pingpong import DEVICES, skip_without_boxes
from warpgroup_products import arrays, check, text

import dsl
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes.defer_waits import Deferred
from dsl.runtime import FindingError, assemble

GATED = """
kernel gated(c: f16[m, n], a: f16[m, k], u: f16[n, k], v: f16[n, k]; TM = 64, TN = 64, TK = 64):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    left, right = zeros(f32[TM, TN]), zeros(f32[TM, TN])
    for p in range(0, k, TK):
        x = a[i : i + TM, p : p + TK]
        left = dot(x, u[j : j + TN, p : p + TK].T, left)
        right = dot(x, v[j : j + TN, p : p + TK].T, right)
    c[i : i + TM, j : j + TN] = (left * right).to(f16)
"""
LINES = {
    "one tile a block": [],
    "persistent": ["persistent 1"],
    "clusters": ["cluster 2"],
    "shares": ["split p: 2"],
    "subtiles": ["subtile acc: 64, 32"],
}


def product(*lines: str, stages: int = 5) -> str:
    return text(64, 64, 64, 4, "stage a, b: tma", f"pipeline p: {stages}", *lines)


@pytest.mark.long
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("lines", LINES)
@pytest.mark.parametrize("k", [64, 320, 584])
def test_products_are_numpys(lines: str, k: int, device: str) -> None:
    """One iteration, as many as stages, and more with a part of one; also more tiles than blocks run at once."""
    skip_without_boxes(device)
    c, a, b, wanted = arrays("f16", 320, 136, k)
    dsl.parse(product(*LINES[lines]), device=device).product(c, a, b)
    check(c, wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_two_sums_of_one_loop(device: str) -> None:
    """All products of an iteration stay in flight."""
    skip_without_boxes(device)
    module = dsl.parse(GATED, device=device, **({} if device == "cuda" else {"arch": "sm_90a"}))
    random = np.random.default_rng(3)
    a, u, v = ((random.integers(-2, 3, (80, 200)) / 2).astype(np.float16) for _ in range(3))
    c = np.zeros((80, 80), np.float16)
    module.gated(c, a, u, v)
    exact = [a.astype(np.float64) @ w.astype(np.float64).T for w in (u, v)]
    np.testing.assert_allclose(c, exact[0] * exact[1], rtol=1e-3)
    ptx = module.compile("gated", m=80, n=80, k=200).ptx
    assert ptx.count("wgmma.wait_group.sync.aligned 2;") == 1 and ptx.count("wgmma.wait_group.sync.aligned 0;") == 1


@pytest.mark.parametrize(("lines", "deferred"), [([], True), (["choose wgmma_wait.acc: own"], False)])
def test_the_wait_is_a_choice(lines: list[str], deferred: bool) -> None:
    module = dsl.parse(product(*lines), device="emulator")
    ptx = module.compile("product", m=128, n=64, k=512, T="f16", O="f32").ptx
    assert ptx.count("wgmma.wait_group.sync.aligned 1;") == deferred
    made = assemble(ptx, "sm_90a")
    assert made.spill_stores == 0 and "C75" not in made.log, made.log


@pytest.mark.parametrize(("stages", "lines"), [(4, []), (1, ["choose wgmma_wait.acc: next"])])
def test_short_rings_wait_at_once(stages: int, lines: list[str]) -> None:
    """With one stage, the producer would wait for what the next iteration waits for."""
    module = dsl.parse(product(*lines, stages=stages), device="emulator")
    if lines:
        with pytest.raises(TileError, match="wgmma_wait"):
            module.compile("product", m=128, n=64, k=512, T="f16", O="f32")
        return
    assert "wait_group.sync.aligned 1;" not in module.compile("product", m=128, n=64, k=512, T="f16", O="f32").ptx


def test_a_stage_is_free_behind_the_wait_for_its_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator finds copies into a stage that products in flight still read."""
    right = Deferred.release_before

    def at_once(self: Deferred, pipeline: Value, number: Value, first: Value) -> list[Op]:
        *rest, release = right(self, pipeline, number, first)
        release.operands[1] = number
        return [*rest, release]

    monkeypatch.setattr(Deferred, "release_before", at_once)
    c, a, b, _ = arrays("f16", 128, 64, 512)
    found: Any
    with pytest.raises(
        FindingError, match="an operand of a product is written before the product is complete"
    ) as found:
        dsl.parse(product(), device="emulator").product(c, a, b)
    assert "written by" in str(found.value)
