"""How many elements one memory instruction moves: what layout, address, mask and alignment allow together."""

from __future__ import annotations

from lowering.facts import Analysis
from lowering.ir import Function, Op, Value
from lowering.layout import Layout
from lowering.ops import operand
from lowering.types import SharedType

MAX_BYTES = 16
ASYNC_BYTES = (4, 8, 16)  # what cp.async copies (PTX ISA, cp.async)


def pointer_align(function: Function, memory: Value) -> int:
    """Bytes that the first element's address is known to be a multiple of."""
    if isinstance(memory.type, SharedType):
        return MAX_BYTES
    for p in function.params:
        if p.value is memory:
            return p.align
    return memory.dtype.bytes


def slot_bytes(type: SharedType) -> int:
    """Bytes of one slot: what the first extent counts."""
    return type.bytes // type.shape[0]


def vector_width(
    analysis: Analysis, op: Op, offset: Value, memory: Value, mask: Value | None, layout: Layout | None
) -> int:
    """Elements of one access: neighbours in a thread's registers and in memory, aligned, under one mask."""
    if layout is None:
        return 1
    facts = analysis.of(offset)
    same = analysis.of(mask).same if mask is not None else offset.tile.shape
    size = memory.dtype.bytes
    aligned = max(pointer_align(analysis.function, memory) // size, 1)
    if isinstance(memory.type, SharedType) and operand(op, "slot") is not None:
        slot = slot_bytes(memory.type) // size
        aligned = min(aligned, slot & -slot)
    best = 1
    for axis in range(len(layout.shape)):
        width = min(layout.vector(axis), facts.run[axis], facts.start[axis], same[axis], MAX_BYTES // size, aligned)
        best = max(best, width)
    return best


def copy_width(analysis: Analysis, op: Op) -> int:
    """Elements that one asynchronous copy of `op` moves: both of its sides allow them."""
    tensor, offset, source = operand(op, "tensor"), operand(op, "offset"), operand(op, "source")
    assert tensor is not None and offset is not None and source is not None
    layout, mask = source.tile.layout, operand(op, "mask")
    return min(
        vector_width(analysis, op, source, tensor, mask, layout),
        vector_width(analysis, op, offset, op.operands[0], mask, layout),
    )
