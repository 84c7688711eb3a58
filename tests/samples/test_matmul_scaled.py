"""Products of eight-bit floats with scales by blocks, on the emulator and on a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dsl.lowering.ir.types import DTYPES
from dsl.runtime import device_facts
from dsl.values.element_types import narrow, widen
from tests.run_examples import module_of

SAMPLE = Path(__file__).parents[2] / "samples" / "matmul_scaled.tile"


@pytest.mark.long
@pytest.mark.parametrize(("schedule", "out"), [("tile", "f16"), ("tma", "bf16"), ("tma", "f32")])
@pytest.mark.parametrize("dtype", ["e4m3", "e5m2"])
@pytest.mark.parametrize("shape", [(132, 200, 256), (4, 128, 128), (256, 130, 896)])
def test_products_are_numpys(device, schedule, out, dtype, shape):
    """Edges along m and n; as many iterations as stages and more; the bound is the result's rounding."""
    if schedule == "tma" and device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    m, n, k = shape
    random = np.random.default_rng(m + n + k)
    a, b = (narrow(random.standard_normal((rows, k)), DTYPES[dtype]) for rows in (m, n))
    sa = (random.random((k // 128, m)) + 0.5).astype(np.float32)
    sb = (random.random((-(-n // 128), k // 128)) + 0.5).astype(np.float32)
    c = narrow(np.full((m, n), np.nan), DTYPES[out])
    module = module_of(SAMPLE, device)
    module.by_blocks(c, a, b, sa, sb, schedule=schedule)
    x = widen(a).astype(np.float64) * np.repeat(sa.T, 128, 1)
    y = widen(b).astype(np.float64) * np.repeat(np.repeat(sb, 128, 0)[:n], 128, 1)
    wanted, most = x @ y.T, np.abs(x) @ np.abs(y).T
    unit = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-22}[out]
    assert (np.abs(widen(c) - wanted) <= unit * np.abs(wanted) + 2.0**-12 * most).all()


def test_no_product_is_zeros(device):
    """Of many tiles, which boxes would bring: an array without elements has no tensor map."""
    a, sa = narrow(np.zeros((2048, 0)), DTYPES["e4m3"]), np.zeros((0, 2048), np.float32)
    c, sb = np.full((2048, 2048), np.nan, np.float32), np.zeros((16, 0), np.float32)
    module_of(SAMPLE, device).matmul_scaled(c, a, a, sa, sb)
    assert not c.any()
