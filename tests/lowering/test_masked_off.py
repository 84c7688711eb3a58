"""Accesses of which nothing is on, as those at an index outside its axis: loads give `other`, stores write nothing."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.function import walk
from tests.compile_and_run import compile_kernel, launch, run


@pytest.mark.parametrize("row", [2, 3, -1])
@pytest.mark.parametrize("start", ["0", "block(0).to(s32) % 99 - 16"])
def test_an_index_outside_its_axis_masks_all(row: int, start: str) -> None:
    text = f"""
kernel k(y: s16[n]):
    grid 1
    shared s: s16[2, 64]
    s[:, :] = full(s16[2, 64], 1)
    i = {start}
    row = block(0) + {row}
    s[row, i : i + 64] = full(s16[64], 2)
    store(y[0 : 64], load(s[row, i : i + 64], other=7) + s[1, 0 : 64])
"""
    y = np.zeros(64, np.int16)
    run(text, {"y": y})
    assert (y == 8).all()


def test_the_layout_of_a_value_that_is_gone() -> None:
    """A store that is off takes its value along; a layout of that value is no layout of an unknown one."""
    text = """
kernel k(y: s16[n]):
    grid 1
    shared s: s16[2, 64]
    v = full(s16[64], 1)
    store(s[block(0) + 2, 0 : 64], v)
    store(y[0 : 64], full(s16[64], 2))

schedule default of k:
    warps = 1
    layout v: vector [2], lanes [32], warps [1]
"""
    y = np.zeros(64, np.int16)
    run(text, {"y": y})
    assert (y == 2).all()


FLAGS = """
kernel k(y: s32[n], x: s32[rows, n], m: s32):
    grid 1
    i = arange(16)[:, None]
    v = load(x[block(0) : block(0) + 16, 0 : 64], mask={mask}, other=7)
    y[0 : 64] = sum(v, axis=0)
"""


@pytest.mark.parametrize(
    ("mask", "conjunctions"),
    [
        ("i < m", 2),
        ("block(0) + i < rows", 1),
        ("(block(0) + i < rows) & (arange(64)[None, :] < n)", 1),
        ("(block(0) + i < rows) & (i < m)", 2),
        ("arange(16)[:, None] < n", 2),
    ],
)
def test_a_flag_that_a_mask_has_is_not_asked_again(mask: str, conjunctions: int) -> None:
    """A slice is masked by both ends. What the load says of them again is no code; what it says of others is."""
    x = np.arange(9 * 50, dtype=np.int32).reshape(9, 50)
    args = {"y": np.zeros(50, np.int32), "x": x, "m": 5}
    kernel = compile_kernel(FLAGS.format(mask=mask), args)
    launch(kernel, args)
    load = next(op for op in walk(kernel.variant.function.body) if op.name == "load")
    flags = [op for op in walk(kernel.variant.function.body) if op.name == "and" and op.result.tile.shape == (16, 64)]
    assert len(flags) == conjunctions and load.operands[-2] is flags[-1].result
    rows = 5 if "< m" in mask else 9
    assert (args["y"] == x[:rows].sum(axis=0) + 7 * (16 - rows)).all()
