"""`cluster N`: launched so on both back ends, refused where the target has none or the grid is no multiple."""

from __future__ import annotations

import numpy as np
import pytest

import dsl
from dsl.runtime import device_facts

TEXT = """\
kernel k(y: s32[n], rank: s32[blocks]; B = 4):
    grid blocks
    i = block(0) * B
    y[i : i + B] = block(0)
    rank[block(0)] = asm("mov.u32 {d}, %cluster_ctarank;", s32)

schedule four of k:
    SIZE = 4
    cluster SIZE

schedule alone of k:
    cluster 1

dispatch d(y, rank):
    if fits(k with four): k with four
    else: k with alone
"""
ALONE = TEXT.replace('    rank[block(0)] = asm("mov.u32 {d}, %cluster_ctarank;", s32)\n', "    rank[block(0)] = 0\n")


def arrays(blocks: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(4 * blocks, -1, np.int32), np.full(blocks, -1, np.int32)


@pytest.mark.parametrize("blocks", [4, 12, 6, 3])
def test_a_launch_is_in_clusters_where_the_grid_allows_it(device: str, blocks: int) -> None:
    """And `fits` says no where it does not."""
    if device == "cuda" and int(device_facts(device).arch[3:]) < 90:
        pytest.skip("no clusters before sm_90")
    y, rank = arrays(blocks)
    dsl.parse(TEXT, device=device).d(y, rank)
    assert (y == np.repeat(np.arange(blocks), 4)).all()
    assert (rank == np.arange(blocks) % (1 if blocks % 4 else 4)).all()


def test_fits_asks_for_the_grid_of_each_call(device: str) -> None:
    """One variant serves all of these: whether its clusters fit was answered for the first one alone."""
    if device == "cuda" and int(device_facts(device).arch[3:]) < 90:
        pytest.skip("no clusters before sm_90")
    text = ALONE.replace(", rank: s32[blocks]", "").replace("    rank[block(0)] = 0\n", "").replace(", rank)", ")")
    module = dsl.parse(text.replace("grid blocks", "grid cdiv(n, B)"), device=device)
    for blocks in (4, 6, 8, 10):
        y = np.full(32 * blocks, -1, np.int32)
        (step,) = module.d.plan(module.d.facts({"y": y}), B=32).steps
        assert step.request.schedule == ("alone" if blocks % 4 else "four")
        module.d(y, B=32)
        assert (y == np.repeat(np.arange(blocks), 32)).all()


def test_a_grid_that_is_no_multiple_is_refused(device: str) -> None:
    y, rank = arrays(6)
    with pytest.raises(dsl.LaunchError, match=r"a multiple of its clusters' 4 .blocks = 6") as caught:
        dsl.parse(TEXT, device=device, arch="sm_90").k(y, rank, schedule="four")
    assert caught.value.code == "requires" and caught.value.line == 1 + TEXT[: TEXT.index("cluster SIZE")].count("\n")
    assert (y == -1).all()


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89"])
def test_a_target_without_clusters_refuses_them_at_their_line(arch: str) -> None:
    y, rank = arrays(4)
    module = dsl.parse(ALONE, device="emulator", arch=arch)
    with pytest.raises(dsl.TileError, match=f"{arch} has no clusters of blocks: they need sm_90") as caught:
        module.k(y, rank, schedule="four")
    assert caught.value.code == "target"
    assert caught.value.loc is not None
    assert caught.value.loc.line == 1 + TEXT[: TEXT.index("cluster SIZE")].count("\n")
    module.d(y, rank)
    assert (y == np.repeat(np.arange(4), 4)).all()
