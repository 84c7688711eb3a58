"""Shapes and layouts: broadcasting, new axes, reshape, transpose, stack, under many layouts, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from tests.compile_and_run import NUMPY, compile_kernel, launch, run

RANDOM = np.random.default_rng(3)
X = RANDOM.standard_normal((16, 32)).astype(np.float32)

# The lines of a kernel that makes `out` from x[16, 32], and the same in numpy.
PROGRAMS = {
    "row and column": (
        "r = arange(16) * 3\n    c = arange(32)\n    out = (r[:, None] * 100 + c[None, :]).to(f32) + v",
        lambda x: np.arange(16)[:, None] * 300 + np.arange(32)[None, :] + x,
    ),
    "broadcast of a reduced row": ("out = v - max(v, axis=1, keepdims=true)", lambda x: x - x.max(1, keepdims=True)),
    "broadcast of a reduced column": ("out = v - max(v, axis=0)", lambda x: x - x.max(0)),
    "new axes around a reduction": ("m = max(v, axis=1)\n    out = v - m[:, None]", lambda x: x - x.max(1)[:, None]),
    "transpose": ("out = v.T", lambda x: x.T),
    "transpose twice": ("out = (v.T + 1.0).T", lambda x: x + 1),
    "sum of a tile and a transpose": (
        "w = reshape(v, (32, 16))\n    out = v + w.T",
        lambda x: x + x.reshape(32, 16).T,
    ),
    "reshape to a line": ("out = reshape(v, 512)", lambda x: x.reshape(512)),
    "reshape to three axes": ("out = reshape(v, (4, 8, 16))", lambda x: x.reshape(4, 8, 16)),
    "axes of three turned": (
        "out = transpose(reshape(v, (4, 8, 16)), (2, 0, 1))",
        lambda x: x.reshape(4, 8, 16).transpose(2, 0, 1),
    ),
    "axes reversed": ("out = transpose(reshape(v, (2, 4, 64)))", lambda x: x.reshape(2, 4, 64).T),
    "stack": ("out = stack(v, v * 2.0, -v, v + 1.0)", lambda x: np.stack([x, x * 2, -x, x + 1], -1)),
    "stack and flatten": ("out = reshape(stack(v, -v), (16, 64))", lambda x: np.stack([x, -x], -1).reshape(16, 64)),
    "stack of lines": (
        "m = sum(v, axis=1)\n    out = stack(m, m * 2.0)",
        lambda x: np.stack([x.sum(1), 2 * x.sum(1)], -1),
    ),
    "middle axis": (
        "t = reshape(v, (4, 8, 16))\n    out = t - max(t, axis=1, keepdims=true)",
        lambda x: x.reshape(4, 8, 16) - x.reshape(4, 8, 16).max(1, keepdims=True),
    ),
    "a tile of one element": ("out = full(f32[1, 1], 2.0) * max(v)", lambda x: np.full((1, 1), 2 * x.max())),
    "scalar to tile": ("out = full(f32[8, 4], sum(v))", lambda x: np.full((8, 4), x.astype(np.float64).sum())),
    "where": ("out = where(arange(32)[None, :] < 5, v, 0.0)", lambda x: np.where(np.arange(32) < 5, x, 0)),
}  # fmt: skip
LAYOUTS = {
    "chosen": "",
    "rows": "layout v: vector [1, 4], lanes [4, 8], warps [W, 1]",
    "columns": "layout v: vector [1, 1], lanes [1, 32], warps [1, W]",
    "down": "layout v: vector [4, 1], lanes [4, 8], warps [1, W]",
    "both": "layout v: vector [2, 2], lanes [8, 4], warps [W, 1]",
    "small": "layout v: vector [1, 1], lanes [32, 1], warps [W, 1]",
    "out down": "layout out: vector [2, 1], lanes [4, 8], warps [1, W]",
    "out rows": "layout out: vector [1, 1], lanes [1, 32], warps [W, 1]",
}


def text_of(lines: str, shape: tuple[int, ...], layout: str, warps: int) -> str:
    dims = ", ".join(f"0 : {e}" for e in shape)
    rule = f"    W = {warps}\n" if "W" in layout else ""
    rule += f"    {layout}\n" if layout else ""
    return f"""
kernel k(y: f32[{", ".join(map(str, shape))}], x: f32[rows, cols]):
    grid 1
    v = load(x[0 : 16, 0 : 32])
    {lines}
    store(y[{dims}], out)
schedule s of k:
    warps = {warps}
{rule}"""


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_program_under_layouts(program: str, layout: str) -> None:
    lines, meaning = PROGRAMS[program]
    want = meaning(X)
    line = LAYOUTS[layout]
    if line.startswith("layout out") and want.ndim != 2:
        pytest.skip("the layout is for two axes")
    for warps in (1, 4):
        if "vector [2, 1]" in line and want.shape[0] < 2:
            continue
        y = np.zeros(want.shape, np.float32)
        run(text_of(lines, want.shape, line, warps), {"y": y, "x": X})
        np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("size", [1, 2, 16, 64, 512, 4096])
def test_tiles_of_every_size_on_every_number_of_warps(warps: int, size: int) -> None:
    x = RANDOM.standard_normal(size).astype(np.float32)
    y, total = np.zeros(2 * size, np.float32), np.zeros(1, np.float32)
    text = """
kernel k(y: f32[2 * N], t: f32[1], x: f32[n]; N):
    grid 1
    v = load(x[0 : N])
    store(y[0 : N], v + 1.0)
    r = N + (N - 1) - arange(N)
    store(y[r], v)
    store(t[0], max(v))
schedule s of k:
    N = n
"""
    run(text, {"y": y, "t": total, "x": x}, constants={"warps": warps, "N": size})
    assert (y == np.concatenate([x + 1, x[::-1]])).all() and total[0] == x.max()


@pytest.mark.parametrize(
    "bases",
    [
        "register [[0, 1], [0, 8]], lane [[0, 2], [0, 4], [1, 2], [2, 4], [4, 0]], warp [[8, 8], [0, 16]]",
        "register [[8, 0], [4, 0], [1, 1]], lane [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp [[2, 3], [0, 0]]",
        "register [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], "
        "lane [[1, 0], [2, 0], [4, 0], [8, 0], [0, 0]], warp [[0, 0], [0, 0]]",
        # one element by several bits that are not 0: held twice, and taken once by the sum
        "register [[0, 1], [0, 2], [0, 4]], lane [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]], warp [[8, 0], [8, 0]]",
        "register [[0, 1], [0, 2], [0, 4]], lane [[0, 8], [0, 16], [1, 0], [2, 0], [4, 0]], warp [[8, 0], [0, 16]]",
    ],
)
@pytest.mark.parametrize(
    "program",
    [
        "transpose",
        "reshape to a line",
        "broadcast of a reduced row",
        "broadcast of a reduced column",
        "stack",
        "scalar to tile",
    ],
)
def test_raw_bases(bases: str, program: str) -> None:
    lines, meaning = PROGRAMS[program]
    want = meaning(X)
    y = np.zeros(want.shape, np.float32)
    run(text_of(lines, want.shape, f"layout v: {bases}", 4), {"y": y, "x": X})
    np.testing.assert_allclose(y, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["i1", "u8", "f16", "f32", "s64"])
def test_a_change_of_layout_keeps_every_type(dtype: str) -> None:
    x = RANDOM.integers(0, 2 if dtype == "i1" else 100, (16, 32)).astype(NUMPY[dtype])
    y = np.zeros_like(x)
    text = f"""
kernel k(y: {dtype}[16, 32], x: {dtype}[16, 32]):
    grid 1
    v = load(x[0 : 16, 0 : 32])
    w = where(v == v, v, reshape(zeros({dtype}[512]), (16, 32)))
    store(y[0 : 16, 0 : 32], w)
schedule s of k:
    layout v: vector [1, 2], lanes [2, 16], warps [4, 1]
    layout w: vector [4, 1], lanes [4, 8], warps [1, 4]
"""
    run(text, {"y": y, "x": x})
    assert (y == x).all()


def test_a_change_of_layout_within_threads_needs_no_shared_memory() -> None:
    text = """
kernel k(y: f32[8, 128], x: f32[8, 128]):
    grid 1
    v = load(x[0 : 8, 0 : 128])
    w = v + 1.0
    store(y[0 : 8, 0 : 128], w)
schedule s of k:
    layout v: register [[0, 1], [1, 0], [2, 0]], lane [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp [[0, 64], [4, 0]]
    layout w: register [[2, 0], [0, 1], [1, 0]], lane [[0, 2], [0, 4], [0, 8], [0, 16], [0, 32]], warp [[0, 64], [4, 0]]
"""
    x = RANDOM.standard_normal((8, 128)).astype(np.float32)
    y = np.zeros_like(x)
    kernel = compile_kernel(text, {"x": x, "y": y})
    launch(kernel, {"x": x, "y": y})
    assert (y == x + 1).all()
    assert kernel.variant.function.attrs["shared_bytes"] == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("layout v: vector [1, 3], lanes [1, 32], warps [4, 1]", "power of two"),
        ("layout v: vector [1], lanes [32], warps [4]", "rank 2"),
        ("layout v: vector [1, 1], lanes [1, 16], warps [4, 1]", "multiply to 16"),
        ("layout v: vector [1, 64], lanes [1, 32], warps [4, 1]", "vector of 64"),
        ("layout nothing: vector [1, 1], lanes [1, 32], warps [4, 1]", "no value 'nothing'"),
        ("layout v: register [[0, 1]], lane [[0, 2]], warp [[1, 0], [2, 0]]", "5 bits"),
        (
            "layout v: register [[0, 1]], lane [[0, 2], [0, 4], [0, 8], [0, 16], [1, 0]], warp [[2, 0], [4, 0]]",
            "lies nowhere",
        ),
    ],
)  # fmt: skip
def test_a_layout_that_does_not_fit_is_a_located_error(line: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        compile_kernel(text_of("out = v", (16, 32), line, 4), {"x": X})
    assert message in str(caught.value) and caught.value.loc is not None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("out = reshape(v, (16, 64))", "512 elements"),
        ("out = reshape(v, (3, 32))", "power of two"),
        ("out = transpose(v, (0, 0))", "no order of the axes"),
        ("out = v + zeros(f32[8, 32])", "do not go together"),
        ("out = stack(v, v, v)", "power of two"),
        ("out = v + arange(32)", "types f32 and index"),
        ("out = v[0, 1]", "this is one element"),
    ],
)
def test_shapes_that_do_not_fit_are_located_errors(lines: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        compile_kernel(text_of(lines, (16, 32), "", 4), {"x": X})
    assert message in str(caught.value) and caught.value.loc is not None
