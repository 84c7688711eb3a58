"""Conditions of dispatches, schedules that a caller names, and dispatches that call dispatches."""

from __future__ import annotations

import numpy as np
import pytest

import dsl
from dsl.calls.tuned import StepChoice, branch_of, branch_steps
from dsl.lowering.ir.location import TileError

TEXT = """
kernel k(y: s32[n], x: s32[n]?; N = 0, HUGE = 1):
    grid 1
    shared s: s32[HUGE]
    v = arange(32) * 0 + N
    if given(x):
        v = v + 100
    if HUGE > 1:
        s[:] = zeros(s32[HUGE])
    y[0 : 32] = v

kernel l(y: s32[n]; N = 0):
    grid 1
    y[0 : 32] = full(s32[32], 1000 + N)

schedule few of k, l:
    N = 1

schedule many of k, l:
    N = 2

schedule spare of k:
    N = 3

schedule huge of k:
    N, HUGE = 4, 1 << 17

dispatch first(y, x):
    option FLAG in true, false
    if n > 4096 and fits(k with huge): k with huge
    elif FLAG and n >= 512: k with many
    else: k(y) with few

dispatch second(y):
    twice = n < 1 << 21
    if twice:
        l(y) with few
    if n >= limit(1000):
        l with many
    elif not twice:
        l with few

dispatch named(y, x):
    if n > 1 << 20:
        l(y) with few
        k(y) with many
    elif n > 1 << 19: k with few
    else: k(y) with few

dispatch renamed(y, x):
    out, other, twice = y, None, 2 * n
    if n > 100:
        other, spare = x, workspace(s32[twice])
        l(spare)
    k(out, other) with few

def limit(n):
    return n + 24
"""


def value(call: str, n: int, schedule: str | None = None, **options: object) -> int:
    module, y = dsl.parse(TEXT, device="emulator"), np.zeros(n, np.int32)
    arrays = (y,) if call == "second" else (y, np.ones(n, np.int32))
    getattr(module, call)(*arrays, schedule=schedule, **options)
    return int(y[0])


@pytest.mark.parametrize(
    ("call", "n", "options", "wanted"),
    [
        ("first", 64, {}, 1),
        ("first", 512, {}, 102),  # this branch passes x
        ("first", 512, {"FLAG": False}, 1),
        ("first", 8192, {}, 102),  # 512 KiB of shared memory do not fit
        ("second", 512, {}, 1001),
        ("second", 1024, {}, 1002),
        ("renamed", 64, {}, 1),
        ("renamed", 128, {}, 101),  # the branch binds another name anew
    ],
)
def test_conditions_choose_launches(call, n, options, wanted) -> None:
    assert value(call, n, **options) == wanted


@pytest.mark.parametrize(
    ("call", "schedule", "wanted"),
    [
        ("first", "many", 102),
        ("first", "few", 1),
        ("named", "many", 2),  # the only branch with it, although its condition does not hold
        ("named", "few", 1),  # the conditions choose among the branches with it
        ("named", "spare", 3),  # no branch names it: the conditions choose among those of its kernel
    ],
)
def test_a_caller_names_any_schedule_of_its_kernels(call, schedule, wanted) -> None:
    assert value(call, 64, schedule) == wanted


def test_what_is_no_schedule_is_told() -> None:
    with pytest.raises(TileError, match="'named' has no schedule 'mayn'") as told:
        value("named", 64, "mayn")
    assert told.value.hint == "did you mean 'many'?"


def test_branches_are_the_ways_through_the_conditions() -> None:
    program = dsl.parse(TEXT, device="emulator").program
    dispatch = program.dispatches["second"]
    ways = [[(step.kernel, step.schedule) for step in branch_steps(each, program)] for each in dispatch.branches]
    few, many = ("l", "few"), ("l", "many")
    assert ways == [[few, many], [few, few], [few], [many], [few]]
    found = branch_of(dispatch, [StepChoice("l", "few", {}), StepChoice("l", "many", {})], program)
    assert found is dispatch.branches[0]
    assert branch_of(dispatch, [StepChoice("l", "few", {})], program) is dispatch.branches[2]
    assert branch_of(dispatch, [StepChoice("k", "few", {})], program) is None


def test_a_dispatch_has_a_limited_number_of_branches() -> None:
    conditions = "".join(f"    if n > {i}: k(y, x) with few\n" for i in range(9))
    with pytest.raises(TileError, match="the conditions of 'd' make more than 256 branches"):
        dsl.parse(f"{TEXT}\ndispatch d(y, x):\n{conditions}", device="emulator")


# ---- dispatches that call dispatches ----

CALLS = """
kernel k(y: s32[n], x: s32[n]?, w: s32[m]?; N = 0, LOG = 0):
    grid 1
    v = arange(32) * 0 + N + LOG * 10
    if given(x):
        v = v + 100
    if given(w):
        v = v + 1000
    y[0 : 32] = v

schedule few of k:
    N = 1

schedule many of k:
    N = 2

dispatch inner(out, x):
    option BIG in false, true
    require n < 4096
    limit = 100
    w = workspace(s32[limit])
    if BIG: k(out, x, w) with many
    elif given(x) and n > limit: k(out, x, w) with few
    elif n >= 512: k(out) with many, N = limit
    else: k(out, x) with few

dispatch outer(y, x, z):
    option FLAG in false, true
    limit = 700
    if FLAG: inner(y, z) with BIG = FLAG, LOG = 1
    elif n > limit: inner(y, None) with LOG = 3
    else: inner(y, x=x) with LOG = 2

dispatch again(y, z): outer(y, None, z) with FLAG = true

dispatch same(out, x): inner

dispatch twice(y, x):
    t = workspace(s32[n])
    inner(t, x)
    if n > 100: inner(y, t) with LOG = 4
    else: inner(y, None) with LOG = n // 64
"""


@pytest.mark.parametrize(
    ("call", "n", "options", "wanted"),
    [
        ("outer", 64, {}, 121),  # few
        ("outer", 128, {}, 1121),
        ("outer", 1024, {}, 130),  # an absent x, and the inner limit
        ("outer", 64, {"FLAG": True}, 1112),
        ("outer", 64, {"schedule": "many"}, 1112),  # the first branch with it
        ("again", 64, {}, 1112),
        ("same", 64, {}, 101),
        ("twice", 64, {}, 11),
        ("twice", 128, {}, 1141),  # calls and launches follow each other
    ],
)
def test_a_dispatch_calls_a_dispatch(call: str, n: int, options: dict, wanted: int) -> None:
    module, y = dsl.parse(CALLS, device="emulator"), np.zeros(n, np.int32)
    arrays = [y, *[np.ones(n, np.int32)] * (2 if call == "outer" else 1)]
    getattr(module, call)(*arrays, **options)
    assert int(y[0]) == wanted


def test_what_a_called_dispatch_requires_holds_for_its_branches() -> None:
    module, y = dsl.parse(CALLS, device="emulator"), np.zeros(8192, np.int32)
    with pytest.raises(TileError, match="requires n < 4096"):
        module.outer(y, y, y)
