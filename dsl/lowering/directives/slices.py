"""Slices: the operations that a value is computed from, which can be repeated for other inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.function import Function, Op, Value
from dsl.lowering.ir.location import Loc, Source


def slice_of(ops: Sequence[Op], wanted: Iterable[Value]) -> list[Op]:
    """The operations among `ops` that `wanted` is computed by, in order."""
    needed, found = set(wanted), []
    for op in reversed(ops):
        if needed.intersection(op.results):
            found.append(op)
            needed.update(op.operands)
    return found[::-1]


def leaves_of(part: Iterable[Op], wanted: Iterable[Value]) -> set[Value]:
    """The inputs of a slice: values that it uses and does not compute."""
    part = list(part)
    made = {result for op in part for result in op.results}
    return ({operand for op in part for operand in op.operands} | set(wanted)) - made


def impure(part: Iterable[Op]) -> Op | None:
    """The first operation of a slice that must not be repeated elsewhere, as it is not pure; None if all are pure."""
    others = [op for op in part if not op.spec.pure]
    return others[0] if others else None


def made_anew(b: Builder, part: Sequence[Op], table: Mapping[Value, Value], wanted: Value) -> Value:
    """`wanted`, recomputed by the operations of its slice with the inputs of `table`."""
    known, needed = dict(table), {wanted} - table.keys()
    again: list[Op] = []
    for op in reversed(part):
        if needed.intersection(op.results):
            again.append(op)
            needed |= set(op.operands) - table.keys()
    for op in reversed(again):
        b.place = (op.loc or b.loc, None)
        known[op.result] = b.value(op.name, *(known.get(v, v) for v in op.operands), **op.attrs)
    return known.get(wanted, wanted)


def without(ops: Iterable[Op], gone: Collection[Op]) -> list[Op]:
    return [op for op in ops if op not in gone]


def located(function: Function, op: Op) -> Loc:
    """The location of an operation; that of the kernel for one without a location, as in IR read from text."""
    return op.loc or function.loc or Loc(Source(function.name, ""), 0, 0)
