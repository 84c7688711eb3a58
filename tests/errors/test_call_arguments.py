"""Arguments of a Python call that are no arrays, numbers, tables or names: an error of ours that names the argument."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.runtime import LaunchError

TEXT = """\
kernel addr(y: f32[n], x: f32[n], r: f32[n]?; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = x[i : i + BLOCK]
    if given(r):
        v = v + r[i : i + BLOCK]
    y[i : i + BLOCK] = v

kernel scaled(y: f32[n], x: f32[n], a: f32, k: s32; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * a

kernel tabled(y: f32[n], x: f32[n], t: table f32[4]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * t[1]

kernel limited(y: f32[n], x: f32[n]; MOST, BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = minimum(x[i : i + BLOCK], MOST)

schedule half of scaled:
    BLOCK = 64

dispatch scale(y, x, a, k):
    option MODE in 1, 2
    if MODE == 1: scaled(y, x, a, k)
    else: limited(y, x) with MOST=3
"""
MASKED = np.ma.masked_array(np.ones(100, np.float32), mask=[True] * 100)
X = np.ones(100, np.float32)


class Thing:
    """No array, and no number."""


@pytest.fixture(scope="module")
def module() -> Any:
    return dsl.parse(TEXT, device="emulator")


@pytest.mark.parametrize(
    ("name", "arguments", "named", "message"),
    [
        ("addr", ([1.0, 2.0],), {}, "'x' is an array; the list [1.0, 2.0] is no array that a kernel takes"),
        ("addr", ((1.0,) * 100,), {}, "'x' is an array; a tuple is no array"),
        ("addr", (MASKED,), {}, "'x' is an array; a numpy.ma.MaskedArray is no array"),
        ("addr", (X, MASKED, None), {}, "'x' is an array; a numpy.ma.MaskedArray is no array"),
        ("addr", (), {"x": MASKED}, "'x' is an array; a numpy.ma.MaskedArray is no array"),
        ("addr", (X.view(np.recarray),), {}, "'x' is an array; a numpy.rec.recarray is no array"),
        ("addr", (3,), {}, "'x' is an array; the int 3 is no array"),
        ("addr", ("abc",), {}, "'x' is an array; the str 'abc' is no array"),
        ("addr", (Thing(),), {}, "'x' is an array; a test_call_arguments.Thing is no array"),
        ("addr", (X,), {"res": X}, "addr has no parameter, option or constant 'res'"),
        ("addr", (X,), {"rr": [1, 2]}, "addr has no parameter, option or constant 'rr'"),
        ("addr", (X,), {"BLOCKS": 3}, "addr has no parameter, option or constant 'BLOCKS'"),
        ("addr", (X,), {"BLOCK": X}, "'BLOCK' takes a number or a name, not a numpy.ndarray"),
        ("addr", (X,), {"BLOCK": [64]}, "'BLOCK' takes a number or a name, not the list [64]"),
        ("scaled", (X,), {"aa": 2.0, "k": 1}, "scaled has no parameter, option or constant 'aa'"),
        ("scaled", (X, X, [2.0], 1), {}, "'a' is a number; got the list [2.0]"),
        ("scaled", (X, X, {}, 1), {}, "'a' is a number; got the dict {}"),
        ("scaled", (X, X, "2", 1), {}, "'a' is a number; got the str '2'"),
        ("scaled", (X, X, 1j, 1), {}, "'a' is a number; got the complex 1j"),
        ("scaled", (X, X, np.ma.masked, 1), {}, "'a' is a number; got a numpy.ma"),
        ("scaled", (X, X, X, 1), {}, "'a' of 'scaled' is a scalar; got an array f32[100]"),
        ("scaled", (X, X, 1.0, 1), {"schedule": 3}, "'schedule' takes a schedule's name, not the int 3"),
        ("scaled", (X, X, 1.0, 1), {"schedule": ["half"]}, "'schedule' takes a schedule's name, not the list"),
        ("scale", (X, X, 1.0, 1), {"MODE": X}, "'MODE' takes a number or a name, not a numpy.ndarray"),
        ("scale", (X, [1], 1.0, 1), {}, "'x' is an array; the list [1] is no array"),
        ("scale", (X, X, [1], 1), {}, "'a' is a number; got the list [1]"),
        ("tabled", (X, "abcd"), {}, "'t' is a table; got the str 'abcd'"),
        ("tabled", (X, {1, 2, 3, 4}), {}, "'t' is a table; got the set {1, 2, 3, 4}"),
        ("tabled", (X, [[1, 2], [3, 4]]), {}, "'t' is a table of numbers; it has the list [1, 2]"),
        ("tabled", (X, np.ma.masked_array(np.ones(4), mask=[0, 1, 0, 0])), {}, "'t' is a table; got a numpy.ma"),
    ],
)
def test_a_wrong_argument_is_named(
    module: Any, name: str, arguments: tuple[Any, ...], named: dict[str, Any], message: str
) -> None:
    with pytest.raises(dsl.TileError) as caught:
        module[name](*arguments, **named)
    assert message in caught.value.message


def test_a_misspelt_name_is_corrected(module: Any) -> None:
    with pytest.raises(dsl.TileError) as caught:
        module.scaled(X, X, 1.0, 1, BLOK=64)
    assert caught.value.hint == "did you mean 'BLOCK'?"


def test_a_compiled_kernel_says_what_is_no_array(module: Any) -> None:
    kernel = module.compile("addr", absent={"r"})
    for wrong in ([1.0], MASKED, 3, Thing()):
        with pytest.raises(LaunchError, match="is no array that a kernel takes"):
            kernel(X, wrong)


def test_numbers_of_other_kinds_are_taken(module: Any, tmp_path: Any) -> None:
    y = np.zeros(100, np.float32)
    module.scaled(y, X, np.float64(2.0), np.int64(1))
    assert y[0] == 2
    module.scaled(y, X, Decimal("3"), 1, BLOCK=np.int64(64))
    assert y[0] == 3
    assert module.tabled(X, [1.0, 4.0, 1.0, 1.0])[0] == 4
    assert module.tabled(X, np.full(4, 5.0))[0] == 5
    module.scale(y, X, 1.0, 1, MODE=2, BLOCK=32)
    assert y[0] == 1
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=100)
    assert module.addr(mapped)[0] == 0


@pytest.mark.parametrize("value", ["inf", "-inf", "nan"])
def test_a_constant_that_is_not_finite(value: str) -> None:
    """The header is JSON, which has no such number."""
    module = dsl.parse(TEXT + f"schedule s of limited:\n    MOST = {value}\n", device="emulator")
    kernel = module.compile("limited", "s")
    assert repr(kernel.compiled.header.constants["MOST"]) == value
    assert repr(kernel.kernel.header.constants["MOST"]) == value
    assert np.array_equal(module.limited(X), np.minimum(X, float(value)), equal_nan=True)


@pytest.mark.parametrize("text", ["A @ 2", "2 @ A", "1.5 @ 2", "true @ 2", "sms @ 2"])
@pytest.mark.parametrize("place", ["schedule", "kernel", "default"])
def test_a_product_of_constants_is_an_error(text: str, place: str) -> None:
    wrong = {"schedule": "2", "kernel": "1.0", "default": "2", place: text}
    if place == "default":
        wrong["default"] = text.replace("A", "3")
    source = f"""\
kernel k(y: f32[n], x: f32[n]; M, A = {wrong["default"]}, BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * ({wrong["kernel"]})
schedule s of k:
    M = {wrong["schedule"]}
"""
    with pytest.raises(dsl.TileError) as caught:
        dsl.parse(source, device="emulator").compile("k", n=256)
    assert caught.value.loc is not None
    assert "'@' takes tiles" in caught.value.message or "unknown name" in caught.value.message
