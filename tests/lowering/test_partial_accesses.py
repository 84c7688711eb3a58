"""Wide accesses under masks that are on for a part of a vector: rows that start anywhere, tails, edges of tiles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compile_and_run import NUMPY, Kernel, compile_kernel, launch, run
from tests.whole import draws

RANDOM = np.random.default_rng(11)
VECTOR = {"u8": 16, "f16": 8, "f32": 4, "f64": 2}  # elements of 16 bytes


def numbers(*shape: int, dtype: str) -> np.ndarray:
    return RANDOM.integers(0, 100, shape).astype(NUMPY[dtype])


def widest(dtype: str) -> str:
    """An access of 16 bytes: each part of a vector holds whole elements."""
    return "v2.b64" if dtype == "f64" else "v4.b32"


def names(kernel: Kernel, stem: str) -> set[str]:
    """The instructions of the PTX that start so; of `cp.async`, with their size."""
    found = re.findall(rf"\b({re.escape(stem)}[\w.:]*) [^;]*?(?:, (\d+))?(?:, %r\d+)?;", kernel.ptx)
    return {f"{name}.{size}" if stem.startswith("cp") else name for name, size in found}


# ---- rows that start anywhere ----

PEELED = """
kernel k(y: {T}[rows, cols], x: {T}[rows, cols]; ROWS, COLS, V):
    grid cdiv(rows, ROWS)
    r = block(0) * ROWS + arange(ROWS)[:, None]
    start = r * cols
    c = arange(COLS)[None, :] - start % V
    own = (r < rows) & (c >= 0) & (c < cols)
    i = start // V * V + arange(COLS)[None, :]
    v = load(flat(x)[i], mask=own, other=7)
    total = sum(v.to(f32), axis=1, keepdims=true)
    store(flat(y)[i], where(total > 0.0, v + v, v), mask=own)
"""


@pytest.mark.parametrize("dtype", VECTOR)
@pytest.mark.parametrize(("rows", "warps"), [(1, 1), (2, 4), (8, 2)])
def test_rows_that_start_anywhere(dtype: str, rows: int, warps: int) -> None:
    """Every length up to 40, the array ends with the last row: nothing outside of it is touched, inside all is."""
    vector = VECTOR[dtype]
    constants = {"ROWS": rows, "COLS": 32 * vector * warps, "V": vector, "warps": warps}
    text = PEELED.format(T=dtype)
    kernel = compile_kernel(text, {"x": numbers(5, 1, dtype=dtype)}, constants=constants)
    assert any(name.endswith(widest(dtype)) for name in names(kernel, "ld.global"))
    assert any(name.endswith(widest(dtype)) for name in names(kernel, "st.global"))
    for cols in (*range(1, 41), constants["COLS"] - vector - 1):
        x = numbers(5, cols, dtype=dtype)
        y = np.zeros_like(x)
        launch(kernel, {"x": x, "y": y})
        assert (y == x + x).all(), cols


def test_rows_that_start_at_multiples_are_as_if_nobody_had_asked() -> None:
    """The same PTX as without the distance to the multiple before."""
    plain = PEELED.replace(" - start % V", "").replace("start // V * V", "start").replace("(c >= 0) & ", "")
    constants, dims = {"ROWS": 2, "COLS": 256, "V": 8}, {"rows": 5, "cols": 248}
    kernels = [compile_kernel(t.format(T="f16"), dims=dims, constants=constants) for t in (PEELED, plain)]
    assert "% V" in PEELED and "V * V" in PEELED and "V * V" not in plain and "% V" not in plain
    lines = [[line for line in k.ptx.splitlines() if not re.match(r"\s*(\.loc|\$L__tmp|//)", line)] for k in kernels]
    assert lines[0] == lines[1]
    assert not any(name.endswith(".b16") for name in names(kernels[0], "ld.global"))


def test_a_tail_of_a_vector_is_no_reason_for_narrow_accesses() -> None:
    text = """
kernel k(z: f16[n], y: f16[n], x: f16[n]; N):
    grid cdiv(n, N)
    i = block(0) * N
    store(z[i : i + N], load(x[i : i + N]) + load(y[i : i + N]))
"""
    kernel = compile_kernel(text, {"x": numbers(1, dtype="f16")}, constants={"N": 2048})
    assert "ld.global.v4.b32" in names(kernel, "ld.global") and "st.global.v4.b32" in names(kernel, "st.global")
    for n in (*range(1, 18), 2047, 2048, 2049, 4095, 4103):
        x, y = numbers(n, dtype="f16"), numbers(n, dtype="f16")
        z = np.zeros_like(x)
        launch(kernel, {"x": x, "y": y, "z": z})
        assert (z == x + y).all(), n


# ---- any mask, any layout ----

MASKS = [
    "c < b", "c <= b", "c > a", "a <= c", "(c >= a) & (c < b)", "(c < b) & (r < m)", "(a < c) & (c < b) & (r >= m)",
    "(c - a >= 0) & (c - a < b)", "(c - a >= 0) & (c + a < b)", "(c < b) & (r + c < m)", "(c < a) & (c < b)",
    "c % (2 * V) < (c // (2 * V) * 3 + b) % (3 * V)",
]  # fmt: skip
"""Those that are convex along the columns."""
OTHERS = ["(c < a) | (c >= b)", "c % 3 != 1", "(c // 2 < b) & (r < m)", "(c < b) != (c < a)", "c == a"]
LAYOUTS = [
    "",
    "    layout v: vector [1, V], lanes [1, 32], warps [1, 2]",
    "    layout v: vector [1, V], lanes [8, 4], warps [2, 1]",
    "    layout v: vector [2, V], lanes [4, 8], warps [1, 2]",
    "    layout v: vector [1, 2], lanes [2, 16], warps [2, 1]",
    "    layout v: vector [4, 1], lanes [1, 32], warps [1, 2]",
    "    layout v: vector [1, V], lanes [16, 2], warps [2, 1]",
]


@st.composite
def programs(draw: st.DrawFn, masks: list[str]) -> tuple[str, str, str]:
    """Element type, mask, layout."""
    return draw(st.sampled_from([*VECTOR])), draw(st.sampled_from(masks)), draw(st.sampled_from(LAYOUTS))


def reference(mask: str, shape: tuple[int, int], scalars: Mapping[str, int]) -> np.ndarray:
    r, c = np.ogrid[: shape[0], : shape[1]]
    return np.broadcast_to(eval(mask, {"r": r, "c": c, "V": shape[1] // 64, **scalars}), shape)


def scalars_of(data: Any, shape: tuple[int, int]) -> dict[str, int]:
    near = st.integers(-3, shape[1] + 3)
    return {"a": data.draw(near), "b": data.draw(near), "m": data.draw(st.integers(-1, shape[0] + 1))}


@settings(max_examples=draws(60))
@given(program=programs([*MASKS, *OTHERS]), data=st.data())
def test_loads_and_stores_under_any_mask(program: tuple[str, str, str], data: Any) -> None:
    dtype, mask, layout = program
    vector, shape = VECTOR[dtype], (4, 64 * VECTOR[dtype])
    text = f"""
kernel k(y: {dtype}[n], z: {dtype}[n], x: {dtype}[n], a: s32, b: s32, m: s32; V, C = {shape[1]}):
    grid 1
    shared s: {dtype}[4, C]
    r, c = arange(4)[:, None], arange(C)[None, :]
    on = {mask}
    v = load(x[r * C + c], mask=on, other=101)
    store(y[r * C + c], v)
    s[0 : 4, 0 : C] = v + v
    store(s[r, c], v, mask=on)
    store(z[r * C + c], load(s[r, c], mask=on, other=3), mask=on)
schedule t of k:
    V = {vector}
    warps = 2
{layout}
"""
    x = numbers(4 * shape[1], dtype=dtype)
    kernel = compile_kernel(text, {"x": x})
    if mask in MASKS and layout in LAYOUTS[:4]:
        for verb in ("ld.global", "st.global", "ld.shared", "st.shared"):
            assert any(name.endswith(widest(dtype)) for name in names(kernel, verb)), verb
    for _ in range(4):
        scalars = scalars_of(data, shape)
        on = reference(mask, shape, scalars)
        y, z = np.zeros_like(x), np.full_like(x, 9)
        launch(kernel, {"x": x, "y": y, "z": z, **scalars})
        v = x.reshape(shape)
        assert (y.reshape(shape) == np.where(on, v, 101)).all(), (mask, scalars)
        assert (z.reshape(shape) == np.where(on, v, 9)).all(), (mask, scalars)


def test_masks_that_are_convex_in_groups_only() -> None:
    """The ends of a thread's elements tell nothing of the groups in between."""
    mask = "i % 16 < (i // 16 * 5 + b) % 24"
    text = f"""
kernel k(y: f16[n], x: f16[n], b: s32):
    grid 1
    i = arange(1024)
    v = load(x[i], mask={mask}, other=-1.0)
    store(y[i], v)
schedule t of k:
    warps = 1
    layout v: vector [8], lanes [32], warps [1]
"""
    x, y = numbers(1024, dtype="f16"), np.zeros(1024, np.float16)
    kernel = compile_kernel(text, {"x": x})
    assert "ld.global.v4.b32" in names(kernel, "ld.global")
    for b in range(24):
        launch(kernel, {"x": x, "y": y, "b": b})
        assert (y == np.where(eval(mask, {"i": np.arange(1024), "b": b}), x, -1)).all(), b


def test_masks_that_go_on_and_off_again_keep_narrow_accesses() -> None:
    text = """
kernel k(y: f32[n], x: f32[n], a: s32, b: s32):
    grid 1
    i = arange(1024)
    store(y[i], load(x[i], mask=(i < a) | (i > b)), mask=(i < a) | (i > b))
"""
    kernel = compile_kernel(text, {"x": numbers(1024, dtype="f32")})
    assert names(kernel, "ld.global") == {"ld.global.b32"} and names(kernel, "st.global") == {"st.global.b32"}


def test_masks_by_loaded_bounds() -> None:
    """A length for each row: what the elements' masks are computed from is no scalar."""
    text = """
kernel k(y: f16[n], x: f16[n], length: s32[8]):
    grid 1
    r, c = arange(8)[:, None], arange(256)[None, :]
    on = c < load(length[0 : 8]).to(s32)[:, None]
    store(y[r * 256 + c], load(x[r * 256 + c], mask=on, other=-1.0), mask=on)
"""
    x, length = numbers(8 * 256, dtype="f16"), np.array([0, 1, 7, 8, 255, 256, 300, -5], np.int32)
    y = np.zeros_like(x)
    kernel = compile_kernel(text, {"x": x, "length": length})
    launch(kernel, {"x": x, "y": y, "length": length})
    on = np.arange(256)[None, :] < length[:, None]
    assert (y.reshape(8, 256) == np.where(on, x.reshape(8, 256), 0)).all()
    assert "ld.global.v4.b32" in names(kernel, "ld.global")


def test_replicated_tiles_are_stored_once() -> None:
    """More threads than vectors: one thread of those that hold a vector stores it, whole or in parts."""
    text = """
kernel k(y: f32[n], x: f32[n], b: s32):
    grid 1
    i = arange(64)
    v = load(x[i], mask=i < b)
    store(y[i], v, mask=i < b)
schedule t of k:
    warps = 4
    layout v: vector [4], lanes [32], warps [4]
"""
    x = numbers(64, dtype="f32")
    kernel = compile_kernel(text, {"x": x})
    for b, sectors in ((0, 0), (1, 1), (30, 4 + 2), (64, 8)):  # 30: seven vectors, two elements
        y = np.zeros_like(x)
        result = launch(kernel, {"x": x, "y": y, "b": b})
        assert (y == np.where(np.arange(64) < b, x, 0)).all()
        assert result.counters.totals.global_store_sectors == sectors


def test_registers_out_of_order() -> None:
    """The elements of a thread's registers go forth and back along the tile."""
    text = """
kernel k(y: f16[n], x: f16[n], b: s32):
    grid 1
    i = arange(1024)
    v = load(x[i], mask=i < b, other=-1.0)
    store(y[i], v)
schedule t of k:
    warps = 1
    layout v: register [[1], [2], [4], [512], [256]], lane [[8], [16], [32], [64], [128]], warp []
"""
    x, y = numbers(1024, dtype="f16"), np.zeros(1024, np.float16)
    kernel = compile_kernel(text, {"x": x})
    assert "ld.global.v4.b32" in names(kernel, "ld.global")
    for b in (*range(0, 1025, 61), 256, 512, 768, 1024):
        launch(kernel, {"x": x, "y": y, "b": b})
        assert (y == np.where(np.arange(1024) < b, x, -1)).all(), b


def test_other_may_be_a_tile() -> None:
    text = """
kernel k(y: f16[n], x: f16[n], b: s32):
    grid 1
    i = arange(512)
    store(y[i], load(x[i], mask=i < b, other=i.to(f16)))
"""
    x, y = numbers(512, dtype="f16"), np.zeros(512, np.float16)
    for b in (0, 3, 8, 250, 511, 512):
        run(text, {"x": x, "y": y, "b": b})
        assert (y == np.where(np.arange(512) < b, x, np.arange(512))).all()


def test_a_masked_access_in_a_loop_and_in_a_branch() -> None:
    text = """
kernel k(y: f16[n], x: f16[n], b: s32):
    grid 1
    for i in range(0, n, 512):
        c = i + arange(512)
        if i < b:
            v = load(x[c], mask=c < b, other=1.0)
        else:
            v = load(x[c], mask=(c < n) & (c > b), other=2.0)
        store(y[c], v, mask=c < n)
schedule t of k:
    unroll i: 2
"""
    x, y = numbers(2003, dtype="f16"), np.zeros(2003, np.float16)
    c = np.arange(2003)
    kernel = compile_kernel(text, {"x": x})
    for b in (0, 700, 1024, 2003):
        launch(kernel, {"x": x, "y": y, "b": b})
        first = np.where(c < b, x, 1)
        assert (y == np.where(c // 512 * 512 < b, first, np.where(c > b, x, 2))).all(), b


# ---- asynchronous copies ----

COPY = """
kernel k(y: {T}[n], x: {T}[m], b: s32; C, ROWS = 4):
    grid 1
    shared s: {T}[ROWS, C]
    r, c = arange(ROWS)[:, None], arange(C)[None, :]
    copy(s, x[r * C + c], mask={mask})
    commit()
    wait(0)
    store(y[r * C + c], s[0 : ROWS, 0 : C])
schedule t of k:
    require async
"""


@pytest.mark.parametrize("dtype", VECTOR)
@pytest.mark.parametrize("mask", ["c < b", "(b > c) & (r < 3)"])
def test_copies_of_a_prefix(dtype: str, mask: str) -> None:
    """16 bytes at a time; what the mask leaves out is not read (the source ends there) and becomes zeros."""
    extent = 16 * VECTOR[dtype]
    kernel = compile_kernel(COPY.format(T=dtype, mask=mask), {"x": numbers(1, dtype=dtype)}, constants={"C": extent})
    assert names(kernel, "cp.async") >= {"cp.async.cg.shared.global.16"}
    for b in (*range(0, 2 * VECTOR[dtype] + 2), extent - 1, extent):
        rows = 3 if "r" in mask else 4
        x = numbers(max((rows - 1) * extent + b, 1), dtype=dtype)
        y = np.ones(4 * extent, NUMPY[dtype])
        launch(kernel, {"x": x, "y": y, "b": b})
        padded = np.zeros(4 * extent, x.dtype)
        padded[: len(x)] = x
        on = (np.arange(extent)[None, :] < b) & (np.arange(4)[:, None] < rows)
        assert (y.reshape(4, extent) == np.where(on, padded.reshape(4, extent), 0)).all(), b


def test_copies_under_masks_that_are_no_prefix_stay_as_narrow_as_the_mask() -> None:
    text = COPY.format(T="f32", mask="(c >= b) & (c < 60)").replace("schedule t of k:\n    require async\n", "")
    kernel = compile_kernel(text, {"x": numbers(1, dtype="f32")}, constants={"C": 64})
    assert names(kernel, "cp.async.ca") == {"cp.async.ca.shared.global.4"}
    x, y = numbers(256, dtype="f32"), np.ones(256, np.float32)
    launch(kernel, {"x": x, "y": y, "b": 5})
    c = np.arange(64)[None, :]
    assert (y.reshape(4, 64) == np.where((c >= 5) & (c < 60), x.reshape(4, 64), 0)).all()
