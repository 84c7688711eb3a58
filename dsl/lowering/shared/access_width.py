"""Computes the number of elements that one memory instruction moves. Layout, address, mask and alignment limit this
number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Function, FunctionWorkspace, Op, Parameter, Value
from dsl.lowering.ir.types import SharedType
from dsl.lowering.known.facts import Analysis
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops import operand, space_of

MAX_BYTES = 16
ASYNC_BYTES = (4, 8, 16)  # sizes that cp.async copies (PTX ISA, cp.async)


def offset_of(op: Op) -> Value:
    """Returns the offsets of the elements that an access reads or writes. For an asynchronous copy, these are the
    offsets in shared memory."""
    offset = operand(op, "offset")
    assert offset is not None
    return offset


def pointer_align(function: Function, memory: Value) -> int:
    """Returns the known alignment of the first element of `memory`, in bytes."""
    if isinstance(memory.type, SharedType):
        return MAX_BYTES  # `place_shared` puts tiles at multiples of 16 bytes or more
    given: list[Parameter | FunctionWorkspace] = [*function.params, *function.workspaces]
    for each in given:
        if each.value is memory:
            return each.align
    return memory.dtype.bytes


def stage_bytes(type: SharedType) -> int:
    """Returns the number of bytes of one stage of a tile. The tile's first axis counts stages."""
    return type.bytes // type.shape[0]


def masked_groups(analysis: Analysis, op: Op, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns, for each axis, how many contiguous elements the mask of a memory operation permits in one access."""
    mask = operand(op, "mask")
    return shape if mask is None else getattr(analysis.of(mask), op.spec.access.under_mask)


def vector_width(analysis: Analysis, op: Op, offset: Value, memory: Value, layout: Layout | None) -> int:
    """Returns the number of elements of one access. The elements must be contiguous in registers and in memory, and
    they must be aligned. The mask must be equal for all elements of the access."""
    if layout is None:
        return 1
    facts = analysis.of(offset)
    under = masked_groups(analysis, op, layout.shape)
    size = memory.dtype.bytes
    aligned = max(pointer_align(analysis.function, memory) // size, 1)
    if isinstance(memory.type, SharedType) and operand(op, "stage") is not None:
        # A stage may start at any multiple of its size, so the alignment of the whole tile is not sufficient.
        stage = stage_bytes(memory.type) // size
        aligned = min(aligned, stage & -stage)
    best = 1
    for axis in range(len(layout.shape)):
        width = min(layout.vectors[axis], facts.run[axis], facts.start[axis], under[axis], MAX_BYTES // size, aligned)
        best = max(best, width)
    return best


def neighbours(analysis: Analysis, op: Op, under: str | None) -> int:
    """Returns how many contiguous, aligned elements a load from global memory may move with one access in a suitable
    layout. `under` names the field of the mask's `Facts` that limits this number. If it is None, no mask does."""
    offset, mask, memory = offset_of(op), operand(op, "mask"), op.operands[0]
    facts, shape, size = analysis.of(offset), offset.tile.shape, memory.dtype.bytes
    masked = shape if mask is None or under is None else getattr(analysis.of(mask), under)
    aligned = max(pointer_align(analysis.function, memory) // size, 1)
    widths = [min(*each, MAX_BYTES // size, aligned) for each in zip(facts.run, facts.start, masked, strict=True)]
    return max(widths, default=1)


def shifted_width(analysis: Analysis, op: Op) -> int:
    """Returns the number of elements in 16 bytes if a load may read two aligned blocks of 16 bytes in place of its
    elements, which are contiguous, but begin anywhere. Returns 0 if it may not. Under a mask, the last block may reach
    beyond the end of the tensor."""
    offset, memory, mask, layout = offset_of(op), op.operands[0], operand(op, "mask"), offset_of(op).tile.layout
    if op.spec.access.kind != "read" or space_of(memory) != "global" or layout is None:
        return 0
    if "action" in op.attrs or memory.dtype.bytes not in (2, 4):
        return 0
    masked = mask is not None and constant_of(mask) is not True
    under = masked_groups(analysis, op, layout.shape) if masked else layout.shape
    width = MAX_BYTES // memory.dtype.bytes
    lies = any(min(each) >= width for each in zip(layout.vectors, analysis.of(offset).run, under, strict=True))
    aligned = pointer_align(analysis.function, memory) >= MAX_BYTES and op.attrs["cache"] != "volatile"
    ends = analysis.function.extents_of(memory) if masked else stays_inside(analysis, op)
    return width if lies and aligned and ends else 0


def stays_inside(analysis: Analysis, op: Op) -> bool:
    """Whether the aligned blocks of 16 bytes that contain elements of a load end before its tensor does."""
    extents, high = analysis.function.extents_of(op.operands[0]), analysis.of(offset_of(op)).high
    numbers = [extent for extent in extents if isinstance(extent, int)]
    width = MAX_BYTES // op.operands[0].dtype.bytes
    return bool(numbers) and numbers == extents and high is not None and high // width * width + width <= prod(numbers)


def access_width(analysis: Analysis, op: Op) -> int:
    """Returns the number of elements that a load, store or asynchronous copy moves with one access. In a copy, both the
    source and the destination limit this number."""
    offset, source, tensor = offset_of(op), operand(op, "source"), operand(op, "tensor")
    width = vector_width(analysis, op, offset, op.operands[0], offset.tile.layout)
    if source is not None and tensor is not None:
        width = min(width, vector_width(analysis, op, source, tensor, source.tile.layout))
    return width


def is_partial(analysis: Analysis, op: Op, width: int) -> bool:
    """Whether, in an access of `width` elements, the mask of `op` may be true for only some of the elements."""
    mask = operand(op, "mask")
    if mask is None or mask.tile.layout is None:
        return False
    layout, same = mask.tile.layout, analysis.of(mask).same
    return all(min(layout.vectors[axis], group) < width for axis, group in enumerate(same))


def lies_along(analysis: Analysis, value: Value, axis: int, starts: Mapping[Value, Value]) -> bool:
    """Whether a tile is loaded from memory in which neighbours along the tile's `axis` are contiguous. `starts` maps
    each loop-carried value to its initial value."""
    op = starts.get(value, value).op
    while op is not None and not op.spec.access.kind:
        tiles = [operand for operand in op.operands if operand.tile.shape]
        if not op.spec.pure or len(tiles) != 1 or len(tiles[0].tile.shape) != len(value.tile.shape):
            return False
        axis = op.attrs["axes"][axis] if "axes" in op.attrs else axis
        op = starts.get(tiles[0], tiles[0]).op
    offset = None if op is None else operand(op, "offset")
    return offset is not None and analysis.of(offset).run[axis] > 1


def loads_of(value: Value, alike: Mapping[Value, Sequence[Value]]) -> Iterator[tuple[Op, tuple[int, ...]]]:
    """Yields the loads of the numbers from which a tile is computed, element by element, and for each axis of the tile
    that of the load. Flags are no numbers. `alike` maps a value to those that stand for it in loops and branches."""
    work, seen = [(value, tuple(range(len(value.tile.shape))))], {value}
    while work:
        tile, axes = work.pop()
        op, sources = tile.op, [*alike.get(tile, ())]
        if op is not None and op.spec.access.kind == "read":
            yield op, axes
        elif op is not None and op.spec.elementwise and not op.spec.access.kind:
            sources += op.operands
        elif op is not None and op.spec.pure and "axes" in op.attrs:
            sources, axes = op.operands, tuple(op.attrs["axes"][axis] for axis in axes)
        new = [each for each in sources if each not in seen and len(each.tile.shape) == len(axes)]
        work += [(each, axes) for each in new if each.dtype.bits >= 8]
        seen.update(new)


def bytes_along(analysis: Analysis, value: Value, alike: Mapping[Value, Sequence[Value]]) -> int | None:
    """Returns the axis along which the bytes are contiguous in memory from which a tile of wider elements is computed,
    element by element. Returns None if it is not computed so."""
    for load, axes in loads_of(value, alike) if value.dtype.bits > 8 else ():
        if load.result.dtype.bits == 8:
            run = analysis.of(offset_of(load)).run
            return next((axis for axis, own in enumerate(axes) if run[own] > 1), None)
    return None
