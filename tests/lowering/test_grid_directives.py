"""`l2_group N` and `persistent N`: the order in which blocks take the tiles of a grid, and how many."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.kernels.variant import Request, build_variant
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import PASSES, run_passes
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import compile_kernel, launch, through
from tests.run_meaning import grid_of

ORDER = """
kernel order(y: s32[rows, columns, parts]):
    grid rows, columns, parts
    y[block(0), block(1), block(2)] = y[block(0), block(1), block(2)] + 1 + block(1) * 10 + block(0) * 1000

schedule s of order:
    warps = 1
    l2_group {group}
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
    l2_group 2
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
    made = kernel.variant.function.choices.keyed()["l2_group.grid"]
    assert made.taken == "8" and made.line == "l2_group {option}"
    launch(kernel, args)
    assert (args["c"] == 24).all()


def test_the_loop_over_tiles_is_no_loop_of_the_texts() -> None:
    """`unroll tile: 2` names none, so that the line which takes an option is `choose`."""
    args = {"a": np.ones((150, 24), np.float16), "b": np.ones((40, 24), np.float16)}
    args |= {"c": np.zeros((150, 40), np.float32)}
    text = PRODUCT.format(first=0, second=1) + "    persistent 1\n"
    made = compile_kernel(text, args).variant.function.choices.keyed()["unroll.tile"]
    line = made.override("2", "unroll.tile")
    assert line == "choose unroll.tile: 2"
    kernel = compile_kernel(f"{text}    {line}\n", args)
    assert kernel.variant.function.choices.keyed()["unroll.tile"].taken == "2"
    launch(kernel, args)
    assert (args["c"] == 24).all()


def test_a_row_of_tiles_is_no_grid_of_two_axes() -> None:
    """Where both operands hang on one axis, nothing is decided; and the schedule cannot ask for it."""
    text = PRODUCT.format(first=0, second=0).replace("cdiv(m, TM), cdiv(n, TN)", "cdiv(m, TM)")
    args = {"a": np.ones((32, 16), np.float16), "b": np.ones((32, 16), np.float16), "c": np.zeros((32, 32), np.float32)}
    assert "l2_group.grid" not in compile_kernel(text, args).variant.function.choices.keyed()
    with pytest.raises(TileError, match="does not read block") as caught:
        compile_kernel(text + "    l2_group 4\n", args)
    assert caught.value.loc is not None and caught.value.loc.line == 12


def test_verify_compares_what_all_blocks_leave() -> None:
    """A wrong order is found behind its own pass."""
    program = parse_program(PRODUCT.format(first=0, second=1))
    args = {"a": np.eye(40, 24, dtype=np.float16), "b": np.eye(40, 24, dtype=np.float16) * 2}
    args |= {"c": np.zeros((40, 40), np.float32)}
    request = Request("k", "s", {"m": 40, "n": 40, "k": 24})
    found = verify_kernel(program, request, args)
    assert found.divergence is None and found.levels == len(PASSES)
    variant = build_variant(program, request)
    run_passes(variant.function, variant.target, through("grid"))
    assert variant.function.deals == 1


# ---- persistent ----


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 7, 2), (16, 9, 1), (150, 1, 3)])
@pytest.mark.parametrize("at_once", [1, 2])
def test_each_tile_is_taken_once_by_some_block(group: int, grid: tuple[int, int, int], at_once: int) -> None:
    """132 multiprocessors take 1 to 450 tiles."""
    args = {"y": np.zeros(grid, np.int32)}
    text = ORDER.format(group=group) + f"    persistent {at_once}\n"
    kernel = compile_kernel(text, args)
    launch(kernel, args)
    row, column, _ = np.indices(grid)
    assert np.array_equal(args["y"], 1 + column * 10 + row * 1000)
    assert grid_of(kernel.variant, args) == (min(int(np.prod(grid)), 132 * at_once), 1, 1)


GRID_SIZE = """
kernel sizes(y: s32[rows, columns, 1], n: s32; HALF):
    grid rows, cdiv(columns * n, HALF * n)
    y[block(0), block(1), 0] = grid(0) * 100 + grid(1)

schedule s of sizes:
    warps = 1
    HALF = 1
    persistent 1
"""


def test_the_kernel_reads_the_grid_that_it_was_written_for() -> None:
    args = {"y": np.zeros((12, 13, 1), np.int32), "n": 3}
    launch(compile_kernel(GRID_SIZE, args), args)
    assert (args["y"] == 1213).all()


ROUNDS = {"k": "0, k, TK", "few": "0, 16, TK", "by tile": "0, minimum(k, i + TK), TK"}


@pytest.mark.parametrize("iterations", ROUNDS)
@pytest.mark.parametrize("lines", ["persistent 1", "persistent 1\n    pipeline p: 4", "persistent 1\n    l2_group 1"])
@pytest.mark.parametrize(("m", "n", "k"), [(272, 160, 64), (33, 17, 8), (272, 130, 40), (200, 200, 0)])
def test_copies_go_on_from_tile_to_tile(iterations: str, lines: str, m: int, n: int, k: int) -> None:
    """170 tiles for 132 blocks, also where a tile has fewer iterations than the ring has stages, or none. A tile begins
    anew, in a branch, where the one before has not copied for it."""
    random = np.random.default_rng(m)
    args = {"a": random.integers(-3, 4, (m, k)).astype(np.float16), "c": np.full((m, n), np.nan, np.float32)}
    args["b"] = random.integers(-3, 4, (n, k)).astype(np.float16)
    text = PRODUCT.format(first=0, second=1).replace("0, k, TK", ROUNDS[iterations])
    kernel = compile_kernel(f"{text}    {lines}\n", args)
    launch(kernel, args)
    a, b = args["a"].astype(np.float32), args["b"].astype(np.float32)
    wanted = a @ b.T
    if iterations == "few":
        wanted = a[:, :16] @ b[:, :16].T
    elif iterations == "by tile":
        for i in range(0, m, 16):
            stop = min(k, -(-min(k, i + 16) // 16) * 16)
            wanted[i : i + 16] = a[i : i + 16, :stop] @ b[:, :stop].T
    assert np.array_equal(args["c"], wanted)
    outer = next(op for op in kernel.variant.function.body.ops if op.name == "for")
    assert outer.attrs["tiles"] and (not k or any(op.name == "if" for op in outer.regions[0].ops))


WRONG = {
    "cluster 2\n    persistent 1": "persistent blocks form clusters only if TMA",
    "persistent 99": "persistent is from 0 to 32; this is 99",
}


@pytest.mark.parametrize("lines", WRONG)
def test_what_is_not_persistent_is_refused(lines: str) -> None:
    args = {"y": np.zeros((4, 4, 1), np.int32)}
    with pytest.raises(TileError, match=WRONG[lines]) as caught:
        compile_kernel(ORDER.format(group=1) + f"    {lines}\n", args)
    assert caught.value.loc is not None


def test_blocks_that_wait_for_others_have_a_tile_each() -> None:
    text = """
kernel k(y: s32[n], done: u32[1]):
    grid n
    y[block(0)] = 1
    before = atomic_add(done[0], 1, order=acq_rel)

schedule s of k:
    persistent 1
"""
    args = {"y": np.zeros(4, np.int32), "done": np.zeros(1, np.uint32)}
    with pytest.raises(TileError, match="in line 5") as caught:
        compile_kernel(text, args)
    assert caught.value.loc is not None and caught.value.loc.line == 8


def test_a_grid_of_what_the_launch_alone_knows_is_refused() -> None:
    text = "kernel k(y: s32[n]):\n    grid minimum(n, sms)\n    y[block(0)] = 1\n\nschedule s of k:\n    persistent 1\n"
    with pytest.raises(TileError, match="computed with 'sms'"):
        compile_kernel(text, {"y": np.zeros(4, np.int32)})


def test_verify_takes_persistent_products() -> None:
    program = parse_program(PRODUCT.format(first=0, second=1) + "    persistent 1\n")
    args = {"a": np.eye(240, 24, dtype=np.float16), "b": np.eye(240, 24, dtype=np.float16) * 2}
    args |= {"c": np.zeros((240, 240), np.float32)}
    found = verify_kernel(program, Request("k", "s", {"m": 240, "n": 240, "k": 24}), args)
    assert found.divergence is None and found.levels == len(PASSES), found.divergence


# ---- order ----


@pytest.mark.parametrize(
    "lines",
    [
        "choose tile_order.grid: descending",
        "choose tile_order.grid: ascending",
        "choose tile_order.grid: descending\n    persistent 1",
    ],
)
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 7, 2), (16, 9, 1)])
def test_each_tile_is_taken_once_in_either_order(lines: str, group: int, grid: tuple[int, int, int]) -> None:
    args = {"y": np.zeros(grid, np.int32)}
    launch(compile_kernel(ORDER.format(group=group) + f"    {lines}\n", args), args)
    row, column, _ = np.indices(grid)
    assert np.array_equal(args["y"], 1 + column * 10 + row * 1000)


def test_the_first_block_takes_the_last_tile() -> None:
    args = {"y": np.zeros((15, 2), np.int32)}
    text = TILES.format(rows=5).replace("l2_group 2", "l2_group 1\n    choose tile_order.grid: descending")
    launch(compile_kernel(text, args), args)
    assert [tuple(tile) for tile in args["y"].tolist()] == [(4 - i, j) for j in range(3) for i in range(5)]


GROWING = """
kernel k(y: f32[n, 32], x: f32[n, 32], done: u32[1]):
    grid n
    i, total = block(0), zeros(f32[32])
    for j in range({iterations}):
        total = total + x[j, 0 : 32]
    y[i, 0 : 32] = total{more}

schedule s of k:
    warps = 1
"""
GROWS = {
    "0, i + 1": "descending",
    "0, minimum(n, i * 2 + 1)": "descending",
    "0, maximum(1, (i - n // 2) // 2)": "descending",
    "i - n, 2 * i": None,  # both ends rise
    "0, n - i": None,
    "i, n": None,
    "0, n": None,
    "0, i * n": None,  # n may be anything
    "0, i % 4": None,
}


def order_of(text: str) -> str | None:
    args = {"y": np.zeros((8, 32), np.float32), "x": np.ones((8, 32), np.float32), "done": np.zeros(1, np.uint32)}
    made = compile_kernel(text, args).variant.function.choices.keyed().get("tile_order.grid")
    return None if made is None else made.taken


@pytest.mark.parametrize("iterations", GROWS)
def test_the_longest_blocks_start_first(iterations: str) -> None:
    assert order_of(GROWING.format(iterations=iterations, more="")) == GROWS[iterations]


ASKS = {
    "a volatile load": "\n    w = done[0]\n    while w == 0:\n        w = load(done[0], cache=volatile)",
    "an atomic that asks": "\n    while atomic_add(done[0], 0, order=relaxed) == 0:\n        i = block(0)",
}


@pytest.mark.parametrize("waits", ASKS)
def test_blocks_that_may_wait_for_others_start_in_their_order_by_themselves(waits: str) -> None:
    """The last one first would wait for one that starts later: look-back hung so on a full GPU."""
    text = GROWING.format(iterations="0, i + 1", more=ASKS[waits])
    assert order_of(text) is None
    assert order_of(text + "    choose tile_order.grid: descending\n") == "descending"
    counts = GROWING.format(iterations="0, i + 1", more="\n    atomic_add(done[0], 1, order=relaxed)")
    assert order_of(counts) == "descending"


WORD = "    w = c[0, 0]\n    while w == 0.0:\n        w = load(c[0, 0], cache=volatile)\n"


@pytest.mark.parametrize("iterations", ["0, k, TK", "i, m + 1, TK"])
def test_tiles_of_blocks_that_may_wait_for_others_keep_the_order_of_the_grid(iterations: str) -> None:
    """Neither groups of rows nor columns side by side by themselves: either puts a later tile ahead of an earlier."""
    args = {"c": np.ones((48, 48), np.float32)} | dict.fromkeys("ab", np.ones((48, 48), np.float16))
    text = PRODUCT.format(first=0, second=1).replace("0, k, TK", iterations)
    orders = {"l2_group.grid", "tile_columns.grid", "tile_order.grid"}
    assert orders & {*compile_kernel(text, args).variant.function.choices.keyed()}
    waits = text.replace("    acc = zeros", WORD + "    acc = zeros")
    assert not orders & {*compile_kernel(waits, args).variant.function.choices.keyed()}


def test_blocks_that_wait_for_others_start_in_their_order() -> None:
    text = GROWING.format(iterations="0, i + 1", more="\n    before = atomic_add(done[0], 1, order=acq_rel)")
    assert order_of(text) is None
    with pytest.raises(TileError, match="they start in grid order") as caught:
        order_of(text + "    choose tile_order.grid: descending\n")
    assert caught.value.loc is not None and caught.value.loc.line == 12


TRIANGLE = """
kernel k(y: s32[rows, columns, planes], made: s32[blocks], z: s32[rows]):
    grid rows, columns, planes
    i, done = block(0), 0
    for j in range({iterations}):
        done += z[j]
    atomic_add(y[i, block(1), block(2)], 1, order=relaxed)
    atomic_add(made[asm("mov.u32 {{d}}, %ctaid.x;", s32)], done, order=relaxed)

schedule s of k:
    warps = 1
    {lines}
"""


def rounds_of_blocks(iterations: str, lines: str, grid: tuple[int, int, int]) -> list[int]:
    """How many iterations each block has made, which takes each tile once."""
    rows, args = grid[0], {"y": np.zeros(grid, np.int32), "made": np.zeros(4096, np.int32)}
    args["z"] = np.ones(rows, np.int32)
    launch(compile_kernel(TRIANGLE.format(iterations=iterations, lines=lines), args), args)
    assert (args["y"] == 1).all()
    made: list[int] = args["made"].tolist()
    assert sum(made) == grid[1] * grid[2] * rows * (rows + 1) // 2
    return made


@pytest.mark.parametrize(
    "lines",
    [
        "choose tile_columns.grid: {}",
        "persistent 1\n    choose tile_columns.grid: {}",
        "persistent 0\n    choose tile_columns.grid: {}",
    ],
)
@pytest.mark.parametrize("columns", [1, 2, 4])
@pytest.mark.parametrize("iterations", ["0, i + 1", "0, rows - i"])
@pytest.mark.parametrize("grid", [(1, 1, 1), (5, 7, 3), (16, 9, 1)])
def test_columns_side_by_side_take_each_tile_once(
    lines: str, columns: int, iterations: str, grid: tuple[int, int, int]
) -> None:
    rounds_of_blocks(iterations, lines.format(columns), grid)


@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_a_row_of_columns_goes_ahead_of_the_next_one(order: str) -> None:
    """5 rows of tiles, 3 columns of which 2 go side by side: what blocks 0, 1, 2 … of the machine take."""
    args = {"y": np.zeros((15, 2), np.int32)}
    launch(
        compile_kernel(
            TILES.format(rows=5).replace(
                "l2_group 2", f"choose tile_columns.grid: 2\n    choose tile_order.grid: {order}"
            ),
            args,
        ),
        args,
    )
    rows = range(5) if order == "ascending" else range(4, -1, -1)
    wanted = [(row, column) for columns in ((0, 1), (2,)) for row in rows for column in columns]
    assert [tuple(tile) for tile in args["y"].tolist()] == wanted


@pytest.mark.parametrize("iterations", ["0, i + 1", "0, rows - i"])
@pytest.mark.parametrize(("grid", "odd"), [((16, 40, 1), 0), ((15, 9, 5), 8)])
def test_blocks_get_a_long_tile_with_a_short_one(iterations: str, grid: tuple[int, int, int], odd: int) -> None:
    """Two or three pairs each; of an odd number of tiles one, of the middle, is alone."""
    made = sorted(count for count in rounds_of_blocks(iterations, "persistent 1", grid) if count)
    pair, single = grid[0] + 1, [] if not odd else [odd]
    assert {count % pair for count in made} == {0, *single} and made[-1] - made[0] <= pair
    assert len(made) == 132


def test_tiles_are_dealt_in_turn_where_that_is_chosen() -> None:
    made = rounds_of_blocks("0, i + 1", "persistent 1\n    choose deal.grid: round_robin", (16, 40, 1))
    assert len({count % 17 for count in made}) > 2


def test_columns_of_a_grid_of_one_axis_are_refused() -> None:
    text = GROWING.format(iterations="0, i + 1", more="") + "    choose tile_columns.grid: 2\n"
    with pytest.raises(TileError, match="no order of tiles to choose"):
        order_of(text)
    text = TRIANGLE.format(iterations="0, i + 1", lines="choose tile_columns.grid: 2").replace("relaxed", "acq_rel")
    args = {"y": np.zeros((2, 2, 2), np.int32), "made": np.zeros(4, np.int32), "z": np.zeros(2, np.int32)}
    with pytest.raises(TileError, match="they start in grid order"):
        compile_kernel(text, args)


def test_verify_compares_the_longest_first() -> None:
    """Sums of as many rows as the block has before it: by another order of blocks, the same memory."""
    program = parse_program(GROWING.format(iterations="0, i + 1", more=""))
    args = {"y": np.zeros((8, 32), np.float32), "x": np.ones((8, 32), np.float32), "done": np.zeros(1, np.uint32)}
    found = verify_kernel(program, Request("k", "s", {"n": 8}), args)
    assert found.divergence is None and found.levels == len(PASSES)
    variant = build_variant(program, Request("k", "s", {"n": 8}))
    run_passes(variant.function, variant.target, through("grid"))
    assert variant.function.deals == 1
