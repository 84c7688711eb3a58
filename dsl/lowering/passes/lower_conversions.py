"""Replaces exchanges of data between threads with stores and loads of scratch shared memory. So the barrier pass needs
no special cases.

- A reduction over warps: each warp reduces its part, a layout conversion gathers the partial results, and each thread
  reduces those in its registers.
- A layout conversion that does more than rename registers: threads store in one layout and load in the other.
- A gather from other warps: threads store the tile, and load the elements at their indices. A gather within warps
  remains, unless its shuffles are more than these accesses.
- An atomic that one thread does and whose result all threads need: that thread stores the result, and all threads load
  it.
- A volatile load that several threads need: one thread loads the value for all, because separate loads might return
  different values.
"""

from __future__ import annotations

from itertools import count
from math import prod
from typing import Any

from msgspec import Struct

from dsl.lowering.building.iterations import copied_region
from dsl.lowering.ir.function import Block, Function, Op, Rewriter, Value, uses
from dsl.lowering.ir.plugins import Opening
from dsl.lowering.ir.types import INDEX, S32, S64, DType, SharedType, TileType
from dsl.lowering.layouts.layout import Layout, bits_of, flaw_of_layout, moved_index, row_major
from dsl.lowering.ops import OPS
from dsl.lowering.ops.gather import gather_places


def lower_conversions(function: Function) -> None:
    _ExchangeLowering(function).run()


class ConversionSubject(Struct, frozen=True):
    """The data that a plug-in receives for a layout conversion: the value, its new layout, the operation that needs the
    conversion, and the number of warps of a block."""

    value: Value
    layout: Layout
    op: Op
    warps: int


class _ExchangeLowering(Rewriter):
    def __init__(self, function: Function):
        super().__init__()
        self.function = function
        self.users = uses(function.body)
        self.scratches: list[Op] = []

    def run(self) -> None:
        body = self.block(self.function.body, self.visit)
        # Scratch tiles are allocated at the top. `swizzle_shared` looks for tiles in the outermost block, and a scratch
        # tile in a loop serves all iterations.
        body.ops[:0] = self.scratches
        self.function.body = body

    def visit(self, op: Op) -> bool:
        return op.spec.placement.exchange is not None and op.spec.placement.exchange(self, op)

    def share(self, op: Op, one_thread: bool = False) -> bool:
        layout = op.result.tile.layout
        # If the result is unused or no two threads hold the same element, each thread may keep its own result.
        if not self.users.get(op.result) or (layout is not None and not layout.is_replicated):
            return False
        made = self.copy(op, self.visit)
        if one_thread:
            made.attrs["one_thread"] = True
        self.map[made.result] = self.through_scratch(made.result, layout, op)
        return True

    def convert(self, op: Op) -> bool:
        self.map[op.result] = self.converted(self[op.operands[0]], op.attrs["layout"], op)
        return True

    def make(
        self, like: Op, name: str, operands: list[Value], types: list, regions: tuple[Block, ...] = (), **attrs
    ) -> Op:
        return self.emit(Op(OPS[name], operands, types, attrs, regions, like.loc))

    # ---- reductions ----

    def reduce(self, op: Op) -> bool:
        axis = op.attrs["axis"]
        layout = op.operands[0].tile.layout
        assert layout is not None
        mask = layout.axis_mask(axis)
        along = [b for b in layout.warp if b & mask]
        if not along:  # the axis is within warps: shuffles reduce it, and no memory is needed
            return False
        parts = 1 << len(along)
        shape = (*layout.shape[:axis], parts, *layout.shape[axis + 1 :])
        partial = _partial_layout(layout, axis, shape)
        operands = [self[o] for o in op.operands]
        # The function of the reduction is needed twice: for the parts of warps and for the gathered parts. `last` below
        # gets a copy of its region.
        types = [TileType(shape, o.dtype, partial) for o in operands]
        op.regions = [self.block(r, self.visit) for r in op.regions]
        first = self.make(op, "partial_reduce", operands, types, tuple(op.regions), axis=axis, parts=parts)
        gathered = _gathered_layout(partial, axis)
        results = [self.converted(r, gathered, op) for r in first.results]
        regions = tuple(map(copied_region, op.regions))
        last = self.make(op, "reduce", results, [r.type for r in op.results], regions, axis=axis)
        final = gathered.drop(axis)
        for old, new in zip(op.results, last.results, strict=True):
            new.stands_for(old)
            if new.tile.shape:
                wanted = new.tile.layout
                new.type = new.tile.with_layout(final)
                new = self.converted(new, wanted, op)
            self.map[old] = new
        return True

    # ---- gathers ----

    def gather(self, op: Op) -> bool:
        x, made = self[op.operands[0]], op.result.tile
        assert x.tile.layout is not None and made.layout is not None
        places = gather_places(x.tile.layout, made.layout, op.attrs["axis"])
        costs = {"shared": x.tile.layout.count + made.layout.count}
        if places is not None:
            # Each of the registers in which an element may lie is shuffled, and the reader selects one.
            costs["shuffles"] = (made.layout.count << len(places.registers)) if places.lanes else 0
        fewest = "shuffles" if costs.get("shuffles", costs["shared"] + 1) <= costs["shared"] else "shared"
        by_shuffles = self.function.choices.choose(
            "gather",
            op.result.name or x.name or "value",
            {name: name == "shuffles" for name in sorted(costs, reverse=True)},
            fewest,
            loc=op.loc,
            because="elements come from other warps" if places is None else "the axis lies within each warp",
            costs=costs,
            unit="shuffles or accesses of a thread",
        )
        if by_shuffles:
            return False
        at = self.gathered_index(x.tile.shape, self[op.operands[1]], op)
        self.map[op.result] = self.through_scratch(x, made.layout, op, at).stands_for(op.result)
        return True

    def gathered_index(self, shape: tuple[int, ...], index: Value, op: Op) -> Value:
        """Emits a tile with the row-major index in `shape` of each gathered element."""
        axis, tile = op.attrs["axis"], index.tile.with_dtype(INDEX)
        inner = bits_of(prod(shape[axis + 1 :]))
        outer = inner + bits_of(tile.shape[axis])

        def of(name: str, value: Value, number: int) -> Value:
            constant = self.make(op, "constant", [], [TileType((), INDEX)], value=number, dtype=INDEX).result
            spread = self.make(op, "broadcast", [constant], [tile], shape=tile.shape).result
            return self.make(op, name, [value, spread], [tile]).result

        flat = self.linear_index(tile.shape, tile.layout, op)
        if index.dtype is not INDEX:
            index = self.make(op, "cast", [index], [tile], to=INDEX, saturate=False, rounding=None).result
        along = of("shl", of("and", index, shape[axis] - 1), inner)
        ahead = of("shl", of("shr", flat, outer), inner + bits_of(shape[axis]))
        behind = of("and", flat, (1 << inner) - 1)
        joined = self.make(op, "or", [ahead, along], [tile]).result
        return self.make(op, "or", [joined, behind], [tile]).result

    # ---- layout conversions ----

    def converted(self, value: Value, layout: Layout | None, op: Op) -> Value:
        have = value.tile.layout
        assert have is not None and layout is not None
        if have == layout:
            return value
        in_thread = have.registers_of(layout) is not None
        size = value.tile.size * max(value.dtype.bits // 8, 1)  # a flag takes a byte
        way: bool | Layout = self.function.choices.choose(
            "convert_layout",
            value.name or "value",
            {"registers": True, "shared": False} if in_thread else {"shared": False},
            "registers" if in_thread else "shared",
            loc=op.loc,
            because="each thread has its own elements" if in_thread else "elements change threads",
            costs={"registers": 0, "shared": size},
            unit="bytes through shared memory",
            opening=Opening(
                ConversionSubject(value, layout, op, self.function.warps),
                lambda via: flaw_of_layout(via, value.tile.shape, self.function.warps),
                lambda via: size * sum(a.registers_of(b) is None for a, b in ((have, via), (via, layout))),
            ),
        )
        if isinstance(way, Layout):  # a plug-in chose an intermediate layout, which may save shared memory traffic
            return self.moved(self.moved(value, way, op), layout, op)
        return self.moved(value, layout, op) if way else self.through_scratch(value, layout, op)

    def moved(self, value: Value, layout: Layout, op: Op) -> Value:
        """Returns the value in another layout. If each thread already holds its elements, registers are renamed.
        Otherwise the value goes through shared memory."""
        if value.tile.layout is not None and value.tile.layout.registers_of(layout) is None:
            return self.through_scratch(value, layout, op)
        return self.make(op, "convert_layout", [value], [value.tile.with_layout(layout)], layout=layout).result

    def through_scratch(self, value: Value, layout: Layout | None, op: Op, places: Value | None = None) -> Value:
        """Stores the value to scratch shared memory in its own layout, and loads it in `layout`, or the elements at the
        row-major indices `places`. An index has no size in memory, so the code stores it as an integer with the
        kernel's `index_bits`."""
        if value.dtype.kind == "index":
            stored = S64 if self.function.index_bits == 64 else S32
            moved = self.through_scratch(self.cast(value, stored, op), layout, op, places)
            return self.cast(moved, value.dtype, op)
        tile = value.tile
        type = SharedType((max(tile.size, 1),), tile.dtype)
        scratch = Op(OPS["shared_alloc"], [], [type], {"type": type, "name": "scratch", "own": True}, (), op.loc)
        scratch.result.name = "scratch"
        self.scratches.append(scratch)
        has = ["memory", "offset"]
        plain: dict[str, Any] = {"cache": None, "evict": None}
        there = self.linear_index(tile.shape, tile.layout, op)
        self.make(op, "store", [scratch.result, there, value], [], has=[*has, "value"], **plain)
        here = self.linear_index(tile.shape, layout, op) if places is None else places
        loaded = self.make(op, "load", [scratch.result, here], [here.tile.with_dtype(tile.dtype)], has=has, **plain)
        return loaded.result if places is not None else loaded.result.stands_for(value)

    def cast(self, value: Value, to: DType, op: Op) -> Value:
        made = self.make(op, "cast", [value], [value.tile.with_dtype(to)], to=to, saturate=False, rounding=None)
        return made.result.stands_for(value)

    def linear_index(self, shape: tuple[int, ...], layout: Layout | None, op: Op) -> Value:
        """Emits a tile that contains the row-major index of each element."""
        if not shape:
            return self.make(op, "constant", [], [TileType((), INDEX)], value=0, dtype=INDEX).result
        assert layout is not None
        size = prod(shape)
        flat = self.make(op, "arange", [], [TileType((size,), INDEX, layout.reshape((size,)))], extent=size).result
        if len(shape) == 1:
            return flat
        return self.make(op, "reshape", [flat], [TileType(shape, INDEX, layout)], shape=shape).result


def _partial_layout(layout: Layout, axis: int, shape: tuple[int, ...]) -> Layout:
    """Returns the layout after each warp has reduced its part. `axis` then has one element for each warp along this
    axis, and no register bits or lane bits."""
    mask = layout.axis_mask(axis)
    dropped = layout.drop(axis, keep=True)
    stride = row_major(shape)[axis]
    moved = Layout(
        shape, tuple((n, tuple(moved_index(b, dropped.shape, shape) for b in bs)) for n, bs in dropped.places)
    )
    along = (stride << number for number in count())
    warps = [next(along) if old & mask else new for old, new in zip(layout.warp, moved.warp, strict=True)]
    return Layout.registers(shape, moved.register, moved.lane, warps)


def _gathered_layout(partial: Layout, axis: int) -> Layout:
    """Returns the layout in which each thread holds the partial results of all warps: `axis` moves from warp bits to
    register bits."""
    mask = partial.axis_mask(axis)
    along = tuple(b for b in partial.warp if b & mask)
    warps = tuple(0 if b & mask else b for b in partial.warp)
    return Layout.registers(partial.shape, along + partial.register, partial.lane, warps)
