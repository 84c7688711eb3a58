"""Masks of wide accesses that may be on for a part of their elements: what the ends tell of all, and the elements' own.

A mask is the conjunction of flags that go off once, on once, or do not change over elements that lie in order. Such a
flag is on throughout if it is on at one end, and off throughout if it is off at the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dsl.lowering.emit.rules import emit_op
from dsl.lowering.emit.shapes import read_registers, source_registers
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.layouts.layout import Layout

Flags = list[tuple[Value, int]]
"""Masks, each with the register of one of its elements."""


@dataclass(frozen=True, slots=True)
class Ends:
    """Flags of elements in order: on for all of these if all of `all` are on, for none if one of `some` is off."""

    all: Flags
    some: Flags


def ends(w: Writer, mask: Value, first: int, last: int) -> Ends:
    """Those of the elements in registers `first` to `last` of a mask that is convex over them."""
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
    """How many of a thread's registers, from a multiple of it on, hold elements along one axis over which the mask is
    convex: the first register is the first of them, the last one the last."""
    convex, register = w.facts.of(mask).convex, layout.register
    for axis, reach in enumerate(convex):
        n = 0
        while n < len(register) and _moves_along(layout, axis, n, reach):
            n += 1
        if n:
            return 1 << n
    return 1


def _moves_along(layout: Layout, axis: int, n: int, reach: int) -> bool:
    """True if bit n of a register's number moves along `axis`, within `reach`, by a bit of the coordinate that nothing
    else moves."""
    basis = layout.register[n]
    distance = layout.coordinates(basis)[axis]
    others = (*layout.register[:n], *layout.register[n + 1 :], *layout.thread)
    return not basis & (basis - 1) and 0 < distance < reach and not any(basis & other for other in others)


# ---- computing elements anew ----


def _definition(value: Value) -> list[Op]:
    """The operations by which `value` comes from scalars and from what cannot be computed twice, operands first."""
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
    """Which registers computing these of `value` anew takes, of each value that it goes through or ends at."""
    needed = {value: set(registers)}
    for op in reversed(_definition(value)):
        read = read_registers(op, needed[op.result])
        for o in op.operands:
            needed.setdefault(o, set()).update(read)
    return needed


def leaves(value: Value, registers: Iterable[int]) -> dict[Value, set[int]]:
    """The registers that must have been computed before, for these of `value` to be computed anew."""
    inside = {op.result for op in _definition(value)}
    return {v: read for v, read in _needed(value, registers).items() if v not in inside}


def anew(w: Writer, value: Value, registers: Iterable[int]) -> list[str]:
    """These registers of a value, computed at this place from `leaves`: until here they cost nothing."""
    registers = list(registers)
    ops = _definition(value)
    before, dbg = {op.result: w.registers[op.result] for op in ops}, w.text.dbg
    with w.needed.only(_needed(value, registers)), w.head.nothing_ahead():
        for op in ops:
            emit_op(w, op)
    out = [w.registers[value][r] for r in registers]
    w.registers |= before
    w.text.dbg = dbg
    return out
