"""benchmarks/attention.py and benchmarks/directives.py without a GPU: what they call, and what each line becomes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import dsl

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))  # as for the scripts there

from attention import ATTENTION, OPERATIONS, SAMPLE
from directives import CASES, LINES, SAMPLES, Line, launch_of, variant

SHAPE = {"tokens": 128, "heads": 2, "keys": 64}


@pytest.mark.long
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_attention_of_its_heads(name: str) -> None:
    operation = OPERATIONS[name]
    o, q, k, v, scale, lse = operation.host_arguments(SHAPE, "f16")
    assert q.shape == (2, 2, 64, operation.d) and lse is None
    call = operation.call("f16")
    getattr(dsl.load(SAMPLE, device="emulator"), call.dispatch)(o, q, k, v, scale, lse, **call.constants)
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    x = scale * q @ k.swapaxes(2, 3)
    if operation.causal:
        x[:, :, *np.triu_indices(64, 1)] = -np.inf
    p = np.exp(x - x.max(-1, keepdims=True))
    wanted = p / p.sum(-1, keepdims=True) @ v
    assert (np.abs(o - wanted) <= 2**-11 * (1 + np.abs(wanted))).all()


def test_shapes_that_are_counted_are_small() -> None:
    assert ATTENTION.counted({"tokens": 16384, "heads": 16, "keys": 16384})["keys"] <= 256


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.case}: {line.changed}")
def test_each_line_makes_a_schedule_of_its_sample(line: Line, tmp_path: Path) -> None:
    """A case that there is, whose schedule has all that it had but for the line."""
    case = CASES[line.case]
    for each in SAMPLES.glob("*.tile"):
        (tmp_path / each.name).write_text(each.read_text())
    module = dsl.load(variant(tmp_path, case.file, line), device="emulator")
    assert case.dispatch in module.program.dispatches
    names = [name for kernel in module.program.kernels for name in module.program.schedules_of(kernel)]
    made = {line.schedule, f"{line.schedule}_as_it_is"}
    assert made <= {*names} or f"{line.schedule}_changed" in names  # of the sample, or a part


def test_a_changed_line_computes_the_same() -> None:
    """And is what the dispatch takes: four warps a row in place of eight."""
    case = CASES["layer_norm 8192"]
    x = np.random.default_rng(0).standard_normal((2, 8192)).astype(np.float16)
    weight, results = np.ones(8192, np.float16), []
    for line in (None, Line("layer_norm 8192", "row_block", "warps = 8", "warps = 4")):
        y = np.zeros_like(x)
        launch_of(case, line, [y, x, 1e-5, weight, weight, None, None])()
        results.append(y)
    assert np.abs(results[0].astype(np.float32) - results[1]).max() <= 2**-9 and results[0].any()
