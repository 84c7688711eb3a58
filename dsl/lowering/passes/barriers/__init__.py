"""Inserts the barriers that the memory accesses of a thread block need, and no others. Each barrier has the narrowest
possible scope: warp or block.

1. For each operation, `touches.py` finds which threads access which elements of memory.
2. A walk through the program tracks the accesses that no barrier has ordered yet (`walking.py`, `state.py`,
   `steps.py`). The walk visits loops iteration by iteration (`iterations.py`). If an access conflicts with an earlier
   access (`conflicts.py`, `threads.py`), the walk requests a barrier before the later access (`insert.py`). It is an
   error to access elements of a copy that is in flight (`copies.py`).
3. Barriers are removed if later barriers made them superfluous (`remove.py`).
4. Each barrier, inserted or removed, becomes a choice with a reason, which the user can override (`choose.py`).
"""

from __future__ import annotations

from dsl.lowering.building.loop_forms import loop_forms_of
from dsl.lowering.ir.function import Function, walk
from dsl.lowering.known.facts import facts_of
from dsl.lowering.passes.barriers.choose import choose
from dsl.lowering.passes.barriers.conflicts import Comparisons, meeting
from dsl.lowering.passes.barriers.copies import CopiesInFlight, groups_kept
from dsl.lowering.passes.barriers.insert import insert
from dsl.lowering.passes.barriers.iterations import LoopIterations
from dsl.lowering.passes.barriers.remove import remove_superfluous
from dsl.lowering.passes.barriers.steps import Steps
from dsl.lowering.passes.barriers.touches import Touches
from dsl.lowering.passes.barriers.walking import Order


def insert_barriers(function: Function) -> None:
    """Adds `barrier` operations. If the schedule contains `barriers manual`, the pass adds barriers only between
    accesses to tiles that the compiler created. The user then writes all other barriers in the kernel."""
    order = order_of(function)
    choose(function, order, remove_superfluous(order, insert(order)))


def order_of(function: Function) -> Order:
    """Computes the data that all walks through a function share."""
    warps, ops = function.warps, walk(function.body)
    forms = loop_forms_of(function, facts_of(function))
    by_hand = function.word("barriers") == "manual"
    steps = Steps(function, Touches(ops, forms, by_hand))
    meetings = Comparisons(steps.accesses, lambda pending, touch: meeting(pending, touch, warps))
    copies = CopiesInFlight(steps, forms, groups_kept(ops))
    return Order(warps, steps, LoopIterations(steps, forms), meetings, copies, by_hand)
