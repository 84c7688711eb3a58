"""The time from `dsl.load` to the end of the first launch in a process that has torch: cold, and from a warm cache.

    python3 benchmarks/first_call.py
    python3 benchmarks/first_call.py --samples softmax --rounds 9
    python3 benchmarks/first_call.py --makers dsl,triton,quack

"triton" has kernels of peers/triton_first.py, and "quack" those of quack-kernels, which CuTe DSL compiles. Their
"load" is the import of these kernels.

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
from itertools import product
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
PROCESS = """
import json, sys, time
import torch

name, maker, folder = sys.argv[1:]
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

def of_dsl():
    import dsl
    load = dsl.load
    return lambda: getattr(load(f"{folder}/samples/{name}.tile"), name)

def of_triton():
    import triton
    sys.path.insert(0, f"{folder}/benchmarks")
    return lambda: getattr(__import__("peers.triton_first", fromlist=[name]), name)

def of_quack():
    import quack
    def load():
        if name == "softmax":
            from quack.softmax import softmax
            return softmax
        from quack.gemm_interface import gemm
        return lambda a, b: gemm(a, b, tuned=False)
    return load

shapes = [arrays(rows) for rows in (1024, 1536, 2560)]
start = time.perf_counter()
load = {"dsl": of_dsl, "triton": of_triton, "quack": of_quack}[maker]()
imported = 1e3 * (time.perf_counter() - start)
loaded, function = timed(load)
first, y = timed(lambda: function(*shapes[0]))
later = [timed(lambda: function(*each))[0] for each in shapes[1:]]
wanted = torch.softmax(shapes[0][0], 1) if name == "softmax" else shapes[0][0] @ shapes[0][1]
error = (y - wanted).abs().max().item()
assert error < 1e-2 * max(1.0, wanted.abs().max().item()), error
print(json.dumps({"import": imported, "load": loaded, "first": first, "total": imported + loaded + first,
                  "shape": later[0], "next": later[1]}))
"""


def measured(name: str, maker: str, cache: str) -> dict[str, float]:
    """The times of one process, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="dsl-first-call-") as empty:
        place = empty if cache == "off" else cache
        driver = {"CUDA_CACHE_DISABLE": "1"} if cache == "off" else {"CUDA_CACHE_PATH": f"{cache}/driver"}
        peers = {"TRITON_CACHE_DIR": f"{place}/triton", "QUACK_CACHE_DIR": f"{place}/quack"}
        environment = {**os.environ, "DSL_CACHE": cache, **driver, **peers}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [sys.executable, "-c", PROCESS, name, maker, str(ROOT)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", default="softmax,matmul", choices=["softmax", "matmul", "softmax,matmul"])
    parser.add_argument("--makers", default="dsl", help="of dsl, triton and quack, with commas between")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    rows = []
    for name, maker in product(given.samples.split(","), given.makers.split(",")):
        measured(name, maker, "off")  # writes Python's bytecode
        with tempfile.TemporaryDirectory(prefix="dsl-first-call-") as cache:
            runs = {"off": [measured(name, maker, "off") for _ in range(given.rounds)]}
            runs["fills"] = [measured(name, maker, cache)]
            runs["warm"] = [measured(name, maker, cache) for _ in range(given.rounds)]
        for kind, each in runs.items():
            row = {key: median(run[key] for run in each) for key in each[0]}
            rows.append({"sample": name, "maker": maker, "cache": kind, **row})
            times = "  ".join(f"{key} {value:.1f} ms" for key, value in row.items())
            print(f"{name:8} {maker:6} {kind:6} {times}", flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
