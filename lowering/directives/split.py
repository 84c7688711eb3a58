"""`split p: 4`: the rounds of a loop that only adds to sums are dealt to several blocks.

    acc = zeros(…)                 acc = zeros(…)
    for p in range(…):             for p in part of range(…):
        acc = dot(…, acc)              acc = dot(…, acc)
    c[…] = acc              →      sums[block] = acc
                                   if this block is the last one to arrive:
                                       acc = the blocks' sums, added in order
                                       c[…] = acc

The parts are one more factor of the grid's last axis. Partial sums and the counters of arrivals are in workspaces,
which the launch provides. Whichever block is the last, it adds the parts in their order, so that a result has the same
bits on every call. Nobody waits: blocks may run in any order, and one after another.

`split p: stream` has as many blocks as run at once (`blocks_per_sm`, else 1 a multiprocessor), each with a loop over
tiles. While there are as many tiles as blocks, each block takes a whole one, so that neighbours are done at one time;
of the tiles that are left the rounds, one tile's behind the other's, are dealt in equal shares. A tile that is one
block's is not left in memory. (Stream-K, with whole tiles first: Osama et al., PPoPP 2023.)

Never by itself: sums come in another order, and more blocks help only where a grid has few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from lowering.builder import Builder
from lowering.directives.grid import in_ir, replace_grid
from lowering.directives.slices import impure, located, slice_of
from lowering.directives.stage import offsets_within
from lowering.fold import constant_of
from lowering.ir import Block, Function, Op, Value, in_line, replace_uses, walk
from lowering.location import TileError
from lowering.ops import OPS, space_of
from lowering.ops.control import handed_on
from lowering.ops.memory import BONDS
from lowering.types import I1, INDEX, S32, S64, U32, DType, TileType

PARTS = (1, 2, 4)
STREAM = 0
"""What stands for `stream` in place of a number of parts."""
Values = Sequence[Value]
AXIS = 2
"""The axis of the grid along which the parts are."""


def split(function: Function) -> None:
    """Splits the loop that the schedule names. TileError `schedule` for one that cannot be."""
    for name, parts in function.by_subject("split", int).items():
        loops = [op for op in walk(function.body) if op.spec.counters and op.regions[0].args[0].name == name]
        if loops:
            _split(function, name, parts, loops)


def may_deal(function: Function) -> bool:
    """Whether a tile may become the work of several blocks."""
    return bool(function.by_subject("split", int))


def _split(function: Function, name: str, named: int, loops: list[Op]) -> None:
    loc = function.lines.get(("split", name))
    loop, sums = loops[0], []
    try:
        _check_place(function, loops)
        if named == STREAM:
            _check_rounds(function, loop)
        sums = _sums_of(loop)
        _check_effects(function, loop)
        wrong = None
    except Unsplit as error:
        wrong = error
    if wrong is not None and named != 1:
        message = f"loop '{name}' cannot be split: {wrong.message}"
        raise TileError("schedule", loc or loop.loc, message, wrong.hint)
    options = {"stream" if each == STREAM else str(each): each for each in dict.fromkeys((*PARTS, named))}
    parts: int = function.choices.choose(
        "split",
        name,
        options if wrong is None else {"1": 1},
        "stream" if named == STREAM else str(named),
        loc=loop.loc,
        because="the schedule says so",
        pinned=loc,
        line=f"split {name}: {{option}}",
    )
    if parts == STREAM:
        _Stream(function, loop, sums).run()
    elif parts > 1:
        _Split(function, loop, sums, parts).run()


# ---- what it needs ----


class Unsplit(Exception):
    """Why a loop cannot be split, and what would fit."""

    def __init__(self, message: str, hint: str):
        super().__init__(message)
        self.message, self.hint = message, hint


def _check_place(function: Function, loops: list[Op]) -> None:
    if len(loops) > 1:
        raise Unsplit(f"{len(loops)} loops have this counter", "give the counters names of their own")
    if function.number("persistent", 0):
        raise Unsplit("a persistent kernel's blocks take whole tiles", "persistent 0")
    if loops[0] not in function.body.ops:
        raise Unsplit("it stands in another loop or a branch", "split the outermost loop")
    if function.word("barriers") == "manual":
        raise Unsplit("its blocks meet behind barriers, which 'barriers manual' leaves out", "barriers automatic")
    if not _positive(loops[0]):
        raise Unsplit("its step is no positive constant", "count up by a constant")


def _check_rounds(function: Function, loop: Op) -> None:
    """All tiles have as many rounds, which are known ahead of them."""
    before = function.body.ops[: function.body.ops.index(loop)]
    part = slice_of(before, loop.operands[:3])
    wrong = impure(part)
    what = "the number of the tile" if wrong is None else f"'{wrong.name}'{in_line(wrong)}"
    if wrong is not None or any(op.spec.of_grid for op in part):
        message = f"how many rounds it has comes from {what}, and each tile may have others"
        raise Unsplit(message, "bounds of dims and constants, or a number of parts")


def _positive(loop: Op) -> bool:
    step = constant_of(loop.operands[2])
    return step is not None and step > 0


def _check_effects(function: Function, loop: Op) -> None:
    """Each part of the loop is another block's, and what stands before it is done by all of them."""
    before = function.body.ops[: function.body.ops.index(loop)]
    for op in (each for top in before for each in (top, *_inside(top))):
        if (what := _effect(op, ("global",))) is not None:
            message = f"'{what}'{in_line(op)} stands before it, and each of its blocks would do it"
            raise Unsplit(message, "do it behind the loop")
    for op in _inside(loop):
        if (what := _effect(op, ("global", "shared"))) is not None:
            hint = "a loop that adds to sums; 'stage' makes copies to shared memory"
            raise Unsplit(f"'{what}'{in_line(op)} does more than to add to its sums", hint)


def _inside(op: Op) -> Iterator[Op]:
    for region in op.regions:
        yield from walk(region)


def _effect(op: Op, spaces: tuple[str, ...]) -> str | None:
    """What an operation does to memory of these spaces, for other blocks or for people, in a word."""
    spec = op.spec
    if spec.effects is not None:
        for effect in spec.effects(op):
            if effect.kind in BONDS or (effect.kind == "write" and space_of(effect.memory) in spaces):
                return op.name
        return None
    silent = spec.regions or spec.ends or spec.allocates or spec.orders is not None
    return op.name if spec.keep and not silent else None


# ---- the sums of a loop ----


@dataclass(slots=True)
class SplitSum:
    """What a loop carries: what it is after a round, from what it was, by operations whose parts `join` joins.

    values: from the one to the other; uses: who takes them on the way, and as which operand.
    """

    name: str
    join: str = ""
    values: set[Value] = field(default_factory=set)
    uses: set[tuple[Op, int]] = field(default_factory=set)

    def joined_by(self, op: Op) -> None:
        assert op.spec.sums is not None
        join = op.spec.sums[1]
        if self.join not in ("", join):
            message = f"'{self.name}' is made by '{self.join}' and by '{join}'{in_line(op)}"
            raise Unsplit(message, "the same operation in each step: a sum, a product or a maximum")
        self.join = join

    def follow(self, value: Value, first: Value) -> None:
        """Takes in all from `first` to `value`."""
        self.values |= {value, first}
        if value is first:
            return
        op = value.op
        if op is not None and op.spec.sums is not None:
            self.joined_by(op)
            which = op.spec.sums[0]
            among = range(len(op.operands)) if which is None else [which]
            ways = [i for i in among if _leads(op.operands[i], first)]
            if len(ways) == 1:
                self.uses.add((op, ways[0]))
                self.follow(op.operands[ways[0]], first)
                return
        elif op is not None and op.spec.flows:
            self._through(op, op.results.index(value), first)
            return
        message = f"'{self.name}' is not what it was in the round before, with something added"
        raise Unsplit(message, "sums are made by dot, fma, +, *, minimum, maximum, &, | and ^")

    def _through(self, op: Op, number: int, first: Value) -> None:
        """Through a loop or a branch."""
        if op.spec.loops:
            place = op.spec.leading + number
            self.uses.add((op, place))
            self.follow(op.operands[place], first)
        for region in op.regions:
            self.uses.add((region.ops[-1], region.ops[-1].spec.leading + number))
            start = region.args[op.spec.counters + number] if op.spec.loops else first
            self.follow(handed_on(region)[number], start)


def _leads(value: Value, first: Value) -> bool:
    """Whether a value is made of `first`."""
    todo, seen = [value], {value}
    while todo:
        value = todo.pop()
        if value is first:
            return True
        if value.op is not None:
            more = [*value.op.operands, *(v for op in _inside(value.op) for v in op.operands)]
            todo += [v for v in more if v not in seen]
            seen.update(more)
    return False


def _sums_of(loop: Op) -> list[SplitSum]:
    """What a loop carries, all of it sums. Raises Unsplit."""
    body = loop.regions[0]
    end = body.ops[-1]
    out: list[SplitSum] = []
    if not loop.results:
        raise Unsplit("it carries no sum", "acc = acc + … in each round")
    for number, result in enumerate(loop.results):
        found = SplitSum(result.name or "a value")
        found.uses.add((end, number))
        found.follow(end.operands[number], body.args[1 + number])
        if not found.join:
            raise Unsplit(f"nothing is added to '{found.name}'", "carry sums alone")
        join, start = OPS[found.join], loop.operands[3 + number]
        neutral = None if join.starts is None else join.starts(start.dtype)
        if not join.idempotent and constant_of(start) != neutral:
            shown = abs(neutral or 0)  # without the sign of -0.0
            message = f"'{found.name}' does not start at {shown:g}, and each block would take in its start"
            raise Unsplit(message, f"start at {shown:g}, and take in behind the loop what it started with")
        out.append(found)
    for op in walk(body):
        for place, operand in enumerate(op.operands):
            for found in out:
                if operand in found.values and (op, place) not in found.uses:
                    message = f"'{found.name}' is read in the loop{in_line(op)}, where a block has a part of it alone"
                    raise Unsplit(message, "read it behind the loop")
    return out


# ---- what is made ----


class _Meeting:
    """The blocks of a tile, each with sums of some rounds of the loop. `each`: sums that a block leaves at most."""

    each = 1

    def __init__(self, function: Function, loop: Op, sums: list[SplitSum]):
        self.function, self.loop, self.sums = function, loop, sums
        self.b = Builder(located(function, loop))
        body = function.body.ops
        at = body.index(loop)
        self.before, self.behind = body[:at], body[at + 1 :]

    def rewrite(self) -> None:
        """Makes what stands in the function's body instead."""
        raise NotImplementedError

    def run(self) -> None:
        self.rewrite()
        self.function.deals += 1

    def provide(self) -> None:
        """The workspaces of the launch."""
        self.memories = [
            self.function.workspace(f"{r.name or 'sum'}_parts", self._stored(r), self.each * prod(r.tile.shape))
            for r in self.loop.results
        ]
        self.arrived = self.function.workspace("arrived", U32, 1, zero=True)

    def rounds(self) -> Value:
        """How many rounds the loop has; of an empty one not above 0."""
        b, (start, stop, step) = self.b, self.loop.operands[:3]
        one = b.constant(1, start.dtype)
        return b.value("floordiv", b.value("add", b.value("sub", stop, start), b.value("sub", step, one)), step)

    def shorten(self, first: Value, count: Value) -> None:
        """The loop goes through `count` rounds from round `first` on, as far as there are so many."""
        b, (start, stop, step) = self.b, self.loop.operands[:3]
        first, count = (b.value("mul", self._as(each, start.dtype), step) for each in (first, count))
        begin = b.value("add", start, first)
        self.loop.operands[:2] = [begin, b.value("minimum", stop, b.value("add", begin, count))]

    def arrive(self, place: Value, counter: Value, others: Value) -> Value:
        """Leaves the sums of this block; whether the `others` have done so before."""
        b = self.b
        for memory, result in zip(self.memories, self.loop.results, strict=True):
            self._store(memory, self._at(place, result), result)
        has = ["memory", "offset", "value"]
        operands = [self.arrived, counter, b.constant(1, U32)]
        count = b.op("atomic", operands, has=has, action="add", order="acq_rel", scope="gpu").result
        return b.value("eq", count, self._as(others, U32))

    def joined(
        self, counter: Value, first: Value, turns: tuple[Value, Value], place: Callable[[Value], Value]
    ) -> Values:
        """The sums of all parts, in their order: of the first one, then a loop over those in the turns."""
        b, results = self.b, self.loop.results
        self._store(self.arrived, counter, b.constant(0, U32))
        starts = [self._load(m, self._at(first, r), r.dtype) for m, r in zip(self.memories, results, strict=True)]
        turn = Value(TileType((), INDEX), name="part")
        body = Block([turn, *(Value(result.type) for result in results)])
        with b.region(body):
            at = place(turn)
            ends = [
                b.value(sum.join, total, self._load(memory, self._at(at, result), result.dtype))
                for sum, total, memory, result in zip(self.sums, body.args[1:], self.memories, results, strict=True)
            ]
        body.ops.append(self.end(*ends))
        made = b.op("for", [*turns, b.index(1), *starts], [body], unroll=1)
        for result, new, inside in zip(results, made.results, body.args[1:], strict=True):
            new.name = inside.name = result.name
        return made.results

    def end(self, *values: Value) -> Op:
        return Op(OPS["yield"], values, [], {}, (), self.b.loc)

    def behind_if(self, condition: Value, then: Block, sums: Values) -> None:
        """What follows the loop, where the condition holds, with these sums."""
        then.ops += [op for op in self.behind if not op.spec.allocates]
        replace_uses(then, dict(zip(self.loop.results, sums, strict=True)))
        otherwise = Block()
        then.ops.append(self.end())
        otherwise.ops.append(self.end())
        self.b.op("if", [condition], [then, otherwise], types=[])

    def _stored(self, value: Value) -> DType:
        """The type of a sum in memory."""
        return value.dtype if value.dtype is not INDEX else S64 if self.function.index_bits == 64 else S32

    def _as(self, value: Value, dtype: DType) -> Value:
        if value.dtype is dtype:
            return value
        return self.b.value("cast", value, to=dtype, saturate=False, rounding=None)

    def _at(self, place: Value, result: Value) -> Value:
        """The elements of a sum in its workspace."""
        b, shape = self.b, result.tile.shape
        start = b.value("mul", place, b.index(prod(shape)))
        return b.value("add", *b.same_shape([start, offsets_within(b, shape)])) if shape else start

    def _store(self, memory: Value, at: Value, value: Value) -> None:
        value = self._as(value, memory.dtype)
        self.b.op("store", [memory, at, value], has=["memory", "offset", "value"], cache=None, evict=None)

    def _load(self, memory: Value, at: Value, dtype: DType) -> Value:
        made = self.b.op("load", [memory, at], has=["memory", "offset"], cache=None, evict=None).result
        return self._as(made, dtype)


class _Split(_Meeting):
    """As many parts of each tile, along the grid's last axis."""

    def __init__(self, function: Function, loop: Op, sums: list[SplitSum], parts: int):
        super().__init__(function, loop, sums)
        self.parts = parts

    def rewrite(self) -> None:
        b, function = self.b, self.function
        top, head, meeting = Block(), Block(), Block()
        with b.region(top):
            part = self._divide()
            with b.region(head):
                every = b.index(self.parts)
                above = b.value("add", self._as(self.rounds(), INDEX), b.value("sub", every, b.index(1)))
                each = b.value("floordiv", above, every)
                self.shorten(b.value("mul", part, each), each)
            with b.region(meeting):
                self._meet(part)
        kept = [op for op in self.behind if op.spec.allocates]
        function.body.ops = [*kept, *top.ops, *self.before, *head.ops, self.loop, *meeting.ops]

    def _divide(self) -> Value:
        """The part of this block. What the kernel reads of the grid's last axis is as it was."""
        b, function = self.b, self.function
        number, parts = b.value("block_id", axis=AXIS), b.index(self.parts)
        single = function.grid[AXIS] == 1
        made: dict[Value, Value] = {}
        self.block = b.index(0) if single else b.value("floordiv", number, parts)
        blocks = b.index(1) if single else b.value("floordiv", b.value("grid_size", axis=AXIS), parts)
        known = {"block": self.block, "blocks": blocks}
        for op in walk(function.body):
            if op.spec.of_grid and op.attrs["axis"] == AXIS:
                made[op.result] = known[op.spec.of_grid]
        replace_uses(function.body, made)
        function.grid[AXIS] = self.parts if single else ["*", function.grid[AXIS], self.parts]
        return number if single else b.value("mod", number, parts)

    def _meet(self, part: Value) -> None:
        """The last block of a tile goes on with the sums of all."""
        b = self.b
        rows, columns = (b.value("grid_size", axis=axis) for axis in (0, 1))
        plane = b.value("mul", rows, columns)
        tile = b.value("add", b.value("block_id", axis=0), b.value("mul", rows, b.value("block_id", axis=1)))
        depth = b.value("mul", self.block, b.index(self.parts))
        first = b.value("add", tile, b.value("mul", plane, depth))  # the block of the tile's first part

        def place(turn: Value) -> Value:
            return b.value("add", first, b.value("mul", plane, turn))

        self.provide()
        is_last = self.arrive(place(part), first, b.index(self.parts - 1))
        then = Block()
        with b.region(then):
            sums = self.joined(first, first, (b.index(1), b.index(self.parts)), place)
        self.behind_if(is_last, then, sums)


class _Stream(_Meeting):
    """Whole tiles, and equal shares of all rounds of the tiles that are left, one tile's behind the other's.

    A block leaves two sums at most: of a tile that it begins, and of one that another block has begun.
    """

    each = 2

    def rewrite(self) -> None:
        b, function = self.b, self.function
        ahead = slice_of(self.before, self.loop.operands[:3])
        kept = [op for op in (*self.before, *self.behind) if op.spec.allocates]
        top, inside = Block(), Block()
        with b.region(top):
            place = function.lines.get(("split", self.loop.regions[0].args[0].name or ""), b.loc)
            sizes = [in_ir(b, function, tree, place) for tree in function.grid]
            block, blocks = b.value("block_id", axis=0), b.value("grid_size", axis=0)
            plane = b.value("mul", sizes[0], sizes[1])
            rounds = b.value("maximum", self._as(self.rounds(), INDEX), b.index(1))
            tiles, one = b.value("mul", plane, sizes[2]), b.index(1)
            waves = b.value("floordiv", tiles, blocks)
            dealt = b.value("mul", waves, blocks)  # tiles that are whole
            total = b.value("mul", b.value("sub", tiles, dealt), rounds)
            share = b.value("maximum", self._above(total, blocks), one)
            low = b.value("minimum", b.value("mul", block, share), total)
            high = b.value("minimum", b.value("add", low, share), total)
            begun = b.value("floordiv", low, rounds)  # the first one of which it has a part
            parted = b.value("maximum", b.value("sub", self._above(high, rounds), begun), b.index(0))
            bounds = [
                b.index(0),
                b.value("add", waves, b.value("select", b.value("lt", low, high), parted, b.index(0))),
                one,
            ]
        turn = Value(TileType((), INDEX), name="turn")
        self.provide()
        with b.region(top), b.region(inside):
            is_whole = b.value("lt", turn, waves)

            def of(whole: Value, part: Value) -> Value:
                return b.value("select", is_whole, whole, part)

            number = b.value("add", begun, b.value("sub", turn, waves))  # among those that are left
            own = b.value("add", block, b.value("mul", turn, blocks))
            tile = of(own, b.value("add", dealt, number))
            flat = b.value("mod", tile, plane)
            numbers = [b.value(name, flat, sizes[0]) for name in ("mod", "floordiv")]
            replace_grid(function, [*numbers, b.value("floordiv", tile, plane)], sizes)
            origin = b.value("mul", number, rounds)
            first = of(b.index(0), b.value("maximum", b.value("sub", low, origin), b.index(0)))
            last = of(rounds, b.value("minimum", b.value("sub", high, origin), rounds))
            self.shorten(first, b.value("sub", last, first))
            rest = [op for op in self.before if op not in ahead and not op.spec.allocates]
            meeting = Block()
            with b.region(meeting):
                opening = of(block, b.value("floordiv", origin, share))  # the block of the tile's first part
                end = b.value("add", origin, b.value("sub", rounds, one))
                self._meet(block, first, opening, of(block, b.value("floordiv", end, share)))
        body = Block([turn])
        body.ops = [*inside.ops, *rest, self.loop, *meeting.ops, self.end()]
        around = Op(OPS["for"], bounds, [], {"unroll": 1, "tiles": True}, [body], b.loc)
        function.body.ops = [*kept, *ahead, *top.ops, around]
        function.grid = [["*", "sms", function.number("blocks_per_sm", 1)], 1, 1]

    def _above(self, number: Value, divisor: Value) -> Value:
        b = self.b
        return b.value("floordiv", b.value("add", number, b.value("sub", divisor, b.index(1))), divisor)

    def _meet(self, block: Value, first: Value, opening: Value, ending: Value) -> None:
        """A block that has all rounds goes on; else the last one does, with the sums of all."""
        b, two, one = self.b, self.b.index(2), self.b.index(1)
        types = [*(result.type for result in self.loop.results), TileType((), I1)]
        yes = b.constant(True, I1)
        whole, parted, last, others = Block(), Block(), Block(), Block()
        whole.ops.append(self.end(*self.loop.results, yes))
        with b.region(parted):
            slot = b.value("select", b.value("eq", first, b.index(0)), b.index(0), one)
            place = b.value("add", b.value("mul", block, two), slot)
            is_last = self.arrive(place, opening, b.value("sub", ending, opening))
            with b.region(last):
                turns = b.value("add", opening, one), b.value("add", ending, one)
                at = b.value("mul", opening, two)
                sums = self.joined(opening, at, turns, lambda turn: b.value("add", b.value("mul", turn, two), one))
            last.ops.append(self.end(*sums))
            others.ops.append(self.end(*self.loop.results))
            joined = b.op("if", [is_last], [last, others], types=types[:-1]).results
        parted.ops.append(self.end(*joined, is_last))
        *sums, goes_on = b.op("if", [b.value("eq", opening, ending)], [whole, parted], types=types).results
        for result, old in zip(sums, self.loop.results, strict=True):
            result.name = old.name
        self.behind_if(goes_on, Block(), sums)
