"""Loops, branches, and what ends a region.

A value that goes through the regions of an operation has several names: what it starts as (an operand, of loops), an
argument of each region (of loops), what the end of each region hands on, and a result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dsl.lowering.ir.function import Block, Op, Value
from dsl.lowering.ir.types import Type
from dsl.lowering.ops.spec import nothing, row


def _infer_for(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [o.type for o in operands[3:]]


def _infer_carried(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return [o.type for o in operands]


def _infer_if(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    return list(attrs["types"])


# A loop: start, stop, step, carried …; carried … with a region for the condition and one for the body.
row(
    "for",
    (3, None),
    _infer_for,
    "unroll",
    regions=1,
    keep=True,
    flows=True,
    loops=True,
    leading=3,
    counters=1,
    operands="whole whole whole tile",
)
row("while", (0, None), _infer_carried, regions=2, keep=True, flows=True, loops=True)
row("if", 1, _infer_if, "types", regions=2, keep=True, flows=True, leading=1, operands="flag")
row("yield", (0, None), nothing, keep=True, ends=True)
# Ends a condition region: the flag, then what the body gets.
row("condition", (1, None), nothing, keep=True, ends=True, leading=1, operands="flag tile")
row("assert", 1, nothing, "message line", keep=True, checks=True, operands="flag")
row("print", (0, 16), nothing, "format", keep=True)
# Each warp records here that something begins, or that it ends: a line of the table of marks (`passes/marks.py`).
row("mark", 0, nothing, "number begins kind name line", keep=True, records=True)


def handed_on(region: Block) -> list[Value]:
    """What the end of a region hands on: to the next region or round, and to what is behind."""
    end = region.ops[-1]
    return end.operands[end.spec.leading :]


def names(op: Op) -> Iterator[tuple[Value, ...]]:
    """All names of each value that goes through the regions of an operation."""
    if not op.spec.flows:
        return
    columns = [op.results, *(handed_on(region) for region in op.regions)]
    if op.spec.loops:
        columns += [op.operands[op.spec.leading :], *(region.args[op.spec.counters :] for region in op.regions)]
    yield from zip(*columns, strict=True)


def started(op: Op) -> Iterator[tuple[Value, Value]]:
    """Of a loop, what each value that it carries starts as, and that value as the body has it."""
    yield from zip(op.operands[op.spec.leading :], op.regions[-1].args[op.spec.counters :], strict=True)


def parting(op: Op) -> Value | None:
    """The tile by which threads part at an operation, each for its own elements; None where all stay together.

    It is known before a branch, and behind the first region of a loop in each round.
    """
    if not op.spec.flows or op.spec.counters or op.spec.concurrent:
        return None
    condition = op.regions[0].ops[-1].operands[0] if op.spec.loops else op.operands[0]
    return condition if condition.tile.shape else None
