"""Finds the operations that depend on a wide tile along one axis, and plans the loops that compute them part by part.

All operations between two reductions along the axis form one loop, called a phase. Later phases read the reductions'
results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from dsl.lowering.directives.slices import inside, reached, reads
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, in_line, uses
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import SharedType, TileType
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import BONDS, writes

Wide = tuple[Value, int]
"""A tile, and the axis along which it is computed in parts."""


class WidePhase(Struct):
    """One loop over the parts. `sinks` contains the reductions and stores that the loop computes, in order."""

    sinks: list[Op]


class WideSubject(Struct):
    """The value in a line of the schedule, the axis along which it is computed in parts, and the location of the
    line."""

    name: str
    axis: int
    loc: Loc | None

    def refused(self, message: str, hint: str) -> TileError:
        return TileError("schedule", self.loc, f"'{self.name}' cannot be done in parts: {message}", hint)


class LoopResults(Struct, frozen=True):
    """The results of a loop that carries tiles in parts: the parts of each result, and the number of blocks of a
    cluster that share the parts. `starts` maps tiles with which the loop begins to operands of the loop, in whose place
    parts of the tiles are still to be put."""

    loop: Op
    parts: Mapping[Wide, Sequence[Value]]
    sharing: int
    starts: Mapping[Wide, Sequence[Value]]


class WideRegion(Struct):
    """All operations that are computed in parts together with one value.

    `block` contains these operations. `axes` maps each tile that is computed in parts to its axis. `sinks` maps each
    reduction or store of such a tile to that axis. `steps` is the new content of the block, in order. If `block` is the
    body of `loop`, `carried` maps the position of each loop-carried tile to its axis. `given` are the results of an
    earlier loop from which the region begins.
    """

    function: Function
    block: Block
    about: WideSubject
    extent: int
    axes: dict[Value, int] = field(default_factory=dict)
    sinks: dict[Op, int] = field(default_factory=dict)
    steps: list[Op | WidePhase] = field(default_factory=list)
    loop: Op | None = None
    carried: dict[int, int] = field(default_factory=dict)
    given: LoopResults | None = None

    @property
    def names(self) -> set[str]:
        """The names of the tiles that are computed in parts."""
        return {value.name for value in self.axes if value.name}

    @property
    def phases(self) -> list[WidePhase]:
        return [step for step in self.steps if isinstance(step, WidePhase)]


def is_join(op: Op) -> bool:
    """Whether an operation is a reduction that may combine its elements in any order."""
    return bool(op.spec.algebra.unordered)


def is_reduction(op: Op, axis: int) -> bool:
    """Whether an operation reduces along `axis`."""
    return is_join(op) and op.attrs["axis"] == axis


def starts_with(sink: Op) -> float | int | bool | None:
    """Returns the neutral number of a reduction of one tile, such as -∞ for `max`, or None if it is unknown."""
    if len(sink.results) != 1:
        return None
    region = sink.regions[0]
    join, end = region.ops[0], region.ops[-1]
    if end.operands != [join.result] or set(join.operands) != set(region.args) or join.spec.algebra.starts is None:
        return None
    return join.spec.algebra.starts(join.result.dtype)


def tiles_of(sink: Op) -> list[Value]:
    """Returns the tile operands of a reduction or a store, which all have the same shape."""
    return [v for v in sink.operands if isinstance(v.type, TileType) and v.shape]


class Surroundings:
    """Tables of a function: the block of each operation, the users of each value, and all memories that are written."""

    def __init__(self, function: Function):
        self.home = {op: block for block in blocks_of(function.body) for op in block.ops}
        self.users = uses(function.body)
        self.written = {op.operands[0] for op in self.home if writes(op)}
        self.loops = {op.regions[0]: op for op in self.home if op.spec.control.counters}


class _Growing:
    """Finds the operations that depend on a value. Raises TileError `schedule` for an operation that cannot be computed
    in parts."""

    def __init__(self, region: WideRegion, around: Surroundings):
        self.region, self.about = region, region.about
        self.home, self.users, self.written = around.home, around.users, around.written
        # `needed` ensures that each value is visited once. Visiting values along every path took 2^n steps for n sums.
        self.needed: set[Wide] = set()
        self.work: list[tuple[Value, int, bool]] = []

    def run(self, value: Value) -> None:
        self.spread(value, self.about.axis)
        for tile, axis in self.region.given.starts if self.region.given else ():
            self.need(tile, axis)
        while self.work:
            value, axis, whole_no_more = self.work.pop()
            if whole_no_more:
                for user in dict.fromkeys(self.users.get(value, ())):
                    self.follow(user, value, axis)
            else:
                self.trace(value, axis)

    def spread(self, value: Value, axis: int) -> None:
        """Records that `value`, and all values that depend on it, are computed in parts."""
        known = self.region.axes.get(value)
        if known is None:
            self.region.axes[value] = axis
            self.need(value, axis)
            self.work.append((value, axis, True))
        elif known != axis:
            raise self.about.refused(f"'{name_of(value)}' has parts along two of its axes", "leave it whole")

    def need(self, value: Value, axis: int) -> None:
        """Records that parts of `value` are read."""
        if (value, axis) not in self.needed:
            self.needed.add((value, axis))
            self.work.append((value, axis, False))

    def follow(self, user: Op, value: Value, axis: int) -> None:
        """Propagates the division into parts from `value` to `user`, an operation that reads it."""
        if self.home[user] is self.region.block and user.spec.control.ends:
            if self.region.loop is not None:
                for number, each in enumerate(user.operands):
                    if each is value:
                        self.carry(number, axis)
                return
            made = "it" if value.name == self.about.name else f"'{name_of(value)}', which is computed from it,"
            said = f"{made} leaves the branch or while loop in which it stands{in_line(user)}"
            raise self.about.refused(said, "leave it whole")
        if self.home[user] is not self.region.block or user.spec.control.flows:
            said = f"a loop or a branch uses it{in_line(user)}"
            raise self.about.refused(said, "leave it whole, or load it in there")
        if is_reduction(user, axis):
            self.check_join(user)
        elif user.spec.access.kind != "write":
            for other, along in self.along(user, value, axis).items():
                if other in user.results:
                    self.spread(other, along)
                elif other is not value:
                    self.need(other, along)
            return
        if isinstance(user.operands[0].type, SharedType) and not is_own(user.operands[0]):
            said = f"it is stored in shared memory{in_line(user)}"
            raise self.about.refused(said, f"stage {self.about.name}: shared")
        self.region.sinks[user] = axis
        for tile in tiles_of(user):
            self.need(tile, axis)

    def carry(self, number: int, axis: int) -> None:
        """Records that a loop-carried tile, the one at position `number`, is computed in parts."""
        loop = self.region.loop
        assert loop is not None
        self.region.carried[number] = axis
        self.spread(loop.regions[0].args[1 + number], axis)
        self.need(loop.regions[0].ops[-1].operands[number], axis)

    def check_join(self, op: Op) -> None:
        """Raises TileError for a reduction whose region has operations that are not elementwise. Parts are combined
        element by element."""
        for inner in op.regions[0].ops[:-1]:
            if not (inner.spec.elementwise or inner.spec.elements.splat):
                message = f"its reduction{in_line(op)} joins with '{inner.name}'"
                raise self.about.refused(message, "a reduction joins by elementwise operations")

    def along(self, op: Op, value: Value, axis: int) -> dict[Value, int]:
        """Maps the other operands and results of `op` to the axis that corresponds to `axis` of `value`."""
        through = op.spec.elements.along
        found = through(op, value, axis) if through is not None else None
        if found is None:
            message = f"'{op.spec.symbol or op.name}'{in_line(op)} mixes the elements along its axis"
            raise self.about.refused(message, "elementwise operations, reductions along it, loads and stores")
        shared = op.spec.access.kind and isinstance(op.operands[0].type, SharedType) and not is_own(op.operands[0])
        if shared or (op.spec.access.kind and op.attrs["cache"] == "volatile"):
            what = "volatile" if op.attrs["cache"] == "volatile" else "shared"
            raise self.about.refused(f"it comes from {what} memory{in_line(op)}", "a plain load of a tensor")
        return found

    def trace(self, value: Value, axis: int) -> None:
        """Propagates the division into parts from `value` to the operands from which it is computed."""
        op = value.op
        if op is None:
            if value in self.region.block.args and self.region.loop is not None:
                self.carry(self.region.block.args.index(value) - 1, axis)
            elif self.region.given is None or (value, axis) not in self.region.given.parts:
                raise self.about.refused("a loop carries it", "leave it whole")
            return
        if op.spec.control.flows:
            said = f"'{name_of(value)}' comes from a loop or a branch{in_line(op)}"
            raise self.about.refused(said, "leave it whole, or compute it here")
        outside = self.home[op] is not self.region.block
        if op.spec.access.kind and outside and op.operands[0] in self.written:
            said = f"'{op.operands[0].name}' is loaded outside{in_line(op)}, and written"
            raise self.about.refused(said, "load it here")
        found = self.along(op, value, axis)
        if op.spec.access.kind and not outside:
            self.spread(value, axis)  # the load is in the region's block, so all its users are in parts, too
        for o in op.operands:
            if o in found:
                self.need(o, found[o])


def is_own(memory: Value) -> bool:
    """Whether a shared tile was allocated by the compiler, so that `pieces` has ordered its accesses."""
    return memory.op is not None and bool(memory.op.attrs.get("own"))


def name_of(value: Value) -> str:
    return value.name or "a value"


class _Planning:
    """Determines the order of the phases and of the block's other operations."""

    def __init__(self, region: WideRegion, around: Surroundings):
        self.region, self.written = region, around.written
        self.begin()

    def begin(self) -> None:
        """Resets the state to no pending operations."""
        self.level: dict[Value, int] = {}  # maps a value to the number of phases before it
        self.pending: defaultdict[int, list[Op]] = defaultdict(list)
        self.waiting: defaultdict[int, list[Op]] = defaultdict(list)
        self.stored: dict[Value, tuple[int, Value | None]] = {}  # maps a memory to the phase and offset of its stores

    def run(self) -> None:
        for op in self.region.block.ops:
            level = max((self.level.get(v, 0) for v in reads(op)), default=0)
            if op in self.region.sinks:
                self.put_off(op, level)
            elif any(r in self.region.axes for r in op.results):
                if op.spec.access.kind and op.operands[0] in self.stored:
                    level = max(level, self.stored[op.operands[0]][0] + 1)
                self.level.update(dict.fromkeys(op.results, level))
            elif not self.is_movable(op):
                self.flush()  # phases end before an operation that keeps its place
                self.region.steps.append(op)
            elif level:
                self.waiting[level].append(op)
                self.level.update(dict.fromkeys(op.results, level))
            else:
                self.region.steps.append(op)
        self.flush()

    def is_movable(self, op: Op) -> bool:
        """Whether an operation may move behind later operations."""
        if op.spec.access.kind == "read":
            return op.operands[0] not in self.written and op.attrs["cache"] != "volatile"
        return not op.spec.access.touches and not op.spec.keep

    def put_off(self, sink: Op, level: int) -> None:
        if sink.results:
            self.level.update(dict.fromkeys(sink.results, level + 1))
        else:
            memory, place = sink.operands[0], operand(sink, "offset")
            phase, other = self.stored.get(memory, (level, place))
            level = max(level, phase + (other is not place))  # stores that may overlap keep their order
            self.stored[memory] = level, place
        self.pending[level].append(sink)

    def flush(self) -> None:
        for level in range(max([*self.pending, *self.waiting], default=-1) + 1):
            if level in self.pending:
                self.region.steps.append(WidePhase(self.pending[level]))
            self.region.steps += self.waiting.get(level + 1, ())
        self.begin()


def wide_region(
    function: Function,
    value: Value,
    about: WideSubject,
    around: Surroundings | None = None,
    seen: set[Wide] | None = None,
    given: LoopResults | None = None,
) -> WideRegion:
    """Finds all operations that must be computed in parts together with `value`, along the axis `about.axis`. Raises
    TileError `schedule` for an operation that cannot be computed in parts. `value` may be one of the results `given` of
    a loop.

    Adds the region's values to `seen`, even if it raises an error. Each of these values would have the same region.
    """
    # With `seen`, a caller builds each region only once. For a convolution with 64 taps, this takes 0.4 s instead of
    # 6.1 s.
    around = around or Surroundings(function)
    maker = given.loop if given is not None else value.op
    home = None if maker is None else around.home.get(maker)
    if given is None and maker is not None and maker.spec.control.counters:  # what a loop carries is made in its body
        home = maker.regions[0]
        value = home.args[1 + maker.results.index(value)]
    if home is None:
        raise about.refused("a loop carries it", "leave it whole")
    region = WideRegion(function, home, about, value.shape[about.axis], loop=around.loops.get(home), given=given)
    try:
        _Growing(region, around).run(value)
    finally:
        if seen is not None:
            seen.update(region.axes.items())
    _Planning(region, around).run()
    return region


def slices(wides: Iterable[Wide], known: Collection[Value] = ()) -> set[Op]:
    """Returns the operations that compute parts of the tiles in `wides`, if parts of the values `known` are already
    computed."""

    def parts(wide: Wide) -> list[Wide]:
        value, axis = wide
        along = None if value.op is None or value in known else value.op.spec.elements.along(value.op, value, axis)
        return [] if along is None or value.op is None else [(o, along[o]) for o in value.op.operands if o in along]

    return {value.op for value, _ in reached(wides, parts) if value.op is not None and value not in known}


def made_in(region: WideRegion, phase: WidePhase, known: Collection[Value]) -> set[Op]:
    """Returns the operations that compute the tiles for a phase, if parts of the values `known` are already
    computed."""
    return slices(_wides_of(region, phase), known)


def out_of_order(region: WideRegion, static: bool, kept: Collection[Value] = ()) -> TileError | None:
    """Returns an error if computing in parts would move a load behind a later store to the same memory, otherwise None.

    If `static`, no load is repeated, and `loads_ahead` keep their place. Otherwise each phase repeats its loads, except
    those of the values `kept`.
    """
    written = {memory for step in region.steps for _, memory in _stores_of(step)}
    accesses = (op for op in region.block.ops if op.spec.access.kind and op not in region.sinks)
    if not any(None in written or op.operands[0] in written for op in accesses):
        return None  # most kernels store to other memories than they load from
    position = {op: i for i, op in enumerate(region.block.ops)}
    stored: list[tuple[Op, Value | None]] = []
    known, done = set[Value](), set[Value]()

    def moved(made: Collection[Op]) -> TileError | None:
        for op in made:
            memory = op.operands[0] if op.spec.access.kind and op in position else None
            later = [by for by, of in stored if memory and of in (None, memory) and position[by] > position[op]]
            if memory and later:
                message = f"'{memory.name}' is loaded{in_line(op)} again, after a store to it{in_line(later[0])}"
                hint = "store to another tensor" if static else "static parts, or stage it: what is loaded once"
                return region.about.refused(message, hint)
        return None

    for step in region.steps:
        ahead = slices(loads_ahead(region, step, known, done), known) if static else set[Op]()
        wrong = moved(ahead)
        known |= {r for op in ahead for r in op.results}
        made = slices(_wides_of(region, step), known)
        stored += _stores_of(step) if isinstance(step, WidePhase) else ()
        if wrong := wrong or moved(made):
            return wrong
        known |= {r for op in made for r in op.results if static or r in kept}
        stored += _stores_of(step) if isinstance(step, Op) else ()
        done |= {r for sink in step.sinks for r in sink.results} if isinstance(step, WidePhase) else set()
    return None


def loads_ahead(
    region: WideRegion, step: Op | WidePhase, known: Collection[Value], done: Collection[Value]
) -> list[Wide]:
    """Returns what static parts must load before a step, because the step writes the memory and the load comes first in
    the program. Loads of the values `known` are done, and so are reductions with the results `done`."""
    stores = list(_stores_of(step))
    if not stores:
        return []
    position = {op: i for i, op in enumerate(region.block.ops)}
    loads = [op for op in region.block.ops if op.spec.access.kind == "read" and op.results[0] in region.axes]
    waits = {r for sink in region.sinks for r in sink.results if r not in done}

    def follows(op: Op) -> bool:
        return any(of in (None, op.operands[0]) and position[by] > position[op] for by, of in stores)

    def sources(value: Value) -> list[Value]:
        return value.op.operands if value.op is not None and value.op in position else []

    def is_ready(op: Op) -> bool:
        needs = set(reached(op.operands, sources))
        return needs.isdisjoint(waits)

    found = [op.results[0] for op in loads if op.results[0] not in known and follows(op) and is_ready(op)]
    return [(value, region.axes[value]) for value in found]


def _wides_of(region: WideRegion, step: Op | WidePhase) -> list[Wide]:
    """Returns the tiles whose parts a step reads. The end of a loop's body reads those that the loop carries, and a
    loop those with which it begins."""
    if isinstance(step, WidePhase):
        return [(tile, region.sinks[sink]) for sink in step.sinks for tile in tiles_of(sink)]
    if step is region.block.ops[-1] and step.spec.control.ends:
        return [(step.operands[number], axis) for number, axis in region.carried.items()]
    return list(region.given.starts) if region.given is not None and step is region.given.loop else []


def _stores_of(step: Op | WidePhase) -> Iterator[tuple[Op, Value | None]]:
    """Yields the operations of a step that write, or order memory for other blocks, with the memories that they write.
    The memory is None for an operation that orders all of them."""
    if isinstance(step, WidePhase):
        yield from ((sink, sink.operands[0]) for sink in step.sinks if not sink.results)
        return
    for op in (step, *inside(step)):
        if writes(op):
            yield step, op.operands[0]
        if any(e.kind in BONDS for e in op.spec.access.effects(op)):
            yield step, None
