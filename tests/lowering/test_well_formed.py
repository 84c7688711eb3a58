"""The verifier looks again at what a pass has changed, and only at that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dsl.lowering.building.builder import Builder
from dsl.lowering.building.verify import Known, Malformed, verify
from dsl.lowering.ir.function import Function, Op, Value
from dsl.lowering.ir.location import Loc, Source
from dsl.lowering.ir.types import F32, INDEX, S32, TensorType, TileType
from dsl.lowering.layouts.layout import Layout

LOC = Loc(Source("test.tile", " "), 0, 1)
CHANGES: dict[str, Callable[[dict[str, Op], Value], object]] = {
    "type of an operand": lambda ops, other: setattr(ops["arange"].result, "type", TileType((32,), F32)),
    "operand": lambda ops, other: ops["add"].operands.__setitem__(0, other),
    "fewer operands": lambda ops, other: ops["add"].operands.pop(),
    "type of a result": lambda ops, other: setattr(ops["add"].result, "type", TileType((4,), INDEX)),
    "attribute": lambda ops, other: ops["arange"].attrs.update(extent=16),
    "equal attribute": lambda ops, other: ops["cast"].attrs.update(saturate=1),
    "part of an attribute": lambda ops, other: ops["load"].attrs["has"].__setitem__(1, "mask"),
    "layout": lambda ops, other: setattr(
        ops["arange"].result, "type", TileType((32,), INDEX, Layout.blocked((32,), (1,), (32,), (1,)))
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_changed_is_looked_at_again(change: str) -> None:
    ir = Builder(LOC)
    memory, other = Value(TensorType(0, F32), name="x"), Value(TileType((4,), F32), name="o")
    ir.block.args = [memory, other]
    places = ir.value("arange", extent=32)
    ir.value("add", places, places)
    ir.value("cast", places, to=S32, saturate=False, rounding=None)
    ir.op("load", [memory, places], has=["memory", "offset"], cache=None, evict=None)
    function = Function("k", [], {}, ir.block, 4)
    known = Known()
    verify(function, known=known)
    seen = {op: list(parts) for op, parts in known.items()}
    verify(function, known=known)
    assert all(a is b for op, parts in seen.items() for a, b in zip(parts, known[op], strict=True))
    CHANGES[change]({op.name: op for op in ir.block.ops}, other)
    for _ in range(2):  # what is wrong stays wrong
        with pytest.raises(Malformed, match="after it: "):
            verify(function, "it", known)
