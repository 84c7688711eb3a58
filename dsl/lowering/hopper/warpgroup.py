"""Warpgroup MMAs (`wgmma`): checks which MMAs they can compute, and describes their accumulators and operands.

Four warps multiply 64 rows by up to 256 columns. They read the operands directly from shared memory. So a load of a
whole stage becomes a view of shared memory (`shared_view`) if only wgmma uses the load. Each row of an operand has 32,
64 or 128 bytes, and its stage has the swizzle for that row length (PTX ISA, "Matrix Descriptor"). On an H100, an f16
product of 8192 reaches 675 TFLOPS with wgmma, and 535 with `mma.sync` (docs/measurements.md).
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import astuple, replace

from dsl.lowering.ir.function import Function, Op, Value, in_line
from dsl.lowering.ir.targets import MOST_REGISTERS, Target
from dsl.lowering.ir.types import DType, SharedType, TileType, ViewType
from dsl.lowering.layouts.layout import Layout, bits_of
from dsl.lowering.ops import OPS, operand, space_of
from dsl.lowering.ops.memory import only_copies
from dsl.lowering.shared.atoms import start_of_whole
from dsl.lowering.shared.shared_map import row_swizzle

WARPS = 4
"""The number of warps in a warpgroup."""
ROWS = 64
"""The number of rows of an instruction, 16 for each warp."""
MOST_COLUMNS = 256
"""The maximum number of columns of an instruction."""
EIGHT = 8
"""Eight rows are always contiguous: a descriptor contains only the distance from one group of eight rows to the
next."""
MOST_GROUPS = 4
"""The maximum number of consumer warpgroups of a block. The producer warps form one more warpgroup."""
STEP = 32
"""The number of bytes along k that one instruction multiplies."""
WIDTHS = {128: 1, 64: 2, 32: 3}
"""Maps the number of bytes in an operand's row to the swizzle mode in its descriptor."""
BESIDES = 26
"""The number of registers that ptxas 13.0 needs for wgmma besides accumulators (remark C7602, with 128 and 256
columns)."""
INSTRUCTION = "wgmma"
"""The name of the IR operation, and of the option that selects it."""
ARCH = "sm_90a"
BOTH_ACROSS = "both operands lie across k, and of elements that have not 16 bits, one must lie along k"
TYPES = {
    **{(each, each, "f32"): 2 for each in ("f16", "bf16")},
    **{(a, b, "f32"): 1 for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
    **{(each, each, "s32"): 1 for each in ("s8", "u8")},
    ("tf32", "tf32", "f32"): 4,
}
"""Maps the types of a, b and the accumulator to the bytes of an element of a and b."""


ROWS_OF_THREADS = {0: (8, (1, 2, 4), (16, 32)), 8: (1, (2, 4, 8), (16, 32)), 32: (1, (2, 16, 4), (8, 32))}
"""Maps the `mixed` of `sums_layout` to the distances of rows: of the second row of a thread, of the rows of lanes, and
of the rows of warps."""


class SwizzleAtoms(Struct, frozen=True):
    """The swizzle atoms of an operand, from byte `base` of a stage on. Atoms are contiguous, and each has `rows` rows
    of `width` bytes.

    If `across` is true, all elements of a row have the same index along k. Otherwise a row is along k. `eights` is the
    number of rows from the start of a group of eight rows to the start of the next group. It is more than 8 if rows of
    a halo are skipped.
    """

    width: int
    rows: int
    across: bool
    base: int = 0
    eights: int = EIGHT

    def step(self, number: int) -> int:
        """Returns the number of bytes from the operand's start to the first byte that instruction `number` along k
        reads."""
        if self.across:  # the elements have two bytes, so one instruction reads sixteen rows
            return number * STEP // 2 * self.width
        return self._within_row(number * STEP)

    def columns(self, number: int, size: int) -> int:
        """Returns the number of bytes from the start of a right operand to its column `number`, a multiple of eight.
        `size` is the number of bytes of an element."""
        # Along k, a row of an atom is a column of the right operand.
        return self._within_row(number * size) if self.across else number * self.width

    def _within_row(self, bytes: int) -> int:
        """Returns the number of bytes from the start of a row to byte `bytes` of the row, which may span atoms."""
        atom, within = divmod(bytes, self.width)
        return atom * self.rows * self.width + within

    def group(self) -> int:
        """Returns the number of bytes from the 64 rows of one warpgroup to the rows of the next."""
        return (ROWS * 2 // self.width * self.rows if self.across else ROWS // EIGHT * self.eights) * self.width

    @property
    def fields(self) -> int:
        """All fields of a descriptor except the start address (PTX ISA, "Matrix Descriptor")."""
        # The swizzle mode starts at bit 62, and the distance of groups of eight rows at bit 32. For an operand across
        # k, the distance of atoms starts at bit 16. Distances are in units of 16 bytes.
        atom = self.rows * self.width >> 4 if self.across else 1
        return WIDTHS[self.width] << 62 | (self.eights * self.width >> 4) << 32 | atom << 16


class StagedOperand(Struct, frozen=True):
    """An operand in shared memory: its load, its atoms, and whether the operand is the transpose of the loaded tile."""

    load: Op
    atoms: SwizzleAtoms
    is_transposed: bool

    def view(self, operands: list[Value], dtype: DType) -> Op:
        """Builds the `shared_view` that replaces the load. `operands` contains the memory, the stage and the offsets of
        the load. `dtype` is the element type for wgmma."""
        axes = (1, 0) if self.is_transposed else (0, 1)
        attrs = {"has": list(self.load.attrs["has"]), "axes": axes, "to": dtype, "atoms": astuple(self.atoms)}
        shape = self.load.result.tile.shape
        type = ViewType((shape[axes[0]], shape[axes[1]]), dtype)
        return Op(OPS["shared_view"], operands, [type], attrs, (), self.load.loc)


class Warpgroups(Struct, frozen=True):
    """The wgmma instructions of an MMA. `form` is the end of their PTX name, after `mma_async.sync.aligned`. `steps` is
    the number of instructions along k. `left` and `right` are the operands in shared memory. `left` is None if the left
    operand is in registers."""

    form: str
    steps: int
    left: StagedOperand | None
    right: StagedOperand

    @property
    def written(self) -> str:
        return INSTRUCTION

    def staged(self) -> list[StagedOperand]:
        """The operands in shared memory."""
        return [self.right] if self.left is None else [self.left, self.right]

    def of(self, product: Op, operands: list[Value], type: TileType) -> Op:
        """Builds the wgmma operation that replaces the MMA `product`. `type` is the type of its accumulator."""
        attrs = {"instruction": product.attrs["instruction"], "form": self.form, "steps": self.steps}
        return Op(OPS[INSTRUCTION], operands, [type], attrs, (), product.loc)


def require_swizzles(product: Op) -> None:
    """Gives the shared tiles of an MMA's operands the swizzle that wgmma requires. A left operand that is loaded to
    registers gets the same swizzle: with the rows of `sums_layout`, its loads have no bank conflicts."""
    for value in product.operands[:2]:
        memory = chain(value)[-1].operands[0] if is_loaded(value) else None
        if memory is not None and memory.op is not None and isinstance(memory.type, SharedType):
            swizzle = row_swizzle(memory.type.shape[-1] * memory.dtype.bytes)
            assert not memory.type.fixed or memory.type.swizzle == swizzle, "TMA writes another order than wgmma reads"
            memory.op.attrs["type"] = memory.type = replace(memory.type, swizzle=swizzle, fixed=True)


def atoms_of(view: Op) -> SwizzleAtoms:
    """Returns the swizzle atoms of a `shared_view`."""
    return SwizzleAtoms(*view.attrs["atoms"])


def chain(value: Value) -> list[Op]:
    """Returns the operations that compute an operand, in reverse order. The last entry is usually a load. All other
    entries are transposes and bitcasts."""
    found = [value.op] if value.op is not None else []
    while found and keeps_bits(found[-1]) and found[-1].operands[0].op is not None:
        found.append(found[-1].operands[0].op)
    return found


def keeps_bits(op: Op) -> bool:
    """Whether an operation is a transpose or a bitcast, which keep the bits of the elements."""
    return is_turn(op) or op.spec.algebra.keeps == "bits"


def is_turn(op: Op) -> bool:
    """Whether an operation exchanges the two axes of a tile."""
    return op.attrs.get("axes") == (1, 0)


def groups_of(rows: int) -> int:
    """Returns the number of warpgroups for a tile of `rows` rows: 1, 2 or 4 with 64 rows each, or 2 for other multiples
    of 128 rows, which they compute in parts. Returns 0 for other numbers of rows."""
    groups, rest = divmod(rows, ROWS)
    if not rest and groups in (1, 2, MOST_GROUPS):
        return groups
    return 2 if rows % (2 * ROWS) == 0 else 0


def rows_together(rows: int, warps: int) -> int:
    """Returns the number of rows of a tile that `warps` warps compute at a time, 16 each, or 0 if they do not divide
    the `rows` rows of the tile. If there are more rows, the tile is computed in parts."""
    together = ROWS * warps // WARPS
    return together if warps % WARPS == 0 and rows % together == 0 else 0


def turned_shape(rows: int, columns: int) -> bool:
    """Whether wgmma must compute a tile as its transpose: `columns` is a possible number of rows for wgmma, and the
    tile as it is has an unsuitable number of rows, or too many columns."""
    return groups_of(columns) > 0 and (not groups_of(rows) or columns > MOST_COLUMNS)


def has_columns(columns: int, sums: str) -> bool:
    """Whether wgmma supports this number of columns. The number must be a multiple of 8. For integers, a number above
    24 must be a multiple of 16."""
    return 8 <= columns <= MOST_COLUMNS and columns % (16 if sums == "s32" and columns > 24 else 8) == 0


def registers_at_start(function: Function, target: Target) -> int:
    """Returns the number of registers per thread at the kernel's start. ptxas lets wgmma use only these, not those that
    `setmaxnreg` adds."""
    given = target.each(function.launched, max(1, function.number("blocks_per_sm")))
    return min(given, function.number("maxnreg") or MOST_REGISTERS, MOST_REGISTERS)


def most_columns(registers: int) -> int:
    """Returns the greatest number of columns of an instruction if a thread has `registers` registers."""
    # A column needs half an accumulator: 64 rows by 2 columns are one register of each of the 128 threads.
    return 2 * (registers - BESIDES)


def warpgroups(op: Op, users: dict[Value, list[Op]], arch: str, warps: int) -> Warpgroups | str:
    """Returns the wgmma instructions for an MMA. If wgmma cannot compute it, returns the reason with a hint. `users`
    maps each value to the operations that read it."""
    a, b, c = (value.tile for value in op.operands)
    rows, columns = c.shape
    if arch != ARCH:
        return f"{arch} has none: it needs sm_90, whose kernels are then for {ARCH}"
    if warps % WARPS:
        return f"{warps} warps are no warp groups of {WARPS} warps, with {ROWS} rows each"
    if rows != ROWS * (warps // WARPS):
        which, name = ("columns, rows of its instruction,", "TN") if op.attrs.get("turned") else ("rows", "TM")
        return f"its {rows} {which} are not 16 for each of {warps} warps: {name} = 16 * warps, and parts of whole tiles"
    types = a.dtype.name, b.dtype.name, c.dtype.name
    if types not in TYPES or not has_columns(columns, types[2]):
        return f"there is none with {columns} columns that adds products of {types[0]} and {types[1]} to {types[2]}"
    size = TYPES[types]
    if all(is_loaded(value) and size != 2 and _is_across(value, i == 1) for i, value in enumerate(op.operands[:2])):
        return f"{BOTH_ACROSS}: store one so, or launch 'copy' of std/copies.tile first"
    left = None if in_registers(op.operands[0]) else staged(op.operands[0], users, False, size)
    right = staged(op.operands[1], users, True, size)
    turned = bool(op.attrs.get("turned"))
    if isinstance(left, str):
        return f"{called(turned, turned)} {left}"
    if isinstance(right, str):
        return f"{called(not turned, turned)} {right}"
    if left is not None and left.load.operands[0] is right.load.operands[0]:  # one tile has one layout of atoms
        return "its operands are one tile"
    form = f"m{ROWS}n{columns}k{STEP // size}.{types[2]}.{types[0]}.{types[1]}"
    return Warpgroups(form, a.shape[1] * size // STEP, left, right)


def called(right: bool, turned: bool) -> str:
    """Returns the words of reasons for an operand, which is the right one in the text if `right` is true. If `turned`
    is true, wgmma computes the transposed product, where operands change sides."""
    side, other = ("right", "left") if right else ("left", "right")
    return f"its {side} operand, on the {other} of the transposed product," if turned else f"its {side} operand"


def is_loaded(value: Value) -> bool:
    """Whether an operand is a load, possibly transposed or bitcast, and not a computed value."""
    ops = chain(value)
    return bool(ops) and ops[-1].spec.access.kind == "read"


def loaded_across(dtype: DType) -> bool:
    """Whether threads can load an operand to registers even if it is not contiguous along k."""
    # wgmma reads elements of 16 bits across k in shared memory. Threads load bytes by `ldmatrix.trans` in pairs, which
    # they then permute.
    return dtype.bits in (8, 32)


def in_registers(left: Value) -> bool:
    """Whether wgmma reads this left operand from registers, not from shared memory."""
    return not is_loaded(left) or (_is_across(left, False) and loaded_across(left.dtype))


def is_loaded_across(left: Value) -> bool:
    """Whether threads load a left operand to registers, because it is not contiguous along k."""
    return is_loaded(left) and in_registers(left)


def _is_across(value: Value, right: bool) -> bool:
    """Whether a row of an operand's loaded tile is across k. `right` is true for a right operand."""
    return sum(map(is_turn, chain(value))) % 2 != right


def staged(value: Value, users: dict[Value, list[Op]], right: bool, size: int) -> StagedOperand | str:
    """Returns the operand's position in shared memory, or the reason why wgmma cannot read it there. `right` is true
    for a right operand. `size` is the number of bytes of an element."""
    ops = chain(value)
    wrong = _misfit_of_load(value, ops, users, right)
    if wrong is not None:
        return wrong
    op = ops[-1]
    across = _is_across(value, right)
    memory, offset = op.operands[0], operand(op, "offset")
    assert isinstance(memory.type, SharedType) and offset is not None
    rows, columns = op.result.tile.shape
    run = memory.type.shape[-1]
    atoms = (columns // run,) if run < columns else ()
    # Only tiles of `stage` have such offsets. Their next copy is after the product, so the product may read the tile
    # later than the load would. If a shared tile contains several loads, each atom contains the rows of all of them, or
    # several loads share the rows of an atom.
    all_rows = memory.type.shape[-2] if run != columns else rows
    start, held, eights = start_of_whole(offset, (rows, columns), run, all_rows), (*atoms, all_rows, run), EIGHT
    if "window" in op.attrs:  # a halo box may begin at any row: an H100 computed all 3192 such cases right
        (first, eights), held = op.attrs["window"], (memory.type.shape[-2], columns)
        start = first * columns
    # Barriers order the stores of a computed operand, which are those of one tile, with the products.
    is_computed = memory.op is not None and memory.op.attrs.get("computed", False)
    is_filled = is_computed or all(map(only_copies, users[memory]))
    if memory.type.shape[-len(held) :] != held or start is None or not is_filled:
        return "is not a whole stage that copies fill"
    width = run * memory.dtype.bytes
    if width not in WIDTHS:
        return f"has rows of {width} bytes; wgmma takes {', '.join(map(str, sorted(WIDTHS)))}"
    if across and size != 2:
        return "lies across k, which only elements of 16 bits may; a and b.T of arrays [m, k] and [n, k] lie along k"
    if (rows if across else columns) * size % STEP or (across and not right and columns % ROWS):
        return f"has {rows} x {columns} elements; {STEP} bytes along k are one step"
    if across and "window" in op.attrs:
        return "lies across k in a box with its halo, where groups of eight rows are not together"
    atoms_of_stage = SwizzleAtoms(width, all_rows, across, start * memory.dtype.bytes, eights)
    return StagedOperand(op, atoms_of_stage, across != right)


def _misfit_of_load(value: Value, ops: list[Op], users: dict[Value, list[Op]], right: bool) -> str | None:
    """Checks the operations that compute and use an operand. Returns why wgmma cannot read it in shared memory, or
    None."""
    others = any(len(users.get(op.result, ())) > 1 for op in ops[1:])
    if others or not all(user.spec.product and user.operands[right] is value for user in users.get(value, ())):
        return "is used by others, too"
    if ops and ops[-1].spec.access.kind != "read":
        return made_in_registers(ops[-1])
    if not ops or space_of(ops[-1].operands[0]) != "shared" or operand(ops[-1], "mask"):
        return (
            "is no load of a staged tile, whole: say 'stage NAME: shared' or 'tma'; its rows are multiples of 16 "
            "bytes, and 'fragments' whole"
        )
    return None


def made_in_registers(op: Op) -> str:
    """Returns the reason, with a hint, why the result of `op` cannot be a right operand of wgmma."""
    found = chain(op.operands[0]) if op.spec.algebra.keeps == "number" else [op]
    source = found[-1] if found else op
    line = in_line(source)
    given, made = op.operands[0].dtype if op.operands else op.result.dtype, op.result.dtype
    if source.spec.access.kind != "read":
        told = f"made by '{source.spec.symbol or source.name}'{line}"
    elif given.bits == made.bits:
        told = f"converted after its load{line}: bitcast(v, {made}) in place of .to({made}) keeps its bits"
    else:
        told = f"converted after its load{line}: let the array have elements of {made}"
    by_line = "a line 'instruction NAME: wgmma' takes it through shared memory"
    return f"is read as copies put it into shared memory, and this one is {told}; {by_line}"


def sums_layout(shape: tuple[int, int], warps: int, mixed: int = 0) -> Layout:
    """Returns the layout of the accumulators. A warpgroup has 64 rows, 16 per warp, in the same fragments as with
    `mma.sync`.

    `mixed` is the number of bits of an element of a left operand that threads load although it is not contiguous along
    k, or 0. Then a thread has two adjacent rows instead of two rows with a distance of 8: loads of 32 bits have no bank
    conflicts, and `ldmatrix.trans` gives a thread pairs of bytes.
    """
    columns = shape[1]
    own, lanes, warp = ROWS_OF_THREADS[mixed]
    register = [1, own * columns, *(8 << i for i in range(bits_of(columns // 8)))]
    lane = [2, 4, *(row * columns for row in lanes)]
    groups = (ROWS << i for i in range(bits_of(warps // WARPS)))
    return Layout.registers(shape, register, lane, [row * columns for row in (*warp, *groups)])
