"""Computes offsets and masks from subscripts: `x[r : r + N, c]` becomes one tile of element offsets and one mask.

Accesses by slices and scalars are masked automatically at both edges of the axis. An index tile is masked only by
`mask=`.
"""

from __future__ import annotations

from math import prod
from typing import Any

from msgspec import Struct, field

from dsl.lowering.building.builder import MAX_TILE, broadcast_shapes
from dsl.lowering.directives.slices import reached
from dsl.lowering.hopper.box_rows import box_of_rows
from dsl.lowering.hopper.boxes import MASKED, CopiedBox
from dsl.lowering.hopper.digits import Digit, Digits, TileIndex
from dsl.lowering.hopper.windows import NoBox, Subscript, box_of_access, check_begin, check_mask
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Value
from dsl.lowering.ir.limits import most_elements
from dsl.lowering.ir.location import Loc
from dsl.lowering.ir.types import I1, INDEX, U32, DType
from dsl.lowering.known.facts import counts_elements
from dsl.lowering.known.forms import linear
from dsl.lowering.ops.memory import CUT
from dsl.text import tree as ast
from dsl.values.bindings import Access, Binding, SharedTile, Table, Tensor, describe
from dsl.values.building import Building
from dsl.values.linear_index import IndexTerm, joined

UNTOLD = "does not follow from constants and the place in the tile alone"


class Span(Struct):
    """A slice, given by its first element and its constant extent."""

    start: Value | int
    extent: int


class IndexBound(Struct):
    """What `strict_bounds` asserts of an axis: the flags `inside`, where the access is not masked off. If `is_entry`,
    the index is a scalar that is loaded. Since the access masks it at the edges of its axis, only the user's mask
    counts."""

    axis: int
    inside: Value
    is_entry: bool = False


class Place(Struct):
    """The operands that a memory operation needs for one access."""

    memory: Value
    stage: Value | None
    offset: Value
    mask: Value | None
    bounds: list[IndexBound] = field(default_factory=list)
    subscripts: list[Subscript] | str | None = None  # for a TMA box; a str states why no TMA box is possible


def integer(builder: Building, binding: Binding, loc: Loc) -> Value | int:
    """Checks that a subscript or the bound of a slice is an integer. Returns it as a number, a scalar or a tile."""
    binding = builder.value_or_number(binding, loc)
    if isinstance(binding, bool | float):
        builder.error("type", loc, f"an index is an integer; this is {str(binding).lower()}")
    if isinstance(binding, Value) and not binding.dtype.is_int:
        builder.error("type", loc, f"an index is an integer; this is {binding.tile}")
    return binding


def index_value(builder: Building, value: Value | int, loc: Loc) -> Value | int:
    """Converts an integer to type `index`. A wider integer is clamped first. Otherwise, without its upper bits, an
    out-of-bounds number could become a valid index."""
    bits = builder.function.index_bits
    most = most_elements(bits)
    if isinstance(value, int):
        return max(-most, min(value, most))
    if value.dtype is INDEX:
        return value
    builder.place(loc)
    # With a 32-bit `index`, only u32 and 64-bit integers can exceed its range, so only they are clamped.
    if value.dtype.bits > bits or (value.dtype.bits == bits and not value.dtype.is_signed):
        value = _held(builder, value, most)
    return builder.ir.value("cast", value, to=INDEX, saturate=False, rounding=None)


def _held(builder: Building, value: Value, most: int) -> Value:
    """Clamps `value` to -most … most. No instruction is emitted for a limit that known facts already guarantee."""
    facts = builder.facts.of(value)
    ends = [("minimum", most, facts.high is not None and facts.high <= most)]
    ends.append(("maximum", -most, not value.dtype.is_signed or (facts.low is not None and facts.low >= -most)))
    for name, end, holds in ends:
        if not holds:
            value = builder.ir.value(name, *builder.ir.same_shape([value, builder.ir.constant(end, value.dtype)]))
    return value


def stage_value(builder: Building, value: Value | int, stages: int, loc: Loc) -> Value | int:
    """Converts a stage number of a ring buffer to type `index`. A wider integer is reduced modulo `stages` first."""
    if isinstance(value, int) or value.tile.shape or value.dtype is INDEX:
        return value if isinstance(value, int) else index_value(builder, value, loc)
    builder.place(loc)
    if value.dtype.bits > 32 or value.dtype is U32:
        # A ring reduces the stage number modulo `stages`. Truncating to 32 bits first would select another stage where
        # `stages` does not divide 2^32, as with three stages.
        value = builder.ir.value("mod", value, builder.ir.constant(stages, value.dtype))
    return builder.ir.value("cast", value, to=INDEX, saturate=False, rounding=None)


def subscripts(builder: Building, memory: Tensor | SharedTile | Table, node: ast.Index) -> list[Any]:
    """Evaluates the subscripts of a tensor, shared tile or table to ints, Values and Spans. An axis without a subscript
    gets a Span over the whole axis."""

    if isinstance(memory, Table):
        extents: list[Any] = [memory.length]
    else:
        extents = list(memory.dims if hasattr(memory, "dims") else memory.extents)
    if len(node.subscripts) > len(extents):
        axes = f"{len(extents)} ax{'i' if len(extents) == 1 else 'e'}s"
        message = f"{describe(memory)} has {axes}; got {len(node.subscripts)} subscripts"
        news = any(map(ast.is_none, node.subscripts))
        hint = "a part gets a new axis behind its own brackets: x[a : a + N][None, :]" if news else None
        builder.error("shape", node.loc, message, hint)
    out: list[Any] = []
    for axis, extent in enumerate(extents):
        sub = node.subscripts[axis] if axis < len(node.subscripts) else ast.Slice(node.loc, None, None)
        if isinstance(sub, ast.Slice):
            span = _slice(builder, sub, extent, ring=_is_ring_axis(memory, axis))
            _check_span(builder, span, extent, axis, sub.loc if sub.loc.end else node.loc)
            out.append(span)
        elif ast.is_none(sub):
            builder.error("type", sub.loc, "None adds an axis to a tile, not to memory")
        else:
            value = integer(builder, builder.expr(sub), sub.loc)
            if _is_ring_axis(memory, axis):
                out.append(stage_value(builder, value, extent, sub.loc))
            else:
                _check_number(builder, value, extent, axis, sub.loc)
                out.append(index_value(builder, value, sub.loc))
    return out


def _check_number(builder: Building, index: Value | int, extent: int | Value, axis: int, loc: Loc) -> None:
    """Raises an error for a literal index that is out of bounds, since the automatic mask would hide the mistake.
    `_check_tile` checks index tiles."""
    number = constant_of(index) if isinstance(index, Value) else index
    if not isinstance(number, int) or (isinstance(index, Value) and index.tile.shape):
        return
    if number < 0:
        message = f"index {number} of axis {axis}: indices count from 0, and not from the end"
        builder.error("bounds", loc, message, f"the last is {extent - 1}" if isinstance(extent, int) else None)
    if isinstance(extent, int) and number >= extent:
        message = f"index {number} of axis {axis}, which has {extent} element{'s' * (extent > 1)}"
        builder.error("bounds", loc, message, f"the last is {extent - 1}")


def _check_span(builder: Building, span: Span, extent: int | Value, axis: int, loc: Loc) -> None:
    """Raises an error for a slice with literal bounds that lies wholly outside of its axis. A slice that lies partly
    inside is masked instead."""
    start = constant_of(span.start) if isinstance(span.start, Value) else span.start
    if not isinstance(start, int) or not span.extent:
        return
    if start + span.extent <= 0 or (isinstance(extent, int) and start >= extent):
        size = f", which has {extent} elements" if isinstance(extent, int) else ""
        builder.error("bounds", loc, f"the slice {start} : {start + span.extent} has nothing of axis {axis}{size}")


def _check_tile(builder: Building, index: Value, extent: int | Value, axis: int, loc: Loc) -> None:
    """Raises an error for an unmasked index tile that is known at compile time to exceed its axis."""
    if not _is_literal(index):
        return
    facts = builder.facts.of(index)
    if facts.low is not None and facts.low < 0:
        builder.error("bounds", loc, f"index {facts.low} of axis {axis}: indices count from 0", "mask= leaves some out")
    if isinstance(extent, int) and facts.high is not None and facts.high >= extent:
        message = f"index {facts.high} of axis {axis}, which has {extent} elements"
        builder.error("bounds", loc, message, "mask= leaves some out")


def _is_literal(index: Value) -> bool:
    """Whether the tile is a constant, or an `arange` that is scaled and shifted by constants. Such a tile reaches both
    ends of its known range. If the range exceeds the axis, an element is certainly out of bounds."""
    op = index.op
    if constant_of(index) is not None:
        return True
    # Other operations may never reach the ends of their known range: `t % 8` has the range 0 … 7 but may never be 7.
    if op is None or op.spec.elements.form is None:
        return False
    others = [each for each in op.operands if constant_of(each) is None]
    return not op.operands or (len(others) == 1 and _is_literal(others[0]))


def _is_ring_axis(memory: Any, axis: int) -> bool:
    return axis == 0 and getattr(memory, "has_stages", False) and memory.value.type.ring


def _slice(builder: Building, node: ast.Slice, extent: int | Value, ring: bool) -> Span:
    where = node.loc
    if ring:
        builder.error("type", where, "a stage of a ring is chosen by one index")
    start: Value | int = 0 if node.start is None else integer(builder, builder.expr(node.start), where)
    if node.stop is None:
        if isinstance(extent, Value):
            message = "a slice needs a constant extent, and this dim is known only at run time"
            builder.error("extent", where, message, "write start : start + EXTENT; what is past the edge is masked")
        stop: Value | int = extent
    else:
        stop = integer(builder, builder.expr(node.stop), where)
    for bound in (start, stop):
        if isinstance(bound, Value) and bound.tile.shape:
            builder.error("type", where, "the bounds of a slice are scalars", "an index tile goes without ':'")
    length = _difference(stop, start)
    if length is None:
        builder.error("extent", where, "the extent of a slice must be constant", "write start : start + EXTENT")
    builder.check_extent(length, where, "the extent of a slice")
    return Span(index_value(builder, start, where), length)


def _difference(stop: Value | int, start: Value | int) -> int | None:
    """Returns `stop - start` if the difference is constant, as in `r : r + 8`, and None otherwise."""
    upper = ({}, stop) if isinstance(stop, int) else linear(stop)
    lower = ({}, start) if isinstance(start, int) else linear(start)
    return upper[1] - lower[1] if upper[0] == lower[0] else None


class _Axis(Struct):
    """One axis of an access. `number` is the index of the axis in the memory. `beyond` is this axis's entry of
    `SharedTile.windows`."""

    number: int
    sub: Any
    extent: int | Value
    stride: int | Value
    beyond: tuple[tuple[Value | int, int], ...] = ()


class _Parts(Struct):
    """What `resolve` collects from the axes of an access: summands of the offset, terms of index tiles, conditions of
    the mask, and the bounds that `strict_bounds` asserts: of index tiles, and of scalars that are loaded."""

    offsets: list[Value] = field(default_factory=list)
    terms: list[IndexTerm] = field(default_factory=list)
    masks: list[Value] = field(default_factory=list)
    bounds: list[IndexBound] = field(default_factory=list)


def resolve(builder: Building, access: Access, is_masked: bool = False) -> Place:
    """Computes the offsets of an access, in elements, and the mask at the edges of its axes. The offsets have the shape
    of the access. `is_masked` tells whether the user gave a mask."""
    ir, found = builder.ir, _Parts()
    builder.place(access.loc)
    stage, axes = _axes(builder, access, found)
    form = _Form(builder, [axis.sub for axis in axes], access.loc)
    spans = 0
    for axis in axes:
        if isinstance(axis.sub, Span):
            _resolve_span(builder, axis, form.place_of_span(spans), len(form.shape), found)
            spans += 1
        elif _is_tile(axis.sub):
            _resolve_tile(builder, axis, form, None if is_masked else access.loc, found)
        else:
            edges = _edges(builder, axis.sub, axis.extent)
            found.masks += edges + _outside_edges(builder, axis.sub, axis.beyond)
            found.offsets.append(_scaled(builder, _indexed(builder, axis.sub), axis.stride))
            if builder.function.attrs.get("strict_bounds") and _is_loaded(axis.sub):
                found.bounds += [IndexBound(axis.number, edge, True) for edge in edges]
    found.offsets += [_scaled(builder, term.index, term.stride) for term in joined(ir, found.terms)]
    offset = ir.broadcast(_sum(builder, found.offsets), form.shape)
    mask: Value | None = None
    for each in found.masks:
        mask = each if mask is None else ir.value("and", *ir.same_shape([mask, each]))
    if mask is not None:
        mask = None if constant_of(mask) is True else ir.broadcast(mask, form.shape)
    return Place(access.memory.value, stage, offset, mask, found.bounds, _told(builder, access, axes, form))


def _told(builder: Building, access: Access, axes: list[_Axis], form: _Form) -> list[Subscript] | str | None:
    """Returns the subscripts of a tensor that TMA may copy. If TMA cannot copy this part, returns a str that states
    why. Returns None if neither the schedule nor the compiler's plan requires TMA."""
    memory, found, spans = access.memory, [], 0
    if not isinstance(memory, Tensor):
        return None
    way = builder.function.by_subject("stage", str).get(memory.parameter.name)
    if way != "tma" and not (builder.finds_boxes and way is None):
        return None
    if memory.axes is None:
        return "it is read through a view that has other axes"
    digits = Digits(builder.ir, builder.facts)
    for own, axis in zip(memory.axes, axes, strict=True):
        index: TileIndex | None
        outside, tile = (False, False), None
        if isinstance(axis.sub, Span):
            place = form.place_of_span(spans)
            index = TileIndex(_indexed(builder, axis.sub.start), (Digit(place, count=axis.sub.extent),))
            spans += 1
        elif _is_tile(axis.sub):
            tile = form.placed(builder, axis.sub)
            index = digits.of(tile)
            first, last = _both_edges(builder, axis.sub, axis.extent) if index is not None else (None, None)
            outside = first is not None, last is not None
        else:
            index = TileIndex(_indexed(builder, axis.sub))
        if index is None and (tile is None or not _is_loaded(tile)):
            return f"its index along axis {axis.number} {UNTOLD}"
        is_told, index = index is not None, index or TileIndex(digits.b.index(0))
        found.append(Subscript(own, index, axis.extent, outside, tile, is_told))
    return found


def _axes(builder: Building, access: Access, found: _Parts) -> tuple[Value | None, list[_Axis]]:
    """Returns the stage that an access selects, and the axes of the access. If the memory is a part of a shared tile,
    adds the part's offset and masks to `found`."""
    memory, subs = access.memory, list(access.subscripts)
    if isinstance(memory, Table):
        return None, [_Axis(0, subs[0], memory.length, 1)]
    if isinstance(memory, Tensor):
        rows = zip(subs, memory.dims, memory.strides, strict=True)
        return None, [_Axis(number, *each) for number, each in enumerate(rows)]
    found.masks += memory.inside
    found.offsets += [] if memory.base is None else [memory.base]
    windows = memory.windows or ((),) * len(memory.extents)
    parts = zip(subs, memory.extents, memory.strides, windows, strict=True)
    axes = [_Axis(number, *each) for number, each in enumerate(parts)]
    if not memory.has_stages or isinstance(subs[0], Span) or _is_tile(subs[0]):
        if memory.has_stages and memory.value.type.ring:  # type: ignore[union-attr]
            builder.error("type", access.loc, "the stage of a ring is chosen by a scalar")
        return memory.stage, axes
    return _stage_chosen(builder, memory, axes.pop(0), found.masks), axes


def _stage_chosen(builder: Building, tile: SharedTile, axis: _Axis, masks: list[Value]) -> Value:
    """Returns the stage that a scalar subscript selects. The stage number of a ring wraps around. In a tile that is no
    ring, an out-of-range stage is masked off."""
    stage = _indexed(builder, axis.sub)
    if not tile.value.type.ring:  # type: ignore[union-attr]
        masks += _edges(builder, axis.sub, axis.extent)
    return stage


class _Form:
    """The shape of an access, by numpy's rules. Each slice keeps its axis. All index tiles broadcast to one shape. If
    the index tiles are adjacent subscripts, the broadcast shape replaces them. Otherwise it comes first."""

    def __init__(self, builder: Building, subs: list[Any], loc: Loc):
        tiles = [number for number, sub in enumerate(subs) if _is_tile(sub)]
        self.tile: tuple[int, ...] = ()
        for number in tiles:
            self.tile = broadcast_shapes(self.tile, subs[number].tile.shape, builder.ir.loc)
        others = [number for number, sub in enumerate(subs) if not isinstance(sub, Span)] if tiles else [0]
        first = others[0] if others == list(range(others[0], others[-1] + 1)) else 0
        self.before = tuple(sub.extent for sub in subs[:first] if isinstance(sub, Span))
        after = tuple(sub.extent for sub in subs[first:] if isinstance(sub, Span))
        self.shape = (*self.before, *self.tile, *after)
        if prod(self.shape) > MAX_TILE:
            builder.error("limit", loc, f"a tile of {prod(self.shape)} elements; the limit is {MAX_TILE}")

    def place_of_span(self, number: int) -> int:
        """Returns the axis of the access's shape that belongs to slice `number`. Slices are counted from 0."""
        return number if number < len(self.before) else number + len(self.tile)

    def placed(self, builder: Building, tile: Value) -> Value:
        """Reshapes an index tile to the rank of the access."""
        before, have = (1,) * len(self.before), tile.tile.shape
        behind = (1,) * (len(self.shape) - len(self.before) - len(self.tile))
        return builder.ir.reshape(tile, before + (1,) * (len(self.tile) - len(have)) + have + behind)


def _resolve_span(builder: Building, axis: _Axis, place: int, rank: int, found: _Parts) -> None:
    ir, sub = builder.ir, axis.sub
    assert isinstance(sub, Span)
    # The start and the position within the slice are multiplied by the stride separately. The product with the start is
    # a scalar, so it is computed once for all elements.
    index = _aligned(ir.value("arange", extent=sub.extent), place, rank, builder)
    whole = index
    if not (isinstance(sub.start, int) and sub.start == 0):
        start = _indexed(builder, sub.start)
        found.offsets.append(_scaled(builder, start, axis.stride))
        whole = ir.value("add", *ir.same_shape([_with_room(builder, start), index]))
    found.masks += _edges(builder, whole, axis.extent) + _outside_edges(builder, whole, axis.beyond)
    found.offsets.append(_scaled(builder, index, axis.stride))


def _resolve_tile(builder: Building, axis: _Axis, form: _Form, unmasked: Loc | None, found: _Parts) -> None:
    """Adds the offset and masks of an index tile to `found`. `unmasked` is the location of an access without a user
    mask, and None if the user gave a mask."""
    ir, sub = builder.ir, axis.sub
    assert isinstance(sub, Value)
    index = form.placed(builder, sub)
    # The user's `mask=` has to respect the edges of a part of a shared tile. The compiler masks the edges of the
    # enclosing shared tile, since the part may begin anywhere in that tile.
    found.masks += _outside_edges(builder, index, axis.beyond)
    if unmasked is not None and not builder.in_tile_if:
        # Within a tile `if`, the branch's condition may exclude the elements that are out of bounds.
        _check_tile(builder, sub, axis.extent, axis.number, unmasked)
    if builder.function.attrs.get("strict_bounds"):
        edges = _edges(builder, index, axis.extent)
        found.bounds += [IndexBound(axis.number, ir.broadcast(edge, form.shape)) for edge in edges]
    found.terms.append(IndexTerm(index, axis.stride))


def _is_loaded(index: Value | int) -> bool:
    """Whether a scalar index comes from memory, as an entry of a table of pages does."""
    sources = reached([index] if isinstance(index, Value) else [], lambda v: () if v.op is None else v.op.operands)
    return any(value.op is not None and value.op.spec.access.touches for value in sources)


def _is_tile(sub: Any) -> bool:
    return isinstance(sub, Value) and bool(sub.tile.shape)


def _with_room(builder: Building, start: Value) -> Value:
    """Clamps the start of a slice, so that adding a position within the slice does not overflow. The slice's mask
    compares this sum."""
    facts, most = builder.facts.of(start), most_elements(builder.function.index_bits)
    if (facts.high is not None and facts.high <= most) or counts_elements(start):
        return start
    return builder.ir.value("minimum", start, builder.ir.constant(most, INDEX))


def _aligned(index: Value, axis: int, rank: int, builder: Building) -> Value:
    """Reshapes a 1-D tile to rank `rank`. Its elements are then along `axis`, and the other extents are 1."""
    return builder.ir.reshape(index, (1,) * axis + index.tile.shape + (1,) * (rank - axis - 1))


def _scaled(builder: Building, index: Value, stride: int | Value) -> Value:
    if stride == 1:
        return index
    ir = builder.ir
    return ir.value("mul", *ir.same_shape([index, _indexed(builder, stride)]))


def _sum(builder: Building, parts: list[Value]) -> Value:
    """Adds all summands. Small shapes are added first, so that scalars are added once and not for each element."""
    ir = builder.ir
    total: Value | None = None
    for part in sorted(parts, key=lambda p: p.tile.size if p.tile.shape else 0):
        total = part if total is None else ir.value("add", *ir.same_shape([total, part]))
    return total if total is not None else ir.index(0)


def _edges(builder: Building, index: Value | int, extent: int | Value) -> list[Value]:
    """Builds the conditions `0 <= index` and `index < extent`. A condition that known facts prove is left out."""
    return [each for each in _both_edges(builder, index, extent) if each is not None]


def _both_edges(builder: Building, index: Value | int, extent: int | Value) -> tuple[Value | None, Value | None]:
    """Builds the conditions `0 <= index` and `index < extent`. A condition that known facts prove is None."""
    ir = builder.ir
    low, high = _bounds(builder, index)
    least, _ = _bounds(builder, extent)
    begins, ends = None, None
    if low is None or low < 0:
        zero, v = ir.same_shape([ir.index(0), _indexed(builder, index)])
        begins = ir.value("le", zero, v)
    if high is None or least is None or high >= least:
        v, b = ir.same_shape([_indexed(builder, index), _indexed(builder, extent)])
        ends = ir.value("lt", v, b)
    first, last = (None if each is None or constant_of(each) is True else each for each in (begins, ends))
    return first, last


def _bounds(builder: Building, index: Value | int) -> tuple[int | None, int | None]:
    """Returns the least and the greatest value of an index. An unknown bound is None."""
    if isinstance(index, int):
        return index, index
    facts = builder.facts.of(index)
    return facts.low, facts.high


def _indexed(builder: Building, index: Value | int) -> Value:
    return index if isinstance(index, Value) else builder.ir.index(index)


# ---- reading and writing ------------------------------------------------------------------------------------


def operands_of(place: Place, more: dict[str, Value | None]) -> dict[str, Value | None]:
    """Returns the operands of a memory operation by name: memory, stage, offset and the operands in `more`."""
    return {"memory": place.memory, "stage": place.stage, "offset": place.offset} | more


def join_masks(builder: Building, place: Place, mask: Binding, loc: Loc) -> Value | None:
    """Returns the conjunction of the edge mask and the user's mask. With `strict_bounds`, the kernel asserts that each
    active element is in bounds."""
    own = _own_mask(builder, place, mask, loc)
    joined = place.mask if own is None else own
    if own is not None and place.mask is not None:
        joined = builder.ir.value("and", place.mask, own)
    for bound in place.bounds:
        builder.place(loc)
        holds, on = bound.inside, own if bound.is_entry else joined
        if on is not None:
            holds = builder.ir.value("or", *builder.ir.same_shape([builder.ir.value("not", on), holds]))
        builder.ir.op("assert", [holds], message="an index lies outside of its axis", line=loc.line, axis=bound.axis)
        builder.function.attrs["record"] = True
    return joined


def _own_mask(builder: Building, place: Place, mask: Binding, loc: Loc) -> Value | None:
    """Returns the user's mask in the shape of an access, or None."""
    if mask is None or mask is True:
        return None
    value = builder.as_value(mask, loc, I1)
    if value.dtype is not I1:
        builder.error("type", loc, f"mask= takes i1; this is {value.tile}", "compare with '!= 0'")
    shape = place.offset.tile.shape
    check_fits(builder, value, shape, "the mask", loc)
    builder.place(loc)
    return builder.ir.broadcast(value, shape)


def check_fits(builder: Building, value: Value, shape: tuple[int, ...], what: str, loc: Loc) -> None:
    """Raises an error unless `value` can be broadcast to the `shape` of an access."""
    have = value.tile.shape
    padded = (1,) * (len(shape) - len(have)) + have
    if len(have) > len(shape) or any(h not in (1, e) for h, e in zip(padded, shape, strict=True)):
        part = f"the part of memory has shape {list(shape)}" if shape else "the part of memory is one element"
        builder.error("shape", loc, f"{what} has shape {list(have)}; {part}", _reshaped_hint(value, shape))


def _reshaped_hint(value: Value, shape: tuple[int, ...]) -> str:
    """Returns a hint on how to give `value` the shape of the accessed part of memory."""
    op = value.op
    if op is not None and op.spec.algebra.unordered:
        whole, axis = op.operands[0].tile.shape, op.attrs["axis"]
        for other in range(len(whole)):
            if other != axis and (*whole[:other], *whole[other + 1 :]) == shape:
                return f"a reduction along axis={axis} keeps the other axes; along axis={other} it has {list(shape)}"
    have = value.tile.shape
    if have[::-1] == shape:
        return ".T transposes it"
    if tuple(e for e in have if e != 1) == tuple(e for e in shape if e != 1) and len(have) > len(shape):
        return f"[{', '.join('0' if e == 1 else ':' for e in have)}] takes the axes of extent 1 away"
    return "one value for each element of the part: [:, None] and [None, :] give it axes, a reduction takes one"


def read(
    builder: Building,
    access: Access,
    loc: Loc,
    mask: Binding = None,
    other: Binding = None,
    cache: str | None = None,
    evict: str | None = None,
    is_masked: bool = False,
) -> Value:
    """Emits the load for an access. `is_masked` allows out-of-bounds indices, as a user's mask does."""
    place = resolve(builder, access, is_masked or not (mask is None or mask is True))
    dtype = place.memory.dtype
    joined = join_masks(builder, place, mask, loc)
    fill: Value | None = None
    if joined is not None:
        zero: Binding = False if dtype is I1 else 0
        fill = builder.as_value(zero if other is None else other, loc, dtype)
        if fill.dtype is not dtype:
            builder.error("type", loc, f"other= is {fill.tile}; the elements are {dtype}")
        check_fits(builder, fill, place.offset.tile.shape, "other=", loc)
        fill = builder.ir.broadcast(fill, place.offset.tile.shape)
    cache, evict = policy(builder, access, cache, evict)
    builder.place(loc)
    of_box, more = _named_box(builder, access, place, mask, loads=True)
    named = operands_of(place, {"mask": joined, "other": fill} | of_box)
    return builder.ir.access("load", named, cache=cache, evict=evict, **more).result


class PassedPart(Struct):
    """A part of memory, such as `x[r : r + 8]`, that is an argument of a def. `value` is loaded at the start of the
    call."""

    access: Access
    value: Value
    loc: Loc
    in_tile_if: bool

    def check(self, builder: Building) -> None:
        """Raises an error for an index that is out of bounds. The check runs only if the def reads the value. A def
        that uses the part as memory may mask the access itself."""
        memory = self.access.memory
        extents = memory.dims if isinstance(memory, Tensor) else getattr(memory, "extents", ())
        for axis, (sub, extent) in enumerate(zip(self.access.subscripts, extents, strict=False)):
            if _is_tile(sub) and not self.in_tile_if:
                _check_tile(builder, sub, extent, axis, self.loc)


def read_for_def(builder: Building, access: Access, loc: Loc) -> PassedPart:
    """Loads a part of memory that is passed to a def. If the def uses the part only as memory and never reads the
    value, `end_of_build` removes the load."""
    before = len(builder.ir.block.ops)
    value = read(builder, access, loc, is_masked=True)
    load, others = value.op, builder.ir.block.ops[before:]
    assert load is not None
    builder.ir.spare(load, [op for op in others if not op.spec.pure and op is not load])
    return PassedPart(access, value, builder.at(access.loc), bool(builder.in_tile_if))


def _named_box(
    builder: Building, access: Access, place: Place, mask: Binding, loads: bool
) -> tuple[dict[str, Value | None], dict[str, object]]:
    """Returns the operands and attributes of an access's TMA box. If the access has no TMA box, the attribute `no_box`
    states why."""
    box, cut = _box(builder, access, place, mask, loads)
    if isinstance(box, CopiedBox):
        return box.operands | {CUT: cut}, box.attrs
    return {}, {} if box is None else {"no_box": box}


def box_of_atomic(
    builder: Building, access: Access, place: Place, mask: Binding
) -> tuple[dict[str, Value | None], dict[str, object]]:
    """Returns the operands and attributes of the TMA box of an atomic, if the schedule says that TMA reduces it."""
    parameter = getattr(access.memory, "parameter", None)
    said = builder.function.by_subject("stage", str).get(parameter.name) if parameter is not None else None
    return _named_box(builder, access, place, mask, loads=False) if said == "tma" else ({}, {})


def _box(
    builder: Building, access: Access, place: Place, mask: Binding, loads: bool
) -> tuple[CopiedBox | str | None, Value | None]:
    """Returns the TMA box of an access, and the part of its mask that excludes elements of the box. Only a load may
    have such a part. If there is no box, returns a str that states why. Returns None if neither the schedule nor the
    compiler's plan requires TMA."""
    if place.subscripts is None or isinstance(place.subscripts, str):
        return place.subscripts, None
    digits, shape = Digits(builder.ir, builder.facts), place.offset.tile.shape
    if mask is False:
        return "its mask is off", None
    said, cut = builder.ir.broadcast(mask, shape) if isinstance(mask, Value) else None, None
    try:
        of_table = next((each.axis for each in place.subscripts if not each.is_told), None)
        if of_table is not None and not loads:
            return f"its index along axis {of_table} {UNTOLD}", None
        cut = check_mask(digits, said, place.subscripts)
        if cut is not None and not loads:
            return MASKED, None
        contiguous = isinstance(access.memory, Tensor) and not access.memory.parameter.strided
        # A TMA store that begins before the tensor's first element raises an illegal instruction on the GPU. No manual
        # documents this fault (17 corners tried on an H200, driver 580.159.04). TMA loads return zeros there.
        if not loads:
            check_begin(builder.facts, place.subscripts)
        if of_table is not None:
            return box_of_rows(digits, place.subscripts, shape, said), cut
        box = box_of_access(digits, place.subscripts, shape, loads, contiguous)
        return (MASKED, None) if cut is not None and box.walks else (box, cut)
    except NoBox as reason:
        return str(reason) if cut is None or of_table is not None else MASKED, None


def write(
    builder: Building,
    access: Access,
    value: Binding,
    loc: Loc,
    mask: Binding = None,
    cache: str | None = None,
    evict: str | None = None,
    order: str | None = None,
) -> None:
    """Emits the store for an access. `order="none"` promises that all such stores to a tensor write different
    elements."""

    if isinstance(access.memory, Table):
        builder.error("type", loc, "a table cannot be written")
    place = resolve(builder, access, not (mask is None or mask is True))
    dtype = place.memory.dtype
    stored = stored_value(builder, value, dtype, place, loc)
    joined = join_masks(builder, place, mask, loc)
    builder.place(loc)
    if builder.in_tile_if and not place.offset.tile.shape:
        message = "a scalar is stored by one thread, which may not take this branch"
        builder.error("type", loc, message, "index by the tile")
    cache, evict = policy(builder, access, cache, evict)
    of_box, more = _named_box(builder, access, place, mask, loads=False)
    named = operands_of(place, {"mask": joined, "value": stored} | of_box)
    order_of = {"order": order} if order else {}
    builder.ir.access("store", named, cache=cache, evict=evict, **order_of, **more)


def policy(builder: Building, access: Access, cache: str | None, evict: str | None) -> tuple[str | None, str | None]:
    """Returns the cache operator and the eviction priority of an access. If the call states neither, the schedule's
    lines for the tensor decide."""
    parameter = getattr(access.memory, "parameter", None)
    if parameter is None or cache or evict:
        return cache, evict
    said = (builder.function.by_subject(name, str).get(parameter.name) for name in ("cache", "evict"))
    return next(said), next(said)


def stored_value(builder: Building, value: Binding, dtype: DType, place: Place, loc: Loc) -> Value:
    stored = builder.as_value(value, loc, dtype)
    if stored.dtype is not dtype:
        if {stored.dtype.name, dtype.name} == {"index", "s32"}:
            stored = builder.ir.value("cast", stored, to=dtype, saturate=False, rounding=None)
        else:
            message = f"a value of {stored.dtype} is stored to elements of {dtype}"
            builder.error("type", loc, message, f"convert it with .to({dtype})")
    shape = place.offset.tile.shape
    check_fits(builder, stored, shape, "the value", loc)
    builder.place(loc)
    return builder.ir.broadcast(stored, shape)


def whole(builder: Building, tile: SharedTile, loc: Loc) -> Access:
    """Returns an access to all elements of a shared tile."""

    for extent in tile.extents:
        builder.check_extent(extent, loc, "an extent")
    return Access(tile, [Span(0, e) for e in tile.extents], loc)


def narrow(builder: Building, access: Access) -> SharedTile:
    """Returns the accessed part of a shared tile as a SharedTile of its own. A scalar subscript drops its axis, and a
    slice keeps its axis."""

    tile = access.memory
    assert isinstance(tile, SharedTile)
    ir = builder.ir
    builder.place(access.loc)
    subs, extents, strides = list(access.subscripts), list(tile.extents), list(tile.strides)
    stage, base, inside = tile.stage, tile.base, list(tile.inside)
    windows = tile.windows or ((),) * len(extents)
    if tile.has_stages:
        if isinstance(subs[0], Span) or _is_tile(subs[0]):
            builder.error("type", access.loc, "a part of a shared tile starts with one stage", "choose it by a scalar")
        chosen = _Axis(0, subs.pop(0), extents.pop(0), strides.pop(0))
        stage, windows = _stage_chosen(builder, tile, chosen, inside), windows[1:]
    out_extents, out_strides, out_windows = [], [], []
    for sub, extent, stride, outer in zip(subs, extents, strides, windows, strict=True):
        if _is_tile(sub):
            builder.error("type", access.loc, "a part of a shared tile is chosen by scalars and slices")
        start = sub.start if isinstance(sub, Span) else sub
        step = ir.value("mul", start, ir.index(stride)) if isinstance(start, Value) else ir.index(start * stride)
        base = step if base is None else ir.value("add", base, step)
        if isinstance(sub, Span):
            out_extents.append(sub.extent)
            out_strides.append(stride)
            moved = ((start, extent), *((_moved(builder, start, at), beyond) for at, beyond in outer))
            out_windows.append(tuple(each for each in moved if not _holds(builder, sub.extent, *each)))
        else:
            inside += _edges(builder, sub, extent)
            inside += _outside_edges(builder, sub, outer)
    return SharedTile(tile.value, out_extents, out_strides, stage, base, False, tuple(inside), tuple(out_windows))


def _moved(builder: Building, index: Value | int, by: Value | int) -> Value | int:
    """Returns `index + by`. The sum is a Python number if both summands are."""
    if isinstance(index, int) and isinstance(by, int):
        return index + by
    return builder.ir.value("add", *builder.ir.same_shape([_indexed(builder, by), _indexed(builder, index)]))


def _holds(builder: Building, size: int, start: Value | int, extent: int) -> bool:
    """Whether known facts prove that the `size` elements from `start` on lie within `extent`."""
    low, high = _bounds(builder, start)
    return low is not None and low >= 0 and high is not None and high + size <= extent


def _outside_edges(builder: Building, index: Value | int, windows: tuple[tuple[Value | int, int], ...]) -> list[Value]:
    """Builds the conditions that an index of a part is in bounds of each enclosing shared tile. An entry of `windows`
    contains the part's first index in an enclosing tile, and this tile's extent."""
    return [edge for at, extent in windows for edge in _edges(builder, _moved(builder, index, at), extent)]


NO_ADDRESS = "elements of a register tile have no address: use where, reduce or a shared tile"


def index_tile(builder: Building, tile: Value, node: ast.Index) -> Value:
    """Applies subscripts to a tile in registers. `t[:, None]` adds an axis of extent 1. `t[:, 16:32]` and `t[3]` select
    a part of the tile."""
    axes = list(tile.tile.shape)
    rank = len(axes)
    if sum(not ast.is_none(sub) for sub in node.subscripts) > rank:
        builder.error("shape", node.loc, f"{tile.tile} has {len(axes)} axes", "None adds one")
    shape: list[int] = []  # extents of the result, for the subscripts handled so far
    for sub in node.subscripts:
        loc = sub.loc if sub.loc.end else node.loc
        if ast.is_none(sub):
            shape.append(1)
            continue
        extent = axes.pop(0)
        if isinstance(sub, ast.Slice) and sub.start is None and sub.stop is None:
            shape.append(extent)
            continue
        start, size = _constant_part(builder, sub, extent, rank - len(axes) - 1, loc)
        builder.place(node.loc)
        parts = builder.ir.reshape(tile, (*shape, extent // size, size, *axes))
        tile = builder.ir.value("pick", parts, axis=len(shape), index=start // size)
        if isinstance(sub, ast.Slice):
            shape.append(size)
        elif not shape and not axes:
            hint = f"{NO_ADDRESS}; [{start} : {start + 1}] keeps an axis, and (0).to({tile.dtype}) is a new scalar"
            builder.error("type", loc, "a part of a register tile is a tile; this is one element", hint)
        else:
            tile = builder.ir.reshape(tile, (*shape, *axes))
    builder.place(node.loc)
    return builder.ir.reshape(tile, (*shape, *axes))


def _constant_part(builder: Building, sub: Any, extent: int, axis: int, loc: Loc) -> tuple[int, int]:
    """Returns (start, size) of a slice or index into a register tile. Both must be constants, since they select
    registers. `start` must be a multiple of `size`."""
    bounds = (sub.start, sub.stop) if isinstance(sub, ast.Slice) else (sub, None)
    numbers: list[int] = []
    for bound, default in zip(bounds, (0, extent), strict=True):
        number = default if bound is None else builder.expr(bound)
        if isinstance(number, Value):
            number = constant_of(number)
        if isinstance(number, bool) or not isinstance(number, int):
            message = f"a part of a register tile is chosen by constants, not {describe(number)}"
            builder.error("type", loc, message, NO_ADDRESS)
        numbers.append(number)
    start, size = numbers[0], numbers[1] - numbers[0] if isinstance(sub, ast.Slice) else 1
    builder.check_extent(size, loc, "the extent of a slice")
    if not isinstance(sub, ast.Slice):
        _check_number(builder, start, extent, axis, loc)
    elif not 0 <= start <= extent - size:
        message = f"the slice {start} : {start + size} is not inside of axis {axis}, which has {extent} elements"
        builder.error("bounds", loc, message, "a part of a register tile lies inside of it: nothing masks it")
    if start % size:
        message = f"a part of {size} of a register tile's {extent} begins at a multiple of {size}, not at {start}"
        builder.error("extent", loc, message, "other parts go through a shared tile")
    return start, size
