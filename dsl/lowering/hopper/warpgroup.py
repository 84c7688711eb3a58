"""Products of warp groups (`wgmma`): which products of tiles they can be, the layout of the sums, where operands lie.

Four warps multiply 64 rows by up to 256 columns, and read both operands where they lie in shared memory: loads of whole
stages that nothing else uses are not done at all. Each row of an operand has 32, 64 or 128 bytes along K, and the stage
the swizzle of so many bytes (PTX ISA, "Matrix Descriptor"). 675 TFLOPS of f16 at 8192 on an H100, where `mma.sync` has
535 (docs/measurements.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from typing import Any

from dsl.lowering.ir.function import Function, Op, Value
from dsl.lowering.ir.schedule import Named
from dsl.lowering.ir.targets import MOST_REGISTERS, Target, target
from dsl.lowering.ir.types import DType, SharedType
from dsl.lowering.layouts.layout import Layout, bits_of
from dsl.lowering.ops import operand, space_of
from dsl.lowering.ops.memory import only_copies
from dsl.lowering.shared.atoms import start_of_whole
from dsl.lowering.shared.shared_map import row_swizzle

WARPS = 4
"""Of a group."""
ROWS = 64
"""Of an instruction, 16 a warp."""
EIGHT = 8
"""Rows whose places a descriptor takes for granted: they lie one behind the other."""
STEP = 32
"""Bytes along K of an instruction."""
WIDTHS = {128: 1, 64: 2, 32: 3}
"""Bytes of a row of an operand: the swizzle's mode in its descriptor."""
BESIDES = 26
"""Registers that ptxas 13.0 wants for a product beside its sums (C7602, of 128 and of 256 columns)."""
INSTRUCTION, ATTRIBUTE = "wgmma", "warpgroups"
ARCH = "sm_90a"
TYPES = {
    **{(each, each, "f32"): 2 for each in ("f16", "bf16")},
    **{(a, b, "f32"): 1 for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
    **{(each, each, "s32"): 1 for each in ("s8", "u8")},
    ("tf32", "tf32", "f32"): 4,
}
"""Types of a, b and the sums: bytes of an operand's element."""


@dataclass(frozen=True, slots=True)
class Panels:
    """How an operand lies in a stage, from `base` bytes on: `rows` rows of `width` bytes, and behind them the next
    ones. across: a row is of one step along K; else it goes along K, and from eight rows to the next eight are
    `eights`."""

    width: int
    rows: int
    across: bool
    base: int = 0
    eights: int = EIGHT

    def step(self, number: int) -> int:
        """Bytes to where an instruction's part along K begins, by the instruction's number."""
        if self.across:  # sixteen rows, of two bytes each
            return number * STEP // 2 * self.width
        atom, within = divmod(number * STEP, self.width)
        return atom * self.rows * self.width + within

    def group(self) -> int:
        """Bytes to the 64 rows of the product of the next group."""
        return (ROWS * 2 // self.width * self.rows if self.across else ROWS // EIGHT * self.eights) * self.width

    @property
    def fields(self) -> int:
        """Of a descriptor, without its start (PTX ISA, "Matrix Descriptor"): the swizzle, from eight rows to the next
        eight, and, of an operand across K, from a atom to the next one."""
        atom = self.rows * self.width >> 4 if self.across else 1
        return WIDTHS[self.width] << 62 | (self.eights * self.width >> 4) << 32 | atom << 16


@dataclass(frozen=True, slots=True)
class StagedOperand:
    """An operand in shared memory: its load, and how it lies."""

    load: Op
    atoms: Panels


@dataclass(frozen=True, slots=True)
class Warpgroups:
    """A product as instructions of warp groups: `name` is what follows `mma_async`; steps: how many along K; where its
    operands lie, the left one in registers if nowhere."""

    name: str
    steps: int
    left: Panels | None
    right: Panels

    @property
    def written(self) -> str:
        return INSTRUCTION

    def mark(self, product: Op) -> None:
        """Its loads are not done, and its tiles lie as the instructions read them."""
        places = (self.left, self.right)
        product.attrs[ATTRIBUTE] = (self.name, self.steps, *(None if p is None else astuple(p) for p in places))
        for value, atoms in zip(product.operands[:2], places, strict=True):
            if not is_loaded(value):
                continue
            ops = chain(value)
            memory = ops[-1].operands[0]
            if memory.op is not None and isinstance(memory.type, SharedType):
                # What is loaded into registers lies so, too: lanes of a warp meet no bank twice (`sums_layout`).
                memory.op.attrs["required"] = row_swizzle(memory.type.shape[-1] * memory.dtype.bytes)
            for op in ops if atoms is not None else ():
                op.attrs["in_place"] = True


def joined_attribute(product: Op, columns: int, count: int) -> dict[str, Any]:
    """That of a product of so many times the columns, whose right operand begins where this one's does."""
    name, *rest = product.attrs[ATTRIBUTE]
    return {ATTRIBUTE: (name.replace(f"n{columns}k", f"n{columns * count}k"), *rest)}


def chosen(product: Op) -> Warpgroups | None:
    """How a product is done, if by warp groups."""
    if ATTRIBUTE not in product.attrs:
        return None
    name, steps, left, right = product.attrs[ATTRIBUTE]
    return Warpgroups(name, steps, None if left is None else Panels(*left), Panels(*right))


def target_of(given: Target, instructions: Iterable[Named]) -> Target:
    """The target of a kernel whose schedule names these: sm_90a runs wherever sm_90 does as it is, and alone has what
    products of warp groups need."""
    asked = any(each.name[0] == INSTRUCTION for each in instructions)
    return target(ARCH) if asked and given.arch == ARCH.rstrip("a") else given


def asks_for(function: Function, name: str | None) -> bool:
    """Whether the schedule names these products' instruction so."""
    named = function.instructions.get(name or "")
    return named is not None and named.name[0] == INSTRUCTION


def chain(value: Value) -> list[Op]:
    """The operations that an operand is made by: those that leave its bits as they are, and what they begin with."""
    found = [value.op] if value.op is not None else []
    while found and keeps_bits(found[-1]) and found[-1].operands[0].op is not None:
        found.append(found[-1].operands[0].op)
    return found


def keeps_bits(op: Op) -> bool:
    """Whether the elements of an operation's result have the bits of those of its operand."""
    return is_turn(op) or op.spec.algebra.keeps == "bits"


def is_turn(op: Op) -> bool:
    """Whether an operation exchanges the two axes of a tile."""
    return op.attrs.get("axes") == (1, 0)


def load_of(value: Value) -> Op:
    """Of an operand that is read where it lies."""
    return chain(value)[-1]


def done_by(op: Op) -> list[Op]:
    """The operations whose accesses of memory one does: a product of warp groups reads, once more, what its loads say
    that are not done where they stand."""
    if ATTRIBUTE in op.attrs:
        loads = [load_of(value) for value in op.operands if value.op is not None]
        return [load for load in dict.fromkeys(loads) if load.attrs.get("in_place")]
    return [op] if op.spec.access.touches else []


def has_columns(columns: int, sums: str) -> bool:
    """Whether an instruction has so many."""
    return 8 <= columns <= 256 and columns % (16 if sums == "s32" and columns > 24 else 8) == 0


def registers_at_start(function: Function, target: Target) -> int:
    """Of a thread, which is what an instruction may take."""
    given = target.each(function.launched, max(1, function.number("blocks_per_sm")))
    return min(given, function.number("maxnreg") or MOST_REGISTERS, MOST_REGISTERS)


def most_columns(registers: int) -> int:
    """Of an instruction whose threads have so many registers."""
    return 2 * (registers - BESIDES)


def warpgroups(op: Op, users: dict[Value, list[Op]], arch: str, warps: int) -> Warpgroups | str:
    """The product by warp groups, or why it cannot be, with what would help."""
    a, b, c = (value.tile for value in op.operands)
    rows, columns = c.shape
    if warps % WARPS:
        return f"{warps} warps are no groups of {WARPS}, of {ROWS} rows each"
    if rows != ROWS * (warps // WARPS):
        which, name = ("columns, rows of its instruction,", "TN") if op.attrs.get("turned") else ("rows", "TM")
        return f"its {rows} {which} are not 16 for each of {warps} warps: {name} = 16 * warps, and parts of whole tiles"
    types = a.dtype.name, b.dtype.name, c.dtype.name
    if arch != ARCH:
        return f"{arch} has none: it needs sm_90, whose kernels are then of {ARCH}"
    if types not in TYPES or not has_columns(columns, types[2]):
        return f"there is none of {columns} columns that adds products of {types[0]} and {types[1]} to {types[2]}"
    size = TYPES[types]
    left = None if in_registers(op.operands[0]) else staged(op.operands[0], users, False, size)
    right = staged(op.operands[1], users, True, size)
    if isinstance(left, str):
        return f"its left operand {left}"
    if isinstance(right, str):
        return f"its right operand {right}"
    if left is not None and left.load.operands[0] is right.load.operands[0]:
        return "its operands are one tile"
    name = f"m{ROWS}n{columns}k{STEP // size}.{types[2]}.{types[0]}.{types[1]}"
    return Warpgroups(name, a.shape[1] * size // STEP, None if left is None else left.atoms, right.atoms)


def is_loaded(value: Value) -> bool:
    """Whether an operand is loaded as it is, and not made in registers."""
    ops = chain(value)
    return bool(ops) and ops[-1].spec.access.kind == "read"


def loaded_across(dtype: DType) -> bool:
    """Whether threads load elements that lie across K as instructions take them from registers: a word has one."""
    return dtype.bits == 32


def in_registers(left: Value) -> bool:
    """Whether a left operand is taken from registers, and not from where it lies."""
    across = sum(map(is_turn, chain(left))) % 2 == 1
    return not is_loaded(left) or (across and loaded_across(left.dtype))


def staged(value: Value, users: dict[Value, list[Op]], right: bool, size: int) -> StagedOperand | str:
    """How an operand lies in shared memory; or why warp groups cannot read it there. size: bytes of an element."""
    ops = chain(value)
    wrong = _misfit_of_load(value, ops, users, right)
    if wrong is not None:
        return wrong
    op = ops[-1]
    across = sum(map(is_turn, ops)) % 2 != right
    memory, offset = op.operands[0], operand(op, "offset")
    assert isinstance(memory.type, SharedType) and offset is not None
    rows, columns = op.result.tile.shape
    run = memory.type.shape[-1]
    atoms = () if run == columns else (columns // run,)
    start, held, eights = start_of_whole(offset, (rows, columns), run), (*atoms, rows, run), EIGHT
    if "window" in op.attrs:
        (first, eights), held = op.attrs["window"], (memory.type.shape[-2], columns)
        start = first * columns
    if memory.type.shape[-len(held) :] != held or start is None or not all(map(only_copies, users[memory])):
        return "is not a whole stage that copies fill"
    width = run * memory.dtype.bytes
    if width not in WIDTHS:
        return f"has rows of {width} bytes; they take {', '.join(map(str, sorted(WIDTHS)))}"
    if across and size != 2:
        return "lies across K, which elements of 16 bits alone may: as a and b.T of arrays [m, k] and [n, k] do"
    if (rows if across else columns) * size % STEP or (across and not right and columns % ROWS):
        return f"has {rows} x {columns} elements; {STEP} bytes along K are one step"
    if across and "window" in op.attrs:
        return "lies across K in a box with its halo, where rows of eight are not together"
    return StagedOperand(op, Panels(width, rows, across, start * memory.dtype.bytes, eights))


def _misfit_of_load(value: Value, ops: list[Op], users: dict[Value, list[Op]], right: bool) -> str | None:
    """Why an operand cannot be read where it lies: because of its users, or of the operations that make it."""
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
    """Why what an operation makes is no right operand, with what would help."""
    found = chain(op.operands[0]) if op.spec.algebra.keeps == "number" else [op]
    source = found[-1] if found else op
    line = "" if source.loc is None else f" in line {source.loc.line}"
    given, made = op.operands[0].dtype if op.operands else op.result.dtype, op.result.dtype
    if source.spec.access.kind != "read":
        told = f"made by '{source.spec.symbol or source.name}'{line}: a left operand alone may be computed"
    elif given.bits == made.bits:
        told = f"converted behind its load{line}: bitcast(v, {made}) for .to({made}) leaves its bits as they are"
    else:
        told = f"converted behind its load{line}: let the array have elements of {made}"
    return f"is read as copies put it into shared memory, and this one is {told}"


def sums_layout(shape: tuple[int, int], warps: int, mixed: bool = False) -> Layout:
    """Of the result: 64 rows a group, and in each warp as `mma.sync` has its own 16. mixed: rows in another order, of
    which a thread has two neighbours, and lanes those that lie in other banks in each of four rows of 128 bytes."""
    columns = shape[1]
    own, lanes, warp = (1, (2, 16, 4), (8, 32)) if mixed else (8, (1, 2, 4), (16, 32))
    register = [1, own * columns, *(8 << i for i in range(bits_of(columns // 8)))]
    lane = [2, 4, *(row * columns for row in lanes)]
    groups = (ROWS << i for i in range(bits_of(warps // WARPS)))
    return Layout.registers(shape, register, lane, [row * columns for row in (*warp, *groups)])
