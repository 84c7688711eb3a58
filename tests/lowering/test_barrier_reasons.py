"""Each barrier knows which two accesses it separates, and whether they meet; it is a choice."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from dsl.lowering.ir.choices import Choice
from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import TileError
from dsl.runtime.emulator.findings import Kind
from tests.compile_and_run import Kernel, compile_kernel, launch

X = np.random.default_rng(7).standard_normal((32, 256)).astype(np.float32)
HEAD = """kernel k(y: f32[256], n: s32, m: s32, x: f32[32, 256], at: s32[256]):
    grid 1
    i = arange(256)
"""
ARGS = {"x": X, "at": np.arange(256, dtype=np.int32)}


def compiled(body: str, warps: int = 4, choose: dict[str, str] | None = None) -> tuple[Kernel, dict[str, Choice]]:
    """The kernel of some lines, from line 4 on, and its choices about barriers."""
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    text = f"{HEAD}{lines}\nschedule p of k:\n    warps = {warps}\n"
    for key, option in (choose or {}).items():
        text += f"    choose {key}: {option}\n"
    kernel = compile_kernel(text, {"y": np.zeros(256, np.float32), "n": 0, "m": 0, **ARGS})
    made = kernel.variant.function.choices.keyed()
    return kernel, {key: choice for key, choice in made.items() if choice.kind == "barrier"}


ACROSS = """
shared s: f32[256]
s[i] = load(x[0, i])
store(y[i], s[255 - i])
"""
SLOTS = """
shared s: f32[2, 256]
s[n] = load(x[0, i])
store(y[i], s[m, 255 - i])
"""
ROUNDS = """
shared s: f32[256]
t = zeros(f32[256])
for r in range(0, 4):
    s[i] = load(x[r, i])
    t = t + s[255 - i]
store(y[i], t)
"""
BEFORE = """
shared s: s32[32]
s[arange(32)] = zeros(s32[32])
for r in range(0, 2):
    atomic_add(s[i % 32], full(s32[256], 1))
store(y[i], load(s[i % 32]).to(f32))
"""
FIRST = """
shared s: f32[ring 2, 256]
t = zeros(f32[256])
copy(s[0], x[0, 0 : 256])
commit()
for r in range(0, 8):
    wait(0)
    copy(s[r + 1], x[r + 1, 0 : 256])
    commit()
    t = t + s[r, 255 - i]
wait(0)
store(y[i], t)
"""

PROMISE = "; store(…, order=none) promises that they differ"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (ACROSS, {"barrier.s.load": "s.store in line 5 and s.load in line 6 meet across warps"}),
        (
            SLOTS,
            {
                "barrier.s.load": "s.store in line 5 and s.load in line 6 may meet across warps: "
                "it is not known that their stages differ"
            },
        ),
        (
            "store(y[i // 3 * 3 + i % 3 * n], load(x[0, i]))\nstore(y[255 - i], load(x[1, i]))",
            {
                "barrier.y.store": "y.store in line 4 and y.store in line 5 may meet across warps: "
                "where y.store is depends on '*' in line 4" + PROMISE
            },
        ),
        (
            "j = load(at[i])\nstore(y[j], load(x[0, i]), mask=(j >= 0) & (j < 256))\nv = load(y[i])\nstore(y[i], v)",
            {
                "barrier.y.load": "y.store in line 5 and y.load in line 6 may meet across warps: "
                "where y.store is depends on 'load' in line 4",
            },
        ),
        (
            "v = load(x[0, 0 : 128])\nstore(y[n : n + 128], v)\nstore(y[m : m + 128], v)",
            {
                "barrier.y.store": "y.store in line 5 and y.store in line 6 may meet across warps: "
                "one counts from 'n', the other from 'm'" + PROMISE
            },
        ),
        (
            "for static r in range(2):\n    b = at[r]\n    store(y[b : b + 128], load(x[r, 0 : 128]))",
            {
                "barrier.y.store": "y.store in line 6 and y.store in line 6 may meet across warps: "
                "each counts from its own 'b'" + PROMISE
            },
        ),
        (
            "shared s: f32[256]\ns[i] = load(x[0, i])\nstore(y[i], load(s[255 - i], mask=i < n))",
            {"barrier.s.load": "s.store in line 5 and s.load in line 6 may meet across warps: s.load is masked"},
        ),
        (
            ROUNDS,
            {
                "barrier.s.store": "s.load in line 8 of an iteration before and s.store in line 7 meet across warps",
                "barrier.s.load": "s.store in line 7 and s.load in line 8 meet across warps",
            },
        ),
        (
            BEFORE,
            {
                "barrier.s.atomic[0]": "s.store in line 5 and s.atomic in line 7 meet across warps; "
                "once before the loop",
                "barrier.s.atomic[1]": "superfluous with the barrier before line 6: "
                "s.store in line 5 and s.atomic in line 7 meet across warps",
                "barrier.s.load": "s.store in line 5 and s.load in line 8 meet across warps",
            },
        ),
        (
            FIRST,
            {
                "barrier.s.copy": "s.load in line 12 of an iteration before and s.copy in line 10 meet across warps",
                "barrier.s.load": "superfluous with the barrier before line 10: "
                "s.copy in line 6 and s.load in line 12 meet across warps",
            },
        ),
        (
            "shared s: f32[256]\ns[i] = load(x[0, i])\nif i < 128:\n    store(y[i], s[255 - i])",
            {"barrier.s.load": "s.store in line 5 and s.load in line 7 meet across warps"},
        ),
    ],
    ids=[
        "known",
        "stages",
        "no sum",
        "loaded",
        "bases",
        "copies",
        "mask",
        "iterations",
        "once",
        "superfluous",
        "branch",
    ],
)
def test_the_reason_of_a_barrier(body: str, wanted: dict[str, str]) -> None:
    kernel, made = compiled(body, warps=8 if "if i" in body else 4)
    assert {key: choice.because for key, choice in made.items()} == wanted
    function = kernel.variant.function
    standing = {op for op in walk(function.body) if op.name == "barrier"}
    assert {op for op, reason in function.reasons.items() if not reason.superfluous} == standing
    assert [choice.taken for choice in made.values()].count("none") == len(function.reasons) - len(standing)
    for key, choice in made.items():
        assert choice.loc is not None and f"in line {choice.loc.line}" in choice.because
        assert choice.subject == key.partition(".")[2].partition("[")[0]


def test_what_is_released() -> None:
    body = "store(y[i], load(x[0, i]))\natomic_add(at[0], 1, order=release)"
    _, made = compiled(body)
    (choice,) = made.values()
    wanted = "y.store in line 4 and at.atomic in line 5: what is released for other blocks is so for all threads"
    assert choice.because == wanted


# ---- as choices ----


def found(kernel: Kernel) -> set[Kind]:
    args = {"y": np.zeros(256, np.float32), "n": 0, "m": 0, **ARGS}
    return {each.kind for seed in (0, 1) for each in launch(kernel, args, seed=seed, collect=True).findings}


def test_no_barrier_is_unsafe() -> None:
    kernel, made = compiled(ACROSS, choose={"barrier.s.load": "none"})
    choice = made["barrier.s.load"]
    assert (choice.taken, choice.rule, choice.unsafe) == ("none", "block", ("none",))
    assert kernel.count("barrier") == 0
    assert found(kernel) == {Kind.RACE}


def test_a_barrier_of_the_warp_may_be_one_of_the_block() -> None:
    kernel, made = compiled(ACROSS, warps=1)
    assert kernel.count("barrier", scope="warp") == 1
    assert made["barrier.s.load"].options == ("warp", "block", "none")
    assert made["barrier.s.load"].costs == {"warp": 32, "block": 32, "none": 0}
    kernel, _ = compiled(ACROSS, warps=1, choose={"barrier.s.load": "block"})
    assert kernel.count("barrier", scope="block") == 1 and not kernel.count("barrier", scope="warp")
    assert not found(kernel)


def test_a_barrier_across_warps_is_not_of_the_warp() -> None:
    with pytest.raises(TileError, match="has no option 'warp'"):
        kernel, _ = compiled(ACROSS, choose={"barrier.s.load": "warp"})
        kernel.variant.function.choices.check_met()


def test_a_superfluous_barrier_can_be_put_back() -> None:
    kernel, made = compiled(FIRST)
    assert kernel.count("barrier") == 1
    assert made["barrier.s.load"].unsafe == ()
    kernel, made = compiled(FIRST, choose={"barrier.s.load": "block"})
    assert kernel.count("barrier") == 2
    names = [op.name for loop in kernel.ops if loop.name == "for" for op in loop.regions[0].ops]
    assert names.index("barrier") < names.index("copy") < len(names) - names[::-1].index("barrier")
    assert not found(kernel)


def test_manual_barriers_are_no_choice() -> None:
    kernel, made = compiled(ACROSS)
    text = "kernel k(y: f32[256]):\n    grid 1\n    store(y[arange(256)], 0.0)\nschedule p of k:\n    barriers manual\n"
    assert made and kernel.variant.function.reasons
    manual = compile_kernel(text, {"y": np.zeros(256, np.float32)}).variant.function
    assert not manual.reasons and not any(c.kind == "barrier" for c in manual.choices.made)
    reason = next(iter(kernel.variant.function.reasons.values()))
    assert str(replace(reason, scope="warp")).endswith("within a warp")
