"""Proves that one index is never above another, for all values of the dims: `block(0) * 128 + arange(128) < m`.

Ranges with constant bounds (`facts.py`) are not sufficient for this. Here, an index is a sum of products of unknown
scalars. The bounds of an unknown are such sums, too: a block index is below the extent of the grid, a counter is below
the end of its loop, and a quotient times its divisor is at most the dividend. To prove that a sum is at most a number,
the proof replaces unknowns by their bounds, the latest unknown first, until only a number is left.

The proofs are valid only for integers that do not overflow. Indices do not overflow (`facts.py`). Integers of other
types therefore have no sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from math import gcd
from typing import Any, Protocol

from msgspec import Struct, field

from dsl.lowering.ir.function import Function, Op, Value
from dsl.lowering.ir.types import INDEX
from dsl.lowering.known.counterexamples import DISTANCES, Assignment
from dsl.lowering.known.forms import Forms, plus

Product = tuple[int, ...]
"""A product of unknowns: the sorted numbers of the unknowns. () is the product 1."""
Sum = dict[Product, int]
"""Σ factor · product. No factor is 0."""
Frozen = tuple[tuple[Product, int], ...]

# The maximum size of a sum. An index with a larger sum counts as unknown.
MOST_PRODUCTS = 16
MOST_FACTORS = 6
MOST_STEPS = 60
"""The maximum number of sums in one proof. A limit is needed because the search branches at each bound. If the limit is
reached, the statement counts as not proved."""


def number(value: int) -> Sum:
    return {(): value} if value else {}


def multiplied(a: Sum, b: Sum) -> Sum:
    out: Sum = {}
    for left, x in a.items():
        for right, y in b.items():
            product = tuple(sorted(left + right))
            out[product] = out.get(product, 0) + x * y
    return {p: k for p, k in out.items() if k}


def constant(sum: Sum) -> int | None:
    """Returns the value of a sum without unknowns, or None if the sum contains unknowns."""
    return None if any(sum) else sum.get((), 0)


def is_short(sum: Sum) -> bool:
    return len(sum) <= MOST_PRODUCTS and all(len(product) <= MOST_FACTORS for product in sum)


def frozen(sum: Sum) -> Frozen:
    return tuple(sorted(sum.items()))


def without(product: Product, part: Product) -> Product | None:
    """Divides a product by the product `part`. Returns None if it is no multiple of `part`."""
    rest = list(product)
    for unknown in part:
        if unknown not in rest:
            return None
        rest.remove(unknown)
    return tuple(rest)


class LinearBound(Struct, frozen=True):
    """An upper bound `factor · product · unknown <= by` of an unknown, or a lower bound with `>=`. The factor is
    positive, and the product is not negative."""

    by: Sum
    factor: int = 1
    product: Product = ()


class UnknownScalar(Struct):
    """The facts about one unknown scalar. Its bounds contain only earlier unknowns. Therefore, a proof that always
    replaces the latest unknown terminates.

    `cases` is None or a pair of sums, one of which equals the scalar. `quotient` is (dividend, divisor) if the scalar
    is a quotient.
    """

    divisor: int = 1
    low: int | None = None
    uppers: list[LinearBound] = field(default_factory=list)
    lowers: list[LinearBound] = field(default_factory=list)
    cases: tuple[Sum, Sum] | None = None
    quotient: tuple[Sum, Sum] | None = None

    def __post_init__(self) -> None:
        if self.low is not None:
            self.lowers.append(LinearBound(number(self.low)))


class Elements(Struct, frozen=True):
    """Describes all elements of a scalar or a tile. Each element is `sum`, which all elements share, plus a number from
    `low` to `high`."""

    sum: Sum
    low: int = 0
    high: int = 0


class Range(Protocol):
    """The constant bounds of one value. Each bound is inclusive, or None."""

    low: int | None
    high: int | None


class Known(Protocol):
    """The part of a function's `Analysis` (`facts.py`) that proofs use."""

    function: Function
    counters: dict[Value, Op]

    def of(self, value: Value) -> Range:
        """Returns the range of a value."""

    def divisor(self, value: Value) -> int:
        """Returns a known divisor of a scalar."""


class Bounds(Forms[Elements]):
    """Describes the indices of one function by sums, and keeps the bounds of the unknowns in these sums."""

    def __init__(self, analysis: Known):
        self.analysis = analysis
        self.unknowns: list[UnknownScalar] = []
        self.known: dict[Any, Sum] = {}  # maps the key of an unknown to the sum that contains only this unknown
        self.elements: dict[Value, Elements | None] = {}
        self.extents: dict[int, tuple[Any, Sum | None]] = {}  # by axis: the extent as in the function, and as a sum
        self.steps = 0
        self.assignments = [Assignment(self.unknowns, far, high) for far in DISTANCES for high in (False, True)]

    def not_above(self, a: Value, b: Value, distance: int = 0) -> bool:
        """Returns whether it can be proved that a + distance <= b for all elements."""
        if a.dtype is not INDEX:
            return False
        left, right = self.of(a), self.of(b)
        if left is None or right is None:
            return False
        self.steps = MOST_STEPS
        return self._at_most(plus(left.sum, right.sum, -1), right.low - left.high - distance)

    def same(self, one: Value, other: Value) -> None:
        """Records that two dims are equal."""
        self.elements[other] = self.of(one)

    def distance(self, a: Value, b: Value) -> int:
        """Returns a number that divides the difference of two scalars. It is 0 if the scalars are equal."""
        return self.divisor(plus(self.scalar(b), self.scalar(a), -1))

    # ---- sums ----

    def of(self, value: Value) -> Elements | None:
        """Describes the elements of a value by a sum. Returns None if nothing is known about them."""
        if value not in self.elements:
            told = self.told(value) if value.dtype is INDEX else None
            self.elements[value] = told if told is not None and is_short(told.sum) else self._alone(value)
        return self.elements[value]

    def _alone(self, value: Value) -> Elements | None:
        op = value.op
        if (
            op is not None
            and op.spec.control.flows
            and not op.spec.control.loops
            and not value.tile.shape
            and value.dtype is INDEX
        ):
            ways = [region.ops[-1].operands[op.results.index(value)] for region in op.regions]
            return Elements(self.one_of(value, *map(self.scalar, ways)))
        if not value.tile.shape:
            return Elements(self.made(("scalar", value), lambda: self._unknown(value)))
        facts = self.analysis.of(value)
        return None if facts.low is None or facts.high is None else Elements({}, facts.low, facts.high)

    def scalar(self, value: Value) -> Sum:
        """Returns the sum for a scalar index. If no sum is known, the index becomes a new unknown."""
        of = self.of(value)
        assert of is not None and not value.tile.shape
        return of.sum

    def number(self, op: Op) -> Elements:
        return Elements(number(int(op.attrs["value"])))

    def counted(self, op: Op) -> Elements:
        return Elements({}, 0, op.attrs["extent"] - 1)

    def added(self, op: Op, sign: int) -> Elements | None:
        a, b = (self.of(o) for o in op.operands)
        if a is None or b is None:
            return None
        low, high = (b.low, b.high) if sign > 0 else (-b.high, -b.low)
        return Elements(plus(a.sum, b.sum, sign), a.low + low, a.high + high)

    def multiplied(self, op: Op) -> Elements | None:
        return self._of_two(op, multiplied)

    def scaled(self, op: Op, factor: int) -> Elements | None:
        return self._of_two(op, lambda a, b: multiplied(a, number(factor)))

    def repeated(self, op: Op) -> Elements | None:
        return self.of(op.operands[0])

    reshaped = transposed = moved = repeated

    def divided(self, op: Op) -> Elements | None:
        return self._of_two(op, self.quotient)

    def left_over(self, op: Op) -> Elements | None:
        return self._of_two(op, self.remainder)

    def lesser(self, op: Op) -> Elements | None:
        return self._of_two(op, self.least)

    def greater(self, op: Op) -> Elements | None:
        return self._of_two(op, self.greatest)

    def chosen(self, op: Op) -> Elements | None:
        if op.result.tile.shape:  # one unknown cannot represent elements that differ
            return None
        a, b = (self.scalar(o) for o in op.operands[1:])
        return Elements(self.one_of(op.result, a, b))

    def block(self, op: Op) -> Elements:
        return Elements(self.block_number(op.attrs["axis"]))

    def blocks(self, op: Op) -> Elements:
        return Elements(self.block_count(op.attrs["axis"]))

    def _of_two(self, op: Op, rule: Callable[[Sum, Sum], Sum]) -> Elements | None:
        """Applies `rule` to the sums of both operands. Returns None unless each operand has equal elements."""
        sums = [of.sum for o in op.operands if (of := self.of(o)) is not None and of.low == of.high == 0]
        return Elements(rule(sums[0], sums[1])) if len(sums) == 2 else None

    def made(self, key: Any, unknown: Callable[[], UnknownScalar]) -> Sum:
        """Returns the unknown with this key, as a sum. `unknown` creates it at the first call. Its number is greater
        than those of all unknowns in its bounds."""
        if key not in self.known:
            made = unknown()
            self.unknowns.append(made)
            self.known[key] = {(len(self.unknowns) - 1,): 1}
        return self.known[key]

    def _unknown(self, value: Value) -> UnknownScalar:
        """Makes an unknown for a scalar that is not a sum. Its bounds are the scalar's range and, for a counter, the
        bounds of the loop."""
        facts = self.analysis.of(value)
        out = UnknownScalar(self.analysis.divisor(value), facts.low)
        if facts.high is not None:
            out.uppers.append(LinearBound(number(facts.high)))
        loop = self.analysis.counters.get(value)
        if loop is not None and value.dtype is INDEX:
            start, stop, step = (self.scalar(v) for v in loop.operands[:3])
            by = constant(step)
            between = gcd(self.divisor(step), self.divisor(plus(stop, start, -1)))  # divides stop - counter
            if by is None or by > 0:  # a step that is not constant must be positive
                out.lowers.append(LinearBound(start))
                for most in self._most_if_positive(plus(stop, start, -1)):  # else the loop has no iteration
                    out.uppers.append(LinearBound(plus(start, plus(most, number(-between)))))
            else:
                out.uppers.append(LinearBound(start))
                out.lowers.append(LinearBound(plus(stop, number(between))))
        return out

    def _most_if_positive(self, sum: Sum) -> Iterator[Sum]:
        """Yields the sum, and upper bounds that it has if it is positive. If it has one positive term, then that is
        positive, too: its max(a, 0) is a, and its a // 4 is at most a / 4, for a positive a."""
        yield sum
        (lead, *more) = [product for product, factor in sum.items() if factor > 0] or [()]
        rest = {product: factor for product, factor in sum.items() if product != lead}
        if more or len(lead) != 1 or not all(self._counts(unknown) for product in rest for unknown in product):
            return
        factor, of = sum[lead], self.unknowns[lead[0]]
        others = [case for case in of.cases or () if (known := constant(case)) is None or known > 0]
        if of.cases is not None and len(others) == 1:
            for most in self._most_if_positive(multiplied(others[0], number(factor))):
                yield plus(rest, most)
        divisor = None if of.quotient is None else constant(of.quotient[1])
        if of.quotient is not None and divisor is not None and divisor > 0 and factor % divisor == 0:
            for most in self._most_if_positive(of.quotient[0]):
                yield plus(rest, multiplied(most, number(factor // divisor)))

    def divisor(self, sum: Sum) -> int:
        """Returns a number that divides a sum. It is 0 for the sum 0."""
        out = 0
        for product, factor in sum.items():
            for unknown in product:
                factor *= self.unknowns[unknown].divisor
            out = gcd(out, factor)
        return out

    # ---- the grid ----

    def block_count(self, axis: int) -> Sum:
        """Returns the number of blocks of a launch along an axis, as an unknown. It is at least 1 and at most the
        extent of the kernel's grid."""
        extent = self.extent(axis)
        most = [] if extent is None else [LinearBound(extent)]
        return self.made(("blocks", axis), lambda: UnknownScalar(low=1, uppers=most))

    def block_number(self, axis: int) -> Sum:
        """Returns the index of a block along an axis, as an unknown. It is from 0 to the number of blocks minus 1."""
        below = plus(self.block_count(axis), number(-1))
        return self.made(("block", axis), lambda: UnknownScalar(low=0, uppers=[LinearBound(below)]))

    def extent(self, axis: int) -> Sum | None:
        """Returns the extent of the grid along an axis as a sum, or None if it is unknown."""
        grid = self.analysis.function.grid
        if axis >= len(grid):
            return None
        known = self.extents.get(axis)
        if known is None or known[0] is not grid[axis]:  # directives change the grid
            known = self.extents[axis] = grid[axis], self.tree(grid[axis])
        return known[1]

    def tree(self, tree: Any) -> Sum | None:
        """Converts an expression that the launch evaluates to a sum. Returns None if the expression is no integer or
        the sum is too long."""
        if isinstance(tree, bool | float):
            return None
        if isinstance(tree, int):
            return number(tree)
        if isinstance(tree, str):
            function = self.analysis.function
            number_of = function.constants.get(tree)
            if number_of is not None and not isinstance(number_of, str):
                return self.tree(number_of)
            dim = function.dims.get(tree)
            return self.made(("name", tree), UnknownScalar) if dim is None else self.scalar(dim)
        name, *arguments = tree
        parts = [self.tree(a) for a in arguments]
        rule = _TREES.get(name)
        if rule is None or len(parts) < 2 or None in parts:
            return self.made(("tree", repr(tree)), UnknownScalar)
        out: Sum = parts[0]  # type: ignore[assignment]
        for part in parts[1:]:
            out = rule(self, out, part)  # type: ignore[arg-type]
            if not is_short(out):
                return None
        return out

    def most_blocks(self, axis: int) -> int | None:
        """Returns a constant upper bound of the number of blocks along an axis, or None if none is known."""
        extent = self.extent(axis)
        if extent is None:
            return None
        bounds = [LinearBound(extent)]
        if list(extent.values()) == [1] and len(latest := next(iter(extent))) == 1:
            bounds += self.unknowns[latest[0]].uppers
        ends = [constant(bound.by) for bound in bounds if bound.factor == 1 and not bound.product]
        most = min((end for end in ends if end is not None), default=None)
        return None if most is None else max(most, 1)

    # ---- operations ----

    def quotient(self, a: Sum, by: Sum) -> Sum:
        divisor = constant(by)
        if divisor == 1:
            return a
        if divisor is not None and divisor > 0:
            whole = {p: k // divisor for p, k in a.items() if k % divisor == 0}
            rest = {p: k for p, k in a.items() if k % divisor}
            if not any(rest):  # only a constant remains, so it is divided here
                return plus(whole, number(rest.get((), 0) // divisor))
            return plus(whole, self.made(("floordiv", frozen(rest), divisor), lambda: self._part(rest, divisor)))
        return self.made(("floordiv", frozen(a), frozen(by)), lambda: self._ratio(a, by))

    def _part(self, a: Sum, by: int) -> UnknownScalar:
        """Makes the unknown a // by for a constant `by`. The remainder is between 0 and by - 1, and its value modulo
        `step` is known."""
        spare = a.get((), 0)
        step = gcd(by, self.divisor({p: k for p, k in a.items() if p}))
        least = spare % step  # the least remainder (the greatest is by - step + least)
        lower, upper = (LinearBound(plus(a, number(rest)), by) for rest in (step - by - least, -least))
        return UnknownScalar(1, self._low(a), [upper], [lower], quotient=(a, number(by)))

    def _ratio(self, a: Sum, by: Sum) -> UnknownScalar:
        """Makes the unknown a // by, where `by` is not constant."""
        if not by or not self._is_not_negative(by):  # division by 0 is undefined, so there are no bounds
            return UnknownScalar()
        out = UnknownScalar(1, self._low(a), quotient=(a, by))
        ((product, factor), *more) = by.items()
        if not more and factor > 0:
            out.uppers.append(LinearBound(a, factor, product))
        return out

    def remainder(self, a: Sum, by: Sum) -> Sum:
        times = multiplied(self.quotient(a, by), by)  # first, because the remainder's bound contains it

        def left() -> UnknownScalar:
            if not self._is_not_negative(by):
                return UnknownScalar()
            uppers = [LinearBound(plus(by, number(-1))), LinearBound(plus(a, times, -1))]
            return UnknownScalar(self._common(a, by), 0, uppers)

        return self.made(("mod", frozen(a), frozen(by)), left)

    # Both operands of a minimum are upper bounds of it, and both operands of a maximum are lower bounds of it. The
    # opposite bounds follow from `cases`.
    def least(self, a: Sum, b: Sum) -> Sum:
        return self._either(("minimum", frozen(a), frozen(b)), a, b, all, uppers=(a, b))

    def greatest(self, a: Sum, b: Sum) -> Sum:
        return self._either(("maximum", frozen(a), frozen(b)), a, b, any, lowers=(a, b))

    def one_of(self, key: Value, a: Sum, b: Sum) -> Sum:
        """Returns an unknown that equals one of two sums. Which one is not known."""
        return self._either(("select", key), a, b, all)

    def _either(
        self,
        key: Any,
        a: Sum,
        b: Sum,
        among: Callable[[Iterable[bool]], bool],
        uppers: Iterable[Sum] = (),
        lowers: Iterable[Sum] = (),
    ) -> Sum:
        """Returns an unknown that equals one of two sums. `among` is `all` or `any`: the unknown is known to be at
        least 0 if both sums are, or if one of them is."""

        def unknown() -> UnknownScalar:
            low = 0 if among(map(self._is_not_negative, (a, b))) else None
            bounds = [*map(LinearBound, uppers)], [*map(LinearBound, lowers)]
            return UnknownScalar(self._common(a, b), low, *bounds, (a, b))

        return a if a == b else self.made(key, unknown)

    def _low(self, sum: Sum) -> int | None:
        """Returns the lower bound 0 if a sum is known to be at least 0, otherwise None."""
        return 0 if self._is_not_negative(sum) else None

    def _common(self, a: Sum, b: Sum) -> int:
        return max(1, gcd(self.divisor(a), self.divisor(b)))

    def _is_not_negative(self, sum: Sum) -> bool:
        outer, self.steps = self.steps, MOST_STEPS // 4
        found = self._at_most({p: -k for p, k in sum.items()}, 0)
        self.steps = outer
        return found

    # ---- proofs ----

    def _at_most(self, sum: Sum, limit: int) -> bool:
        exact = constant(sum)
        if exact is not None:
            return exact <= limit
        if any(assignment.breaks(sum, limit) for assignment in self.assignments):
            return False
        self.steps -= 1
        if self.steps < 0 or not is_short(sum):
            return False  # not proved: this is always safe, because a mask or a barrier then stays
        latest = max(product[-1] for product in sum if product)  # bounds have only earlier unknowns: the proof ends
        for replaced, scale in self._replaced(sum, latest):
            if self._at_most(replaced, scale * limit + scale - 1):
                return True
        cases = self._cases(latest)
        if cases is not None:
            return all(self._at_most(self._with(sum, latest, case), limit) for case in cases)
        return False

    def _cases(self, unknown: int) -> tuple[Sum, Sum] | None:
        """Returns two sums, one of which equals the unknown. They also exist for a quotient whose divisor equals one of
        two sums. Returns None for other unknowns."""
        of = self.unknowns[unknown]
        if of.cases is not None or of.quotient is None:
            return of.cases
        a, by = of.quotient
        (product, *more) = by
        if more or len(product) != 1 or by[product] != 1 or (choice := self.unknowns[product[0]].cases) is None:
            return None
        one, other = (self.quotient(a, case) for case in choice)
        return one, other

    def _with(self, sum: Sum, unknown: int, value: Sum) -> Sum:
        """Replaces an unknown in a sum by `value`."""
        out: Sum = {}
        for product, factor in sum.items():
            part: Sum = {tuple(u for u in product if u != unknown): factor}
            for _ in range(product.count(unknown)):
                part = multiplied(part, value)
            out = plus(out, part)
        return out

    def _replaced(self, sum: Sum, unknown: int) -> Iterator[tuple[Sum, int]]:
        """Yields pairs (bound, scale) such that scale · sum <= bound, and the bound does not contain `unknown`."""
        signs = {factor > 0 for product, factor in sum.items() if unknown in product}
        for upper in self._uppers(unknown) if True in signs else (None,):
            for lower in self.unknowns[unknown].lowers if False in signs else (None,):
                replaced = self._by(sum, unknown, upper, lower)
                if replaced is not None:
                    yield replaced

    def _by(
        self, sum: Sum, unknown: int, upper: LinearBound | None, lower: LinearBound | None
    ) -> tuple[Sum, int] | None:
        rests: list[tuple[LinearBound, int, Product]] = []
        out: Sum = {}
        scale = 1
        for product, factor in sum.items():
            if unknown not in product:
                out[product] = factor
                continue
            bound = upper if factor > 0 else lower
            assert bound is not None
            rest = without(product, (unknown, *bound.product))
            if rest is None or not all(self._counts(u) for u in rest):
                return None
            needed = bound.factor // gcd(bound.factor, factor)
            scale = scale * needed // gcd(scale, needed)
            rests.append((bound, factor, rest))
        out = {p: k * scale for p, k in out.items()}
        for bound, factor, rest in rests:
            out = plus(out, multiplied(bound.by, {rest: factor * scale // bound.factor}))
        return out, scale

    def _counts(self, unknown: int) -> bool:
        low = self.unknowns[unknown].low
        return low is not None and low >= 0

    def _uppers(self, unknown: int) -> Iterator[LinearBound]:
        of = self.unknowns[unknown]
        yield from of.uppers
        if of.quotient is not None:
            a, by = of.quotient
            for above in self._above(a, {unknown for product in by for unknown in product}):
                yield from _ratios(above, by)

    def _above(self, sum: Sum, kept: Set[int]) -> Iterator[Sum]:
        """Yields upper bounds of a sum: the sum itself, and the sum with its latest unknowns replaced by their bounds.
        Unknowns in `kept` are not replaced."""
        self.steps -= 1
        if self.steps < 0 or not is_short(sum):
            return
        yield sum
        latest = max((unknown for product in sum for unknown in product if unknown not in kept), default=None)
        if latest is not None:
            for replaced, scale in self._replaced(sum, latest):
                if scale == 1:
                    yield from self._above(replaced, kept)


def _ratios(above: Sum, by: Sum) -> Iterator[LinearBound]:
    """Yields upper bounds of x, given that by · x <= above and that `by` is positive. It finds them in two cases: `by`
    is a constant, or dividing `above` by `by` leaves a constant remainder <= 0."""
    divisor = constant(by)
    if divisor is not None and not any(k % divisor for product, k in above.items() if product):
        yield LinearBound({product: k // divisor for product, k in above.items() if k // divisor})
    for lead, factor in by.items():
        shares = {share: k for product, k in above.items() if (share := without(product, lead)) is not None}
        if not lead or not shares or (len(by) > 1 and any(k % factor for k in shares.values())):
            continue
        scale = factor if len(by) == 1 else 1  # scale · x · (by / scale) <= (by / scale) · bound + left
        bound = {p: k * scale // factor for p, k in shares.items()}
        left = constant(plus(above, multiplied({p: k // scale for p, k in by.items()}, bound), -1))
        if scale > 0 and left is not None and left <= 0:
            yield LinearBound(plus(bound, number(-1 if left < 0 else 0)), scale)


_TREES: dict[str, Callable[[Bounds, Sum, Sum], Sum]] = {
    "+": lambda bounds, a, b: plus(a, b),
    "-": lambda bounds, a, b: plus(a, b, -1),
    "*": lambda bounds, a, b: multiplied(a, b),
    "//": Bounds.quotient,
    "%": Bounds.remainder,
    "min": Bounds.least,
    "max": Bounds.greatest,
    "cdiv": lambda bounds, a, b: bounds.quotient(plus(a, plus(b, number(-1))), b),
}
