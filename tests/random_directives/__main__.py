"""`python -m tests.random_directives --programs 2000`: random schedules of random kernels, and a line."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from functools import partial
from multiprocessing import Pool

from tests.random_directives.trying import attempt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_directives", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--choices", action="store_true", help="with other options of a fifth of the choices")
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.programs)
    found: Counter[str] = Counter()
    directives: Counter[str] = Counter()
    with Pool(given.processes) as pool:
        for outcome in pool.imap_unordered(partial(attempt, choices=given.choices), seeds, chunksize=4):
            found[outcome.kind] += 1
            directives.update(outcome.directives if outcome.kind == "right" else ())
            if outcome.kind in ("wrong", "error"):
                line = outcome.message.strip().splitlines()[-1 if outcome.kind == "error" else 0]
                print(f"seed {outcome.seed}: {outcome.kind}: {line[:200]}", flush=True)
    print(dict(found), dict(directives))
    return 1 if found["wrong"] or found["error"] else 0


if __name__ == "__main__":
    sys.exit(main())
