"""Sums in f32 of sources of 16 bits (PTX ISA 8.6, sm_100): what LLVM makes of `v.to(f32) + w` for that target."""

from __future__ import annotations

import numpy as np
import pytest

import dsl
from dsl.lowering.ir.targets import target
from tests.compile_and_run import NUMPY


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_narrow_sources_are_widened(dtype: str) -> None:
    text = f"""
kernel k(a: f32[128], b: f32[128], c: f32[128], x: {dtype}[128], w: f32[128]):
    grid 1
    v = load(x[0 : 128])
    r = load(w[0 : 128])
    store(a[0 : 128], v.to(f32) + r)
    store(b[0 : 128], v.to(f32) - r)
    store(c[0 : 128], fma(v.to(f32), v.to(f32), r))
"""
    random = np.random.default_rng(3)
    x = random.standard_normal(128).astype(NUMPY[dtype])
    x[:3] = [np.nan, np.inf, -0.0]
    w = random.standard_normal(128).astype(np.float32) * 1000
    args = {name: np.zeros(128, np.float32) for name in "abc"} | {"x": x, "w": w}
    kernel = dsl.parse(text, device="emulator").compile("k", arch="sm_100")
    assert f"add.rn.f32.{dtype}" in kernel.ptx and f"sub.rn.f32.{dtype}" in kernel.ptx
    kernel.run(**args)
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(args["a"], wide + w)
    np.testing.assert_array_equal(args["b"], wide - w)
    exact = wide.astype(np.float64) ** 2 + w  # one rounding more: the square is exact, the sum nearly always
    np.testing.assert_allclose(args["c"], exact.astype(np.float32), rtol=2e-7)


@pytest.mark.parametrize(
    "arch",
    ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_120", "sm_120a", "sm_120f"],
)
def test_conversions_of_bf16_are_legal_where_llvm_writes_them(arch: str) -> None:
    """To f32 from sm_80 on; from f64 as one instruction from sm_90 on (ptxas says the same)."""
    text = """
kernel k(a: f32[128], b: bf16[128], c: f64[128], x: bf16[128], w: f64[128]):
    grid 1
    v = load(x[0 : 128])
    store(a[0 : 128], v.to(f32))
    store(b[0 : 128], load(w[0 : 128]).to(bf16))
    store(c[0 : 128], v.to(f64))
"""
    x, w = np.arange(-64, 64).astype(NUMPY["bf16"]), np.arange(-64, 64) * 1.5
    args = {"a": np.zeros(128, np.float32), "b": np.zeros_like(x), "c": np.zeros(128), "x": x, "w": w}
    kernel = dsl.parse(text, device="emulator").compile("k", arch=arch)
    assert ("cvt.rn.bf16.f64" in kernel.ptx) == (target(arch).number >= 90)
    kernel.run(**args)
    assert (args["a"] == x).all() and (args["b"] == w.astype(x.dtype)).all() and (args["c"] == x).all()
