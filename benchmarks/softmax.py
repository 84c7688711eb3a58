"""Softmax and log-softmax, forward and backward, against a copy of the same bytes, torch, Triton and cuDNN.

    python3 benchmarks/softmax.py --json softmax.json --plot softmax.png

The benchmark comes from OneFlow's article: 49152 rows of 32 to 32768 columns. We add 1000, 1023, 5003 and 50257
columns. At every shape, outputs are first poisoned, and all results are checked against float64. Then all variants are
timed in one interleaved run. "copy" copies flat arrays and moves as many bytes as the operation must move: two arrays
forward, three arrays backward. "by hand" is peers/by_hand/softmax.tile, for the forward pass only. Peers that are not
installed are left out and reported.

`--fused` measures samples/softmax_fused.tile against torch's separate operations. `--counters` adds the emulator's
counters of our kernels. Without a GPU, only these counters are shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import softmax_fused
from harness import Benchmark, Call, Interval, LeftOut, Shape, interleaved, parser, run
from softmax_arrays import BOUNDS, fewer_rows, numpy_type, sampled_error, torch_type

import dsl
from dsl.runtime import device_facts

COLUMNS = (32, 64, 128, 256, 512, 1000, 1023, 1024, 2048, 4096, 5003, 8192, 16384, 32768, 50257)
LONG = 128
"""Least number of columns for which the summary counts the share of the copy."""
ROOT = Path(__file__).resolve().parent.parent
SAMPLES = (ROOT / "samples" / "softmax.tile", ROOT / "samples" / "softmax_backward.tile")
BY_HAND = ROOT / "benchmarks" / "peers" / "by_hand" / "softmax.tile"


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation. `name` is its dispatch in a sample. The arguments are (y, x), or (dx, y, dy) in the backward
    pass."""

    name: str
    log: bool
    backward: bool

    def call(self, dtype: str) -> Call:
        return Call(self.name)

    def problem(self, shape: Shape, dtype: str) -> Problem:
        return Problem(self, shape, dtype)

    def host_arguments(self, shape: Shape, dtype: str) -> tuple[Any, ...]:
        random, extents = np.random.default_rng(0), (shape["rows"], shape["cols"])
        return tuple(
            random.standard_normal(extents).astype(numpy_type(dtype)) for _ in range(3 if self.backward else 2)
        )


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
    """One operation at one shape. The output comes first in `arguments`. See harness.contest.Problem."""

    def __init__(self, operation: Operation, shape: Shape, dtype: str):
        import torch

        self.operation, self.shape, self.dtype = operation, shape, dtype
        self.name, self.call, self.bound = operation.name, operation.call(dtype), BOUNDS[dtype]
        x = torch.randn(shape["rows"], shape["cols"], device="cuda", dtype=torch_type(dtype))
        self.out, self.inputs = torch.empty_like(x), (x,)
        if operation.backward:
            (torch.log_softmax if operation.log else torch.softmax)(x, 1, out=self.out)
            self.inputs = (self.out, x.normal_())
            self.out = torch.empty_like(x)
        self.arguments = (self.out, *self.inputs)

    computes = 0

    @property
    def moves(self) -> int:
        return sum(array.numel() * array.element_size() for array in self.arguments)

    def reference(self, *inputs: Any) -> Any:
        """The exact result, from float64 arrays."""
        import torch

        if not self.operation.backward:
            return (torch.log_softmax if self.operation.log else torch.softmax)(*inputs, 1)
        y, dy = inputs
        if self.operation.log:
            return dy - y.exp() * dy.sum(1, keepdim=True)
        return y * (dy - (y * dy).sum(1, keepdim=True))

    def error(self, launch: Callable[[], object]) -> float:
        self.out.fill_(float("nan"))
        launch()
        return sampled_error(self.out, self.inputs, self.reference, self.dtype)


def torch_launch(problem: Problem) -> tuple[Callable[[], object], str]:
    """torch's own kernels, which write into the given output."""
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
    """Our Triton kernels, tuned on this device."""
    from peers.triton_softmax import tuned

    shape = triton_shape(problem.operation, problem.shape, problem.dtype)
    sms = device_facts("cuda").sms
    return tuned(shape, problem.arguments, sms, lambda launch: problem.error(launch) <= problem.bound)


def triton_shape(operation: Operation, shape: Shape, dtype: str) -> Any:
    from peers.triton_softmax import Variant

    return Variant(operation.log, operation.backward, shape["rows"], shape["cols"], torch_type(dtype))


def cudnn_launch(problem: Problem) -> tuple[Callable[[], object], str]:
    """cuDNN's softmax, in the faster of its two modes."""
    from peers import cudnn

    o, pointers = problem.operation, [array.data_ptr() for array in problem.arguments]
    rows, cols = problem.shape["rows"], problem.shape["cols"]
    launches = {
        mode: cudnn.softmax(mode, o.log, o.backward, rows, cols, problem.dtype, pointers) for mode in cudnn.MODES
    }
    times = {mode: Interval.of(t).median for mode, t in interleaved(launches, 5, warmups=1).items()}
    best = min(times, key=times.__getitem__)
    return launches[best], f"mode {best}"


def by_hand_launch(problem: Problem) -> tuple[Callable[[], object], str]:
    """The kernels with shared tiles, copies and edges of rows written out."""
    if problem.operation.backward:
        raise LeftOut("only forward is written by hand")
    function = getattr(dsl.load(BY_HAND), problem.name)
    return lambda: function(*problem.arguments), ""


PEERS = {"by hand": by_hand_launch, "torch": torch_launch, "triton": triton_launch, "cudnn": cudnn_launch}


def compile_triton(measured: list[tuple[Any, Shape, str]], peers: Sequence[str]) -> None:
    """Compiles Triton's kernels before anything is timed."""
    if "triton" not in peers:
        return
    try:
        from peers.triton_softmax import precompile
    except ImportError:
        return
    shapes = [triton_shape(operation, shape, dtype) for operation, shape, dtype in measured]
    precompile(shapes, max(1, (os.cpu_count() or 1) - 1))


SOFTMAX = Benchmark(
    SAMPLES,
    OPERATIONS,
    PEERS,
    types=tuple(BOUNDS),
    key="cols",
    extents=COLUMNS,
    fixed={"rows": 49152},
    least=LONG,
    counted=fewer_rows,
    prepare=compile_triton,
)
FUSED = replace(
    SOFTMAX,
    samples=(softmax_fused.SAMPLE,),
    operations=softmax_fused.OPERATIONS,
    peers=softmax_fused.PEERS,
    prepare=lambda measured, peers: None,
)


def main() -> None:
    options = parser(__doc__, SOFTMAX)
    options.add_argument("--fused", action="store_true", help="scale and mask before, dropout after")
    chosen = options.parse_args()
    run(FUSED if chosen.fused else SOFTMAX, chosen)


if __name__ == "__main__":
    main()
