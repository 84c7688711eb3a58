"""Turns each barrier into a choice that the user can override, with a reason."""

from __future__ import annotations

from collections import defaultdict

from dsl.lowering.ir.function import Function, Op, Reason, Value, in_line, subject_of
from dsl.lowering.ir.targets import WARP
from dsl.lowering.known.affine import Terms
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import space_of
from dsl.lowering.passes.barriers.conflicts import meeting
from dsl.lowering.passes.barriers.insert import Placed
from dsl.lowering.passes.barriers.remove import RemovalOutcome
from dsl.lowering.passes.barriers.steps import doer
from dsl.lowering.passes.barriers.threads import Doubt
from dsl.lowering.passes.barriers.touches import Touch
from dsl.lowering.passes.barriers.walking import Order

NONE = "none"


def choose(function: Function, order: Order, outcome: RemovalOutcome) -> None:
    """Makes a choice for each barrier, including superfluous ones. Then inserts or removes the barrier according to the
    choice."""
    if not (outcome.standing or outcome.dropped):
        return
    reasons = _Reasons(order, outcome)
    gone = {each.barrier for each in outcome.dropped}
    # The cost is the number of threads that wait, not time. On five kernels, block barriers in place of warp barriers
    # did not change the time (docs/measurements.md, `barrier=block`).
    costs = {"warp": WARP, "block": function.threads, NONE: 0}
    # Sorted by place in the text: choices with the same key are numbered in the order in which they are made.
    for each in sorted([*outcome.standing, *outcome.dropped], key=lambda each: reasons.position[each.before]):
        superfluous = each.barrier in gone
        reason = function.reasons[each.barrier] = reasons.of(each, superfluous)
        scope = each.barrier.attrs["scope"]
        options = {name: name for name in (("warp", "block", NONE) if scope == "warp" else ("block", NONE))}
        taken = function.choices.choose(
            "barrier",
            subject_of(reason.later),
            options,
            NONE if superfluous else scope,
            loc=reason.later.loc,
            because=reason.__str__,
            costs={name: costs[name] for name in options},
            unit="threads that wait for each other",
            unsafe=() if superfluous else (NONE,),
        )
        if taken != NONE:
            each.barrier.attrs["scope"] = taken
        if superfluous and taken != NONE:
            order.steps.insert(each.block, each.barrier, each.before)
        elif not superfluous and taken == NONE:
            order.steps.remove(each.block, each.barrier)


class _Reasons:
    """Finds the reasons for barriers. `position` maps each operation of interest, including barriers, to its number in
    program order."""

    def __init__(self, order: Order, outcome: RemovalOutcome):
        self.order, self.steps, self.touches = order, order.steps, order.steps.accesses.touches
        self.position: dict[Op, int] = {}
        self.loops: dict[Op, tuple[Op, ...]] = {}
        self.of_access: dict[int, list[Op]] = defaultdict(list)  # in the order of the text
        for op, loops in self.steps.inside(self.steps.function.body):
            self.position[op], self.loops[op] = len(self.position), loops
            for access in self.steps.accesses_of(op):
                self.of_access[access].append(op)
        self.standing = [each.barrier for each in outcome.standing]

    def of(self, placed: Placed, superfluous: bool) -> Reason:
        need = placed.need
        later = need.op if self.steps.accesses_of(need.op) else self.inside(need.op, need.later)
        earlier, earlier_iteration = self.owner(need.earlier, later)
        past, touch = self.touches[need.earlier], self.touches[need.later]
        first, second = doer(earlier, past), doer(later, touch)
        return Reason(
            first,
            second,
            need.scope,
            doubt=self.doubt(first, past, second, touch) + self.promise(first, past, second, touch),
            earlier_iteration=earlier_iteration,
            order=next((t.bond for t in (past, touch) if t.bond is not None), ""),
            once=placed.before is not need.op,
            superfluous=superfluous,
            by=self.between(earlier, later, earlier_iteration) if superfluous else (),
        )

    def inside(self, branch: Op, access: int) -> Op:
        """Returns the operation inside `branch` that does the given access. The branch condition may differ between
        threads."""
        found = self.steps.origin(access, [op for region in branch.regions for op, _ in self.steps.inside(region)])
        assert found is not None
        return found

    def owner(self, access: int, later: Op) -> tuple[Op, bool]:
        """Returns the operation that did an access, and whether it did so in an earlier iteration. Since then, loops
        and barriers may have rewritten the description of the access. If several operations qualify, returns the last
        one before `later`."""
        accesses = self.steps.accesses
        # maps an access to whether it is from an earlier iteration than the given access
        followed = {access: False}
        seen: set[int] = set()
        while followed:
            found = [
                (not self.is_past(op, later, past), self.position[op], op)
                for number, past in followed.items()
                for op in self.of_access.get(number, ())
            ]
            if found:
                same_iteration, _, op = max(found, key=lambda each: each[:2])
                return op, not same_iteration
            seen |= followed.keys()
            followed = {
                old: past or (old, new) in accesses.followed
                for new, past in followed.items()
                for old in accesses.earlier[new]
                if old not in seen
            }
        raise AssertionError("an access of no operation")

    def is_past(self, earlier: Op, later: Op, followed: bool) -> bool:
        """Whether the access of `earlier` is from an earlier iteration of a loop that contains both operations."""
        both = any(loop in self.loops[earlier] for loop in self.loops[later])
        return both and (followed or self.position[earlier] >= self.position[later])

    def between(self, earlier: Op, later: Op, earlier_iteration: bool) -> tuple[Op, ...]:
        """Returns the barriers between two operations. If `earlier_iteration` is true, returns the barriers between
        `earlier` in one iteration and `later` in the next iteration."""
        first, last = self.position[earlier], self.position[later]
        if not earlier_iteration:
            return tuple(b for b in self.standing if first < self.position[b] < last)
        around = [loop for loop in self.loops[later] if loop in self.loops[earlier]]
        return tuple(b for b in self.standing if around[-1] in self.loops[b] and not last <= self.position[b] <= first)

    # ---- why two accesses are assumed to conflict although a conflict is not proved ----

    def doubt(self, earlier: Op, past: Touch, later: Op, touch: Touch) -> str:
        if past.bond is not None or touch.bond is not None:
            return ""
        met = meeting(past, touch, self.order.warps)
        assert met is not None
        if met.doubt is None:
            masked = [op for op, of in ((later, touch), (earlier, past)) if self.is_masked(op, of)]
            return f"{subject_of(masked[0])} is masked" if masked else ""
        if met.doubt is Doubt.PLACE:
            told = self.unplaced(later, touch) or self.unplaced(earlier, past)
            return told or "in which earlier iteration is not known"
        if met.doubt is Doubt.BASE and past.offsets is not None and touch.offsets is not None:
            return self.counted_from(past.offsets.terms, touch.offsets.terms)
        return met.doubt.value

    def promise(self, earlier: Op, past: Touch, later: Op, touch: Touch) -> str:
        """Returns how the text can say that two stores touch different elements, if that is not known."""
        met = meeting(past, touch, self.order.warps) if past.bond is None and touch.bond is None else None
        stores = all(op.spec.access.kind == "write" and space_of(op.operands[0]) == "global" for op in (earlier, later))
        if met is None or met.doubt is None or not stores:
            return ""
        return "; store(…, order=none) promises that they differ"

    def is_masked(self, op: Op, touch: Touch) -> bool:
        """Whether an access may skip elements. A copy never skips any: where its mask is off, it writes zeros."""
        fills = op.spec.in_flight and touch.write
        return not fills and operand(op, "mask") is not None

    def unplaced(self, op: Op, touch: Touch) -> str:
        """Returns a text that explains why the location of an access is unknown. Returns "" if it is known."""
        if touch.offsets is not None:
            return ""
        offset = self.steps.touches.offset_of(op, touch)
        if self.steps.touches.place(offset) is not None:
            return f"where {subject_of(op)} is changes from iteration to iteration"
        source = self.steps.touches.source_of_doubt(offset)
        told = "what a loop carries" if source is None else _told(source)
        return f"where {subject_of(op)} is depends on {told}"

    def counted_from(self, mine: Terms, theirs: Terms) -> str:
        """Returns a text that explains why two sums of scalars cannot be compared. It names the terms that occur in
        only one of them."""
        apart = [_sum([self.named(v, k) for v, k in a if (v, k) not in b]) for a, b in ((mine, theirs), (theirs, mine))]
        if apart[0] == apart[1]:  # unrolling makes copies of one statement, and their values share a name
            return f"each counts from its own {apart[0]}"
        return f"one counts from {apart[0]}, the other from {apart[1]}"

    def named(self, value: int, factor: int) -> str:
        found = self.order.iterations.forms.values.get(value) or self.steps.touches.affines.scalars.get(value)
        told = "an iteration" if found is None else _named(found)
        return told if factor == 1 else f"{factor} * {told}"


def _named(value: Value) -> str:
    return f"'{value.name}'" if value.name or value.op is None else _told(value.op)


def _told(op: Op) -> str:
    return f"'{op.spec.symbol or op.name}'{in_line(op)}"


def _sum(parts: list[str]) -> str:
    return " + ".join(parts) or "0"
