"""Stores of constants: whoever executes one leaves the same bytes, as where all threads of a block set a flag.

Two threads that execute one such instruction at one place race, strictly: both write, and nothing orders them. It does
no harm, since the place holds the same whichever came last, so that the shadow memory notes it in place of reporting it
(`shadow.py`). Any other store there is a race as ever. Triton tells its warps in this way what to run next.
"""

from __future__ import annotations

from typing import Any

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
