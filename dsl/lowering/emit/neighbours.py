"""Simplifies divisions of consecutive integers. For the integers 16 to 23, for example, `i // 8` is computed once, and
`i % 8` becomes the constants 0 to 7.

LLVM then recognises that values computed from equal quotients are equal, too. For example, eight elements share the
random bits of one call of the generator Philox.
"""

from __future__ import annotations

from dsl.lowering.emit.words import count_of
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op
from dsl.lowering.layouts.layout import Layout, apply, bits_of


def _below(layout: Layout, axis: int) -> int:
    """Counts the low bits of a row-major index that belong to axes after `axis`."""
    return sum(bits_of(extent) for extent in layout.shape[axis + 1 :])


def known_rests(w: Writer, op: Op) -> bool:
    """Emits `i % n` as the constants 0, 1, 2 … This requires that one thread holds all elements from each multiple of n
    to the next. Returns whether the remainders were emitted."""
    layout, by = op.result.tile.layout, constant_of(op.operands[1])
    if op.operands[0].tile.layout is not layout or layout is None or by is None or by < 2 or int(by) & (int(by) - 1):
        return False
    by, facts = int(by), w.facts.of(op.operands[0])
    for axis, (run, start) in enumerate(zip(facts.run, facts.start, strict=True)):
        below = _below(layout, axis)
        bits = (by - 1) << below
        own = not any(basis & bits for basis in layout.lane + layout.warp)  # a thread has the whole group
        if own and min(run, layout.shape[axis]) >= by and start % by == 0:
            places = (apply(layout.register, i) & bits for i in range(layout.count))
            w.registers[op.result] = [str(place >> below) for place in places]
            return True
    return False


def equal_quotients(w: Writer, op: Op) -> list[int]:
    """Maps each register of a quotient to the first register whose quotient is known to be equal."""
    layout, count = op.result.tile.layout, count_of(op.result)
    if layout is None:
        return list(range(count))
    same = w.facts.of(op.result).same
    bits = sum((min(n, layout.shape[axis]) - 1) << _below(layout, axis) for axis, n in enumerate(same))
    free = sum(1 << k for k, basis in enumerate(layout.register) if basis & ~bits == 0)
    return [i & ~free for i in range(count)]
