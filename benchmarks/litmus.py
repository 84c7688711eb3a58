"""Litmus tests of the PTX memory model on a GPU: does an outcome occur that the model forbids?

    python3 benchmarks/litmus.py [--rounds 1000000] [--only TEXT] [--output litmus.json] [--device cuda|emulator]

The tests are those of `tests/runtime/emulator/litmus`. Each launch runs many instances of a test, and each test has
many launches. The threads of an instance are on random blocks, warps and lanes. The words of an instance are packed,
spread or at random addresses. The threads of an instance wait for each other before they begin.

For each test, the table shows the number of rounds. An instance that waited too long does not count as a round. The
table also shows how often the forbidden outcome occurred, which must be 0. The last figure says how often a weak
outcome occurred. A weak outcome is allowed, but does not occur on a machine that does one thing after another. Racy
tests also run, to count their weak outcomes. The program exits with 1 if a forbidden outcome occurred. On the emulator,
only the tests without races run, in few rounds, since the tests in `tests/` check the emulator's verdicts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "runtime" / "emulator" / "litmus"))

import suite

from dsl import runtime
from dsl.runtime.header import Argument, Header, HeaderTensor, Scalar, SourceRecord, write

TENSORS = ("memory", "table", "places", "outs")
SETTINGS = 6  # arrangements of instances, used in turn
SCALARS = ("loops", "slab", "instances", "meet")


def ready(test: suite.Litmus, threads: int, device: str) -> runtime.Kernel:
    params = [HeaderTensor(name, "u32", (f"n_{name}",), strided=False, access="rw", align=8) for name in TENSORS]
    header = Header(
        entry="litmus",
        kernel="litmus",
        schedule=None,
        source=SourceRecord("litmus.toml", "0" * 64),
        arch="sm_90",
        constants={"THREADS": threads},
        threads=threads,
        cluster=1,
        shared_bytes=0,
        maxnreg=None,
        dims=tuple(f"n_{name}" for name in TENSORS),
        params=(*params, *(Scalar(name, "u32") for name in SCALARS)),
        arguments=(*(Argument("pointer", name) for name in TENSORS), *(Argument("scalar", name) for name in SCALARS)),
        grid=(["cdiv", "n_table", "THREADS"], 1, 1),
        index_bits=32,
    )
    return runtime.Kernel(write(header) + suite.kernel(test).lstrip(), device=device)


def blocks_of(test: suite.Litmus, multiprocessors: int) -> int:
    """The number of blocks. If blocks wait for each other, all blocks must fit on the GPU at once. If an instance is a
    single block, there are more blocks."""
    if not test.whole_blocks:
        return 4 * multiprocessors  # with eight warps each
    return multiprocessors * (64 if len(set(test.block_of_role)) == 1 else 16)


def run(test: suite.Litmus, rounds: int, device: str, seed: int = 0) -> dict[str, Any]:
    """Launches until there are enough rounds, or more than `rounds` rounds are lost."""
    random = np.random.default_rng(seed)
    on_gpu = device != "emulator"
    blocks = blocks_of(test, runtime.device_facts("cuda").sms) if on_gpu else 12
    put = runtime.to_device if on_gpu else np.copy
    found = {"rounds": 0, "forbidden": 0, "weak": 0, "lost": 0, "launches": 0}
    start = time.perf_counter()
    settings = [suite.setting(test, blocks, 8, 16 if on_gpu else 2, random, together=True) for _ in range(SETTINGS)]
    placed = [(put(each.table), put(each.places)) for each in settings]
    kernel = ready(test, settings[0].threads, device)
    while found["rounds"] < rounds and found["lost"] <= rounds:
        which = found["launches"] % SETTINGS
        memory, outs = put(settings[which].memory), put(settings[which].outs)
        kernel(memory, *placed[which], outs, *settings[which].scalars)
        seen = outs.numpy() if on_gpu else outs
        done = suite.rounds(seen)
        found["rounds"] += done
        found["lost"] += len(seen) // suite.OUTS - done
        found["forbidden"] += suite.count(test, test.forbidden, seen)
        found["weak"] += suite.count(test, test.weak, seen)
        found["launches"] += 1
    return {
        "name": test.name,
        "isa": test.isa,
        "verdict": test.verdict,
        **found,
        "seconds": time.perf_counter() - start,
    }


def show(rows: list[dict[str, Any]], tests: dict[str, suite.Litmus]) -> None:
    table = Table("test", "rounds", "forbidden seen", "weak seen", "lost")
    for row in rows:
        test = tests[row["name"]]
        forbidden = str(row["forbidden"]) if test.forbidden else "-"
        weak = str(row["weak"]) if test.weak else "-"
        table.add_row(test.name, str(row["rounds"]), forbidden, weak, str(row["lost"]))
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, help="of each test; a million on a GPU, 50 on the emulator")
    parser.add_argument("--only", default="", help="tests whose name has this text")
    parser.add_argument("--output", type=Path, help="write the figures as JSON")
    parser.add_argument("--device", default="cuda", choices=["cuda", "emulator"])
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    chosen = [test for test in suite.suite() if options.only in test.name]
    chosen = [test for test in chosen if (test.gpu if on_gpu else test.verdict == "ordered")]
    rounds = options.rounds or (1_000_000 if on_gpu else 50)
    rows = [run(test, rounds, options.device) for test in chosen]
    show(rows, {test.name: test for test in chosen})
    seconds = sum(row["seconds"] for row in rows)
    seen = sum(row["forbidden"] for row in rows)
    print(f"{len(rows)} tests, {seconds:.0f} s, forbidden outcomes seen: {seen}")
    if options.output:
        facts = runtime.device_facts("cuda" if on_gpu else "emulator")
        options.output.write_text(json.dumps({"device": facts.name, "tests": rows}, indent=2) + "\n")
    if seen:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
