"""Folds operations again after loops were rebuilt. For example, a peeled loop has no partial iteration, so its masks
can be folded."""

from __future__ import annotations

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Function, Op, Rewriter, walk
from dsl.lowering.known.facts import Analysis, facts_now


def fold_again(function: Function) -> None:
    """Runs only if the function has a loop that ends exactly at its bound, as peeled and unrolled loops do."""
    if any(op.attrs.get("exact") for op in walk(function.body)):
        rewriter = Folder(facts_now(function))
        function.body = rewriter.block(function.body, rewriter.visit)


class Folder(Rewriter):
    def __init__(self, facts: Analysis):
        super().__init__()
        self.facts = facts

    def visit(self, op: Op) -> bool:
        if not op.spec.pure or op.spec.algebra.fold is None or op.loc is None:
            return False
        builder = Builder(op.loc, self.facts)
        builder.block = self.out
        folded = op.spec.algebra.fold(builder, [self[v] for v in op.operands], op.attrs)
        if folded is not None:
            self.map[op.result] = folded
            if constant_of(folded) is None:  # lines of the schedule about this name must still find a value
                folded.take_name(op.result)
        return folded is not None
