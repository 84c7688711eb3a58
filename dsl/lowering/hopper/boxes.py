"""TMA boxes: parts of tensors that one instruction copies, and the tensor maps that a launch passes for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import compress, pairwise
from math import prod
from operator import or_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.single import SingleElements
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Op, Value, walk
from dsl.lowering.ir.types import SharedType
from dsl.lowering.known.facts import Analysis
from dsl.lowering.layouts.layout import BasisSpan, row_major
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import CUT
from dsl.lowering.shared.shared_map import row_swizzle

PIECE = 16
"""A swizzle moves units of this many bytes, and the rows of a box are multiples of it (PTX ISA, "Swizzling Modes")."""
MAP_BYTES, MAP_ALIGN, BOX_ALIGN = 128, 64, 128
"""The size of a tensor map in the parameters, its alignment, and the alignment of a box in shared memory, in bytes."""
ATOM = 8
"""The number of rows after which a swizzle repeats."""
LEAST_ARCH, MOST_OF_BOX, MOST_OF_AXES = 90, 256, 5
"""The first target with TMA, the maximum number of elements of a box along an axis, and the maximum number of axes."""

OF_BLOCKS = "the blocks of a cluster ('blocks') take it in parts, and only a run knows where each begins"
"""The reason why no box is stored from a tile that several blocks compute."""
MASKED = "its mask says more than that elements are inside of it"
"""The reason why no box is stored, and no window is loaded, where a mask excludes elements of it."""
AHEAD = "no box is stored that begins ahead of the first element"
"""A TMA store of a box that begins before the first element fails with an illegal instruction error. No manual mentions
this (17 corners tried on an H200, driver 580.159.04). Loads may begin anywhere."""


class BoxAxis(Struct, frozen=True):
    """The part of a box along one axis of its tensor. Preceding axes that the box does not contain are joined to this
    axis.

    `first` is the first element, and `extent` is the number of elements. `along` is the corresponding axis of the tile,
    or -1 if the whole tile has the same element. Along it, the element advances by one every `step` elements of the
    tile.
    """

    axis: int
    first: Value
    extent: int = 1
    along: int = -1
    step: int = 1


class PixelWalk(Struct, frozen=True):
    """The positions of a window's pixels along one axis: `lower`, `lower + step`, … After `count` positions, they start
    again from `lower`, or never if `count` is 0. The last position is `upper` elements past the axis's last element. A
    filter tap adds `tap` elements to each position."""

    lower: int
    upper: int
    step: int
    count: int
    tap: Value


class CopiedBox(Struct, frozen=True):
    """The part of a tensor that one instruction copies, with its axes in some order.

    For a window, `walks` contains an entry for each axis along which pixels advance. These axes come after the channels
    and before one last axis. The extent of the first of them is the number of all pixels. The box starts at element
    `at` of a stage in shared memory.

    A load may be several boxes, one below the other (`box_rows.py`). Then `rows` is the axis of its tile that they
    divide, and the number of rows of each. Where a box begins along an axis is the element of a tile at its first row.
    """

    axes: tuple[BoxAxis, ...]
    walks: tuple[PixelWalk, ...] = ()
    at: int = 0
    rows: tuple[int, int] | None = None

    @property
    def size(self) -> int:
        return prod(axis.extent for axis in self.axes)

    @property
    def operands(self) -> dict[str, Value | None]:
        """The operands of an operation with this box, by name. `of` builds the box from an operation's operands and
        attributes."""
        firsts: dict[str, Value | None] = {f"corner{i}": axis.first for i, axis in enumerate(self.axes)}
        return firsts | {f"tap{i}": walk.tap for i, walk in enumerate(self.walks)}

    @property
    def attrs(self) -> dict[str, object]:
        axes = tuple((axis.axis, axis.extent, axis.along, axis.step) for axis in self.axes)
        walks = tuple((walk.lower, walk.upper, walk.step, walk.count) for walk in self.walks)
        more = ({"walks": walks} if walks else {}) | ({"rows": self.rows} if self.rows else {})
        return {"box": axes, "at": self.at} | more

    @staticmethod
    def of(op: Op) -> CopiedBox:
        named = dict(zip(op.attrs["has"], op.operands, strict=True))
        axes = [BoxAxis(axis, named[f"corner{i}"], *more) for i, (axis, *more) in enumerate(op.attrs["box"])]
        walks = [
            PixelWalk(lower, upper, step, count, named[f"tap{i}"])
            for i, (lower, upper, step, count) in enumerate(op.attrs.get("walks", ()))
        ]
        return CopiedBox(tuple(axes), tuple(walks), op.attrs["at"], op.attrs.get("rows"))

    def joined(self, extents: Sequence[int]) -> dict[int, int]:
        """Returns the tensor's extent along each axis of the box. For joined axes, it is the product of their
        `extents`."""
        named = sorted(axis.axis for axis in self.axes)
        return {axis: prod(extents[before + 1 : axis + 1]) for before, axis in pairwise([-1, *named])}

    @property
    def outermost(self) -> int:
        """The index of the outermost axis in shared memory with several elements."""
        return max((i for i, axis in enumerate(self.axes) if axis.extent > 1), default=0)

    @staticmethod
    def own(op: Op) -> CopiedBox:
        """Returns the part that a block itself copies: the whole box without multicast, and the part of the block of
        rank 0 with multicast."""
        box = CopiedBox.of(op)
        part = box.shared(op.attrs["blocks"]) if "blocks" in op.attrs else box
        assert part is not None
        return part

    def shared(self, blocks: int) -> CopiedBox | None:
        """Divides the box into equal parts for `blocks` blocks. Returns the part of the first block, or None if there
        are no equal parts."""
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
        """Returns the box of `run` columns, from column `start` on, of a tile of this `shape`. `order` contains the
        tile's axes in the order of shared memory, with the columns last. The new box starts with these axes, the
        innermost first. Axes of one element follow."""
        axes = [_columns(b, axis, start, run) if axis.along == order[-1] else axis for axis in self.axes]
        place = {axis: number for number, axis in enumerate(reversed(order))} | {-1: len(order)}
        axes.sort(key=lambda axis: (place[axis.along], axis.step if axis.along >= 0 else 0))
        ahead = start * (prod(shape) // shape[order[-1]])
        return replace(self, axes=tuple(axes), at=ahead)

    def from_row(self, elements: SingleElements, shape: tuple[int, ...], row: int) -> CopiedBox:
        """Returns the box of the group of rows that begins with this row of a tile of this `shape`."""
        assert self.rows is not None
        index = tuple(row if axis == self.rows[0] else 0 for axis in range(len(shape)))
        axes = tuple(replace(axis, first=elements.of(axis.first, index)) for axis in self.axes)
        return replace(self, axes=axes, rows=None)

    def part(self, b: Builder, axis: int, origin: Value, part: int) -> CopiedBox | str:
        """Returns the box of `part` elements along an axis of the tile, from element `origin` on. If they are no box,
        returns the reason."""
        start = constant_of(origin)
        if self.rows is not None:
            return "its rows have places of their own, and it is computed in parts"
        if start is None:
            return "its parts begin at places known only at run time; those of 'static' parts of one block are known"
        if self.walks and axis == self.axes[1].along:
            return self._from_pixel(b, int(start), part)
        axes = tuple(_columns(b, each, int(start), part) if each.along == axis else each for each in self.axes)
        is_whole = prod(each.extent for each in axes if each.along == axis) == part
        return replace(self, axes=axes) if is_whole else f"of its axis {axis}, parts of {part} elements are no box"

    def _from_pixel(self, b: Builder, start: int, pixels: int) -> CopiedBox:
        """Returns the window of `pixels` pixels, from pixel `start` of this window on."""
        # Adds `start` to the number of the first pixel: each axis keeps a digit of the sum, and carries the rest to the
        # next axis.
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
    """Returns the part of `axis` in the `run` columns from column `start` on."""
    skipped = start % (axis.step * axis.extent) // axis.step
    extent = max(1, min(axis.extent, run // axis.step))
    first = b.value("add", axis.first, b.index(skipped)) if skipped else axis.first
    return replace(axis, first=first, extent=extent, along=axis.along if extent > 1 else -1)


def with_box(attrs: dict[str, Any], operands: list[Value], box: CopiedBox | str) -> list[Value]:
    """Replaces the box of an operation. If `box` is a string, removes the box, and stores the string as the reason.
    Changes `attrs`, and returns the new operands."""
    for name in ("box", "walks", "at", "rows"):
        attrs.pop(name, None)
    kept = [
        not name.startswith(("corner", "tap")) and (name != CUT or not isinstance(box, str)) for name in attrs["has"]
    ]
    has, operands = list(compress(attrs["has"], kept)), list(compress(operands, kept))
    if isinstance(box, str):
        attrs |= {"has": has, "no_box": box}
        return operands
    more = {name: value for name, value in box.operands.items() if value is not None}
    attrs |= {"has": [*has, *more]} | box.attrs
    return [*operands, *more.values()]


MOST_OF_STEP = 8
"""The maximum distance between two adjacent pixels of a window, in elements."""
CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
"""The least and the greatest corner of a window, by the rank of its tensor (CUDA driver API,
"cuTensorMapEncodeIm2col")."""
MOST_OF_TAP = {3: 65535, 4: 255, 5: 31}
"""The greatest distance of a filter tap, by the rank of the tensor (PTX ISA, "im2col mode")."""


def box_fault(facts: Analysis, box: CopiedBox) -> tuple[str, str] | None:
    """Checks the limits of TMA. Returns the limit that a box or window violates and a hint, or None if it violates no
    limit."""
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


class BoxMap(Struct, frozen=True):
    """The tensor map for boxes of one kind.

    `axes` are axes of the tensor, innermost first, as in `BoxAxis`. `box` contains the number of elements along each
    axis. For a window, it contains the number of channels and the number of pixels. `swizzle` is the number of bytes of
    a swizzled row, or 0. `walks` contains the lower corner, the upper corner and the step of a window, for each axis
    except the first and the last. `reduces` is true for TMA stores that reduce.
    """

    tensor: str
    axes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    walks: tuple[tuple[int, int, int], ...] = ()
    reduces: bool = False

    @property
    def name(self) -> str:
        """The name of the tensor map as a kernel argument. It contains dots, which names in a `.tile` file cannot
        contain."""
        ends = [str(number).replace("-", "m") for walk in self.walks for number in walk]
        ends += ["reduces"] * self.reduces
        return ".".join([self.tensor, "map", *map(str, (*self.axes, *self.box, self.swizzle)), *ends])


def map_of(copy: Op) -> BoxMap:
    """Returns the tensor map that a TMA copy or store uses."""
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
        copy.attrs.get("action") is not None,
    )


def maps_of(block: Block) -> list[BoxMap]:
    """Returns the tensor maps that the operations in `block` use, each once, in program order."""
    return list(dict.fromkeys(map_of(op) for op in walk(block) if is_of_box(op)))


def is_of_box(op: Op) -> bool:
    """Whether an operation uses a tensor map."""
    return op.spec.leaves or (op.spec.access.at_pipeline == "fill" and "box" in op.attrs)


def pieces_of_warp(store: Op, place: Value) -> tuple[int, ...] | None:
    """If each warp can store its own elements by TMA, returns the extents of the box that one instruction stores.

    `place` contains the offsets in the shared tile, with their layout. Returns None if a warp's elements are no box of
    whole atom rows, if that box has fewer than eight rows, or if several warps have the same elements.
    """
    # A box has at least eight rows, because a swizzle repeats after eight. If each warp stores its own elements, no
    # block-wide barrier is needed before the store.
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
    """Returns the shape of the tile that a box copies. Each axis of the tile must correspond to exactly one axis of the
    box."""
    extents = {axis.along: axis.extent for axis in box.axes if axis.along >= 0}
    return tuple(extents[axis] for axis in range(len(extents)))
