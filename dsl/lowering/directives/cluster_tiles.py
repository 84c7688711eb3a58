"""`layout v: …, blocks [1, 4]`: the blocks of a cluster compute tile v together, and all values that depend on it.

    v = load x[r, 0 : 4096]           v = load x[r, the columns of this block]
    top = max(v)                →     top = max(cluster_gather(max(v)))
    y[r, 0 : 4096] = v - top          y[r, the columns of this block] = v - top

The tile is computed in parts (`loop.py`), and the blocks take turns: block b of four computes the parts b, b + 4, b +
8, … Without a `loop` line, each block has one part. A reduction along the axis first reduces the parts of each block.
The blocks exchange the results by distributed shared memory, and each of them combines all results, in the same order.
If rows are unaligned, the first block also computes their edges.

The first block of a cluster does everything else that is visible, such as storing a sum of the tile. The grid's first
axis becomes 4 times as long, and `block(0)` is the number of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.grid import grid_of_clusters, has_effect, replace_grid, write_where
from dsl.lowering.directives.slices import around, inside, located
from dsl.lowering.directives.subjects import named_tiles
from dsl.lowering.directives.wide import WideRegion, WideSubject
from dsl.lowering.ir.function import Block, Function, Op, Value, in_line, uses, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.schedule import Pin, extents_of
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import I1
from dsl.lowering.ops.memory import space_of, writes
from dsl.lowering.ops.threads import exchanges_in


def divided(function: Function) -> dict[str, tuple[Pin, tuple[int, ...]]]:
    """Maps each value that several blocks compute together to its `layout` line and the number of blocks along each
    axis. Values in branches that the constants do not take are left out."""
    pins = {n: pin for n, pin in function.pins.items() if "blocks" in pin.parts and named_tiles(function, n)}
    found = {name: (pin, extents_of(pin, "blocks", len(pin.parts["blocks"]))) for name, pin in pins.items()}
    return {name: each for name, each in found.items() if prod(each[1]) > 1}


def may_deal(function: Function) -> bool:
    """Whether several blocks compute one tile together. If so, `dsl verify` compares the results of all blocks."""
    return bool(divided(function))


def cluster_tiles(function: Function, target: Target) -> None:
    """Lets each cluster compute what a block computes. All blocks of a cluster then do the same, but only the first one
    writes to tensors, until the tiles are computed in parts. Raises TileError if blocks cannot compute a tile
    together."""
    known = divided(function)
    if not known:
        return
    counts = {prod(blocks): name for name, (_, blocks) in known.items()}
    for name, (pin, blocks) in known.items():
        if flaw := target.flaw_of_clusters:
            raise TileError("target", pin.loc, flaw, "blocks [1, where(gpu_arch >= 90, 4, 1)]")
        axes = [axis for axis, count in enumerate(blocks) if count > 1]
        if len(axes) > 1 or len(counts) > 1:
            several = f"along {len(axes)} axes" if len(axes) > 1 else f"in {' and '.join(map(str, counts))} parts"
            message = f"tiles of '{function.name}' are divided among blocks {several}"
            raise TileError("layout", pin.loc, message, "one number along one axis for all tiles")
        _check_kernel(function, name, pin)
        _check_parts(function, name, pin, axes[0], prod(blocks))
    form_clusters(function, next(iter(counts)))


def _check_kernel(function: Function, name: str, pin: Pin) -> None:
    """Raises TileError `schedule` for what the blocks of a cluster would do differently from one block."""

    def refuse(what: str, hint: str) -> TileError:
        return TileError("schedule", pin.loc, f"blocks cannot compute '{name}' together: {what}", hint)

    if function.blocks_of_cluster > 1 or function.workspaces:
        raise refuse("they share the grid's tiles in another way", "no 'cluster' or 'split' line")
    ops = walk(function.body)
    for op in ops:
        if op.spec.product:
            raise refuse(f"the kernel has a matrix product{in_line(op)}", "a kernel without")
    flaw = flaw_of_sharing(function, ops)
    if flaw is not None:
        raise refuse(*flaw)


def flaw_of_sharing(function: Function, ops: Sequence[Op]) -> tuple[str, str] | None:
    """Returns the reason why the blocks of a cluster cannot do these operations together, and a hint, or None."""
    users, everything = uses(function.body), walk(function.body)
    accesses = [op for op in everything if op.spec.access.touches]
    for op in ops:
        if op.spec.access.kind == "update" and any(users.get(result) for result in op.results):
            return f"only the first block gets what '{op.name}' returns{in_line(op)}", "leave the result unused"
        if has_effect(op):
            return f"each of them would do '{op.name}'{in_line(op)}", "leave it out"
        # Only barriers of the block order accesses, and each block writes its own part.
        others = [each for each in accesses if each is not op and op.operands[:1] == each.operands[:1]]
        if writes(op) and others and space_of(op.operands[0]) == "global":
            message = f"'{op.operands[0].name}' is written{in_line(op)} and accessed again{in_line(others[0])}"
            return message, "one access to each tensor that is written"
    return None


def _check_parts(function: Function, name: str, pin: Pin, axis: int, count: int) -> None:
    """Adds a `loop` line for a tile without one, in the longest parts that are powers of two. Raises TileError for
    parts that the blocks cannot share."""
    tiles, lines = named_tiles(function, name), dict(function.by_subject("loop", tuple))
    rank = len(tiles[0].shape)
    extents_of(pin, "blocks", rank)
    along, part, static = lines.get(name, (axis, None, True))
    if along != axis:
        message = f"{count} blocks share '{name}' along axis {axis}, and its 'loop' goes along axis {along}"
        raise TileError("schedule", pin.loc, message, f"blocks {[count if at == along else 1 for at in range(rank)]}")
    extent = tiles[0].shape[axis]
    each = extent // count
    least = each & -each  # the longest parts that are a power of two
    if extent % ((part or 1) * count):
        message = f"{count} blocks cannot share '{name}', {extent} elements along axis {axis}"
        message += f", in parts of {part}" if part else ""
        line = f"loop {name}, {axis}: {'static ' * static}{least}"
        raise TileError("schedule", pin.loc, message, f"{line}, or fewer blocks" if part and least else "fewer blocks")
    if name not in lines:
        lines[name] = axis, max(1, least), True
        function.attrs["loop"] = dict(lines)
        function.lines["loop", name] = pin.loc


def form_clusters(function: Function, count: int) -> None:
    """Puts `count` blocks in place of each block. All do the same, but only the first one of them writes to
    tensors."""
    b, head = Builder(located(function, function.body.ops[0])), Block()
    with b.region(head):
        b.op("cluster_arrive")
        is_first = b.value("eq", b.value("cluster_rank", axis=0, blocks=count, apart=1), b.index(0))
        number = b.value("cluster_id", axis=0, blocks=count)
        size = b.value("floordiv", b.value("grid_size", axis=0), b.index(count))
    write_where(function, is_first, writes)
    replace_grid(function, {0: number}, {0: size})
    function.body.ops[:0] = head.ops
    function.grid[0] = grid_of_clusters(function, count)
    function.attrs["cluster"] = (count, 1)
    function.deals += 1


def first_block(function: Function) -> Value | None:
    """Returns the flag that is true in the first block of a cluster whose blocks compute tiles together, if any."""
    # The names of `layout` lines do not tell: once a named tile is computed in parts, it may be gone.
    if not any(op.spec.acts == "exchanges" for op in function.body.ops):
        return None
    ranks = {op.result for op in function.body.ops if op.spec.elements.of_grid == "rank"}
    made = (op.results[0] for op in function.body.ops if op.results and ranks.intersection(op.operands))
    return next((value for value in made if value.dtype is I1), None)


def sharing_blocks(region: WideRegion) -> int:
    """Returns the number of blocks that compute the tiles of a region together."""
    return max((count for count, _ in _counts(region)), default=1)


def _counts(region: WideRegion) -> Iterator[tuple[int, WideSubject]]:
    known = divided(region.function)
    if region.given is not None:
        yield region.given.sharing, region.about
    for value, axis in region.axes.items():
        if value.name in known:
            pin, blocks = known[value.name]
            yield blocks[axis] if axis < len(blocks) else 1, WideSubject(value.name, axis, pin.loc)


def parts_of_block(region: WideRegion, part: int) -> tuple[int, int]:
    """Returns the number of blocks that compute the tiles of a region together, and the number of parts of each block.
    Raises TileError `schedule` if the region is no part of the kernel's straight code, or if the blocks cannot share
    the parts equally."""
    parts = region.extent // part
    count, about = max(_counts(region), key=lambda each: each[0], default=(1, region.about))
    if count > 1 and not _is_run_by_all(region):
        raise about.refused("it stands in a branch or a while loop, and blocks exchange values", "blocks of 1")
    if parts % count:
        message = f"{count} blocks cannot share {parts} parts of {part} elements equally"
        raise about.refused(message, f"an extent that is a multiple of {part * count}")
    return count, parts // count


def meet(function: Function) -> None:
    """Lets the blocks of each cluster wait for each other before their first exchange, and at the end, if an exchange
    is in a loop. They arrive for the latter right behind their last exchange: an arrival waits for all stores before
    it, and results are stored behind it."""
    body, exchanges = function.body, exchanges_in(function.body)
    if not exchanges:
        return
    b, chosen = Builder(located(function, body.ops[0])), set(exchanges)
    with b.region(Block()) as made:
        for name in ("cluster_wait", "cluster_leave", "cluster_wait"):
            b.op(name)
    places = [at for at, op in enumerate(body.ops) if not chosen.isdisjoint((op, *inside(op)))]
    wait, leave, last = made.ops
    if any(each.attrs.get("again") for each in exchanges):
        body.ops.append(last)
        body.ops.insert(places[-1] + 1, leave)
    body.ops.insert(places[0], wait)


def _is_run_by_all(region: WideRegion) -> bool:
    """Whether all blocks of a cluster run a region equally often: it stands in loops that count, or in none."""
    if region.loop is None:
        return region.block is region.function.body
    return all(op.spec.control.counters for op in around(region.function, region.loop))


def check_divided(function: Function) -> None:
    """Raises TileError `schedule` for a `layout` line with `blocks` whose tile is not computed in parts."""
    ranks = [op for op in walk(function.body) if op.spec.elements.of_grid == "rank"]
    for name, (pin, blocks) in divided(function).items():
        if len(ranks) < 2:
            message = f"'{name}' cannot be divided among {prod(blocks)} blocks: it is not computed in parts"
            raise TileError("schedule", pin.loc, message, "a tile that is loaded, stored or reduced along this axis")
