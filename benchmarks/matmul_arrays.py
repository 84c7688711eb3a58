"""Arrays of products, their errors, and lower limits of a product's time. A part of benchmarks/matmul.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import LeftOut, Shape

import dsl
from dsl.runtime.dtypes import NAME_OF_NUMPY, numpy_dtype
from dsl.runtime.errors import LaunchError

PEERS = Path(__file__).resolve().parent / "peers"


@dataclass(frozen=True, slots=True)
class Type:
    """The types of operands and results, by their names in numpy and torch, and a bound of errors.

    `bound` is a share of the largest exact element. For 16-bit results it is a unit in the last place. For tf32, it
    covers the effect of the operands' lowest bits, which tf32 lacks.
    """

    numpy: str
    result: str
    bound: float


TYPES = {
    "f16": Type("float16", "float16", 2**-11),
    "bf16": Type("bfloat16", "bfloat16", 2**-8),
    "tf32": Type("float32", "float32", 2**-9),
    "s8": Type("int8", "int32", 0.0),
    "e4m3": Type("float8_e4m3fn", "bfloat16", 2**-8),
}


def extents_of(shape: Shape) -> tuple[int, int, int]:
    """m, n and k of a shape. A missing m or k equals n."""
    n = shape["n"]
    return shape.get("m", n), n, shape.get("k", n)


def host_operands(shape: Shape, dtype: str, b_t: bool) -> tuple[Any, Any, Any]:
    """c, a, b as numpy arrays, for the emulator."""
    (m, n, k), random = extents_of(shape), np.random.default_rng(0)
    try:
        kind, result = (numpy_dtype(name) for name in (dtype.replace("tf", "f"), NAME_OF_NUMPY[TYPES[dtype].result]))
    except LaunchError as error:
        raise LeftOut(f"{dtype} on the host: {error.hint}") from None

    def operand(*extents: int) -> Any:
        if dtype == "s8":
            return random.integers(-128, 128, extents, np.int8)
        return random.standard_normal(extents, np.float32).astype(kind)

    return np.empty((m, n), result), operand(m, k), operand(n, k) if b_t else operand(k, n)


class Arrays:
    """c, a and b on the GPU. With `b_t`, b is [n, k]."""

    def __init__(self, shape: Shape, dtype: str, b_t: bool):
        import torch

        self.shape, self.dtype, self.b_t = shape, dtype, b_t
        self.m, self.n, self.k = extents_of(shape)
        kind, result = (getattr(torch, name) for name in (TYPES[dtype].numpy, TYPES[dtype].result))

        def operand(*extents: int) -> Any:
            if dtype == "s8":
                return torch.randint(-128, 128, extents, device="cuda", dtype=kind)
            return torch.randn(*extents, device="cuda").to(kind)

        self.a, self.b = operand(self.m, self.k), operand(*(self.n, self.k) if b_t else (self.k, self.n))
        self.c = torch.empty(self.m, self.n, device="cuda", dtype=result)
        self._reference: Any = None

    @property
    def moves(self) -> int:
        return sum(array.numel() * array.element_size() for array in (self.c, self.a, self.b))

    @property
    def computes(self) -> int:
        return 2 * self.m * self.n * self.k

    @property
    def reference(self) -> Any:
        """a @ b in float64, in which products of bytes are exact."""
        if self._reference is None:
            b = self.b.double()
            self._reference = self.a.double() @ (b.T if self.b_t else b)
        return self._reference

    def poisoned_error(self, launch: Callable[[], object], wanted: Any) -> float:
        """The error of the result, as a share of the largest exact element. For integers, the error is the share of
        wrong elements."""
        self.c.fill_(float("nan") if self.c.is_floating_point() else -77)
        launch()
        if not self.c.is_floating_point():
            return float((self.c.double() != wanted).double().mean())
        error = float((self.c.double() - wanted).abs().max() / wanted.abs().max())
        return error if error == error else float("inf")


def registers(problem: Any) -> Callable[[], object]:
    """A launch that computes at least as many products as the problem. Its operands stay in registers.

    The launch uses all multiprocessors. For e4m3 it computes products of f16, since mma.sync on sm_90 converts e4m3 to
    f16.
    """
    import torch

    from dsl.runtime import device_facts

    a = problem.a.half() if problem.dtype == "e4m3" else problem.a
    rows, cols = 256, 32 // a.element_size()
    steps = -(-problem.computes // (2 * 128 * 256 * cols * device_facts("cuda").sms))
    x, y = a[:rows, :cols].contiguous(), torch.zeros(1, dtype=torch.int32, device="cuda")
    kernel = dsl.load(PEERS / "products.tile").products
    return lambda: kernel(y, x, steps)


def read_b(problem: Any) -> Callable[[], object]:
    return read_words(problem.b)


def read_words(array: Any) -> Callable[[], object]:
    """Reads all words of an array."""
    import torch

    words, found = array.view(-1).view(torch.int32), torch.zeros(1, dtype=torch.int32, device="cuda")
    kernel = dsl.load(PEERS / "read.tile").read
    return lambda: kernel(found, words)
