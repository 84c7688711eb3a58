"""Boxes of tensors that one instruction copies (TMA), and the maps of tensors that a launch passes for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from lowering.builder import Builder
from lowering.ir import Block, Op, Value, walk
from lowering.ops import operand
from lowering.shared_map import row_swizzle
from lowering.types import SharedType

PIECE = 16
"""Bytes that a swizzle leaves together, and that rows of a box are multiples of (PTX ISA, "Swizzling Modes")."""
MAP_BYTES, MAP_ALIGN = 128, 64
LEAST_ARCH, MOST_OF_BOX = 90, 256
"""The first target with copies of boxes, and elements of one along an axis."""


@dataclass(frozen=True, slots=True)
class CopiedBox:
    """Where a copy takes a box of a tensor: the first element along each axis, the innermost first, and for each which
    axis of the tensor it is and how many elements the box has. at: elements of the tile ahead of the box."""

    first: tuple[Value, ...]
    axes: tuple[tuple[int, int], ...]
    at: int = 0

    def part(self, b: Builder, start: int, run: int) -> CopiedBox:
        """So many columns of it, which lie together behind those before."""
        inner = b.value("add", self.first[0], b.index(start))
        ahead = start * prod(extent for _, extent in self.axes[1:])
        return CopiedBox((inner, *self.first[1:]), ((self.axes[0][0], run), *self.axes[1:]), ahead)


def box_of(load: Op, order: Sequence[int]) -> CopiedBox:
    """The box that a load is, for a tile in shared memory whose axes are those of the load in this order."""
    given: tuple[tuple[int, int], ...] = load.attrs["box"]
    firsts = [operand(load, f"corner{axis}") for axis in range(len(given))]
    shape = load.result.tile.shape
    long = [axis for axis, (_, extent) in enumerate(given) if extent > 1]
    of_tile = dict(zip((axis for axis, extent in enumerate(shape) if extent > 1), long, strict=True))
    inner = [of_tile[axis] for axis in reversed(order) if axis in of_tile]
    places = [*inner, *(axis for axis in range(len(given)) if axis not in inner)]
    return CopiedBox(
        tuple(v for axis in places if (v := firsts[axis]) is not None), tuple(given[axis] for axis in places)
    )


@dataclass(frozen=True, slots=True)
class BoxMap:
    """The map of a tensor for boxes of one kind. axes: of the tensor, the innermost first; swizzle: bytes of a row of
    the box within which pieces change places, 0 without."""

    tensor: str
    axes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int

    @property
    def name(self) -> str:
        """Of the argument, which is none of the language."""
        return ".".join([self.tensor, "map", *map(str, (*self.axes, *self.box, self.swizzle))])


def map_of(copy: Op) -> BoxMap:
    """The map that a bulk copy goes by."""
    tensor, memory = operand(copy, "tensor"), copy.operands[0]
    assert tensor is not None and tensor.name is not None and isinstance(memory.type, SharedType)
    axes, box = zip(*copy.attrs["box"], strict=True)
    swizzle = memory.type.swizzle
    assert swizzle in ((), row_swizzle(box[0] * memory.dtype.bytes)), "a swizzle of no row"
    return BoxMap(tensor.name, axes, box, PIECE << len(swizzle) if swizzle else 0)


def maps_of(block: Block) -> list[BoxMap]:
    """The maps of a block of operations, each once, in the order in which their copies stand."""
    return list(dict.fromkeys(map_of(op) for op in walk(block) if op.spec.fills and "box" in op.attrs))
