"""Puts barriers where a walk needs them."""

from __future__ import annotations

from lowering.ir import Block, Op
from lowering.location import Loc
from lowering.ops import OPS
from lowering.passes.barriers.state import State
from lowering.passes.barriers.threads import Scope
from lowering.passes.barriers.walking import Need, Order, Walk

BARRIER = OPS["barrier"]
Placed = tuple[Block, Op]
"""A barrier, and the block that it stands in."""


def barrier(scope: Scope, loc: Loc | None) -> Op:
    return Op(BARRIER, [], [], {"scope": scope}, (), loc)


def insert(order: Order) -> list[Placed]:
    """Puts a barrier before each access that needs one. TileError `hazard` where none can stand, or copies are in
    flight."""
    inserted: list[Placed] = []

    def needed(need: Need) -> None:
        made = barrier(need.scope, need.op.loc)
        order.steps.insert(need.block, made, need.op)
        inserted.append((need.block, made))

    Walk(order, needed).block(order.steps.function.body, State())
    order.copies.check_waits()
    return inserted
