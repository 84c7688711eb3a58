"""Accesses of which nothing is on, as those at an index outside its axis: loads give `other`, stores write nothing."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compile_and_run import run


@pytest.mark.parametrize("row", [2, 3, -1])
@pytest.mark.parametrize("start", ["0", "block(0).to(s32) % 99 - 16"])
def test_an_index_outside_its_axis_masks_all(row: int, start: str) -> None:
    text = f"""
kernel k(y: s16[n]):
    grid 1
    shared s: s16[2, 64]
    s[:, :] = full(s16[2, 64], 1)
    i = {start}
    row = block(0) % 2 // 2 + {row}
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
    store(s[block(0) % 2 // 2 + 2, 0 : 64], v)
    store(y[0 : 64], full(s16[64], 2))

schedule default of k:
    warps = 1
    layout v: vector [2], lanes [32], warps [1]
"""
    y = np.zeros(64, np.int16)
    run(text, {"y": y})
    assert (y == 2).all()
