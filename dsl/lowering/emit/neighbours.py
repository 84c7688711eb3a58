"""Divisions of neighbours: for eight elements in order from a multiple of 8 on, `i // 8` is computed once, and `i % 8`
not at all.

LLVM then sees that what follows from the quotient is equal, too: eight elements take their random bits from one call of
Philox.
"""

from __future__ import annotations

from dsl.lowering.emit.words import count_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op
from dsl.lowering.layouts.layout import Layout, apply, bits_of


def _below(layout: Layout, axis: int) -> int:
    """How many low bits of a row-major coordinate belong to later axes."""
    return sum(bits_of(extent) for extent in layout.shape[axis + 1 :])


def known_rests(w: Writer, op: Op) -> bool:
    """Emits remainders as constants 0, 1, 2 … if a thread has all neighbours from a multiple of the divisor on. Returns
    whether it did."""
    layout, by = op.result.tile.layout, constant_of(op.operands[1])
    if op.operands[0].tile.layout is not layout or layout is None or by is None or by < 2 or int(by) & (int(by) - 1):
        return False
    by, facts = int(by), w.facts.of(op.operands[0])
    for axis, (run, start) in enumerate(zip(facts.run, facts.start, strict=True)):
        below = _below(layout, axis)
        bits = (by - 1) << below
        own = not any(basis & bits for basis in layout.lane + layout.warp)  # a thread has all of them
        if own and min(run, layout.shape[axis]) >= by and start % by == 0:
            places = (apply(layout.register, i) & bits for i in range(layout.count))
            w.registers[op.result] = [str(place >> below) for place in places]
            return True
    return False


def equal_quotients(w: Writer, op: Op) -> list[int]:
    """For each register of a quotient, the first register that is known to have an equal quotient."""
    layout, count = op.result.tile.layout, count_of(op.result)
    if layout is None:
        return list(range(count))
    same = w.facts.of(op.result).same
    bits = sum((min(n, layout.shape[axis]) - 1) << _below(layout, axis) for axis, n in enumerate(same))
    free = sum(1 << k for k, basis in enumerate(layout.register) if basis & ~bits == 0)
    return [i & ~free for i in range(count)]
