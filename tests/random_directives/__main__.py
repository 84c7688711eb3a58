"""`python -m tests.random_directives --programs 2000`: random schedules of random kernels, and a line. `--hopper` draws
what only sm_90a has, `--assembled` asks ptxas, too, and with `--gpu` they run on one."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from functools import partial
from multiprocessing import Pool

from tests.random_directives.hopper_trying import attempt_hopper
from tests.random_directives.trying import attempt


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random_directives", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--choices", action="store_true", help="with other options of a fifth of the choices")
    parser.add_argument("--hopper", action="store_true", help="products of warp groups and copies of boxes")
    parser.add_argument("--assembled", action="store_true", help="with --hopper: spills and remarks of ptxas, too")
    parser.add_argument("--kept", type=float, default=1.0, help="with --hopper: the share of the lines that stays")
    parser.add_argument("--gpu", action="store_true", help="with --hopper: on a GPU of this machine")
    given = parser.parse_args()
    if (given.assembled or given.gpu or given.kept < 1) and not given.hopper:
        parser.error("--assembled, --kept and --gpu go with --hopper")
    device = "cuda" if given.gpu else "emulator"
    of_hopper = partial(attempt_hopper, assembled=given.assembled, device=device, kept=given.kept)
    tries = of_hopper if given.hopper else attempt
    seeds = range(given.seed, given.seed + given.programs)
    found: Counter[str] = Counter()
    directives: Counter[str] = Counter()
    with Pool(given.processes) as pool:
        for outcome in pool.imap_unordered(partial(tries, choices=given.choices), seeds, chunksize=4):
            found[outcome.kind] += 1
            directives.update(outcome.directives if outcome.kind == "right" else ())
            if outcome.kind not in ("right", "refused"):
                line = outcome.message.strip().splitlines()[-1 if "Traceback" in outcome.message else 0]
                print(f"seed {outcome.seed}: {outcome.kind}: {line[:200]}", flush=True)
    print(dict(found), dict(directives))
    return 1 if set(found) - {"right", "refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
