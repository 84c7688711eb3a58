"""The functions of the language: calls in kernels → operations.

A handler takes the builder, the place of the call, the evaluated arguments and keywords. Functions that need a type
with extents (`zeros(f32[M, N])`) take the syntax itself. Functions of one number that are not here may stand in
`library/`, written in the language.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dsl import tree as ast
from dsl.access import Span, join_masks, narrow, operands_of, read, resolve, stored_value, whole, write
from dsl.bindings import Absent, Access, Binding, Builtin, Closure, SharedTile, Tensor, describe, row_major
from lowering.facts import linear
from lowering.fold import constant_of
from lowering.ir import Block, Value
from lowering.location import Loc, closest
from lowering.ops import OPS, Mismatch
from lowering.types import F32, I1, INDEX, U32, DType

if TYPE_CHECKING:
    from dsl.build import KernelBuilder

Handler = Callable[..., Any]
BUILTINS: dict[str, Handler] = {}


def function(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            BUILTINS[name] = handler
        return handler

    return register


def takes_syntax(handler: Handler) -> Handler:
    handler.takes_syntax = True  # type: ignore[attr-defined]
    return handler


# ---- checking arguments ---------------------------------------------------------------------------------


def signature(
    b: KernelBuilder, loc: Loc, name: str, args: list, keywords: dict, least: int, most: int | None, known: str = ""
) -> None:
    """The number of positional arguments and the names of the others."""
    if len(args) < least or (most is not None and len(args) > most):
        count = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
        b.error("call", loc, f"{name} takes {count} argument{'s' * (count != '1')}; got {len(args)}")
    allowed = known.split()
    for key in keywords:
        if key not in allowed:
            hint = closest(key, allowed) or (f"known: {', '.join(allowed)}" if allowed else None)
            b.error("call", loc, f"{name} has no argument '{key}'", hint)


def number_argument(b: KernelBuilder, loc: Loc, value: Binding, what: str) -> int:
    if isinstance(value, Value):
        constant = constant_of(value)
        value = constant if constant is not None else value
    if isinstance(value, bool) or not isinstance(value, int):
        b.error("constant", loc, f"{what} is an integer constant")
    return value


def axis_argument(b: KernelBuilder, loc: Loc, value: Binding, rank: int) -> int:
    axis = number_argument(b, loc, value, "axis=")
    if not -rank <= axis < rank:
        b.error("shape", loc, f"a tile of rank {rank} has no axis {axis}")
    return axis % rank


def word_argument(b: KernelBuilder, loc: Loc, node: ast.Expr | None, name: str, known: tuple[str, ...]) -> str | None:
    """A keyword whose value is one of a few words, as in cache=global."""
    if node is None:
        return None
    word = node.id if isinstance(node, ast.Name) else node.value if isinstance(node, ast.String) else None
    if word not in known:
        label = name if " " in name else f"{name}="
        b.error("call", node.loc, f"{label} is one of {', '.join(known)}", closest(word or "", known))
    return word


def flag_argument(b: KernelBuilder, loc: Loc, value: Binding, name: str) -> bool:
    if not isinstance(value, bool):
        b.error("constant", loc, f"{name}= is true or false")
    return value


def together(b: KernelBuilder, loc: Loc, name: str) -> None:
    """What threads do together cannot stand where each takes a way of its own."""
    if b.in_tile_if:
        hint = "do it before the branch, or choose with where()"
        b.error("type", loc, f"{name} inside a tile 'if': threads that do not take the branch never arrive", hint)


# ---- elementwise --------------------------------------------------------------------------------------------


def _elementwise(name: str) -> Handler:
    spec = OPS[name]
    arity = spec.arity

    def handler(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, arity, arity)
        values = _values(b, loc, args)
        if ".approx" in name and values[0].dtype.name in ("f16", "bf16"):
            wide = [cast(b, v, F32) for v in values]
            return cast(b, b.ir.value(name, *wide), values[0].dtype)
        return b.ir.value(name, *values)

    return handler


def _values(b: KernelBuilder, loc: Loc, args: list) -> list[Value]:
    """Arguments as values of one type and shape."""
    operands = [b.operand(a, loc) for a in args]
    b.ir.loc = b.at(loc)
    if not any(isinstance(o, Value) for o in operands):
        operands[0] = b.natural(operands[0], loc)
    return b.agree(operands, loc)


for _name in (
    "abs fma mulhi popc clz brev floor ceil round trunc sqrt copysign ex2.approx ex2.approx.ftz lg2.approx sin.approx "
    "cos.approx tanh.approx rcp.approx rsqrt.approx sqrt.approx"
).split():
    BUILTINS[_name] = _elementwise(_name)


@function("polynomial")
def _polynomial(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
    """`polynomial(x, c0, c1, …)`: c0 + c1·x + …, by Horner's rule in fused steps."""
    signature(b, loc, "polynomial", args, keywords, 3, None)
    x, *coefficients = _values(b, loc, args)
    total = coefficients.pop()
    while coefficients:
        total = b.ir.value("fma", total, x, coefficients.pop())
    return total


def _scaled(name: str, before: float, after: float) -> Handler:
    """The hardware's approximation in another base."""

    def handler(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, 1, 1)
        (value,) = _values(b, loc, args)
        dtype = value.dtype
        if not dtype.is_float or dtype.bits > 32:
            b.error("type", loc, f"{name} is of f32, f16 and bf16; this is {value.tile}")
        value = cast(b, value, F32)
        if before != 1.0:
            value = b.ir.value("mul", value, b.ir.broadcast(b.number(before, F32, loc), value.tile.shape))
        value = b.ir.value("ex2.approx" if name.startswith("exp") else "lg2.approx", value)
        if after != 1.0:
            value = b.ir.value("mul", value, b.ir.broadcast(b.number(after, F32, loc), value.tile.shape))
        return cast(b, value, dtype)

    return handler


for _name, _before, _after in (
    ("exp.approx", math.log2(math.e), 1.0),
    ("exp2.approx", 1.0, 1.0),
    ("log.approx", 1.0, math.log(2)),
    ("log2.approx", 1.0, 1.0),
    ("log10.approx", 1.0, math.log10(2)),
):
    BUILTINS[_name] = _scaled(_name, _before, _after)


def cast(b: KernelBuilder, value: Value, to: DType, saturate: bool = False, rounding: str | None = None) -> Value:
    return b.ir.value("cast", value, to=to, saturate=saturate, rounding=rounding)


_ROUNDINGS = {"nearest": "rn", "zero": "rz", "up": "rp", "down": "rm"}


def convert(b: KernelBuilder, node: ast.Call) -> Binding:
    """`value.to(TYPE[, saturate][, rounding=zero])`."""

    assert isinstance(node.function, ast.Attribute)
    source = b.operand(b.expr(node.function.value), node.function.value.loc)
    if not node.args:
        b.error("call", node.loc, ".to takes a type")
    dtype = b.expr(node.args[0])
    if not isinstance(dtype, DType):
        b.error("type", node.args[0].loc, f"{describe(dtype)} is no type", "for example .to(f32)")
    saturate = False
    for extra in node.args[1:]:
        if not (isinstance(extra, ast.Name) and extra.id == "saturate"):
            b.error("call", extra.loc, "after the type only 'saturate' may follow")
        saturate = True
    for key in node.keywords:
        if key != "rounding":
            b.error("call", node.loc, f".to has no argument '{key}'", "known: rounding")
    word = word_argument(b, node.loc, node.keywords.get("rounding"), "rounding", tuple(_ROUNDINGS))
    if not isinstance(source, Value):
        return (
            b.number(source, dtype, node.loc)
            if not (dtype.is_int and isinstance(source, float))
            else b.number(int(source), dtype, node.loc)
        )
    if saturate and not dtype.is_int:
        b.error("type", node.loc, f"'saturate' is for integer types; this is {dtype}")
    b.ir.loc = b.at(node.loc)
    return cast(b, source, dtype, saturate, _ROUNDINGS[word] if word else None)


@function("bitcast")
def _bitcast(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
    signature(b, loc, "bitcast", args, keywords, 2, 2)
    if not isinstance(args[1], DType):
        b.error("type", loc, "bitcast(value, TYPE)")
    value = b.as_value(args[0], loc)
    b.ir.loc = b.at(loc)
    return b.ir.value("bitcast", value, to=args[1])


def _extreme(name: str) -> Handler:
    def handler(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:
        signature(b, loc, name, args, keywords, 2, None)
        values = _values(b, loc, args)
        total = values[0]
        for value in values[1:]:
            total = b.ir.value(name, total, value)
        return total

    return handler


BUILTINS["minimum"] = _extreme("minimum")
BUILTINS["maximum"] = _extreme("maximum")


@function("where")
def _where(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "where", args, keywords, 3, 3)
    condition, yes, no = (b.operand(a, loc) for a in args)
    if not isinstance(condition, Value):
        return yes if condition else no
    if condition.dtype is not I1:
        b.error("type", loc, f"the condition of where is {condition.tile}, not i1", "compare with '!= 0'")
    b.ir.loc = b.at(loc)
    if not isinstance(yes, Value) and not isinstance(no, Value):
        yes = b.natural(float(yes) if isinstance(no, float) and not isinstance(yes, bool) else yes, loc)
    yes, no = b.agree([yes, no], loc)
    condition, yes, no = b.ir.same_shape([condition, yes, no])
    return b.ir.value("select", condition, yes, no)


@function("clamp")
def _clamp(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "clamp", args, keywords, 3, 3)
    value, low, high = _values(b, loc, args)
    return b.ir.value("minimum", b.ir.value("maximum", value, low), high)


@function("cdiv")
def _cdiv(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "cdiv", args, keywords, 2, 2)
    a, by = _values(b, loc, args)
    less = b.ir.value("sub", by, b.ir.broadcast(b.number(1, by.dtype, loc), by.tile.shape))
    return b.ir.value("floordiv", b.ir.value("add", a, less), by)


@function("next_pow2", "pow2_divisor")
def _constants_only(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:
    b.error("constant", loc, "next_pow2 and pow2_divisor take constants", "compute it in the schedule")


@function("isnan")
def _isnan(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "isnan", args, keywords, 1, 1)
    (value,) = _values(b, loc, args)
    return b.ir.value("ne", value, value)


@function("isinf")
def _isinf(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "isinf", args, keywords, 1, 1)
    (value,) = _values(b, loc, args)
    infinity = b.ir.broadcast(b.number(float("inf"), value.dtype, loc), value.tile.shape)
    return b.ir.value("eq", b.ir.value("abs", value), infinity)


@function("size")
def _size(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> int:
    signature(b, loc, "size", args, keywords, 1, 1)
    if not isinstance(args[0], DType):
        b.error("type", loc, "size takes a type: its bytes")
    return args[0].bytes


@function("dtype")
def _dtype(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> DType:
    signature(b, loc, "dtype", args, keywords, 1, 1)
    operand = b.operand(args[0], loc)
    return operand.dtype if isinstance(operand, Value) else F32 if isinstance(operand, float) else INDEX


@function("given")
def _given(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> bool:

    signature(b, loc, "given", args, keywords, 1, 1)
    return not isinstance(args[0], Absent)


# ---- sources and shapes -----------------------------------------------------------------------------------------


def _tile_type(b: KernelBuilder, node: ast.Expr, what: str) -> tuple[DType, tuple[int, ...]]:
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


@function("zeros")
@takes_syntax
def _zeros(b: KernelBuilder, node: ast.Call) -> Value:
    if len(node.args) != 1 or node.keywords:
        b.error("call", node.loc, "zeros takes one type", "for example zeros(f32[128])")
    dtype, shape = _tile_type(b, node.args[0], "zeros")
    b.ir.loc = b.at(node.loc)
    return b.ir.constant(False if dtype is I1 else 0.0 if dtype.is_float else 0, dtype, shape)


@function("full")
@takes_syntax
def _full(b: KernelBuilder, node: ast.Call) -> Value:
    if len(node.args) != 2 or node.keywords:
        b.error("call", node.loc, "full takes a type and a value", "for example full(f32[128], -inf)")
    dtype, shape = _tile_type(b, node.args[0], "full")
    value = b.value(node.args[1], dtype)
    if value.dtype is not dtype:
        b.error("type", node.args[1].loc, f"full of {dtype} with {value.tile}", f"convert it with .to({dtype})")
    b.ir.loc = b.at(node.loc)
    return b.ir.broadcast(value, shape)


@function("arange")
@takes_syntax
def _arange(b: KernelBuilder, node: ast.Call) -> Value:
    if len(node.args) != 1 or node.keywords:
        b.error("call", node.loc, "arange takes one extent", "add an offset: start + arange(N)")
    extent = b.extent(node.args[0], "the extent of arange")
    b.ir.loc = b.at(node.loc)
    return b.ir.value("arange", extent=extent)


def _grid_axis(b: KernelBuilder, loc: Loc, name: str, args: list, keywords: dict) -> int:
    signature(b, loc, name, args, keywords, 1, 1)
    axis = number_argument(b, loc, args[0], "a grid axis")
    if not 0 <= axis <= 2:
        b.error("call", loc, f"a grid has axes 0, 1 and 2; got {axis}")
    return axis


@function("block")
def _block(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
    return b.ir.value("block_id", axis=_grid_axis(b, loc, "block", args, keywords))


@function("grid")
def _grid(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
    return b.ir.value("grid_size", axis=_grid_axis(b, loc, "grid", args, keywords))


def _shape_argument(b: KernelBuilder, loc: Loc, value: Binding) -> tuple[Binding, ...]:
    return value if isinstance(value, tuple) else (value,)


@function("reshape")
def _reshape(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:

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
        return SharedTile(source.value, extents, row_major(extents), source.slot, source.base)
    value = b.as_value(source, loc)
    for e in extents:
        b.check_extent(e, loc, "an extent")
    if value.tile.size != product:
        b.error(
            "shape", loc, f"a tile of {list(value.tile.shape)} has {value.tile.size} elements; {extents} has {product}"
        )
    b.ir.loc = b.at(loc)
    return b.ir.reshape(value, tuple(extents))


def _view(b: KernelBuilder, loc: Loc, source: Any, shape: tuple) -> Any:
    """A tensor under other dims; that the elements are as many is a `requires` of the launch."""

    if source.parameter.strided:
        b.error("type", loc, "a strided tensor cannot be reshaped")
    dims: list[int | Value] = [d if isinstance(d, int | Value) and not isinstance(d, bool) else -1 for d in shape]
    if -1 in dims:
        b.error("type", loc, "the dims of a view are integers")
    b.ir.loc = b.at(loc)
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


def _product(b: KernelBuilder, factors: list[int | Value]) -> int | Value:
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


def _factors(value: Value) -> tuple[int, tuple[int, ...]]:
    """A product as its constant and the identities of its factors."""
    if value.op is not None and value.op.name == "mul":
        a, x = _factors(value.op.operands[0])
        c, y = _factors(value.op.operands[1])
        return a * c, tuple(sorted(x + y))
    number = constant_of(value)
    return (int(number), ()) if number is not None else (1, (id(value),))


@function("transpose")
def _transpose(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
    signature(b, loc, "transpose", args, keywords, 1, 2)
    value = b.as_value(args[0], loc)
    rank = len(value.tile.shape)
    axes = tuple(reversed(range(rank)))
    if len(args) == 2:
        axes = tuple(number_argument(b, loc, a, "an axis") for a in _shape_argument(b, loc, args[1]))
    if sorted(axes) != list(range(rank)):
        b.error("shape", loc, f"{list(axes)} is no order of the axes of a tile of rank {rank}")
    b.ir.loc = b.at(loc)
    return b.ir.value("transpose", value, axes=axes)


@function("stack")
def _stack(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
    signature(b, loc, "stack", args, keywords, 2, None)
    b.check_extent(len(args), loc, "the number of tiles to stack")
    return b.ir.value("stack", *_values(b, loc, args))


# ---- reductions and scans ------------------------------------------------------------------------------------------


def combine_region(
    b: KernelBuilder, dtypes: list[DType], combine: Callable[[list[Value], list[Value]], list[Value]]
) -> Block:
    """A region that joins two groups of scalars into one."""
    left = [Value(b.ir.scalar_type(d)) for d in dtypes]
    right = [Value(b.ir.scalar_type(d)) for d in dtypes]
    block = Block([*left, *right])
    with b.ir.region(block):
        b.ir.op("yield", combine(left, right))
    return block


def reduce_tiles(
    b: KernelBuilder, loc: Loc, tiles: list[Value], axis: Binding, keepdims: Binding, combine: Callable, name: str
) -> list[Value]:
    shape = tiles[0].tile.shape
    if not shape:
        b.error("shape", loc, f"{name} takes a tile; this is the scalar {tiles[0].tile}")
    together(b, loc, name)
    keep = flag_argument(b, loc, keepdims, "keepdims")
    b.ir.loc = b.at(loc)
    if axis is None:
        rank = len(shape)
        if rank > 1:
            tiles = [b.ir.reshape(t, (t.tile.size,)) for t in tiles]
        position = 0
        if keep:
            b.error("call", loc, "keepdims= needs axis=")
    else:
        position = axis_argument(b, loc, axis, len(shape))
    region = combine_region(b, [t.dtype for t in tiles], combine)
    b.ir.loc = b.at(loc)
    results = b.ir.op("reduce", tiles, [region], axis=position).results
    if keep:
        kept = (*shape[:position], 1, *shape[position + 1 :])
        return [b.ir.reshape(r, kept) for r in results]
    return list(results)


def _reduction(name: str, op: str, boolean: bool = False) -> Handler:
    def handler(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, 1, 2, "axis keepdims")
        if len(args) == 2:
            hint = f"{name}imum(a, b) joins two tiles" if name in ("max", "min") else f"{name}(tile, axis=1)"
            if isinstance(args[1], Value) or "axis" in keywords:
                b.error("call", loc, f"{name} reduces one tile", hint)
            keywords = keywords | {"axis": args[1]}
        tile = b.as_value(args[0], loc)
        if boolean != (tile.dtype is I1):
            b.error("type", loc, f"{name} takes {'i1' if boolean else 'numbers'}; this is {tile.tile}")

        def combine(x: list[Value], y: list[Value]) -> list[Value]:
            return [b.ir.value(op, x[0], y[0])]

        return reduce_tiles(b, loc, [tile], keywords.get("axis"), keywords.get("keepdims", False), combine, name)[0]

    return handler


for _name, _op in (("sum", "add"), ("prod", "mul"), ("max", "maximum"), ("min", "minimum")):
    BUILTINS[_name] = _reduction(_name, _op)
BUILTINS["any"] = _reduction("any", "or", boolean=True)
BUILTINS["all"] = _reduction("all", "and", boolean=True)


def _arg_reduction(name: str, better: str) -> Handler:
    def handler(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, 1, 1, "axis keepdims")
        tile = b.as_value(args[0], loc)
        if not tile.tile.shape:
            b.error("shape", loc, f"{name} takes a tile")
        b.ir.loc = b.at(loc)
        rank = len(tile.tile.shape)
        axis = keywords.get("axis")
        if axis is None:
            tile, rank, position = b.ir.reshape(tile, (tile.tile.size,)), 1, 0
        else:
            position = axis_argument(b, loc, axis, rank)
        index = b.ir.value("arange", extent=tile.tile.shape[position])
        index = b.ir.reshape(index, (1,) * position + index.tile.shape + (1,) * (rank - position - 1))
        index = b.ir.broadcast(index, tile.tile.shape)

        def combine(x: list[Value], y: list[Value]) -> list[Value]:
            """The better value; among equals, NaNs included, the lower index; a NaN beats every number (as numpy)."""
            ir = b.ir
            takes = ir.value(better, y[0], x[0])
            same = ir.value("eq", y[0], x[0])
            if tile.dtype.is_float:
                nan_x, nan_y = ir.value("ne", x[0], x[0]), ir.value("ne", y[0], y[0])
                takes = ir.value("or", takes, ir.value("and", nan_y, ir.value("not", nan_x)))
                same = ir.value("or", same, ir.value("and", nan_x, nan_y))
            lower = ir.value("lt", y[1], x[1])
            takes = ir.value("or", takes, ir.value("and", same, lower))
            return [ir.value("select", takes, y[0], x[0]), ir.value("select", takes, y[1], x[1])]

        return reduce_tiles(b, loc, [tile, index], position, keywords.get("keepdims", False), combine, name)[1]

    return handler


BUILTINS["argmax"] = _arg_reduction("argmax", "gt")
BUILTINS["argmin"] = _arg_reduction("argmin", "lt")


def _joiner(b: KernelBuilder, loc: Loc, function: Binding, count: int, name: str) -> Callable:

    def combine(x: list[Value], y: list[Value]) -> list[Value]:
        if isinstance(function, Closure):
            result = b.apply(function, [*x, *y], {}, loc)
        elif isinstance(function, Builtin) and not getattr(b.builtins[function.name], "takes_syntax", False):
            result = b.builtins[function.name](b, loc, [*x, *y], {})
        else:
            b.error("type", loc, f"{name} takes a function of two values first", f"{name}(maximum, x)")
        out = list(result) if isinstance(result, tuple) else [result]
        if len(out) != count:
            b.error("type", loc, f"the function joins {count} values and returns {len(out)}")
        for i, (got, want) in enumerate(zip(out, x, strict=True)):
            out[i] = b.as_value(got, loc, want.dtype)
            if out[i].type != want.type:
                b.error("type", loc, f"the function returns {out[i].tile} for {want.tile}")
        return out

    return combine


@function("reduce")
def _reduce(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "reduce", args, keywords, 2, 3, "axis keepdims")
    if len(args) == 3:
        keywords = keywords | {"axis": args[2]}
    many = isinstance(args[1], tuple)
    tiles = b.ir.same_shape([b.as_value(t, loc) for t in (args[1] if many else (args[1],))])
    combine = _joiner(b, loc, args[0], len(tiles), "reduce")
    out = reduce_tiles(b, loc, tiles, keywords.get("axis"), keywords.get("keepdims", False), combine, "reduce")
    return tuple(out) if many else out[0]


def _scan_tiles(
    b: KernelBuilder, loc: Loc, tiles: list[Value], keywords: dict, combine: Callable, name: str
) -> list[Value]:
    rank = len(tiles[0].tile.shape)
    if not rank:
        b.error("shape", loc, f"{name} takes a tile")
    together(b, loc, name)
    if "axis" not in keywords and rank > 1:
        b.error("call", loc, f"{name} of a tile of rank {rank} needs axis=")
    axis = axis_argument(b, loc, keywords.get("axis", 0), rank)
    reverse = flag_argument(b, loc, keywords.get("reverse", False), "reverse")
    region = combine_region(b, [t.dtype for t in tiles], combine)
    b.ir.loc = b.at(loc)
    return list(b.ir.op("scan", tiles, [region], axis=axis, reverse=reverse).results)


@function("scan")
def _scan(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "scan", args, keywords, 2, 3, "axis reverse")
    if len(args) == 3:
        keywords = keywords | {"axis": args[2]}
    many = isinstance(args[1], tuple)
    tiles = b.ir.same_shape([b.as_value(t, loc) for t in (args[1] if many else (args[1],))])
    out = _scan_tiles(b, loc, tiles, keywords, _joiner(b, loc, args[0], len(tiles), "scan"), "scan")
    return tuple(out) if many else out[0]


def _simple_scan(name: str, op: str) -> Handler:
    def handler(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, 1, 1, "axis reverse")
        tile = b.as_value(args[0], loc)
        return _scan_tiles(b, loc, [tile], keywords, lambda x, y: [b.ir.value(op, x[0], y[0])], name)[0]

    return handler


for _name, _op in (("cumsum", "add"), ("cumprod", "mul"), ("cummax", "maximum"), ("cummin", "minimum")):
    BUILTINS[_name] = _simple_scan(_name, _op)


# ---- warp level --------------------------------------------------------------------------------------------------------


def _shuffle(mode: str) -> Handler:
    def handler(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
        name = f"shfl.{mode}"
        signature(b, loc, name, args, keywords, 2, 2, "axis width")
        together(b, loc, name)
        tile = b.as_value(args[0], loc)
        if not tile.tile.shape:
            b.error("shape", loc, f"{name} takes a tile: it is defined on elements along an axis")
        axis = axis_argument(b, loc, keywords.get("axis", len(tile.tile.shape) - 1), len(tile.tile.shape))
        extent = tile.tile.shape[axis]
        width = number_argument(b, loc, keywords.get("width", min(extent, 32)), "width=")
        b.check_extent(width, loc, "width=")
        if width > extent:
            b.error("shape", loc, f"width={width} is more than the {extent} elements of the axis")
        distance = args[1]
        operands = [tile]
        if isinstance(distance, Value) and (number := constant_of(distance)) is not None:
            distance = number
        if isinstance(distance, Value):
            if distance.tile.shape or not distance.dtype.is_int:
                b.error("type", loc, f"the distance of a shuffle is an integer scalar; this is {distance.tile}")
            operands.append(distance)
            distance = None
        elif not isinstance(distance, int) or not 0 <= distance < width:
            b.error("shape", loc, f"a shuffle within {width} elements has no distance {distance}")
        b.ir.loc = b.at(loc)
        return b.ir.op("shuffle", operands, mode=mode, axis=axis, width=width, distance=distance).result

    return handler


for _mode in ("xor", "up", "down", "idx"):
    BUILTINS[f"shfl.{_mode}"] = _shuffle(_mode)


def _vote(mode: str) -> Handler:
    def handler(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, f"vote.{mode}", args, keywords, 1, 1)
        together(b, loc, f"vote.{mode}")
        tile = b.as_value(args[0], loc)
        b.ir.loc = b.at(loc)
        return b.ir.op("vote", [tile], mode=mode, dtype=U32 if mode == "ballot" else I1).result

    return handler


for _mode in ("any", "all", "ballot"):
    BUILTINS[f"vote.{_mode}"] = _vote(_mode)


# ---- memory ----------------------------------------------------------------------------------------------------------------

CACHES_LOAD = ("all", "global", "streaming", "last_use", "volatile")
CACHES_STORE = ("write_back", "global", "streaming", "write_through")
EVICTIONS = ("first", "last", "normal", "unchanged", "no_allocate")


def _access(b: KernelBuilder, node: ast.Expr, what: str) -> Any:

    binding = b.expr(node)
    if isinstance(binding, SharedTile):
        return whole(b, binding, node.loc)
    if isinstance(binding, Access):
        return binding
    if isinstance(binding, Absent):
        b.error("type", node.loc, f"'{binding.name}' was not given", f"ask with 'if given({binding.name}):'")
    if isinstance(binding, Tensor) and all(isinstance(d, int) for d in binding.dims):
        return Access(binding, [Span(0, d) for d in binding.dims if isinstance(d, int)], node.loc)
    hint = "index it: x[start : start + EXTENT]" if isinstance(binding, Tensor) else None
    b.error("type", node.loc, f"{what} takes a part of a tensor or of a shared tile; this is {describe(binding)}", hint)


def _keywords(b: KernelBuilder, node: ast.Call, name: str, known: str) -> dict[str, ast.Expr]:
    signature(b, node.loc, name, [None], node.keywords, 1, 1, known)
    return node.keywords


def _mask(b: KernelBuilder, keywords: dict[str, ast.Expr]) -> Value | None:
    """`mask=` as an i1 value; None where it is absent or true."""
    node = keywords.get("mask")
    binding = True if node is None else b.expr(node)
    if binding is True or node is None:
        return None
    if not isinstance(binding, Value | bool) or (isinstance(binding, Value) and binding.dtype is not I1):
        value = b.operand(binding, node.loc)
        what = value.tile if isinstance(value, Value) else value
        b.error("type", node.loc, f"mask= takes i1; this is {what}", "compare with '!= 0'")
    return b.as_value(binding, node.loc, I1)


@function("load")
@takes_syntax
def _load(b: KernelBuilder, node: ast.Call) -> Value:
    if len(node.args) != 1:
        b.error(
            "call", node.loc, f"load takes one access; got {len(node.args)}", "load(x[i : i + N], mask=..., other=...)"
        )
    keywords = _keywords(b, node, "load", "mask other cache evict")
    cache = word_argument(b, node.loc, keywords.get("cache"), "cache", CACHES_LOAD)
    evict = word_argument(b, node.loc, keywords.get("evict"), "evict", EVICTIONS)
    access = _access(b, node.args[0], "load")
    mask = _mask(b, keywords)
    other = b.expr(keywords["other"]) if "other" in keywords else None
    return read(b, access, node.loc, mask, other, cache, evict)


@function("store")
@takes_syntax
def _store(b: KernelBuilder, node: ast.Call) -> tuple:
    if len(node.args) != 2:
        b.error("call", node.loc, "store takes an access and a value", "store(y[i : i + N], v)")
    keywords = _keywords(b, node, "store", "mask cache evict")
    cache = word_argument(b, node.loc, keywords.get("cache"), "cache", CACHES_STORE)
    evict = word_argument(b, node.loc, keywords.get("evict"), "evict", EVICTIONS)
    access = _access(b, node.args[0], "store")
    value = b.expr(node.args[1])
    mask = _mask(b, keywords)
    write(b, access, value, node.loc, mask, cache, evict)
    return ()


@function("copy")
@takes_syntax
def _copy(b: KernelBuilder, node: ast.Call) -> tuple:

    if len(node.args) != 2:
        b.error("call", node.loc, "copy takes a shared tile and a part of a tensor", "copy(s[slot], x[i : i + N])")
    together(b, node.loc, "copy")
    keywords = _keywords(b, node, "copy", "mask cache")
    cache = word_argument(b, node.loc, keywords.get("cache"), "cache", ("all", "global"))
    to, source = _access(b, node.args[0], "copy"), _access(b, node.args[1], "copy")
    if not isinstance(to.memory, SharedTile) or not isinstance(source.memory, Tensor):
        b.error("type", node.loc, "copy goes from a tensor to a shared tile")
    mask = _mask(b, keywords)
    place, origin = resolve(b, to), resolve(b, source)
    if place.memory.dtype is not origin.memory.dtype:
        b.error("type", node.loc, f"copy from {origin.memory.dtype} to {place.memory.dtype}")
    if place.offset.tile.shape != origin.offset.tile.shape:
        b.error("shape", node.loc, f"copy from {list(origin.offset.tile.shape)} to {list(place.offset.tile.shape)}")
    if place.mask is not None:
        b.error("shape", node.loc, "the shared side of a copy must lie inside the tile")
    joined = join_masks(b, origin, mask, node.loc)
    b.ir.loc = b.at(node.loc)
    operands, has = operands_of(place, {"tensor": origin.memory, "source": origin.offset, "mask": joined})
    b.ir.op("copy", operands, has=has, cache=cache, bytes=0)
    return ()


@function("commit")
def _commit(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> tuple:
    signature(b, loc, "commit", args, keywords, 0, 0)
    together(b, loc, "commit")
    b.ir.op("commit")
    return ()


@function("wait")
def _wait(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> tuple:
    signature(b, loc, "wait", args, keywords, 1, 1)
    together(b, loc, "wait")
    groups = number_argument(b, loc, args[0], "the number of copies that may stay in flight")
    if groups < 0:
        b.error("constant", loc, f"wait({groups}): the number of groups that may stay in flight is not negative")
    b.ir.op("wait", groups=groups)
    return ()


@function("barrier")
@takes_syntax
def _barrier(b: KernelBuilder, node: ast.Call) -> tuple:
    if len(node.args) > 1 or node.keywords:
        b.error("call", node.loc, "barrier takes 'block' or 'warp', or nothing")
    words = ("block", "warp")
    scope = word_argument(b, node.loc, node.args[0], "the scope of barrier", words) if node.args else "block"
    together(b, node.loc, "barrier")
    b.ir.loc = b.at(node.loc)
    b.ir.op("barrier", scope=scope)
    return ()


ATOMICS = {
    "add": "a number", "min": "a number", "max": "a number", "and": "an integer", "or": "an integer",
    "xor": "an integer", "exchange": "any type", "cas": "any type",
}  # fmt: skip
ORDERS = ("relaxed", "acquire", "release", "acq_rel")


def _atomic(action: str) -> Handler:
    @takes_syntax
    def handler(b: KernelBuilder, node: ast.Call) -> Value:
        name = f"atomic_{action}"
        wanted = 3 if action == "cas" else 2
        if len(node.args) != wanted:
            what = "an access, the expected value and the new one" if action == "cas" else "an access and a value"
            b.error("call", node.loc, f"{name} takes {what}")
        keywords = _keywords(b, node, name, "mask order scope")
        order = word_argument(b, node.loc, keywords.get("order"), "order", ORDERS) or "relaxed"
        scope = word_argument(b, node.loc, keywords.get("scope"), "scope", ("block", "gpu", "system")) or "gpu"
        access = _access(b, node.args[0], name)
        place = resolve(b, access)
        dtype = place.memory.dtype
        if not place.offset.tile.shape:
            together(b, node.loc, f"{name} of a scalar")
        if dtype.bits < 32 and not (action == "add" and dtype.is_float):
            b.error("type", node.loc, f"{name} works on 32 and 64 bits; the elements are {dtype}")
        if dtype.is_float and action not in ("add", "exchange", "cas"):
            b.error("type", node.loc, f"{name} works on integers; the elements are {dtype}")
        values = [stored_value(b, b.expr(v), dtype, place, v.loc) for v in node.args[1:]]
        mask = _mask(b, keywords)
        joined = join_masks(b, place, mask, node.loc)
        b.ir.loc = b.at(node.loc)
        named = {"value": values[-1], "expected": values[0] if action == "cas" else None, "mask": joined}
        operands, has = operands_of(place, named)
        return b.ir.op("atomic", operands, has=has, action=action, order=order, scope=scope).result

    return handler


for _action in ATOMICS:
    BUILTINS[f"atomic_{_action}"] = _atomic(_action)


# ---- print and asm --------------------------------------------------------------------------------------------------------------


@function("print")
def _print(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> tuple:
    signature(b, loc, "print", args, keywords, 1, 16)
    words = [a for a in args if isinstance(a, str)]
    values = [b.as_value(a, loc) for a in args if not isinstance(a, str)]
    if isinstance(args[0], str) and len(words) == 1 and args[0].count("{}"):
        if args[0].count("{}") != len(values):
            b.error(
                "call", loc, f"the text has {args[0].count('{}')} times '{{}}'; the call has {len(values)} to print"
            )
        text = args[0]
    else:
        text = " ".join(a if isinstance(a, str) else "{}" for a in args)
    b.ir.loc = b.at(loc)
    b.ir.op("print", b.ir.same_shape(values) if values else [], format=text)
    return ()


@function("asm")
def _asm(b: KernelBuilder, loc: Loc, args: list, keywords: dict) -> Binding:
    """`asm("add.s32 {d}, {0}, {1};", s32, a, b)`: for each element; several results are d0, d1, …"""
    signature(b, loc, "asm", args, keywords, 2, 18)
    if not isinstance(args[0], str):
        b.error("call", loc, "asm takes its text first", 'asm("add.s32 {d}, {0}, {1};", s32, a, b)')
    types = args[1] if isinstance(args[1], tuple) else (args[1],)
    if not types or not all(isinstance(t, DType) for t in types):
        b.error("type", loc, "asm takes the type of its result second (or a tuple of types)")
    values = b.ir.same_shape([b.as_value(v, loc) for v in args[2:]])
    places = set(re.findall(r"\{(\w+)\}", args[0]))
    names = {"d"} if len(types) == 1 else {f"d{i}" for i in range(len(types))}
    names |= {str(i) for i in range(len(values))}
    if places != names:
        wrong = sorted(places ^ names)[0]
        message = f"has no operand {{{wrong}}}" if wrong in places else f"does not use operand {{{wrong}}}"
        b.error("call", loc, f"the text {message}", "results are {d} (or {d0}, {d1}), arguments {0}, {1}")
    b.ir.loc = b.at(loc)
    try:
        results = b.ir.op("asm", values, text=args[0], types=list(types)).results
    except Mismatch as error:
        b.error("type", loc, f"asm: {error}")
    return tuple(results) if len(types) > 1 else results[0]


__all__ = ["BUILTINS", "INDEX", "convert", "linear"]
