"""Iterations in one: their loads of global memory stand together, ahead of what is done with them."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.kernels.variant import Request, build_variant
from dsl.lowering.ir.function import walk
from dsl.lowering.passes import run_passes
from dsl.text.program import parse_program
from tests.compile_and_run import compile_kernel, launch, through

COLUMNS = """
kernel columns(y: f32[cols], x: f32[rows, cols], at: s32[rows]):
    grid cdiv(cols, 32)
    c = block(0) * 32
    v = zeros(f32[32])
    for i in range(rows):
        v = {turn}
        {more}
    y[c : c + 32] = v

schedule s of columns:
    warps = 1
    unroll i: 4
"""


def order(turn: str, more: str = "") -> str:
    """Loads and sums of tiles in the iterations of four, in their order."""
    variant = build_variant(parse_program(COLUMNS.format(turn=turn, more=more)), Request("columns", "s", {}))
    run_passes(variant.function, variant.target, through("unroll_loops"))
    four = next(op for op in walk(variant.function.body) if op.spec.control.counters).regions[0]
    letters = {"load": "l", "store": "s", "add": "+"}
    told = [op for op in four.ops if op.name in letters and (op.name != "add" or op.result.dtype.is_float)]
    return "".join(letters[op.name] for op in told)


def test_loads_stand_together() -> None:
    assert order("v + x[i, c : c + 32]") == "llll++++"


def test_loads_of_what_was_loaded_stand_behind_that() -> None:
    assert order("v + load(x[at[i], c : c + 32])") == "llllllll++++"


def test_rounds_that_write_keep_their_order() -> None:
    assert order("v + x[i, c : c + 32]", "store(y[c : c + 32], v)") == "l+sl+sl+sl+s"


def test_loads_that_hang_on_sums_keep_their_order() -> None:
    assert order("v + load(x[(max(v).to(s32) + i).to(index) % 2, c : c + 32])").startswith("l+l+")


@pytest.mark.parametrize("rows", [0, 3, 4, 9])
def test_sums_are_right(rows: int) -> None:
    x = np.random.default_rng(rows).integers(-9, 10, (rows, 50)).astype(np.float32)
    args = {"y": np.zeros(50, np.float32), "x": x, "at": np.arange(rows, dtype=np.int32)}
    launch(compile_kernel(COLUMNS.format(turn="v + load(x[at[i], c : c + 32])", more=""), args), args)
    assert np.array_equal(args["y"], x.sum(0))
