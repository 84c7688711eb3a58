"""Walks through a program and tracks the accesses that no barrier has ordered yet.

An access needs a barrier before it under two conditions: another thread may have touched the same element, and one of
the two accesses is a write. A loop is walked again until an iteration adds no new access. After a `wait`, a copy counts
as a write by the thread that issued the copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NoReturn

from msgspec import Struct

from dsl.lowering.directives.slices import inside
from dsl.lowering.ir.function import Block, Op
from dsl.lowering.ir.location import TileError
from dsl.lowering.ops.control import parting
from dsl.lowering.passes.barriers.conflicts import Comparisons
from dsl.lowering.passes.barriers.copies import CopiesInFlight, told_line
from dsl.lowering.passes.barriers.iterations import LoopIterations
from dsl.lowering.passes.barriers.state import State, members
from dsl.lowering.passes.barriers.steps import Steps, doer
from dsl.lowering.passes.barriers.threads import Scope


class Need(Struct, frozen=True):
    """A barrier that is needed in `block` before the operation `op`.

    `later`: the access of `op` that needs the barrier.
    `earlier`: a previous access that conflicts with `later`.
    """

    block: Block
    op: Op
    scope: Scope
    later: int
    earlier: int


class Order(Struct, frozen=True):
    """The data that all walks through a function share. `iterations` rewrites accesses at loops, and `meetings`
    contains the conflicts found so far. If `by_hand` is true, accesses that the user wrote are left out."""

    warps: int
    steps: Steps
    iterations: LoopIterations
    meetings: Comparisons
    copies: CopiesInFlight
    by_hand: bool


class BarrierWalk:
    """Walks through a program, once or several times. Calls `needed` for each access that needs a barrier.

    `again`: True if the program was walked before. Copies are then not checked again, and the state after a block is
        cached for each state on entry. Nothing is cached in a branch whose condition differs from thread to thread.
    """

    def __init__(self, order: Order, needed: Callable[[Need], None], again: bool = False):
        self.order, self.needed, self.again = order, needed, again
        self.steps, self.meetings, self.copies = order.steps, order.meetings, order.copies
        self.barriers = 0  # barriers requested so far
        self.outcomes: dict[Block, dict[tuple, State]] = defaultdict(dict)
        self.branch: int | None = None  # the accesses in the current branch of threads; None outside of such a branch
        self.parted: Op | None = None  # the operation of the current branch of threads
        self.in_while = False  # whether the innermost loop of that branch is a `while`

    def block(self, block: Block, state: State) -> State:
        """Walks a block that is entered in the given state. Returns the state after the block."""
        if not self.again or self.branch is not None:
            return self._through(block, state.copy())
        known, key = self.outcomes[block], (state.pending, *state.flying)
        if key not in known:
            known[key] = self._through(block, state.copy())
        return known[key].copy()

    def _through(self, block: Block, state: State) -> State:
        steps, position = self.steps.of(block), 0
        while position < len(steps):  # not a `for` loop, because barriers are inserted during the walk
            op, count = steps[position], len(steps)
            if parting(op) is not None and self.branch is None:
                self._branch_of_threads(block, op, state)
            elif op.spec.control.loops:
                state = self._loop(op, state)
            elif op.spec.control.concurrent:
                # All earlier accesses are ordered before each role starts, and data passes between roles through
                # pipelines. So only the last role is walked.
                self._ordered(state, "block")
                state = self.block(op.regions[-1], state)
            elif parting(op) is not None:
                state = self._one_after_the_other(op, state)
            elif op.spec.control.flows:
                other = self.block(op.regions[1], state)
                state = self.block(op.regions[0], state)
                state.merge(other)
            elif op.spec.orders == "threads":
                self._ordered(state, op.attrs["scope"])
            elif op.spec.orders == "group":
                state.copies = state.copies.ended(self.copies.most["end"])
            elif op.spec.orders == "stores":
                state.stores = state.stores.ended(self.copies.most["their end"])
            elif op.spec.orders == "end":
                self.copies.waited(op, state)
                state.land(op.attrs["groups"], stores=False)
            elif op.spec.orders == "their end":
                state.land(op.attrs["groups"], stores=True)
            elif self.steps.accesses_of(op):
                self._access(block, op, state)
            position += 1 + len(steps) - count
        return state

    def _loop(self, op: Op, state: State) -> State:
        """Walks a loop again and again until an iteration adds nothing to the state at its start. After each inserted
        barrier, the walk starts again from the loop's entry."""
        outer, self.in_while = self.in_while, not op.spec.control.counters
        leaving = self._iterations(op, state)
        self.in_while = outer
        return leaving

    def _iterations(self, op: Op, state: State) -> State:
        iterations = self.order.iterations.of(op)
        entry = state.each(iterations.entering)
        while True:
            head, count = entry, self.barriers
            while True:
                leaves = head
                for test in op.regions[:-1]:
                    leaves = self.block(test, leaves)
                end = self.block(op.regions[-1], leaves)
                if self.barriers != count:  # a new barrier orders accesses of all iterations: walk again from the entry
                    break
                following = head.copy()
                following.merge(end.each(iterations.following))
                if following == head:
                    return leaves.each(iterations.leaving)
                head = following

    def _branch_of_threads(self, block: Block, op: Op, state: State) -> None:
        """Walks a branch or loop whose condition differs from thread to thread. No barrier may be inside, so a required
        barrier is inserted before the branch or loop."""
        self.branch, self.parted = 0, op
        inside = State(0, *state.flying)
        inside = self._loop(op, inside) if op.spec.control.loops else self._one_after_the_other(op, inside)
        accesses, self.branch = self.branch, None
        self._need(block, op, members(accesses), state)
        state.pending |= self.order.iterations.of(op).leaving(inside.pending)
        state.copies, state.stores, state.sent = inside.flying

    def _one_after_the_other(self, op: Op, state: State) -> State:
        """Returns the state after a branch in which different threads take different sides. Both sides count as
        executed."""
        for region in op.regions:
            state = self.block(region, state)
        return state

    def _access(self, block: Block, op: Op, state: State) -> None:
        numbers, accesses = self.steps.accesses_of(op), 0
        for access in numbers:
            accesses |= 1 << access
        if not self.again and (flying := state.in_flight):
            for access in numbers:
                self.copies.check(access, flying, state, doer(op, self.steps.accesses.touches[access]))
        self._need(block, op, numbers, state)
        if op.spec.in_flight:
            state.copies = state.copies.begun(accesses)
        elif op.spec.leaves:
            reads = sum(1 << access for access in numbers if not self.steps.accesses.touches[access].write)
            state.stores, state.sent = state.stores.begun(reads), state.sent | accesses & ~reads
        else:
            state.pending |= accesses
        if self.branch is not None:
            self.branch |= accesses

    def _need(self, block: Block, op: Op, accesses: Iterable[int], state: State) -> None:
        """Requests a barrier before an operation if one of its accesses conflicts with a pending access."""
        scope: Scope | None = None
        later = 0
        for access in accesses:  # one barrier with the widest scope serves all accesses of the operation
            met = self.meetings.scope(access, self._before(access, state.pending))
            if met is not None and (scope is None or (scope, met) == ("warp", "block")):
                scope, later = met, access
        if scope is None:
            return
        if self.order.warps == 1:  # a warp barrier is cheaper and has the same effect
            scope = "warp"
        if self.branch is not None:
            pending = self._before(later, state.pending)
            self._refuse_in_branch(op, later, self.meetings.one(later, pending))
        self.needed(Need(block, op, scope, later, self.meetings.one(later, state.pending)))
        self.barriers += 1
        self._ordered(state, scope)

    def _before(self, access: int, pending: int) -> int:
        """Returns the pending accesses that must be ordered before an access. An atomic that polls in a `while` loop
        need not be ordered after its own earlier iterations."""
        touches = self.steps.accesses.touches
        polls = touches[access].polls
        if polls is None or self.branch is None or not self.in_while:
            return pending
        return sum(1 << each for each in members(pending) if touches[each].polls is not polls)

    def _ordered(self, state: State, scope: Scope) -> None:
        """Updates the state after a barrier. After a block barrier, nothing is pending. After a warp barrier, the
        pending accesses can conflict only with accesses of other warps."""
        if scope == "block" or self.order.warps == 1:
            state.pending = 0
        else:
            state.pending = self.steps.accesses.behind_warp_barrier(state.pending)

    def _refuse_in_branch(self, op: Op, later: int, earlier: int) -> NoReturn:
        """Raises TileError `hazard` for an access that needs a barrier inside a branch whose condition differs from
        thread to thread."""
        touches = self.steps.accesses.touches
        assert self.parted is not None
        others = [each for each in inside(self.parted) if self.steps.touched.get(each)]
        other = self.steps.origin(earlier, others)
        what, out = "this access meets one of another thread", "use where() or mask= outside the branch"
        order = op.attrs["order"] if op.spec.access.kind == "update" else "relaxed"
        if order != "relaxed" and (touches[later].bond is not None or other is op):
            what = f"the order of this atomic ({order}) concerns accesses of other threads"
            out = "order=relaxed here, and the order in an atomic behind the branch"
        elif touches[earlier].bond is not None:
            what = "this access is behind an atomic of other threads, whose order concerns it,"
            out = "order=relaxed there, and the order in an atomic behind the branch"
        elif op.attrs.get("cache") == "volatile":
            what = "one thread loads this for all that need it"
        there = "" if other is None or other.loc is None else f" ({told_line(other, op)})"
        message = f"{what} in the same branch{there}, and a branch of threads holds no barrier"
        by_hand = "" if self.order.by_hand else ", or 'barriers manual' in the schedule"
        raise TileError("hazard", op.loc, message, out + by_hand)
