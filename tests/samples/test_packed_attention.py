"""Attention of sequences of different lengths, one behind the other: the list of their tiles, results and gradients."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import dsl

SAMPLE = Path(__file__).parents[2] / "samples" / "attention_backward.tile"
STARTS, KEY_STARTS = np.array([0, 90, 150, 150, 221, 222], np.int32), np.array([0, 100, 150, 160, 231, 232], np.int32)
"""The third sequence has no query."""
POISONED = slice(100, 150)
"""The keys of the second sequence, whose keys and values are NaN."""


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("count", [1, 2, 40])
def test_tiles_are_listed_once_and_heavier_ones_first(count: int, causal: bool) -> None:
    source = np.random.default_rng(count)
    queries = source.integers(0, 700, count)
    keys = np.where(source.random(count) < 0.5, queries, source.integers(0, 900, count))
    starts, key_starts = (np.concatenate([[0], np.cumsum(each)]).astype(np.int32) for each in (queries, keys))
    tiles = np.zeros((4, 6, -(-int(starts[-1]) // 32) + count + 1), np.int32)
    module = dsl.load(SAMPLE, device="emulator")
    module.list_tiles(tiles, starts, key_starts, **({"CAUSAL": True} if causal else {}))
    for size, rows in enumerate((32, 64, 128, 256)):
        wanted = []
        for e in range(count):
            for i in range(-(-queries[e] // rows)):
                seen = keys[e] - queries[e] + (i + 1) * rows if causal else keys[e]
                quarters = starts[e] // 4 + e + i * rows // 4, key_starts[e] // 4 + e
                entries = (starts[e] + i * rows, starts[e + 1], key_starts[e], keys[e], *quarters)
                wanted.append((-seen, e, i, entries))
        assert [tuple(each) for each in tiles[size].T[: len(wanted)]] == [each[3] for each in sorted(wanted)]
        assert not tiles[size][:, len(wanted) :].any()


def test_sequences_have_places_of_their_own_in_rows_of_sums() -> None:
    """A quarter of the first place of each, as the list has it, for starts of any remainders by four."""
    for starts in np.random.default_rng(0).integers(0, 9, (200, 12)).cumsum(1):
        first = (starts // 4 + np.arange(12)) * 4
        assert (first[1:] - first[:-1] >= np.diff(starts)).all()


def gradients(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, scale: float, causal: bool
) -> list[np.ndarray]:
    """The result of one head and its gradients, in f64."""
    x = q @ k.T * scale
    if causal:
        hidden = np.arange(len(k)) > np.arange(len(q))[:, None] + len(k) - len(q)
        x[hidden] = -np.inf
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    dp = g @ v.T
    dx = p * (dp - (p * dp).sum(1, keepdims=True)) * scale
    return [p @ v, dx @ k, dx.T @ q, p.T @ g]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128, 256])
def test_sequences_and_gradients_do_not_see_their_neighbours(device: str, d: int, causal: bool) -> None:
    """By warp groups, whose boxes reach into the next sequence."""
    source, scale = np.random.default_rng(d), d**-0.5
    q, g = (source.standard_normal((1, 2, 222, d)).astype(np.float16) for _ in range(2))
    k, v = (source.standard_normal((1, 1, 232, d)).astype(np.float16) for _ in range(2))
    for x in (k, v):
        x[:, :, POISONED] = np.nan
    module, constants = dsl.load(SAMPLE, device=device, arch="sm_90a"), {"CAUSAL": True} if causal else {}
    o, lse, dq, dk, dv = np.zeros_like(q), np.zeros((1, 2, 222), np.float32), *map(np.zeros_like, (q, k, v))
    module.attention_packed(
        o, q, k, v, STARTS, KEY_STARTS, scale, lse, schedule=f"attend_{'long' if d > 128 else 'groups'}", **constants
    )
    module.attention_packed_backward(dq, dk, dv, q, k, v, o, g, lse, STARTS, KEY_STARTS, scale, **constants)
    for number, (rows, keys) in enumerate(zip(pairwise(STARTS), pairwise(KEY_STARTS), strict=True)):
        of, at = slice(*rows), slice(*keys)
        if number == 1:
            assert np.isnan(o[:, :, of]).all()
            continue
        if number == 2:
            assert not dk[:, :, at].any() and not dv[:, :, at].any()
            continue
        wanted = [
            gradients(*(x.astype(float) for x in (q[0, h, of], k[0, 0, at], v[0, 0, at], g[0, h, of])), scale, causal)
            for h in (0, 1)
        ]
        assert np.abs(o[0, :, of] - [each[0] for each in wanted]).max() < 3e-3
        assert np.abs(dq[0, :, of] - [each[1] for each in wanted]).max() < 4e-3
        assert np.abs(dk[0, 0, at] - sum(each[2] for each in wanted)).max() < 4e-3
        assert np.abs(dv[0, 0, at] - sum(each[3] for each in wanted)).max() < 4e-3
