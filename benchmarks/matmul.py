"""Products of matrices against cuBLAS, Triton, and the limit of mma.sync.

    python3 benchmarks/matmul.py all --json matmul.json --plot matmul.png
    python3 benchmarks/matmul.py square --types s8 --schedules mma_sync,stream_k --n 4096,8192
    python3 benchmarks/matmul.py all --quick

"square" multiplies n×n matrices. "skinny" multiplies m rows by a 4096×4096 matrix, and "deep" multiplies m rows by an
8192×8192 matrix. --n and --k set other sizes. "fused" adds bias, activation and residual in the same launch (`linear`).
"grouped", "scaled" and "w4" are in matmul_kinds.py. "all" runs all of these, each with its own JSON and plot.

a is row-major. In "a@b" b is row-major. In "a@b.T" b is stored as [n, k]. For bytes, only "a@b.T" suits cuBLAS. f32 is
multiplied as tf32, and the results of e4m3 are bf16. First, outputs are poisoned, and every result is checked against
float64. Results of integers must be exact. Then all variants are timed in one interleaved run in shuffled order. The L2
is overwritten between launches. A rest after each round keeps the device below its power limit, and the table shows the
clocks.

"plain" is peers/plain.tile, products without a schedule. "by hand" is peers/by_hand: kernels in which fragments, rings
and waits are written out. "mma.sync" is peers/products.tile, which computes the same number of products on operands
that stay in registers. Skinny products spend their time on reading b, so their yardstick is "read": peers/read.tile on
b. "triton.mma" is Triton confined to mma.sync and cp.async, the instructions of our kernels. cuBLAS and "triton"
multiply by wgmma. Peers that are not installed, or that refuse a product, are left out and reported. `--schedules` adds
our other schedules as separate variants.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matmul_fused
import matmul_kinds
from harness import Benchmark, Call, LeftOut, Shape, Yardstick, parser, run
from matmul_arrays import TYPES, Arrays, extents_of, host_operands, read_b, registers

import dsl

HERE = Path(__file__).resolve().parent
SAMPLE = HERE.parent / "samples" / "matmul.tile"
BY_HAND = HERE / "peers" / "by_hand" / "matmul.tile"
PLAIN_TEXT = HERE / "peers" / "plain.tile"
SQUARES = (512, 1024, 2048, 4096, 8192)
ROWS = (1, 16, 64, 128)
REST = 2.0
"""The rest after each round, as a multiple of the round's time. With twice the time, an H200 keeps its highest clock.
For f16 at 8192, the clock drops by up to 8%."""
QUICK = {"square": ["--n", "1024,4096", "--rounds", "11"], "skinny": ["--m", "16,128", "--rounds", "11"]}
QUICK |= {"deep": QUICK["skinny"], "fused": QUICK["square"], "grouped": ["--g", "8", "--rounds", "11"]}
QUICK |= {"scaled": ["--m", "4096", "--rounds", "11"], "w4": QUICK["skinny"]}


@dataclass(frozen=True, slots=True)
class Product:
    """a @ b, or a @ b.T with `b_t`."""

    name: str
    b_t: bool

    def call(self, dtype: str) -> Call:
        return Call("matmul", {})

    def problem(self, shape: Shape, dtype: str) -> Problem:
        return Problem(self, shape, dtype)

    def host_arguments(self, shape: Shape, dtype: str) -> tuple[Any, ...]:
        c, a, b = host_operands(shape, dtype, self.b_t)
        return c, a, b.T if self.b_t else b


PRODUCTS = {made.name: made for made in (Product("a@b.T", True), Product("a@b", False))}


class Problem(Arrays):
    """One product at one shape. See harness.contest.Problem."""

    def __init__(self, operation: Product, shape: Shape, dtype: str):
        super().__init__(shape, dtype, operation.b_t)
        self.name, self.call, self.bound = operation.name, operation.call(dtype), TYPES[dtype].bound

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.c, self.a, self.b.T if self.b_t else self.b

    @property
    def operands(self) -> tuple[Any, Any, Any]:
        return self.c, self.a, self.b

    def error(self, launch: Callable[[], object]) -> float:
        return self.poisoned_error(launch, self.reference)


def cublas(problem: Problem) -> tuple[Callable[[], object], str]:
    """The product by cuBLAS through torch. cuBLAS writes into the given output."""
    import torch

    c, a, b = problem.c, problem.a, problem.b.T if problem.b_t else problem.b
    if problem.dtype == "e4m3":
        if not problem.b_t:
            raise LeftOut("torch multiplies e4m3 by a transposed matrix alone")
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=c.dtype, out=c), ""
    if problem.dtype != "s8":
        torch.backends.cuda.matmul.allow_tf32 = True
        return lambda: torch.matmul(a, b, out=c), ""
    try:
        torch._int_mm(a, b, out=c)
    except RuntimeError as error:
        raise LeftOut(str(error).splitlines()[0]) from None
    return lambda: torch._int_mm(a, b, out=c), ""


def triton(instructions: str) -> Callable[[Problem], tuple[Callable[[], object], str]]:
    def launch(problem: Problem) -> tuple[Callable[[], object], str]:
        from peers.triton_matmul import tuned

        variant = variant_of(instructions, problem.b_t, problem.shape, problem.dtype)
        return tuned(variant, problem.operands, lambda made: problem.error(made) <= problem.bound, REST)

    return launch


TRITON = {"triton": "wgmma", "triton.mma": "mma"}


def variant_of(instructions: str, b_t: bool, shape: Shape, dtype: str) -> Any:
    import torch
    from peers.triton_matmul import Variant

    names = TYPES[dtype].numpy, TYPES[dtype].result
    return Variant(instructions, b_t, *extents_of(shape), *(getattr(torch, name) for name in names))


def compile_triton(measured: list[tuple[Any, Shape, str]], peers: Sequence[str]) -> None:
    """Compiles Triton's kernels before anything is timed."""
    try:
        from peers.triton_matmul import precompile
    except ImportError:
        return
    wanted = [instructions for name, instructions in TRITON.items() if name in peers]
    variants = [variant_of(i, operation.b_t, shape, dtype) for operation, shape, dtype in measured for i in wanted]
    if variants:
        precompile(variants, max(1, (os.cpu_count() or 1) // 2))


def by_hand(problem: Problem) -> tuple[Callable[[], object], str]:
    """The kernels with rings, waits and fragments written out."""
    if problem.dtype == "e4m3":
        raise LeftOut("no product of e4m3 is written by hand")
    module, operands = dsl.load(BY_HAND), problem.operands
    if problem.dtype == "s8":
        return lambda: module.matmul_s8(*operands, 1.0, B_T=problem.b_t), ""
    return lambda: module.matmul(*operands, B_T=problem.b_t), ""


def plain(problem: Problem) -> tuple[Callable[[], object], str]:
    """The product of peers/plain.tile, without a schedule: 128 x 256 results, k-tiles of 128 bytes. Threads load bytes
    of b that do not lie along k. Of these, a tile has 128 columns."""
    module, size = dsl.load(PLAIN_TEXT), problem.a.element_size()
    kernel = module.promoted if problem.dtype == "e4m3" else module.product
    rows, columns = (128, 256) if problem.b_t or size > 1 else (256, 128)
    tile = {"TM": rows, "TN": columns, "TK": 128 // size}
    return lambda: kernel(*problem.arguments, **tile), ""


def schedule(name: str) -> Callable[[Problem], tuple[Callable[[], object], str]]:
    """Our product with the schedule `name`, whatever the dispatch would choose."""

    def launch(problem: Problem) -> tuple[Callable[[], object], str]:
        module = dsl.load(SAMPLE)
        if name not in module.program.schedules_of("product"):
            raise LeftOut(f"no schedule {name}")
        arguments = (*problem.arguments, None, None, None, 1.0)
        return lambda: module.product(*arguments, schedule=name), ""

    return launch


def fewer(shape: Shape) -> Shape:
    """A shape with a small k, so that the emulator takes seconds. The dispatch treats this shape like the original
    shape."""
    m, n, k = extents_of(shape)
    return {"m": min(m, 4096), "n": min(n, 4096), "k": min(k, 256)}


SQUARE = Benchmark(
    (SAMPLE,),
    PRODUCTS,
    {"plain": plain, "by hand": by_hand, "cublas": cublas}
    | {name: triton(instructions) for name, instructions in TRITON.items()},
    types=tuple(TYPES),
    key="n",
    extents=SQUARES,
    fixed={},
    least=2048,
    counted=fewer,
    prepare=compile_triton,
    yardstick=Yardstick("mma.sync", registers),
    rest=REST,
)
SKINNY = replace(
    SQUARE, key="m", extents=ROWS, fixed={"n": 4096, "k": 4096}, least=1, yardstick=Yardstick("read", read_b)
)
FUSED = replace(
    SQUARE,
    samples=(matmul_fused.SAMPLE,),
    operations=matmul_fused.OPERATIONS,
    peers=matmul_fused.PEERS,
    types=matmul_fused.TYPES,
    extents=SQUARES[1:],
    prepare=lambda measured, peers: None,
)
PLAIN = {"square": SQUARE, "skinny": SKINNY, "deep": replace(SKINNY, fixed={"n": 8192, "k": 8192})}
"""The benchmarks of a single kernel, for which `--schedules` may add schedules."""
BENCHMARKS = PLAIN | {"fused": FUSED} | matmul_kinds.BENCHMARKS


def measure(what: str, arguments: Sequence[str], *, quick: bool, numbered: bool) -> None:
    """Runs one of BENCHMARKS. With `numbered`, the benchmark's name is added to the names of its JSON and plot
    files."""
    benchmark = BENCHMARKS[what]
    options = parser(__doc__, benchmark)
    options.set_defaults(types=list(benchmark.types))
    if what in PLAIN:
        options.add_argument("--schedules", type=lambda text: text.split(","), default=[], metavar="NAME,NAME,…")
    chosen = options.parse_args([*(QUICK[what] if quick else []), *arguments])
    if numbered:
        for name in ("json", "plot"):
            path = getattr(chosen, name)
            setattr(chosen, name, path and path.with_stem(f"{path.stem}-{what}"))
    if what in PLAIN and chosen.schedules:
        ours = {f"dsl {name}": schedule(name) for name in chosen.schedules}
        peers = {name: benchmark.peers[name] for name in chosen.peers or benchmark.peers if name in benchmark.peers}
        benchmark, chosen.peers = replace(benchmark, peers=ours | peers), None
    run(benchmark, chosen)


def main() -> None:
    known = ["all", *BENCHMARKS]
    first = argparse.ArgumentParser(add_help=False, usage=f"matmul.py {{{','.join(known)}}} [--help] [options]")
    first.add_argument("what", choices=known)
    first.add_argument("--quick", action="store_true", help="two sizes and fewer launches")
    chosen, rest = first.parse_known_args()
    for what in BENCHMARKS if chosen.what == "all" else [chosen.what]:
        measure(what, rest, quick=chosen.quick, numbered=chosen.what == "all")


if __name__ == "__main__":
    main()
