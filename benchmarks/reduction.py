"""Sums of all elements, the ladder of six kernels, and reductions along an axis, against CUB, torch and a plain read.

    python3 benchmarks/reduction.py everything --types f32,f16 --json everything.json --plot everything.png
    python3 benchmarks/reduction.py ladder --n 33554432
    python3 benchmarks/reduction.py axes

First, outputs are poisoned, and results are checked against float64. Maxima and indices must be exact. Then all
variants are timed in one interleaved run, and the L2 is overwritten between launches. "read" is peers/read.tile, which
loads every element and writes nothing. "by hand" is peers/by_hand/reduce.tile. In this file, blocks combine their
results through workspaces and counters that are written out.

"ladder" has the kernels of samples/reduction.tile that leave one sum per block, and a kernel that computes the sum of
all elements. "axes" has sums, maxima and indices of maxima, along the rows and columns of a matrix. nvcc compiles CUB.
Peers that are not installed are left out and reported.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import Benchmark, Call, LeftOut, Shape, Yardstick, parser, run

import dsl

ROOT = Path(__file__).resolve().parent
SAMPLE, LADDER_SAMPLE = (ROOT.parent / "samples" / name for name in ("reduce.tile", "reduction.tile"))
BY_HAND = ROOT / "peers" / "by_hand" / "reduce.tile"
SIZES = tuple(1 << e for e in (20, 22, 25, 28, 30))
TYPES = {"f32": "float32", "f16": "float16"}
EPSILON = 2.0**-24
PART = 1 << 27
"""Number of elements that are widened to float64 at a time."""
RUNGS = {"v0": 256, "v1": 256, "v2": 256, "v3": 512, "v4": 512, "v5": 512}
"""Kernel of the ladder → the number of elements that one block adds up."""


def pairwise_bound(n: int) -> float:
    """The error bound of a pairwise f32 sum of n numbers, relative to the sum of their absolute values."""
    return (math.log2(n) + 2) * EPSILON


def relative_error(found: Any, wanted: Any, sizes: Any) -> float:
    """The greatest difference as a share of `sizes`, or infinity for NaN."""
    error = float(((found.double() - wanted).abs() / sizes).max())
    return error if error == error else float("inf")


def numbers(dtype: str, *extents: int) -> Any:
    import torch

    return torch.randn(*extents, device="cuda", dtype=getattr(torch, TYPES[dtype]))


# ---- all elements ----


@dataclass(frozen=True, slots=True)
class Everything:
    """The sum of n elements, in f32: of one row."""

    name: str = "everything"

    def call(self, dtype: str) -> Call:
        return Call("rows")

    def problem(self, shape: Shape, dtype: str) -> Sum:
        return Sum(shape, dtype)

    def host_arguments(self, shape: Shape, dtype: str) -> tuple[Any, ...]:
        x = np.random.default_rng(0).standard_normal(shape["n"]).astype(TYPES[dtype])
        return np.empty(1, np.float32), x[None]


class Sum:
    """One size. See harness.contest.Problem."""

    name, call = "everything", Call("rows")

    def __init__(self, shape: Shape, dtype: str):
        import torch

        self.shape, self.dtype, self.bound = shape, dtype, pairwise_bound(shape["n"])
        self.x, self.out = numbers(dtype, shape["n"]), torch.empty(1, device="cuda")
        self.arguments = (self.out, self.x[None])

    computes = 0

    @property
    def moves(self) -> int:
        return self.x.numel() * self.x.element_size()

    def error(self, launch: Callable[[], object]) -> float:
        if isinstance(launch, Rung):
            return launch.error()
        self.out.fill_(float("nan"))
        launch()
        parts = [part.double() for part in self.x.split(PART)]
        return relative_error(self.out, sum(p.sum() for p in parts), sum(p.abs().sum() for p in parts))


@dataclass(slots=True)
class Rung:
    """A kernel of the ladder, which computes the sums of blocks of `size` elements."""

    name: str
    size: int
    x: Any
    sums: Any = field(init=False)
    kernel: Any = field(init=False)

    def __post_init__(self) -> None:
        import torch

        self.sums = torch.empty(-(-self.x.numel() // self.size), device="cuda")
        self.kernel = getattr(dsl.load(LADDER_SAMPLE), self.name)

    def __call__(self) -> None:
        self.kernel(self.sums, self.x)

    def error(self) -> float:
        self.sums.fill_(float("nan"))
        self()
        worst = 0.0
        for sums, part in zip(self.sums.split(PART // self.size), self.x.split(PART), strict=True):
            blocks = part.double().view(-1, self.size)
            worst = max(worst, relative_error(sums, blocks.sum(1), blocks.abs().sum(1)))
        return worst


def rung(name: str) -> Callable[[Sum], tuple[Callable[[], object], str]]:
    def launch(problem: Sum) -> tuple[Callable[[], object], str]:
        if problem.dtype != "f32" or problem.shape["n"] % RUNGS[name]:
            raise LeftOut("the ladder is of f32, and measured on whole blocks")
        return Rung(name, RUNGS[name], problem.x), f"sums of {RUNGS[name]}"

    return launch


def by_hand(problem: Any) -> tuple[Callable[[], object], str]:
    """The kernels with partial results, counters and whole tiles written out."""
    function, call = getattr(dsl.load(BY_HAND), problem.call.dispatch), problem.call
    return lambda: function(*problem.arguments, **call.constants), ""


def sum_by_hand(problem: Sum) -> tuple[Callable[[], object], str]:
    function = dsl.load(BY_HAND).everything
    return lambda: function(problem.out, problem.x), ""


def cub_sum(problem: Sum) -> tuple[Callable[[], object], str]:
    from peers import cub

    return cub.summing(problem.dtype, problem.out.data_ptr(), problem.x.data_ptr(), problem.x.numel()), ""


def torch_sum(problem: Sum) -> tuple[Callable[[], object], str]:
    import torch

    out = problem.out.view(())
    return lambda: torch.sum(problem.x, 0, dtype=torch.float32, out=out), ""


def read(problem: Any) -> Callable[[], object]:
    """Reads all whole words of the problem's array."""
    import torch

    flat = problem.x.view(-1)
    each = 4 // flat.element_size()
    words = flat[: flat.numel() // each * each].view(torch.int32)
    kernel, found = dsl.load(ROOT / "peers" / "read.tile").read, torch.zeros(1, dtype=torch.int32, device="cuda")
    return lambda: kernel(found, words)


# ---- along an axis ----


@dataclass(frozen=True, slots=True)
class Along:
    """Rows (axis 1) or columns (axis 0) of a matrix, reduced by torch's function `what`."""

    what: str
    axis: int

    @property
    def name(self) -> str:
        return f"{self.what} of {('columns', 'rows')[self.axis]}"

    def call(self, dtype: str) -> Call:
        dispatch = ("axis", "rows")[self.axis]
        if self.what == "argmax":
            return Call(f"arg_{dispatch}")
        return Call(dispatch, {"JOIN": "maximum", "EMPTY": -math.inf} if self.what == "amax" else {})

    def problem(self, shape: Shape, dtype: str) -> AlongProblem:
        return AlongProblem(self, shape, dtype)

    def host_arguments(self, shape: Shape, dtype: str) -> tuple[Any, ...]:
        x = np.random.default_rng(0).standard_normal((shape["rows"], shape["cols"])).astype(TYPES[dtype])
        out = np.empty(x.shape[1 - self.axis], np.int64 if self.what == "argmax" else np.float32)
        return (out, x) if self.axis else (out[None], x[None])


class AlongProblem:
    """One shape. See harness.contest.Problem."""

    def __init__(self, operation: Along, shape: Shape, dtype: str):
        import torch

        self.operation, self.shape, self.dtype = operation, shape, dtype
        self.name, self.call = operation.name, operation.call(dtype)
        self.x = numbers(dtype, shape["rows"], shape["cols"])
        kind = torch.int64 if operation.what == "argmax" else torch.float32
        self.out = torch.empty(self.x.shape[1 - operation.axis], device="cuda", dtype=kind)
        self.arguments = (self.out, self.x) if operation.axis else (self.out[None], self.x[None])
        self.bound = pairwise_bound(self.x.shape[operation.axis]) if operation.what == "sum" else 0.0

    computes = 0

    @property
    def moves(self) -> int:
        return sum(array.numel() * array.element_size() for array in (self.x, self.out))

    def error(self, launch: Callable[[], object]) -> float:
        """The error of a sum, relative to the sum of absolute values. For other reductions, the error is the share of
        wrong elements."""
        axis, what = self.operation.axis, self.operation.what
        out = launch.out if isinstance(launch, Own) else self.out
        out.fill_(-1 if what == "argmax" else float("nan"))
        launch()
        if what != "sum":
            wanted = self.x.argmax(axis) if what == "argmax" else self.x.amax(axis)
            return float((out != wanted).double().mean())
        wide = self.x.double()
        return relative_error(out, wide.sum(axis), wide.abs().sum(axis))


@dataclass(slots=True)
class Own:
    """A launch that writes its own array."""

    out: Any
    launch: Callable[[], object]

    def __call__(self) -> None:
        self.launch()


def torch_along(problem: AlongProblem) -> tuple[Callable[[], object], str]:
    """torch's reduction. Sums and indices have the same type as ours. Maxima have the elements' type, since torch
    offers no other type."""
    import torch

    x, axis, what = problem.x, problem.operation.axis, problem.operation.what
    if what == "sum":
        return lambda: torch.sum(x, axis, dtype=torch.float32, out=problem.out), ""
    if what == "argmax":
        return lambda: torch.argmax(x, axis, out=problem.out), ""
    narrow = torch.empty_like(problem.out, dtype=x.dtype)
    return Own(narrow, lambda: torch.amax(x, axis, out=narrow)), ""


# ---- the benchmarks ----


def compile_cub(measured: list[tuple[Any, Shape, str]], peers: Sequence[str]) -> None:
    """Compiles CUB before anything is timed. If the compilation fails, the measurement reports the failure."""
    if "cub" in peers:
        from peers import cub

        with suppress(LeftOut):
            cub.library()


def fewer(shape: Shape) -> Shape:
    """A size that the emulator counts in about a second."""
    return {name: min(extent, COUNTED[name]) for name, extent in shape.items()}


COUNTED = {"n": 1 << 18, "rows": 64, "cols": 4096}
EVERYTHING = Benchmark(
    (SAMPLE,),
    {"everything": Everything()},
    {"by hand": sum_by_hand, "cub": cub_sum, "torch": torch_sum},
    types=tuple(TYPES),
    key="n",
    extents=SIZES,
    fixed={},
    least=1 << 25,
    counted=fewer,
    prepare=compile_cub,
    yardstick=Yardstick("read", read),
)
LADDER = replace(EVERYTHING, peers={name: rung(name) for name in RUNGS} | dict(EVERYTHING.peers), types=("f32",))
AXES = replace(
    EVERYTHING,
    operations={
        made.name: made for made in (Along(what, axis) for what in ("sum", "amax", "argmax") for axis in (1, 0))
    },
    peers={"by hand": by_hand, "torch": torch_along},
    types=("f16", "f32"),
    key="cols",
    extents=(4096,),
    fixed={"rows": 49152},
    least=4096,
)
BENCHMARKS = {"everything": EVERYTHING, "ladder": LADDER, "axes": AXES}


def main() -> None:
    first = argparse.ArgumentParser(add_help=False, usage="reduction.py {everything,ladder,axes} [--help] [options]")
    first.add_argument("what", choices=BENCHMARKS)
    chosen, rest = first.parse_known_args()
    run(BENCHMARKS[chosen.what], parser(__doc__, BENCHMARKS[chosen.what]).parse_args(rest))


if __name__ == "__main__":
    main()
