"""Evaluates masks that may be on (true) for only some elements of a wide access. Each mask is evaluated at both ends of
a run of elements, or for single elements.

A mask is a conjunction of flags, such as `i >= 0 and i < n`. Along a run, each flag changes at most once. The flag `i <
n` can only change from on to off. If it is on for the last element, it is on for all elements. If it is off for the
first element, it is off for all elements. For the flag `i >= 0`, the roles of the first and the last element are
exchanged.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from dsl.lowering.emit.rules import emit_op
from dsl.lowering.emit.shapes import read_registers, source_registers
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.layouts.layout import Layout

Flags = list[tuple[Value, int]]
"""Flags of single elements: (mask, register of the element)."""


class Ends(Struct, frozen=True):
    """Flags at the two ends of a run of elements. If all flags in `all` are on, the mask is on for all elements. If a
    flag in `some` is off, the mask is off for all elements."""

    all: Flags
    some: Flags


def ends(w: Writer, mask: Value, first: int, last: int) -> Ends:
    """Returns the flags at both ends of the run of elements in registers `first` to `last`. In this run, the mask must
    not be off between two elements for which it is on."""
    op, layout = mask.op, mask.tile.layout
    if op is not None and op.spec.algebra.masks == "all":
        sides = [ends(w, o, first, last) for o in op.operands]
        return Ends([f for e in sides for f in e.all], [f for e in sides for f in e.some])
    if op is not None and op.spec.placement.picks is not None:
        picked = source_registers(op)
        return ends(w, op.operands[0], picked[first], picked[last])
    if first == last or layout is None:
        return Ends([(mask, first)], [(mask, first)])
    facts, away = w.facts.of(mask), layout.coordinates(layout.offsets[first] ^ layout.offsets[last])
    axis = next(i for i, distance in enumerate(away) if distance)
    if facts.falls[axis] > away[axis]:
        return Ends([(mask, last)], [(mask, first)])
    if facts.rises[axis] > away[axis]:
        return Ends([(mask, first)], [(mask, last)])
    return Ends([(mask, first), (mask, last)], [])


def span(w: Writer, mask: Value, layout: Layout) -> int:
    """Returns the largest power of two n such that the mask is convex over each aligned group of n registers. The
    elements of a group are in order along one axis."""
    convex, register = w.facts.of(mask).convex, layout.register
    for axis, reach in enumerate(convex):
        n = 0
        while n < len(register) and _moves_along(layout, axis, n, reach):
            n += 1
        if n:
            return 1 << n
    return 1


def _moves_along(layout: Layout, axis: int, n: int, reach: int) -> bool:
    """Whether bit n of the register number changes the index along `axis` by less than `reach`. The bit must change a
    single coordinate bit, which no other register or thread bit changes."""
    basis = layout.register[n]
    distance = layout.coordinates(basis)[axis]
    others = (*layout.register[:n], *layout.register[n + 1 :], *layout.thread)
    return not basis & (basis - 1) and 0 < distance < reach and not any(basis & other for other in others)


# ---- recomputing elements ----


def _definition(value: Value) -> list[Op]:
    """Lists the operations that compute `value` from its inputs: scalars, and values that cannot be recomputed. Each
    operation comes after those of its operands."""
    found: dict[Op, None] = {}

    def visit(value: Value) -> None:
        op = value.op
        if op is None or not value.tile.shape or op in found:
            return
        if op.spec.pure and (op.spec.elementwise or op.spec.placement.picks is not None or not op.operands):
            for o in op.operands:
                visit(o)
            found[op] = None

    visit(value)
    return list(found)


def _needed(value: Value, registers: Iterable[int]) -> dict[Value, set[int]]:
    """Returns what is read to recompute `registers` of `value`: for each input and intermediate value, a set of
    registers."""
    needed = {value: set(registers)}
    for op in reversed(_definition(value)):
        read = read_registers(op, needed[op.result])
        for o in op.operands:
            needed.setdefault(o, set()).update(read)
    return needed


def leaves(value: Value, registers: Iterable[int]) -> dict[Value, set[int]]:
    """Maps each input of `value` to the registers that must exist before `registers` of `value` can be recomputed."""
    inside = {op.result for op in _definition(value)}
    return {v: read for v, read in _needed(value, registers).items() if v not in inside}


def anew(w: Writer, value: Value, registers: Iterable[int]) -> list[str]:
    """Recomputes `registers` of a value from its `leaves`, at the current place in the code."""
    registers = list(registers)
    ops = _definition(value)
    # The registers of intermediate values are restored afterwards, because registers computed here do not dominate
    # later uses.
    before, dbg = {op.result: w.registers[op.result] for op in ops}, w.text.dbg
    with w.needed.only(_needed(value, registers)), w.head.nothing_ahead():
        for op in ops:
            emit_op(w, op)
    out = [w.registers[value][r] for r in registers]
    w.registers |= before
    w.text.dbg = dbg
    return out
