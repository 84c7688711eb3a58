"""A layout that distributes a reduced row over 8 lanes instead of 32.

The compiler distributes a row over all lanes of a warp, so a sum takes 5 shuffles for each row. With 8 lanes a row,
each lane has four times as many registers, a warp has four rows, and a sum takes 3 shuffles for four rows. Accesses
are as wide as before, and 8 lanes of 16 bytes still read a whole line of 128.

    dsl ablate FILE --kinds vector --plugin fewer_shuffles.py
    dsl run FILE --choose vector.x.load=eight_lanes --plugin fewer_shuffles.py
"""

from dsl.lowering.layouts.layout import Layout
from dsl.plugin import About, Option, option

LANES = 8


@option("vector")
def eight_lanes(about: About) -> Option | None:
    tile, axis, width = about.of.tile, about.of.axis, int(about.rule)
    if len(tile.shape) != 2 or axis != 1 or tile.shape[1] < LANES * width:
        return None
    rows = 32 // LANES
    if tile.shape[0] < rows * about.of.warps:  # otherwise several warps would hold the same rows
        return None
    layout = Layout.blocked(tile.shape, vector=(1, width), lanes=(rows, LANES), warps=(about.of.warps, 1))
    return Option("eight_lanes", layout)
