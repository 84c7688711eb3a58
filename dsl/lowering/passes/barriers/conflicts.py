"""Whether two accesses meet: two threads touch one element, and no barrier orders them.

A thread releases to other blocks what it did itself and what barriers brought it from other threads. Other threads see
what it acquired only behind a barrier (PTX ISA 8, "Causality order"). So a release meets all earlier accesses of global
memory by other threads, and an acquire meets all later ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

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

# Iterations of a loop that are compared one by one. Beyond, an access counts as being anywhere: that may cost a barrier
# too many, never one too few.
MAX_ROUNDS_BACK = 64
UNPLACED, APART = Meeting("block", Doubt.PLACE), Meeting("block", Doubt.BASE)


def meeting(pending: Touch, touch: Touch, warps: int) -> Meeting | None:
    """How a pending access meets another one, in any iteration that it stands for: the one with the widest scope, and
    of those one that is known, not only possible."""
    if touch.combines is not None and touch.combines == pending.combines:
        return None  # atomics whose order does not matter
    strongest: Meeting | None = None
    for earlier in earlier_iterations(pending, touch):
        met = conflict(earlier, touch, warps)
        if met is None or (met.scope == "warp" and pending.warp_ordered):
            continue
        if strongest is None or met.strength > strongest.strength:
            strongest = met
    return strongest


def collision(flying: Touch, touch: Touch) -> Meeting | None:
    """How a copy in flight meets an access; None if they touch different elements, in all iterations of the copy."""
    if touch.combines is not None and touch.combines == flying.combines:
        return None
    for earlier in earlier_iterations(flying, touch):
        if not disjoint(earlier, touch):
            return IN_BLOCK
    return None


def conflict(a: Touch, b: Touch, warps: int) -> Meeting | None:
    """How two accesses meet; None if each element that both touch is touched by one thread only."""
    if a.bond is not None or b.bond is not None:
        scope = scope_of_acting((a, b), warps)
        return None if scope is None else Meeting(scope)
    if disjoint(a, b):
        return None
    if a.offsets is None or b.offsets is None:
        return UNPLACED
    if not _comparable(a, b):
        return APART
    # wgmma reads through the asynchronous proxy. The fence for that goes with barriers of the block.
    if a.grouped or b.grouped:
        return IN_BLOCK
    met = meeting_of_elements(a, b, warps)
    if met is None:
        return IN_WARP if a.joint or b.joint else None
    known = not a.in_stage or _comparable_stages(a, b) is not None
    return met if known else Meeting(met.scope, Doubt.SLOT)


def earlier_iterations(a: Touch, b: Touch) -> list[Touch]:
    """The accesses that `a` stands for, one for each earlier iteration that may meet `b`."""
    if a.before is None:
        return [a]
    stage, offset = a.before
    iterations: Iterable[int] | None = None
    if _comparable(a, b) and offset and a.offsets is not None and b.offsets is not None:
        low_a, high_a = a.offsets.reach(a.shape)
        low_b, high_b = b.offsets.reach(b.shape)
        first, last = low_a - high_b, high_a - low_b  # of the distance by which `a` is moved back
        if offset < 0:
            first, last = -last, -first
        iterations = range(max(0, -(-first // abs(offset))), last // abs(offset) + 1)
    elif stage and (both := _comparable_stages(a, b)) is not None:
        back = along(stage, both[0].axes) if both[0].axes else stage
        if not back:  # all iterations are at the same place along these axes
            return [a.without(False, bool(offset)).along(both[0].axes)]
        if both[0].modulus:  # a ring: after `modulus` iterations, the stages repeat
            iterations = range(both[0].modulus)
        else:
            away, rest = divmod(both[0].constant - both[1].constant, back)
            iterations = [away] if away >= 0 and not rest else []
    if iterations is None or len(list(iterations)) > MAX_ROUNDS_BACK:
        return [a.without(bool(stage), bool(offset))]
    return [a.shifted(k * stage, k * offset) for k in iterations]


def disjoint(a: Touch, b: Touch) -> bool:
    """Whether two accesses are known to touch different elements."""
    if _different_stages(a, b):
        return True
    if a.offsets is None or b.offsets is None or not _comparable(a, b):
        return False
    # Ranges first: most disjoint accesses are of separate ranges, and listing elements takes longer.
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
    """Whether both stages are known and differ. Stages of a ring are compared modulo its length."""
    both = _comparable_stages(a, b)
    if both is None:
        return False
    distance, modulus = both[0].constant - both[1].constant, both[0].modulus
    return distance % modulus != 0 if modulus else distance != 0


def _comparable_stages(a: Touch, b: Touch) -> tuple[Stage, Stage] | None:
    """The stages of both accesses, if their distance is the difference of their constants; else None. Of TMA boxes,
    only the axes along which that holds."""
    one, other = a.stage, b.stage
    if one is None or other is None or one.modulus != other.modulus:
        return None
    if one.axes and other.axes:
        both = set(one.axes) & set(other.axes)
        axes = [axis for axis in both if one.along([axis]).terms == other.along([axis]).terms]
        return (one.along(axes), other.along(axes)) if axes else None
    return (one, other) if one.terms == other.terms and one.axes == other.axes else None


def _comparable(a: Touch, b: Touch) -> bool:
    """Whether offsets count from the same place (both within a stage, or neither) and have the same unknowns."""
    return a.in_stage == b.in_stage and (a.offsets is None or b.offsets is None or a.offsets.terms == b.offsets.terms)


@dataclass(slots=True)
class _Met:
    """What is known of one access, as sets of others: those compared with it, those that it meets within a warp and
    within the block, and those that it is known to meet."""

    compared: int = 0
    warp: int = 0
    block: int = 0
    sure: int = 0


class Comparisons:
    """Which accesses meet a later one. Each pair is compared once: walks ask for the same pairs again and again."""

    def __init__(self, accesses: OpenAccesses, meeting: Callable[[Touch, Touch], Meeting | None]):
        self.accesses, self.meeting = accesses, meeting
        self.known: dict[int, _Met] = defaultdict(_Met)

    def scope(self, access: int, others: int) -> Scope | None:
        """The widest scope in which an access meets one of `others`, or None."""
        touches, known = self.accesses.touches, self.known[access]
        touch = touches[access]
        new = others & self.accesses.before(touch) & ~known.compared
        for number in members(new) if new else ():
            if others & known.block:  # the widest scope is found: no other comparison can change the result
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
        """Those of `others` that an access meets in the widest scope, as far as compared."""
        known = self.known[access]
        return others & known.block or others & known.warp

    def one(self, access: int, others: int) -> int:
        """One of `others` that an access meets in the widest scope; one that it is known to meet, if possible."""
        met = self.met(access, others)
        return next(members(met & self.known[access].sure or met))
