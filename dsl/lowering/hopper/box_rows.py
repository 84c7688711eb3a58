"""Finds the accesses that are several TMA boxes, one below the other: groups of rows at places that come from a table.

In `k[pages[b, key // 16], of, key % 16, 0 : D]` with `key = j + arange(128)`, each group of 16 rows has one entry of
`pages`, and its rows follow each other in the page. So the tile is eight boxes of 16 rows. The first row of a group
says where its box begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from dsl.lowering.hopper.boxes import ATOM, BoxAxis, CopiedBox
from dsl.lowering.hopper.digits import Digits, TileIndex
from dsl.lowering.hopper.windows import NO_DIGITS, NoBox, Subscript, conditions, covers, slice_of_axis
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.known.facts import ANY, Analysis
from dsl.lowering.ops import operand

ROWS_APART = "its rows have places of their own, and fewer than eight of them follow each other"


def box_of_rows(digits: Digits, subscripts: list[Subscript], shape: tuple[int, ...], mask: Value | None) -> CopiedBox:
    """Returns the boxes of a load of which an index comes from a table, as one box with `rows`. Raises NoBox if the
    load is no such boxes. `mask` is the mask of the load."""
    tiles = {each: tile for each in subscripts if (tile := each.tile) is not None and each.axis is not None}
    named = [tile for each, tile in tiles.items() if not each.is_told]
    axes = {axis for tile in named for axis, extent in enumerate(tile.tile.shape) if extent > 1}
    if len(axes) != 1 or any(each.axis is None for each in subscripts):
        raise NoBox("what comes from a table varies along several axes of its tile")
    (along,) = axes
    rows, follows = ANY, list[Subscript]()
    for each, tile in tiles.items():
        equal = _equal_rows(digits.facts, tile, along)
        run = digits.facts.of(tile).run[along] if each.is_told and tile.tile.shape[along] > 1 else 1
        follows += [each] if run > equal else []
        rows = min(rows, max(equal, run))
    if len(follows) != 1 or rows < ATOM:
        raise NoBox(ROWS_APART)
    found = [_axis(digits, each, shape, along, rows if each in follows else 1) for each in subscripts]
    others = [axis for axis in range(len(shape)) if axis != along]
    if not all(covers(found, axis, shape) for axis in others):
        raise NoBox(NO_DIGITS)
    _check_masks(digits, named, along, rows, mask)
    return CopiedBox(tuple(found), rows=(along, rows))


def _axis(digits: Digits, each: Subscript, shape: tuple[int, ...], along: int, rows: int) -> BoxAxis:
    """Returns the axis of a box that has `rows` rows along the axis of this subscript."""
    assert each.axis is not None
    if each.tile is not None and each.tile.tile.shape[along] > 1:
        if not _is_equal_beside(digits.facts, each.tile, along):
            raise NoBox(f"its index along axis {each.axis} differs within its rows")
        return BoxAxis(each.axis, each.tile, rows, along if rows > 1 else -1)
    found = slice_of_axis(digits, each, shape)
    if found is None:
        raise NoBox(NO_DIGITS)
    return found


def _is_equal_beside(facts: Analysis, value: Value, along: int) -> bool:
    """Whether the elements of an index tile differ along the axis `along` alone."""
    same = facts.of(value).same
    return all(same[axis] >= extent for axis, extent in enumerate(value.tile.shape) if axis != along)


def _equal_rows(facts: Analysis, value: Value, axis: int) -> int:
    """Returns the length of aligned groups of equal elements along an axis of a tile. Elements that are loaded are
    equal where their places are: `_check_masks` looks at the masks of these loads."""
    if not value.tile.shape or value.tile.shape[axis] == 1:
        return ANY
    known, op = facts.of(value).same[axis], value.op
    if known > 1 or op is None:
        return known
    return min((_equal_rows(facts, each, at) for each, at in _behind(op, value, axis)), default=1)


def _behind(op: Op, value: Value, axis: int) -> list[tuple[Value, int]]:
    """Returns the tiles that say what the elements of `value` along `axis` are, each with the corresponding axis. There
    are none if the operation mixes elements, or does more than compute them, as `asm` may."""
    along = op.spec.elements.along(op, value, axis) if op.spec.elements.along is not None else None
    computes, loads = op.spec.pure and (op.spec.elementwise or op.spec.elements.reshapes), _loads_tile(op)
    if along is None or not (computes or loads):
        return []
    tiles = [operand(op, "offset")] if loads else op.operands
    return [(each, along[each]) for each in tiles if each is not None and each in along]


def _loads_tile(op: Op) -> bool:
    """Whether an operation loads a tile from the places in its operand `offset`."""
    return op.spec.access.kind == "read" and "offset" in op.attrs.get("has", ())


def _loads(value: Value, axis: int) -> Iterator[tuple[Op, int]]:
    """Yields the loads that `value` consists of along an axis, each with the corresponding axis."""
    op = value.op
    if op is None:
        return
    if _loads_tile(op):
        yield op, axis
    for each, at in _behind(op, value, axis):
        yield from _loads(each, at)


def _check_masks(digits: Digits, named: Iterable[Value], along: int, rows: int, mask: Value | None) -> None:
    """Raises NoBox unless a group's first row loads the same entry as each of its rows that `mask` leaves."""
    # So the mask of the table must be true where `mask` is, and true for the first row if it is true for any.
    said = _stated(digits, mask, along)
    for load, axis in (found for value in named for found in _loads(value, along)):
        own = operand(load, "mask")
        if own is None:
            continue
        if None in (wanted := _stated(digits, own, along, axis)) or not wanted <= said:
            raise NoBox("the mask of its table says more than its own")
        if digits.facts.of(own).falls[axis] < rows:
            raise NoBox("the mask of its table may exclude the first one of rows that follow each other")


Stated = tuple[TileIndex, TileIndex, int]


def _stated(digits: Digits, mask: Value | None, along: int, axis: int | None = None) -> set[Stated | None]:
    """Returns the comparisons that a mask combines, None for other conditions. The `axis` of a table's mask is the axis
    `along` of the access."""
    found = set[Stated | None]()
    for _, order, lift in [] if mask is None else conditions(digits.b, mask):
        low, high = (None, None) if order is None else (digits.of(lift(order.low)), digits.of(lift(order.high)))
        if order is None or low is None or high is None:
            found.add(None)
            continue
        low, high = (_moved(each, axis, along) for each in (low, high))
        found.add((low, high, order.apart))
    return found


def _moved(index: TileIndex, axis: int | None, along: int) -> TileIndex:
    moved = (replace(digit, axis=along) if digit.axis == axis else digit for digit in index.digits)
    return replace(index, digits=tuple(moved))
