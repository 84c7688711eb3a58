"""Finds the operations of a block that access memory or order accesses, and the accesses of each operation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsl.lowering.ir.function import Block, Function, Op
from dsl.lowering.ops.matrix import views_of
from dsl.lowering.passes.barriers.state import OpenAccesses
from dsl.lowering.passes.barriers.touches import Touch, Touches


def doer(op: Op, touch: Touch) -> Op:
    """Returns the operation that contains the offsets of an access: `op`, or for wgmma, the view of the accessed
    operand."""
    return {view.operands[0]: view for view in views_of(op)}.get(touch.memory, op)


class Steps:
    """The steps of a function: its operations that access memory or order accesses. `insert` and `remove` change both a
    block and the list of its steps."""

    def __init__(self, function: Function, touches: Touches):
        self.function, self.touches, self.accesses = function, touches, OpenAccesses()
        self.touched: dict[Op, list[int]] = {}
        self.known: dict[Block, list[Op]] = {}

    def of(self, block: Block) -> list[Op]:
        """Returns the steps of a block. These are operations that access memory that may be written, operations that
        order accesses, and loops and branches that contain such operations."""
        known = self.known.get(block)
        if known is None:
            known = self.known[block] = [op for op in block.ops if self._matters(op)]
        return known

    def _matters(self, op: Op) -> bool:
        if op.regions:
            return any(self.of(region) for region in op.regions)
        return op.spec.orders is not None or bool(self.accesses_of(op))

    def accesses_of(self, op: Op) -> list[int]:
        """Returns the numbers of the accesses that one operation does."""
        known = self.touched.get(op)
        if known is None:
            known = self.touched[op] = [self.accesses.number(touch) for touch in self.touches.of(op)]
        return known

    def origin(self, access: int, ops: Sequence[Op]) -> Op | None:
        """Returns the operation in `ops` that did an access. Since then, loops and barriers may have rewritten the
        description of the access. If several operations qualify, returns the one whose description was rewritten least
        often."""
        for numbers in self.accesses.generations(access):
            for op in ops:
                if not numbers.isdisjoint(self.touched.get(op, ())):
                    return op
        return None

    def insert(self, block: Block, barrier: Op, before: Op) -> None:
        for ops in (block.ops, self.of(block)):
            ops.insert(ops.index(before), barrier)

    def remove(self, block: Block, barrier: Op) -> None:
        for ops in (block.ops, self.of(block)):
            ops.remove(barrier)

    def inside(self, block: Block, loops: tuple[Op, ...] = ()) -> Iterator[tuple[Op, tuple[Op, ...]]]:
        """Yields all steps of a block and its regions, outer ones first. Each step is paired with the loops that
        enclose it within this block."""
        for op in self.of(block):
            yield op, loops
            for region in op.regions:
                yield from self.inside(region, (*loops, op) if op.spec.control.loops else loops)

    def loops(self, block: Block) -> Iterator[tuple[Block, Op]]:
        """Yields the loops of a block, inner ones first. Each loop is paired with the block that contains it."""
        for op in tuple(self.of(block)):  # the caller may insert barriers during the iteration
            for region in op.regions:
                yield from self.loops(region)
            if op.spec.control.loops:
                yield block, op
