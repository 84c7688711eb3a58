"""benchmarks/matmul_kinds.py without a GPU: what the emulator counts is the product that is measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.values.element_types import widen

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))  # as for the scripts there

from matmul_kinds import BENCHMARKS

SHAPES = {
    "grouped": {"m": 40, "n": 72, "k": 64, "g": 3},
    "scaled": {"m": 40, "n": 128, "k": 256},
    "w4": {"m": 16, "n": 64, "k": 128},
}


def wanted(name: str, c: Any, a: Any, b: Any, last: Any, more: Any = None) -> Any:
    """In float64. Scales are one."""
    a = widen(a).astype(np.float64)
    if name == "grouped":
        parts, start = [], 0
        for matrix, end in zip(widen(b), last, strict=True):
            parts.append(a[start:end] @ matrix.T)
            start = end
        return np.concatenate(parts)
    if name == "w4":
        b = np.stack((b & 15, b >> 4), 2).reshape(len(b), -1).astype(np.float64) - 8
    return a @ widen(b).astype(np.float64).T


@pytest.mark.parametrize("name", BENCHMARKS)
def test_what_is_counted_is_the_product(name: str) -> None:
    benchmark, shape = BENCHMARKS[name], SHAPES[name]
    (operation,) = benchmark.operations.values()
    arrays = operation.host_arguments(shape, benchmark.types[0])
    call = operation.call(benchmark.types[0])
    getattr(dsl.load(benchmark.samples[0], device="emulator"), call.dispatch)(*arrays, **call.constants)
    expected = wanted(name, *arrays)
    assert (np.abs(widen(arrays[0])[: len(expected)] - expected) <= 2**-7 * (1 + np.abs(expected).max())).all()


def test_the_command_counts_small_shapes() -> None:
    for benchmark in BENCHMARKS.values():
        shape = {**benchmark.fixed, benchmark.key: benchmark.extents[-1]}
        assert benchmark.counted(shape)["k"] <= 256
