"""`python -m tests.random_kernels --programs 20000 --processes 16 [--gpu]`: many random kernels, and a line."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dsl.runtime import gpu_reason
from tests.random_kernels.processes import Options, Outcome, outcomes


def summary(found: Counter[str], seconds: float) -> str:
    """One line."""
    programs = sum(found.values())
    return (
        f"{programs} programs, {found['mismatch']} mismatches, {found['finding']} findings, "
        f"{found['traceback']} tracebacks, {found['refused']} refused "
        f"({100 * found['refused'] / max(1, programs):.1f}%), {found['refused choice']} with other options only, "
        f"{found['ptxas']} that ptxas refuses, {found['device']} faults of the device, "
        f"{found['died'] + found['time']} died or stood still, {found['generator']} mistakes of the generator, "
        f"{programs / max(seconds, 1e-9):.1f} a second"
    )


def headline(result: Outcome) -> str:
    """The line of a message that says most."""
    lines = result.message.strip().splitlines() or [""]
    return lines[-1 if result.kind in ("traceback", "generator") else 0][:300]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_kernels", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow it")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--gpu", action="store_true", help="on GPU 0 instead of the emulator")
    parser.add_argument("--ptxas", type=float, default=0.0, help="the share of programs that ptxas assembles")
    parser.add_argument("--seconds", type=float, default=1e9, help="no new program after so many")
    parser.add_argument("--choices", action="store_true", help="with other options of a quarter of the choices")
    parser.add_argument("--no-shrink", action="store_true", help="failures are not made smaller")
    parser.add_argument("--output", type=Path, help="failures, refusals by code and features, as JSON")
    given = parser.parse_args(arguments)
    if given.gpu and (reason := gpu_reason()) is not None:
        parser.error(f"no GPU: {reason}")
    options = Options("cuda" if given.gpu else "emulator", given.ptxas, not given.no_shrink, given.choices)
    found: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    features: Counter[str] = Counter()
    failures: list[dict[str, Any]] = []
    examples: dict[str, dict[str, Any]] = {}
    started = time.monotonic()
    seeds = iter(range(given.seed, given.seed + given.programs))
    for result in outcomes(seeds, given.processes, options, given.seconds):
        found[result.kind] += 1
        if result.kind == "right":
            features.update(result.features)
            continue
        features.update({f"not right: {name}": n for name, n in result.features.items()})
        row = asdict(result) | {"features": sorted(result.features)}
        if result.kind in ("refused", "refused choice"):
            reason = f"{result.code}: {result.message.splitlines()[0].split('] '[:1], 1)[-1]}"
            refused[reason] += 1
            examples.setdefault(reason, row)
        else:
            failures.append(row)
            print(f"seed {result.seed}: {result.kind}: {headline(result)}", flush=True)
    seconds = time.monotonic() - started
    if given.output is not None:
        everything = {
            "summary": summary(found, seconds), "outcomes": found, "refused": dict(refused.most_common()),
            "features": dict(sorted(features.items())), "failures": sorted(failures, key=lambda f: f["seed"]),
            "examples of refusals": examples,
        }  # fmt: skip
        given.output.write_text(json.dumps(everything, indent=1))
    print(summary(found, seconds))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
