"""Forms of the emission: with each one's plain alternative the samples' own examples hold, and the code is another."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import resolve
from dsl.examples.run import ExampleRun
from dsl.lowering.ir.choices import Asked
from dsl.text.program import load
from tests.compile_and_run import ARRAYS, NUMPY, Kernel, compile_kernel, launch

SAMPLES = Path(__file__).parents[2] / "samples"
Example = tuple[str, str | None, tuple[str, ...]]
"""File, example, what is set in place of its own numbers."""

STREAMED: Example = ("softmax", None, ("rows=1", "cols=70001", "SHARING=1"))
MATMUL: Example = ("matmul", None, ("m=64", "n=64", "k=96"))
RAGGED: Example = ("matmul", "linear", ("m=77", "n=77", "k=77"))
CONV: Example = ("int8_conv", None, ("images=1", "h=6"))
ROWS: Example = ("reduce", "rows", ("rows=4",))
LADDER: Example = ("reduction", "v1", ("n=1024",))
CONV1D: Example = ("conv1d", "tiled", ("n=1024",))
MASKED: Example = ("softmax_fused", None, ("rows=5",))

ALTERNATIVES: list[tuple[str, str, Example]] = [
    *(("hoist", "head", example) for example in (STREAMED, MATMUL, ROWS)),
    *(("hoist", "place", example) for example in (STREAMED, MATMUL, CONV, CONV1D)),
    ("partial", "single", RAGGED),
    ("pairs", "single", MASKED),
    ("bytes", "single", MASKED),
    ("bytes", "single", CONV),
    *(("address", "plain", example) for example in (STREAMED, MATMUL, RAGGED, CONV, ROWS, LADDER, CONV1D)),
    ("cache", "all", CONV),
    ("scalar", "all", LADDER),
]


@cache
def emitted(example: Example, kind: str, option: str) -> list[str]:
    """The LLVM IR of an example's launches with one option, after it has passed with it."""
    file, name, overrides = example
    text = load(SAMPLES / f"{file}.tile")
    (line,) = [each for each in text.examples if each.name == name]
    asked = Asked({kind: option} if kind else {})
    run = ExampleRun(text, line, "emulator", "", resolve(text, line, overrides), LaunchSettings(choose=asked))
    report = run.run()
    assert report.passed, report.checks
    asked.check()
    return [each.compiled.llvm for call in run.launcher.calls for each, _ in call.launches]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "option", "example"), ALTERNATIVES, ids=lambda each: str(each[:2]))
def test_the_alternative_is_right_and_another_code(kind: str, option: str, example: Example) -> None:
    assert emitted(example, kind, option) != emitted(example, "", "")


# ---- what no sample has, or not in all forms ----

RANDOM = np.random.default_rng(5)


def both(text: str, key: str, option: str, **constants: int) -> list[Kernel]:
    """A kernel in the compiler's form, and with an option, which is met."""
    kernels = [compile_kernel(text, {}, constants={**constants, **more}) for more in ({}, {key: option})]
    for kernel in kernels:
        kernel.variant.function.choices.check_met()
    plain, other = kernels
    assert plain.ptx != other.ptx
    return kernels


REDUCE = """
kernel k(y: {T}[4], x: {T}[4, 256]):
    grid 1
    def join(a, b):
        return {join}
    total = reduce(join, x[0 : 4, 0 : 256], axis=1)
    y[0 : 4] = total
schedule s of k:
    warps = 1
"""


@pytest.mark.parametrize(
    ("join", "reference"), [("a + b", np.add), ("minimum(a, b)", np.minimum), ("a ^ b", np.bitwise_xor)]
)
@pytest.mark.parametrize("dtype", ["s32", "u32"])
def test_reductions_by_shuffles(join: str, reference: np.ufunc, dtype: str) -> None:
    kind = {"s32": np.int32, "u32": np.uint32}[dtype]
    x = RANDOM.integers(0, 1 << 32, (4, 256)).astype(np.uint32).view(kind)
    by_redux, by_shuffles = both(REDUCE.format(T=dtype, join=join), "reduction.total", "shuffles")
    assert "redux.sync" in by_redux.ptx and "shfl" not in by_redux.ptx
    assert "redux.sync" not in by_shuffles.ptx and "shfl" in by_shuffles.ptx
    for kernel in (by_redux, by_shuffles):
        y = np.zeros(4, kind)
        launch(kernel, {"y": y, "x": x})
        assert (y == reference.reduce(x, axis=1, dtype=kind)).all()


COPY = """
kernel k(y: {T}[n], x: {T}[m], b: s32; C, ROWS = 4):
    grid 1
    shared s: {T}[ROWS, C]
    r, c = arange(ROWS)[:, None], arange(C)[None, :]
    copy(s, x[r * C + c], mask=c < b)
    commit()
    wait(0)
    store(y[r * C + c], s[0 : ROWS, 0 : C])
schedule t of k:
    require async
"""


@pytest.mark.parametrize("key", ["partial.s.copy", "address.s.copy"])
@pytest.mark.parametrize("dtype", ["u8", "f16", "f32"])
def test_copies_of_a_prefix(key: str, dtype: str) -> None:
    """Nothing behind the end of the source is read."""
    kind, option = NUMPY[dtype], "plain" if "address" in key else "single"
    extent, vector = 256 // kind.itemsize, 16 // kind.itemsize
    _, kernel = both(COPY.format(T=dtype), key, option, C=extent)
    for b in (0, 1, vector - 1, vector, vector + 1, extent - 1, extent):
        x, y = RANDOM.integers(0, 100, max(3 * extent + b, 1)).astype(kind), np.ones(4 * extent, kind)
        launch(kernel, {"x": x, "y": y, "b": b})
        padded = np.zeros(4 * extent, kind)
        padded[: len(x)] = x
        on = np.arange(extent)[None, :] < b
        assert (y.reshape(4, extent) == np.where(on, padded.reshape(4, extent), 0)).all(), b


CHAIN = """
kernel k(y: f32[64, 64], x: f32[64, 64]):
    grid 1
    v = load(x[0 : 64, 0 : 64])
    a = v + 1
    b = a * v
    c = b - a
    d = maximum(c, v)
    e = (a + b * c - d * v) * a
    last = where(e > d, e + b, minimum(e, c) - c) + a
    store(y[0 : 64, 0 : 64], last)
schedule s of k:
    warps = 1
"""


def test_chains_operation_by_operation() -> None:
    x = RANDOM.integers(-2, 3, (64, 64)).astype(np.float32)
    results = []
    for kernel in both(CHAIN, "chain.last", "all"):
        results.append(np.zeros_like(x))
        launch(kernel, {"y": results[-1], "x": x})
    assert results[0].any() and (results[0] == results[1]).all()


SLOTS = """
kernel k(y: f32[n, 64], x: f32[n, 64]; SLOTS):
    grid 1
    shared s: f32[{stages}, 4, 64]
    for i in range(n // 4):
        store(s[{stage}], load(x[i * 4 : i * 4 + 4, 0 : 64]) + 1.0)
        y[i * 4 : i * 4 + 4, 0 : 64] = load(s[{stage}])
schedule t of k:
    warps = 2
    swizzle s: {swizzle}
"""


@pytest.mark.parametrize("swizzle", ["none", "3, 4, 3"])
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(("declared", "stage"), [("ring SLOTS", "i"), ("SLOTS", "i % SLOTS")])
def test_addresses_in_slots(swizzle: str, stages: int, declared: str, stage: str) -> None:
    text = SLOTS.format(swizzle=swizzle, stages=declared, stage=stage)
    _, kernel = both(text, "address.s.load", "plain", SLOTS=stages)
    x = RANDOM.integers(0, 100, (20, 64)).astype(np.float32)
    y = np.zeros_like(x)
    launch(kernel, {"y": y, "x": x})
    assert (y == x + 1).all()


BYTES = """
kernel k(y: {to}[1024], x: {of}[1024]):
    grid 1
    v = load(x[0 : 1024])
    wide = v.to({to}{more})
    store(y[0 : 1024], wide)
schedule t of k:
    warps = 1
    layout v: vector [16], lanes [32], warps [1]
"""


@pytest.mark.parametrize(
    ("of", "to", "more"), [("s8", "f32", ""), ("u8", "f32", ""), ("s32", "s8", ", saturate"), ("f32", "e4m3", "")]
)
def test_bytes_alone(of: str, to: str, more: str) -> None:
    low, high = {"s8": (-128, 128), "u8": (0, 256)}.get(of, (-300, 300))
    x = RANDOM.integers(low, high, 1024).astype(ARRAYS[of])
    results = []
    for kernel in both(BYTES.format(of=of, to=to, more=more), "bytes.wide", "single"):
        results.append(np.zeros(1024, ARRAYS[to]))
        launch(kernel, {"y": results[-1], "x": x})
    wanted = np.clip(x, -128, 127) if to == "s8" else np.clip(x, -448, 448) if to == "e4m3" else x
    for result in results:
        assert (result == wanted.astype(ARRAYS[to])).all()


MASKED_ROWS = """
kernel k(y: f16[rows, cols], x: f16[rows, cols]; ROWS = 2, COLS = 512, V = 8):
    grid cdiv(rows, ROWS)
    r = block(0) * ROWS + arange(ROWS)[:, None]
    start = r * cols
    c = arange(COLS)[None, :] - start % V
    own = (r < rows) & (c >= 0) & (c < cols)
    i = start // V * V + arange(COLS)[None, :]
    v = load(flat(x)[i], mask=own, other=7)
    store(flat(y)[i], v + v, mask=own)
"""


@pytest.mark.parametrize("key", ["partial.x.load", "partial.y.store"])
def test_elements_under_masks_one_by_one(key: str) -> None:
    """Rows start anywhere, and the array ends with the last one."""
    wide, kernel = both(MASKED_ROWS, key, "single")
    mnemonic = "ld.global.v4.b32" if "load" in key else "st.global.v4.b32"
    assert mnemonic in wide.ptx and mnemonic not in kernel.ptx
    for cols in (1, 7, 8, 9, 100, 503):
        x = RANDOM.integers(0, 100, (5, cols)).astype(np.float16)
        y = np.zeros_like(x)
        launch(kernel, {"x": x, "y": y})
        assert (y == x + x).all(), cols


BOUNDS = """
kernel k(y: s32[m], x: s32[n]):
    grid 1
    i = (arange(128) - 5) * 3
    inside = (i >= 0) & (n > i)
    y[0 : 128] = where(inside, i, -1) + load(x[i], mask=inside, other=7)
schedule s of k:
    warps = 1
"""


def test_bounds_by_two_comparisons() -> None:
    i = (np.arange(128) - 5) * 3
    for kernel in both(BOUNDS, "bounds.inside", "two"):
        for n in (0, 1, 3, 100, 366, 367, 400):
            x, y = RANDOM.integers(0, 100, n).astype(np.int32), np.zeros(128, np.int32)
            launch(kernel, {"x": x, "y": y})
            on = (i >= 0) & (i < n)
            assert (
                y == np.where(on, i, -1) + np.where(on, np.resize(x, n or 1)[np.clip(i, 0, max(n - 1, 0))], 7)
            ).all()
