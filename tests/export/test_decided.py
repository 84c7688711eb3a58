"""A call for which the conditions of another one hold gets the same launches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsl.calls.plan import FromCall, Workspace
from dsl.calls.planner import Planner
from dsl.command.export import launch_of
from dsl.export.decided import array_values, decisions
from dsl.lowering.ir.location import TileError
from dsl.runtime.expressions import compile_expression
from dsl.studies.check import planner_of
from dsl.text.program import Program, load
from dsl.values.facts import ArrayFacts

SAMPLES = Path(__file__).parents[2] / "samples"
TEXT = """
def halves(n):
    return n // 2

kernel numbered(y: f32[n], x: f32[n], count: s32, table: table s32[2]; BLOCK = 128, PARTS = count * 2):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * PARTS.to(f32) + table[1].to(f32)

dispatch by_table(y, x, table): scaled(y, x, table[0])

dispatch by_schedule(y, x, count, table): numbered

kernel scaled(y: f32[n], x: f32[n], count: s32; BLOCK = 128, PARTS = 1, KIND = 0):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * count.to(f32) * PARTS.to(f32) + KIND.to(f32)

schedule plain of scaled:
    warps = 4

dispatch by_number(y, x): scaled(y, x, n - 1)

dispatch by_constant(y, x):
    parts = cdiv(n, 1000)
    scaled(y, x, 3) with PARTS=parts

dispatch by_function(y, x): scaled(y, x, halves(n))

dispatch by_branch(y, x):
    if n % 256 == 0 and n > 1000: scaled(y, x, 1) with KIND=1
    elif n > 4000: scaled(y, x, 1) with KIND=2
    else: scaled(y, x, 1) with KIND=3

dispatch by_workspace(y, x):
    w = workspace(f32[cdiv(n, 512) * 512])
    scaled(w, w, 1)
    scaled(y, x, 1)

dispatch free(y, x): scaled(y, x, 7) with PARTS=2

example:
    n = 1024
    x, y = randn(f32[n]), empty(f32[n])
    NAME(y, x)
    expect y ~= y within 0
"""
NAMES = ["by_number", "by_constant", "by_function", "by_branch", "by_workspace", "free"]
EXTENTS = [1, 2, 256, 500, 512, 1000, 1001, 1023, 1024, 1025, 1280, 4000, 4001, 4096, 5000]


def values_of(planner: Planner) -> dict[str, Any]:
    """The values of the names that conditions may read."""
    found: dict[str, Any] = dict(planner.bound_names[0])
    for name, value in planner.arguments.items():
        found |= array_values(name, value) if isinstance(value, ArrayFacts) else {name: value}
    return found


def launches_of(planner: Planner) -> list[Any]:
    """What decides the meaning of a plan: kernels, constants that the dispatch sets, arguments."""

    def shown(argument: Any) -> Any:
        return (argument.dtype, argument.shape, argument.zeroed) if isinstance(argument, Workspace) else argument

    return [
        (step.request.kernel, [*step.request.constants.items()], [shown(each) for each in step.arguments])
        for step in planner.plan().steps
    ]


def planned(program: Program, name: str, values: list[str]) -> Planner:
    return planner_of(program, launch_of(program, name, None, values), "sm_90a")


@pytest.mark.parametrize("name", NAMES)
def test_calls_that_fulfil_the_conditions_get_the_same_launches(name: str, tmp_path: Path) -> None:
    (tmp_path / "own.tile").write_text(TEXT.replace("NAME", name))
    program = load(str(tmp_path / "own.tile"))
    planners = {extent: planned(program, name, [f"n={extent}"]) for extent in EXTENTS}
    made = {extent: launches_of(planner) for extent, planner in planners.items()}
    taken = 0
    for extent, planner in planners.items():
        conditions = [compile_expression(each.expr) for each in decisions(planner, planner.plan().steps)]
        assert all(each.evaluate(values_of(planner)) for each in conditions)
        for other, theirs in planners.items():
            if all(each.evaluate(values_of(theirs)) for each in conditions):
                assert made[other] == made[extent], (extent, other)
                taken += other != extent
    # Numbers that depend on n fix it; constants and conditions leave it open where they can.
    assert (taken == 0) == (name in ("by_number", "by_function"))
    assert name != "free" or taken == len(EXTENTS) * (len(EXTENTS) - 1)


@pytest.mark.parametrize(
    ("name", "line", "reads"),
    [
        ("by_table", "by_table(y, x, (4, 5))", {"table.item0", "table.item1"}),
        ("by_schedule", "by_schedule(y, x, 3, (4, 5))", {"count"}),
        ("numbered", "numbered(y, x, 3, (4, 5))", {"count"}),
    ],
)
def test_numbers_that_decide_the_code_are_fixed(name: str, line: str, reads: set[str], tmp_path: Path) -> None:
    (tmp_path / "own.tile").write_text(TEXT.replace("NAME(y, x)", line))
    planner = planned(load(str(tmp_path / "own.tile")), name, [])
    found = decisions(planner, planner.plan().steps)
    assert {name for each in found for name in compile_expression(each.expr).names} == reads


def test_the_dims_of_matmul_stay_open() -> None:
    program = load(str(SAMPLES / "matmul.tile"))
    large, larger, odd, small = (
        planned(program, "matmul", [f"m={m}", f"n={n}", f"k={k}"])
        for m, n, k in ((4096, 4096, 4096), (8000, 4096, 512), (4097, 4097, 4097), (16, 16, 16))
    )
    for planner in (large, larger, odd, small):
        planner.plan()
    conditions = [compile_expression(each.expr) for each in decisions(large, large.plan().steps)]
    holding = [all(each.evaluate(values_of(p)) for each in conditions) for p in (large, larger, odd, small)]
    assert holding == [True, True, False, False]
    own = [compile_expression(each.expr) for each in decisions(odd, odd.plan().steps)]
    assert all(each.evaluate(values_of(odd)) for each in own)
    assert not all(each.evaluate(values_of(large)) for each in own)
    arguments = [a for step in odd.plan().steps for a in step.arguments]
    assert any(isinstance(a, Workspace) for a in arguments) and FromCall("a") in arguments


def test_a_call_that_no_example_makes_is_refused() -> None:
    program = load(str(SAMPLES / "softmax.tile"))
    with pytest.raises(TileError, match=r"no example of .* launches 'softmax_rows'"):
        launch_of(program, "softmax_rows", None, [])
