"""Short rows pass through shared memory as one piece, which is copied 16 bytes at a time."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.runtime.errors import DeviceAssertError
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import Kernel, compile_kernel, launch
from tests.lowering.test_align import arguments, check, run, text_of

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
LINES = "loop v, 1: static 128\n    stage v: shared\n    ROWS = 8"
BODIES = ("softmax", "several", "weights", "columns", "least", "numbers", "no reduction", "twice")


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("cols", [1, 23, 160, 389, 512])
def test_rows_in_one_piece(name: str, cols: int) -> None:
    """Fewer rows than a block has, as many, and a part of a second block's. In f32, too."""
    for rows, dtype in ((1, "f16"), (8, "f32"), (13, "f16")):
        kernel, args = run(text_of(name, LINES), rows, cols, dtype)
        check(name, args, arguments(rows, cols, dtype))
        assert kernel.count("copy") and "cp.async" in kernel.ptx


def widths(kernel: Kernel, what: str) -> set[str]:
    return {line.split()[0] for line in kernel.ptx.splitlines() for line in [line.strip()] if line.startswith(what)}


def test_a_piece_is_accessed_16_bytes_at_a_time() -> None:
    kernel, _ = run(text_of("softmax", LINES), 24, 23, "f16")
    assert "cp.async.cg.shared.global [" in kernel.ptx and "cp.async.ca" not in kernel.ptx
    assert "st.global.v4.b32" in kernel.ptx
    assert not [op for op in kernel.ops if op.name == "load" and op.operands[0].name in ("x", "z")]


@pytest.mark.parametrize(("lanes", "vector", "cols"), [(1, 1, 31), (2, 4, 36), (8, 1, 77), (32, 2, 250)])
def test_any_number_of_lanes_has_a_row(lanes: int, vector: int, cols: int) -> None:
    rows, part = 128 // lanes, lanes * max(vector, 4)
    lines = (
        f"ROWS, COLS = {max(rows, 8)}, {-(-cols // part) * part}\n    loop v, 1: static {part}\n    stage v: shared\n"
        f"    layout v: vector [1, {vector}], lanes [{32 // lanes}, {lanes}], warps [4, 1]\n    specialize cols"
    )
    for count in (3, 2 * rows + 1):
        _, args = run(text_of("softmax", lines), count, cols)
        check("softmax", args, arguments(count, cols, "f16"))


@pytest.mark.long
@pytest.mark.parametrize("name", BODIES)
def test_each_stage_means_the_same(name: str) -> None:
    program = parse_program(text_of(name, LINES))
    found = verify_kernel(program, Request("k", "s", {"rows": 11, "cols": 157}), arguments(11, 157, "f16"))
    assert found.divergence is None and found.undecided is None


NAMED = """
kernel k(y: {dtype}[rows, cols], x: {dtype}[rows, cols], keep: u8[rows, cols]; ROWS = 8, COLS = 64):
    grid cdiv(rows, ROWS)
    r = block(0) * ROWS
    v, m = x[r : r + ROWS, 0 : COLS], keep[r : r + ROWS, 0 : COLS] != 0
    n = (r + arange(ROWS))[:, None] * cols + arange(COLS)[None, :]
    d = where(m & (n % 5 > 1), v, 0.0) * 2.0
    g = d.to(f32) * 0.5
    z = (g - sum(g, axis=1, keepdims=true)).to({dtype})
    y[r : r + ROWS, 0 : COLS] = where(n % 3 == 1, 0.0, z)

schedule s of k:
    loop g, 1: static 32
    stage {name}: shared
"""


@pytest.mark.parametrize(("name", "dtype", "rows"), [*product(("v", "d", "z", "d, z"), ("f16", "f32"), (3, 17))])
def test_a_named_value_is_computed_in_the_order_of_the_piece(name: str, dtype: str, rows: int) -> None:
    """Before a reduction or behind one. What is named reaches the piece, and its operands need not."""
    cols, kind, random = 43, {"f16": np.float16, "f32": np.float32}[dtype], np.random.default_rng(rows)
    x, keep = random.integers(-3, 4, (rows, cols)).astype(kind), random.integers(0, 2, (rows, cols)).astype(np.uint8)
    args = {"y": np.zeros_like(x), "x": x, "keep": keep}
    kernel = compile_kernel(NAMED.format(name=name, dtype=dtype), args)
    launch(kernel, args)
    n = np.arange(rows * cols).reshape(rows, cols)
    d = np.where((keep != 0) & (n % 5 > 1), x, 0) * kind(2)
    wanted = np.where(n % 3 == 1, 0, (d - d.sum(axis=1, keepdims=True)) * kind(0.5))
    assert np.array_equal(args["y"], wanted)
    # `v` and `d` are what is stored in shared memory ahead of the reduction: of `d`, the operands are not copied there.
    assert (kernel.count("commit") > 0) is ("d" not in name)


def test_rows_of_a_view_and_of_parts_of_a_tensor() -> None:
    """Rows of a reshaped tensor, of which a block begins elsewhere than at its number times the rows."""
    text = """
kernel k(y: f32[rows, cols], x: f32[rows, cols]; ROWS = 8, COLS = 64):
    grid cdiv(rows * 3, ROWS)
    a, b = reshape(x, [rows * 3, cols // 3]), reshape(y, [rows * 3, cols // 3])
    r = block(0) * ROWS + 4
    v = a[r : r + ROWS, 0 : COLS]
    b[r : r + ROWS, 0 : COLS] = v - sum(v, axis=1, keepdims=true)

schedule s of k:
    loop v, 1: static 32
    stage v: shared
"""
    x = np.random.default_rng(0).integers(-9, 9, (5, 69)).astype(np.float32)
    y = np.full_like(x, 77)
    dsl.parse(text, device="emulator").k(y, x)
    v, wanted = x.reshape(15, 23), np.full((15, 23), 77, np.float32)
    wanted[4:] = (v - v.sum(axis=1, keepdims=True))[4:]
    assert np.array_equal(y.reshape(15, 23), wanted)


HEAD = """
kernel k(y: f16[rows, cols], x: f16[rows, cols], t: f16[rows, 64]; ROWS = 8, N = 64):
    grid cdiv(rows, ROWS)
    r, c = block(0) * ROWS, arange(N)[None, :]
"""
LOADED, STORED = "v = x[r : r + ROWS, 0 : N]\n", "y[r : r + ROWS, 0 : N] = v - max(v, axis=1, keepdims=true)"
STAGED = "stage v: shared"
REFUSED = {
    "rows apart": (
        "v = x[(r + arange(ROWS))[:, None] * 2, c]\n" + STORED, STAGED, "in line 5 are no neighbours in memory",
    ),
    "columns apart": (
        "v = x[(r + arange(ROWS))[:, None], c * 2]\n" + STORED, STAGED, "in line 5 are no neighbours in memory",
    ),
    "a part of each row": (
        "v = x[r : r + ROWS, 3 : N + 3]\n" + STORED, STAGED, "rows in line 5 end elsewhere than the next ones begin",
    ),
    "a mask of its own": (
        "n = (r + arange(ROWS))[:, None] * cols + c\nv = load(flat(x)[n], mask=(c < cols) & (n % 3 > 0), other=0.0)\n"
        + STORED, STAGED, "a mask in line 6 cuts pieces out of it",
    ),
    "no end": (
        "n = (r + arange(ROWS))[:, None] * cols + c\nv = flat(x)[n]\n" + STORED, STAGED,
        "not all of its accesses end where rows end",
    ),
    "other places": (
        LOADED + STORED.replace("y", "t"), STAGED, "other places are stored in line 6",
    ),
    "stored between": (
        LOADED + STORED + "\nu = y[r : r + ROWS, 0 : N]\nx[r : r + ROWS, 0 : N] = u - v",
        STAGED, "something is stored between its loads",
    ),
    "too few rows": (LOADED + STORED, f"ROWS = 4\n    {STAGED}", "pieces begin at no multiples of 8 elements"),
    "a flag": (
        LOADED + "d = v > 1.0\n" + STORED.replace("= v", "= where(d, v, 0.0)"), "stage d: shared",
        "'d' has no type in memory",
    ),
    "a number a row": (LOADED + "d = max(v, axis=1, keepdims=true)\n" + STORED, "stage d: shared", "'d' is"),
    "a number behind the end": (
        LOADED + "d = v + (c % 3).to(f16)\n" + STORED.replace("= v", "= d"), "stage d: shared",
        "'d' has no one number past the end of a row",
    ),
    "a number a row, in the order of the piece": (
        LOADED + "d = where(max(v, axis=1, keepdims=true) > 1.0, v, 0.0) * 2.0\n" + STORED.replace("= v", "= d"),
        "stage d: shared", "has a number a row or a column",
    ),
    "a column, in the order of the piece": (
        LOADED + "d = where(t[r, 0 : N] > 1.0, v, 0.0)\n" + STORED.replace("= v", "= d"), "stage d: shared",
        "it depends on the column",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_piece_is_refused(name: str) -> None:
    body, lines, message = REFUSED[name]
    indented = "".join(f"    {each}\n" for each in body.split("\n"))
    with pytest.raises(TileError) as caught:
        compile_kernel(
            f"{HEAD}{indented}\nschedule s of k:\n    loop v, 1: static 32\n    {lines}\n",
            dims={"rows": 30, "cols": 51},
        )
    error = caught.value
    assert error.code == "schedule" and message in error.message and error.loc is not None and error.hint


ROWS_OF = """
kernel k(y: f32[rows, {cols}], x: f32[rows, {cols}], z: f32[rows, {cols}]; ROWS = 8, COLS = 64):
    grid cdiv(rows, ROWS)
    r = block(0) * ROWS
    v = x[r : r + ROWS, 0 : COLS]
    {body}

schedule s of k:
    loop {name}, 1: static 32
    stage {staged}: shared
"""
STORE = "y[r : r + ROWS, 0 : COLS] = "


def rows_of(body: str, staged: str, columns: int, cols: str = "cols", name: str = "v") -> dict[str, np.ndarray]:
    """Runs a kernel with 8 rows of small whole numbers in `x`, ones in `z`, and 77 in `y`."""
    lines = "\n    ".join(body.splitlines())
    x = np.random.default_rng(columns).integers(-5, 6, (8, columns)).astype(np.float32)
    args = {"y": np.full_like(x, 77), "x": x, "z": np.ones_like(x)}
    dsl.parse(ROWS_OF.format(body=lines, staged=staged, cols=cols, name=name), device="emulator").k(*args.values())
    return args


@pytest.mark.parametrize(
    ("body", "staged"),
    [
        (f"d = v - sum(v, axis=1, keepdims=true)\nx[r : r + ROWS, 0 : COLS] = d\n{STORE}d + v", "d"),
        (f"w = z[r : r + ROWS, 0 : COLS]\nd = v - sum(v, axis=1, keepdims=true)\nz[r : r + ROWS, 0 : COLS] = d\n"
         f"{STORE}d + w", "d"),
        (f"x[r, 0] = 70.0\nd = v * 2.0\n{STORE}d - max(d, axis=1, keepdims=true)", "d"),
    ],
)  # fmt: skip
def test_what_is_loaded_again_is_not_written(body: str, staged: str) -> None:
    """The stored value is computed again in the order of the piece, from other loads."""
    with pytest.raises(TileError, match="loaded again in the order of the piece is written"):
        rows_of(body, staged, 43, name="d" if "x[r, 0]" in body else "v")


def test_rows_that_are_longer_than_the_tile() -> None:
    with pytest.raises(DeviceAssertError):
        rows_of(f"{STORE}v - max(v, axis=1, keepdims=true)", "v", 100)
    with pytest.raises(TileError, match="not all of its accesses end where rows end"):
        rows_of(f"{STORE}v - max(v, axis=1, keepdims=true)", "v", 100, cols="100")


def test_rows_without_a_mask() -> None:
    """The tile has all columns of the rows: no number stands past their end."""
    args = rows_of(f"{STORE}v - max(v, axis=1, keepdims=true)", "v", 64, cols="64")
    assert np.array_equal(args["y"], args["x"] - args["x"].max(axis=1, keepdims=True))


def test_a_scalar_of_the_block_in_a_named_value() -> None:
    args = rows_of(f"e = z[0, 0]\nd = v * e\n{STORE}d - max(d, axis=1, keepdims=true)", "d", 43, name="d")
    assert np.array_equal(args["y"], args["x"] - args["x"].max(axis=1, keepdims=True))


@pytest.mark.parametrize("between", ["for q in range(3):\n    t = t + m", "if rows > 3:\n    t = t + 3.0 * m"])
def test_a_loop_or_a_branch_between_loads_reads_what_is_reduced(between: str) -> None:
    body = (
        f"m = max(v, axis=1)\nt = zeros(f32[ROWS])\n{between}\nw = z[r : r + ROWS, 0 : COLS]\n{STORE}v * w - t[:, None]"
    )
    args = rows_of(body, "v, w", 43)
    assert np.array_equal(args["y"], args["x"] - 3 * args["x"].max(axis=1, keepdims=True))


def test_a_name_of_different_rows_is_refused() -> None:
    body = f"{STORE}v - max(v, axis=1, keepdims=true)\nv = z[r : r + ROWS, 0 : COLS]\nz[r : r + ROWS, 0 : COLS] = v"
    with pytest.raises(TileError, match="tiles of different rows"):
        rows_of(body, "v", 43)


def test_rows_in_place() -> None:
    """All copies have arrived, at a barrier, before anything is stored."""
    x = np.random.default_rng(0).standard_normal((40, 23)).astype(np.float16)
    wanted = np.exp(x.astype(np.float64))
    module = dsl.load(SAMPLES / "softmax.tile", device="emulator")
    module.softmax(x, x)
    assert np.allclose(x, wanted / wanted.sum(axis=1, keepdims=True), atol=1e-3)
