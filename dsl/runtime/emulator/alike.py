"""Stores that leave the same bytes whoever executes them.

Two threads that execute one store at one place race, strictly: both write, and nothing orders them. It does no harm
where the place holds the same whichever came last, so that the shadow memory notes it in place of reporting it
(`shadow.py`). That is so where the values are constants, as where all threads of a block set a flag, and where lanes of
one warp write one value together, any of which may be the last (CUDA C++ Programming Guide, "SIMT Architecture").
Triton tells its warps in the first way what to run next, and stores what a warp has reduced in the second.
Any other store there is a race as ever.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import LAST_STAMP
from .reader import Float, Integer, Operand, Register, Vector
from .step import RegisterStep


def constant_stores(segments: list[Any]) -> frozenset[int]:
    """The stamps of plain stores whose values are constants, of those that have one for themselves."""
    steps = [step for segment in segments for step in segment.steps]
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
    """Of each lane of a store: does the last one at its place, which stays there, write the same from the same warp?"""
    _, which = np.unique(index, return_inverse=True)
    last = np.empty(len(index), np.int64)
    last[which] = np.arange(len(index))
    winner = last[which]
    given = np.ascontiguousarray(np.broadcast_to(values, (len(index), *values.shape[1:])))
    bits = given.view(np.uint8).reshape(len(index), -1)
    return (bits == bits[winner]).all(1) & (warps == warps[winner])
