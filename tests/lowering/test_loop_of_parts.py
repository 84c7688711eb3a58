"""`loop`: a wide tile, and all that is computed with it along an axis, in parts."""

from __future__ import annotations

from textwrap import indent

import numpy as np
import pytest

from dsl.kernels.variant import Request, build_variant
from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import left_out, run_passes
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import NUMPY, Kernel, compile_kernel, launch, run, through

SOFTMAX = """
kernel k(y: {type}[rows, cols], x: {type}[rows, cols]; ROWS = 1, COLS = 512):
    grid cdiv(rows, ROWS)
    r = block(0) * ROWS
    v = load(x[r : r + ROWS, 0 : COLS], other=-inf).to(f32)
    d = v - max(v, axis=1, keepdims=true)
    z = sum(exp(d), axis=1, keepdims=true)
    y[r : r + ROWS, 0 : COLS] = (exp(d) / z).to({type})

schedule s of k:
    warps = 2
    {lines}
"""
WAYS = {
    "static": "loop v, 1: static 128",
    "loop": "loop v, 1: 128",
    "again": "loop v, 1: 64\n    choose recompute.v: anew",
    "kept": "loop v, 1: 128\n    stage v: shared",
    "both": "loop v, 1: 128\n    stage v, d: shared",
}


def softmax(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def given(type: str, rows: int, cols: int) -> dict[str, np.ndarray]:
    x = (np.random.default_rng(cols).standard_normal((rows, cols)) * 3).astype(NUMPY[type])
    return {"x": x, "y": np.zeros_like(x)}


def widest(kernel: Kernel) -> int:
    """The greatest extent of a tile along its last axis."""
    return max(r.shape[-1] for op in kernel.ops for r in op.results if getattr(r.type, "layout", None) and r.shape)


def rounds(kernel: Kernel) -> int:
    return kernel.count("for")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("type", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("cols", [512, 511, 393, 130, 1])
def test_softmax_in_parts(way: str, type: str, cols: int) -> None:
    args = given(type, 3, cols)
    kernel = compile_kernel(SOFTMAX.format(lines=WAYS[way], type=type), args)
    assert widest(kernel) <= 128
    copied = way in ("kept", "both") and kernel.count("copy")
    assert rounds(kernel) == (0 if way == "static" else 4 if copied else 3)
    launch(kernel, args)
    error = np.abs(args["y"].astype(np.float64) - softmax(args["x"])).max()
    assert error < {"f16": 1e-3, "bf16": 8e-3, "f32": 1e-6}[type]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", [4, 5])
def test_several_rows_of_a_block(way: str, rows: int) -> None:
    args = given("f32", rows, 300)
    kernel = compile_kernel(SOFTMAX.format(lines=WAYS[way] + "\n    ROWS = 4", type="f32"), args)
    launch(kernel, args)
    assert np.abs(args["y"] - softmax(args["x"])).max() < 1e-6


@pytest.mark.parametrize("way", WAYS)
def test_each_stage_means_the_same(way: str) -> None:
    program = parse_program(SOFTMAX.format(lines=WAYS[way], type="f16"))
    found = verify_kernel(program, Request("k", "s", {"rows": 2, "cols": 409}), given("f16", 2, 409))
    assert found.divergence is None and found.undecided is None


def test_a_later_value_of_the_name_that_nothing_uses() -> None:
    """It is not computed in parts, and the line is about the value that is. The directive ended with a KeyError."""
    text = SOFTMAX.format(type="f32", lines=WAYS["kept"])
    last = "    y[r : r + ROWS"
    text = text.replace(last, f"    v = load(x[r : r + ROWS, 0 : COLS]).to(f32) + 1.0\n{last}")
    args = given("f32", 2, 500)
    launch(compile_kernel(text, args), args)
    assert np.abs(args["y"] - softmax(args["x"])).max() < 1e-6


def test_sums_whose_parts_cancel_are_near() -> None:
    """What a part of a sum is rounded to goes by the numbers that it is made of, not by what is left."""
    text = "kernel k(y: f32[1], x: f32[n]; N = 1024):\n    grid 1\n    v = x[0 : N]\n    y[0] = sum(v)\n"
    half = np.random.default_rng(0).standard_normal(512).astype(np.float32)
    given = {"x": np.concatenate([half * 3, half, -half, -half * 3]) * 1e4, "y": np.zeros(1, np.float32)}
    given["x"] = given["x"].reshape(4, 512)[:, :256].reshape(-1).astype(np.float32)
    program = parse_program(text + "\nschedule s of k:\n    loop v, 0: 256\n")
    found = verify_kernel(program, Request("k", "s", {"n": 1024}), given)
    assert found.divergence is None, str(found.divergence)


def test_registers_hold_what_static_parts_need_again() -> None:
    """Each element is loaded once; in a loop of the run, once in each phase, four parts an iteration."""
    counts = {}
    for way, line in WAYS.items():
        kernel = compile_kernel(SOFTMAX.format(lines=line, type="f16"), given("f16", 1, 512))
        counts[way] = sum(op.name == "load" and op.operands[0].name == "x" for op in kernel.ops), kernel.count("copy")
    assert counts == {"static": (4, 0), "loop": (12, 0), "again": (12, 0), "kept": (0, 1), "both": (0, 1)}


def test_parts_have_the_pins_of_the_whole() -> None:
    lines = "loop v, 1: static 128\n    layout v: vector [1, 2], lanes [1, 32], warps [1, 2]"
    kernel = compile_kernel(SOFTMAX.format(lines=lines, type="f16"), given("f16", 1, 512))
    parts = [r for op in kernel.ops for r in op.results if r.name == "v"]
    assert [r.shape for r in parts] == [(1, 128)] * 4
    assert all(r.tile.layout.register == (1,) and r.tile.layout.lane[0] == 2 for r in parts)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cols", [384, 300, 257])
def test_three_parts(way: str, cols: int) -> None:
    """The extent need not be a power of two: no tile has it."""
    args = given("f16", 3, cols)
    text = SOFTMAX.format(lines=WAYS[way] + "\n    COLS = 384", type="f16")
    kernel = compile_kernel(text, args)
    launch(kernel, args)
    assert np.abs(args["y"] - softmax(args["x"])).max() < 1e-3
    found = verify_kernel(parse_program(text), Request("k", "s", {"rows": 3, "cols": cols}), dict(args))
    assert found.divergence is None
    assert kernel.variant.function.choices.keyed()["loop.v"].options[0] != "whole"


def test_a_tile_that_is_no_wider_stays_as_it_is() -> None:
    text = SOFTMAX.format(lines="loop v, 1: 512", type="f16")
    assert rounds(compile_kernel(text, given("f16", 1, 512))) == 0


@pytest.mark.parametrize("way", ["whole", "128", "static 128"])
def test_the_choice_takes_other_ways(way: str) -> None:
    args = given("f16", 2, 401)
    text = SOFTMAX.format(lines="loop v, 1: 128", type="f16")
    kernel = compile_kernel(text, args, choices={"loop.v": way})
    assert (widest(kernel), rounds(kernel)) == {"whole": (512, 0), "128": (128, 3), "static 128": (128, 0)}[way]
    launch(kernel, args)
    assert np.abs(args["y"] - softmax(args["x"])).max() < 1e-3


# ---- other kernels ----

KERNELS = {
    # Operands from other tensors, with rows of their own, and without: rms norm.
    "norm": """
kernel k(y: f32[rows, cols], x: f32[rows, cols], w: f32[cols]; COLS = 256):
    grid rows
    r = block(0)
    v = x[r, 0 : COLS]
    scale = rsqrt(sum(v * v) / cols.to(f32) + 1e-5)
    y[r, 0 : COLS] = v * scale * w[0 : COLS]
""",
    # Three loops, of which the first one's result decides what the second one adds up: layer norm.
    "deviations": """
kernel k(y: f32[rows, cols], x: f32[rows, cols], w: f32[cols]; COLS = 256):
    grid rows
    r = block(0)
    v = x[r, 0 : COLS]
    m = sum(v) / cols.to(f32)
    d = where(arange(COLS) < cols, v - m, 0.0)
    y[r, 0 : COLS] = d * rsqrt(sum(d * d) / cols.to(f32)) + w[0 : COLS]
""",
    # Two values of which neither is made of the other, and one reduction of both.
    "backward": """
kernel k(y: f32[rows, cols], x: f32[rows, cols], w: f32[cols]; COLS = 256):
    grid rows
    r = block(0)
    v = x[r, 0 : COLS]
    u = w[0 : COLS]
    s = sum(v * u)
    q = sum(u)
    y[r, 0 : COLS] = (v - s) * u + q
""",
    # A reduction of pairs, whose join has no neutral element; its result is stored between the loops.
    "argmax": """
kernel k(y: f32[rows, cols], x: f32[rows, cols], w: f32[cols]; COLS = 256):
    grid rows
    r = block(0)
    def larger(a, i, b, j):
        first = (a > b) | ((a == b) & (i < j))
        return where(first, a, b), where(first, i, j)
    v = load(x[r, 0 : COLS], other=-inf)
    top, at = reduce(larger, (v, arange(COLS)), axis=0)
    y[r, 0 : COLS] = v - top
    y[r, 0] = at.to(f32)
""",
    # In a loop over rows.
    "rows": """
kernel k(y: f32[rows, cols], x: f32[rows, cols], w: f32[cols]; COLS = 256):
    grid 1
    for r in range(rows):
        v = load(x[r, 0 : COLS], other=0.0)
        y[r, 0 : COLS] = v - sum(v) * w[0 : COLS]
""",
    # Along the first axis, transposed, reduced along the other one.
    "columns": """
kernel k(y: f32[rows, cols], x: f32[rows, cols], w: f32[cols]; COLS = 256, ROWS = 4):
    grid 1
    v = load(x[0 : ROWS, 0 : COLS], other=0.0).T
    top = max(v, axis=1)
    y[0 : ROWS, 0 : COLS] = (v / (sum(abs(v), axis=0, keepdims=true) + 1.0) + top[:, None]).T
""",
}


def by_numpy(name: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    x, w = x.astype(np.float64), w.astype(np.float64)
    if name == "norm":
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * w
    if name == "deviations":
        return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True) + w
    if name == "backward":
        return (x - (x * w).sum(axis=1, keepdims=True)) * w + w.sum()
    if name == "argmax":
        y = x - x.max(axis=1, keepdims=True)
        y[:, 0] = x.argmax(axis=1)
        return y
    if name == "rows":
        return x - x.sum(axis=1, keepdims=True) * w
    return x / (np.abs(x).sum(axis=1, keepdims=True) + 1.0) + np.maximum(x.max(axis=0), 0.0 if len(x) < 4 else -np.inf)


PARTS = {1, 4, 8, 16, 32, 64}
"""Extents that tiles have then, edges of rows that begin anywhere and what a lane has of a row among them."""


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("part", ["static 64", "64", "32"])
@pytest.mark.parametrize("cols", [256, 203])
def test_kernels_in_parts(name: str, part: str, cols: int) -> None:
    random = np.random.default_rng(cols)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((3, cols), (cols,)))
    args = {"x": x, "w": w, "y": np.zeros_like(x)}
    text = KERNELS[name] + f"\nschedule s of k:\n    loop v, 0: {part}\n"
    request = Request("k", "s", {"rows": 3, "cols": cols})
    variant = build_variant(parse_program(text), request)
    run_passes(variant.function, variant.target, through("simplify"))
    assert {r.shape[0] for op in walk(variant.function.body) for r in op.results if len(r.shape) == 1} <= PARTS
    launch(compile_kernel(text, args), args)
    assert np.abs(args["y"] - by_numpy(name, x, w)).max() < 1e-4
    found = verify_kernel(parse_program(text), request, dict(args))
    assert found.divergence is None


def test_a_result_goes_where_it_was_loaded() -> None:
    """Static parts are loaded once, before all stores."""
    text = SOFTMAX.replace("y[r :", "x[r :").format(lines="loop v, 1: static 128", type="f32")
    args = given("f32", 2, 411)
    wanted = softmax(args["x"])
    launch(compile_kernel(text, args), args)
    assert np.abs(args["x"] - wanted).max() < 1e-6


def test_stores_of_one_place_keep_their_order() -> None:
    """The second one needs no reduction, the first one does."""
    text = """
kernel k(y: f32[cols], x: f32[cols]; COLS = 256):
    grid 1
    v = x[0 : COLS]
    y[0 : COLS] = v - sum(v)
    y[0 : COLS] = v + 1.0

schedule s of k:
    loop v, 0: 64
"""
    x = np.random.default_rng(0).standard_normal(250).astype(np.float32)
    args = {"x": x, "y": np.zeros_like(x)}
    launch(compile_kernel(text, args), args)
    assert np.array_equal(args["y"], x + 1)


def test_what_another_branch_has_is_left_out() -> None:
    text = """
kernel k(y: f32[cols], x: f32[cols]; COLS = 256, LOG = false):
    grid 1
    if LOG:
        v = log(x[0 : COLS])
        y[0 : COLS] = v - sum(v)
    else:
        y[0 : COLS] = x[0 : COLS]

schedule s of k:
    loop v, 0: 64
"""
    args = {"x": np.ones(250, np.float32), "y": np.zeros(250, np.float32)}
    assert rounds(compile_kernel(text, args)) == 0
    assert rounds(compile_kernel(text, args, constants={"LOG": True})) == 2


def test_the_pass_that_makes_parts_is_needed() -> None:
    """Without it tiles of other extents are whole."""
    with pytest.raises(TileError, match="cannot be left out"):
        left_out(["loop"])


# ---- values in shared memory ----


def shared(kernel: Kernel) -> dict[str, tuple[tuple[int, ...], str]]:
    """Name, shape and type of each tile in shared memory that the schedule asked for."""
    types = {op.attrs["name"]: op.attrs["type"] for op in kernel.ops if op.name == "shared_alloc"}
    return {name: (t.shape, t.dtype.name) for name, t in types.items() if name != "scratch"}


def test_a_load_is_kept_as_it_is_loaded() -> None:
    """A conversion of it is made anew; what is computed is kept as it is."""
    made = {}
    for name in "vd":
        text = SOFTMAX.format(lines=f"loop v, 1: 128\n    stage {name}: shared", type="f16")
        made |= shared(compile_kernel(text, given("f16", 1, 512)))
    assert made == {"sv": ((4, 1, 128), "f16"), "sd": ((4, 1, 128), "f32")}


@pytest.mark.parametrize("cols", [512, 424, 401])
def test_rows_that_no_copy_takes_are_stored(cols: int) -> None:
    """Odd rows have no 4 aligned bytes: the first loop loads and stores, the other ones read."""
    lines = WAYS["kept"] + "\n    align v: 1"
    kernel = compile_kernel(SOFTMAX.format(lines=lines, type="f16"), given("f16", 1, cols))
    loads = sum(op.name == "load" and op.operands[0].name == "x" for op in kernel.ops)
    assert (kernel.count("copy"), loads) == ((0, 4) if cols % 2 else (1, 0))


def test_what_is_kept_can_be_written_meanwhile() -> None:
    """It is loaded once, before all stores."""
    text = SOFTMAX.replace("y[r :", "x[r :").format(lines=WAYS["kept"], type="f32")
    args = given("f32", 2, 411)
    wanted = softmax(args["x"])
    launch(compile_kernel(text, args), args)
    assert np.abs(args["x"] - wanted).max() < 1e-6


def test_a_place_that_is_kept_too() -> None:
    """What is loaded from where a kept value says waits for that."""
    text = """
kernel k(y: f32[cols], x: f32[cols], i: s32[cols]; COLS = 256):
    grid 1
    at = i[0 : COLS]
    v = x[at]
    y[0 : COLS] = v - max(v)

schedule s of k:
    loop v, 0: 64
    stage at, v: shared
"""
    random = np.random.default_rng(0)
    x = random.standard_normal(256).astype(np.float32)
    args = {"x": x, "i": random.permutation(256).astype(np.int32), "y": np.zeros_like(x)}
    launch(compile_kernel(text, args), args)
    assert np.array_equal(args["y"], x[args["i"]] - x.max())


def test_rows_one_after_another_share_what_keeps_them() -> None:
    text = KERNELS["rows"] + "\nschedule s of k:\n    loop v, 0: 64\n    stage v: shared\n"
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(s).astype(np.float32) for s in ((5, 212), (212,)))
    args = {"x": x, "w": w, "y": np.zeros_like(x)}
    launch(compile_kernel(text, args), args)
    assert np.abs(args["y"] - by_numpy("rows", x, w)).max() < 1e-4


def test_one_part_stays_in_registers() -> None:
    args = given("f16", 2, 100)
    kernel = compile_kernel(SOFTMAX.format(lines="COLS = 128\n    " + WAYS["kept"], type="f16"), args)
    assert rounds(kernel) == 0 and not shared(kernel)


@pytest.mark.parametrize("options", [{"stage.v": "registers"}, {"loop.v": "static 128"}, {"loop.v": "whole"}])
def test_the_choice_keeps_nothing(options: dict[str, str]) -> None:
    args = given("f16", 2, 402)
    kernel = compile_kernel(SOFTMAX.format(lines=WAYS["kept"], type="f16"), args, choices=options)
    assert not shared(kernel)
    launch(kernel, args)
    assert np.abs(args["y"] - softmax(args["x"])).max() < 1e-3


# ---- what does not fit ----

HEAD = "kernel k(y: f32[n], x: f32[n], i: s32[n]; N = 256):\n    grid 1\n"
PLAIN = "v = x[0 : N]\ny[0 : N] = v - max(v)"
WRONG = {
    "no value": ("loop u, 0: 64", PLAIN, "name", "kernel 'k' has no tile 'u'"),
    "no axis": ("loop v, 1: 64", PLAIN, "schedule", "'v' is f32[256], without an axis 1"),
    "a part of 48": ("loop v, 0: 48", PLAIN, "schedule", "a part has a power of two of elements; this is 48"),
    "no axis said": ("loop v: 64", PLAIN, "schedule", "loop VALUE, AXIS: [static] N"),
    "no part": ("loop v, 0", PLAIN, "schedule", "loop VALUE, AXIS: [static] N"),
    "static unroll": ("unroll p: static 2", PLAIN, "schedule", "unroll COUNTER: N"),
    "a scan": ("loop v, 0: 64", "v = x[0 : N]\ny[0 : N] = cumsum(v)", "schedule", "'scan' in line 4 mixes"),
    "a shape": (
        "loop v, 0: 64", "v = x[0 : N]\ny[0 : N] = reshape(reshape(v, [16, N / 16]).T, [N])", "schedule",
        "'reshape' in line 4 mixes the elements along its axis",
    ),
    "a product": (
        "loop v, 1: 16",
        "v = reshape(x[0 : N], [4, N / 4]).to(f16)\nw = dot(v, v.T)\ny[0 : 4] = sum(w, axis=1)",
        "schedule", "mixes the elements along its axis",
    ),
    "two axes": (
        "loop v, 1: 4",
        "v = x[arange(16)[:, None] * 16 + arange(16)[None, :]]\ny[0 : 16] = sum(v + v.T, axis=1)", "schedule",
        "has parts along two of its axes",
    ),
    "a carried value": (
        "loop v, 0: 64",
        "v = zeros(f32[N])\nfor p in range(n):\n    v = v * 2.0 + x[0 : N]\ny[0 : N] = v",
        "schedule", "'v' cannot be done in parts: a loop carries tiles that are computed from it",
    ),
    "what its loop carries": (
        "loop v, 0: 64",
        "s = zeros(f32[N])\nfor p in range(n):\n    v = x[0 : N]\n    s = s + v\ny[0 : N] = s",
        "schedule", "'v' cannot be done in parts: a loop carries tiles that are computed from it",
    ),
    "what leaves its branch": (
        "loop v, 0: 64",
        "s = zeros(f32[N])\nif n > 3:\n    v = x[0 : N]\n    s = s + v\ny[0 : N] = s",
        "schedule", "'s', which is computed from it, leaves the branch or while loop in which it stands",
    ),
    "a loop that reads it": (
        "loop v, 0: 64", "v = x[0 : N]\nfor p in range(n):\n    y[0 : N] = v + p.to(f32)", "schedule",
        "a loop or a branch uses it",
    ),
    "shared memory": (
        "loop v, 0: 64", "shared s: f32[N]\nv = x[0 : N]\ns[0 : N] = v\ny[0 : N] = s[0 : N] - max(v)",
        "schedule", "it is stored in shared memory in line 5",
    ),
    "of shared memory": (
        "loop v, 0: 64", "shared s: f32[N]\ns[0 : N] = x[0 : N]\nv = s[0 : N]\ny[0 : N] = v - max(v)",
        "schedule", "it comes from shared memory in line 5",
    ),
    "volatile": (
        "loop v, 0: 64", "v = load(x[0 : N], cache=volatile)\ny[0 : N] = v - max(v)", "schedule",
        "it comes from volatile memory in line 3",
    ),
    "written between": (
        "loop v, 0: 64", "v = x[0 : N]\nx[0 : N] = v - max(v)", "schedule",
        "'x' is loaded in line 3 again, after a store to it in line 4",
    ),
    "carried by two loops": (
        "loop v, 0: static 64",
        "s = zeros(f32[N])\nfor p in range(n):\n    s = s + x[p : p + N]\nfor p in range(n):\n    v = x[p : p + N]\n"
        "    s = s + v\ny[0 : N] = s",
        "schedule", "'s' comes from a loop or a branch in line 4",
    ),
    "kept in static parts": (
        "loop v, 0: static 64\n    stage v: shared", PLAIN, "schedule",
        "'v' stays in registers: the parts of 'v' are static",
    ),
    "what is kept is too large": (
        "loop v, 0: 64\n    N = 65536\n    stage v: shared", PLAIN, "shared",
        "'v' cannot be staged: it has 262144 bytes, and 232448 of shared memory are left",
    ),
    "three halves": (
        "loop v, 0: 64\n    N = 96", PLAIN, "extent", "the extent of a slice is a power of two; 96 is not",
    ),
    "three parts of another tile": (
        "loop v, 0: 32\n    N = 96", PLAIN + "\nu = i[0 : N]\ni[0 : N] = u + 1", "extent",
        "a tile of [96] is not computed in parts",
    ),
    "an index": (
        "loop v, 0: 64\n    stage u: shared", "u = arange(N) * 3\nv = x[u]\ny[0 : N] = v - max(v)", "name",
        "'u' is no tensor that a loop loads, and no value that is computed in parts",
    ),
    "kept without parts": (
        "stage v: shared", PLAIN, "name", "'v' is no tensor that a loop loads, and no value that is computed in parts",
    ),
    "an atomic": (
        "loop v, 0: 64", "v = x[0 : N]\natomic_add(y[0 : N], v)", "schedule", "in line 4 mixes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_has_no_parts_is_refused(name: str) -> None:
    lines, body, code, message = WRONG[name]
    with pytest.raises(TileError) as caught:
        compile_kernel(f"{HEAD}{indent(body, '    ')}\n\nschedule s of k:\n    {lines}\n", dims={"n": 250})
    error = caught.value
    assert error.code == code and message in error.message and error.loc is not None and error.hint
    place = error.loc.source.line(error.loc.line).strip()
    assert place in map(str.strip, [*lines.split("\n"), *body.split("\n") * (code == "extent")])


IN_PLACE = {
    "at once": (
        "v = x[0 : N]\nx[0 : N] = v * 2.0 + max(v)",
        lambda x, y: (2 * x + x.max(initial=0), y),
    ),
    "before its loop carries it on": (
        "s = zeros(f32[N])\nfor p in range(3):\n    v = x[0 : N]\n    x[0 : 256] = full(f32[256], 5.0)\n    s = s + v\n"
        "y[0 : N] = s",
        lambda x, y: (0 * x + 5, x + 10),
    ),
    "before the loop that begins with it": (
        "s = y[0 : N]\ny[0 : 256] = zeros(f32[256])\nfor p in range(3):\n    v = x[0 : N]\n    s = s + v\nx[0 : N] = s",
        lambda x, y: (y + 3 * x, 0 * y),
    ),
    "by the loop before its use": (
        "s, t = zeros(f32[N]), y[0 : N]\nfor p in range(3):\n    v = x[0 : N]\n    y[p] = 9.0\n    s = s + v\n"
        "x[0 : N] = s + t",
        lambda x, y: (3 * x + y, np.where(np.arange(len(y)) < 3, 9, y)),
    ),
    "behind its loop": (
        "t, s = y[0 : N], zeros(f32[N])\nfor p in range(3):\n    v = x[0 : N]\n    s = s + v\n"
        "y[0 : 256] = full(f32[256], 9.0)\nx[0 : N] = s + t",
        lambda x, y: (3 * x + y, 0 * y + 9),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_static_parts_are_loaded_before_their_memory_is_written(name: str) -> None:
    body, wanted = IN_PLACE[name]
    x, y = np.random.default_rng(1).integers(-5, 6, (2, 180)).astype(np.float32)
    want = wanted(x.copy(), y.copy())
    lines = "N = 192\n    loop v, 0: static 64"
    run(
        f"{HEAD}{indent(body, '    ')}\n\nschedule s of k:\n    {lines}\n",
        {"x": x, "y": y, "i": np.zeros(180, np.int32)},
    )
    np.testing.assert_array_equal((x, y), want)


CARRIED = """
kernel k(y: f32[rows, n], z: f32[n], x: f32[rows, n]; N = 192):
    grid 1
    for block in range(2):
        total, last = x[0, 0 : N] * 2.0, full(f32[N], 7.0)
        for i in range(block, rows, 2):
            v = x[i, 0 : N]
            total, last = total + v * max(v), total
            y[i, 0 : N] = last - sum(v)
        z[0 : N] = z[0 : N] + total + last

schedule s of k:
    warps = 2
    {lines}
"""
IN_PARTS = {
    "whole": "N = 256",
    "64 elements": "loop v, 0: static 64",
    "32": "N = 224\n    loop v, 0: static 32",
    "what it carries": "loop last, 0: static 32\n    loop total, 0: static 64",  # which it begins with, too
}


@pytest.mark.parametrize("way", IN_PARTS)
@pytest.mark.parametrize("rows", [1, 2, 7])
def test_a_loop_carries_parts(way: str, rows: int) -> None:
    # The loop begins with a tile that is computed from a load, and `last` is what another carried tile was before.
    x = np.random.default_rng(rows).integers(-5, 6, (rows, 190)).astype(np.float32)
    y, z = np.zeros_like(x), np.ones(190, np.float32)
    run(CARRIED.format(lines=IN_PARTS[way]), {"y": y, "z": z, "x": x})
    want, sums = np.zeros_like(x), np.ones(190)
    for block in range(2):
        total, last = x[0] * 2.0, np.full(190, 7.0)
        for i in range(block, rows, 2):
            total, last = total + x[i] * x[i].max(initial=0.0), total
            want[i] = last - x[i].sum()
        sums = sums + total + last
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(z, sums)


FEW = """
kernel few(y: f16[rows, cols], x: f16[rows, cols]; ROWS = 2, COLS = 1024):
    grid cdiv(rows, ROWS)
    row, c = block(0) * ROWS + arange(ROWS), arange(COLS)
    own = c < cols
    both = (row < rows)[:, None] & own[None, :]
    v = load(x[row[:, None], c[None, :]], mask=both, other=0.0)
    n = where(own[None, :], v.to(f32), 0.0)
    store(y[row[:, None], c[None, :]], (n + sum(n, axis=1)[:, None]).to(f16), mask=both)

schedule s of few:
    warps = 2
    specialize cols: true
    loop {subject}: static 256
    {line}
"""


@pytest.mark.parametrize("line", ["", "stage n: registers", "layout n: vector [1, 4], lanes [1, 32], warps [2, 1]"])
@pytest.mark.parametrize("subject", ["v, 1", "n, 1"])
@pytest.mark.parametrize("cols", [1, 3, 256, 512, 500, 1000])
def test_a_line_may_name_a_value_that_folds_in_all_parts(cols: int, subject: str, line: str) -> None:
    """Of one column, edges alone have an element: n is 0 in the parts of whole words, so none of them has the name."""
    x = np.random.default_rng(cols).integers(-3, 4, (4, cols)).astype(np.float16)
    args = {"x": x, "y": np.zeros_like(x)}
    run(FEW.format(subject=subject, line=line), args, arch="sm_80")
    assert np.array_equal(args["y"], x + x.sum(axis=1, keepdims=True))
