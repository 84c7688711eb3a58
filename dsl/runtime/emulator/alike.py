"""Stores that leave the same bytes, whoever executes them.

Two threads that execute one store at one place strictly race: both write, and nothing orders them. That does no harm if
the place holds the same bytes afterwards, whichever came last. Then the shadow memory notes it and does not report it
(`shadow.py`). There are two such cases: the values are constants, as when all threads of a block set a flag; or lanes
of one warp write one value together, any of which may be the last (CUDA C++ Programming Guide, "SIMT Architecture").
Triton uses the first to tell its warps what to run next, and the second to store what a warp has reduced. Any other
such store is a race.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import LAST_STAMP
from .reader import Float, Integer, Operand, Register, Vector
from .step import RegisterStep


def constant_stores(segments: list[Any]) -> frozenset[int]:
    """The stamps of plain stores of constants, of those stores that have a stamp of their own."""
    steps = [step for segment in segments for step in segment.steps]
    # The last stamp stands for all instructions beyond 4,095, which it cannot tell apart.
    return frozenset(step.site.stamp for step in steps if step.site.stamp < LAST_STAMP and stores_constants(step))


def stores_constants(step: RegisterStep) -> bool:
    if step.ins.opcode[0] != "st" or len(step.ins.operands) < 2:
        return False
    source = step.ins.operands[1]
    items = source.items if isinstance(source, Vector) else (source,)
    return all(is_constant(item, step) for item in items)


def is_constant(item: Operand, step: RegisterStep) -> bool:
    return isinstance(item, Integer | Float) or (isinstance(item, Register) and item.name in step.known)


def as_the_last(index: Any, values: Any, warps: Any) -> Any:
    """For each lane of a store: does the last lane at its place, whose value stays, write the same from the same
    warp?"""
    _, which = np.unique(index, return_inverse=True)
    last = np.empty(len(index), np.int64)
    last[which] = np.arange(len(index))
    winner = last[which]
    given = np.ascontiguousarray(np.broadcast_to(values, (len(index), *values.shape[1:])))
    # Bits and not values, so that a NaN equals itself and -0 differs from +0.
    bits = given.view(np.uint8).reshape(len(index), -1)
    return (bits == bits[winner]).all(1) & (warps == warps[winner])
