"""`align`: rows that begin anywhere in memory are accessed 16 bytes at a time."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import dsl
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import Kernel, compile_kernel, launch
from tests.whole import some

HEAD = """
kernel k(y: T[rows, cols], x: T[rows, cols], z: T[rows, cols], w: T[cols], keep: u8[rows, cols];
         T in f16|f32, ROWS = 4, COLS = 512):
    grid cdiv(rows, ROWS)
    r = block(0) * ROWS
    c = arange(COLS)[None, :]
    v = x[r : r + ROWS, 0 : COLS].to(f32)
"""
BODIES = {
    "softmax": "d = where(c < cols, v, -inf)\ne = exp(d - max(d, axis=1, keepdims=true))\n"
    "out = e / sum(e, axis=1, keepdims=true)",
    "several": "g, m = z[r : r + ROWS, 0 : COLS].to(f32), keep[r : r + ROWS, 0 : COLS] != 0\n"
    "out = where(m, v * (g - sum(v * g, axis=1, keepdims=true)), 0.0)",
    "weights": "out = v * w[0 : COLS].to(f32)[None, :] / (sum(abs(v), axis=1, keepdims=true) + 1.0)",
    "columns": "out = where(c % 3 == 1, v, 0.0) + sum(where(c < cols, c.to(f32) * 0.001, 0.0), axis=1, keepdims=true)",
    "behind the end": "s, p = sum(v - 1.0, axis=1), prod(where(v > 9.0, v, 1.0), axis=1)\nout = v + (s + p)[:, None]",
    "index": "out = v + argmax(v - 1.0, axis=1).to(f32)[:, None]",
    "least": "out = v - min(v - c.to(f32) * 0.01, axis=1, keepdims=true)",
    "numbers": "i = (r + arange(ROWS))[:, None] * cols + c\n"
    "out = v + (i // 8 % 7).to(f32) - (i % 8).to(f32) + max(v, axis=1, keepdims=true)",
    "no reduction": "out = v * 2.0",
    "twice": "out = v - max(v, axis=1, keepdims=true)\nz[r : r + ROWS, 0 : COLS] = (v + 1.0).to(T)",
}
COLS = 512
WAYS = {
    "whole": "",
    "static": "loop v, 1: static 128",
    "loop": "loop v, 1: 128",
    "kept": "loop v, 1: 64\n    stage v: shared",
}


def text_of(name: str, lines: str) -> str:
    body = "".join(f"    {line}\n" for line in BODIES[name].split("\n"))
    store = "    y[r : r + ROWS, 0 : COLS] = out.to(T)\n"
    return f"{HEAD}{body}{store}\nschedule s of k:\n    warps = 4\n    {lines}\n"


def wanted(name: str, x: np.ndarray, z: np.ndarray, w: np.ndarray, keep: np.ndarray) -> np.ndarray:
    x, z, w = (a.astype(np.float64) for a in (x, z, w))
    c, i = np.arange(x.shape[1]), np.arange(x.size).reshape(x.shape)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    results: dict[str, Callable[[], np.ndarray]] = {
        "softmax": lambda: e / e.sum(axis=1, keepdims=True),
        "several": lambda: np.where(keep != 0, x * (z - (x * z).sum(axis=1, keepdims=True)), 0),
        "weights": lambda: x * w / (np.abs(x).sum(axis=1, keepdims=True) + 1),
        "columns": lambda: np.where(c % 3 == 1, x, 0) + c.sum() * 0.001,
        "behind the end": lambda: x + (x.sum(axis=1) - COLS)[:, None] + 1,
        "index": lambda: x + np.pad(x, ((0, 0), (0, COLS - len(c)))).argmax(axis=1)[:, None],
        "least": lambda: x - np.minimum((x - c * 0.01).min(axis=1), -(COLS - 1) * 0.01)[:, None],
        "numbers": lambda: x + i // 8 % 7 - i % 8 + np.maximum(x.max(axis=1, keepdims=True), 0),
        "no reduction": lambda: x * 2,
        "twice": lambda: x - np.maximum(x.max(axis=1, keepdims=True), 0),
    }
    return results[name]()


def arguments(rows: int, cols: int, dtype: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(cols)
    shape, kind = (rows, cols), np.float16 if dtype == "f16" else np.float32
    x, z = (random.standard_normal(shape).astype(kind) for _ in range(2))
    keep = random.integers(0, 2, shape).astype(np.uint8)
    return {"y": np.zeros_like(x), "x": x, "z": z, "w": random.standard_normal(cols).astype(kind), "keep": keep}


def run(text: str, rows: int, cols: int, dtype: str = "f16", **constants: int) -> tuple[Kernel, dict[str, np.ndarray]]:
    args = arguments(rows, cols, dtype)
    kernel = compile_kernel(text, args, types={"T": dtype}, constants=constants)
    launch(kernel, args)
    return kernel, args


def check(name: str, args: dict[str, np.ndarray], before: dict[str, np.ndarray]) -> None:
    right = wanted(name, *(before[each] for each in ("x", "z", "w", "keep")))
    bound = 2e-3 if args["y"].dtype == np.float16 else 1e-5
    assert np.abs(args["y"] - right).max() <= bound * np.abs(right).max()
    if name == "twice":
        assert np.abs(args["z"] - (before["x"] + 1)).max() <= bound * 8


IN_PARTS = "index"
"""What needs several parts, since no number changes nothing in it."""


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cols", [511, 389, 3])
def test_rows_that_begin_anywhere(name: str, way: str, cols: int) -> None:
    lines = f"align v: {4 if name == IN_PARTS else 8}\n    {WAYS[way]}"
    if name == IN_PARTS and way == "whole":
        lines = "align v: 1"
    for rows in (1, 6):
        _, args = run(text_of(name, lines), rows, cols)
        check(name, args, arguments(rows, cols, "f16"))


@pytest.mark.parametrize("name", [each for each in BODIES if each != IN_PARTS])
@pytest.mark.parametrize("constants", [{"ROWS": 1}, {"ROWS": 8}, {"ROWS": 32, "COLS": 512}])
def test_rows_of_a_block(name: str, constants: dict[str, int]) -> None:
    for dtype, step in (("f16", 8), ("f32", 4), ("f32", 16)):
        _, args = run(text_of(name, f"align v: {step}"), 9, 501, dtype, **constants)
        check(name, args, arguments(9, 501, dtype))


def widths(kernel: Kernel) -> set[str]:
    return set(re.findall(r"ld\.global(?:\.nc)?(?:\.\w+)*?(?:\.(v[248]))?\.b(?:8|16|32|64)", kernel.ptx))


def test_bodies_are_accessed_whole() -> None:
    """16 bytes at a time, where without it each element is an access."""
    text = text_of("softmax", "align v: {}\n    loop v, 1: static 256\n    ROWS = 1").replace("warps = 4", "warps = 1")
    aligned, _ = run(text.format(8), 3, 509)
    plain, _ = run(text.format(1), 3, 509)
    assert aligned.ptx.count("ld.global.v4.b32") == 2 and "v4" not in plain.ptx
    assert len(aligned.ptx) < len(plain.ptx)


def test_rows_that_begin_at_multiples_stay_as_they_are() -> None:
    texts = [text_of("softmax", lines) for lines in ("align v: 8", "align v: 1", "")]
    first, *others = (run(text, 4, 504)[0].ptx for text in texts)
    assert [re.sub(r"\n//.*", "", other) for other in others] == [re.sub(r"\n//.*", "", first)] * 2


def test_rows_that_are_reduced_are_aligned_by_themselves() -> None:
    kernel, args = run(text_of("softmax", ""), 5, 511)
    check("softmax", args, arguments(5, 511, "f16"))
    (choice,) = [c for key, c in kernel.variant.function.choices.keyed().items() if key.startswith("align.")]
    assert (choice.taken, choice.rule) == ("at multiples", "at multiples") and "ld.global.v4.b32" in kernel.ptx
    kernel, _ = run(text_of("no reduction", ""), 5, 511)
    assert not [key for key in kernel.variant.function.choices.keyed() if key.startswith("align.")]


@pytest.mark.long
@pytest.mark.parametrize("name", BODIES)
def test_each_stage_means_the_same(name: str) -> None:
    for lines in ("align v: 8", "align v: 8\n    loop v, 1: 128\n    stage v: shared")[name == IN_PARTS :]:
        program = parse_program(text_of(name, lines))
        found = verify_kernel(program, Request("k", "s", {"rows": 5, "cols": 389}), arguments(5, 389, "f16"))
        assert found.divergence is None and found.undecided is None


def test_a_row_ends_where_its_dim_does() -> None:
    """A mask that ends rows before their dim leaves what is behind it to be stored."""
    text = """
kernel k(y: f32[rows, cols], x: f32[rows, cols], ends: s32[rows]; COLS = 512):
    grid rows
    r = block(0)
    v = load(x[r, 0 : COLS], mask=arange(COLS) < ends[r], other=1.0)
    y[r, 0 : COLS] = v + max(v)

schedule s of k:
    align v: 4
"""
    random = np.random.default_rng(0)
    x, ends = random.standard_normal((5, 403)).astype(np.float32), np.array([0, 1, 2, 200, 403], np.int32)
    args = {"y": np.zeros_like(x), "x": x, "ends": ends}
    launch(compile_kernel(text, args), args)
    v = np.where(np.arange(403) < ends[:, None], x, np.float32(1))
    whole = np.concatenate([v, np.ones((5, 1), np.float32)], axis=1)  # what is behind the row is 1, too
    assert np.array_equal(args["y"], v + whole.max(axis=1, keepdims=True))


ENDS = {
    "a reshaped tensor": "v = reshape(x, [rows // 2, 2 * cols])[r, 0 : COLS]\n"
    "out = where(c < 2 * cols, v, -inf)\nreshape(y, [rows // 2, 2 * cols])[r, 0 : COLS] = v - max(out)",
    "a length": "i, n = ends[r].to(index), r * cols + c\nv = load(flat(x)[n], mask=c < i, other=1.0)\n"
    "store(flat(y)[n], v - sum(v), mask=c < i)",
    "a length, and the dim": "i = ends[r].to(index)\nv = load(x[r, 0 : COLS], mask=c < i, other=-1.0)\n"
    "store(y[r, 0 : COLS], v - sum(v), mask=c < i)",
}


@pytest.mark.parametrize("lines", ["align v: 4", "align v: 4\n    loop v, 0: 64", "align v: 1"])
@pytest.mark.parametrize("name", ENDS)
def test_rows_may_end_where_numbers_of_the_block_say(name: str, lines: str) -> None:
    """An extent of another shape, or a length that is loaded."""
    body = "".join(f"    {line}\n" for line in ENDS[name].split("\n"))
    text = f"""
kernel k(y: f32[rows, cols], x: f32[rows, cols], ends: s32[rows]; COLS = 512):
    grid rows
    r, c = block(0), arange(COLS)
{body}
schedule s of k:
    warps = 2
    {lines}
"""
    random = np.random.default_rng(0)
    x, ends = random.standard_normal((6, 203)).astype(np.float32), np.array([0, 1, 3, 200, 203, 77], np.int32)
    args = {"y": np.zeros_like(x), "x": x, "ends": ends}
    kernel = compile_kernel(text, args)
    launch(kernel, args)
    assert ("align.v" in kernel.variant.function.choices.keyed()) is ("4" in lines)
    wanted, other = np.zeros_like(x), -1.0 if "dim" in name else 1.0
    if name == "a reshaped tensor":
        pairs = x.reshape(3, 406)
        wanted = (pairs - pairs.max(axis=1, keepdims=True)).reshape(x.shape)
    else:
        for row, end in enumerate(ends):
            wanted[row, :end] = x[row, :end] - (x[row, :end].sum() + other * (512 - end))
    assert np.allclose(args["y"], wanted, atol=1e-3)


REFUSED = {
    "no tile": ("align u: 8", "v = x[r, 0 : N]\ny[r, 0 : N] = v - max(v)", "name", "has no tile 'u'"),
    "a number": ("align v: 8", "v = x[r, 0]\ny[r, 0 : N] = zeros(f32[N]) + v", "schedule", "it is a number"),
    "nothing is loaded": (
        "align v: 8", "v = arange(N).to(f32)\ny[r, 0] = sum(v)", "schedule", "nothing of them is loaded or stored",
    ),
    "columns apart": (
        "align v: 8", "v = x[r, arange(N) * 2]\ny[r, 0] = sum(v)", "schedule", "its columns in line 5 are no neighbours"
    ),
    "an index of the greatest": (
        "align v: 8", "v = x[r, 0 : N]\ny[r, 0 : N] = v - argmax(v).to(f32)", "schedule",
        "the reduction by 'reduce' in line 6 has no known neutral number",
    ),
    "no end": (
        "align v: 8", "v = flat(x)[r * cols + arange(N)]\ny[r, 0] = sum(v)", "schedule", "nothing says where they end",
    ),
    "a scan": ("align v: 8", "v = x[r, 0 : N]\ny[r, 0 : N] = cumsum(v)", "schedule", "'scan' in line 6 mixes"),
    "in a loop": (
        "align v: 8", "v = x[r, 0 : N]\nfor i in range(3):\n    v = v + x[r, 0 : N]\ny[r, 0 : N] = v", "schedule",
        "a loop or a branch uses it",
    ),
    "written between": (
        "align v: 8\n    loop v, 0: 64", "v = x[r, 0 : N]\nx[r, 0 : N] = v - max(v)", "schedule", "is loaded in line 5",
    ),
    "not a power of two": ("align v: 6", "v = x[r, 0 : N]\ny[r, 0 : N] = v", "schedule", "power of two"),
    "parts below the multiples": (
        "align v: 16\n    loop v, 0: 8", "v = x[r, 0 : N]\ny[r, 0 : N] = v - max(v)", "schedule",
        "parts of 8 elements begin at no multiples of 16",
    ),
    "begun by what is found": (
        "align v: 8", "v = arange(N).to(f32)\ny[argmax(v), 0 : N] = v", "schedule",
        "where they begin depends on what is computed from them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rows_is_refused(name: str) -> None:
    line, body, code, message = REFUSED[name]
    head = "kernel k(y: f32[rows, cols], x: f32[rows, cols]; N = 256):\n    grid rows\n    r = block(0)\n"
    text = f"\n{head}" + "".join(f"    {each}\n" for each in body.split("\n")) + f"\nschedule s of k:\n    {line}\n"
    with pytest.raises(TileError) as caught:
        compile_kernel(text, dims={"rows": 3, "cols": 251})
    error = caught.value
    assert error.code == code and message in error.message and error.loc is not None and error.hint


PARTS = """
kernel k(y: {dtype}[rows, cols], x: {dtype}[rows, cols]; N = 128):
    grid rows
    r = block(0)
    v = x[r, 0 : N]
    y[r, 0 : N] = v + max(v)

schedule s of k:
    {lines}
"""


@pytest.mark.parametrize(("dtype", "cols", "lines"), [
    ("i1", 33, "loop v, 0: 8"), ("i1", 97, "loop v, 0: static 4"), ("f2", 99, "loop v, 0: 4"),
    ("f4", 66, "loop v, 0: 2"), ("f4", 128, "align v: 8\n    loop v, 0: 4"),
])  # fmt: skip
def test_parts_shorter_than_16_bytes_begin_at_multiples_of_their_own(dtype: str, cols: int, lines: str) -> None:
    x = (np.arange(3 * cols) % 7).reshape(3, cols).astype(dtype)
    y = np.zeros_like(x)
    text = PARTS.format(lines=lines, dtype={"i1": "s8", "f2": "f16", "f4": "f32"}[dtype])
    launch(compile_kernel(text, {"y": y, "x": x}), {"y": y, "x": x})
    np.testing.assert_array_equal(y, x + x.max(1, keepdims=True))


@pytest.mark.parametrize("cols", [178, 177])
def test_what_follows_one_loop_of_parts_is_copied_ahead_of_that_one(cols: int) -> None:
    """Not ahead of the next one: between the two it is read."""
    text = PARTS.format(lines="loop b, 0: 16\n    stage x: shared", dtype="f32").replace("128", "256")
    text = text.replace("= v + max(v)", "= b").replace("    y[r", "    b = v + max(v)\n    y[r")
    x = (np.arange(3 * cols) % 7).reshape(3, cols).astype("f4")
    y = np.zeros_like(x)
    launch(compile_kernel(text, {"y": y, "x": x}), {"y": y, "x": x})
    np.testing.assert_array_equal(y, x + x.max(1, keepdims=True))


def test_floats_beyond_a_row_become_integers() -> None:
    """The zeros that stand there were floats still, of which no bits can be taken: a TypeError."""
    text = """
kernel k(y: s32[m], x: f32[m, n]; N=64):
    grid m
    i = block(0)
    v = load(x[i : i + 1, 0 : N]).to(s32)
    y[i : i + 1] = max(v ^ v, axis=1)
"""
    y = np.full(3, 9, np.int32)
    dsl.parse(text, device="emulator").k(y, np.ones((3, 33), np.float32))
    assert (y == 0).all()


@pytest.mark.parametrize("dtype", ["f16", "f32"])
@pytest.mark.parametrize("way", ["", "loop v, 1: static 128", "loop v, 1: 128"])
def test_vectors_of_all_rows_are_read_16_bytes_at_a_time(way: str, dtype: str) -> None:
    """A row that begins anywhere reads two aligned blocks, of which the last one may lie beyond the vector's end."""
    lines = f"ROWS = 8\n    align v: 8\n    layout v: vector [1, 8], lanes [2, 16], warps [4, 1]\n    {way}"
    for cols in some((381, 382, 388, 383, 1, 384, 389, 386, 8, 387, 385), 2):
        _, args = run(text_of("weights", f"{lines}\n    specialize cols"), 9, cols, dtype)
        check("weights", args, arguments(9, cols, dtype))
    kernel, args = run(text_of("weights", lines), 9, 389, dtype)
    check("weights", args, arguments(9, 389, dtype))
    blocks = re.findall(r"and\.b64 .*, -16;", kernel.ptx)
    assert len(blocks) >= 4 and len(blocks) % 2 == 0


@pytest.mark.long
@pytest.mark.parametrize("way", ["loop v, 1: static 64", "loop v, 1: 64\n    stage v: shared", "loop v, 1: 64"])
def test_rows_that_are_written_in_place(way: str) -> None:
    text = """
kernel k(x: f32[rows, cols]; C = 256):
    grid rows
    r = block(0)
    v = x[r : r + 1, 0 : C]
    x[r : r + 1, 0 : C] = v + max(v, axis=1, keepdims=true)

schedule s of k:
    warps = 2
    """
    x = np.random.default_rng(1).integers(-5, 6, (3, 251)).astype(np.float32)
    want = x + x.max(axis=1, keepdims=True)
    if way == "loop v, 1: 64":  # reads each row twice
        with pytest.raises(TileError) as error:
            compile_kernel(f"{text}{way}\n", {"x": x})
        assert "'x' is loaded in line 5 again, after a store to it" in error.value.message
        assert error.value.loc is not None and error.value.loc.line == 10
    else:
        launch(compile_kernel(f"{text}{way}\n", {"x": x}), {"x": x})
        np.testing.assert_array_equal(x, want)
