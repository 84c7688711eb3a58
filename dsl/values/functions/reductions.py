"""Reductions and scans along an axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsl.values.bindings import Binding, Builtin, Closure
from dsl.values.functions.arguments import axis_argument, flag_argument, signature, together
from dsl.values.functions.registry import BUILTINS, Handler, function
from lowering.ir import Block, Op, Value, walk
from lowering.location import Loc
from lowering.types import I1, DType

if TYPE_CHECKING:
    from dsl.values.expressions import Expressions


@dataclass(frozen=True, slots=True)
class Reduction:
    """A function that joins the elements of a tile along an axis, two at a time.

    means: for documents. joins: the operation of two elements. ufunc: numpy's, by which the host does the same. takes:
    "numbers", "integers" or "i1". scan: the function that gives each element joined with all before it.
    """

    name: str
    means: str
    joins: str
    ufunc: str
    takes: str = "numbers"
    scan: str | None = None

    @property
    def usage(self) -> str:
        return f"{self.name}(tile, axis=, keepdims=)"

    def accepts(self, dtype: DType) -> bool:
        return dtype is I1 if self.takes == "i1" else dtype is not I1 and (dtype.is_int or self.takes == "numbers")


REDUCTIONS = (
    Reduction("sum", "the sum", "add", "add", scan="cumsum"),
    Reduction("prod", "the product", "mul", "multiply", scan="cumprod"),
    Reduction("max", "the greatest; NaN if one is", "maximum", "maximum", scan="cummax"),
    Reduction("min", "the least; NaN if one is", "minimum", "minimum", scan="cummin"),
    Reduction("any", "whether one is on", "or", "logical_or", takes="i1"),
    Reduction("all", "whether all are on", "and", "logical_and", takes="i1"),
)
"""A row is all that a reduction is: kernels and the host take theirs from here."""
ON_HOST = frozenset(name for row in REDUCTIONS for name in (row.name, row.scan) if name is not None)


def table() -> str:
    """The reductions as the table of docs/functions.md."""
    lines = ["| reduction | means | takes | running |", "|---|---|---|---|"]
    for row in REDUCTIONS:
        lines.append(f"| `{row.name}` | {row.means} | {row.takes} | {f'`{row.scan}`' if row.scan else ''} |")
    return "\n".join(lines) + "\n"


def combine_region(
    b: Expressions, dtypes: list[DType], combine: Callable[[list[Value], list[Value]], list[Value]]
) -> Block:
    """A region that joins two groups of scalars into one."""
    left = [Value(b.ir.scalar_type(d)) for d in dtypes]
    right = [Value(b.ir.scalar_type(d)) for d in dtypes]
    block = Block([*left, *right])
    with b.ir.region(block):
        b.ir.op("yield", combine(left, right))
    for op in walk(block):
        _refuse_memory(b, op)
    return block


def _refuse_memory(b: Expressions, op: Op) -> None:
    """Pairs are joined inside a warp or a thread, as often and in such an order as the layout wants: no barrier can
    stand between them."""
    touched = [e.memory for e in op.spec.effects(op) if e.space != "param"] if op.spec.effects else []
    if touched or op.spec.orders is not None:
        assert op.loc is not None
        what = f"touches '{touched[0].name}'" if touched else f"holds {op.name}()"
        hint = "load what it needs before, and let it return what is to be stored"
        b.error("type", op.loc, f"a function that joins two values {what}; it only calculates", hint)


def reduce_tiles(
    b: Expressions,
    loc: Loc,
    tiles: list[Value],
    axis: Binding,
    keepdims: Binding,
    combine: Callable,
    name: str,
    **attrs: bool,
) -> list[Value]:
    shape = tiles[0].tile.shape
    if not shape:
        b.error("shape", loc, f"{name} takes a tile; this is the scalar {tiles[0].tile}")
    together(b, loc, name)
    keep = flag_argument(b, loc, keepdims, "keepdims")
    b.place(loc)
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
    b.place(loc)
    results = b.ir.op("reduce", tiles, [region], axis=position, **attrs).results
    if keep:
        kept = (*shape[:position], 1, *shape[position + 1 :])
        return [b.ir.reshape(r, kept) for r in results]
    return list(results)


def _reduction(row: Reduction) -> Handler:
    name = row.name

    def handler(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, 1, 2, "axis keepdims")
        if len(args) == 2:
            hint = f"{name}imum(a, b) joins two tiles" if name in ("max", "min") else f"{name}(tile, axis=1)"
            if isinstance(args[1], Value | float) or "axis" in keywords:
                b.error("call", loc, f"{name} reduces one tile", hint)
            keywords = keywords | {"axis": args[1]}
        tile = b.as_value(args[0], loc)
        if not row.accepts(tile.dtype):
            b.error("type", loc, f"{name} takes {row.takes}; this is {tile.tile}")

        def combine(x: list[Value], y: list[Value]) -> list[Value]:
            return [b.ir.value(row.joins, x[0], y[0])]

        return reduce_tiles(b, loc, [tile], keywords.get("axis"), keywords.get("keepdims", False), combine, name)[0]

    return handler


for _row in REDUCTIONS:
    BUILTINS[_row.name] = _reduction(_row)


def _arg_reduction(name: str, better: str) -> Handler:
    def handler(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, 1, 1, "axis keepdims")
        tile = b.as_value(args[0], loc)
        if not tile.tile.shape:
            b.error("shape", loc, f"{name} takes a tile")
        b.place(loc)
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

        keep = keywords.get("keepdims", False)
        return reduce_tiles(b, loc, [tile, index], position, keep, combine, name, commutes=True)[1]

    return handler


BUILTINS["argmax"] = _arg_reduction("argmax", "gt")
BUILTINS["argmin"] = _arg_reduction("argmin", "lt")


def _joiner(b: Expressions, loc: Loc, function: Binding, count: int, name: str) -> Callable:

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
def _reduce(b: Expressions, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "reduce", args, keywords, 2, 3, "axis keepdims")
    if len(args) == 3:
        keywords = keywords | {"axis": args[2]}
    many = isinstance(args[1], tuple)
    tiles = b.ir.same_shape([b.as_value(t, loc) for t in (args[1] if many else (args[1],))])
    combine = _joiner(b, loc, args[0], len(tiles), "reduce")
    out = reduce_tiles(b, loc, tiles, keywords.get("axis"), keywords.get("keepdims", False), combine, "reduce")
    return tuple(out) if many else out[0]


def _scan_tiles(
    b: Expressions, loc: Loc, tiles: list[Value], keywords: dict, combine: Callable, name: str
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
    b.place(loc)
    return list(b.ir.op("scan", tiles, [region], axis=axis, reverse=reverse).results)


@function("scan")
def _scan(b: Expressions, loc: Loc, args: list, keywords: dict) -> Binding:
    signature(b, loc, "scan", args, keywords, 2, 3, "axis reverse")
    if len(args) == 3:
        keywords = keywords | {"axis": args[2]}
    many = isinstance(args[1], tuple)
    tiles = b.ir.same_shape([b.as_value(t, loc) for t in (args[1] if many else (args[1],))])
    out = _scan_tiles(b, loc, tiles, keywords, _joiner(b, loc, args[0], len(tiles), "scan"), "scan")
    return tuple(out) if many else out[0]


def _simple_scan(name: str, op: str) -> Handler:
    def handler(b: Expressions, loc: Loc, args: list, keywords: dict) -> Value:
        signature(b, loc, name, args, keywords, 1, 1, "axis reverse")
        tile = b.as_value(args[0], loc)
        return _scan_tiles(b, loc, [tile], keywords, lambda x, y: [b.ir.value(op, x[0], y[0])], name)[0]

    return handler


for _row in REDUCTIONS:
    if _row.scan is not None:
        BUILTINS[_row.scan] = _simple_scan(_row.scan, _row.joins)
