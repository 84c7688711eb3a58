"""A shuffle is one instruction for all registers of a thread, or it is refused."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from tests.compile_and_run import run

KERNEL = """
kernel k(y: f32[32], x: f32[32]):
    grid 1
    t = load(x[0 : 32])
    store(y[0 : 32], shfl.MODE(t, 1, width=2))

schedule s of k:
    warps = 1
    layout t: LAYOUT
"""
MIXED = "register [[9]], lane [[6], [4], [16], [1], [0]], warp []"  # bit 0 lies in both
APART = "register [[8]], lane [[6], [4], [16], [1], [0]], warp []"


@pytest.mark.parametrize("mode", ["idx", "up", "down"])
def test_registers_that_share_bits_with_the_lanes_are_refused(mode: str) -> None:
    """They were shuffled as if the first register's lanes were all registers'."""
    text = KERNEL.replace("MODE", mode)
    arrays = {"y": np.zeros(32, np.float32), "x": np.arange(32, dtype=np.float32)}
    with pytest.raises(TileError, match=r"is no single shfl\.sync in this layout"):
        run(text.replace("LAYOUT", MIXED), arrays)
    run(text.replace("LAYOUT", APART), arrays)
    i = np.arange(32)
    wanted = {"idx": i | 1, "up": i & ~1, "down": i | 1}[mode]
    assert (arrays["y"] == wanted).all()
