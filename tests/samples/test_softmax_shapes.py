"""Softmax and its gradient at the boundary row lengths, rows and types, on the emulator and on a GPU."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dsl
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES
from dsl.values.element_types import narrow, widen

SAMPLES = Path(__file__).parents[2] / "samples"
ROWS = (1, 3, 64)
COLUMNS = (1, 2, 31, 32, 33, 1000, 1023, 1024, 1025, 4097, 20000, 70000)
BOUND = {"f16": 1e-3, "bf16": 4e-3, "f32": 1e-6}
SEED_ROWS = 49152


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def log_softmax(x: np.ndarray) -> np.ndarray:
    d = x - x.max(axis=1, keepdims=True)
    return d - np.log(np.exp(d).sum(axis=1, keepdims=True))


def softmax_backward(y: np.ndarray, dy: np.ndarray) -> np.ndarray:
    return y * (dy - (y * dy).sum(axis=1, keepdims=True))


def log_softmax_backward(y: np.ndarray, dy: np.ndarray) -> np.ndarray:
    return dy - np.exp(y) * dy.sum(axis=1, keepdims=True)


Modules = Callable[[str, str], dsl.Module]


@pytest.fixture(scope="module")
def modules() -> Modules:
    """The sample with the dispatch of that name, on that device."""

    @cache
    def loaded(file: str, device: str) -> dsl.Module:
        return dsl.load(SAMPLES / file, device=device)

    def of(name: str, device: str) -> dsl.Module:
        return loaded("softmax_backward.tile" if name.endswith("backward") else "softmax.tile", device)

    return of


def run(modules: Modules, device: str, rows: int, columns: int, dtype: str) -> float:
    """Greatest absolute error of one call."""
    module = modules("softmax", device)
    random = np.random.default_rng(rows * 100_003 + columns)
    x = narrow(random.standard_normal((rows, columns)), DTYPES[dtype])
    y = module.softmax(x)
    return float(np.abs(widen(y) - softmax(widen(x))).max())


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", ROWS)
def test_every_shape_is_right(modules, device, rows, columns, dtype):
    if device == "emulator" and rows == 64 and (columns > 50000 or (dtype != "f16" and columns > 5000)):
        pytest.skip("large shapes run once on the emulator, in f16, and the largest one takes 11 s")
    assert run(modules, device, rows, columns, dtype) <= BOUND[dtype]


# The references of the other dispatches. UNIT: the error that rounding allows, absolute and relative.
OTHERS = {
    "log_softmax": log_softmax,
    "softmax_backward": softmax_backward,
    "log_softmax_backward": log_softmax_backward,
}
OPERATIONS = ("softmax", "log_softmax", "softmax_backward", "log_softmax_backward")
UNIT = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-19}


def inputs(name: str, rows: int, columns: int, dtype: str) -> list[np.ndarray]:
    """What the dispatch reads, rounded to the type."""
    random = np.random.default_rng(rows * 100_003 + columns)
    first = random.standard_normal((rows, columns))
    if name == "softmax_backward":
        first = softmax(first)
    elif name == "log_softmax_backward":
        first = log_softmax(first)
    more = [random.standard_normal((rows, columns))] if name.endswith("backward") else []
    return [narrow(a, DTYPES[dtype]) for a in (first, *more)]


def check(module: dsl.Module, name: str, rows: int, columns: int, dtype: str, **choice: str) -> None:
    """One call of a dispatch against float64. Sums of many terms of f32 differ by more units than one."""
    given = inputs(name, rows, columns, dtype)
    wanted = OTHERS.get(name, softmax)(*map(widen, given))
    got = widen(getattr(module, name)(*given, **choice))
    largest = np.abs(wanted).max(axis=1, keepdims=True)
    assert np.all(np.abs(got - wanted) <= UNIT[dtype] * np.maximum(largest, np.abs(wanted)))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("columns", [1, 33, 1000, 1023, 5003, 20000, 130001])
@pytest.mark.parametrize("name", OPERATIONS[1:])
def test_the_other_operations(modules, device, name, columns, dtype):
    if device == "emulator" and dtype != "f16" and columns > 5003:
        pytest.skip("the largest shapes run once on the emulator, in f16")
    check(modules(name, device), name, 3, columns, dtype)


# Every schedule by its name: the columns that it takes, and those that it refuses with the code of the error.
SCHEDULES = {
    "lanes": ((1, 7, 15, 129, 1024, 1025, 4000, 7000), {}),
    "piece": ((1, 7, 23, 33, 129, 333), {}),
    "block": ((1, 7, 129, 1025, 5003, 16384), {}),
    "whole": ((1, 7, 129, 1023, 5003, 20001, 120_001), {1_000_001: "shared"}),
    "stream": ((1, 7, 129, 1023, 5003, 20001), {}),
}


@pytest.mark.long
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_by_its_name(modules, device, schedule, name):
    taken, refused = SCHEDULES[schedule]
    module = modules(name, device)
    for columns in taken:
        check(module, name, 3, columns, "f16", schedule=schedule)
    for columns, code in refused.items():
        with pytest.raises(TileError) as error:
            check(module, name, 1, columns, "f16", schedule=schedule)
        assert error.value.code == code and error.value.loc is not None


@pytest.mark.parametrize("columns", [1000, 1025])
def test_rows_of_infinities_and_nan_are_numpys(modules, device, columns):
    module = modules("softmax", device)
    x = np.random.default_rng(0).standard_normal((6, columns)).astype(np.float32)
    x[1] = -np.inf
    x[2, 5:] = -np.inf
    x[3, 7] = np.inf
    x[4, 9] = np.nan
    x[5] = 3.0
    with np.errstate(invalid="ignore"):
        wanted = softmax(x.astype(np.float64))
    got = module.softmax(x)
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    assert np.nanmax(np.abs(got - wanted)) <= 1e-6


@pytest.mark.gpu
@pytest.mark.gpu_memory(15)  # x and y of 6.4 GB each in f32, and a byte an element that says what is NaN
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("columns", [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768])
def test_the_sizes_of_the_seed(modules, columns, dtype):
    """49152 rows; its emulator twin is `test_every_shape_is_right`."""
    torch = pytest.importorskip("torch")
    module = modules("softmax", "cuda")
    of = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[dtype]
    x = torch.randn(SEED_ROWS, columns, device="cuda", dtype=of)
    y = torch.full_like(x, float("nan"))
    module.softmax(y, x)
    torch.cuda.synchronize()
    for part in (slice(0, 64), slice(-64, None)):
        wanted = torch.softmax(x[part].double(), 1)
        assert float((y[part].double() - wanted).abs().max()) <= BOUND[dtype]
    assert not bool(torch.isnan(y).any())
