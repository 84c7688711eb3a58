"""Choices that several dispatches share, branches that a caller names, and schedules that no branch names."""

from __future__ import annotations

import numpy as np
import pytest

import dsl
from dsl.calls.tuned import StepChoice, branch_of
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

choice sized(length, most, FLAG):
    when length > 4096 and fits: huge
    when FLAG and length >= most: many
    otherwise: few

dispatch first(y, x):
    option FLAG in true, false
    match sized(n, 512, FLAG):
        many: k
        otherwise: k(y)

dispatch second(y):
    match sized(n, limit(1000), true):
        few: l
        huge, many:
            l(y) with few
            l

dispatch named(y, x):
    when n > 1 << 20 as both:
        l(y)
        k(y) with many
    when n > 1 << 19: k with few
    otherwise as alone: k(y)

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
        ("first", 512, {}, 102),  # this arm passes x
        ("first", 512, {"FLAG": False}, 1),
        ("first", 8192, {}, 102),  # `fits` is of the branch: 512 KiB of shared memory do not
        ("second", 512, {}, 1001),
        ("second", 1024, {}, 1002),  # the arguments are each dispatch's own
    ],
)
def test_a_choice_is_shared(call, n, options, wanted) -> None:
    assert value(call, n, **options) == wanted


@pytest.mark.parametrize(
    ("call", "schedule", "wanted"),
    [
        ("first", "many", 102),
        ("named", "both", 2),
        ("named", "alone", 1),
        ("named", "few", 101),
        ("named", "spare", 3),  # no branch names it: the conditions choose among those of its kernel
    ],
)
def test_a_caller_names_a_branch_or_any_schedule_of_its_kernels(call, schedule, wanted) -> None:
    assert value(call, 64, schedule) == wanted


def test_what_is_no_branch_and_no_schedule_is_told() -> None:
    with pytest.raises(TileError, match="'named' has no schedule 'boht'") as told:
        value("named", 64, "boht")
    assert told.value.hint == "did you mean 'both'?"


def test_steps_are_those_of_a_branch_of_the_choice() -> None:
    program = dsl.parse(TEXT, device="emulator").program
    dispatch = program.dispatches["second"]
    many = branch_of(dispatch, [StepChoice("l", "few", {}), StepChoice("l", "many", {})], program)
    assert many is not None and many.name == "many"
    assert branch_of(dispatch, [StepChoice("l", "few", {})], program).name == "few"  # type: ignore[union-attr]
    assert branch_of(dispatch, [StepChoice("k", "few", {})], program) is None


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

choice sized(length):
    when length >= 512: many
    otherwise: few

dispatch inner(out, x):
    option BIG in false, true
    require n < 4096
    limit = 100
    w = workspace(s32[limit])
    when BIG: k(out, x, w) with many
    when given(x) and n > limit as there: k(out, x, w)
    match sized(n):
        many: k(out) with N = limit
        otherwise: k(out, x)

dispatch outer(y, x, z):
    option FLAG in false, true
    limit = 700
    when FLAG as flagged: inner(y, z) with BIG = FLAG, LOG = 1
    when n > limit: inner(y, None) with LOG = 3
    otherwise: inner(y, x=x) with LOG = 2

dispatch again(y, z):
    otherwise: outer(y, None, z) with FLAG = true

dispatch same(out, x):
    otherwise: inner
"""


@pytest.mark.parametrize(
    ("call", "n", "options", "wanted"),
    [
        ("outer", 64, {}, 121),  # few
        ("outer", 128, {}, 1121),  # there
        ("outer", 1024, {}, 130),  # an absent x, and the inner limit
        ("outer", 64, {"FLAG": True}, 1112),
        ("outer", 64, {"schedule": "many"}, 1112),  # the first branch with it
        ("outer", 64, {"schedule": "there"}, 1111),  # the first branch of this name
        ("again", 64, {}, 1112),
        ("same", 64, {}, 101),
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
