"""Positional arrays of a call are read in one way, or the call is refused: outputs and optional tensors may be left
out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsl

TEXT = """\
kernel addr(y: f32[n], x: f32[n], r: f32[n]?; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = x[i : i + BLOCK]
    if given(r):
        v = v + r[i : i + BLOCK]
    y[i : i + BLOCK] = v

kernel bias(y: f32[m, n], x: f32[m, n], b: f32[n]?; COLS = 16):
    grid m
    v = x[block(0), 0 : COLS]
    if given(b):
        v = v + b[0 : COLS]
    store(y[block(0), 0 : COLS], v)

kernel halves(lo: f32[n], hi: f32[n], at: s32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = x[i : i + BLOCK]
    lo[i : i + BLOCK] = v - 1.0
    hi[i : i + BLOCK] = v + 1.0
    at[i : i + BLOCK] = v.to(s32)

kernel into(y: f32[n], total: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    total[i : i + BLOCK] = total[i : i + BLOCK] + x[i : i + BLOCK]
    y[i : i + BLOCK] = x[i : i + BLOCK]

kernel two(y: f32[n], a: f32[n]?, b: f32[n]?; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = zeros(f32[BLOCK])
    if given(a):
        v = v + a[i : i + BLOCK]
    if given(b):
        v = v - b[i : i + BLOCK]
    y[i : i + BLOCK] = v

dispatch added(y, x, r):
    addr(y, x, r)

dispatch negated(y, b):
    two(y, None, b)

example:
    n = 100
    x, y = ones(f32[n]), empty(f32[n])
    addr(y, x)
    expect y == x

example none:
    n = 100
    x, y = ones(f32[n]), empty(f32[n])
    two(y, None, x)
    expect y == -x

example none_by_name:
    n = 100
    x, y = ones(f32[n]), empty(f32[n])
    two(y, a=None, b=x)
    expect y == -x

example of_a_dispatch:
    n = 100
    x, y = ones(f32[n]), empty(f32[n])
    negated(y, x)
    expect y == -x

example needed:
    n = 100
    y = empty(f32[n])
    addr(y, None)
"""


def full(value: float, *shape: int, dtype: str = "float32") -> Any:
    return np.full(shape or (100,), value, dtype)


@pytest.fixture(scope="module")
def module() -> Any:
    return dsl.parse(TEXT, device="emulator")


@pytest.mark.parametrize("name", ["addr", "added"])
def test_a_call_that_can_be_read_in_two_ways_is_refused(module: Any, name: str) -> None:
    x, r = full(1), full(2)
    with pytest.raises(dsl.TileError) as caught:
        module[name](x, r)
    error = caught.value
    assert error.message == f"these arguments can be read as {name}(y, x) or {name}(x, r)"
    assert f"{name}(y=y, x=x) or {name}(x=x, r=r)" in (error.hint or "") and error.loc is not None
    assert x[0] == 1 and r[0] == 2


@pytest.mark.parametrize("name", ["addr", "added"])
def test_each_reading_can_be_written(module: Any, name: str) -> None:
    f, x, r, y = module[name], full(1), full(2), full(0)
    assert f(x, r=r)[0] == 3
    assert f(x=x, r=r)[0] == 3
    assert f(x)[0] == 1
    assert f(None, x, r)[0] == 3
    for arguments, named in [((y, x, None), {}), ((y, x), {"r": None}), ((), {"y": y, "x": x})]:
        y[...] = 0
        assert f(*arguments, **named) is None and y[0] == 1
    assert f(y, x, r) is None and y[0] == 3


def test_shapes_tell_an_optional_tensor_from_an_output(module: Any) -> None:
    x, b, y = full(1, 5, 16), full(2, 16), full(0, 5, 16)
    assert module.bias(x, b)[0, 0] == 3
    assert module.bias(y, x) is None and y[0, 0] == 1


def test_one_of_several_outputs_is_given_where_it_is_clear_which(module: Any) -> None:
    x, at = full(4), full(0, 100, dtype="int32")
    lo, hi = module.halves(at, x)
    assert (lo[0], hi[0], at[0]) == (3, 5, 4)
    with pytest.raises(dsl.TileError, match=r"halves\(hi, at, x\) or halves\(lo, at, x\)"):
        module.halves(full(0), at, x)
    lo, at = module.halves(hi=hi, x=x)
    assert (lo[0], at[0]) == (3, 4)


def test_a_tensor_that_is_read_too_is_given_and_what_stands_before_it_made(module: Any) -> None:
    total = full(1)
    y = module.into(total, full(2))
    assert total[0] == 3 and y[0] == 2


def passes(module: Any, name: str) -> bool:
    from dsl.examples.one_kernel import LaunchSettings
    from dsl.examples.overrides import Overrides
    from dsl.examples.run import run_example

    example = next(e for e in module.program.examples if e.name == name)
    return run_example(module.program, example, "emulator", "", Overrides(), LaunchSettings()).passed


@pytest.mark.parametrize("name", [None, "none", "none_by_name", "of_a_dispatch"])
def test_an_example_gives_its_outputs_and_leaves_out_what_is_optional(module: Any, name: Any) -> None:
    assert passes(module, name)


def test_none_is_no_tensor_that_is_needed(module: Any) -> None:
    with pytest.raises(dsl.TileError, match="needs 'x'"):
        passes(module, "needed")
