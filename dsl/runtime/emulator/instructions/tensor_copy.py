"""Implements cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and their bulk groups (PTX ISA 9.7.9.27)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..code import Code, Op, Site, Values
from ..findings import Kind
from ..memory import GLOBAL_WINDOW, RANK_SHIFT, SHARED_WINDOW
from ..reader import Operand, PtxInstruction, TensorAddress, Vector
from ..reductions import OF_TYPES, BulkReduction
from ..spaces import BadLanes, refuse
from ..tensor_copies import ALIGNMENT, Box, Pixels, box_at, pixels_at
from ..tensor_maps import ALIGNMENT as MAP_ALIGNMENT
from ..tensor_maps import BYTES, CORNER_BITS, UNIT, NoMap, PlacedMap, decode
from .memory_access import nothing
from .registry import constant_of, instruction


@instruction("cp.async.bulk", effect=True)
def bulk(code: Code, ins: PtxInstruction) -> Op:
    word = ins.opcode[3]
    if word == "prefetch":
        return nothing
    if word == "commit_group":
        return lambda v, g: g.wave.stores.commit(g)
    if word == "wait_group":
        count = constant_of(ins.operands[0])
        if "read" in ins.opcode:
            return lambda v, g: g.wave.stores.wait_for_reads(g, count)
        return lambda v, g: g.wave.stores.wait(g, count)
    return load(code, ins) if isinstance(ins.operands[1], TensorAddress) else store(code, ins)


def shared_addresses(v: Values, g: Any, operand: tuple[int, int]) -> Any:
    """Returns the shared memory address of an operand for each lane. Generic addresses are converted to offsets in the
    window of shared memory."""
    base, offset = operand
    address = np.broadcast_to(v[base], g.n).astype(np.int64) + offset
    return np.where(address >= SHARED_WINDOW, address - SHARED_WINDOW, address)


class TensorOperands:
    """The operands of a tensor copy in either direction: a tensor map with coordinates, and an address in shared
    memory."""

    def __init__(
        self,
        code: Code,
        tensor: Operand,
        shared: Operand,
        offsets: Operand | None = None,
        of_pixels: bool = False,
        goes_out: bool = False,
    ):
        """`offsets` is the operand with the offsets of an im2col copy into shared memory. `of_pixels` is true for an
        im2col copy out of shared memory, which has no offsets. An im2col copy in either direction needs an im2col map,
        which contains a window. `goes_out` is true for all copies out of shared memory."""
        assert isinstance(tensor, TensorAddress)
        self.of_pixels, self.goes_out = of_pixels or offsets is not None, goes_out
        self.map, _ = code.address(tensor.map)
        self.coordinates = [code.read(item, "s32") for item in tensor.coordinates.items]
        self.shared = code.address(shared)
        self.offsets: list[int] = []
        if offsets is not None:
            assert isinstance(offsets, Vector)
            self.offsets = [code.read(item, "u16") for item in offsets.items]
        self.site = code.site

    def maps(self, v: Values, g: Any) -> list[tuple[PlacedMap, int | None, Any]]:
        """Returns (map, offset, lanes that use the map) for each tensor map. `offset` is the map's offset in global
        memory, or None if no thread may write the map. Reports lanes without a valid map."""
        addresses = np.broadcast_to(v[self.map], g.n)
        found = []
        for address in np.unique(addresses).tolist():
            lanes = np.flatnonzero(addresses == address)
            try:
                placed, offset = self.found_at(address, g.part(lanes))
                if placed.rank != len(self.coordinates):
                    raise NoMap(f"holds a map of {placed.rank} axes, for a copy of {len(self.coordinates)}")
                if placed.map.window is None and self.of_pixels:
                    raise NoMap("holds a map without a window, for an im2col copy")
                if placed.map.window is not None and not self.of_pixels:
                    raise NoMap("holds a map with a window, which only im2col copies take")
            except NoMap as reason:
                message = f"the address {address:#x} {reason}"
                g.launch.report(Kind.TENSOR_MAP, message, g, int(lanes[0]), self.site)
                continue
            found.append((placed, offset, lanes))
        return found

    def found_at(self, address: int, g: Any) -> tuple[PlacedMap, int | None]:
        """Returns the tensor map at an address, and its offset or None. If the map lies in writable memory, the lanes
        of `g` must have acquired it (`map_proxy.py`)."""
        allocation = g.launch.memory.find(address)
        if allocation is None:
            raise NoMap("is neither that of a parameter of the kernel nor one of global or constant memory")
        if address % MAP_ALIGNMENT or address + BYTES > allocation.end:
            raise NoMap(f"is no multiple of {MAP_ALIGNMENT}, or begins less than {BYTES} bytes before the last one")
        start = address - GLOBAL_WINDOW
        placed = decode(bytes(g.launch.memory.data[start : start + BYTES]))
        if allocation.read_only:
            return placed, None
        g.launch.map_proxy.check_use(address, g, self.site)
        return placed, start

    def corners(self, v: Values, g: Any) -> Any:
        """Returns the coordinates of each lane as an array [lanes, axes]."""
        return np.stack([np.broadcast_to(v[each], g.n) for each in self.coordinates], 1)

    def taps(self, v: Values, g: Any) -> Any:
        """Returns the offsets of an im2col copy as an array [lanes, spatial axes]. For a copy out of shared memory, the
        offsets are 0. For a copy that is not im2col, the array has no columns."""
        offsets = [np.broadcast_to(v[each], g.n) for each in self.offsets]
        none = max(len(self.coordinates) - 2, 0) if self.of_pixels else 0
        return np.stack(offsets, 1) if offsets else np.zeros((g.n, none), np.uint16)

    def check_corners(self, placed: PlacedMap, corners: Any, g: Any) -> None:
        """Reports a TMA box whose offset in its row is no multiple of 16 bytes. An H100 refuses the instruction for
        such a box (28 places tried, driver 580.159.04). No manual states this."""
        first = corners[:, 0].astype(np.int64) * placed.map.element_bytes
        bad = np.flatnonzero(first % UNIT)
        if len(bad):
            message = f"a TMA box begins {int(first[bad[0]])} bytes into its rows, which is no multiple of {UNIT}"
            refuse(Kind.MISALIGNED, message, g, first % UNIT != 0, self.site)

    def boxes(self, placed: PlacedMap, corners: Any, offsets: Any, g: Any) -> list[Box | Pixels]:
        """Returns the TMA box of each lane. `offsets` is the result of `taps`."""
        self.check_corners(placed, corners, g)
        if placed.map.window is None:
            # On an H200 (driver 580.159.04), a copy or reduction out of shared memory with a negative coordinate is an
            # illegal instruction. Copies into shared memory accept negative coordinates.
            for lane in np.flatnonzero((corners < 0).any(1)).tolist() if self.goes_out else ():
                message = (
                    f"a TMA box goes out of shared memory from {corners[lane].tolist()} on, before the first element"
                )
                refuse(Kind.TENSOR_MAP, message, g, (corners < 0).any(1), self.site)
            return [box_at(placed, corner, self.goes_out) for corner in corners.tolist()]
        for lane, (corner, offset) in enumerate(zip(corners.tolist(), offsets.tolist(), strict=True)):
            if message := pixel_fault(placed, corner, offset) or (out_fault(placed, corner) if self.goes_out else ""):
                refuse(Kind.TENSOR_MAP, message, g, np.arange(g.n) == lane, self.site)
        return [pixels_at(placed, *each) for each in zip(corners.tolist(), offsets.tolist(), strict=True)]

    def starts(self, addresses: Any, g: Any, count: int, write: bool) -> Any:
        """Returns the offset of each lane's TMA box in the wave's shared memory. A box has `count` bytes."""
        memory = g.wave.spaces["shared"]
        rank, address = addresses >> RANK_SHIFT, addresses & (1 << RANK_SHIFT) - 1
        other = (rank != 0) & (rank != g.lane("rank").astype(np.int64) + 1)
        if other.any():
            message = "a tensor copy to another block of the cluster, which the emulator does not know"
            refuse(Kind.OUT_OF_BOUNDS, message, g, other, self.site)
        memory.check_bounds(address, count, g, self.site, write)
        bad = np.flatnonzero(address % ALIGNMENT)
        if len(bad):
            message = f"a TMA box at shared address {int(address[bad[0]]):#x}, which is no multiple of {ALIGNMENT}"
            refuse(Kind.MISALIGNED, message, g, address % ALIGNMENT != 0, self.site)
        return g.lane("slot") * memory.arena + address


def pixel_fault(placed: PlacedMap, corner: list[int], offsets: list[int]) -> str:
    """Returns the error in the first base pixel or in the offsets of an im2col copy, or "" if there is none.

    The ISA does not define a copy whose first pixel lies outside of the window, or whose first image has a negative
    number.
    """
    window, extents = placed.map.window, placed.map.extents
    assert window is not None
    most = (1 << CORNER_BITS[placed.rank]) - 1
    spatial = zip(corner[1:-1], extents[1:-1], window.lower, window.upper, window.steps, offsets, strict=True)
    for axis, (at, extent, lower, upper, step, offset) in enumerate(spatial, 1):
        if not lower <= at <= extent - 1 + upper:
            return f"the first pixel is {at} along axis {axis}, outside of the window, {lower} to {extent - 1 + upper}"
        if (at - lower) % step:
            return f"the first pixel is {at} along axis {axis}, which no steps of {step} from {lower} on reach"
        if offset > most:
            return f"the offset {offset} along axis {axis} is more than {most}, the maximum with {placed.rank} axes"
    return f"the first pixel is of image {corner[-1]}" if corner[-1] < 0 else ""


def out_fault(placed: PlacedMap, corner: list[int]) -> str:
    """Returns the reason why an H100 does not support an im2col copy out of shared memory, or "" if it does. No manual
    states these limits (45 boxes tried, driver 580.159.04). The copy is an illegal instruction if the window extends
    beyond the array, or if the TMA box begins before the first channel. If the channels end inside a 16-byte unit, the
    copy also writes the rest of the unit."""
    window, channels = placed.map.window, placed.map.extents[0]
    assert window is not None
    for axis, (lower, upper) in enumerate(zip(window.lower, window.upper, strict=True), 1):
        if lower < 0 or upper > 0:
            return f"pixels of a window that leaves the array along axis {axis} cannot be copied out of shared memory"
    if corner[0] < 0:
        return f"pixels cannot be copied out of shared memory from channel {corner[0]} on"
    if channels * placed.map.element_bytes % UNIT:
        return f"pixels go out of shared memory in parts of {UNIT} bytes, and the channels end inside one"
    return ""


def load(code: Code, ins: PtxInstruction) -> Op:
    """The operands are `[dst], [map, {coordinates}], [mbarrier]`. The copy writes the whole TMA box. Elements outside
    the array become zeros.

    An im2col copy also has `{offsets}` as the last operand.
    """
    operands = TensorOperands(
        code, ins.operands[1], ins.operands[0], ins.operands[3] if "im2col" in ins.opcode else None
    )
    barrier, site = code.address(ins.operands[2]), code.site
    at = 4 if "im2col" in ins.opcode else 3
    mask = code.read(ins.operands[at], "u16") if "multicast::cluster" in ins.opcode else None

    def run(v: Values, g: Any) -> None:
        memory = g.wave.spaces["shared"]
        corners, offsets = operands.corners(v, g), operands.taps(v, g)
        addresses, barriers = (shared_addresses(v, g, each) for each in (operands.shared, barrier))
        for placed, map_at, lanes in operands.maps(v, g):
            part = g.part(lanes)
            try:
                boxes = operands.boxes(placed, corners[lanes], offsets[lanes], part)
                starts = operands.starts(addresses[lanes], part, placed.box_bytes, True)
                away = np.zeros(len(lanes), np.int64)
                if mask is not None:
                    which, ranks = receivers(np.broadcast_to(v[mask], g.n)[lanes], part, site)
                    lanes, boxes, part = lanes[which], [boxes[each] for each in which], part.part(which)
                    away = ranks - part.lane("rank").astype(np.int64)
                    starts = starts[which] + away * memory.arena
                keys = g.wave.mbarriers.awaited(part, memory, barriers[lanes], site, away)
            except BadLanes:
                continue  # reported; the copies of this map are not made
            g.wave.loads.start(part, site, boxes, starts, keys, map_at)

    return run


def receivers(masks: Any, g: Any, site: Site) -> tuple[Any, Any]:
    """Returns two arrays, (lanes, ranks). The block `ranks[i]` of the cluster receives the copy of the lane `lanes[i]`.
    Bit r of a lane's mask is set if block r is a receiver."""
    blocks = g.wave.cluster
    wrong = (masks.astype(np.int64) >> blocks != 0) | (masks == 0)
    if wrong.any():
        lane = int(np.flatnonzero(wrong)[0])
        message = f"a copy for the blocks {int(masks[lane]):#x}, in a cluster of {blocks}"
        if not masks[lane]:
            message = (
                "a copy for no block of the cluster: its mask is 0, and the bit of each block that it is for must be 1"
            )
        refuse(Kind.OUT_OF_BOUNDS, message, g, wrong, site)
    lanes, ranks = np.nonzero(masks[:, None].astype(np.int64) >> np.arange(blocks) & 1)
    return lanes, ranks


@instruction("cp.reduce.async.bulk.tensor", effect=True)
def store(code: Code, ins: PtxInstruction) -> Op:
    """The operands are `[map, {coordinates}], [src]`. Elements outside the array are not written.

    The tensor map contains the element type of a reduction.
    """
    of_pixels = "im2col_no_offs" in ins.opcode
    operands = TensorOperands(code, ins.operands[0], ins.operands[1], of_pixels=of_pixels, goes_out=True)
    site = code.site
    name = next((word for word in ins.opcode if word in OF_TYPES), "") if ins.opcode[1] == "reduce" else ""

    def run(v: Values, g: Any) -> None:
        corners, taps, addresses = operands.corners(v, g), operands.taps(v, g), shared_addresses(v, g, operands.shared)
        for placed, map_at, lanes in operands.maps(v, g):
            part, reduction = g.part(lanes), None
            if name:
                reduction = reduction_of_map(name, placed, part, site)
                if reduction is None:
                    continue
            try:
                boxes = operands.boxes(placed, corners[lanes], taps[lanes], part)
                starts = operands.starts(addresses[lanes], part, placed.box_bytes, False)
            except BadLanes:
                continue  # reported; the copies of this map are not made
            g.wave.stores.store(part, site, boxes, starts, reduction, map_at)

    return run


def reduction_of_map(name: str, placed: PlacedMap, g: Any, site: Site) -> BulkReduction | None:
    """Returns the reduction `name` for the element type of a map. If the type has no such reduction, reports this and
    returns None."""
    named = placed.map.type
    if named.removesuffix(".ftz") in OF_TYPES[name]:
        return BulkReduction(name, named.removesuffix(".ftz"))
    message = (
        f"a map of .{named or 'bits'}, whose elements have no .{name}; only {', '.join(sorted(OF_TYPES[name]))} have it"
    )
    g.launch.report(Kind.TENSOR_MAP, message, g, 0, site)
    return None
