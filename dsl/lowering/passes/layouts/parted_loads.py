"""Masks the loads in branches and loops whose condition is a tile, if a thread holds several elements of the condition.

A thread enters such a branch if the condition is true for at least one of its elements. The thread must not load the
other elements, because their addresses may be out of bounds. So the condition is added to the masks of the loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Protocol

from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ir.types import I1, TileType
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.ops import OPS, operand
from dsl.lowering.ops.memory import space_of, writes


class Inserted(Protocol):
    """The attributes of `Rebuilding` that this module uses."""

    current: Block
    home: dict[Value, Block]
    layouts: dict[Value, Layout]


def obstacle(function: Function, load: Op, shape: tuple[int, ...]) -> str | None:
    """Returns the reason why a load cannot be in a branch whose condition is a tile of `shape`. Returns None if it can
    be.

    The load must load one element for each element of the condition, or one element for all of them. The loaded memory
    must not change. The condition of an element that has left a loop is computed again, and must have the same result.
    """
    memory, own = load.operands[0], load.result.tile.shape
    if load.attrs["cache"] == "volatile":
        return f"loads '{memory.name}' anew each time"
    if space_of(memory) == "global" and any(memory in op.operands for op in walk(function.body) if writes(op)):
        return f"loads '{memory.name}', which the kernel writes,"
    if own and prod(own) != prod(shape):
        return f"loads {prod(own)} elements of '{memory.name}', and decides about {prod(shape)},"
    return None


def mask_loads(a: Inserted, op: Op, condition: Value, layout: Layout) -> None:
    """Adds the condition of a branch or loop to the masks of the loads inside. `layout` is the layout of the
    condition."""
    if not op.spec.control.loops:
        for region, spec in zip(op.regions, (None, OPS["not"]), strict=True):
            for block, load in list(_loads(region)):
                flag = condition if spec is None else _before(a, block, load, Op(spec, [condition], [condition.type]))
                _mask(a, block, load, flag, layout)
        return
    # The first region of a loop computes the condition. Loads in this region need no mask: an element that is done
    # loads again what it has loaded before.
    loads = list(_loads(op.regions[1]))
    if not loads:
        return
    true = Op(OPS["constant"], [], [condition.type], {"value": True, "dtype": I1, "shape": condition.tile.shape})
    true.loc = op.loc
    a.home[true.result] = a.current
    op.operands.append(true.result)
    going = [Value(condition.type) for _ in op.regions]
    for region, arg in zip(op.regions, going, strict=True):
        region.args.append(arg)
        a.home[arg] = region
    op.regions[0].ops[-1].operands.append(condition)
    op.regions[1].ops[-1].operands.append(going[1])
    op.results.append(Value(condition.type, op))
    for value in (*going, op.results[-1]):
        a.layouts[value] = layout
    for block, load in loads:
        _mask(a, block, load, going[1], layout)


def _loads(region: Block) -> Iterator[tuple[Block, Op]]:
    """Yields the loads of tiles in a region, each with the block that contains it."""
    for op in region.ops:
        if op.spec.access.kind == "read" and op.result.tile.shape:
            yield region, op
        for inner in op.regions:
            yield from _loads(inner)


def _mask(a: Inserted, block: Block, load: Op, flag: Value, layout: Layout) -> None:
    shape, mask = load.result.tile.shape, operand(load, "mask")
    if flag.tile.shape != shape:
        flag = _before(a, block, load, Op(OPS["reshape"], [flag], [TileType(shape, I1)], {"shape": shape}))
        a.layouts[flag] = layout.reshape(shape)
    if mask is None:
        load.operands.append(flag)
        load.attrs = {**load.attrs, "has": [*load.attrs["has"], "mask"]}
        return
    joined = _before(a, block, load, Op(OPS["and"], [mask, flag], [TileType(shape, I1)]))
    a.layouts[joined] = layout.reshape(shape)
    load.operands[load.attrs["has"].index("mask")] = joined


def _before(a: Inserted, block: Block, load: Op, op: Op) -> Value:
    op.loc = load.loc
    block.ops.insert(block.ops.index(load), op)
    a.home[op.result] = block
    return op.result
