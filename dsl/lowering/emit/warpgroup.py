"""Emits wgmma as two asms: one for all wgmma instructions of a stage, and one for the wait. The accumulators are in-out
operands of both.

The first asm begins with a fence and ends with a commit. No code between the two asms uses the accumulators (ensured by
`place_waits`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dsl.lowering.emit.control import has_no_iteration
from dsl.lowering.emit.rules import rule
from dsl.lowering.emit.shared_address import SharedAddress, shared_base
from dsl.lowering.emit.words import layout_of
from dsl.lowering.hopper.warpgroup import WARPS, SwizzleAtoms, atoms_of
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.types import ViewType
from dsl.lowering.layouts.layout import bits_of
from dsl.lowering.machine.tensor_cores import accumulator_registers, product
from dsl.lowering.ops import operand
from dsl.ptx_templates import Instruction, Operand, instruction, joined

if TYPE_CHECKING:
    from dsl.lowering.emit.writer import Writer
    from dsl.lowering.ir.function import Op, Value

LANES = 5  # number of bits of a lane index
ADDRESS = (1 << 18) - 1  # mask of a shared memory address in a descriptor (PTX ISA, "Matrix Descriptor")


@rule("shared_view")
def _view(w: Writer, op: Op) -> None:
    """A view has no registers. The wgmma that uses the view computes its descriptor."""


@rule("wgmma")
def _wgmma(w: Writer, op: Op) -> None:
    """Emits acc + a @ b. If there are several b, each b has its own accumulator."""
    spread = product(op.attrs["instruction"], layout_of(op.results[0]), op.operands[0].tile.shape[1])
    assert spread is not None
    (eights,) = accumulator_registers(spread)
    order = [register for registers in eights for register in registers]
    atoms, right_atoms = _atoms(op.operands[0]), _atoms(op.operands[1])
    assert right_atoms is not None
    if atoms is None:
        left = w.words.of(op.operands[0])
    else:
        group = [atoms.group() << i for i in range(bits_of(w.function.warps // WARPS))]
        left = [descriptor(w, op.operands[0], atoms, tuple([0] * (LANES + bits_of(WARPS)) + group))]
    right = descriptor(w, op.operands[1], right_atoms, ())
    totals = op.operands[1 + len(op.results) :]
    # A product that starts at 0 does not read its accumulator. Setting registers to 0 took 64 moves per iteration of
    # attention.
    alone, over = constant_of(totals[0]) == 0, bool(op.attrs.get("from_zero"))
    held = [] if alone else [w.registers[total][r] for total in totals for r in order]
    row = of_stage(op.attrs["form"], op.attrs["steps"], atoms, right_atoms, alone or over, over)
    made = w.calls.asm(row, [*left, right, *held])
    for number, result in enumerate(op.results):
        out = [""] * len(order)
        for register, value in zip(order, made[number * len(order) :], strict=False):
            out[register] = value
        w.registers[result] = out


def _atoms(value: Value) -> SwizzleAtoms | None:
    """Returns the swizzle atoms of an operand. Returns None if the operand is in registers."""
    if not isinstance(value.type, ViewType):
        return None
    assert value.op is not None
    return atoms_of(value.op)


@rule("wgmma_wait")
def _wait(w: Writer, op: Op) -> None:
    """Emits a wait for all earlier wgmma products except the last `pending` ones. The results are the completed
    accumulators."""
    loop = op.operands[0].op
    if loop is not None and loop.spec.control.counters and has_no_iteration(w, loop):
        w.registers.update((result, w.registers[sums]) for result, sums in zip(op.results, op.operands, strict=True))
        return
    held = [register for sums in op.operands for register in w.registers[sums]]
    register = "b32" if op.operands[0].dtype.name == "s32" else "f32"
    made = w.calls.asm(of_wait(register, len(held), op.attrs.get("pending", 0)), held)
    each = len(made) // len(op.results)
    for number, result in enumerate(op.results):
        w.registers[result] = made[number * each : (number + 1) * each]


@rule("wgmma_wait_group")
def _wait_group(w: Writer, op: Op) -> None:
    w.template("wgmma.wait_group.sync.aligned", [str(op.attrs["pending"])], op)


@cache
def of_stage(
    form: str, steps: int, left: SwizzleAtoms | None, right: SwizzleAtoms, alone: bool, over: bool = False
) -> Instruction:
    """Returns the asm with all wgmma instructions of a stage, which add to the same accumulator. `left` is None if the
    left operand is in registers. If `alone` is true, the sum starts at 0. If `over` is true, the product overwrites the
    registers of another accumulator, which is then also an operand."""
    fence, commit = instruction("wgmma.fence.sync.aligned"), instruction("wgmma.commit_group.sync.aligned")
    in_registers = left is None
    row = instruction(f"wgmma.mma_async.sync.aligned.{form}{'.registers' * in_registers}")
    row = row.filled(a_across=str(int(left is not None and left.across)))
    row = row.filled(b_across=str(int(right.across)), b="b")
    lines: list[str | Instruction] = [
        "{ .reg .b64 a, b; .reg .pred all, none; setp.eq.u32 all, 0, 0; setp.ne.u32 none, 0, 0;",
        "mov.b64 b, {b};" if in_registers else "mov.b64 a, {a}; mov.b64 b, {b};",
        fence,
    ]
    for i in range(steps):
        # Descriptors have addresses in units of 16 bytes, so each step adds bytes >> 4.
        if i and left is not None:
            lines.append(f"add.u64 a, a, {left.step(i) - left.step(i - 1) >> 4};")
        if i:
            lines.append(f"add.u64 b, b, {right.step(i) - right.step(i - 1) >> 4};")
        scale = "none" if alone and not i else "all"
        lines.append(row.filled(a=f"{{a{i}}}" if in_registers else "a", scale_d=scale))
    operands = [replace(row["a"], name=f"a{i}") for i in range(steps)] if in_registers else [row["a"]]
    of = instruction(f"wgmma.mma_async.sync.aligned.{form}")
    sums = replace(of["d"], role="out") if alone and not over else of["d"]
    return joined(form, (*operands, of["b"], sums), [*lines, commit, "}"])


@cache
def of_wait(register: str, count: int, pending: int = 0) -> Instruction:
    """Returns the asm of the wait. Its in-out operands are the `count` registers of the accumulators. So LLVM must
    place all uses of the accumulators behind the wait."""
    wait = instruction("wgmma.wait_group.sync.aligned").filled(n=str(pending))
    return joined(wait.name, [Operand("d", "inout", register, count)], [wait])


def descriptor(w: Writer, view: Value, atoms: SwizzleAtoms, bases: tuple[int, ...]) -> str:
    """Computes the matrix descriptor (i64) of the warp group's part of a view of shared memory. `bases` contains the
    number of bytes that each bit of the thread index adds."""
    op = view.op
    assert op is not None
    memory, stage = op.operands[0], operand(op, "stage")
    address = shared_base(w, memory)
    if w.function.blocks_of_cluster > 1:  # in a cluster, the upper bits of the address contain the block's rank
        address = w.head.once(f"and i32 {address}, {ADDRESS}")
    if atoms.base:
        address = w.let(f"add i32 {address}, {atoms.base}")
    if stage is not None:
        address = w.let(f"add i32 {address}, {SharedAddress(w, op, stage, None).stage_offset(stage)}")
    of_group = w.head.of_warp if w.head.has_uniform_descriptors else w.head.linear
    if any(bases):
        address = w.let(f"add i32 {address}, {of_group(bases)}")
    start = w.let(f"zext i32 {w.let(f'lshr i32 {address}, 4')} to i64")
    fields = atoms.fields
    return w.let(f"or i64 {start}, {fields - (1 << 64) if fields >> 63 else fields}")
