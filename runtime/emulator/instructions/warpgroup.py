"""wgmma: products of four warps, whose operands lie in shared memory (PTX ISA 9.7.15), and setmaxnreg."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import matrix
from ..code import Code, Op, Values
from ..descriptors import Pattern, Unfit, check_starts, pattern, rest_of, starts_of
from ..findings import Kind, PtxError
from ..products import GROUP
from ..reader import Integer, PtxInstruction, Vector
from ..shadow import PLAIN_READ
from ..spaces import BadLanes, SharedSpace
from ..sums_in_flight import WarpgroupStep
from .memory_access import vector_items
from .registry import instruction
from .tensor import by_warps

ROWS = 16
"""Of the 64 of a product, that each of its warps has the sums of."""


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
    constant = ins.operands[0]
    assert isinstance(constant, Integer)  # from 0 on, as the legal forms say
    count = constant.value
    code.record.product = WarpgroupStep("wait", left=count)
    return lambda v, g: g.wave.products.wait(g, count)


@instruction("setmaxnreg", effect=True, sync="warp")
def set_registers(code: Code, ins: PtxInstruction) -> Op:
    constant = ins.operands[0]
    assert isinstance(constant, Integer)  # a multiple of 8, as the legal forms say
    count, more, site = constant.value, "inc" in ins.opcode, code.site
    return lambda v, g: g.wave.register_counts.set(g, site, count, more)


class DescribedOperand:
    """A side of a product in shared memory. rows: of all four warps' together."""

    def __init__(self, rows: int, own: int, k: int, type_name: str, across: bool, entry: int):
        self.rows, self.own, self.k, self.type, self.across, self.entry = rows, own, k, type_name, across, entry

    def read(self, v: Values, g: Any, site: Any, sources: list[Any]) -> Any:
        """[warps, own rows, k] values; adds what was read to the sources."""
        given = by_warps(v[self.entry], g)
        if (given != given[:, :1]).any():
            lane = int(np.flatnonzero((given != given[:, :1]).ravel())[0])
            g.launch.report(Kind.MISSING_LANE, "threads of a warp give different matrix descriptors", g, lane, site)
        descriptors = given[:, 0]
        rests = rest_of(descriptors)
        warps = len(descriptors)
        made = np.empty((warps, self.own, self.k), np.float32 if self.type in ("s8", "u8") else np.float64)
        for rest in np.unique(rests):
            chosen = np.flatnonzero(rests == rest)
            made[chosen] = self.part(descriptors[chosen], int(rest), chosen, g, site, sources)
        return made

    def part(self, descriptors: Any, rest: int, chosen: Any, g: Any, site: Any, sources: list[Any]) -> Any:
        """Of the warps whose descriptors are alike but for the start."""
        starts = starts_of(descriptors)
        try:
            found = pattern(rest, self.rows, self.across)
            check_starts(starts, found.bits, self.across)
        except Unfit as reason:
            raise PtxError(f"an operand of a product {reason}", site.ptx_line) from None
        chunks = self.chunks(found, (g.index()[::32][chosen] % g.wave.block_lanes) // 32 % GROUP)
        addresses = found.addresses(starts, chunks)
        raw = self.gathered(addresses, chosen, g, site, sources)
        return self.values(raw)

    def chunks(self, found: Pattern, warp: Any) -> Any:
        """[warps, chunks] offsets of what each reads: of 64 rows its own."""
        chunks = found.chunks
        if self.own == self.rows:
            return np.broadcast_to(chunks.ravel(), (len(warp), chunks.size))
        if self.across:
            parts = np.stack([chunks[:, 2 * w : 2 * w + 2].ravel() for w in range(GROUP)])
        else:
            parts = chunks.reshape(GROUP, -1)
        return parts[warp]

    def gathered(self, addresses: Any, chosen: Any, g: Any, site: Any, sources: list[Any]) -> Any:
        """[warps, chunks, 2] words of 64 bits. The lanes of a warp read a chunk each, again and again."""
        memory = g.wave.space("shared")
        assert isinstance(memory, SharedSpace) and memory.shadow is not None
        warps, count = addresses.shape
        lanes = (32 * chosen[:, None] + np.arange(32)).ravel()
        part = g if len(lanes) == g.n else g.part(lanes)
        raw = np.empty((warps, count, 2), np.uint64)
        for first in range(0, count, 32):
            at = np.minimum(np.arange(first, first + 32), count - 1)
            place = memory.place(addresses[:, at].ravel().astype(np.uint32), 16, part, site, False, None)
            memory.shadow.access(PLAIN_READ, place, part, site, record=False)
            g.launch.proxies.check(memory, place, part, site, "wgmma reads")
            sources.append((lanes, place))
            raw[:, at] = memory.load(place, np.uint64, 2).reshape(warps, 32, 2)
        return raw

    def values(self, raw: Any) -> Any:
        words = np.ascontiguousarray(raw).view(np.uint32).reshape(len(raw), -1)
        if not self.across:
            return matrix.values_of(words.reshape(len(raw), self.own, -1), self.type)
        by_k = matrix.values_of(words.reshape(len(raw), self.k, -1), self.type)
        return by_k.swapaxes(1, 2)


@instruction("wgmma.mma_async", effect=True, sync="warp", counts="mma")
def multiply(code: Code, ins: PtxInstruction) -> Op:
    """D = A B + D, or A B where scale-d is false; each warp has 16 of the 64 rows."""
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
    across = rest[2:]  # behind the signs; of A only where it lies in shared memory
    a_across, b_across = (bool(across[0]), bool(across[1])) if len(across) == 2 else (False, bool(across[-1:] == [1]))
    fragments = vector_items(ins.operands[1]) if in_registers else ()
    a_registers = [code.read(item, "b32") for item in fragments]
    left = None if in_registers else DescribedOperand(m, ROWS, k, a_type, a_across, code.read(ins.operands[1], "u64"))
    b_entry = code.read(ins.operands[2], "u64")
    right = DescribedOperand(n, n, k, b_type, b_across, b_entry)
    adds, negated = code.predicate(ins.operands[3])
    signs = [-1 if sign == -1 else 1 for sign in (rest[:2] or [1, 1])]
    site = code.site
    names = [getattr(item, "name", "") for item in items]
    code.record.product = WarpgroupStep(
        "multiply", tuple(names), tuple(getattr(f, "name", "") for f in fragments), words[0]
    )

    def run(v: Values, g: Any) -> None:
        sources: list[Any] = []
        key = by_warps(v[b_entry], g)[:, 0].copy()
        if left is not None:
            key ^= by_warps(v[left.entry], g)[:, 0] * np.uint64(3)
        g.wave.products.note(g, site, key)
        try:
            if left is None:
                a = matrix.values_of_fragment([by_warps(v[entry], g) for entry in a_registers], ROWS, k, a_type)
            else:
                a = left.read(v, g, site, sources)
            b = right.read(v, g, site, sources)
        except BadLanes:
            return  # reported; the sums stay as they are
        g.wave.products.start(g, site, g.wave.space("shared"), None, g.wave.space("shared"), sources)
        keep = by_warps(v[adds], g)[:, 0]
        keep = ~keep if negated else keep
        products = (signs[0] * signs[1] * a) @ b.swapaxes(1, 2)
        found = matrix.added(products, [by_warps(v[entry], g) for entry in start], keep, d_type, saturate)
        for entry, values in zip(sums, found, strict=True):
            v[entry][...] = values.reshape(-1).view(v[entry].dtype)

    return run
