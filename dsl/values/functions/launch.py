"""Functions that return facts about the launch, types, arrays and arguments."""

from __future__ import annotations

from typing import Any

from dsl.lowering.ir.function import Value
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.targets import RESERVED_SHARED
from dsl.lowering.ir.types import DTYPES, F32, INDEX, DType
from dsl.text import tree as ast
from dsl.values.bindings import Absent, Binding
from dsl.values.building import Building
from dsl.values.facts import UNKNOWN, ArrayFacts
from dsl.values.host import Host, Shaped
from dsl.values.later import element_types, np
from dsl.values.table import Meaning, rows
from dsl.values.walk import Walk

row = rows("The launch, types, arrays")


def _of_grid(op: str) -> Meaning:
    def tiles(b: Building, loc: Loc, axis: Binding) -> Value:
        number = b.whole(axis, loc, "a grid axis")
        if not 0 <= number <= 2:
            b.error("call", loc, f"a grid has axes 0, 1 and 2; got {number}")
        return b.ir.value(op, axis=number)

    return tiles


def _size(domain: Walk, loc: Loc, dtype: Any) -> int:
    if not isinstance(dtype, DType):
        domain.error("type", loc, "size takes a type: its bytes", "bytes(x) is the size of an array")
    return dtype.bytes


def _sum_type(domain: Walk, loc: Loc, dtype: Any) -> DType:
    if not isinstance(dtype, DType):
        domain.error("type", loc, "sum_type takes the type of a product's operands", "sum_type(f16) is f32")
    return DTYPES["f64" if dtype.name == "f64" else "f32" if dtype.is_float or dtype.has_fractions else "s32"]


def _dtype_tiles(b: Building, loc: Loc, value: Binding) -> DType:
    operand = b.value_or_number(value, loc)
    return operand.dtype if isinstance(operand, Value) else F32 if isinstance(operand, float) else INDEX


def _dtype_arrays(host: Host, loc: Loc, value: Any) -> DType:
    if isinstance(value, int | float):
        return DTYPES["i1" if isinstance(value, bool) else "f64" if isinstance(value, float) else "s64"]
    if isinstance(value, ArrayFacts) and value.dtype in DTYPES:
        return DTYPES[value.dtype]
    found = element_types.element_type(value) if isinstance(value, np.ndarray) else None
    if found is None:
        host.error("type", loc, f"dtype takes a number or an array of the language; this is {host.describe(value)}")
    return found


def _given_name(domain: Walk, node: ast.Call) -> Any:
    name = getattr(node.args[0], "id", "")
    known = domain.scope.find(f"given({name})")
    if known is None:
        domain.error("name", node.loc, f"'{name}' is no optional tensor here")
    return known


def _contiguous(domain: Walk, node: ast.Call) -> Any:
    name = f"contiguous({getattr(node.args[0], 'id', '')}, {domain.expr(node.args[1])})"
    known = domain.scope.find(name)
    if known is None:
        domain.error("name", node.loc, f"schedules know no '{name}'", "a tensor, and one of its axes from 0 on")
    return known


def _given_tiles(b: Building, node: ast.Call) -> bool:
    return not isinstance(b.expr(node.args[0]), Absent)


def _occupancy(domain: Walk, node: ast.Call) -> Any:
    """Computes the number of thread blocks that fit on one multiprocessor, as an expression of the target's limits."""
    at = node.loc

    def over(name: str, by: ast.Expr) -> ast.Expr:
        return ast.Binary(at, "//", ast.Name(at, name), by)

    def times(a: ast.Expr, number: int) -> ast.Expr:
        return ast.Binary(at, "*", a, ast.Number(at, number))

    warps, shared, *registers = node.args
    limits = [
        ast.Name(at, "blocks_per_sm"),
        over("threads_per_sm", times(warps, 32)),
        over("shared_per_sm", ast.Binary(at, "+", shared, ast.Number(at, RESERVED_SHARED))),
    ]
    if registers:
        # The hardware allocates registers to a warp in units of 256, which is 8 per thread.
        eights = ast.Call(at, ast.Name(at, "cdiv"), [registers[0], ast.Number(at, 8)], {})
        limits.append(over("registers", ast.Binary(at, "*", eights, times(warps, 256))))
    return domain.expr(ast.Call(at, ast.Name(at, "minimum"), limits, {}))


def _described(host: Host, loc: Loc, value: Any, name: str) -> tuple[tuple[int, ...], int]:
    """Returns the shape and the size in bytes of an array of any framework. The elements are not read."""
    from dsl.runtime import describe, is_array
    from dsl.runtime.errors import LaunchError

    if isinstance(value, Shaped | ArrayFacts):
        return value.shape, value.bytes
    if not is_array(value):
        host.error("type", loc, f"{name} takes an array; this is {host.describe(value)}")
    if hasattr(value, "__array_interface__"):
        return value.shape, value.nbytes
    try:
        array = describe(value)
        return array.shape, array.size * array.itemsize
    except LaunchError as error:
        host.error("type", loc, str(error))


def _shape_arrays(host: Host, loc: Loc, value: Any, axis: Any = None) -> Any:
    shape, _ = _described(host, loc, value, "shape")
    if axis is None:
        return tuple(shape)
    if isinstance(axis, bool) or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        host.error("shape", loc, f"an array of rank {len(shape)} has no axis {host.describe(axis)}")
    return shape[axis]


def _shape_shapes(domain: Walk, loc: Loc, value: Any, axis: Any = None) -> Any:
    if not isinstance(value, ArrayFacts | Shaped):
        return UNKNOWN
    if axis is None:
        return value.shape
    return value.shape[axis] if type(axis) is int and -len(value.shape) <= axis < len(value.shape) else UNKNOWN


row("block(axis)", "the block's index along a grid axis", tiles=_of_grid("block_id"))
row("grid(axis)", "how many blocks a grid axis has", tiles=_of_grid("grid_size"))
row("size(T)", "bytes of a type", always=_size)
row("sum_type(T)", "the accumulator type for operands of T: s32 for integers, f64 for f64, else f32",
    always=_sum_type)  # fmt: skip
row("dtype(x)", "the element type", tiles=_dtype_tiles, arrays=_dtype_arrays)
row("contiguous(x, axis)", "whether the axis of a `strided` tensor has stride 1 (schedules, dispatches)",
    unread=True, always=_contiguous)  # fmt: skip
row("given(x)", "whether an optional tensor is given", unread=True, always=_given_name, tiles=_given_tiles)
row("occupancy(warps, shared_bytes, [registers])", "blocks that a multiprocessor holds at once", unread=True,
    always=_occupancy)  # fmt: skip
row("shape(x, [axis])", "all extents, or one axis's", arrays=_shape_arrays, shapes=_shape_shapes)
row("bytes(x)", "bytes of an array", arrays=lambda host, loc, x: _described(host, loc, x, "bytes")[1])
