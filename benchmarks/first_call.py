"""The time from `dsl.load` to the end of the first launch in a process that has torch: cold, and from a warm cache.

    python3 benchmarks/first_call.py
    python3 benchmarks/first_call.py --samples softmax --rounds 9

Each figure is the median of several processes. A process imports torch, makes its arrays on the GPU and waits. Then it
loads the sample, calls it, and waits for the launch. "import" is the part that imports `dsl`. "shape" is a later call
with another number of rows, and "next" the call of a shape after it. Cold processes share no cache, not even the
driver's own cache of machine code. "fills" and "warm" have one of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

SAMPLES = Path(__file__).resolve().parent.parent / "samples"
PROCESS = """
import json, sys, time
import torch

name, path = sys.argv[1:]
torch.manual_seed(0)

def arrays(rows):
    if name == "matmul":
        made = [torch.randn(rows, 1024, device="cuda").half(), torch.randn(1024, 1024, device="cuda").half()]
    else:
        made = [torch.randn(rows, 1000, device="cuda")]
    torch.cuda.synchronize()
    return made

def timed(function):
    start = time.perf_counter()
    result = function()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start), result

shapes = [arrays(rows) for rows in (1024, 1536, 2560)]
start = time.perf_counter()
import dsl
load = dsl.load
imported = 1e3 * (time.perf_counter() - start)
loaded, module = timed(lambda: load(path))
function = getattr(module, name)
first, y = timed(lambda: function(*shapes[0]))
later = [timed(lambda: function(*each))[0] for each in shapes[1:]]
wanted = torch.softmax(shapes[0][0], 1) if name == "softmax" else shapes[0][0] @ shapes[0][1]
error = (y - wanted).abs().max().item()
assert error < 1e-2 * max(1.0, wanted.abs().max().item()), error
print(json.dumps({"import": imported, "load": loaded, "first": first, "total": imported + loaded + first,
                  "shape": later[0], "next": later[1]}))
"""


def measured(name: str, cache: str) -> dict[str, float]:
    """The times of one process, in milliseconds."""
    driver = {"CUDA_CACHE_DISABLE": "1"} if cache == "off" else {"CUDA_CACHE_PATH": f"{cache}/driver"}
    environment = {**os.environ, "DSL_CACHE": cache, **driver}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", PROCESS, name, str(SAMPLES / f"{name}.tile")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", default="softmax,matmul", choices=["softmax", "matmul", "softmax,matmul"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    for name in given.samples.split(","):
        measured(name, "off")  # writes Python's bytecode
        with tempfile.TemporaryDirectory(prefix="dsl-first-call-") as cache:
            runs = {"off": [measured(name, "off") for _ in range(given.rounds)]}
            runs["fills"] = [measured(name, cache)]
            runs["warm"] = [measured(name, cache) for _ in range(given.rounds)]
        for kind, each in runs.items():
            row = {key: median(run[key] for run in each) for key in each[0]}
            rows.append({"sample": name, "cache": kind, **row})
            print(f"{name:8} {kind:6} " + "  ".join(f"{key} {value:.1f} ms" for key, value in row.items()), flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
