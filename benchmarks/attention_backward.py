"""Gradients of attention against torch's cuDNN and FlashAttention-2.

    python3 benchmarks/attention_backward.py --keys 4096,16384 --json backward.json
    python3 benchmarks/attention_backward.py --ops "64 causal" --peers cudnn --rounds 9

The shapes are those of attention.py. Our variant is one call of two launches: the first computes dq, and the second
computes dk and dv. Our result has the same bits each time. torch's variant is `autograd.grad`, with the tensors that
the forward pass saved. TFLOPS count five matrix products. Outputs are poisoned, and the gradients of the first and the
last head are checked against float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import attention
import numpy as np
from attention import ATTENTION, HERE, SAMPLE, Checked, Operation
from harness import Benchmark, Call, LeftOut, Shape, Yardstick, parser, run
from harness.timing import copy_of
from matmul_arrays import TYPES as ALL_TYPES

import dsl

BACKWARD = HERE.parent / "samples" / "attention_backward.tile"
FACTOR = 4
"""The bound as a multiple of a unit in the last place. Probabilities and their gradients are rounded before they are
multiplied."""


@dataclass(frozen=True, slots=True)
class Gradient(Operation):
    def call(self, dtype: str) -> Call:
        return Call("attention_backward", {"CAUSAL": True} if self.causal else {})

    def problem(self, shape: Shape, dtype: str) -> Problem:
        return Problem(self, shape, dtype)

    def host_arguments(self, shape: Shape, dtype: str) -> tuple[Any, ...]:
        o, q, k, v, scale, _ = super(Gradient, self).host_arguments(shape, dtype)
        lse = np.zeros(q.shape[:-1], np.float32)
        return (
            np.empty_like(q),
            np.empty_like(q),
            np.empty_like(q),
            q,
            k,
            v,
            np.ones_like(o),
            np.ones_like(o),
            lse,
            scale,
        )


class Problem(attention.Problem):
    """A problem whose forward pass is ours. See harness.contest.Problem."""

    def __init__(self, operation: Operation, shape: Shape, dtype: str):
        import torch

        super().__init__(operation, shape, dtype)
        self.bound = float(FACTOR)
        self.g = torch.randn_like(self.o)
        self.lse = torch.empty(self.o.shape[:-1], device="cuda", dtype=torch.float32)
        self.gradients = [torch.empty_like(self.o) for _ in range(3)]
        constants = {"CAUSAL": True} if operation.causal else {}
        dsl.load(SAMPLE).attention(self.o, self.q, self.k, self.v, self.scale, self.lse, **constants)

    @property
    def moves(self) -> int:
        return 8 * self.o.numel() * self.o.element_size()

    @property
    def computes(self) -> int:
        return super().computes // 2 * 5

    @property
    def arguments(self) -> tuple[Any, ...]:
        return *self.gradients, self.q, self.k, self.v, self.o, self.g, self.lse, self.scale

    def of_head(self, b: int, h: int) -> tuple[Any, Any, Any]:
        """The gradients of one head in float64."""
        import torch

        q, k, v, g = (x[b, h].double() for x in (self.q, self.k, self.v, self.g))
        x = (q @ k.T).mul_(self.scale)
        if self.operation.causal:
            x.masked_fill_(torch.ones_like(x, dtype=torch.bool).triu_(1), -math.inf)
        p = torch.softmax(x, 1)
        del x
        dv, dp = p.T @ g, g @ v.T
        dp.sub_((p * dp).sum(1, keepdim=True)).mul_(p).mul_(self.scale)
        return dp @ k, dp.T @ q, dv

    def error(self, launch: Callable[[], object]) -> float:
        """The greatest error in the first and the last head, as a share of the unit in the last place times 1 + |exact
        value|."""
        for made in self.gradients:
            made.fill_(float("nan"))
        launch()
        unit, worst = ALL_TYPES[self.dtype].bound, 0.0
        batch, heads = self.o.shape[:2]
        for b, h in ((0, 0), (batch - 1, heads - 1)):
            for found, wanted in zip(self.gradients, self.of_head(b, h), strict=True):
                off = (found[b, h].double() - wanted).abs()
                share = (off / (wanted.abs() + 1).mul_(unit)).max().item()
                worst = max(worst, share if share == share else math.inf)
        return worst


def sdpa(backend: str) -> Callable[[Problem], tuple[Callable[[], object], str]]:
    """A peer that calls torch's gradients with this backend. The peer's own outputs are copied once for the check."""

    def launch(problem: Problem) -> tuple[Callable[[], object], str]:
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        p = problem
        given = [x.detach().requires_grad_() for x in (p.q, p.k, p.v)]
        try:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                out = scaled_dot_product_attention(*given, is_causal=p.operation.causal, scale=p.scale)
        except RuntimeError as error:
            raise LeftOut(str(error).splitlines()[0]) from None
        return Checked(p.gradients, lambda: torch.autograd.grad(out, given, p.g, retain_graph=True)), ""

    return launch


GRADIENTS = Benchmark(
    (BACKWARD,),
    {name: Gradient(made.d, made.causal) for name, made in attention.OPERATIONS.items()},
    {"cudnn": sdpa("CUDNN_ATTENTION"), "flash": sdpa("FLASH_ATTENTION")},
    types=ATTENTION.types,
    key="keys",
    extents=(4096, 16384),
    fixed=ATTENTION.fixed,
    least=4096,
    counted=ATTENTION.counted,
    yardstick=Yardstick("copy", lambda problem: copy_of(problem.moves)),
    rest=ATTENTION.rest,
)

if __name__ == "__main__":
    run(GRADIENTS, parser(__doc__, GRADIENTS).parse_args())
