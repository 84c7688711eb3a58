"""Attention in Triton, with online softmax, tuned for every shape, and confined to `mma.sync`.

As in triton_matmul.py, Triton plans for an A100 and assembles for the actual device. So the kernel uses `mma.sync` and
`cp.async`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from harness import LeftOut

from peers.triton_race import compile_ahead, fastest


@triton.jit
def rounds(
    acc, total, top, qs, k, v, start, stop, row, keys, power,
    D: tl.constexpr, BN: tl.constexpr, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Processes the keys from start to stop. With MASKED, keys beyond the end are masked. With CAUSAL, keys after a
    row's own position are masked, too."""
    depth = tl.arange(0, D)
    for j in range(start, stop, BN):
        col = j + tl.arange(0, BN)
        if MASKED:
            ks = tl.load(k + col[None, :] * D + depth[:, None], col[None, :] < keys, other=0.0)
        else:
            ks = tl.load(k + col[None, :] * D + depth[:, None])
        x = tl.dot(qs, ks)
        if MASKED:
            x = tl.where(col[None, :] < keys, x, float("-inf"))
            if CAUSAL:
                x = tl.where(col[None, :] <= row[:, None], x, float("-inf"))
        new = tl.maximum(top, tl.max(x, 1) * power)
        e = tl.math.exp2(x * power - new[:, None])
        shrink = tl.math.exp2(top - new)
        total = total * shrink + tl.sum(e, 1)
        if MASKED:
            vs = tl.load(v + col[:, None] * D + depth[None, :], col[:, None] < keys, other=0.0)
        else:
            vs = tl.load(v + col[:, None] * D + depth[None, :])
        acc = tl.dot(e.to(vs.dtype), vs, acc * shrink[:, None])
        top = new
    return acc, total, top


@triton.jit
def attend(o, q, k, v, scale, keys, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """Attention on o, q, k, v, each [batch · heads, keys, D] and contiguous. With CAUSAL, the longest blocks run
    first."""
    block, head = tl.program_id(0), tl.program_id(1)
    if CAUSAL:
        block = tl.num_programs(0) - 1 - block
    at = head.to(tl.int64) * keys * D
    row, depth = block * BM + tl.arange(0, BM), tl.arange(0, D)
    places = row[:, None] * D + depth[None, :]
    qs = tl.load(q + at + places, row[:, None] < keys, other=0.0)
    power = scale * 1.4426950408889634
    acc, total = tl.zeros((BM, D), tl.float32), tl.zeros((BM,), tl.float32)
    top = tl.full((BM,), -3e38, tl.float32)
    stop = tl.minimum(keys, (block + 1) * BM) if CAUSAL else keys
    whole = (block * BM if CAUSAL else keys) // BN * BN
    acc, total, top = rounds(acc, total, top, qs, k + at, v + at, 0, whole, row, keys, power, D, BN, False, CAUSAL)
    acc, total, top = rounds(acc, total, top, qs, k + at, v + at, whole, stop, row, keys, power, D, BN, True, CAUSAL)
    tl.store(o + at + places, (acc / total[:, None]).to(o.dtype.element_ty), row[:, None] < keys)


@dataclass(frozen=True, slots=True)
class Variant:
    """The properties that a compiled kernel depends on, besides its configuration."""

    d: int
    causal: bool
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Configuration:
    """Rows and keys of a block's tile."""

    bm: int
    bn: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.bm}x{self.bn} warps={self.warps} stages={self.stages}"

    def constants(self, variant: Variant) -> dict[str, Any]:
        """Keyword arguments of the kernel and its launch."""
        return {
            "D": variant.d,
            "BM": self.bm,
            "BN": self.bn,
            "CAUSAL": variant.causal,
            "num_warps": self.warps,
            "num_stages": self.stages,
            "arch": "sm80",
        }


CONFIGURATIONS = tuple(
    Configuration(bm, bn, warps, stages)
    for bm, warps in ((128, 4), (128, 8), (64, 4))
    for bn in (32, 64, 128)
    for stages in (2, 3)
)


def compile_one(variant: Variant, configuration: Configuration) -> Any:
    """Compiles a kernel into Triton's cache on disk, or loads it from the cache. Raises LeftOut if the kernel does not
    use mma.sync."""
    made, tensor = configuration.constants(variant), variant.dtype
    compiled = attend.warmup(tensor, tensor, tensor, tensor, 0.125, 4096, grid=(1,), **made)
    if "mma.sync" not in compiled.asm["ptx"] or re.search(r"\bwgmma\.mma_async", compiled.asm["ptx"]):
        raise LeftOut("Triton does not multiply by mma.sync")
    return compiled


def precompile(variants: Iterable[Variant], processes: int) -> None:
    """Compiles all configurations of all variants in several processes, since each configuration takes seconds."""
    jobs = [(variant, configuration) for variant in dict.fromkeys(variants) for configuration in CONFIGURATIONS]
    compile_ahead(compile_one, jobs, processes)


def launch(variant: Variant, configuration: Configuration, arrays: tuple[Any, ...], scale: float) -> Callable[[], Any]:
    """A launch of one configuration on (o, q, k, v), each [batch, heads, keys, d]."""
    o = arrays[0]
    keys, constants = o.shape[2], configuration.constants(variant)
    prepared = attend[(-(-keys // configuration.bm), o.shape[0] * o.shape[1])]
    return lambda: prepared(*arrays, scale, keys, **constants)


def tuned(
    variant: Variant, arrays: tuple[Any, ...], scale: float, is_right: Callable[[Callable[[], Any]], bool], rest: float
) -> tuple[Callable[[], Any], str]:
    """The launch and a description of the fastest configuration with right results. All configurations run in a short
    race, then the best ones in a second race."""

    def prepare(configuration: Configuration) -> Callable[[], Any]:
        compile_one(variant, configuration)
        return launch(variant, configuration, arrays, scale)

    return fastest(CONFIGURATIONS, prepare, is_right, rest)
