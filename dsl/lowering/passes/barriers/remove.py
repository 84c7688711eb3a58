"""Removes barriers that other barriers made superfluous.

In a loop, the walk may insert one barrier, and later another barrier for the next iteration. The later barrier may then
order all accesses for which the first barrier was inserted. Moreover, one barrier before a loop may replace a barrier
inside the loop. It then runs once instead of once per iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from dsl.lowering.ir.function import Block, Op, blocks_of
from dsl.lowering.passes.barriers.insert import Placed, placed
from dsl.lowering.passes.barriers.state import State
from dsl.lowering.passes.barriers.walking import BarrierWalk, Need, Order

MAX_DROPS = 32  # the maximum number of barriers of one loop that are tried: each trial walks the whole function again


class RemovalOutcome(Struct, frozen=True):
    """The barriers that stay (`standing`), and the superfluous barriers (`dropped`)."""

    standing: list[Placed]
    dropped: list[Placed] = field(default_factory=list)


def remove_superfluous(order: Order, inserted: list[Placed]) -> RemovalOutcome:
    """Removes inserted barriers that are superfluous. Barriers inside a loop may be replaced with one before the
    loop."""
    removal = _Removal(order, RemovalOutcome(inserted))
    body = order.steps.function.body
    for loop in (op for op in body.ops if op.spec.control.loops):
        inside = removal.inside(loop)
        # A single barrier was inserted because nothing else orders its accesses. Only a barrier that was inserted later
        # can make it superfluous.
        if 1 < len(inside) <= MAX_DROPS:
            for each in inside:
                removal.take_out(each)
    # This comes last, because a barrier before the loop has a cost, too. It may replace only barriers that are left
    # inside the loop.
    for block, loop in order.steps.loops(body):
        inside = removal.inside(loop)
        if inside and len(inside) <= MAX_DROPS:
            removal.take_out_moved(inside)
            if left := removal.inside(loop):
                removal.put_before(block, loop, left)
    removal.take_out_moved(removal.outcome.standing)
    return removal.outcome


class _Needed(Exception):
    """Raised if an access would be unordered without a barrier. The barrier must then stay."""


def _refuse(need: Need) -> None:
    raise _Needed


class _Removal:
    def __init__(self, order: Order, outcome: RemovalOutcome):
        self.order, self.steps, self.outcome = order, order.steps, outcome
        self.body = order.steps.function.body
        self.walk = BarrierWalk(order, _refuse, again=True)
        self.around = {region: block for block in blocks_of(self.body) for op in block.ops for region in op.regions}

    def inside(self, loop: Op) -> list[Placed]:
        """Returns the inserted barriers inside a loop."""
        blocks = {block for region in loop.regions for block in blocks_of(region)}
        return [each for each in self.outcome.standing if each.block in blocks]

    def take_out(self, each: Placed) -> bool:
        """Removes a barrier if all accesses are ordered without it. Returns whether the barrier was removed."""
        self.change(each.block)
        self.steps.remove(each.block, each.barrier)
        try:
            self.walk.block(self.body, State())
        except _Needed:
            self.change(each.block)
            self.steps.insert(each.block, each.barrier, each.before)
            return False
        self.outcome.standing.remove(each)
        self.outcome.dropped.append(each)
        return True

    def take_out_moved(self, those: Sequence[Placed]) -> None:
        """Removes superfluous barriers among those that were moved before a loop. If two loops follow each other, the
        barrier before the first loop may also order the accesses of the second loop."""
        moved = [each for each in those if each.before is not each.need.op]
        if len(moved) > 1:
            for each in moved:
                self.take_out(each)

    def put_before(self, block: Block, loop: Op, inside: list[Placed]) -> None:
        """Inserts a barrier before a loop if this barrier makes one or more barriers inside the loop superfluous."""
        scope = "block" if any(each.barrier.attrs["scope"] == "block" for each in inside) else "warp"
        self.change(block)
        before = placed(self.order, block, loop, scope, inside[0].need)
        gone = [each for each in inside if self.take_out(each)]
        if gone:
            self.outcome.standing.append(Placed(block, before.barrier, loop, gone[0].need))
        else:
            self.change(block)
            self.steps.remove(block, before.barrier)

    def change(self, block: Block) -> None:
        """Drops the cached results of walks through a block and through all blocks that contain it."""
        around: Block | None = block
        while around is not None:
            self.walk.outcomes.pop(around, None)
            around = self.around.get(around)
