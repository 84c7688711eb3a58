"""Implements `wgmma` (PTX ISA 9.7.15) and `setmaxnreg`. A `wgmma` is a matrix product of four warps. B lies in shared
memory, and A in shared memory or registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import matrix
from ..code import Code, Op, Values
from ..descriptors import CHUNK, Pattern, Unfit, check_starts, pattern, rest_of, starts_of
from ..findings import Kind, PtxError
from ..products import GROUP, TilePlace
from ..reader import PtxInstruction, Vector
from ..shadow import PLAIN_READ, SpacePlace
from ..spaces import BadLanes
from ..sums_in_flight import WarpgroupStep
from .memory_access import vector_items
from .registry import constant_of, instruction
from .tensor import by_warps

# A wgmma computes 64 rows of D, and each of its four warps holds the accumulators of this many rows.
ROWS = 16
# A wave caches the places of at most this many operands. Six pipeline stages with four instructions of two operands
# need 48.
MOST_PLACES = 64


@instruction("wgmma.fence", effect=True, sync="warp")
def fence(code: Code, ins: PtxInstruction) -> Op:
    code.record.product = WarpgroupStep("fence")
    return lambda v, g: None


@instruction("wgmma.commit_group", effect=True, sync="warp")
def commit(code: Code, ins: PtxInstruction) -> Op:
    code.record.product = WarpgroupStep("commit")
    return lambda v, g: g.wave.products.commit(g)


@instruction("wgmma.wait_group", effect=True, sync="warp")
def wait(code: Code, ins: PtxInstruction) -> Op:
    count = constant_of(ins.operands[0])
    code.record.product = WarpgroupStep("wait", left=count)
    return lambda v, g: g.wave.products.wait(g, count)


@instruction("setmaxnreg", effect=True, sync="warp")
def set_registers(code: Code, ins: PtxInstruction) -> Op:
    count, more, site = constant_of(ins.operands[0]), "inc" in ins.opcode, code.site
    return lambda v, g: g.wave.register_counts.set(g, site, count, more)


class DescribedOperand:
    """A wgmma operand in shared memory. `rows` is the number of rows that the four warps read together. `own` is the
    number of rows that a single warp reads."""

    def __init__(self, rows: int, own: int, k: int, type_name: str, across: bool, entry: int):
        self.rows, self.own, self.k, self.type, self.across, self.entry = rows, own, k, type_name, across, entry

    def read(self, v: Values, g: Any, site: Any, sources: list[Any]) -> tuple[Any, Any]:
        """Returns the values of the tiles, [tiles, own rows, k], and the index of the tile that each warp reads.
        Several warps may read the same tile. Appends the places that the warps read to `sources`."""
        given = by_warps(v[self.entry], g)
        if (given != given[:, :1]).any():
            lane = int(np.flatnonzero((given != given[:, :1]).ravel())[0])
            g.launch.report(Kind.MISSING_LANE, "threads of a warp give different matrix descriptors", g, lane, site)
        descriptors = given[:, 0]
        rests = rest_of(descriptors)
        # Mostly, the descriptors differ only in their start address. Then all warps have the same layout.
        if (rests == rests[0]).all():
            return self.part(descriptors, int(rests[0]), np.arange(len(descriptors)), g, site, sources)
        which = np.empty(len(descriptors), np.int64)
        made: list[Any] = []
        for rest in np.unique(rests):
            chosen = np.flatnonzero(rests == rest)
            values, own = self.part(descriptors[chosen], int(rest), chosen, g, site, sources)
            which[chosen] = own + sum(len(each) for each in made)
            made.append(values)
        return np.concatenate(made), which

    def part(self, descriptors: Any, rest: int, chosen: Any, g: Any, site: Any, sources: list[Any]) -> tuple[Any, Any]:
        """Does the work of `read` for the warps `chosen`, whose descriptors differ only in their start address."""
        tile, places = self.places(descriptors, rest, chosen, g, site)
        memory, lanes = g.wave.spaces["shared"], (32 * chosen[:, None] + np.arange(32)).ravel()
        part = g if len(lanes) == g.n else g.part(lanes)
        # If a single copy has filled the whole tile, only its first 32 chunks need a check.
        is_even = len(places) > 1 and memory.shadow.is_even(tile.units_of_warps[tile.first], CHUNK)
        for place in places[:1] if is_even else places:
            memory.shadow.access(PLAIN_READ, place, part, site, record=False)
            g.launch.proxies.check(memory, place, part, site, "wgmma reads")
        readers = 32 * chosen[:, None] + np.arange(tile.units_of_warps.shape[1]) % 32
        sources.append((readers.ravel(), tile))
        raw = memory.elements(np.uint64, 2)[tile.units_of_warps[tile.first]]
        return self.values(raw), tile.which

    def places(self, descriptors: Any, rest: int, chosen: Any, g: Any, site: Any) -> tuple[TilePlace, list[SpacePlace]]:
        """Returns the tiles that the warps `chosen` read, and the places of the tiles' chunks. In each place, each lane
        reads one chunk. Both results are cached by descriptor, since a pipeline reuses its stages."""
        warps = g.index()[::32][chosen] // 32
        kept, key = g.wave.products.places, (self, descriptors.tobytes(), warps.tobytes())
        if key not in kept:
            if len(kept) == MOST_PLACES:
                kept.clear()
            kept[key] = self.found_places(starts_of(descriptors), rest, warps, 32 * chosen, g, site)
        return kept[key]

    def found_places(
        self, starts: Any, rest: int, warps: Any, first_lanes: Any, g: Any, site: Any
    ) -> tuple[TilePlace, list[SpacePlace]]:
        memory, slots = g.wave.spaces["shared"], warps * 32 // g.wave.block_lanes
        try:
            found = pattern(rest, self.rows, self.across)
            check_starts(starts, found.bits, self.across)
        except Unfit as reason:
            raise PtxError(f"an operand of a product {reason}", site.ptx_line) from None
        addresses = found.addresses(starts, self.chunks(found, warps % (g.wave.block_lanes // 32) % GROUP))
        part = g.part((first_lanes[:, None] + np.arange(32)).ravel())
        places, count = [], addresses.shape[1]
        for first in range(0, count, 32):
            # If the number of chunks is no multiple of 32, the remaining lanes read the last chunk again.
            at = np.minimum(np.arange(first, first + 32), count - 1)
            places.append(memory.place(addresses[:, at].ravel().astype(np.uint32), CHUNK, part, site, False, None))
        return TilePlace.of(warps, (slots[:, None] * memory.arena + addresses) // CHUNK), places

    def chunks(self, found: Pattern, warp: Any) -> Any:
        """Returns the offsets of the chunks that each warp reads, as an array [warps, chunks]. A warp reads only its
        own 16 of the 64 rows of A."""
        chunks = found.chunks
        if self.own == self.rows:
            return np.broadcast_to(chunks.ravel(), (len(warp), chunks.size))
        if self.across:
            parts = np.stack([chunks[:, 2 * w : 2 * w + 2].ravel() for w in range(GROUP)])
        else:
            parts = chunks.reshape(GROUP, -1)
        return parts[warp]

    def values(self, raw: Any) -> Any:
        """Converts the chunks, an array [tiles, chunks, 2] of 64-bit words, to numbers, an array [tiles, own rows,
        k]."""
        words = np.ascontiguousarray(raw).view(np.uint32).reshape(len(raw), -1)
        if not self.across:
            return matrix.values_of(words.reshape(len(raw), self.own, -1), self.type)
        by_k = matrix.values_of(words.reshape(len(raw), self.k, -1), self.type)
        return by_k.swapaxes(1, 2)


@instruction("wgmma.mma_async", effect=True, sync="warp", counts="mma")
def multiply(code: Code, ins: PtxInstruction) -> Op:
    """Implements `wgmma.mma_async`: D = A B + D, or D = A B if scale-d is false. Each warp computes 16 of the 64 rows
    of D."""
    words = [word for word in ins.opcode[4:] if word != "satfinite"]
    m, n, k = matrix.parse_shape(words[0])
    d_type, a_type, b_type = words[1:4]
    assert m == GROUP * ROWS
    saturate = "satfinite" in ins.opcode
    register = "f32" if d_type == "f32" else "b32"
    items = vector_items(ins.operands[0])
    start, sums = [code.read(item, register) for item in items], [code.write(item, register) for item in items]
    in_registers = isinstance(ins.operands[1], Vector)
    rest = [getattr(operand, "value", None) for operand in ins.operands[4:]]
    across = rest[2:]  # the transpose flags; B has one, and A has one if A lies in shared memory
    a_across, b_across = (bool(across[0]), bool(across[1])) if len(across) == 2 else (False, bool(across[-1:] == [1]))
    fragments = vector_items(ins.operands[1]) if in_registers else ()
    a_registers = [code.read(item, "b32") for item in fragments]
    left = None if in_registers else DescribedOperand(m, ROWS, k, a_type, a_across, code.read(ins.operands[1], "u64"))
    b_entry = code.read(ins.operands[2], "u64")
    right = DescribedOperand(n, n, k, b_type, b_across, b_entry)
    adds, negated = code.predicate(ins.operands[3])
    subtracts = rest[:2] in ([1, -1], [-1, 1])
    site = code.site
    names = [getattr(item, "name", "") for item in items]
    code.record.product = WarpgroupStep(
        "multiply", tuple(names), tuple(getattr(f, "name", "") for f in fragments), words[0]
    )

    def run(v: Values, g: Any) -> None:
        sources: list[Any] = []
        key = by_warps(v[b_entry], g)[:, 0].copy()
        if left is not None:
            # The factor 3 is odd, so that A and B do not cancel if their descriptors are equal.
            key ^= by_warps(v[left.entry], g)[:, 0] * np.uint64(3)
        g.wave.products.note(g, site, key)
        try:
            if left is None:
                a = matrix.values_of_registers([by_warps(v[entry], g) for entry in a_registers], "a", ROWS, k, a_type)
            else:
                tiles, which = left.read(v, g, site, sources)
                a = tiles[which]
            b = right.read(v, g, site, sources)
        except BadLanes:
            return  # reported; the accumulators stay as they are
        g.wave.products.start(g, site, g.wave.spaces["shared"], None, g.wave.spaces["shared"], sources)
        keep = by_warps(v[adds], g)[:, 0]
        keep = ~keep if negated else keep
        products = matrix.products_by_tiles(-a if subtracts else a, *b)
        found = matrix.added(products, [by_warps(v[entry], g) for entry in start], keep, d_type, saturate)
        for entry, values in zip(sums, found, strict=True):
            v[entry][...] = values.reshape(-1).view(v[entry].dtype)

    return run
