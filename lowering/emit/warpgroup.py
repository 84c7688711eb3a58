"""Products of warp groups: one asm for all instructions of a slot, and one for the wait, with the sums tied.

The first one begins with a fence and ends with a commit; between the two nothing takes the sums (`place_waits`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lowering.emit.rules import rule
from lowering.emit.shared_address import SharedAddress, shared_base
from lowering.layout import bits_of
from lowering.ops import operand
from lowering.tensor_cores import accumulator_registers, product
from lowering.warpgroup import ROWS, STEP, WARPS, WIDTHS, chosen, loads_of
from ptx_templates import Instruction, Operand, instruction, joined

if TYPE_CHECKING:
    from lowering.emit.writer import Writer
    from lowering.ir import Op

LANES = 5  # bits of a lane's number


def by_warpgroups(w: Writer, op: Op) -> None:
    """acc + a @ b, whose operands' loads are `in_place`."""
    groups, layout = chosen(op), op.result.tile.layout
    assert groups is not None and layout is not None
    spread = product(op.attrs["instruction"], layout, op.operands[0].tile.shape[1])
    assert spread is not None
    (eights,) = accumulator_registers(spread)
    order = [register for registers in eights for register in registers]
    rows = ROWS * groups.width  # bytes of a group's rows
    group = [rows << i for i in range(bits_of(w.function.warps // WARPS))]
    left, right = loads_of(op)
    a = descriptor(w, left, groups.width, tuple([0] * (LANES + bits_of(WARPS)) + group))
    b = descriptor(w, right, groups.width, ())
    held = w.registers[op.operands[2]]
    made = w.calls.asm(of_slot(groups.name, groups.width), [a, b, *(held[r] for r in order)])
    out = [""] * len(order)
    for register, value in zip(order, made, strict=True):
        out[register] = value
    w.registers[op.result] = out


@rule("product_wait")
def _wait(w: Writer, op: Op) -> None:
    """All products before; the sums are there."""
    (sums,) = op.operands
    held = w.registers[sums]
    w.registers[op.result] = w.calls.asm(of_wait("b32" if sums.dtype.name == "s32" else "f32", len(held)), held)


@cache
def of_slot(name: str, width: int) -> Instruction:
    """All products of a slot, `width` bytes along K: each one adds to the sums of all, in the same registers."""
    fence, commit = instruction("wgmma.fence.sync.aligned"), instruction("wgmma.commit_group.sync.aligned")
    row = instruction(f"wgmma.mma_async.sync.aligned.{name}")
    multiply = row.filled(a="a", b="b", scale_d="all")
    start = "{ .reg .b64 a, b; .reg .pred all; setp.eq.u32 all, 0, 0; mov.b64 a, {a}; mov.b64 b, {b};"
    steps: list[str | Instruction] = [start, fence, multiply]
    for _ in range(STEP, width, STEP):
        steps += [f"add.u64 a, a, {STEP >> 4}; add.u64 b, b, {STEP >> 4};", multiply]
    return joined(name, (row["a"], row["b"], row["d"]), [*steps, commit, "}"])


@cache
def of_wait(register: str, count: int) -> Instruction:
    """The wait for all products before, which so many sums go through: what uses them comes behind it."""
    wait = instruction("wgmma.wait_group.sync.aligned").filled(n="0")
    return joined(wait.name, [Operand("d", "inout", register, count)], [wait])


def descriptor(w: Writer, load: Op, width: int, bases: tuple[int, ...]) -> str:
    """Of the rows of a slot that a thread's group multiplies. bases: bytes that each bit of its number adds."""
    memory, slot = load.operands[0], operand(load, "slot")
    address = shared_base(w, memory)
    if slot is not None:
        address = w.let(f"add i32 {address}, {SharedAddress(w, load, slot, None).slot_offset(slot)}")
    if any(bases):
        address = w.let(f"add i32 {address}, {w.head.linear(bases)}")
    start = w.let(f"zext i32 {w.let(f'lshr i32 {address}, 4')} to i64")
    rest = WIDTHS[width] << 62 | (8 * width >> 4) << 32 | 1 << 16
    return w.let(f"or i64 {start}, {rest - (1 << 64) if rest >> 63 else rest}")
