"""Reads the operands of block barriers and cluster barriers (PTX ISA 9.7.13.1 to 9.7.13.4).

`rendezvous.py` synchronises the threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code import BarrierOperands, Code, Op, Values
from ..reader import Operand, PtxInstruction
from .memory_access import nothing
from .registry import instruction


@instruction("bar", "barrier", effect=True, sync="barrier", counts="barriers")
def barrier(code: Code, ins: PtxInstruction) -> Op:
    words = [word for word in ins.opcode[1:] if word != "cta"]
    mode = words[0]
    aligned = ins.opcode[0] == "bar" or "aligned" in words
    if mode == "red":
        return reduction(code, ins, words, aligned)
    number, count = participants(code, ins.operands)
    code.record.barrier = BarrierOperands(mode, aligned, number, count)
    return nothing


def participants(code: Code, operands: tuple[Operand, ...]) -> tuple[int, int | None]:
    count = code.read(operands[1], "u32") if len(operands) > 1 else None
    return code.read(operands[0], "u32"), count


def reduction(code: Code, ins: PtxInstruction, words: list[str], aligned: bool) -> Op:
    """Implements `bar.red.{and,or,popc} d, a{, b}, c`, which reduces the predicate c over all threads of the
    barrier."""
    kind = words[1]
    number, count = participants(code, ins.operands[1:-1])
    flag, negated = code.predicate(ins.operands[-1])
    d = code.write(ins.operands[0], "u32" if kind == "popc" else "pred")
    code.record.barrier = BarrierOperands(
        "red", aligned, number, count, flag, negated, kind, getattr(ins.operands[0], "name", "")
    )

    def whole_blocks(v: Values, g: Any) -> None:
        flags = ~v[flag] if negated else v[flag]
        slots = g.lane("slot")
        votes = np.bincount(slots, weights=np.broadcast_to(flags, g.n), minlength=g.wave.slots).astype(np.uint32)
        present = np.bincount(slots, minlength=g.wave.slots).astype(np.uint32)
        v[d][...] = reduced(kind, votes, present)[slots]

    return whole_blocks


def reduced(kind: str, votes: Any, present: Any) -> Any:
    """Returns the result of a reduction. `present` threads have arrived, and the predicate is true in `votes` of
    them."""
    if kind == "popc":
        return votes
    return votes == present if kind == "and" else votes > 0


@instruction("barrier.cluster.arrive", effect=True, sync="barrier")
@instruction("barrier.cluster.wait", effect=True, sync="barrier", counts="cluster_barriers")
def cluster_barrier(code: Code, ins: PtxInstruction) -> Op:
    """Implements `barrier.cluster.{arrive,wait}`, which together are one barrier: only the wait counts. A `.relaxed`
    arrival does not order the thread's writes before the barrier."""
    words = ins.opcode[2:]
    code.record.barrier = BarrierOperands(f"cluster.{words[0]}", "aligned" in words, orders="relaxed" not in words)
    return nothing
