"""A process that compiles a kernel with some constants at the cache that `DSL_CACHE` names, and prints digests of the
PTX: that of a call's plan, and that of `compile`."""

from __future__ import annotations

import hashlib
import sys

import numpy as np

import dsl
from dsl.calls.arguments import shape_facts


def digests(file: str, block: int) -> list[str]:
    module = dsl.load(file, device="emulator", arch="sm_90")
    x = shape_facts(np.zeros(64 * block, np.float32))
    plan = module.twice.plan_for(*module.twice.order((x, x), {"BLOCK": block}))
    texts = [plan.kernels[0].ptx, module.compile("twice", n=64 * block, BLOCK=block).ptx]
    return [hashlib.sha256(text.encode()).hexdigest() for text in texts]


if __name__ == "__main__":
    print("DIGESTS", *digests(sys.argv[1], int(sys.argv[2])))
