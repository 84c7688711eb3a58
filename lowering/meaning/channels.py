"""Roles: the one that fills a channel is done first, and each number is kept until it is asked for.

Nothing that it copies is written by the kernel, so that when it copies makes no difference. What of a slot is read
behind its release is not what was there.
"""

from __future__ import annotations

import numpy as np

from lowering.boxes import CopiedBox
from lowering.formats import Array, stored
from lowering.ir import Op
from lowering.meaning.memory import dims_of
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
    box, (own, strides) = CopiedBox.of(op), dims_of(run, tensor)
    extents = box.joined(own)
    at, inside = np.zeros((), np.int64), np.ones((), bool)
    for axis, index in zip(box.axes, (_walked if box.walks else _sliced)(run, op, box, extents), strict=True):
        at, inside = at + index * strides[axis.axis], inside & (index >= 0) & (index < extents[axis.axis])
    source = run.memory(tensor)
    data = np.zeros(at.size, stored(tensor.dtype))
    on = np.broadcast_to(inside, at.shape).reshape(-1)
    data[on] = source.data[source.places(np.broadcast_to(at, inside.shape).reshape(-1)[on])]
    target, slots = run.memory(memory), memory.type.shape[0]
    if box.at + data.size > target.size // slots:
        where = f"from {box.at} on, in a slot of {target.size // slots}"
        raise Outside(op, f"a box of {data.size} elements {where}")
    first = int(run[slot]) % slots * (target.size // slots) + box.at
    places = target.places(first + np.arange(data.size))
    run.filled[channel][int(run[slot])].append((target, places, data))
    return []


def _sliced(run: Run, op: Op, box: CopiedBox, extents: dict[int, int]) -> list[Array]:
    """The indices of a box along each axis, the innermost of which is the last of each array."""
    rank = len(box.axes)
    return [
        int(run[axis.first]) + np.arange(axis.extent).reshape((1,) * (rank - place - 1) + (-1,) + (1,) * place)
        for place, axis in enumerate(box.axes)
    ]


def _walked(run: Run, op: Op, box: CopiedBox, extents: dict[int, int]) -> list[Array]:
    """The indices of a window along each axis: [pixels, channels]."""
    channels, *walked, last = box.axes
    pixel, each = np.arange(walked[0].extent)[:, None], 1
    counts: list[int] = []
    for axis, walk in zip(walked, box.walks, strict=True):
        count = (extents[axis.axis] - 1 + walk.upper - walk.lower) // walk.step + 1
        place, rest = divmod(int(run[axis.first]) - walk.lower, walk.step)
        if rest or not 0 <= place < count:
            raise Outside(op, f"a window begins at {int(run[axis.first])} of axis {axis.axis}, where it has no pixel")
        pixel, each = pixel + place * each, each * count
        counts.append(count)
    found = [int(run[channels.first]) + np.arange(channels.extent)[None, :]]
    for walk, count in zip(box.walks, counts, strict=True):
        found.append(walk.lower + pixel % count * walk.step + int(run[walk.tap]))
        pixel = pixel // count
    return [*found, int(run[last.first]) + pixel]


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


@meaning("turn_begin", "turn_end")
def _turn(run: Run, op: Op, x: list[Array]) -> list[Array]:
    """Who goes first makes no difference."""
    return []
