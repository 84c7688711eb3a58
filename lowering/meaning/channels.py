"""Roles: the one that fills a channel is done first, and each number is kept until it is asked for.

Nothing that it copies is written by the kernel, so that when it copies makes no difference. What of a slot is read
behind its release is not what was there.
"""

from __future__ import annotations

import numpy as np

from lowering.formats import Array, stored
from lowering.ir import Function, Op, Value
from lowering.layout import row_major
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
    extents, strides = _dims(run, tensor)
    box: tuple[tuple[int, int], ...] = op.attrs["box"]
    rank = len(box)
    at, inside = np.zeros((), np.int64), np.ones((), bool)
    for place, (axis, extent) in enumerate(box):
        first = operand(op, f"corner{place}")
        assert first is not None
        index = int(run[first]) + np.arange(extent).reshape((1,) * (rank - place - 1) + (-1,) + (1,) * place)
        at, inside = at + index * strides[axis], inside & (index >= 0) & (index < extents[axis])
    source = run.memory(tensor)
    data = np.zeros(at.size, stored(tensor.dtype))
    on = np.broadcast_to(inside, at.shape).reshape(-1)
    data[on] = source.data[source.places(np.broadcast_to(at, inside.shape).reshape(-1)[on])]
    target, slots = run.memory(memory), memory.type.shape[0]
    if op.attrs["at"] + data.size > target.size // slots:
        where = f"from {op.attrs['at']} on, in a slot of {target.size // slots}"
        raise Outside(op, f"a box of {data.size} elements {where}")
    first = int(run[slot]) % slots * (target.size // slots) + op.attrs["at"]
    places = target.places(first + np.arange(data.size))
    run.filled[channel][int(run[slot])].append((target, places, data))
    return []


def _dims(run: Run, tensor: Value) -> tuple[list[int], list[int]]:
    """Extents and strides of a tensor, in elements."""
    function: Function = run.function
    p = next(each for each in function.params if each.value is tensor)
    extents = [d if isinstance(d, int) else int(run[function.dims[d]]) for d in p.dims]
    return extents, [int(run[stride]) for stride in p.strides] if p.strides else row_major(extents)


@meaning("filled")
def _filled(run: Run, op: Op, x: list[Array]) -> list[Array]:
    channel, number = op.operands[0], int(x[1])
    if number not in run.filled[channel]:
        raise Undecided(op, f"number {number} of a channel is waited for, and never filled")
    for memory, at, data in run.filled[channel][number]:
        memory.write(at, data)
    return []


@meaning("release")
def _release(run: Run, op: Op, x: list[Array]) -> list[Array]:
    for memory, at, data in run.filled[op.operands[0]].pop(int(x[1])):
        memory.write(at, np.frombuffer(bytes([POISON]) * data.nbytes, data.dtype))
    return []
