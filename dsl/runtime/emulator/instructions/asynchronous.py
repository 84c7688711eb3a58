"""Implements `cp.async` and `mbarrier` (PTX ISA 9.7.9.25, 9.7.13.15)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code import BarrierOperands, Code, Op, Values
from ..findings import Kind
from ..mbarriers import MOST, ArrivalOrder
from ..memory import SHARED_WINDOW
from ..reader import Not, PtxInstruction, Register
from ..relaxed import BLOCK, CLUSTER
from ..shadow import PLAIN_READ, SpacePlace
from ..spaces import BadLanes, Space
from ..traffic import LINE
from .memory_access import access, state_space
from .registry import computed, constant_of, instruction


@instruction("cp.async", effect=True)
def copy(code: Code, ins: PtxInstruction) -> Op:
    """Implements `cp.async.{ca,cg}.shared.global [dst], [src], cp-size{, src-size | ignore-src}`."""
    word = ins.opcode[2]
    if word == "commit_group":
        return lambda v, g: g.wave.copies.commit(g)
    if word == "wait_all":
        return lambda v, g: g.wave.copies.wait(g, None)
    if word == "wait_group":
        count = constant_of(ins.operands[0])
        return lambda v, g: g.wave.copies.wait(g, count)
    if word == "mbarrier":
        return copy_arrive(code, ins)
    return start_copy(code, ins)


def start_copy(code: Code, ins: PtxInstruction) -> Op:
    size = constant_of(ins.operands[2])
    source_base, source_offset = code.address(ins.operands[1])
    ignored: int | None = None
    negated = False
    source_size: int | None = None
    rest = ins.operands[3 : -1 if "L2::cache_hint" in ins.opcode else None]
    if rest:
        operand = rest[0]
        source = operand.operand if isinstance(operand, Not) else operand
        if isinstance(source, Register) and code.registers.get(source.name) == "pred":
            ignored, negated = code.predicate(operand)
        else:
            source_size = code.read(operand, "u32")
    site = code.site
    # The copy moves either units of 8 bytes or a single unit of 4 bytes.
    dtype, count = (np.dtype(np.uint32), 1) if size == 4 else (np.dtype(np.uint64), size // 8)

    def body(v: Values, g: Any, memory: Any, address: Any) -> None:
        target = memory.place(address, size, g, site, True, g.launch.counters_of(site))
        source = v[source_base] + np.uint64(source_offset % (1 << 64))
        wanted = np.full(1, size) if source_size is None else v[source_size]
        if ignored is not None:
            wanted = np.where(~v[ignored] if negated else v[ignored], 0, wanted)
        if (wanted > size).any():
            lane = int(np.flatnonzero(np.broadcast_to(wanted > size, g.n))[0])
            message = f"a copy of {size} bytes has a source size of {int(np.broadcast_to(wanted, g.n)[lane])}"
            g.launch.report(Kind.OUT_OF_BOUNDS, message, g, lane, site)
            wanted = np.minimum(wanted, size)
        if (wanted == size).all():
            place, data = read_source(source, g)
            sources = [(g.wave.positions[: g.n], place)]
        else:
            source, wanted = np.broadcast_to(source, g.n), np.broadcast_to(wanted, g.n)
            data = np.zeros((g.n, count), dtype)
            partly = np.flatnonzero((wanted > 0) & (wanted < size))
            sources = read_bytes(data, partly, wanted, source, g, g.wave.spaces["global"], site)
            full = np.flatnonzero(wanted == size)
            if len(full):
                place, data[full] = read_source(source[full], g.part(full))
                sources.append((full, place))
        # A lane that reads nothing writes zeros, and its line number is -1.
        lines = np.where(wanted > 0, (source // np.uint64(LINE)).astype(np.int64), -1)
        shared = np.broadcast_to(address.astype(np.int64), g.n)
        memory.count_lines(shared, np.broadcast_to(lines, g.n), size, g, g.launch.counters_of(site))
        memory.shadow.start_copy(target, g, site)
        memory.store(target, data if count > 1 else data[:, 0], dtype, count)
        g.wave.copies.start(g, site, memory, target, g.wave.spaces["global"], sources)

    def read_source(source: Any, part: Any) -> tuple[SpacePlace, Any]:
        device = part.wave.spaces["global"]
        place = device.place(source, size, part, site, False, part.launch.counters_of(site))
        if not place.unwritten:
            device.shadow.access(PLAIN_READ, place, part, site)
        return place, np.array(device.load(place, dtype, count)).reshape(-1, count)

    return access(code, state_space(ins.opcode), ins.operands[0], body)


def read_bytes(
    data: Any, lanes: Any, wanted: Any, source: Any, g: Any, device: Space, site: Any
) -> list[tuple[Any, SpacePlace]]:
    """Reads the source of the lanes whose source size is smaller than the copy size. Each lane reads as many bytes as
    its source size, and the rest of its row in `data` stays 0. Returns pairs (lanes, granules that these lanes
    read)."""
    image = data.view(np.uint8)
    read = []
    for byte in range(int(wanted[lanes].max()) if len(lanes) else 0):
        chosen = lanes[wanted[lanes] > byte]
        part = g.part(chosen)
        place = device.place(source[chosen] + np.uint64(byte), 1, part, site, False, None)
        granules = place.widened(device.shadow.granule)
        device.shadow.access(PLAIN_READ, granules, part, site)
        image[chosen, byte] = device.load(place, np.uint8, 1)
        read.append((chosen, granules))
    return read


def copy_arrive(code: Code, ins: PtxInstruction) -> Op:
    """Implements `cp.async.mbarrier.arrive{.noinc}`: each thread arrives once its copies are complete. Without
    `.noinc`, the instruction also increments the pending count of the mbarrier at once (PTX ISA)."""
    counted = "noinc" in ins.opcode
    site = code.site

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        g.wave.mbarriers.defer(g, memory, address, site, raises_pending=not counted)

    return access(code, state_space(ins.opcode), ins.operands[0], body)


@instruction("mbarrier", effect=True)
def mbarrier(code: Code, ins: PtxInstruction) -> Op:
    action = ins.opcode[1]
    space = state_space(ins.opcode)
    if action in {"init", "inval", "expect_tx", "complete_tx"}:
        return change(code, ins, action, space)
    if action in {"arrive", "arrive_drop"}:
        return arrive(code, ins, space)
    if action == "test_wait":
        return wait(code, ins, space)
    assert action == "pending_count"
    a = code.read(ins.operands[1], "u64")
    d = code.write(ins.operands[0], "u32")
    return computed(lambda state: (state & np.uint64(MOST)).astype(np.uint32), d, [a])


def change(code: Code, ins: PtxInstruction, action: str, space: str) -> Op:
    count = code.read(ins.operands[1], "u32") if action != "inval" else None
    site = code.site

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        if count is None:
            g.wave.mbarriers.invalidate(g, memory, address, site)
        elif action == "init":
            g.wave.mbarriers.init(g, memory, address, v[count], site)
        else:
            g.wave.mbarriers.transfer(g, memory, address, v[count], site, action == "expect_tx")

    return access(code, space, ins.operands[0], body)


def order_of(ins: PtxInstruction) -> ArrivalOrder:
    """Returns the scope of an mbarrier operation, and whether it is relaxed. The scope is the cluster if the opcode
    contains `.cluster`, else the block."""
    return ArrivalOrder(CLUSTER if "cluster" in ins.opcode else BLOCK, "relaxed" in ins.opcode)


def arrive(code: Code, ins: PtxInstruction, space: str) -> Op:
    """Implements `mbarrier.arrive{.expect_tx} {state,} [addr]{, count}`."""
    expects = "expect_tx" in ins.opcode
    has_state = isinstance(ins.operands[0], Register)
    operands = ins.operands[1:] if has_state else ins.operands
    count = code.read(operands[1], "u32") if len(operands) > 1 else None
    wants_state = has_state and getattr(ins.operands[0], "name", "_") != "_"
    d = code.write(ins.operands[0], "b64") if wants_state else None
    site, drops, order = code.site, ins.opcode[1] == "arrive_drop", order_of(ins)
    completes = "noComplete" not in ins.opcode

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        amount = 1 if count is None else v[count]
        if d is not None:
            # Only an arrival at an mbarrier of the thread's own block may return a state.
            g.wave.mbarriers.place(g, memory, address, site, own=True)
        # The expected bytes are added before the arrival, so that the phase cannot complete in between (PTX ISA,
        # "mbarrier.arrive.expect_tx").
        if expects:
            g.wave.mbarriers.transfer(g, memory, address, amount, site, expects=True)
            amount = 1
        state = g.wave.mbarriers.arrive(g, memory, address, amount, site, drops, order, completes)
        if d is not None:
            v[d][...] = state

    return access(code, space, operands[0], body)


def wait(code: Code, ins: PtxInstruction, space: str) -> Op:
    """Implements `mbarrier.{test,try}_wait{.parity} p, [addr], state{, time limit}`."""
    parity, order = "parity" in ins.opcode, order_of(ins)
    state = code.read(ins.operands[2], "u32" if parity else "b64")
    d = code.write(ins.operands[0], "pred")
    site = code.site

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        states = np.broadcast_to(v[state], g.n)
        try:
            v[d][...] = g.wave.mbarriers.test(g, memory, address, states, parity, site, order)
        except BadLanes as fault:
            g.wave.mbarriers.refused[g.index()[fault.bad]] = True
            raise

    test = access(code, space, ins.operands[1], body)

    def run(v: Values, g: Any) -> None:
        test(v, g)
        refused = g.wave.mbarriers.refused[g.index()]
        if refused.any():
            v[d][refused] = True  # The fault is reported. If findings are collected, the run must still end.

    return run


@instruction("mbarrier.try_wait", effect=True, sync="barrier")
def try_wait(code: Code, ins: PtxInstruction) -> Op:
    """Implements `mbarrier.try_wait`. Threads may wait at this instruction until the phase is complete."""
    parity = "parity" in ins.opcode
    base, offset = code.address(ins.operands[1])
    state = code.read(ins.operands[2], "u32" if parity else "b64")
    site = code.site
    window = SHARED_WINDOW if state_space(ins.opcode) == "generic" else 0

    def keys(v: Values, g: Any) -> Any:
        address = v[base] + v[base].dtype.type(offset % (1 << 8 * v[base].dtype.itemsize))
        return g.wave.mbarriers.own_keys(g, np.broadcast_to(address, g.n).astype(np.int64) - window)

    def ready(v: Values, g: Any) -> Any:
        return g.wave.mbarriers.ready(g, keys(v, g), np.broadcast_to(v[state], g.n), parity, site)

    def missing(v: Values, g: Any) -> str:
        return g.wave.mbarriers.missing(int(keys(v, g)[0]), int(v[state][0]), parity)

    code.record.barrier = BarrierOperands("try_wait", aligned=False, ready=ready, missing=missing)
    return wait(code, ins, state_space(ins.opcode))
