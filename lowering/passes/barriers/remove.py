"""Takes out barriers that others have made superfluous.

In a loop, a barrier put in later, for the next round, may order all that an earlier one was put in for. And one before
the loop may order all that one in it was put in for, but once and not in each round.
"""

from __future__ import annotations

from collections.abc import Iterator

from lowering.ir import Block, Op, walk
from lowering.passes.barriers.insert import Placed, barrier
from lowering.passes.barriers.state import State
from lowering.passes.barriers.walking import Need, Order, Walk

MAX_DROPS = 32  # barriers of one loop looked at again


def remove_superfluous(order: Order, inserted: list[Placed]) -> list[Placed]:
    """Those of the inserted barriers that remain, and those that came instead."""
    removal = _Removal(order, inserted)
    body = order.steps.function.body
    for loop in (op for op in body.ops if op.spec.loops):
        inside = removal.inside(loop)
        if 1 < len(inside) <= MAX_DROPS:
            for placed in inside:
                removal.take_out(placed)
    for block, loop in order.steps.loops(body):
        inside = removal.inside(loop)
        if inside and len(inside) <= MAX_DROPS:
            removal.put_before(block, loop, inside)
    return removal.inserted


class _Needed(Exception):
    """An access that no barrier orders."""


def _refuse(need: Need) -> None:
    raise _Needed


class _Removal:
    def __init__(self, order: Order, inserted: list[Placed]):
        self.steps, self.inserted = order.steps, inserted
        self.body = order.steps.function.body
        self.walk = Walk(order, _refuse, again=True)
        self.around = {region: block for block in _blocks(self.body) for op in block.ops for region in op.regions}

    def inside(self, loop: Op) -> list[Placed]:
        """The inserted barriers of a loop."""
        blocks = {b for op in [loop, *(o for r in loop.regions for o in walk(r))] for b in op.regions}
        return [placed for placed in self.inserted if placed[0] in blocks]

    def take_out(self, placed: Placed) -> bool:
        """Removes a barrier if all is ordered without it."""
        block, made = placed
        before = block.ops[block.ops.index(made) + 1]
        self.change(block)
        self.steps.remove(block, made)
        try:
            self.walk.block(self.body, State())
        except _Needed:
            self.change(block)
            self.steps.insert(block, made, before)
            return False
        self.inserted.remove(placed)
        return True

    def put_before(self, block: Block, loop: Op, inside: list[Placed]) -> None:
        """Puts a barrier before a loop, if one or more in it are superfluous then."""
        scope = "block" if any(made.attrs["scope"] == "block" for _, made in inside) else "warp"
        before = barrier(scope, loop.loc)
        self.change(block)
        self.steps.insert(block, before, loop)
        if [self.take_out(placed) for placed in inside].count(True):
            self.inserted.append((block, before))
        else:
            self.change(block)
            self.steps.remove(block, before)

    def change(self, block: Block) -> None:
        """What was found of a block, and of those that it is in, is void."""
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
