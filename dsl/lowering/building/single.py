"""Computes single elements of tiles again, as scalars: the first row of a TMA box says where the box begins."""

from __future__ import annotations

from math import prod

from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import TileType
from dsl.lowering.layouts.layout import row_major
from dsl.lowering.ops import operand


class SingleElements:
    """Builds elements of tiles by the operations that compute the tiles. Each element is loaded once."""

    def __init__(self, b: Builder):
        self.b = b
        self.known: dict[tuple[Value, tuple[int, ...]], Value] = {}

    def of(self, value: Value, index: tuple[int, ...]) -> Value:
        """Returns the element at `index` of a tile. A scalar is its own element."""
        op = value.op
        if not value.tile.shape:
            return value
        if (value, index) not in self.known:
            assert op is not None, "a tile that a loop carries has no elements of its own"
            self.known[value, index] = self._built(op, index)
        return self.known[value, index]

    def _built(self, op: Op, index: tuple[int, ...]) -> Value:
        b, elements = self.b, op.spec.elements
        if elements.kind == "places":
            return b.constant(index[0], op.result.dtype)
        if elements.kind == "number":
            return b.constant(op.attrs["value"], op.result.dtype)
        if elements.reshapes:
            source = op.operands[0]
            return self.of(source, _of_source(source.tile.shape, op.result.tile.shape, index))
        if op.spec.pure:
            assert op.spec.elementwise, f"'{op.name}' mixes elements"
            return b.value(op.name, *(self.of(each, index) for each in op.operands), **op.attrs)
        parts = {name: operand(op, name) for name in ("offset", "mask", "other")}
        there = {name: None if each is None else self.of(each, index) for name, each in parts.items()}
        cache, evict = op.attrs["cache"], op.attrs["evict"]
        return b.access("load", {"memory": op.operands[0], **there}, cache=cache, evict=evict).result


def flaw_of_elements(value: Value) -> str | None:
    """Returns the name of an operation of which SingleElements builds no single elements, or None if there is none."""
    op = value.op
    if not value.tile.shape or (op is not None and op.spec.elements.kind in ("places", "number")):
        return None
    if op is None:
        return "a loop"
    if not (op.spec.elements.reshapes or op.spec.elementwise or op.spec.access.kind == "read"):
        return op.name
    behind = [each for each in op.operands if isinstance(each.type, TileType)]
    return next(filter(None, map(flaw_of_elements, behind)), None)


def _of_source(source: tuple[int, ...], shape: tuple[int, ...], index: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the index of the element that is at `index` in another shape."""
    if prod(source) != prod(shape):  # a broadcast, which repeats axes of one element
        own = index[len(index) - len(source) :]
        return tuple(0 if extent == 1 else at for extent, at in zip(source, own, strict=True))
    place = sum(at * pitch for at, pitch in zip(index, row_major(shape), strict=True))
    return tuple(place // pitch % extent for extent, pitch in zip(source, row_major(source), strict=True))
