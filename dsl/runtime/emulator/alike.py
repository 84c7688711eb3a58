"""Finds racing stores that are harmless because all threads store the same bytes.

Two threads race if they execute the same store at the same address and nothing orders the writes. In two cases, the
emulator only records a note (`shadow.py`), since both threads store the same bytes. In the first case, the stored
values are constants: for example, all threads of a block set a flag. In the second case, lanes of one warp execute the
store together and store the same value. Any of these lanes may be the last to store (CUDA C++ Programming Guide, "SIMT
Architecture"). Triton emits stores of the first kind to tell its warps what to run next. It emits stores of the second
kind for the result of a reduction in a warp. The emulator reports all other unordered stores of two threads to one
address as races.

A store that adds to what it has loaded (`guesses.py`) is never harmless.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .code import LAST_STAMP
from .reader import Float, Integer, Operand, Register, Vector
from .step import RegisterStep


def constant_stores(segments: list[Any]) -> frozenset[int]:
    """Returns the stamps (`Site.stamp`) of the `st` instructions that store only constants. Omits LAST_STAMP, which
    several instructions may share."""
    steps = [step for segment in segments for step in segment.steps]
    # All memory instructions after the first 4,095 share the last stamp, so this stamp identifies none of them.
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
    """Returns a mask of the lanes of a store. It is true if the last lane that stores to the same address is in the
    same warp and stores the same bytes."""
    _, which = np.unique(index, return_inverse=True)
    last = np.empty(len(index), np.int64)
    last[which] = np.arange(len(index))
    winner = last[which]
    given = np.ascontiguousarray(np.broadcast_to(values, (len(index), *values.shape[1:])))
    # Bits are compared, not values. So a NaN equals itself, and -0 differs from +0.
    bits = given.view(np.uint8).reshape(len(index), -1)
    return (bits == bits[winner]).all(1) & (warps == warps[winner])
