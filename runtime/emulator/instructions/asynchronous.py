"""cp.async and mbarrier (PTX ISA 9.7.9.25, 9.7.13.15)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code import BarrierOperands, Code, Op, Values
from ..reader import Instruction, Register
from ..shadow import PLAIN_READ, Place
from ..spaces import SharedSpace, Space
from ..traffic import LINE
from .memory_access import access, state_space
from .registry import instruction


@instruction("cp.async", effect=True)
def copy(code: Code, ins: Instruction) -> Op:
    """`cp.async.{ca,cg}.shared.global [dst], [src], cp-size{, src-size | ignore-src}`."""
    word = ins.opcode[2]
    if word == "commit_group":
        return lambda v, g: g.wave.copies.commit(g)
    if word == "wait_all":
        return lambda v, g: g.wave.copies.wait(g, None)
    if word == "wait_group":
        count = getattr(ins.operands[0], "value", 0)
        return lambda v, g: g.wave.copies.wait(g, count)
    if word == "mbarrier":
        return copy_arrive(code, ins)
    if word not in {"ca", "cg"}:
        raise code.error("unknown form of cp.async")
    return start_copy(code, ins)


def start_copy(code: Code, ins: Instruction) -> Op:
    size = getattr(ins.operands[2], "value", 0)
    source_base, source_offset = code.address(ins.operands[1])
    ignored: int | None = None
    source_size: int | None = None
    if len(ins.operands) > 3:
        operand = ins.operands[3]
        is_predicate = isinstance(operand, Register) and code.registers.get(operand.name) == "pred"
        if is_predicate:
            ignored = code.read(operand, "pred")
        else:
            source_size = code.read(operand, "u32")
    site = code.site
    dtype, count = (np.dtype(np.uint32), 1) if size == 4 else (np.dtype(np.uint64), size // 8)

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        assert isinstance(memory, SharedSpace)
        target = memory.place(address, size, g, site, True, g.launch.counters_of(site))
        source = v[source_base] + np.uint64(source_offset % (1 << 64))
        wanted = np.full(1, size) if source_size is None else v[source_size]
        if ignored is not None:
            wanted = np.where(v[ignored], 0, wanted)
        if (wanted == size).all():
            full = g.wave.positions[: g.n]
            place, data = read_source(source, g)
        else:
            source, wanted = np.broadcast_to(source, g.n), np.broadcast_to(wanted, g.n)
            data = np.zeros((g.n, count), dtype)
            full, place = np.flatnonzero(wanted == size), None
            if len(full):
                place, data[full] = read_source(source[full], g.part(full))
            partly = np.flatnonzero((wanted > 0) & (wanted < size))
            read_bytes(data, partly, wanted, source, g, g.wave.space("global"), site)
        lines = np.where(wanted > 0, (source // np.uint64(LINE)).astype(np.int64), -1)
        shared = np.broadcast_to(address.astype(np.int64), g.n)
        memory.count_lines(shared, np.broadcast_to(lines, g.n), size, g, g.launch.counters_of(site))
        memory.shadow.start_copy(target, g, site)  # type: ignore[union-attr]
        memory.store(target, data if count > 1 else data[:, 0], dtype, count)
        taken = data if len(full) == g.n else data[full]
        g.wave.copies.start(g, site, memory, target, g.wave.space("global"), full, place, taken, dtype, count)

    def read_source(source: Any, part: Any) -> tuple[Place, Any]:
        device = part.wave.space("global")
        place = device.place(source, size, part, site, False, part.launch.counters_of(site))
        if not place.unwritten:
            device.shadow.access(PLAIN_READ, place, part, site)
        return place, np.array(device.load(place, dtype, count)).reshape(-1, count)

    return access(code, state_space(ins.opcode), ins.operands[0], body)


def read_bytes(data: Any, lanes: Any, wanted: Any, source: Any, g: Any, device: Space, site: Any) -> None:
    """Source sizes below the copy's: that many bytes, the rest are zeros."""
    image = data.view(np.uint8)
    for byte in range(int(wanted[lanes].max()) if len(lanes) else 0):
        chosen = lanes[wanted[lanes] > byte]
        part = g.part(chosen)
        place = device.place(source[chosen] + np.uint64(byte), 1, part, site, False, None)
        shadow = device.shadow
        assert shadow is not None
        shadow.access(PLAIN_READ, place.widened(shadow.granule), part, site)
        image[chosen, byte] = device.load(place, np.uint8, 1)


def copy_arrive(code: Code, ins: Instruction) -> Op:
    """`cp.async.mbarrier.arrive{.noinc}`: the barrier completes once the thread's copies have."""
    counted = "noinc" in ins.opcode

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        g.wave.copies.wait(g, None)
        g.wave.mbarriers.arrive(g, address, 1, code_site, raises_pending=not counted)

    code_site = code.site
    return access(code, "shared", ins.operands[0], body)


@instruction("mbarrier", effect=True)
def mbarrier(code: Code, ins: Instruction) -> Op:
    action = ins.opcode[1]
    site = code.site
    space = state_space(ins.opcode)
    if action in {"init", "inval", "expect_tx", "complete_tx"}:
        return change(code, ins, action, space)
    if action in {"arrive", "arrive_drop"}:
        return arrive(code, ins, space)
    if action == "test_wait":
        return wait(code, ins, space)
    if action == "pending_count":
        a = code.read(ins.operands[1], "u64")
        d = code.write(ins.operands[0], "u32")

        def pending(v: Values, g: Any) -> None:
            v[d][...] = (v[a] & np.uint64(0xFFFFF)).astype(np.uint32)

        return pending
    raise code.error(f"unknown form of mbarrier at {site.ptx_line}")


def change(code: Code, ins: Instruction, action: str, space: str) -> Op:
    count = code.read(ins.operands[1], "u32") if len(ins.operands) > 1 else None
    site = code.site

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        values = None if count is None else np.broadcast_to(v[count], g.n)
        g.wave.mbarriers.change(action, g, np.broadcast_to(address, g.n), values, site)

    return access(code, space, ins.operands[0], body)


def arrive(code: Code, ins: Instruction, space: str) -> Op:
    """`mbarrier.arrive{.expect_tx} {state,} [addr]{, count}`."""
    expects = "expect_tx" in ins.opcode
    has_state = isinstance(ins.operands[0], Register)
    operands = ins.operands[1:] if has_state else ins.operands
    count = code.read(operands[1], "u32") if len(operands) > 1 else None
    d = code.write(ins.operands[0], "b64") if has_state else None
    site, drops = code.site, ins.opcode[1] == "arrive_drop"

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        amount = 1 if count is None else np.broadcast_to(v[count], g.n)
        address = np.broadcast_to(address, g.n)
        if expects:
            g.wave.mbarriers.change("expect_tx", g, address, amount, site)
            amount = 1
        state = g.wave.mbarriers.arrive(g, address, amount, site, drops=drops)
        if d is not None:
            v[d][...] = state

    return access(code, space, operands[0], body)


def wait(code: Code, ins: Instruction, space: str) -> Op:
    """`mbarrier.{test,try}_wait{.parity} p, [addr], state{, time limit}`."""
    parity = "parity" in ins.opcode
    state = code.read(ins.operands[2], "u32" if parity else "b64")
    d = code.write(ins.operands[0], "pred")
    site = code.site

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        v[d][...] = g.wave.mbarriers.test(
            g, np.broadcast_to(address, g.n), np.broadcast_to(v[state], g.n), parity, site
        )

    return access(code, space, ins.operands[1], body)


@instruction("mbarrier.try_wait", effect=True, sync="barrier")
def try_wait(code: Code, ins: Instruction) -> Op:
    """May wait: threads stay here until the phase is complete."""
    parity = "parity" in ins.opcode
    base, offset = code.address(ins.operands[1])
    state = code.read(ins.operands[2], "u32" if parity else "b64")
    site = code.site

    def ready(v: Values, g: Any) -> Any:
        address = np.broadcast_to(v[base] + v[base].dtype.type(offset), g.n)
        return g.wave.mbarriers.complete(g, address, np.broadcast_to(v[state], g.n), parity, site)

    code.record.barrier = BarrierOperands("try_wait", aligned=False, ready=ready)
    return wait(code, ins, state_space(ins.opcode))
