"""The shared parts of the softmax benchmarks: types, bounds, and the error of a result against float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from harness import LeftOut, Shape

BOUNDS = {"f16": 1e-3, "bf16": 4e-3, "f32": 1e-6}
"""Bounds of the error. The error of f32 is relative to the row's largest value.

The error of f16 and bf16 is absolute if the row's largest value is at most 1. Otherwise it is relative to this value.
"""
NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
CHECKED_ROWS = 128
COUNTED_ELEMENTS = 1 << 18


def torch_type(dtype: str) -> Any:
    import torch

    return getattr(torch, NAMES[dtype])


def numpy_type(dtype: str) -> Any:
    """The type of numpy, or of ml_dtypes for bf16. Raises LeftOut without ml_dtypes."""
    if dtype != "bf16":
        return np.dtype(NAMES[dtype])
    try:
        import ml_dtypes
    except ImportError:
        raise LeftOut("bf16 arrays on the host need ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)


def fewer_rows(shape: Shape) -> Shape:
    """A shape with as many rows as the emulator counts in about a second, but at least 16.

    If rows begin at any address, 16 rows begin equally often at each position in a sector of memory.
    """
    return shape | {"rows": max(16, min(256, COUNTED_ELEMENTS // shape["cols"]))}


def checked_parts(rows: int) -> list[slice]:
    """Rows at the start, in the middle and at the end."""
    return [slice(start, start + CHECKED_ROWS) for start in (0, rows // 2, max(0, rows - CHECKED_ROWS))]


def sampled_error(out: Any, inputs: Sequence[Any], reference: Callable[..., Any], dtype: str) -> float:
    """The greatest error of some rows against their reference in float64, or infinity for NaN."""
    worst = 0.0
    for part in checked_parts(len(out)):
        wanted = reference(*(array[part].double() for array in inputs))
        scale = wanted.abs().amax(1, keepdim=True)
        if dtype != "f32":
            scale = scale.clamp(min=1.0)
        error = float(((out[part].double() - wanted).abs() / scale).max())
        worst = max(worst, error if error == error else float("inf"))
    return worst
