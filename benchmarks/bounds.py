"""Compares the model of a launch's bound with the profiler, for the samples' kernels at many shapes.

    python3 benchmarks/bounds.py [--json FILE]          # needs a GPU, and Nsight Compute (ncu) that may read counters

Each row is a sample's example with given dims. `dsl run` names the bound of each launch (docs/bounds.md). Then ncu
measures all launches once more, with cold caches and without setting clocks. The measured bound is the unit that is
busiest under ncu.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import resolve
from dsl.examples.profile import COMMAND, METRICS, measured, read_profile
from dsl.examples.report import Report
from dsl.examples.run import run_example
from dsl.examples.shapes import find_example
from dsl.text import tree as ast
from dsl.text.program import load

SAMPLES = Path(__file__).parents[1] / "samples"
ROWS = """
add n=67108864
gelu n=67108864
gelu:tanh n=33554432
layer_norm rows=8192 cols=1024
layer_norm rows=4096 cols=8192
rmsnorm rows=8192 cols=4096
rmsnorm rows=65536 cols=256
softmax rows=32768 cols=1000
softmax rows=8192 cols=8192
softmax rows=65536 cols=128
softmax rows=256 cols=65536
softmax:log rows=16384 cols=2048
softmax_backward rows=8192 cols=4096
softmax_backward rows=16384 cols=1000
softmax_fused rows=8192 cols=4096
reduce n=67108864
reduce n=4194304
reduction:v0 n=16777216
reduction:v1 n=16777216
reduction:v2 n=16777216
reduction:v3 n=16777216
reduction:v4 n=16777216
reduction:v5 n=16777216
conv1d:naive n=16777216
conv1d:tiled n=16777216
matmul_steps:element m=1024 n=1024 k=512
matmul_steps:registers m=1024 n=1024 k=512
matmul m=4096 n=4096 k=4096
matmul m=2048 n=2048 k=2048
matmul m=1024 n=1024 k=1024
matmul m=4096 n=4096 k=256
matmul m=8192 n=8192 k=64
matmul m=64 n=8192 k=8192
matmul m=16 n=8192 k=8192
matmul m=512 n=512 k=8192
matmul:linear m=2048 n=2048 k=2048
matmul m=1000 n=1000 k=1000
matmul m=2048 n=2048 k=2048 --schedule mma_sync
matmul m=512 n=4096 k=4096 --schedule mma_sync
matmul_w4 m=16 n=8192 k=8192
matmul_scaled m=2048 n=2048 k=2048
matmul_grouped m=2048 n=2048 k=1024
int8_conv images=64 c=256 h=14 k=256
int8_conv:nhwc images=64 c=256 h=14 k=256
attention s=2048 t=2048 d=128
attention s=2048 t=2048 d=64
attention s=128 t=8192 d=128
attention_backward s=1024 t=1024 d=128
"""
BOUND_SECONDS = 20.0


def run_row(text: str, measure: bool) -> Report:
    """Runs an example with given dims in this process. The references are left out, since they take minutes for large
    products."""
    name, *values = text.split()
    file, _, example_name = name.partition(":")
    schedule = None
    if "--schedule" in values:
        at = values.index("--schedule")
        schedule = values[at + 1]
        del values[at : at + 2]
    program = load(str(SAMPLES / f"{file}.tile"))
    example = find_example(program, example_name or None)
    last = max(at for at, line in enumerate(example.lines) if isinstance(line, ast.Launch))
    lines = [line for line in example.lines[: last + 1] if isinstance(line, ast.Assign | ast.Launch)]
    costs = [line for line in example.lines[last:] if isinstance(line, ast.Cost)]
    settings = LaunchSettings(schedule, measure=measure, bound_seconds=BOUND_SECONDS)
    overrides = resolve(program, example, values)
    return run_example(program, replace(example, lines=[*lines, *costs]), "cuda:0", "bounds", overrides, settings)


def profiled(rows: list[str]) -> list[dict[str, float]]:
    """The units' shares that ncu reports for each launch of the rows, in order."""
    ncu = shutil.which("ncu")
    if ncu is None:
        sys.exit("ncu is not on the PATH")
    command = [ncu, *COMMAND.split()[1:], "--clock-control", "none", sys.executable, __file__]
    command += ["--launch-only", "--rows", json.dumps(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"ncu fails:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return [shares for _, shares in read_profile(io.StringIO(done.stdout))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="a JSON list of rows, in place of the built-in ones")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--launch-only", action="store_true", help="launch once, for the profiler")
    options = parser.parse_args()
    rows = json.loads(options.rows) if options.rows else [line for line in ROWS.splitlines() if line]
    if options.launch_only:
        for text in rows:
            run_row(text, measure=False)
        return
    told: list[tuple[str, Any]] = []
    for text in rows:
        report = run_row(text, measure=True)
        told += [(f"{text} {launch.kernel}", launch) for launch in report.launches]
    profiles = profiled(rows)
    assert len(profiles) == len(told), f"{len(profiles)} launches were profiled, of {len(told)}"
    found = [measured(launch.bound, shares) for (_, launch), shares in zip(told, profiles, strict=True)]
    right = near = 0
    print(f"{'launch':<52} {'us':>8}  {'model':>16} {'share':>6}  {'profiler':>16} {'share':>6}")
    for (text, launch), shares in zip(told, found, strict=True):
        bound = launch.bound
        busiest = max(shares, key=lambda unit: shares[unit])
        same = bound.name == busiest
        right += same
        near += shares.get(bound.name, 0.0) >= shares[busiest] - 0.1
        print(
            f"{text[:52]:<52} {launch.time_us:>8.1f}  {bound.name or '-':>16} {bound.share(bound.name):>6.0%}"
            f"  {busiest:>16} {shares[busiest]:>6.0%}{'' if same else '  differs'}"
        )
    print(f"{right} of {len(told)} agree; in {near} the model's unit is within 10 points of the busiest")
    for unit in METRICS:
        errors = [launch.bound.share(unit) - shares[unit] for (_, launch), shares in zip(told, found, strict=True)
                  if unit in launch.bound.terms and unit in shares]  # fmt: skip
        if errors:
            apart = sorted(map(abs, errors))
            spread = f"{median(errors):+.1%}, apart {median(apart):.1%}, at most {apart[-1]:.0%}"
            print(f"{unit}: {spread} ({len(errors)} launches)")
    if options.json:
        rows_found = [
            {"row": text, "launch": to_builtins(launch), "measured": shares}
            for (text, launch), shares in zip(told, found, strict=True)
        ]
        options.json.write_text(json.dumps(rows_found, indent=1) + "\n")


if __name__ == "__main__":
    main()
