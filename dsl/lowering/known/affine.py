"""Represents the offset of each element as a function of its coordinates in the tile: Σ product of scalars · linear
function of coordinates."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import TileType
from dsl.lowering.known.forms import Forms, linear
from dsl.lowering.layouts.layout import row_major

Terms = tuple[tuple[int, int], ...]  # (identity of a scalar value, factor), sorted
Product = tuple[int, ...]  # identities of scalar values, sorted. () is 1
MOST_PRODUCTS = 16  # the maximum number of products of a sum: offsets with more products count as unknown


class Affine(NamedTuple):
    """Element offsets of a tile: Σ coefficient · coordinate + Σ terms + constant.

    `terms` contains the scalars that are unknown at compile time, with their factors.
    """

    coefficients: tuple[int, ...]
    terms: Terms
    constant: int

    def reach(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Returns the least and the greatest offset, if all terms are 0."""
        spread = [c * (e - 1) for c, e in zip(self.coefficients, shape, strict=True)]
        return self.constant + sum(s for s in spread if s < 0), self.constant + sum(s for s in spread if s > 0)

    def values(self, shape: tuple[int, ...]) -> list[int]:
        """Returns the offsets of all elements in row-major order, if all terms are 0."""
        out = [self.constant]
        for extent, c in zip(shape, self.coefficients, strict=True):
            out = [e + c * x for e in out for x in range(extent)]
        return out

    def one_to_one(self, shape: tuple[int, ...]) -> bool:
        """Returns whether different elements certainly have different offsets. This holds if each coefficient exceeds
        the greatest sum that the smaller coefficients contribute, as for strides [8, 1] of a tile [4, 8]."""
        reach = 0
        for coefficient, extent in sorted(zip(map(abs, self.coefficients), shape, strict=True)):
            if extent == 1:
                continue
            if coefficient <= reach:
                return False
            reach += coefficient * (extent - 1)
        return True


class Linear(NamedTuple):
    """Σ coefficient · coordinate + constant."""

    coefficients: tuple[int, ...]
    constant: int

    def __bool__(self) -> bool:
        return bool(self.constant or any(self.coefficients))

    def plus(self, other: Linear, sign: int = 1) -> Linear:
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return Linear(tuple([x + sign * y for x, y in pairs]), self.constant + sign * other.constant)

    def times(self, number: int) -> Linear:
        return self if number == 1 else Linear(tuple([c * number for c in self.coefficients]), self.constant * number)


Offsets = dict[Product, Linear]
"""Maps products of scalars to linear functions of coordinates. The offset is the sum of product · function. For a tile
that starts at row r and column c of a row-major matrix with n columns: {(n,): row, (n, r): 1, (): column, (c,): 1}."""


class AffineOffsets(Forms[Offsets]):
    """Computes the offsets that values of one function contain, on demand. Products and terms contain the identities of
    scalars. `scalars` maps an identity to its value."""

    def __init__(self) -> None:
        self.known: dict[Value, Affine | None] = {}
        self.sums: dict[Value, Offsets | None] = {}
        self.scalars: dict[int, Value] = {}
        self.ranks: dict[int, int] = {}  # order of first use: unlike identities, it is the same in each run

    def in_order(self, product: Product) -> tuple[int, ...]:
        return tuple(sorted(self.ranks[name] for name in product))

    def of(self, value: Value) -> Affine | None:
        """Returns the offsets in `value`, or None if a coordinate is multiplied by a scalar that is unknown at compile
        time."""
        if value not in self.known:
            self.known[value] = self._affine(self.offsets(value), value)
        return self.known[value]

    def offsets(self, value: Value) -> Offsets | None:
        """Returns the offsets in `value` as a sum of products, or None if there is no such form."""
        if value not in self.sums:
            self.sums[value] = self._compute(value) if isinstance(value.type, TileType) else None
        return self.sums[value]

    def _affine(self, offsets: Offsets | None, value: Value) -> Affine | None:
        if offsets is None:
            return None
        terms: list[tuple[int, int]] = []
        numbers = Linear((0,) * len(value.tile.shape), 0)
        for product, part in offsets.items():
            if not product:
                numbers = part
            elif len(product) > 1 or any(part.coefficients):  # a stride that is no number
                return None
            else:
                terms.append((product[0], part.constant))
        return Affine(numbers.coefficients, tuple(sorted(terms)), numbers.constant)

    def _compute(self, value: Value) -> Offsets | None:
        shape = value.tile.shape
        if not shape:
            return self._scalar(value)
        found = self.told(value)
        if found is None and value.op is not None and value.tile.size == 1:
            # A tile of one element counts as a scalar, whatever operation computes the tile. An example is `cdiv(start,
            # V) * V` of one row.
            return {self._named(value): Linear((0,) * len(shape), 1)}
        return found

    def _named(self, value: Value) -> Product:
        self.ranks.setdefault(id(value), len(self.ranks))
        self.scalars[id(value)] = value
        return (id(value),)

    def _scalar(self, value: Value) -> Offsets:
        terms, constant = linear(value)
        out: Offsets | None = {(): Linear((), constant)} if constant else {}
        for v, k in terms.items():
            op = v.op
            is_product = op is not None and op.spec.algebra.sums == (None, "mul")
            product = _times(*map(self._scalar, op.operands)) if op is not None and is_product else None
            part = {self._named(v): Linear((), 1)} if product is None else product
            out = None if out is None else _plus(out, {p: each.times(k) for p, each in part.items()}, 1)
        return {self._named(value): Linear((), 1)} if out is None else out

    # ---- forms of operations ----

    def number(self, op: Op) -> Offsets:
        number = int(op.attrs["value"])
        return {(): Linear((0,) * len(op.result.tile.shape), number)} if number else {}

    def counted(self, op: Op) -> Offsets:
        return {(): Linear((1,), 0)} if op.result.tile.shape[0] > 1 else {}

    def added(self, op: Op, sign: int) -> Offsets | None:
        a, b = self.offsets(op.operands[0]), self.offsets(op.operands[1])
        return None if a is None or b is None else _plus(a, b, sign)

    def multiplied(self, op: Op) -> Offsets | None:
        a, b = self.offsets(op.operands[0]), self.offsets(op.operands[1])
        return None if a is None or b is None else _times(a, b)

    def scaled(self, op: Op, factor: int) -> Offsets | None:
        return self._each(op, lambda part: part.times(factor))

    def repeated(self, op: Op) -> Offsets | None:
        source, shape = op.operands[0].tile.shape, op.result.tile.shape

        def kept(part: Linear) -> Linear:
            if not source:
                return Linear((0,) * len(shape), part.constant)
            axes = zip(part.coefficients, source, shape, strict=True)
            return Linear(tuple([c if a == b else 0 for c, a, b in axes]), part.constant)

        return self._each(op, kept)

    def reshaped(self, op: Op) -> Offsets | None:
        return self._each(op, lambda part: _reshaped(part, op.operands[0].tile.shape, op.result.tile.shape))

    def transposed(self, op: Op) -> Offsets | None:
        axes = op.attrs["axes"]
        return self._each(op, lambda part: Linear(tuple(part.coefficients[a] for a in axes), part.constant))

    def _each(self, op: Op, change: Callable[[Linear], Linear | None]) -> Offsets | None:
        """Applies `change` to each linear function in the operand's offsets. Returns None if `change` returns None for
        one of them."""
        inner = self.offsets(op.operands[0])
        parts = None if inner is None else {p: change(part) for p, part in inner.items()}
        return None if parts is None or None in parts.values() else parts  # type: ignore[return-value]

    def moved(self, op: Op) -> Offsets | None:
        return self.offsets(op.operands[0])


def _plus(a: Offsets, b: Offsets, sign: int) -> Offsets | None:
    out = dict(a)
    for product, part in b.items():
        out[product] = out[product].plus(part, sign) if product in out else part.times(sign)
    return {p: part for p, part in out.items() if part} if len(out) <= MOST_PRODUCTS else None


def _times(a: Offsets, b: Offsets) -> Offsets | None:
    """Multiplies two sums of offsets. One of the sums must be the same for all elements. Otherwise the product is not
    linear, and the result is None."""
    if any(any(part.coefficients) for part in a.values()):  # make `a` the uniform factor
        a, b = b, a
    if any(any(part.coefficients) for part in a.values()) or len(a) * len(b) > MOST_PRODUCTS:
        return None
    out: Offsets = {}
    for left, number in a.items():
        for right, part in b.items():
            product, scaled = tuple(sorted(left + right)), part.times(number.constant)
            out[product] = out[product].plus(scaled) if product in out else scaled
    return {p: part for p, part in out.items() if part}


def apply_affine(affine: Affine | Linear, coordinates: tuple[int, ...]) -> int:
    return affine.constant + sum(c * x for c, x in zip(affine.coefficients, coordinates, strict=True))


def free_of_carries(affine: Affine, shape: tuple[int, ...]) -> bool:
    """Returns whether the contributions of the coordinates use different bits. Then their sum has no carries and equals
    their XOR."""
    taken = 0
    for coefficient, extent in zip(affine.coefficients, shape, strict=True):
        if coefficient < 0 or coefficient & (coefficient - 1):
            return False
        reached = coefficient * (extent - 1)
        if reached & taken:
            return False
        taken |= reached
    return True


def _reshaped(part: Linear, old: tuple[int, ...], new: tuple[int, ...]) -> Linear | None:
    """Returns a linear function after a reshape. Axes of extent 1 may be added or removed, and axes with row-major
    coefficients may be split or joined. Returns None for other reshapes."""
    if tuple(e for e in old if e > 1) == tuple(e for e in new if e > 1):
        kept = iter([c for c, e in zip(part.coefficients, old, strict=True) if e > 1])
        return Linear(tuple(next(kept) if e > 1 else 0 for e in new), part.constant)
    unit = [c for c, e in zip(part.coefficients, old, strict=True) if e > 1]
    want = [c for c, e in zip(row_major(old), old, strict=True) if e > 1]
    if not unit or not any(unit):
        return Linear((0,) * len(new), part.constant)
    scale = unit[-1]
    if unit != [w * scale // want[-1] for w in want] or scale % want[-1]:
        return None
    step = scale // want[-1]
    return Linear(tuple(step * stride for stride in row_major(new)), part.constant)
