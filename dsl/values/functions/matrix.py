"""Products of tiles on tensor cores, and the loads and stores of their operands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.text import tree as ast
from dsl.values.access import read, write
from dsl.values.bindings import Access, SharedTile, describe
from dsl.values.functions.arguments import signature, together
from dsl.values.functions.memory import part_of_memory
from dsl.values.functions.registry import Handler, family, function, takes_syntax
from lowering.ir import Value
from lowering.location import Loc, closest
from lowering.types import F32, F64, S32

if TYPE_CHECKING:
    from dsl.values.expressions import Expressions

MMA = "mma.sync."


def multiply(
    b: Expressions, loc: Loc, left: Value, right: Value, acc: Value | None, shape: str | None = None, modifier: str = ""
) -> Value:
    """`acc + left @ right` by the instruction of that shape, or the one that the schedule or the target decides."""
    for value in (left, right):
        if len(value.tile.shape) != 2:
            b.error("shape", loc, f"a product takes tiles of rank 2; this is {value.tile}")
    b.place(loc)
    if acc is None:
        wide = S32 if left.dtype.name[0] in "su" else F64 if left.dtype is F64 else F32
        zero = 0.0 if wide.is_float else 0
        acc = b.ir.constant(zero, wide, (left.tile.shape[0], right.tile.shape[1]))
    together(b, loc, "a product")
    return b.ir.value("dot", left, right, acc, shape=shape, modifier=modifier, instruction=None)


def _operands(b: Expressions, loc: Loc, args: list, what: str) -> list[Value]:
    """Values of a product's arguments; an accumulator may be a number only where its type is written."""
    for arg in args:
        if not isinstance(arg, Value | Access):
            b.error("type", loc, f"{what} takes tiles; this is {describe(arg)}", "an accumulator: zeros(f32[M, N])")
    return [b.as_value(arg, loc) for arg in args]


@function("dot")
def _dot(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
    signature(b, loc, "dot", args, keywords, 2, 3)
    left, right, *acc = _operands(b, loc, args, "dot")
    return multiply(b, loc, left, right, acc[0] if acc else None)


@family(MMA)
def _mma(name: str) -> Handler | None:
    """`mma.sync.SHAPE[.MODIFIER]`: the handler of a name that an instruction has."""
    from lowering.tensor_cores import shapes

    shape, _, modifier = name.removeprefix(MMA).partition(".")
    if name.removeprefix(MMA) not in shapes():
        return None

    def handler(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, 3, 3)
        left, right, acc = _operands(b, loc, args, name)
        return multiply(b, loc, left, right, acc, shape, modifier)

    return handler


def mma_hint(name: str) -> str:
    """Which instruction was meant by a name that begins with mma."""
    from lowering.tensor_cores import shapes

    known = [MMA + s for s in shapes()]
    return closest(name, known) or ", ".join(known)


def _shared_part(b: Expressions, node: ast.Expr, what: str) -> Access:
    access = part_of_memory(b, node, what)
    if not isinstance(access.memory, SharedTile):
        b.error("type", node.loc, f"{what} takes a part of a shared tile; this is of {describe(access.memory)}")
    return access


@function("ldmatrix")
@takes_syntax
def _ldmatrix(b: Expressions, node: ast.Call) -> Value:
    signature(b, node.loc, "ldmatrix", node.args, node.keywords, 1, 1)
    access = _shared_part(b, node.args[0], "ldmatrix")
    together(b, node.loc, "ldmatrix", warp=True)
    value = read(b, access, node.loc)
    assert value.op is not None
    value.op.attrs["matrix"] = True
    return value


@function("stmatrix")
@takes_syntax
def _stmatrix(b: Expressions, node: ast.Call) -> tuple:
    signature(b, node.loc, "stmatrix", node.args, node.keywords, 2, 2)
    access = _shared_part(b, node.args[0], "stmatrix")
    together(b, node.loc, "stmatrix", warp=True)
    write(b, access, b.expr(node.args[1]), node.loc)
    b.ir.block.ops[-1].attrs["matrix"] = True
    return ()
