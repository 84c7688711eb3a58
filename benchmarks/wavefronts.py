"""Passes over the banks of shared memory, instruction by instruction, as Nsight Compute counts them on a GPU.

    python3 benchmarks/wavefronts.py [--json wavefronts.json] [--ncu ncu]

The profiler launches each variant of the products in peers/by_hand/matmul.tile once. For every machine instruction, the
profiler counts the passes ("wavefronts") that the instruction took, and the passes that its bytes need. The metrics are
`memory_l1_wavefronts_shared` and `memory_l1_wavefronts_shared_ideal`. The profiler's raw conflict counter is not used,
since it also counts other events. The table also shows the emulator's counts on arrays of the same shapes, and the
compiler's verdict. The verdict is `bank_conflicts` over all accesses, or "?" if offsets depend on data.

A copy takes more passes than its bytes need if its rows are shorter than 128 bytes ("by lines"). The reason is that a
pass writes bytes of only one line of global memory. The emulator counts these passes, too. But if one line has several
rows of 16 bytes, the emulator counts fewer passes than the GPU. The GPU may also take fewer passes than the emulator,
since the assembler omits loads of data that the thread has just stored. The program exits with 1 if the compiler, the
emulator or the GPU reports a conflict.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import dsl
from dsl.kernels.compile import lower
from dsl.lowering.passes.swizzle_shared import bank_conflicts

BY_HAND = Path(__file__).resolve().parent / "peers" / "by_hand" / "matmul.tile"
METRICS = ("memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal")
AT_ONCE = 3
SHAPES = {
    "large": (256, 384),
    "wide": (256, 256),
    "tall": (256, 256),
    "square": (128, 256),
    "wave": (64, 128),
    "deep": (64, 64),
}


@dataclass
class Case:
    """A variant of a product of `dtype`. `a_t` and `b_t` say which operands are transposed."""

    schedule: str
    dtype: str
    a_t: bool
    b_t: bool

    @property
    def kernel(self) -> str:
        return "matmul_bytes" if self.dtype == "s8" else "matmul_tensor"

    @property
    def label(self) -> str:
        return f"{self.kernel} {self.schedule} {self.dtype} {'a.T' if self.a_t else 'a'} @ {'b.T' if self.b_t else 'b'}"

    def compiled(self, module: dsl.calls.api.Module) -> tuple[Any, list[Any]]:
        """The variant, and its arguments."""
        of = np.dtype({"s8": "i1", "f16": "f2", "f32": "f4"}[self.dtype])
        (m, n), k = SHAPES[self.schedule], 1024 // of.itemsize
        a, b = (k, m) if self.a_t else (m, k), (n, k) if self.b_t else (k, n)
        dims = {"m": m, "n": n, "a0": a[0], "a1": a[1], "b0": b[0], "b1": b[1]}
        shares = self.schedule in ("large", "deep")
        constants: dict[str, Any] = {"T": self.dtype, "A_T": self.a_t, "B_T": self.b_t}
        sums = np.dtype(np.int32 if self.dtype == "s8" else np.float32)
        left: list[Any] = [None, None]  # shares, arrived
        if shares:
            left = [np.zeros(2 * AT_ONCE * 256 * 192, sums), np.zeros(AT_ONCE, np.int32)]
            dims |= {"space": left[0].size, "blocks": AT_ONCE}
            constants |= {"AT_ONCE": AT_ONCE, "LEAST": 1}
        if self.dtype == "s8":
            constants["O"] = "s32"
        absent = {"bias", "residual"} | (set() if shares else {"shares", "arrived"})
        kernel = module.compile(self.kernel, self.schedule, absent=absent, **dims, **constants)
        c = np.zeros((m, n), sums if self.dtype == "s8" else of)
        return kernel, [c, np.ones(a, of), np.ones(b, of), *([1.0] if self.dtype == "s8" else [None, None]), *left]


def cases() -> list[Case]:
    orders = [*product((False, True), repeat=2)]
    return [Case(s, t, *order) for s in SHAPES for t in ("s8", "f16", "f32") for order in orders]


@dataclass
class Row:
    """The cost of one variant's accesses to shared memory, summed over its instructions."""

    label: str
    verdict: int | None
    emulated_conflicts: int
    emulated: int
    wavefronts: int = 0
    ideal: int = 0
    lines: int = 0  # passes of copies beyond the ideal
    instructions: dict[str, int] = field(default_factory=dict)
    conflicts: list[str] = field(default_factory=list)  # other machine instructions that exceed the ideal

    @property
    def ok(self) -> bool:
        return self.verdict == self.emulated_conflicts == 0 and not self.conflicts


def launch_all() -> None:
    """Launches all cases. The profiler runs this function."""
    module = dsl.load(BY_HAND, device="cuda")
    for case in cases():
        kernel, arguments = case.compiled(module)
        kernel.run(*arguments)


def profiled(ncu: str) -> Iterator[list[dict[str, str]]]:
    """The machine instructions of each launch, in order."""
    with tempfile.TemporaryDirectory() as folder:
        report = str(Path(folder) / "report.ncu-rep")
        measure = [ncu, "--clock-control", "none", "--metrics", ",".join(METRICS), "-f", "-o", report]
        child = [sys.executable, str(Path(__file__).resolve()), "--launch"]
        done = subprocess.run([*measure, *child], capture_output=True, text=True)
        if done.returncode or not Path(report).exists():
            raise SystemExit(f"the profiler failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        show = [ncu, "--import", report, "--page", "source", "--csv", "--print-source", "sass"]
        text = subprocess.run(show, capture_output=True, text=True, check=True).stdout
    for part in re.split(r'^"Kernel Name".*\n', text, flags=re.M)[1:]:
        yield list(csv.DictReader(io.StringIO(part)))


def measured(case: Case, listing: list[dict[str, str]], module: dsl.calls.api.Module) -> Row:
    kernel, arguments = case.compiled(module)
    verdicts = [n for _, n in bank_conflicts(lower(module.program, kernel.compiled.variant.request).variant.function)]
    verdict = None if None in verdicts else sum(n for n in verdicts if n)
    totals = kernel.run(*arguments, counters=True).counters.totals
    row = Row(case.label, verdict, totals.bank_conflicts, totals.shared_wavefronts)
    kinds: Counter[str] = Counter()
    for line in listing:
        wavefronts, ideal = (int(line[m]) for m in METRICS)
        source = line["Source"].strip()
        kind = re.sub(r"^@!?U?P\w+ ", "", source).split()[0].split(".")[0]
        if wavefronts:
            kinds[kind] += 1
        if kind == "LDGSTS":
            row.lines += wavefronts - ideal
        elif wavefronts != ideal:
            row.conflicts.append(f"{source}: {wavefronts} of {ideal}")
        row.wavefronts, row.ideal = row.wavefronts + wavefronts, row.ideal + ideal
    row.instructions = dict(kinds)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the rows here")
    parser.add_argument("--ncu", default="ncu", help="Nsight Compute's command")
    parser.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        launch_all()
        return
    if shutil.which(options.ncu) is None:
        raise SystemExit(f"'{options.ncu}' is not installed: Nsight Compute counts what this prints")
    module = dsl.load(BY_HAND, device="emulator")
    rows = [measured(c, lines, module) for c, lines in zip(cases(), profiled(options.ncu), strict=True)]
    table = Table(title="passes over the banks of shared memory")
    numbers = ("verdict", "emulator's conflicts", "emulator", "GPU", "ideal", "by lines")
    for name in ("variant", *numbers, "machine instructions"):
        table.add_column(name, justify="right" if name in numbers else "left")
    for row in rows:
        kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(row.instructions.items()))
        verdict = "?" if row.verdict is None else str(row.verdict)
        counts = (row.emulated_conflicts, row.emulated, row.wavefronts, row.ideal, row.lines)
        table.add_row(row.label, verdict, *map(str, counts), kinds)
    Console().print(table)
    for row in rows:
        for conflict in row.conflicts:
            print(f"{row.label}: {conflict}")
    print(f"{sum(row.ok for row in rows)} of {len(rows)} without a conflict by the compiler, the emulator and the GPU")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    sys.exit(not all(row.ok for row in rows))


if __name__ == "__main__":
    main()
