"""`cluster 2`, of a kernel whose copies are by TMA: a box that all blocks of a cluster need is copied once.

    fill n                               fill n
    tma_copy a[i, p]            →       tma_copy a[i, p]
    tma_copy b[p, j]                    tma_copy b[p, j], for 2 blocks
    …                                    …
    release n                            release n, of 2 blocks

The blocks of a cluster take neighbouring tiles along the grid's first axis (`grid.py`). A box whose place does not hang
on which of them a block is, is the same for all. Each copies a part of it, of the rows that lie farthest apart, to the
same place of all of them. So all have to come to the same numbers of the pipeline, and a stage is free when the warps
of all of them have read it.
"""

from __future__ import annotations

from dsl.lowering.directives.joins import inside
from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.ir.function import Block, Function, Value, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ops import operand
from dsl.lowering.ops.control import names

ARCH = "sm_90a"
"""The target with such copies; for sm_90 ptxas 13.0 advises against them."""
WAYS = {"halves": True, "none": False}


def multicast(function: Function, target: Target, fetch: Block) -> int:
    """Lets copies of a role be for all blocks of a cluster; how many these are, 1 where no copy is. TileError
    `schedule` where these blocks have different iterations."""
    cluster = max((op.attrs["blocks"] for op in walk(fetch) if op.spec.elements.of_grid == "rank"), default=1)
    own, blocks = _of_rank(fetch), 1
    for op in [op for op in walk(fetch) if cluster > 1 and op.spec.access.at_pipeline == "fill" and "box" in op.attrs]:
        tensor, box = operand(op, "tensor"), CopiedBox.of(op)
        assert tensor is not None
        wrong = ""
        if target.arch != ARCH:
            wrong = f"{target.arch} has no such copies: {ARCH} has"
        elif own.intersection(v for v in box.operands.values() if v is not None):
            wrong = "each block has another box"
        elif box.shared(cluster) is None:
            wrong = f"its rows are no {cluster} parts of whole eights"
        taken = function.choices.choose(
            "multicast",
            tensor.name or "",
            {"none": False} if wrong else WAYS,
            "none" if wrong else "halves",
            loc=op.loc,
            because=wrong or f"the same box for {cluster} blocks",
        )
        if taken:
            op.attrs["blocks"] = blocks = cluster
    if blocks > 1:
        _check_iterations(function, fetch, own)
    return blocks


def _check_iterations(function: Function, fetch: Block, own: set[Value]) -> None:
    """Blocks that copy for each other have the same numbers."""
    for op in walk(fetch):
        differs = op.spec.control.flows and own.intersection(op.operands[: op.spec.control.leading])
        if differs and any(each.spec.access.at_pipeline == "fill" for each in inside(op)):
            message = "blocks of a cluster copy for each other, and have different iterations of a loop"
            hint = "cluster 1, or bounds that do not hang on block(0)"
            raise TileError("schedule", function.lines.get(("cluster", "cluster")) or op.loc, message, hint)


def _of_rank(block: Block) -> set[Value]:
    """What hangs on which block of its cluster a block is. Not what an iteration of a loop has whose end alone does."""
    found: set[Value] = set()
    count = -1
    while count < len(found):
        count = len(found)
        for op in walk(block):
            ends = [v for region in op.regions for v in region.ops[-1].operands[: region.ops[-1].spec.control.leading]]
            leading = op.operands[: op.spec.control.leading] if op.spec.control.flows else op.operands
            tells = op.spec.elements.of_grid in ("rank", "block") and op.attrs["axis"] == 0
            if tells or found.intersection([*leading, *ends]):
                found.update(op.results)
            if found.intersection([*(leading[::2] if op.spec.control.counters else leading), *ends]):
                found.update(arg for region in op.regions for arg in region.args)
            for column in names(op):
                if found.intersection(column):
                    found.update(column)
    return found
