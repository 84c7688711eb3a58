"""Outputs that a call leaves out come back in the caller's framework: numpy on the emulator, the others on a GPU."""

from pathlib import Path

import numpy as np
import pytest

import dsl

SAMPLE = Path(__file__).parents[2] / "samples" / "softmax.tile"
ROWS, COLUMNS = 8, 1000


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(np.float32)


def test_numpy(device, x):
    y = dsl.load(SAMPLE, device=device).softmax(x)
    assert isinstance(y, np.ndarray)
    assert np.abs(y - softmax(x)).max() <= 1e-6


@pytest.mark.gpu
@pytest.mark.parametrize("framework", ["torch", "cupy", "jax"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_frameworks(x, framework, dtype):
    """`test_numpy` is the emulator's twin."""
    module = pytest.importorskip(framework)
    if framework == "torch":
        given = module.tensor(x, device="cuda").to(getattr(module, dtype))
        back = lambda a: a.float().cpu().numpy()  # noqa: E731
    elif framework == "cupy":
        if dtype == "bfloat16":
            pytest.skip("CuPy has no bfloat16")
        given, back = module.asarray(x).astype(dtype), lambda a: module.asnumpy(a).astype(np.float32)
    else:
        given = module.numpy.asarray(x).astype(dtype)
        back = lambda a: np.asarray(a.astype("float32"))  # noqa: E731
    y = dsl.load(SAMPLE).softmax(given)
    assert type(y) is type(given)
    assert y.dtype == given.dtype
    bound = {"float16": 1e-3, "bfloat16": 4e-3, "float32": 1e-6}[dtype]
    assert np.abs(back(y) - softmax(back(given).astype(np.float64))).max() <= bound
