"""Removes operations whose results are unused."""

from __future__ import annotations

from collections.abc import Collection

from dsl.lowering.ir.function import Block, Function, Value, replace_uses
from dsl.lowering.ops.memory import writes


def remove_unused(function: Function, kept: Collection[str] = ()) -> None:
    """Removes operations that have no effects and whose results are unused, except those of a value in `kept`. Also
    removes loop-carried values that never change."""
    # repeated, because dropping one carried value can show that another never changes
    while _drop_carried(function.body):
        pass
    live: set[Value] = set()

    def visit(block: Block) -> None:
        needed_ops = []
        for op in reversed(block.ops):  # in reverse, so uses are visited before definitions
            needed = op.spec.keep
            if not needed:
                for result in op.results:  # no generator: half of the operations of a kernel come here, several times
                    if result in live or result.name in kept:
                        needed = True
                        break
                else:
                    needed = bool(op.spec.access.touches) and writes(op)
            if not needed:
                continue
            live.update(op.operands)
            for region in op.regions:
                visit(region)
            needed_ops.append(op)
        block.ops = needed_ops[::-1]

    visit(function.body)


def _drop_carried(block: Block) -> bool:
    """If a loop-carried value never changes, replaces it with its start value. Returns whether any value was
    replaced."""
    changed = False
    mapping: dict[Value, Value] = {}
    for op in block.ops:
        for region in op.regions:
            changed |= _drop_carried(region)
        if not op.spec.control.counters:
            continue
        body = op.regions[0]
        end = body.ops[-1]
        for i in reversed(range(len(op.results))):  # from the end, because entries are deleted
            arg, start, result = body.args[i + 1], op.operands[i + 3], op.results[i]
            if end.operands[i] is arg or end.operands[i] is start:
                mapping[arg] = mapping[result] = start
                del body.args[i + 1], op.operands[i + 3], op.results[i], end.operands[i]
                changed = True
    if mapping:
        replace_uses(block, mapping)
    return changed
