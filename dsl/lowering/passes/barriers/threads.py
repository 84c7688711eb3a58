"""Finds the scope of the conflict between two accesses: none (no two threads touch the same element), a warp, or the
block.

The offsets of both accesses must count from the same base. The accesses are compared as linear maps of bits. If one of
them is not a linear map, they are compared element by element.
"""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from dsl.lowering.ir.targets import WARP
from dsl.lowering.known.affine import Affine, apply_affine, free_of_carries
from dsl.lowering.known.listed_offsets import Listed
from dsl.lowering.layouts.layout import BasisSpan, Layout, apply
from dsl.lowering.passes.barriers.touches import Touch

# The maximum number of elements that are compared one by one. Larger accesses that are not linear maps are assumed to
# meet in the block.
MAX_ENUMERATED = 1 << 15
Scope = str
"""The scope of a barrier, and of the conflict between two accesses: "warp" or "block"."""


class Doubt(Enum):
    """Reasons why two accesses are assumed to conflict although this is not proved."""

    PLACE = "where one of them is, is not known"
    BASE = "they count from different values"
    SLOT = "it is not known that their stages differ"
    SIZE = "too many elements to compare them one by one"


class Meeting(NamedTuple):
    """A conflict between two accesses. `scope` is "warp" or "block". `doubt` is None if the conflict is proved, and
    otherwise the reason why a conflict is assumed."""

    scope: Scope
    doubt: Doubt | None = None

    @property
    def strength(self) -> tuple[bool, bool]:
        return self.scope == "block", self.doubt is None


IN_WARP, IN_BLOCK, TOO_LARGE = Meeting("warp"), Meeting("block"), Meeting("block", Doubt.SIZE)


def wider(a: Scope | None, b: Scope | None) -> Scope | None:
    return "block" if "block" in (a, b) else a or b


def scope_of_acting(touches: tuple[Touch, ...], warps: int) -> Scope | None:
    """Returns the narrowest scope that contains all threads that do any of these accesses. Returns None if only thread
    0 does them."""
    threads = 0  # the bits in which the numbers of the acting threads differ
    for touch in touches:
        if touch.layout is None:
            threads |= 0 if touch.one_thread else WARP * warps - 1
        else:
            threads |= (WARP * warps - 1) & ~_idle(touch)
    return None if not threads else "warp" if threads < WARP else "block"


def meeting_of_elements(a: Touch, b: Touch, warps: int) -> Meeting | None:
    """Returns the conflict between two accesses whose offsets count from the same base, or None."""
    if a.layout is None or b.layout is None:
        return _certain(_scope_with_scalar(a, b, warps))
    both = images(a, b)
    if both is not None:
        return _certain(scope_by_algebra(both))
    if max(a.layout.count, b.layout.count) * WARP * warps > MAX_ENUMERATED:
        return TOO_LARGE
    return _certain(_scope_by_enumeration(a, b, warps))


def _certain(scope: Scope | None) -> Meeting | None:
    return None if scope is None else IN_BLOCK if scope == "block" else IN_WARP


def _scope_by_enumeration(a: Touch, b: Touch, warps: int) -> Scope | None:
    mine, scope = owners(a, warps), None
    for offset, threads in owners(b, warps).items():
        for one in mine.get(offset, ()):
            for other in threads:
                if other != one:
                    scope = wider(scope, "warp" if other >> 5 == one >> 5 else "block")
                    if scope == "block":
                        return scope
    return scope


def _scope_with_scalar(a: Touch, b: Touch, warps: int) -> Scope | None:
    if a.layout is None and b.layout is None:
        assert a.offsets is not None and b.offsets is not None
        if a.offsets.constant != b.offsets.constant:
            return None
        if a.one_thread and b.one_thread:
            return None
        return "block"
    scalar, tile = (a, b) if a.layout is None else (b, a)
    assert scalar.offsets is not None
    met = owners(tile, warps).get(scalar.offsets.constant)
    if not met:
        return None
    if scalar.one_thread and set(met) == {0}:
        return None
    if scalar.one_thread and all(t < WARP for t in met):
        return "warp"
    return "block"


class Image(Struct, frozen=True):
    """The elements that one access touches. Each element is the XOR of some vectors: there is one vector for each bit
    in which the acting threads differ, and one for each register bit."""

    threads: tuple[tuple[int, int], ...]  # (bit of the thread's number, vector)
    registers: tuple[int, ...]


def images(a: Touch, b: Touch) -> tuple[Image, Image] | None:
    """Describes two accesses as linear maps into the same space of bits. Returns None if carries make a map nonlinear.

    If both accesses compute offsets with the same one-to-one formula, the maps yield element coordinates. Otherwise,
    they yield offsets. The offsets must then be free of carries: each coordinate has its own bits.
    """
    assert a.offsets is not None and b.offsets is not None and a.layout is not None and b.layout is not None
    if a.offsets == b.offsets and a.shape == b.shape and a.offsets.one_to_one(a.shape):
        return _image(a, None), _image(b, None)
    if isinstance(a.offsets, Listed) or isinstance(b.offsets, Listed):
        return None
    if a.offsets.constant != b.offsets.constant:
        return None
    if not (free_of_carries(a.offsets, a.layout.shape) and free_of_carries(b.offsets, b.layout.shape)):
        return None
    return _image(a, a.offsets), _image(b, b.offsets)


def _image(touch: Touch, affine: Affine | None) -> Image:
    """Returns the image of an access. Its vectors are offsets minus the constant of `affine`, or element coordinates if
    `affine` is None."""
    layout = touch.layout
    assert layout is not None

    def at(basis: int) -> int:
        return basis if affine is None else apply_affine(affine, layout.coordinates(basis)) - affine.constant

    idle = _idle(touch)
    threads = tuple((1 << i, at(b)) for i, b in enumerate(layout.thread) if not idle >> i & 1)
    return Image(threads, tuple(at(b) for b in layout.register))


def _idle(touch: Touch) -> int:
    """Returns the bits of the thread index that are 0 in all threads that do the access."""
    assert touch.layout is not None
    free = touch.layout.replicated
    return free["lane"] | free["warp"] << 5 if touch.one_thread else 0


def scope_by_algebra(images: tuple[Image, Image]) -> Scope | None:
    """Returns the scope of the threads that touch the same element: "warp" or "block". Returns None if no two threads
    do.

    The tuples (thread of a, its register, thread of b, its register) that touch the same element are the kernel of a
    linear map. So the XOR differences between the two threads form a linear space, and it is enough to check a basis of
    this space.
    """
    span = BasisSpan()  # each vector with the XOR difference of the threads that produces it
    scope: Scope | None = None
    for image in images:
        for thread, vector in (*image.threads, *((0, v) for v in image.registers)):
            rest, apart = span.reduce(vector, thread)
            if rest:
                span.add(rest, apart)
            elif apart:
                scope = wider(scope, "block" if apart >> 5 else "warp")
    return scope


def owners(touch: Touch, warps: int) -> dict[int, list[int]]:
    """Maps each offset to the threads that touch the element at that offset."""
    assert touch.layout is not None and touch.offsets is not None
    return _owners(touch.layout, touch.offsets, _idle(touch), warps)


# Cached: copies and reads of the subtiles of a tile are compared pair by pair. With the cache, each access is
# enumerated once. That saves 9 ms when a matrix product is compiled.
@lru_cache(maxsize=8)
def _owners(layout: Layout, at: Affine | Listed, idle: int, warps: int) -> dict[int, list[int]]:
    offsets = at.values(layout.shape)
    registers, bases = layout.offsets, layout.thread
    out: dict[int, list[int]] = {}
    for thread in range(WARP * warps):
        if not thread & idle:
            part = apply(bases, thread)
            for register in registers:
                out.setdefault(offsets[part ^ register], []).append(thread)
    return out
