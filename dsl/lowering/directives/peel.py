"""`peel j: seen`: splits loop j, so that one of the new loops has only iterations where `seen` is true everywhere.

    for j in range(0, n, 64):                       for j in range(0, last, 64):
        seen = j + arange(64) < bound                   …
        x = where(seen, x, -inf)             →      for j in range(last, n, 64):
        …                                               seen = j + arange(64) < bound
                                                        x = where(seen, x, -inf)
                                                        …

In that loop, the flag `seen` and its select are removed. A flag must be one comparison, or several joined by `&`. Both
sides of a comparison must be linear in the counter. So the compiler can compute the least and the greatest element of
each side before the loop, and from them the first iteration with a false element.

A comparison such as `j + arange(64) >= bound` is false in the first iterations and true in the later ones. Then the
second loop has no flag. A sliding window has comparisons of both kinds. It results in three loops, of which the second
has no flag.

Where TMA copies a box that a load's mask cuts, threads set elements of the box to 0. The loop without the flag has no
such mask either: it ends, or starts, where the flag and all these masks are true.

A comparison may be joined by `|` with a scalar condition that does not depend on the counter, as in `(left < 0) | (j +
arange(64) >= first)`. If the condition is true, the comparison is ignored.

Loops with the flag have few iterations and are not unrolled. If the flag is in a branch that the constants do not take,
`peel j: seen` means `peel j`.

The copies of `pipeline` continue from one loop to the next. Peeling doubles or triples the code of the loop. By
default, it applies only to loops with MMAs whose selects all use the same flag, and to loops with boxes that a mask
cuts, unless a line names the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, reduce

from msgspec import Struct

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.iterations import several_iterations
from dsl.lowering.directives.places import scalar_of
from dsl.lowering.directives.slices import impure, leaves_of, located, made_anew, slice_of
from dsl.lowering.ir.budget import Budget
from dsl.lowering.ir.choices import ON_OFF
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Block, Function, Op, Value, blocks_of, replace_uses, walk
from dsl.lowering.ir.location import Loc, TileError, closest
from dsl.lowering.ir.types import I1, INDEX
from dsl.lowering.known.forms import Forms, ScalableForms, linear
from dsl.lowering.ops import operand
from dsl.lowering.ops.memory import clears

WHAT_IS_A_FLAG = "a flag is a named comparison of indices in the loop: seen = j + arange(64) < n"
Range = tuple[Value, Value]
"""Two scalars: the least and the greatest element of a tile."""


def peel(function: Function) -> None:
    """Splits the loops of all `peel` lines. Raises TileError `name` for an unknown flag. Raises TileError `schedule` if
    the compiler cannot compute, before the loop, in which iterations the flag is true."""
    budget = Budget()
    for name, flag in function.by_subject("peel", str).items():
        found = _find(function.body, name, flag)
        loc = function.lines.get(("peel", name))
        if not found and flag not in function.in_branches:
            flags = [r for op in walk(function.body) for r in op.results if r.name and r.dtype is I1]
            if any(r.name == flag and constant_of(r) for r in flags):
                continue  # the same constant stands before the loop
            named = {r.name for r in flags if r.name}
            message = f"no loop over '{name}' of kernel '{function.name}' computes a flag '{flag}'"
            raise TileError("name", loc, message, closest(flag, named) or ", ".join(sorted(named)) or WHAT_IS_A_FLAG)
        if not found:
            said = function.attrs["peel"]
            assert isinstance(said, dict)
            function.attrs["peel"] = {**said, name: True}
        for block, loop, value in found:
            if constant_of(value):
                continue  # true in all iterations: nothing to peel
            if function.choices.choose(
                "peel", flag, ON_OFF, "on", loc=loop.loc, pinned=loc, because="the schedule peels what it names",
                line=f"peel {name}: {flag}",
            ):  # fmt: skip
                _FlagSplit(function, loop, [value, *_cuts(loop)], loc).run(block, budget)
    _peel_by_itself(function, budget)


def _peel_by_itself(function: Function, budget: Budget) -> None:
    """Peels loops with MMAs whose selects all use the same flag, and those where threads set elements of boxes to 0. In
    attention, the comparisons and selects of a tile take as long as its exponentials (docs/measurements.md). If the
    schedule has `peel` lines, peels only loops with such boxes that they do not name."""
    named = function.attrs.get("peel", {})
    assert isinstance(named, dict)
    for block in blocks_of(function.body):
        for loop in [op for op in block.ops if op.spec.control.counters and op.regions[0].args[0].name not in named]:
            split = next((each for each in _splits(function, loop) if not each.is_refused()), None)
            if split is None:
                continue
            name, counter = _name_of(split.flags[0]) or "mask", loop.regions[0].args[0].name or "loop"
            why, line = f"the flag is true in most iterations of '{counter}'", f"peel {counter}: {name}"
            if function.choices.choose("peel", name, ON_OFF, "on", loc=loop.loc, because=why, line=line):
                split.run(block, budget)


def _splits(function: Function, loop: Op) -> Iterator[_FlagSplit]:
    """Yields the ways to split a loop by itself: by its flag and all masks of boxes, or else by these masks alone."""
    ops = loop.regions[0].ops
    by_selects = "peel" not in function.attrs and any(op.spec.product for op in ops)
    selects = [op.operands[0] for op in ops if by_selects and _selects(op)]
    flags, cuts = dict.fromkeys([*selects, *_cuts(loop)]), dict.fromkeys(_cuts(loop))
    for each in (flags if cuts or len(flags) == 1 else {}, cuts):
        changing = [flag for flag in each if (flag in cuts or flag.op in ops) and not constant_of(flag)]
        if changing:
            yield _FlagSplit(function, loop, changing, None)


def may_peel(function: Function, loop: Op, flag: Value) -> bool:
    """Whether the iterations of a loop with a false element of the flag are known before the loop."""
    return not _FlagSplit(function, loop, [flag], None).is_refused()


def _cuts(loop: Op) -> list[Value]:
    """Returns the masks of the boxes of which threads set elements to 0."""
    masks = [operand(op, "mask") for op in loop.regions[0].ops if clears(op)]
    return [mask.op.operands[0] for mask in masks if mask is not None and mask.op is not None]


def _name_of(flag: Value) -> str | None:
    """Returns the name of a flag. A flag without a name gets the name of the value that it broadcasts or converts."""
    while flag.name is None and flag.op is not None and len(flag.op.operands) == 1:
        flag = flag.op.operands[0]
    return flag.name


def _selects(op: Op) -> bool:
    """Whether `op` is a select of a tile, and its flag may differ from element to element."""
    return op.spec.algebra.selects and bool(op.operands[0].tile.shape) and scalar_of(op.operands[0]) is None


def _find(block: Block, name: str, flag: str) -> list[tuple[Block, Op, Value]]:
    """Finds the loops with the counter `name` that compute a value called `flag`. Returns for each of them the
    surrounding block, the loop, and the last such value."""
    found: list[tuple[Block, Op, Value]] = []
    for op in block.ops:
        for region in op.regions:
            found += _find(region, name, flag)
            if op.spec.control.counters and region.args[0].name == name:
                flags = [r for each in region.ops for r in each.results if r.name == flag and r.dtype is I1]
                found += [(block, op, value) for value in flags[-1:]]
    return found


class _Extremes(ScalableForms[Range]):
    """Builds scalars for the least and the greatest element of an index tile."""

    def __init__(self, b: Builder):
        self.b = b

    def of(self, value: Value) -> Range | None:
        return self.told(value) if value.tile.shape else (value, value)

    def counted(self, op: Op) -> Range:
        return self.b.index(0), self.b.index(op.attrs["extent"] - 1)

    def added(self, op: Op, sign: int) -> Range | None:
        a, b = (self.of(v) for v in op.operands)
        if a is None or b is None:
            return None
        name, (low, high) = ("add", b) if sign > 0 else ("sub", b[::-1])
        return self.b.value(name, a[0], low), self.b.value(name, a[1], high)

    def times(self, value: Value, factor: int) -> Range | None:
        of = self.of(value)
        if of is None:
            return None
        low, high = (self.b.value("mul", each, self.b.index(factor)) for each in (of if factor >= 0 else of[::-1]))
        return low, high

    def lesser(self, op: Op) -> Range | None:
        return self._of_both("minimum", op)

    def greater(self, op: Op) -> Range | None:
        return self._of_both("maximum", op)

    def _of_both(self, name: str, op: Op) -> Range | None:
        a, b = (self.of(v) for v in op.operands)
        if a is None or b is None:
            return None
        return self.b.value(name, a[0], b[0]), self.b.value(name, a[1], b[1])

    def left_over(self, op: Op) -> Range | None:
        divisor = constant_of(op.operands[1])
        return None if divisor is None or divisor < 1 else (self.b.index(0), self.b.index(int(divisor) - 1))

    def repeated(self, op: Op) -> Range | None:
        return self.of(op.operands[0])

    reshaped = transposed = moved = repeated


class _Margin(Struct, frozen=True):
    """States when all elements of a comparison are true: if the scalar `value` is at least 0, or if the scalar flag
    `unless` is true."""

    value: Value
    unless: Value | None = None


class _Margins(Forms[list[_Margin]]):
    """Computes the margins of a flag. All elements of the flag are true if each of its margins is at least 0 (or its
    `unless` is true)."""

    def __init__(self, b: Builder):
        self.b, self.extremes = b, _Extremes(b)

    def of(self, flag: Value) -> list[_Margin] | None:
        op = flag.op
        if op is not None and op.spec.algebra.masks == "all":
            a, b = (self.of(v) for v in op.operands)
            return None if a is None or b is None else a + b
        if op is not None and op.spec.algebra.masks == "any":
            return self._either(*op.operands)
        return [] if constant_of(flag) else self.told(flag)

    def _either(self, *flags: Value) -> list[_Margin] | None:
        """Computes the margins of `a | b`. Returns None unless one of the two flags is a broadcast scalar."""
        for one, other in (flags, flags[::-1]):
            unless, margins = scalar_of(one), self.of(other)
            if unless is not None and margins is not None:
                return [
                    _Margin(m.value, unless if m.unless is None else self.b.value("or", m.unless, unless))
                    for m in margins
                ]
        return None

    def ordered(self, op: Op, low: int, apart: int) -> list[_Margin] | None:
        below, above = op.operands[low], op.operands[1 - low]
        a, b = (self.extremes.of(v) if v.dtype is INDEX else None for v in (below, above))
        if a is None or b is None:
            return None
        return [_Margin(self.b.value("sub", self.b.value("sub", b[0], a[1]), self.b.index(apart)))]

    def repeated(self, op: Op) -> list[_Margin] | None:
        return self.of(op.operands[0])

    reshaped = transposed = moved = repeated


class _FlagSplit:
    """Splits one loop by flags. Its iterations without a flag are those where all flags are true. Errors name the
    first."""

    def __init__(self, function: Function, loop: Op, flags: list[Value], loc: Loc | None):
        self.function, self.loop, self.flags = function, loop, flags
        self.body, self.loc = loop.regions[0], loc
        self.counter = self.body.args[0]
        self.b = Builder(located(function, loop))

    def is_refused(self) -> bool:
        """Whether the loop cannot be split: the iterations without the flag cannot be computed before the loop."""
        try:
            with self.b.region(Block()):
                self._ends(self._step())
        except TileError:
            return True
        return False

    def run(self, block: Block, budget: Budget) -> None:
        # Each split doubles or triples the code of a loop, and several lines may name one loop.
        budget.spend_operations(2 * len(walk(self.body)), self.loop.loc)
        step, before = self._step(), Block()
        with self.b.region(before):
            ends, whole = self._ends(step)
        start, stop, by, *carried = self.loop.operands
        made: list[Op] = []
        bodies = [several_iterations(self.loop, self.body, self.counter.tile, 1, step) for _ in ends]
        for begin, end, body in zip([start, *ends], ends, bodies, strict=False):
            types = [r.type for r in self.loop.results]
            # `goes_on` marks a loop whose copies past its end fill stages that the next loop reads. When these copies
            # were dropped, the next loop read stages that nothing had written.
            attrs = {**self.loop.attrs, "exact": True, "goes_on": True}
            made.append(Op(self.loop.spec, [begin, end, by, *carried], types, attrs, [body], self.loop.loc))
            carried = list(made[-1].results)
            for old, new in zip(self.loop.results, carried, strict=True):
                new.name = old.name
        plain = [*bodies, self.body][whole]
        self._without_flags(plain, self.flags if plain is self.body else self._copied(plain))
        for number, each in enumerate([*made, self.loop]):
            if number != whole:
                each.attrs["unroll"] = 1
        self.loop.operands = [ends[-1], stop, by, *carried]
        self.loop.attrs.pop("exact", None)
        at = block.ops.index(self.loop)
        block.ops[at:at] = [*before.ops, *made]

    def _step(self) -> int:
        step = constant_of(self.loop.operands[2])
        if step is None or step < 1 or self.counter.dtype is not INDEX:
            raise self._refuse("the loop counts no index up by a constant", "a range of dims or constants")
        return int(step)

    def _copied(self, body: Block) -> list[Value]:
        """Returns the values in the cloned `body` that correspond to the flags."""
        return [r for op in body.ops for r in op.results if r.origin in self.flags]

    def _refuse(self, message: str, hint: str) -> TileError:
        said = f"loop '{self.counter.name}' cannot be peeled by '{self.flags[0].name}': {message}"
        return TileError("schedule", self.loc or self.loop.loc, said, hint)

    def _ends(self, step: int) -> tuple[list[Value], int]:
        """Computes where each of the new loops ends, except the last one. Also returns the index of the loop without
        the flag. A rising comparison is false at first and true from some iteration on. The loop without the flag
        starts once all rising comparisons are true. This loop ends at the first iteration with a false element."""
        b = self.b
        made = Block()
        with b.region(made):
            of_flags = [_Margins(b).of(flag) for flag in self.flags]
        hint = f"{self.counter.name} + arange(64) < n"
        if not all(of_flags):
            raise self._refuse("it is no comparison of sums of indices", hint)
        margins = [margin for each in of_flags for margin in each or ()]
        scope = [*self.body.ops, *made.ops]
        factors = [self._factor(scope, margin.value) for margin in margins]
        if not any(factors):
            raise self._refuse("it does not become false, or true, once and for all", hint)
        rising = [(m, k) for m, k in zip(margins, factors, strict=True) if k > 0]
        falling = [(m, k) for m, k in zip(margins, factors, strict=True) if k <= 0]
        start, end = self.loop.operands[:2]
        ends = []
        if rising:  # true from a counter of -(bound // factor) on
            firsts = [b.value("sub", b.index(0), self._turn(scope, *each)) for each in rising]
            firsts = [self._unless(scope, m, start, first) for (m, _), first in zip(rising, firsts, strict=True)]
            ends.append(self._iteration(b.value("minimum", end, reduce(partial(b.value, "maximum"), firsts)), step))
        if falling:  # false after a counter of bound // factor
            last = end
            for margin, k in falling:
                if k:
                    behind = b.value("add", self._turn(scope, margin, k), b.index(1))
                else:  # a margin without the counter: true in all iterations, or in none
                    is_kept = b.value("ge", self._bound(scope, margin), b.index(0))
                    behind = b.value("select", is_kept, end, start)
                last = b.value("minimum", last, self._unless(scope, margin, end, behind))
            ends.append(self._iteration(last, step))
        if len(ends) > 1:
            ends[1] = b.value("maximum", *ends)
        return ends, 1 if rising else 0

    def _bound(self, scope: list[Op], margin: _Margin) -> Value:
        """Computes the margin's value for a counter of 0, before the loop."""
        zero = {self.counter: self.b.index(0)}
        return made_anew(self.b, slice_of(scope, [margin.value]), zero, margin.value)

    def _turn(self, scope: list[Op], margin: _Margin, factor: int) -> Value:
        """Computes the `_bound` of a margin, divided by the absolute value of `factor` and rounded down."""
        return self.b.value("floordiv", self._bound(scope, margin), self.b.index(abs(factor)))

    def _unless(self, scope: list[Op], margin: _Margin, free: Value, bound: Value) -> Value:
        """Returns `free` if the flag `unless` of the margin is true, otherwise `bound`."""
        if margin.unless is None:
            return bound
        self._factor(scope, margin.unless, counts=False)  # called only for its errors
        unless = made_anew(self.b, slice_of(scope, [margin.unless]), {}, margin.unless)
        return self.b.value("select", unless, free, bound)

    def _iteration(self, end: Value, step: int) -> Value:
        """Rounds the counter value `end` up to the start of an iteration. The result is at least the start of the
        loop."""
        b, start = self.b, self.loop.operands[0]
        iterations = b.cdiv(b.value("sub", end, start), b.index(step))
        return b.value("add", start, b.value("mul", b.value("maximum", iterations, b.index(0)), b.index(step)))

    def _factor(self, scope: list[Op], margin: Value, counts: bool = True) -> int:
        """Returns the factor of the loop counter in a margin. Raises TileError if another term is not known before the
        loop. If `counts` is false, the whole margin must be known before the loop."""
        terms = linear(margin)[0] if counts else {margin: 1}
        others = [v for v in terms if v is not self.counter]
        inside = {r for op in self.body.ops for r in op.results} | set(self.body.args)
        wrong = impure(slice_of(scope, [margin]))
        if wrong is not None:
            raise self._refuse(f"it depends on a '{wrong.name}' in the loop", "bring its bound before the loop")
        hang = leaves_of(slice_of(scope, others), others) & inside
        if hang:
            by = min(v.name or "a value" for v in hang)
            raise self._refuse(f"it depends on '{by}' in a way that is no sum", "compute its bound before the loop")
        return terms.get(self.counter, 0)

    def _without_flags(self, body: Block, flags: list[Value]) -> None:
        """Replaces the flags by true in the loop `body`, where threads set no elements of boxes to 0. Constant folding
        then removes the selects."""
        always = Block()
        with self.b.region(always):
            true = {flag: self.b.constant(True, I1, flag.tile.shape) for flag in flags}
        replace_uses(body, true)
        body.ops = [*always.ops, *(op for op in body.ops if not op.attrs.get("clears"))]
