"""What makes tiles, and what gives them another shape."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dsl.text import tree as ast
from dsl.values.access import narrow
from dsl.values.bindings import Access, Binding, SharedTile, Tensor, describe, row_major
from dsl.values.functions.arguments import number_argument, signature
from dsl.values.functions.elementwise import agreed
from dsl.values.functions.registry import BUILTINS, Handler, function, takes_syntax
from lowering.fold import constant_of
from lowering.forms import Forms
from lowering.ir import Op, Value
from lowering.location import Loc
from lowering.types import I1, DType

if TYPE_CHECKING:
    from dsl.values.expressions import Expressions


def _tile_type(b: Expressions, node: ast.Expr, what: str) -> tuple[DType, tuple[int, ...]]:
    """`f32[M, N]` → type and shape; `f32` is a scalar."""
    if isinstance(node, ast.Index):
        dtype = b.expr(node.value)
        shape = []
        for sub in node.subscripts:
            if isinstance(sub, ast.Slice):
                b.error("extent", node.loc, "an extent, not a slice")
            shape.append(b.extent(sub))
    else:
        dtype, shape = b.expr(node), []
    if not isinstance(dtype, DType):
        b.error("type", node.loc, f"{what} takes a type with extents", "for example f32[128]")
    size = 1
    for e in shape:
        size *= e
    if size > 1 << 20:
        b.error("limit", node.loc, f"a tile of {size} elements; the limit is {1 << 20}")
    return dtype, tuple(shape)


def _constant_tile(name: str, number: int) -> Handler:
    @takes_syntax
    def handler(b: Expressions, node: ast.Call) -> Value:
        if len(node.args) != 1 or node.keywords:
            b.error("call", node.loc, f"{name} takes one type", f"for example {name}(f32[128])")
        dtype, shape = _tile_type(b, node.args[0], name)
        b.place(node.loc)
        return b.ir.constant(bool(number) if dtype is I1 else float(number) if dtype.is_float else number, dtype, shape)

    return handler


BUILTINS["zeros"] = _constant_tile("zeros", 0)
BUILTINS["ones"] = _constant_tile("ones", 1)


@function("full")
@takes_syntax
def _full(b: Expressions, node: ast.Call) -> Value:
    if len(node.args) != 2 or node.keywords:
        b.error("call", node.loc, "full takes a type and a value", "for example full(f32[128], -inf)")
    dtype, shape = _tile_type(b, node.args[0], "full")
    value = b.value(node.args[1], dtype)
    if value.dtype is not dtype:
        b.error("type", node.args[1].loc, f"full of {dtype} with {value.tile}", f"convert it with .to({dtype})")
    b.place(node.loc)
    return b.ir.broadcast(value, shape)


@function("arange")
@takes_syntax
def _arange(b: Expressions, node: ast.Call) -> Value:
    if len(node.args) != 1 or node.keywords:
        b.error("call", node.loc, "arange takes one extent", "add an offset: start + arange(N)")
    extent = b.extent(node.args[0], "the extent of arange")
    b.place(node.loc)
    return b.ir.value("arange", extent=extent)


def _grid_axis(b: Expressions, loc: Loc, name: str, args: list, keywords: dict) -> int:
    signature(b, loc, name, args, keywords, 1, 1)
    axis = number_argument(b, loc, args[0], "a grid axis")
    if not 0 <= axis <= 2:
        b.error("call", loc, f"a grid has axes 0, 1 and 2; got {axis}")
    return axis


@function("block")
def _block(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
    return b.ir.value("block_id", axis=_grid_axis(b, loc, "block", args, keywords))


@function("grid")
def _grid(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
    return b.ir.value("grid_size", axis=_grid_axis(b, loc, "grid", args, keywords))


def _shape_argument(b: Expressions, loc: Loc, value: Binding) -> tuple[Binding, ...]:
    return value if isinstance(value, tuple) else (value,)


@function("reshape")
def _reshape(b: Expressions, loc: Loc, args: list, keywords: dict) -> Binding:

    signature(b, loc, "reshape", args, keywords, 2, 2)
    source, shape = args[0], _shape_argument(b, loc, args[1])
    if isinstance(source, Tensor):
        return _view(b, loc, source, shape)
    if isinstance(source, Access) and isinstance(source.memory, SharedTile):
        source = narrow(b, source)
    extents = [number_argument(b, loc, e, "an extent") for e in shape]
    product = 1
    for e in extents:
        product *= e
    if isinstance(source, SharedTile):
        have = 1
        for e in source.extents:
            have *= e
        if source.strides != row_major(source.extents) or have != product:
            b.error("shape", loc, f"a shared tile of {source.extents} cannot be seen as {extents}")
        if any(source.windows):
            message = f"a part of a shared tile that may reach beyond it cannot be seen as {extents}"
            b.error("shape", loc, message, "begin at a constant, or where its facts say that it ends inside")
        return replace(source, extents=extents, strides=row_major(extents), has_slots=False, windows=())
    value = b.as_value(source, loc)
    for e in extents:
        b.check_extent(e, loc, "an extent")
    if value.tile.size != product:
        b.error(
            "shape", loc, f"a tile of {list(value.tile.shape)} has {value.tile.size} elements; {extents} has {product}"
        )
    b.place(loc)
    return b.ir.reshape(value, tuple(extents))


def _view(b: Expressions, loc: Loc, source: Any, shape: tuple) -> Any:
    """A tensor under other dims; that the elements are as many is a `requires` of the launch."""

    if source.parameter.strided:
        b.error("type", loc, "a strided tensor cannot be reshaped")
    dims: list[int | Value] = [d if isinstance(d, int | Value) and not isinstance(d, bool) else -1 for d in shape]
    if -1 in dims:
        b.error("type", loc, "the dims of a view are integers")
    b.place(loc)
    strides: list[int | Value] = [1]
    for dim in reversed(dims[1:]):
        strides.insert(0, _product(b, [strides[0], dim]))
    old, new = _product(b, source.dims), _product(b, dims)
    same = old == new if isinstance(old, int) and isinstance(new, int) else False
    if isinstance(old, Value) and isinstance(new, Value):
        same = old is new or _factors(old) == _factors(new)
    if not same:
        left, right = (v if isinstance(v, Value) else b.ir.index(v) for v in (old, new))
        b.ir.op(
            "assert", [b.ir.value("eq", left, right)], message="reshape keeps the number of elements", line=loc.line
        )
        b.function.attrs["record"] = True
    return Tensor(source.parameter, source.value, dims, strides)


def _product(b: Expressions, factors: list[int | Value]) -> int | Value:
    number, values = 1, []
    for f in factors:
        if isinstance(f, int):
            number *= f
        else:
            values.append(f)
    if not values:
        return number
    out = values[0]
    for v in values[1:]:
        out = b.ir.value("mul", out, v)
    return out if number == 1 else b.ir.value("mul", out, b.ir.index(number))


class _Factors(Forms[tuple[int, tuple[int, ...]]]):
    def multiplied(self, op: Op) -> tuple[int, tuple[int, ...]]:
        (a, x), (c, y) = map(_factors, op.operands)
        return a * c, tuple(sorted(x + y))


_FACTORS = _Factors()


def _factors(value: Value) -> tuple[int, tuple[int, ...]]:
    """A product as its constant and the identities of its factors."""
    product = _FACTORS.told(value)
    if product is not None:
        return product
    number = constant_of(value)
    return (int(number), ()) if number is not None else (1, (id(value),))


@function("transpose")
def _transpose(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
    signature(b, loc, "transpose", args, keywords, 1, 2)
    value = b.as_value(args[0], loc)
    rank = len(value.tile.shape)
    axes = tuple(reversed(range(rank)))
    if len(args) == 2:
        axes = tuple(number_argument(b, loc, a, "an axis") for a in _shape_argument(b, loc, args[1]))
    if sorted(axes) != list(range(rank)):
        b.error("shape", loc, f"{list(axes)} is no order of the axes of a tile of rank {rank}")
    b.place(loc)
    return b.ir.value("transpose", value, axes=axes)


@function("stack")
def _stack(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
    signature(b, loc, "stack", args, keywords, 2, None)
    b.check_extent(len(args), loc, "the number of tiles to stack")
    return b.ir.value("stack", *agreed(b, loc, args))


@function("tuple")
def _tuple(b: Expressions, loc: Loc, args: list, keywords: dict) -> tuple:
    """`tuple(a, b, …)`: also of one, and of nothing. Its parts are chosen by constants: t[0]."""
    signature(b, loc, "tuple", args, keywords, 0, None)
    return b.tuple_of((b.as_value(a, loc) if isinstance(a, Access) else a for a in args), loc)


@function("append")
def _append(b: Expressions, loc: Loc, args: list, keywords: dict) -> tuple:
    """`append(t, a)`: the tuple with one more part; in a `for static`, a tile in registers for each turn."""
    signature(b, loc, "append", args, keywords, 2, 2)
    if not isinstance(args[0], tuple):
        b.error("type", loc, f"append takes a tuple; this is {describe(args[0])}", "begin with tuple()")
    return b.tuple_of((*args[0], b.as_value(args[1], loc) if isinstance(args[1], Access) else args[1]), loc)
