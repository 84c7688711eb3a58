"""`cluster 2` with TMA copies: a box that several blocks of a cluster need is copied once, by multicast.

    producer_acquire n                   producer_acquire n
    tma_copy a[i, p]            →        tma_copy a[i, p]
    tma_copy b[p, j]                     tma_copy b[p, j], for 2 blocks
    …                                    …
    consumer_release n                   consumer_release n, of 2 blocks

The blocks of a cluster compute neighbouring tiles along the grid's first axis, or along the first two (`grid.py`).
Neighbours along an axis need the same box if the box's position does not depend on that axis. If n blocks need a box,
each of them copies one n-th of its rows to the shared memory of all n. So all blocks of a cluster must execute the same
iterations. A stage is free when the warps of all blocks of the cluster have read it.
"""

from __future__ import annotations

from math import prod

from dsl.lowering.directives.slices import inside
from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.ir.function import Block, Function, Value, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ops import operand
from dsl.lowering.ops.control import names

ARCH = "sm_90a"
"""The target that multicast copies require. For sm_90, ptxas 13.0 advises against these copies."""
WAYS = {"halves": True, "none": False}


def multicast(function: Function, target: Target, fetch: Block) -> int:
    """Turns a TMA copy in the producer's code `fetch` into a multicast copy if several blocks of a cluster need the
    same box. Returns the number of blocks of the cluster, or 1 if no copy is multicast. Raises TileError `schedule` if
    the blocks may execute different iterations."""
    ranks = {op.attrs["axis"]: op for op in walk(fetch) if op.spec.elements.of_grid == "rank"}
    own, is_shared = {axis: _of_rank(fetch, axis) for axis in ranks}, False
    for op in [op for op in walk(fetch) if ranks and op.spec.access.at_pipeline == "fill" and "box" in op.attrs]:
        tensor, box = operand(op, "tensor"), CopiedBox.of(op)
        assert tensor is not None
        corner = {v for v in box.operands.values() if v is not None}
        alike = [rank for axis, rank in ranks.items() if not own[axis] & corner]
        blocks = prod(rank.attrs["blocks"] for rank in alike)
        wrong = ""
        if target.arch != ARCH:
            wrong = f"{target.arch} has no multicast copies: {ARCH} has"
        elif not alike:
            wrong = "each block has another box"
        elif box.shared(blocks) is None:  # a swizzle repeats after 8 rows, so a part has whole groups of 8
            wrong = f"its rows are no {blocks} equal parts of whole groups of 8"
        ways, rule = ({"none": False}, "none") if wrong else (WAYS, "halves")
        why = wrong or f"the same box for {blocks} blocks"
        taken = function.choices.choose("multicast", tensor.name or "", ways, rule, loc=op.loc, because=why)
        if taken:
            op.attrs |= {"blocks": blocks, "apart": min(rank.attrs["apart"] for rank in alike)}
            is_shared = True
    if not is_shared:
        return 1
    _check_iterations(function, fetch, set().union(*own.values()))
    return prod(rank.attrs["blocks"] for rank in ranks.values())


def _check_iterations(function: Function, fetch: Block, own: set[Value]) -> None:
    """Raises TileError `schedule` if two blocks of a cluster may execute different iterations of a loop with copies.
    `own` contains the values that differ between blocks."""
    # A block with more iterations would wait for parts that the other blocks never copy.
    for op in walk(fetch):
        differs = op.spec.control.flows and own.intersection(op.operands[: op.spec.control.leading])
        if differs and any(each.spec.access.at_pipeline == "fill" for each in inside(op)):
            message = "blocks of a cluster copy for each other, and have different iterations of a loop"
            hint = "cluster 1, or bounds that do not depend on block(0)"
            raise TileError("schedule", function.lines.get(("cluster", "cluster")) or op.loc, message, hint)


def _of_rank(block: Block, axis: int) -> set[Value]:
    """Returns the values that depend on the rank of a block in its cluster along `axis`. If only the end of a loop
    depends on the rank, the values in the loop do not."""
    found: set[Value] = set()
    count = -1
    while count < len(found):  # until nothing is added: loops carry dependence backwards
        count = len(found)
        for op in walk(block):
            ends = [v for region in op.regions for v in region.ops[-1].operands[: region.ops[-1].spec.control.leading]]
            leading = op.operands[: op.spec.control.leading] if op.spec.control.flows else op.operands
            of_grid, along = op.spec.elements.of_grid, op.attrs.get("axis")
            # All blocks of a cluster are neighbours along x, so their block numbers along other axes are equal.
            tells = (of_grid == "rank" and along == axis) or (of_grid == "block" and along == 0)
            if tells or found.intersection([*leading, *ends]):
                found.update(op.results)
            if found.intersection([*(leading[::2] if op.spec.control.counters else leading), *ends]):
                found.update(arg for region in op.regions for arg in region.args)
            for column in names(op):
                if found.intersection(column):
                    found.update(column)
    return found
