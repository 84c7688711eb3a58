"""The lines of a schedule that concern single values of a function: layouts, instructions, swizzles."""

from __future__ import annotations

from math import prod
from typing import Any

from msgspec import Struct

from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.targets import WARP
from dsl.lowering.layouts.layout import Layout, LayoutError, row_major


class Pin(Struct, frozen=True):
    """A `layout` line of a schedule. `parts` maps keys such as "lanes" to numbers. See `resolve_pin`."""

    parts: dict[str, Any]
    loc: Loc

    @property
    def is_of_product(self) -> bool:
        """Whether the line specifies only how warps share a matrix product. Then the instruction determines the rest of
        the layout."""
        return "warps" in self.parts and self.parts.keys() <= {"warps", "contiguous"}


class Named(Struct, frozen=True):
    """An `instruction` line of a schedule. `name` holds the instruction's shape and modifier."""

    name: tuple[str, str]
    loc: Loc


class SwizzlePin(Struct, frozen=True):
    """A `swizzle` line of a schedule. `bits` is None for no swizzle, otherwise (BITS, BASE, SHIFT). Such a swizzle XORs
    bits [BASE, BASE + BITS) of a byte offset with the bits that are SHIFT positions higher."""

    bits: tuple[int, int, int] | None
    loc: Loc


WANTED = {
    "lanes": "over all axes they make up a warp: {}, …",
    "warps": "over all axes they make up the block, whose 'warps' the schedule sets (4 unless it does): {}, …",
}


def wanted(key: str, rank: int, count: int) -> str:
    """Returns a hint with two ways to spread `count` lanes or warps over the axes of a tile: along the last axis, and
    along two axes."""
    half = 1 << (count.bit_length() - 1) // 2
    ways = [[1] * (rank - 1) + [count]]
    if rank > 1 and half > 1:
        ways.append([1] * (rank - 2) + [half, count // half])
    return WANTED[key].format(", ".join(map(str, ways)))


def resolve_pin(pin: Pin, shape: tuple[int, ...], warps: int) -> Layout:
    """Returns the layout that a schedule line specifies for a tile of `shape`. A blocked line contains vector, lanes
    and warps. A raw line contains the bases of register, lane and warp. Raises TileError `layout` if the line does not
    fit the tile."""

    def fail(message: str, hint: str | None = None) -> TileError:
        return TileError("layout", pin.loc, message, hint)

    parts = pin.parts
    raw = {"register", "lane", "warp"} & parts.keys()
    if raw:
        if parts.keys() != {"register", "lane", "warp"}:
            raise fail("raw bases need 'register', 'lane' and 'warp'")
        strides, flat = row_major(shape), {}
        for key, bases in parts.items():
            for basis in bases:
                if not isinstance(basis, list | tuple) or len(basis) != len(shape):
                    raise fail(f"a basis of a tile of rank {len(shape)} has {len(shape)} coordinates")
                if any(not isinstance(c, int) or not 0 <= c < e for c, e in zip(basis, shape, strict=True)):
                    raise fail(f"basis {list(basis)} is outside a tile of {list(shape)}")
            flat[key] = [sum(c * s for c, s in zip(b, strides, strict=True)) for b in bases]
        if len(flat["warp"]) != warps.bit_length() - 1:
            raise fail(f"{len(flat['warp'])} bases of warps for {warps} warps")
        try:
            layout = Layout.registers(shape, flat["register"], flat["lane"], flat["warp"])
            layout.invert()  # raises LayoutError if no thread has some element
        except LayoutError as error:
            raise fail(str(error)) from None
        return layout
    rows: dict[str, tuple[int, ...]] = {}
    for key, default in (("vector", 1), ("lanes", None), ("warps", None)):
        if key not in parts and default is None:
            hint = "layout v: vector [1, 4], lanes [1, 32], warps [4, 1]; a vector has 16 bytes: 4 of f32, 8 of f16"
            raise fail(f"a layout needs '{key}'", hint)
        rows[key] = extents_of(pin, key, len(shape))
    for key, count in (("lanes", WARP), ("warps", warps)):
        if prod(rows[key]) != count:
            raise fail(f"'{key}' multiply to {prod(rows[key])}; there are {count}", wanted(key, len(shape), count))
    for axis, extent in enumerate(rows["vector"]):
        if extent > shape[axis]:
            raise fail(f"a vector of {extent} along an axis of {shape[axis]} elements")
    return Layout.blocked(shape, rows["vector"], rows["lanes"], rows["warps"])


def extents_of(pin: Pin, key: str, rank: int) -> tuple[int, ...]:
    """Returns the numbers of a layout line for `key`: one power of two for each axis. If the line lacks the key, all
    numbers are 1. Raises TileError `layout` for wrong numbers."""
    row = pin.parts.get(key, [1] * rank)
    if len(row) != rank:
        message = f"'{key}' has {len(row)} extent{'s' * (len(row) != 1)}; the tile has rank {rank}"
        filled = [1] * (rank - len(row)) + list(row)
        hint = f"one for each axis: {key} {filled}" if len(row) < rank else "one for each axis of the tile"
        raise TileError("layout", pin.loc, message, hint)
    for extent in row:
        if not isinstance(extent, int) or isinstance(extent, bool) or extent < 1 or extent & (extent - 1):
            hint = f"{key} {[1] * (rank - 1) + [2]}, or 4, 8 …"
            raise TileError("layout", pin.loc, f"'{key}' has the extent {extent}: a power of two is needed", hint)
    return tuple(row)
