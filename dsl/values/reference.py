"""The reference functions `ref.NAME(…)` that examples compare with.

The functions compute in float64. Those that are exact on integers, such as `sum` and `matmul`, compute in int64 if all
inputs are integers. All functions take and return arrays of float64, int64 or bool. Layouts and formulas are PyTorch's.
Unsuitable arguments raise ValueError.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

Array = Any
Axis = int | None


def _floats(x: Array) -> np.ndarray:
    return np.asarray(x, np.float64)


# ---- rows ---------------------------------------------------------------------------------------------


def softmax(x: Array, axis: int = -1) -> np.ndarray:
    """exp(x - max) / sum(exp(x - max)) along an axis. A row whose elements are all -inf gives NaN."""
    x = _floats(x)
    # `initial` allows empty rows, for which numpy's max would raise.
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> np.ndarray:
    x = _floats(x)
    d = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
    return d - np.log(np.exp(d).sum(axis=axis, keepdims=True))


def softmax_backward(y: Array, dy: Array, axis: int = -1) -> np.ndarray:
    """The gradient dx of y = softmax(x): y * (dy - sum(y * dy))."""
    y, dy = _floats(y), _floats(dy)
    return y * (dy - (y * dy).sum(axis=axis, keepdims=True))


def log_softmax_backward(y: Array, dy: Array, axis: int = -1) -> np.ndarray:
    """The gradient dx of y = log_softmax(x): dy - exp(y) * sum(dy)."""
    y, dy = _floats(y), _floats(dy)
    return dy - np.exp(y) * dy.sum(axis=axis, keepdims=True)


def rmsnorm(x: Array, weight: Array = 1.0, eps: float = 1e-5, axis: int = -1) -> np.ndarray:
    """x / sqrt(mean(x²) + eps) * weight."""
    x = _floats(x)
    return x / np.sqrt((x * x).mean(axis=axis, keepdims=True) + eps) * _floats(weight)


def layernorm(x: Array, weight: Array = 1.0, bias: Array = 0.0, eps: float = 1e-5, axis: int = -1) -> np.ndarray:
    """(x - mean) / sqrt(variance + eps) * weight + bias."""
    x = _floats(x)
    d = x - x.mean(axis=axis, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=axis, keepdims=True) + eps) * _floats(weight) + _floats(bias)


# ---- activations ----------------------------------------------------------------------------------------

_erf = np.frompyfunc(math.erf, 1, 1)
_erfc = np.frompyfunc(math.erfc, 1, 1)


def erf(x: Array) -> np.ndarray:
    """The error function."""
    return np.asarray(_erf(_floats(x)), np.float64)


def erfc(x: Array) -> np.ndarray:
    """1 - erf(x). The relative error is small even if the result is near 0."""
    return np.asarray(_erfc(_floats(x)), np.float64)


def gelu(x: Array) -> np.ndarray:
    """x * Φ(x), the exact gelu rather than its tanh approximation."""
    x = _floats(x)
    # The form with 1 + erf(…) would give 0 for x below -8.3.
    return 0.5 * x * erfc(-x * math.sqrt(0.5))


def gelu_tanh(x: Array) -> np.ndarray:
    """The tanh approximation of gelu (Hendrycks and Gimpel, 2016)."""
    x = _floats(x)
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def sigmoid(x: Array) -> np.ndarray:
    # The exponent is never positive, so `exp` does not overflow.
    e = np.exp(-np.abs(_floats(x)))
    return np.where(_floats(x) >= 0, 1.0, e) / (1.0 + e)


def silu(x: Array) -> np.ndarray:
    """x * sigmoid(x)."""
    return _floats(x) * sigmoid(x)


def relu(x: Array) -> np.ndarray:
    """max(x, 0) of floats or integers. NaN gives NaN."""
    return np.maximum(x, 0)


# ---- reductions -------------------------------------------------------------------------------------------


def _integer_bound(x: np.ndarray, terms: int, what: str) -> None:
    if x.dtype.kind in "iu" and x.size and abs_max(x) * terms >= 1 << 63:
        raise ValueError(f"{what} of these integers may not fit in 64 bits")


def sum(x: Array, axis: Axis = None, keepdims: bool = False) -> np.ndarray:
    x = np.asarray(x)
    _integer_bound(x, x.size if axis is None else x.shape[axis], "the sum")
    return x.sum(axis=axis, keepdims=keepdims)


def mean(x: Array, axis: Axis = None, keepdims: bool = False) -> np.ndarray:
    return _floats(x).mean(axis=axis, keepdims=keepdims)


def logsumexp(x: Array, axis: Axis = None, keepdims: bool = False) -> np.ndarray:
    """log(sum(exp(x))). The result is -inf if there is no element or all are -inf, and inf if one element is inf."""
    x = _floats(x)
    most = np.max(x, axis=axis, keepdims=True, initial=-np.inf)
    shift = np.where(np.isfinite(most), most, 0.0)
    with np.errstate(divide="ignore"):
        out = np.log(np.exp(x - shift).sum(axis=axis, keepdims=True)) + shift
    return out if keepdims else out.squeeze(axis)


def sort(x: Array, axis: int = -1) -> np.ndarray:
    """Sorts the elements in ascending order along an axis. NaNs come last."""
    return np.sort(x, axis=axis)


def max(x: Array, axis: Axis = None, keepdims: bool = False) -> np.ndarray:
    return np.max(x, axis=axis, keepdims=keepdims)


def min(x: Array, axis: Axis = None, keepdims: bool = False) -> np.ndarray:
    return np.min(x, axis=axis, keepdims=keepdims)


def argmax(x: Array, axis: Axis = None, keepdims: bool = False) -> np.ndarray:
    """Returns the first index of the greatest element. A NaN counts as greater than every number."""
    return np.argmax(x, axis=axis, keepdims=keepdims)


def argmin(x: Array, axis: Axis = None, keepdims: bool = False) -> np.ndarray:
    return np.argmin(x, axis=axis, keepdims=keepdims)


def cumsum(x: Array, axis: int = -1) -> np.ndarray:
    x = np.asarray(x)
    _integer_bound(x, x.shape[axis], "the sum")
    return np.cumsum(x, axis=axis)


# ---- products ---------------------------------------------------------------------------------------------


def matmul(a: Array, b: Array) -> np.ndarray:
    """Computes a[…, m, k] @ b[…, k, n]. The result is exact for integers. Raises ValueError if a result of integers may
    not fit in 64 bits."""
    a, b = np.asarray(a), np.asarray(b)
    if a.ndim < 1 or b.ndim < 1:
        raise ValueError("a product takes arrays, not numbers")
    if a.dtype.kind == "f" or b.dtype.kind == "f":
        return np.matmul(_floats(a), _floats(b))
    if not a.size or not b.size:
        return np.matmul(a.astype(np.int64), b.astype(np.int64))
    most = [abs_max(x) for x in (a, b)]
    bound = most[0] * most[1] * a.shape[-1]
    if bound >= 1 << 63:
        raise ValueError("the product of these integers may not fit in 64 bits")
    if bound < 1 << 53:  # float64 is exact here, and BLAS is much faster than numpy's loops over integers
        return np.matmul(_floats(a), _floats(b)).astype(np.int64)
    return np.matmul(a.astype(np.int64), b.astype(np.int64))


def abs_max(x: np.ndarray) -> int:
    """Returns the greatest magnitude of the elements of `x`, a nonempty array of integers."""
    low, high = int(x.min()), int(x.max())
    return high if high >= -low else -low


def conv2d(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Any = 1,
    pad: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> np.ndarray:
    """Convolves x[N, C, H, W] with weight[K, C / groups, R, S]. The result has the shape [N, K, P, Q].

    Filters are not flipped. `stride`, `pad` and `dilation` are numbers or pairs (height, width). `pad` adds zeros on
    both sides of an axis.
    """
    x, weight = np.asarray(x), np.asarray(weight)
    if x.ndim != 4 or weight.ndim != 4:
        raise ValueError(f"conv2d takes x[N, C, H, W] and weight[K, C, R, S]; got {x.shape} and {weight.shape}")
    (sh, sw), (ph, pw), (dh, dw) = (_pair(v) for v in (stride, pad, dilation))
    n, c, h, w = x.shape
    k, cg, r, s = weight.shape
    if groups < 1 or c != cg * groups or k % groups:
        raise ValueError(f"{c} channels in, {k} out and filters of {cg} do not fit {groups} groups")
    if sh < 1 or sw < 1 or dh < 1 or dw < 1 or ph < 0 or pw < 0:
        raise ValueError("stride and dilation are at least 1, pad at least 0")
    p, q = (h + 2 * ph - dh * (r - 1) - 1) // sh + 1, (w + 2 * pw - dw * (s - 1) - 1) // sw + 1
    if p < 1 or q < 1:
        raise ValueError(f"filters of {r} by {s} do not fit an image of {h} by {w}")
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    out: Any = 0
    for i, j in product(range(r), range(s)):
        rows, cols = i * dh, j * dw
        spot = padded[:, :, rows : rows + (p - 1) * sh + 1 : sh, cols : cols + (q - 1) * sw + 1 : sw]
        pixels = spot.reshape(n, groups, cg, p * q)
        taps = weight[:, :, i, j].reshape(groups, k // groups, cg)
        out = out + matmul(taps[None], pixels).reshape(n, k, p, q)
    return out if bias is None else out + np.asarray(bias).reshape(1, k, 1, 1)


def _pair(value: Any) -> tuple[int, int]:
    pair = tuple(value) if isinstance(value, tuple | list) else (value, value)
    if len(pair) != 2 or not all(isinstance(v, int) and not isinstance(v, bool) for v in pair):
        raise ValueError(f"{value} is no integer or pair of integers")
    return pair


def nc32hw32(x: Array) -> np.ndarray:
    """Converts [N, C, H, W] to [N, C / 32, H, W, 32]. C is first padded with zeros to a multiple of 32."""
    x = np.asarray(x)
    if x.ndim != 4:
        raise ValueError(f"nc32hw32 takes [N, C, H, W]; got {x.shape}")
    n, c, h, w = x.shape
    blocks = -(-c // 32)
    padded = np.pad(x, ((0, 0), (0, blocks * 32 - c), (0, 0), (0, 0)))
    return padded.reshape(n, blocks, 32, h, w).transpose(0, 1, 3, 4, 2)


def nchw(x: Array) -> np.ndarray:
    """Converts [N, C / 32, H, W, 32] to [N, C, H, W]. This is the inverse of `nc32hw32`."""
    x = np.asarray(x)
    if x.ndim != 5 or x.shape[4] != 32:
        raise ValueError(f"nchw takes [N, C / 32, H, W, 32]; got {x.shape}")
    n, blocks, h, w, _ = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(n, blocks * 32, h, w)


def attention(q: Array, k: Array, v: Array, scale: float | None = None, causal: bool = False) -> np.ndarray:
    """softmax(q @ kᵀ * scale) @ v for q[…, lq, d], k[…, lk, d] and v[…, lk, dv].

    `scale` is 1 / sqrt(d) by default. With `causal`, row i attends to the columns up to i + lk - lq. A row that attends
    to no column is zero.
    """
    q, k, v = _floats(q), _floats(k), _floats(v)
    scores = np.matmul(q, np.swapaxes(k, -1, -2)) * (scale if scale is not None else 1.0 / math.sqrt(q.shape[-1]))
    if causal:
        lq, lk = scores.shape[-2:]
        seen = np.arange(lk)[None, :] <= np.arange(lq)[:, None] + lk - lq
        scores = np.where(seen, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    # In a row that attends to no key, the greatest score is -inf. Subtracting that score would give NaN.
    e = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    total = e.sum(axis=-1, keepdims=True)
    return np.matmul(e / np.where(total == 0.0, 1.0, total), v)
