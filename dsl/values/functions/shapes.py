"""Functions that make tiles and arrays, and functions that change their shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from msgspec.structs import replace

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import DTYPES, I1, DType
from dsl.lowering.known.forms import Forms
from dsl.lowering.layouts.layout import row_major
from dsl.values.access import narrow
from dsl.values.bindings import Access, Binding, SharedTile, Tensor, describe
from dsl.values.building import Building
from dsl.values.functions.elementwise import agreed
from dsl.values.functions.random import like_the_first
from dsl.values.functions.threads import together
from dsl.values.host import Host, Shaped
from dsl.values.later import element_types, np, on_arrays
from dsl.values.table import Meaning, rows

row = rows("Sources, shapes, tuples")

# ---- sources ---------------------------------------------------------------------------------------------------------


def _type_of(b: Building, loc: Loc, given: Binding, what: str) -> Shaped:
    """Returns the type and shape in an argument such as `f32[M, N]`. `f32` without extents is a scalar."""
    made = Shaped(given, ()) if isinstance(given, DType) else given
    if not isinstance(made, Shaped):
        b.error("type", b.place_of(0, loc), f"{what} takes a type with extents", "for example f32[128]")
    return made


def _constant(name: str, number: int) -> dict[str, Meaning]:
    def tiles(b: Building, loc: Loc, given: Binding) -> Value:
        of = _type_of(b, loc, given, name)
        b.place(loc)
        value = bool(number) if of.dtype is I1 else float(number) if of.dtype.is_float else number
        return b.ir.constant(value, of.dtype, of.shape)

    return {"tiles": tiles, "arrays": lambda host, loc, given: on_arrays.constant(host, loc, name, given, number)}


def _full(b: Building, loc: Loc, given: Binding, value: Binding) -> Value:
    of, at = _type_of(b, loc, given, "full"), b.place_of(1, loc)
    made = b.as_value(value, at, of.dtype)
    if made.dtype is not of.dtype:
        b.error("type", at, f"full of {of.dtype} with {made.tile}", f"convert it with .to({of.dtype})")
    b.place(loc)
    return b.ir.broadcast(made, of.shape)


def _arange_tiles(b: Building, loc: Loc, extent: Binding) -> Value:
    number = b.extent_of(extent, b.place_of(0, loc), "the extent of arange")
    b.place(loc)
    return b.ir.value("arange", extent=number)


def _arange_arrays(host: Host, loc: Loc, given: Any) -> Any:
    if not isinstance(given, Shaped):
        given = Shaped(DTYPES["index"], (host.whole(given, loc, "the extent of arange"),))
    if len(given.shape) != 1 or given.shape[0] < 0:
        hint = "arange(n) or arange(s32[n]); reshape gives other shapes"
        host.error("shape", loc, "arange takes one extent", hint)
    extent, dtype = given.shape[0], given.dtype
    host.room(loc, extent * 8)
    if dtype.is_int and dtype.kind != "index" and extent and not on_arrays.fits(extent - 1, dtype):
        host.error("type", loc, f"{extent - 1} is no {dtype}")
    return on_arrays.made(host, element_types.narrow(np.arange(extent), dtype))


def _empty(host: Host, loc: Loc, given: Any) -> Any:
    dtype, shape = on_arrays.shaped(host, loc, given, "empty")
    array = on_arrays.made(host, element_types.poisoned(shape, dtype))
    host.note_empty(array)
    return array


row("zeros(T[…])", "zeros", "any", **_constant("zeros", 0), shapes=like_the_first)
row("ones(T[…])", "ones", "any", **_constant("ones", 1), shapes=like_the_first)
row("full(T[…], v)", "one number", "any", tiles=_full, shapes=like_the_first,
    arrays=lambda host, loc, given, value: on_arrays.constant(host, loc, "full", given, value))  # fmt: skip
row("empty(T[…])", "an unwritten array", "any",
    arrays=_empty, shapes=like_the_first)  # fmt: skip
row("arange(N)", "0 to N − 1; on the host also `arange(T[n])`", "integers",
    tiles=_arange_tiles, arrays=_arange_arrays, shapes=like_the_first)  # fmt: skip


# ---- shapes ----------------------------------------------------------------------------------------------------------


def _shape_argument(value: Binding) -> tuple[Binding, ...]:
    return value if isinstance(value, tuple) else (value,)


def _reshape_tiles(b: Building, loc: Loc, source: Binding, extents_given: Binding) -> Binding:
    shape = _shape_argument(extents_given)
    if isinstance(source, Tensor):
        return _view(b, loc, source, shape)
    if isinstance(source, Access) and isinstance(source.memory, SharedTile):
        source = narrow(b, source)
    extents = [b.whole(e, loc, "an extent") for e in shape]
    product = prod(extents)
    if isinstance(source, SharedTile):
        have = prod(source.extents)
        if source.strides != row_major(source.extents) or have != product:
            b.error("shape", loc, f"a shared tile of {source.extents} cannot be seen as {extents}")
        if any(source.windows):
            message = f"a part of a shared tile that may reach beyond it cannot be seen as {extents}"
            b.error("shape", loc, message, "begin at a constant, or where its facts say that it ends inside")
        return replace(source, extents=extents, strides=row_major(extents), has_stages=False, windows=())
    value = b.as_value(source, loc)
    for e in extents:
        b.check_extent(e, loc, "an extent")
    if value.tile.size != product:
        message = f"a tile of {list(value.tile.shape)} has {value.tile.size} elements; {extents} has {product}"
        b.error("shape", loc, message)
    b.place(loc)
    return b.ir.reshape(value, tuple(extents))


def _view(b: Building, loc: Loc, source: Any, shape: tuple) -> Any:
    """Makes a view of a tensor with other dims. If the compiler cannot prove that the number of elements stays the
    same, the kernel asserts it at run time."""

    # The strides of a view are products of its dims, which is correct only for row-major elements.
    if source.parameter.strided:
        b.error("type", loc, "a strided tensor cannot be reshaped")
    if not source.in_order:
        b.error("type", loc, "a transposed tensor cannot be reshaped", "reshape it first, then transpose it")
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
        message = "reshape keeps the number of elements"
        b.ir.op("assert", [b.ir.value("eq", left, right)], message=message, line=loc.line)
        b.function.attrs["record"] = True
    return Tensor(source.parameter, source.value, dims, strides, axes=_own_axes(source, dims))


def _own_axes(source: Tensor, dims: list[int | Value]) -> tuple[int | None, ...] | None:
    """Returns the parameter's axis for each axis of a view. The view may only add axes of extent 1 and merge adjacent
    axes. A TMA map of the parameter still describes such a view. Returns None for any other view."""
    if source.axes is None:
        return None
    left = list(zip(source.dims, source.axes, strict=True))
    own: list[int | None] = []
    for dim in dims:
        if left and left[0][0] == dim:
            own.append(left.pop(0)[1])
        elif dim == 1:
            own.append(None)
        else:
            wanted = _factors_of([dim])
            made = (count for count in range(2, len(left) + 1) if _factors_of([d for d, _ in left[:count]]) == wanted)
            joined = next(made, 0)
            if not joined or None in [axis for _, axis in left[:joined]]:
                return None
            own.append(left[joined - 1][1])
            del left[:joined]
    return None if left else tuple(own)


def _product(b: Building, factors: list[int | Value]) -> int | Value:
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


def _factors_of(dims: Sequence[int | Value]) -> tuple[int, tuple[int, ...]]:
    """Returns the product of all dims, as its constant and its other factors. `_factors` describes the format."""
    found = [(dim, ()) if isinstance(dim, int) else _factors(dim) for dim in dims]
    return prod(number for number, _ in found), tuple(sorted(each for _, ids in found for each in ids))


def _factors(value: Value) -> tuple[int, tuple[int, ...]]:
    """Splits a product into its constant and the sorted identities of its other factors. Equal products compare
    equal."""
    product = _FACTORS.told(value)
    if product is not None:
        return product
    number = constant_of(value)
    return (int(number), ()) if number is not None else (1, (id(value),))


def _transpose_tiles(b: Building, loc: Loc, source: Binding, order: Binding = None) -> Binding:
    value = None if isinstance(source, Tensor) else b.as_value(source, loc)
    rank = len(source.dims) if value is None else len(value.tile.shape)
    axes = tuple(reversed(range(rank)))
    if order is not None:
        axes = tuple(b.whole(a, loc, "an axis") for a in _shape_argument(order))
    if sorted(axes) != list(range(rank)):
        what = "tensor" if value is None else "tile"
        b.error("shape", loc, f"{list(axes)} is no order of the axes of a {what} of rank {rank}")
    if value is None:
        dims, strides = ([each[axis] for axis in axes] for each in (source.dims, source.strides))
        in_order = source.in_order and axes == tuple(range(rank))
        own = None if source.axes is None else tuple(source.axes[axis] for axis in axes)
        return Tensor(source.parameter, source.value, dims, strides, in_order, own)
    b.place(loc)
    return b.ir.value("transpose", value, axes=axes)


def _turned(b: Building, loc: Loc, source: Binding) -> Binding:
    if isinstance(source, Tensor) and len(source.dims) == 2:
        return _transpose_tiles(b, loc, source)
    value = b.as_value(source, loc)
    b.place(loc)
    if len(value.tile.shape) != 2:
        hint = "transpose(x, [0, 2, 1]) transposes each matrix of a batch" if len(value.tile.shape) == 3 else None
        b.error("shape", loc, f".T takes a tile of rank 2; this is {value.tile}", hint)
    return b.ir.value("transpose", value, axes=(1, 0))


def _stack(b: Building, loc: Loc, *args: Binding, axis: Binding = None) -> Value:
    b.check_extent(len(args), loc, "the number of tiles to stack")
    made = b.ir.value("stack", *agreed(b, loc, args))
    last = len(made.tile.shape) - 1
    at = last if axis is None else b.axis(axis, loc, last + 1)
    if at == last:
        return made
    return b.ir.value("transpose", made, axes=(*range(at), last, *range(at, last)))


def _gather(b: Building, loc: Loc, source: Binding, index: Binding, axis: Binding = None) -> Value:
    together(b, loc, "gather")
    x, at = b.as_value(source, loc), b.as_value(index, loc)
    rank = len(x.tile.shape)
    if not rank:
        b.error("shape", b.place_of(0, loc), f"gather takes a tile; this is {x.tile}")
    along = b.axis(rank - 1 if axis is None else axis, loc, rank)
    b.place(loc)
    return b.ir.op("gather", [x, at], axis=along).result


def _flat(b: Building, loc: Loc, tensor: Binding) -> Tensor:
    """Makes a 1-D view of a row-major tensor. Its elements are in memory order."""
    if not isinstance(tensor, Tensor):
        b.error("type", loc, f"flat takes a tensor; this is {describe(tensor)}")
    if tensor.parameter.strided:
        b.error("type", loc, f"'{tensor.parameter.name}' is strided: its elements need not lie side by side")
    if not tensor.in_order:
        b.error("type", loc, "a transposed tensor has no flat order of its own", "flat, then the places of elements")
    b.place(loc)
    size: int | Value = 1
    for extent in tensor.dims:
        if isinstance(size, int) and isinstance(extent, int):
            size *= extent
        else:
            factors = [e if isinstance(e, Value) else b.ir.index(e) for e in (size, extent)]
            size = b.ir.value("mul", *factors)
    return Tensor(tensor.parameter, tensor.value, [size], [1])


row("reshape(x, extents)", "other extents; a view of a row-major tensor", "any",
    tiles=_reshape_tiles, shared=(0,),
    arrays=lambda host, loc, x, extents: on_arrays.reshape(host, loc, x, extents))  # fmt: skip
row("transpose(x, [axes])", "axes permuted, reversed by default; a view of a tensor", "any",
    tiles=_transpose_tiles, arrays=lambda host, loc, x, *axes: on_arrays.transpose(host, loc, x, *axes))  # fmt: skip
row(".T", "`x.T`: rows become columns", "any",
    tiles=_turned, arrays=lambda host, loc, x: on_arrays.turned(host, loc, x))  # fmt: skip
row("stack(a, …, axis=)", "tiles of one shape along a new axis, by default the last", "any",
    tiles=_stack, arrays=lambda host, loc, *all, **axis: on_arrays.stack(host, loc, all, **axis))  # fmt: skip
row("gather(x, index, [axis=])", "the elements at indices along an axis, by default the last, modulo its extent", "any",
    tiles=_gather, arrays=lambda host, loc, x, index, axis=-1: on_arrays.gather(host, loc, x, index, axis))  # fmt: skip
row("concatenate(a, …, axis=)", "joined along an axis", "any",
    arrays=lambda host, loc, *all, **axis: on_arrays.concatenate(host, loc, all, **axis))  # fmt: skip
row("broadcast(x, extents)", "as numpy's broadcast_to", "any",
    arrays=lambda host, loc, x, extents: on_arrays.broadcast(host, loc, x, extents))  # fmt: skip
row("flat(x)", "a row-major tensor's elements along one axis", "any", tiles=_flat,
    arrays=lambda host, loc, x: on_arrays.array(host, loc, x, "flat").reshape(-1))  # fmt: skip


# ---- tuples ----------------------------------------------------------------------------------------------------------


def _append(domain: Building | Host, loc: Loc, known: Any, value: Any) -> tuple:
    if not isinstance(known, tuple):
        domain.error("type", loc, f"append takes a tuple; this is {domain.describe(known)}", "begin with tuple()")
    return (*known, value)


row("tuple([a], …)", "a tuple of any length, indexed by constants", "any",
    tiles=lambda b, loc, *all: b.tuple_of(all, loc),
    arrays=lambda host, loc, *all: all)  # fmt: skip
row("append(t, a)", "the tuple with one more element", "any",
    tiles=lambda b, loc, *given: b.tuple_of(_append(b, loc, *given), loc), arrays=_append)  # fmt: skip
