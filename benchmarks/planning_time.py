"""The cost of a call with new extents before code is generated: arguments, dispatch, plan, schedules, and the lowered
variants.

    python3 benchmarks/planning_time.py [--rounds 31] [--against OTHER_TREE]

Each round loads a sample anew and calls it with arrays for the emulator's target. The call stops before LLVM IR would
be written. The table shows medians in milliseconds of processor time. `lowering` is the time of all runs of `lower`,
and `planning` is the rest of the call. The table also shows how often the functions in `COUNTED` run.
`again` is the time to plan a later call with new extents, whose variant is known: the median, and `least` of them.
`--against` takes the root of another version of the project. The rounds of both versions alternate, and each round is a
separate process.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
SAMPLES = HERE.parent.parent / "samples"
COUNTED = {
    "lower": ("dsl.kernels.compile", "dsl.kernels.variants"),
    "resolve_schedule": ("dsl.kernels.variant",),
    "describe": ("dsl.runtime",),
}
"""Functions, and the modules through which a call reaches each function."""
COLUMNS = ("total", "planning", "lowering", "again", "least", *COUNTED)
LATER = 60
"""The number of later calls with new extents."""


class StopError(Exception):
    """Raised in place of code generation."""


def cases() -> dict[str, tuple[str, str, Callable[[int], tuple[Any, ...]]]]:
    """The file and function of each case, and its arguments with `more` rows or images. Large arrays are never written,
    so they take no memory."""
    import numpy as np

    def convolution(more: int) -> tuple[Any, ...]:
        x, f = np.empty((2 + more, 2, 14, 14, 32), np.int8), np.empty((2, 3, 3, 64, 32), np.int8)
        y, z = np.empty((2 + more, 2, 14, 14, 32), np.int8), np.empty((2 + more, 2, 14, 14, 32), np.int8)
        numbers = (1 / 1024, 1.0, 0.5, 6.0, 1, 1, 1, 1, 1, 1)
        return y, x, f, np.empty(64, np.float32), z, *numbers

    def attention(more: int) -> tuple[Any, ...]:
        o, q, k, v = (np.empty((2, 16, tokens + more, 128), np.float16) for tokens in (2048, 2048, 4096, 4096))
        return o, q, k, v, 0.125

    def layer_norm(more: int) -> tuple[Any, ...]:
        x, vector = np.empty((4096 + more, 5120), np.float16), np.empty(5120, np.float16)
        return x, x, 1e-5, vector, vector

    return {
        "layer_norm 5120": ("layer_norm.tile", "layer_norm", layer_norm),
        "attention 2048": ("attention.tile", "attention", attention),
        "softmax 20000": ("softmax.tile", "softmax", lambda more: (np.empty((4096 + more, 20000), np.float32),)),
        "matmul 8192": (
            "matmul.tile",
            "matmul",
            lambda more: tuple(np.empty((8192 + rows, 8192), np.float16) for rows in (more, more, 0)),
        ),
        "conv2d 14x14x64": ("int8_conv.tile", "conv2d", convolution),
    }


def first_calls() -> dict[str, dict[str, float]]:
    """The milliseconds and counts of the first call of each case. Each call loads its own module. The first round is
    not counted."""
    from importlib import import_module

    import dsl

    spent: dict[str, float] = {}
    counts: dict[str, int] = {}

    def wrapped(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            counts[name] += 1
            start = time.process_time()
            try:
                return function(*arguments, **named)
            finally:
                spent[name] += 1e3 * (time.process_time() - start)

        return call

    for name, places in COUNTED.items():
        modules = [import_module(place) for place in places]
        function = wrapped(name, getattr(modules[0], name))
        for module in modules:
            setattr(module, name, function)

    def stop(*arguments: Any, **named: Any) -> Any:
        raise StopError

    import_module("dsl.kernels.compile").generate = stop  # type: ignore[attr-defined]
    found = {}
    for _ in range(2):
        for name, (file, function, made) in cases().items():
            module, arguments = dsl.load(SAMPLES / file, device="emulator", arch="sm_90"), made(0)
            spent, counts = dict.fromkeys(COUNTED, 0.0), dict.fromkeys(COUNTED, 0)
            gc.collect()  # collects garbage of earlier modules, which would otherwise be collected during a call
            start = time.process_time()
            try:
                module[function](*arguments)
            except StopError:
                total = 1e3 * (time.process_time() - start)
            found[name] = {"total": total, "planning": total - spent["lower"], "lowering": spent["lower"], **counts}
            again = later_plans(module[function], made)
            found[name] |= {"again": statistics.median(again), "least": min(again)}
    return found


def later_plans(function: Any, made: Callable[[int], tuple[Any, ...]]) -> list[float]:
    """The milliseconds to plan calls with new extents. The first few plans lower their variants and compile their
    costs, and are not counted."""
    times = []
    for more in range(1, LATER + 1):
        given, _ = function.order(made(more), {})
        facts = function.facts(given)
        facts |= {output.name: output.facts for output in function.called.outputs(facts)}
        start = time.process_time()
        function.plan(facts)
        times.append(1e3 * (time.process_time() - start))
    return times[LATER // 4 :]


def measure(trees: list[Path], rounds: int) -> dict[Path, list[dict[str, dict[str, float]]]]:
    """The rounds of each tree. The trees take turns."""
    rows: dict[Path, list[dict[str, dict[str, float]]]] = {tree: [] for tree in trees}
    for _ in range(rounds):
        for tree in trees:
            command = [sys.executable, str(HERE), "--once"]
            made = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, check=True)
            rows[tree].append(json.loads(made.stdout))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--against", type=Path, help="the root of another version")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.once:
        print(json.dumps(first_calls()))
        return
    trees = [HERE.parent.parent, *([options.against.resolve()] if options.against else [])]
    rows = measure(trees, options.rounds)
    print(f"{options.rounds} rounds, medians, milliseconds of processor time")
    print(f"{'':36}" + "".join(f"{column:>17}" for column in COLUMNS))
    for name in cases():
        for tree in trees:
            each = [statistics.median(row[name][column] for row in rows[tree]) for column in COLUMNS]
            head = f"{name} ({'this' if tree == trees[0] else 'other'})"
            print(f"{head:36}" + "".join(f"{value:17.2f}" for value in each))


if __name__ == "__main__":
    main()
