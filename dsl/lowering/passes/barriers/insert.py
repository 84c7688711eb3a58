"""Inserts barriers where a walk finds that they are needed."""

from __future__ import annotations

from msgspec import Struct

from dsl.lowering.ir.function import Block, Op
from dsl.lowering.ops import OPS
from dsl.lowering.passes.barriers.state import State
from dsl.lowering.passes.barriers.threads import Scope
from dsl.lowering.passes.barriers.walking import BarrierWalk, Need, Order


class Placed(Struct, frozen=True):
    """A barrier that was inserted into `block` before the operation `before`. `need`: the conflict that the barrier
    resolves."""

    block: Block
    barrier: Op
    before: Op
    need: Need


def placed(order: Order, block: Block, before: Op, scope: Scope, need: Need) -> Placed:
    """Inserts a new barrier before an operation."""
    barrier = Op(OPS["barrier"], [], [], {"scope": scope}, (), before.loc)
    order.steps.insert(block, barrier, before)
    return Placed(block, barrier, before, need)


def insert(order: Order) -> list[Placed]:
    """Inserts a barrier before each access that needs one. Raises TileError `hazard` if no barrier is allowed there, or
    if the access touches elements that a copy in flight touches."""
    inserted: list[Placed] = []

    def needed(need: Need) -> None:
        inserted.append(placed(order, need.block, need.op, need.scope, need))

    BarrierWalk(order, needed).block(order.steps.function.body, State())
    # With `by_hand`, the walk has not seen the copies in the kernel's text, so every `wait` would look superfluous.
    if not order.by_hand:
        order.copies.check_waits()
    return inserted
