"""Speed of the strict emulator with all checks and counters on, in thread instructions per second on one core.

    python benchmarks/emulator.py [--repeat N] [--out rates.json]

The kernels are foreign PTX from the emulator's tests, and a sample that this compiler compiles.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dsl
from dsl.runtime.emulator import Counters, emulate

ROOT = Path(__file__).parent.parent
FOREIGN = ROOT / "tests" / "runtime" / "emulator" / "foreign"
Run = Callable[[], Counters]


def foreign(kernel: str, grid: Any, block: Any, *arguments: Any) -> Run:
    ptx = (FOREIGN / f"{kernel}.ptx").read_text()
    return lambda: emulate(ptx, kernel, grid, block, arguments).counters.totals


def compiled(file: str, kernel: str, arguments: tuple[Any, ...], **dims: Any) -> Run:
    ready = dsl.load(ROOT / "samples" / file, device="emulator").compile(kernel, **dims)
    return lambda: ready.run(*arguments, counters=True).counters.totals


def cases() -> dict[str, Run]:
    random = np.random.default_rng(0)
    rows, cols, n = 4096, 1000, 512
    x = random.standard_normal((rows, cols)).astype(np.float16)
    v = random.standard_normal(1 << 20).astype(np.float32)
    a, b = (random.standard_normal((n, n)).astype(np.float16) for _ in range(2))
    own = compiled("softmax.tile", "softmax_rows", (np.zeros_like(x), x), rows=rows, cols=cols)
    return {
        "softmax 4096x1000 f16": foreign("softmax", rows, 256, x, np.zeros_like(x), cols),
        "softmax 4096x1000 f16, compiled": own,
        "block reduction of 2^20 f32": foreign("reduce", 1024, 256, v, np.zeros(1, np.float32), len(v)),
        "mma gemm 512x512x512 f16": foreign("gemm", (8, 8), 128, a, b, np.zeros((n, n), np.float32), n, n),
    }


def measure(run: Run, repeat: int) -> dict[str, float]:
    """Runs a launch `repeat` times. Returns the least processor seconds, and the thread instructions of one launch."""
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        totals = run()
        best = min(best, time.process_time() - start)
    return {
        "seconds": best,
        "thread_instructions": totals.thread_instructions,
        "rate": totals.thread_instructions / best,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    figures = {name: measure(run, options.repeat) for name, run in cases().items()}
    print(f"{'launch':<32}{'seconds':>10}{'million instructions':>24}{'million a second':>20}")
    for name, row in figures.items():
        print(f"{name:<32}{row['seconds']:>10.3f}{row['thread_instructions'] / 1e6:>24.1f}{row['rate'] / 1e6:>20.1f}")
    if options.out:
        options.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
