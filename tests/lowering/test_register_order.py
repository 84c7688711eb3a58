"""Loads and stores take neighbours in memory together wherever a thread holds them, in whatever order."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sample_variants import cases

from dsl.lowering.ir.function import walk
from dsl.lowering.passes import run_passes
from dsl.lowering.shared.shared_map import shared_accesses
from tests.compile_and_run import NUMPY, compile_kernel, launch

STORED = """
kernel k(y: {type}[n, m], x: {type}[m, n]):
    grid cdiv(n, 64), cdiv(m, 64)
    i, j = block(1) * 64, block(0) * 64
    v = load(x[i : i + 64, j : j + 64])
    {how}
schedule square of k:
    warps = 8
    layout v: vector [4, 4], lanes [2, 16], warps [8, 1]
"""
WAYS = {
    "stored": "store(y[j : j + 64, i : i + 64], v.T)",
    "loaded": "w = load(x[i : i + 64, j : j + 64]).T\n    store(y[j : j + 64, i : i + 64], w + (v - v).T)",
    "shared": "shared s: {type}[64, 64]\n    s = v.T\n    w = s[:, :]\n    store(y[j : j + 64, i : i + 64], w)",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["f32", "s16", "u8"])
def test_a_transposed_square_moves_in_vectors(name: str, way: str) -> None:
    """The thread's four columns were stored one element at a time: 2.5 times the sectors."""
    x = np.random.default_rng(0).integers(0, 100, (128, 192)).astype(NUMPY[name])
    args = {"y": np.zeros((192, 128), x.dtype), "x": x}
    text = STORED.format(type=name, how=WAYS[way].format(type=name))
    kernel = compile_kernel(text, args, dims={"m": 128, "n": 192})
    launch(kernel, args)
    assert (args["y"] == x.T).all()
    accesses = re.findall(r"\b(?:ld|st)\.(?:global|shared)[\w.:]*?((?:\.v\d)?)\.[bsuf](\d+)", kernel.ptx)
    assert accesses
    for vector, bits in accesses:
        assert int(bits) // 8 * int(vector[2:] or 1) >= 4 * x.itemsize


def test_operands_of_products_keep_the_order_of_their_instruction() -> None:
    """Bytes of a row-major b come by ldmatrix.trans; in the widest order they came one row at a time, which took 1.5
    times as long."""
    case = next(
        c for c in cases() if (c.kernel, dict(c.types).get("T")) == ("product", "s8") and "along_k" not in dict(c.dims)
    )
    variant = case.build()
    run_passes(variant.function, variant.target)
    loads = [op.name for op in shared_accesses(walk(variant.function.body)) if op.results]
    assert loads and set(loads) == {"ldmatrix"}
