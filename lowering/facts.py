"""What is known of integer and i1 values without running them: ranges, divisors, runs of neighbours, runs of equals.

Layouts alone give no vector width: that needs to know that the offsets of neighbouring elements are neighbours, that
the first is aligned, and that the mask does not change in between (the same three facts as Triton's axis analysis), or
only in such a way that its ends tell whether it is on throughout.

An index does not overflow, because its width is chosen by the number of elements; other integers wrap around, so a run
of theirs must not reach past a wrap and a bound must not be passed. Division by zero has no meaning, here either.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

from lowering.fold import constant_of
from lowering.ir import Function, Op, Value, carried_integers, stride_name, walk
from lowering.targets import WARP
from lowering.types import I1, S32, DType, TileType, int_range

ANY = 1 << 30  # "divisible by everything": the divisor of zero


def power_of_two_divisor(value: int) -> int:
    return min(value & -value, ANY) if value else ANY


@dataclass(slots=True)
class Facts:
    """Of one value. All counts are powers of two.

    every: divides every element.
    run: along each axis, elements come in aligned groups of this many, each one more than the one before.
    start: along each axis, divides the first element of every such group.
    same: along each axis, elements come in aligned groups of this many equal ones.
    low, high: bounds, inclusive, or None.

    Of a mask, aligned groups of this many along each axis (by themselves, the groups of equal ones):
    falls: none is on behind one that is off, as of i < n.
    rises: none is off behind one that is on, as of i >= n.
    convex: none is off between two that are on, as of both joined.
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
        """Those whose counts follow the axes and say nothing of the numbers: same, falls, rises, convex."""
        return self.same, self.falls, self.rises, self.convex


def _unknown(shape: tuple[int, ...], low: int | None = None, high: int | None = None) -> Facts:
    ones = (1,) * len(shape)
    return Facts(1, ones, ones, ones, low, high)


def _gcd(a: int, b: int) -> int:
    return min(a, b)  # powers of two


def _start(facts: Facts, axis: int, length: int) -> int:
    """Divisor of the first elements when the runs along `axis` are cut to `length`."""
    if length >= facts.run[axis]:
        return facts.start[axis]
    return max(_gcd(facts.start[axis], length), facts.every)


def _fits(low: int | None, high: int | None, dtype: DType) -> bool:
    least, most = int_range(dtype)
    return low is not None and high is not None and least <= low and high <= most


def _wrapped(facts: Facts, dtype: DType) -> Facts:
    """What is left of facts that hold for the exact result, once the result is stored in `dtype`, modulo 2^bits.

    A group that starts at a multiple of its own length does not reach past a wrap.
    """
    if dtype.kind == "index" or _fits(facts.low, facts.high, dtype):
        return facts
    run = tuple(min(length, first) for length, first in zip(facts.run, facts.start, strict=True))
    start = tuple(_start(facts, i, length) for i, length in enumerate(run))
    return Facts(facts.every, run, start, facts.same)


class Analysis:
    """Facts of the values of one function, computed on demand. Its `divisors` are of dims, scalars and strides."""

    def __init__(self, function: Function):
        self.function = function
        self.known: dict[Value, Facts] = {}
        self.carried: dict[
            Value, tuple[Value, Value]
        ] = {}  # in the body of a loop: the start, and what the next round has
        for name, value in function.dims.items():
            self.known[value] = Facts(min(function.divisors.get(name, 1), ANY), (), (), (), 0, None)
        for p in function.params:
            if p.kind == "scalar" and p.value is not None and p.name in function.divisors:
                self.divides(p.value, function.divisors[p.name])
            for axis, stride in enumerate(p.strides):
                self.divides(stride, function.divisors.get(stride_name(p.name, axis), 1))

    def enter_loop(self, loop: Op) -> None:
        """The counter of this `for` lies between its start and its stop, in steps up or down."""
        counter = loop.regions[0].args[0]
        start, stop, step = (self.of(v) for v in loop.operands[:3])
        low = high = None
        if step.low is not None and step.low > 0:
            low, high = start.low, None if stop.high is None else stop.high - 1
        elif step.high is not None and step.high < 0:
            low, high = None if stop.low is None else stop.low + 1, start.high
        self.known[counter] = Facts(_gcd(start.every, step.every), (), (), (), low, high)

    def enter_carried(self, loop: Op) -> None:
        """The scalars that this `for` carries; its body is complete."""
        for start, inside, following, _ in carried_integers(loop):
            self.carried[inside] = start, following

    def assuming(self, value: Value, facts: Facts) -> Analysis:
        """This analysis, if `value` had these facts."""
        out = copy(self)
        out.known = {**self.known, value: facts}
        return out

    def _carried(self, value: Value) -> Facts:
        """A scalar that a loop carries: what holds of its start, and in the next round if it does in this one."""
        start, following = self.carried[value]
        first = self.of(start)
        guess = Facts(first.every, (), (), (), first.low, None)
        while True:
            then = self.assuming(value, guess).of(following)
            low = guess.low if guess.low is not None and then.low is not None and then.low >= guess.low else None
            better = Facts(_gcd(guess.every, then.every), (), (), (), low, None)
            if better == guess:
                return guess
            guess = better

    def divides(self, value: Value, divisor: int) -> None:
        """A power of two divides this scalar of the launch."""
        self.known[value] = replace(self.of(value), every=min(divisor, ANY))

    def equal(self, new: Value, old: Value) -> None:
        """`new` is `old`, made anew."""
        if old in self.known:
            self.known[new] = self.known[old]

    def of(self, value: Value) -> Facts:
        facts = self.known.get(value)
        if facts is None:
            facts = self._compute(value)
            if facts.low is None and value.dtype.kind == "unsigned":
                facts = replace(facts, low=0)
            self.known[value] = facts
        return facts

    def _compute(self, value: Value) -> Facts:
        shape = value.tile.shape if isinstance(value.type, TileType) else ()
        op = value.op
        if value in self.carried:
            return self._carried(value)
        if op is None or value.dtype.is_float:
            return _unknown(shape)
        if op.spec.counters and not shape:
            inside = op.regions[0].args[op.spec.counters + op.results.index(value)]
            return self.of(inside)  # at its head, when no round follows
        number = constant_of(value)
        if number is not None:
            every = power_of_two_divisor(int(number))
            ones = (1,) * len(shape)
            return Facts(every, ones, (every,) * len(shape), shape, int(number), int(number))
        rule = _RULES.get(op.name)
        if rule is not None:
            return rule(self, op, shape)
        if op.spec.elementwise and op.operands and not op.spec.keep:
            facts = [self.of(o) for o in op.operands]
            same = tuple(min(f.same[i] for f in facts) for i in range(len(shape)))
            ones = (1,) * len(shape)
            return Facts(1, ones, ones, same)
        return _unknown(shape)


SPARE = 1 << 21
"""What an index has above all elements: the greatest extent of a tile, twice, so that no edge of a slice overflows."""


def most_elements(index_bits: int) -> int:
    """The greatest number of elements that an index of so many bits counts."""
    return (1 << index_bits - 1) - SPARE


def counts_elements(value: Value) -> bool:
    """True if an index is made of dims, numbers of blocks, counters and constants alone: of what counts elements, which
    the launch has seen to fit. One that was another integer may be any number of its width."""
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
    """The facts of a function whose loops stay as they are from here on: one analysis for all passes that ask."""
    if function.facts is None:
        function.facts = facts_now(function)
    return function.facts


def facts_now(function: Function) -> Analysis:
    """The facts of a function as it is; its loops may be made anew afterwards."""
    facts = Analysis(function)
    for op in walk(function.body):
        if op.spec.counters:
            facts.enter_loop(op)
            facts.enter_carried(op)
    return facts


def in_order(low: Value, high: Value, facts: Analysis) -> bool:
    """True if one number is known not to be above another one."""
    most, least = facts.of(low).high, facts.of(high).low
    return most is not None and least is not None and most <= least


def _add_bounds(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _additive(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    run, start, same = [], [], []
    every = _gcd(a.every, b.every)
    for i in range(len(shape)):
        length, first = min(a.run[i], b.same[i]), 0
        if length > 1:
            first = _gcd(_start(a, i, length), b.every)
        if op.name == "add":
            other = min(b.run[i], a.same[i])
            if other > length:
                length, first = other, _gcd(_start(b, i, other), a.every)
        run.append(length)
        start.append(first if length > 1 else every)
        same.append(min(a.same[i], b.same[i]))
    if op.name == "add":
        low, high = _add_bounds(a.low, b.low), _add_bounds(a.high, b.high)
    else:
        low = None if a.low is None or b.high is None else a.low - b.high
        high = None if a.high is None or b.low is None else a.high - b.low
    return _wrapped(Facts(every, tuple(run), tuple(start), tuple(same), low, high), op.operands[0].dtype)


def _times(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    low: int | None
    high: int | None
    if op.name == "shl":
        amount = constant_of(op.operands[1])
        b_every = 1 << int(amount) if amount is not None and 0 <= amount < 30 else 1
        low, high = (0 if a.low is not None and a.low >= 0 else None), None
    else:
        b_every = b.every
        low = high = None
        if a.low is not None and b.low is not None and a.low >= 0 and b.low >= 0:
            low = a.low * b.low
            high = None if a.high is None or b.high is None else a.high * b.high
    every = min(a.every * b_every, ANY)
    same = tuple(min(x, y) for x, y in zip(a.same, b.same, strict=True))
    facts = Facts(every, (1,) * len(shape), (every,) * len(shape), same, low, high)
    return _wrapped(facts, op.operands[0].dtype)


def _group(a: Facts, b: Facts, axis: int, extent: int) -> int:
    """Along `axis`, how many neighbours of a run divide by one positive number `b` without passing a multiple of it."""
    if b.same[axis] != extent or b.low is None or b.low < 0:
        return 1
    return min(a.run[axis], a.start[axis], b.every)


def _divide(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    by = constant_of(op.operands[1])
    same = tuple(max(min(a.same[i], b.same[i]), _group(a, b, i, e)) for i, e in enumerate(shape))
    exact = by is not None and by > 0 and power_of_two_divisor(int(by)) == by
    every = max(a.every // int(by), 1) if by is not None and exact else 1
    low = 0 if a.low is not None and a.low >= 0 and b.low is not None and b.low >= 0 else None
    high = None
    if a.high is not None and b.low is not None and b.low >= 0:  # the divisor is 1 or more
        high = a.high // max(b.low, 1) if a.high >= 0 else -1
    facts = Facts(every, (1,) * len(shape), (every,) * len(shape), same, low, high)
    return facts if b.low is not None and b.low >= 0 else _wrapped(facts, op.operands[0].dtype)  # least // -1 wraps


def _modulo(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    every = _gcd(a.every, b.every)
    run = tuple(_group(a, b, i, e) for i, e in enumerate(shape))
    start = tuple(_gcd(_start(a, i, length), b.every) for i, length in enumerate(run))
    same = tuple(min(x, y) for x, y in zip(a.same, b.same, strict=True))
    positive = b.low is not None and b.low >= 0
    high = b.high - 1 if positive and b.high is not None else None
    if positive and a.low is not None and a.low >= 0 and a.high is not None:
        high = a.high if high is None else min(high, a.high)
    return Facts(every, run, start, same, 0 if positive else None, high)


def _compare(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    left, right = (an.of(o) for o in op.operands)
    name = op.name
    if name in ("gt", "le"):  # b > a is a < b
        left, right, name = right, left, {"gt": "lt", "le": "ge"}[name]
    same, falls, rises = [], [], []
    for i in range(len(shape)):
        group = min(left.same[i], right.same[i])
        forward, backward = min(left.run[i], right.same[i]), min(left.same[i], right.run[i])
        # first | left run and the bound a multiple of the group: all of the group, or none of it
        group = max(group, min(forward, _start(left, i, forward), right.every))
        if name == "ge":
            forward, backward = backward, forward
        same.append(group)
        falls.append(max(group, forward))
        rises.append(max(group, backward))
    ones = (1,) * len(shape)
    convex = tuple(map(max, falls, rises))
    return Facts(1, ones, ones, tuple(same), 0, 1, tuple(falls), tuple(rises), convex)


def _and(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    ones = (1,) * len(shape)
    same, *of_masks = (tuple(map(min, x, y)) for x, y in zip(a.groups, b.groups, strict=True))
    if op.result.dtype is not I1:
        return Facts(1, ones, ones, same)
    return Facts(1, ones, ones, same, 0, 1, *of_masks)


def _broadcast(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a = an.of(op.operands[0])
    source = op.operands[0].tile.shape
    if not source:
        return Facts(a.every, (1,) * len(shape), (a.every,) * len(shape), shape, a.low, a.high)
    repeated = [x != y for x, y in zip(source, shape, strict=True)]
    run = tuple(1 if again else length for again, length in zip(repeated, a.run, strict=True))
    start = tuple(a.every if again else first for again, first in zip(repeated, a.start, strict=True))
    same, *of_masks = (
        tuple(extent if again else x for again, extent, x in zip(repeated, shape, group, strict=True))
        for group in a.groups
    )
    return Facts(a.every, run, start, same, a.low, a.high, *of_masks)


def _reshape(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    """Axes of extent 1 come and go; where others split or join, the innermost one keeps what fits into it."""
    a = an.of(op.operands[0])
    wide = [i for i, e in enumerate(op.operands[0].tile.shape) if e > 1]
    to = [i for i, e in enumerate(shape) if e > 1]
    if [op.operands[0].tile.shape[i] for i in wide] != [shape[i] for i in to]:
        wide, to = wide[-1:], to[-1:]
    source = dict(zip(to, wide, strict=True))
    fitted = [
        tuple(min(group[source[j]], extent) if j in source else 1 for j, extent in enumerate(shape))
        for group in (a.run, *a.groups)
    ]
    run, same, *of_masks = fitted
    start = tuple(_start(a, source[j], run[j]) if j in source else a.every for j in range(len(shape)))
    return Facts(a.every, run, start, same, a.low, a.high, *of_masks)


def _transpose(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, axes = an.of(op.operands[0]), op.attrs["axes"]
    run, start, same, *of_masks = (tuple(t[x] for x in axes) for t in (a.run, a.start, *a.groups))
    return Facts(a.every, run, start, same, a.low, a.high, *of_masks)


def _arange(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    return Facts(1, shape, (ANY,), (1,), 0, shape[0] - 1)


def _cast(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a = an.of(op.operands[0])
    source, to = op.operands[0].dtype, op.attrs["to"]
    ones = (1,) * len(shape)
    if source.is_float or to.is_float or to.kind == "bool":
        return Facts(1, ones, ones, a.same)
    if source.kind == "index" and an.function.index_bits == 64:
        known = _fits(a.low, a.high, to) or (to.bits == 64 and to.is_signed)
    else:
        least, most = int_range(source)
        known = _fits(least if a.low is None else max(a.low, least), most if a.high is None else min(a.high, most), to)
    if known or (to.kind == "index" and an.function.index_bits == 64 and source.name != "u64"):
        return a
    if op.attrs["saturate"]:
        return Facts(1, ones, ones, a.same)
    facts = replace(a, low=None, high=None)
    return _wrapped(facts, S32 if to.kind == "index" else to)


def _extreme(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a, b = (an.of(o) for o in op.operands)
    every = _gcd(a.every, b.every)
    same = tuple(min(x, y) for x, y in zip(a.same, b.same, strict=True))
    lows, highs = [x for x in (a.low, b.low) if x is not None], [x for x in (a.high, b.high) if x is not None]
    if op.name == "minimum":
        low = min(lows) if len(lows) == 2 else None
        high = min(highs, default=None)
    else:
        low = max(lows, default=None)
        high = max(highs) if len(highs) == 2 else None
    return Facts(every, (1,) * len(shape), (every,) * len(shape), same, low, high)


def _one_of(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    """Element by element one of two values. Where the choice is the same for a group, a run of both is a run."""
    choice, a, b = (an.of(o) for o in op.operands)
    every = _gcd(a.every, b.every)
    run = tuple(map(min, a.run, b.run, choice.same))
    start = tuple(
        every if length == 1 else _gcd(_start(a, i, length), _start(b, i, length)) for i, length in enumerate(run)
    )
    low = None if a.low is None or b.low is None else min(a.low, b.low)
    high = None if a.high is None or b.high is None else max(a.high, b.high)
    return Facts(every, run, start, tuple(map(min, a.same, b.same, choice.same)), low, high)


def _nonnegative(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    return _unknown(shape, 0)


def _right_shift(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a = an.of(op.operands[0])
    same = tuple(min(f) for f in zip(a.same, an.of(op.operands[1]).same, strict=True))
    ones = (1,) * len(shape)
    return Facts(1, ones, ones, same, 0 if a.low is not None and a.low >= 0 else None, None)


def _vote(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    """One for each 32 neighbours in row-major order."""
    same, left = [], WARP
    for extent in reversed(shape):
        same.append(min(extent, left))
        left //= same[-1]
    ones = (1,) * len(shape)
    return Facts(1, ones, ones, tuple(same[::-1]))


_RULES = {
    "add": _additive,
    "sub": _additive,
    "mul": _times,
    "shl": _times,
    "shr": _right_shift,
    "floordiv": _divide,
    "mod": _modulo,
    "lt": _compare,
    "le": _compare,
    "gt": _compare,
    "ge": _compare,
    "and": _and,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "transpose": _transpose,
    "arange": _arange,
    "cast": _cast,
    "select": _one_of,
    "minimum": _extreme,
    "maximum": _extreme,
    "vote": _vote,
    "block_id": _nonnegative,
    "grid_size": lambda an, op, shape: _unknown(shape, 1),  # a block that runs is in a grid
}


# ---- sums -----------------------------------------------------------------------------------------------------


def linear(value: Value) -> tuple[dict[Value, int], int]:
    """A scalar integer as Σ coefficient · value + constant, as far as its definition shows.

    >>> # r * 4 + 3  →  ({r: 4}, 3)

    An s32 that becomes an index keeps its form: sums of s32 that overflow have no meaning as indices.
    """
    op = value.op
    if op is not None and op.name == "cast" and value.dtype.kind == "index" and op.operands[0].dtype is S32:
        return linear(op.operands[0])
    number = constant_of(value)
    if number is not None:
        return {}, int(number)
    if op is not None:
        if op.name in ("add", "sub"):
            terms, constant = linear(op.operands[0])
            sign = 1 if op.name == "add" else -1
            more, extra = linear(op.operands[1])
            out = dict(terms)
            for base, k in more.items():
                out[base] = out.get(base, 0) + sign * k
            return {b: k for b, k in out.items() if k}, constant + sign * extra
        if op.name == "mul":
            for i in (0, 1):
                factor = constant_of(op.operands[i])
                if factor is not None:
                    terms, constant = linear(op.operands[1 - i])
                    return {b: k * int(factor) for b, k in terms.items() if factor}, constant * int(factor)
        if op.name == "shl" and (amount := constant_of(op.operands[1])) is not None and 0 <= amount < 32:
            terms, constant = linear(op.operands[0])
            return {b: k << int(amount) for b, k in terms.items()}, constant << int(amount)
    return {value: 1}, 0
