"""Implements the directive `peel p`: splits the last iteration off the loop over `p`. All remaining iterations are
whole and need no mask.

For example, `for p in range(0, k, 64)` becomes a loop over the whole steps, and a second loop with at most one
iteration. In the first loop, `p + arange(64) < k` is always true.
"""

from __future__ import annotations

from math import gcd

from dsl.lowering.directives.prefetch_fragments import nests
from dsl.lowering.ir.choices import ON_OFF
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Function, Op, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import INDEX
from dsl.lowering.known.facts import Analysis, facts_now
from dsl.lowering.passes.unroll_loops import Splitter, check_room


def peel_loops(function: Function) -> None:
    """Peels the loops that the schedule or a choice selects, if their last iteration may be partial."""
    loops = [op for op in walk(function.body) if op.spec.control.counters]
    pipelined = {loop: len(nest) for nest, _ in nests(function.body) for loop in nest}
    # With a step of one, all iterations are whole. This test avoids the analysis of facts, which takes longer.
    if not any(constant_of(loop.operands[2]) != 1 or loop in pipelined for loop in loops):
        return
    facts = facts_now(function)
    peeled = {loop for loop in loops if _chosen(function, facts, loop, pipelined.get(loop, 0))}
    if peeled:
        check_room(function, lambda op: 2 if op in peeled else 1)  # a peeled loop contains its body twice
        rewriter = _Peeler(facts, peeled)
        function.body = rewriter.block(function.body, rewriter.visit)


def _chosen(function: Function, facts: Analysis, loop: Op, depth: int) -> bool:
    """Whether the schedule or a choice peels a loop. A loop is never peeled if all of its iterations are whole, or if
    it belongs to a nest of loops whose iterations form one pipeline. `depth` is the number of loops in that nest."""
    name, step = loop.regions[0].args[0].name or "loop", constant_of(loop.operands[2])
    named = function.by_subject("peel", int).get(name)
    if step is None or step < 1:
        if named:
            raise TileError("schedule", loop.loc, "only a loop with a constant, positive step is peeled")
        return False
    if depth > 1 or (named and depth):
        why = "the loop is pipelined: of its iteration that is not whole the copies alone have a mask"
        return function.choices.choose("peel", name, {"off": False}, "off", loc=loop.loc, because=why)
    if _iterations_are_whole(facts, loop, int(step)):
        return False
    rule, why = "on" if named else "off", "the schedule peels what it names"
    pinned = None if named is None else function.lines.get(("peel", name))
    return function.choices.choose("peel", name, ON_OFF, rule, loc=loop.loc, because=why, pinned=pinned)


def _iterations_are_whole(facts: Analysis, loop: Op, step: int) -> bool:
    """Whether the distance from start to stop is known to be a multiple of the step."""
    start, stop = loop.operands[:2]
    apart = gcd(facts.divisor(start), facts.divisor(stop))
    if start.dtype is INDEX:
        apart = facts.bounds.distance(start, stop)
    return apart % step == 0


class _Peeler(Splitter):
    def __init__(self, facts: Analysis, peeled: set[Op]):
        super().__init__(facts)
        self.peeled = peeled

    def visit(self, op: Op) -> bool:
        if op not in self.peeled:
            return False
        step = constant_of(op.operands[2])
        assert step is not None
        self.split(op, 1, int(step), whole=True)
        return True
