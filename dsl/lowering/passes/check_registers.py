"""Rejects tiles whose elements do not fit into the registers of a thread. Without this check, ptxas would spend minutes
on spilling them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dsl.lowering.directives.slices import reads
from dsl.lowering.hopper.warpgroup import BESIDES, most_columns, registers_at_start
from dsl.lowering.ir.function import Function, Op, walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.targets import MOST_REGISTERS, Target
from dsl.lowering.ir.types import ViewType
from dsl.lowering.ops.pipelines import roles_of

OPERANDS = 16
"""The number of registers that a loop needs at least beside its accumulators, for operands of mma.sync and addresses.
Without them, two products of 128 x 256 with 128 accumulators for the 128 registers of a thread spill 3,868 to 15,792
bytes (ptxas 13.0)."""


def check_registers(function: Function, target: Target) -> None:
    """Raises TileError `registers` in three cases: a tile of floats is too large, the accumulator of a wgmma
    instruction is too large, or a loop carries too many registers. The error is for the first case in program order.
    Tiles of integers are not checked, because they are mostly index arithmetic, and a thread keeps few of their
    elements in registers."""
    # A thread's share of the block's registers, or more if producer warps give registers away (`setmaxnreg`).
    has = min(_lifted_to(function) or target.each(function.launched), MOST_REGISTERS)
    for op in walk(function.body):
        if op.spec.wgmma:
            _check_product(function, target, op)
        if op.spec.control.counters:
            products = any(each.spec.product and not each.spec.wgmma for each in op.regions[-1].ops)
            _check_carried(op, has, OPERANDS * products)
            _check_beside(function, op, has)
        for result in op.results:
            if not result.dtype.is_float or op.spec.elements.splat:
                continue  # elements that repeat others share their registers
            needed = result.registers
            if needed > MOST_REGISTERS:
                tile = result.tile if result.name is None else f"'{result.name}' {result.tile}"
                message = f"this tile, {tile}, takes {needed} registers of a thread; there are {MOST_REGISTERS}"
                raise TileError("registers", op.loc, message, _smaller(function))


def _smaller(function: Function) -> str:
    """Returns a hint on how to make a tile smaller. The hint lists the kernel's constants, because the user may not
    know which values the compiler's rules chose."""
    numbers = [f"{name} = {value}" for name, value in function.constants.items() if type(value) is int]
    said = f" ({', '.join(numbers)}; what nobody sets follows a rule)" if numbers else ""
    return f"more warps, or a smaller tile{said}"


def _check_carried(loop: Op, has: int, beside: int) -> None:
    """Checks that all loop-carried values of a loop fit into registers together, for example the accumulators of two
    products. The loop needs `beside` registers for other values."""
    held: Counter[str] = Counter()  # by name: subtiles of a tile share its name, so the message lists them together
    for arg in loop.regions[-1].args[loop.spec.control.counters :]:
        held[arg.name or "others"] += arg.registers
    if sum(held.values()) + beside > has:
        told = ", ".join(f"{count} of '{name}'" for name, count in held.items() if count)
        needs = f", and its mma.sync need {beside}" if beside else ""
        message = f"the loop carries {sum(held.values())} registers of a thread, {told}{needs}; there are {has}"
        hint = "more warps, or smaller tiles" if has == MOST_REGISTERS else "smaller tiles"
        raise TileError("registers", loop.loc, message, hint)


def _check_beside(function: Function, loop: Op, has: int) -> None:
    """Checks that the registers of a wgmma product fit beside the loop-carried values that are read after it. While it
    runs, wgmma keeps its accumulators and its left operand in registers. If these and the carried values together
    exceed the limit, ptxas 13.0 spills many registers or fails (C7600). This happened with 96 of 136 registers in use,
    and with 112 of 160."""
    body = loop.regions[-1]
    has = has if _lifted_to(function) else min(has, function.number("maxnreg") or has)
    for at, op in enumerate(body.ops):
        if not op.spec.wgmma or isinstance(op.operands[0].type, ViewType):
            continue
        sums, left = sum(result.registers for result in op.results), op.operands[0].registers
        later = {value for each in body.ops[at + 1 :] for value in reads(each)}
        beside = sum(arg.registers for arg in body.args[loop.spec.control.counters :] if arg in later)
        if beside and sums + left + beside > has:
            parts = f"{sums} for its accumulator and {left} for its left operand"
            message = f"a product takes {sums + left} registers of a thread, {parts}, beside {beside} that the loop "
            hint = "smaller tiles, or an accumulator that the product adds to itself"
            raise TileError("registers", op.loc, f"{message}carries; there are {has}", hint)


def _lifted_to(function: Function) -> int:
    """Returns the number of registers of a consumer thread if producer warps give registers to consumer warps
    (`setmaxnreg`). Otherwise returns 0."""
    roles = roles_of(function)
    given: Sequence[int] = roles.attrs["registers"] if roles is not None else ()
    return given[1] if given else 0


def _check_product(function: Function, target: Target, op: Op) -> None:
    """Checks that one wgmma instruction fits into the registers that a thread has at launch."""
    given, columns = registers_at_start(function, target), op.result.tile.shape[1]
    most = most_columns(given)
    if columns > most:
        blocks, takes = max(1, function.number("blocks_per_sm")), columns // 2 + BESIDES
        many = f"{blocks} blocks of {function.launched} threads have" if blocks > 1 else "a block has"
        message = f"a product of {columns} columns takes {takes} registers of a thread, and "
        fewer = f"at most {max(8, most // 16 * 16)} columns"
        if given == function.number("maxnreg"):
            place = function.lines.get(("maxnreg", "maxnreg"))
            hint = f"maxnreg {takes + 8 - takes % 8} or more, or {fewer}"
            raise TileError("registers", place or op.loc, f"{message}maxnreg leaves it {given}", hint)
        hint = f"{fewer}, fewer warps, or fewer blocks_per_sm"
        raise TileError("registers", op.loc, f"{message}{many} {given} for it", hint)
