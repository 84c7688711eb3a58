"""Softmax forward against a copy of the same bytes and torch: 49152 rows, 32 to 50257 columns.

    python3 benchmarks/softmax.py [--out softmax.json] [--rows 49152] [--types f16,bf16,f32] [--repeats 20]

Every result is checked against float64 before it is timed, on outputs that were poisoned. The variants of one shape are
interleaved, with the L2 overwritten between launches; printed are medians, and the ratio of the copy's median to ours.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import torch

import dsl
from runtime import device_facts
from runtime.cuda.timing import measure

COLUMNS = (32, 64, 128, 256, 512, 1000, 1023, 1024, 2048, 4096, 5003, 8192, 16384, 32768, 50257)
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
BOUNDS = {"f16": 1e-3, "bf16": 4e-3, "f32": 1e-6}
CHECKED_ROWS = 256
SAMPLE = Path(__file__).resolve().parent.parent / "samples" / "softmax.tile"


def error(y: Any, x: Any) -> float:
    """Greatest absolute error against float64, over rows at the start and at the end."""
    worst = 0.0
    for part in (slice(0, CHECKED_ROWS), slice(-CHECKED_ROWS, None)):
        wanted = torch.softmax(x[part].double(), 1)
        worst = max(worst, float((y[part].double() - wanted).abs().max()))
    return worst


def one(module: dsl.Module, rows: int, columns: int, dtype: str, repeats: int) -> dict[str, Any]:
    """Checks and times one shape: microseconds by variant."""
    x = torch.randn(rows, columns, device="cuda").to(TYPES[dtype])
    y = torch.full_like(x, float("nan"))
    module.softmax(y, x)
    torch.cuda.synchronize()
    worst = error(y, x)
    variants = {
        "dsl": lambda: module.softmax(y, x),
        "copy": lambda: y.copy_(x),
        "torch": lambda: torch.softmax(x, 1),
    }
    stream = torch.cuda.current_stream().cuda_stream
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(repeats // 5):
        for name, launch in variants.items():
            times[name] += measure(launch, stream=stream, repeats=5, warmups=1)
    medians = {name: statistics.median(t) for name, t in times.items()}
    plan = module.softmax.plan(module.softmax.facts({"y": y, "x": x}))
    kernel = module.variant(plan.steps[0].request)
    attributes = kernel.kernel.attributes()
    return {
        "columns": columns,
        "rows": rows,
        "dtype": dtype,
        "error": worst,
        "passed": worst <= BOUNDS[dtype],
        "kernel": kernel.compiled.header.label,
        "us": medians,
        "gbps": 2 * x.numel() * x.element_size() / medians["dsl"] / 1e3,
        "of_copy": medians["copy"] / medians["dsl"],
        "registers": attributes.registers,
        "local_bytes": attributes.local_bytes,
        "occupancy": attributes.occupancy,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rows", type=int, default=49152)
    parser.add_argument("--types", default="f16,bf16,f32")
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    module = dsl.load(SAMPLE)
    facts = device_facts("cuda")
    print(f"{facts.name}, torch {torch.__version__}, {arguments.rows} rows, microseconds")
    print("type   cols   error     dsl    copy   torch  of copy  GB/s  regs  kernel")
    results = []
    for dtype in arguments.types.split(","):
        for columns in COLUMNS:
            r = one(module, arguments.rows, columns, dtype, arguments.repeats)
            results.append(r)
            us = r["us"]
            mark = "" if r["passed"] else "  WRONG"
            print(
                f"{dtype:5} {columns:6d}  {r['error']:.0e} {us['dsl']:7.1f} {us['copy']:7.1f} {us['torch']:7.1f}  "
                f"{r['of_copy']:.3f}  {r['gbps']:6.0f}  {r['registers']:3d}  {r['kernel']}{mark}",
                flush=True,
            )
    if arguments.out:
        record = {"device": facts.name, "torch": torch.__version__, "results": results}
        arguments.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
