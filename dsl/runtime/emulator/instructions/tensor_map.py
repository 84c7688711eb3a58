"""Implements the instructions by which a kernel changes tensor maps: tensormap.replace, tensormap.cp_fenceproxy, and
the fences of the tensormap proxy (PTX ISA 9.7.9.28, 9.7.13.16 and "membar/fence")."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code import Code, Op, Values
from ..findings import Kind
from ..knowledge import scope_of
from ..reader import PtxInstruction
from ..shadow import PLAIN_READ, PLAIN_WRITE, SpacePlace
from ..spaces import BadLanes, Space
from ..tensor_maps import ALIGNMENT, BYTES, NoMap, replaced
from .memory_access import access, state_space
from .registry import constant_of, instruction

PIECES = BYTES // ALIGNMENT
FIELDS_WITH_ORDINAL = {"box_dim", "global_dim", "global_stride", "element_stride"}


def map_places(memory: Space, address: Any, g: Any, site: Any, write: bool) -> SpacePlace:
    """Returns the places of the lanes' maps in memory, in units of 64 bytes. Each lane has two units, one after the
    other."""
    for piece in range(PIECES):
        place = memory.place(address + address.dtype.type(piece * ALIGNMENT), ALIGNMENT, g, site, write, None)
    index = place.start + np.arange(g.n) if place.index is None else place.index
    units = (index - PIECES + 1)[:, None] + np.arange(PIECES)
    return SpacePlace(ALIGNMENT, units.size, 0, units.reshape(-1))


@instruction("tensormap.replace", effect=True)
def replace(code: Code, ins: PtxInstruction) -> Op:
    """The operands are `[addr], {ord,} new_val`. The instruction is a weak access that reads and writes the whole
    map."""
    field, site = ins.opcode[3], code.site
    has_ordinal = field in FIELDS_WITH_ORDINAL
    ordinal = constant_of(ins.operands[1]) if has_ordinal else 0
    value = code.read(ins.operands[2 if has_ordinal else 1], f"u{ins.opcode[-1][1:]}")

    def body(v: Values, g: Any, memory: Space, address: Any) -> None:
        place = map_places(memory, np.broadcast_to(address, g.n), g, site, True)
        lanes = g.part(np.repeat(np.arange(g.n), PIECES))
        memory.shadow.access(PLAIN_WRITE, place, lanes, site, read_modify=True)
        image = memory.data.reshape(-1, ALIGNMENT)
        new = np.broadcast_to(v[value], g.n)
        for lane, units in enumerate(place.index.reshape(g.n, PIECES)):
            try:
                data = replaced(image[units].tobytes(), field, ordinal, int(new[lane]))
            except NoMap as reason:
                g.launch.report(
                    Kind.TENSOR_MAP, f"the address {int(address[lane % len(address)]):#x} {reason}", g, lane, site
                )
                continue
            image[units] = np.frombuffer(data, np.uint8).reshape(PIECES, ALIGNMENT)
        memory.changes += 1

    return access(code, state_space(ins.opcode), ins.operands[0], body)


@instruction("tensormap.cp_fenceproxy", effect=True, sync="warp")
def copy_and_release(code: Code, ins: PtxInstruction) -> Op:
    """The operands are `[dst], [src], 128`. All lanes of a warp execute the copy together, mostly with the same
    addresses. Equal copies count as one write, by the lowest of their lanes."""
    target, source = code.address(ins.operands[0]), code.address(ins.operands[1])
    site, scope = code.site, scope_of(ins.opcode)

    def addresses(v: Values, g: Any, operand: tuple[int, int]) -> Any:
        base, offset = operand
        return np.broadcast_to(v[base], g.n).astype(np.uint64) + np.uint64(offset % (1 << 64))

    def run(v: Values, g: Any) -> None:
        copy_maps(g, addresses(v, g, source), addresses(v, g, target))

    def copy_maps(g: Any, sources: Any, targets: Any) -> None:
        shared, device = g.wave.spaces["shared"], g.wave.spaces["global"]
        try:
            read = map_places(shared, sources, g, site, False)
        except BadLanes as fault:  # reported; the other lanes still copy their maps
            if len(rest := np.flatnonzero(~fault.bad)):
                copy_maps(g.part(rest), sources[rest], targets[rest])
            return
        shared.shadow.access(PLAIN_READ, read, g.part(np.repeat(np.arange(g.n), PIECES)), site)
        pairs = np.stack([(g.index() >> 5).astype(np.uint64), targets, sources], 1)
        for lane in np.sort(np.unique(pairs, axis=0, return_index=True)[1]).tolist():
            part = g.part(np.array([lane]))
            try:
                place = map_places(device, targets[lane : lane + 1], part, site, True)
            except BadLanes:
                continue  # reported; this map is not copied
            device.shadow.access(PLAIN_WRITE, place, part.part(np.zeros(PIECES, np.int64)), site)
            units = read.index.reshape(g.n, PIECES)[lane]
            device.data.reshape(-1, ALIGNMENT)[place.index] = shared.data.reshape(-1, ALIGNMENT)[units]
            device.changes += 1
            g.launch.map_proxy.release_copy(part, 0, int(targets[lane]), scope)

    return run


@instruction("fence.proxy.tensormap::generic", effect=True)
def fence(code: Code, ins: PtxInstruction) -> Op:
    """Implements a release or acquire fence that also orders accesses of the tensormap proxy. The acquire applies to
    the 128 bytes at an address."""
    scope = scope_of(ins.opcode)
    if "release" in ins.opcode:

        def release(v: Values, g: Any) -> None:
            g.wave.causality.fence(g.index(), scope, False, True, False)
            g.launch.map_proxy.release(g, scope)

        return release
    base, offset = code.address(ins.operands[0])
    site = code.site

    def acquire(v: Values, g: Any) -> None:
        g.wave.causality.fence(g.index(), scope, True, False, False)
        addresses = np.broadcast_to(v[base], g.n).astype(np.int64) + offset
        for lane, address in enumerate(addresses.tolist()):
            found = g.launch.memory.find(address)
            if found is None or address % ALIGNMENT or address + BYTES > found.end:
                message = f"acquires a tensor map at {address:#x}, where no {BYTES} bytes of global memory are one"
                g.launch.report(Kind.TENSOR_MAP, message, g, lane, site)
                return
        g.launch.map_proxy.acquire(g, addresses, scope)

    return acquire
