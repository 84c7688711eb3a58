"""Emits the operations of a block in order. Long chains of elementwise operations are emitted for a few registers at a
time.

Several values of a chain may be live at once. If the chain is emitted operation by operation, all registers of these
values are live, and ptxas keeps that order. An exact gelu of 128 elements per thread then spilled 388 bytes. If the
chain is emitted for a few registers at a time, only these few are live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from operator import sub

from dsl.lowering.emit.neighbours import equal_quotients
from dsl.lowering.emit.rules import emit_op
from dsl.lowering.emit.words import count_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Block, Op, Value
from dsl.lowering.ir.targets import MOST_REGISTERS
from dsl.lowering.layouts.layout import Layout

AT_ONCE = 4
"""The least number of registers for which a chain is emitted together: one word of four bytes, or two pairs of 16-bit
elements."""


def emit_block(w: Writer, block: Block) -> None:
    """Emits all operations of a block except the terminator."""
    emit_ops(w, block.ops[:-1])


def emit_ops(w: Writer, ops: Sequence[Op]) -> None:
    """Emits operations in order. Long elementwise chains are emitted for a few registers at a time."""
    stretch: list[Op] = []
    chain: dict[Op, None] = {}
    # All tiles of a chain have the same layout, so a register depends only on the same register of the operands.
    layout: Layout | None = None
    for op in ops:
        spec = op.spec
        own = op.result.tile.layout if spec.elementwise and spec.pure else None
        if own is not None and (not chain or own == layout):
            chain[op], layout = None, own
        elif not spec.pure or any(o.op in chain for o in op.operands):
            _emit(w, stretch, chain)
            stretch, chain = [], {}
        stretch.append(op)
    _emit(w, stretch, chain)


def _emit(w: Writer, stretch: Sequence[Op], chain: Mapping[Op, None]) -> None:
    """Emits the operations of `stretch`, all of which are pure except perhaps the first. `chain` contains some of these
    operations. The others do not use their results."""
    at_once = _at_once(w, list(chain))
    if at_once is None:  # all registers fit: keep the order of the operations
        for op in stretch:
            emit_op(w, op)
        return
    # Operations outside the chain come first, because the chain may use their results.
    for op in stretch:
        if op not in chain:
            emit_op(w, op)
    held = count_of(next(iter(chain)).result)
    done: dict[Value, list[str]] = {op.result: [""] * held for op in chain}
    asked = {op.result: set(w.needed.of(op.result, held)) for op in chain}
    from_words = {o for op in chain for o in op.operands if o not in w.registers and o not in done}
    w.registers |= {o: w.registers[o] for o in from_words}
    for start in range(0, held, at_once):
        for op in chain:
            value, part = op.result, asked[op.result] & set(range(start, start + at_once))
            w.needed.set(value, part)
            emit_op(w, op)
            for i in part:
                done[value][i] = w.registers[value][i]
            w.registers[value] = done[value]
    for value, registers in asked.items():
        w.needed.set(value, registers)
    for o in from_words:  # drop the unpacked elements: later uses unpack the words again
        del w.registers[o]


def _at_once(w: Writer, chain: Sequence[Op]) -> int | None:
    """Returns how many registers of each value a chain computes at a time, or None for all registers."""
    if len(chain) < 3 or not _overflows(w, chain):
        return None
    because = f"{len(chain)} operations hold more than {MOST_REGISTERS} registers at once"
    # Registers with equal quotients stay together, because each group of registers would otherwise recompute the
    # quotient.
    quotients = [equal_quotients(w, op) for op in chain if op.spec.algebra.divides]
    together = max(AT_ONCE, *(max(map(sub, count(), each)) + 1 for each in quotients), 1)
    return w.switches.of(chain[-1], "chain", {str(together): together, "all": None}, because)


def _overflows(w: Writer, chain: Sequence[Op]) -> bool:
    """Whether a chain, emitted operation by operation, needs more registers than a thread has."""
    if 4 * len(chain) * count_of(chain[0].result) <= MOST_REGISTERS:  # an upper bound, which avoids the search below
        return False
    last = {o: i for i, op in enumerate(chain) for o in op.operands if o.tile.shape}
    ending: dict[int, list[Value]] = {}
    for value, i in last.items():
        ending.setdefault(i, []).append(value)
    own = set(chain)
    held = {o: _registers(w, o) for o in last if o.op not in own}
    # The total is kept, because adding up what is held behind each operation took 8 % of `dsl check`.
    total = sum(held.values())
    for i, op in enumerate(chain):
        total -= sum(held.pop(value, 0) for value in ending.get(i, ()))
        held[op.result] = _registers(w, op.result)
        total += held[op.result]
        if total > MOST_REGISTERS:
            return True
    return False


def _registers(w: Writer, value: Value) -> int:
    """Returns the registers of 32 bits that a thread needs for a value."""
    return len(w.needed.of(value, count_of(value))) * value.dtype.bits // 32
