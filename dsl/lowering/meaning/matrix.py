"""Reference semantics of matrix products. Products of elements are exact. Sums are computed in float64 or in wrapping
32-bit integers, and then rounded to the type of the accumulator.

A tensor core adds in another order and with fewer bits. Its result may differ by `UNITS` units in the last place of the
sum of all magnitudes.
"""

from __future__ import annotations

import numpy as np

from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import ViewType
from dsl.lowering.machine.formats import Array, as_float, held, load, nearest, stored, unit, upper_tf32
from dsl.lowering.meaning.memory import access
from dsl.lowering.meaning.run import Run, Undecided, meaning
from dsl.lowering.ops.matrix import factors_of

UNITS = 2.0
"""The largest error of a sum that a tensor core computes, in units in the last place (of the accumulator's type) of the
sum of magnitudes."""


@meaning("wgmma_wait", "wgmma_wait_group")
def _wgmma_wait(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Returns the accumulators. Here, `wgmma` itself has already computed the product, so there is nothing to wait
    for."""
    return x


@meaning("shared_view")
def _shared_view(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Returns the indices of the elements in shared memory. `wgmma` later reads the elements themselves."""
    found = access(run, op, op.operands[0])
    return [found.at.reshape(found.shape).transpose(op.attrs["axes"])]


@meaning("wgmma")
def _wgmma(run: Run, op: Op, x: list[Array]) -> list[Array]:
    return [_sums(run, op, factors_of(op, result), "") for result in op.results]


@meaning("dot")
def _dot(run: Run, op: Op, x: list[Array]) -> list[Array]:
    modifier = op.attrs["modifier"] or getattr(op.attrs["instruction"], "modifier", "")
    return [_sums(run, op, factors_of(op, op.result), modifier)]


def elements_of(run: Run, value: Value) -> Array:
    """Returns the elements of an operand, which may be a view of shared memory."""
    if not isinstance(value.type, ViewType):
        return run.values[value]
    assert value.op is not None
    data = run.memory(value.op.operands[0]).data[run.values[value]]
    return load(data.view(stored(value.dtype)), value.dtype)


def _sums(run: Run, op: Op, factors: tuple[Value, Value, Value], modifier: str) -> Array:
    a, b, c = (elements_of(run, each) for each in factors)
    left, right, sums = (each.dtype for each in factors)
    if op.attrs.get("from_zero"):  # the accumulator only determines the registers (`place_waits`)
        c = np.zeros_like(c)
    if left.name == "b1" and not modifier:
        raise Undecided(op, "a product of bits whose instruction is not chosen yet")
    if left.has_fractions or left.name == "tf32":
        run.inexact = True
        if left.name == "tf32":
            a, b = upper_tf32(a), upper_tf32(b)
        p, q = as_float(a, left), as_float(b, right)
        exact = p @ q + np.asarray(c, np.float64)
        if run.noise is not None:
            size = np.abs(p) @ np.abs(q) + np.abs(np.asarray(c, np.float64))
            exact = exact + run.noise.uniform(-1, 1, exact.shape) * size * (UNITS * unit(sums))
        return nearest(exact, sums)
    p, q = a.astype(np.float64), b.astype(np.float64)  # sums of products of bytes are exact in float64
    if "popc" in modifier:
        both = p @ q
        made = both if modifier.startswith("and") else p.sum(-1)[..., :, None] + q.sum(-2)[..., None, :] - 2 * both
    else:
        made = p @ q
    total = made.astype(np.int64) + c.astype(np.int64)
    if "satfinite" in modifier:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return total.astype(held(sums))
