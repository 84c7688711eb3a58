"""Attention against torch's FlashAttention-2, Triton, cuDNN, and the limit of mma.sync.

    python3 benchmarks/attention.py --json attention.json --plot attention.png
    python3 benchmarks/attention.py --ops "128 causal" --keys 4096,8192 --types bf16 --rounds 9

An operation is attention with a given head width, with or without a causal mask. There are as many queries as keys. A
problem has --heads heads. Its batches have --tokens keys in total. First, outputs are poisoned, and every result is
checked against float64. The tables show the greatest error, as a share of the bound. The bound is a unit in the last
place of the result's type, times 1 + |exact value|. Then all variants are timed in one interleaved run in shuffled
order. The L2 is overwritten between launches, and the device rests after each round.

"plain" is peers/plain_attention.tile, without a schedule. "flash" is torch's FlashAttention-2. "triton.mma" is
peers/triton_attention.py, confined to mma.sync and cp.async. "flash" and "triton.mma" have the instructions of our
kernels for sm_80. "cudnn" multiplies by wgmma. "mma.sync" is peers/products.tile, which computes the same number of
products on operands that stay in registers. For a causal operation, only half of the products count.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import Benchmark, Call, LeftOut, Shape, Yardstick, parser, run
from matmul_arrays import TYPES as ALL_TYPES
from matmul_arrays import registers

import dsl
from dsl.runtime.dtypes import numpy_dtype
from dsl.runtime.errors import LaunchError

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parent / "samples" / "attention.tile"
PLAIN_TEXT = HERE / "peers" / "plain_attention.tile"
TYPES = ("f16", "bf16")
KEYS = (2048, 4096, 8192, 16384)
TOKENS, HEADS = 16384, 16
REST = 2.0
"""The rest after each round, as a multiple of the round's time, as in matmul.py."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Attention with heads of `d` elements."""

    d: int
    causal: bool

    @property
    def name(self) -> str:
        return f"{self.d}{' causal' * self.causal}"

    def call(self, dtype: str) -> Call:
        return Call("attention", {"CAUSAL": True} if self.causal else {})

    def problem(self, shape: Shape, dtype: str) -> Problem:
        return Problem(self, shape, dtype)

    def host_arguments(self, shape: Shape, dtype: str) -> tuple[Any, ...]:
        try:
            kind = numpy_dtype(dtype)
        except LaunchError as error:
            raise LeftOut(f"{dtype} on the host: {error.hint}") from None
        random, extents = np.random.default_rng(0), self.extents(shape)
        q, k, v = (random.standard_normal(extents, np.float32).astype(kind) for _ in range(3))
        return np.empty_like(q), q, k, v, self.d**-0.5, None

    def extents(self, shape: Shape) -> tuple[int, int, int, int]:
        """The batch, the number of heads, the number of keys, and d."""
        return max(1, shape["tokens"] // shape["keys"]), shape["heads"], shape["keys"], self.d


OPERATIONS = {made.name: made for made in (Operation(d, causal) for d in (64, 128) for causal in (False, True))}


class Problem:
    """One shape, with its arrays on the GPU. See harness.contest.Problem."""

    def __init__(self, operation: Operation, shape: Shape, dtype: str):
        import torch

        self.operation, self.shape, self.dtype = operation, shape, dtype
        self.name, self.call, self.bound = operation.name, operation.call(dtype), 1.0
        kind = getattr(torch, ALL_TYPES[dtype].numpy)
        self.q, self.k, self.v = (
            torch.randn(operation.extents(shape), device="cuda", dtype=torch.float32).to(kind) for _ in range(3)
        )
        self.a = self.q.view(-1, operation.d)
        self.o = torch.empty_like(self.q)
        self.scale = operation.d**-0.5
        self._reference: Any = None

    @property
    def moves(self) -> int:
        return sum(array.numel() * array.element_size() for array in (self.o, self.q, self.k, self.v))

    @property
    def computes(self) -> int:
        batch, heads, keys, d = self.operation.extents(self.shape)
        return 4 * batch * heads * keys * keys * d // (2 if self.operation.causal else 1)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.o, self.q, self.k, self.v, self.scale, None

    @property
    def reference(self) -> Any:
        """The exact result in float64, computed one head after another."""
        import torch

        if self._reference is None:
            self._reference = torch.empty(self.o.shape, device="cuda", dtype=torch.float64)
            for b, h in np.ndindex(*self.o.shape[:2]):
                q, k, v = (x[b, h].double() for x in (self.q, self.k, self.v))
                x = (q @ k.T).mul_(self.scale)
                if self.operation.causal:
                    x.masked_fill_(torch.ones_like(x, dtype=torch.bool).triu_(1), -math.inf)
                self._reference[b, h] = torch.softmax(x, 1) @ v
        return self._reference

    def error(self, launch: Callable[[], object]) -> float:
        """The greatest error, as a share of the unit in the last place times 1 + |exact value|."""
        self.o.fill_(float("nan"))
        launch()
        unit, worst = ALL_TYPES[self.dtype].bound, 0.0
        for found, wanted in zip(self.o, self.reference, strict=True):
            share = ((found.double() - wanted).abs() / (wanted.abs() + 1).mul_(unit)).max().item()
            worst = max(worst, share if share == share else math.inf)
        return worst


def sdpa(backend: str) -> Callable[[Problem], tuple[Callable[[], object], str]]:
    """A peer that calls torch's attention with this backend. The peer's own output is copied once for the check."""

    def launch(problem: Problem) -> tuple[Callable[[], object], str]:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        p, chosen = problem, getattr(SDPBackend, backend)

        def attend() -> Any:
            with sdpa_kernel(chosen):
                return scaled_dot_product_attention(p.q, p.k, p.v, is_causal=p.operation.causal, scale=p.scale)

        try:
            attend()
        except RuntimeError as error:
            raise LeftOut(str(error).splitlines()[0]) from None
        return Checked([p.o], lambda: [attend()]), ""

    return launch


@dataclass(slots=True)
class Checked:
    """A launch that makes its own outputs. The first call belongs to the check, and copies the outputs into the
    problem's outputs."""

    outputs: Sequence[Any]
    launch: Callable[[], Sequence[Any]]
    was_checked: bool = False

    def __call__(self) -> None:
        made = self.launch()
        if not self.was_checked:
            for mine, its in zip(self.outputs, made, strict=True):
                mine.copy_(its)
            self.was_checked = True


def plain(problem: Problem) -> tuple[Callable[[], object], str]:
    """The text of peers/plain_attention.tile, without a schedule. For heads of 64 without a mask, four warp groups on
    256 rows are faster."""
    p, d = problem, problem.operation.d
    arrays = [x.view(-1, x.shape[2], d) for x in (p.o, p.q, p.k, p.v)]
    rows, columns = (256, 64) if d == 64 and not p.operation.causal else (128, 128)
    constants = {"D": d, "TM": rows, "TN": columns, "CAUSAL": p.operation.causal}
    kernel = dsl.load(PLAIN_TEXT).attend
    return lambda: kernel(*arrays, p.scale, **constants), ""


def triton(problem: Problem) -> tuple[Callable[[], object], str]:
    from peers.triton_attention import tuned

    p = problem
    return tuned(
        variant_of(p.operation, p.dtype), (p.o, p.q, p.k, p.v), p.scale, lambda made: p.error(made) <= p.bound, REST
    )


def variant_of(operation: Operation, dtype: str) -> Any:
    import torch
    from peers.triton_attention import Variant

    return Variant(operation.d, operation.causal, getattr(torch, ALL_TYPES[dtype].numpy))


def compile_triton(measured: list[tuple[Any, Shape, str]], peers: Sequence[str]) -> None:
    """Compiles Triton's kernels before anything is timed."""
    if "triton.mma" not in peers:
        return
    try:
        from peers.triton_attention import precompile
    except ImportError:
        return
    precompile([variant_of(operation, dtype) for operation, _, dtype in measured], max(1, (os.cpu_count() or 1) // 2))


PEERS = {"plain": plain, "flash": sdpa("FLASH_ATTENTION"), "triton.mma": triton, "cudnn": sdpa("CUDNN_ATTENTION")}


ATTENTION = Benchmark(
    (SAMPLE,),
    OPERATIONS,
    PEERS,
    types=TYPES,
    key="keys",
    extents=KEYS,
    fixed={"tokens": TOKENS, "heads": HEADS},
    least=KEYS[0],
    counted=lambda shape: {"tokens": 256, "heads": 1, "keys": 256},
    prepare=compile_triton,
    yardstick=Yardstick("mma.sync", registers),
    rest=REST,
)

if __name__ == "__main__":
    run(ATTENTION, parser(__doc__, ATTENTION).parse_args())
