"""Checks the functions by which the parts of a split loop join, at random cuts of its iterations.

A schedule cuts a loop at one place for each shape. Whether a function joins parts rightly may depend on the place: a
part may have no iterations, and is then the loop's start, or nothing but numbers that are masked off. So each block
runs its loop in parts of random lengths, some of them empty, joins these in order, and goes on with the result. Tensors
must be those of the whole loop, up to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dsl.lowering.directives.joins import PartialSums, Unsplit, joined_groups
from dsl.lowering.ir.function import Function, Op
from dsl.lowering.ir.location import Loc
from dsl.lowering.machine.formats import spread
from dsl.lowering.meaning.run import MEANINGS, MeaningArguments, Run, arguments_of, blocks_of

Array = Any
Cuts = list[int]
ROUNDS = 3
"""The number of runs with other cuts."""
MOST_PARTS = 5


class CutRun(Run):
    """A run that divides the iterations of some loops into parts. `groups` maps each loop to what joins its results.

    `cuts`: maps each block to the iterations before which its first loop was cut.
    """

    def __init__(
        self,
        function: Function,
        arguments: MeaningArguments,
        grid: Sequence[int],
        groups: Mapping[Op, list[PartialSums]],
        seed: int,
    ):
        super().__init__(function, arguments, grid)
        self.groups_of, self.random = groups, np.random.default_rng(seed)
        self.cuts: dict[tuple[int, int, int], Cuts] = {}

    def op(self, op: Op) -> None:
        if op not in self.groups_of:
            super().op(op)
            return
        start, stop, step, *carried = (self.values[o] for o in op.operands)
        count = len(range(int(start), int(stop), int(step)))
        cuts = self._cuts(count)
        self.cuts.setdefault(self.block, cuts)
        total: list[Array] | None = None
        for first, last in zip([0, *cuts], [*cuts, count], strict=True):
            bounds = [int(start) + each * int(step) for each in (first, last)]
            part = MEANINGS[op.name](self, op, [*bounds, step, *carried])
            total = list(part) if total is None else self._joined(op, total, part)
        assert total is not None
        self.values.update(zip(op.results, total, strict=True))

    def _cuts(self, count: int) -> Cuts:
        """Draws the iterations before which a loop is cut. Of all parts, the first or the last ones are often empty."""
        drawn = self.random.integers(0, count + 1, self.random.integers(1, MOST_PARTS))
        ends = [0] * int(self.random.integers(0, 3)) + [count] * int(self.random.integers(0, 3))
        return sorted([*(int(each) for each in drawn), *ends])

    def _joined(self, loop: Op, left: Sequence[Array], right: Sequence[Array]) -> list[Array]:
        """Joins what two parts of a loop found."""
        out = list(right)
        for group in self.groups_of[loop]:
            for op in group.alone:  # of which the function reads a result
                self.op(op)
            at = [loop.results.index(value) for value in group.values]
            pair = [left[i] for i in at], [right[i] for i in at]
            made = self.region(group.join, [*pair[0], *pair[1]]) if group.whole else self.join(group.join, *pair)
            for i, value in zip(at, made, strict=True):
                out[i] = value if group.whole else spread(value, np.shape(left[i]))
        return out


def loops_to_cut(function: Function) -> dict[Op, list[PartialSums]]:
    """Returns the loops of `split` lines whose parts join by a function of the text, with the groups of their results.
    How sums and maxima join needs no check."""
    found = {}
    names = function.by_subject("split", int)
    for op in function.body.ops:
        if op.spec.control.counters and op.regions[0].args[0].name in names:
            try:
                groups = joined_groups(function, op)
            except Unsplit:  # as the directive will say
                continue
            if any(group.whole or len(group.values) > 1 or len(group.join.ops) > 2 for group in groups):
                found[op] = groups
    return found


def cut_runs(function: Function, given: Mapping[str, Any], grid: Sequence[int]) -> Iterator[CutRun]:
    """Runs all blocks of a kernel several times, each time with other cuts of its loops. Yields nothing if no loop is
    to be cut."""
    groups = loops_to_cut(function)
    for seed in range(ROUNDS if groups else 0):
        run = CutRun(function, arguments_of(function, given, watched=True), grid, groups, seed)
        for block in blocks_of(grid):
            run.do(block)
        yield run


def told(run: CutRun, block: tuple[int, int, int]) -> tuple[str, Loc | None]:
    """Returns a sentence about parts that join wrongly, and the place that names the function."""
    loop, groups = next(iter(run.groups_of.items()))
    joins = {group.join for group in groups if group.whole or len(group.values) > 1}
    place = next((op.loc for op in run.function.body.ops if joins.intersection(op.regions)), loop.loc)
    cuts = ", ".join(map(str, run.cuts.get(block, [])))
    name = loop.regions[0].args[0].name
    return f"loop '{name}' gives another result if it is cut before iterations {cuts} and its parts join", place
