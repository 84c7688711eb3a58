"""TMA boxes: parts of tensors that one instruction copies, and the tensor maps that a launch passes for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import compress, pairwise
from math import prod
from operator import or_
from typing import Any

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Op, Value, walk
from dsl.lowering.ir.types import SharedType
from dsl.lowering.known.facts import Analysis
from dsl.lowering.layouts.layout import BasisSpan, row_major
from dsl.lowering.ops import operand
from dsl.lowering.shared.shared_map import row_swizzle

PIECE = 16
"""Number of bytes that a swizzle keeps together. Rows of a box are multiples of it (PTX ISA, "Swizzling Modes")."""
MAP_BYTES, MAP_ALIGN, BOX_ALIGN = 128, 64, 128
"""Bytes of a tensor map in the parameters, its alignment, and the alignment of a box in shared memory."""
ATOM = 8
"""Number of rows after which a swizzle repeats."""
LEAST_ARCH, MOST_OF_BOX, MOST_OF_AXES = 90, 256, 5
"""The first target with TMA, the maximum number of elements of a box along an axis, and the maximum number of axes."""

AHEAD = "no box is stored that begins ahead of the first element"
"""A device stops a store of such a box with an illegal instruction error. No manual mentions this (17 corners tried on
an H200, driver 580.159.04). Loads may begin anywhere."""


@dataclass(frozen=True, slots=True)
class BoxAxis:
    """A box along one axis of its tensor. Preceding axes that the box does not name are joined to this axis.

    `first` is the first element, and `extent` is the number of elements. `along` is the axis of the tile along which
    these elements are, with a new element every `step` elements of the tile. `along` is -1 if the whole tile has the
    same element.
    """

    axis: int
    first: Value
    extent: int = 1
    along: int = -1
    step: int = 1


@dataclass(frozen=True, slots=True)
class PixelWalk:
    """The positions of a window's pixels along an axis. The pixels start at `lower`, advance by `step`, and end `upper`
    elements past the last element. After `count` positions the pixels start again from `lower`. If `count` is 0, the
    pixels never wrap. The tap adds `tap` elements to each position."""

    lower: int
    upper: int
    step: int
    count: int
    tap: Value


@dataclass(frozen=True, slots=True)
class CopiedBox:
    """The part of a tensor that one instruction copies, with its axes in some order.

    `walks` belongs to a window, and has an entry for each axis along which pixels advance. These axes come after the
    channels and before one last axis. The extent of the first of these axes counts all pixels. `at` is the number of
    elements of a stage in front of the box.
    """

    axes: tuple[BoxAxis, ...]
    walks: tuple[PixelWalk, ...] = ()
    at: int = 0

    @property
    def size(self) -> int:
        return prod(axis.extent for axis in self.axes)

    @property
    def operands(self) -> dict[str, Value | None]:
        """The operands of an operation with this box. `of` reads the box from operands and attributes."""
        firsts: dict[str, Value | None] = {f"corner{i}": axis.first for i, axis in enumerate(self.axes)}
        return firsts | {f"tap{i}": walk.tap for i, walk in enumerate(self.walks)}

    @property
    def attrs(self) -> dict[str, object]:
        axes = tuple((axis.axis, axis.extent, axis.along, axis.step) for axis in self.axes)
        walks = tuple((walk.lower, walk.upper, walk.step, walk.count) for walk in self.walks)
        return {"box": axes, "at": self.at} | ({"walks": walks} if walks else {})

    @staticmethod
    def of(op: Op) -> CopiedBox:
        named = dict(zip(op.attrs["has"], op.operands, strict=True))
        axes = [BoxAxis(axis, named[f"corner{i}"], *more) for i, (axis, *more) in enumerate(op.attrs["box"])]
        walks = [
            PixelWalk(lower, upper, step, count, named[f"tap{i}"])
            for i, (lower, upper, step, count) in enumerate(op.attrs.get("walks", ()))
        ]
        return CopiedBox(tuple(axes), tuple(walks), op.attrs["at"])

    def joined(self, extents: Sequence[int]) -> dict[int, int]:
        """The extents of the tensor along the axes of the box, some of which are joined. `extents` has the tensor's
        extents."""
        named = sorted(axis.axis for axis in self.axes)
        return {axis: prod(extents[before + 1 : axis + 1]) for before, axis in pairwise([-1, *named])}

    @property
    def outermost(self) -> int:
        """The outermost axis in shared memory that has several elements."""
        return max((i for i, axis in enumerate(self.axes) if axis.extent > 1), default=0)

    @staticmethod
    def own(op: Op) -> CopiedBox:
        """The part that a block copies itself. Without multicast, the part is the whole box. With multicast, it is the
        part of the block of rank 0."""
        box = CopiedBox.of(op)
        part = box.shared(op.attrs["blocks"]) if "blocks" in op.attrs else box
        assert part is not None
        return part

    def shared(self, blocks: int) -> CopiedBox | None:
        """The part of a box that the first of `blocks` blocks copies, if each block copies an equal part. Returns None
        if the box has no equal parts."""
        # Parts are rows of the outermost axis, in whole groups of 8, so that each part has the swizzle of the whole
        # box.
        place = self.outermost
        extent, rest = divmod(self.axes[place].extent, blocks)
        if self.walks or not place or rest or self.size // self.axes[0].extent // blocks % ATOM:
            return None
        axes = list(self.axes)
        axes[place] = replace(axes[place], extent=extent)
        return replace(self, axes=tuple(axes))

    def columns(self, b: Builder, order: Sequence[int], shape: Sequence[int], start: int, run: int) -> CopiedBox:
        """The box of `run` columns starting at `start`, for a tile of this shape. `order` has the axes of the tile in
        shared memory, with the columns last. The new box starts with the axes of the tile, from the innermost axis
        outwards. Axes of one element follow."""
        axes = [_columns(b, axis, start, run) if axis.along == order[-1] else axis for axis in self.axes]
        place = {axis: number for number, axis in enumerate(reversed(order))} | {-1: len(order)}
        axes.sort(key=lambda axis: (place[axis.along], axis.step if axis.along >= 0 else 0))
        ahead = start * (prod(shape) // shape[order[-1]])
        return replace(self, axes=tuple(axes), at=ahead)

    def part(self, b: Builder, axis: int, origin: Value, part: int) -> CopiedBox | str:
        """The box of `part` elements along an axis of the tile, starting at `origin`. If these elements are no box, the
        result is the reason."""
        start = constant_of(origin)
        if start is None:
            return "a loop at run time takes it in parts, which 'static' writes out"
        if self.walks and axis == self.axes[1].along:
            return self._from_pixel(b, int(start), part)
        axes = tuple(_columns(b, each, int(start), part) if each.along == axis else each for each in self.axes)
        is_whole = prod(each.extent for each in axes if each.along == axis) == part
        return replace(self, axes=axes) if is_whole else f"of its axis {axis}, parts of {part} elements are no box"

    def _from_pixel(self, b: Builder, start: int, pixels: int) -> CopiedBox:
        """The window of `pixels` pixels that starts at pixel `start` of this window."""
        # `start` is added to the number of the first pixel. Each axis keeps its digit of the sum, and carries the rest
        # to the next axis.
        channels, *walked, last = self.axes
        carried, axes = b.index(start), [channels]
        for axis, way in zip(walked, self.walks, strict=True):
            lower, step, count = map(b.index, (way.lower, way.step, way.count))
            number = b.value("add", b.value("floordiv", b.value("sub", axis.first, lower), step), carried)
            place, carried = number, b.index(0)
            if way.count:
                place, carried = b.value("mod", number, count), b.value("floordiv", number, count)
            axes.append(replace(axis, first=b.value("add", b.value("mul", place, step), lower)))
        axes[1] = replace(axes[1], extent=pixels)  # the first axis that pixels advance along counts all pixels
        return replace(self, axes=(*axes, replace(last, first=b.value("add", last.first, carried))))


def _columns(b: Builder, axis: BoxAxis, start: int, run: int) -> BoxAxis:
    """The part of `axis` that `run` columns cover, starting at column `start`."""
    skipped = start % (axis.step * axis.extent) // axis.step
    extent = max(1, min(axis.extent, run // axis.step))
    first = b.value("add", axis.first, b.index(skipped)) if skipped else axis.first
    return replace(axis, first=first, extent=extent, along=axis.along if extent > 1 else -1)


def with_box(attrs: dict[str, Any], operands: list[Value], box: CopiedBox | str) -> list[Value]:
    """Replaces the box of an operation, or removes it if `box` is a reason. Changes `attrs`, and returns the new
    operands."""
    for name in ("box", "walks", "at"):
        attrs.pop(name, None)
    kept = [not name.startswith(("corner", "tap")) for name in attrs["has"]]
    has, operands = list(compress(attrs["has"], kept)), list(compress(operands, kept))
    if isinstance(box, str):
        attrs |= {"has": has, "no_box": box}
        return operands
    more = {name: value for name, value in box.operands.items() if value is not None}
    attrs |= {"has": [*has, *more]} | box.attrs
    return [*operands, *more.values()]


MOST_OF_STEP = 8
"""Maximum number of elements from a pixel of a window to the next pixel."""
CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
"""Maps the rank of a window's tensor to the least and greatest corner (CUDA driver API, "cuTensorMapEncodeIm2col")."""
MOST_OF_TAP = {3: 65535, 4: 255, 5: 31}
"""Maps the rank to the greatest distance of a tap (PTX ISA, "im2col mode")."""


def box_fault(facts: Analysis, box: CopiedBox) -> tuple[str, str] | None:
    """The violation of a TMA limit by a box or window, and a hint. Returns None if there is no violation."""
    rank = len(box.axes)
    if rank > MOST_OF_AXES:
        return f"a box of a tensor of {rank} axes", f"at most {MOST_OF_AXES} axes"
    if not box.walks:
        return None
    if rank not in CORNERS:
        return f"a window of a tensor of {rank} axes", f"{min(CORNERS)} to {max(CORNERS)} axes"
    low, high = CORNERS[rank]
    for each in box.walks:
        tap = facts.of(each.tap)
        if not (low <= each.lower <= high and low <= each.upper <= high):
            message = f"a window that goes from {each.lower} to {each.upper} past the last element"
            return message, f"{low} to {high}, with {rank} axes"
        if not 1 <= each.step <= MOST_OF_STEP:
            return f"pixels {each.step} apart", f"1 to {MOST_OF_STEP}"
        if tap.low is None or tap.low < 0 or tap.high is None or tap.high > MOST_OF_TAP[rank]:
            known = "unknown" if tap.low is None or tap.high is None else f"{tap.low} to {tap.high}"
            return f"a tap whose distance is {known}", f"0 to {MOST_OF_TAP[rank]}: dilations are constants"
    return None


@dataclass(frozen=True, slots=True)
class BoxMap:
    """The tensor map for boxes of one kind.

    `axes` are axes of the tensor, innermost first, as in `BoxAxis`. `box` has the number of elements along each axis.
    For a window, `box` has the number of channels and the number of pixels. `swizzle` is the number of bytes of a row,
    or 0 without a swizzle. `walks` has the lower and upper corner and the step of a window, for each axis except the
    first and the last.
    """

    tensor: str
    axes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    walks: tuple[tuple[int, int, int], ...] = ()

    @property
    def name(self) -> str:
        """The name of the kernel argument. The dots in the name distinguish it from names of the language."""
        ends = [str(number).replace("-", "m") for walk in self.walks for number in walk]
        return ".".join([self.tensor, "map", *map(str, (*self.axes, *self.box, self.swizzle)), *ends])


def map_of(copy: Op) -> BoxMap:
    """The tensor map that a TMA copy or store uses."""
    tensor, memory, box = operand(copy, "tensor"), copy.operands[0], CopiedBox.own(copy)
    assert tensor is not None and tensor.name is not None and isinstance(memory.type, SharedType)
    swizzle, extents = memory.type.swizzle, copy.attrs.get("pieces") or tuple(axis.extent for axis in box.axes)
    # TMA supports only the swizzles of rows of 32, 64 and 128 bytes, so the swizzles of its tiles are `fixed`.
    assert swizzle in ((), row_swizzle(extents[0] * memory.dtype.bytes)), "a swizzle of no row"
    return BoxMap(
        tensor.name,
        tuple(axis.axis for axis in box.axes),
        extents[:2] if box.walks else extents,  # an im2col map has one number for channels and one for pixels
        PIECE << len(swizzle) if swizzle else 0,
        tuple((walk.lower, walk.upper, walk.step) for walk in box.walks),
    )


def maps_of(block: Block) -> list[BoxMap]:
    """The tensor maps of a block of operations, each once, in the order of their copies."""
    return list(dict.fromkeys(map_of(op) for op in walk(block) if is_of_box(op)))


def is_of_box(op: Op) -> bool:
    """Whether an operation uses a tensor map."""
    return op.spec.leaves or (op.spec.access.at_pipeline == "fill" and "box" in op.attrs)


def pieces_of_warp(store: Op, place: Value) -> tuple[int, ...] | None:
    """The number of elements that one instruction stores along each axis of a store's box, if each warp stores its own
    elements.

    `place` has the offsets in the shared tile, with their layout. Returns None if a warp's elements are no box of whole
    atom rows, or if that box has fewer than eight rows. Also returns None if several warps hold the same elements.
    """
    # A warp needs at least eight rows, because a swizzle repeats after eight. The warp then waits for no other warp: no
    # barrier of the block is needed before the store.
    layout, box = place.tile.layout, CopiedBox.of(store)
    assert layout is not None
    shape, run = shape_of(box), place.tile.shape[-1]
    inside = reduce(or_, (*layout.lane, *layout.register), 0)
    apart = [basis & ~inside for basis in layout.warp]
    if BasisSpan((*layout.lane, *layout.register)).rank != inside.bit_count() or BasisSpan(apart).rank != len(apart):
        return None
    held = []
    for axis, pitch in enumerate(row_major(shape)):
        bits = inside // pitch % shape[axis]
        if bits & (bits + 1):
            return None
        held.append(bits + 1)
    rows = prod(held[:-1])
    together = all(held[axis] == shape[axis] or prod(held[:axis]) == 1 for axis in range(len(held) - 1))
    if not together or held[-1] % run or rows % ATOM or rows * run * store.operands[0].dtype.bytes % BOX_ALIGN:
        return None
    held[-1] = run
    return tuple(1 if axis.along < 0 else held[axis.along] for axis in box.axes)


def shape_of(box: CopiedBox) -> tuple[int, ...]:
    """The shape of the tile that a box copies: the extents of the box's slices, in the order of the tile's axes. Each
    slice must be along one axis of the tile."""
    extents = {axis.along: axis.extent for axis in box.axes if axis.along >= 0}
    return tuple(extents[axis] for axis in range(len(extents)))
