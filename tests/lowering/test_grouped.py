"""`grouped N`: the order in which blocks take the tiles of a grid."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.kernels.variant import Request, build_variant
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from lowering.location import TileError
from lowering.passes import PASSES, run_passes
from tests.compile_and_run import compile_kernel, launch, through

ORDER = """
kernel order(y: s32[rows, columns, parts]):
    grid rows, columns, parts
    y[block(0), block(1), block(2)] = y[block(0), block(1), block(2)] + 1 + block(1) * 10 + block(0) * 1000

schedule s of order:
    warps = 1
    grouped {group}
"""


@pytest.mark.parametrize("group", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 7, 2), (8, 3, 1), (9, 1, 1), (1, 9, 1), (16, 5, 1)])
def test_each_tile_is_taken_once(group: int, grid: tuple[int, int, int]) -> None:
    args = {"y": np.zeros(grid, np.int32)}
    kernel = compile_kernel(ORDER.format(group=group), args)
    launch(kernel, args)
    row, column, _ = np.indices(grid)
    assert np.array_equal(args["y"], 1 + column * 10 + row * 1000)


TILES = """
kernel tiles(y: s32[blocks, 2]; ROWS):
    grid ROWS, blocks // ROWS
    number = asm("mov.u32 {{d}}, %ctaid.x;", s32) + asm("mov.u32 {{d}}, %ctaid.y;", s32) * ROWS
    y[number, arange(2)] = where(arange(2) == 0, block(0), block(1)).to(s32)

schedule s of tiles:
    warps = 1
    ROWS = {rows}
    grouped 2
"""


def test_groups_follow_one_another_and_in_them_the_columns() -> None:
    """5 rows of tiles in groups of 2, 3 columns: what blocks 0, 1, 2 … of the machine take."""
    args = {"y": np.zeros((15, 2), np.int32)}
    launch(compile_kernel(TILES.format(rows=5), args), args)
    wanted = [
        (first + row, column) for first, high in ((0, 2), (2, 2), (4, 1)) for column in range(3) for row in range(high)
    ]
    assert [tuple(tile) for tile in args["y"].tolist()] == wanted


PRODUCT = """
kernel k(c: f32[m, n], a: f16[m, k], b: f16[n, k]; TM = 16, TN = 16, TK = 16):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block({first}) * TM, block({second}) * TN
    acc = zeros(f32[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[j : j + TN, p : p + TK].T, acc)
    c[i : i + TM, j : j + TN] = acc

schedule s of k:
    warps = 1
"""


def test_products_are_grouped_by_themselves() -> None:
    args = {"a": np.ones((150, 24), np.float16), "b": np.ones((40, 24), np.float16)}
    args |= {"c": np.zeros((150, 40), np.float32)}
    kernel = compile_kernel(PRODUCT.format(first=0, second=1), args)
    made = kernel.variant.function.choices.keyed()["grouped.grid"]
    assert made.taken == "8" and made.line == "grouped {option}"
    launch(kernel, args)
    assert (args["c"] == 24).all()


def test_a_row_of_tiles_is_no_grid_of_two_axes() -> None:
    """Where both operands hang on one axis, nothing is decided; and the schedule cannot ask for it."""
    text = PRODUCT.format(first=0, second=0).replace("cdiv(m, TM), cdiv(n, TN)", "cdiv(m, TM)")
    args = {"a": np.ones((32, 16), np.float16), "b": np.ones((32, 16), np.float16), "c": np.zeros((32, 32), np.float32)}
    assert "grouped.grid" not in compile_kernel(text, args).variant.function.choices.keyed()
    with pytest.raises(TileError, match="does not read block") as caught:
        compile_kernel(text + "    grouped 4\n", args)
    assert caught.value.loc is not None and caught.value.loc.line == 12


def test_verify_compares_what_all_blocks_leave() -> None:
    """A wrong order is found behind its own pass."""
    program = parse_program(PRODUCT.format(first=0, second=1))
    args = {"a": np.eye(40, 24, dtype=np.float16), "b": np.eye(40, 24, dtype=np.float16) * 2}
    args |= {"c": np.zeros((40, 40), np.float32)}
    request = Request("k", "s", {"m": 40, "n": 40, "k": 24})
    found = verify_kernel(program, request, args)
    assert found.divergence is None and found.stages == len(PASSES)
    variant = build_variant(program, request)
    run_passes(variant.function, variant.target, through("grouped"))
    assert variant.function.deals == 1
