"""Removes operations that are unused or masked off, and merges equal operations."""

from __future__ import annotations

from collections.abc import Collection

from dsl.lowering.building.builder import attribute_key
from dsl.lowering.building.unused import remove_unused
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, replace_uses
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import leave_out


def _key(op: Op, apart: Collection[str]) -> tuple:
    layouts = tuple([r.tile.layout for r in op.results])
    names = tuple([r.name for r in op.results if r.name in apart])
    return (op.name, tuple(op.operands), attribute_key(op.attrs), layouts, names)


def share_equal(function: Function) -> None:
    """Merges a pure operation with an equal earlier operation in the same block or in an enclosing block. Values for
    which the schedule contains a line are not merged, because the line applies to one name, and merged values would
    share a layout."""
    mapping: dict[Value, Value] = {}
    apart = function.laid_out

    def visit(block: Block, known: dict[tuple, Op]) -> None:
        known = dict(known)  # a copy, because values of a region must not be used behind the region
        kept = []
        for op in block.ops:
            if mapping:
                op.operands = [mapping.get(o, o) for o in op.operands]
            if op.spec.pure:
                key = _key(op, apart)
                first = known.get(key)
                if first is not None:
                    mapping.update(zip(op.results, first.results, strict=True))
                    continue
                known[key] = op
            for region in op.regions:
                visit(region, known)
            kept.append(op)
        block.ops = kept

    visit(function.body, {})


def drop_what_is_off(function: Function) -> None:
    """Removes accesses whose mask is off for all elements, such as `s[2, …]` of a tile with two rows. Such a load is
    replaced with its operand `other`. Also drops masks that are on for all elements."""
    mapping: dict[Value, Value] = {}

    def visit(block: Block) -> None:
        kept = []
        for op in block.ops:
            for region in op.regions:
                visit(region)
            if (
                op.spec.access.kind in ("read", "write")
                and (mask := operand(op, "mask"))
                and constant_of(mask) is False
            ):
                if op.spec.access.kind == "write":
                    continue
                if (other := operand(op, "other")) is not None:
                    mapping[op.result] = other
                    continue
            if "has" in op.spec.attrs and (mask := operand(op, "mask")) and constant_of(mask) is True:
                leave_out(op, "mask", "other")
            kept.append(op)
        block.ops = kept

    visit(function.body)
    if mapping:
        replace_uses(function.body, mapping)


def simplify(function: Function) -> None:
    """Removes masked-off accesses, then merges common subexpressions, then removes dead code."""
    drop_what_is_off(function)
    share_equal(function)
    remove_unused(function)
