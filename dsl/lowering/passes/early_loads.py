"""Moves loads that need no reduction ahead of the first one, if the schedule chooses it.

    v = load(x)                          v = load(x)
    m = sum(v)                           w = load(weight)
    w = load(weight)               →     m = sum(v)
    store(y, f(v, m) * w)                store(y, f(v, m) * w)

The weights then arrive while the block reduces its row, and not behind it. The assembler cannot move them: a barrier is
between, and it does not know that stores of earlier parts of a row go to other memory. The elements occupy registers
during the reduction, so this pays only where no other block would have taken them.
"""

from __future__ import annotations

from itertools import takewhile

from dsl.lowering.directives.slices import impure, slice_of
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, walk
from dsl.lowering.ops.memory import writes
from dsl.lowering.plan.tile_loads import is_load

KEYS = ("early.loads",)
WAYS = {"own": False, "ahead": True}


def early_loads(function: Function) -> None:
    """Moves the loads of each block of the function, or none of them."""
    written = {op.operands[0] for op in walk(function.body) if writes(op)}
    found = [(block, movable(block, written)) for block in blocks_of(function.body)]
    moved = [(block, ops) for block, ops in found if ops]
    if not moved:
        return
    why = "they need nothing of a reduction ahead of them"
    if not function.choices.choose("early", "loads", WAYS, "own", because=why):
        return
    for block, ops in moved:
        ahead, behind = halves(block)
        block.ops = [*ahead, *(op for op in behind if op in ops), *(op for op in behind if op not in ops)]


def joins(op: Op) -> bool:
    return op.spec.control.kind == "joins"


def halves(block: Block) -> tuple[list[Op], list[Op]]:
    """Returns a block's operations ahead of its first reduction, and the others."""
    ahead = [*takewhile(lambda op: not joins(op), block.ops)]
    return ahead, block.ops[len(ahead) :]


def movable(block: Block, written: set[Value]) -> set[Op]:
    """Returns the loads behind a block's first reduction that may stand ahead of it, with what their operands need."""
    found = set[Op]()
    for op in halves(block)[1]:
        if is_load(op) and op.operands[0] not in written and op.attrs["cache"] != "volatile":
            part = slice_of(block.ops, op.operands)
            if impure(part) is None and not any(map(joins, part)):
                found |= {op, *part}
    return found
