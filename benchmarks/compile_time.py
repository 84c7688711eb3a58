"""Where the time of a compile goes: parse, build, each pass, emission and LLVM, warm, in one process.

    python3 benchmarks/compile_time.py [--out compile_time.json] [--rounds 31]

Each round compiles every variant once, from the text of its sample to PTX, so the variants are interleaved and nothing
is kept between them but what a second compile in one process keeps. Printed are medians over the rounds, milliseconds;
`total` is the median of the rounds' totals, with the 20th and 80th percentiles. The bound holds for the first variant,
on two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import llvmlite.binding as llvm

from dsl.program import parse_program
from dsl.variant import Request, build_variant
from lowering.codegen import to_ptx
from lowering.emit import emit
from lowering.passes import PASSES, run_passes

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
BOUND = 50.0
"""Milliseconds for softmax_registers at 1024 columns, all stages together."""


@dataclass(frozen=True)
class Case:
    """One variant to compile."""

    file: str
    kernel: str
    schedule: str
    dims: dict[str, int]
    bound: float | None = None


CASES = (
    Case("softmax.tile", "softmax_registers", "lanes", {"rows": 4096, "cols": 1024}, BOUND),
    Case("softmax.tile", "softmax_registers", "lanes", {"rows": 4096, "cols": 1000}),
    Case("softmax.tile", "softmax_registers", "block", {"rows": 4096, "cols": 8192}),
    Case("softmax.tile", "softmax_shared", "whole", {"rows": 4096, "cols": 20000}),
    Case("softmax.tile", "softmax_streamed", "stream", {"rows": 4096, "cols": 70000}),
)
STAGES = ("parse", "build", *(name for name, _ in PASSES), "emit", "llvm")


def compile_once(case: Case) -> dict[str, float]:
    """Milliseconds by stage of one compile, from text to PTX."""
    text = (SAMPLES / case.file).read_text()
    spent: dict[str, float] = {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        spent[name] = 1e3 * (time.perf_counter() - start)

    with stage("parse"):
        program = parse_program(text, case.file, SAMPLES)
    with stage("build"):
        variant = build_variant(program, Request(case.kernel, case.schedule, case.dims))
    trace = run_passes(variant.function, variant.target)
    spent |= {name: 1e3 * seconds for name, seconds in trace.seconds.items()}
    with stage("emit"):
        module, version = emit(variant.function, variant.target)
    with stage("llvm"):
        to_ptx(module, variant.target, version)
    return spent


def measure(rounds: int) -> list[dict[str, object]]:
    """One row a case; the first round of each is not counted."""
    samples: list[list[dict[str, float]]] = [[] for _ in CASES]
    for number in range(rounds + 1):
        for case, kept in zip(CASES, samples, strict=True):
            spent = compile_once(case)
            if number:
                kept.append(spent)
    rows = []
    for case, kept in zip(CASES, samples, strict=True):
        totals = sorted(sum(s.values()) for s in kept)
        rows.append(
            asdict(case)
            | {"stages": {name: statistics.median(s[name] for s in kept) for name in STAGES}}
            | {"passes": statistics.median(sum(s[name] for name, _ in PASSES) for s in kept)}
            | {"total": statistics.median(totals), "low": totals[rounds // 5], "high": totals[rounds * 4 // 5]}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write JSON here")
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    rows = measure(options.rounds)
    heads = [f"{c.kernel.removeprefix('softmax_')}:{c.schedule} {c.dims['cols']}" for c in CASES]
    python, version = platform.python_version(), ".".join(map(str, llvm.llvm_version_info))
    print(f"Python {python}, LLVM {version}, {os.cpu_count()} cores, {options.rounds} rounds, milliseconds")
    print(f"{'':16}" + "".join(f"{head:>22}" for head in heads))
    for name in STAGES:
        print(f"{name:16}" + "".join(f"{row['stages'][name]:22.2f}" for row in rows))  # type: ignore[index]
    for name in ("passes", "total", "low", "high"):
        print(f"{name:16}" + "".join(f"{row[name]:22.2f}" for row in rows))
    for row in rows:
        if row["bound"] is not None:
            kept = row["total"] <= row["bound"]  # type: ignore[operator]
            print(f"{row['kernel']} {row['dims']}: bound {row['bound']:.0f} ms {'kept' if kept else 'MISSED'}")
    if options.out:
        record = {"python": python, "llvm": version, "cores": os.cpu_count(), "rounds": options.rounds, "rows": rows}
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
