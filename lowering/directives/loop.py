"""`loop v, 1: 512`: a wide tile, and all that is computed with it along an axis, is computed in parts.

    v = load x[0 : 4096]              m = -inf
    top = max(v)                      for k: m = maximum(m, load x[k · 512 + …])
    z = sum(exp(v - top))       →     top = max(m)
    y[…] = exp(v - top) / z           z = 0
                                      for k: z = z + exp(load x[k · 512 + …] - top)
                                      …

What lies between two reductions along the axis is one loop. The accumulators that loops carry are as wide as a part,
and are reduced behind them. `static` writes the parts out: what is needed again stays in registers. In a loop of the
run it is computed again, loads too, unless `stage v: shared` keeps it. Never by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from lowering.builder import Builder
from lowering.directives.kept import Kept, kept_of, words_of
from lowering.directives.part_maker import PartMaker
from lowering.directives.slices import located, without
from lowering.directives.stage import WAYS, copy, free_name, offsets_within
from lowering.directives.wide import (
    Wide,
    WidePhase,
    WideRegion,
    WideSubject,
    blocks_of,
    made_in,
    out_of_order,
    tiles_of,
    wide_region,
)
from lowering.facts import facts_now
from lowering.ir import Block, Function, Op, Value, replace_uses, walk
from lowering.location import Loc, TileError, closest
from lowering.ops import operand
from lowering.targets import Target
from lowering.types import I1, INDEX, SharedType, TileType


def loop(function: Function, target: Target) -> None:
    """Does in parts what the schedule names. TileError `schedule` for what cannot be."""
    staged: set[str] = set()
    for name, (axis, part, static) in function.by_subject("loop", tuple).items():
        about = WideSubject(name, axis, function.lines.get(("loop", name)))
        if not _named(function, name):
            _unknown(function, about)
        if all(_extent(v, about) <= part for v in _named(function, name)):
            staged |= words_of(function, _tiles(function)).keys()  # one part stays where it is
        while wide := [v for v in _named(function, name) if _extent(v, about) > part]:
            region = wide_region(function, wide[0], about)
            staged |= words_of(function, region.names).keys()
            kept = kept_of(function, region, target, static)
            way = _way(function, region, part, static, kept)
            if way is None:
                break
            if way:
                _StaticParts(region, part).run()
            else:
                _recompute(function, region)
                _LoopOfParts(region, part, _chosen(function, region, kept)).run()
    _check_extents(function)
    if staged:
        said = function.by_subject("stage", str)
        function.attrs["stage"] = {name: word for name, word in said.items() if name not in staged}


def _check_extents(function: Function) -> None:
    """TileError `extent` for a tile that has no parts, and an extent that is no power of two. Those that parts have
    taken the place of go."""
    needed: set[Value] = set()
    gone: set[Op] = set()
    for op in reversed(walk(function.body)):
        odd = [r for r in op.results if isinstance(r.type, TileType) and any(e & (e - 1) for e in r.shape)]
        if op.spec.pure and not needed.intersection(op.results):
            gone.update([op] if odd else [])
            continue
        if odd:
            message = f"a tile of {list(odd[0].shape)} is not done in parts: extents of others are powers of two"
            raise TileError("extent", op.loc, message, "a power of two, and a mask")
        needed.update(op.operands)
    for block in blocks_of(function.body) if gone else ():
        block.ops = without(block.ops, gone)


def _named(function: Function, name: str) -> list[Value]:
    """The tiles of a name, in their order."""
    return [r for op in walk(function.body) for r in op.results if r.name == name and isinstance(r.type, TileType)]


def _tiles(function: Function) -> set[str]:
    """The names of all tiles."""
    return {r.name for op in walk(function.body) for r in op.results if r.name and isinstance(r.type, TileType)}


def _unknown(function: Function, about: WideSubject) -> None:
    """TileError `name`, unless the name is of a branch that this variant has not."""
    if about.name in function.in_branches:
        function.void += [(about.name, about.loc)] if about.loc else []
        return
    known = _tiles(function)
    message = f"kernel '{function.name}' has no value '{about.name}' to do in parts"
    raise TileError("name", about.loc, message, closest(about.name, known) or ", ".join(sorted(known)))


def _extent(value: Value, about: WideSubject) -> int:
    if not 0 <= about.axis < len(value.shape):
        axes = f"axes 0 to {len(value.shape) - 1}" if value.shape else "no axes"
        message = f"'{about.name}' is {value.tile}, without an axis {about.axis}"
        raise TileError("schedule", about.loc, message, f"it has {axes}")
    return value.shape[about.axis]


def _way(function: Function, region: WideRegion, part: int, static: bool, kept: Sequence[Kept]) -> bool | None:
    """Whether parts are written out; None: the tile stays whole."""
    about = region.about
    if region.extent % part:
        message = f"{region.extent} elements are no multiple of {part}"
        raise about.refused(message, "a power of two that divides the extent")
    ways: dict[str, bool | None] = {} if region.extent & (region.extent - 1) else {"whole": None}
    for each in (False, True):
        wrong = out_of_order(region, each, [k.value for k in kept])
        if wrong is None:
            ways[f"{'static ' * each}{part}"] = each
        elif each == static:
            raise wrong
    way: bool | None = function.choices.choose(
        "loop",
        about.name,
        ways,
        f"{'static ' * static}{part}",
        loc=about.loc,
        because="the schedule says so",
        pinned=about.loc,
        line=f"loop {about.name}, {about.axis}: {{option}}",
    )
    return way


def _chosen(function: Function, region: WideRegion, kept: Sequence[Kept]) -> list[Kept]:
    """Those that are kept in shared memory in the end; the others are computed again."""
    free = out_of_order(region, False) is None
    return [
        each
        for each in kept
        if function.choices.choose(
            "stage",
            each.name,
            WAYS if free else {"shared": True},
            "shared",
            loc=each.op.loc,
            because="the schedule says so",
            pinned=function.lines.get(("stage", each.name)),
            line=f"stage {each.name}: {{option}}",
        )
    ]


def _recompute(function: Function, region: WideRegion) -> None:
    """What a loop of the run needs again is computed again: `recompute` of it says no more."""
    names = region.names
    said = function.by_subject("recompute", Loc)
    if names & said.keys():
        function.attrs["recompute"] = {name: place for name, place in said.items() if name not in names}


class _PartMaker(PartMaker):
    """Makes the parts of a region's tiles, phase by phase."""

    def __init__(self, region: WideRegion, part: int):
        loc = region.about.loc or located(region.function, region.block.ops[0])
        super().__init__(Builder(loc, facts_now(region.function)), part)
        self.region, self.count = region, region.extent // part
        self.made: dict[Value, Value] = {}  # of what the phases have reduced
        self.slot = self.origin

    def run(self) -> None:
        for step in self.region.steps:
            if isinstance(step, Op):
                self.b.block.ops.append(step)
            else:
                self.phase(step)
        self.region.block.ops = self.b.block.ops
        replace_uses(self.region.function.body, self.made)

    def phase(self, phase: WidePhase) -> None:
        """What is done between two reductions."""
        raise NotImplementedError

    def begin(self, slot: Value, memo: dict[Wide, Value]) -> None:
        """From here on it is another part."""
        self.slot, self.memo = slot, memo
        self.origin = self.b.value("mul", slot, self.b.index(self.part))

    def now(self, value: Value) -> Value:
        return self.made.get(value, value)

    def joined(self, sink: Op, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """Two parts joined element by element, as the reduction joins them."""
        region, shape = sink.regions[0], left[0].shape
        table: dict[Value, Value] = dict(zip(region.args, (*left, *right), strict=True))

        def wide(value: Value) -> Value:
            return self.b.broadcast(table.get(value, self.now(value)), shape)

        for op in region.ops[:-1]:
            self.b.place = (op.loc or self.b.loc, None)
            operands = [wide(o) for o in op.operands] if op.spec.elementwise else op.operands
            table[op.result] = self.b.value(op.name, *operands, **op.attrs)
        return [wide(v) for v in region.ops[-1].operands]

    def sink(self, sink: Op, before: Sequence[Value]) -> list[Value]:
        """A part of a store or a reduction, whose accumulators are those `before`, none in the first part; they as they
        are then."""
        axis = self.region.sinks[sink]
        tiles = tiles_of(sink)
        operands = [self.of(v, axis) if v in tiles else self.now(v) for v in sink.operands]
        self.b.place = (sink.loc or self.b.loc, None)
        if not sink.results:
            self.b.op(sink.name, operands, **sink.attrs)
            return []
        return self.joined(sink, before, operands) if before else operands

    def reduce(self, sink: Op, accumulators: Sequence[Value]) -> None:
        """What the accumulators of all parts come to."""
        if not sink.results:
            return
        self.b.place = (sink.loc or self.b.loc, None)
        made = self.b.op(sink.name, accumulators, [self.region_of(sink.regions[0])], **sink.attrs)
        for new, old in zip(made.results, sink.results, strict=True):
            self.made[old] = new.stands_for(old)


class _StaticParts(_PartMaker):
    """All parts written out, one behind another. What a part has made stays at hand."""

    def __init__(self, region: WideRegion, part: int):
        super().__init__(region, part)
        self.memos: list[dict[Wide, Value]] = [{} for _ in range(self.count)]

    def phase(self, phase: WidePhase) -> None:
        accumulators: list[list[Value]] = [[] for _ in phase.sinks]
        for number, memo in enumerate(self.memos):
            self.begin(self.b.index(number), memo)
            accumulators = [self.sink(*each) for each in zip(phase.sinks, accumulators, strict=True)]
        for each in zip(phase.sinks, accumulators, strict=True):
            self.reduce(*each)


class _LoopOfParts(_PartMaker):
    """A loop of the run for each phase."""

    def __init__(self, region: WideRegion, part: int, kept: Sequence[Kept]):
        super().__init__(region, part)
        self.kept = {each.value: each for each in kept}
        self.first: list[Kept] = []  # what is put into shared memory for this phase, and by it

    def run(self) -> None:
        allocated, taken = Block(), {op.attrs["name"] for op in walk(self.region.function.body) if op.spec.allocates}
        with self.b.region(allocated):
            for each in self.kept.values():
                type = SharedType((self.count, *self.shape(each.value, each.axis)), each.value.dtype)
                name = free_name(f"s{each.name}", taken)
                each.tile = self.b.op("shared_alloc", type=type, name=name).result
                each.tile.name = name
        super().run()
        self.region.function.body.ops[:0] = allocated.ops

    def of(self, value: Value, axis: int) -> Value:
        """The part of a tile, from shared memory if it is there."""
        kept = self.kept.get(value)
        if kept is None or (value, axis) in self.memo:
            return super().of(value, axis)
        if kept.full or kept.by_copies:
            made = self.read(kept)
        else:
            made = super().of(value, axis)
            self.write(kept, made, None)
        self.memo[value, axis] = made
        return made

    def read(self, kept: Kept) -> Value:
        """A part as it lies in shared memory. Copies leave zeros where nothing is loaded; the first phase puts there
        what belongs there."""
        self.b.place = (kept.op.loc or self.b.loc, None)
        if not kept.full and kept.filling is not None:
            mask, other = (self.of(each, kept.axis) for each in kept.filling)
            off = self.b.value("xor", mask, self.b.constant(True, I1, mask.shape))
            self.write(kept, other, off)
        assert kept.tile is not None
        operands = [kept.tile, self.slot, offsets_within(self.b, self.shape(kept.value, kept.axis))]
        made = self.b.op("load", operands, has=["memory", "slot", "offset"], cache=None, evict=None).result
        return made.stands_for(kept.value)

    def write(self, kept: Kept, made: Value, mask: Value | None) -> None:
        """A part to shared memory."""
        assert kept.tile is not None
        place = offsets_within(self.b, made.shape)
        parts = {"memory": kept.tile, "slot": self.slot, "offset": place, "mask": mask, "value": made}
        given = {name: value for name, value in parts.items() if value is not None}
        self.b.op("store", list(given.values()), has=list(given), cache=None, evict=None)

    def bring(self) -> None:
        """Copies of all parts, and what waits for them."""
        copied = [each for each in self.first if each.by_copies]
        if not copied:
            return
        body = Block([Value(TileType((), INDEX))])
        with self.b.region(body):
            self.begin(body.args[0], {})
            for each in copied:
                assert each.tile is not None
                self.b.place = (each.op.loc or self.b.loc, None)
                source, mask = (operand(each.op, name) for name in ("offset", "mask"))
                assert source is not None
                source = self.of(source, each.axis)
                place = offsets_within(self.b, source.shape)
                off = None if mask is None else self.of(mask, each.axis)
                copy(self.b, each.tile, self.slot, place, each.op.operands[0], source, off)
            self.b.op("yield")
        self.b.op("for", [self.b.index(0), self.b.index(self.count), self.b.index(1)], [body], unroll=1)
        self.b.op("commit")
        self.b.op("wait", groups=0)

    def phase(self, phase: WidePhase) -> None:
        full = [each.value for each in self.kept.values() if each.full]
        made = made_in(self.region, phase, full)
        self.first = [each for each in self.kept.values() if not each.full and each.value.op in made]
        self.bring()
        self.loop(phase)
        for each in self.first:
            each.full = True

    def loop(self, phase: WidePhase) -> None:
        """The loop over the parts."""
        starts = [self.start(sink) for sink in phase.sinks]
        first = self.b.index(0)
        if any(sink.results and not start for sink, start in zip(phase.sinks, starts, strict=True)):
            self.begin(first, {})
            starts, first = (
                [self.sink(sink, start) for sink, start in zip(phase.sinks, starts, strict=True)],
                self.b.index(1),
            )
        body = Block([Value(TileType((), INDEX)), *(Value(v.type) for each in starts for v in each)])
        bounds = [first, self.b.index(self.count), self.b.index(1)]
        with self.b.region(body):
            self.begin(body.args[0], {})
            carried = iter(body.args[1:])
            inside = [[next(carried) for _ in each] for each in starts]
            ends = [self.sink(sink, before) for sink, before in zip(phase.sinks, inside, strict=True)]
            self.b.op("yield", [v for each in ends for v in each])
        made = self.b.op("for", [*bounds, *(v for each in starts for v in each)], [body], unroll=1)
        behind = iter(made.results)
        for sink, each in zip(phase.sinks, starts, strict=True):
            self.reduce(sink, [next(behind) for _ in each])

    def start(self, sink: Op) -> list[Value]:
        """The accumulators that change nothing; none where they are not known."""
        if not sink.results:
            return []
        region, shape = sink.regions[0], self.shape(sink.operands[0], self.region.sinks[sink])
        join, end = region.ops[0], region.ops[-1]
        if end.operands != [join.result] or set(join.operands) != set(region.args) or join.spec.starts is None:
            return []
        number = join.spec.starts(join.result.dtype)
        return [] if number is None else [self.b.constant(number, join.result.dtype, shape)]
