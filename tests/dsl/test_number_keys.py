"""Two numbers are one call, one variant and one launch where they are of one type, value and sign, and nowhere else."""

from __future__ import annotations

import enum
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.calls import api
from dsl.examples.overrides import parse_value
from dsl.kernels import variants
from dsl.runtime.numbers import exact_key, same_number

TEXT = """
kernel scaled(y: f32[n], x: f32[n]; C, N=32):
    grid cdiv(n, N)
    i = block(0) * N
    y[i : i + N] = x[i : i + N] * C

kernel halved(y: f32[n]; C, N=32):
    grid cdiv(n, N)
    i = block(0) * N
    y[i : i + N] = full(f32[N], C / 2)

kernel special(y: f32[n], x: f32[n], s: f32; N=32):
    grid cdiv(n, N)
    i = block(0) * N
    y[i : i + N] = x[i : i + N] * s

schedule of_s of special:
    specialize s

kernel passed(y: f32[n], x: f32[n], s: f32; N=32):
    grid cdiv(n, N)
    i = block(0) * N
    y[i : i + N] = x[i : i + N] * s

kernel asked(y: f32[n], x: f32[n], s: f32; N=32):
    grid cdiv(n, N)
    assert s != 3.0
    i = block(0) * N
    y[i : i + N] = x[i : i + N] * s

kernel small(y: u8[n], s: u8; N=32):
    grid cdiv(n, N)
    i = block(0) * N
    y[i : i + N] = full(u8[N], 1) + s

kernel pick(y: f32[n], t: table f32[3]; N=32):
    grid cdiv(n, N)
    i = block(0) * N
    y[i : i + N] = full(f32[N], 1.0) * t[1]

dispatch chosen(y, x, s):
    option zero in 0.0, -0.0
    if s > 1: passed(y, x, s)
    else: scaled(y, x) with C=zero

dispatch through(y, x, s):
    passed(y, x, s)

dispatch made(y, x, s):
    passed(y, x, s * 2)

dispatch twice(y, z, x, s, r):
    passed(y, x, s)
    small(z, r)
"""
ONES = np.ones(4, np.float32)
VALUES = [0.0, -0.0, 1, 1.0, math.nan, math.inf, -math.inf, np.float32(-0.0), np.float64(2), np.int32(2), 2.5]
VALUES += [1e-46, -1e-46, Fraction(1, 3), Decimal("-0.0"), Decimal("NaN"), Decimal("0.1")]


class Few(enum.IntEnum):
    TWO = 2


class Own(float):
    """As a library derives it."""


@pytest.fixture(scope="module")
def shared() -> Any:
    return dsl.parse(TEXT, device="emulator")


@pytest.fixture
def module() -> Any:
    return dsl.parse(TEXT, device="emulator")


def test_the_key_of_a_number() -> None:
    values = [0, False, 0.0, -0.0, 1, True, 1.0, math.nan, math.inf, -math.inf, None, "0.0", "nan", (0.0,), (-0.0,)]
    keys = [exact_key(value) for value in values]
    assert len({*keys}) == len(values)
    assert exact_key(float("nan")) == exact_key(math.nan) and exact_key([1, 0.0]) == exact_key((1, 0.0))
    assert exact_key(np.float64(-0.0)) != exact_key(np.float64(0.0)) and exact_key(Few.TWO) == exact_key(Few.TWO)
    assert exact_key(np.float32("nan")) == exact_key(np.float32("nan")) and exact_key(Own(-0.0)) != exact_key(Own(0))
    assert same_number(1, 1.0) and same_number(math.nan, math.nan) and not same_number(0.0, -0.0)


@pytest.mark.parametrize("name", ["scaled", "special"])
def test_each_number_is_a_call_of_its_own(shared: Any, name: str) -> None:
    """0.0 and -0.0 were one; inf and NaN, of a scalar that is specialised, a traceback."""
    for value in [*VALUES, *VALUES, Few.TWO, Own(-0.0)]:
        found = shared.scaled(ONES, C=value) if name == "scaled" else shared.special(ONES, value)
        wanted = np.float32(1) * np.float32(float(value))
        assert np.array_equal(found, np.full(4, wanted), equal_nan=True)
        assert np.signbit(found[0]) == np.signbit(wanted) or wanted != wanted


@pytest.mark.parametrize("value", [Decimal("sNaN"), Decimal("1e400"), Fraction(10**400), np.ma.masked, np.bool_(True)])
@pytest.mark.parametrize("name", ["special", "passed", "pick", "scaled"])
def test_what_is_no_number_is_told(shared: Any, name: str, value: Any) -> None:
    """A Decimal that signals and a large Fraction were a traceback, a large Decimal was infinite."""
    y = np.zeros(4, np.float32)
    with pytest.raises((dsl.LaunchError, dsl.TileError), match=r"number|no f32"):
        if name == "scaled":
            shared.scaled(y, ONES, C=value)
        elif name == "pick":
            shared.pick(y, (0.0, value, 2.0))
        else:
            getattr(shared, name)(y, ONES, value)
    assert not y.any()


def test_no_number_of_the_command_line_becomes_infinite() -> None:
    """1e400 was inf there; in a file it is an error."""
    assert parse_value("-inf") == -math.inf and math.copysign(1, parse_value("-0.0")) == -1
    for text in ("1e400", "-1e400", "1" + "0" * 330 + ".5"):
        with pytest.raises(dsl.TileError, match="beyond every type"):
            parse_value(text)


def test_numbers_of_numpy_and_derived_ones_are_python_s(module: Any) -> None:
    for value in (2.0, np.float32(2), np.float64(2), Own(2)):
        assert module.scaled(ONES, C=value)[0] == 2
    assert len(module.scaled._plans) == 1
    for value in (2, Few.TWO, np.int8(2)):
        assert module.scaled(ONES, C=value)[0] == 2
    assert len(module.scaled._plans) == 2


def test_a_call_takes_no_plan_of_an_equal_number_of_another_type(module: Any) -> None:
    """1 / 2 is no integer, and was 0.5 behind a call with 1.0; N=64 was refused behind N=64.0."""
    assert module.halved(np.zeros(4, np.float32), C=1.0) is None
    with pytest.raises(dsl.TileError, match="no integer"):
        module.halved(np.zeros(4, np.float32), C=1)
    with pytest.raises(dsl.LaunchError, match="takes integers"):
        module.scaled(ONES, C=2, N=64.0)
    assert module.scaled(ONES, C=2, N=64)[0] == 2


def test_a_variant_takes_the_number_that_it_was_made_for_alone(shared: Any) -> None:
    """A variant of s = 0.0 took -0.0; one of NaN took nothing."""
    y = np.empty(4, np.float32)
    zero, nan, inf = (shared.compile("special", "of_s", s=s) for s in (0.0, math.nan, math.inf))
    for kernel, right, wrong in ((zero, 0, -0.0), (nan, np.float32("nan"), 1.0), (inf, math.inf, -math.inf)):
        kernel(y, ONES, right)
        with pytest.raises(dsl.LaunchError, match="requires s == "):
            kernel(y, ONES, wrong)
        kernel(y, ONES, right)
    assert len(nan.kernel._classes) == 1
    assert (
        shared.compile("special", "of_s", s=math.nan) is nan and shared.compile("special", "of_s", s=-0.0) is not zero
    )


def test_classes_of_a_launch_tell_zeros_apart(shared: Any) -> None:
    """Also where a kernel requires something of a scalar: each value is a class there."""
    kernel, y = shared.compile("asked"), np.empty(4, np.float32)
    for value in (0.0, -0.0, math.nan, math.nan, float("nan"), 0.0):
        kernel(y, ONES, value)
    assert len(kernel.kernel._classes) == 3
    for wrong in ("a", None, np.ones(2)):
        with pytest.raises(dsl.LaunchError, match="s is a number"):
            kernel(y, ONES, wrong)


def test_options_of_a_dispatch_are_the_file_s_own_values(shared: Any) -> None:
    signs = [bool(np.signbit(shared.chosen(ONES, 0.5, zero=zero)[0])) for zero in (0.0, -0.0, 0, 0.0)]
    assert signs == [False, True, False, False]
    with pytest.raises(dsl.TileError, match=r"one of 0\.0, -0\.0"):
        shared.chosen(ONES, 0.5, zero=math.nan)


def test_a_scalar_that_nothing_reads_makes_no_plan(module: Any) -> None:
    """Each seed took 3.6 KB for good, and a millisecond."""
    y = np.empty(4, np.float32)
    for function, plans in ((module.passed, 1), (module.through, 1), (module.made, 5), (module.chosen, 5)):
        for value in (2.25, 3.25, 4.25, 5.25, 6.25):
            function(y, ONES, value)
            assert y[0] == (2 * value if function is module.made else value)
        assert len(function._plans) == plans


def test_tables_that_nothing_reads_make_no_plan(module: Any) -> None:
    y = np.empty(4, np.float32)
    for value in (1.5, -0.0, 0.0):
        module.pick(y, (0.0, value, 2.0))
        assert y[0] == value and np.signbit(y[0]) == np.signbit(np.float32(value))
    assert len(module.pick._plans) == 1


def test_a_number_that_does_not_fit_is_told_before_anything_is_launched(module: Any) -> None:
    """The plan is that of another number: its second launch would refuse this one behind the first."""
    y, z = np.zeros(4, np.float32), np.zeros(4, np.uint8)
    module.twice(y, z, ONES, 2.0, 7)
    y[:] = 0
    for wrong in (300, -1):
        with pytest.raises((dsl.LaunchError, dsl.TileError), match="does not fit"):
            module.twice(y, z, ONES, 2.0, wrong)
        assert not y.any()


def test_plans_and_requests_have_a_bound(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were not used for longest go; the code is kept."""
    monkeypatch.setattr(api, "MOST_PLANS", 3)
    monkeypatch.setattr(variants, "MOST_REQUESTS", 3)
    for count in (1, 2, 3, 4, 1, 5):
        array = np.ones(count, np.float32)
        assert np.array_equal(module.passed(array, 2.0), 2 * array)
    assert len(module.passed._plans) == 3 and len(module.variants._kernels) <= 3
    assert [key[1].shape for key in module.passed._plans] == [(4,), (1,), (5,)]
    made = len([*module.variants])
    module.passed(np.ones(2, np.float32), 2.0)
    assert len([*module.variants]) == made
