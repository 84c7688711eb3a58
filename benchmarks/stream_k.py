"""Tests and times products in which several blocks share the iterations of a tile. Every run must give the same bits.

    python3 benchmarks/stream_k.py [--runs 10000] [--before CHECKOUT] [--json stream_k.json]

Blocks that share a tile leave their sums in a workspace, and the last block to arrive adds the sums. A race among the
blocks may show as a run with other bits. The products have few tiles, so the schedule splits them. Each product runs
`--runs` times, and the output is overwritten before each run. The first result is compared with float64, and results of
integers must be exact. Every other result is compared with the first result, bit by bit.

With `--before`, the compiler of that checkout makes the same kernels. Both versions are timed in one interleaved run,
and the L2 is overwritten between launches. The table shows the median of the rounds' ratios. The program exits with 1
if any bits differ.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import Shape
from harness.timing import interleaved
from matmul_arrays import TYPES, Arrays
from rich.console import Console
from rich.table import Table

import dsl
from dsl import runtime
from dsl.calls.plan import BoundPlan, Workspace
from dsl.runtime.dtypes import NAME_OF_NUMPY
from dsl.values.facts import ArrayFacts

SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "matmul.tile"
SQUARES = [(n, n, n) for n in (512, 1000, 1024, 2048, 3000, 4096, 8192)]
FEW_ROWS = [(m, n, n) for m in (16, 64, 100, 128) for n in (4096, 8192)]
COUNTED_AT_ONCE = 100
"""Number of runs after which the host waits for the device."""


@dataclass(frozen=True)
class Case:
    """c = a @ b, or a @ b.T with `b_t`."""

    dtype: str
    m: int
    n: int
    k: int
    b_t: bool

    def __str__(self) -> str:
        return f"{self.dtype} {self.m}x{self.n}x{self.k} {'a@b.T' if self.b_t else 'a@b'}"

    def plan(self, module: Any) -> Any:
        """The plan of a call with arrays of this case's shapes."""
        kind, result = self.dtype.replace("tf", "f"), NAME_OF_NUMPY[TYPES[self.dtype].result]
        b = (self.n, self.k) if self.b_t else (self.k, self.n)
        shapes = {"c": ((self.m, self.n), result), "a": ((self.m, self.k), kind), "b": (b, kind)}
        facts: dict[str, Any] = {name: ArrayFacts(shape, dtype, 16) for name, (shape, dtype) in shapes.items()}
        if self.b_t:
            facts["b"] = facts["b"].turned
        return module.matmul.plan(facts)

    def shares_tiles(self, module: Any) -> bool:
        return any(isinstance(argument, Workspace) for step in self.plan(module).steps for argument in step.arguments)


def cases(module: Any) -> list[Case]:
    made = [
        Case(d, *size, b_t)
        for d in ("f16", "bf16", "tf32", "s8")
        for size in SQUARES + FEW_ROWS
        for b_t in (True, False)
    ]
    return [case for case in made if case.shares_tiles(module)]


def texts(module: Any, case: Case) -> list[str]:
    """The PTX of each launch."""
    return [module.variant(step.request).ptx for step in case.plan(module).steps]


def texts_of(checkout: Path, wanted: list[Case]) -> dict[str, list[str]]:
    """The PTX that the compiler of another checkout makes of its sample. A separate process runs this script in that
    checkout."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "texts.json"
        rows = json.dumps([[c.dtype, c.m, c.n, c.k, c.b_t] for c in wanted])
        command = [sys.executable, __file__, "--texts", str(file), "--sample", str(checkout / "samples/matmul.tile")]
        paths = os.pathsep.join([str(checkout), os.environ.get("PYTHONPATH", "")])
        subprocess.run(command, input=rows, text=True, check=True, env={**os.environ, "PYTHONPATH": paths})
        return json.loads(file.read_text())


def write_texts(sample: Path, file: Path) -> None:
    module = dsl.load(sample)
    made = [Case(*row) for row in json.load(sys.stdin)]
    file.write_text(json.dumps({str(case): texts(module, case) for case in made}))


def launcher(module: Any, case: Case, arrays: Arrays, ptx: list[str] | None = None) -> Callable[[], None]:
    """A launch of the product into `arrays.c`. With `ptx`, the kernels of these PTX texts replace the module's
    kernels."""
    kernels = None if ptx is None else [runtime.Kernel(text) for text in ptx]
    plan = BoundPlan(module.matmul, case.plan(module), kernels)
    given = {"c": arrays.c, "a": arrays.a, "b": arrays.b.T if case.b_t else arrays.b}
    return lambda: plan.launch(given)


def differing(launch: Callable[[], None], arrays: Arrays, runs: int) -> int:
    """How many runs give other bits than the first run. The first run is checked against the reference."""
    import torch

    error = arrays.poisoned_error(launch, arrays.reference)
    if error > TYPES[arrays.dtype].bound:
        raise SystemExit(f"an error of {error:.3g} of the largest element")
    first = arrays.c.clone()
    count = torch.zeros((), dtype=torch.int64, device="cuda")
    for run in range(1, runs):
        arrays.c.fill_(77)
        launch()
        count += (arrays.c.view(torch.uint8) != first.view(torch.uint8)).any()
        if run % COUNTED_AT_ONCE == 0:
            torch.cuda.synchronize()
    return int(count.item())


def measure(module: Any, case: Case, runs: int, before: list[str] | None) -> dict[str, Any]:
    arrays = Arrays(Shape({"m": case.m, "n": case.n, "k": case.k}), case.dtype, case.b_t)
    now = launcher(module, case, arrays)
    row: dict[str, Any] = {"case": str(case), "runs": runs, "differing": differing(now, arrays, runs)}
    if before is not None:
        times = interleaved({"now": now, "before": launcher(module, case, arrays, before)}, rest=1.0)
        ratios = [a / b for a, b in zip(times["now"], times["before"], strict=True)]
        row |= {name: statistics.median(values) for name, values in times.items()}
        row |= {"ratio": statistics.median(ratios), "same PTX": before == texts(module, case)}
    return row


def show(rows: list[dict[str, Any]]) -> None:
    table = Table("product", "runs", "other bits", "before, us", "now, us", "now / before")
    for row in rows:
        times = [f"{row[name]:.1f}" for name in ("before", "now")] if "ratio" in row else ["", ""]
        ratio = f"{row['ratio']:.4f}" if "ratio" in row else ""
        table.add_row(row["case"], str(row["runs"]), str(row["differing"]), *times, ratio)
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--before", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--types", default="f16,bf16,tf32,s8")
    parser.add_argument("--texts", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--sample", type=Path, default=SAMPLE, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.texts is not None:
        write_texts(asked.sample, asked.texts)
        return
    module = dsl.load(asked.sample)
    wanted = [case for case in cases(module) if case.dtype in asked.types.split(",")]
    before = texts_of(asked.before.resolve(), wanted) if asked.before else {}
    rows = [measure(module, case, asked.runs, before.get(str(case))) for case in wanted]
    show(rows)
    if asked.json is not None:
        asked.json.write_text(json.dumps(rows, indent=1))
    sys.exit(any(row["differing"] for row in rows))


if __name__ == "__main__":
    main()
