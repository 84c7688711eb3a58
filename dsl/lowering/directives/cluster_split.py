"""`split p: 4, cluster`: the four blocks of a cluster share the iterations of loop p.

    acc = zeros(…)                 acc = zeros(…)
    for p in range(…):             for p in the part of this block:
        acc = dot(…, acc)              acc = dot(…, acc)
    c[…] = acc              →      parts = cluster_scatter(a quarter of acc for each block)
                                   acc' = the sum of parts, in order
                                   c[the quarter of this block] = acc'

Each block gets the same part of the accumulators of all blocks, joins these parts and continues with the result alone.
So all blocks join and store, and what they exchange stays in distributed shared memory. With 64 KB of sums in two
blocks, they meet in 2,700 cycles, and through memory in 6,800; with 32 KB in eight, in 2,800 and 7,700 (H200).

An accumulator is divided along its last axis, or along the first one, so that the code behind the loop can be computed
in parts. If that is not possible, each block joins the whole accumulator, and the first one stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from msgspec import Struct

from dsl.lowering.directives.cluster_tiles import flaw_of_sharing, form_clusters
from dsl.lowering.directives.joins import LoopShare, PartialSums, Unsplit
from dsl.lowering.directives.loop import in_parts
from dsl.lowering.directives.part_maker import PartMaker
from dsl.lowering.directives.slices import inside
from dsl.lowering.directives.staged import shared_tile, taken_names
from dsl.lowering.directives.subtile import cut
from dsl.lowering.directives.wide import LoopResults, Wide, WideRegion, WideSubject, wide_region
from dsl.lowering.ir.function import Block, Function, Op, Value, copied, replace_uses
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import INDEX, U8, SharedType, TileType
from dsl.lowering.ops import OPS
from dsl.lowering.ops.threads import SCATTER_HEAD, scattered_place


def check_cluster(function: Function, loop: Op) -> None:
    """Raises Unsplit if the blocks of a cluster cannot share the iterations of `loop`."""
    if function.blocks_of_cluster > 1:
        message = (
            "the blocks of a cluster would share its iterations, and 'cluster' gives each of them tiles of its own"
        )
        raise Unsplit(message, "no 'cluster' line: the blocks that share a loop form a cluster")
    behind = function.body.ops[function.body.ops.index(loop) + 1 :]
    flaw = flaw_of_sharing(function, [each for op in behind for each in (op, *inside(op))])
    if flaw is not None:
        raise Unsplit(*flaw)


class _Accumulator(Struct):
    """A value that the blocks exchange. The code behind the loop reads `stand` instead. `count` is the number of parts
    along `axis`, and the blocks take turns: block b of four joins the parts b, b + 4, … If `axis` is None, each block
    joins the whole value."""

    value: Value
    stand: Value
    blocks: int
    axis: int | None = None

    def parts_along(self, axis: int) -> int:
        """Returns the number of parts of the value along `axis`: the fewest that are powers of two and equally many for
        each block. Returns 0 if there are none."""
        extent = self.value.shape[axis]
        each = extent // self.blocks
        return extent // (each & -each) if each and extent % self.blocks == 0 else 0

    @property
    def count(self) -> int:
        return self.blocks if self.axis is None else self.parts_along(self.axis)

    @property
    def part(self) -> int:
        assert self.axis is not None
        return self.value.shape[self.axis] // self.count

    @property
    def type_of_part(self) -> TileType:
        if self.axis is None:
            return self.value.tile
        shape = self.value.shape
        return TileType((*shape[: self.axis], self.part, *shape[self.axis + 1 :]), self.value.dtype)

    @property
    def is_cut(self) -> bool:
        """Whether the loop computes the parts as separate tiles, because the whole tile has no layout."""
        return self.axis is not None and any(extent & (extent - 1) for extent in self.value.shape)

    @property
    def wide(self) -> Wide:
        assert self.axis is not None
        return self.stand, self.axis


class ClusterSplit(LoopShare):
    """Split-K in a cluster, along the grid's first axis."""

    def __init__(self, function: Function, loop: Op, sums: list[PartialSums], blocks: int):
        super().__init__(function, loop, sums)
        self.blocks = blocks
        results = [value for group in sums for value in group.values]
        self.found = {v: _Accumulator(v, Value(v.type, name=v.name), blocks) for v in results}

    def run(self) -> None:
        function, b, head, exchange = self.function, self.b, Block(), Block()
        form_clusters(function, self.blocks)
        with b.region(head):
            rank = b.value("cluster_rank", axis=0, blocks=self.blocks, apart=1)
            each = b.cdiv(self.as_type(self.iterations(), INDEX), b.index(self.blocks))
            self.shorten(b.value("mul", rank, each), each)
        self._insert(function.body.ops.index(self.loop), head)
        ops, last = function.body.ops, [self.loop, *self.alone][-1]
        at, behind = ops.index(self.loop) + 1, Block()
        # What names the function that joins has done its part, and would keep the tiles whole.
        behind.ops = [op for op in ops[at:] if op not in self.alone and op.spec.acts != "joins"]
        function.body.ops = [*ops[:at], *self.alone, *behind.ops]  # nothing but `alone` reads the parts of a block
        replace_uses(behind, {each.value: each.stand for each in self.found.values()})
        self._divide()
        with b.region(exchange):
            totals = self._exchange()
        self._compute_behind(totals)
        self._insert(function.body.ops.index(last) + 1, exchange)
        for value, found in self.found.items():
            if found.axis is not None and found.is_cut:
                cut(function, value, found.axis, found.part)

    def _insert(self, at: int, made: Block) -> None:
        self.function.body.ops[at:at] = made.ops

    # ---- how accumulators are divided ----

    def _divide(self) -> None:
        """Chooses the axis along which the accumulators are divided. Those with fewer axes stay whole."""
        most = max(len(each.value.tile.shape) for each in self.found.values())
        large = [each for each in self.found.values() if len(each.value.tile.shape) == most]
        ways: dict[str, int | None] = {f"axis {axis}": axis for axis in (most - 1, 0)[:most] if self._fits(large, axis)}
        ways["whole"] = None
        rule, *_ = ways
        why = "each block joins all of it" if rule == "whole" else "each block joins a part, and continues with it"
        subject, loc = self.loop.regions[0].args[0].name or "loop", self.loop.loc
        axis = self.function.choices.choose("divide", subject, ways, rule, loc=loc, because=why)
        for each in large:
            each.axis = axis
        for each in self.found.values():
            line = self.function.lines.get(("subtile", each.value.name or ""))
            if line is not None and not each.is_cut:
                what = "each has all of it" if each.axis is None else "each joins a part of it"
                message = f"'{each.value.name}' cannot be done in parts: the blocks of a cluster share it, and {what}"
                raise TileError("schedule", line, message, f"no such line, or split {subject}: {self.blocks}, memory")

    def _fits(self, large: Sequence[_Accumulator], axis: int) -> bool:
        """Whether the code behind the loop can be computed in parts of these accumulators along `axis`."""
        if not all(each.parts_along(axis) for each in large):
            return False
        for each in large:
            each.axis = axis
        parts = {each.wide: [Value(each.type_of_part)] for each in large}
        try:
            for each in large:
                self._region(each, parts)
            for group in self.sums:
                found = [self.found[value] for value in group.values]
                axes = [each.axis for each in found]
                # A function joins all its tiles in parts of one extent.
                alike = len({each.part for each in found if each.axis is not None}) <= 1
                if group.whole and not (alike and _divided_in(group.join, [*axes, *axes]) is not None):
                    return False
        except TileError:
            return False
        finally:
            for each in large:
                each.axis = None
        return True

    def _region(self, of: _Accumulator, parts: Mapping[Wide, Sequence[Value]]) -> WideRegion:
        """Returns the operations behind the loop that are computed in parts of an accumulator."""
        assert of.axis is not None
        about = WideSubject(of.value.name or "a value", of.axis, self.b.loc)
        given = LoopResults(self.loop, parts, self.blocks, {})
        return wide_region(self.function, of.stand, about, given=given)

    # ---- the rewrite ----

    def _exchange(self) -> dict[Value, list[Value]]:
        """Builds the exchange, and joins what this block gets. Maps each accumulator to its joined parts."""
        b, given, types = self.b, list[Value](), list[TileType]()
        # The largest tiles come first, so that all begin at multiples of 16 bytes.
        order = sorted(self.found.values(), key=lambda each: -prod(each.type_of_part.shape))
        for each in order:
            given += self._parts(each)
            types += [each.type_of_part] * each.count
        size = SCATTER_HEAD + (self.blocks - 1) * scattered_place([Value(type) for type in types[:: self.blocks]])
        tile = shared_tile(b, "exchanged", taken_names(self.function.body), SharedType((size,), U8), remote=True)
        made = Op(OPS["cluster_scatter"], [tile, *given], types, {"blocks": self.blocks}, (), b.loc)
        b.block.ops.append(made)
        results = iter(made.results)
        got = {each.value: [next(results) for _ in range(each.count)] for each in order}
        return {value: parts for group in self.sums for value, parts in self._joined(group, got).items()}

    def _parts(self, of: _Accumulator) -> list[Value]:
        """Returns the parts of an accumulator, in order, or the value for each block. If the loop is still to be cut,
        the value stands for its parts."""
        if of.axis is None:
            return [of.value] * self.blocks
        if of.is_cut:
            return [of.value]
        shape = of.value.shape
        apart = self.b.reshape(of.value, (*shape[: of.axis], of.count, of.part, *shape[of.axis + 1 :]))
        return [self.b.value("pick", apart, axis=of.axis, index=number) for number in range(of.count)]

    def _joined(self, group: PartialSums, got: Mapping[Value, Sequence[Value]]) -> dict[Value, list[Value]]:
        """Joins what the blocks gave for a group of accumulators, in the order of their ranks."""
        found = [self.found[value] for value in group.values]
        turns = max(each.count // self.blocks for each in found)
        made: dict[Value, list[Value]] = {value: [] for value in group.values}
        for turn in range(turns):
            # A value that is not divided has one turn, whose numbers are needed for each part of the others.
            parts = [got[each.value][turn * self.blocks % each.count :][: self.blocks] for each in found]
            totals = [each[0] for each in parts]
            for rank in range(1, self.blocks):
                totals = self._join(group, found, totals, [each[rank] for each in parts])
            for each, total in zip(found, totals, strict=True):
                if len(made[each.value]) < each.count // self.blocks:
                    made[each.value].append(total)
        return made

    def _join(
        self, group: PartialSums, found: Sequence[_Accumulator], left: Sequence[Value], right: Sequence[Value]
    ) -> list[Value]:
        axes = [each.axis for each in found]
        parts = {each.part for each in found if each.axis is not None}
        if not group.whole or not parts:
            return group.joined(self.b, left, right)
        return _JoinOfParts(self, group.join, parts.pop()).run([*axes, *axes], [*left, *right])

    def _compute_behind(self, totals: Mapping[Value, Sequence[Value]]) -> None:
        """Computes the code behind the loop: in parts, where it depends on an accumulator that is divided."""
        whole = {each.stand: totals[each.value][0] for each in self.found.values() if each.axis is None}
        replace_uses(self.function.body, whole)
        parts = {each.wide: totals[each.value] for each in self.found.values() if each.axis is not None}
        done = set[Wide]()
        for each in self.found.values():
            if each.axis is not None and each.wide not in done:
                region = self._region(each, parts)
                done |= region.axes.items()
                in_parts(region, each.part, True, [])


class _JoinOfParts(PartMaker):
    """Applies a function that joins tiles to parts of some of them."""

    def __init__(self, split: ClusterSplit, join: Block, part: int):
        super().__init__(split.b, part)
        self.join, self.table = join, dict[Value, Value]()

    def run(self, axes: Sequence[int | None], values: Sequence[Value]) -> list[Value]:
        """Returns what the function computes of `values`, of which those with an axis are parts along it."""
        divided = _divided_in(self.join, axes)
        assert divided is not None  # checked when the axis was chosen
        for arg, axis, value in zip(self.join.args, axes, values, strict=True):
            if axis is None:
                self.table[arg] = value
            else:
                self.memo[arg, axis] = value
        for op in self.join.ops[:-1]:
            if divided.keys().isdisjoint(op.results):
                self.b.block.ops.append(copied(op, self.table))
        ends = zip(self.join.ops[-1].operands, axes, strict=False)
        return [self.now(value) if axis is None else self.of(value, axis) for value, axis in ends]

    def now(self, value: Value) -> Value:
        return self.table.get(value, value)


def _divided_in(join: Block, axes: Sequence[int | None]) -> dict[Value, int] | None:
    """Returns the values of a function that are divided if those of its arguments are that have an axis, with their
    axes. Returns None if the function mixes the elements along such an axis."""
    divided = {arg: axis for arg, axis in zip(join.args, axes, strict=True) if axis is not None}
    for op in join.ops[:-1]:
        if any(value in divided for each in inside(op) for value in each.operands):
            return None
        for value in op.operands:
            if value in divided:
                through = op.spec.elements.along
                along = through(op, value, divided[value]) if through is not None else None
                if along is None or any(result not in along for result in op.results):
                    return None
                if not all(o not in along or _has_parts(join, o, along[o], divided) for o in op.operands):
                    return None
                divided |= {result: along[result] for result in op.results}
    ends = zip(join.ops[-1].operands, axes, strict=False)
    return divided if all(divided.get(value) == axis for value, axis in ends) else None


def _has_parts(join: Block, value: Value, axis: int, divided: Mapping[Value, int]) -> bool:
    """Whether a value of a function can be computed in parts along `axis`: an argument only if it is divided so."""
    if value in divided or value in join.args or value.op is None:
        return divided.get(value) == axis
    through = value.op.spec.elements.along
    along = through(value.op, value, axis) if through is not None else None
    if along is None:
        return False
    return all(o not in along or _has_parts(join, o, along[o], divided) for o in value.op.operands)
