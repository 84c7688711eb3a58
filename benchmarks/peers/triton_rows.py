"""Operations on rows in Triton, without a race: softmax, its logarithm, their gradients, RMS and layer normalisation.

A program processes a tile of whole rows. The numbers of rows and warps follow from the columns, as in the kernels that
projects ship: 4 warps up to 2048 elements, 8, 16 and 32 warps from 2048, 8192 and 32768 elements on. Rows that are
longer than 65,536 columns do not fit the registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import triton
import triton.language as tl

from peers.triton_softmax import backward_tile, forward_tile, places, read, write

SERVED = "softmax", "log_softmax", "softmax_backward", "log_softmax_backward", "rmsnorm", "layer_norm"
LONGEST = 65536
LEAST_OF_TILE = 2048


@triton.jit
def rms_norm(y, x, w, eps, rows, cols: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at, inside = places(tl.program_id(0), rows, cols, ROWS, BLOCK, EVEN)
    WHOLE: tl.constexpr = EVEN and cols == BLOCK
    v = read(x + at, inside, WHOLE, 0.0)
    column = tl.arange(0, BLOCK)
    weight = tl.load(w + column, column < cols, other=0.0).to(tl.float32)
    v *= tl.rsqrt(tl.sum(v * v, 1, keep_dims=True) / cols + eps)
    write(y + at, v * weight[None, :], inside, WHOLE)


@triton.jit
def layer_norm(
    y, x, w, b, mean, rstd, eps, rows, cols: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr
):
    at, inside = places(tl.program_id(0), rows, cols, ROWS, BLOCK, EVEN)
    WHOLE: tl.constexpr = EVEN and cols == BLOCK
    v = read(x + at, inside, WHOLE, 0.0)
    column = tl.arange(0, BLOCK)
    weight = tl.load(w + column, column < cols, other=0.0).to(tl.float32)
    bias = tl.load(b + column, column < cols, other=0.0).to(tl.float32)
    m = tl.sum(v, 1) / cols
    v = tl.where(column[None, :] < cols, v - m[:, None], 0.0)
    r = tl.rsqrt(tl.sum(v * v, 1) / cols + eps)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    tl.store(mean + row, m, row < rows)
    tl.store(rstd + row, r, row < rows)
    write(y + at, v * r[:, None] * weight[None, :] + bias[None, :], inside, WHOLE)


def launch_of(what: str, arguments: tuple[Any, ...]) -> Callable[[], Any] | None:
    """A launch of an operation with the arguments of our sample's dispatch. The first, the result, is replaced by an
    array of its own. None if there is no such kernel, or rows are too long."""
    out, *rest = arguments
    if what not in SERVED:
        return None
    (rows, cols), log = out.shape, what.startswith("log")
    block = triton.next_power_of_2(cols)
    held = max(1, LEAST_OF_TILE // block)
    if block > LONGEST:
        return None
    size, result = held * block, out.clone()
    warps = 4 if size <= 2048 else 8 if size < 8192 else 16 if size < 32768 else 32
    grid, constants = (triton.cdiv(rows, held),), {"ROWS": held, "BLOCK": block, "EVEN": rows % held == 0}
    if what in ("softmax", "log_softmax"):
        kernel, given = forward_tile, (result, rest[0], rows, cols, log)
    elif what in ("softmax_backward", "log_softmax_backward"):
        kernel, given = backward_tile, (result, *rest, rows, cols, log)
    elif what == "rmsnorm":
        x, w, eps = rest
        kernel, given = rms_norm, (result, x, w, eps, rows, cols)
    else:
        x, eps, w, b, mean, rstd = rest
        kernel, given = layer_norm, (result, x, w, b, mean.clone(), rstd.clone(), eps, rows, cols)
    return partial(kernel[grid], *given, **constants, num_warps=warps)
