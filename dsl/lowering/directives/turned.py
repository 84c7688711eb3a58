"""Transposes a wgmma whose tile has an unsuitable number of rows but a suitable number of columns, such as 48 x 128.
Also transposes a wgmma whose right operand has 32-bit elements and is not contiguous along k.

    for p:                            for p:
        acc = dot(x, y, acc)     →        t = dot(y.T, x.T, t)
    c = acc                           c = t.T

A wgmma instruction computes 64 rows per warpgroup, and any multiple of 8 columns. So the transposed MMA suits matrices
with few rows, and also tiles of 192 rows. wgmma reads 32-bit elements from shared memory only if they are contiguous
along k (PTX ISA, "wgmma"). But its left operand may be in registers, and threads can load registers from any layout. On
an H100, the transposed MMA is 1.7 to 1.8 times as fast as `mma.sync`.
"""

from __future__ import annotations

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.slices import located
from dsl.lowering.hopper.warpgroup import is_loaded, loaded_across
from dsl.lowering.ir.function import Block, Function, Op, Value, parents, put, replace_uses, uses, walk
from dsl.lowering.known.facts import Analysis, facts_now
from dsl.lowering.ops.control import handed_on
from dsl.lowering.plan.products import computes_transpose, is_wgmma
from dsl.lowering.shared.access_width import lies_along


def turned_tiles(function: Function) -> None:
    """Transposes each wgmma whose tile has an unsuitable number of rows, but a suitable number of columns."""
    for op in walk(function.body):
        if is_wgmma(op) and computes_transpose(function, op):
            _turn(function, op)


def turned(function: Function) -> None:
    """Transposes each wgmma of 32-bit elements whose left operand is contiguous along k, but whose right operand is
    not."""
    facts = facts_now(function)
    for op in walk(function.body):
        if is_wgmma(op) and _is_wrong_way(facts, op):
            _turn(function, op)


def _is_wrong_way(facts: Analysis, product: Op) -> bool:
    left, right, _ = product.operands
    # If neither operand is contiguous along k, the transposed MMA has the same problem. So `a.T @ b` uses `mma.sync`.
    both = all(is_loaded(each) and lies_along(facts, each, 1, {}) for each in (left, right))
    return loaded_across(right.dtype) and both


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
    product.attrs["turned"] = True
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


def _transposed(b: Builder, value: Value) -> Value:
    if value.op is not None and value.op.spec.elements.splat and value.op.operands:
        return b.broadcast(value.op.operands[0], value.shape[::-1])  # `split` looks for accumulators that start at 0
    return b.value("transpose", value, axes=(1, 0))


def _carrying(function: Function, product: Op) -> list[tuple[Op, int, Value]]:
    """Finds the loops around an MMA that carry its accumulator and do nothing else with it. Returns the MMA, then these
    loops from the innermost outwards. Each entry contains the operation, the index of the accumulator among its
    operands, and the accumulator's result."""
    outside, users = parents(function.body), uses(function.body)
    found = [(product, 2, product.result)]
    while True:
        op, at, made = found[-1]
        given, loop = op.operands[at], outside.get(op)
        if loop is None or not loop.spec.control.counters:
            return found
        body = loop.regions[0]
        args = body.args[loop.spec.control.counters :]
        alone = users[given] == [op] and users[made] == [body.ops[-1]]
        i = args.index(given) if given in args else -1
        if i < 0 or not alone or handed_on(body)[i] is not made:
            return found
        found.append((loop, loop.spec.control.leading + i, loop.results[i]))
