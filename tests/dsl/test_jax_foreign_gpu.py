"""On a GPU, functions of JAX that XLA launches as foreign functions give the results of numpy."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl

jax: Any = pytest.importorskip("jax")
jnp = jax.numpy
import dsl.jax  # noqa: E402 (needs jax)

SAMPLES = Path(__file__).parents[2] / "samples"
pytestmark = pytest.mark.gpu
EPS = 1e-5


@cache
def op(name: str) -> Any:
    def load(file: str) -> Any:
        return dsl.load(SAMPLES / f"{file}.tile", device="cuda")

    if name == "softmax":
        backward = load("softmax_backward").softmax_backward
        return dsl.jax.op(load("softmax").softmax, backward=backward, vmap="rows", way="ffi")
    if name == "matmul":
        made = dsl.jax.op(load("matmul").matmul, backward=lambda dc, a, b: (made(dc, b.T), made(a.T, dc)), way="ffi")
        return made
    norm, names = load("layer_norm"), {"w": "weight", "b": "bias"}
    outputs = ("y", "mean", "rstd")
    return dsl.jax.op(
        norm.layer_norm, outputs=outputs, backward=norm.layer_norm_backward, gradients=names, eps=EPS, way="ffi"
    )


def random(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape)


def near(found: Any, wanted: np.ndarray[Any, Any], bound: float) -> bool:
    return found.shape == wanted.shape and np.allclose(np.asarray(found, np.float64), wanted, bound, bound)


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("shape", [(64, 1000), (1, 33), (16, 200_000)], ids=str)
def test_softmax(shape: tuple[int, int]) -> None:
    """200 000 columns take a cluster."""
    f, x, g = op("softmax"), random(*shape), random(*shape, seed=1)
    given, weights = jnp.asarray(x, "float32"), jnp.asarray(g, "float32")
    assert f.way(given).name == "ffi"
    y = softmax(x)
    assert near(jax.jit(f)(given), y, 1e-5) and near(f(given), y, 1e-5)
    dx = jax.jit(jax.grad(lambda x: (f(x) * weights).sum()))(given)
    assert near(dx, y * (g - (y * g).sum(-1, keepdims=True)), 1e-4)
    batch = np.stack([x, 2 * x, -x])
    assert near(jax.jit(jax.vmap(f))(jnp.asarray(batch, "float32")), softmax(batch), 1e-5)


def test_many_launches_of_one_computation_are_replayed() -> None:
    """XLA launches so many calls as a CUDA graph, from the second execution on or the first."""
    f, x = op("softmax"), random(64, 1000)

    @jax.jit
    def chain(x: Any) -> Any:
        for _ in range(8):
            x = f(3 * x)
        return x

    for seed in range(4):  # other arrays, other addresses
        x = random(64, 1000, seed=seed)
        wanted = x
        for _ in range(8):
            wanted = softmax(3 * wanted)
        assert near(chain(jnp.asarray(x, "float32")), wanted, 1e-5)


@pytest.mark.parametrize("m,n,k", [(256, 256, 256), (401, 403, 407), (128, 128, 16384)])
def test_matmul(m: int, n: int, k: int) -> None:
    """With k = 16384 it is split: its workspaces are memory of XLA, also in repeated and parallel calls."""
    f = op("matmul")
    a, b = (jnp.asarray(random(*s, seed=i) / k**0.25, "float16") for i, s in enumerate([(m, k), (k, n)]))
    assert f.way(a, b).name == "ffi"
    wide_a, wide_b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    call, both = jax.jit(f), jax.jit(lambda a, b: (f(a, b), f(2 * a, b), f(a, 4 * b)))
    for _ in range(3):
        assert near(call(a, b), wide_a @ wide_b, 1e-2)
        assert all(near(y, scale * (wide_a @ wide_b), 2e-2) for y, scale in zip(both(a, b), (1, 2, 4), strict=True))
    da, db = jax.jit(jax.grad(lambda a, b: f(a, b).astype("float32").sum(), (0, 1)))(a, b)
    ones = np.ones((m, n))
    assert near(da, ones @ wide_b.T, 2e-2 * n**0.5) and near(db, wide_a.T @ ones, 2e-2 * m**0.5)
    batch = jnp.stack([a, -a])
    assert near(jax.jit(jax.vmap(lambda a: f(a, b)))(batch), np.stack([wide_a @ wide_b, -wide_a @ wide_b]), 1e-2)


def test_layer_norm() -> None:
    f, x, w, b, g = (
        op("layer_norm"),
        random(100, 768),
        random(768, seed=1),
        random(768, seed=2),
        random(100, 768, seed=3),
    )
    given = [jnp.asarray(each, "float32") for each in (x, w, b)]
    assert f.way(*given).name == "ffi"
    mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + EPS)
    v = (x - mean[:, None]) * rstd[:, None]
    found = jax.jit(f)(*given)
    assert all(near(each, right, 1e-4) for each, right in zip(found, (v * w + b, mean, rstd), strict=True))
    weights = jnp.asarray(g, "float32")
    dx, dw, db = jax.jit(jax.grad(lambda *args: (f(*args)[0] * weights).sum(), (0, 1, 2)))(*given)
    gw = g * w
    right = rstd[:, None] * (gw - gw.mean(1, keepdims=True) - v * (gw * v).mean(1, keepdims=True))
    assert near(dx, right, 1e-3) and near(dw, (g * v).sum(0), 1e-3) and near(db, g.sum(0), 1e-3)


def test_each_gpu_has_its_kernels() -> None:
    devices = jax.devices("cuda")
    if len(devices) < 2:
        pytest.skip("there is one GPU")
    f, x = jax.jit(op("softmax")), random(64, 1000)
    for device in devices[:2]:
        y = f(jax.device_put(jnp.asarray(x, "float32"), device))
        assert y.devices() == {device} and near(y, softmax(x), 1e-5)
