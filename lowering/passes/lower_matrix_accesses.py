"""Loads of the operands of products become `ldmatrix`, stores of matrices `stmatrix`, where the layouts are theirs.

Both move 8x8 matrices of 16-bit elements: a row is 16 bytes in shared memory, and a lane holds two neighbours of a row
or (trans) of a column. In bits: a word's elements are neighbours and lane bits 0 and 1 move by 4 and 8 bytes; or,
trans, lane bits 2, 3 and 4 move by 2, 4 and 8 bytes. All other bits move by rows. Bytes are transposed in pairs: a
register bit moves by the other byte of a pair.
"""

from __future__ import annotations

from lowering.access_width import slot_bytes
from lowering.facts import facts_of
from lowering.fold import constant_of
from lowering.ir import Block, Function, Op, Value, walk
from lowering.location import TileError
from lowering.ops import OPS, operand, space_of
from lowering.shared_map import SharedMaps, access_bytes
from lowering.targets import Target
from lowering.types import SharedType, TileType
from ptx_templates import instruction

ROW = 16  # bytes
STORE = "stmatrix.sync.m8n8.x1.shared.b16"


def lower_matrix_accesses(function: Function, target: Target) -> None:
    """See the module's text. Raises TileError `layout` for what the kernel calls by name and cannot be."""
    _Lowering(function, target).run()


class _Lowering:
    def __init__(self, function: Function, target: Target):
        self.function, self.target = function, target
        self.maps = SharedMaps(facts_of(function))
        self.operands = _feeding(function.body)
        self.results = _made(function.body)

    def run(self) -> None:
        self.block(self.function.body)

    def block(self, block: Block, divided: bool = False) -> None:
        for i, op in enumerate(block.ops):
            for region in op.regions:
                self.block(region, divided or (op.name == "if" and bool(op.operands[0].tile.shape)))
            if op.name in ("load", "store") and space_of(op.operands[0]) == "shared":
                block.ops[i] = self.lowered(op, divided)

    def lowered(self, op: Op, divided: bool) -> Op:
        asked = op.attrs.get("matrix", False)
        store = op.name == "store"
        value = operand(op, "value") if store else op.result
        assert value is not None
        if not asked and (divided or value not in (self.results if store else self.operands)):
            return op
        if store and not instruction(STORE).available(self.target.arch):
            if asked:
                needs = f"{self.target.arch} has no stmatrix: it needs {instruction(STORE).target}"
                raise TileError("target", op.loc, needs, "store with '=': it takes stmatrix where there is one")
            return op
        trans = self.fits(op, value)
        if trans is None or (store and not asked and access_bytes(self.maps.analysis, op) >= ROW // 2):
            if asked:
                name = "stmatrix" if store else "ldmatrix"
                raise TileError(
                    "layout",
                    op.loc,
                    f"{value.tile} is not laid out as {name} moves it: {value.tile.layout}",
                    "it takes operands of products of 8 and 16 bits, and of 32 bits where neighbours along K are "
                    "neighbours in shared memory; of bytes that lie across K where the product's layout is contiguous "
                    "[2, …] (those of a) or […, 4] (those of b)",
                )
            return op
        attrs = {"has": op.attrs["has"], "trans": trans}
        made = Op(
            OPS["stmatrix" if store else "ldmatrix"], op.operands, [r.type for r in op.results], attrs, (), op.loc
        )
        for result in op.results:
            made.results = [result]
            result.op = made
        return made

    def fits(self, op: Op, value: Value) -> bool | None:
        """Whether the access is a transposed one; None if it is none of matrices."""
        memory, mask, layout = op.operands[0], operand(op, "mask"), value.tile.layout
        assert isinstance(memory.type, SharedType)
        if mask is not None and constant_of(mask) is not True:
            return None
        if layout is None or (op.name == "store" and layout.is_replicated):
            return None
        if memory.type.ring and slot_bytes(memory.type) % ROW:
            return None
        size = memory.dtype.bytes
        map = self.maps.of(op, layout)
        if map is None or size > 4:
            return None
        bits = (4 // size).bit_length() - 1
        if map.register[:bits] == tuple(size << i for i in range(bits)) and map.lane[:2] == (4, 8):
            return False if map.all_multiples(ROW, *map.register[bits:], *map.lane[2:], *map.warp) else None
        registers = map.register
        if size == 1 and op.name == "load" and 1 in registers[2:]:  # pairs across the rows, see emit/tensor.py
            registers = tuple(b for b in registers if b != 1)
        elif size != 2:
            return None
        if registers and map.lane[2:] == (2, 4, 8):
            return True if map.all_multiples(ROW, *registers, *map.lane[:2], *map.warp) else None
        return None


def _feeding(body: Block) -> set[Value]:
    """The values that become operands of products without leaving their threads."""
    parents = {region: op for op in walk(body) for region in op.regions}
    homes = {arg: region for region in parents for arg in region.args}
    found: set[Value] = set()
    work = [o for op in walk(body) if op.name == "dot" for o in op.operands[:2]]
    while work:
        value = work.pop()
        if value in found or not isinstance(value.type, TileType) or not value.tile.shape:
            continue
        found.add(value)
        op = value.op
        if op is None:
            loop = parents.get(homes[value]) if value in homes else None
            if loop is not None and loop.name == "for" and value is not homes[value].args[0]:
                i = homes[value].args.index(value) - 1
                work += [loop.operands[3 + i], homes[value].ops[-1].operands[i]]
        elif op.name in ("for", "if"):
            i = op.results.index(value)
            work += [region.ops[-1].operands[i] for region in op.regions]
            work += op.operands[3 + i : 4 + i] if op.name == "for" else []
        elif op.spec.elementwise or op.name in ("transpose", "reshape", "split", "convert_layout"):
            work += op.operands
    return found


def _made(body: Block) -> set[Value]:
    """The values that are made of the results of products without leaving their threads."""
    found: set[Value] = set()
    for op in walk(body):
        if op.name == "dot":
            found.add(op.result)
        elif op.spec.elementwise or op.name in ("transpose", "reshape", "convert_layout"):
            found.update(op.results if any(o in found for o in op.operands) else ())
        elif op.name in ("for", "if"):
            ends = [region.ops[-1].operands for region in op.regions]
            inside = {o.result for region in op.regions for o in walk(region) if o.name == "dot"}
            found.update(r for i, r in enumerate(op.results) if any(end[i] in inside for end in ends))
    return found
