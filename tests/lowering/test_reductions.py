"""Reductions, scans, shuffles and votes against numpy, under many layouts and numbers of warps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from tests.compile_and_run import NUMPY, compile_kernel, run

RANDOM = np.random.default_rng(11)
NUMBERS = [d for d in NUMPY if d != "i1"]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "argmax": np.argmax, "argmin": np.argmin,
}  # fmt: skip


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Small whole numbers (of which sums and products are exact in any order), with ties."""
    if dtype == "i1":
        return RANDOM.integers(0, 8, shape) == 0
    low = 0 if dtype.startswith("u") else -3
    return RANDOM.integers(low, 4, shape).astype(NUMPY[dtype])


def dims(shape: tuple[int, ...]) -> str:
    return ", ".join(f"0 : {e}" for e in shape)


def reduce_kernel(name: str, shape: tuple[int, ...], axis: int | None, keep: bool, dtype: str, result: str) -> str:
    out = [e if i != axis else 1 for i, e in enumerate(shape) if i != axis or keep]
    if axis is None or not out:
        target, store = f"{result}[1]", "store(y[0], r)"
    else:
        target, store = f"{result}[{', '.join(map(str, out))}]", f"store(y[{dims(tuple(out))}], r)"
    where = "" if axis is None else f", axis={axis}"
    keepdims = ", keepdims=true" if keep else ""
    to = f".to({result})" if name.startswith("arg") else ""
    return f"""
kernel k(y: {target}, x: {dtype}[{", ".join(map(str, shape))}]; W):
    grid 1
    v = load(x[{dims(shape)}])
    r = {name}(v{where}{keepdims}){to}
    {store}
"""


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", NUMBERS)
def test_every_reduction_of_every_type(name: str, dtype: str) -> None:
    x = values((4, 64), dtype)
    if name == "prod":
        x = np.where(RANDOM.integers(0, 20, x.shape) == 0, x, 1).astype(x.dtype)
    result = "s32" if name.startswith("arg") else dtype
    for axis in (0, 1, None):
        wide = x.astype(np.float64) if x.dtype.kind not in "iu" else x
        want = FUNCTIONS[name](wide, axis=axis)
        y = np.zeros(1 if axis is None else want.shape, NUMPY[result])
        run(reduce_kernel(name, x.shape, axis, False, dtype, result), {"y": y, "x": x}, constants={"W": 1})
        assert (y.reshape(-1) == np.asarray(want).astype(NUMPY[result]).reshape(-1)).all(), axis


@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_any_and_all(name: str, axis: int | None) -> None:
    x = values((16, 64), "i1") ^ (name == "all")
    want = getattr(np, name)(x, axis=axis)
    y = np.zeros(1 if axis is None else want.shape, bool)
    run(reduce_kernel(name, x.shape, axis, False, "i1", "i1"), {"y": y, "x": x}, constants={"W": 1})
    assert (y.reshape(-1) == want.reshape(-1)).all()


@pytest.mark.parametrize(
    "shape", [(1,), (8,), (256,), (4096,), (2, 2), (16, 32), (1, 128), (64, 4), (4, 8, 16), (2, 64, 2)]
)
@pytest.mark.parametrize("warps", [1, 4, 32])
@pytest.mark.parametrize("name", ["sum", "argmax"])
def test_every_axis_of_every_shape(shape: tuple[int, ...], warps: int, name: str) -> None:
    x = values(shape, "s32")
    result = "s32"
    for axis in (*range(len(shape)), None):
        for keep in (False, True) if axis is not None else (False,):
            want = np.asarray(FUNCTIONS[name](x, axis=axis, keepdims=keep))
            y = np.zeros(want.shape or (1,), np.int32)
            text = reduce_kernel(name, shape, axis, keep, "s32", result)
            text += f"schedule s of k:\n    warps = {warps}\n"
            run(text, {"y": y, "x": x}, constants={"W": 1})
            assert (y == want).all(), (axis, keep)


LAYOUTS = {
    "row a warp": "vector [1, 2], lanes [1, 32], warps [W, 1]",
    "row a block": "vector [1, 2], lanes [1, 32], warps [1, W]",
    "rows in lanes": "vector [1, 1], lanes [32, 1], warps [W, 1]",
    "columns over warps": "vector [4, 1], lanes [2, 16], warps [1, W]",
    "rows over warps": "vector [1, 4], lanes [8, 4], warps [W, 1]",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("warps", [1, 2, 8])
def test_layouts_of_a_reduction(layout: str, warps: int) -> None:
    x = values((32, 64), "s32")
    text = f"""
kernel k(a: s32[32], b: s32[64], c: s32[1], d: f32[64], x: s32[32, 64]):
    grid 1
    v = load(x[0 : 32, 0 : 64])
    store(a[0 : 32], sum(v, axis=1))
    store(b[0 : 64], max(v, axis=0))
    store(c[0], sum(max(v, axis=1, keepdims=true) * 2))
    store(d[0 : 64], sum(v.to(f32), axis=0))
schedule s of k:
    W = {warps}
    warps = {warps}
    layout v: {LAYOUTS[layout]}
"""
    a, b, c, d = np.zeros(32, np.int32), np.zeros(64, np.int32), np.zeros(1, np.int32), np.zeros(64, np.float32)
    run(text, {"a": a, "b": b, "c": c, "d": d, "x": x})
    assert (a == x.sum(1)).all() and (b == x.max(0)).all() and c[0] == 2 * x.max(1).sum() and (d == x.sum(0)).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("warps", [1, 4])
def test_nan_and_ties_are_numpys(dtype: str, warps: int) -> None:
    x = RANDOM.integers(-2, 3, (16, 64)).astype(NUMPY[dtype])
    x[3, 17] = x[3, 40] = x[5, 0] = x[6, 63] = np.nan
    x[7] = -np.inf
    x[8, 30] = np.inf
    outs = {
        n: np.zeros(16, NUMPY[dtype if not n.startswith("arg") else "s32"]) for n in ("max", "min", "argmax", "argmin")
    }
    text = f"""
kernel k(max_: {dtype}[16], min_: {dtype}[16], argmax_: s32[16], argmin_: s32[16], x: {dtype}[16, 64]):
    grid 1
    v = load(x[0 : 16, 0 : 64])
"""
    for n in outs:
        text += f"    store({n}_[0 : 16], {n}(v, axis=1){'.to(s32)' if n.startswith('arg') else ''})\n"
    run(text, {f"{n}_": y for n, y in outs.items()} | {"x": x}, constants={"warps": warps})
    wide = x.astype(np.float64)
    for n, y in outs.items():
        np.testing.assert_array_equal(y.astype(np.float64), getattr(np, n)(wide, axis=1))


@pytest.mark.parametrize("warps", [1, 8])
def test_reduce_with_a_function_on_a_tuple(warps: int) -> None:
    """Mean and variance in one pass; a function of two tuples; one that names a scalar of the kernel."""
    x = RANDOM.standard_normal((8, 256))
    text = """
def join(n, mean, m2, n2, mean2, m22):
    total = n + n2
    delta = mean2 - mean
    return total, mean + delta * n2 / total, m2 + m22 + delta * delta * n * n2 / total

kernel k(mean: f64[8], m2: f64[8], pair: f64[8], shifted: f64[8], x: f64[8, 256], scale: f64):
    grid 1
    v = load(x[0 : 8, 0 : 256])
    n, mu, s = reduce(join, (full(f64[8, 256], 1.0), v, zeros(f64[8, 256])), axis=1)
    store(mean[0 : 8], mu)
    store(m2[0 : 8], s / n)
    def pairs(a, b):
        return a[0] + b[0], maximum(a[1], b[1])
    count, top = reduce(pairs, (full(f64[8, 256], 1.0), v), axis=1)
    store(pair[0 : 8], top + count)
    twice = scale * 2.0
    def weighted(a, b):
        return maximum(a, b * (twice / twice))
    store(shifted[0 : 8], reduce(weighted, v, axis=1))
"""
    mean, m2, pair, shifted = np.zeros(8), np.zeros(8), np.zeros(8), np.zeros(8)
    arrays = {"mean": mean, "m2": m2, "pair": pair, "shifted": shifted}
    run(text, {**arrays, "x": x, "scale": 3.0}, constants={"warps": warps})
    assert (pair == 256 + x.max(1)).all()
    np.testing.assert_allclose(mean, x.mean(1))
    np.testing.assert_allclose(m2, x.var(1))
    assert (shifted == x.max(1)).all()


@pytest.mark.parametrize("warps", [1, 4])
def test_reduce_with_a_branch_in_its_function(warps: int) -> None:
    x = values((512,), "s32")
    text = """
def pick(a, b):
    if a < b:
        r = b
    else:
        r = a
    return r

kernel k(y: s32[1], x: s32[512]):
    grid 1
    store(y[0], reduce(pick, load(x[0 : 512]), axis=0))
"""
    y = np.zeros(1, np.int32)
    run(text, {"y": y, "x": x}, constants={"warps": warps})
    assert y[0] == x.max()


# ---- scans ----

SCANS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("dtype", ["s32", "u8", "f16", "f32", "s64", "f64"])
def test_every_scan(name: str, dtype: str) -> None:
    x = values((128,), dtype)
    if name == "cumprod":
        few = np.random.default_rng(0).choice([-1.0, 0.5, 2.0], 128) if dtype[0] == "f" else x  # exact in any order
        x = np.where(np.arange(128) % 5 == 0, few, 1).astype(x.dtype)
    for reverse in (False, True):
        text = f"""
kernel k(y: {dtype}[128], x: {dtype}[128]):
    grid 1
    store(y[0 : 128], {name}(load(x[0 : 128]), reverse={str(reverse).lower()}))
"""
        y = np.zeros_like(x)
        run(text, {"y": y, "x": x})
        turned = x[::-1] if reverse else x
        want = SCANS[name].accumulate(turned, dtype=x.dtype)  # numpy's own would be of 64 bits, which do not wrap
        assert (y == (want[::-1] if reverse else want)).all(), reverse


@pytest.mark.parametrize("shape", [(1,), (8,), (512,), (1024,), (4, 64), (64, 4), (16, 16), (4, 8, 16)])
@pytest.mark.parametrize("warps", [1, 4, 16])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan_with_a_function_along_every_axis(shape: tuple[int, ...], warps: int, reverse: bool) -> None:
    """Composition of affine maps does not commute, so the order shows."""
    a, b = RANDOM.integers(-1, 2, shape), RANDOM.integers(-2, 3, shape)
    a, b = a.astype(np.int32), b.astype(np.int32)
    size = ", ".join(map(str, shape))
    for axis in range(len(shape)):
        text = f"""
def after(a, b, c, d):
    return a * c, b * c + d

kernel k(p: s32[{size}], q: s32[{size}], x: s32[{size}], z: s32[{size}]):
    grid 1
    v = load(x[{dims(shape)}])
    m, n = scan(after, (v, load(z[{dims(shape)}])), axis={axis}, reverse={str(reverse).lower()})
    store(p[{dims(shape)}], m)
    store(q[{dims(shape)}], n)
"""
        p, q = np.zeros_like(a), np.zeros_like(a)
        run(text, {"p": p, "q": q, "x": a, "z": b}, constants={"warps": warps})
        left, right = (np.moveaxis(t, axis, 0)[:: -1 if reverse else 1] for t in (a, b))
        rows = [(left[0], right[0])]
        for i in range(1, shape[axis]):
            rows.append((rows[-1][0] * left[i], rows[-1][1] * left[i] + right[i]))
        for got, k in ((p, 0), (q, 1)):
            want = np.stack([r[k] for r in rows])[:: -1 if reverse else 1]
            assert (np.moveaxis(got, axis, 0) == want).all(), axis


@pytest.mark.parametrize(
    "layout",
    [
        "vector [4], lanes [32], warps [1]",
        "vector [1], lanes [32], warps [1]",
        "register [[32], [64]], lane [[1], [2], [4], [8], [16]], warp []",
        "register [[1], [64]], lane [[2], [4], [8], [16], [32]], warp []",
        "register [[1], [2]], lane [[64], [32], [4], [8], [16]], warp []",
    ],
)
def test_scan_under_layouts(layout: str) -> None:
    x = values((128,), "s32")
    text = f"""
kernel k(y: s32[128], x: s32[128]):
    grid 1
    v = load(x[0 : 128])
    store(y[0 : 128], cumsum(v))
schedule s of k:
    warps = 1
    layout v: {layout}
"""
    y = np.zeros_like(x)
    run(text, {"y": y, "x": x})
    assert (y == x.cumsum()).all()


# ---- shuffles and votes ----


def shuffled(x: np.ndarray, mode: str, d: int, width: int) -> np.ndarray:
    """Along the last axis, within segments of `width`; out of a segment an element keeps its own value."""
    i = np.arange(x.shape[-1])
    base, at = i // width * width, i % width
    to = {"xor": at ^ d, "up": at - d, "down": at + d, "idx": at * 0 + d}[mode]
    inside = (to >= 0) & (to < width) if 0 <= d < width else to != to
    return x[..., np.where(inside, base + to, i)]


LANES = "layout v: vector [1], lanes [32], warps [2]"


@pytest.mark.parametrize("mode", ["xor", "up", "down", "idx"])
@pytest.mark.parametrize("width", [1, 2, 8, 32])
@pytest.mark.parametrize("known", [True, False])
def test_shuffles_of_lanes(mode: str, width: int, known: bool) -> None:
    x = RANDOM.integers(0, 1000, 64).astype(np.int32)
    for d in {0, 1, width // 2, width - 1} if known else {0, 1, width // 2, width, 33, 100}:
        if known and d >= width:
            continue
        text = f"""
kernel k(y: s32[64], x: s32[64], d: s32):
    grid 1
    v = load(x[0 : 64])
    store(y[0 : 64], shfl.{mode}(v, {d if known else "d"}, width={width}))
schedule s of k:
    warps = 2
    {LANES}
"""
        y = np.zeros_like(x)
        run(text, {"y": y, "x": x, "d": d})
        assert (y == shuffled(x, mode, d, width)).all(), d


@pytest.mark.parametrize("dtype", list(NUMPY))
def test_shuffles_carry_every_type(dtype: str) -> None:
    x = values((32,), dtype)
    text = f"""
kernel k(y: {dtype}[32], x: {dtype}[32]):
    grid 1
    v = load(x[0 : 32])
    store(y[0 : 32], shfl.xor(v, 5))
"""
    y = np.zeros_like(x)
    run(text, {"y": y, "x": x})
    assert (y == x[np.arange(32) ^ 5]).all()


@pytest.mark.parametrize("mode", ["xor", "up", "down", "idx"])
@pytest.mark.parametrize("axis", [0, 1])
def test_shuffles_along_an_axis_of_two(mode: str, axis: int) -> None:
    x = RANDOM.integers(0, 1000, (8, 16)).astype(np.int32)
    text = f"""
kernel k(y: s32[8, 16], x: s32[8, 16], d: u8):
    grid 1
    v = load(x[0 : 8, 0 : 16])
    store(y[0 : 8, 0 : 16], shfl.{mode}(v, 2, axis={axis}, width=4) + shfl.{mode}(v, d, axis={axis}, width=4))
schedule s of k:
    warps = 1
    layout v: vector [1, 1], lanes [4, 8], warps [1, 1]
"""
    y = np.zeros_like(x)
    run(text, {"y": y, "x": x, "d": 1})
    turned = np.moveaxis(x, axis, -1)
    want = shuffled(turned, mode, 2, 4) + shuffled(turned, mode, 1, 4)
    assert (y == np.moveaxis(want, -1, axis)).all()


def test_a_shuffle_by_a_register_bit_is_a_renaming() -> None:
    x = RANDOM.integers(0, 1000, 128).astype(np.int32)
    text = """
kernel k(y: s32[128], x: s32[128]):
    grid 1
    v = load(x[0 : 128])
    store(y[0 : 128], shfl.xor(v, 1) + shfl.xor(v, 6) * 1000 + shfl.xor(v, 67, width=128) * 1000000)
schedule s of k:
    warps = 1
    layout v: vector [4], lanes [32], warps [1]
"""
    y = np.zeros_like(x)
    run(text, {"y": y, "x": x})
    i = np.arange(128)
    assert (y == x[i ^ 1] + x[i ^ 6] * 1000 + x[i ^ 67] * 1000000).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("shfl.up(v, 1)", "bit 0 of the index in register bit 0"),
        ("shfl.idx(v, 1, width=4)", "bit 0 of the index in register bit 0"),
        ("shfl.xor(v, 64, width=128)", "bit 6 of the index in register bit 1"),
        ("shfl.xor(v, 32)", "no distance 32"),
        ("shfl.up(v, 1, width=256)", "more than the 128 elements"),
        ("shfl.up(v, 1, width=3)", "power of two"),
    ],
)
def test_a_shuffle_that_is_no_instruction_is_a_located_error(call: str, message: str) -> None:
    warps = 2 if "64" in call else 1
    layout = "vector [2], lanes [32], warps [2]" if warps == 2 else "vector [4], lanes [32], warps [1]"
    text = f"""
kernel k(y: s32[128], x: s32[128]):
    grid 1
    v = load(x[0 : 128])
    store(y[0 : 128], {call})
schedule s of k:
    warps = {warps}
    layout v: {layout}
"""
    if warps == 2:
        message = "bit 6 of the index in warp bit 0"
    with pytest.raises(TileError) as caught:
        compile_kernel(text, {"x": np.zeros(128, np.int32)})
    assert message in str(caught.value) and caught.value.loc is not None


def test_votes() -> None:
    x = RANDOM.integers(0, 3, 128).astype(np.int32)
    x[32:64], x[64:96] = 1, 0
    text = """
kernel k(some: i1[128], every: i1[128], ballot: u32[128], x: s32[128]):
    grid 1
    v = load(x[0 : 128])
    store(some[0 : 128], vote.any(v == 1))
    store(every[0 : 128], vote.all(v == 1))
    store(ballot[0 : 128], vote.ballot(v == 1))
"""
    some, every, ballot = np.zeros(128, bool), np.zeros(128, bool), np.zeros(128, np.uint32)
    run(text, {"some": some, "every": every, "ballot": ballot, "x": x})
    warps = (x == 1).reshape(4, 32)
    assert (some.reshape(4, 32) == warps.any(1)[:, None]).all() and (
        every.reshape(4, 32) == warps.all(1)[:, None]
    ).all()
    assert (ballot.reshape(4, 32) == (warps * (1 << np.arange(32, dtype=np.uint64))).sum(1)[:, None]).all()


@pytest.mark.parametrize(
    "pin",
    [
        "register [], lane [[2], [1], [4], [8], [16]], warp [[32], [64]]",
        "register [], lane [[4], [6], [8], [1], [20]], warp [[32], [64]]",
        "register [], lane [[1], [2], [4], [8], [32]], warp [[16], [64]]",
        "register [], lane [[1], [2], [4], [8], [16]], warp [[64], [32]]",
    ],
)
@pytest.mark.parametrize("named", ["v", "r", "v, r"])
def test_votes_are_of_neighbours_whatever_the_layout(pin: str, named: str) -> None:
    """Bit i of a ballot is the i-th of 32 neighbours: it was what lane i held."""
    x = (np.arange(128) * 37 % 5 - 2).astype(np.int32)
    ballot, some, every = np.zeros(128, np.uint32), np.zeros(128, np.int32), np.zeros(128, np.int32)
    text = f"""
kernel k(x: s32[128], ballot: u32[128], some: s32[128], every: s32[128]):
    grid 1
    v = load(x[0 : 128])
    r = vote.ballot(v > 0)
    store(ballot[0 : 128], r)
    store(some[0 : 128], where(vote.any(v == -2 + (arange(128) // 32).to(s32)), v, 9))
    store(every[0 : 128], where(vote.all(v < 2 + (arange(128) // 32 % 2).to(s32)), v, 9))
schedule s of k:
    warps = 4
    layout {named}: {pin}
"""
    run(text, {"x": x, "ballot": ballot, "some": some, "every": every})
    groups, i = x.reshape(4, 32), np.arange(4)[:, None]
    bits = ((groups > 0) * (1 << np.arange(32, dtype=np.uint64))).sum(1).astype(np.uint32)
    assert (ballot.reshape(4, 32) == bits[:, None]).all()
    assert (some.reshape(4, 32) == np.where((groups == -2 + i).any(1)[:, None], groups, 9)).all()
    assert (every.reshape(4, 32) == np.where((groups < 2 + i % 2).all(1)[:, None], groups, 9)).all()


@pytest.mark.parametrize("name", ["sum(v)", "cumsum(v)", "shfl.up(v, 1)", "max(v, axis=0)"])
def test_threads_join_outside_branches_of_threads(name: str) -> None:
    text = f"""
kernel k(y: f32[128], x: f32[128]):
    grid 1
    v = load(x[0 : 128])
    if v > 0.0:
        store(y[arange(128)], v + {name})
"""
    with pytest.raises(TileError, match="inside a tile 'if'"):
        compile_kernel(text, {"x": np.zeros(128, np.float32)})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a = a + s[0]", "touches 's'"),
        ("a = a + x[3]", "touches 'x'"),
        ("s[0] = a", "touches 's'"),
        ("atomic_add(s[0], 1.0)", "touches 's'"),
        ("barrier()", "holds barrier()"),
    ],
)
@pytest.mark.parametrize("call", ["reduce(f, v)", "scan(f, v)"])
def test_a_function_that_joins_values_touches_no_memory(call: str, line: str, message: str) -> None:
    """It runs between the threads of a warp, where no barrier can order what it touches."""
    text = f"""
kernel k(y: f32[128], x: f32[128]):
    grid 1
    shared s: f32[128]
    v = load(x[0 : 128])
    s[0 : 128] = v
    def f(a, b):
        {line}
        return a + b
    store(y[0 : 128], v + {call})
"""
    with pytest.raises(TileError, match="a function that joins two values") as caught:
        compile_kernel(text, {"x": np.zeros(128, np.float32)})
    assert message in caught.value.message and caught.value.loc is not None


def test_elements_that_repeat_a_number_take_no_registers_of_their_own() -> None:
    """A row's number lies in four lanes. So does each element of the zeros, as the row of a product lies."""
    text = """
kernel k(y: f32[s], a: f16[s, k], b: f16[k, n]; TM = 64, TN = 128, TK = 64):
    grid 1
    acc = zeros(f32[TM, TN])
    top = max(acc, axis=1)
    for p in range(0, k, TK):
        acc = dot(a[0 : TM, p : p + TK], b[p : p + TK, 0 : TN], acc)
        top = maximum(top, max(acc, axis=1))
    y[0 : TM] = top

schedule s of k:
    warps = 4
    instruction acc: wgmma
"""
    random = np.random.default_rng(0)
    a, b = (random.integers(-2, 3, shape).astype(np.float16) for shape in ((64, 64), (64, 128)))
    args = {"y": np.empty(64, np.float32), "a": a, "b": b}
    run(text, args, arch="sm_90a")
    assert np.array_equal(args["y"], np.maximum((a @ b).max(1), 0))
