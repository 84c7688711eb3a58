"""The product of all types, orders of operands and epilogues at extents around its tiles', on the emulator and on a
GPU."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import product
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.kernels.variant import resolve
from dsl.lowering.ir.types import DTYPES
from dsl.runtime import device_facts
from dsl.values.element_types import narrow, widen
from dsl.values.facts import ArrayFacts

SAMPLE = Path(__file__).parents[2] / "samples" / "matmul.tile"
BOUND = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 4e-3, "s8": 0, "u8": 0, "e4m3": 2e-3, "e5m2": 2e-3}
"""Of the result's rounding, or of f32's 13 lowest bits, which tf32 lacks: relative to sqrt(k), the size of a sum of k
products of normal numbers."""
RESULT = {"s8": "s32", "u8": "s32", "e4m3": "f32", "e5m2": "f32"}
ACTIVATIONS = {
    "identity": lambda v: v,
    "relu": lambda v: np.maximum(v, 0),
    "gelu_tanh": lambda v: v / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))),
    "fast_gelu": lambda v: v / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))),
    "fast_silu": lambda v: v / (1 + np.exp(-v)),
    "silu": lambda v: v / (1 + np.exp(-v)),
}


@pytest.fixture(scope="module")
def modules() -> Callable[..., dsl.Module]:
    """The sample on a device, with choices: read once."""
    return cache(lambda device, **choose: dsl.load(SAMPLE, device=device, choose=choose))


def operands(m: int, n: int, k: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(m * 10007 + n * 101 + k)
    if dtype in ("s8", "u8"):
        kind = np.dtype("i1" if dtype == "s8" else "u1")
        info = np.iinfo(kind)
        return tuple(random.integers(info.min, info.max + 1, s).astype(kind) for s in ((m, k), (k, n)))
    return tuple(narrow(random.standard_normal(s), DTYPES[dtype]) for s in ((m, k), (k, n)))


def exact(a: np.ndarray, b: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "u8":  # two s4 a byte, the lower half first
        halves = [((((x.astype(np.int64) >> shift) & 15) ^ 8) - 8) for x in (a, b) for shift in (0, 4)]
        return halves[0] @ halves[2] + halves[1] @ halves[3]
    return widen(a) @ widen(b)


def lying(x: np.ndarray, turned: bool) -> np.ndarray:
    """The same matrix, column by column in memory."""
    return np.ascontiguousarray(x.T).T if turned else x


def check(c: np.ndarray, a: np.ndarray, b: np.ndarray, dtype: str) -> None:
    error = np.abs(widen(c) - exact(a, b, dtype))
    assert error.max(initial=0) <= BOUND[dtype] * max(a.shape[1], 4) ** 0.5


SHAPES = [(1, 1, 1), (16, 64, 64), (63, 65, 31), (65, 72, 200), (128, 192, 64)]
ORDERS = list(product((False, True), repeat=2))


@pytest.mark.parametrize(("a_t", "b_t"), ORDERS)
@pytest.mark.parametrize("dtype", BOUND)
def test_products_of_all_types_in_every_order(modules, device, dtype, a_t, b_t):
    module = modules(device)
    for shape in SHAPES if dtype in ("s8", "f16", "f32") else SHAPES[2:4]:
        if dtype == "u8" and (a_t or not b_t):
            continue  # a byte has two neighbours along k
        a, b = operands(*shape, dtype)
        c = narrow(np.full(shape[:2], -7.0), DTYPES[RESULT.get(dtype, dtype)])
        module.matmul(c, lying(a, a_t), lying(b, b_t))
        check(c, a, b, dtype)


def compiled(module: dsl.Module, schedule: str, arrays: tuple[Any, ...], constants: dict[str, Any]) -> Any:
    """The kernel that a call with these arrays launches."""
    names = ("c", "a", "b", "scale", "bias", "residual", "gain", "row_scale")
    given = dict(zip(names, (*arrays, *(None,) * 3, 1.0, None), strict=True))
    plan = module.product.plan(module.product.facts(given), schedule=schedule, **constants)
    (step,) = plan.steps
    return module.variant(step.request)


LARGE = {"stream_k": ((256, 384), 8), "mma_sync": ((256, 256), 8)}
"""Two tiles of a schedule; warps."""
TILE = {"TM": 128, "TN": 256, "warps": 8, "SHARES": 1}


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "a_t", "b_t"), [("f16", False, False), ("f16", False, True), *(("s8", *order) for order in ORDERS)]
)
@pytest.mark.parametrize("schedule", LARGE)
def test_large_tiles_have_no_conflicts_and_one_barrier_a_round(modules, schedule, dtype, a_t, b_t):
    """Four iterations, all of one block. Bytes in every order: those across k are transposed in registers."""
    module = modules("emulator", **{"split.p": "1"})
    (m, n), warps = LARGE[schedule]
    tk = 128 // DTYPES[dtype].bytes
    a, b = operands(m, n, 4 * tk, dtype)
    c = narrow(np.full((m, n), -7.0), DTYPES[RESULT.get(dtype, dtype)])
    left, right = lying(a, a_t), lying(b, b_t)
    constants = {**TILE, "TK": tk} if schedule == "mma_sync" else {}
    kernel = compiled(module, schedule, (c, left, right), constants)
    counters = kernel.run(c, left, right, None, None, None, 1.0, counters=True).counters.totals
    check(c, a, b, dtype)
    assert counters.bank_conflicts == 0
    assert "ldmatrix.sync.aligned.m8n8.x4" in kernel.ptx and "cp.async.cg.shared.global" in kernel.ptx
    # Behind each wait, the first one's too; around parts of a result that go through shared memory, more.
    staged = dtype == "f16" and not b_t
    assert staged or counters.barriers == 2 * warps * 5
    assert counters.mma == 2 * warps * 4 * (192 if schedule == "stream_k" else 128)
    if dtype == "s8":
        assert "ld.shared" not in kernel.ptx
    if dtype == "s8" or b_t:
        assert counters.global_load_sectors + counters.global_store_sectors == counters.global_ideal_sectors


WAVES = {
    1536: ((160, 128), (128, 160)),
    1792: ((128, 224), (128, 224)),
    2560: ((128, 224), (128, 224)),
    3072: ((128, 192), (128, 192)),
    5120: ((160, 256), (128, 224)),
    6144: ((192, 256), (192, 256)),
}
"""Extents of a product → its tiles, where columns of b are neighbours, and where they lie along k."""


def test_tiles_fill_their_waves(modules):
    """Of 132 multiprocessors."""
    module = modules("emulator")
    for extent, (neighbours, along) in WAVES.items():
        words = ArrayFacts((extent, extent), "f16")
        orders = ((words, words, neighbours), (words, words.turned, along))
        for a, b, tile in orders:
            absent = dict.fromkeys(("scale", "bias", "residual", "row_scale"))
            given = {"c": ArrayFacts((extent, extent), "bf16"), "a": a, "b": b, "gain": 1.0, **absent}
            (step,) = module.product.plan(given, schedule="wgmma").steps
            constants = resolve(module.program, step.request).constants
            assert (constants["TM"], constants["TN"]) == tile


@pytest.mark.parametrize("dtype", ["f16", "s8", "f32", "e4m3"])
@pytest.mark.parametrize("columns", [96, 160, 224])
def test_columns_that_are_no_power_of_two(modules, device, dtype, columns):
    """One instruction multiplies all of them, or 128 where the sums of an iteration are added in f32."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    module = modules(device)
    tk = 128 // DTYPES[dtype].bytes
    a, b = operands(200, 2 * columns + 8, 3 * tk, dtype)
    c = narrow(np.full((200, 2 * columns + 8), -7.0), DTYPES[RESULT.get(dtype, dtype)])
    kernel = compiled(module, "wgmma", (c, lying(a, False), lying(b, True)), {"TM": 128, "TN": columns})
    most = 128 if dtype == "e4m3" else 256
    wanted = {each for each in (min(columns, most), columns - most) if each > 0}
    assert set(map(int, re.findall(r"m64n(\d+)k", kernel.ptx))) == wanted
    kernel(c, lying(a, False), lying(b, True), None, None, None, 1.0)
    check(c, a, b, dtype)


@pytest.mark.parametrize("fast", [False, True])
def test_sums_of_eight_bit_floats(modules, device, fast):
    """Of the instruction they keep about 14 bits: an iteration of 128 is added in f32, unless FAST says otherwise. On
    the emulator sums are exact."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    module = modules(device)
    a, b = operands(256, 192, 2048 if device == "cuda" else 256, "e4m3")
    c = np.full((256, 192), np.nan, np.float32)
    module.product(c, a, lying(b, True), None, None, None, 1.0, schedule="wgmma", FAST=fast)
    x, y = widen(a), widen(b)
    share = np.abs(c - x @ y) / (np.abs(x) @ np.abs(y))
    assert share.max() <= (2.0**-10 if fast else 2.0**-13)


FEW = [((1, 136, 704), 1), ((15, 136, 12000), 2), ((17, 130, 8200), 2), ((64, 64, 9008), 2)]
"""Shape, and at least so many blocks a tile."""


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["s8", "f16"])
@pytest.mark.parametrize(("shape", "parts"), FEW, ids=str)
def test_several_blocks_share_the_rounds_of_few_tiles(modules, device, dtype, shape, parts):
    """With the same bits each time."""
    module = modules(device)
    a, b = operands(*shape, dtype)
    right, results = lying(b, True), []
    for _ in range(2):
        c = narrow(np.full(shape[:2], -7.0), DTYPES[RESULT.get(dtype, dtype)])
        module.matmul(c, a, right)
        check(c, a, b, dtype)
        results.append(c)
    assert np.array_equal(*results)
    made = compiled(module, "mma_sync", (c, a, right), {}).compiled.variant.function.choices.keyed()
    assert int(made["split.p"].taken) >= parts


@pytest.mark.long
@pytest.mark.parametrize(
    ("extent", "k", "b_t", "arch", "schedules"),
    [
        (8192, 8192, True, "sm_80", "stream_k"),
        (6143, 64, True, "sm_80", "mma_sync"),
        (6144, 64, False, "sm_90", "wgmma"),
        (6143, 64, False, "sm_90", "rows wgmma"),
        (6143, 64, False, "sm_80", "rows mma_sync"),
        (8191, 8192, False, "sm_80", "rows stream_k"),
        (6143, 64, True, "sm_90", "wgmma"),
        (6143, 66, True, "sm_90", "rows rows wgmma"),
        (1024, 64, True, "sm_90", "wgmma"),
        (1024, 1024, True, "sm_90", "wgmma"),
        (512, 1024, True, "sm_90", "wgmma"),
        (768, 768, True, "sm_90", "wgmma"),
        (512, 4096, False, "sm_90", "wgmma"),
        (511, 63, True, "sm_90", "mma_sync"),
        (6144, 0, True, "sm_90", "mma_sync"),
    ],
)
def test_the_dispatch_chooses_by_target_size_and_order(extent, k, b_t, arch, schedules):
    """Ahead of the product operands are copied whose rows begin at no multiple of 16 bytes."""
    module = dsl.load(SAMPLE, device="emulator", arch=arch)
    c, a = np.empty((extent, extent), np.float16), np.empty((extent, k), np.float16)
    b = a.T if b_t else np.empty((k, extent), np.float16)
    plan = module.matmul.plan(module.matmul.facts({"c": c, "a": a, "b": b}))
    assert [step.request.schedule for step in plan.steps] == schedules.split()


def test_copies_pay_where_enough_rows_and_columns_share_them(modules):
    module = modules("emulator")
    for m, n, k, copies in ((64, 50257, 4096, 1), (24, 4097, 4096, 1), (16, 50257, 4096, 0), (16, 4097, 4096, 0)):
        given = {"c": ArrayFacts((m, n), "bf16"), "a": ArrayFacts((m, k), "bf16"), "b": ArrayFacts((k, n), "bf16")}
        plan = module.matmul.plan(given)
        assert [step.request.kernel for step in plan.steps] == ["copied"] * copies + ["product"]


@pytest.mark.parametrize(("a_t", "b_t"), ORDERS)
@pytest.mark.parametrize("dtype", ["bf16", "f32", "s8", "e5m2"])
def test_rows_that_begin_anywhere_are_copied_first(modules, device, dtype, a_t, b_t):
    module, (m, n, k) = modules(device), (129, 130, 1001)
    taken = {"bf16": ((False, False), (True, True)), "f32": ((False, False),), "e5m2": ((False, True),)}.get(dtype, ())
    if device == "emulator" and (a_t, b_t) not in taken:
        pytest.skip("seconds of the emulator; on a GPU each order of each type")
    a, b = operands(m, n, k, dtype)
    c = narrow(np.full((m, n), -7.0), DTYPES[RESULT.get(dtype, dtype)])
    module.matmul(c, lying(a, a_t), lying(b, b_t))
    check(c, a, b, dtype)
    plan = module.matmul.plan(module.matmul.facts({"c": c, "a": lying(a, a_t), "b": lying(b, b_t)}))
    assert [step.request.kernel for step in plan.steps] == ["copied", "copied", "product"]


@pytest.mark.parametrize("dtype", ["f16", "f32", "u8"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_copy_is_the_same_matrix(modules, device, dtype, turned):
    """Of rows, or of columns, where these are neighbours; also a view of every other element, and nothing."""
    module, kind = modules(device), {"f16": np.float16, "f32": np.float32, "u8": np.uint8}[dtype]
    for m, k, step in ((67, 131, 1), (1, 33, 1), (40, 300, 2), (0, 5, 1)):
        x = (np.arange(m * k * step).reshape(m, k * step) % 251).astype(kind)[:, ::step]
        y = np.full((m, k + 8), 7, kind)[:, :k]
        module.copied(*((y.T, x.T) if turned else (y, x)))
        np.testing.assert_array_equal(y, x)


CASES = [
    ("identity", (1, 1, 1), True, True, False),
    ("relu", (65, 72, 200), True, True, True),
    ("fast_gelu", (63, 65, 31), False, True, False),
    ("fast_silu", (64, 64, 128), True, False, True),
    ("silu", (128, 192, 64), False, False, True),
    ("gelu_tanh", (60, 96, 64), True, True, True),
]
"""Activation, m × n × k, whether there are a bias and a residual, whether b lies along k."""


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(("act", "shape", "with_bias", "with_residual", "b_t"), CASES)
def test_what_follows_a_product_of_floats(modules, device, act, shape, with_bias, with_residual, b_t, dtype):
    module = modules(device)
    (m, n, k), random = shape, np.random.default_rng(sum(shape))
    a, b, bias, residual = (narrow(random.standard_normal(e), DTYPES[dtype]) for e in ((m, k), (k, n), (n,), (m, n)))
    c = narrow(np.full((m, n), np.nan), DTYPES[dtype])
    given = (bias if with_bias else None, residual if with_residual else None)
    module.linear(c, a, lying(b, b_t), None, *given, 0.5, ACT=act)
    wanted = ACTIVATIONS[act](widen(a) @ widen(b) + widen(bias) * with_bias) + widen(residual) * with_residual / 2
    assert np.abs(widen(c) - wanted).max() <= 2 * BOUND[dtype] * max(sqrt(k), 2)


@pytest.mark.parametrize(("act", "shape", "with_bias", "with_residual", "b_t"), CASES[:2])
def test_bytes_are_rounded_as_the_same_steps_in_f32(modules, device, act, shape, with_bias, with_residual, b_t):
    """Sums of bytes are exact in f32 here; each step after them is rounded to f32, the last to even and saturated."""
    module = modules(device)
    (m, n, k), random = shape, np.random.default_rng(sum(shape))
    a, b, residual = (random.integers(-128, 128, e, np.int8) for e in ((m, k), (k, n), (m, n)))
    scale, bias = (np.float32(s) * random.standard_normal(n).astype(np.float32) for s in (2**-12, 4.0))
    c = np.full((m, n), -77, np.int8)
    module.linear(c, a, lying(b, b_t), scale, bias, residual, 0.37, ACT=act)
    wanted = (widen(a) @ widen(b)).astype(np.float32) * scale + bias
    wanted = np.maximum(wanted, 0) if act == "relu" else wanted
    wanted = wanted + residual.astype(np.float32) * np.float32(0.37)
    assert np.array_equal(c, np.rint(wanted).clip(-128, 127))


@pytest.mark.long
@pytest.mark.parametrize("b_t", [False, True])
def test_no_product_is_zeros(modules, device, b_t):
    """Of as many tiles as boxes would bring, after a call that they did bring."""
    module = modules(device)
    for k in (0, 8, 0) if device == "cuda" else (0,):
        a, b = np.ones((2048, k), np.float16), lying(np.ones((k, 2048), np.float16), b_t)
        c = np.full((2048, 2048), np.nan, np.float16)
        module.matmul(c, a, b)
        assert (c == k).all()
