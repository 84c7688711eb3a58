"""Kernels of the samples whose threads need nearly all of their registers, and the rules that keep these from
spilling."""

from __future__ import annotations

from typing import Any

import pytest

import dsl
from dsl.kernels.compile import compile_variant
from dsl.kernels.variant import Request
from dsl.lowering.ir.function import Op, walk
from dsl.runtime.tools import assemble
from dsl.values.facts import ArrayFacts
from tests.lowering.sample_variants import SAMPLES


def array(dtype: str, *extents: int) -> ArrayFacts:
    return ArrayFacts(extents, dtype)


def product(dtype: str, m: int, n: int, k: int, order: str = "b") -> tuple[str, str, tuple[Any, ...], Any]:
    a = ArrayFacts((k, m), dtype).turned if order == "a.T" else array(dtype, m, k)
    b = ArrayFacts((n, k), dtype).turned if order == "b.T" else array(dtype, k, n)
    c = array({"s8": "s32", "e4m3": "bf16"}.get(dtype, dtype), m, n)
    return "matmul", "product", (c, a, b), {}


def attention(s: int, t: int, d: int, causal: bool) -> tuple[str, str, tuple[Any, ...], Any]:
    q, k = array("bf16", 1, 9, s, d), array("bf16", 1, 9, t, d)
    return "attention", "attend", (q, q, k, k, 0.125, array("f32", 1, 9, s)), {"CAUSAL": causal}


CASES = {
    "a loop behind a loop": attention(1210, 20, 88, False),
    "rows at multiples of eight bytes": attention(1211, 1211, 100, True),
    "shares with masks": product("f32", 22, 484, 1767, "a.T"),
    "operands loaded by elements": product("f16", 94, 966, 177, "b.T"),
    "heads of 32": attention(565, 116, 32, False),
    "bytes that are turned": product("s8", 1376, 1352, 72),
    "bytes that are turned to f16": product("e4m3", 1264, 2016, 32),
    "odd rows of turned tiles": product("f16", 771, 5805, 2167),
}


def planned(case: str) -> tuple[dsl.Module, Request]:
    """The kernel that a case's call launches on Hopper."""
    sample, kernel, arguments, constants = CASES[case]
    module = dsl.load(SAMPLES / f"{sample}.tile", device="emulator", arch="sm_90a")
    function = getattr(module, sample)
    given, rest = function.order(arguments, dict(constants))
    steps = function.planner(given, **rest).plan().steps
    return module, next(step.request for step in steps if step.request.kernel == kernel)


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_nothing_spills(case: str) -> None:
    module, request = planned(case)
    made = assemble(compile_variant(module.program, request).ptx, "sm_90a")
    assert made.spill_stores == 0, made.log


def lowered(case: str) -> list[Op]:
    module, request = planned(case)
    return list(walk(compile_variant(module.program, request).variant.function.body))


def test_stores_to_the_same_rows_follow_each_other() -> None:
    """Of two products of 128 columns, whose operations keep their order."""
    ops = lowered("odd rows of turned tiles")
    stores = [op for op in ops if op.name == "store" and op.operands[0].name == "c"]
    rows = [op.operands[-1] for op in stores]
    assert len(stores) == 10 and all(rows[i] is rows[i + 1] for i in range(0, 10, 2)) and len(set(rows)) == 5


def test_flags_that_one_branch_reads_are_computed_in_it() -> None:
    """The block that adds the shares of a tile computes them behind the loop that adds."""
    ops = lowered("shares with masks")
    (joins,) = [op for op in ops if op.spec.control.kind == "chooses" and any(map(writes_result, walk(op.regions[0])))]
    inside = joins.regions[0].ops
    flags = [op for op in inside if op.results and op.result.tile.shape and op.result.dtype.name == "i1"]
    loop = next(op for op in inside if op.spec.control.counters)
    assert flags and all(inside.index(op) > inside.index(loop) for op in flags)
    stores = [op for op in inside if writes_result(op)]
    made = {result for op in inside for result in op.results}
    assert all(op.operands[op.attrs["has"].index("mask")] in made for op in stores)


def writes_result(op: Op) -> bool:
    return op.name == "store" and op.operands[0].name == "c"


def test_threads_read_their_index_by_a_shuffle_behind_loops_of_many_sums() -> None:
    module, request = planned("a loop behind a loop")
    assert compile_variant(module.program, request).ptx.count("shfl.sync.idx") == 2
    few = Request("attend", "attend_tile", dict(request.dims), dict(request.types), {"TM": 64, "TN": 64, "D": 32})
    assert compile_variant(module.program, few).ptx.count("shfl.sync.idx") == 0
