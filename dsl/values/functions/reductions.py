"""Reductions and scans along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from dsl.lowering.ir.function import Block, Op, Value, walk
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import I1, DType, Type
from dsl.values.arithmetic import extreme
from dsl.values.bindings import Binding
from dsl.values.building import Building
from dsl.values.functions.threads import together
from dsl.values.host import Host
from dsl.values.later import np, on_arrays, reference
from dsl.values.scope import Closure, arguments_of_join
from dsl.values.table import Builtin, Meaning, rows

row = rows("Reductions and scans")


class Reduction(Struct, frozen=True):
    """A function that combines the elements of a tile along an axis, two at a time.

    `means` is the text for the documentation. `joins` is the IR operation that combines two elements. `ufunc` is the
    name of the numpy function that does the same on the host. `takes` is the kind of elements: "numbers", "integers" or
    "i1". `scan` is the name of the running reduction, or None.
    """

    name: str
    means: str
    joins: str
    ufunc: str
    takes: str = "numbers"
    scan: str | None = None

    def accepts(self, dtype: DType) -> bool:
        return dtype is I1 if self.takes == "i1" else dtype is not I1 and (dtype.is_int or self.takes == "numbers")


REDUCTIONS = (
    Reduction("sum", "the sum", "add", "add", scan="cumsum"),
    Reduction("prod", "the product", "mul", "multiply", scan="cumprod"),
    Reduction("max", "the greatest; NaN if any is", "maximum", "maximum", scan="cummax"),
    Reduction("min", "the least; NaN if any is", "minimum", "minimum", scan="cummin"),
    Reduction("any", "whether any is true", "or", "logical_or", takes="i1"),
    Reduction("all", "whether all are true", "and", "logical_and", takes="i1"),
)
"""Each row defines a reduction both for kernels and for the host."""


def combine_region(
    b: Building, types: Sequence[Type], combine: Callable[[list[Value], list[Value]], list[Value]]
) -> Block:
    """Builds an IR region that combines two groups of values into one group. A group has one value of each type."""
    left, right = ([Value(type) for type in types] for _ in range(2))
    block = Block([*left, *right])
    with b.ir.region(block):
        b.ir.op("yield", combine(left, right))
    for op in walk(block):
        _refuse_memory(b, op)
    return block


def _refuse_memory(b: Building, op: Op) -> None:
    """Raises an error for a memory operation or barrier in a function that combines two elements. The layout decides
    how often and in which order each thread calls the function. So threads cannot synchronize in it."""
    touched = [e.memory for e in op.spec.access.effects(op) if e.space != "param"]
    if touched or op.spec.orders is not None:
        assert op.loc is not None
        what = f"touches '{touched[0].name}'" if touched else f"holds {op.name}()"
        hint = "load what it needs before, and let it return what is to be stored"
        b.error("type", op.loc, f"a function that joins two values {what}; it only calculates", hint)


def reduce_tiles(
    b: Building,
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
    keep = b.flag(keepdims, loc, "keepdims")
    b.place(loc)
    if axis is None:
        if keep:
            b.error("call", loc, "keepdims= needs axis=")
        tiles, position = [b.ir.reshape(t, (t.tile.size,)) for t in tiles], 0
    else:
        position = b.axis(axis, loc, len(shape))
    region = combine_region(b, [b.ir.scalar_type(t.dtype) for t in tiles], combine)
    b.place(loc)
    results = b.ir.op("reduce", tiles, [region], axis=position, **attrs).results
    if keep:
        kept = (*shape[:position], 1, *shape[position + 1 :])
        return [b.ir.reshape(r, kept) for r in results]
    return list(results)


def _by_operation(b: Building, name: str) -> Callable[[list[Value], list[Value]], list[Value]]:
    return lambda x, y: [b.ir.value(name, x[0], y[0])]


def _reduction(each: Reduction) -> dict[str, Meaning]:
    name = each.name

    def tiles(b: Building, loc: Loc, value: Binding, axis: Binding = None, keepdims: Binding = False) -> Value:
        if isinstance(axis, Value | float):
            hint = f"{name}imum(a, b) joins two tiles" if name in ("max", "min") else f"{name}(tile, axis=1)"
            b.error("call", loc, f"{name} reduces one tile", hint)
        tile = b.as_value(value, loc)
        if not each.accepts(tile.dtype):
            b.error("type", loc, f"{name} takes {each.takes}; this is {tile.tile}")
        return reduce_tiles(b, loc, [tile], axis, keepdims, _by_operation(b, each.joins), name)[0]

    def arrays(host: Host, loc: Loc, value: Any, axis: Any = None, keepdims: Any = False) -> Any:
        joins = getattr(np, each.ufunc)
        empty = joins.identity is not None
        return on_arrays.reduced(host, loc, value, axis, keepdims, name, joins.reduce, each.takes, empty)

    return {"tiles": tiles, "arrays": arrays}


EXTREMES = {"max": extreme(max), "min": extreme(min)}
"""The functions of Python numbers for calls such as `max(a, b)`."""

for _row in REDUCTIONS:
    _join = EXTREMES.get(_row.name)
    _tree = None if _join is None else (lambda *all, name=_row.name: [name, *all])
    row(f"{_row.name}(tile, [axis=], keepdims=)", _row.means, _row.takes, numbers=_join, trees=_tree,
        of_numbers="" if _join is None else f"{_row.name}(a, b, …)", **_reduction(_row))  # fmt: skip


def _arg_reduction(name: str, better: str) -> dict[str, Meaning]:
    def tiles(b: Building, loc: Loc, value: Binding, axis: Binding = None, keepdims: Binding = False) -> Value:
        tile = b.as_value(value, loc)
        if not tile.tile.shape:
            b.error("shape", loc, f"{name} takes a tile")
        b.place(loc)
        rank = len(tile.tile.shape)
        if axis is None:
            tile, rank, position = b.ir.reshape(tile, (tile.tile.size,)), 1, 0
        else:
            position = b.axis(axis, loc, rank)
        index = b.ir.value("arange", extent=tile.tile.shape[position])
        index = b.ir.reshape(index, (1,) * position + index.tile.shape + (1,) * (rank - position - 1))
        index = b.ir.broadcast(index, tile.tile.shape)

        def combine(x: list[Value], y: list[Value]) -> list[Value]:
            """Returns the greater of two values (the lesser for argmin), with its index. As in numpy, a NaN wins over
            every number. Between equal values or two NaNs, the lower index wins, so the result does not depend on the
            order of combining."""
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

        return reduce_tiles(b, loc, [tile, index], position, keepdims, combine, name, commutes=True)[1]

    return {"tiles": tiles, "arrays": _of_numpy(name)}


def _of_numpy(name: str) -> Meaning:
    """Returns a host reduction by numpy's function `name`, or by the reference function for `logsumexp`."""

    def arrays(host: Host, loc: Loc, value: Any, axis: Any = None, keepdims: Any = False) -> Any:
        apply = reference.logsumexp if name == "logsumexp" else getattr(np, name)
        return on_arrays.reduced(host, loc, value, axis, keepdims, name, apply, "numbers", name == "logsumexp")

    return arrays


for _name, _better, _which in (("argmax", "gt", "greatest"), ("argmin", "lt", "least")):
    row(f"{_name}(tile, [axis=], keepdims=)", f"the index of the first {_which}; NaN beats all numbers",
        "numbers", **_arg_reduction(_name, _better))  # fmt: skip
row("mean(x, [axis=], keepdims=)", "the mean", "numbers", arrays=_of_numpy("mean"))
row("logsumexp(x, [axis=], keepdims=)", "log(sum(exp(x)))", "numbers", arrays=_of_numpy("logsumexp"))


def _joiner(b: Building, loc: Loc, function: Binding, count: int, name: str) -> Callable:

    def combine(x: list[Value], y: list[Value]) -> list[Value]:
        if not isinstance(function, Closure | Builtin) or getattr(function, "unread", False):
            b.error("type", loc, f"{name} takes a function of two values first", f"{name}(maximum, x)")
        result = b.apply(function, arguments_of_join(function, x, y), loc)
        out = list(result) if isinstance(result, tuple) else [result]
        if len(out) != count:
            b.error("type", loc, f"the function joins {count} values and returns {len(out)}")
        for i, (got, want) in enumerate(zip(out, x, strict=True)):
            out[i] = b.as_value(got, loc, want.dtype)
            if out[i].type != want.type:
                b.error("type", loc, f"the function returns {out[i].tile} for {want.tile}")
        return out

    return combine


def _reduce(
    b: Building, loc: Loc, function: Binding, value: Binding, axis: Binding = None, keepdims: Binding = False
) -> Binding:
    many = isinstance(value, tuple)
    tiles = b.ir.same_shape([b.as_value(t, loc) for t in (value if many else (value,))])
    combine = _joiner(b, loc, function, len(tiles), "reduce")
    out = reduce_tiles(b, loc, tiles, axis, keepdims, combine, "reduce")
    return tuple(out) if many else out[0]


row("reduce(f, tiles, [axis=], keepdims=)", "joins by a function of two values or tuples", "any",
    tiles=_reduce, arrays=lambda host, loc, *values, **more: on_arrays.reduce(host, loc, *values, **more))  # fmt: skip


def _joined(b: Building, loc: Loc, function: Binding, value: Binding) -> Binding:
    tiles = [b.as_value(t, loc) for t in (value if isinstance(value, tuple) else (value,))]
    combine = _joiner(b, loc, function, len(tiles), "joined")
    region = combine_region(b, [tile.type for tile in tiles], combine)
    b.place(loc)
    if "split" in b.function.attrs:
        b.ir.op("join_parts", tiles, [region])
    return value


row("joined(f, values)", "the values of a loop, whose parts join by f if `split` divides it", "any",
    tiles=_joined, arrays=lambda host, loc, function, value: value)  # fmt: skip


def _scan_tiles(
    b: Building, loc: Loc, tiles: list[Value], combine: Callable, name: str, axis: Binding = None, reverse: Any = False
) -> list[Value]:
    rank = len(tiles[0].tile.shape)
    if not rank:
        b.error("shape", loc, f"{name} takes a tile")
    together(b, loc, name)
    if axis is None and rank > 1:
        hint = f"{name}(t, axis=0), or another of its {rank} axes"
        b.error("call", loc, f"{name} of a tile of rank {rank} needs axis=", hint)
    along = b.axis(0 if axis is None else axis, loc, rank)
    backwards = b.flag(reverse, loc, "reverse")
    region = combine_region(b, [b.ir.scalar_type(t.dtype) for t in tiles], combine)
    b.place(loc)
    return list(b.ir.op("scan", tiles, [region], axis=along, reverse=backwards).results)


def _scan(b: Building, loc: Loc, function: Binding, value: Binding, *axis: Binding, **more: Binding) -> Binding:
    many = isinstance(value, tuple)
    tiles = b.ir.same_shape([b.as_value(t, loc) for t in (value if many else (value,))])
    out = _scan_tiles(b, loc, tiles, _joiner(b, loc, function, len(tiles), "scan"), "scan", *axis, **more)
    return tuple(out) if many else out[0]


row("scan(f, tiles, [axis=], reverse=)", "running reduction by such a function", "any",
    tiles=_scan, arrays=lambda host, loc, *values, **more: on_arrays.scan(host, loc, *values, **more))  # fmt: skip


def _running(each: Reduction, name: str) -> dict[str, Meaning]:
    def tiles(b: Building, loc: Loc, value: Binding, *axis: Binding, **more: Binding) -> Value:
        return _scan_tiles(b, loc, [b.as_value(value, loc)], _by_operation(b, each.joins), name, *axis, **more)[0]

    def arrays(host: Host, loc: Loc, value: Any, *axis: Any, **more: Any) -> Any:
        return on_arrays.running(host, loc, value, name, getattr(np, each.ufunc), *axis, **more)

    return {"tiles": tiles, "arrays": arrays}


for _row in REDUCTIONS:
    if _row.scan is not None:
        row(f"{_row.scan}(tile, [axis=], reverse=)", "the running reduction of that name", _row.takes,
            **_running(_row, _row.scan))  # fmt: skip
row("sort(x, [axis=], reverse=)", "ascending, NaN last", "numbers",
    arrays=lambda host, loc, x, *axis, **more: on_arrays.sort(host, loc, x, *axis, **more))  # fmt: skip
