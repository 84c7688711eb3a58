"""Implements instructions that the lanes of a warp execute together: shfl, vote, match, redux, elect, bar.warp.sync
(PTX ISA 9.7.9.6, 9.7.13).

Each of these instructions begins a basic block. When its closure runs, all lanes of its mask have arrived
(`rendezvous.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code import Code, Op, Values
from ..findings import Kind
from ..reader import Operand, Pair, PtxInstruction
from ..reductions import UFUNCS
from .registry import instruction

LANE = np.arange(32, dtype=np.int64)
BITS = np.uint32(1) << np.arange(32, dtype=np.uint32)


def results(code: Code, operand: Operand, type_name: str) -> tuple[int, int | None]:
    """Returns the frame entries of the destination: (d, p) for `d|p`, and (d, None) for `d`."""
    if isinstance(operand, Pair):
        return code.write(operand.first, type_name), code.write(operand.second, "pred")
    return code.write(operand, type_name), None


def source_lanes(mode: str, lane: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Returns two arrays: the source lane of each lane, and whether it is in range (by the formulas of PTX ISA
    "shfl.sync")."""
    clamp, segment = c & 31, (c >> 8) & 31
    highest = (lane & segment) | (clamp & ~segment)
    lowest = lane & segment
    b = b & 31
    if mode == "up":
        source = lane - b
        valid = source >= highest
    elif mode == "down":
        source = lane + b
        valid = source <= highest
    elif mode == "bfly":
        source = lane ^ b
        valid = source <= highest
    else:
        source = lowest | (b & ~segment)
        valid = source <= highest
    return np.where(valid, source, lane), valid


@instruction("shfl.sync", effect=True, sync="warp", counts="shuffles")
def shfl(code: Code, ins: PtxInstruction) -> Op:
    mode = ins.opcode[2]
    a = code.read(ins.operands[1], "b32")
    b, c = code.read(ins.operands[2], "u32"), code.read(ins.operands[3], "u32")
    mask = code.meet(ins.operands[4])
    d, p = results(code, ins.operands[0], "b32")
    site = code.site

    def run(v: Values, g: Any) -> None:
        is_fixed = len(v[b]) == len(v[c]) == len(v[mask]) == 1 and g.n > 1
        # The usual case. All warps have the same table of source lanes.
        if is_fixed and g.whole and int(v[mask][0]) == 0xFFFFFFFF:
            source, valid = source_lanes(mode, LANE, v[b].astype(np.int64), v[c].astype(np.int64))
            table = np.broadcast_to(v[a], g.n).reshape(-1, 32)  # a constant has one value for all lanes
            v[d].reshape(-1, 32)[...] = table.take(source, axis=1)
            if p is not None:
                v[p].reshape(-1, 32)[...] = valid
            return
        lane = g.index() & 31
        source, valid = source_lanes(mode, lane, v[b].astype(np.int64), v[c].astype(np.int64))
        check_sources(g, np.broadcast_to(v[mask], g.n), source, site)
        table = g.by_warp(np.broadcast_to(v[a], g.n), 0)
        _, rows = g.warp_rows
        result = table[rows, source]
        v[d][...] = result
        if p is not None:
            v[p][...] = valid

    return run


def check_sources(g: Any, mask: Any, source: Any, site: Any) -> None:
    """Reports source lanes that are not in the mask or that do not take part."""
    outside = (mask >> source.astype(np.uint32)) & np.uint32(1) == 0
    if outside.any():
        lane = int(np.flatnonzero(outside)[0])
        message = f"reads lane {int(source[lane])}, which the mask {int(mask[lane]):#x} does not name"
        g.launch.report(Kind.SOURCE_LANE, message, g, lane, site)
    _, rows = g.warp_rows
    absent = ~g.presence[rows, source] & ~outside
    if absent.any():
        lane = int(np.flatnonzero(absent)[0])
        message = f"reads lane {int(source[lane])}, which does not take part: it has exited or does not exist"
        g.launch.report(Kind.MISSING_LANE, message, g, lane, site)


def ballot(g: Any, flags: Any) -> Any:
    """Returns a 32-bit word for each warp. Bit l is set if the flag of lane l is set."""
    return (g.by_warp(flags.astype(np.uint32), 0) * BITS).sum(1, dtype=np.uint32)


def members(g: Any, mask: Any) -> tuple[Any, Any]:
    """Returns the team number of each lane, and the number of teams. A team consists of the lanes of a warp that have
    equal masks."""
    _, rows = g.warp_rows
    if g.whole and len(mask) == 1:
        return rows, g.n // 32
    pairs = rows.astype(np.int64) << 32 | np.broadcast_to(mask, g.n)
    _, found = np.unique(pairs, return_inverse=True)
    return found, int(found.max()) + 1


def team_ballot(g: Any, flags: Any, mask: Any) -> Any:
    """Returns a 32-bit word for each lane. Bit l is set if lane l is in the same team and its flag is set."""
    if g.whole and len(mask) == 1:
        return np.repeat(ballot(g, flags), 32)
    teams, count = members(g, mask)
    bits = np.zeros(count, np.uint32)
    np.bitwise_or.at(bits, teams, np.where(flags, np.uint32(1) << (g.index() & 31).astype(np.uint32), np.uint32(0)))
    return bits[teams]


@instruction("vote.sync", effect=True, sync="warp")
def vote(code: Code, ins: PtxInstruction) -> Op:
    mode = ins.opcode[2]
    a, negated = code.predicate(ins.operands[1])
    mask = code.meet(ins.operands[2])
    d = code.write(ins.operands[0], "b32" if mode == "ballot" else "pred")

    def run(v: Values, g: Any) -> None:
        flags = np.broadcast_to(~v[a] if negated else v[a], g.n)
        if mode == "ballot":
            v[d][...] = team_ballot(g, flags, v[mask])
        elif mode == "any":
            v[d][...] = team_ballot(g, flags, v[mask]) != 0
        elif mode == "all":
            v[d][...] = team_ballot(g, ~flags, v[mask]) == 0
        else:
            v[d][...] = (team_ballot(g, flags, v[mask]) == 0) | (team_ballot(g, ~flags, v[mask]) == 0)

    return run


@instruction("match.any", "match.all", effect=True, sync="warp")
def match(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    a = code.read(ins.operands[1], type_name)
    mask = code.meet(ins.operands[2])
    d, p = results(code, ins.operands[0], "b32")
    every = ins.opcode[1] == "all"

    def run(v: Values, g: Any) -> None:
        teams, _ = members(g, v[mask])
        values = np.broadcast_to(v[a], g.n)
        bit = np.uint32(1) << (g.index() & 31).astype(np.uint32)
        _, value_of = np.unique(values, return_inverse=True)
        key = teams * (int(value_of.max()) + 1) + value_of
        _, cell = np.unique(key, return_inverse=True)
        same = np.zeros(int(cell.max()) + 1, np.uint32)
        np.bitwise_or.at(same, cell, bit)
        everyone = np.zeros(int(teams.max()) + 1, np.uint32)
        np.bitwise_or.at(everyone, teams, bit)
        if every:
            agree = same[cell] == everyone[teams]
            v[d][...] = np.where(agree, everyone[teams], np.uint32(0))
            if p is not None:
                v[p][...] = agree
        else:
            v[d][...] = same[cell]

    return run


@instruction("redux.sync", effect=True, sync="warp")
def redux(code: Code, ins: PtxInstruction) -> Op:
    operation, type_name = ins.opcode[2], ins.opcode[-1]
    a, mask = code.read(ins.operands[1], type_name), code.meet(ins.operands[2])
    d = code.write(ins.operands[0], type_name)
    function = UFUNCS[operation]

    def run(v: Values, g: Any) -> None:
        teams, _ = members(g, v[mask])
        order = np.argsort(teams, kind="stable")
        starts = np.flatnonzero(np.diff(teams[order], prepend=-1))
        v[d][...] = function.reduceat(np.broadcast_to(v[a], g.n)[order], starts)[teams]

    return run


@instruction("activemask")
def activemask(code: Code, ins: PtxInstruction) -> Op:
    """Bit l of the result is set if lane l of the warp now runs together with this lane."""
    d = code.write(ins.operands[0], "b32")

    def run(v: Values, g: Any) -> None:
        v[d][...] = team_ballot(g, np.ones(g.n, bool), np.zeros(1, np.uint32))

    return run


@instruction("elect.sync", effect=True, sync="warp")
def elect(code: Code, ins: PtxInstruction) -> Op:
    """Elects the lowest lane of the mask. The ISA leaves the choice open."""
    mask = code.meet(ins.operands[1])
    d, p = results(code, ins.operands[0], "b32")

    def run(v: Values, g: Any) -> None:
        bits = team_ballot(g, np.ones(g.n, bool), v[mask])
        leader = np.bitwise_count((bits & -bits) - np.uint32(1))
        v[d][...] = leader
        if p is not None:
            v[p][...] = leader == (g.index() & 31)

    return run


@instruction("bar.warp.sync", "barrier.warp.sync", effect=True, sync="warp", counts="warp_barriers")
def warp_barrier(code: Code, ins: PtxInstruction) -> Op:
    mask = code.meet(ins.operands[0])

    def run(v: Values, g: Any) -> None:
        g.wave.warps_met(g, np.broadcast_to(v[mask], g.n))

    return run
