"""Attention from Python: views, outputs that are left out, sequences beside one another, and the points of its tune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dsl.values import reference
from tests.run_examples import module_of

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture(scope="module")
def module() -> Any:
    return module_of(SAMPLES / "attention_backward.tile", "emulator")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float16)


@pytest.mark.parametrize("causal", [False, True])
def test_views_of_heads_side_by_side(module: Any, causal: bool) -> None:
    """x.transpose(1, 2) of torch, of [batch, s, heads, d]."""
    q, k, v = (normal(2, s, 3, 32).transpose(0, 2, 1, 3) for s in (70, 90, 90))
    o = np.zeros((2, 70, 3, 32), np.float16).transpose(0, 2, 1, 3)
    module.attention(o, q, k, v, 0.2, CAUSAL=causal)
    assert np.abs(o - reference.attention(q, k, v, 0.2, causal)).max() < 2e-3
    assert np.array_equal(module.attention(q, k, v, 0.2, CAUSAL=causal), o)


def test_sequences_do_not_see_their_neighbours(module: Any) -> None:
    """Infinite and NaN keys and values of one sequence stay out of those before and behind it."""
    q, k, v = (normal(1, 2, 150, 16) for _ in range(3))
    k[:, :, 50:100], v[:, :, 50:100] = np.nan, np.inf
    starts = np.array([0, 50, 100, 150], np.int32)
    o = np.zeros_like(q)
    module.attention_packed(o, q, k, v, starts, starts, 0.25)
    assert np.isnan(o[:, :, 50:100]).all()
    for rows in (slice(0, 50), slice(100, 150)):
        wanted = reference.attention(q[:, :, rows], k[:, :, rows], v[:, :, rows], 0.25)
        assert np.abs(o[:, :, rows] - wanted).max() < 2e-3


@pytest.mark.parametrize("warps", [4, 8])
@pytest.mark.parametrize(("tm", "tn"), [(128, 64), (64, 64), (128, 32), (64, 128)])
def test_points_of_the_tune(module: Any, tm: int, tn: int, warps: int) -> None:
    if tm < 16 * warps:
        pytest.skip("a warp has 16 rows")
    q, k, v = normal(1, 1, 150, 64), normal(1, 1, 170, 64), normal(1, 1, 170, 64)
    o = module.attention(q, k, v, 0.125, CAUSAL=True, TM=tm, TN=tn, warps=warps)
    assert np.abs(o - reference.attention(q, k, v, 0.125, True)).max() < 2e-3


def test_gradients_of_views_have_the_same_bits_each_time(module: Any) -> None:
    q, k, v, g = (normal(1, s, 2, 48).transpose(0, 2, 1, 3) for s in (70, 90, 90, 70))
    o, lse = np.zeros_like(q), np.zeros((1, 2, 70), np.float32)
    module.attention(o, q, k, v, 0.2, lse, CAUSAL=True)
    first, second = ([np.zeros_like(x) for x in (q, k, v)] for _ in range(2))
    for out in (first, second):
        module.attention_backward(*out, q, k, v, o, g, lse, 0.2, CAUSAL=True)
    assert all(np.array_equal(a, b) and np.isfinite(a).all() and a.any() for a, b in zip(first, second, strict=True))


def test_nothing_is_seen_of_no_keys(device: str) -> None:
    """By as many blocks as boxes would serve: arrays without elements have no tensor maps."""
    q, none, lse = normal(2, 66, 128, 64), normal(2, 66, 0, 64), np.zeros((2, 66, 128), np.float32)
    module = module_of(SAMPLES / "attention_backward.tile", device)
    o, dq, dk = np.full_like(q, np.nan), np.full_like(q, np.nan), np.zeros_like(none)
    module.attention(o, q, none, none, 0.125, lse)
    module.attention_backward(dq, dk, dk.copy(), q, none, none, o, q, lse, 0.125)
    assert not o.any() and not dq.any()
