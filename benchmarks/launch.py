"""The host's cost of a launch: bare `cuLaunchKernel` with a prepared buffer, against `Kernel.bind` and a checked call.

    python3 benchmarks/launch.py [--out launch.json] [--rounds 101] [--calls 210] [--without-gpu]

A PTX kernel written by hand copies an array of 1000 f32, so the compiler is not involved. The variants of a framework
are interleaved: each round times `--calls` launches of each variant and then waits for the device. The table shows
medians over the rounds with the 20th and 80th percentiles, in microseconds per launch. It also shows the median of the
rounds' ratios to the bare launch. `rotated` is the checked call with three pairs of arrays in turn, so that every call
has new addresses. Frameworks that are not installed are left out and reported.

`--without-gpu` uses a driver that does nothing, and arrays that imitate arrays of torch and CuPy. This option measures
only the path through Python. Times of this option can only be compared with each other, and have no ratios.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "runtime"))

import hand_written
from fake_cuda import FakeCuda

from dsl import runtime
from dsl.runtime.cuda import driver
from dsl.runtime.cuda_launch import streams

GOALS = {
    "torch": {"bound": 1.15, "checked": 1.3, "rotated": 1.45},
    "cupy": {"bound": 1.15, "checked": 1.45, "rotated": 1.6},
    "runtime": {"bound": 1.15, "checked": 1.5, "rotated": 1.7},
}
"""Limits of a launch's cost, as a multiple of the bare launch."""


def arrays(framework: str) -> tuple[Any, Any] | None:
    """A pair (y, x) of arrays with 1000 f32 on GPU 0. The result is None if the framework is not installed."""
    if framework == "runtime":
        return runtime.DeviceArray((1000,), "f32"), runtime.DeviceArray((1000,), "f32")
    try:
        module = importlib.import_module(framework)
    except ImportError:
        return None
    if framework == "torch":
        return module.zeros(1000, device="cuda"), module.rand(1000, device="cuda")
    return module.zeros(1000, dtype="float32"), module.random.rand(1000).astype("float32")


def bare_launcher(kernel: runtime.Kernel, y: Any, x: Any) -> Callable[[int], None]:
    """A loop over `cuLaunchKernel` with the arguments of a prepared launch, and no other work."""
    launch, values = kernel._prepare((y, x), None)
    buffer = launch.buffer()
    launch._pack(buffer, values)
    function, blocks, threads = launch.kernel.function, launch.call.grid[0], kernel.header.threads
    stream = streams[launch._current_stream(0)]
    launch_kernel = driver.bindings().cuLaunchKernel

    def loop(calls: int) -> None:
        address = buffer.address  # the loop keeps the buffer alive
        for _ in range(calls):
            launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, address, 0)

    return loop


def variants(kernel: runtime.Kernel, pairs: list[tuple[Any, Any]]) -> dict[str, Callable[[int], None]]:
    """A loop for each variant. The argument of a loop is the number of launches."""
    y, x = pairs[0]
    bound = kernel.bind(y, x)

    def bound_loop(calls: int) -> None:
        for _ in range(calls):
            bound()

    def checked_loop(calls: int) -> None:
        for _ in range(calls):
            kernel(y, x)

    def rotated_loop(calls: int) -> None:
        for _ in range(calls // len(pairs)):
            for y, x in pairs:
                kernel(y, x)

    return {
        "bare": bare_launcher(kernel, y, x),
        "bound": bound_loop,
        "checked": checked_loop,
        "rotated": rotated_loop,
    }


def measure(framework: str, rounds: int, calls: int, fake: FakeCuda | None) -> list[dict[str, Any]]:
    """One row for each variant, in microseconds per launch."""
    pairs: list[Any] = [fake.pair(framework, number) if fake else arrays(framework) for number in range(3)]
    if None in pairs:
        print(f"{framework}: not installed, left out")
        return []
    kernel = fake.kernel() if fake else runtime.Kernel(hand_written.copy(), device="cuda")
    loops = variants(kernel, pairs)
    times: dict[str, list[float]] = {name: [] for name in loops}
    with nullcontext() if fake else runtime_context():
        for round_number in range(rounds + 3):
            for name, loop in loops.items():
                start = time.perf_counter()
                loop(calls)
                elapsed = time.perf_counter() - start
                if not fake:
                    runtime.synchronize()
                if round_number >= 3:
                    times[name].append(elapsed / calls * 1e6)
    rows = []
    for name, samples in times.items():
        low, *_, high = statistics.quantiles(samples, n=5)
        ratio = statistics.median(a / b for a, b in zip(samples, times["bare"], strict=True))
        rows.append(
            {
                "framework": framework,
                "variant": name,
                "microseconds": statistics.median(samples),
                "low": low,
                "high": high,
                "ratio": ratio,
                "goal": None if fake else GOALS[framework].get(name),
            }
        )
    return rows


def runtime_context() -> Any:
    """The primary context of GPU 0, current as in a program that uses torch or CuPy."""
    from dsl.runtime.cuda.context import context

    return context(0).current()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write JSON here")
    parser.add_argument("--rounds", type=int, default=101)
    parser.add_argument("--calls", type=int, default=210, help="a multiple of 3")
    parser.add_argument("--without-gpu", action="store_true")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if options.without_gpu:
        device = "no device"
        with FakeCuda() as fake:
            fake.driver.keeps = False
            for name in ("torch", "cupy"):
                rows += measure(name, options.rounds, options.calls, fake)
    else:
        device = runtime.device_facts("cuda").name
        for name in ("torch", "cupy", "runtime"):
            rows += measure(name, options.rounds, options.calls, None)
    print(f"{device}, {options.rounds} rounds of {options.calls} launches, microseconds a launch")
    print(f"{'arrays':8} {'variant':8} {'median':>7} {'20%':>7} {'80%':>7} {'ratio':>6} {'goal':>5}")
    for row in rows:
        goal = "" if row["goal"] is None else f"{row['goal']:.2f}"
        figures = f"{row['microseconds']:7.2f} {row['low']:7.2f} {row['high']:7.2f} {row['ratio']:6.2f} {goal:>5}"
        print(f"{row['framework']:8} {row['variant']:8} {figures}")
    if options.out:
        record = {"device": device, "rounds": options.rounds, "calls": options.calls, "rows": rows}
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
