"""Finds the accesses that are TMA boxes of a tensor (PTX ISA, "Tensors"): slices, and windows of images.

A window ("im2col mode" in the PTX ISA) is the data that one tap of a filter reads for some pixels of the result. Its
rows are these pixels, row by row and image by image. The next pixel is a fixed step further in the tensor. A tap adds
the same distance to all pixels. So `x[image, row, column, c : c + 64]` is a window if image, row and column are digits
of a pixel's number.

If the tensor is contiguous and the indices are exactly these digits, then image, row and column together are one axis
of pixels. Consecutive pixels are a slice of that axis. Convolutions store their results in this way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from itertools import pairwise
from math import prod

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.building.builder import Builder
from dsl.lowering.hopper.boxes import AHEAD, MASKED, BoxAxis, CopiedBox, PixelWalk
from dsl.lowering.hopper.digits import Digit, Digits, TileIndex
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Value
from dsl.lowering.known.facts import Analysis
from dsl.lowering.known.forms import ValueOrder, ValueOrders, linear

NO_DIGITS = "its indices are no slices, and not the digits of one number"


class NoBox(Exception):
    """Raised if an access is no TMA box. The message is the reason."""


class Subscript(Struct, frozen=True):
    """The index along an axis of a tensor.

    `axis` is an axis of the tensor, or None for an axis of one element that a view has inserted. `extent` is the number
    of elements along the axis. `outside` states whether an index tile may be before the first element, and whether it
    may be after the last one. Slices and scalars have their own masks. `tile` is the index tile itself. If it is loaded
    from a table, `is_told` is false, and `index` says nothing of it.
    """

    axis: int | None
    index: TileIndex
    extent: int | Value
    outside: tuple[bool, bool] = (False, False)
    tile: Value | None = None
    is_told: bool = True

    @property
    def digit(self) -> Digit | None:
        return self.index.digits[0] if self.index.digits else None


def box_of_access(
    digits: Digits, subscripts: list[Subscript], shape: tuple[int, ...], windows: bool, contiguous: bool
) -> CopiedBox:
    """Returns the TMA box of an access. Raises NoBox if there is none.

    Tries a box of slices first, then a window if `windows` is true, then slices of joined axes if `contiguous` is true.
    If `windows` is false, joins the axes of a contiguous tensor first.
    """
    own = [each for each in subscripts if each.axis is not None]
    beside = [each.index for each in subscripts if each.axis is None]
    if not own or any(index.digits or constant_of(index.start) != 0 for index in beside):
        raise NoBox("an axis of one element, which a view has put in, is read elsewhere than at 0")
    for each in own:
        if len(each.index.digits) > 1:
            raise NoBox(f"its index along axis {each.axis} is made of several counts")
    # A tile of whole images is a box of slices even without joined axes. But a store needs one axis of the box for each
    # axis of the tile, so a store joins axes first.
    if contiguous and not windows:
        own = _joined(digits.b, own)
    slices = {each: slice_of_axis(digits, each, shape) for each in own}
    if None not in slices.values():
        return _of_slices(slices.values(), shape)
    wrong = NoBox(NO_DIGITS)
    if windows:
        try:
            return _window(digits, slices, shape)
        except NoBox as reason:
            wrong = reason
    joined = [slice_of_axis(digits, each, shape) for each in _joined(digits.b, own)] if contiguous else [None]
    if None in joined:
        raise wrong
    return _of_slices(joined, shape)


def _of_slices(slices: Iterable[BoxAxis | None], shape: tuple[int, ...]) -> CopiedBox:
    axes = tuple(axis for axis in slices if axis is not None)
    if all(covers(axes, along, shape) for along in range(len(shape))):
        return CopiedBox(axes)
    raise NoBox("it reads elements several times")


def _joined(b: Builder, own: list[Subscript]) -> list[Subscript]:
    """Returns the subscripts, the innermost axis first. Adjacent digits of one number become one subscript."""
    # The lower digit must count all elements of its axis, so that the upper digit continues the count. An axis of one
    # element can be joined to any neighbour.
    joined: list[Subscript] = []
    for each in sorted(own, key=lambda each: -1 if each.axis is None else each.axis, reverse=True):
        whole = _as_one(b, joined[-1], each) if joined else None
        if whole is None:
            joined.append(each)
        else:
            joined[-1] = whole
    return joined


def _as_one(b: Builder, low: Subscript, high: Subscript) -> Subscript | None:
    lower, upper = low.digit, high.digit
    if high.extent == 1 and constant_of(high.index.start) == 0 and upper is None:
        return low
    if lower is None or upper is None or not lower.count or lower.count != low.extent:
        return None
    if constant_of(low.index.start) != 0 or replace(lower, step=lower.step * lower.count, count=upper.count) != upper:
        return None
    digit, by = replace(lower, count=lower.count * upper.count), b.index(lower.count)
    extent = high.extent * lower.count if isinstance(high.extent, int) else b.value("mul", high.extent, by)
    index = TileIndex(b.value("mul", high.index.start, by), (digit,))
    outside = low.outside[0] or high.outside[0], low.outside[1] or high.outside[1]
    return replace(low, index=index, extent=extent, outside=outside)


def _window(digits: Digits, slices: dict[Subscript, BoxAxis | None], shape: tuple[int, ...]) -> CopiedBox:
    """Returns the window of an access. `slices` maps each subscript to its slice, or to None. Raises NoBox if the
    access is no window."""
    wrong = NoBox(NO_DIGITS)
    for along in range(len(shape)):  # the tile's axis of pixels
        walked = [each for each in slices if each.digit is not None and each.digit.axis == along]
        rest = {each: axis for each, axis in slices.items() if each not in walked and axis is not None}
        others = [axis for axis in range(len(shape)) if axis != along]
        is_whole = all(covers(rest.values(), axis, shape) for axis in others)
        if walked and len(walked) + len(rest) == len(slices) and is_whole:
            try:
                return _Window(digits, walked, rest, shape[along]).box()
            except NoBox as reason:
                wrong = reason
    raise wrong


def covers(axes: Iterable[BoxAxis], along: int, shape: tuple[int, ...]) -> bool:
    """Whether the axes of a box cover each element along the axis `along` of the tile exactly once."""
    elements = 1
    for axis in sorted((axis for axis in axes if axis.along == along), key=lambda axis: axis.step):
        if axis.step != elements:
            return False
        elements *= axis.extent
    return elements == shape[along]


def slice_of_axis(digits: Digits, each: Subscript, shape: tuple[int, ...]) -> BoxAxis | None:
    """Returns the slice that a subscript reads, or None if the subscript is no slice."""
    # A digit that does not start at 0 is a slice if it does not wrap within the tile. So its start must be a multiple
    # of the number of positions in the tile.
    assert each.axis is not None
    b, digit = digits.b, each.digit
    if digit is None:
        return BoxAxis(each.axis, each.index.start)
    extent, first = shape[digit.axis], each.index.start
    reach = min(extent, digit.step * digit.count) if digit.count else extent
    if digit.factor != 1 or reach % digit.step or digit.count * digit.step % reach:
        return None
    if digit.origin is not None:
        if digits.facts.of(digit.origin).every % reach:
            return None
        place = b.value("floordiv", digit.origin, b.index(digit.step))
        if digit.count:
            place = b.value("mod", place, b.index(digit.count))
        first = b.value("add", first, place)
    return BoxAxis(each.axis, first, reach // digit.step, digit.axis, digit.step)


class _Window:
    """Builds a window. Its axes are the channels, then the axes along which pixels advance, then axes with a single
    element.

    Along the last axis of an im2col map, pixels never wrap. So the last axis is the axis of images, or of blocks of
    channels.
    """

    def __init__(self, digits: Digits, walked: list[Subscript], rest: dict[Subscript, BoxAxis], pixels: int):
        self.b, self.facts, self.rest, self.pixels = digits.b, digits.facts, rest, pixels
        self.walked = sorted(walked, key=lambda each: each.index.digits[0].step)
        self.walks = [digit for each in self.walked if (digit := each.digit) is not None]

    def box(self) -> CopiedBox:
        channels = [axis for axis in self.rest.values() if axis.along >= 0 and axis.step == 1]
        blocks = [each for each, axis in self.rest.items() if axis.along >= 0 and axis.step > 1]
        single = [each for each, axis in self.rest.items() if axis.along < 0]
        if len(channels) != 1 or len(blocks) > 1:
            raise NoBox("it has no slice of channels beside its pixels, or several")
        if not self._is_one_walk():
            raise NoBox("image, row and column of its pixels are not all digits of one number")
        last = self._last([*blocks, self.walked[-1], *single])
        inner = [each for each in (*self.walked, *single) if each is not last[0]]
        axes, walks = zip(*map(self._walk, inner), strict=True)
        first = replace(axes[0], extent=self.pixels, along=self.walks[0].axis)
        return CopiedBox((*channels, first, *axes[1:], last[1]), walks)

    def _last(self, several: list[Subscript]) -> tuple[Subscript, BoxAxis]:
        """Returns the last axis of the window: the first axis in `several` along which all positions are known to be at
        least 0. Raises NoBox if there is none."""
        for each in several:
            axis = self.rest[each] if each in self.rest else self._images(each)
            if axis is not None and self._is_never_below_0(axis.first):
                return each, axis
        raise NoBox("no axis is known to be read from 0 on: that of the images is, where they are counted so")

    def _is_never_below_0(self, first: Value) -> bool:
        low = self.facts.of(first).low
        return low is not None and low >= 0

    def _is_one_walk(self) -> bool:
        """Whether the axes along which pixels advance are all the digits of one number."""
        # Digits of several numbers are not allowed: an im2col copy visits its pixels in one order.
        whole = {replace(walk, step=1, count=0, factor=1) for walk in self.walks}
        follows = all(walk.count and walk.step * walk.count == after.step for walk, after in pairwise(self.walks))
        last = self.walks[-1]
        ends = not last.count or (last.origin is None and last.step * last.count >= self.pixels)
        return len(whole) == 1 and self.walks[0].step == 1 and follows and ends

    def _walk(self, each: Subscript) -> tuple[BoxAxis, PixelWalk]:
        """Returns the first pixel's position along an axis, and how the following pixels advance along the axis."""
        b, digit, axis = self.b, each.digit, each.axis
        lower = linear(each.index.start)[1]
        if digit is not None and not digit.count:
            return self._walked_images(each, digit)
        if not isinstance(each.extent, int) or axis is None:
            # The upper corner in the tensor map is relative to the end of the axis, and must be a compile-time
            # constant.
            raise NoBox(f"axis {axis}, which its pixels walk along, has an extent that is no constant")
        tap = b.value("sub", each.index.start, b.index(lower))
        count, step = (1, 1) if digit is None else (digit.count, digit.factor)
        walk = PixelWalk(lower, lower + (count - 1) * step - (each.extent - 1), step, count, tap)
        first = b.index(lower)
        if digit is not None:
            place = b.value("mod", self._turns(digit), b.index(count))
            first = b.value("add", b.value("mul", place, b.index(step)), first)
        return BoxAxis(axis, first), walk

    def _walked_images(self, each: Subscript, digit: Digit) -> tuple[BoxAxis, PixelWalk]:
        """Returns the axis of images, and how the pixels advance along it."""
        # After the last image, the tensor map contains as many additional images as a box may reach. A box that starts
        # even later is moved to the first additional image. Otherwise it could read pixels of the next block of
        # channels.
        images = self._images(each)
        if images is None or not self._is_never_below_0(images.first):
            raise NoBox("its images are not counted from 0 on")
        extent = self.b.index(each.extent) if isinstance(each.extent, int) else each.extent
        first = self.b.value("minimum", images.first, extent)
        beyond = -(-self.pixels // digit.step) + 1
        return replace(images, first=first), PixelWalk(0, beyond, 1, 0, self.b.index(0))

    def _images(self, each: Subscript) -> BoxAxis | None:
        digit, axis = each.digit, each.axis
        if digit is None or axis is None or digit.factor != 1:
            return None
        return BoxAxis(axis, self.b.value("add", each.index.start, self._turns(digit)))

    def _turns(self, digit: Digit) -> Value:
        return self.b.value("floordiv", digit.origin or self.b.index(0), self.b.index(digit.step))


def check_mask(digits: Digits, mask: Value | None, subscripts: list[Subscript]) -> Value | None:
    """Raises NoBox unless a mask excludes all elements of an access that are outside of the tensor. Returns the part of
    the mask that excludes elements inside, which a box contains, or None if it excludes none."""
    # For an index past the end of a row, a load by threads reads the next row, but a box returns zero.
    said, cuts = set[tuple[int, int]](), list[tuple[Value, Lift]]()
    stated = [] if mask is None else [*conditions(digits.b, mask)]
    for flag, order, lift in stated:
        found = set() if order is None else _edges(digits, order, subscripts, lift)
        cuts += [] if found else [(flag, lift)]
        said |= found
    for number, each in enumerate(subscripts):
        for edge, word in enumerate(("ahead of the first", "behind the last")):
            if each.outside[edge] and (number, edge) not in said:
                why = f"no mask says that its index along axis {each.axis} is not {word} element"
                raise NoBox(MASKED if cuts else why)
    if len(cuts) in (0, len(stated)):
        return mask if cuts else None
    # TMA sets elements outside to 0: with all conditions, threads would do so again in each block at an edge.
    return reduce(partial(digits.b.value, "and"), [lift(flag) for flag, lift in cuts])


def check_begin(facts: Analysis, subscripts: list[Subscript]) -> None:
    """Raises NoBox if a stored box may begin before the first element of an axis."""
    for each in subscripts:
        low = facts.of(each.index.start).low
        if low is None or low < 0 or each.outside[0]:
            raise NoBox(f"{AHEAD}, and along axis {each.axis} it is not known not to")


Lift = Callable[[Value], Value]


def conditions(b: Builder, mask: Value, lift: Lift = lambda v: v) -> Iterator[tuple[Value, ValueOrder | None, Lift]]:
    """Yields the conditions that a mask combines by `&`, each with its comparison, or None if it is no comparison, and
    with a function that broadcasts or reshapes the condition or its operands to the mask's shape."""
    op = mask.op
    if op is not None and op.spec.algebra.masks == "all":
        for each in op.operands:
            yield from conditions(b, each, lift)
    elif op is not None and op.spec.elements.reshapes:
        shape = mask.tile.shape

        def through(value: Value) -> Value:
            return lift(b.reshape(value, shape) if value.tile.size == prod(shape) else b.broadcast(value, shape))

        yield from conditions(b, op.operands[0], through)
    elif constant_of(mask) is not True:
        yield mask, ValueOrders().told(mask), lift


def _edges(digits: Digits, order: ValueOrder, subscripts: list[Subscript], lift: Lift) -> set[tuple[int, int]]:
    """Returns what a comparison states, as pairs (number of a subscript, edge). Edge 0 means 0 <= index, and edge 1
    means index < extent."""
    low, high = (digits.of(lift(value)) for value in (order.low, order.high))
    found: set[tuple[int, int]] = set()
    if low is None or high is None:
        return found
    for number, each in enumerate(subscripts):
        extent = constant_of(high.start) if isinstance(each.extent, int) else high.start
        if order.apart == 0 and high == each.index and not low.digits and constant_of(low.start) == 0:
            found.add((number, 0))
        elif order.apart == 1 and low == each.index and not high.digits and extent == each.extent:
            found.add((number, 1))
    return found
