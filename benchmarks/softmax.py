"""Softmax and log-softmax, forward and backward, against a copy of the same bytes, torch, Triton and cuDNN.

    python3 benchmarks/softmax.py --json softmax.json --plot softmax.png

The benchmark of OneFlow's article: 49152 rows of 32 to 32768 columns, with 1000, 1023, 5003 and 50257 beside them. At
every shape all results are first checked against float64, on outputs that were poisoned; then all variants are timed in
one interleaved run. "copy" copies flat arrays and moves as many bytes as the operation must: two arrays forward, three
backward. Peers that are not installed are left out and said so. `--counters` adds the emulator's counters of ours;
without a GPU that is all there is.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from harness import (
    COPY,
    OURS,
    Interval,
    LeftOut,
    Panel,
    Row,
    console,
    copy_of,
    counted,
    facts_of,
    interleaved,
    plot,
    save,
    show,
    summary,
)

import dsl
from runtime import device_facts, gpu_reason

COLUMNS = (32, 64, 128, 256, 512, 1000, 1023, 1024, 2048, 4096, 5003, 8192, 16384, 32768, 50257)
LONG = 128
"""Columns from which on the share of the copy is summed up."""
BOUNDS = {"f16": 1e-3, "bf16": 4e-3, "f32": 1e-6}
"""Of the error; of f16 and bf16 absolute up to 1 and relative to the row's largest value beyond, of f32 relative."""
TORCH_TYPES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}
CHECKED_ROWS = 128
COUNTED_ELEMENTS = 1 << 18
SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "softmax.tile"


@dataclass(frozen=True, slots=True)
class Operation:
    """`name` is the dispatch's in the sample: forward (y, x), backward (dx, y, dy)."""

    name: str
    log: bool
    backward: bool


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation("softmax", False, False),
        Operation("softmax_backward", False, True),
        Operation("log_softmax", True, False),
        Operation("log_softmax_backward", True, True),
    )
}


class Problem:
    """The arrays of one operation at one shape on the GPU; `arrays` has the output in front."""

    def __init__(self, operation: Operation, rows: int, cols: int, dtype: str):
        import torch

        self.operation, self.rows, self.cols, self.dtype = operation, rows, cols, dtype
        made = {"device": "cuda", "dtype": getattr(torch, TORCH_TYPES[dtype])}
        x = torch.randn(rows, cols, **made)
        self.out = torch.empty_like(x)
        self.inputs = (x,)
        if operation.backward:
            forward = torch.log_softmax if operation.log else torch.softmax
            forward(x, 1, out=self.out)
            self.inputs = (self.out, x.normal_())
            self.out = torch.empty_like(x)
        self.arrays = (self.out, *self.inputs)

    @property
    def moves(self) -> int:
        return sum(array.numel() * array.element_size() for array in self.arrays)

    @cached_property
    def wanted(self) -> list[tuple[slice, Any]]:
        """Rows at the start, in the middle and at the end, in float64."""
        middle = self.rows // 2
        parts = slice(0, CHECKED_ROWS), slice(middle, middle + CHECKED_ROWS), slice(-CHECKED_ROWS, None)
        return [(part, self.reference(*(array[part].double() for array in self.inputs))) for part in parts]

    def reference(self, *inputs: Any) -> Any:
        """Of float64 arrays."""
        import torch

        if not self.operation.backward:
            return (torch.log_softmax if self.operation.log else torch.softmax)(*inputs, 1)
        y, dy = inputs
        if self.operation.log:
            return dy - y.exp() * dy.sum(1, keepdim=True)
        return y * (dy - (y * dy).sum(1, keepdim=True))

    def error(self, launch: Callable[[], object]) -> float:
        """Greatest error of a launch on a poisoned output, as BOUNDS takes it; infinite where NaN is left."""
        self.out.fill_(float("nan"))
        launch()
        worst = 0.0
        for part, wanted in self.wanted:
            scale = wanted.abs().amax(1, keepdim=True)
            if self.dtype != "f32":
                scale = scale.clamp(min=1.0)
            error = float(((self.out[part].double() - wanted).abs() / scale).max())
            worst = max(worst, error if error == error else float("inf"))
        return worst


def torch_launch(problem: Problem) -> tuple[Callable[[], object], str]:
    """torch's own kernels, into the given output."""
    import torch

    out, operation = problem.out, problem.operation
    if not operation.backward:
        forward, (x,) = torch.log_softmax if operation.log else torch.softmax, problem.inputs
        return lambda: forward(x, 1, out=out), ""
    y, dy = problem.inputs
    if operation.log:
        backward = torch.ops.aten._log_softmax_backward_data.out
        return lambda: backward(dy, y, 1, dy.dtype, out=out), ""
    backward = torch.ops.aten._softmax_backward_data.out
    return lambda: backward(dy, y, 1, dy.dtype, grad_input=out), ""


def triton_launch(problem: Problem) -> tuple[Callable[[], object], str]:
    """Our Triton kernels, tuned here."""
    from peers.triton_softmax import tuned

    shape = triton_shape(problem.operation, problem.rows, problem.cols, problem.dtype)
    is_right = lambda launch: problem.error(launch) <= BOUNDS[problem.dtype]  # noqa: E731
    return tuned(shape, problem.arrays, device_facts("cuda").sms, is_right)


def triton_shape(operation: Operation, rows: int, cols: int, dtype: str) -> Any:
    import torch
    from peers.triton_softmax import Shape

    return Shape(operation.log, operation.backward, rows, cols, getattr(torch, TORCH_TYPES[dtype]))


def cudnn_launch(problem: Problem) -> tuple[Callable[[], object], str]:
    """cuDNN's, in the faster of its two modes."""
    from peers import cudnn

    o, pointers = problem.operation, [array.data_ptr() for array in problem.arrays]
    launches = {
        mode: cudnn.softmax(mode, o.log, o.backward, problem.rows, problem.cols, problem.dtype, pointers)
        for mode in cudnn.MODES
    }
    times = {mode: Interval.of(t).median for mode, t in interleaved(launches, 5, warmups=1).items()}
    best = min(times, key=times.__getitem__)
    return launches[best], f"mode {best}"


PEERS = {"torch": torch_launch, "triton": triton_launch, "cudnn": cudnn_launch}


class Benchmark:
    """The module under test, the peers, and what was left out and why."""

    def __init__(self, rows: int, rounds: int, peers: list[str]):
        self.module = dsl.load(SAMPLE)
        self.emulated = dsl.load(SAMPLE, device="emulator")
        self.rows, self.rounds, self.peers = rows, rounds, peers
        self.left_out: dict[str, list[str]] = {}

    def leave_out(self, reason: str, where: str) -> None:
        self.left_out.setdefault(reason, []).append(where)

    def has(self, operation: Operation) -> bool:
        return operation.name in self.module.program.dispatches

    def measure(self, operation: Operation, cols: int, dtype: str) -> Row:
        """Checks and times one shape."""
        problem = Problem(operation, self.rows, cols, dtype)
        row = Row(operation.name, dtype, {"rows": self.rows, "cols": cols}, problem.moves, bound=BOUNDS[dtype])
        launches: dict[str, Callable[[], object]] = {}
        if self.has(operation):
            function = getattr(self.module, operation.name)
            launches[OURS] = lambda: function(*problem.arrays)
            row.launches = facts_of(self.module, operation.name, problem.arrays)
        else:
            self.leave_out(f"{SAMPLE.name} has no {operation.name}", "dsl")
        for name in self.peers:
            try:
                launches[name], row.notes[name] = PEERS[name](problem)
            except (LeftOut, ImportError) as reason:
                self.leave_out(f"{name}: {reason}", f"{operation.name} {dtype} {cols}")
        row.errors = {name: problem.error(launch) for name, launch in launches.items()}
        problem.__dict__.pop("wanted", None)  # large at long rows
        launches[COPY] = copy_of(problem.moves)
        row.times = {name: Interval.of(times) for name, times in interleaved(launches, self.rounds).items()}
        return row

    def count(self, row: Row) -> None:
        """Adds the emulator's counters, of fewer rows."""
        operation, cols = OPERATIONS[row.operation], row.shape["cols"]
        if not self.has(operation):
            return
        try:
            dtype = numpy_type(row.dtype)
        except LeftOut as reason:
            self.leave_out(str(reason), f"counters of {row.dtype}")
            return
        rows = max(4, min(256, COUNTED_ELEMENTS // cols))
        random = np.random.default_rng(0)
        arrays = tuple(
            random.standard_normal((rows, cols)).astype(dtype) for _ in range(3 if operation.backward else 2)
        )
        row.counters, row.counted_rows = counted(self.emulated, operation.name, arrays), rows


def numpy_type(dtype: str) -> Any:
    """numpy's own, or ml_dtypes' for bf16."""
    if dtype != "bf16":
        return np.dtype(TORCH_TYPES[dtype])
    try:
        import ml_dtypes
    except ImportError:
        raise LeftOut("bf16 arrays on the host need ml_dtypes") from None
    return np.dtype(ml_dtypes.bfloat16)


def rows_of(benchmark: Benchmark, options: argparse.Namespace, operation: Operation, dtype: str) -> Iterator[Row]:
    """One row a length, measured where there is a GPU."""
    has_gpu = gpu_reason() is None
    for cols in options.cols:
        arrays = 3 if operation.backward else 2
        size = 4 if dtype == "f32" else 2
        row = Row(operation.name, dtype, {"rows": options.rows, "cols": cols}, arrays * size * options.rows * cols)
        if has_gpu:
            import torch

            row = benchmark.measure(operation, cols, dtype)
            torch.cuda.empty_cache()
        if options.counters or not has_gpu:
            benchmark.count(row)
        yield row


def panels(rows: list[Row]) -> list[Panel]:
    """GB/s over columns, a panel an operation and type; the copy second, so that it is drawn as the bound."""
    made = []
    for key in dict.fromkeys((row.operation, row.dtype) for row in rows):
        chosen = [row for row in rows if (row.operation, row.dtype) == key]
        lines = {}
        for name in (OURS, COPY, *PEERS):
            points = [(float(row.shape["cols"]), row.gbps(name)) for row in chosen if name in row.times]
            if points:
                lines[name] = points
        made.append(Panel(f"{key[0]}, {key[1]}", lines))
    return made


def arguments() -> argparse.Namespace:
    def listed(known: Any) -> Callable[[str], list[str]]:
        def parse(text: str) -> list[str]:
            chosen = [part for part in text.split(",") if part]
            if unknown := [part for part in chosen if part not in known]:
                raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(known)}")
            return chosen

        return parse

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda text: [int(part) for part in text.split(",")]  # noqa: E731
    parser.add_argument("--cols", type=numbers, default=list(COLUMNS), help="row lengths, by commas")
    parser.add_argument("--types", type=listed(BOUNDS), default=["f16"], help="f16, bf16, f32")
    parser.add_argument("--ops", type=listed(OPERATIONS), default=list(OPERATIONS), help=", ".join(OPERATIONS))
    parser.add_argument("--peers", type=listed(PEERS), default=list(PEERS), help=", ".join(PEERS))
    parser.add_argument("--rows", type=int, default=49152)
    parser.add_argument("--rounds", type=int, default=41, help="timed launches of each variant")
    parser.add_argument("--counters", action="store_true", help="the emulator's counters of ours")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    return parser.parse_args()


def precompile(options: argparse.Namespace) -> None:
    """Compiles Triton's kernels before anything is timed."""
    try:
        from peers import triton_softmax
    except ImportError:
        return
    shapes = [
        triton_shape(OPERATIONS[name], options.rows, cols, dtype)
        for dtype in options.types
        for name in options.ops
        for cols in options.cols
    ]
    triton_softmax.precompile(shapes, max(1, (os.cpu_count() or 1) - 1))


def main() -> None:
    options = arguments()
    out, begun, reason = console(), time.perf_counter(), gpu_reason()
    device = device_facts("auto").name
    benchmark = Benchmark(options.rows, options.rounds, options.peers)
    out.print(f"{device}, {options.rows} rows" + (f"; counters only: {reason}" if reason else ""))
    if reason is None and "triton" in options.peers:
        precompile(options)
        out.print(f"Triton compiled after {time.perf_counter() - begun:.0f} s")
    rows: list[Row] = []
    for dtype in options.types:
        for name in options.ops:
            chosen = list(rows_of(benchmark, options, OPERATIONS[name], dtype))
            rows += chosen
            out.print(show(chosen, f"{name}, {dtype}, {options.rows} rows, microseconds", "cols"))
            out.print(*summary(chosen, LONG, "cols"), sep="\n")
            if options.json:
                save(options.json, rows, device, [SAMPLE], rounds=options.rounds, left_out=benchmark.left_out)
    for left_out, where in benchmark.left_out.items():
        out.print(f"left out: {left_out} ({', '.join(dict.fromkeys(where))})")
    if options.plot and reason is None:
        title = f"{device}, {options.rows} rows, L2 cold, medians of {options.rounds} interleaved launches"
        plot(options.plot, panels(rows), title, "columns", "GB/s")
    out.print(f"{time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
