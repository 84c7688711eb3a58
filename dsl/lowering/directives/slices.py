"""Slices. The slice of a value is the list of operations that compute it. A slice can be built again for other
inputs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.function import Function, Op, Value, parents, walk
from dsl.lowering.ir.location import Loc, Source


def inside(op: Op) -> list[Op]:
    """Returns all operations in the regions of `op`, such as the body of a loop."""
    return [inner for region in op.regions for inner in walk(region)]


def reads(op: Op) -> list[Value]:
    """Returns all values that `op` and the operations in its regions read."""
    return [value for each in (op, *inside(op)) for value in each.operands]


T = TypeVar("T", bound=Hashable)


def reached(first: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yields the objects of `first`, the objects that `following` returns for them, and so on. Yields each object
    once."""
    todo = list(first)
    seen = set(todo)
    while todo:
        last = todo.pop()
        yield last
        more = [each for each in following(last) if each not in seen]
        todo += more
        seen.update(more)


def enclosing(op: Op, outside: Mapping[Op, Op]) -> Iterator[Op]:
    """Yields the operations whose regions contain `op`, the innermost first. `outside` is the result of `parents`."""
    while op in outside:
        op = outside[op]
        yield op


def around(function: Function, inner: Op) -> list[Op]:
    """Returns `inner` and the operations that contain it, the outermost first."""
    return [inner, *enclosing(inner, parents(function.body))][::-1]


def slice_of(ops: Sequence[Op], wanted: Iterable[Value]) -> list[Op]:
    """Returns the operations in `ops` on which the values `wanted` depend, in order."""
    needed, found = set(wanted), []
    for op in reversed(ops):
        if needed.intersection(op.results):
            found.append(op)
            needed.update(op.operands)
    return found[::-1]


def leaves_of(part: Iterable[Op], wanted: Iterable[Value]) -> set[Value]:
    """Returns the inputs of a slice: the values that it reads but does not compute."""
    part = list(part)
    made = {result for op in part for result in op.results}
    return ({operand for op in part for operand in op.operands} | set(wanted)) - made


def impure(part: Iterable[Op]) -> Op | None:
    """Returns the first operation of `part` that is not pure, or None. A slice with such an operation cannot be built
    again elsewhere."""
    others = [op for op in part if not op.spec.pure]
    return others[0] if others else None


def made_anew(b: Builder, part: Sequence[Op], table: Mapping[Value, Value], wanted: Value) -> Value:
    """Builds the slice of `wanted` again, with its inputs replaced as in `table`, and returns the new value. `part`
    contains the operations of the slice."""
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
    """Returns the source location of an operation, or of the kernel if the operation has none, as in IR that is read
    from text."""
    return op.loc or function.loc or Loc(Source(function.name, ""), 0, 0)
