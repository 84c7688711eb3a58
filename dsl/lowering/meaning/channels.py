"""Roles: the one that fills a channel is done first, and each number is kept until it is asked for.

Nothing that it copies is written by the kernel, so that when it copies makes no difference. What of a slot is read
behind its release is not what was there.
"""

from __future__ import annotations

import numpy as np

from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import SharedType
from dsl.lowering.machine.formats import Array
from dsl.lowering.meaning.boxes import of_box
from dsl.lowering.meaning.run import Filled, Outside, Run, Undecided, meaning
from dsl.lowering.ops import operand
from dsl.lowering.ops.channels import base_of

POISON = 0xA5


@meaning("roles")
def _roles(run: Run, op: Op, x: list[Array]) -> list[Array]:
    for region in op.regions:
        run.region(region, [])
    for known in run.filled.values():
        if known:
            raise Outside(op, f"number {min(known)} of a channel is filled, and nobody waits for it")
    run.filled.clear()
    return []


def _known(run: Run, op: Op, channel: Value) -> Filled:
    """What is filled of the channel whose barriers stand there in a tile, by its numbers."""
    return run.filled.setdefault((channel, base_of(op)), {})


@meaning("fill")
def _fill(run: Run, op: Op, x: list[Array]) -> list[Array]:
    known, number = _known(run, op, op.operands[0]), int(x[1])
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
    _known(run, op, channel)[int(run[slot])].append((target, places, data, bool(op.attrs.get("lasting"))))
    return []


@meaning("filled")
def _filled(run: Run, op: Op, x: list[Array]) -> list[Array]:
    known, number = _known(run, op, op.operands[0]), int(x[1])
    if number not in known:
        raise Undecided(op, f"number {number} of a channel is waited for, and never filled")
    for memory, at, data, _ in known[number]:
        memory.write(at, data)
    return []


@meaning("release")
def _release(run: Run, op: Op, x: list[Array]) -> list[Array]:
    for memory, at, data, lasts in _known(run, op, op.operands[0]).pop(int(x[1])):
        if not lasts:
            memory.write(at, np.frombuffer(bytes([POISON]) * data.nbytes, data.dtype))
    return []


@meaning("turn_begin", "turn_end")
def _turn(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Who goes first makes no difference."""
    return []
