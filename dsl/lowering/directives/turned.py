"""Transposes a wgmma whose tile has an unsuitable number of rows but a suitable number of columns, such as 48 x 128.
Also transposes a wgmma whose right operand has elements of 8 or 32 bits and is not contiguous along k.

    for p:                            for p:
        acc = dot(x, y, acc)     →        t = dot(y.T, x.T, t)
    c = acc                           c = t.T

A wgmma instruction computes 64 rows per warpgroup, and any multiple of 8 columns. So the transposed MMA suits matrices
with few rows, and also tiles of 192 rows. wgmma reads elements of 8 and 32 bits from shared memory only if they are
contiguous along k (PTX ISA, "wgmma"). But its left operand may be in registers, and threads can load registers from any
layout: bytes by `ldmatrix.trans`, in pairs. With tf32 on an H100, the transposed MMA is 1.7 to 1.8 times as fast as
`mma.sync`.
"""

from __future__ import annotations

from collections.abc import Callable

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.slices import located
from dsl.lowering.ir.function import Block, Function, Op, Value, parents, put, replace_uses, uses, walk
from dsl.lowering.ops.control import handed_on
from dsl.lowering.plan.products import adding, is_wgmma, part_of


def turned_tiles(function: Function) -> None:
    """Transposes each wgmma of which the plan says so, unless the schedule cuts its tile into subtiles."""
    users = uses(function.body)
    _turn_all(function, lambda op: op.result.tile.shape == part_of(function, users, op))


def turned(function: Function) -> None:
    """Transposes the subtiles of the others."""
    _turn_all(function, lambda op: True)


def _turn_all(function: Function, is_whole: Callable[[Op], bool]) -> None:
    for op in walk(function.body):
        if is_wgmma(op) and op.attrs.get("turn") and is_whole(op):
            _turn(function, op)
            op.attrs["turned"] = op.attrs.pop("turn")


def _turn(function: Function, product: Op) -> None:
    """Transposes one MMA. If the loops around the MMA only add to its accumulator, they carry the transposed
    accumulator."""
    left, right, _ = product.operands
    carrying = _carrying(function, product)
    outermost, at, end = carrying[-1]
    outermost.operands[at].name = None  # the name now means the transposed accumulator, as in the loop
    b, around, before, behind = Builder(located(function, product)), Block(), Block(), Block()
    with b.region(around):
        start = _transposed(b, outermost.operands[at])
    with b.region(before):
        product.operands[:2] = [_transposed(b, right), _transposed(b, left)]
        if adds := [op for op, _, _ in carrying[1:] if not op.regions]:  # the MMA has sums of its own
            product.operands[2] = _transposed(b, product.operands[2])
    for op in adds:
        _turn_others(function, op, {made for _, _, made in carrying} | {adds[-1].operands[carrying[len(adds)][1]]})
    used = Value(end.type)  # replaces the result in later users, while the type of `end` changes
    replace_uses(function.body, {end: used})
    for op, place, made in carrying:
        given = op.regions[0].args[place - op.spec.control.leading + op.spec.control.counters] if op.regions else made
        for value in (given, made):
            value.type = start.type
    outermost.operands[at] = start
    with b.region(behind):
        back = _transposed(b, end)
    replace_uses(function.body, {used: back})
    put(function.body, outermost, [*around.ops, outermost, *behind.ops])
    put(function.body, product, [*before.ops, product])


def _turn_others(function: Function, op: Op, turned: set[Value]) -> None:
    """Transposes the operands of an elementwise operation that are not in `turned`."""
    b, before = Builder(located(function, op)), Block()
    with b.region(before):
        op.operands = [each if each in turned else _transposed(b, each) for each in op.operands]
    put(function.body, op, [*before.ops, op])


def _transposed(b: Builder, value: Value) -> Value:
    op = value.op
    if op is not None and op.spec.elements.splat and op.operands and not op.operands[0].shape:
        return b.broadcast(op.operands[0], value.shape[::-1])  # `split` looks for accumulators that start at 0
    return b.value("transpose", value, axes=(1, 0))


def _carrying(function: Function, product: Op) -> list[tuple[Op, int, Value]]:
    """Finds the operations that carry an MMA's accumulator and do nothing else with it: the MMA, operations that add
    its result to other sums, and the loops around them, from the innermost outwards. Each entry contains the operation,
    the index of the accumulator among its operands, and the accumulator's result."""
    outside, users = parents(function.body), uses(function.body)
    found = [(product, 2, product.result)]
    found += [(op, at, op.result) for op, at in adding(users, product)]
    while True:
        op, at, made = found[-1]
        given, loop = op.operands[at], outside.get(op)
        if loop is None or not loop.spec.control.counters:
            break
        body = loop.regions[0]
        args = body.args[loop.spec.control.counters :]
        alone = users[given] == [op] and users[made] == [body.ops[-1]]
        i = args.index(given) if given in args else -1
        if i < 0 or not alone or handed_on(body)[i] is not made:
            break
        found.append((loop, loop.spec.control.leading + i, loop.results[i]))
    # Sums that no loop carries stay as they are.
    return found[:1] if not found[-1][0].regions else found
