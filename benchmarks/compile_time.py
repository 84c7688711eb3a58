"""The time of each stage of a compilation: parse, build, each pass, emission and LLVM, warm, in one process.

    python3 benchmarks/compile_time.py [--out compile_time.json] [--rounds 31]

Each round compiles every variant once, from the text of its sample to PTX. So the variants are interleaved. Between
compilations, all state is dropped, except the state that a process always keeps. The table shows medians over the
rounds, in milliseconds of processor time, which other processes of the machine change little. `total` is the median of
the rounds' totals, with the 20th and 80th percentiles. `after_parse` is the median time of all stages after the parse.
A loaded module runs only these stages. The bounds hold on two cores. The bound of softmax is for the total. The bounds
of products, whose file is long, are for the work after the parse.
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
from dataclasses import asdict, dataclass, field
from pathlib import Path

import llvmlite.binding as llvm

from dsl.kernels.variant import Request, build_variant
from dsl.lowering.emit import emit
from dsl.lowering.emit.codegen import llvm_level_for, to_ptx
from dsl.lowering.passes import PASSES
from dsl.text.program import dim_names, parse_program

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
BOUND = 50.0
"""Milliseconds for softmax_rows at 1024 columns, all stages together."""
PRODUCT_BOUND = 160.0
"""Milliseconds for the largest products, for a module that is already loaded."""
ATTENTION_BOUND = 150.0
ROWS, TURNED = (16, 1), (1, 16)
"""Strides of a row-major matrix, and of its transpose."""
HEADS = dict.fromkeys("oqkv", (16, 16, 16, 1))
ATTENTION = {"batch": 4, "heads": 16, "kv_heads": 16, "s": 4096, "t": 4096, "d": 128}


@dataclass(frozen=True)
class Case:
    """One variant to compile."""

    file: str
    kernel: str
    schedule: str
    dims: dict[str, int]
    bound: float | None = None
    loaded: bool = False  # the bound covers the stages after the parse
    types: dict[str, str] = field(default_factory=dict)
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Strides of tensors that may be views. As in a call, each stride is replaced by a divisor of at most 16."""

    @property
    def head(self) -> str:
        """A short name that differs from the names of other cases."""
        words = [*self.types.values(), *(["b.T"] if self.strides.get("b") == TURNED else [])]
        size = next(self.dims[name] for name in ("cols", "n", "s") if name in self.dims)
        return " ".join([f"{self.kernel.split('_')[-1]}:{self.schedule}", str(size), *words])


def product(schedule: str, extent: int, operand: str, result: str, along_k: bool = True) -> Case:
    """A product of square matrices. With `along_k` the elements of b are contiguous along k."""
    dims, types = dict.fromkeys(("m", "n", "k"), extent), {"T": operand, "O": result}
    strides = {"a": ROWS, "b": TURNED if along_k else ROWS}
    return Case("matmul.tile", "product", schedule, dims, PRODUCT_BOUND, True, types, strides)


CASES = (
    Case("softmax.tile", "softmax_rows", "lanes", {"rows": 4096, "cols": 1024}, BOUND),
    Case("softmax.tile", "softmax_rows", "lanes", {"rows": 4096, "cols": 1000}),
    Case("softmax.tile", "softmax_rows", "block", {"rows": 4096, "cols": 8192}),
    Case("softmax.tile", "softmax_rows", "whole", {"rows": 4096, "cols": 20000}),
    Case("softmax.tile", "softmax_rows", "stream", {"rows": 4096, "cols": 70000}),
    product("mma_sync", 4096, "f16", "f16"),
    product("stream_k", 8192, "f16", "f16", along_k=False),
    product("stream_k", 8192, "f16", "f16"),
    product("stream_k", 8192, "s8", "s32", along_k=False),
    product("stream_k", 8192, "s8", "s32"),
    product("wgmma", 8192, "f16", "f16"),
    product("wgmma", 8192, "f16", "f16", along_k=False),
    *(
        Case("attention.tile", "attend", schedule, ATTENTION, ATTENTION_BOUND, True, strides=HEADS)
        for schedule in ("attend_tile", "attend_groups")
    ),
)
STAGES = ("parse", "build", *(each.name for each in PASSES), "emit", "llvm")


def compile_once(case: Case) -> dict[str, float]:
    """Milliseconds by stage of one compilation, from text to PTX."""
    text = (SAMPLES / case.file).read_text()
    spent: dict[str, float] = {}

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        start = time.process_time()
        yield
        spent[name] = 1e3 * (time.process_time() - start)

    with stage("parse"):
        program = parse_program(text, case.file, SAMPLES)
    with stage("build"):
        kernel = program.kernels[case.kernel]
        absent = frozenset(p.name for p in kernel.params if p.is_optional)
        dims = {name: case.dims[name] for name in dim_names(kernel, absent)}
        request = Request(case.kernel, case.schedule, dims, case.types, absent=absent, strides=case.strides)
        variant = build_variant(program, request)
    for each in PASSES:
        with stage(each.name):
            each.apply(variant.function, variant.target)
    with stage("emit"):
        module, version = emit(variant.function, variant.target)
    with stage("llvm"):
        to_ptx(module, variant.target, version, llvm_level_for(variant.function))
    return spent


def measure(rounds: int) -> list[dict[str, object]]:
    """One row for each case. The first round is not counted."""
    samples: list[list[dict[str, float]]] = [[] for _ in CASES]
    for number in range(rounds + 1):
        for case, kept in zip(CASES, samples, strict=True):
            spent = compile_once(case)
            if number:
                kept.append(spent)
    rows = []
    for case, kept in zip(CASES, samples, strict=True):
        totals = sorted(sum(s.values()) for s in kept)
        loaded = statistics.median(sum(s.values()) - s["parse"] for s in kept)
        rows.append(
            asdict(case)
            | {"stages": {name: statistics.median(s[name] for s in kept) for name in STAGES}}
            | {"passes": statistics.median(sum(s[each.name] for each in PASSES) for s in kept)}
            | {"total": statistics.median(totals), "low": totals[rounds // 5], "high": totals[rounds * 4 // 5]}
            | {"after_parse": loaded}
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write JSON here")
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    rows = measure(options.rounds)
    python, version = platform.python_version(), ".".join(map(str, llvm.llvm_version_info))
    run = f"Python {python}, LLVM {version}, {os.cpu_count()} cores, {options.rounds} rounds"
    print(f"{run}, milliseconds of processor time")
    print(f"{'':16}" + "".join(f"{case.head:>27}" for case in CASES))
    for name in STAGES:
        print(f"{name:16}" + "".join(f"{row['stages'][name]:27.2f}" for row in rows))  # type: ignore[index]
    for name in ("passes", "total", "low", "high", "after_parse"):
        print(f"{name:16}" + "".join(f"{row[name]:27.2f}" for row in rows))
    for case, row in zip(CASES, rows, strict=True):
        if case.bound is not None:
            kept = row["after_parse" if case.loaded else "total"] <= case.bound  # type: ignore[operator]
            print(f"{case.head}: bound {case.bound:.0f} ms {'kept' if kept else 'MISSED'}")
    if options.out:
        record = {"python": python, "llvm": version, "cores": os.cpu_count(), "rounds": options.rounds, "rows": rows}
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
