"""The library references against slow formulas, and what they promise of special values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dsl.values import reference as ref

random = np.random.default_rng(0)


def test_softmax_family():
    x = random.standard_normal((3, 5)) * 10
    p = ref.softmax(x, axis=1)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-14)
    np.testing.assert_allclose(np.log(p), ref.log_softmax(x, axis=1), atol=1e-12)
    assert np.isfinite(ref.softmax(x * 1e6)).all()
    assert ref.softmax(np.array([-np.inf, 0.0])).tolist() == [0, 1]


def difference(f, x, dy, step=1e-6):
    """dx by central differences."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        d = np.zeros_like(x)
        d[i] = step
        out[i] = ((f(x + d) - f(x - d)) * dy).sum() / (2 * step)
    return out


def test_backward_is_the_derivative():
    x, dy = random.standard_normal((2, 4)), random.standard_normal((2, 4))
    np.testing.assert_allclose(ref.softmax_backward(ref.softmax(x), dy), difference(ref.softmax, x, dy), atol=1e-8)
    wanted = difference(ref.log_softmax, x, dy)
    np.testing.assert_allclose(ref.log_softmax_backward(ref.log_softmax(x), dy), wanted, atol=1e-8)


def test_norms():
    x, w, b = random.standard_normal((3, 64)), random.standard_normal(64), random.standard_normal(64)
    y = ref.layernorm(x, w, b, eps=0.0)
    z = (y - b) / w
    np.testing.assert_allclose(z.mean(1), 0, atol=1e-12)
    np.testing.assert_allclose(z.std(1), 1, rtol=1e-12)
    np.testing.assert_allclose((ref.rmsnorm(x, eps=0.0) ** 2).mean(1), 1, rtol=1e-12)


def test_activations():
    x = np.array([-np.inf, -40.0, -1.0, 0.0, 1.0, 40.0, np.inf, np.nan])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(ref.sigmoid(x)[1:-1], [1 / (1 + math.exp(-v)) for v in x[1:-1]], rtol=1e-15)
        np.testing.assert_allclose(
            ref.gelu(x)[2:6], [0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x[2:6]], rtol=1e-14
        )
        np.testing.assert_allclose(ref.gelu_tanh(x)[2:6], ref.gelu(x)[2:6], atol=5e-4)
        assert ref.gelu(np.array([-10.0]))[0] == pytest.approx(-10 * 7.61985302416052e-24, rel=1e-10)
        assert ref.silu(np.array([1.0]))[0] == pytest.approx(0.7310585786300049)
        assert np.isnan(ref.relu(x)[-1]) and ref.relu(x)[:4].tolist() == [0, 0, 0, 0]
    assert ref.relu(np.array([-3, 3])).dtype == np.int64


def test_reductions_keep_integers():
    i = np.arange(-6, 6).reshape(3, 4)
    assert ref.sum(i, axis=1).tolist() == i.sum(1).tolist() and ref.sum(i).dtype == np.int64
    assert ref.cumsum(i, axis=0).tolist() == i.cumsum(0).tolist()
    assert ref.max(i, axis=0, keepdims=True).shape == (1, 4)
    assert ref.argmax(np.array([1.0, np.nan, 3.0])) == 1
    with pytest.raises(ValueError, match="64 bits"):
        ref.sum(np.array([1 << 62, 1 << 62]))


def test_products_of_integers_are_exact():
    a, b = random.integers(-128, 128, (17, 33)), random.integers(-128, 128, (33, 5))
    assert np.array_equal(ref.matmul(a, b), a @ b)
    big = np.array([[(1 << 31) - 1, 3]])
    assert ref.matmul(big, big.T).item() == ((1 << 31) - 1) ** 2 + 9, "beyond what float64 holds"
    with pytest.raises(ValueError, match="64 bits"):
        ref.matmul(big << 20, big.T << 20)
    assert ref.matmul(np.zeros((2, 0), int), np.zeros((0, 3), int)).tolist() == [[0] * 3] * 2


def slow_conv(x, f, stride, pad, dilation, groups):
    n, _, h, w = x.shape
    k, cg, r, s = f.shape
    p = (h + 2 * pad[0] - dilation[0] * (r - 1) - 1) // stride[0] + 1
    q = (w + 2 * pad[1] - dilation[1] * (s - 1) - 1) // stride[1] + 1
    y = np.zeros((n, k, p, q), x.dtype)
    for b, o, i, j, e, u, v in np.ndindex(n, k, p, q, cg, r, s):
        row, col = i * stride[0] - pad[0] + u * dilation[0], j * stride[1] - pad[1] + v * dilation[1]
        if 0 <= row < h and 0 <= col < w:
            y[b, o, i, j] += x[b, o // (k // groups) * cg + e, row, col] * f[o, e, u, v]
    return y


@pytest.mark.parametrize(
    ("stride", "pad", "dilation", "groups"),
    [(1, 0, 1, 1), (2, 1, 1, 1), (1, 2, 2, 2), ((2, 1), (0, 2), (1, 2), 4)],
)
@pytest.mark.parametrize("integers", [True, False])
def test_conv2d(stride, pad, dilation, groups, integers):
    x, f = random.integers(-128, 128, (2, 4, 6, 7)), random.integers(-128, 128, (8, 4 // groups, 3, 2))
    if not integers:
        x, f = x / 7.0, f / 7.0
    got = ref.conv2d(x, f, stride=stride, pad=pad, dilation=dilation, groups=groups)
    wanted = slow_conv(x, f, *(v if isinstance(v, tuple) else (v, v) for v in (stride, pad, dilation)), groups)
    assert got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-9)
    biased = ref.conv2d(x, f, np.arange(8), stride, pad, dilation, groups)
    np.testing.assert_allclose(biased, wanted + np.arange(8)[None, :, None, None], rtol=1e-12, atol=1e-9)


def test_conv2d_refuses_what_does_not_fit():
    x = np.zeros((1, 4, 5, 5))
    for weight, keywords in (
        ((2, 3, 3, 3), {}),
        ((2, 4, 6, 3), {}),
        ((2, 4, 3, 3), {"stride": 0}),
        ((2, 4, 3, 3), {"pad": 1.5}),
    ):
        with pytest.raises(ValueError):
            ref.conv2d(x, np.zeros(weight), **keywords)


def test_channel_blocks():
    x = random.standard_normal((2, 40, 3, 5))
    y = ref.nc32hw32(x)
    assert y.shape == (2, 2, 3, 5, 32)
    assert y[1, 1, 2, 4, 7] == x[1, 39, 2, 4] and (y[:, 1, :, :, 8:] == 0).all()
    assert np.array_equal(ref.nchw(y)[:, :40], x)


def test_attention():
    q, k, v = (random.standard_normal((2, 3, n, 8)) for n in (5, 7, 7))
    p = ref.softmax(q @ k.swapaxes(-1, -2) / math.sqrt(8))
    np.testing.assert_allclose(ref.attention(q, k, v), p @ v, rtol=1e-12)
    causal = ref.attention(q, k, v, causal=True)
    np.testing.assert_allclose(causal[..., -1, :], (p @ v)[..., -1, :], rtol=1e-12)
    np.testing.assert_allclose(
        causal[..., 0, :], ref.attention(q[..., :1, :], k[..., :3, :], v[..., :3, :])[..., 0, :], rtol=1e-12
    )
    short = ref.attention(random.standard_normal((4, 8)), k[0, 0, :2], v[0, 0, :2], causal=True)
    assert (short[:2] == 0).all() and np.isfinite(short).all(), "rows that see nothing are zero"
    none = np.zeros((0, 8))
    assert np.array_equal(ref.attention(q[0, 0], none, none), np.zeros((5, 8))), "without keys"


def test_the_logarithm_of_no_exponentials_is_minus_infinity() -> None:
    assert ref.logsumexp(np.zeros((2, 0)), axis=1).tolist() == [-np.inf, -np.inf]
