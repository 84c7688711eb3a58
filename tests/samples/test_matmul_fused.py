"""Products with bias, activation, residual and scales, on the emulator and on a GPU."""

from math import sqrt
from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.values.element_types import narrow, widen
from lowering.types import DTYPES

SAMPLE = Path(__file__).parents[2] / "samples" / "matmul_fused.tile"
BOUND = {"f16": 4e-3, "bf16": 3e-2, "f32": 5e-3}
"""Of the result's rounding, of tf32's and of approximate activations: relative to sqrt(k)."""
ALONE = {"shares", "arrived"}
"""What is absent where no block shares a tile."""
ACTIVATIONS = {
    "identity": lambda v: v,
    "relu": lambda v: np.maximum(v, 0),
    "fast_gelu": lambda v: v / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))),
    "fast_silu": lambda v: v / (1 + np.exp(-v)),
    "silu": lambda v: v / (1 + np.exp(-v)),
}


@pytest.fixture(scope="module")
def modules() -> dict[str, dsl.Module]:
    return {}


def normal(random: np.random.Generator, dtype: str, *extents: int) -> np.ndarray:
    return narrow(random.standard_normal(extents), DTYPES[dtype])


CASES = [
    ("identity", (1, 1, 1), True, True, False),
    ("relu", (65, 72, 200), True, True, True),
    ("fast_gelu", (63, 65, 31), False, True, False),
    ("fast_silu", (64, 64, 128), True, False, True),
    ("silu", (128, 192, 64), False, False, True),
]
"""Activation, m × n × k, whether there are a bias and a residual, whether b is transposed."""


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize(("act", "shape", "with_bias", "with_residual", "b_t"), CASES)
def test_floats(modules, device, act, shape, with_bias, with_residual, b_t, dtype):
    module = modules.setdefault(device, dsl.load(SAMPLE, device=device))
    (m, n, k), random = shape, np.random.default_rng(sum(shape))
    a, b, bias, residual = (normal(random, dtype, *e) for e in ((m, k), (k, n), (n,), (m, n)))
    right = np.ascontiguousarray(b.T) if b_t else b
    c = narrow(np.full((m, n), np.nan), DTYPES[dtype])
    module.linear(c, a, right, bias if with_bias else None, residual if with_residual else None, ACT=act, B_T=b_t)
    wanted = ACTIVATIONS[act](widen(a) @ widen(b) + widen(bias) * with_bias) + widen(residual) * with_residual
    assert np.abs(widen(c) - wanted).max() <= BOUND[dtype] * max(sqrt(k), 2)


@pytest.mark.parametrize(("act", "shape", "with_bias", "with_residual", "b_t"), CASES[:3])
def test_bytes_are_rounded_as_the_same_steps_in_f32(modules, device, act, shape, with_bias, with_residual, b_t):
    """Sums of bytes are exact in f32 here; each step after them is rounded to f32, the last to even and saturated."""
    module = modules.setdefault(device, dsl.load(SAMPLE, device=device))
    (m, n, k), random = shape, np.random.default_rng(sum(shape))
    a, b, residual = (random.integers(-128, 128, e, np.int8) for e in ((m, k), (n, k), (m, n)))
    scale, bias = (np.float32(s) * random.standard_normal(n).astype(np.float32) for s in (2**-12, 4.0))
    c, act = np.full((m, n), -77, np.int8), act.replace("fast_gelu", "relu")
    given = (bias if with_bias else None, residual if with_residual else None)
    module.linear_s8(c, a, b if b_t else np.ascontiguousarray(b.T), scale, *given, 0.37, ACT=act, B_T=b_t)
    wanted = (widen(a) @ widen(b).T).astype(np.float32) * scale
    if with_bias:
        wanted = wanted + bias
    if act == "relu":
        wanted = np.maximum(wanted, 0)
    if with_residual:
        wanted = wanted + residual.astype(np.float32) * np.float32(0.37)
    assert np.array_equal(c, np.rint(wanted).clip(-128, 127))


@pytest.mark.parametrize("dtype", ["f16", "s8"])
@pytest.mark.parametrize(("schedule", "shape"), [("wide", (128, 512)), ("square", (128, 256)), ("wave", (64, 128))])
def test_b_along_k_leaves_by_whole_vectors(modules, schedule, shape, dtype):
    """No bank conflicts, and each sector of global memory once for each block that needs it."""
    module = modules.setdefault("emulator", dsl.load(SAMPLE, device="emulator"))
    (m, n), k, random = shape, 256, np.random.default_rng(0)
    dims = {"m": m, "n": n, "a0": m, "a1": k, "b0": n, "b1": k}
    if dtype == "s8":
        arrays = [random.integers(-128, 128, e, np.int8) for e in ((m, n), (m, k), (n, k))]
        more = [np.ones(n, np.float32), np.ones(n, np.float32), arrays[0].copy(), 1.0]
        kernel = module.compile("linear_bytes", schedule, absent=ALONE, **dims, ACT="relu")
    else:
        arrays = [normal(random, dtype, *e) for e in ((m, n), (m, k), (n, k))]
        more = [arrays[0][0].copy(), arrays[0].copy()]
        kernel = module.compile("matmul_tensor", schedule, absent=ALONE, **dims, T=dtype, ACT="relu", B_T=True)
    counters = kernel.run(*arrays, *more, None, None, counters=True).counters.totals
    assert counters.bank_conflicts == 0
    halves = 512 if (schedule, dtype) == ("wave", "s8") else 0  # a warp's 16 columns of bytes are half a sector
    assert counters.global_load_sectors + counters.global_store_sectors == counters.global_ideal_sectors + halves
