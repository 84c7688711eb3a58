"""Costs of schedules: points of `tune` sets, schedules that a launch names, numbers of devices."""

from __future__ import annotations

import random
from itertools import permutations
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import dsl
from dsl.examples.overrides import Overrides
from dsl.kernels.variant import Request, costs_of, points_of, resolve, stride_class
from dsl.kernels.variants import kind_of
from dsl.lab.place import find_place
from dsl.lab.space import SpaceChoice, calls, candidates
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.machines import (
    SHIPPED,
    looks_once,
    machine_numbers,
    machine_rows,
    own_rows,
    own_version,
    text_of_rows,
)
from dsl.lowering.ir.targets import TARGETS, target
from dsl.runtime import LaunchError
from dsl.schedules import traced_cost
from dsl.schedules.cheapest import LatestPoints
from dsl.schedules.compiled_cost import CompiledCosts
from dsl.text.program import dim_names, load, parse_program
from dsl.values.facts import ArrayFacts
from tests.whole import some

SAMPLES = Path(__file__).parents[2] / "samples"
KERNEL = """
kernel scaled(y: f32[n], x: f32[n]; TILE, U = 1, FLAG = false):
    grid cdiv(n, TILE)
    i = block(0) * TILE
    y[i : i + TILE] = x[i : i + TILE] * 2.0
"""


def chosen(lines: str, n: int = 1000, **constants: Any) -> dict[str, Any]:
    """The constants of a schedule with these lines, its warps and its cost."""
    text = KERNEL + "\nschedule s of scaled:\n" + "".join(f"    {line}\n" for line in lines.strip().splitlines())
    program, request = parse_program(text), Request("scaled", "s", {"n": n}, {}, constants)
    schedule, *compiled = (resolve(program, request).schedule for _ in range(3))
    made, *others = ({**each.constants, "warps": each.warps, **each.costs} for each in (schedule, *compiled))
    assert all(repr(other) == repr(made) for other in others)  # from the second evaluation on, costs are compiled
    return made


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("tune TILE in 128, 256, 512\ncost (TILE - 300) * (TILE - 300)", {"TILE": 256, "cost": 1936.0}),
        ("tune TILE in 512, 128, 256\ncost 1.0", {"TILE": 512}),  # of equal costs, the first of the text
        ("tune TILE in 128, 256\ntune U in 1, 2\ncost 1.0 / TILE", {"TILE": 256, "U": 1}),  # U is not read
        ("tune TILE in 128, 256\ntune U in TILE // 128, 7\ncost TILE + where(U == 7, 0, 1000)", {"TILE": 128, "U": 7}),
        ("tune TILE in 128, 256\ntune U in TILE // 128, 9\ncost where(U == 2, 0, 5)", {"TILE": 256, "U": 2}),
        ("tune TILE in 128, 256\ncost where(TILE == 128, inf, TILE)", {"TILE": 256}),
        ("tune TILE in 128, 256\ncost where(TILE == 128, nan, TILE)", {"TILE": 256}),
        ("tune TILE in 128, 256\ncost inf", {"TILE": 128, "cost": inf}),  # named by the caller: the compiler decides
        ("tune TILE in 128, 256\ntune warps in 4, 8\ncost cdiv(n, TILE) / (1.0 * warps)", {"TILE": 256, "warps": 8}),
        ("tune TILE in 128, 256\ntune FLAG in false, true\ncost where(FLAG, TILE, 2 * TILE)", {"FLAG": True}),
        ("tune TILE in 128, 256\ncost where(not (TILE == 128) and n > 5 or TILE < 0, 0, 1)", {"TILE": 256}),
        ("tune TILE in 128, 256, 512\ncost where(128 < TILE < 512, -TILE, TILE)", {"TILE": 256}),
        ("tune TILE in 128, 256\ntune U in 3, 6\ncost clamp(TILE, 0, 200) % 131 - next_pow2(U)", {"U": 6, "TILE": 256}),
    ],
)
def test_the_least_cost_is_taken(lines: str, wanted: dict[str, Any]) -> None:
    made = chosen(lines)
    assert {name: made[name] for name in wanted} == wanted


def test_values_of_the_caller_stay() -> None:
    lines = "tune TILE in 128, 256\ntune U in 1, 2\ncost TILE * U"
    assert (made := chosen(lines, TILE=256))["TILE"] == 256 and made["U"] == 1 and made["cost"] == 256
    assert chosen(lines, TILE=1024)["TILE"] == 1024  # no value of the set


def test_dims_decide() -> None:
    lines = "tune TILE in 128, 1024\ncost cdiv(cdiv(n, TILE), sms) * (1.0 + TILE / 4096.0)"
    assert [chosen(lines, n)["TILE"] for n in (1000, 1 << 20)] == [128, 1024]


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        ("TILE > 16", "a cost is a number of microseconds"),
        ("f32", "a cost is a number of microseconds"),
        ("where(TILE == 128, f16, 1.0)", "'where' takes numbers; this is the type f16"),
        ("min(TILE, 3)", "a cost does not use 'min' on names of `tune` sets"),
        ("sqrt(TILE)", "a cost does not use 'sqrt' on names of `tune` sets"),
        ("TILE ** 2", "a cost does not use '**' on names of `tune` sets"),
        ("TIEL", "unknown name 'TIEL'"),
    ],
)
def test_what_a_cost_cannot_say_is_an_error_at_its_line(cost: str, said: str) -> None:
    with pytest.raises(TileError, match=said.replace("*", r"\*")) as raised:
        chosen(f"tune TILE in 128, 256\ncost {cost}")
    assert raised.value.errors[0].loc is not None and raised.value.errors[0].loc.line == 9


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ("tune TILE in 128, 256\ncost 1000 / TILE", {"TILE": 256, "cost": 3.90625}),  # no whole number
        ("tune TILE in 128, 256\ncost 1.0 / (TILE - 128)", {"TILE": 256}),  # 1 / 0 is infinite
        ("tune TILE in 128, 256\ncost where(TILE > 128 and n // (TILE - 128) > 3, 0, 1)", {"TILE": 256}),
        (
            "tune TILE in 256, 128\ntune U in 1, 2\ncost where((TILE == 128) + (U == 1) == 2, 0, 1)",
            {"TILE": 128, "U": 1},
        ),
        ("tune TILE in 256, 128\ncost n * TILE * n * n", {"TILE": 128}),  # 2^74 and more: beyond 64 bits
        ("tune TILE in 128, 256\ntune U in 1.5, 3\ncost 0 - U", {"U": 3}),
        ("tune TILE in 128, 256\ntune U in 3, 1.5\ncost U", {"U": 1.5}),
        ("tune TILE in 128, 256\ntune U in true, 4\ncost where(U == 4, 1, 0)", {"U": True}),
        ("tune TILE in 128, 256\ntune U in TILE // 64, TILE // 32\ncost 0 - U", {"TILE": 256, "U": 8}),
        ("tune TILE in 128, 256\ncost where(n > 0, TILE, 1 / 0)", {"TILE": 128}),
        # A set that a condition on dims skips is not read.
        (
            "tune TILE in 128, 256\ntune U in 1, 2\ncost 0 * where(n < 9, TILE, U) + where(U * TILE == 256, 0.0, 5.0)",
            {"TILE": 128, "U": 2},
        ),
        ("tune TILE in 128, 256\ntune U in 1, 2\ncost TILE + where(n > 9 or U == 1, 0, 9)", {"TILE": 128, "U": 1}),
        ("tune TILE in where(n % 8 == 0, 128, 64), 256\ncost TILE", {"TILE": 128}),
        ("tune TILE in 128, 256\ntune FLAG in n > 100, false\ncost where(FLAG, 0, TILE)", {"FLAG": True}),
    ],
)
def test_costs_are_fractions_and_values_stay_as_they_are_written(lines: str, wanted: dict[str, Any]) -> None:
    made = chosen(lines, 1 << 22)
    assert {name: (made[name], type(made[name])) for name in wanted} == {n: (v, type(v)) for n, v in wanted.items()} | (
        {"cost": (made["cost"], float)} if "cost" in wanted else {}
    )


def test_all_points_at_once_cost_what_each_costs() -> None:
    """The costs of std/products.tile on arrays equal those of Python's numbers, at every point of random products."""
    program, rng = dsl.load(SAMPLES / "matmul.tile", device="emulator").program, random.Random(7)
    for _ in range(6):
        dims = {name: int(2 ** rng.uniform(0, 13)) for name in "mnk"}
        types = rng.choice([{"T": "bf16", "O": "bf16"}, {"T": "s8", "O": "s32"}, {"T": "e4m3", "O": "bf16"}])
        for schedule in ("wgmma", "mma_sync"):
            request = Request("product", schedule, dims, types, {}, {"gain": 1.0}, arch="sm_90")
            points = resolve(program, request).schedule.points
            assert points is not None and points.costs == sorted(points.costs)
            for place in rng.sample(range(len(points.costs)), min(12, len(points.costs))):
                alone = resolve(program, replace(request, constants=points.at(place))).schedule
                assert alone.costs["cost"] == pytest.approx(points.costs[place], rel=1e-12)


COMPILED = {
    "matmul": "wgmma mma_sync",
    "attention": "attend_tile attend_four",
    "softmax": "lanes",
    "reduce": "columns",
}


@pytest.mark.parametrize("most_excluded", [0, 1024])
@pytest.mark.parametrize("sample", COMPILED)
def test_compiled_costs_are_those_of_the_walk(sample: str, most_excluded: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the second evaluation on, a cost is a function of the dims: the same costs and values, in the same order.
    Points that a condition excludes are left out, or evaluated in vain."""
    monkeypatch.setattr(traced_cost, "MOST_EXCLUDED", most_excluded)
    program, rng = dsl.load(SAMPLES / f"{sample}.tile", device="emulator").program, random.Random(5)
    named = [key for key in program.schedules if key[1] in COMPILED[sample].split()]
    assert named
    for kernel, schedule in named:
        for _ in range(8):
            dims = {name: int(2 ** rng.uniform(0, 12)) for name in dim_names(program.kernel(kernel))}
            request = Request(kernel, schedule, dims, {}, {}, {}, arch="sm_90")
            with monkeypatch.context() as walking:
                walking.setattr(CompiledCosts, "evaluated", lambda *_: None)
                walked = points_of(program, request)
            compiled = points_of(program, request)
            assert walked is not None and compiled is not None and compiled.costs == walked.costs
            for place in {0, len(walked.costs) // 2, len(walked.costs) - 1} if walked.costs[0] < inf else ():
                assert repr(compiled.at(place)) == repr(walked.at(place))
    assert any(each.general for found in program.once(CompiledCosts).found.values() for each in found)


@pytest.mark.parametrize("sample", ["matmul", "softmax", "layer_norm"])
def test_points_that_a_check_remembers_are_those_of_a_call(sample: str) -> None:
    """For each dims and types those of their own, also when it asks again."""
    called = dsl.load(SAMPLES / f"{sample}.tile", device="emulator").program
    checked = dsl.load(SAMPLES / f"{sample}.tile", device="emulator").program
    checked.once(LatestPoints).is_used = True
    rng, kept = random.Random(8), list[bool]()
    for kernel, schedule in called.schedules:
        for types in ({"T": "f16"}, {"T": "f32"}):
            names = dim_names(called.kernel(kernel))
            several = [{name: int(2 ** rng.uniform(0, 12)) for name in names} for _ in range(2)]
            for dims in (several[0], several[1], several[0]):
                request = Request(kernel, schedule, dims, types, {}, {}, arch="sm_90")
                wanted, found = points_of(called, request), points_of(checked, request)
                assert (wanted is None) == (found is None)
                if wanted is not None and found is not None:
                    assert found.costs == wanted.costs and repr(found.at(0)) == repr(wanted.at(0))
                    kept.append(points_of(checked, request) is found)
    assert kept and all(kept)


@pytest.mark.parametrize("sample", ["matmul", "softmax", "reduce", "layer_norm", "int8_conv", "attention"])
def test_costs_for_values_of_conditions_are_those_of_the_walk(sample: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions for calls whose conditions on dims have the same values have the points of the walk, ties included."""
    program, rng = dsl.load(SAMPLES / f"{sample}.tile", device="emulator").program, random.Random(6)
    for kernel, schedule in program.schedules:
        for _ in range(20):
            step = rng.choice([1, 8, 64])
            dims = {name: step * int(2 ** rng.uniform(0, 9)) for name in dim_names(program.kernel(kernel))}
            request = Request(kernel, schedule, dims, {}, {}, {}, arch="sm_90")
            with monkeypatch.context() as walking:
                walking.setattr(CompiledCosts, "evaluated", lambda *_: None)
                walked = points_of(program, request)
            special = points_of(program, request)
            if walked is None or special is None:
                assert walked is special
                break
            assert (special.least, special.costs, special.names) == (walked.least, walked.costs, walked.names)
            assert repr(special.at(0)) == repr(walked.at(0)) and special.least == special.costs[0]
    assert any(each.special for found in program.once(CompiledCosts).found.values() for each in found)


@pytest.mark.parametrize("order", [*permutations(["n > 3 * TILE", "TILE != 128", "U * n != 1536", "LATE < n"])])
def test_conditions_of_dims_and_of_sets_exclude_the_same_points(order: tuple[str, ...]) -> None:
    """In all orders, the compiled cost has the points of the walk, and its sets: those that conditions read until no
    point is left."""
    tunes = "tune TILE in 128, 256, 512\n    tune U in 1, 2, 3\n    tune LATE in 1, 700"
    condition, time = " and ".join(order), "TILE + U / 8 + LATE / 1024 + n"
    text = f"{KERNEL}\nschedule s of scaled:\n    {tunes}\n    cost where({condition}, {time}, inf)\n"
    program = parse_program(text)
    for n in (512, 512, 512, 1, 600, 768, 1536, 4096):
        request = Request("scaled", "s", {"n": n}, {}, {})
        walked, compiled = points_of(parse_program(text), request), points_of(program, request)
        assert walked is not None and compiled is not None
        assert (compiled.costs, compiled.names) == (walked.costs, walked.names)
        assert [compiled.at(i) for i in range(len(walked.costs))] == [walked.at(i) for i in range(len(walked.costs))]
    assert any(each.general for found in program.once(CompiledCosts).found.values() for each in found)


def test_what_is_not_traced_is_walked_each_time() -> None:
    """A dim compared with a type, and a word chosen by a dim."""
    cost = "where(where(n > 5, f32, f16) == f32, TILE, 1.0)"
    program = parse_program(f"{KERNEL}\nschedule s of scaled:\n    tune TILE in 128, 256\n    cost {cost}\n")
    for n in (1000, 1001, 1002):
        points = points_of(program, Request("scaled", "s", {"n": n}, {}, {}))
        assert points is not None and points.costs == [128.0, 256.0]
    assert all(each.general is None for found in program.once(CompiledCosts).found.values() for each in found)


@pytest.mark.parametrize("part", ["7 % n", "7 // n", "7 / n", "cdiv(7, n)", "7 // (TILE - TILE + n)"])
def test_a_division_by_zero_costs_infinitely_much(part: str) -> None:
    """At each call: a compiled function stops at some of them, and the text is walked."""
    program = parse_program(f"{KERNEL}\nschedule s of scaled:\n    tune TILE in 128, 256\n    cost TILE + {part}\n")
    for n in (0, 1000, 0, 1001, 0):
        points = points_of(program, Request("scaled", "s", {"n": n}, {}, {}))
        assert points is not None and (points.costs == [inf]) == (n == 0)


def test_a_condition_is_no_cost_at_each_call() -> None:
    program = parse_program(KERNEL + "\nschedule s of scaled:\n    tune TILE in 128, 256\n    cost TILE == n\n")
    for n in (1000, 1001, 1002):
        with pytest.raises(TileError, match="a cost is a number of microseconds"):
            points_of(program, Request("scaled", "s", {"n": n}, {}, {}))


def test_a_wrong_schedule_is_wrong_at_each_call() -> None:
    """Tracing adds no mistakes to those of the schedule: a ring of names was reported at the first call only."""
    lines = ("tune TILE in 128, 256", "A = B + 1", "B = A + 1", "cost where(n > 9, A, TILE)")
    program = parse_program(KERNEL + "\nschedule s of scaled:\n" + "".join(f"    {line}\n" for line in lines))
    for n in (1000, 1001, 1002, 1003):
        with pytest.raises(TileError, match="computed from itself"):
            resolve(program, Request("scaled", "s", {"n": n}, {}, {}))


def test_a_value_that_is_no_constant_is_refused_by_the_compiler() -> None:
    program = dsl.parse(
        KERNEL + "\nschedule s of scaled:\n    tune TILE in 128, 256\n    cost TILE\n", device="emulator"
    )
    for _ in range(3):
        with pytest.raises(TileError, match="constant 'U' is a number or a function"):
            program.compile("scaled", n=100, U=[1])


def test_a_cost_of_minus_infinity_is_none() -> None:
    assert chosen("tune TILE in 128, 256\ncost where(TILE == 128, -inf, TILE)")["TILE"] == 256


# ---- schedules that a launch names ----

RIVALS = (
    KERNEL
    + """
schedule small of scaled:
    tune TILE in 128, 256
    cost 4.0 + 1.0 * n / TILE

schedule wide of scaled:
    tune TILE in 1024, 2048
    cost 9.0 + 1.0 * n / TILE

schedule plain of scaled:
    TILE = 512

schedule greedy of scaled:
    TILE, warps = 262144, 1
    cost 0.0

schedule never of scaled:
    TILE = 64
    cost inf

dispatch run(y, x):
    if n > 10000000: scaled with plain, never
    else: scaled with plain, wide, small, never
"""
)
IMPOSSIBLE = "dispatch none(y, x):\n    scaled with greedy, never\n"


def planned(n: int, text: str = RIVALS, call: str = "run") -> tuple[str | None, list[str]]:
    module = dsl.parse(text, device="emulator")
    plan = module[call].plan({"y": ArrayFacts((n,), "f32"), "x": ArrayFacts((n,), "f32")})
    (step,) = plan.steps
    return step.request.schedule, plan.reasons


def test_the_cheapest_schedule_is_taken() -> None:
    assert planned(1024)[0] == "small" and planned(1 << 16)[0] == "wide"
    assert planned(1 << 25)[0] == "plain"  # the only one whose cost is finite, and it states none


def test_the_choice_is_explained() -> None:
    _, reasons = planned(1024)
    assert "never: no (its cost is infinite)" in reasons
    assert "small: 8.0 us (TILE=256); wide: 9.5 us (TILE=2048); plain" in reasons


def test_a_schedule_that_does_not_compile_is_passed_over() -> None:
    text = RIVALS.replace("plain, wide, small, never", "greedy, small")
    name, reasons = planned(1024, text)
    assert name == "small" and any(each.startswith("greedy: 0.0 us: no (line ") for each in reasons)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ("TILE = 4096 // (n - 1000)", "division by zero"),  # a value that the dims do not give
        ("TILE = n", "the extent of a slice is a power of two; 1000 is not"),
        ("TILE, warps = 256, n // 100", "warps is a power of two from 1 to 32; this is 10"),
        ("TILE, U = 256, n", "only small U"),  # a false assert of constants
        ("TILE = 64", "requires n % TILE != 40 (line 5)"),  # a false assert that the launch checks
        ("TILE = 256\n    blocks_per_sm n", "blocks_per_sm"),
    ],
)
def test_a_schedule_whose_conditions_fail_is_passed_over(lines: str, why: str) -> None:
    asserts = '    assert U < 1000, "only small U"\n    assert n % TILE != 40\n    i = block'
    text = RIVALS.replace("    i = block", asserts).replace("plain, wide, small, never", "greedy, small")
    text = text.replace("TILE, warps = 262144, 1", lines)
    name, reasons = planned(1000, text)
    assert name == "small" and any(each.startswith("greedy: 0.0 us: no (") and why in each for each in reasons)
    with pytest.raises(TileError) as raised:
        planned(1000, text.replace("greedy, small", "greedy, never"))
    assert why in str(raised.value) and "never: its cost is infinite" in str(raised.value)


@pytest.mark.parametrize(
    "lines",
    ["TILE = m", "TILE = 256\n    stages 3", "U = 1", "TILE = 256\n    TILE = 128"],
)
def test_a_wrong_schedule_is_not_passed_over(lines: str) -> None:
    text = RIVALS.replace("plain, wide, small, never", "greedy, small").replace("TILE, warps = 262144, 1", lines)
    text = text.replace("i = block(0) * TILE", "i = block(0) * (TILE + 0)")  # a grid that no rule knows
    text = text.replace("grid cdiv(n, TILE)", "grid cdiv(n, TILE + 0)")
    with pytest.raises(TileError):
        planned(1000, text)


def test_a_point_that_does_not_compile_is_passed_over() -> None:
    text = RIVALS.replace("TILE, warps = 262144, 1", "tune TILE in 262144, 256\n    warps = 1")
    text = text.replace("cost 0.0", "cost where(TILE > 256, 0.0, 1.0)").replace(
        "plain, wide, small, never", "greedy, small"
    )
    module = dsl.parse(text, device="emulator")
    x, y = np.ones(1000, np.float32), np.empty(1000, np.float32)
    plan = module.run.plan(module.run.facts({"y": y, "x": x}))
    assert plan.steps[0].request.constants == {"TILE": 256}
    module.run(y, x)
    assert (y == 2 * x).all()


TWICE = """
dispatch twice(y, x):
    t = workspace(f32[4096])
    scaled(t, x) with {first}
    scaled(y, t) with {second}
"""


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [("greedy", "plain, TILE=1024", [{"TILE": 256}, {"TILE": 1024}]), ("small", "greedy", [{}, {"TILE": 256}])],
)
def test_each_launch_has_points_of_its_own(first: str, second: str, wanted: list[dict[str, int]]) -> None:
    text = RIVALS.replace("TILE, warps = 262144, 1", "tune TILE in 262144, 256\n    warps = 1")
    text = text.replace("cost 0.0", "cost where(TILE > 256, 0.0, 1.0)") + TWICE.format(first=first, second=second)
    module = dsl.parse(text, device="emulator")
    facts = {"y": ArrayFacts((4096,), "f32"), "x": ArrayFacts((4096,), "f32")}
    assert [step.request.constants for step in module.twice.plan(facts).steps] == wanted


def test_a_branch_whose_schedules_are_all_infinite_is_an_error() -> None:
    """Another branch would not be what the conditions say."""
    text = RIVALS + "schedule no of scaled:\n    TILE = 64\n    cost inf\n"
    text += "dispatch d(y, x):\n    if n > 3: scaled with never, no\n    else: scaled with wide\n"
    assert planned(2, text, "d")[0] == "wide"
    with pytest.raises(TileError, match="no branch of 'd' serves this call") as raised:
        planned(1024, text, "d")
    assert raised.value.errors[0].loc is not None and "its cost is infinite" in str(raised.value)


def test_tuning_tries_all_points_in_the_order_of_their_costs() -> None:
    """Also if the cheapest does not compile."""
    text = RIVALS.replace("TILE, warps = 262144, 1", "tune TILE in 262144, 256, 512\n    warps = 1")
    text = text.replace("cost 0.0", "cost where(TILE > 600, 0.0, 600 - TILE)")
    text += "example:\n    x, y = randn(f32[1000]), empty(f32[1000])\n    scaled(y, x)\n    expect y == 2 * x\n"
    program = parse_program(text)
    (call,) = calls(program, program.examples[0], Overrides(), find_place("emulator"))
    listed = candidates(call, SpaceChoice(schedules=["greedy"]))
    assert [each.settings["TILE"] for each in listed] == [262144, 512, 256]


def test_if_none_compiles_the_compiler_says_why() -> None:
    with pytest.raises(TileError) as raised:
        planned(1024, RIVALS + IMPOSSIBLE, "none")
    assert raised.value.errors[0].loc is not None


def test_if_the_conditions_of_all_points_fail_the_launch_says_so() -> None:
    text = KERNEL.replace("    i = block", "    assert n % 2 == 0\n    i = block")
    text += "schedule s of scaled:\n    tune TILE in 128, 256\n    cost TILE\ndispatch d(y, x):\n    scaled with s\n"
    x = np.ones(33, np.float32)
    with pytest.raises(LaunchError, match="requires n % 2 == 0"):
        dsl.parse(text, device="emulator").d(np.empty_like(x), x)


@pytest.mark.parametrize("branch", ["greedy", "greedy, never"])
def test_the_error_of_a_point_says_that_the_cost_chose_it(branch: str) -> None:
    """Also if the point is the only one, and if the compiler has a hint of its own. A given value is not chosen."""
    text = RIVALS.replace("TILE, warps = 262144, 1", "tune TILE in 262144, 524288\n    warps = 1")
    text = text.replace("cost 0.0", "cost TILE / 1e6") + IMPOSSIBLE.replace("greedy, never", branch)
    with pytest.raises(TileError, match=r"this tile, f32.262144., takes") as raised:
        planned(1024, text, "none")
    said = "the cost of 'greedy' chose TILE=262144; set TILE, or exclude the point by an infinite cost"
    others = "; nor is the call served by never: its cost is infinite" if branch != "greedy" else ""
    assert raised.value.hint is not None and raised.value.hint.endswith(said + others)
    module = dsl.parse(text, device="emulator")
    x, y = np.ones(1000, np.float32), np.empty(1000, np.float32)
    with pytest.raises(TileError, match=r"this tile, f32.524288., takes") as raised:
        module.scaled(y, x, schedule="greedy", TILE=524288)
    assert "chose" not in str(raised.value)


def test_a_schedule_is_named_once() -> None:
    with pytest.raises(TileError, match="schedule 'small' is named twice"):
        dsl.parse(RIVALS.replace("wide, small", "small, small"))


def test_a_caller_names_one_of_them() -> None:
    module = dsl.parse(RIVALS, device="emulator")
    facts = {"y": ArrayFacts((1024,), "f32"), "x": ArrayFacts((1024,), "f32")}
    for name in ("wide", "plain", "never"):
        (step,) = module.run.plan(facts, schedule=name).steps
        assert step.request.schedule == name


def test_schedules_of_two_calls_are_no_rivals() -> None:
    """Each branch of `outer` copies another array ahead of the same launches."""
    text = RIVALS + "dispatch outer(y, x, z):\n    if n > 99: run(y, x)\n    else: run(y, z)\n"
    module = dsl.parse(text, device="emulator")
    facts = {name: ArrayFacts((1024,), "f32") for name in "yxz"}
    (step,) = module.outer.plan(facts).steps
    assert step.request.schedule == "small" and step.arguments[1].name == "x"


@pytest.mark.long
@pytest.mark.parametrize(
    ("n", "k", "dtype", "most"), [(4096, 4096, "bf16", 24), (8192, 8192, "f16", 17), (11008, 4096, "bf16", 18)]
)
def test_one_layer_has_few_kernels(n: int, k: int, dtype: str, most: int) -> None:
    """All numbers of rows from 1 to 8192, of which all tiles are multiples of 16. Whether tiles divide the rows makes
    no second kernel."""
    program, kinds = load(SAMPLES / "matmul.tile"), set()
    types, strides = {"T": dtype, "O": dtype}, {"a": stride_class((k, 1)), "b": stride_class((1, k))}
    absent = frozenset({"scale", "bias", "residual", "row_scale"})
    for m in some((16 * tiles - less for tiles in range(1, 513) for less in (0, 1, 8)), 4):
        dims = {"m": m, "n": n, "k": k}
        request = Request("product", "wgmma", dims, types, absent=absent, arch="sm_90a", strides=strides)
        resolved = resolve(program, request)
        assert resolved.schedule.costs["cost"] < inf
        kinds.add(kind_of(resolved.family, resolved))
    assert len(kinds) <= most


@pytest.mark.parametrize(
    "lines",
    [
        "tune TILE in 128, 256, 512\ntune U in 1, TILE // 64\ncost where(TILE > 128, TILE / (U - 1), inf)",
        "tune TILE in 128, 256\ntune U in 2, 3\ncost where(U == TILE // 128 + 1 and n > 5, U + 1.0 / TILE, inf)",
        "tune TILE in 128, 256\ntune U in 1, 2\ncost where(n < 5, TILE, inf)",  # excluded as a whole
        "tune TILE in 128, 256\ntune FLAG in false, true\ncost where(FLAG, TILE, nan)",
        "tune TILE in 128, 256\ntune U in 1, 2\ncost TILE",  # U is not read
    ],
)
def test_costs_at_given_points_are_those_of_each_alone(lines: str) -> None:
    text = KERNEL + "\nschedule s of scaled:\n" + "".join(f"    {line}\n" for line in lines.splitlines())
    program, request = parse_program(text), Request("scaled", "s", {"n": 1000})
    points = [
        {"TILE": tile, "U": u, "FLAG": flag}
        for tile in (512, 128, 256, 96)
        for u in (3, 1, 2)
        for flag in (True, False)
    ]
    alone = [resolve(program, replace(request, constants=point)).schedule.costs["cost"] for point in points]
    assert costs_of(program, request, points, {}) == alone
    assert costs_of(parse_program(KERNEL + "\nschedule s of scaled:\n    TILE = 128\n"), request, points, {}) is None


def test_costs_read_the_numbers_that_are_given() -> None:
    text = KERNEL + "\nschedule s of scaled:\n    tune TILE in 128, 256\n    cost gpu_launch_time * TILE\n"
    program, points = parse_program(text), [{"TILE": 256}, {"TILE": 128}]
    request = Request("scaled", "s", {"n": 1000}, device="NVIDIA H200")
    assert costs_of(program, request, points, {"gpu_launch_time": 0.5}) == [128, 64]
    assert costs_of(program, request, points, {}) == [1280, 640]


# ---- numbers of devices ----


def test_each_device_has_all_numbers() -> None:
    rows = machine_rows(SHIPPED)
    assert len({tuple(row) for row in rows.values()}) == 1
    assert {each.chip for each in TARGETS.values()} <= rows.keys()
    assert all(number > 0 for row in rows.values() for number in row.values())


def test_a_device_is_known_by_its_name() -> None:
    hopper = target("sm_90")
    assert machine_numbers(hopper, "NVIDIA H100 80GB HBM3") == machine_rows(SHIPPED)["H100"]
    assert machine_numbers(hopper, "NVIDIA H200 NVL") == machine_numbers(hopper) == machine_rows(SHIPPED)["H200"]
    assert (
        machine_numbers(target("sm_80"), "NVIDIA A30")
        == machine_numbers(target("sm_80"))
        == machine_rows(SHIPPED)["A100"]
    )


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's file with numbers of devices."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "dsl").mkdir()
    return own_rows()


def test_numbers_of_the_user_win(own: Path) -> None:
    given = {"gpu_launch_time": 4.0, "gpu_clock": 1755.0}
    own.write_text(text_of_rows({"NVIDIA H100": given, 'RTX "4070"': {"gpu_clock": 12345678.0}}))
    hopper, shipped = target("sm_90"), machine_rows(SHIPPED)
    assert machine_numbers(hopper, "NVIDIA H100 80GB HBM3") == {**shipped["H100"], **given}
    assert machine_numbers(target("sm_89"), 'RTX "4070"') == {**shipped["RTX 4090"], "gpu_clock": 12350000.0}
    assert machine_numbers(hopper) == machine_numbers(hopper, "NVIDIA H200") == shipped["H200"]


def test_a_plan_looks_at_the_file_of_the_user_once(own: Path) -> None:
    before = own_version()
    with looks_once():
        own.write_text("[A]\ngpu_clock = 1.0")
        assert own_version() == before
    assert own_version() != before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[A]\ngpu_clok = 1.0", "row 'A' has no number 'gpu_clok'"),
        ("[A]\ngpu_clock = 0", "'gpu_clock' of row 'A' is a number above 0"),
        ("[A]\ngpu_clock = inf", "'gpu_clock' of row 'A' is a number above 0"),
        ("[A]\ngpu_clock = 1" + "0" * 400, "'gpu_clock' of row 'A' is a number above 0"),
        ("[A]\ngpu_clock = true", "'gpu_clock' of row 'A' is a number above 0"),
        ("gpu_clock = 3", "'gpu_clock' stands in no row"),
        ("[A", "cannot read"),
    ],
)
def test_a_wrong_file_of_the_user_is_an_error(own: Path, text: str, said: str) -> None:
    own.write_text(text)
    with pytest.raises(TileError, match=said):
        machine_numbers(target("sm_90"))
