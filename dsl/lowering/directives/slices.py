"""Slices: a slice has the operations that compute a value, and can be repeated for other inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.function import Function, Op, Value, walk
from dsl.lowering.ir.location import Loc, Source


def inside(op: Op) -> list[Op]:
    """All operations in the regions of an operation."""
    return [inner for region in op.regions for inner in walk(region)]


def reads(op: Op) -> list[Value]:
    """All values that an operation reads, including reads by operations inside it."""
    return [value for each in (op, *inside(op)) for value in each.operands]


T = TypeVar("T", bound=Hashable)


def reached(first: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yields these objects, and all objects that `following` leads to from them. Each object is visited once."""
    todo = list(first)
    seen = set(todo)
    while todo:
        last = todo.pop()
        yield last
        more = [each for each in following(last) if each not in seen]
        todo += more
        seen.update(more)


def enclosing(op: Op, outside: Mapping[Op, Op]) -> Iterator[Op]:
    """The operations around an operation, from the innermost outwards. `outside` is the result of `parents`."""
    while op in outside:
        op = outside[op]
        yield op


def slice_of(ops: Sequence[Op], wanted: Iterable[Value]) -> list[Op]:
    """The operations among `ops` that compute `wanted`, in order."""
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
    """The first operation of a slice that is not pure. Such an operation must not be repeated elsewhere. Returns None
    if all are pure."""
    others = [op for op in part if not op.spec.pure]
    return others[0] if others else None


def made_anew(b: Builder, part: Sequence[Op], table: Mapping[Value, Value], wanted: Value) -> Value:
    """`wanted`, recomputed by the operations of its slice. `table` maps old inputs to new inputs."""
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
    """The location of an operation. An operation may have no location, as in IR that is read from text. The result is
    then the location of the kernel."""
    return op.loc or function.loc or Loc(Source(function.name, ""), 0, 0)
