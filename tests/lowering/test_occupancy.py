"""`occupancy`: ptxas is told how many blocks shared memory has room for, where a thread then has enough registers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compile_and_run import compile_kernel
from tests.lowering.test_prefetch_fragments import PRODUCT


@pytest.mark.parametrize(
    ("tile", "lines", "columns", "blocks"),
    [
        (64, "warps = 4", 512, 3),  # 48 KB a block, of 164
        (64, "warps = 4\n    blocks_per_sm 2", 512, 2),  # the schedule's own number
        (64, "warps = 4\n    blocks_per_sm 0", 512, 3),  # the schedule leaves it to the compiler
        (64, "warps = 4\n    maxnreg 96", 512, 0),  # the schedule's own registers
        (64, "warps = 4", 511, 0),  # loads by elements
        (128, "warps = 4", 512, 2),  # a thread has all the registers that it can have
    ],
)
def test_ptxas_is_told_the_blocks_of_products(tile: int, lines: str, columns: int, blocks: int) -> None:
    text = PRODUCT.replace("TM = 32, TN = 32", f"TM = {tile}, TN = {tile}").replace("warps = 2\n    {lines}", lines)
    args = {"a": np.zeros((256, columns), np.float16), "b": np.zeros((256, columns), np.float16)}
    args["c"] = np.zeros((256, 256), np.float32)
    ptx = compile_kernel(text, args, arch="sm_80", types={"T": "f16", "S": "f32"}).ptx
    assert (f".minnctapersm {blocks}" in ptx) if blocks else (".minnctapersm" not in ptx)


@pytest.mark.parametrize(("tile", "columns", "blocks"), [((16, 64), 511, 5), ((16, 32), 511, 0), ((32, 64), 511, 0)])
def test_ptxas_is_told_the_blocks_of_products_that_load_by_elements(
    tile: tuple[int, int], columns: int, blocks: int
) -> None:
    """Threads that load 64 elements for 8 accumulators get 96 registers. ptxas knows how many 48 elements need, and
    does not limit 16 accumulators."""
    text = PRODUCT.replace("TM = 32, TN = 32", f"TM = {tile[0]}, TN = {tile[1]}").replace(
        "warps = 2\n    {lines}", "warps = 4"
    )
    args = {"a": np.zeros((256, columns), np.float16), "b": np.zeros((256, columns), np.float16)}
    args["c"] = np.zeros((256, 256), np.float32)
    ptx = compile_kernel(text, args, arch="sm_90", types={"T": "f16", "S": "f32"}).ptx
    assert (f".minnctapersm {blocks}" in ptx) if blocks else (".minnctapersm" not in ptx)
