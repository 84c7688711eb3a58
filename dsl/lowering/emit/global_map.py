"""Describes offsets in global memory as linear functions of coordinates. `GlobalAddress` computes addresses from
them."""

from __future__ import annotations

from functools import reduce
from operator import or_

from msgspec import Struct

from dsl.lowering.ir.function import Value
from dsl.lowering.known.affine import AffineOffsets, Linear, Product
from dsl.lowering.known.facts import Analysis
from dsl.lowering.layouts.layout import Layout

Axes = tuple[tuple[int, ...], ...]  # for each axis, the amount that each bit of the thread's index adds


class GlobalMap(Struct, frozen=True):
    """The offsets of one access, in elements: uniform + Σ stride · f(coordinates), where each f is linear.

    `strides`: pairs of a stride (a product of scalars; () is 1) and the linear function that it multiplies. Neither is
        negative. So no partial sum exceeds the total or overflows.
    `uniform`: pairs of a product of scalars and its integer factor. Their sum is the same for all elements.
    `threads`: for each stride, the amount that each bit of the thread index adds along each axis.
    """

    layout: Layout
    strides: tuple[tuple[Product, Linear], ...]
    uniform: tuple[tuple[Product, int], ...]
    threads: tuple[tuple[Product, Axes], ...]

    def scalars(self, affines: AffineOffsets) -> list[Value]:
        """Returns the scalars that occur in `strides` and `uniform`."""
        products = [p for p, _ in (*self.strides, *self.uniform)]
        return [affines.scalars[name] for product in products for name in product]


def map_of(affines: AffineOffsets, facts: Analysis, offset: Value) -> GlobalMap | None:
    """Returns the map of offsets, or None if the offsets are not linear, or if a stride or coefficient may be
    negative."""
    layout = offset.tile.layout
    offsets = affines.offsets(offset) if offset.tile.shape else None
    if layout is None or offsets is None:
        return None
    bases = [b for b in (*layout.register, *layout.thread) if b]
    if sum(bases) != reduce(or_, bases, 0):
        return None
    strides: list[tuple[Product, Linear]] = []
    uniform: list[tuple[Product, int]] = []
    for product in sorted(offsets, key=affines.in_order):
        part = offsets[product]
        product = tuple(sorted(product, key=affines.ranks.__getitem__))
        moves = any(part.coefficients)
        # Negative constants become terms of the uniform part, which comes first. All further terms are at least 0, so
        # no partial sum exceeds the total.
        ahead = part.constant if part.constant < 0 or not (moves or product == ()) else 0
        if ahead:
            uniform.append((product, ahead))
        rest = Linear(part.coefficients, part.constant - ahead)
        if not rest:
            continue
        if min(part.coefficients) < 0 or any(not _never_negative(affines, facts, name) for name in product):
            return None
        strides.append((product, rest))
    return GlobalMap(layout, tuple(strides), tuple(uniform), _threads(layout, strides))


def _never_negative(affines: AffineOffsets, facts: Analysis, name: int) -> bool:
    low = facts.of(affines.scalars[name]).low
    return low is not None and low >= 0


def _threads(layout: Layout, strides: list[tuple[Product, Linear]]) -> tuple[tuple[Product, Axes], ...]:
    first, axes = len(layout.register), range(len(layout.shape))

    def along(axis: int, coefficient: int) -> tuple[int, ...]:
        return layout.weighed(tuple([coefficient if a == axis else 0 for a in axes]))[first:]

    return tuple(
        (p, tuple([along(axis, c) for axis, c in enumerate(part.coefficients) if c]))
        for p, part in strides
        if any(part.coefficients)
    )
