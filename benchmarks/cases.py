"""One call of a sample beside its peers, and what random calls are made of."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Call

import dsl

ROOT = Path(__file__).resolve().parent
SAMPLES = ROOT.parent / "samples"
CUDA = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "s8": "int8", "s32": "int32", "e4m3": "float8_e4m3fn"}
ROUNDING = {"f16": 4e-3, "bf16": 3e-2, "f32": 1e-4}
"""The error that a result may have, as a share of its largest number (`close`)."""


@dataclass(slots=True)
class Case:
    """One call of ours, launches of peers, and the bytes that it must move. The first peer is the one to beat.

    `right` tells whether the latest launch of ours gave the right result.
    """

    name: str
    dtype: str
    shape: dict[str, int]
    moves: int
    peers: dict[str, Callable[[], object]]
    right: Callable[[], bool]
    file: dsl.Module
    call: Call
    arguments: tuple[Any, ...]

    @property
    def function(self) -> Any:
        return getattr(self.file, self.call.dispatch)

    def ours(self) -> None:
        self.function(*self.arguments, **self.call.constants)


def log_uniform(source: random.Random, least: float, most: float) -> float:
    return math.exp(source.uniform(math.log(least), math.log(max(least, most))))


def numbers(dtype: str, *extents: int) -> Any:
    import torch

    kind = getattr(torch, CUDA[dtype])
    if dtype in ("s8", "s32"):
        return torch.randint(-100, 100, extents, device="cuda", dtype=kind)
    return torch.randn(*extents, device="cuda", dtype=torch.float32 if dtype == "e4m3" else kind).to(kind)


def close(found: Any, wanted: Any, share: float) -> bool:
    """Whether all errors are at most this share of the largest wanted number. NaN is never close."""
    wanted = wanted.double()
    error = (found.double() - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30)
    return bool(error <= share)
