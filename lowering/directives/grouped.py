"""`grouped 8`: blocks take the tiles of a grid in groups of 8 along its first axis.

Blocks start in the order of the grid's first axis. Those that run at once then have as many rows of tiles as the grid
has, and few columns: together they read nearly all of one operand. In groups of 8 rows they read about as much of both,
which the L2 holds. `block(0)` and `block(1)` are made anew from the number of the block; the launch stays as it is.

By itself it is done where a product in a loop has an operand that hangs on `block(0)` and not on `block(1)`, and
another one that hangs on `block(1)` alone.
"""

from __future__ import annotations

from lowering.builder import Builder
from lowering.directives.slices import located
from lowering.directives.stage import feeds_product, is_load, place_of
from lowering.ir import Block, Function, Value, replace_uses, uses, walk
from lowering.location import TileError

USUAL = 8
WAYS = (1, 2, 4, 8, 16)
NAMED = ("grouped", "grouped")


def grouped(function: Function) -> None:
    """Takes tiles in groups. TileError `schedule` for a kernel that does not read its number along two axes."""
    group = _chosen(function)
    if group > 1:
        _take_in_groups(function, group)


def may_group(function: Function) -> bool:
    """Whether there is an order of tiles to choose."""
    return _reads_both(function) and ("grouped" in function.attrs or _crosses(function))


def _chosen(function: Function) -> int:
    """How many rows of tiles a group has; 1: there are no groups."""
    named = function.number("grouped", 0)
    loc = function.lines.get(NAMED)
    if named > 1 and not _reads_both(function):
        message = "there is no order of tiles to choose: the kernel does not read block(0) and block(1)"
        raise TileError("schedule", loc or function.loc, message, "tiles of a grid of two axes are grouped")
    if not may_group(function):
        return 1
    rule = named or USUAL
    group: int = function.choices.choose(
        "grouped",
        "grid",
        {str(each): each for each in dict.fromkeys((*WAYS, rule))},
        str(rule),
        loc=loc or function.loc,
        because="one operand hangs on block(0), the other one on block(1): groups read less of both",
        pinned=loc if named else None,
        line="grouped {option}",
    )
    return group


def _reads_both(function: Function) -> bool:
    return {op.attrs["axis"] for op in walk(function.body) if op.spec.of_grid == "block"} >= {0, 1}


def _crosses(function: Function) -> bool:
    """Whether products in loops have operands that hang on one axis of the grid each."""
    users = uses(function.body)
    hang: set[frozenset[int]] = set()
    for loop in walk(function.body):
        if loop.spec.counters:
            for op in loop.regions[0].ops:
                if is_load(op) and feeds_product(op, users):
                    hang.add(frozenset(_axes_of(place_of(op)) & {0, 1}))
    return {frozenset({0}), frozenset({1})} <= hang


def _axes_of(values: list[Value]) -> set[int]:
    """The axes of the grid whose block's number decides these values."""
    todo, seen, found = list(values), set(values), set[int]()
    while todo:
        op = todo.pop().op
        if op is None:
            continue
        if op.spec.of_grid == "block":
            found.add(op.attrs["axis"])
        todo += [v for v in op.operands if v not in seen]
        seen.update(op.operands)
    return found


def _take_in_groups(function: Function, group: int) -> None:
    """The number of a block along both axes, made anew: groups of `group` rows of tiles one after another, and within a
    group one column after another."""
    b, head = Builder(located(function, function.body.ops[0])), Block()
    with b.region(head):
        rows, columns = (b.value("grid_size", axis=axis) for axis in (0, 1))
        row, column = (b.value("block_id", axis=axis) for axis in (0, 1))
        number = b.value("add", row, b.value("mul", column, rows))
        each = b.value("mul", b.index(group), columns)  # tiles of a group
        first = b.value("mul", b.value("floordiv", number, each), b.index(group))
        high = b.value("minimum", b.value("sub", rows, first), b.index(group))
        within = b.value("mod", number, each)
        tile = [b.value("add", first, b.value("mod", within, high)), b.value("floordiv", within, high)]
    made = {}
    for op in walk(function.body):
        if op.spec.of_grid == "block" and op.attrs["axis"] < len(tile):
            made[op.result] = tile[op.attrs["axis"]]
    replace_uses(function.body, made)
    function.body.ops[:0] = head.ops
    function.deals += 1
