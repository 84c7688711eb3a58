"""`dsl verify` runs blocks in reverse, too. What sums or the last block leave must not be called a matter of order."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.kernels.variant import Request
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program

KERNEL = """
kernel k(y: f32[n], x: f32[n], sums: f32[4], count: s32[4]):
    grid 4
    b = block(0) * 32
    {body}

schedule s of k:
    warps = 1
"""
DECIDED = {
    "sums of floats": "atomic_add(y[0], sum(x[b : b + 32]))",
    "maxima": "atomic_max(y[arange(32)], x[b : b + 32])",
    "the last block": "sums[block(0)] = sum(x[b : b + 32])\n    i = atomic_add(count[0], 1, order=acq_rel)\n"
    "    if i == 3:\n        y[0] = sum(sums[0 : 4])",
    "a ticket that counts alone": "i = atomic_add(count[0], 1)\n    y[b] = where(i < 4, 1.0, 2.0)",
}
OPEN = {
    "line 5: 'count' depends on the order of its blocks: element 1 is 3, and 0 in reverse": (
        "atomic_exchange(count[1], block(0).to(s32))"
    ),
    "line 5: 'y' depends on the order of its blocks: element 0 is 0.0, and 3.0 in reverse": (
        "y[b] = atomic_add(count[0], 1).to(f32)"
    ),
}


def verified(body: str) -> str | None:
    x = np.random.default_rng(0).standard_normal(128).astype(np.float32)
    args = {"y": np.zeros(128, np.float32), "x": x, "sums": np.zeros(4, np.float32), "count": np.zeros(4, np.int32)}
    found = verify_kernel(parse_program(KERNEL.format(body=body)), Request("k", "s", {"n": 128}), args)
    assert found.divergence is None
    return found.undecided


@pytest.mark.parametrize("name", DECIDED)
def test_what_does_not_depend_on_the_order_is_decided(name: str) -> None:
    assert verified(DECIDED[name]) is None


@pytest.mark.parametrize("said", OPEN)
def test_what_depends_on_the_order_is_told(said: str) -> None:
    assert verified(OPEN[said]) == said
