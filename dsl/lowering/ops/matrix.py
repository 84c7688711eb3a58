"""Declares matrix products on tensor cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DType, SharedType, TileType, Type, ViewType
from dsl.lowering.layouts.layout import Layout
from dsl.lowering.machine.tensor_cores import Product, product
from dsl.lowering.ops.placing import Placed, Placing, alike
from dsl.lowering.ops.spec import (
    AccessEffect,
    Algebra,
    ElementFacts,
    MemoryAccess,
    Mismatch,
    Placement,
    nothing,
    row,
    same_types,
)
from dsl.ptx_templates import instruction


def _infer_dot(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    a, b, c = (o.tile for o in operands)
    if not len(a.shape) == len(b.shape) == len(c.shape) or len(a.shape) not in (2, 3):
        raise Mismatch(f"a product takes tiles of rank 2, or all of rank 3 with a batch axis; got {a}, {b}, {c}")
    (*batch, rows, depth), (*other, height, columns) = a.shape, b.shape
    if batch != other:
        raise Mismatch(f"{a} has {batch[0]} matrices, and {b} has {other[0]}", "a product takes a[b, m, k], b[b, k, n]")
    if depth != height:
        left, right = ("a.T", "b.T") if not batch else ("transpose(a, [0, 2, 1])", "transpose(b, [0, 2, 1])")
        turned = f"dot(a, {right}, acc)" if depth == columns else f"dot({left}, b, acc)"
        fits = depth == columns or rows == height
        hint = f"both lie along k: {turned}" if fits else "a product takes a[m, k] and b[k, n]"
        raise Mismatch(f"the columns of {a} are not the rows of {b}", hint)
    if c.shape != (*batch, rows, columns):
        raise Mismatch(f"{a} @ {b} has shape {[*batch, rows, columns]}; the accumulator is {c}")
    return [c]


def product_of(op: Op, layout: Layout) -> Product:
    """Returns the layouts of a product's operands, given the layout of its result. Raises TileError `layout` if the
    product's instruction does not allow this layout."""
    instruction = op.attrs["instruction"]
    spread = product(instruction, layout, op.operands[0].tile.shape[-1])
    if spread is None:
        message = f"the result of a product by {instruction.shape} cannot have this layout: {layout}"
        bits, rank = len(layout.warp), len(op.result.tile.shape)
        warps = [1] * (rank - 2) + [1 << bits // 2, 1 << bits - bits // 2]
        hint = f"'layout {op.result.name or 'acc'}: warps {warps}': the instruction says the rest"
        raise TileError("layout", op.loc, message, hint)
    return spread


def _spread_dot(op: Op, value: Value, layout: Layout) -> list[tuple[Value, Layout]]:
    sums = (op.result, op.operands[2])
    return [(v, layout) for v in sums] if value in sums else []


def _place_dot(a: Placing, op: Op) -> Placed:
    spread = product_of(op, a.layouts[op.result])
    return [spread.a, spread.b, spread.c], [spread.c]


def _along_dot(op: Op, value: Value, axis: int) -> dict[Value, int] | None:
    """Maps the values of a product to the axes that correspond to one axis of `value`. Rows of the result are rows of
    the left operand, and columns of the result are columns of the right operand. A batch axis is that of all. Returns
    None for the axis k, along which products are added."""
    left, right, total = op.operands
    rows = len(total.tile.shape) - 2
    if axis < rows:
        return dict.fromkeys((left, right, total, op.result), axis)
    if left is right or (value is left and axis == rows + 1) or (value is right and axis == rows):
        return None
    return {left if axis == rows else right: axis, total: axis, op.result: axis}


# The operands are a, b and the accumulator.
row(
    "dot", 3, _infer_dot, "shape modifier instruction", elements=ElementFacts(along=_along_dot),
    placement=Placement(_spread_dot, place=_place_dot, anywhere=False), algebra=Algebra(sums=(2, "add")),
)  # fmt: skip


def _infer_view(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    memory, shape, dtype = operands[0].type, operands[attrs["has"].index("offset")].shape, attrs["to"]
    assert isinstance(memory, SharedType) and isinstance(dtype, DType)
    if sorted(attrs["axes"]) != [0, 1]:
        raise Mismatch(f"a view has the axes 0 and 1, not {attrs['axes']}")
    if len(shape) != 2 or dtype.bits != memory.dtype.bits:
        raise Mismatch(f"a view of {memory} has two axes and elements of {memory.dtype.bits} bits")
    return [ViewType((shape[attrs["axes"][0]], shape[attrs["axes"][1]]), dtype)]


def views_of(op: Op) -> list[Op]:
    """Returns the `shared_view` operations that make operands of a wgmma. For other operations, the list is empty."""
    made = [value.op for value in op.operands if isinstance(value.type, ViewType)]
    return [view for view in dict.fromkeys(made) if view is not None]


def _reads_of_wgmma(op: Op) -> list[AccessEffect]:
    # The effect on memory, a read, is the same for all types and extents.
    reads = instruction("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16").effects[0]
    return [AccessEffect("read", view.operands[0], "shared", reads, view) for view in views_of(op)]


# An operand of a wgmma in shared memory: the elements at `offset`, transposed if `axes` is (1, 0), as elements of type
# `to`. `atoms` has the fields of `SwizzleAtoms` (`dsl/lowering/hopper/warpgroup.py`). A view reads nothing: the wgmma
# that uses the view reads the elements later.
row(
    "shared_view", (2, 3), _infer_view, "has axes to atoms",
    named={"memory": "shared", "stage": "index", "offset": "places"}, needs=("memory", "offset"),
)  # fmt: skip


def _infer_wgmma(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    left, *others = operands
    count = len(others) // 2
    if len(others) % 2 or not all(isinstance(each.type, ViewType) for each in others[:count]):
        raise Mismatch("a wgmma takes a, then views b, and then an accumulator for each b")
    if not all(isinstance(each.type, TileType) for each in others[count:]):
        raise Mismatch("an accumulator of a wgmma is a tile in registers")
    return [_infer_dot([left, *each], attrs)[0] for each in zip(others[:count], others[count:], strict=True)]


def factors_of(op: Op, result: Value) -> tuple[Value, Value, Value]:
    """Returns the operands (a, b, accumulator) for one result of a `dot` or a `wgmma`."""
    left, *others = op.operands
    number, count = op.results.index(result), len(others) // 2
    return left, others[number], others[count + number]


# Operands: a in registers or a view, one or several b, which are views, and equally many accumulators. If there are
# several b, their columns are adjacent in shared memory, and each instruction multiplies all of them. `form` is the
# part of the instruction's name after `mma_async.sync.aligned`, and `steps` is the number of instructions along k.
row(
    "wgmma", (3, None), _infer_wgmma, "instruction form steps", operands="factor",
    access=MemoryAccess(_reads_of_wgmma),
)  # fmt: skip
# Waits for all earlier wgmma, except the last `pending` ones if it has this attribute. Operands and results are the
# accumulators, which are complete after the wait.
row(
    "wgmma_wait", (1, None), same_types, acts="awaits", placement=Placement(alike),
    access=MemoryAccess(waits="wait for products"),
)  # fmt: skip
# Waits until at most the last `pending` wgmma are unfinished. Their accumulators may only be operands of further wgmma.
row(
    "wgmma_wait_group", 0, nothing, "pending", acts="awaits", access=MemoryAccess(waits="wait for earlier products"),
)  # fmt: skip
