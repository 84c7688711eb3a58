"""Warps with roles of their own, and the pipelines between them.

A pipeline is a ring that one role fills, and another one reads. What goes through it has numbers, from 0 on; number e
lies in stage e mod stages. Each stage has two barriers in shared memory: `full`, which the bytes of copies complete,
and `free`, at which each warp arrives that has read a number. The value of a pipeline is the tile that these lie in.
Where groups of warps take turns at a part of each number's iteration, `pingpong` barriers more tell them when.

Loops around that one may have pipelines, too, whose barriers are in the same tile, so many (`base`) behind its start;
`outer` are their stages.

Where the attribute `blocks` stands, so many blocks of a cluster copy for each other: each its part of a box to the same
place of all of them; `full` waits for the bytes of all parts, `free` for the warps of all blocks.
"""

from __future__ import annotations

from dsl.lowering.ir.function import Block, Op, Value, walk
from dsl.lowering.ops.memory import BOX, operand
from dsl.lowering.ops.spec import AccessEffect, Control, MemoryAccess, nothing, row
from dsl.ptx_templates import instruction


def rings_of(roles: Op) -> tuple[int, ...]:
    """The stages of each pipeline, the innermost loop's first."""
    return (roles.attrs["stages"], *roles.attrs.get("outer", ()))


def base_of(op: Op) -> int:
    """How many barriers stand ahead of those of an operation's pipeline."""
    base: int = op.attrs.get("base", 0)
    return base


def is_read_by_threads(release: Op, body: Block) -> bool:
    """Whether threads read what this pipeline brings, and not products of warp groups alone, where it lies."""
    ops = walk(body)
    boxes = [
        op
        for op in ops
        if op.spec.access.at_pipeline == "fill" and "box" in op.attrs and base_of(op) == base_of(release)
    ]
    tiles = {op.operands[0] for op in boxes if operand(op, "pipeline") is release.operands[0]}
    users = [
        op
        for op in ops
        if not tiles.isdisjoint(op.operands) and op.spec.access.touches and not op.attrs.get("in_place")
    ]
    return any(each.kind == "read" and each.memory in tiles for op in users for each in op.spec.access.effects(op))


def copy_of(op: Op) -> str:
    """The instruction that copies a box of so many axes."""
    mode = "im2col" if "walks" in op.attrs else "tile"
    name = f"cp.async.bulk.tensor.{len(op.attrs['box'])}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes"
    return f"{name}.multicast::cluster" if "blocks" in op.attrs else name


def _effects(op: Op) -> list[AccessEffect]:
    """Of the box in the tensor and in the tile."""
    tensor = operand(op, "tensor")
    assert tensor is not None
    of: dict[str | None, Value] = {"global": tensor, "shared": op.operands[0]}
    kinds = {"reads": "read", "writes": "write"}
    return [AccessEffect(kinds[by.action], of[by.space], by.space or "", by) for by in instruction(copy_of(op)).effects]


# The regions are done at the same time: the first by one thread of `producers` warps behind the others, the second by
# the warps of the kernel. Operand: the pipeline between them.
row(
    "warp_specialize", 1, nothing, "stages producers registers pingpong", operands="shared",
    control=Control("parallel", 1),
)  # fmt: skip
# A box of a tensor to the stage of a number, `at` elements behind its start; one index an axis for its first element.
row(
    "tma_copy", (4, 12), nothing, "has box at", access=MemoryAccess(_effects, at_pipeline="fill"),
    named={"memory": "shared", "stage": "index", "tensor": "tensor", "pipeline": "shared", **BOX},
    needs=("memory", "stage", "tensor", "pipeline"),
)  # fmt: skip
# pipeline, number: the stage is free, and is full again when so many bytes have come.
row(
    "producer_acquire", 2, nothing, "bytes stages", operands="shared index", acts="synchronizes",
    access=MemoryAccess(waits="wait for a free stage", at_pipeline="fill"),
)  # fmt: skip
# pipeline, number: it is there.
row(
    "consumer_wait", 2, nothing, "stages", operands="shared index", acts="synchronizes",
    access=MemoryAccess(waits="wait for a full stage", at_pipeline="wait"),
)  # fmt: skip
# pipeline, number: this warp has read it.
row("consumer_release", 2, nothing, "stages", operands="shared index", acts="synchronizes")
# pipeline, number: one group of warps after the other does what stands between. Of so many groups, each has a barrier
# behind those of the stages.
row(
    "pingpong_begin", 2, nothing, "stages groups", operands="shared index", acts="synchronizes",
    access=MemoryAccess(waits="wait for the turn", at_pipeline="begin"),
)  # fmt: skip
row(
    "pingpong_end", 2, nothing, "stages groups", operands="shared index", acts="synchronizes",
    access=MemoryAccess(at_pipeline="end"),
)  # fmt: skip
