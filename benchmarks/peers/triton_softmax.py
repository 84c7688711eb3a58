"""Softmax in Triton, as good as we can write it: three forms, each tuned for every shape.

In `tile`, a program processes a tile of whole rows. The number of rows suits the program's warps. In `persistent`,
there are as many programs as the device can run at once. These programs loop over tiles of whole rows with the next
loads in flight, as in Triton's tutorial. In `looped`, a program loops over one long row twice, with an online maximum
and sum. Row lengths are compile-time constants, so that Triton knows the alignment of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from peers.triton_race import compile_ahead, fastest

REGISTERS, SHARED, THREADS = 65536, 227 << 10, 2048
"""The limits of a multiprocessor, which bound the number of its programs (CUDA programming guide, compute capability
9.0)."""


@triton.jit
def read(p, inside, WHOLE: tl.constexpr, other: tl.constexpr):
    v = tl.load(p) if WHOLE else tl.load(p, inside, other=other)
    return v.to(tl.float32)


@triton.jit
def write(p, v, inside, WHOLE: tl.constexpr):
    v = v.to(p.dtype.element_ty)
    if WHOLE:
        tl.store(p, v)
    else:
        tl.store(p, v, inside)


@triton.jit
def places(t, rows, cols: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    r = (t * ROWS + tl.arange(0, ROWS))[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    inside = c < cols if EVEN else (c < cols) & (r < rows)
    return r.to(tl.int64) * cols + c, inside


@triton.jit
def forward_rows(
    y, x, t, rows, cols: tl.constexpr, LOG: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr
):
    at, inside = places(t, rows, cols, ROWS, BLOCK, EVEN)
    WHOLE: tl.constexpr = EVEN and cols == BLOCK
    v = read(x + at, inside, WHOLE, float("-inf"))
    v -= tl.max(v, 1, keep_dims=True)
    e = tl.exp(v)
    z = tl.sum(e, 1, keep_dims=True)
    if LOG:
        v -= tl.log(z)
    else:
        v = e * (1.0 / z)
    write(y + at, v, inside, WHOLE)


@triton.jit
def backward_rows(
    dx,
    y,
    dy,
    t,
    rows,
    cols: tl.constexpr,
    LOG: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
):
    at, inside = places(t, rows, cols, ROWS, BLOCK, EVEN)
    WHOLE: tl.constexpr = EVEN and cols == BLOCK
    v = read(y + at, inside, WHOLE, 0.0)
    g = read(dy + at, inside, WHOLE, 0.0)
    if LOG:
        g -= tl.exp(v) * tl.sum(g, 1, keep_dims=True)
    else:
        g = v * (g - tl.sum(v * g, 1, keep_dims=True))
    write(dx + at, g, inside, WHOLE)


@triton.jit
def forward_tile(
    y, x, rows, cols: tl.constexpr, LOG: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr
):
    forward_rows(y, x, tl.program_id(0), rows, cols, LOG, ROWS, BLOCK, EVEN)


@triton.jit
def backward_tile(
    dx, y, dy, rows, cols: tl.constexpr, LOG: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr
):
    backward_rows(dx, y, dy, tl.program_id(0), rows, cols, LOG, ROWS, BLOCK, EVEN)


@triton.jit
def forward_persistent(
    y,
    x,
    rows,
    cols: tl.constexpr,
    LOG: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
    STAGES: tl.constexpr,
):
    for t in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
        forward_rows(y, x, t, rows, cols, LOG, ROWS, BLOCK, EVEN)


@triton.jit
def backward_persistent(
    dx,
    y,
    dy,
    rows,
    cols: tl.constexpr,
    LOG: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    EVEN: tl.constexpr,
    STAGES: tl.constexpr,
):
    for t in tl.range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0), num_stages=STAGES):
        backward_rows(dx, y, dy, t, rows, cols, LOG, ROWS, BLOCK, EVEN)


@triton.jit
def forward_looped(y, x, rows, cols: tl.constexpr, LOG: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    c = tl.arange(0, BLOCK)
    top = float("-inf")
    z = tl.zeros([BLOCK], tl.float32)
    for i in tl.range(0, cols, BLOCK, num_stages=STAGES):
        v = tl.load(x + start + i + c, i + c < cols, other=float("-inf"), eviction_policy="evict_last").to(tl.float32)
        above = tl.maximum(top, tl.max(v, 0))
        z = z * tl.exp(top - above) + tl.exp(v - above)
        top = above
    total = tl.sum(z, 0)
    for i in tl.range(0, cols, BLOCK, num_stages=STAGES):
        inside = i + c < cols
        v = tl.load(x + start + i + c, inside, eviction_policy="evict_first").to(tl.float32) - top
        if LOG:
            v -= tl.log(total)
        else:
            v = tl.exp(v) * (1.0 / total)
        tl.store(y + start + i + c, v.to(y.dtype.element_ty), inside)


@triton.jit
def backward_looped(dx, y, dy, rows, cols: tl.constexpr, LOG: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * cols
    c = tl.arange(0, BLOCK)
    s = tl.zeros([BLOCK], tl.float32)
    for i in tl.range(0, cols, BLOCK, num_stages=STAGES):
        inside = i + c < cols
        g = tl.load(dy + start + i + c, inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
        if LOG:
            s += g
        else:
            s += g * tl.load(y + start + i + c, inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
    total = tl.sum(s, 0)
    for i in tl.range(0, cols, BLOCK, num_stages=STAGES):
        inside = i + c < cols
        g = tl.load(dy + start + i + c, inside, eviction_policy="evict_first").to(tl.float32)
        v = tl.load(y + start + i + c, inside, eviction_policy="evict_first").to(tl.float32)
        if LOG:
            g -= tl.exp(v) * total
        else:
            g = v * (g - total)
        tl.store(dx + start + i + c, g.to(dx.dtype.element_ty), inside)


KERNELS = {
    ("tile", False): forward_tile,
    ("tile", True): backward_tile,
    ("persistent", False): forward_persistent,
    ("persistent", True): backward_persistent,
    ("looped", False): forward_looped,
    ("looped", True): backward_looped,
}


@dataclass(frozen=True, slots=True)
class Variant:
    """The properties that a compiled kernel depends on, besides its configuration."""

    log: bool
    backward: bool
    rows: int
    cols: int
    dtype: torch.dtype


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration. `form` is tile, persistent or looped. A program processes `block` elements of `rows` rows at a
    time."""

    form: str
    warps: int
    rows: int
    block: int
    stages: int = 0

    def __str__(self) -> str:
        stages = f" stages={self.stages}" if self.stages else ""
        return f"{self.form} warps={self.warps} rows={self.rows} block={self.block}{stages}"

    def constants(self, variant: Variant) -> dict[str, Any]:
        """Keyword arguments of the kernel and its launch."""
        made = {"LOG": variant.log, "BLOCK": self.block, "num_warps": self.warps}
        if self.form != "looped":
            made |= {"ROWS": self.rows, "EVEN": variant.rows % self.rows == 0}
        if self.form != "tile":
            made |= {"STAGES": self.stages}
        return made


def configurations(cols: int) -> Iterator[Configuration]:
    """All configurations that are worth compiling, with 4 to 64 elements per thread, or 128 for the longest rows."""
    block = triton.next_power_of_2(cols)
    for warps in (1, 2, 4, 8, 16, 32):
        for rows in (1, 2, 4, 8, 16, 32, 64, 128):
            elements = rows * block // (32 * warps)
            usual = 4 <= elements <= 64 or (block > 16384 and elements == 128)
            if not (usual and (rows == 1 or rows * block <= 16384)):
                continue
            yield Configuration("tile", warps, rows, block)
            if warps >= 4 and 8 <= elements <= 64:
                for stages in (2, 4):
                    yield Configuration("persistent", warps, rows, block, stages)
        if cols > 4096:
            for chunk in (2048, 4096, 8192, 16384):
                if chunk < cols and 8 <= chunk // (32 * warps) <= 32 and warps >= 4:
                    for stages in (1, 3):
                        yield Configuration("looped", warps, 1, chunk, stages)


def compile_one(variant: Variant, configuration: Configuration) -> Any:
    """Compiles a kernel into Triton's cache on disk, or loads it from the cache."""
    kernel = KERNELS[configuration.form, variant.backward]
    arrays = (variant.dtype,) * (3 if variant.backward else 2)
    return kernel.warmup(*arrays, variant.rows, variant.cols, grid=(1,), **configuration.constants(variant))


def precompile(variants: Iterable[Variant], processes: int) -> None:
    """Compiles all configurations of all variants in several processes, since each configuration takes a good part of a
    second."""
    jobs = [(variant, configuration) for variant in variants for configuration in configurations(variant.cols)]
    jobs.sort(key=lambda job: -job[1].block * job[1].rows / job[1].warps)  # the slow jobs first
    compile_ahead(compile_one, jobs, processes)


def launch(variant: Variant, configuration: Configuration, arrays: tuple[Any, ...], sms: int) -> Callable[[], Any]:
    """A launch of one configuration."""
    kernel, constants = KERNELS[configuration.form, variant.backward], configuration.constants(variant)
    grid = -(-variant.rows // configuration.rows)
    if configuration.form == "persistent":
        compiled = compile_one(variant, configuration)
        compiled._init_handles()
        threads = 32 * configuration.warps
        held = min(
            THREADS // threads,
            REGISTERS // (max(compiled.n_regs, 1) * threads),
            SHARED // max(compiled.metadata.shared, 1),
        )
        grid = min(grid, sms * max(held, 1))
    prepared = kernel[(grid,)]
    return lambda: prepared(*arrays, variant.rows, variant.cols, **constants)


def tuned(
    variant: Variant, arrays: tuple[Any, ...], sms: int, is_right: Callable[[Callable[[], Any]], bool]
) -> tuple[Callable[[], Any], str]:
    """The launch and a description of the fastest configuration with right results. All configurations run in a short
    race, then the best ones in a second race."""

    def prepare(configuration: Configuration) -> Callable[[], Any]:
        return launch(variant, configuration, arrays, sms)

    return fastest(configurations(variant.cols), prepare, is_right, rounds=(5, 21), finalists=6)
