"""What is read ahead of a loop and behind it, and not in it, is computed once more; all else is as it was."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.function import walk
from tests.compile_and_run import compile_kernel, launch

TEXT = """
kernel k(y: f32[n], x: f32[n], m: s32):
    grid 1
    near = arange(128) < m
    v = load(x[0 : 128], mask=near)
    total = zeros(f32[128])
    for j in range(n // 16):
        total = total + {inside}
    {behind}

schedule s of k:
    warps = 2
"""
MASKED = "store(y[0 : 128], total, mask=near)"
CASES = {
    "read on both sides": ("v", MASKED, False),
    "read in the loop, too": ("where(near, v, 2.0)", MASKED, True),
    "read behind two loops": (
        "v",
        "for j in range(2):\n        total = total + 1.0\n    store(y[0 : 128], total, mask=near)",
        False,
    ),
    "read in a branch behind": ("v", "if m > 3:\n        store(y[0 : 128], total, mask=near)", False),
    "a float behind": ("1.0", "store(y[0 : 128], total + v, mask=near)", False),
}


@pytest.mark.parametrize("name", CASES)
def test_flags_are_computed_again_where_no_loop_needs_them(name: str) -> None:
    inside, behind, shared = CASES[name]
    args = {"y": np.zeros(100, np.float32), "x": np.arange(100, dtype=np.float32), "m": 70}
    kernel = compile_kernel(TEXT.format(inside=inside, behind=behind), args, choices={"pass.sink": "off"})
    launch(kernel, args)
    v, near = args["x"] * (np.arange(100) < 70), np.arange(100) < 70
    each = {"where(near, v, 2.0)": np.where(near, v, 2.0), "1.0": np.ones(100)}.get(inside, v)
    total = 6 * each + (2 if "two" in name else 0) + (v if "float" in name else 0)
    assert np.array_equal(args["y"], np.where(near, total, 0).astype(np.float32))
    body = kernel.variant.function.body
    load = next(op for op in walk(body) if op.name == "load")
    store = next(op for op in walk(body) if op.name == "store")
    flags = [{v for v in _made_of(op) if v.dtype.name == "i1" and v.shape} for op in (load, store)]
    assert bool(flags[0] & flags[1]) == shared


def _made_of(op):
    todo, seen = list(op.operands), set()
    while todo:
        value = todo.pop()
        if value not in seen:
            seen.add(value)
            todo += value.op.operands if value.op is not None and value.op.spec.pure else []
    return seen
