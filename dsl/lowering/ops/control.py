"""Declares loops, branches, and the operations that end regions.

A value that passes through the regions of a loop or branch has several names in the IR: a result of the operation, and
an operand of the last operation of each region. In loops, it also has two other names: an operand of the loop (the
initial value), and an argument of each region.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsl.lowering.ir.function import Block, Op, Value
from dsl.lowering.ops.spec import Control, nothing, row, same_types

# The operands of `for` are start, stop, step and the carried values. The operands of `while` are the carried values.
# The regions of `while` are the condition and the body.
row(
    "for", (3, None), lambda operands, attrs: [o.type for o in operands[3:]], "unroll",
    operands="whole whole whole tile", control=Control("counts", 3),
)  # fmt: skip
row("while", (0, None), same_types, control=Control("repeats"))
row("if", 1, lambda operands, attrs: list(attrs["types"]), "types", operands="flag", control=Control("chooses", 1))
row("yield", (0, None), nothing, control=Control("ends"))
# `condition` ends the condition region of a loop. Its operands are the flag and the arguments of the body.
row("condition", (1, None), nothing, operands="flag tile", control=Control("ends", 1))
# `join_parts` behind a loop tells how parts of its results meet if `split` divides the loop. The region has the values
# of one part, and then those of a later one. `split` removes the operation.
row("join_parts", (1, None), nothing, control=Control("joins"), acts="joins")
row("assert", 1, nothing, "message line", operands="flag", acts="checks")
row("print", (0, 16), nothing, "format", acts="prints")
# At a `mark`, each warp records for the timeline that a section of the kernel begins or ends (`passes/marks.py`).
row("mark", 0, nothing, "number begins kind name line", acts="records")


def handed_on(region: Block) -> list[Value]:
    """Returns the values that the last operation of a region passes on to the next region or iteration, and to the
    results."""
    end = region.ops[-1]
    return end.operands[end.spec.control.leading :]


def names(op: Op) -> Iterator[tuple[Value, ...]]:
    """Yields all names of each value that passes through the regions of an operation."""
    if not op.spec.control.flows:
        return
    columns = [op.results, *(handed_on(region) for region in op.regions)]
    if op.spec.control.loops:
        columns.append(op.operands[op.spec.control.leading :])
        columns += (region.args[op.spec.control.counters :] for region in op.regions)
    yield from zip(*columns, strict=True)


def started(op: Op) -> Iterator[tuple[Value, Value]]:
    """Yields (initial value, argument of the body) for each loop-carried value."""
    yield from zip(op.operands[op.spec.control.leading :], op.regions[-1].args[op.spec.control.counters :], strict=True)


def parting(op: Op) -> Value | None:
    """Returns the condition of a branch or loop in which threads may diverge. This condition is a tile, and each thread
    tests its own elements. Returns None if all threads of the block follow the same path.

    The condition of a branch is computed before the branch. The condition of a loop is computed in each iteration, at
    the end of the loop's first region.
    """
    if not op.spec.control.flows or op.spec.control.counters or op.spec.control.concurrent:
        return None
    condition = op.regions[0].ops[-1].operands[0] if op.spec.control.loops else op.operands[0]
    return condition if condition.tile.shape else None
