"""e4m3 and e5m2 in memory: conversions against ml_dtypes, arrays, products in every order of the operands."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import dsl
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES
from dsl.lowering.machine.formats import fp8_values, to_fp8
from dsl.runtime.errors import LaunchError

SAMPLE = Path(__file__).parents[2] / "samples" / "matmul.tile"
NUMPY = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
}  # fmt: skip
FP8 = ("e4m3", "e5m2")
CONVERT = """
kernel convert(y: R[n], x: T[n]; T in f16|bf16|f32|e4m3|e5m2, R in f16|bf16|f32|e4m3|e5m2):
    grid cdiv(n, 256)
    i = block(0) * 256
    v = load(x[i : i + 256], other=1.5).to(R)
    y[i : i + 256] = v

schedule eight of convert:
    warps = 1
    layout v: vector [8], lanes [32], warps [1]
"""


@pytest.fixture(scope="module")
def modules() -> Callable[..., dsl.Module]:
    """`CONVERT` or the sample on a device: read once."""

    def module(device: str, sample: bool) -> dsl.Module:
        return dsl.load(SAMPLE, device=device) if sample else dsl.parse(CONVERT, device=device)

    return cache(module)


def nearest(values: np.ndarray, dtype: str) -> np.ndarray:
    """Of float64, in the 8 bits of `dtype`, saturating: ml_dtypes rounds the rest to nearest even."""
    largest = float(ml_dtypes.finfo(NUMPY[dtype]).max)
    with np.errstate(invalid="ignore"):
        return np.clip(values, -largest, largest).astype(NUMPY[dtype])


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit, but for the bits of NaN."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a) | np.isnan(a), np.signbit(b) | np.isnan(b)
    )


@pytest.mark.parametrize("dtype", FP8)
def test_the_hosts_values_and_roundings_are_those_of_ml_dtypes(dtype: str) -> None:
    every = np.arange(256, dtype=np.uint8)
    assert same(fp8_values(dtype), every.view(NUMPY[dtype]))
    finite = np.sort(fp8_values(dtype)[np.isfinite(fp8_values(dtype))])
    ties = (finite[1:] + finite[:-1]) / 2
    ties = ties.astype(np.float32)  # ml_dtypes rounds f64 to f32 first
    near = [np.nextafter(ties, np.float32(limit)) for limit in (-np.inf, np.inf)]
    near += [ties, finite, [1e9, -np.inf, np.inf, np.nan]]
    values = np.concatenate(near).astype(np.float64)
    assert same(to_fp8(values, DTYPES[dtype]).view(NUMPY[dtype]), nearest(values, dtype))


@pytest.mark.parametrize(
    ("source", "to"), [(a, b) for a, b in product(NUMPY, repeat=2) if a != b and {a, b} & set(FP8)]
)
def test_conversions_of_every_value_of_8_and_16_bits(modules, device: str, source: str, to: str) -> None:
    module = modules(device, sample=False)
    if source == "f32":  # every f16, and its neighbours among f32
        halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
        with np.errstate(invalid="ignore"):
            x = np.concatenate([halves, *(np.nextafter(halves, np.float32(limit)) for limit in (0, np.inf))])
    else:
        bits = 8 * np.dtype(NUMPY[source]).itemsize
        x = np.arange(1 << bits, dtype=f"u{bits // 8}").view(NUMPY[source])
    y = np.zeros(x.size, NUMPY[to])
    module.convert(y, x)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float64)
    assert same(y, nearest(wide, to) if to in FP8 else wide.astype(np.float32).astype(NUMPY[to]))


@pytest.mark.parametrize("dtype", FP8)
@pytest.mark.parametrize("shape", [(1, 1, 1), (63, 65, 31), (64, 128, 256)])
def test_products_in_every_order(modules, device: str, dtype: str, shape: tuple[int, int, int]) -> None:
    module = modules(device, sample=True)
    (m, n, k), random = shape, np.random.default_rng(sum(shape))
    a, b = (random.standard_normal(e).astype(NUMPY[dtype]) for e in ((m, k), (k, n)))
    wanted = 0.25 * (a.astype(np.float64) @ b.astype(np.float64))
    scale = np.full(n, 0.25, np.float32)
    for a_t, b_t in product((False, True), repeat=2):
        left, right = (np.ascontiguousarray(x.T).T if t else x for x, t in ((a, a_t), (b, b_t)))
        c = np.full((m, n), np.nan, np.float32)
        module.linear(c, left, right, scale, None, None, 1.0)
        assert np.abs(c - wanted).max() <= 2e-3 * k**0.5, (a_t, b_t)


def test_copies_leave_the_zeros_that_masked_rows_are_filled_with() -> None:
    """A literal of 8 bits is a conversion: they were put in again, byte by byte, in 37 microseconds of 28."""
    a, b = np.ones((1, 256), NUMPY["e4m3"]), np.ones((64, 256), NUMPY["e4m3"])
    function = dsl.load(SAMPLE, device="emulator").matmul
    given, rest = function.order((np.zeros((1, 64), np.float32), a, b.T), {"schedule": "mma_sync"})
    (kernel,) = function.plan_for(given, rest).kernels
    assert "ldmatrix" in kernel.ir and not re.search(r" = select\(.*\) : (?!index)", kernel.ir)


def test_four_at_once_take_two_conversions() -> None:
    kernel = dsl.parse(CONVERT, device="emulator").compile("convert", T="f32", R="e4m3", n=512)
    assert kernel.ptx.count("cvt.rn.satfinite.e4m3x2.f32") == 4 and "st.global.v2.b32" in kernel.ptx


def test_targets_before_sm_89_neither_convert_nor_multiply_them() -> None:
    module = dsl.parse(CONVERT, device="emulator")
    with pytest.raises(TileError, match=r"sm_86 has no .* it needs sm_89") as caught:
        module.compile("convert", n=256, T="f32", R="e4m3", arch="sm_86")
    assert caught.value.code == "target"
    with pytest.raises(TileError, match="sm_80 has no tensor-core product of e4m3"):
        absent = {"scale", "bias", "residual"}
        dsl.load(SAMPLE, device="emulator").compile(
            "product", "mma_sync", m=64, n=64, k=64, T="e4m3", absent=absent, arch="sm_80"
        )


def test_a_field_of_bits_is_an_array_of_them() -> None:
    module = dsl.parse(CONVERT, device="emulator")
    x = np.arange(256, dtype=np.uint8).view([("e5m2", np.uint8)])
    y = np.zeros(256, np.float32)
    module.convert(y, x)
    assert same(y, fp8_values("e5m2"))
    with pytest.raises(LaunchError, match="void8"):
        module.convert(y, np.arange(256, dtype=np.uint8).view([("other", np.uint8)]))


@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
def test_arrays_of_them_are_copied_before_sm_89(dtype: str) -> None:
    """What a mask fills with was a zero of f32, converted at run time."""
    text = f"kernel k(y: {dtype}[n], x: {dtype}[n]; B = 64):\n    grid cdiv(n, B)\n    i = block(0) * B\n"
    module = dsl.parse(f"{text}    y[i : i + B] = x[i : i + B]\n", device="emulator", arch="sm_80")
    x = (np.arange(100) - 50.0).astype(NUMPY[dtype])
    y = np.full(100, 7.0).astype(NUMPY[dtype])
    module.k(y, x)
    assert y.tobytes() == x.tobytes() and f"cvt.rn.satfinite.{dtype}" not in module.compile("k").ptx
