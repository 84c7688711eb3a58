"""Finds the elements of a tensor that a TMA box contains."""

from __future__ import annotations

import numpy as np

from dsl.lowering.hopper.boxes import CopiedBox
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.layouts.layout import row_major
from dsl.lowering.machine.formats import Array, stored
from dsl.lowering.meaning.run import Outside, Run


def dims_of(run: Run, tensor: Value) -> tuple[list[int], list[int]]:
    """Returns the extents and strides of a tensor, in elements."""
    p = next(each for each in run.function.params if each.value is tensor)
    extents = [d if isinstance(d, int) else run.arguments.dims[d] for d in p.dims]
    return extents, [int(run[stride]) for stride in p.strides] if p.strides else row_major(extents)


def of_box(run: Run, op: Op, tensor: Value) -> Array:
    """Returns the elements of an operation's TMA box, in the order of memory. Elements outside of the tensor are
    zeros."""
    box, (own, strides) = CopiedBox.of(op), dims_of(run, tensor)
    extents = box.joined(own)
    at, inside = np.zeros((), np.int64), np.ones((), bool)
    for axis, index in zip(box.axes, (_walked if box.walks else _sliced)(run, op, box, extents), strict=True):
        at, inside = at + index * strides[axis.axis], inside & (index >= 0) & (index < extents[axis.axis])
    source = run.memory(tensor)
    data = np.zeros(at.size, stored(tensor.dtype))
    # Only elements inside the tensor are read, because in Python an index outside raises an error or wraps around.
    on = np.broadcast_to(inside, at.shape).reshape(-1)
    data[on] = source.data[source.places(np.broadcast_to(at, inside.shape).reshape(-1)[on])]
    return data


def _sliced(run: Run, op: Op, box: CopiedBox, extents: dict[int, int]) -> list[Array]:
    """Returns the tensor indices of a TMA box, one array for each axis. The innermost axis of the box is the last axis
    of each array."""
    rank = len(box.axes)
    return [
        int(run[axis.first]) + np.arange(axis.extent).reshape((1,) * (rank - place - 1) + (-1,) + (1,) * place)
        for place, axis in enumerate(box.axes)
    ]


def _walked(run: Run, op: Op, box: CopiedBox, extents: dict[int, int]) -> list[Array]:
    """Returns the tensor indices of an im2col box, one array of [pixels, channels] for each axis. Raises Outside if the
    box does not begin at a pixel of the window."""
    pipelines, *walked, last = box.axes
    pixel, each = np.arange(walked[0].extent)[:, None], 1
    counts: list[int] = []
    for axis, walk in zip(walked, box.walks, strict=True):
        count = (extents[axis.axis] - 1 + walk.upper - walk.lower) // walk.step + 1
        place, rest = divmod(int(run[axis.first]) - walk.lower, walk.step)
        if rest or not 0 <= place < count:  # the box must begin at a base pixel: these are `step` apart
            raise Outside(op, f"a window begins at {int(run[axis.first])} of axis {axis.axis}, where it has no pixel")
        pixel, each = pixel + place * each, each * count
        counts.append(count)
    found = [int(run[pipelines.first]) + np.arange(pipelines.extent)[None, :]]
    for walk, count in zip(box.walks, counts, strict=True):
        found.append(walk.lower + pixel % count * walk.step + int(run[walk.tap]))
        pixel = pixel // count
    return [*found, int(run[last.first]) + pixel]
