"""Removes barriers that others made superfluous.

In a loop, a barrier inserted later, for the next iteration, may order all that an earlier one was inserted for. A
barrier before a loop may replace one inside it, and it costs once, not in each iteration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dsl.lowering.ir.function import Block, Op, walk
from dsl.lowering.passes.barriers.insert import Placed, placed
from dsl.lowering.passes.barriers.state import State
from dsl.lowering.passes.barriers.walking import BarrierWalk, Need, Order

MAX_DROPS = 32  # barriers of one loop that are tried: each trial walks the whole function again


@dataclass(frozen=True, slots=True)
class RemovalOutcome:
    """The barriers that stay, and the superfluous ones."""

    standing: list[Placed]
    dropped: list[Placed] = field(default_factory=list)


def remove_superfluous(order: Order, inserted: list[Placed]) -> RemovalOutcome:
    """Removes superfluous ones of the inserted barriers; may put one before a loop instead."""
    removal = _Removal(order, RemovalOutcome(inserted))
    body = order.steps.function.body
    for loop in (op for op in body.ops if op.spec.control.loops):
        inside = removal.inside(loop)
        # A single barrier was inserted because nothing else orders its accesses. Only a later one makes it superfluous.
        if 1 < len(inside) <= MAX_DROPS:
            for each in inside:
                removal.take_out(each)
    # After the others: a barrier before the loop costs something, too, so it is tried only against the ones that are
    # left inside.
    for block, loop in order.steps.loops(body):
        inside = removal.inside(loop)
        if inside and len(inside) <= MAX_DROPS:
            removal.put_before(block, loop, inside)
    return removal.outcome


class _Needed(Exception):
    """Some access would be unordered: the barrier must stay."""


def _refuse(need: Need) -> None:
    raise _Needed


class _Removal:
    def __init__(self, order: Order, outcome: RemovalOutcome):
        self.order, self.steps, self.outcome = order, order.steps, outcome
        self.body = order.steps.function.body
        self.walk = BarrierWalk(order, _refuse, again=True)
        self.around = {region: block for block in _blocks(self.body) for op in block.ops for region in op.regions}

    def inside(self, loop: Op) -> list[Placed]:
        """The inserted barriers of a loop."""
        blocks = {b for op in [loop, *(o for r in loop.regions for o in walk(r))] for b in op.regions}
        return [each for each in self.outcome.standing if each.block in blocks]

    def take_out(self, each: Placed) -> bool:
        """Removes a barrier if all accesses are ordered without it. Returns whether it did."""
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

    def put_before(self, block: Block, loop: Op, inside: list[Placed]) -> None:
        """Inserts a barrier before a loop if that makes one or more inside superfluous."""
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
        """Forgets the results of walks through a block and the blocks around it."""
        around: Block | None = block
        while around is not None:
            self.walk.outcomes.pop(around, None)
            around = self.around.get(around)


def _blocks(block: Block) -> Iterator[Block]:
    """A block and those in it."""
    yield block
    for op in block.ops:
        for region in op.regions:
            yield from _blocks(region)
