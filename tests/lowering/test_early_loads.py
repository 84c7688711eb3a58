"""Loads that need nothing of a reduction stand ahead of it, if the schedule chooses it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dsl.lowering.ir.types import TensorType
from tests.compile_and_run import compile_kernel, launch

TEXT = """
kernel scaled(y: f32[rows, cols], x: f32[rows, cols], w: f32[cols], z: f32[cols], at: s32[cols]; COLS = 256):
    grid rows
    r = block(0)
    v = x[r, 0 : COLS]
    s = sum(v)
    u = w[0 : COLS]
    {line}
    y[r, 0 : COLS] = v * u + s

schedule a of scaled:
    warps = 2
    choose early.loads: {way}
"""


def order(kernel: Any) -> str:
    """The tensors that are loaded, and `+` for a reduction, in the order of the code."""
    loads = {
        op: op.operands[0].name
        for op in kernel.ops
        if op.name == "load" and isinstance(op.operands[0].type, TensorType)
    }
    return " ".join(
        "+" if op.name == "partial_reduce" else loads[op]
        for op in kernel.ops
        if op in loads or op.name == "partial_reduce"
    )


CASES = (
    ("u = u + z[0 : COLS]", "x w z +", lambda w, z, s: w + z),
    ("u = u + load(z[at[0 : COLS]])", "x w at + z", lambda w, z, s: w + z[::-1]),  # a place that is loaded stays
    (
        "u = u + load(z[0 : COLS], mask=arange(COLS) < s.to(s32))",
        "x w + z",
        lambda w, z, s: w + z * (np.arange(256) < int(s)),
    ),
)


@pytest.mark.parametrize(("line", "wanted", "scale"), CASES, ids=[wanted for _, wanted, _ in CASES])
def test_loads_stand_ahead_of_a_reduction(line: str, wanted: str, scale: Any) -> None:
    x, w, z = (np.random.default_rng(3).integers(0, 3, each).astype(np.float32) for each in ((2, 256), 256, 256))
    args = {
        "y": np.zeros((2, 256), np.float32),
        "x": x,
        "w": w,
        "z": z,
        "at": np.arange(256, dtype=np.int32)[::-1].copy(),
    }
    kernel = compile_kernel(TEXT.format(line=line, way="ahead"), args)
    assert order(kernel) == wanted
    launch(kernel, args)
    for r in range(2):
        s = x[r].sum()
        assert np.array_equal(args["y"][r], x[r] * scale(w, z, s) + s)
    assert order(compile_kernel(TEXT.format(line=line, way="own"), args)).startswith("x + w")


def test_what_the_kernel_writes_stays_where_it_is_read() -> None:
    text = TEXT.format(line="store(w[0 : COLS], u + s, mask=arange(COLS) < rows)", way="ahead")
    args = {n: np.zeros((2, 256) if n in "xy" else 256, np.float32) for n in ("y", "x", "w", "z")}
    assert order(compile_kernel(text, args | {"at": np.zeros(256, np.int32)})) == "x + w"
