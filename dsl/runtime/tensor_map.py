"""What a copy by TMA knows of an array: a tensor map (PTX ISA, "Tensors"; CUDA driver API, cuTensorMapEncodeTiled and
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
"""Bytes that a map in the parameter space is aligned to."""
MAP_RANKS = range(1, 6)
"""How many axes a map may have."""
MAP_PIECE = 16
"""Bytes: the strides of a map, and a row of its box, are multiples of it."""
MAP_POINTER = 16
"""Bytes that the address of a map's array is a multiple of."""
MOST_OF_STRIDE = 1 << 40
"""Bytes: every stride is less."""
MOST_OF_EXTENT = 1 << 31
"""Elements along an axis: the driver takes twice as many, which coordinates of 32 bits with a sign do not reach."""
MOST_OF_BOX = 256
"""Elements of a box along an axis."""
MOST_OF_PIXELS = 1024
"""Pixels of a box of a map with a window; channels are those of a box along an axis."""
CORNERS = {3: (-32768, 32767), 4: (-128, 127), 5: (-16, 15)}
"""Axes of a map with a window → the least and the most that its corners are."""
MOST_OF_STEP = 8
"""Elements from one pixel to the next along a spatial axis."""
MAP_TYPES = {"u8", "u16", "u32", "u64", "s32", "s64", "f16", "bf16", "f32", "f64"}
"""Types of elements that a map may say; those of others are bits."""
SWIZZLES = (0, 32, 64, 128)
"""Bytes of a row of the box within which 16-byte pieces change places; none for 0."""


@dataclass(frozen=True, slots=True)
class Window:
    """Where the base pixels of a map lie along its spatial axes, 1 to rank - 2, the innermost first.

    Along axis i of so many elements they lie at lower, lower + step, … up to extent - 1 + upper (PTX ISA, "im2col
    mode"). Paddings are negative lowers; a filter of several taps takes its reach from the uppers.
    """

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorMap:
    """Of an array with one to five axes, the innermost first, whose elements lie side by side along axis 0.

    element_bytes: 1, 2, 4 or 8. extents: elements an axis. strides: bytes from one element to the next along axes 1
    and on. box: elements an axis that one copy moves; those outside of the array are read as zeros, and not written.
    swizzle: 0, or the 32, 64 or 128 bytes of a row of the box within which 16-byte pieces change places.
    window: of a map for im2col copies of 3 to 5 axes: channels, one to three spatial ones, images. Then box is
    (channels, pixels), and pixels are those of the window one after the other, through images, too.
    type: one of MAP_TYPES, which reductions ask for; empty for bits, which copies move.
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
    """What a header says of a map, in an `Argument`: the header asks this module, so this one does not know it."""

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
    """What is wrong with a box whose rows, along the innermost axis, have so many bytes; None when nothing is."""
    if row_bytes % MAP_PIECE:
        return f"has rows of {row_bytes} bytes, not a multiple of {MAP_PIECE}"
    if swizzle and row_bytes > swizzle:
        return f"has rows of {row_bytes} bytes, more than the {swizzle} of the swizzle"
    return None


def of_array(array: Array, argument: MapArgument, stored: bool = False) -> TensorMap:
    """The map of `argument` (a map of the tensor that `array` is for). Raises LaunchError for an array that has none.

    stored: what goes by it is stored, in whole 16 bytes: rows that end in the middle of such are refused.

    An axis that it does not name is joined to the next one: the array is contiguous then, as the header asks.
    An axis of one element has any stride: the map gets one that is legal, as nothing is ever that far away.
    """
    name, size = argument.of, array.itemsize
    if array.pointer % MAP_POINTER:
        message = f"{name} is aligned to {array.pointer & -array.pointer} bytes, a tensor map takes {MAP_POINTER}"
        raise LaunchError("array", message, "pass a copy")
    own = own_axes(argument.axes)
    extents = tuple(prod(array.shape[each] for each in own[axis]) for axis in argument.axes)
    strides = [_stride(array, own[axis]) * size for axis in argument.axes]
    names = {axis: f"axis {axis} of {name}" for axis in argument.axes}
    names |= {axis: f"{names[axis]}, joined from {own[axis][0]} on," for axis in names if len(own[axis]) > 1}
    for axis, extent in zip(argument.axes, extents, strict=True):  # before strides, which mean nothing if one has none
        if not 1 <= extent <= MOST_OF_EXTENT:
            message = f"{names[axis]} has {extent} elements, a tensor map takes 1 to {MOST_OF_EXTENT}"
            raise LaunchError("shape", message, f"a schedule without 'stage {name}: tma'")
    for axis, extent, stride in zip(argument.axes, extents, strides, strict=True):
        if extent > 1:
            _check_stride(names[axis], stride, size, innermost=axis == argument.axes[0])
    if stored and extents[0] * size % MAP_PIECE:
        message = f"{names[argument.axes[0]]} has {extents[0]} elements of {size} bytes, and boxes are stored in whole "
        message += f"{MAP_PIECE} bytes: what lies behind them would be overwritten"
        raise LaunchError(
            "shape", message, f"a schedule without 'stage {name}: tma', or a whole array and a copy of it"
        )
    if argument.window is not None:
        _check_window(name, argument.axes, extents, argument.window)
    outer = tuple(stride if extent > 1 else MAP_PIECE for extent, stride in zip(extents[1:], strides[1:], strict=True))
    return TensorMap(size, extents, outer, argument.box, argument.swizzle, argument.window)


def own_axes(axes: tuple[int, ...]) -> dict[int, range]:
    """By axis of a map, the axes of its array that it is: itself, and those ahead of it that the map does not name."""
    return {axis: range(before + 1, axis + 1) for before, axis in pairwise([-1, *sorted(axes)])}


def _stride(array: Array, axes: range) -> int:
    """From an element to the next one along axes that are joined: those of one element have any stride."""
    return array.strides[next((axis for axis in reversed(axes) if array.shape[axis] > 1), axes[-1])]


def _check_window(name: str, axes: tuple[int, ...], extents: tuple[int, ...], window: Window) -> None:
    """Raises LaunchError for an array in which the window has no pixel."""
    spatial = zip(axes[1:-1], extents[1:-1], window.lower, window.upper, strict=True)
    for axis, extent, lower, upper in spatial:
        if (last := extent - 1 + upper) < lower:
            message = f"axis {axis} of {name} has {extent} elements, of which a window from {lower} to {last} has none"
            raise LaunchError("shape", message, "pass an array that is no smaller than the filter, with its padding")


def _check_stride(where: str, stride: int, size: int, innermost: bool) -> None:
    """Raises LaunchError for a stride in bytes that no map has, of elements of `size` bytes."""
    if innermost and stride != size:
        message = f"{where} has a stride of {stride} bytes, a tensor map takes {size} there"
        raise LaunchError("array", message, "pass a copy whose elements lie side by side along this axis")
    if not innermost and stride % MAP_PIECE:
        message = f"{where} has a stride of {stride} bytes, a tensor map takes multiples of {MAP_PIECE}"
        raise LaunchError("array", message, f"pass a copy whose rows are padded to {MAP_PIECE} bytes")
    if not 0 <= stride < MOST_OF_STRIDE:
        message = f"{where} has a stride of {stride} bytes, a tensor map takes 0 to less than {MOST_OF_STRIDE}"
        raise LaunchError("array", message, "pass a contiguous copy")
