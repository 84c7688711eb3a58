"""`l2_group 8`, `persistent 1`, `cluster 2` and the tile order: which tiles each block computes, and when.

**l2_group.** The device starts blocks in the order of the grid's first axis. The blocks that run at the same time then
compute all tile rows, but few tile columns. Together they read nearly all of one operand, which may not fit in the L2
cache. In groups of 8 tile rows, the blocks read about as much of one operand as of the other, and both parts fit. Tiles
are grouped by default if one operand of an MMA in a loop depends only on `block(0)`, and another only on `block(1)`.

**tile_order** (a choice). The device starts blocks in the order of their numbers, and a launch ends with its last
block. `descending` assigns the greatest `block(0)` to the first block. Descending order is the default if the trip
count of a loop grows with `block(0)`, as in causal attention. The longest blocks then start first, and no long block
runs alone at the end. Descending order is an error if blocks wait for other blocks.

**tile_columns** (a choice). In descending order, each tile column (one `block(1)`, such as a head) starts with its
longest blocks. The longest blocks of the last column start late, and would still run when all other blocks are done. So
the order interleaves 4 columns: the longest tiles of all 4 columns start first.

**persistent.** `persistent N` launches only as many blocks as run at the same time, N on each SM. A loop around the
whole kernel computes tiles i, i + B, … in block i of B. The copies of `pipeline` continue from tile to tile. By
default, a kernel is persistent only if TMA can copy all loaded operands of its wgmma. If trip counts differ along a
column, each block computes pairs of tiles (choice `deal`). The first pair in a group of columns is the longest and the
shortest tile, the next pair the second longest and the second shortest, and so on. No tile is assigned at run time.

**cluster.** With TMA copies, the blocks of a cluster compute neighbouring tiles at the same time, along one or two grid
axes. So a block can copy data for other blocks of its cluster (`multicast.py`). All blocks of a cluster must execute
the same iterations. So a block whose tile would be outside the grid repeats the last tile, without storing it.

In the kernel, `block(i)` is still the position of the tile, and `grid(i)` the number of tiles: the compiler recomputes
both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.places import add_to_mask
from dsl.lowering.directives.slices import located, reached
from dsl.lowering.directives.tile_order import TileOrder
from dsl.lowering.directives.tma import LEAST_ROW, TMA
from dsl.lowering.hopper.warpgroup import chain
from dsl.lowering.ir.choices import Forced
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, in_line, replace_uses, uses, walk
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.plugins import Opening
from dsl.lowering.ir.types import INDEX, TileType
from dsl.lowering.known.facts import facts_now
from dsl.lowering.known.forms import ScalableForms
from dsl.lowering.ops import OPS
from dsl.lowering.ops.memory import BONDS, by_threads, space_of, writes
from dsl.lowering.plan.products import are_nested, flaw_of_loops, has_wgmma, is_wgmma
from dsl.lowering.plan.tile_loads import feeds_product, is_load, place_of, row_bytes

USUAL, USUAL_OF_WGMMA, ABREAST = 8, 16, 4
"""Defaults: the tile rows of a group without wgmma, the tile rows of a group with wgmma, and the interleaved tile
columns."""
# Attention with 64 causal heads of 4096 keys has 2048 blocks for 132 SMs. An equal share of the work per SM is time 1.
# If the blocks start column by column, the last block ends at 1.06. With four interleaved columns it ends at 1.00. More
# columns use more of the L2 cache.
TILE = "tile"
"""Name of the loop counter over the tiles of a block, as in `pipeline tile: 2`."""
GROUPS = (1, 2, 4, 8, 16)
MOST = 1024
AT_ONCE = (0, 1, 2, 4)
UNSEEN = "allocates", "checks", "joins", "meets", "exchanges"
"""What an operation does without a visible effect, so that several blocks may do it."""
ORDERS = {"ascending": False, "descending": True}


def grid(function: Function) -> None:
    """Changes which tile each block computes. Raises TileError `schedule` if a line of the schedule is impossible for
    this kernel."""
    cluster = _cluster(function)
    blocks = prod(cluster)
    if function.cluster[1] > 1 and blocks == 1:
        # Clusters of the device lie along one axis. Without shared copies, no tile is assigned by rank.
        message = "a cluster along two axes shares TMA copies, and TMA copies no operands here"
        raise TileError("schedule", _line(function, "cluster"), message, f"cluster {function.blocks_of_cluster}")
    at_once = _blocks_at_once(function, blocks)
    group = max(1, _rows_of_group(function) // cluster[0])  # a row of clusters is several rows of tiles
    falls = _descends(function)
    columns = 1 if group > 1 else _columns_of_group(function, falls)
    # A pair takes the first and the last tile of a group of columns, so the number of columns must be even.
    in_pairs = bool(at_once) and blocks == 1 and columns % 2 == 0 and _deals_pairs(function, falls)
    order = TileOrder(group, falls, columns, in_pairs)
    if at_once:
        _make_persistent(function, at_once, order, cluster)
    elif order.changes or blocks > 1:
        _make_ordered(function, order, cluster)


def may_deal(function: Function) -> bool:
    """Whether the pass `grid` may change which tile a block computes. If so, `dsl verify` compares the results of all
    blocks."""
    persists = bool(function.number("persistent", 0)) or ("persistent" not in function.attrs and may_persist(function))
    is_named = _wished(function, "tile_columns") is not None
    may_order = _growth(function) < 0 or _may_group(function) or _may_descend(function)
    return persists or is_named or may_order or prod(_cluster(function)) > 1


# ---- choices ----


def _rows_of_group(function: Function) -> int:
    """Returns the number of tile rows in a group, or 1 without groups. Raises TileError `schedule` if the schedule
    requests groups, but the kernel does not read both `block(0)` and `block(1)`."""
    named, loc = function.number("l2_group", 0), _line(function, "l2_group")
    if named > 1 and not _reads_both(function):
        message = "there is no order of tiles to choose: the kernel does not read block(0) and block(1)"
        raise TileError("schedule", loc, message, "tiles of a grid of two axes are grouped")
    if not _may_group(function):
        return 1
    usual = USUAL_OF_WGMMA if has_wgmma(function) else USUAL
    rule = named or (1 if _wished(function, "tile_columns") else usual)  # groups of rows exclude groups of columns
    return function.choices.choose(
        "l2_group",
        "grid",
        {str(each): each for each in dict.fromkeys((*GROUPS, rule))},
        str(rule),
        loc=loc,
        because="one operand depends on block(0), the other one on block(1): groups read less of both",
        pinned=loc if named else None,
        line="l2_group {option}",
        opening=Opening(function, _no_group),
    )


def _columns_of_group(function: Function, falls: bool) -> int:
    """Returns the number of interleaved tile columns, or 1 if the blocks start column by column."""
    wished = _wished(function, "tile_columns")
    if wished is not None and wished.option != "1":
        _check_order(function, wished, {0, 1})
    goes_abreast = _may_go_abreast(function, falls)
    if wished is None and not goes_abreast:
        return 1
    rule, why = 1, ""
    if goes_abreast:
        rule, why = ABREAST, "the longest blocks of several columns start first, not those of one"
    options, loc, opening = {str(each): each for each in GROUPS}, function.loc, Opening(function, _no_group)
    return function.choices.choose("tile_columns", "grid", options, str(rule), loc=loc, because=why, opening=opening)


def _may_go_abreast(function: Function, falls: bool) -> bool:
    """Whether the first blocks of each tile column are its longest, so that interleaved columns help."""
    return _growth(function) == (1 if falls else -1) and _reads_both(function) and not _asks(function)


def _deals_pairs(function: Function, falls: bool) -> bool:
    """Whether a persistent block computes long and short tiles alternately."""
    if not _may_go_abreast(function, falls):
        return False
    why = "trip counts differ from tile to tile: each pair of a long and a short one has about as many"
    ways, loc = {"pairs": True, "round_robin": False}, _line(function, "persistent")
    return function.choices.choose("deal", "grid", ways, "pairs", loc=loc, because=why)


def _no_group(value: Any) -> str:
    """Checks the number of rows or columns that a plug-in chose. Returns an error message, or "" if the number is
    valid."""
    return "" if type(value) is int and 1 <= value <= MOST else f"a group has 1 to {MOST} of them"


def _descends(function: Function) -> bool:
    """Whether `block(0)` descends from the first block to the last."""
    if not _may_descend(function):
        return False
    grows, wished = _growth(function) > 0 and not _asks(function), _wished(function, "tile_order")
    if wished is not None and wished.option == "descending":
        _check_order(function, wished, {0})
    rule, why = "ascending", ""
    if grows:
        rule, why = "descending", "a loop has more iterations the greater block(0) is: the longest blocks start first"
    return function.choices.choose("tile_order", "grid", ORDERS, rule, loc=function.loc, because=why)


def _wished(function: Function, kind: str) -> Forced | None:
    """Returns the option that the user forces for the grid's choice `kind`, or None. A forced option applies even if
    the default rule would not consider it."""
    return function.choices.wished(kind, "grid")


def _check_order(function: Function, wished: Forced, axes: set[int]) -> None:
    """Raises TileError `schedule` if the tile order cannot change along these grid `axes`."""
    loc, bond = wished.loc or function.loc, _bond(function)
    if not axes <= _axes_read(function):
        read = " and ".join(f"block({axis})" for axis in sorted(axes))
        message = f"there is no order of tiles to choose: the kernel does not read {read}"
        raise TileError("schedule", loc, message, "the order is of tiles along the axes that the kernel reads")
    if bond is not None:
        message = f"blocks wait for others, or signal that they are done ({bond}), so they start in grid order"
        raise TileError("schedule", loc, message, "leave the line out")


def _may_descend(function: Function) -> bool:
    """Whether the choice `tile_order` exists for this kernel: the user forces it, or a trip count grows with
    `block(0)`."""
    return _wished(function, "tile_order") is not None or (_growth(function) > 0 and not _asks(function))


def _growth(function: Function) -> int:
    """Returns 1 if some trip count grows with `block(0)` and none shrinks. Returns -1 if some trip count shrinks and
    none grows, and 0 in all other cases."""
    known = _Slopes()
    slopes = {known.of_iterations(op) for op in walk(function.body) if op.spec.control.counters} - {0, None}
    return slopes.pop() or 0 if len(slopes) == 1 else 0


class _Slopes(ScalableForms[int]):
    """Computes how a scalar changes if `block(0)` grows: 1 if it grows, -1 if it shrinks, 0 if it stays the same. None
    means unknown."""

    def __init__(self) -> None:
        self.known: dict[Value, int | None] = {}

    def of(self, value: Value) -> int | None:
        op = value.op
        if op is None:
            return 0  # a dim, a scalar, or the counter of an outer loop: equal in all blocks
        if value not in self.known:
            self.known[value] = self.told(value)
            if self.known[value] is None and not op.regions and all(self.of(each) == 0 for each in op.operands):
                self.known[value] = 0
        return self.known[value]

    def of_iterations(self, loop: Op) -> int | None:
        return self._joined(self.of(loop.operands[1]), self.times(loop.operands[0], -1))

    def number(self, op: Op) -> int:
        return 0

    def block(self, op: Op) -> int:
        return int(op.attrs["axis"] == 0)

    def blocks(self, op: Op) -> int:
        return 0

    def added(self, op: Op, sign: int) -> int | None:
        return self._joined(self.of(op.operands[0]), self.times(op.operands[1], sign))

    def divided(self, op: Op) -> int | None:
        by = constant_of(op.operands[1])
        return None if by is None else self.times(op.operands[0], int(by))

    def lesser(self, op: Op) -> int | None:
        return self._joined(*(self.of(each) for each in op.operands))

    greater = lesser

    def converted(self, op: Op) -> int | None:
        return self.of(op.operands[0])

    def times(self, value: Value, factor: int) -> int | None:
        slope = self.of(value)
        return None if slope is None else slope * (factor > 0) - slope * (factor < 0)

    def _joined(self, a: int | None, b: int | None) -> int | None:
        if a is None or b is None or a * b < 0:
            return None
        return a or b


def _line(function: Function, name: str) -> Loc | None:
    return function.lines.get((name, name), function.loc)


def _may_group(function: Function) -> bool:
    """Whether tile rows may be grouped, because of a line of the schedule or by default."""
    return _reads_both(function) and ("l2_group" in function.attrs or (_crosses(function) and not _asks(function)))


def _reads_both(function: Function) -> bool:
    return {0, 1} <= _axes_read(function)


def _axes_read(function: Function) -> set[int]:
    """Returns the axes i for which the kernel reads `block(i)`."""
    return {op.attrs["axis"] for op in walk(function.body) if op.spec.elements.of_grid == "block"}


def _crosses(function: Function) -> bool:
    """Whether loops load two tiles for MMAs, one that depends only on `block(0)`, and one that depends only on
    `block(1)`."""
    users = uses(function.body)
    hang: set[frozenset[int]] = set()
    for loop in walk(function.body):
        if loop.spec.control.counters:
            for op in loop.regions[0].ops:
                if is_load(op) and feeds_product(op, users):
                    hang.add(frozenset(_axes_of(place_of(op)) & {0, 1}))
    return {frozenset({0}), frozenset({1})} <= hang


def _axes_of(values: list[Value]) -> set[int]:
    """Returns the axes i for which some value of `values` depends on `block(i)`."""
    makers = [value.op for value in reached(values, lambda value: value.op.operands if value.op is not None else ())]
    return {op.attrs["axis"] for op in makers if op is not None and op.spec.elements.of_grid == "block"}


def _bond(function: Function) -> str | None:
    """Finds an operation that waits for other blocks, or that signals the end of a block. Returns its name and line for
    messages, or None if there is no such operation."""
    for op in walk(function.body):
        if any(e.kind in BONDS for e in op.spec.access.effects(op)):
            return f"'{op.name}'{in_line(op)}"
    return None


def _asks(function: Function) -> bool:
    """Whether a block may wait for another block. If so, the defaults keep the order in which blocks start."""
    # A block that polls a flag of an earlier block must not start before that block. On a full GPU, it would wait
    # forever for a block that has no room to start. Blocks poll flags by volatile loads, or by atomics whose result is
    # used.
    users = uses(function.body)
    return _bond(function) is not None or any(
        (op.attrs.get("cache") == "volatile" and op.spec.access.kind == "read" and space_of(op.operands[0]) == "global")
        or (op.spec.access.kind == "update" and any(users.get(result) for result in op.results))
        for op in walk(function.body)
    )


def _cluster(function: Function) -> tuple[int, int]:
    """Returns the extents of a cluster along two grid axes. Returns (1, 1) if the blocks of a cluster do not compute
    neighbouring tiles."""
    # Only TMA copies can be shared within a cluster. Blocks that wait for other blocks must keep their own tiles.
    is_tma = TMA in function.by_subject("stage", str).values() or _boxes_feed_wgmma(function)
    reads = {axis for axis, blocks in enumerate(function.cluster) if blocks > 1} <= _axes_read(function)
    return function.cluster if is_tma and reads and _bond(function) is None else (1, 1)


def _boxes_feed_wgmma(function: Function) -> bool:
    """Whether the function uses wgmma, and TMA can copy each loaded operand of wgmma."""
    products = [op for op in walk(function.body) if is_wgmma(op)]
    if not products:
        return False
    loads = [ops[-1] for op in products for value in op.operands[:2] if (ops := chain(value)) and is_load(ops[-1])]
    copying = [op for op in walk(function.body) if op.spec.control.counters and set(loads) & set(op.regions[0].ops)]
    if not loads or flaw_of_loops(function, copying) is not None or not are_nested(copying):
        return False
    facts = facts_now(function)
    return all("box" in load.attrs and row_bytes(facts, load) >= LEAST_ROW for load in loads)


def may_persist(function: Function) -> bool:
    """Whether blocks are persistent by default. In a persistent block, producer warps copy the next tile's operands
    while consumer warps store the current tile."""
    is_whole = all(parts == 1 for parts in function.by_subject("split", int).values())
    may_stay = is_whole and function.number("blocks_per_sm", 0) < 2 and _boxes_feed_wgmma(function)
    return may_stay and bool(_axes_read(function)) and not _asks(function)


def _blocks_at_once(function: Function, blocks: int) -> int:
    """Returns the number of blocks per SM of a persistent kernel, or 0 for a launch with one block per tile. Raises
    TileError `schedule` if the schedule requests `persistent`, but the kernel cannot be persistent."""
    named, loc = function.number("persistent", 0), _line(function, "persistent")
    is_named = "persistent" in function.attrs
    if not named and (is_named or not may_persist(function)):
        return 0
    bond = _bond(function)
    if bond is not None:
        message = f"blocks wait for others or signal that they are done ({bond}): each needs its own tile"
        raise TileError("schedule", loc, message, "a persistent kernel's blocks take tiles one after another")
    if function.blocks_of_cluster > blocks:
        message = "persistent blocks form clusters only if TMA copies their operands, and here it does not"
        raise TileError("schedule", loc, message, "cluster 1; or rows at multiples of 16 bytes, for TMA")
    return function.choices.choose(
        "persistent",
        "grid",
        {str(each): each for each in dict.fromkeys((*AT_ONCE, named))},
        str(named if is_named else 1),
        loc=loc,
        because="the schedule says so" if is_named else "a tile is stored while copies for the next one arrive",
        pinned=loc if is_named else None,
        line="persistent {option}",
        retreats=(("persistent", "0", ("schedule",)),),
    )


# ---- the rewrite ----


def _make_ordered(function: Function, order: TileOrder, cluster: tuple[int, int]) -> None:
    """Inserts code at the start of the kernel that selects the block's tile. Each block still computes one tile."""
    b, head, blocks = Builder(located(function, function.body.ops[0])), Block(), prod(cluster)
    with b.region(head):
        rows, columns = (b.value("grid_size", axis=axis) for axis in (0, 1))
        tile = [b.value("block_id", axis=axis) for axis in (0, 1)]
        sizes: list[Value] = []
        if blocks > 1:
            line, axes = _line(function, "cluster"), 1 if cluster[1] == 1 else 2
            sizes = [in_ir(b, function, tree, line) for tree in function.grid[:axes]]
            rows, tile[0] = _clusters(b, sizes[0], cluster[0]), b.value("cluster_id", axis=0, blocks=blocks)
        if order.rows > 1 or order.columns > 1:
            number = b.value("add", tile[0], b.value("mul", tile[1], rows))
            tile = order.tile(b, number, rows, columns)
        else:
            tile[0] = order.row(b, tile[0], rows)
        _take_ranks(b, function, tile, sizes, cluster)
    replace_grid(function, dict(enumerate(tile)), dict(enumerate(sizes)))
    if blocks > 1:  # all blocks of a cluster are along x
        function.grid[0] = ["*", ["cdiv", function.grid[0], cluster[0]], blocks]
    if cluster[1] > 1:
        function.grid[1] = ["cdiv", function.grid[1], cluster[1]]
    function.body.ops[:0] = head.ops
    function.deals += 1


def _clusters(b: Builder, tiles: Value, blocks: int) -> Value:
    """Returns the number of clusters along an axis with `tiles` tiles. Each cluster computes `blocks` of these
    tiles."""
    return tiles if blocks == 1 else b.cdiv(tiles, b.index(blocks))


def _take_ranks(
    b: Builder, function: Function, tile: list[Value], sizes: list[Value], cluster: tuple[int, int]
) -> None:
    """Converts `tile`, the position of a cluster, to the position of the block's own tile. `sizes` contains the number
    of tiles along each axis. A block outside the grid repeats the last tile, without storing it."""
    found: Value | None = None
    for axis, blocks in enumerate(cluster):
        if blocks == 1:
            continue
        rank = b.value("cluster_rank", axis=axis, blocks=blocks, apart=prod(cluster[:axis]))
        number, tiles = b.value("add", b.value("mul", tile[axis], b.index(blocks)), rank), sizes[axis]
        tile[axis], known = number, constant_of(tiles)
        if known is None or int(known) % blocks:
            tile[axis] = b.value("minimum", number, b.value("sub", tiles, b.index(1)))
            there = b.value("lt", number, tiles)
            found = there if found is None else b.value("and", found, there)
    if found is not None:
        for op in filter(has_effect, walk(function.body)):
            message = f"a block of a cluster that has no tile of its own would do '{op.name}', too"
            raise TileError("schedule", _line(function, "cluster"), message, "cluster 1")
        write_where(function, found)


def has_effect(op: Op) -> bool:
    """Whether an operation has a visible effect that no mask can disable, such as a print."""
    spec = op.spec
    return spec.keep and not (spec.control.flows or spec.control.ends or spec.orders or spec.acts in UNSEEN)


def write_where(function: Function, there: Value, accesses: Callable[[Op], bool] = by_threads) -> None:
    """Adds the condition `there` to the mask of each of these accesses to a tensor that the kernel writes."""
    written = {op.operands[0] for op in walk(function.body) if writes(op) and space_of(op.operands[0]) == "global"}
    for block in blocks_of(function.body):
        for op in list(block.ops):
            if not by_threads(op) or op.operands[0] not in written or not accesses(op):
                continue
            b, before = Builder(located(function, op)), Block()
            with b.region(before):
                add_to_mask(b, op, there)
            if "box" in op.attrs:  # a TMA store has no mask, only one condition
                op.operands.append(there)
                op.attrs["has"] = [*op.attrs["has"], "there"]
            at = block.ops.index(op)
            block.ops[at:at] = before.ops


def _make_persistent(function: Function, at_once: int, order: TileOrder, cluster: tuple[int, int]) -> None:
    """Puts a loop over tiles around the kernel. The loop starts at the block's own number, and its step is the number
    of blocks. With clusters, it uses the cluster's number and the number of clusters instead."""
    body, blocks = function.body, prod(cluster)
    b = Builder(located(function, body.ops[0]))
    before, inside = Block(), Block()
    with b.region(before):
        sizes = [in_ir(b, function, tree, _line(function, "persistent")) for tree in function.grid]
        first, step = b.value("block_id", axis=0), b.value("grid_size", axis=0)
        if blocks > 1:
            first, step = b.value("cluster_id", axis=0, blocks=blocks), b.value("floordiv", step, b.index(blocks))
        apart = _apart(function)
        if apart > 1:  # the same number, which is known to be a multiple
            step = b.value("mul", b.value("floordiv", step, b.index(apart)), b.index(apart))
        clusters = [_clusters(b, *each) for each in zip(sizes, (*cluster, 1), strict=True)]
        count = order.tiles_of_block(b, first, step, clusters)
        zero, one = b.index(0), b.index(1)
    turn = Value(TileType((), INDEX), name=TILE)
    with b.region(inside):
        tile = order.tile_of_block(b, turn, first, step, clusters)
        _take_ranks(b, function, tile, sizes, cluster)
    replace_grid(function, dict(enumerate(tile)), dict(enumerate(sizes)))
    kept = [op for op in body.ops if op.spec.allocates]
    rest = [op for op in body.ops if not op.spec.allocates]
    end = Op(OPS["yield"], [], [], {}, (), b.loc)
    loop = Block([turn])
    loop.ops = [*inside.ops, *rest, end]
    # `unroll` is 1 because the body is the whole kernel.
    made = Op(OPS["for"], [zero, count, one], [], {"unroll": 1, "tiles": True}, [loop], b.loc)
    body.ops = [*kept, *before.ops, made]
    rows, columns, planes = (
        ["cdiv", tiles, n] if n > 1 else tiles for tiles, n in zip(function.grid, (*cluster, 1), strict=True)
    )
    tiles = ["*", ["*", rows, columns], planes]
    at_most = _most(at_once, blocks)
    if apart > 1:
        at_most = ["*", ["max", ["//", at_most, apart], 1], apart]
        tiles = ["*", ["cdiv", tiles, apart], apart]
    # There are at most as many clusters as tiles: one without a tile would start for nothing.
    function.grid = [["min", tiles, at_most], 1, 1]
    if blocks > 1:
        function.grid[0] = ["*", function.grid[0], blocks]
    function.deals += 1


def _most(at_once: int, blocks: int) -> Any:
    """Returns the number of clusters of this many blocks that run at once, with `at_once` blocks on each SM."""
    most: Any = ["*", "sms", at_once]  # the launch knows the number of SMs that such clusters use
    return most if blocks == 1 else ["max", ["//", most, blocks], 1]


def _apart(function: Function) -> int:
    """Returns of what number of tiles those of a persistent block are multiples apart. Rows that begin anywhere then
    begin at the same place of an access in all tiles of a block, so that what they share is loaded once."""
    return max((1, *function.by_subject("align", int).values()))


def grid_of_clusters(function: Function, blocks: int) -> Any:
    """Returns the extent of the grid's first axis if a cluster of this many blocks computes what a block computes."""
    is_persistent = any(op.attrs.get("tiles") for op in function.body.ops)

    def in_clusters(tree: Any) -> Any:
        if not isinstance(tree, list):
            return tree
        return _most(tree[2], blocks) if tree[:2] == ["*", "sms"] else [tree[0], *map(in_clusters, tree[1:])]

    return ["*", in_clusters(function.grid[0]) if is_persistent else function.grid[0], blocks]


def replace_grid(function: Function, numbers: Mapping[int, Value], sizes: Mapping[int, Value]) -> None:
    """Replaces `block(i)` by `numbers[i]` and `grid(i)` by `sizes[i]` in the kernel. Axes without an entry stay as they
    are."""
    made = {}
    for op in walk(function.body):
        known = {"block": numbers, "blocks": sizes}.get(op.spec.elements.of_grid, {})
        if known and op.attrs["axis"] in known:
            made[op.result] = known[op.attrs["axis"]]
    replace_uses(function.body, made)


IN_IR = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod", "min": "minimum", "max": "maximum"}
"""Maps each operator of a grid expression to the IR operation on indices."""


def in_ir(b: Builder, function: Function, tree: Any, loc: Loc | None) -> Value:
    """Builds operations that compute the grid expression `tree` within the kernel. Raises TileError `schedule` at `loc`
    if a term is known only at the launch."""
    if isinstance(tree, str):
        tree = function.constants.get(tree, tree)
    if isinstance(tree, int) and not isinstance(tree, bool):
        return b.index(tree)
    if isinstance(tree, str):
        known = {p.name: p.value for p in function.params if p.kind == "scalar"} | function.dims
        value = known.get(tree)
        if value is not None and value.dtype.is_int:
            return value if value.dtype is INDEX else b.value("cast", value, to=INDEX, saturate=False, rounding=None)
    if isinstance(tree, list):
        parts = [in_ir(b, function, each, loc) for each in tree[1:]]
        if tree[0] == "cdiv":
            return b.cdiv(parts[0], parts[1])
        if tree[0] in IN_IR and len(parts) > 1:
            made = parts[0]
            for part in parts[1:]:
                made = b.value(IN_IR[tree[0]], made, part)
            return made
    text = tree[0] if isinstance(tree, list) else tree
    message = f"the grid is computed with '{text}', which the launch knows and the kernel does not"
    raise TileError("schedule", loc, message, "dims, integers and their sums and quotients")
