"""Processes that die, or end after a fault of the device. Few imports: each process that is started reads this file."""

from __future__ import annotations

import os
from typing import Any

from tests.random_kernels.processes import Options, Outcome, outcomes


def dies(orders: Any, results: Any, options: Options) -> None:
    """In place of a process: ends at seed 3, stands still never, is right else."""
    results.put(None)
    while (seed := orders.get()) is not None:
        if seed == 3:
            os._exit(7)
        results.put(Outcome(seed, "device" if seed == 5 else "right"))
        if seed == 5:
            results.close()
            results.join_thread()
            os._exit(1)


def test_a_process_that_dies_is_replaced_and_its_seed_is_a_failure() -> None:
    found = {o.seed: o for o in outcomes(iter(range(9)), 2, Options(), 60, dies)}
    assert sorted(found) == list(range(9))
    assert found[3].kind == "died" and "7" in found[3].message and "kernel k(" in found[3].text
    assert found[5].kind == "device" and all(o.kind == "right" for s, o in found.items() if s not in (3, 5))
