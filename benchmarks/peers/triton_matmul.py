"""Products of matrices in Triton, in the form of its tutorial, tuned for every shape.

Triton multiplies by `wgmma` on sm_90. With the option `arch="sm80"` (for e4m3 "sm89"), Triton plans a kernel as for an
A100, whose tensor cores use `mma.sync` and whose copies are `cp.async`. Triton then assembles this kernel for the
actual device. So the kernel has the same instructions as our kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from harness import LeftOut

from peers.triton_race import compile_ahead, fastest

ARCHITECTURES = {"wgmma": ("sm90", "sm90"), "mma": ("sm80", "sm89")}
"""Instructions → the architecture for which Triton compiles, and the architecture for e4m3."""


@triton.jit
def product(
    c,
    a,
    b,
    m,
    n,
    k,
    B_T: tl.constexpr,
    WHOLE: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    SUMS: tl.constexpr,
):
    t, tm, tn = tl.program_id(0), tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = t // (GROUP * tn) * GROUP
    high = min(tm - first, GROUP)
    i = (first + t % (GROUP * tn) % high) * BM
    j = (t % (GROUP * tn) // high) * BN
    rows, cols, depth = (i + tl.arange(0, BM)) % m, (j + tl.arange(0, BN)) % n, tl.arange(0, BK)
    pa = a + rows[:, None] * k + depth[None, :]
    pb = b + (cols[None, :] * k + depth[:, None] if B_T else depth[:, None] * n + cols[None, :])
    acc = tl.zeros((BM, BN), SUMS)
    for p in range(0, k, BK):
        if WHOLE:
            acc = tl.dot(tl.load(pa), tl.load(pb), acc, out_dtype=SUMS)
        else:
            left = tl.load(pa, depth[None, :] < k - p, other=0)
            right = tl.load(pb, depth[:, None] < k - p, other=0)
            acc = tl.dot(left, right, acc, out_dtype=SUMS)
        pa += BK
        pb += BK if B_T else BK * n
    rows, cols = i + tl.arange(0, BM), j + tl.arange(0, BN)
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    tl.store(c + rows[:, None] * n + cols[None, :], acc.to(c.dtype.element_ty), inside)


@dataclass(frozen=True, slots=True)
class Variant:
    """The properties that a compiled kernel depends on, besides its configuration. `instructions` is a key of
    ARCHITECTURES."""

    instructions: str
    b_t: bool
    m: int
    n: int
    k: int
    dtype: torch.dtype
    result: torch.dtype


@dataclass(frozen=True, slots=True)
class Configuration:
    """Extents of a block's tile. `bk` is in bytes."""

    bm: int
    bn: int
    bk: int
    warps: int
    stages: int

    def __str__(self) -> str:
        return f"{self.bm}x{self.bn}x{self.bk}B warps={self.warps} stages={self.stages}"

    def constants(self, variant: Variant) -> dict[str, Any]:
        """Keyword arguments of the kernel and its launch."""
        bk = self.bk // variant.dtype.itemsize
        return {
            "B_T": variant.b_t,
            "WHOLE": variant.k % bk == 0,
            "BM": self.bm,
            "BN": self.bn,
            "BK": bk,
            "GROUP": 8,
            "SUMS": tl.float32 if variant.dtype.is_floating_point else tl.int32,
            "num_warps": self.warps,
            "num_stages": self.stages,
            "arch": ARCHITECTURES[variant.instructions][variant.dtype == torch.float8_e4m3fn],
        }


LARGE = (
    Configuration(128, 256, 128, 8, 3),
    Configuration(128, 256, 64, 8, 4),
    Configuration(256, 128, 128, 8, 3),
    Configuration(256, 128, 64, 8, 4),
    Configuration(128, 128, 128, 8, 3),
    Configuration(128, 128, 128, 4, 3),
    Configuration(128, 128, 64, 4, 4),
)
SMALL = (Configuration(128, 64, 128, 4, 4), Configuration(64, 64, 128, 4, 5), Configuration(64, 128, 128, 4, 4))
FLAT = (
    Configuration(16, 64, 256, 4, 5),
    Configuration(16, 128, 128, 4, 5),
    Configuration(32, 64, 256, 4, 4),
    Configuration(64, 32, 256, 4, 4),
)


def configurations(variant: Variant) -> Iterator[Configuration]:
    """All configurations that are worth compiling."""
    if variant.m <= 128:
        yield from FLAT
        yield from SMALL[1:]
        return
    if variant.m * variant.n >= 1 << 20:
        yield from LARGE
    if variant.m * variant.n <= 1 << 22:
        yield from SMALL


def compile_one(variant: Variant, configuration: Configuration) -> Any:
    """Compiles a kernel into Triton's cache on disk, or loads it from the cache. Raises LeftOut if the kernel has other
    instructions."""
    extents, made = (variant.m, variant.n, variant.k), configuration.constants(variant)
    compiled = product.warmup(variant.result, variant.dtype, variant.dtype, *extents, grid=(1,), **made)
    found = "wgmma" if re.search(r"\bwgmma\.mma_async", compiled.asm["ptx"]) else "mma"
    if found != variant.instructions or "mma" not in compiled.asm["ptx"]:
        raise LeftOut(f"Triton multiplies by {found}")
    return compiled


def precompile(variants: Iterable[Variant], processes: int) -> None:
    """Compiles all configurations of all variants in several processes, since each configuration takes about a
    second."""
    jobs = {}
    for variant in variants:
        for configuration in configurations(variant):
            constants = configuration.constants(variant)
            of_class = [(extent % 16 == 0, extent == 1) for extent in (variant.m, variant.n, variant.k)]
            key = (variant.dtype, variant.result, str(sorted(constants.items(), key=str)), str(of_class))
            jobs.setdefault(key, (variant, configuration))
    compile_ahead(compile_one, jobs.values(), processes)


def launch(variant: Variant, configuration: Configuration, arrays: tuple[Any, ...]) -> Callable[[], Any]:
    """A launch of one configuration on (c, a, b)."""
    constants = configuration.constants(variant)
    prepared = product[(-(-variant.m // configuration.bm) * -(-variant.n // configuration.bn),)]
    return lambda: prepared(*arrays, variant.m, variant.n, variant.k, **constants)


def tuned(
    variant: Variant, arrays: tuple[Any, ...], is_right: Callable[[Callable[[], Any]], bool], rest: float
) -> tuple[Callable[[], Any], str]:
    """The launch and a description of the fastest configuration with right results. All configurations run in a short
    race, then the best ones in a second race."""

    def prepare(configuration: Configuration) -> Callable[[], Any]:
        compile_one(variant, configuration)
        return launch(variant, configuration, arrays)

    return fastest(configurations(variant), prepare, is_right, rest)
