"""Finds results that depend on the order of a launch's blocks, such as what the last of several exchanges leaves.

Atomics order nothing by themselves, so no block races with another one. But what they leave or return may depend on
which block comes first, and differ from launch to launch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.types import TensorType
from dsl.lowering.machine.formats import load
from dsl.lowering.meaning.levels import ROUNDS, allowed, run_level

Block = tuple[int, int, int]


def may_depend(function: Function) -> bool:
    """Whether blocks may see the order of others: by atomics of tensors, unless they wait for one another."""
    ops = walk(function.body)
    if any(op.spec.control.kind == "repeats" for op in ops):
        return False
    return any(op.spec.access.kind == "update" and isinstance(op.operands[0].type, TensorType) for op in ops)


def order_of_blocks(
    function: Function, given: Mapping[str, Any], grid: Sequence[int], blocks: Sequence[Block]
) -> str | None:
    """Returns a message if a tensor differs where the blocks come in reverse, or None. `function` is a kernel before
    all passes. Sums of floats may differ by rounding."""
    if len(blocks) < 2 or not may_depend(function):
        return None
    first = run_level(function, given, grid, blocks, watched=True)
    last = run_level(function, given, grid, blocks[::-1])
    others = []
    if first.inexact:
        others = [run_level(function, given, grid, blocks, noise=np.random.default_rng(s)) for s in range(ROUNDS)]
    for p in function.params:
        if p.name not in first.memories:
            continue
        a, b, *alike = (np.asarray(load(o.memories[p.name].data, p.dtype)) for o in (first, last, *others))
        wrong = allowed(a, alike, p.dtype, first.inexact).wrong(b)
        if wrong.any():
            at = int(np.argmax(wrong))
            by = (first.memories[p.name].by or {}).get(at)
            line = "" if by is None or by[0].loc is None else f"line {by[0].loc.line}: "
            return (
                f"{line}'{p.name}' depends on the order of its blocks: element {at} is {a[at]}, and {b[at]} in reverse"
            )
    return None
