"""Describes arrays by tensor maps, as TMA copies need them (PTX ISA, "Tensors"; CUDA driver API, cuTensorMapEncodeTiled
and cuTensorMapEncodeIm2col)."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Protocol

from msgspec import Struct

from dsl.runtime.arrays import Array
from dsl.runtime.errors import LaunchError

MAP_BYTES = 128
"""Size of an encoded map in bytes. A kernel gets the map by value."""
MAP_ALIGNMENT = 64
"""Alignment of a map in parameter space, in bytes."""
MAP_RANKS = range(1, 6)
"""The possible numbers of axes of a map."""
MAP_PIECE = 16
"""A number of bytes. The strides of a map and the row lengths of its box are multiples of this number."""
MAP_POINTER = 16
"""Required alignment of an array that has a map, in bytes."""
MOST_OF_STRIDE = 1 << 40
"""A number of bytes. Every stride of a map is less than this number."""
MOST_OF_EXTENT = 1 << 31
"""Maximum number of elements along an axis. The driver accepts twice as many, but signed 32-bit coordinates cannot
reach them."""
MOST_OF_BOX = 256
"""Maximum number of elements of a TMA box along an axis. The number also limits the channels in the box of a map with a
window."""
MOST_OF_PIXELS = 1024
"""Maximum number of pixels in the box of a map with a window."""
CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
"""Number of axes of a map with a window → the smallest and the largest coordinate of a corner of the window."""
MOST_OF_STEP = 8
"""Maximum step, in elements, between base pixels along a spatial axis."""
MAP_TYPES = {"u8", "u16", "u32", "u64", "s32", "s64", "f16", "bf16", "f32", "f64"}
"""Element types that a map may name. Elements of other types are copied as bits."""
SWIZZLES = (0, 32, 64, 128)
"""The possible swizzle spans in bytes. A swizzle permutes the 16-byte pieces within each span. 0 means no swizzle."""


class Window(Struct, frozen=True):
    """The base pixels of an im2col tensor map along its spatial axes. These are the axes 1 to rank - 2, innermost
    first.

    Along each axis, the base pixels are lower, lower + step, … up to extent - 1 + upper (PTX ISA, "im2col mode").
    Padding makes lower negative. A larger filter makes upper smaller."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


class TensorMap(Struct, frozen=True):
    """A tensor map of an array with one to five axes. Axis 0 is the innermost, and its elements are adjacent.

    `element_bytes` is 1, 2, 4 or 8. `extents` is the number of elements along each axis. `strides` contains the strides
    in bytes of all axes except axis 0. `box` is the number of elements along each axis that one TMA copy moves.
    Elements outside the array are read as zeros and are not written. `swizzle` is 0, 32, 64 or 128 bytes. A swizzle of
    n bytes permutes the 16-byte pieces within each row of n bytes.

    `window` is given only for im2col copies. A map with a window has 3 to 5 axes: channels, one to three spatial axes,
    and images. Its `box` is (channels, pixels). The box contains consecutive base pixels of the window, and may
    continue in the next image.

    If TMA reductions use the map, `type` is one of MAP_TYPES. If the map is only for copies of bits, `type` is empty.
    """

    element_bytes: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0
    window: Window | None = None
    type: str = ""

    @property
    def span(self) -> int:
        """Number of bytes from the start of the array's first element to the end of its last element."""
        steps = zip(self.extents, (self.element_bytes, *self.strides), strict=True)
        return sum((extent - 1) * stride for extent, stride in steps) + self.element_bytes


class MapArgument(Protocol):
    """The fields of a header's `Argument` that describe a map. This class is a protocol, because this module cannot
    import `header.py`, which imports this module."""

    @property
    def of(self) -> str: ...
    @property
    def axes(self) -> tuple[int, ...]: ...
    @property
    def box(self) -> tuple[int, ...]: ...
    @property
    def swizzle(self) -> int: ...
    @property
    def window(self) -> Window | None: ...
    @property
    def reduces(self) -> bool: ...


def box_fault(row_bytes: int, swizzle: int) -> str | None:
    """Describes what is wrong with a box whose innermost rows have `row_bytes` bytes. Returns None if nothing is
    wrong."""
    if row_bytes % MAP_PIECE:
        return f"has rows of {row_bytes} bytes, not a multiple of {MAP_PIECE}"
    if swizzle and row_bytes > swizzle:
        return f"has rows of {row_bytes} bytes, more than the {swizzle} of the swizzle"
    return None


def of_array(array: Array, argument: MapArgument, stored: bool = False) -> TensorMap:
    """Returns the tensor map of `array` that `argument` describes. Raises LaunchError if this map would be illegal.

    If `stored` is true, the map is for TMA stores. These write whole 16-byte pieces, so rows that end within a piece
    are refused. If `argument.axes` leaves out an axis of the array, this axis is merged with the next axis. The header
    allows this only for contiguous arrays. An axis of one element may have any stride. The map then contains a legal
    stride instead, which no address computation uses."""
    name, size = argument.of, array.itemsize
    if array.pointer % MAP_POINTER:
        message = f"{name} is aligned to {array.pointer & -array.pointer} bytes, a tensor map takes {MAP_POINTER}"
        raise LaunchError("array", message, "pass a copy")
    own = own_axes(argument.axes)
    extents = tuple(prod(array.shape[each] for each in own[axis]) for axis in argument.axes)
    strides = [_stride(array, own[axis]) * size for axis in argument.axes]
    names = {axis: f"axis {axis} of {name}" for axis in argument.axes}
    names |= {axis: f"{names[axis]}, joined from {own[axis][0]} on," for axis in names if len(own[axis]) > 1}
    # Extents are checked before strides, because the stride of an empty axis is meaningless.
    for axis, extent in zip(argument.axes, extents, strict=True):
        if not 1 <= extent <= MOST_OF_EXTENT:
            message = f"{names[axis]} has {extent} elements, a tensor map takes 1 to {MOST_OF_EXTENT}"
            raise LaunchError("shape", message, f"a schedule without 'stage {name}: tma'")
    for axis, extent, stride in zip(argument.axes, extents, strides, strict=True):
        if extent > 1:
            _check_stride(names[axis], stride, size, innermost=axis == argument.axes[0])
    if stored and extents[0] * size % MAP_PIECE:
        message = f"{names[argument.axes[0]]} has {extents[0]} elements of {size} bytes, and TMA stores write whole "
        message += f"{MAP_PIECE} bytes: bytes behind them would be overwritten"
        raise LaunchError(
            "shape", message, f"a schedule without 'stage {name}: tma', or a whole array and a copy of it"
        )
    if argument.window is not None:
        _check_window(name, argument.axes, extents, argument.window)
    # The driver checks the strides of all axes, even of axes with one element.
    outer = tuple(stride if extent > 1 else MAP_PIECE for extent, stride in zip(extents[1:], strides[1:], strict=True))
    type = str(array.dtype) if argument.reduces else ""
    return TensorMap(size, extents, outer, argument.box, argument.swizzle, argument.window, type)


def own_axes(axes: tuple[int, ...]) -> dict[int, range]:
    """Maps each axis in `axes` to the range of array axes that are merged into it: (2, 0) gives {0: range(0, 1), 2:
    range(1, 3)}.

    The merged axes are the axis itself and the axes before it that `axes` leaves out."""
    return {axis: range(before + 1, axis + 1) for before, axis in pairwise([-1, *sorted(axes)])}


def _stride(array: Array, axes: range) -> int:
    """Returns the stride between consecutive elements along merged axes. Axes of one element are skipped, since they
    may have any stride."""
    return array.strides[next((axis for axis in reversed(axes) if array.shape[axis] > 1), axes[-1])]


def _check_window(name: str, axes: tuple[int, ...], extents: tuple[int, ...], window: Window) -> None:
    """Raises LaunchError if the array is so small that the window contains no base pixel."""
    spatial = zip(axes[1:-1], extents[1:-1], window.lower, window.upper, strict=True)
    for axis, extent, lower, upper in spatial:
        if (last := extent - 1 + upper) < lower:
            message = f"axis {axis} of {name} has {extent} elements, of which a window from {lower} to {last} has none"
            raise LaunchError("shape", message, "pass an array that is no smaller than the filter, with its padding")


def _check_stride(where: str, stride: int, size: int, innermost: bool) -> None:
    """Raises LaunchError if no tensor map can have this stride. `stride` and the element size `size` are in bytes."""
    if innermost and stride != size:
        message = f"{where} has a stride of {stride} bytes, a tensor map takes {size} there"
        raise LaunchError("array", message, "pass a copy whose elements lie side by side along this axis")
    if not innermost and stride % MAP_PIECE:
        message = f"{where} has a stride of {stride} bytes, a tensor map takes multiples of {MAP_PIECE}"
        raise LaunchError("array", message, f"pass a copy whose rows are padded to {MAP_PIECE} bytes")
    if not 0 <= stride < MOST_OF_STRIDE:
        message = f"{where} has a stride of {stride} bytes, a tensor map takes 0 to less than {MOST_OF_STRIDE}"
        raise LaunchError("array", message, "pass a contiguous copy")
