"""Products on tensor cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lowering.ir import Value
from lowering.ops.spec import Mismatch, row
from lowering.types import Type


def _infer_dot(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    a, b, c = (o.tile for o in operands)
    if not len(a.shape) == len(b.shape) == len(c.shape) == 2:
        raise Mismatch(f"a product takes tiles of rank 2; got {a}, {b}, {c}")
    if a.shape[1] != b.shape[0]:
        raise Mismatch(f"the columns of {a} are not the rows of {b}")
    if c.shape != (a.shape[0], b.shape[1]):
        raise Mismatch(f"{a} @ {b} has shape {[a.shape[0], b.shape[1]]}; the accumulator is {c}")
    return [c]


row("dot", 3, _infer_dot, "shape modifier instruction")  # a, b, accumulator
