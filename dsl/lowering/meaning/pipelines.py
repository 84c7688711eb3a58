"""Reference semantics of warp roles. The producer runs first. The data of each iteration is kept until the consumer
waits for this iteration.

No part of the kernel writes the memory that the producer copies, so the time of a copy makes no difference. A released
stage is overwritten with POISON, so later reads of it get wrong values.
"""

from __future__ import annotations

import numpy as np

from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import SharedType
from dsl.lowering.machine.formats import Array
from dsl.lowering.meaning.boxes import of_box
from dsl.lowering.meaning.run import Filled, Outside, Run, Undecided, meaning
from dsl.lowering.ops import required
from dsl.lowering.ops.pipelines import base_of

POISON = 0xA5  # the byte that fills released stages and unwritten memory


@meaning("warp_specialize")
def _warp_specialize(run: Run, op: Op, x: list[Array]) -> list[Array]:
    for region in op.regions:
        run.region(region, [])
    for known in run.filled.values():
        if known:
            raise Outside(op, f"number {min(known)} of a pipeline is filled, and nobody waits for it")
    run.filled.clear()
    return []


def _known(run: Run, op: Op, pipeline: Value) -> Filled:
    """Returns the filled iterations of an operation's pipeline, each with the data of its copies."""
    return run.filled.setdefault((pipeline, base_of(op)), {})


@meaning("producer_acquire")
def _fill(run: Run, op: Op, x: list[Array]) -> list[Array]:
    known, number = _known(run, op, op.operands[0]), int(x[1])
    if number in known:
        raise Outside(op, f"number {number} of a pipeline is filled twice")
    known[number] = []
    return []


@meaning("tma_copy")
def _tma_copy(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Queues a TMA copy to a stage of the pipeline. Elements outside of the tensor are zeros."""
    memory = op.operands[0]
    tensor, pipeline, stage = (required(op, name) for name in ("tensor", "pipeline", "stage"))
    assert isinstance(memory.type, SharedType)
    box, data = CopiedBox.of(op), of_box(run, op, tensor)
    target, stages = run.memory(memory), memory.type.shape[0]
    if box.at + data.size > target.size // stages:
        where = f"from {box.at} on, in a stage of {target.size // stages}"
        raise Outside(op, f"a box of {data.size} elements {where}")
    first = int(run[stage]) % stages * (target.size // stages) + box.at
    places = target.places(first + np.arange(data.size))
    _known(run, op, pipeline)[int(run[stage])].append((target, places, data, bool(op.attrs.get("resident"))))
    return []


@meaning("consumer_wait")
def _filled(run: Run, op: Op, x: list[Array]) -> list[Array]:
    known, number = _known(run, op, op.operands[0]), int(x[1])
    if number not in known:
        raise Undecided(op, f"number {number} of a pipeline is waited for, and never filled")
    for memory, at, data, _ in known[number]:
        memory.write(at, data)
    return []


@meaning("consumer_release")
def _consumer_release(run: Run, op: Op, x: list[Array]) -> list[Array]:
    if len(x) == 3 and x[1] < x[2]:
        return []
    for memory, at, data, lasts in _known(run, op, op.operands[0]).pop(int(x[1])):
        if not lasts:
            memory.write(at, np.frombuffer(bytes([POISON]) * data.nbytes, data.dtype))
    return []


@meaning("pingpong_begin", "pingpong_end", "producer_tail")
def _order(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Does nothing: the order of warp groups, and the time when a block ends, make no difference."""
    return []
