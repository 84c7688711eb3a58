"""Chooses swizzles that avoid bank conflicts for shared tiles.

A swizzle XORs upper bits of a byte offset (from bit 7 on, the 128-byte row) into the lower bits, which select the bank.
The bits within the widest access do not change. A phase is the set of lanes that shared memory serves together. An
access is free of conflicts if the lanes of each phase have linearly independent bank bits. The search assigns masks to
the upper bits, one bit after the other. For each bit, it tries masks until the lanes that no later bit affects have no
conflicts. If an access has too many lanes for different banks, the search aims for as few passes as possible.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial, reduce
from itertools import combinations
from operator import or_
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.directives.slices import inside
from dsl.lowering.directives.subjects import listed
from dsl.lowering.ir.function import Function, Op, Value, in_line, walk
from dsl.lowering.ir.location import TileError, closest
from dsl.lowering.ir.plugins import Opening
from dsl.lowering.ir.schedule import SwizzlePin
from dsl.lowering.ir.types import SharedType
from dsl.lowering.known.facts import facts_of
from dsl.lowering.layouts.layout import BasisSpan
from dsl.lowering.shared.access_width import stage_bytes
from dsl.lowering.shared.shared_map import (
    BANKS,
    WORD,
    Phase,
    SharedMaps,
    Swizzle,
    access_bytes,
    access_layout_of,
    conflicts,
    phase_of,
    shared_accesses,
)

FIRST_BIT = BANKS.bit_length() - 1  # the lowest bit of the row of banks; lower bits choose bytes within a row
MAX_BITS = 8  # the maximum number of upper bits for which the search finds masks: each further bit multiplies its time
WORST = FIRST_BIT - 1  # log2 of the maximum number of passes: 32 lanes take at most 32 passes


def swizzle_shared(function: Function) -> None:
    """Sets the swizzle of each tile, unless TMA or wgmma fixes it. If the schedule contains no `swizzle` line for a
    tile, the pass computes a swizzle that removes conflicts. Raises TileError `layout` for a `swizzle` line that does
    not fit, or that differs from a fixed swizzle."""
    allocs = [op for op in function.body.ops if op.spec.allocates]
    names = {op.attrs["name"] for op in allocs}
    for name, pin in function.swizzles.items():
        if name not in names:
            hint = closest(name, names) or listed("shared tiles", names)
            raise TileError("layout", pin.loc, f"the kernel has no shared tile '{name}'", hint)
    maps = SharedMaps(facts_of(function))
    accesses: defaultdict[Value, list[Op]] = defaultdict(list)
    for op in shared_accesses(walk(function.body)):
        accesses[op.operands[0]].append(op)
    loops = [op for op in walk(function.body) if op.spec.control.loops]
    again = {op.operands[0] for loop in loops for op in shared_accesses(inside(loop))}
    for op in allocs:
        type = op.attrs["type"]
        wanted, mine = function.swizzles.get(op.attrs["name"]), accesses[op.result]
        phases = _phases(maps, mine)
        if type.fixed:
            rule, why = type.swizzle, "copies of boxes, and products of warp groups, have it so"
            if wanted is not None and _pinned(wanted, type) != rule:
                raise _conflict(wanted, op, rule, why)
        elif wanted is not None:
            rule, why = _pinned(wanted, type), ""
            if wanted.bits is not None:
                _check_accesses(wanted, wanted.bits, maps, mine)
        else:
            rule, why = _computed(phases, type, op.result in again)
        widest = [p.bytes for p in phases] if phases is not None else [access_bytes(maps.analysis, op) for op in mine]
        # A fixed swizzle has no alternatives: TMA and wgmma use it regardless of the choice.
        options = {_said(rule): rule} if type.fixed else _options(max(widest, default=1), type, rule)
        swizzle = function.choices.choose(
            "swizzle",
            op.attrs["name"],
            options,
            _said(rule),
            loc=op.loc,
            because=why,
            costs=partial(_passes, phases, options),
            unit="passes over the banks, a phase of each access",
            pinned=None if wanted is None else wanted.loc,
            line=f"swizzle {op.attrs['name']}: {{option}}",
            opening=None if type.fixed else _opened(type, phases, max(widest, default=1)),
        )
        if swizzle:
            op.attrs["type"] = op.result.type = replace(type, swizzle=swizzle)


def bank_conflicts(function: Function) -> list[tuple[Op, int | None]]:
    """Lists each access to shared memory with the number of extra passes over the banks in one phase of the access.

    The number is None if the offsets depend on loaded data, or if a mask decides which lanes do the access.
    """
    maps = SharedMaps(facts_of(function))
    return [(op, conflicts(maps, op)) for op in shared_accesses(walk(function.body))]


def _extent(type: SharedType) -> int:
    """Returns the number of bytes that are swizzled together: a stage or a whole tile."""
    return stage_bytes(type) if type.ring else type.bytes


def _pinned(pin: SwizzlePin, type: SharedType) -> Swizzle:
    """Returns the swizzle for the schedule line `swizzle s: BITS, BASE, SHIFT`. It XORs BITS bits of an offset, from
    bit BASE on, with the bits that are SHIFT positions higher."""
    if pin.bits is None:
        return ()
    count, base, shift = pin.bits
    if not (count >= 1 and base >= 0 and shift >= count and base + shift + count <= _bits(type)):
        moves = f"bits from {base + shift} move bits from {base} of a byte offset below {_extent(type)}"
        hint = "BITS, the lowest bit that moves, and how far above it lie the bits that move it (at least BITS)"
        raise TileError("layout", pin.loc, f"swizzle {count}, {base}, {shift} does not fit: {moves}", hint)
    return bits_swizzle(count, base, shift)


def _conflict(pin: SwizzlePin, alloc: Op, swizzle: Swizzle, why: str) -> TileError:
    name, type, said = alloc.attrs["name"], alloc.attrs["type"], _said(swizzle)
    rows = f"{type.shape[-2]} rows of {type.shape[-1] * type.dtype.bits // 8} bytes"
    message = f"'{name}' has the swizzle of its {rows}, which is {said}: {why}"
    return TileError("layout", pin.loc, message, f"swizzle {name}: {said}, or leave out the line")


def _check_accesses(pin: SwizzlePin, bits: tuple[int, int, int], maps: SharedMaps, accesses: list[Op]) -> None:
    """Raises TileError `layout` for a requested swizzle that changes bits within an access. The bytes of the access
    would not stay contiguous."""
    widest = max(accesses, key=lambda op: access_bytes(maps.analysis, op), default=None)
    size = 1 if widest is None else access_bytes(maps.analysis, widest)
    if widest is None or size <= 1 << bits[1]:
        return
    message = f"this swizzle moves bits from {bits[1]} up, within the {size} bytes of an access{in_line(widest)}"
    hint = f"let the lowest bit that moves be {size.bit_length() - 1} or more, or give the accesses shorter vectors"
    raise TileError("layout", pin.loc, message, hint)


def _bits(type: SharedType) -> int:
    """Returns the number of low offset bits that a swizzle may use: the greatest n such that 2^n divides the size of
    the tile. With higher bits, a swizzle could move an offset out of the tile."""
    extent = _extent(type)
    return (extent & -extent).bit_length() - 1


def _phases(maps: SharedMaps, accesses: list[Op]) -> list[Phase] | None:
    """Returns one phase of each access. Returns None if the offsets of any access are unknown."""
    phases: list[Phase] = []
    for op in accesses:
        layout = access_layout_of(op)
        if layout is None:
            continue
        map = maps.of(op, layout)
        if map is None:
            return None
        phases.append(phase_of(maps.analysis, op, map))
    return phases


def _computed(phases: list[Phase] | None, type: SharedType, again: bool) -> tuple[Swizzle, str]:
    """Returns the swizzle with the fewest conflicts, and the reason for it. Returns no swizzle, an empty tuple, if the
    offsets of an access are unknown.

    `again` is true if the accesses are in a loop. Outside of loops, a swizzle is used only if it removes all conflicts.
    Swizzled addresses are computed at the start of the kernel and occupy registers until the accesses. With them, a sum
    of f16 along an axis took 46.8 us on an H200 instead of 34.8.
    """
    if phases is None:
        return (), "where an access goes is known at run time alone"
    swizzle = best_swizzle(phases, _bits(type))
    if again or all(p.passes(swizzle) == 1 for p in phases):
        return swizzle, "the fewest conflicts" if swizzle else "no swizzle has fewer conflicts"
    return (), "conflicts are left, and the accesses happen once"


USUAL = ((3, 4, 3), (2, 4, 3), (1, 4, 3))
"""The swizzles of TMA and wgmma for rows of 128, 64 and 32 bytes."""


def _options(widest: int, type: SharedType, rule: Swizzle) -> dict[str, Swizzle]:
    """Returns the swizzles that the choice offers, keyed by their text in a schedule. All of them keep the bytes of
    every access contiguous. `widest` is the number of bytes of the widest access."""
    keep = widest.bit_length() - 1
    fitting = [(n, b, s) for n, b, s in USUAL if b >= keep and b + s + n <= _bits(type)]
    found = [rule, (), *(bits_swizzle(*bits) for bits in fitting)]
    return {_said(swizzle): swizzle for swizzle in found}


def _passes(phases: list[Phase] | None, options: dict[str, Swizzle]) -> dict[str, float]:
    return {} if phases is None else {name: sum(p.passes(s) for p in phases) for name, s in options.items()}


class SwizzleSubject(Struct, frozen=True):
    """The data that a plug-in receives for a `swizzle` choice. `phases` contains one phase of each access, or is None
    if the offsets of an access are unknown. `bits` is the number of low offset bits that a swizzle may use. `widest` is
    the number of bytes of the widest access, which must stay contiguous."""

    type: SharedType
    phases: list[Phase] | None
    bits: int
    widest: int


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and all(type(each) is int for each in value)


def _opened(tile: SharedType, phases: list[Phase] | None, widest: int) -> Opening:
    """Lets plug-ins add a swizzle. A swizzle is a tuple of pairs (bit, mask): if the bit of an offset is set, the
    offset is XORed with the mask."""
    bits, keep = _bits(tile), widest.bit_length() - 1

    def check(value: Any) -> str:
        if not isinstance(value, tuple) or not all(_is_pair(p) for p in value):
            return "a swizzle is a tuple of pairs (bit, mask)"
        movers = sum(1 << bit for bit in {bit for bit, _ in value} if 0 <= bit < bits)
        if movers.bit_count() != len(value) or any(mask & movers for _, mask in value):
            return f"bits are from 0 to {bits - 1}, each once, and no mask has one of them"
        if any(not 0 < mask < 1 << bit or mask & (1 << keep) - 1 for bit, mask in value):
            return f"a mask has bits from {keep} up to below its bit: the {widest} bytes of an access stay together"
        return ""

    def weigh(value: Swizzle) -> float | None:
        return None if phases is None else sum(p.passes(value) for p in phases)

    return Opening(SwizzleSubject(tile, phases, bits, widest), check, weigh)


def bits_swizzle(count: int, base: int, shift: int) -> Swizzle:
    """Returns the swizzle that XORs `count` bits of an offset, from bit `base` on, with the bits that are `shift`
    positions higher."""
    return tuple((base + shift + i, 1 << base + i) for i in range(count))


def _said(swizzle: Swizzle) -> str:
    """Returns a swizzle as text: BITS, BASE, SHIFT if it has that form. Otherwise the text lists each bit with its
    mask."""
    if not swizzle:
        return "none"
    first, mask = swizzle[0]
    base = mask.bit_length() - 1
    named = (len(swizzle), base, first - base)
    if swizzle == bits_swizzle(*named):
        return ", ".join(map(str, named))
    return " ".join(f"{bit}:{mask:#x}" for bit, mask in swizzle)


def best_swizzle(phases: list[Phase], bits: int) -> Swizzle:
    """Returns the swizzle with which the phases need the fewest passes over the banks. It uses only the lowest `bits`
    bits of an offset.

    The search first requires the minimum number of passes in each phase. If there is no such swizzle, it allows twice
    as many passes, then four times as many, and so on. No phase takes more passes than without a swizzle.
    """
    keep = max((p.bytes for p in phases), default=1).bit_length() - 1
    low = [1 << bit for bit in range(max(keep, WORD.bit_length() - 1), FIRST_BIT)]
    least = {p: least_passes(p, keep) for p in phases}
    # no swizzle is better, and addresses without a swizzle are cheaper
    if all(p.passes(()) == least[p] for p in phases):
        return ()
    used = reduce(or_, (lane for p in phases for lane in p.lanes), 0)  # bits in which lanes differ: they need masks
    upper = [bit for bit in range(FIRST_BIT, bits) if used >> bit & 1][:MAX_BITS]
    masks = [sum(c) for count in range(len(low) + 1) for c in combinations(low, count)]
    # First all accesses may take only their fewest passes, then twice as many: no access gets slower to make another
    # one faster. Without swizzles, a matrix product takes 3.98 to 4.39 times as long (docs/measurements.md).
    for slack in range(WORST):
        goals = {p: min(p.passes(()), least[p] << slack) for p in phases}
        found = _search(goals, upper, masks, ())
        if found is not None:
            return found
    return ()


def least_passes(phase: Phase, keep: int) -> int:
    """Returns the smallest number of passes of a phase with any swizzle that keeps the lowest `keep` bits of an offset.

    Lanes whose offsets differ only above these bits share the remaining banks. For example, a tile is stored 16 bytes
    at a time, so `keep` is 4. If 32 lanes then read 4 bytes each, at a distance of 16 bytes, the read takes at least 4
    passes.
    """
    inside = [WORD << i for i in range((phase.bytes // WORD).bit_length() - 1)]
    words, low = BasisSpan(inside), BasisSpan(inside)
    for lane in phase.lanes:
        words.add(lane & -WORD)
        low.add(lane & -WORD & (1 << keep) - 1)
    return 1 << max(0, words.rank - low.rank - (FIRST_BIT - keep))


def _search(goals: dict[Phase, int], upper: list[int], masks: list[int], swizzle: Swizzle) -> Swizzle | None:
    """Finds masks for the bits of `upper`, one after the other, such that no phase takes more passes than its goal.

    A lane is settled if its offset contains none of the later bits. If settled lanes take too many passes, no mask for
    a later bit helps. So the search tries the next mask for the current bit.
    """
    if not upper:
        return swizzle
    bit, *rest = upper
    later = sum(1 << b for b in rest)
    settled = {(Phase(tuple(b for b in p.lanes if not b & later), p.bytes), goal) for p, goal in goals.items()}
    for mask in masks:
        following = (*swizzle, (bit, mask)) if mask else swizzle
        if all(p.passes(following) <= goal for p, goal in settled):
            found = _search(goals, rest, masks, following)
            if found is not None:
                return found
    return None
