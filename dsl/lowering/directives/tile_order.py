"""The order in which blocks compute the tiles of a grid.

A tile's row is its position along the grid's first axis, and its column the position along the second axis. The default
order, that of the grid, is column by column. Other orders group rows, reverse the rows, or interleave columns. A
persistent block may also compute pairs of a long and a short tile.
"""

from __future__ import annotations

from msgspec import Struct

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Value


class TileOrder(Struct, frozen=True):
    """An order of tiles. If `rows` > 1, tiles form groups of `rows` rows, and each group is computed column by column.
    If `columns` > 1, tiles form groups of `columns` columns, and each group is computed row by row.

    If `falls` is true, rows are in descending order. If `in_pairs` is true, the first and the last tile of a group form
    a pair, then the second and the last but one, and so on.
    """

    rows: int
    falls: bool
    columns: int
    in_pairs: bool = False

    @property
    def changes(self) -> bool:
        """Whether this order differs from the order of the grid."""
        return self.rows > 1 or self.falls or self.columns > 1

    def tile(self, b: Builder, number: Value, rows: Value, columns: Value) -> list[Value]:
        """Computes the row and column of the tile at position `number` of this order. `rows` and `columns` are the
        extents of the grid."""
        if self.columns > 1:
            column, row = _in_groups(b, number, columns, rows, self.columns)
        elif self.rows > 1:
            row, column = _in_groups(b, number, rows, columns, self.rows)
        elif constant_of(columns) == 1:
            row, column = number, b.index(0)
        else:
            row, column = b.value("mod", number, rows), b.value("floordiv", number, rows)
        return [self.row(b, row, rows), column]

    def row(self, b: Builder, number: Value, rows: Value) -> Value:
        """Computes the row of the tile at position `number` within a column."""
        return b.value("sub", b.value("sub", rows, b.index(1)), number) if self.falls else number

    def tiles_of_block(self, b: Builder, block: Value, blocks: Value, sizes: list[Value]) -> Value:
        """Computes the number of tiles of the persistent block `block`. `blocks` is the number of blocks, and `sizes`
        contains the extents of the grid."""
        tiles = b.value("mul", b.value("mul", sizes[0], sizes[1]), sizes[2])
        if not self.in_pairs:
            return _share(b, tiles, block, blocks)
        one, two = b.index(1), b.index(2)
        pairs = b.cdiv(tiles, two)
        # If the number of tiles is odd, the last pair has only one tile.
        last = b.value("mod", b.value("sub", b.value("sub", pairs, one), block), blocks)
        is_last = b.value("sub", one, b.value("minimum", last, one))
        alone = b.value("mul", b.value("mod", tiles, two), is_last)
        return b.value("sub", b.value("mul", _share(b, pairs, block, blocks), two), alone)

    def tile_of_block(self, b: Builder, turn: Value, block: Value, blocks: Value, sizes: list[Value]) -> list[Value]:
        """Selects the tile of a persistent block in iteration `turn`. Returns the tile's position along the three grid
        axes."""
        rows, columns, _ = sizes
        if self.in_pairs:
            row, column = self._of_pair(b, turn, block, blocks, sizes)
            return [self.row(b, row, rows), b.value("mod", column, columns), b.value("floordiv", column, columns)]
        number, plane = b.value("add", block, b.value("mul", turn, blocks)), b.value("mul", rows, columns)
        if constant_of(sizes[2]) == 1:
            return [*self.tile(b, number, rows, columns), b.index(0)]
        tile = self.tile(b, b.value("mod", number, plane), rows, columns)
        return [*tile, b.value("floordiv", number, plane)]

    def _of_pair(self, b: Builder, turn: Value, block: Value, blocks: Value, sizes: list[Value]) -> tuple[Value, Value]:
        """Selects a tile like `tile_of_block`, but in pairs, and returns its row and column. Column numbers continue
        along the grid's third axis. An even `turn` selects a tile near the start of a group of columns. The next `turn`
        selects the tile at the same distance from the group's end."""
        two, rows, columns = b.index(2), sizes[0], b.value("mul", sizes[1], sizes[2])
        pair = b.value("add", block, b.value("mul", b.value("floordiv", turn, two), blocks))
        of_group = b.value("mul", rows, b.index(self.columns // 2))
        group = b.value("floordiv", pair, of_group)
        place = b.value("sub", pair, b.value("mul", group, of_group))
        first = b.value("mul", group, b.index(self.columns))
        high = b.value("minimum", b.value("sub", columns, first), b.index(self.columns))
        last = b.value("sub", b.value("mul", high, rows), b.index(1))
        further = b.value("sub", last, b.value("mul", place, two))
        place = b.value("add", place, b.value("mul", b.value("mod", turn, two), further))
        return b.value("floordiv", place, high), b.value("add", first, b.value("mod", place, high))


def _share(b: Builder, count: Value, block: Value, blocks: Value) -> Value:
    """Computes how many of `count` items belong to a block: item `block`, and every `blocks`-th item after it."""
    return b.cdiv(b.value("maximum", b.value("sub", count, block), b.index(0)), blocks)


def _in_groups(b: Builder, number: Value, across: Value, along: Value, group: int) -> tuple[Value, Value]:
    """Computes the position of tile `number` along two axes, which have the extents `across` and `along`. The first
    axis is divided into groups of `group` tiles. Within a group, the position along the first axis changes fastest."""
    # The first copy waits for this: 940 cycles after a block's start, of which two divisions took 140 (H200). So there
    # is only one: in whole groups by `along`, and in the last group, if it is smaller, by its size.
    size = b.index(group)
    whole = b.value("mul", b.value("floordiv", across, size), size)
    start = b.value("mul", whole, along)
    is_whole = b.value("lt", number, start)
    behind = b.value("maximum", b.value("sub", number, start), b.index(0))  # so the compiler knows that it is not less
    dividend = b.value("select", is_whole, b.value("floordiv", number, size), behind)
    divisor = b.value("select", is_whole, along, b.value("maximum", b.value("sub", across, whole), b.index(1)))
    quotient = b.value("floordiv", dividend, divisor)
    rest = b.value("sub", dividend, b.value("mul", quotient, divisor))
    first = b.value("add", b.value("mul", quotient, size), b.value("mod", number, size))
    return (
        b.value("select", is_whole, first, b.value("add", whole, rest)),
        b.value("select", is_whole, rest, quotient),
    )
