"""samples/layer_norm.tile: gradients that pass over rows once, and sum those of weight and bias meanwhile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dsl.values.facts import ArrayFacts
from tests.compile_and_run import NUMPY
from tests.run_examples import module_of

SAMPLE = Path(__file__).parents[2] / "samples" / "layer_norm.tile"
CALLS = {
    "odd rows, two warps": ("f32", 30, 1001, "loop", {"LANES": 64}),
    "odd rows, two blocks": ("bf16", 41, 333, "loop", {"LANES": 512}),
    "eight blocks": ("f16", 6, 8192, "loop", {"LANES": 2048}),
    "weights in registers": ("f32", 9, 640, "loop", {}),
    "more rows than turns of an exchange": ("f32", 90, 1024, "loop", {"LANES": 512}),
    "several rows at once": ("f16", 131, 66, "loop", {}),
    "short rows": ("f32", 300, 22, "short", {}),
    "a row": ("f16", 1, 640, "loop", {}),
}


@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
def test_one_pass(name: str, device: str) -> None:
    type, rows, cols, schedule, constants = CALLS[name]
    random, blocks = np.random.default_rng(cols), 4
    x, dy = ((random.standard_normal((rows, cols)) + shift).astype(NUMPY[type]) for shift in (2, 0))
    weight = random.standard_normal(cols).astype(NUMPY[type])
    wide = x.astype(np.float64)
    mean, rstd = wide.mean(1), 1.0 / np.sqrt(wide.var(1) + 1e-5)
    p, q, dx = np.zeros((blocks, cols), np.float32), np.zeros((blocks, cols), np.float32), np.zeros_like(x)
    module = module_of(SAMPLE, device, "sm_90a" if device == "emulator" else None)
    kernel = module.compile("with_sums", schedule=schedule, T=type, cols=cols, blocks=blocks, **constants)
    kernel(dx, p, q, dy, x, weight, mean.astype(np.float32), rstd.astype(np.float32))
    n, d = (wide - mean[:, None]) * rstd[:, None], dy.astype(np.float64)
    g = d * weight.astype(np.float64)
    want = (g - g.mean(1, keepdims=True) - n * (g * n).mean(1, keepdims=True)) * rstd[:, None]
    close = {"f32": 1e-5, "f16": 2e-3, "bf16": 2e-2}[type]
    np.testing.assert_allclose(dx.astype(np.float64), want, rtol=close, atol=close)
    np.testing.assert_allclose(p.sum(0), (d * n).sum(0), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(q.sum(0), d.sum(0), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("rows", "cols", "arch", "kernel", "blocks"),
    [
        (500, 1000, "sm_90a", "gradient", None),
        (4000, 1000, "sm_90a", "with_sums", 264),
        (90000, 100, "sm_90a", "with_sums", 528),
        (4000, 9001, "sm_90a", "with_sums", 132),
        (4000, 9001, "sm_80", "gradient", None),
        (4000, 73728, "sm_90a", "with_sums", 14),
        (4000, 147456, "sm_90a", "with_sums", 14),
        (4000, 147457, "sm_90a", "gradient", None),
        (900001, 33, "sm_90a", "gradient", None),
        (900001, 34, "sm_90a", "with_sums", 1056),
    ],
)
def test_which_way_a_call_takes(rows: int, cols: int, arch: str, kernel: str, blocks: int | None) -> None:
    module = module_of(SAMPLE, "emulator", arch)
    x, w, of_row = ArrayFacts((rows, cols), "f16"), ArrayFacts((cols,), "f16"), ArrayFacts((rows,), "f32")
    given = {"dx": x, "dy": x, "x": x, "mean": of_row, "rstd": of_row, "weight": w, "w": w, "b": w}
    step = module.layer_norm_backward.planner(given).plan().steps[0]
    assert step.request.kernel == kernel
    assert step.request.dims.get("blocks") == blocks


@pytest.mark.parametrize("arch", ["sm_90a", "sm_120"])
@pytest.mark.parametrize(("type", "cols"), [("bf16", 36864), ("f16", 73727), ("f16", 131072), ("f32", 36864)])
def test_stages_of_long_rows_fit_in_shared_memory(type: str, cols: int, arch: str) -> None:
    """A block of sm_120 has 99 KiB: calls of its long rows were refused."""
    module = module_of(SAMPLE, "emulator", arch)
    x, w, of_row = ArrayFacts((4000, cols), type), ArrayFacts((cols,), type), ArrayFacts((4000,), "f32")
    given = {"dx": x, "dy": x, "x": x, "mean": of_row, "rstd": of_row, "weight": w, "w": w, "b": w}
    steps = module.layer_norm_backward.planner(given).plan().steps
    assert steps[0].request.kernel == "with_sums" and steps[0].request.dims["blocks"] > 0
    for step in steps:
        module.built(step.request)
