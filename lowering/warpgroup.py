"""Products of warp groups (`wgmma`): which products of tiles they can be, the layout of the sums, where operands lie.

Four warps multiply 64 rows by up to 256 columns, and read both operands where they lie in shared memory: loads of whole
slots that nothing else uses are not done at all. Each row of an operand has 32, 64 or 128 bytes along K, and the slot
the swizzle of so many bytes (PTX ISA, "Matrix Descriptor"). 675 TFLOPS of f16 at 8192 on an H100, where `mma.sync` has
535 (docs/measurements.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from lowering.affine import AffineOffsets
from lowering.ir import Function, Op, Value
from lowering.layout import Layout, bits_of
from lowering.ops import operand, space_of
from lowering.ops.memory import writes
from lowering.schedule import Named
from lowering.shared_map import Swizzle
from lowering.targets import Target, target
from lowering.types import SharedType

WARPS = 4
"""Of a group."""
ROWS = 64
"""Of an instruction, 16 a warp."""
STEP = 32
"""Bytes along K of an instruction."""
WIDTHS = {128: 1, 64: 2, 32: 3}
"""Bytes of a row of an operand: the swizzle's mode in its descriptor."""
INSTRUCTION, ATTRIBUTE = "wgmma", "warpgroups"
ARCH = "sm_90a"
TYPES = {
    **{(each, each, "f32"): 2 for each in ("f16", "bf16")},
    **{(a, b, "f32"): 1 for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
    **{(each, each, "s32"): 1 for each in ("s8", "u8")},
}
"""Types of a, b and the sums: bytes of an operand's element."""


@dataclass(frozen=True, slots=True)
class StagedOperand:
    """An operand in shared memory: its load, and bytes of a row."""

    load: Op
    width: int


@dataclass(frozen=True, slots=True)
class Warpgroups:
    """A product as instructions of warp groups: `name` is what follows `mma_async`, and the rows of operands have
    `width` bytes, all along K."""

    name: str
    width: int

    @property
    def written(self) -> str:
        return INSTRUCTION

    @property
    def swizzle(self) -> Swizzle:
        """Of a slot."""
        return tuple((7 + i, 16 << i) for i in range((self.width // 16).bit_length() - 1))

    def mark(self, product: Op) -> None:
        """Its loads are not done, and its tiles lie as the instructions read them."""
        product.attrs[ATTRIBUTE] = (self.name, self.width)
        for value in product.operands[:2]:
            ops = chain(value)
            for op in ops:
                op.attrs["in_place"] = True
            alloc = ops[-1].operands[0].op
            assert alloc is not None
            alloc.attrs["dictated"] = self.swizzle


def chosen(product: Op) -> Warpgroups | None:
    """How a product is done, if by warp groups."""
    return Warpgroups(*product.attrs[ATTRIBUTE]) if ATTRIBUTE in product.attrs else None


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
    """The operations that an operand is made by: transpositions, and what they begin with."""
    found = [value.op] if value.op is not None else []
    while found and found[-1].attrs.get("axes") == (1, 0) and found[-1].operands[0].op is not None:
        found.append(found[-1].operands[0].op)
    return found


def loads_of(product: Op) -> tuple[Op, Op]:
    """Of the operands of a product of warp groups."""
    return chain(product.operands[0])[-1], chain(product.operands[1])[-1]


def has_columns(columns: int, sums: str) -> bool:
    """Whether an instruction has so many."""
    return 8 <= columns <= 256 and columns % (16 if sums == "s32" and columns > 24 else 8) == 0


def warpgroups(op: Op, users: dict[Value, list[Op]], arch: str, warps: int) -> Warpgroups | str:
    """The product by warp groups, or why it cannot be, with what would help."""
    a, b, c = (value.tile for value in op.operands)
    rows, columns = c.shape
    if warps % WARPS or rows != ROWS * (warps // WARPS):
        return f"its {rows} rows are not 16 for each of {warps} warps: TM = 16 * warps, and parts of whole tiles"
    types = a.dtype.name, b.dtype.name, c.dtype.name
    if arch != ARCH:
        return f"{arch} has none: it needs sm_90, whose kernels are then of {ARCH}"
    if types not in TYPES or not has_columns(columns, types[2]):
        return f"there is none of {columns} columns that adds products of {types[0]} and {types[1]} to {types[2]}"
    left, right = staged(op.operands[0], users, False), staged(op.operands[1], users, True)
    for name, each in (("left", left), ("right", right)):
        if isinstance(each, str):
            return f"its {name} operand {each}"
    assert isinstance(left, StagedOperand) and isinstance(right, StagedOperand)
    if left.load.operands[0] is right.load.operands[0] or left.width != right.width:
        return "its operands are one tile, or have rows of different widths"
    name = f"m{ROWS}n{columns}k{STEP // TYPES[types]}.{types[2]}.{types[0]}.{types[1]}"
    return Warpgroups(name, left.width)


def staged(value: Value, users: dict[Value, list[Op]], turned: bool) -> StagedOperand | str:
    """Of an operand; `turned`: rows of the tile in memory are its columns."""
    ops = chain(value)
    if any(len(users.get(op.result, ())) > 1 for op in ops):
        return "is used by others, too"
    op = ops[-1] if ops else None
    if op is None or op.spec.accesses != "read" or space_of(op.operands[0]) != "shared" or operand(op, "mask"):
        return "is no load of a staged tile, whole: its rows are multiples of 16 bytes, and 'fragments' whole"
    if (len(ops) - 1) % 2 != turned:
        return "lies across K: both lie along it, as a and b.T of arrays [m, k] and [n, k] do"
    memory, offset = op.operands[0], operand(op, "offset")
    assert isinstance(memory.type, SharedType) and offset is not None
    rows, depth = op.result.tile.shape
    affine = AffineOffsets().of(offset)
    if affine is None or affine.constant or affine.terms or affine.coefficients != (depth, 1):
        return "is not a whole slot"
    if memory.type.shape[-2:] != (rows, depth) or any(
        writes(each) and not each.spec.in_flight for each in users[memory]
    ):
        return "is not a whole slot that copies fill"
    width = depth * memory.dtype.bytes
    if width not in WIDTHS:
        return f"has rows of {width} bytes along K; they take {', '.join(map(str, sorted(WIDTHS)))}"
    return StagedOperand(op, width)


def sums_layout(shape: tuple[int, int], warps: int) -> Layout:
    """Of the result: 64 rows a group, and in each warp as `mma.sync` has its own 16."""
    columns = shape[1]
    register = [1, 8 * columns, *(8 << i for i in range(bits_of(columns // 8)))]
    lane = [2, 4, columns, 2 * columns, 4 * columns]
    return Layout.registers(shape, register, lane, [16 * columns << i for i in range(bits_of(warps))])
