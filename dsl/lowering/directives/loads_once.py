"""Moves loads that are the same in all iterations in front of their loop. Their elements stay in registers.

    for tile:                                 w = load(weight[c])
        v = load(x[tile, c])            →     for tile:
        w = load(weight[c])                       v = load(x[tile, c])
        store(y[tile, c], f(v) * w)               store(y[tile, c], f(v) * w)

Example: the rows of a persistent block are all multiplied by the same weights. The assembler cannot move these loads,
because it does not know that the stores go to other memory.
"""

from __future__ import annotations

from collections.abc import Collection

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import known_iterations
from dsl.lowering.directives.places import add_to_mask
from dsl.lowering.directives.resident import ONCE
from dsl.lowering.directives.slices import impure, leaves_of, located, slice_of, without
from dsl.lowering.directives.tma import TMA
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, uses, walk
from dsl.lowering.ops.memory import writes
from dsl.lowering.plan.tile_loads import feeds_product, is_load


def loads_once(function: Function) -> None:
    """Moves chosen loads in front of loops. By default, these are the loads of persistent blocks. A schedule may also
    choose for optional tensors that are absent here."""
    function.choices.excuse(*(f"reload.{p.name}" for p in function.params if p.value is None))
    written = {op.operands[0] for op in walk(function.body) if writes(op)}
    users = uses(function.body)
    for block in list(blocks_of(function.body)):
        for loop in [op for op in block.ops if op.spec.control.counters]:
            _move(function, block, loop, written, users)


def _is_copied(function: Function, load: Op, users: dict[Value, list[Op]]) -> bool:
    """Whether a load becomes a copy of its loop: by TMA, or by default, since a product reads it. For that, `stage`
    needs it there. The copy may then be resident (`resident.py`)."""
    said = function.by_subject("stage", str).get(load.operands[0].name or "")
    return said == TMA or (said is None and feeds_product(load, users))


def _move(function: Function, block: Block, loop: Op, written: Collection[Value], users: dict[Value, list[Op]]) -> None:
    body, of_tiles = loop.regions[0], bool(loop.attrs.get("tiles"))
    chosen, moved = list[Op](), set[Op]()
    for op in body.ops:
        if not is_load(op) or op.operands[0] in written or op.attrs["cache"] == "volatile":
            continue
        part = slice_of(body.ops, op.operands)
        is_same = impure(part) is None and leaves_of(part, op.operands).isdisjoint(body.args)
        if not is_same or _is_copied(function, op, users):
            continue
        name, rule = op.operands[0].name or "tensor", "once" if of_tiles else "always"
        why = "all tiles of a block load the same elements" if of_tiles else ""
        if function.choices.choose("reload", name, ONCE, rule, loc=op.loc, because=why):
            chosen.append(op)
            moved.update((*part, op))
    if not chosen:
        return
    ahead = [op for op in body.ops if op in moved]
    if not of_tiles and not known_iterations(loop):
        ahead = _where_iterated(function, loop, ahead, chosen)
    body.ops = without(body.ops, moved)
    at = block.ops.index(loop)
    block.ops[at:at] = ahead


def _where_iterated(function: Function, loop: Op, ahead: list[Op], chosen: Collection[Op]) -> list[Op]:
    """Masks loads off where the loop has no iterations: their elements may be outside of their tensors there."""
    b, made = Builder(located(function, loop)), Block()
    with b.region(made):
        start, stop, step = loop.operands[:3]
        there = b.value("gt" if (constant_of(step) or 0) < 0 else "lt", start, stop)
        for op in ahead:
            if op in chosen:
                add_to_mask(b, op, there)
            made.ops.append(op)
    return made.ops
