"""Computes wide tiles in parts, phase by phase. A phase becomes unrolled code, or a loop at run time.

A phase contains all operations between two reductions. It recomputes the parts that it needs, except parts that are in
shared memory or still in registers. If rows are unaligned, the parts cover only the bodies of the rows. The edges are
separate (`rows.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from math import prod

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import carry, carry_in_parts, hand_on
from dsl.lowering.directives.cluster_tiles import first_block, parts_of_block
from dsl.lowering.directives.joins import joined
from dsl.lowering.directives.kept import Kept, places_of
from dsl.lowering.directives.part_maker import PartMaker
from dsl.lowering.directives.rows import AnyRows, RowPart, RowParts
from dsl.lowering.directives.slices import around, located, reached
from dsl.lowering.directives.staged import copy, shared_tile, taken_names
from dsl.lowering.directives.subjects import note_gone
from dsl.lowering.directives.wide import (
    Wide,
    WidePhase,
    WideRegion,
    loads_ahead,
    made_in,
    slices,
    starts_with,
    tiles_of,
)
from dsl.lowering.hopper.boxes import OF_BLOCKS, CopiedBox
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Op, Value, replace_uses, uses, walk
from dsl.lowering.ir.types import I1, INDEX, U8, SharedType, TileType
from dsl.lowering.known.facts import facts_now
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import writes
from dsl.lowering.ops.threads import MBARRIERS, TURNS, word_bytes
from dsl.lowering.plan.tile_loads import is_load
from dsl.lowering.shared.atoms import offsets_within

TOGETHER = 4
"""The number of parts per iteration of a loop that loads from global memory. The loads of all these parts are in flight
together."""
AHEAD = 16
"""If a phase both copies to shared memory and loads to registers, up to this many parts are unrolled. All their loads
are then in flight together with the copies. A softmax that loads a mask of bytes while it copies the logits takes 1894
µs. With a loop after the copies, only four loads are in flight, and it takes 2297 µs (H200, 32768 columns)."""


class PhaseMaker(PartMaker):
    """Computes the parts of a region's tiles, phase by phase. `aligned` describes unaligned rows, and is None for other
    rows."""

    def __init__(self, region: WideRegion, part: int, aligned: AnyRows | None = None):
        loc = region.about.loc or located(region.function, region.block.ops[0])
        super().__init__(Builder(loc, facts_now(region.function)), part)
        self.region, (self.blocks, self.count) = region, parts_of_block(region, part)
        self.made: dict[Value, Value] = {}  # maps a result of a reduction to its new value
        self.is_first = first_block(region.function)
        self.of_first = self.flags_of_first() if self.blocks > 1 else set()
        self.stage = self.origin
        self.aligned = aligned
        self.row_parts: RowParts | None = None
        self.row_part: RowPart | None = None
        self.edges: dict[Wide, Value] = {}  # maps a tile to its part for the edges of rows
        self.allocated, self.taken = Block(), taken_names(region.function.body)
        self.turns: list[Value] = []  # how often the region was executed before, if a loop contains it

    def flags_of_first(self) -> set[Value]:
        """Returns the flags that are computed from `is_first`."""
        if self.is_first is None:
            return set()
        users = uses(self.region.function.body)
        made = reached([self.is_first], lambda v: [u.result for u in users.get(v, ()) if u.spec.pure and not u.regions])
        return {value for value in made if value is not self.is_first}

    def run(self) -> None:
        for step in self.region.steps:
            if isinstance(step, Op):
                self.keep(step)
            else:
                self.phase(step)
        self.region.block.ops = self.b.block.ops
        replace_uses(self.region.function.body, self.made)
        self.region.function.body.ops[:0] = self.allocated.ops
        note_gone(self.region.function, self.folded_away)

    def keep(self, op: Op) -> None:
        """Keeps an operation that is not computed in parts."""
        self.b.block.ops.append(op)

    @property
    def rank(self) -> Value:
        """The number of this block among those that compute the tiles together."""
        return self.b.value("cluster_rank", axis=0, blocks=self.blocks, apart=1)

    def phase(self, phase: WidePhase) -> None:
        """Builds one phase: all operations between two reductions."""
        raise NotImplementedError

    def begin(self, stage: Value, memo: dict[Wide, Value]) -> None:
        """Makes part number `stage` of this block the current part. `memo` contains the values of that part that are
        already computed."""
        self.stage, self.memo, number = stage, memo, stage
        if self.blocks > 1:
            number = self.b.value("add", self.b.value("mul", stage, self.b.index(self.blocks)), self.rank)
        if self.aligned is None:
            self.origin = self.b.value("mul", number, self.b.index(self.part))
        else:
            self.know(self.lie().body(number))

    def lie(self) -> RowParts:
        """Returns the positions of the parts in unaligned rows."""
        assert self.aligned is not None
        if self.row_parts is None:  # built once, before the first part: all parts share it
            has_edges = None if self.blocks == 1 else self.b.value("eq", self.rank, self.b.index(0))
            self.row_parts = RowParts(self.b, self.aligned, self.part, self.region.function.threads, has_edges)
            self.rows = self.aligned.rows
        return self.row_parts

    def know(self, part: RowPart) -> None:
        """Makes `part`, a part of unaligned rows, the current part."""
        self.memo.update({wide: value for wide, value in part.known.items() if wide not in self.memo})
        self.row_part = part

    def box(self, op: Op, axis: int) -> CopiedBox | str:
        return super().box(op, axis) if self.blocks == 1 else OF_BLOCKS

    def counted(self) -> Value:
        return super().counted() if self.row_part is None else self.row_part.column

    def idle(self, sink: Op) -> bool:
        """Whether the current part may have positions without a column that would change the result of the reduction
        `sink`."""
        if self.aligned is None or sink in self.aligned.leave:
            return False
        # Only the last parts have positions without a column. These parts are unrolled after a loop at run time, so
        # their stage is a constant.
        stage = constant_of(self.stage)
        return not self.named or (stage is not None and int(stage) >= self.count - self.aligned.tail(self.part))

    def left_out(self, sink: Op, before: Sequence[Value], operands: Sequence[Value]) -> list[Value]:
        """Adds a part to the accumulators `before`, but skips positions that have no column. Returns the new
        accumulators."""
        assert self.row_part is not None
        here, number = self.row_part.here, starts_with(sink)
        if number is not None:
            none = self.b.constant(number, operands[0].dtype, operands[0].shape)
            operands = [self.b.value("select", here, operands[0], none)]
        if not before:
            return list(operands)  # `reduce` ignores such positions of the edges when it joins them
        joined = self.joined(sink, before, operands)
        return joined if number is not None else self.where(here, joined, before)

    def where(self, here: Value, new: Sequence[Value], old: Sequence[Value]) -> list[Value]:
        return [self.b.value("select", here, a, b) for a, b in zip(new, old, strict=True)]

    @contextmanager
    def edges_of_rows(self) -> Iterator[None]:
        """A context in which the edges of unaligned rows are the current part."""
        lie, part = self.lie(), self.part
        self.memo, self.part, self.named = self.edges, lie.edges, False
        self.know(lie.both_edges())
        yield
        self.part, self.named = part, True

    def at_edges(self, phase: WidePhase) -> list[list[Value]]:
        """Stores the edges of unaligned rows, or makes them accumulators of reductions. Returns the accumulators for
        each reduction or store, which are empty lists for aligned rows."""
        if self.aligned is None:
            return [[] for _ in phase.sinks]
        with self.edges_of_rows():
            return [self.sink(sink, []) for sink in phase.sinks]

    def now(self, value: Value) -> Value:
        if value is self.is_first and self.blocks > 1:  # each block stores its own parts
            return self.b.constant(True, I1)
        if value in self.of_first:
            assert value.op is not None
            return self.b.value(value.op.name, *(self.now(v) for v in value.op.operands), **value.op.attrs)
        return self.made.get(value, value)

    def joined(self, sink: Op, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """Combines two parts element by element, with the operation of the reduction `sink`."""
        return joined(self.b, sink.regions[0], left, right, self.now)

    def sink(self, sink: Op, before: Sequence[Value]) -> list[Value]:
        """Stores the current part, or combines it with the accumulators `before`, which are empty for the first part.
        Returns the new accumulators."""
        axis = self.region.sinks[sink]
        tiles = tiles_of(sink)
        operands = [self.of(v, axis) if v in tiles else self.now(v) for v in sink.operands]
        self.b.place = (sink.loc or self.b.loc, None)
        if not sink.results:
            self.store(sink, operands, axis, **self.apart(sink))
            return []
        if self.idle(sink):
            return self.left_out(sink, before, operands)
        return self.joined(sink, before, operands) if before else operands

    def apart(self, sink: Op) -> dict[str, str]:
        """Returns the attribute `order: none` if the stores of the parts may run in any order, otherwise an empty
        dict."""
        # Each part writes other elements. So the stores need no order, unless another store or another iteration of a
        # surrounding loop writes the same elements. Tiles of a persistent block have no order, as those of a grid.
        stores = [op for op in self.writing if op.operands[0] is sink.operands[0]]
        loop = self.region.loop
        is_outermost = self.region.block is self.region.function.body or (loop is not None and loop.attrs.get("tiles"))
        return {"order": "none"} if stores == [sink] and is_outermost else {}

    @cached_property
    def writing(self) -> list[Op]:
        """The operations of the function that write memory. `run` replaces them only at its end."""
        return [op for op in walk(self.region.function.body) if writes(op)]

    def reduce(
        self, sinks: Sequence[Op], accumulators: Sequence[Sequence[Value]], edges: Sequence[Sequence[Value]]
    ) -> None:
        """Computes the results of the reductions among `sinks` from the accumulators of the parts and of the edges. The
        blocks of a cluster exchange all results at once."""
        each = zip(sinks, accumulators, edges, strict=True)
        made = {sink: self.of_block(sink, body, edge) for sink, body, edge in each if sink.results}
        if self.blocks > 1 and made:
            gathered = iter(self.of_all_blocks([value for values in made.values() for value in values]))
            made = {sink: self.joined_along(sink, [next(gathered) for _ in made[sink]], 0) for sink in made}
        for sink, values in made.items():
            for new, old in zip(values, sink.results, strict=True):
                self.made[old] = new.stands_for(old)

    def of_block(self, sink: Op, accumulators: Sequence[Value], edges: Sequence[Value]) -> list[Value]:
        """Returns the results of the reduction `sink`, of the parts of this block."""
        if edges:
            body = self.gathered(sink, accumulators)
            accumulators = self.joined(sink, body, self.gathered(sink, edges))
            if starts_with(sink) is None:
                here = self.lie().both_edges().here
                accumulators = self.where(self.b.reshape(here, accumulators[0].shape), accumulators, body)
        return self.joined_along(sink, accumulators, sink.attrs["axis"])

    def of_all_blocks(self, values: Sequence[Value]) -> list[Value]:
        """Exchanges the results of a reduction among the blocks of the cluster. The blocks' results are along a new
        first axis."""
        size, turn = sum(prod(value.tile.shape) for value in values) * word_bytes(values) * self.blocks, self.turn()
        if turn is not None:
            size = MBARRIERS + 2 * TURNS * size
        with self.b.region(self.allocated):
            tile = shared_tile(self.b, "exchanged", self.taken, SharedType((size,), U8), remote=True)
        operands = [tile, *values, *([] if turn is None else [turn])]
        return self.b.op("cluster_gather", operands, blocks=self.blocks, again=turn is not None).results

    def turn(self) -> Value | None:
        """Returns how often the region's block was executed before, or None if it is straight code."""
        if self.region.loop is not None and not self.turns:
            loops, b = around(self.region.function, self.region.loop), Builder(self.b.loc)
            self.turns = carry(loops, [b.index(0)], ["turn"])
            self.allocated.ops += b.block.ops
            hand_on(loops, [self.b.value("add", self.turns[0], self.b.index(1))])
        return self.turns[0] if self.turns else None

    def gathered(self, sink: Op, accumulators: Sequence[Value]) -> list[Value]:
        """Combines the elements of a row that are in one lane. The accumulators of body and edges then have the same
        shape, with one element per lane."""
        rows, turns, lanes, near = self.lie().grouped(accumulators[0])
        values = [self.b.reshape(v, (*rows, turns, lanes, near)) for v in accumulators]
        if near > 1:
            values = [self.b.reshape(v, (*rows, turns, lanes)) for v in self.joined_along(sink, values, len(rows) + 2)]
        if turns > 1:
            values = self.joined_along(sink, [self.b.reshape(v, (*rows, turns, lanes)) for v in values], len(rows))
        return [self.b.reshape(v, (*rows, lanes)) for v in values]

    def joined_along(self, sink: Op, values: Sequence[Value], axis: int) -> list[Value]:
        """Reduces `values` along `axis`, with the operation of the reduction `sink`."""
        self.b.place = (sink.loc or self.b.loc, None)
        return self.b.op(sink.name, values, [self.region_of(sink.regions[0])], **{**sink.attrs, "axis": axis}).results


class StaticParts(PhaseMaker):
    """Unrolls all parts. The values of a part stay in registers for later phases."""

    def __init__(self, region: WideRegion, part: int, aligned: AnyRows | None = None):
        super().__init__(region, part, aligned)
        self.memos: list[dict[Wide, Value]] = [{} for _ in range(self.count)]
        for wide, parts in region.given.parts.items() if region.given else ():
            self.remember(wide, parts)
        self.later: dict[Wide, list[Value]] = {}  # stand for parts with which the loop begins
        self.inside = {number: self.parts_inside(number, axis) for number, axis in region.carried.items()}
        self.results: dict[Wide, list[Value]] = {}  # the parts of what the region's loop carries, behind the loop

    def remember(self, wide: Wide, parts: Sequence[Value]) -> None:
        for memo, part in zip(self.memos, parts, strict=True):
            memo[wide] = part

    def parts_inside(self, number: int, axis: int) -> list[Value]:
        """Returns new arguments of the loop's body, for the parts of its loop-carried tile `number`."""
        whole = self.region.block.args[1 + number]
        parts = [Value(TileType(self.shape(whole, axis), whole.dtype), name=whole.name) for _ in self.memos]
        self.remember((whole, axis), parts)
        return parts

    def load_ahead(self, step: Op | WidePhase) -> None:
        for value, axis in loads_ahead(self.region, step, {value for value, _ in self.memos[0]}, self.made):
            self.all_parts(value, axis)
            if self.aligned is not None:
                with self.edges_of_rows():
                    self.of(value, axis)

    def keep(self, op: Op) -> None:
        self.load_ahead(op)
        given = self.region.given
        if given is not None and op is given.loop:
            for wide, places in given.starts.items():
                parts = dict(zip(places, self.all_parts(*wide), strict=True))
                op.operands = [parts.get(v, v) for v in op.operands]
        if self.inside and op.spec.control.ends:
            self.end_of_body(op)
        else:
            super().keep(op)

    def end_of_body(self, end: Op) -> None:
        """Ends the loop's body: passes the parts of what the loop carries to the next iteration."""
        loop, carried = self.region.loop, self.region.carried
        assert loop is not None
        following = {number: self.all_parts(end.operands[number], axis) for number, axis in carried.items()}
        super().keep(end)
        self.region.block.ops = self.b.block.ops
        made = carry_in_parts(loop, self.starts(loop), self.inside, following)
        self.results = {(old, axis): made[old] for old, axis in zip(made, carried.values(), strict=True)}

    def all_parts(self, value: Value, axis: int) -> list[Value]:
        made = list[Value]()
        for number, memo in enumerate(self.memos):
            self.begin(self.b.index(number), memo)
            made.append(self.of(value, axis))
        return made

    def starts(self, loop: Op) -> dict[int, list[Value]]:
        """Returns the parts with which the loop-carried tiles begin. Those of a tile that is not constant are made when
        the block around the loop is computed in parts."""
        b, made = Builder(self.b.loc), dict[int, list[Value]]()
        for number, parts in self.inside.items():
            whole = loop.operands[loop.spec.control.leading + number]
            start = constant_of(whole)
            if start is None:
                wide = whole, self.region.carried[number]
                made[number] = self.later.setdefault(wide, [Value(part.type) for part in parts])
            else:
                made[number] = [b.constant(start, part.dtype, part.tile.shape) for part in parts]
        self.allocated.ops += b.block.ops
        return made

    def phase(self, phase: WidePhase) -> None:
        self.load_ahead(phase)
        accumulators: list[list[Value]] = [[] for _ in phase.sinks]
        for number, memo in enumerate(self.memos):
            self.begin(self.b.index(number), memo)
            accumulators = [self.sink(*each) for each in zip(phase.sinks, accumulators, strict=True)]
        self.reduce(phase.sinks, accumulators, self.at_edges(phase))


Part = tuple[Value, dict[Wide, Value]]
"""The number of a part, and the values of that part that are already computed."""


class LoopOfParts(PhaseMaker):
    """Builds a loop at run time for each phase. The values in `kept` stay in shared memory from one loop to the
    next."""

    def __init__(self, region: WideRegion, part: int, kept: Sequence[Kept], aligned: AnyRows | None = None):
        super().__init__(region, part, aligned)
        self.kept = {each.value: each for each in kept}
        self.sources = {each.source: each for each in kept if each.source not in (None, each.value)}
        self.first: list[Kept] = []  # values that this phase stores in shared memory
        self.tiles: dict[Value, Value] = {}  # maps a kept value to its shared tile, which has a stage for each part

    def run(self) -> None:
        with self.b.region(self.allocated):
            for each in self.kept.values():
                self.rows = None if self.aligned is None else self.aligned.rows
                type = SharedType((self.count, *self.shape(each.value, each.axis)), each.value.dtype)
                self.tiles[each.value] = shared_tile(self.b, f"s{each.name}", self.taken, type)
        super().run()

    def of(self, value: Value, axis: int) -> Value:
        """Returns the current part of the tile `value`. Loads the part from shared memory if it is there, otherwise
        computes it."""
        source = self.sources.get(value)
        kept = source if source is not None and source in self.first else self.kept.get(value)
        if kept is None or not self.named or (value, axis) in self.memo:
            return super().of(value, axis)  # edges (not `named`) stay in registers
        if kept.full or kept.source is value:
            made = self.read(kept)
        else:
            made = super().of(value, axis)
            self.write(kept, made, None)
        self.memo[value, axis] = made
        return made

    def read(self, kept: Kept) -> Value:
        """Loads the current part of `kept` from shared memory."""
        self.b.place = (kept.op.loc or self.b.loc, None)
        # Copies write zeros where the mask is false. If the load specifies another number there, the first phase stores
        # that number.
        if not kept.full and kept.filling is not None:
            mask, other = (self.of(each, kept.axis) for each in kept.filling)
            off = self.b.value("xor", mask, self.b.constant(True, I1, mask.shape))
            self.write(kept, other, off)
        place = offsets_within(self.b, self.shape(kept.value, kept.axis))
        parts = {"memory": self.tiles[kept.value], "stage": self.stage, "offset": place}
        made = self.b.access("load", parts, cache=None, evict=None).result
        return made.stands_for(kept.value if kept.full or kept.source is None else kept.source)

    def write(self, kept: Kept, made: Value, mask: Value | None) -> None:
        """Stores `made`, the current part of `kept`, in shared memory."""
        place = offsets_within(self.b, made.shape)
        parts = {"memory": self.tiles[kept.value], "stage": self.stage, "offset": place, "mask": mask, "value": made}
        self.b.access("store", parts, cache=None, evict=None)

    def phase(self, phase: WidePhase) -> None:
        full = [each.value for each in self.kept.values() if each.full]
        made = made_in(self.region, phase, full)
        self.first = [each for each in self.kept.values() if not each.full and each.value.op in made]
        there = [each.value for each in self.kept.values() if each.full] + [each.source for each in self.first]
        loads = self.loads(phase, [value for value in there if value is not None])
        sources = [(each, None if each.source is None else each.source.op) for each in self.first]
        copied = [(each, load) for each, load in sources if load is not None]
        parts: list[Part] = []
        if copied:
            # The loads of the edges start before the copies, so that both are in flight together. If there are few
            # parts, their loads also start before the copies. ptxas would not move loads across the loop of copies.
            if self.aligned is not None:
                with self.edges_of_rows():
                    for op in self.loads(phase, ()):
                        self.of(op.result, self.region.axes[op.result])
            if loads and self.count <= AHEAD:
                parts = [(self.b.index(n), {}) for n in range(self.count)]
                self.load(parts, loads)
            self.bring(copied)
        edges, starts = self.at_edges(phase), [self.start(sink) for sink in phase.sinks]
        if copied:
            self.b.op("wait", groups=0)
        ends = self.sinks(phase, parts, starts) if parts else self.loop(phase, loads, starts)
        self.reduce(phase.sinks, ends, edges)
        for kept in self.first:
            kept.full = True
        self.first = []

    def loads(self, phase: WidePhase, there: Collection[Value]) -> list[Op]:
        """Returns the loads of a phase from global memory, in program order. `there` contains the values in shared
        memory. Their loads are excluded, and so are loads whose addresses depend on these values."""
        made = made_in(self.region, phase, there)
        loads = [op for op in self.region.block.ops if op in made and is_load(op) and op.result not in there]
        waited = {value.op for value in there}
        return [op for op in loads if not waited & slices(places_of(op.result, self.region.axes[op.result]))]

    def bring(self, copied: Sequence[tuple[Kept, Op]]) -> None:
        """Builds the loop that copies all parts to shared memory. `copied` contains pairs of a kept value and the load
        that its copies replace."""
        body = Block([Value(TileType((), INDEX))])
        with self.b.region(body):
            self.begin(body.args[0], {})
            for each, load in copied:
                self.b.place = (load.loc or self.b.loc, None)
                source, mask = (operand(load, name) for name in ("offset", "mask"))
                assert source is not None
                source = self.of(source, each.axis)
                place = offsets_within(self.b, source.shape)
                off = None if mask is None else self.of(mask, each.axis)
                copy(self.b, self.tiles[each.value], self.stage, place, load.operands[0], source, off)
            self.b.op("yield")
        self.b.op("for", [self.b.index(0), self.b.index(self.count), self.b.index(1)], [body], unroll=1)
        self.b.op("commit")

    def loop(self, phase: WidePhase, loads: Sequence[Op], starts: list[list[Value]]) -> list[list[Value]]:
        """Builds the loop over the parts. The accumulators start as `starts`. Returns the accumulators after the
        loop."""
        # If the loop loads, an iteration computes TOGETHER parts, so that their loads are in flight together. If a
        # reduction has no known start value, the first part is computed before the loop. If the last parts may have
        # positions without a column, they are computed after the loop.
        first, together = 0, min(self.count, TOGETHER) if loads else 1
        if any(sink.results and not start for sink, start in zip(phase.sinks, starts, strict=True)):
            starts, first = self.iteration(phase, loads, [self.b.index(0)], starts), 1
        kept = any(sink.results and sink not in self.aligned.leave for sink in phase.sinks) if self.aligned else False
        apart = self.aligned.tail(self.part) if self.aligned is not None and kept else 0
        last = first + max(0, self.count - apart - first) // together * together
        body = Block([Value(TileType((), INDEX)), *(Value(v.type) for each in starts for v in each)])
        with self.b.region(body):
            carried = iter(body.args[1:])
            stages = [self.b.value("add", body.args[0], self.b.index(n)) for n in range(together)]
            ends = self.iteration(phase, loads, stages, [[next(carried) for _ in each] for each in starts])
            self.b.op("yield", [v for each in ends for v in each])
        bounds = [self.b.index(n) for n in (first, last, together)]
        made = iter(self.b.op("for", [*bounds, *(v for each in starts for v in each)], [body], unroll=1).results)
        ends = [[next(made) for _ in each] for each in starts]
        left = [self.b.index(n) for n in range(last, self.count)]
        return self.iteration(phase, loads, left, ends) if left else ends

    def iteration(
        self, phase: WidePhase, loads: Sequence[Op], stages: Sequence[Value], accumulators: list[list[Value]]
    ) -> list[list[Value]]:
        """Computes the parts with the numbers `stages`, after starting all their loads. Returns the accumulators after
        these parts."""
        parts: list[Part] = [(stage, {}) for stage in stages]
        self.load(parts, loads)
        return self.sinks(phase, parts, accumulators)

    def load(self, parts: Sequence[Part], loads: Sequence[Op]) -> None:
        for part in parts:
            self.begin(*part)
            for op in loads:
                self.of(op.result, self.region.axes[op.result])

    def sinks(self, phase: WidePhase, parts: Sequence[Part], accumulators: list[list[Value]]) -> list[list[Value]]:
        for part in parts:
            self.begin(*part)
            accumulators = [self.sink(*each) for each in zip(phase.sinks, accumulators, strict=True)]
        return accumulators

    def start(self, sink: Op) -> list[Value]:
        """Returns accumulators filled with the neutral number of the reduction `sink`, such as 0 for a sum. Returns an
        empty list if no neutral number is known."""
        if not sink.results:
            return []
        number, operand = starts_with(sink), sink.operands[0]
        shape = self.shape(operand, self.region.sinks[sink])
        return [] if number is None else [self.b.constant(number, operand.dtype, shape)]
