"""samples/reduce.tile against numpy: operations, types, axes and sizes, empty ones and special values among them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.lowering.ir.types import DTYPES
from dsl.values.element_types import narrow, widen
from tests.whole import some

Modules = Callable[[str], dsl.Module]

SAMPLE = Path(__file__).parents[2] / "samples" / "reduce.tile"
OPERATIONS: dict[str, tuple[dict[str, Any], Callable[[Any, Any], Any]]] = {
    "sum": ({}, lambda x, axis: x.sum(axis)),
    "product": ({"JOIN": "multiply", "EMPTY": 1}, lambda x, axis: x.prod(axis)),
    "max": ({"JOIN": "maximum", "EMPTY": -np.inf}, lambda x, axis: x.max(axis)),
    "min": ({"JOIN": "minimum", "EMPTY": np.inf}, lambda x, axis: x.min(axis)),
    "mean": ({"DONE": "mean"}, lambda x, axis: x.mean(axis)),
    "sum of squares": ({"OF": "square"}, lambda x, axis: (x * x).sum(axis)),
    "norm": ({"OF": "square", "DONE": "root"}, lambda x, axis: np.sqrt((x * x).sum(axis))),
}
"""Constants of the kernels, and the same in numpy."""
TYPES = [("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f64", "f64"), ("s8", "s32"), ("s8", "s64"), ("s32", "s32")]
"""Of the elements, and of the result."""
RESULTS = {"f32": np.float32, "f64": np.float64, "s32": np.int32, "s64": np.int64}
CASES = [(name, "f32", "f32") for name in OPERATIONS]
CASES += [(name, "s32", "s64") for name in ("sum", "max", "min", "sum of squares")]
CASES += [(name, *types) for types in TYPES for name in ("sum", "max")]


@pytest.fixture(scope="module")
def modules() -> Modules:
    """The sample on a device: read once."""
    return cache(lambda device: dsl.load(SAMPLE, device=device))


def numbers(dtype: str, *shape: int) -> np.ndarray:
    """Elements near 1 in size, whose products stay finite; small integers."""
    random = np.random.default_rng([len(dtype), *shape])
    if dtype.startswith("s"):
        return random.integers(-100, 100, shape).astype({"s8": np.int8, "s32": np.int32}[dtype])
    return narrow(np.exp(random.standard_normal(shape) / 16) * random.choice([-1.0, 1.0], shape), DTYPES[dtype])


def exact(x: np.ndarray, dtype: str) -> np.ndarray:
    """The same numbers in int64, or with the most bits that a float has here."""
    return x.astype(np.int64) if dtype.startswith("s") else widen(x).astype(np.longdouble)


def close(got: np.ndarray, wanted: Any, x: np.ndarray, axis: Any, name: str) -> None:
    """Integers are equal; a float's error is that of adding pairs, and a product's of each factor."""
    if got.dtype.kind == "i" or name in ("max", "min"):
        assert np.all(got == wanted)
        return
    epsilon = np.finfo(got.dtype).eps
    count = max(x.size if axis is None else x.shape[axis], 1)
    steps = count if name == "product" else np.log2(count) + 2
    size = {"sum": np.abs(x).sum(axis), "mean": np.abs(x).mean(axis) if count else 0}.get(name, np.abs(wanted))
    assert np.all(np.abs(got - wanted) <= steps * epsilon * size)


@pytest.mark.long
@pytest.mark.parametrize(("name", "dtype", "result"), CASES)
def test_everything(modules: Modules, device: str, name: str, dtype: str, result: str) -> None:
    constants, reference = OPERATIONS[name]
    for n in (1, 777, 4096, 9001):
        x, out = numbers(dtype, n), np.full(1, 99, RESULTS[result])
        modules(device).rows(out, x[None], **constants)
        wide = exact(x, dtype)
        close(out, reference(wide, None), wide, None, name)


@pytest.mark.long
@pytest.mark.parametrize(("name", "dtype", "result"), CASES)
def test_rows(modules: Modules, device: str, name: str, dtype: str, result: str) -> None:
    constants, reference = OPERATIONS[name]
    for shape in ((3, 31), (17, 64), (2, 1500), (1, 5003)):
        x, y = numbers(dtype, *shape), np.full(shape[0], 99, RESULTS[result])
        modules(device).rows(y, x, **constants)
        wide = exact(x, dtype)
        close(y, reference(wide, 1), wide, 1, name)


@pytest.mark.parametrize("name", ["sum", "max", "norm"])
def test_a_few_long_rows(modules: Modules, device: str, name: str) -> None:
    """Rows in parts, of which some are empty."""
    constants, reference = OPERATIONS[name]
    for cols in (33000, 40007):
        x, y = numbers("f16", 2, cols), np.full(2, 99, np.float32)
        modules(device).rows(y, x, **constants)
        wide = exact(x, "f16")
        close(y, reference(wide, 1), wide, 1, name)


@pytest.mark.long
@pytest.mark.parametrize("dtype", some(["f16", "bf16", "f32", "f64", "s8", "s32"], 2))
def test_eight_elements_a_thread_of_odd_and_of_short_rows(modules: Modules, device: str, dtype: str) -> None:
    """Rows of one element up to several iterations, in shares too, and a first row behind a multiple of 16 bytes."""
    m, result = modules(device), {"f64": np.float64, "s8": np.int32, "s32": np.int32}.get(dtype, np.float32)
    for rows, cols, shares in ((9, 1, 1), (290, 2, 1), (70, 3, 1), (150, 4, 1), (5, 801, 1), (3, 4099, 2)):
        for skipped in (0, 1):
            x = numbers(dtype, rows * cols + 1)[skipped : rows * cols + skipped].reshape(rows, cols)
            wide = exact(x, dtype)
            given = {"G": 8 if cols > 8 else 1, "ACROSS": 1, "SHARES": shares}
            y, at = np.full(rows, 99, result), np.full(rows, -5, np.int64)
            m.rows(y, x, **given)
            close(y, wide.sum(1), wide, 1, "sum")
            m.arg_rows(at, x, **given)
            assert np.array_equal(at, wide.argmax(1))


def test_the_place_in_rows_that_begin_anywhere(modules: Modules, device: str) -> None:
    """The first of equals is an element of the row, and not what stands before it."""
    x = np.full((6, 801), -np.inf, np.float16)
    x[1, 800], x[2, 5], x[3, 0] = np.nan, np.nan, np.inf
    x[4:, 790:] = 1
    y = np.full(6, -5, np.int64)
    modules(device).arg_rows(y, x, G=4, ACROSS=1)
    assert np.array_equal(y, x.argmax(1))


@pytest.mark.long
@pytest.mark.parametrize(("name", "dtype", "result"), CASES)
def test_an_axis(modules: Modules, device: str, name: str, dtype: str, result: str) -> None:
    constants, reference = OPERATIONS[name]
    for shape in ((1, 1, 1), (2, 5, 33), (1, 1100, 70)):
        x, y = numbers(dtype, *shape), np.full((shape[0], shape[2]), 99, RESULTS[result])
        modules(device).axis(y, x, **constants)
        wide = exact(x, dtype)
        close(y, reference(wide, 1), wide, 1, name)


@pytest.mark.parametrize("dtype", ["f16", "f32", "f64", "s8", "s32"])
@pytest.mark.parametrize("schedule", ["columns", "segments"])
def test_columns_that_begin_anywhere(modules: Modules, device: str, dtype: str, schedule: str) -> None:
    """Rows that are few, long and short; whole steps and the last one; shares; NaN in the last place. Of segments, some
    hold several rows, others a part of one, whose last columns stand before the next row."""
    m, result = modules(device), {"f64": np.float64, "s8": np.int32, "s32": np.int32}.get(dtype, np.float32)
    cases = [
        ((3, 300, 1), 1, 128, 2),
        ((5, 7, 2), 1, 1, 1),
        ((9, 70, 3), 2, 32, 1),
        ((2, 70, 3), 4, 128, 2),
        ((2, 3001, 7), 16, 128, 2),
        ((3, 5, 31), 4, 32, 1),
        ((2, 13, 257), 8, 1, 1),
        ((2, 9, 257), 32, 128, 2),
    ]
    for shape, lanes, along, shares in some(cases, 2):
        outer, n, inner = shape
        x = numbers(dtype, outer * n * inner + 1)[1:].reshape(shape)
        if not dtype.startswith("s"):
            x[-1, -1, -1] = np.nan
        given = {"schedule": schedule, "ACROSS": 1, "SHARES": shares}
        times = 1 if outer == 9 else 4 if n < 20 else 2
        given |= {"G": lanes, "ALONG": along, "TIMES": times} if schedule == "columns" else {"G": max(lanes, 2)}
        y, at = np.full((outer, inner), 99, result), np.full((outer, inner), -5, np.int64)
        m.axis(y, x, JOIN="maximum", EMPTY=-np.inf, **given)
        assert np.array_equal(y, exact(x, dtype).max(1).astype(result), equal_nan=True)
        m.arg_axis(at, x, **given)
        assert np.array_equal(at, exact(x, dtype).argmax(1))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_any_axis_of_three(modules: Modules, device: str, axis: int) -> None:
    """An axis and what is after it, seen as x[outer, n, inner]; the last one as rows."""
    x = numbers("f32", 5, 6, 70)
    outer, n, inner = int(np.prod(x.shape[:axis])), x.shape[axis], int(np.prod(x.shape[axis + 1 :]))
    m = modules(device)
    if axis == 2:
        y = np.empty(outer, np.float32)
        m.rows(y, x.reshape(outer, n))
    else:
        y = np.empty((outer, inner), np.float32)
        m.axis(y, x.reshape(outer, n, inner))
    wanted = x.astype(np.float64).sum(axis)
    np.testing.assert_allclose(y.reshape(wanted.shape), wanted, atol=1e-5)


def test_nothing_reduces_to_what_joins_without_effect(modules: Modules, device: str) -> None:
    m = modules(device)
    wanted = {"sum": 0, "product": 1, "max": -np.inf, "min": np.inf, "mean": np.nan, "norm": 0}
    for name, value in wanted.items():
        out = np.full(1, 99, np.float32)
        m.rows(out, np.empty(0, np.float32)[None], **OPERATIONS[name][0])
        assert np.array_equal(out, [value], equal_nan=True), name
        y, z = np.full(3, 99, np.float32), np.full((2, 3), 99, np.float32)
        m.rows(y, np.empty((3, 0), np.float32), **OPERATIONS[name][0])
        m.axis(z, np.empty((2, 0, 3), np.float32), **OPERATIONS[name][0])
        assert np.array_equal(y, [value] * 3, equal_nan=True) and np.array_equal(z, [[value] * 3] * 2, equal_nan=True)
    m.rows(np.empty(0, np.float32), np.empty((0, 5), np.float32))


def test_integer_sums_are_exact(modules: Modules, device: str) -> None:
    m = modules(device)
    x, out = np.full(70000, 2**31 - 1, np.int32), np.empty(1, np.int64)
    m.rows(out, x[None])
    assert out[0] == 70000 * (2**31 - 1)
    m.rows(out, np.full(70000, -128, np.int8)[None])
    assert out[0] == -128 * 70000


def test_the_same_bits_each_time(modules: Modules, device: str) -> None:
    """The last block joins the partial results in their order, whichever block it is."""
    runs, m = 5 if device == "emulator" else 1000, modules(device)
    x = np.random.default_rng(0).standard_normal(60000 if device == "emulator" else 1 << 20).astype(np.float32)
    found, columns = set(), set()
    for _ in range(runs):
        out, y = np.empty(1, np.float32), np.empty((1, 32), np.float32)
        m.rows(out, x[None])
        m.axis(y, x.reshape(1, -1, 32))
        found.add(out.tobytes())
        columns.add(y.tobytes())
    assert len(found) == len(columns) == 1


@pytest.mark.long
@pytest.mark.parametrize("across", [1, 4])
def test_each_schedule_of_rows(modules: Modules, device: str, across: int) -> None:
    for rows, cols in ((1, 1), (7, 640), (5, 2100)):
        x, y = numbers("f16", rows, cols), np.full(rows, 99, np.float32)
        modules(device).along_rows(y, x, G=32, ACROSS=across)
        close(y, exact(x, "f16").sum(1), exact(x, "f16"), 1, "sum")
        at = np.full(rows, -5, np.int64)
        modules(device).arg_rows(at, x, G=32, ACROSS=across)
        assert np.array_equal(at, exact(x, "f16").argmax(1))


ARG = {"largest": ({}, np.argmax), "smallest": ({"JOIN": "first_smallest", "EMPTY": np.inf}, np.argmin)}


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "s8", "s32"])
@pytest.mark.parametrize("name", list(ARG))
def test_where_the_extreme_is(modules: Modules, device: str, name: str, dtype: str) -> None:
    """The first of equals: small integers have many."""
    m, (constants, reference) = modules(device), ARG[name]
    for n in (1, 777, 9001):
        x, out = numbers(dtype, n), np.full(1, -5, np.int64)
        m.arg_rows(out, x[None], **constants)
        assert out[0] == reference(exact(x, dtype))
    for rows, cols in ((5, 31), (4, 64), (2, 1500)):
        x, y = numbers(dtype, rows, cols), np.full(rows, -5, np.int64)
        m.arg_rows(y, x, **constants)
        assert np.array_equal(y, reference(exact(x, dtype), 1))
    for shape in ((2, 5, 33), (1, 1100, 70)):
        x, z = numbers(dtype, *shape), np.full((shape[0], shape[2]), -5, np.int64)
        m.arg_axis(z, x, **constants)
        assert np.array_equal(z, reference(exact(x, dtype), 1))


@pytest.mark.parametrize("name", list(ARG))
def test_infinities_and_nan_are_numpys(modules: Modules, device: str, name: str) -> None:
    m, (constants, reference) = modules(device), ARG[name]
    worst = -np.inf if name == "largest" else np.inf
    x = np.random.default_rng(0).standard_normal((5, 1300)).astype(np.float32)
    x[1] = worst
    x[2, 1200], x[2, 1290] = np.nan, np.nan
    x[3, 7], x[3, 3] = -worst, np.nan
    x[4, 1299] = -worst
    y, out = np.empty(5, np.int64), np.empty(1, np.int64)
    m.arg_rows(y, x, **constants)
    assert np.array_equal(y, reference(x, 1))
    for row in x:
        m.arg_rows(out, row[None], **constants)
        assert out[0] == reference(row)
    extreme = OPERATIONS["max" if name == "largest" else "min"]
    values = np.empty(5, np.float32)
    m.rows(values, x, **extreme[0])
    assert np.array_equal(values, extreme[1](x, 1), equal_nan=True)


def test_the_place_of_nothing_is_refused(modules: Modules, device: str) -> None:
    m = modules(device)
    with pytest.raises(dsl.TileError, match="requires cols > 0"):
        m.arg_rows(np.empty(2, np.int64), np.empty((2, 0), np.float32))
    with pytest.raises(dsl.TileError, match="requires n > 0"):
        m.arg_axis(np.empty((2, 3), np.int64), np.empty((2, 0, 3), np.float32))


def test_the_type_of_the_result_is_the_callers_or_that_of_sums(modules: Modules, device: str) -> None:
    m, x = modules(device), np.full((2, 3), 2, np.int8)
    for y, dtype in ((m.rows(x), np.int32), (m.rows(x, R="s64"), np.int64), (m.rows(x.astype(np.float16)), np.float32)):
        assert y.dtype == dtype and (y == 6).all()
    places = m.arg_rows(x.astype(np.float32))
    assert places.dtype == np.int64 and (places == 0).all()
