"""Products with groups, scales or packed weights: `python3 benchmarks/matmul.py grouped`, `scaled` and `w4`.

"grouped" multiplies each group of rows by its own matrix. The sizes of groups are random. The peer is torch's
`_grouped_mm` (CUTLASS). "scaled" multiplies e4m3. Each scale covers 128 elements along k, in one row of a or in 128
rows of b. The peer is cuBLAS (`_scaled_mm`). "w4" has weights of four bits, with one scale for 128 weights along k. For
"w4", cuBLAS multiplies by the same weights in 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import Benchmark, Call, LeftOut, Peer, Shape, Yardstick
from matmul_arrays import TYPES, Arrays, host_operands, read_words

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
BLOCK = 128
"""Number of elements along k that share a scale."""


class Problem(Arrays):
    """One product at one shape. See harness.contest.Problem."""

    def __init__(self, name: str, dispatch: str, shape: Shape, dtype: str):
        super().__init__(shape, dtype, True)
        self.name, self.call, self.bound = name, Call(dispatch), TYPES[dtype].bound
        self.more()

    def more(self) -> None:
        """Makes the problem's further arrays. Some problems also replace b."""
        raise NotImplementedError

    def error(self, launch: Callable[[], object]) -> float:
        return self.poisoned_error(launch, self.reference)

    def random(self, *extents: int) -> Any:
        """Random scales from 0.5 to 1.5."""
        import torch

        return 0.5 + torch.rand(*extents, device="cuda")


class Grouped(Problem):
    """A product of groups. b has a matrix for each group."""

    def more(self) -> None:
        import torch

        cuts = np.random.default_rng(0).integers(0, self.m + 1, self.shape["g"] - 1)
        self.ends = torch.tensor([*np.sort(cuts), self.m], dtype=torch.int32, device="cuda")
        self.b = torch.randn(self.shape["g"], self.n, self.k, device="cuda", dtype=self.c.dtype)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.c, self.a, self.b, self.ends

    @property
    def groups(self) -> Iterator[tuple[int, int, Any]]:
        """For each group: its first row, the end of its rows, and its matrix."""
        ends = self.ends.tolist()
        yield from zip([0, *ends[:-1]], ends, self.b, strict=True)

    @property
    def reference(self) -> Any:
        import torch

        if self._reference is None:
            parts = [self.a[start:end].double() @ matrix.double().T for start, end, matrix in self.groups]
            self._reference = torch.cat(parts)
        return self._reference


class Scaled(Problem):
    """A scaled product. The scales of a are contiguous along its rows."""

    def more(self) -> None:
        blocks = self.k // BLOCK
        self.of_a, self.of_b = self.random(blocks, self.m), self.random(-(-self.n // BLOCK), blocks)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.c, self.a, self.b, self.of_a, self.of_b

    @property
    def reference(self) -> Any:
        if self._reference is None:
            a = self.a.double() * self.of_a.T.repeat_interleave(BLOCK, 1)
            of_b = self.of_b.repeat_interleave(BLOCK, 0)[: self.n].repeat_interleave(BLOCK, 1)
            self._reference = a @ (self.b.double() * of_b).T
        return self._reference


class Weights(Problem):
    """A product with 4-bit weights. b holds the values of the weights in 16 bits."""

    def more(self) -> None:
        import torch

        self.w = torch.randint(0, 256, (self.n, self.k // 2), device="cuda", dtype=torch.uint8)
        self.of_w = self.random(self.k // BLOCK, self.n).to(self.c.dtype)
        fours = torch.stack((self.w & 15, self.w >> 4), 2).view(self.n, self.k).to(self.c.dtype) - 8
        self.b = fours * self.of_w.T.repeat_interleave(BLOCK, 1)

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.c, self.a, self.w, self.of_w

    @property
    def moves(self) -> int:
        return sum(array.numel() * array.element_size() for array in (self.c, self.a, self.w, self.of_w))


def on_host(made: type[Problem], shape: Shape, dtype: str) -> tuple[Any, ...]:
    """The arguments as numpy arrays, for which the emulator counts events."""
    (c, a, b), random = host_operands(shape, dtype, True), np.random.default_rng(1)
    (m, k), n = a.shape, len(b)
    if made is Grouped:
        ends = np.sort(random.integers(0, m + 1, shape["g"])).astype(np.int32)
        return c, a, np.stack([b] * shape["g"]), ends
    if made is Scaled:
        return c, a, b, np.ones((k // BLOCK, m), np.float32), np.ones((-(-n // BLOCK), k // BLOCK), np.float32)
    return c, a, random.integers(0, 256, (n, k // 2), np.uint8), np.ones((k // BLOCK, n), c.dtype)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation, which the dispatch computes on arrays of the class `made`."""

    name: str
    dispatch: str
    made: type[Problem]

    def call(self, dtype: str) -> Call:
        return Call(self.dispatch)

    def problem(self, shape: Shape, dtype: str) -> Problem:
        return self.made(self.name, self.dispatch, shape, dtype)

    def host_arguments(self, shape: Shape, dtype: str) -> tuple[Any, ...]:
        return on_host(self.made, shape, dtype)


def grouped_mm(problem: Grouped) -> tuple[Callable[[], object], str]:
    """torch's grouped product, whose result is a new array."""
    import torch

    p, b = problem, problem.b.transpose(1, 2)
    if p.dtype != "bf16":
        raise LeftOut("torch multiplies groups of bf16 alone")

    def launch() -> None:
        p.c = torch._grouped_mm(p.a, b, offs=p.ends)

    return launch, ""


def one_product(problem: Grouped) -> Callable[[], object]:
    """The product of all rows and one matrix, computed by cuBLAS."""
    import torch

    p = problem
    return lambda: torch.matmul(p.a, p.b[0].T, out=p.c)


def cublas_scaled(problem: Scaled) -> tuple[Callable[[], object], str]:
    import torch

    p = problem
    return lambda: torch._scaled_mm(p.a, p.b.T, p.of_a.T, p.of_b.T, out_dtype=p.c.dtype, out=p.c), ""


def without_scales(problem: Scaled) -> Callable[[], object]:
    """The product without scales, computed by cuBLAS with exact sums."""
    import torch

    p, one = problem, torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(p.a, p.b.T, one, one, out_dtype=p.c.dtype, out=p.c)


def cublas(problem: Weights) -> tuple[Callable[[], object], str]:
    import torch

    return lambda: torch.matmul(problem.a, problem.b.T, out=problem.c), "weights of 16 bits"


def read_weights(problem: Weights) -> Callable[[], object]:
    return read_words(problem.w)


def fewer(shape: Shape) -> Shape:
    """A shape that the emulator counts in seconds."""
    return shape | {"m": min(shape["m"], 512), "n": min(shape["n"], 512), "k": min(shape["k"], 256)}


def benchmark(made: type[Problem], name: str, peers: dict[str, Peer], yardstick: Yardstick, **more: Any) -> Benchmark:
    sample = SAMPLES / f"matmul_{name}.tile"
    operations = {name: Operation(name, f"matmul_{name}", made)}
    return Benchmark((sample,), operations, peers, least=1, counted=fewer, yardstick=yardstick, **more)


BENCHMARKS = {
    "grouped": benchmark(
        Grouped,
        "grouped",
        {"torch": grouped_mm},
        Yardstick("one product", one_product),
        types=("bf16", "f16"),
        key="g",
        extents=(8, 32, 128),
        fixed={"m": 16384, "n": 4096, "k": 2048},
    ),
    "scaled": benchmark(
        Scaled,
        "scaled",
        {"cublas": cublas_scaled},
        Yardstick("without scales", without_scales),
        types=("e4m3",),
        key="m",
        extents=(2048, 4096, 8192),
        fixed={"n": 8192, "k": 8192},
    ),
    "w4": benchmark(
        Weights,
        "w4",
        {"cublas": cublas},
        Yardstick("read", read_weights),
        types=("f16", "bf16"),
        key="m",
        extents=(1, 16, 64, 256),
        fixed={"n": 8192, "k": 8192},
    ),
}
