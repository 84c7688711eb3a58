"""Products with bias, activation and residual in the same launch: `python3 benchmarks/matmul.py fused`.

f16 and bf16 compute a @ b.T with a bias, as in a linear layer. The peer cuBLASLt fuses bias and activation
(torch.addmm, torch._addmm_activation). The peer torch runs one operation after another. For bytes, the sums go through
scale, bias, activation and residual, and become bytes again. "dsl plain" is our product without an epilogue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from harness import Call, LeftOut, Shape
from matmul_arrays import TYPES as ALL_TYPES
from matmul_arrays import Arrays, host_operands

import dsl

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parent / "samples" / "matmul.tile"
TYPES = ("f16", "bf16", "s8")
GAIN = 0.25
FACTOR = 3
"""The bound as a multiple of the plain product's bound. Activations are approximate, and torch rounds after each of its
operations."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A fused operation. `act` is relu, fast_gelu or empty."""

    name: str
    act: str = ""
    residual: bool = False

    def call(self, dtype: str) -> Call:
        constants: dict[str, Any] = {"ACT": self.act} if self.act else {}
        return Call("linear", constants)

    def problem(self, shape: Shape, dtype: str) -> Problem:
        return Problem(self, shape, dtype)

    def host_arguments(self, shape: Shape, dtype: str) -> tuple[Any, ...]:
        (c, a, b), random = host_operands(shape, dtype, True), np.random.default_rng(1)
        of_c = np.int8 if dtype == "s8" else c.dtype
        c, n = np.empty(c.shape, of_c), c.shape[1]
        residual = random.integers(-8, 8, c.shape, np.int8).astype(of_c) if self.residual else None
        bias = random.standard_normal(n, np.float32).astype(np.float32 if dtype == "s8" else of_c)
        scale = np.full(n, 1 / 4096, np.float32) if dtype == "s8" else None
        return c, a, b.T, scale, bias, residual, GAIN if dtype == "s8" else 1.0


OPERATIONS = {
    made.name: made
    for made in (
        Operation("bias"),
        Operation("bias relu", "relu"),
        Operation("bias gelu", "fast_gelu"),
        Operation("bias relu residual", "relu", True),
    )
}


class Problem(Arrays):
    """One operation at one shape. See harness.contest.Problem."""

    def __init__(self, operation: Operation, shape: Shape, dtype: str):
        import torch

        super().__init__(shape, dtype, True)
        self.operation, self.name, self.call = operation, operation.name, operation.call(dtype)
        self.bound = FACTOR * ALL_TYPES[dtype].bound
        self.plain = self.c
        like = torch.int8 if dtype == "s8" else self.c.dtype
        self.c = torch.empty(self.c.shape, device="cuda", dtype=like)
        self.bias = torch.randn(self.n, device="cuda", dtype=torch.float32 if dtype == "s8" else like)
        self.residual = torch.randn(self.c.shape, device="cuda").mul_(8).to(like) if operation.residual else None
        self.scale = (0.5 + torch.rand(self.n, device="cuda")) / 4096

    @property
    def moves(self) -> int:
        arrays = [self.c, self.a, self.b, self.bias, self.residual]
        return sum(array.numel() * array.element_size() for array in arrays if array is not None)

    @property
    def arguments(self) -> tuple[Any, ...]:
        scale, gain = (self.scale, GAIN) if self.dtype == "s8" else (None, 1.0)
        return self.c, self.a, self.b.T, scale, self.bias, self.residual, gain

    def after(self, sums: Any) -> Any:
        """Applies the epilogue to the sums, in the type of the sums."""
        import torch

        if self.dtype == "s8":
            sums = sums * self.scale
        sums = sums + self.bias
        if self.operation.act:
            gelu = torch.nn.functional.gelu
            sums = gelu(sums, approximate="tanh") if "gelu" in self.operation.act else sums.relu()
        if self.residual is not None:
            sums = sums + (self.residual * GAIN if self.dtype == "s8" else self.residual)
        return sums.round().clamp(-128, 127) if self.dtype == "s8" else sums

    def error(self, launch: Callable[[], object]) -> float:
        """The error of a launch. For bytes, the reference converts exact sums to f32 and then does the kernel's steps
        in f32."""
        if isinstance(launch, Plain):
            return launch.error()
        sums = self.reference
        wanted = self.after(sums.float() if self.dtype == "s8" else sums)
        if self.dtype == "s8" and "gelu" in self.operation.act:  # gelu is approximate: allows one step of rounding
            self.c.fill_(-77)
            launch()
            return float(((self.c.float() - wanted).abs() > 1).double().mean())
        return self.poisoned_error(launch, wanted)


@dataclass(slots=True)
class Plain:
    """Our product without an epilogue. For bytes, the results are the sums."""

    problem: Problem
    module: dsl.Module = field(default_factory=lambda: dsl.load(SAMPLE))

    def __call__(self) -> None:
        p = self.problem
        self.module.matmul(p.plain, p.a, p.b.T)

    def error(self) -> float:
        p = self.problem
        p.c, kept = p.plain, p.c
        found = p.poisoned_error(self, p.reference)
        p.c = kept
        return found


def plain(problem: Problem) -> tuple[Callable[[], object], str]:
    return Plain(problem), ""


def unfused(problem: Problem) -> tuple[Callable[[], object], str]:
    """torch's separate operations, in place if possible."""
    import torch

    p, act = problem, problem.operation.act

    def activation(sums: Any) -> Any:
        if "gelu" in act:
            return torch.nn.functional.gelu(sums, approximate="tanh")
        return sums.relu_() if act else sums

    def floats() -> object:
        sums = activation(torch.matmul(p.a, p.b.T, out=p.c).add_(p.bias))
        if p.residual is not None:
            sums.add_(p.residual)
        return sums if sums is p.c else p.c.copy_(sums)

    def bytes_() -> object:
        sums = activation(torch._int_mm(p.a, p.b.T).float().mul_(p.scale).add_(p.bias))
        if p.residual is not None:
            sums.add_(p.residual * GAIN)
        return p.c.copy_(sums.round_().clamp_(-128, 127))

    if p.dtype == "s8":
        return bytes_, "one by one"
    return floats, "one by one"


def cublaslt(problem: Problem) -> tuple[Callable[[], object], str]:
    """The product with bias and activation in a single launch."""
    import torch

    p, act = problem, problem.operation.act
    if p.dtype == "s8" or p.residual is not None:
        raise LeftOut("torch has cuBLASLt fuse bias, relu and gelu of floats alone")
    if not act:
        return lambda: torch.addmm(p.bias, p.a, p.b.T, out=p.c), "addmm"
    gelu = "gelu" in act
    return lambda: torch._addmm_activation(p.bias, p.a, p.b.T, use_gelu=gelu, out=p.c), "_addmm_activation"


PEERS = {"dsl plain": plain, "torch": unfused, "cublaslt": cublaslt}
