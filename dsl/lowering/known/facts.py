"""Finds facts about integers and masks at compile time: ranges, divisors, runs of contiguous elements, runs of equal
elements.

The layout alone does not determine the width of an access. The offsets of adjacent elements must be contiguous, the
first offset must be aligned, and the mask must be the same for the whole access. (Triton's axis analysis finds the same
three facts.) A mask that changes is also allowed if its first and last flag determine whether all flags are true.

An index does not overflow, because its width is chosen by the number of elements. Other integers wrap around. Their
runs must not extend past a wrap, and their bounds must be true for the wrapped values. Division by zero is undefined.
"""

from __future__ import annotations

from copy import copy

from msgspec import Struct
from msgspec.structs import replace

from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Function, Op, Value, carried_integers, stride_name, walk
from dsl.lowering.ir.types import I1, DType, TileType, int_range
from dsl.lowering.known.bounds import Bounds

ANY = 1 << 30  # "divisible by everything": the divisor of zero


def power_of_two_divisor(value: int) -> int:
    return min(value & -value, ANY) if value else ANY


class Facts(Struct):
    """The facts about one value. All lengths and divisors are powers of two.

    `every` divides all elements. `low` and `high` are inclusive bounds, or None.

    The other facts have one number for each axis. `run` is the length of aligned groups whose elements increase by one.
    `start` divides the first element of each of these groups. `same` is the length of aligned groups of equal elements.

    `falls`, `rises` and `convex` are facts about masks. They are lengths of aligned groups, too, by default equal to
    `same`. In a group of `falls`, no true flag follows a false flag, as in i < n. In a group of `rises`, no false flag
    follows a true flag, as in i >= n. In a group of `convex`, no false flag is between two true flags, as in 2 <= i <
    n.
    """

    every: int
    run: tuple[int, ...]
    start: tuple[int, ...]
    same: tuple[int, ...]
    low: int | None = None
    high: int | None = None
    falls: tuple[int, ...] = ()
    rises: tuple[int, ...] = ()
    convex: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self.falls = self.falls or self.same
        self.rises = self.rises or self.same
        self.convex = self.convex or self.same

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The facts about equal elements and masks: same, falls, rises, convex."""
        return self.same, self.falls, self.rises, self.convex


def unknown(shape: tuple[int, ...], low: int | None = None, high: int | None = None) -> Facts:
    ones = (1,) * len(shape)
    return Facts(1, ones, ones, ones, low, high)


def gcd(a: int, b: int) -> int:
    return min(a, b)  # powers of two


def start_of(facts: Facts, axis: int, length: int) -> int:
    """Returns a divisor of the first elements of runs along `axis`, after the runs are divided into runs of
    `length`."""
    if length >= facts.run[axis]:
        return facts.start[axis]
    return max(gcd(facts.start[axis], length), facts.every)


def either(a: Facts, b: Facts, same: tuple[int, ...]) -> Facts:
    """Returns the facts about a value that takes each element from one of two values. `same` is the lengths of groups
    whose elements all come from the same value. If positions in one group form a run in both values, they form a run in
    the result."""
    every = gcd(a.every, b.every)
    run = tuple(map(min, a.run, b.run, same))
    start = tuple(
        every if length == 1 else gcd(start_of(a, i, length), start_of(b, i, length)) for i, length in enumerate(run)
    )
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    high = None if a.high is None or b.high is None else max(a.high, b.high)
    return Facts(every, run, start, tuple(map(min, a.same, b.same, same)), low, high)


def fits(low: int | None, high: int | None, dtype: DType) -> bool:
    least, most = int_range(dtype)
    return low is not None and high is not None and least <= low and high <= most


def wrapped(facts: Facts, dtype: DType) -> Facts:
    """Returns the facts about a result that is stored in `dtype` and wraps around. `facts` describes the exact result.

    If a run starts at a multiple of its length, it does not extend past a wrap, so it stays a run.
    """
    if dtype.kind == "index" or fits(facts.low, facts.high, dtype):
        return facts
    run = tuple(min(length, first) for length, first in zip(facts.run, facts.start, strict=True))
    start = tuple(start_of(facts, i, length) for i, length in enumerate(run))
    return Facts(facts.every, run, start, facts.same)


class Analysis:
    """Computes the facts about the values of one function, on demand."""

    def __init__(self, function: Function):
        self.function = function
        self.known: dict[Value, Facts] = {}
        self.counters: dict[Value, Op] = {}  # maps a counter to its `for`
        self.bounds = Bounds(self)
        # In the body of a loop: the initial value, and the value of the next iteration.
        self.carried: dict[Value, tuple[Value, Value]] = {}
        for name, value in function.dims.items():
            self.known[value] = Facts(power_of_two_divisor(function.divisors.get(name, 1)), (), (), (), 0, None)
        for p in function.params:
            if p.kind == "scalar" and p.value is not None and p.name in function.divisors:
                self._note_divisor(p.value, function.divisors[p.name])
            for axis, stride in enumerate(p.strides):
                name = stride_name(p.name, axis)
                self._note_divisor(stride, function.divisors.get(name, 1))
                if name not in function.by_subject("backward", bool):  # `backward` lists strides that may be negative
                    self.known[stride] = replace(self.known[stride], low=0)

    def enter_loop(self, loop: Op) -> None:
        """Records facts about the counter of a `for`. The counter is between start and stop, in steps up or down."""
        counter = loop.regions[0].args[0]
        self.counters[counter] = loop
        start, stop, step = (self.of(v) for v in loop.operands[:3])
        low = high = None
        every = gcd(start.every, step.every)
        apart = gcd(every, stop.every)  # a divisor of stop - counter, so it is the least distance from the stop
        if step.low is not None and step.low > 0:
            low, high = start.low, None if stop.high is None else stop.high - apart
        elif step.high is not None and step.high < 0:
            low, high = None if stop.low is None else stop.low + apart, start.high
        self.known[counter] = Facts(every, (), (), (), low, high)

    def enter_carried(self, loop: Op) -> None:
        """Records the loop-carried scalars of a `for`. Its body must be complete."""
        for start, inside, following, _ in carried_integers(loop):
            self.carried[inside] = start, following

    def assuming(self, value: Value, facts: Facts) -> Analysis:
        """Returns a copy of this analysis in which `value` is assumed to have these facts."""
        out = copy(self)
        out.known = {**self.known, value: facts}
        return out

    def _carried(self, value: Value) -> Facts:
        """Finds the facts about a loop-carried scalar by induction. Facts must be true for the initial value, and they
        must stay true from each iteration to the next. The function starts with a guess and weakens it until both
        conditions are met."""
        start, following = self.carried[value]
        first = self.of(start)
        guess = Facts(first.every, (), (), (), first.low, None)
        while True:
            then = self.assuming(value, guess).of(following)
            low = guess.low if guess.low is not None and then.low is not None and then.low >= guess.low else None
            better = Facts(gcd(guess.every, then.every), (), (), (), low, None)
            if better == guess:
                return guess
            guess = better

    def divides(self, value: Value, divisor: int) -> None:
        """Records a divisor of a scalar argument or stride. Only the greatest power of two in it is used."""
        self._note_divisor(value, divisor)
        self.bounds = Bounds(self)  # sums that were built before would keep the old divisor

    def _note_divisor(self, value: Value, divisor: int) -> None:
        self.known[value] = replace(self.of(value), every=power_of_two_divisor(divisor))

    def divisor(self, value: Value) -> int:
        """Returns a number that divides a scalar. For a dim, it may be any number. For other scalars, it is a power of
        two."""
        dims = self.function.dims
        if value.name in dims and dims[value.name] is value:
            return self.function.divisors.get(value.name, 1)
        return self.of(value).every

    def equal(self, new: Value, old: Value) -> None:
        """Records that `new` is a copy of `old`."""
        if old in self.known:
            self.known[new] = self.known[old]

    def of(self, value: Value) -> Facts:
        facts = self.known.get(value)
        if facts is None:
            facts = self._compute(value)
            if facts.low is None and value.dtype.kind == "unsigned":  # true for all unsigned types
                facts = replace(facts, low=0)
            self.known[value] = facts
        return facts

    def _compute(self, value: Value) -> Facts:
        shape = value.tile.shape if isinstance(value.type, TileType) else ()
        op = value.op
        if value in self.carried:
            return self._carried(value)
        if op is None or value.dtype.is_float:
            return unknown(shape)
        if op.spec.control.counters and not shape:
            inside = op.regions[0].args[op.spec.control.counters + op.results.index(value)]
            return self.of(inside)  # the result is the carried value at the loop's head after the last iteration
        number = constant_of(value)
        if number is not None:
            every = power_of_two_divisor(int(number))
            ones = (1,) * len(shape)
            return Facts(every, ones, (every,) * len(shape), shape, int(number), int(number))
        # With a scalar condition, all elements come from the same side of the branch. With a tile as the condition,
        # each element may come from another side.
        if op.spec.control.flows and not op.spec.control.loops:
            one, other = (self.of(region.ops[-1].operands[op.results.index(value)]) for region in op.regions)
            return either(one, other, (1,) * len(shape) if op.operands[0].tile.shape else shape)
        rule = op.spec.elements.facts
        if rule is not None:
            return rule(self, op, shape)
        # An elementwise operation without a rule for facts still gives equal results for equal operands.
        if op.spec.elementwise and op.operands and not op.spec.keep:
            facts = [self.of(o) for o in op.operands]
            same = tuple(min(f.same[i] for f in facts) for i in range(len(shape)))
            ones = (1,) * len(shape)
            return Facts(1, ones, ones, same)
        return unknown(shape)


def counts_elements(value: Value) -> bool:
    """Returns whether an index is computed only from dims, block indices, counters and constants. The launch has
    checked that these fit the index type. An index that was converted from another integer type may be any number of
    its width.
    """
    seen: set[Value] = set()
    work = [value]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        if value.dtype.kind != "index" and value.dtype is not I1:
            return False
        if value.op is not None and not value.op.regions:
            work += value.op.operands
    return True


def facts_of(function: Function) -> Analysis:
    """Returns the facts about a function whose loops no longer change. All passes share one cached analysis."""
    found = function.facts
    if not isinstance(found, Analysis):
        found = function.facts = facts_now(function)
    return found


def facts_now(function: Function) -> Analysis:
    """Returns the facts about a function in its current state. Its loops may change afterwards."""
    facts = Analysis(function)
    for op in walk(function.body):
        if op.spec.control.counters:
            facts.enter_loop(op)
            facts.enter_carried(op)
    return facts


def in_order(low: Value, high: Value, facts: Analysis) -> bool:
    """Returns whether low <= high is known for two values."""
    most, least = facts.of(low).high, facts.of(high).low
    return most is not None and least is not None and most <= least
