"""Products with weights of four bits, on the emulator and on a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dsl.lowering.ir.types import DTYPES
from dsl.runtime import device_facts
from dsl.values.element_types import narrow, widen
from tests.run_examples import module_of

SAMPLE = Path(__file__).parents[2] / "samples" / "matmul_w4.tile"


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["tile", "tma"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("shape", [(1, 64, 256), (40, 136, 1024), (130, 200, 384)])
def test_products_are_numpys(device, schedule, dtype, shape):
    """Weights times scales are rounded to the type, sums are f32: the bound is twice the type's unit of the sum of
    magnitudes, and of the result."""
    if schedule == "tma" and device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    m, n, k = shape
    random = np.random.default_rng(m + n + k)
    x, scale = (narrow(random.standard_normal(each), DTYPES[dtype]) for each in ((m, k), (k // 128, n)))
    w = random.integers(0, 256, (n, k // 2)).astype(np.uint8)
    c = narrow(np.full((m, n), np.nan), DTYPES[dtype])
    module_of(SAMPLE, device).quantised(c, x, w, scale, schedule=schedule)
    fours = np.stack([w & 15, w >> 4], 2).reshape(n, k).astype(np.float64) - 8
    weights = fours * np.repeat(widen(scale).T.astype(np.float64), 128, 1)
    wanted, most = widen(x) @ weights.T, np.abs(widen(x)) @ np.abs(weights).T
    assert (np.abs(widen(c) - wanted) <= {"f16": 2.0**-10, "bf16": 2.0**-7}[dtype] * (np.abs(wanted) + most)).all()


@pytest.mark.parametrize(("m", "n"), [(1, 64), (300, 512)])
def test_no_product_is_zeros(device, m, n):
    """It was refused: no block had an iteration, and an array without elements has no tensor map."""
    c = np.full((m, n), np.nan, np.float16)
    w = np.zeros((n, 0), np.uint8)
    module_of(SAMPLE, device).matmul_w4(c, np.zeros((m, 0), np.float16), w, np.zeros((0, n), np.float16))
    assert not c.any()


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_90"])
def test_weights_are_loaded_without_masks(arch):
    """The 64 single bytes of a thread would each be compared with the end of a row, in an iteration."""
    module = module_of(SAMPLE, "emulator", arch)
    ptx = module.compile("quantised", schedule="tile", T="f16", m=512, n=512, k=1024, kh=512, groups=8).ptx
    loads = [line for line in ptx.splitlines() if "ld.global.b8" in line]
    assert len(loads) >= 64 and not any("@" in line for line in loads)
    assert ptx.count("setp") < 32
