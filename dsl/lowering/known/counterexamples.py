"""Refutes statements about sums of unknown scalars by counterexamples.

Most statements that `bounds.py` is asked to prove are false. For example, the last block of a grid may reach past the
edge of a tensor, so its mask cannot be folded. A proof fails only after it has tried all combinations of bounds, up to
60 sums. A counterexample ends the attempt before: numbers that satisfy all bounds, but not the statement. It never
ends one that would succeed, because what follows from the bounds holds for all numbers that satisfy them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Protocol

Number = int | None
Terms = Mapping[tuple[int, ...], int]
"""Σ factor · product of unknowns, which is `Sum` of `bounds.py`."""


DISTANCES = 1, 4099
"""`far` of the assignments that are tried. Of the false statements about a third of the samples' variants, 77 % have a
counterexample with these two. With 3 alone 64 % have one, and with 64 alone 57 %."""


class ScaledBound(Protocol):
    """The part of `LinearBound` that is used here."""

    @property
    def by(self) -> Terms: ...

    @property
    def factor(self) -> int: ...

    @property
    def product(self) -> tuple[int, ...]: ...


class BoundedScalar(Protocol):
    """The part of `UnknownScalar` that is used here."""

    @property
    def divisor(self) -> int: ...

    @property
    def uppers(self) -> Sequence[ScaledBound]: ...

    @property
    def lowers(self) -> Sequence[ScaledBound]: ...

    @property
    def cases(self) -> tuple[Terms, Terms] | None: ...

    @property
    def quotient(self) -> tuple[Terms, Terms] | None: ...


class Assignment:
    """Numbers for the unknowns of a function that satisfy all their bounds.

    An unknown with bounds on both sides gets its greatest number if `high` is true, otherwise its least. Another one is
    `far` steps above its lower bound, or below its upper bound. A step is the unknown's divisor.
    """

    def __init__(self, unknowns: Sequence[BoundedScalar], far: int, high: bool):
        self.unknowns, self.far, self.high = unknowns, far, high
        # By unknown, once it is needed. None where the numbers of the earlier unknowns leave none, for example for the
        # counter of a loop without iterations.
        self.numbers: dict[int, Number] = {}

    def breaks(self, terms: Terms, limit: int) -> bool:
        """Returns whether a sum is greater than `limit`."""
        value = self._value(terms)
        return value is not None and value > limit

    def _value(self, terms: Terms) -> Number:
        """Returns the value of a sum, or None if one of its unknowns has no number."""
        out, numbers = 0, self.numbers
        for product, factor in terms.items():
            for unknown in product:
                if unknown not in numbers:
                    numbers[unknown] = self._number(self.unknowns[unknown])
                number = numbers[unknown]
                if number is None:
                    return None
                factor *= number
            out += factor
        return out

    def _number(self, of: BoundedScalar) -> Number:
        low, high = self._end(of.lowers, -1), self._end(of.uppers, 1)
        if low is None or high is None:
            return None
        for number in self._wanted(of, -low, high):
            if number is not None and -low <= number <= high:
                return number
        return None

    def _end(self, bounds: Sequence[ScaledBound], sign: int) -> float | None:
        """Returns the greatest number that upper bounds allow, or for lower bounds (`sign` is -1) minus the least.
        Returns None if the value of a bound is not known."""
        end = inf
        for bound in bounds:
            by, factor = self._value(bound.by), bound.factor
            if bound.product:
                factor = self._value({bound.product: factor}) or 0
            if by is None or not factor:
                return None
            end = min(end, sign * by // factor)
        return end

    def _wanted(self, of: BoundedScalar, low: float, high: float) -> Sequence[Number]:
        """Returns the numbers to try, given the bounds of an unknown."""
        if of.quotient is not None:
            a, by = map(self._value, of.quotient)
            return [a // by] if a is not None and by else []
        if of.cases is not None:
            return [self._value(case) for case in of.cases]
        away = self.far * of.divisor
        greatest = high if high < inf else (low if low > -inf else 0) + away
        least = low if low > -inf else (high if high < inf else 0) - away
        return [int(greatest if self.high or (high == inf and low > -inf) else least)]
