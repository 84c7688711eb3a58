"""Softmax and a matrix product in Triton with fixed constants, for benchmarks/first_call.py: one compilation a call."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def rows(y, x, cols, COLS: tl.constexpr):
    at = tl.arange(0, COLS)
    inside = at < cols
    v = tl.load(x + tl.program_id(0) * cols + at, inside, other=float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + tl.program_id(0) * cols + at, e / tl.sum(e, 0), inside)


def softmax(x: Any) -> Any:
    y = torch.empty_like(x)
    rows[(x.shape[0],)](y, x, x.shape[1], triton.next_power_of_2(x.shape[1]), num_warps=4)
    return y


@triton.jit
def tiles(c, a, b, m, n, k, TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr):
    i, j, p = tl.program_id(0) * TM + tl.arange(0, TM), tl.program_id(1) * TN + tl.arange(0, TN), tl.arange(0, TK)
    acc = tl.zeros((TM, TN), tl.float32)
    for first in range(0, k, TK):
        left = tl.load(
            a + i[:, None] * k + (first + p)[None, :], (i < m)[:, None] & (first + p < k)[None, :], other=0.0
        )
        right = tl.load(
            b + (first + p)[:, None] * n + j[None, :], (first + p < k)[:, None] & (j < n)[None, :], other=0.0
        )
        acc = tl.dot(left, right, acc)
    tl.store(c + i[:, None] * n + j[None, :], acc.to(c.dtype.element_ty), (i < m)[:, None] & (j < n)[None, :])


def matmul(a: Any, b: Any) -> Any:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, device=a.device, dtype=a.dtype)
    tiles[(triton.cdiv(m, 128), triton.cdiv(n, 128))](c, a, b, m, n, k, 128, 128, 64, num_warps=8, num_stages=3)
    return c
