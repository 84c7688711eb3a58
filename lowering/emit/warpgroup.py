"""Products of warp groups: one asm for all instructions of a slot, and one for the wait, with the sums tied.

The first one begins with a fence and ends with a commit; between the two nothing takes the sums (`place_waits`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.emit.rules import rule
from lowering.emit.shared_address import SharedAddress, shared_base
from lowering.layout import bits_of
from lowering.ops import operand
from lowering.tensor_cores import accumulator_registers, product
from lowering.warpgroup import ROWS, STEP, WARPS, WIDTHS, Warpgroups, chosen, loads_of

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
    held, sums = w.registers[op.operands[2]], op.result.dtype.name
    text = asm_text(groups, len(order), "" if sums == "s32" else ", 1, 1")
    made = tied(w, text, [held[r] for r in order], sums, [a, b])
    out = [""] * len(order)
    for register, value in zip(order, made, strict=True):
        out[register] = value
    w.registers[op.result] = out


@rule("product_wait")
def _wait(w: Writer, op: Op) -> None:
    """All products before; the sums are there."""
    (sums,) = op.operands
    text = "wgmma.wait_group.sync.aligned 0;"
    w.registers[op.result] = tied(w, text, w.registers[sums], sums.dtype.name, [])


def tied(w: Writer, text: str, sums: list[str], dtype: str, rest: list[str]) -> list[str]:
    """An asm whose results are its sums, in the registers that they were in."""
    kind, letter = ("i32", "r") if dtype == "s32" else ("float", "f")
    count = len(sums)
    places = ",".join([f"={letter}"] * count + ["l"] * len(rest) + [*map(str, range(count)), "~{memory}"])
    arguments = ", ".join([*(f"i64 {each}" for each in rest), *(f"{kind} {each}" for each in sums)])
    result = "{" + ", ".join([kind] * count) + "}"
    made = w.let(f'call {result} asm sideeffect "{text}", "{places}"({arguments}) #1')
    return [w.let(f"extractvalue {result} {made}, {i}") for i in range(count)]


def asm_text(groups: Warpgroups, count: int, signs: str) -> str:
    """All products of a slot. Operands: the sums, then the descriptors of a and b."""
    sums = ", ".join(f"${i}" for i in range(count))
    across = ", 0, 0" if groups.name.endswith(("f16.f16", "bf16.bf16")) else ""
    lines = [f"{{ .reg .b64 a, b; .reg .pred all; setp.eq.u32 all, 0, 0; mov.b64 a, ${count}; mov.b64 b, ${count + 1};"]
    lines.append("wgmma.fence.sync.aligned;")
    for step in range(groups.width // STEP):
        if step:
            lines.append(f"add.u64 a, a, {STEP >> 4}; add.u64 b, b, {STEP >> 4};")
        lines.append(f"wgmma.mma_async.sync.aligned.{groups.name} {{{sums}}}, a, b, all{signs}{across};")
    lines.append("wgmma.commit_group.sync.aligned; }")
    return " ".join(lines)


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
