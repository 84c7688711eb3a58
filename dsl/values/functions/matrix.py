"""Matrix products of tiles on tensor cores, and the loads and stores of their operands."""

from __future__ import annotations

from dsl.lowering.ir.function import Value
from dsl.lowering.ir.location import Loc, closest
from dsl.lowering.ir.types import F32, F64, S32
from dsl.values.access import read, write
from dsl.values.bindings import Access, Binding, SharedTile, describe
from dsl.values.building import Building
from dsl.values.functions.memory import part_of_memory
from dsl.values.functions.threads import together
from dsl.values.table import FAMILIES, Builtin, rows

row = rows("Tensor cores")

MMA = "mma.sync."


def multiply(
    b: Building, loc: Loc, left: Value, right: Value, acc: Value | None, shape: str | None = None, modifier: str = ""
) -> Value:
    """Builds `acc + left @ right`. `shape` selects the MMA instruction. If `shape` is None, the schedule or the target
    selects the instruction."""
    for value in (left, right):
        if len(value.tile.shape) not in (2, 3):
            b.error("shape", loc, f"a product takes tiles of rank 2 or 3; this is {value.tile}")
    b.place(loc)
    if acc is None:
        wide = S32 if left.dtype.name[0] in "su" else F64 if left.dtype is F64 else F32
        zero = 0.0 if wide.is_float else 0
        acc = b.ir.constant(zero, wide, (*left.tile.shape[:-1], right.tile.shape[-1]))
    together(b, loc, "a product")
    return b.ir.value("dot", left, right, acc, shape=shape, modifier=modifier, instruction=None)


def _operands(b: Building, loc: Loc, args: tuple[Binding, ...], what: str) -> list[Value]:
    """Checks that all arguments of a matrix product are tiles, and returns them. The accumulator cannot be a plain
    number, since its type must be explicit."""
    for arg in args:
        if not isinstance(arg, Value):
            b.error("type", loc, f"{what} takes tiles; this is {describe(arg)}", "an accumulator: zeros(f32[M, N])")
    return list(args)


def _dot(b: Building, loc: Loc, *args: Binding) -> Value:
    left, right, *acc = _operands(b, loc, args, "dot")
    return multiply(b, loc, left, right, acc[0] if acc else None)


def _mma(name: str) -> Builtin | None:
    """Returns the function that is named after the instruction `mma.sync.SHAPE[.MODIFIER]`. Returns None if no such
    instruction exists."""
    from dsl.lowering.machine.tensor_cores import shapes

    shape, _, modifier = name.removeprefix(MMA).partition(".")
    if name.removeprefix(MMA) not in shapes():
        return None

    def tiles(b: Building, loc: Loc, *args: Binding) -> Value:
        left, right, acc = _operands(b, loc, args, name)
        return multiply(b, loc, left, right, acc, shape, modifier)

    return Builtin(f"{name}(a, b, acc)", "acc + a @ b by this instruction", tiles=tiles)


def mma_hint(name: str) -> str:
    """Returns a hint for an unknown name that begins with `mma`. The hint names the closest instruction, or lists all
    MMA instructions."""
    from dsl.lowering.machine.tensor_cores import shapes

    known = [MMA + s for s in shapes()]
    return closest(name, known) or ", ".join(known)


def _shared_part(b: Building, loc: Loc, part: Binding, what: str) -> Access:
    access = part_of_memory(b, 0, loc, part, what)
    if not isinstance(access.memory, SharedTile):
        at = b.place_of(0, loc)
        b.error("type", at, f"{what} takes a part of a shared tile; this is of {describe(access.memory)}")
    return access


def _ldmatrix(b: Building, loc: Loc, part: Binding) -> Value:
    access = _shared_part(b, loc, part, "ldmatrix")
    together(b, loc, "ldmatrix", warp=True)
    value = read(b, access, loc)
    assert value.op is not None
    value.op.attrs["matrix"] = True
    return value


def _stmatrix(b: Building, loc: Loc, part: Binding, value: Binding) -> tuple:
    access = _shared_part(b, loc, part, "stmatrix")
    together(b, loc, "stmatrix", warp=True)
    write(b, access, value, loc)
    b.ir.block.ops[-1].attrs["matrix"] = True
    return ()


row("dot(a, b, [acc])", "acc + a @ b on tensor cores; also of batches, a[b, m, k] @ b[b, k, n]", tiles=_dot)
row("ldmatrix(part)", "reads part of a shared tile as an MMA operand", tiles=_ldmatrix, memory=(0,))
row("stmatrix(part, v)", "writes an MMA's result to part of a shared tile", tiles=_stmatrix, memory=(0,))
FAMILIES[MMA] = _mma
