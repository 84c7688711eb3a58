"""Recomputes integers and flags after a loop if they are used before and after the loop, but not inside.

    near = arange(128) < n                      near = arange(128) < n
    q = load(x, mask=near)                      q = load(x, mask=near)
    for j: …                               →    for j: …
    store(y, o, mask=near)                      again = arange(128) < n
                                                store(y, o, mask=again)

Otherwise these values would occupy registers during the loop, for example one flag for each row that a thread stores.
They are cheap to compute from a few scalars and the thread index. Without the pass, attention with 128 elements per
head spilled 26 words.
"""

from __future__ import annotations

from dsl.lowering.building.unused import remove_unused
from dsl.lowering.directives.slices import inside, reads
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of


def anew_behind_loops(function: Function) -> None:
    """Runs the pass on each block of the function that contains loops."""
    for block in blocks_of(function.body):
        if any(op.spec.control.loops for op in block.ops):
            _Stretches(block).run()
    remove_unused(function)


class _Stretches:
    """A block, divided into stretches that each end with a loop.

    `made`: for each value, the number of the stretch that computes it.
    `held`: for each value that loops read, the number of the stretch after the last of these loops.
    """

    def __init__(self, block: Block):
        self.block = block
        self.made: dict[Value, int] = {}
        self.held: dict[Value, int] = {}
        at = 0
        for op in block.ops:
            self.made.update(dict.fromkeys(op.results, at))
            if op.spec.control.loops:
                at += 1
                for value in reads(op):
                    self.held[value] = at

    def run(self) -> None:
        self.at, self.out = 0, list[Op]()
        self.again: dict[Value, Value] = {}
        for op in self.block.ops:
            if not op.spec.control.loops:
                for each in (op, *inside(op)):
                    each.operands = [self._here(value) for value in each.operands]
            self.out.append(op)
            if op.spec.control.loops:
                self.at += 1
                self.again = {}
        self.block.ops = self.out

    def _here(self, value: Value) -> Value:
        """Returns the value itself, or a copy that is recomputed in the current stretch."""
        op, made = value.op, self.made.get(value, self.at)
        # A value that a loop reads is in registers up to that loop anyway. A copy before the end of that loop would
        # only add work.
        if op is None or made == self.at or self.held.get(value, made) > made or not _is_cheap(op):
            return value
        if value not in self.again:
            copy = Op(op.spec, [self._here(each) for each in op.operands], [value.type], dict(op.attrs), (), op.loc)
            copy.result.stands_for(value)
            self.out.append(copy)
            self.again[value] = copy.result
        return self.again[value]


def _is_cheap(op: Op) -> bool:
    """Whether a tile is cheap to compute: it consists of integers or flags, and is computed only from integers or
    flags. Division by a variable is not cheap, because it is a long sequence of instructions."""
    if op.spec.algebra.divides and constant_of(op.operands[1]) is None:
        return False
    kinds = {value.dtype.kind for value in (*op.operands, *op.results)}
    is_tile = op.spec.pure and not op.regions and bool(op.result.tile.shape)
    return is_tile and kinds <= {"index", "signed", "unsigned", "bool"}
