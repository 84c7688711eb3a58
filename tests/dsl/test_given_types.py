"""Type parameters and dims that are given by name: taken where no array decides them, compared where one does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.examples.one_kernel import LaunchSettings
from dsl.examples.overrides import resolve
from dsl.examples.run import run_example

TEXT = """\
kernel convert(z: f32[n], x: f32[n]; E in e4m3|e5m2, B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    store(z[i : i + B], load(x[i : i + B]).to(E).to(f32))

schedule a of convert:
    warps = 4

kernel fixed(y: f64[n], x: T, k: S; T in f32|f64, S in s32|s64):
    grid 1
    store(y[0 : 32], full(f64[32], 0.0) + x.to(f64) + size(S))

dispatch to(z, x):
    convert with a

dispatch to_narrow(z, x):
    convert with a, E=e5m2

example:
    n = 300
    x, z = full(f32[n], 1000.0), empty(f32[n])
    convert(z, x) with a, E=e5m2
    expect z == 1024.0

example dispatched:
    n = 300
    x, z = full(f32[n], 1000.0), empty(f32[n])
    to(z, x) with E=e5m2
    expect z == 1024.0

example narrow:
    n = 300
    x, z = full(f32[n], 1000.0), empty(f32[n])
    to_narrow(z, x)
    expect z == 1024.0
"""


@pytest.fixture(scope="module")
def module() -> Any:
    return dsl.parse(TEXT, device="emulator")


def call(module: Any, name: str, **given: Any) -> float:
    x, z = np.full(4, 1000, np.float32), np.zeros(4, np.float32)
    getattr(module, name)(z, x, **given)
    return float(z[0])


CALLS: dict[str, Callable[[Any], float]] = {
    "first": lambda m: call(m, "convert") + 1024 - 448,
    "by name": lambda m: call(m, "convert", E="e5m2"),
    "with a schedule": lambda m: call(m, "convert", schedule="a", E="e5m2"),
    "to a dispatch": lambda m: call(m, "to", E="e5m2"),
    "by a dispatch": lambda m: call(m, "to_narrow"),
    "over a dispatch": lambda m: call(m, "to_narrow", E="e4m3") + 1024 - 448,
}


@pytest.mark.parametrize("way", CALLS)
def test_a_type_that_no_array_decides_is_the_given_one(module: Any, way: str) -> None:
    assert CALLS[way](module) == 1024


def test_the_types_of_scalars_are_given_by_name(module: Any) -> None:
    y = np.zeros(32)
    for kind, size in (("f32", "s32"), ("f64", "s64")):
        module.fixed(y, 0.1, 3, T=kind, S=size)
        assert y[0] == float(np.dtype(kind.replace("f", "float")).type(0.1)) + int(size[1:]) // 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"E": "nonsense"}, "'E' is one of e4m3, e5m2; not nonsense"),
        ({"E": "f32"}, "'E' is one of e4m3, e5m2; not f32"),
        ({"n": 5}, "'n' is 4 in the arrays; 5 was given"),
    ],
)
def test_what_is_given_and_cannot_be_is_an_error(module: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(dsl.TileError, match=message):
        call(module, "convert", **given)


def test_a_type_that_the_arrays_contradict_is_an_error() -> None:
    module = dsl.parse(
        "kernel k(y: T[n], x: T[n]; T in f32|f16):\n    grid 1\n    y[0 : 64] = x[0 : 64]\n", device="emulator"
    )
    x = np.zeros(64, np.float32)
    module.k(np.zeros_like(x), x, T="f32")
    with pytest.raises(dsl.TileError, match="'T' is f32 in the arrays; f16 was given"):
        module.k(np.zeros_like(x), x, T="f16")


def passes(text: str, *values: str) -> bool:
    program = dsl.parse(text, device="emulator").program
    run = [
        run_example(program, e, "emulator", "", resolve(program, e, values), LaunchSettings()) for e in program.examples
    ]
    return all(report.passed for report in run)


def test_examples_and_the_command_line_give_types() -> None:
    assert passes(TEXT)
    text = TEXT.split("example dispatched")[0].replace(" with a, E=e5m2", "")
    assert passes(text, "E=e5m2") and not passes(text, "E=e4m3") and not passes(text)


TYPED = """
kernel twice(y: V[n], x: V[n]; V in bf16|f32, B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B] + x[i : i + B]

example:
    n = 300
    x, y = randn(bf16[n]), empty(bf16[n])
    twice(y, x)
    expect y == 2.0 * x
"""


def test_a_type_of_the_command_line_that_changes_nothing_is_an_error() -> None:
    """It passed, and told the type of the example's arrays."""
    assert passes(TYPED, "V=bf16") and passes(TYPED.replace("bf16[n]", "V[n]"), "V=f32")
    with pytest.raises(dsl.TileError, match="'V=f32' changes nothing here: the example's arrays make V bf16"):
        passes(TYPED, "V=f32")
