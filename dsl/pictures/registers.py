"""Computes the picture of a tile in registers: the bits of the coordinates, the elements of one corner of the tile, and
how the pattern of this corner repeats."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from msgspec import Struct

from dsl.lowering.layouts.layout import Layout, bits_of
from dsl.pictures.names import AXES, coordinates

MOST_LINES = 32
"""The maximum number of lines in the picture of the corner."""


class Cell(Struct, frozen=True):
    """`count` neighbouring elements along the last axis, starting at `column`. One thread holds the elements in
    consecutive registers, starting at `register`."""

    column: int
    count: int
    warp: int
    lane: int
    register: int

    @property
    def registers(self) -> str:
        last = self.register + self.count - 1
        return f"r{self.register}" if last == self.register else f"r{self.register}-{last}"


class PictureLine(Struct, frozen=True):
    """A row of cells. The first cell begins at the tile's coordinates `start`."""

    start: tuple[int, ...]
    cells: tuple[Cell, ...]


class DrawnStep(Struct, frozen=True):
    """The change of warp, lane and register between an element of the corner and the element `distance` further along
    `axis`.

    If `exact`, the change is added to the numbers of each element in the corner. Otherwise, it is combined with them by
    XOR.
    """

    axis: int
    distance: int
    places: tuple[tuple[str, int], ...]
    exact: bool


class RegisterPicture(Struct, frozen=True):
    """The picture of a layout.

    `bits` holds a tuple of texts for each axis, one text for each bit of the coordinate, highest bit first. A text such
    as `w1` or `l0^r2` names the bits of warp, lane and register whose XOR is the coordinate's bit. `idle` names the
    bits of lane and warp that change no coordinate.

    `corner` is the shape of the part of the tile that `lines` show, which begins at the tile's origin. `steps` lead
    from this part to all others.
    """

    layout: Layout
    bits: tuple[tuple[str, ...], ...]
    idle: tuple[str, ...]
    corner: tuple[int, ...]
    lines: tuple[PictureLine, ...]
    steps: tuple[DrawnStep, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        rank = len(self.layout.shape)
        return AXES.get(rank, tuple(f"axis {i}" for i in range(rank)))

    @property
    def has_warps(self) -> bool:
        """Whether several warps hold elements of the corner."""
        return len({cell.warp for line in self.lines for cell in line.cells}) > 1

    @property
    def wraps(self) -> bool:
        """Whether a row of the corner is split into several lines."""
        return len(self.lines) > prod(self.corner[:-1])

    @property
    def is_whole(self) -> bool:
        return self.corner == self.layout.shape


def picture(layout: Layout, cells: int, box: tuple[int, ...] | None = None) -> RegisterPicture:
    """Computes the picture of a layout, with lines of at most `cells` cells (a power of two).

    The corner is the part of the tile that a warp's lanes hold in their first registers. It is at least as large as
    `box`, but is halved until it has at most MOST_LINES lines.
    """
    inverse = layout.invert()
    run = run_of(layout, inverse)
    corner = [max(extents) for extents in zip(reach(layout, run), box or (1,) * len(layout.shape), strict=True)]
    # A tall tile would scroll off the terminal. The steps describe the rest of the tile.
    while prod(corner[:-1]) * -(-corner[-1] // (run * cells)) > MOST_LINES:
        # Outer axes are cut first, so that rows stay whole.
        axis = next((i for i, extent in enumerate(corner[:-1]) if extent > 1), len(corner) - 1)
        corner[axis] //= 2
    return RegisterPicture(
        layout,
        tuple(tuple(bits(layout, axis)) for axis in range(len(layout.shape))),
        tuple(f"{name[0]}{i}" for name, bases in layout.places for i, basis in enumerate(bases) if not basis),
        tuple(corner),
        tuple(lines(layout, inverse, tuple(corner), run, cells)),
        tuple(steps(layout, inverse, tuple(corner))),
    )


MOST_BLOCKS = 16
"""The map of the corner's repeats shows at most this many repeats along an axis."""


def blocks(picture: RegisterPicture) -> list[list[tuple[str, int]]]:
    """Returns a map of the tiles that repeat the corner's pattern, row by row, for ranks 1 and 2. Each repeat is
    described by its first element: warp, lane and register as text, then the warp's number."""
    layout, inverse = picture.layout, picture.layout.invert()
    # A map of thousands of repeats would hide the picture.
    counts = [min(e // c, MOST_BLOCKS) for e, c in zip(layout.shape, picture.corner, strict=True)]
    rows, columns = (1, *counts)[-2:]
    out = []
    for i in range(rows):
        row = []
        for j in range(columns):
            at = j * picture.corner[-1] + (i * picture.corner[0] * layout.shape[-1] if len(counts) > 1 else 0)
            place = split(layout, inverse.apply(at))
            lane = f" l{place['lane']}" if place["lane"] else ""
            row.append((f"w{place['warp']}{lane} r{place['register']}", place["warp"]))
        out.append(row)
    return out


def bits(layout: Layout, axis: int) -> Iterator[str]:
    """Yields a text for each bit of a coordinate, highest bit first. A text such as `w1` or `l0^r2` names the bits of
    warp, lane and register whose XOR is the coordinate's bit."""
    lowest = stride(layout, axis)
    for bit in reversed(range(bits_of(layout.shape[axis]))):
        parts = (
            f"{name[0]}{i}" for name, bases in layout.places for i, basis in enumerate(bases) if basis & lowest << bit
        )
        yield "^".join(parts)


def stride(layout: Layout, axis: int) -> int:
    return prod(layout.shape[axis + 1 :])


def run_of(layout: Layout, inverse: Layout) -> int:
    """Returns the length of runs of neighbouring elements along the last axis. One thread holds each run in consecutive
    registers, and each run begins at a multiple of its length."""
    n, most = 0, min(len(layout.register), bits_of(layout.shape[-1]))
    while n < most and inverse.flat[n] == 1 << n:
        n += 1
    # All other basis vectors must have zeros in the `n` lowest bits. Otherwise a run would not begin at a multiple of
    # its length.
    while n and any(place & (1 << n) - 1 for place in inverse.flat[n:]):
        n -= 1
    return 1 << n


def reach(layout: Layout, run: int) -> tuple[int, ...]:
    """Returns the smallest box, with power-of-two extents, that contains the elements in the first `run` registers of a
    warp's lanes."""
    out = []
    for axis in range(len(layout.shape)):
        mask, lowest = layout.axis_mask(axis), stride(layout, axis)
        highest = max((basis & mask for basis in layout.lane), default=0) // lowest
        out.append(1 << highest.bit_length())
    out[-1] = max(out[-1], run)
    return tuple(out)


def split(layout: Layout, place: int) -> dict[str, int]:
    """Splits `place`, a combined number, into the numbers of its register, lane and warp, by name."""
    out = {}
    for name, bases in layout.places:
        out[name] = place & (1 << len(bases)) - 1
        place >>= len(bases)
    return out


def lines(layout: Layout, inverse: Layout, corner: tuple[int, ...], run: int, cells: int) -> Iterator[PictureLine]:
    width = min(corner[-1], run * cells)
    for index in range(prod(corner) // width):
        start = coordinates(index * width, corner)
        first = sum(c * stride(layout, axis) for axis, c in enumerate(start))
        row = []
        for offset in range(0, width, run):
            place = split(layout, inverse.apply(first + offset))
            row.append(Cell(start[-1] + offset, run, place["warp"], place["lane"], place["register"]))
        yield PictureLine(start, tuple(row))


def steps(layout: Layout, inverse: Layout, corner: tuple[int, ...]) -> Iterator[DrawnStep]:
    """Yields a step for each bit of a coordinate beyond the corner."""
    every = inverse.flat
    for axis in reversed(range(len(layout.shape))):
        lowest = stride(layout, axis)
        for bit in range(bits_of(corner[axis]), bits_of(layout.shape[axis])):
            number = bits_of(lowest) + bit
            change = every[number]
            places = tuple((name, value) for name, value in reversed(split(layout, change).items()) if value)
            # If no other bit of a coordinate changes the same bits, XOR equals addition.
            exact = not any(change & other for i, other in enumerate(every) if i != number)
            yield DrawnStep(axis, 1 << bit, places, exact)
