"""Divides unaligned rows into parts that are aligned to `step` elements.

In the figure, each letter is an element. The body (B) of a row begins at the row's first address that is a multiple of
`step` elements, and ends at its last such address. The edges (e) are in front of the body and behind it, with fewer
than `step` elements each. An access to the body covers a whole part. The two edges together form one more part. The
parts have more positions than the tile has columns, so some positions have no column.

    x      . . . . . e e e B B B B B B B B B B B B B B B B e e . . .
           ^ multiple      ^ head                          ^ head + whole
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod

from msgspec import Struct

from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.beyond import Beyond
from dsl.lowering.directives.cluster_tiles import parts_of_block
from dsl.lowering.directives.slices import slice_of
from dsl.lowering.directives.wide import Wide, WideRegion, slices, starts_with, tiles_of
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, in_line
from dsl.lowering.ir.types import INDEX, TensorType
from dsl.lowering.known.affine import AffineOffsets
from dsl.lowering.known.facts import facts_now
from dsl.lowering.known.forms import Forms
from dsl.lowering.ops import operand
from dsl.lowering.shared.access_width import MAX_BYTES, offset_of

Terms = tuple[tuple[Value, int], ...]
"""Pairs of a value that is constant along a row, and its factor."""
Told = tuple[Terms, int]
"""Represents the sum of terms, plus a factor times the column number."""


class _Sums(Forms[Told]):
    """Rewrites an index tile as a sum: a multiple of the column number, plus values that are constant along the last
    axis."""

    def of(self, value: Value) -> Told | None:
        if not value.tile.shape or value.tile.shape[-1] == 1:
            return ((value, 1),) if constant_of(value) != 0 else (), 0
        return self.told(value)

    def counted(self, op: Op) -> Told:
        return (), 1

    def number(self, op: Op) -> Told:
        return ((op.result, 1),), 0

    def added(self, op: Op, sign: int) -> Told | None:
        a, b = (self.of(v) for v in op.operands)
        if a is None or b is None:
            return None
        return a[0] + tuple((value, sign * times) for value, times in b[0]), a[1] + sign * b[1]

    def repeated(self, op: Op) -> Told | None:
        return self.of(op.operands[0])

    reshaped = repeated


class _Ends(Forms[tuple[Value, Terms]]):
    """Finds the end of a row in a flag `column + terms < value`. Returns `value`, and the terms to subtract from it."""

    def ordered(self, op: Op, low: int, apart: int) -> tuple[Value, Terms] | None:
        below, above = (_SUMS.of(op.operands[i]) if op.operands[0].dtype is INDEX else None for i in (low, 1 - low))
        if below is None or above is None or below[1] != 1 or above[1] or len(above[0]) != 1 or apart != 1:
            return None
        return above[0][0][0], below[0]

    def repeated(self, op: Op) -> tuple[Value, Terms] | None:
        return self.told(op.operands[0])

    reshaped = repeated


_SUMS, _ENDS = _Sums(), _Ends()


def flags_of(mask: Value | None) -> Iterator[Value]:
    """Yields the flags that a mask combines by `&`."""
    if mask is not None and mask.op is not None:
        if mask.op.spec.algebra.masks == "all" or (mask.op.spec.elements.reshapes and mask.op.operands[0].tile.shape):
            for each in mask.op.operands:
                yield from flags_of(each)
        else:
            yield mask


class AnyRows(Struct):
    """Unaligned rows of a region.

    Parts of the body are aligned to `step` elements. A row starts at offset `start` of its tensor. `offsets` contains
    the index tiles with the offsets of its elements. A row has the columns below `end`, and the flags in `inside`
    compare columns with `end`. `rows` is the shape of the tile without its last axis. `leave` contains the reductions
    that need no mask at positions past the end of a row.
    """

    region: WideRegion
    step: int
    start: Terms
    offsets: set[Value]
    end: tuple[Value, Terms]
    inside: set[Value]
    rows: tuple[int, ...]
    leave: set[Op]

    def tail(self, part: int) -> int:
        """Returns the number of parts at the end of each block's parts of a row that may have positions without a
        column."""
        # The edges contain fewer than 2 · step columns of a row, so as many positions of the body are unused.
        blocks, _ = parts_of_block(self.region, part)
        return -(-2 * self.step // (part * blocks))

    def check_joins(self, part: int, threads: int) -> None:
        """Raises TileError `schedule` if a reduction cannot mask out positions without a column."""
        lanes, edges = lanes_of(self, part, threads)
        # At a position without a column, the accumulator of the earlier parts stays as it is. If there is no earlier
        # part, the neutral number must be known.
        if lanes == edges and parts_of_block(self.region, part)[1] > self.tail(part):
            return
        for sink in self.region.sinks:
            if sink.results and starts_with(sink) is None:
                what = f"'{sink.spec.symbol or sink.name}'{in_line(sink)}"
                said = f"the reduction by {what} has no known neutral number"
                raise self.region.about.refused(said, "several parts, and two lanes an element of the step at least")


def rows_of(region: WideRegion, step: int | None) -> AnyRows:
    """Finds the rows of a region, from its first access and all accesses with the same offsets. If `step` is None,
    parts are aligned to 16 bytes of the widest element type. Raises TileError `schedule` if the region has no such
    rows.
    """
    if region.carried:
        raise region.about.refused("a loop carries tiles of them", "parts that a 'loop' line keeps in registers")
    affines, found = AffineOffsets(), accesses(region)
    start = _start_of(region, found)
    offset = offset_of(found[0])
    _check_frame(region, offset.shape)
    numbers = {v for op in slices(_wides(region)) for v in op.results if v.dtype is INDEX and v.shape == offset.shape}
    offsets = {v for v in numbers | {offset} if affines.offsets(v) == affines.offsets(offset)}
    mine = [op for op in found if offset_of(op) in offsets]
    end = _end_of(region, mine, step is not None)
    inside = {flag for flag in _all_flags(region) if _ENDS.told(flag) == end}
    beyond = Beyond(region, inside)
    for sink in region.sinks:
        if not sink.results and not inside & set(flags_of(operand(sink, "mask"))):
            raise region.about.refused(f"a store{in_line(sink)} goes on past their end", "a mask: c < cols")
    leave = {sink for sink in region.sinks if sink.results and beyond.leaves(sink)}
    widest = max(op.operands[0].dtype.bytes for op in mine)
    step = MAX_BYTES // widest if step is None else step
    return AnyRows(region, step, start, offsets, end, inside, offset.shape[:-1], leave)


def _start_of(region: WideRegion, found: list[Op]) -> Terms:
    """Returns the offset at which each row of the first access starts. Raises TileError `schedule` if its columns are
    not contiguous."""
    told = _SUMS.of(offset_of(found[0])) if found else None
    if told is None or told[1] != 1:
        said = f"its columns{in_line(found[0])} are no neighbours" if found else "nothing of them is loaded or stored"
        raise region.about.refused(said, "columns that are counted: x[r, 0 : COLS]")
    start = told[0]
    if set(slice_of(region.block.ops, [value for value, _ in start])) & region.sinks.keys():
        raise region.about.refused("where they begin depends on what is computed from them", "leave them as they are")
    return start


def _end_of(region: WideRegion, accesses: list[Op], said: bool) -> tuple[Value, Terms]:
    """Finds an end of rows that is in the masks of all `accesses`. Raises TileError `schedule` if there is none."""
    first, *others = (_ends_of(region, operand(op, "mask"), said) for op in accesses)
    ends = [end for end in first if all(end in each for each in others)]
    if not ends:
        raise region.about.refused("nothing says where they end", "a slice, or a mask of each access: c < cols")
    return ends[0]


def accesses(region: WideRegion) -> list[Op]:
    """Returns the region's accesses to tensors, loads first."""
    loads = [op for op in region.block.ops if op.spec.access.kind == "read" and op.result in region.axes]
    stores = [sink for sink in region.sinks if not sink.results]
    return [op for op in (*loads, *stores) if isinstance(op.operands[0].type, TensorType)]


def _ends_of(region: WideRegion, mask: Value | None, said: bool) -> list[tuple[Value, Terms]]:
    """Returns the row ends in the flags of a mask. Without an `align` line, only dims and constants are possible ends.
    With one (`said`), other scalars are possible, too, such as the extent of a reshaped tensor."""
    # Dims come first: no row has elements past a dim. Another scalar may end in the middle of a row.
    told = [end for flag in flags_of(mask) if (end := _ENDS.told(flag)) is not None]
    dims = [end for end in told if end[0] in region.function.dims.values() or constant_of(end[0]) is not None]
    return dims + [end for end in told if said and end not in dims and _stands_ahead(region, end[0])]


def _stands_ahead(region: WideRegion, value: Value) -> bool:
    """Whether `value` is a scalar that does not depend on the rows' reductions."""
    return not value.tile.shape and not set(slice_of(region.block.ops, [value])) & region.sinks.keys()


def _wides(region: WideRegion) -> Iterator[Wide]:
    for sink, axis in region.sinks.items():
        yield from ((tile, axis) for tile in tiles_of(sink))


def _all_flags(region: WideRegion) -> Iterator[Value]:
    """Yields all flags that the parts of the region depend on."""
    for op in slices(_wides(region)):
        yield from (result for result in op.results if op.spec.elementwise and result.dtype.bits == 1)


def _check_frame(region: WideRegion, shape: tuple[int, ...]) -> None:
    """Raises TileError `schedule` for an operation that combines elements of several rows: in a part, each row has its
    own columns."""
    many = prod(shape[:-1]) > 1
    for op in slices(_wides(region)):
        spec = op.spec
        if not (spec.elementwise or spec.access.kind or spec.elements.reshapes or spec.elements.kind):
            said = f"'{spec.symbol or op.name}'{in_line(op)} combines rows"
            raise region.about.refused(said, "only what is computed row by row")
    for sink, axis in region.sinks.items():
        for tile in tiles_of(sink):
            alike = tile.shape == shape or not (many or sink.results or prod(tile.shape[:-1]) > 1)
            if axis != len(tile.shape) - 1 or not alike:
                said = f"a tile of {list(tile.shape)}{in_line(sink)} has other rows than {list(shape)}"
                raise region.about.refused(said, "one row a block")


def lanes_of(rows: AnyRows, part: int, threads: int) -> tuple[int, int]:
    """Returns the number of lanes that share a part of a row, and the number of positions in both edges."""
    # The edges have at least one position per lane. So each lane combines its position of the edges with its elements
    # of the body.
    lanes = min(max(1, threads // max(1, prod(rows.rows))), max(1, part // rows.step))
    return lanes, max(2 * rows.step, lanes)


class RowPart(Struct):
    """The same part of all rows. `known` contains tiles whose parts need no computation. `column` is the column of each
    position. `here` is true at positions that have a column."""

    known: dict[Wide, Value]
    column: Value
    here: Value


class _Congruent(Forms[Value]):
    """Builds values that differ from others by multiples of `step`: without the terms that are such multiples. Rows
    that are multiples of `step` rows apart then begin at one place of an access, whichever of them it is."""

    def __init__(self, b: Builder, step: int):
        self.b, self.step = b, step

    def of(self, value: Value) -> Value:
        assert self.b.facts is not None
        if self.b.facts.of(value).every % self.step == 0:
            return self.b.broadcast(self.b.index(0), value.tile.shape)
        return self.told(value) or value

    def again(self, op: Op) -> Value:
        return self.b.value(op.name, *(self.of(v) for v in op.operands), **op.attrs)

    def added(self, op: Op, sign: int) -> Value:
        return self.again(op)

    multiplied = repeated = reshaped = again


class RowParts:
    """Computes the columns and offsets of each part of the rows. Values that are constant along a row have the shape
    `rows` x 1, or are scalars. If `has_edges` is given, this block has the edges only where the flag is true."""

    def __init__(self, b: Builder, of: AnyRows, part: int, threads: int, has_edges: Value | None = None):
        self.b, self.of, self.part, self.has_edges = b, of, part, has_edges
        self.one = (*of.rows, 1) if of.rows else ()
        step = self.number(of.step)
        self.extent = self.number(of.region.extent)
        end = self.sum([(of.end[0], 1), *((v, -n) for v, n in of.end[1])])
        self.end = self.b.value("minimum", self.b.value("maximum", end, self.number(0)), self.extent)
        self.start = self.sum(of.start)
        over = self.b.value("mod", _Congruent(self.b, of.step).of(self.start), step)
        head = self.b.value("mod", self.b.value("sub", step, over), step)
        self.head = self.b.value("minimum", head, self.end)
        behind = self.b.value("floordiv", self.b.value("sub", self.end, self.head), step)
        self.whole = self.b.value("mul", behind, step)
        self.aside = self.b.value("sub", self.end, self.whole)  # number of elements in the edges
        up = self.b.value("floordiv", self.b.value("add", self.aside, self.number(of.step - 1)), step)
        self.idle = self.b.value("mul", up, step)  # number of positions at the end of the body without columns
        first = self.b.value("floordiv", self.b.value("add", self.start, self.number(of.step - 1)), step)
        self.first = self.b.value("mul", first, step)
        self.lanes, self.edges = lanes_of(of, part, threads)
        self.made: dict[tuple[Block, Value | None], RowPart] = {}  # by block: values of a loop are not known outside

    def number(self, number: int) -> Value:
        return self.b.broadcast(self.b.index(number), self.one)

    def sum(self, terms: Sequence[tuple[Value, int]]) -> Value:
        total = self.number(0)
        for value, times in terms:
            total = self.b.value("add" if times > 0 else "sub", total, self.b.broadcast(value, self.one))
        return total

    def body(self, stage: Value) -> RowPart:
        """Returns part number `stage` of the body."""
        return self._once(stage, lambda: self._body(stage))

    def both_edges(self) -> RowPart:
        """Returns the edges: `step` positions in front of the body, and `step` positions behind it."""
        return self._once(None, self._both_edges)

    def _once(self, stage: Value | None, make: Callable[[], RowPart]) -> RowPart:
        """Returns a part that several phases need, which `make` computes."""
        key = self.b.block, stage
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def _body(self, stage: Value) -> RowPart:
        """Computes part number `stage` of the body. The first positions of the body are the row's own columns. The
        columns past the end of the row follow. No column occurs twice."""
        # No column may be lost or repeated, because a kernel may use columns past a row's end, such as in a sum of v -
        # 1.0.
        b, shape = self.b, (*self.of.rows, self.part)
        origin = b.value("mul", stage, b.index(self.part))
        at = b.value("add", b.broadcast(origin, (self.part,)), b.value("arange", extent=self.part))
        at = b.broadcast(at, shape)
        own = b.value("lt", at, b.broadcast(self.whole, shape))
        here = b.value("lt", at, b.broadcast(b.value("sub", self.extent, self.idle), shape))
        further = b.value("add", at, b.broadcast(self.aside, shape))
        # Positions without columns count on, so that columns are neighbours in each group of `step` positions.
        behind = b.value("select", here, further, at)
        column = b.value("select", own, b.value("add", b.broadcast(self.head, shape), at), behind)
        return RowPart(self._known(b.value("add", b.broadcast(self.first, shape), at), own), column, here)

    def _both_edges(self) -> RowPart:
        """Computes the edges. Unused positions get the tile's last columns, which are not in the body."""
        b, shape, step = self.b, (*self.of.rows, self.edges), self.of.step

        def wide(value: Value) -> Value:
            return b.broadcast(value, shape)

        at, none = wide(b.value("arange", extent=self.edges)), wide(b.index(0))
        before = b.value("lt", at, wide(b.index(step)))
        behind = b.value("add", self.head, b.value("sub", self.whole, self.number(step)))
        column = b.value("select", before, at, b.value("add", at, wide(behind)))
        own = b.value("lt", column, b.value("select", before, wide(self.head), wide(self.end)))
        if self.edges > 2 * step:
            own = b.value("and", own, b.value("lt", at, wide(b.index(2 * step))))
        if self.has_edges is not None:
            own = b.value("and", own, wide(self.has_edges))
        edge = b.value("select", before, wide(self.head), wide(self.aside))
        free = b.value("sub", at, edge)  # numbers the free positions from 0
        left = b.value("sub", self.idle, self.aside)
        more = b.value("and", b.value("lt", free, wide(left)), b.value("lt", at, wide(b.index(2 * step))))
        if self.has_edges is not None:
            more = b.value("and", more, wide(self.has_edges))
        last = b.value("add", free, wide(b.value("sub", self.extent, left)))
        rest = b.value("select", more, last, none)
        offset = b.value("add", wide(self.start), column)
        return RowPart(self._known(offset, own), b.value("select", own, column, rest), b.value("or", own, more))

    def _known(self, offset: Value, own: Value) -> dict[Wide, Value]:
        known = {(each, len(each.shape) - 1): offset for each in self.of.offsets}
        return known | {(each, len(each.shape) - 1): own for each in self.of.inside}

    def grouped(self, accumulator: Value) -> tuple[tuple[int, ...], int, int, int]:
        """Computes how lanes share a row of an accumulator. Returns the shape of all rows, the runs per lane, the
        number of lanes, and the contiguous elements per run."""
        extent = accumulator.shape[-1]
        near = self.of.step if extent == self.part else extent // self.lanes
        return self.of.rows, extent // (self.lanes * near), self.lanes, near


def is_aligned(function: Function, rows: AnyRows) -> bool:
    """Whether all rows are known to begin at multiples of `rows.step` elements."""
    facts = facts_now(function)
    return all(facts.of(value).every * times % rows.step == 0 for value, times in rows.start)
