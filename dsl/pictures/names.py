"""Describes a layout in the notation of a schedule: as blocked, as an MMA fragment, or by the bases of the linear
layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from msgspec import Struct

from dsl.lowering.ir.function import Function, Op, Value, walk
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import SharedType, TileType
from dsl.lowering.layouts.layout import Layout, LayoutError, bits_of
from dsl.lowering.machine.tensor_cores import Mma, accumulator, product

AXES = {1: ("element",), 2: ("row", "column")}
"""Maps a tile's rank to the names of its axes. For higher ranks, axes are numbered."""


class DrawnFragment(Struct, frozen=True):
    """The role of a tile in an MMA: the instruction, and its operand ("A", "B", "C", "A transposed", "rows of C" …).

    `box` is the shape of the part of the tile that one instruction uses.
    """

    instruction: Mma
    operand: str
    box: tuple[int, ...]

    def __str__(self) -> str:
        name = ".".join(filter(None, ("mma.sync", self.instruction.shape, self.instruction.modifier)))
        return f"{self.operand} of {name}"


class DrawnValue(Struct, frozen=True):
    """A named tile of a kernel, in registers or in shared memory. `line` is its source line, and `value` is its IR
    value, whose type has a layout."""

    line: int
    value: Value

    @property
    def name(self) -> str:
        return self.value.name or ""

    @property
    def kind(self) -> str:
        """The tile's type as the user writes it."""
        return str(self.value.type)


def coordinates(index: int, extents: Sequence[int]) -> tuple[int, ...]:
    """Returns the coordinates of an element of a box, given its row-major index."""
    out: list[int] = []
    for extent in reversed(extents):
        index, coordinate = divmod(index, extent)
        out.insert(0, coordinate)
    return tuple(out)


def named_tiles(function: Function) -> list[DrawnValue]:
    """Returns the named tiles of the kernel and its functions, in program order. A name is listed once for each
    layout."""
    found: dict[tuple[str, object], DrawnValue] = {}

    def add(value: Value, op: Op) -> None:
        type = value.type
        if value.name is not None and isinstance(type, TileType | SharedType) and type.shape:
            # Several shared tiles may have the same name and type, for example scratch memory.
            key = value if isinstance(type, SharedType) else type
            found.setdefault((value.name, key), DrawnValue(line_of(op.loc, function), value))

    for op in walk(function.body):
        for region in op.regions:
            for argument in region.args:
                add(argument, op)
        for result in op.results:
            add(result, op)
    return list(found.values())


def line_of(loc: Loc | None, function: Function) -> int:
    """Returns the innermost line of `loc` in the kernel's own file. For code that was inlined from another file, this
    is the line of the call. If `loc` is None, the result is 0."""
    home = function.loc.source if function.loc else None
    while loc is not None and loc.source is not home and loc.caller is not None:
        loc = loc.caller
    return loc.line if loc else 0


def fragments(function: Function) -> dict[Layout, DrawnFragment]:
    """Returns the layouts that the matrix products of a function require, each with its fragment."""
    found: dict[Layout, DrawnFragment] = {}
    for op in walk(function.body):
        # Only MMA instructions require layouts of their operands.
        if not op.spec.product:
            continue
        instruction, c = op.attrs["instruction"], op.result.tile.layout
        spread = product(instruction, c, op.operands[0].shape[-1])
        assert spread is not None
        m, n, k = instruction.m, instruction.n, instruction.k
        rows = len(op.result.tile.shape) - 2
        one = (1,) * rows  # one product of a batch
        operands = (("A", spread.a, (m, k)), ("B", spread.b, (k, n)))
        loaded = (("A", spread.loaded[0], (m, k)), ("B", spread.loaded[1], (k, n)))
        for name, layout, box in (("C", spread.c, (m, n)), *operands, *loaded):
            found.setdefault(layout, DrawnFragment(instruction, name, (*one, *box)))
        # `dot(a.T, b)` reads a transposed tile. Its layout is the fragment's layout with the axes exchanged.
        turned = (*range(rows), rows + 1, rows)
        for name, layout, box in (("A", spread.a, (k, m)), ("B", spread.b, (n, k))):
            found.setdefault(layout.transpose(turned), DrawnFragment(instruction, f"{name} transposed", (*one, *box)))
        # A reduced accumulator keeps the layout of its rows or columns, with or without the reduced axis.
        for keep in (False, True):
            for name, axis, box in (("rows", rows + 1, (m, 1)), ("columns", rows, (1, n))):
                part = (*one, *(box if keep else (max(box),)))
                found.setdefault(spread.c.drop(axis, keep), DrawnFragment(instruction, f"{name} of C", part))
    return found


def describe(layout: Layout, spread: dict[Layout, DrawnFragment]) -> str:
    """Describes a layout on one line: how a schedule would request it, and how many threads hold each element.

    `spread` maps each layout that matrix products require to its fragment.

    >>> describe(Layout.blocked((4, 256), (1, 8), (1, 32), (4, 1)), {})
    'vector [1, 8], lanes [1, 32], warps [4, 1]'
    """
    # A reshape keeps each element in its thread and register. Only the shape changes.
    other = next((o for o in spread if o.places == layout.places and prod(o.shape) == prod(layout.shape)), None)
    if layout in spread:
        text = fragment_words(layout, spread[layout])
    elif (blocked := blocked_form(layout)) is not None:
        text = blocked_words(*blocked)
    # A schedule writes a layout with one axis as the layout of a tile with one column.
    elif len(layout.shape) == 1 and (blocked := blocked_form(layout.reshape((*layout.shape, 1)))) is not None:
        text = f"as [{layout.shape[0]}, 1]: {blocked_words(*blocked)}"
    elif other is not None:
        text = f"{fragment_words(other, spread[other])}; reshaped from {list(other.shape)}"
    else:
        text = str(layout)
    copies = copies_of(layout)
    return text + (f"; {copies} threads hold each element" if copies > 1 else "")


def fragment_words(layout: Layout, fragment: DrawnFragment) -> str:
    return f"{fragment}, warps {list(warps_of(layout))}" + contiguous_of(layout, fragment)


def blocked_words(vector: tuple[int, ...], lanes: tuple[int, ...], warps: tuple[int, ...]) -> str:
    """Formats a blocked layout as a schedule writes it."""
    head = f"vector {list(vector)}, " if prod(vector) > 1 else ""
    return f"{head}lanes {list(lanes)}, warps {list(warps)}"


def copies_of(layout: Layout) -> int:
    """Returns the number of threads that hold each element."""
    return 1 << len(layout.flat) - bits_of(prod(layout.shape))


def warps_of(layout: Layout) -> tuple[int, ...]:
    """Returns the number of warps along each axis. Warps that hold the same elements count once."""
    return _along(layout, layout.warp)


def contiguous_of(layout: Layout, fragment: DrawnFragment) -> str:
    """Returns the `contiguous` value of an accumulator's layout as text, or "" for other layouts."""
    # Among the fragments, only an accumulator has a layout that a schedule can choose.
    if fragment.operand != "C" or copies_of(layout) > 1:
        return ""
    shape, batch = layout.shape, [1] * (len(layout.shape) - 2)
    # Tries all powers of two, because a layout does not record the `contiguous` value that it was built from.
    for near_m, near_n in _factors(2, shape[-2:]):
        try:
            made = accumulator(fragment.instruction, shape, warps_of(layout), (near_m, near_n))
        except LayoutError:
            continue
        if made == layout:
            return f", contiguous {[*batch, near_m, near_n]}" if near_m * near_n > 1 else ""
    return ""


def blocked_form(layout: Layout) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None:
    """Returns the arguments (vector, lanes, warps) for which `Layout.blocked` returns this layout, or None."""
    shape, rank = layout.shape, len(layout.shape)
    for lanes in _at_least(_along(layout, layout.lane), len(layout.lane)):
        for warps in _at_least(_along(layout, layout.warp), len(layout.warp)):
            for vector in _factors(rank, shape, layout.count):
                if Layout.blocked(shape, vector, lanes, warps) == layout:
                    return vector, lanes, warps
    return None


def _along(layout: Layout, bases: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the number of lanes or warps along each axis. Lanes or warps that hold the same elements count once."""
    masks = [layout.axis_mask(axis) for axis in range(len(layout.shape))]
    return tuple(1 << sum(bool(basis & mask) for basis in bases) for mask in masks)


def _at_least(least: tuple[int, ...], bits: int) -> list[tuple[int, ...]]:
    """Returns all tuples of powers of two whose product is 2 to the power of `bits`. Each element is at least the
    corresponding element of `least`. Additional lanes or warps hold copies of elements."""
    return [row for row in _splits(1 << bits, len(least)) if all(r >= n for r, n in zip(row, least, strict=True))]


def _splits(count: int, rank: int) -> Iterator[tuple[int, ...]]:
    """Yields all tuples of `rank` powers of two whose product is `count`. Tuples with a large last element come
    first."""
    if rank == 1:
        yield (count,)
        return
    first = 1
    while first <= count:
        for rest in _splits(count // first, rank - 1):
            yield (first, *rest)
        first *= 2


def _factors(rank: int, most: tuple[int, ...], product: int | None = None) -> Iterator[tuple[int, ...]]:
    """Yields all tuples of powers of two whose product is at most `product`. Each element is at most the corresponding
    element of `most`. Tuples with small products come first."""
    limit = prod(most) if product is None else product
    # With small products first, the caller finds the simplest description first.
    size = 1
    while size <= limit:
        for row in _splits(size, rank):
            if all(r <= m for r, m in zip(row, most, strict=True)):
                yield row
        size *= 2


def swizzle_words(type: SharedType) -> str:
    """Formats the swizzle of a shared tile as a schedule writes it. A swizzle that no schedule can write is described
    bit by bit. Returns "" for a tile without a swizzle."""
    if not type.swizzle:
        return ""
    first, mask = type.swizzle[0]
    # The usual form of a swizzle, BITS, BASE, SHIFT, moves consecutive bits by the same distance.
    base = mask.bit_length() - 1
    if type.swizzle == tuple((first + i, 1 << base + i) for i in range(len(type.swizzle))):
        return f"swizzle {len(type.swizzle)}, {base}, {first - base}"
    bits = (
        f"{bit} moves {' '.join(str(b) for b in range(mask.bit_length()) if mask >> b & 1)}"
        for bit, mask in type.swizzle
    )
    return f"swizzle: byte bit {', '.join(bits)}"
