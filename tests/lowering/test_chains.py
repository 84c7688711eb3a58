"""Long chains of elementwise operations on many registers: a few registers at a time, the same values."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sample_variants import Case, cases

from dsl.lowering.emit import emit
from dsl.lowering.emit.codegen import llvm_level_for, to_ptx
from dsl.lowering.passes import run_passes
from dsl.runtime.errors import DeviceError
from dsl.runtime.tools import assemble, find
from tests.compile_and_run import run

FUSED = [c for c in cases() if (c.kernel, c.schedule) == ("product", "mma_sync") and "fused" in dict(c.dims)]


@pytest.mark.long
@pytest.mark.parametrize("case", FUSED, ids=str)
def test_an_exact_gelu_behind_a_product_does_not_spill(case: Case) -> None:
    """Operation by operation it spilled 388 bytes behind f16, 384 behind bytes."""
    try:
        find("ptxas")
    except DeviceError as error:
        pytest.skip(str(error))
    spills = []
    for each in (case, dataclasses.replace(case, constants=(("ACT", "gelu"),))):
        variant = each.build()
        run_passes(variant.function, variant.target)
        text, needs = emit(variant.function, variant.target)
        figures = assemble(to_ptx(text, variant.target, needs, llvm_level_for(variant.function)), "sm_90", case.kernel)
        spills.append(figures.spill_stores + figures.spill_loads)
    assert spills[1] <= spills[0], figures.log  # what the product spills by itself
    assert spills[0] <= 24  # 16, and 24 with LLVM of llvmlite 0.48


@pytest.mark.parametrize("dtype", ["f32", "f16", "f64", "s32"])
@pytest.mark.parametrize("inner", ["", "w = w + load(b[0 : N])[None, :]\n", "s = sum(w, axis=1)[:, None]\nw = w - s\n"])
def test_chains_of_many_registers_mean_what_numpy_says(dtype: str, inner: str) -> None:
    """Six values at once of 128 registers each, with what is no part of a chain in the middle of it."""
    columns = 32 if dtype == "f64" else 64
    lines = "v = load(x[0 : 64, 0 : N])\na = v + 1\nb2 = a * v\nc = b2 - a\nd = maximum(c, v)\n"
    lines += "w = a + b2 * c - d * v\n" + inner
    lines += "e = w * a\nf = minimum(e, c)\nr = where(f > d, e + b2, f - c) + w\nstore(y[0 : 64, 0 : N], r)"
    text = f"""
kernel k(y: {dtype}[64, {columns}], x: {dtype}[64, {columns}], b: {dtype}[{columns}]; N = {columns}):
    grid 1
{chr(10).join("    " + line for line in lines.splitlines())}

schedule s of k:
    warps = 1
    contract off
"""
    kind = {"f32": np.float32, "f16": np.float16, "f64": np.float64, "s32": np.int32}[dtype]
    x = (np.arange(64 * columns) * 37 % 5 - 2).reshape(64, columns).astype(kind)
    bias, y = (np.arange(columns) % 3).astype(kind), np.zeros((64, columns), kind)
    run(text, {"y": y, "x": x, "b": bias})
    v = x
    a = v + kind(1)
    b2 = a * v
    c = b2 - a
    d = np.maximum(c, v)
    w = a + b2 * c - d * v
    if "load" in inner:
        w = w + bias
    elif inner:
        w = w - w.sum(1, dtype=kind)[:, None]
    e = w * a
    f = np.minimum(e, c)
    assert np.array_equal(y, np.where(f > d, e + b2, f - c) + w)
