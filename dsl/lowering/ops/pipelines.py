"""Declares warp roles, and the pipelines between them.

A pipeline is a ring of stages that producer warps fill and consumer warps read. Iterations are numbered from 0.
Iteration e uses stage e mod `stages`. Each stage has two mbarriers in shared memory, `full` and `free`. `full`
completes when all bytes of the stage's copies have arrived. Each warp arrives at `free` when it has read an iteration.
In the IR, the value of a pipeline is the shared tile that contains these mbarriers. With ping-pong, this tile has
`pingpong` more mbarriers, with which warp groups take turns in each iteration.

Loops around the pipeline's loop may have pipelines, too. The mbarriers of these outer pipelines are in the same tile,
from index `base` on. `outer` lists how many stages each outer pipeline has.

If the attribute `blocks` is set, `blocks` blocks of a cluster copy for each other. Each block copies its part of a TMA
box to the same place in all of these blocks. `full` then waits for the bytes of all parts, and `free` waits for the
warps of all blocks.
"""

from __future__ import annotations

from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ops.memory import BOX, operand, required
from dsl.lowering.ops.spec import AccessEffect, Control, MemoryAccess, nothing, row
from dsl.ptx_templates import instruction


def roles_of(function: Function) -> Op | None:
    """Returns the operation that divides a kernel's warps into roles, or None if all warps do the same work. A kernel
    has at most one such operation."""
    return next((op for op in function.body.ops if op.spec.control.concurrent), None)


def rings_of(roles: Op) -> tuple[int, ...]:
    """Returns the number of stages of each pipeline, innermost loop first."""
    return (roles.attrs["stages"], *roles.attrs.get("outer", ()))


def base_of(op: Op) -> int:
    """Returns the index of the first mbarrier of an operation's pipeline."""
    base: int = op.attrs.get("base", 0)
    return base


def is_read_by_threads(release: Op, body: Block) -> bool:
    """Returns whether threads read the data of this pipeline. If not, only wgmma reads the data, through the
    asynchronous proxy, and no fence is needed."""
    ops = walk(body)
    boxes = [
        op
        for op in ops
        if op.spec.access.at_pipeline == "fill" and "box" in op.attrs and base_of(op) == base_of(release)
    ]
    tiles = {op.operands[0] for op in boxes if operand(op, "pipeline") is release.operands[0]}
    users = [op for op in ops if not tiles.isdisjoint(op.operands) and op.spec.access.touches]
    return any(each.kind == "read" and each.memory in tiles for op in users for each in op.spec.access.effects(op))


def copy_of(op: Op) -> str:
    """Returns the name of the PTX instruction that executes a TMA copy."""
    mode = "im2col" if "walks" in op.attrs else "tile"
    name = f"cp.async.bulk.tensor.{len(op.attrs['box'])}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes"
    return f"{name}.multicast::cluster" if "blocks" in op.attrs else name


def _effects(op: Op) -> list[AccessEffect]:
    """Returns the effects of a TMA copy: it reads the box in the tensor, and writes the shared tile."""
    of: dict[str | None, Value] = {"global": required(op, "tensor"), "shared": op.operands[0]}
    kinds = {"reads": "read", "writes": "write"}
    return [AccessEffect(kinds[by.action], of[by.space], by.space or "", by) for by in instruction(copy_of(op)).effects]


# `warp_specialize` has two regions, which run at the same time. The last `producers` warps of the block are the
# producers, and one of their threads runs the first region. The consumer warps run the second region. The operand is
# the pipeline between producers and consumers.
row(
    "warp_specialize", 1, nothing, "stages producers registers pingpong", operands="shared",
    control=Control("parallel", 1),
)  # fmt: skip
# Copies a TMA box of a tensor into the stage of an iteration. `at` is the offset of the box from the start of the
# stage, in elements. `corner` is the index of the box's first element along each axis.
row(
    "tma_copy", (4, 12), nothing, "has box at", access=MemoryAccess(_effects, at_pipeline="fill"),
    named={"memory": "shared", "stage": "index", "tensor": "tensor", "pipeline": "shared", **BOX},
    needs=("memory", "stage", "tensor", "pipeline"),
)  # fmt: skip
# This operation and the following operations have two operands: a pipeline and an iteration. `producer_acquire` waits
# until the stage of the iteration is free. The stage is full again when `bytes` have arrived.
row(
    "producer_acquire", 2, nothing, "bytes stages", operands="shared index", acts="synchronizes",
    access=MemoryAccess(waits="wait for a free stage", at_pipeline="fill"),
)  # fmt: skip
# Waits until all blocks have released the stages of all iterations before this one. Only then may the block end, if
# other blocks of its cluster arrive at its mbarriers.
row(
    "producer_tail", 2, nothing, "stages", operands="shared index", acts="synchronizes",
    access=MemoryAccess(waits="wait for all stages to be free"),
)  # fmt: skip
# Waits until the stage of the iteration is full.
row(
    "consumer_wait", 2, nothing, "stages", operands="shared index", acts="synchronizes",
    access=MemoryAccess(waits="wait for a full stage", at_pipeline="wait"),
)  # fmt: skip
# Signals that this warp has read the stage of the iteration. With a third operand, the number of another iteration, it
# signals nothing for earlier iterations.
row(
    "consumer_release", (2, 3), nothing, "stages", operands="shared index", acts="synchronizes",
    access=MemoryAccess(at_pipeline="free"),
)  # fmt: skip
# The warp groups take turns: one after another, they run the operations between `pingpong_begin` and `pingpong_end`.
# Each of the `groups` warp groups has an mbarrier. These mbarriers follow those of the stages.
row(
    "pingpong_begin", 2, nothing, "stages groups", operands="shared index", acts="synchronizes",
    access=MemoryAccess(waits="wait for the turn", at_pipeline="begin"),
)  # fmt: skip
row(
    "pingpong_end", 2, nothing, "stages groups", operands="shared index", acts="synchronizes",
    access=MemoryAccess(at_pipeline="end"),
)  # fmt: skip
