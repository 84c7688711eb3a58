"""Inserts barriers where a walk needs them."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.lowering.ir.function import Block, Op
from dsl.lowering.ops import OPS
from dsl.lowering.passes.barriers.state import State
from dsl.lowering.passes.barriers.threads import Scope
from dsl.lowering.passes.barriers.walking import BarrierWalk, Need, Order

BARRIER = OPS["barrier"]


@dataclass(frozen=True, slots=True)
class Placed:
    """A barrier in a block, before one of its operations. need: what it was inserted for."""

    block: Block
    barrier: Op
    before: Op
    need: Need


def placed(order: Order, block: Block, before: Op, scope: Scope, need: Need) -> Placed:
    """Inserts a new barrier before an operation."""
    barrier = Op(BARRIER, [], [], {"scope": scope}, (), before.loc)
    order.steps.insert(block, barrier, before)
    return Placed(block, barrier, before, need)


def insert(order: Order) -> list[Placed]:
    """Inserts a barrier before each access that needs one. TileError `hazard` where none can stand, or where an access
    touches what a copy in flight touches."""
    inserted: list[Placed] = []

    def needed(need: Need) -> None:
        inserted.append(placed(order, need.block, need.op, need.scope, need))

    BarrierWalk(order, needed).block(order.steps.function.body, State())
    if not order.by_hand:  # else the walk has not seen the copies of the text, and every `wait` would look superfluous
        order.copies.check_waits()
    return inserted
