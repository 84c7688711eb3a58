"""Finds the accumulators of a loop, and how partial results from several blocks are combined.

An accumulator is called a sum if each iteration only adds to its previous value. "Add" means `dot`, `+`, `maximum` and
similar operations, also in inner loops and branches. An accumulator that is no sum needs a reduction after the loop.
The function of the reduction must combine two elements in the same way as an iteration combines the accumulator with a
new element:

    v, k = first(v, k, load(…), i)                 the iteration
    best, at = reduce(first, (v, k), axis=0)       the reduction after the loop

If only this reduction reads the loop's result, each block reduces its own part first, and stores only the reduced
numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from dsl.lowering.building.builder import Builder, equal, made_as
from dsl.lowering.directives.slices import inside, located, reached, reads, slice_of
from dsl.lowering.directives.wide import is_join
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, clone, in_line, uses, walk
from dsl.lowering.ir.location import Loc, TileError
from dsl.lowering.ir.types import DType, TensorType, TileType
from dsl.lowering.ops import OPS
from dsl.lowering.ops.control import handed_on
from dsl.lowering.ops.memory import writes

JOINED = "joined(f, …) behind the loop"


class Unsplit(Exception):
    """Raised if the iterations of a loop cannot be divided among blocks. Contains the reason and a hint."""

    def __init__(self, message: str, hint: str):
        super().__init__(message)
        self.message, self.hint = message, hint


class PartialSums(Struct):
    """A group of loop results, each divided into one partial result per block. `values` contains the results of the
    loop, or of reductions after the loop. `join` is the IR region that combines two partial results, as in a `reduce`.
    `name` is the name of the first value. `alone` contains the operations that each block applies to its own partial
    results, such as a reduction after the loop, and those of which `join` reads a result. If `whole`, the region
    combines tiles, not their elements.
    """

    values: list[Value]
    join: Block
    name: str
    alone: list[Op] = field(default_factory=list)
    whole: bool = False

    def joined(self, b: Builder, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """Combines the partial results `left` with those of later iterations, `right`."""
        if not self.whole:
            return joined(b, self.join, left, right)
        return clone(self.join, [*left, *right], b.block.ops)


class LoopShare:
    """Divides the iterations of a loop among blocks. `sums` are the partial results of the blocks. `alone` are the
    operations behind the loop that each block applies to its own partial results."""

    def __init__(self, function: Function, loop: Op, sums: list[PartialSums]):
        self.function, self.loop, self.sums = function, loop, sums
        self.b = Builder(located(function, loop))
        self.alone = list(dict.fromkeys(op for each in sums for op in each.alone))

    def iterations(self) -> Value:
        """Computes the trip count of the loop, which is 0 or negative for an empty loop."""
        b, (start, stop, step) = self.b, self.loop.operands[:3]
        return b.cdiv(b.value("sub", stop, start), step)

    def shorten(self, first: Value, count: Value) -> None:
        """Restricts the loop to at most `count` iterations, starting at iteration `first`."""
        b, (start, stop, step) = self.b, self.loop.operands[:3]
        first, count = (b.value("mul", self.as_type(each, start.dtype), step) for each in (first, count))
        begin = b.value("add", start, first)
        self.loop.operands[:2] = [begin, b.value("minimum", stop, b.value("add", begin, count))]

    def as_type(self, value: Value, dtype: DType) -> Value:
        if value.dtype is dtype:
            return value
        return self.b.value("cast", value, to=dtype, saturate=False, rounding=None)


def partial_sums(function: Function, loop: Op) -> list[PartialSums]:
    """Groups the carried values of an outermost loop into partial sums. Raises Unsplit if several blocks cannot compute
    a carried value together."""
    if not loop.results:
        raise Unsplit("it carries no sum", "acc = acc + … in each iteration")
    ops = function.body.ops
    users, behind = uses(function.body), ops[ops.index(loop) + 1 :]
    found = joined_groups(function, loop)
    for each in found:
        # If each block reduces its own part, a reduction of 2^17 f32 elements in 64 parts (8 warps) accesses 16,546
        # sectors instead of 32,834.
        while (reduction := _reduction_of(each, behind, users)) is not None:
            each.alone += [*_read_by(reduction, behind), reduction]
            each.values = list(reduction.results)
    return found


def joined_groups(function: Function, loop: Op) -> list[PartialSums]:
    """Groups the results of a loop by what combines them. Raises Unsplit as `partial_sums` does."""
    ops = function.body.ops
    users, behind = uses(function.body), ops[ops.index(loop) + 1 :]
    found = [_claimed(loop, op, behind) for op in behind if op.spec.acts == "joins" and op.operands[0].op is loop]
    for number, result in enumerate(loop.results):
        if any(result in each.values for each in found):
            continue
        try:
            found.append(_sum_of(loop, number))
        except Unsplit as wrong:
            group = _joined_as_behind(loop, result, behind, users, located(function, loop))
            if group is None:
                raise wrong
            found.append(group)
    return found


def check_joined(function: Function) -> None:
    """Raises TileError `schedule` for a `joined` that no loop can follow, and that would be ignored."""
    for op in walk(function.body):
        if op.spec.acts != "joins":
            continue
        loop = op.operands[0].op
        others = [value for value in op.operands if value.op is not loop]
        is_loop = loop is not None and loop.spec.control.counters
        message = "joined takes the values that a loop carries, all of one loop"
        if is_loop and not others and op not in function.body.ops:
            message = "joined stands in a branch or a loop, and each part of the loop before it needs it"
        elif is_loop and not others:
            continue
        raise TileError("schedule", op.loc, message, "a, b = joined(f, (a, b)) behind the loop that makes a and b")


def _claimed(loop: Op, op: Op, behind: list[Op]) -> PartialSums:
    """Returns the group of the loop's results that `op`, a `joined` behind the loop, combines by its function. What
    the function reads, each block computes before its parts meet. Raises Unsplit where that is not possible."""
    ahead = _read_by(op, behind)
    known = {value for each in (*ahead, *inside(op)) for value in reads(each)}
    where = f"the function of 'joined'{in_line(op)}"
    for value in loop.results:
        if value in known:
            message = f"{where} reads '{value.name or 'a value'}', of which a block has only a part"
            raise Unsplit(message, "a function that takes it as a part of its two parameters")
    for at, each in enumerate(behind):
        if each in ahead and not (each.spec.pure or _loads_early(each, behind[:at])):
            message = f"{where} reads what '{each.name}'{in_line(each)} gives, and the parts meet before that"
            raise Unsplit(message, "compute it before the loop")
    return PartialSums(list(op.operands), op.regions[0], op.operands[0].name or "a value", ahead, whole=True)


def _loads_early(op: Op, before: list[Op]) -> bool:
    """Whether `op` loads from a tensor, and gives the same ahead of the operations `before`."""
    is_load = op.spec.access.kind == "read" and isinstance(op.operands[0].type, TensorType)
    return is_load and op.attrs.get("cache") != "volatile" and not any(writes(each) for each in before)


def _reduction_of(sums: PartialSums, behind: list[Op], users: dict[Value, list[Op]]) -> Op | None:
    """Returns the only reader of `sums`, if it is a reduction after the loop that combines elements as `sums.join`
    does. Otherwise returns None."""
    readers = {op for value in sums.values for op in users.get(value, ())}
    op = next(iter(readers), None)
    if op is None or len(readers) > 1 or op not in behind or not is_join(op) or op.operands != sums.values:
        return None
    half = len(sums.join.args) // 2
    return op if RegionMatch(op.regions[0]).of(sums.join.ops[-1].operands, sums.join.args[:half]) else None


def _read_by(reduction: Op, behind: list[Op]) -> list[Op]:
    """Returns the operations of `behind` that the region of `reduction` depends on. They compute scalars."""
    return slice_of(behind, {v for op in inside(reduction) for v in op.operands})


# ---- sums of operations that add ----


class LoopSum(Struct):
    """A carried value that each iteration adds to. `join` is the name of the operation that combines two partial sums,
    such as "add". `values` contains each intermediate value of the sum in an iteration. `uses` contains the allowed
    reads of these values, as pairs of operation and operand index.
    """

    name: str
    join: str = ""
    values: set[Value] = field(default_factory=set)
    uses: set[tuple[Op, int]] = field(default_factory=set)

    def joined_by(self, op: Op) -> None:
        assert op.spec.algebra.sums is not None
        join = op.spec.algebra.sums[1]
        if self.join not in ("", join):
            message = f"'{self.name}' is made by '{self.join}' and by '{join}'{in_line(op)}"
            raise Unsplit(message, f"the same operation in each step: a sum, a product or a maximum; or {JOINED}")
        self.join = join

    def follow(self, value: Value, first: Value) -> None:
        """Walks from `value` back to `first`, the value at the start of an iteration, and records all values on the
        way. Raises Unsplit if `value` is not `first` plus additions."""
        self.values |= {value, first}
        if value is first:
            return
        op = value.op
        if op is not None and op.spec.algebra.sums is not None:
            self.joined_by(op)
            which = op.spec.algebra.sums[0]
            among = range(len(op.operands)) if which is None else [which]
            ways = [i for i in among if _leads(op.operands[i], first)]
            if len(ways) == 1:  # s + s would double what another block has added
                self.uses.add((op, ways[0]))
                self.follow(op.operands[ways[0]], first)
                return
        elif op is not None and op.spec.control.flows:
            self._through(op, op.results.index(value), first)
            return
        message = f"'{self.name}' is not what it was in the iteration before, with something added"
        known = "sums are made by dot, fma, +, *, minimum, maximum, &, | and ^"
        raise Unsplit(message, f"{known}; others as the reduce after the loop combines them, or by {JOINED}")

    def _through(self, op: Op, number: int, first: Value) -> None:
        """Continues `follow` inside a loop or branch `op`, whose result `number` is the sum."""
        if op.spec.control.loops:
            place = op.spec.control.leading + number
            self.uses.add((op, place))
            self.follow(op.operands[place], first)
        for region in op.regions:
            self.uses.add((region.ops[-1], region.ops[-1].spec.control.leading + number))
            start = region.args[op.spec.control.counters + number] if op.spec.control.loops else first
            self.follow(handed_on(region)[number], start)


def _leads(value: Value, first: Value) -> bool:
    """Whether a value is computed from `first`."""
    return first in reached([value], lambda each: reads(each.op) if each.op is not None else ())


def _sum_of(loop: Op, number: int) -> PartialSums:
    """Returns the carried value `number` of a loop as a sum. Raises Unsplit if this value is no sum, does not start at
    the neutral number, or is read inside the loop."""
    body, result, start = loop.regions[0], loop.results[number], loop.operands[3 + number]
    end = body.ops[-1]
    found = LoopSum(result.name or "a value")
    found.uses.add((end, number))
    found.follow(end.operands[number], body.args[1 + number])
    if not found.join:
        raise Unsplit(f"nothing is added to '{found.name}'", "carry sums alone")
    join = OPS[found.join]
    neutral = None if join.algebra.starts is None else join.algebra.starts(start.dtype)
    # Every block adds the start value. For `maximum`, `minimum`, `&` and `|`, adding it several times changes nothing.
    if not join.algebra.idempotent and constant_of(start) != neutral:
        shown = abs(neutral or 0)  # without the sign of -0.0
        message = f"'{found.name}' does not start at {shown:g}, and each block would add its start"
        raise Unsplit(message, f"start at {shown:g}, and add after the loop what it started with")
    for op in walk(body):
        for place, operand in enumerate(op.operands):
            if operand in found.values and (op, place) not in found.uses:
                raise _read_inside(found.name, op)
    return PartialSums([result], region_of(found.join, result), found.name)


def _read_inside(name: str, op: Op) -> Unsplit:
    message = f"'{name}' is read in the loop{in_line(op)}, where a block has only a part of it"
    return Unsplit(message, f"read it after the loop, or join the parts: {JOINED}")


def region_of(name: str, value: Value) -> Block:
    """Builds an IR region that combines two elements of the type of `value` by the operation `name`."""
    type = TileType((), value.dtype)
    region = Block([Value(type), Value(type)])
    made = Op(OPS[name], region.args, [type])
    region.ops = [made, Op(OPS["yield"], [made.result], [])]
    return region


# ---- sums by the reduction after the loop ----


class RegionMatch:
    """Checks whether operations outside a region compute the same as the region. `args` maps each argument of the
    region to its matching outside value. `ops` contains the matching outside operations.
    """

    def __init__(self, region: Block):
        self.region = region
        self.args: dict[Value, Value] = {}
        self.ops: set[Op] = set()

    def of(self, values: Sequence[Value], first: Sequence[Value]) -> bool:
        """Whether `values` are computed exactly as the region computes its results. The first half of the region's
        arguments must be `first`, and the second half may be any values."""
        end = self.region.ops[-1].operands
        if len(values) != len(end) or len(first) * 2 != len(self.region.args):
            return False
        self.args = dict(zip(self.region.args, first, strict=False))
        return all(self._is(value, wanted) for value, wanted in zip(values, end, strict=True))

    def _is(self, value: Value, wanted: Value) -> bool:
        if wanted in self.region.args:
            return equal(value, self.args.setdefault(wanted, value))
        number = constant_of(wanted)
        if number is not None:
            return constant_of(value) == number and value.dtype is wanted.dtype
        if wanted.op is None or wanted.op not in self.region.ops:
            return value is wanted or (
                value.op is not None and value.op.spec.elements.reshapes and value.op.operands == [wanted]
            )
        op = value.op
        if op is None or made_as(op) != made_as(wanted.op) or op.spec.control.regions:
            return False
        orders = [op.operands, op.operands[::-1]] if op.spec.algebra.commutes else [op.operands]
        for operands in orders:
            args, ops = dict(self.args), set(self.ops)  # restored if the order does not match
            if all(self._is(a, b) for a, b in zip(operands, wanted.op.operands, strict=True)):
                self.ops.add(op)
                return True
            self.args, self.ops = args, ops
        return False


def _joined_as_behind(
    loop: Op, result: Value, behind: list[Op], users: dict[Value, list[Op]], loc: Loc
) -> PartialSums | None:
    """Finds a reduction after the loop that reads `result` and combines elements as an iteration of the loop does.
    Returns all carried values that it reads, or None if there is no such reduction. Raises Unsplit if an iteration uses
    these values in another way."""
    body = loop.regions[0]
    for op in users.get(result, ()):
        if op not in behind or not is_join(op) or not all(v in loop.results for v in op.operands):
            continue
        if len(op.regions[0].ops) == 2 and op.regions[0].ops[0].spec.algebra.sums is not None:
            continue  # a sum by one operation: `_sum_of` would have found it
        numbers = [loop.results.index(v) for v in op.operands]
        match = RegionMatch(op.regions[0])
        carried = [body.args[1 + n] for n in numbers]
        if not match.of([body.ops[-1].operands[n] for n in numbers], carried):
            continue
        name = result.name or "a value"
        if not joins_once(op.regions[0], loc):
            message = f"'{name}' combined with itself may change, and each block would combine with its start"
            raise Unsplit(message, "a choice between two, as of the largest and its place")
        hang = set(carried)
        for each in _needed(body):
            if hang.intersection(each.operands):
                if each not in match.ops:
                    raise _read_inside(name, each)
                hang.update(each.results)
        return PartialSums(list(op.operands), op.regions[0], name, _read_by(op, behind))
    return None


def _needed(body: Block) -> list[Op]:
    """Returns the operations of `body` that have effects or whose results are needed, without the last operation."""
    ops = walk(body)
    wanted, found = set(ops[-1].operands), []
    for op in reversed(ops[:-1]):
        if not op.spec.pure or wanted.intersection(op.results):
            wanted.update(op.operands)
            found.append(op)
    return found[::-1]


def joins_once(region: Block, loc: Loc) -> bool:
    """Whether `region`, applied to a value and itself, returns that value: max(x, x) is x."""
    # The builder folds during the build: `where(take, w, v)` with equal sides becomes v.
    first = region.args[: len(region.args) // 2]
    found = joined(Builder(loc), region, first, first)
    return all(a is b for a, b in zip(found, first, strict=True))


def joined(
    b: Builder,
    region: Block,
    left: Sequence[Value],
    right: Sequence[Value],
    now: Callable[[Value], Value] = lambda value: value,
) -> list[Value]:
    """Combines the tiles `left` and `right` element by element, with the `region` of a reduction. `now` maps a value
    that the region reads from outside to its replacement."""
    table: dict[Value, Value] = dict(zip(region.args, (*left, *right), strict=True))
    shape, place = left[0].shape, b.place

    def wide(value: Value) -> Value:
        return b.broadcast(table.get(value, now(value)), shape)

    for op in region.ops[:-1]:
        b.place = (op.loc or place[0], None if op.loc else place[1])
        operands = [wide(o) for o in op.operands] if op.spec.elementwise else op.operands
        table[op.result] = b.value(op.name, *operands, **op.attrs)
    b.place = place
    return [wide(v) for v in region.ops[-1].operands]
