"""Tensor maps: how a TMA copy sees an array (PTX ISA, "Tensors"; CUDA driver API, cuTensorMapEncodeTiled and
cuTensorMapEncodeIm2col)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Protocol

from dsl.runtime.arrays import Array
from dsl.runtime.errors import LaunchError

MAP_BYTES = 128
"""Size of an encoded map, which a kernel gets by value."""
MAP_ALIGNMENT = 64
"""Alignment of a map in parameter space, in bytes."""
MAP_RANKS = range(1, 6)
"""Numbers of axes that a map may have."""
MAP_PIECE = 16
"""Bytes: strides of a map, and rows of its box, are multiples of it."""
MAP_POINTER = 16
"""Alignment of the address of a map's array, in bytes."""
MOST_OF_STRIDE = 1 << 40
"""Bytes: every stride is below it."""
MOST_OF_EXTENT = 1 << 31
"""Most elements along an axis. The driver accepts twice as many, which signed 32-bit coordinates do not reach."""
MOST_OF_BOX = 256
"""Most elements of a TMA box along an axis."""
MOST_OF_PIXELS = 1024
"""Most pixels of a box of a map with a window; its channels have the limit of a box along an axis."""
CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
"""Number of axes of a map with a window → the least and the greatest value of its corners."""
MOST_OF_STEP = 8
"""Most elements from one pixel to the next along a spatial axis."""
MAP_TYPES = {"u8", "u16", "u32", "u64", "s32", "s64", "f16", "bf16", "f32", "f64"}
"""Element types that a map may name; other types are copied as bits."""
SWIZZLES = (0, 32, 64, 128)
"""Bytes of a row of the box within which the swizzle permutes 16-byte pieces; 0: no swizzle."""


@dataclass(frozen=True, slots=True)
class Window:
    """The base pixels of a map along its spatial axes, 1 to rank - 2, the innermost first.

    Along axis i they lie at lower, lower + step, … up to extent - 1 + upper (PTX ISA, "im2col mode"). Padding makes
    lower negative; the reach of a filter with several taps is subtracted from upper."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map of an array with one to five axes, the innermost first, whose elements are adjacent along axis 0.

    element_bytes: 1, 2, 4 or 8. extents: elements along each axis. strides: bytes from one element to the next along
    axis 1 and later ones. box: elements along each axis that one TMA copy moves; elements outside the array are read as
    zeros, and not written. swizzle: 0, or the 32, 64 or 128 bytes of a row of the box within which 16-byte pieces are
    permuted.

    window: for im2col copies of maps with 3 to 5 axes: channels, one to three spatial axes, images. Then box is
    (channels, pixels), and pixels are consecutive pixels of the window, also across images.

    type: one of MAP_TYPES, which reductions need; empty for bits, which copies move.
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
        """Bytes from the first element of the array to the end of its last one."""
        steps = zip(self.extents, (self.element_bytes, *self.strides), strict=True)
        return sum((extent - 1) * stride for extent, stride in steps) + self.element_bytes


class MapArgument(Protocol):
    """The parts of a header's `Argument` that describe a map. The header imports this module, so a protocol stands for
    it."""

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


def box_fault(row_bytes: int, swizzle: int) -> str | None:
    """What is wrong with a box whose rows, along the innermost axis, have `row_bytes` bytes; None if nothing is."""
    if row_bytes % MAP_PIECE:
        return f"has rows of {row_bytes} bytes, not a multiple of {MAP_PIECE}"
    if swizzle and row_bytes > swizzle:
        return f"has rows of {row_bytes} bytes, more than the {swizzle} of the swizzle"
    return None


def of_array(array: Array, argument: MapArgument, stored: bool = False) -> TensorMap:
    """The map of `argument`, for the array of its tensor. Raises LaunchError for an array without a legal map.

    stored: the map is for stores, which write whole 16 bytes: rows that end within 16 bytes are refused. An axis that
    the map does not name is joined to the next one: the array is contiguous then, as the header requires. An axis of
    one element may have any stride: the map gets a legal one, which no address uses."""
    name, size = argument.of, array.itemsize
    if array.pointer % MAP_POINTER:
        message = f"{name} is aligned to {array.pointer & -array.pointer} bytes, a tensor map takes {MAP_POINTER}"
        raise LaunchError("array", message, "pass a copy")
    own = own_axes(argument.axes)
    extents = tuple(prod(array.shape[each] for each in own[axis]) for axis in argument.axes)
    strides = [_stride(array, own[axis]) * size for axis in argument.axes]
    names = {axis: f"axis {axis} of {name}" for axis in argument.axes}
    names |= {axis: f"{names[axis]}, joined from {own[axis][0]} on," for axis in names if len(own[axis]) > 1}
    # Before strides, which are meaningless for an empty axis.
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
    # The driver checks strides of axes with one element, too.
    outer = tuple(stride if extent > 1 else MAP_PIECE for extent, stride in zip(extents[1:], strides[1:], strict=True))
    return TensorMap(size, extents, outer, argument.box, argument.swizzle, argument.window)


def own_axes(axes: tuple[int, ...]) -> dict[int, range]:
    """For each axis of a map, the axes of its array: itself, and the axes in front of it that the map does not name."""
    return {axis: range(before + 1, axis + 1) for before, axis in pairwise([-1, *sorted(axes)])}


def _stride(array: Array, axes: range) -> int:
    """The stride from an element to the next one along joined axes; an axis of one element may have any stride."""
    return array.strides[next((axis for axis in reversed(axes) if array.shape[axis] > 1), axes[-1])]


def _check_window(name: str, axes: tuple[int, ...], extents: tuple[int, ...], window: Window) -> None:
    """Raises LaunchError for an array in which the window has no pixel."""
    spatial = zip(axes[1:-1], extents[1:-1], window.lower, window.upper, strict=True)
    for axis, extent, lower, upper in spatial:
        if (last := extent - 1 + upper) < lower:
            message = f"axis {axis} of {name} has {extent} elements, of which a window from {lower} to {last} has none"
            raise LaunchError("shape", message, "pass an array that is no smaller than the filter, with its padding")


def _check_stride(where: str, stride: int, size: int, innermost: bool) -> None:
    """Raises LaunchError for a stride, in bytes, that no map can have, of elements of `size` bytes."""
    if innermost and stride != size:
        message = f"{where} has a stride of {stride} bytes, a tensor map takes {size} there"
        raise LaunchError("array", message, "pass a copy whose elements lie side by side along this axis")
    if not innermost and stride % MAP_PIECE:
        message = f"{where} has a stride of {stride} bytes, a tensor map takes multiples of {MAP_PIECE}"
        raise LaunchError("array", message, f"pass a copy whose rows are padded to {MAP_PIECE} bytes")
    if not 0 <= stride < MOST_OF_STRIDE:
        message = f"{where} has a stride of {stride} bytes, a tensor map takes 0 to less than {MOST_OF_STRIDE}"
        raise LaunchError("array", message, "pass a contiguous copy")
