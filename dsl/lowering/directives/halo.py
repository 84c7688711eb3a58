"""Merges the overlapping TMA boxes of one iteration into one box: a tile of pixels with a halo, read by all filter
taps.

    copy sx, x[i - 1 : i + 7, j - 1 : j + 7]         copy sx, x[i - 1 : i + 9, j - 1 : j + 9]
    copy sx2, x[i - 1 : i + 7, j : j + 8]        →
    …                                                … load sx[0 : 8, 0 : 8] … load sx[0 : 8, 1 : 9] …

Without a halo, the nine taps of a 3 x 3 filter read nine tiles from the L2. A tile of 8 x 8 pixels is a matrix of 64
rows, one row of channels for each pixel. With its halo, the tile has 10 x 10 pixels, so 100 rows, and is read only
once. One TMA box copies all 100 rows to contiguous shared memory. Each tap reads its 64 rows from a different offset of
the box. After every 8 pixels, it skips 2 pixels of the halo."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.building.builder import Builder
from dsl.lowering.hopper.boxes import MOST_OF_BOX, BoxAxis, CopiedBox
from dsl.lowering.hopper.warpgroup import EIGHT
from dsl.lowering.ir.function import Value
from dsl.lowering.known.forms import linear


class Halo(Struct, frozen=True):
    """A box that covers several windows, one window for each tap. The first axes of `box` are the columns of the tile.
    The other axes are its row axes, such as image row and image column. `starts` contains the start of each window
    along the row axes. `extents` contains the extents of a window along the row axes."""

    box: CopiedBox
    starts: tuple[tuple[int, ...], ...]
    extents: tuple[int, ...]

    @property
    def rows(self) -> int:
        return prod(axis.extent for axis in self._along_rows)

    @property
    def _along_rows(self) -> tuple[BoxAxis, ...]:
        return tuple(axis for axis in self.box.axes if axis.along == 0)

    def row(self, b: Builder, number: int) -> Value:
        """Builds an index tile that maps each row of window `number` to the corresponding row of the box."""
        total, step = b.broadcast(b.index(0), (prod(self.extents),)), 1
        counted = b.value("arange", extent=prod(self.extents))
        for axis, start, extent in zip(self._along_rows, self.starts[number], self.extents, strict=True):
            place = b.value("floordiv", *b.same_shape([counted, b.index(step)]))
            place = b.value("mod", *b.same_shape([place, b.index(extent)]))
            place = b.value("add", *b.same_shape([place, b.index(start)]))
            total = b.value("add", total, b.value("mul", *b.same_shape([place, b.index(axis.step)])))
            step *= extent
        return total

    def window(self, number: int) -> tuple[int, int] | None:
        """Returns the first row of window `number` in the box, and the distance in rows from one group of eight rows to
        the next. A wgmma descriptor can express only these two numbers. Returns None if the distance is not
        constant."""
        axes = self._along_rows
        first = sum(start * axis.step for axis, start in zip(axes, self.starts[number], strict=True))
        if len(axes) == 1:
            return first, EIGHT
        return (first, axes[1].step) if len(axes) == 2 and self.extents[0] == EIGHT else None


def halo_of(boxes: Sequence[CopiedBox]) -> Halo | None:
    """Merges `boxes`, one for each window, into a box that covers all windows. Returns None if no box covers them, or
    if the merged box would not have fewer rows than the windows together."""
    first = boxes[0]
    rows = [i for i, axis in enumerate(first.axes) if axis.along == 0]
    is_plain = len(boxes) > 1 and rows and not any(box.walks for box in boxes)
    distances = _all_distances(boxes) if is_plain else []
    if not distances:
        return None
    low, high = ([of(each) for each in zip(*distances, strict=True)] for of in (min, max))
    if any(axis.along != 0 and (low[i] or high[i]) for i, axis in enumerate(first.axes)):
        return None
    axes, step = list(first.axes), 1
    for i in rows:
        begin = boxes[[each[i] for each in distances].index(low[i])].axes[i].first
        axes[i] = replace(axes[i], first=begin, extent=axes[i].extent + high[i] - low[i], step=step)
        step *= axes[i].extent
    extents = tuple(first.axes[i].extent for i in rows)
    if step >= prod(extents) * len(boxes) or any(axis.extent > MOST_OF_BOX for axis in axes):
        return None
    starts = tuple(tuple(each[i] - low[i] for i in rows) for each in distances)
    return Halo(replace(first, axes=tuple(axes)), starts, extents)


def are_adjacent(boxes: Sequence[CopiedBox], place: int) -> bool:
    """Whether each box starts where the previous box ends along axis `place`, and equals it otherwise."""
    first, extent = boxes[0], boxes[0].axes[place].extent
    behind = [[number * extent * (i == place) for i in range(len(first.axes))] for number in range(len(boxes))]
    return not first.walks and _all_distances(boxes) == behind


def widened(box: CopiedBox, place: int, extent: int) -> CopiedBox:
    """Returns `box` with another extent along axis `place`."""
    axes = list(box.axes)
    axes[place] = replace(axes[place], extent=extent)
    return replace(box, axes=tuple(axes))


def _all_distances(boxes: Sequence[CopiedBox]) -> list[list[int]]:
    """Returns the distance from the first box to each box, along each axis. Returns an empty list if a distance is
    unknown."""
    found = [_distances(boxes[0], box) for box in boxes]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) else []


def _distances(first: CopiedBox, box: CopiedBox) -> list[int] | None:
    """Returns the distance from `first` to `box` along each axis. Returns None if a distance is not constant, or if the
    two boxes have different axes."""
    found = []
    if len(first.axes) != len(box.axes):
        return None
    for one, other in zip(first.axes, box.axes, strict=True):
        if replace(one, first=other.first) != other:
            return None
        (terms, number), (more, further) = linear(one.first), linear(other.first)
        if terms != more:
            return None
        found.append(further - number)
    return found
