"""Turns loads of MMA operands into `ldmatrix` and stores of matrices into `stmatrix`, if layouts allow it.

Both instructions move 8x8 matrices of 16-bit elements. A row of a matrix is 16 bytes of shared memory. A lane holds two
neighbours of a row, or two neighbours of a column with `trans`. This leads to conditions for the bits of the layout.
Without `trans`, the elements of a lane's 32-bit word are contiguous, and lane bits 0 and 1 change the offset by 4 and 8
bytes. With `trans`, lane bits 2, 3 and 4 change the offset by 2, 4 and 8 bytes. All other bits change the offset by
multiples of 16 bytes. Bytes are transposed in pairs: one register bit selects the byte of a pair.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from dsl.lowering.directives.slices import inside, reached
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import SharedType, TileType
from dsl.lowering.known.facts import facts_of
from dsl.lowering.ops import OPS, operand, space_of
from dsl.lowering.ops.control import handed_on, names, parting
from dsl.lowering.shared.access_width import stage_bytes
from dsl.lowering.shared.shared_map import SharedMap, SharedMaps, access_bytes
from dsl.ptx_templates import instruction

ROW = 16  # bytes
STORE = "stmatrix.sync.m8n8.x1.shared.b16"


def lower_matrix_accesses(function: Function, target: Target) -> None:
    """Runs the pass (see the module's docstring). Raises TileError `layout` if the kernel requests the instruction by
    name, but the layout does not allow it."""
    _MatrixLowering(function, target).block(function.body)


class NoMatrixAccess(Enum):
    """Reasons why an access cannot be `ldmatrix` or `stmatrix`. Each member is a message and a hint."""

    OUTSIDE = (
        "this part may reach beyond {memory}, and {name} moves whole rows",
        "a part whose extents divide those of the tile, from a multiple of them; or {plainly}",
    )
    COPIES = (
        "several threads hold the same elements of this {tile}, and {name} stores each element once",
        "a larger tile, or fewer warps; or {plainly}",
    )
    SLOTS = (
        "a stage of {memory} has {stage} bytes: the rows of {name} begin at multiples of 16 bytes",
        "stages of a multiple of 16 bytes; or {plainly}",
    )
    WIDE = ("{name} moves elements of 8, 16 and 32 bits; this is a {tile}", "{plainly}")
    INDICES = (
        "{name} moves rows, and where the elements of this part lie in {memory} is known at run time alone, or adds up "
        "with carries",
        "slices that begin at multiples of their extents; or {plainly}",
    )
    START = (
        "this part is not known to begin at a multiple of 16 bytes of {memory}, as the rows of {name} do",
        "begin it at a multiple of {step} elements along the last axis, written as such: k * {step}, or "
        "assert k % {step} == 0; or {plainly}",
    )
    NO_PRODUCT = (
        "{product} this {tile} as it lies: a thread has {held} of the neighbours in a row of {memory}, and {name} "
        "moves {word} a thread",
        "{operand}, without a layout of the schedule; or {plainly}",
    )
    NEIGHBOURS = (
        "a thread has {held} of the neighbours in a row of {memory} here, and {name} moves {word} a thread, and "
        "rows of 16 bytes by four threads",
        "dsl layout shows what the product, or a layout of the schedule, asks for; or {plainly}",
    )
    ACROSS = (
        "the neighbours in a row of {memory} lie across K, and {name} moves 32 bits along K only",
        "a tile that is stored with K along its rows, and .T of it; or {plainly}",
    )
    BYTES_ACROSS = (
        "the neighbours in a row of {memory} lie across K, and {name} moves such bytes two at a time",
        "give the product's result the layout contiguous [2, …] where this is its a, or […, 4] where it is its b, so "
        "that a thread has two; or a tile that is stored with K along its rows, and .T of it; or {plainly}",
    )


class _MatrixLowering:
    def __init__(self, function: Function, target: Target):
        self.function, self.target = function, target
        self.maps = SharedMaps(facts_of(function))
        self.operands = feeding(function.body)
        self.results = _made(function.body)

    def block(self, block: Block, divided: bool = False) -> None:
        for i, op in enumerate(block.ops):
            for region in op.regions:
                self.block(region, divided or parting(op) is not None)
            if op.spec.access.kind in ("read", "write") and space_of(op.operands[0]) == "shared":
                block.ops[i] = self.lowered(op, divided)

    def lowered(self, op: Op, divided: bool) -> Op:
        asked = op.attrs.get("matrix", False)
        store = op.spec.access.kind == "write"
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
        if isinstance(trans, NoMatrixAccess):
            if asked:
                raise self.refusal(op, value, trans)
            return op
        # `stmatrix` takes 4 bytes of a row from each lane. If a thread holds 8 or 16 contiguous bytes (`contiguous`),
        # one plain store takes them all.
        wide = store and access_bytes(self.maps.analysis, op) >= ROW // 2
        name, ways = f"{op.operands[0].name}.{op.name}", {"matrix": True} if asked else {"matrix": True, "plain": False}
        rule, why = "matrix", "asked for" if asked else "the layouts are those of matrices"
        if wide and not asked:
            rule, why = "plain", "its vectors are wide"
        if not self.function.choices.choose("matrix", name, ways, rule, loc=op.loc, because=why):
            return op
        attrs = {"has": op.attrs["has"], "trans": trans}
        made = Op(
            OPS["stmatrix" if store else "ldmatrix"], op.operands, [r.type for r in op.results], attrs, (), op.loc
        )
        for result in op.results:
            made.results = [result]
            result.op = made
        return made

    def refusal(self, op: Op, value: Value, why: NoMatrixAccess) -> TileError:
        """Returns the error for a kernel that requests the instruction by name."""
        memory, store = op.operands[0], op.spec.access.kind == "write"
        size, map = memory.dtype.bytes, self.maps.of(op, value.tile.layout)
        held = 0  # log2 of the number of neighbours of a row that a thread has
        while map is not None and map.register[held : held + 1] == (size << held,):
            held += 1
        assert isinstance(memory.type, SharedType)
        words = {
            "name": "stmatrix" if store else "ldmatrix",
            "plainly": "'=' stores it" if store else "load(…) reads it",
            "product": "no product gives" if store else "no product takes",
            "operand": "the result of a product" if store else "the operand of a product",
            "memory": f"'{memory.name}'",
            "tile": value.tile,
            "stage": stage_bytes(memory.type),
            "held": 1 << held,
            "word": max(1, 4 // size),
            "step": ROW // size,
        }
        # The reasons that come from the layout may not apply to another layout of the value.
        of_layout = why in (NoMatrixAccess.NEIGHBOURS, NoMatrixAccess.ACROSS, NoMatrixAccess.BYTES_ACROSS)
        if of_layout and value not in (self.results if store else self.operands):
            why = NoMatrixAccess.NO_PRODUCT
        message, hint = why.value
        return TileError("layout", op.loc, message.format(**words), hint.format(**words))

    def fits(self, op: Op, value: Value) -> bool | NoMatrixAccess:
        """Returns whether the matrix access needs `trans`. If the access cannot be a matrix access, returns the
        reason."""
        memory, mask, layout = op.operands[0], operand(op, "mask"), value.tile.layout
        assert isinstance(memory.type, SharedType)
        if mask is not None and constant_of(mask) is not True:
            return NoMatrixAccess.OUTSIDE
        if layout is None or (op.spec.access.kind == "write" and layout.is_replicated):
            return NoMatrixAccess.COPIES
        if memory.type.ring and stage_bytes(memory.type) % ROW:
            return NoMatrixAccess.SLOTS
        size = memory.dtype.bytes
        if size > 4:  # a lane moves one 32-bit word, so an element of 8 bytes would be split
            return NoMatrixAccess.WIDE
        map = self.maps.of(op, layout)
        if map is None:
            return NoMatrixAccess.INDICES
        if not map.all_multiples(ROW):
            return NoMatrixAccess.START
        return self.is_transposed(op, map, size)

    def is_transposed(self, op: Op, map: SharedMap, size: int) -> bool | NoMatrixAccess:
        """Like `fits`, but checks only the layout. `size` is the number of bytes of an element."""
        bits = (4 // size).bit_length() - 1
        if map.register[:bits] == tuple(size << i for i in range(bits)) and map.lane[:2] == (4, 8):
            rest = (*map.register[bits:], *map.lane[2:], *map.warp)
            return False if map.all_multiples(ROW, *rest) else NoMatrixAccess.NEIGHBOURS
        in_pairs = size == 1 and op.spec.access.kind == "read" and 1 in map.register[2:]  # see emit/tensor.py
        registers = tuple(b for b in map.register if b != 1 or not in_pairs)
        if (size == 2 or in_pairs) and registers and map.lane[2:] == (2, 4, 8):
            return True if map.all_multiples(ROW, *registers, *map.lane[:2], *map.warp) else NoMatrixAccess.NEIGHBOURS
        if size == 1 and map.register[:1] != (1,):
            return NoMatrixAccess.BYTES_ACROSS
        return NoMatrixAccess.ACROSS if size == 4 and map.lane[2:] == (4, 8, 16) else NoMatrixAccess.NEIGHBOURS


def feeding(body: Block) -> set[Value]:
    """Returns the values from which operands of matrix products are computed without moving data between threads."""
    # maps a loop's argument to the values it stands for; it may also be the start value of an inner loop
    carried: dict[Value, list[Value]] = {}
    for each in (each for op in walk(body) for each in names(op)):
        for name in each:
            if name.op is None:
                carried.setdefault(name, []).extend(each)

    def made_of(value: Value) -> Iterable[Value]:
        op = value.op
        if not isinstance(value.type, TileType) or not value.tile.shape:
            return ()
        if op is None:
            return carried.get(value, ())
        if op.spec.control.flows:
            return [name for each in names(op) if value in each for name in each]
        return op.operands if op.spec.elementwise or (op.spec.pure and len(op.operands) == 1) else ()

    operands = [o for op in walk(body) if op.spec.product for o in op.operands[:2]]
    return {value for value in reached(operands, made_of) if isinstance(value.type, TileType) and value.tile.shape}


def _made(body: Block) -> set[Value]:
    """Returns the values that threads compute from their own results of matrix products."""
    found: set[Value] = set()
    for op in walk(body):
        if op.spec.product:
            found.add(op.result)
        elif op.spec.elementwise or op.spec.placement.picks is not None:
            found.update(op.results if any(o in found for o in op.operands) else ())
        elif op.spec.control.flows:
            ends = [handed_on(region) for region in op.regions]
            products = {o.result for o in inside(op) if o.spec.product}
            found.update(r for i, r in enumerate(op.results) if any(end[i] in products for end in ends))
    return found
