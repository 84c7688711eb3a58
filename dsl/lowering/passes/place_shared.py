"""Assigns each shared tile an offset in the dynamic shared memory of the block."""

from __future__ import annotations

from collections.abc import Iterable

from dsl.lowering.hopper.boxes import BOX_ALIGN
from dsl.lowering.ir.function import Block, Function, Op
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ops import OPS
from dsl.lowering.plan.lifetimes import Lifetimes, members
from dsl.lowering.shared.shared_map import MOST_ALIGNMENT, period

ALIGN = 16  # bytes: the widest access of a thread, and the widest `cp.async`


def place_shared(function: Function, target: Target) -> None:
    """Sets `offset` (bytes) on each `shared_alloc`, and the function's `shared_bytes` and `shared_align`.

    The offset of a tile is a multiple of 16 bytes (128 for TMA boxes) and of the period of its swizzle. Two tiles share
    bytes under two conditions: the last use of one tile is before the first use of the other, and existing barriers
    order their accesses. In two cases, barriers are added so that more tiles can share bytes: the block does not fit
    otherwise, or more blocks then fit on a multiprocessor. With `barriers manual`, no barriers are added. Raises
    TileError `shared` if the tiles do not fit.
    """
    lives = Lifetimes(function)
    placed, total = _placed(lives, [a | b for a, b in zip(lives.apart, lives.unordered, strict=True)])
    if len(lives.tiles) > 1:
        closer, least = _placed(lives, lives.apart)
        ways = {"joined": (placed, total), "apart": _placed(lives, [(1 << len(lives.tiles)) - 1] * len(lives.tiles))}
        if function.word("barriers") != "manual":
            ways["closer"] = closer, least
        # `joined` stays an option even if it does not fit: the rule may select it, and the error below then reports its
        # bytes.
        fitting = {name: way for name, way in ways.items() if way[1] <= target.shared or name == "joined"}
        # A barrier costs time, so it is added only where the saved bytes matter. An example is attention with heads of
        # 128. If the result has bytes of its own, one block of four warps fits on a multiprocessor. If a barrier lets
        # the result reuse the bytes of the keys, two blocks fit.
        few = not target.has_enough(function.threads, total)
        wanted = total > target.shared or (few and target.blocks(least) > target.blocks(total))
        rule, why = "joined", "tiles share bytes where barriers order their accesses anyway"
        if wanted and "closer" in fitting:
            rule, why = "closer", "barriers are added between accesses of tiles that share bytes: more blocks fit so"
        placed, total = function.choices.choose(
            "place",
            "shared",
            fitting,
            rule,
            because=why,
            costs={name: way[1] for name, way in ways.items()},
            unit="bytes of shared memory",
        )
        if placed is closer:
            _order(function, placed)
    for op, offset in placed.items():
        op.attrs["offset"] = offset
    function.attrs["shared_bytes"] = total
    function.attrs["shared_align"] = min(max(map(_align, placed), default=ALIGN), MOST_ALIGNMENT)
    if total > target.shared:
        message = f"the kernel needs {total} bytes of shared memory; {target.arch} has {target.shared} a block"
        raise _shallower(function, target, total, message) or _smaller(placed, message)


def _stages(op: Op) -> int:
    type = op.attrs["type"]
    return type.shape[0] if type.ring else 1


def _smaller(placed: Iterable[Op], message: str) -> TileError:
    largest = max(placed, key=lambda op: op.attrs["type"].bytes)
    hint = f"the largest tile is {largest.attrs['type']} with {largest.attrs['type'].bytes} bytes"
    return TileError("shared", largest.loc, message, hint)


def _shallower(function: Function, target: Target, total: int, message: str) -> TileError | None:
    """Returns an error at a `pipeline` line, whose hint contains the number of stages that fits. Returns None if no
    line has too many stages."""
    for name, stages in function.by_subject("pipeline", int).items():
        rings = [op.attrs["type"] for op in function.body.ops if op.spec.allocates and _stages(op) == stages]
        each = sum(type.bytes for type in rings) // max(stages, 1)
        fits = stages - -(-(total - target.shared) // each) if each else 0
        if stages > 1 and fits >= 1:
            return TileError("shared", function.lines.get(("pipeline", name)), message, f"pipeline {name}: {fits}")
    return None


def _align(tile: Op) -> int:
    least = BOX_ALIGN if tile.attrs["type"].fixed else ALIGN
    return max(least, period(tile.attrs["type"].swizzle))


def _placed(lives: Lifetimes, apart: list[int]) -> tuple[dict[Op, int], int]:
    """Places each tile at the lowest free bytes. For each tile, `apart` contains the set of tiles that must not share
    bytes with it. Returns the offsets and the total number of bytes."""
    offsets: dict[int, int] = {}
    # Tiles with the longest period come first: a tile that needs a multiple of 1024 would leave a gap behind a tile of
    # 16 bytes.
    for i in sorted(range(len(lives.tiles)), key=lambda i: -_align(lives.tiles[i])):
        tile = lives.tiles[i]
        offset = 0
        for start, end in sorted(_bytes(lives.tiles[j], offsets[j]) for j in members(apart[i]) if j in offsets):
            if offset + tile.attrs["type"].bytes <= start:
                break
            offset = max(offset, -(-end // _align(tile)) * _align(tile))
        offsets[i] = offset
    placed = {lives.tiles[i]: offset for i, offset in offsets.items()}
    return placed, max((_bytes(tile, offset)[1] for tile, offset in placed.items()), default=0)


def _bytes(tile: Op, offset: int) -> tuple[int, int]:
    return offset, offset + tile.attrs["type"].bytes


def _order(function: Function, placed: dict[Op, int]) -> None:
    """Adds a barrier before each access to bytes that another tile used before, unless a barrier already orders the two
    accesses."""
    lives = Lifetimes(function)
    spans = [_bytes(tile, placed[tile]) for tile in lives.tiles]
    joint = [
        sum(1 << j for j, (low, high) in enumerate(spans) if j != i and low < end and start < high)
        for i, (start, end) in enumerate(spans)
    ]
    # One barrier at a time: a barrier may order later accesses, too, so lifetimes are recomputed after each barrier.
    while (found := _first_unordered(function.body, lives, joint)) is not None:
        block, op = found
        block.ops.insert(block.ops.index(op), Op(OPS["barrier"], [], [], {"scope": "block"}, (), op.loc))
        lives = Lifetimes(function)


def _first_unordered(block: Block, lives: Lifetimes, joint: list[int]) -> tuple[Block, Op] | None:
    for op in block.ops:
        if any(met & joint[tile] for tile, met in lives.needs.get(op, {}).items()):
            return block, op
        for region in op.regions:
            if (found := _first_unordered(region, lives, joint)) is not None:
                return found
    return None
