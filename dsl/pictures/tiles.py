"""Describes a named tile of a kernel as a line of text, and draws it."""

from __future__ import annotations

from dsl.lowering.directives.cluster_tiles import divided
from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.location import printable
from dsl.lowering.ir.types import SharedType
from dsl.lowering.layouts.layout import Layout
from dsl.pictures import registers, shared
from dsl.pictures.names import DrawnFragment, DrawnValue, describe, swizzle_words
from dsl.pictures.registers import RegisterPicture
from dsl.pictures.shared import SharedPicture
from dsl.pictures.svg import sheet

CELLS = 16
"""The maximum number of cells in a line of a picture on an HTML page."""


def pictured(function: Function, tile: DrawnValue, spread: dict[Layout, DrawnFragment]) -> str:
    """Returns the picture of a tile as SVG."""
    made = drawn(function, tile, spread, CELLS)
    return sheet([(printable(f"{tile.name}: {tile.kind}"), summary(function, tile, spread), made)])


def summary(function: Function, tile: DrawnValue, spread: dict[Layout, DrawnFragment]) -> str:
    """Describes the layout of a tile on one line."""
    type = tile.value.type
    if not isinstance(type, SharedType):
        layout = tile.value.tile.layout
        assert layout is not None
        blocks = divided(function).get(tile.name)
        return describe(layout, spread) + (f", blocks {list(blocks[1])}" if blocks else "")
    beyond = [access.beyond for access in shared.accesses(function, tile.value)]
    known = [b for b in beyond if b is not None]
    words = []
    if known:
        words.append(f"up to {max(known) + 1} passes over the banks" if any(known) else "no bank conflicts")
    # If a mask or data decides which lanes access the tile, the number of conflicts is unknown.
    words += ["conflicts of some accesses unknown"] if None in beyond else []
    if said := "; ".join(filter(None, [swizzle_words(type), *words])):
        return said
    # Operations on mbarriers and on the memory of other blocks have no lanes whose banks are counted.
    users = dict.fromkeys(op.name for op in walk(function.body) if tile.value in op.operands)
    return f"used by {', '.join(users)}" if users else "no accesses"


def drawn(
    function: Function, tile: DrawnValue, spread: dict[Layout, DrawnFragment], cells: int
) -> RegisterPicture | SharedPicture:
    """Returns the picture of a tile. For a tile in registers, lines have at most `cells` cells (a power of two).
    `spread` maps each layout that matrix products require to its fragment."""
    if isinstance(tile.value.type, SharedType):
        return shared.picture(function, tile.value)
    layout = tile.value.tile.layout
    assert layout is not None
    return registers.picture(layout, cells, spread[layout].box if layout in spread else None)
