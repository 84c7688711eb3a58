"""How fast the strict emulator runs, with all checks and counters on: thread instructions a second on one core.

    python benchmarks/emulator.py [--repeat N] [--out rates.json]

The kernels are the foreign PTX of the emulator's tests.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from runtime.emulator import emulate

FOREIGN = Path(__file__).parent.parent / "tests" / "runtime" / "emulator" / "foreign"


def cases() -> dict[str, tuple[str, Any, Any, list[Any]]]:
    """Name to (kernel, grid, block, arguments)."""
    random = np.random.default_rng(0)
    x = random.standard_normal((4096, 1000)).astype(np.float16)
    v = random.standard_normal(1 << 20).astype(np.float32)
    a, b = (random.standard_normal((512, 512)).astype(np.float16) for _ in range(2))
    return {
        "softmax 4096x1000 f16": ("softmax", 4096, 256, [x, np.zeros_like(x), 1000]),
        "block reduction of 2^20 f32": ("reduce", 1024, 256, [v, np.zeros(1, np.float32), len(v)]),
        "mma gemm 512x512x512 f16": ("gemm", (8, 8), 128, [a, b, np.zeros((512, 512), np.float32), 512, 512]),
    }


def measure(kernel: str, grid: Any, block: Any, arguments: list[Any], repeat: int) -> dict[str, float]:
    """Processor seconds (the best of `repeat` runs) and thread instructions of one launch."""
    ptx = (FOREIGN / f"{kernel}.ptx").read_text()
    best = float("inf")
    for _ in range(repeat):
        start = time.process_time()
        totals = emulate(ptx, kernel, grid, block, arguments).counters.totals
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
    figures = {name: measure(*case, options.repeat) for name, case in cases().items()}
    print(f"{'launch':<32}{'seconds':>10}{'million instructions':>24}{'million a second':>20}")
    for name, row in figures.items():
        print(f"{name:<32}{row['seconds']:>10.3f}{row['thread_instructions'] / 1e6:>24.1f}{row['rate'] / 1e6:>20.1f}")
    if options.out:
        options.out.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
