"""Roles: the one that fills a channel is done first, and each number is kept until it is asked for.

Nothing that it copies is written by the kernel, so that when it copies makes no difference. What of a slot is read
behind its release is not what was there.
"""

from __future__ import annotations

import numpy as np

from lowering.boxes import CopiedBox
from lowering.formats import Array
from lowering.ir import Op
from lowering.meaning.boxes import of_box
from lowering.meaning.run import Outside, Run, Undecided, meaning
from lowering.ops import operand
from lowering.types import SharedType

POISON = 0xA5


@meaning("roles")
def _roles(run: Run, op: Op, x: list[Array]) -> list[Array]:
    channel = op.operands[0]
    run.filled[channel] = {}
    for region in op.regions:
        run.region(region, [])
    if run.filled[channel]:
        raise Outside(op, f"number {min(run.filled[channel])} of a channel is filled, and nobody waits for it")
    return []


@meaning("fill")
def _fill(run: Run, op: Op, x: list[Array]) -> list[Array]:
    known, number = run.filled[op.operands[0]], int(x[1])
    if number in known:
        raise Outside(op, f"number {number} of a channel is filled twice")
    known[number] = []
    return []


@meaning("bulk_copy")
def _bulk_copy(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Elements outside of the tensor are zeros."""
    memory, tensor, channel = op.operands[0], operand(op, "tensor"), operand(op, "channel")
    slot = operand(op, "slot")
    assert tensor is not None and channel is not None and slot is not None and isinstance(memory.type, SharedType)
    box, data = CopiedBox.of(op), of_box(run, op, tensor)
    target, slots = run.memory(memory), memory.type.shape[0]
    if box.at + data.size > target.size // slots:
        where = f"from {box.at} on, in a slot of {target.size // slots}"
        raise Outside(op, f"a box of {data.size} elements {where}")
    first = int(run[slot]) % slots * (target.size // slots) + box.at
    places = target.places(first + np.arange(data.size))
    run.filled[channel][int(run[slot])].append((target, places, data, bool(op.attrs.get("lasting"))))
    return []


@meaning("filled")
def _filled(run: Run, op: Op, x: list[Array]) -> list[Array]:
    channel, number = op.operands[0], int(x[1])
    if number not in run.filled[channel]:
        raise Undecided(op, f"number {number} of a channel is waited for, and never filled")
    for memory, at, data, _ in run.filled[channel][number]:
        memory.write(at, data)
    return []


@meaning("release")
def _release(run: Run, op: Op, x: list[Array]) -> list[Array]:
    for memory, at, data, lasts in run.filled[op.operands[0]].pop(int(x[1])):
        if not lasts:
            memory.write(at, np.frombuffer(bytes([POISON]) * data.nbytes, data.dtype))
    return []


@meaning("turn_begin", "turn_end")
def _turn(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Who goes first makes no difference."""
    return []
