"""A call of softmax under `jax.jit`, by the ways that `dsl.jax.op` has: a foreign function of XLA, and the host.

    python3 benchmarks/jax_calls.py [--rows 4096] [--cols 1000] [--calls 100] [--rounds 11]

The ways and `jax.nn.softmax` alternate. Each round times `--calls` calls, of which each takes the result of the one
before, and waits for the last. The table shows medians of the rounds with the 20th and 80th percentiles, in
microseconds a call. `chain` is one jitted function with eight calls, which XLA may launch as one CUDA graph.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

import dsl
import dsl.jax

ROOT = Path(__file__).resolve().parent.parent
CHAIN = 8


def functions(x: Any) -> dict[str, Callable[[Any], Any]]:
    module = dsl.load(ROOT / "samples" / "softmax.tile", device="cuda")
    plain = {"jax.nn.softmax": jax.nn.softmax}
    for way in ("ffi", "callback"):
        plain[f"dsl, {way}"] = dsl.jax.op(module.softmax, way=way)
    found = {name: jax.jit(f) for name, f in plain.items()}
    for name in ("jax.nn.softmax", "dsl, ffi"):
        found[f"{name}, chain of {CHAIN}"] = jax.jit(lambda x, f=plain[name]: chain(f, x))
    for name, f in found.items():
        y = jax.nn.softmax(x)
        for _ in range(CHAIN - 1 if "chain" in name else 0):
            y = jax.nn.softmax(y)
        assert jax.numpy.allclose(f(x), y, 1e-5, 1e-6), name
    return found


def chain(f: Callable[[Any], Any], x: Any) -> Any:
    for _ in range(CHAIN):
        x = f(x)
    return x


def microseconds(f: Callable[[Any], Any], x: Any, calls: int) -> float:
    jax.block_until_ready(x)
    start = time.perf_counter()
    for _ in range(calls):
        x = f(x)
    jax.block_until_ready(x)
    return (time.perf_counter() - start) / calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 4096), ("cols", 1000), ("calls", 100), ("rounds", 11)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = parser.parse_args()
    x = jax.random.normal(jax.random.key(0), (asked.rows, asked.cols))
    found = functions(x)
    rounds = [{name: microseconds(f, x, asked.calls) for name, f in found.items()} for _ in range(asked.rounds + 1)]
    print(f"{jax.devices()[0].device_kind}, jax {jax.__version__}, f32[{asked.rows}, {asked.cols}]")
    for name in found:
        low, *_, high = statistics.quantiles([each[name] for each in rounds[1:]], n=5)
        median = statistics.median(each[name] for each in rounds[1:])
        print(f"{name:28} {median:9.1f} us a call  ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
