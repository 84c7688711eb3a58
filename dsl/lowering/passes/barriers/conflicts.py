"""Finds whether two accesses conflict: two threads touch the same element, and no barrier orders the two accesses.

A release publishes to other blocks what its own thread wrote, and what barriers made visible to this thread. An acquire
makes data of other blocks visible to its own thread. The other threads of the block see this data only after a barrier
(PTX ISA 8, "Causality order"). So a release conflicts with all earlier accesses to global memory by other threads. An
acquire conflicts with all later accesses by other threads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import lru_cache
from math import prod

from msgspec import Struct

from dsl.lowering.known.affine import Affine
from dsl.lowering.known.listed_offsets import Listed
from dsl.lowering.passes.barriers.state import OpenAccesses, members
from dsl.lowering.passes.barriers.threads import (
    IN_BLOCK,
    IN_WARP,
    MAX_ENUMERATED,
    Doubt,
    Meeting,
    Scope,
    meeting_of_elements,
    scope_of_acting,
)
from dsl.lowering.passes.barriers.touches import Stage, Touch, along

# The maximum number of iterations of a loop that are compared one by one. If there are more iterations, the compiler
# assumes that the access may touch any element. That may cause a superfluous barrier, but never a missing one.
MAX_ROUNDS_BACK = 64
UNPLACED, APART = Meeting("block", Doubt.PLACE), Meeting("block", Doubt.BASE)


def meeting(pending: Touch, touch: Touch, warps: int) -> Meeting | None:
    """Returns the strongest conflict between any iteration of a pending access and a later access, or None. A conflict
    across the block is stronger than one within a warp. At equal scope, a proven conflict is stronger than a possible
    one."""
    if touch.combines is not None and touch.combines == pending.combines:
        return None  # atomics that need no order between them
    strongest: Meeting | None = None
    for earlier in earlier_iterations(pending, touch):
        met = conflict(earlier, touch, warps)
        if met is None or (met.scope == "warp" and pending.warp_ordered):
            continue
        if strongest is None or met.strength > strongest.strength:
            strongest = met
    return strongest


def collision(flying: Touch, touch: Touch) -> Meeting | None:
    """Returns the conflict between a copy in flight and an access. Returns None if they touch different elements in all
    iterations of the copy."""
    if touch.combines is not None and touch.combines == flying.combines:
        return None
    for earlier in earlier_iterations(flying, touch):
        if not disjoint(earlier, touch):
            return IN_BLOCK
    return None


def conflict(a: Touch, b: Touch, warps: int) -> Meeting | None:
    """Returns the conflict between two accesses. Returns None if no two threads touch the same element."""
    if a.bond is not None or b.bond is not None:
        scope = scope_of_acting((a, b), warps)
        return None if scope is None else Meeting(scope)
    if disjoint(a, b):
        return None
    if a.offsets is None or b.offsets is None:
        return UNPLACED
    if not _comparable(a, b):
        return APART
    # wgmma reads through the asynchronous proxy. The fence for this proxy is emitted with block barriers only.
    if a.grouped or b.grouped:
        return IN_BLOCK
    met = meeting_of_elements(a, b, warps)
    if met is None:
        return IN_WARP if a.joint or b.joint else None
    known = not a.in_stage or _comparable_stages(a, b) is not None
    return met if known else Meeting(met.scope, Doubt.SLOT)


def earlier_iterations(a: Touch, b: Touch) -> list[Touch]:
    """Splits `a`, which may represent many iterations of a loop. Returns one access for each earlier iteration that may
    conflict with `b`."""
    if a.before is None:
        return [a]
    stage, offset = a.before
    iterations: Iterable[int] | None = None
    if _comparable(a, b) and offset and a.offsets is not None and b.offsets is not None:
        low_a, high_a = a.offsets.reach(a.shape)
        low_b, high_b = b.offsets.reach(b.shape)
        # `a` can meet `b` only if it is moved back by at least `first` and at most `last`
        first, last = low_a - high_b, high_a - low_b
        if offset < 0:
            first, last = -last, -first
        iterations = range(max(0, -(-first // abs(offset))), last // abs(offset) + 1)
    elif stage and (both := _comparable_stages(a, b)) is not None:
        back = along(stage, both[0].axes) if both[0].axes else stage
        if not back:  # all iterations access the same place along these axes
            return [a.without(False, bool(offset)).along(both[0].axes)]
        if both[0].modulus:  # in a ring, the stages repeat after `modulus` iterations
            iterations = range(both[0].modulus)
        else:
            away, rest = divmod(both[0].constant - both[1].constant, back)
            iterations = [away] if away >= 0 and not rest else []
    if iterations is None or len(list(iterations)) > MAX_ROUNDS_BACK:
        return [a.without(bool(stage), bool(offset))]
    return [a.shifted(k * stage, k * offset) for k in iterations]


def disjoint(a: Touch, b: Touch) -> bool:
    """Whether two accesses are proved to touch different elements."""
    if _different_stages(a, b):
        return True
    if a.offsets is None or b.offsets is None or not _comparable(a, b):
        return False
    # Ranges first: most disjoint accesses have separate ranges, and listing elements takes longer.
    low_a, high_a = a.offsets.reach(a.shape)
    low_b, high_b = b.offsets.reach(b.shape)
    if high_a < low_b or high_b < low_a:
        return True
    if max(prod(a.shape), prod(b.shape)) > MAX_ENUMERATED:
        return False
    elements = _elements(a.offsets._replace(terms=(), constant=0), a.shape)
    distance = b.offsets.constant - a.offsets.constant
    return not any(e + distance in elements for e in _elements(b.offsets._replace(terms=(), constant=0), b.shape))


@lru_cache(maxsize=256)
def _elements(offsets: Affine | Listed, shape: tuple[int, ...]) -> frozenset[int]:
    return frozenset(offsets.values(shape))


def _different_stages(a: Touch, b: Touch) -> bool:
    """Whether the stages of two accesses are known and differ. Stages of a ring buffer are compared modulo its
    length."""
    both = _comparable_stages(a, b)
    if both is None:
        return False
    distance, modulus = both[0].constant - both[1].constant, both[0].modulus
    return distance % modulus != 0 if modulus else distance != 0


def _comparable_stages(a: Touch, b: Touch) -> tuple[Stage, Stage] | None:
    """Returns the stages of two accesses if these differ only by a constant. Otherwise returns None. For TMA boxes, the
    result contains only the axes along which this is true."""
    one, other = a.stage, b.stage
    if one is None or other is None or one.modulus != other.modulus:
        return None
    if one.axes and other.axes:
        both = set(one.axes) & set(other.axes)
        axes = [axis for axis in both if one.along([axis]).terms == other.along([axis]).terms]
        return (one.along(axes), other.along(axes)) if axes else None
    return (one, other) if one.terms == other.terms and one.axes == other.axes else None


def _comparable(a: Touch, b: Touch) -> bool:
    """Whether the offsets of two accesses differ only by a constant. They must have the same unknown terms. Both must
    count from the start of a stage, or neither of them."""
    return a.in_stage == b.in_stage and (a.offsets is None or b.offsets is None or a.offsets.terms == b.offsets.terms)


class _Met(Struct):
    """The results of comparing one access with others. Each field is a set of other accesses, stored as a bit mask.

    `compared`: the accesses compared so far.
    `warp`, `block`: the accesses that conflict with the given access within a warp, and those that conflict with it
        across the block.
    `sure`: the accesses for which the conflict is proved.
    """

    compared: int = 0
    warp: int = 0
    block: int = 0
    sure: int = 0


class Comparisons:
    """Finds the earlier accesses that conflict with a later access. The results are cached, because walks compare the
    same pairs again and again."""

    def __init__(self, accesses: OpenAccesses, meeting: Callable[[Touch, Touch], Meeting | None]):
        self.accesses, self.meeting = accesses, meeting
        self.known: dict[int, _Met] = defaultdict(_Met)

    def scope(self, access: int, others: int) -> Scope | None:
        """Returns the widest scope in which an access conflicts with any of `others`. Returns None if there is no
        conflict."""
        touches, known = self.accesses.touches, self.known[access]
        touch = touches[access]
        new = others & self.accesses.before(touch) & ~known.compared
        for number in members(new) if new else ():
            if others & known.block:  # the widest scope is found, so no other comparison can change the result
                break
            other = touches[number]
            met = self.meeting(other, touch) if touch.write or other.write else None
            known.compared |= 1 << number
            if met is not None:
                known.warp |= (met.scope == "warp") << number
                known.block |= (met.scope == "block") << number
                known.sure |= (met.doubt is None) << number
        return "block" if others & known.block else "warp" if others & known.warp else None

    def met(self, access: int, others: int) -> int:
        """Returns the accesses in `others` that conflict with `access` across the block. If there are none, returns
        those that conflict with it within a warp. Considers only pairs that `scope` has compared before."""
        known = self.known[access]
        return others & known.block or others & known.warp

    def one(self, access: int, others: int) -> int:
        """Returns one of the accesses that `met` returns, preferably one with a proven conflict."""
        met = self.met(access, others)
        return next(members(met & self.known[access].sure or met))
