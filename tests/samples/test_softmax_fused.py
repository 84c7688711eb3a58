"""What is fused with softmax: dropout against Philox in Python, the same with every schedule, and its gradient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dsl.runtime.errors import LaunchError
from tests.philox import philox
from tests.run_examples import module_of

SAMPLE = Path(__file__).parents[2] / "samples" / "softmax_fused.tile"
SCHEDULES = ("lanes", "piece", "block", "whole", "stream")
SEED, P, SCALE, ROWS = 0xFEDCBA9876543210, 0.25, 0.5, 5


def kept(shape: tuple[int, int]) -> np.ndarray:
    """Eight elements in a row of the array take the halves of the four words of one call, lower halves first."""
    count = shape[0] * shape[1]
    words = np.array([philox(SEED, n) for n in range(-(-count // 8))], np.uint32)
    halves = np.stack([words & 0xFFFF, words >> 16], axis=-1).reshape(-1)
    return (halves[:count] >= P * 65536).reshape(shape)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("columns", [1, 33, 1000, 1023, 2049])
def test_dropout_and_its_gradient(device, columns, dtype):
    module, random = module_of(SAMPLE, device), np.random.default_rng(columns)
    x, dout = (random.standard_normal((ROWS, columns)).astype(dtype) for _ in range(2))
    keep = (random.random((ROWS, columns)) > 0.2).astype(np.uint8)
    keep[:, 0] = 1
    stays, bound = kept(x.shape), 1e-3 if dtype is np.float16 else 2e-6
    wanted = softmax(np.where(keep != 0, x.astype(float) * SCALE, -np.inf))
    given, same_bits = (x, keep, SCALE, P, SEED), []
    for schedule in SCHEDULES if columns < 1000 else set(SCHEDULES) - {"piece"}:
        out, y = np.full_like(x, np.nan), np.full_like(x, np.nan)
        module.scale_mask_softmax_dropout(out, y, *given, schedule=schedule)
        assert np.abs(y - wanted).max() <= bound
        assert np.abs(out - np.where(stays, wanted / (1 - P), 0)).max() <= bound * 2
        assert np.all(out[~stays] == 0)
        alone = np.full_like(x, np.nan)
        module.scale_mask_softmax_dropout(alone, None, *given, schedule=schedule)
        assert np.array_equal(alone, out)
        same_bits.append(out != 0)
        dx = np.full_like(x, np.nan)
        module.scale_mask_softmax_dropout_backward(dx, y, dout, SCALE, P, SEED, schedule=schedule)
        g = np.where(stays, dout.astype(float) / (1 - P), 0)
        a = y.astype(float)
        gradient = SCALE * a * (g - (a * g).sum(axis=1, keepdims=True))
        assert np.abs(dx - gradient).max() <= bound * 4
    assert all(np.array_equal(same_bits[0], bits) for bits in same_bits[1:])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("scale", [-0.5, 0.0, -0.0, 1e-40])
def test_any_scale(device, scale, dtype):
    """What the mask drops is -inf under a scale of any sign, and of none."""
    module, random = module_of(SAMPLE, device), np.random.default_rng(1)
    x = random.standard_normal((ROWS, 259)).astype(dtype)
    keep = (random.random(x.shape) > 0.2).astype(np.uint8)
    wanted = softmax(np.where(keep != 0, x.astype(float) * scale, -np.inf))
    for schedule in SCHEDULES:
        y = np.full_like(x, np.nan)
        module.scale_mask_softmax(y, x, keep, scale, schedule=schedule)
        assert np.abs(y - wanted).max() <= (1e-3 if dtype is np.float16 else 2e-6)


def test_nothing_that_stays_is_refused(device):
    module, x = module_of(SAMPLE, device), np.zeros((2, 16), np.float16)
    with pytest.raises(LaunchError, match="nothing stays"):
        module.scale_mask_softmax_dropout(np.empty_like(x), None, x, np.ones(x.shape, np.uint8), 1.0, 1.0, 1)


def test_a_row_that_is_masked_whole_is_nan_as_numpys(device):
    module = module_of(SAMPLE, device)
    x, keep = np.zeros((3, 40), np.float32), np.ones((3, 40), np.uint8)
    keep[1] = 0
    y = module.scale_mask_softmax(x, keep, 1.0)
    assert np.isnan(y[1]).all() and np.allclose(y[[0, 2]], 1 / 40)


def test_what_a_call_leaves_out_is_made(device):
    """`y` is optional for the kernel that the dispatch launches: a call without it stored nothing."""
    module, x = module_of(SAMPLE, device), np.random.default_rng(0).standard_normal((3, 40)).astype(np.float32)
    keep = np.ones(x.shape, np.uint8)
    y = module.scale_mask_softmax(x, keep, SCALE)
    assert np.abs(y - softmax(x.astype(float) * SCALE)).max() <= 2e-6
    out = module.scale_mask_softmax_dropout(x=x, keep=keep, scale=SCALE, p=P, seed=SEED)
    assert np.abs(out - np.where(kept(x.shape), y / (1 - P), 0)).max() <= 2e-6
