"""One array as input and output: where the same thread reads each element before it writes it, and nowhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.runtime.header import read, to_json

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
TEXT = """
def plus(a, b):
    return a + b

kernel add(y: f32[n], x: f32[n], r: f32[n]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B] + r[i : i + B]

kernel named(y: f32[m, n], x: f32[m, n]; B = 128):
    grid m, cdiv(n, B)
    row, j = block(0), B * block(1)
    v = load(x[row, j : j + B])
    store(y[row, j : j + B], v * 2.0)

kernel called(y: f32[n], x: f32[n]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = plus(x[i : i + B], y[i : i + B])

kernel rows(y: f32[m, n], x: f32[m, n]; N = 128):
    grid m
    v = load(x[block(0), 0 : N], other=-inf)
    y[block(0), 0 : N] = v - max(v, axis=0)

kernel branches(y: f32[n], x: f32[n], z: f32[n]?, s: f32; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    v = x[i : i + B]
    if given(z):
        v = v + z[i : i + B]
    if s > 0.0:
        y[i : i + B] = v
    else:
        y[i : i + B] = zeros(f32[B])

kernel shifted(y: f32[n], x: f32[n]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i + 1 : i + 1 + B]

kernel stencil(y: f32[n], x: f32[n]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B] + load(x[i + 1 : i + 1 + B], other=0.0)

kernel turned(y: f32[n, n], x: f32[n, n]; B = 16):
    grid cdiv(n, B), cdiv(n, B)
    i, j = block(0) * B, block(1) * B
    y[j : j + B, i : i + B] = x[i : i + B, j : j + B].T

kernel overlapping(y: f32[n], x: f32[n]; B = 128, STEP = 64):
    grid cdiv(n, STEP)
    i = block(0) * STEP
    y[i : i + B] = x[i : i + B] + 1.0

kernel twice_written(y: f32[n], x: f32[n]; B = 128):
    grid cdiv(n, B), 2
    i = block(0) * B
    y[i : i + B] = x[i : i + B] + 1.0

kernel behind(y: f32[n], x: f32[n]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = zeros(f32[B])
    y[i : i + B] = x[i : i + B] + 1.0

kernel moving(y: f32[n], x: f32[n]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    v = x[i : i + B]
    i = i + B
    y[i : i + B] = v

kernel looped(y: f32[n], x: f32[n]; B = 128):
    grid 1
    for i in range(0, n, B):
        y[i : i + B] = x[i : i + B] + 1.0

kernel gathered(y: f32[n], x: f32[n], at: s32[n]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[at[i : i + B]]

kernel wide(y: f32[n], x: f32[m]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B] + 1.0

kernel by_copies(y: f32[n], x: f32[n]; B = 64):                      # of 128 threads, half read what others write
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B] + 1.0

kernel counted(y: s32[n], x: s32[n]; B = 128):
    grid cdiv(n, B)
    i = block(0) * B
    atomic_add(y[i + arange(B)], 1, mask=i + arange(B) < n)
    y[i : i + B] = x[i : i + B]
"""
RIGHT = {
    "add": [("y", "x"), ("y", "r")],
    "named": [("y", "x")],
    "called": [("y", "x")],
    "rows": [("y", "x")],
    "branches": [("y", "x"), ("y", "z")],
}
WRONG = [
    "shifted",
    "stencil",
    "turned",
    "overlapping",
    "twice_written",
    "behind",
    "moving",
    "looped",
    "gathered",
    "wide",
]
WRONG += ["counted", "by_copies"]


@pytest.fixture(scope="module")
def module() -> Any:
    return dsl.parse(TEXT, device="emulator")


@pytest.mark.parametrize("name", RIGHT)
def test_what_reads_each_element_first_says_so(module: Any, name: str) -> None:
    header = module.compile(name).header
    assert [*header.in_place] == RIGHT[name]
    assert read(module.compile(name).ptx)[name].in_place == header.in_place


@pytest.mark.parametrize("name", WRONG)
def test_anything_else_is_refused(module: Any, name: str) -> None:
    header = module.compile(name).header
    assert header.in_place == () and "in_place" not in to_json(header)
    shape = (64, 64) if name == "turned" else (256,)
    x = np.zeros(shape, np.int32 if name == "counted" else np.float32)
    rest = [np.zeros(256, np.int32)] if name == "gathered" else []
    with pytest.raises(dsl.LaunchError, match="share memory"):
        module[name](x, x, *rest)


def test_calls_in_place(module: Any) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 63, 300):
        x, r = rng.standard_normal((2, n)).astype(np.float32)
        for arguments in ((x, x, r), (r, x, r), (x, x, x)):
            wanted = arguments[1] + arguments[2]
            module.add(*arguments)
            assert np.array_equal(arguments[0], wanted)
    for name, wanted in (("named", lambda x: 2 * x), ("rows", lambda x: x - x.max(1, keepdims=True))):
        x = rng.standard_normal((5, 50)).astype(np.float32)
        result = wanted(x)
        module[name](x, x)
        assert np.array_equal(x, result)
    x, z = rng.standard_normal((2, 100)).astype(np.float32)
    result = x + z
    module.branches(x, x, z, 1.0)
    assert np.array_equal(x, result)
    module.called(x, x)
    assert np.array_equal(x, 2 * result)


def test_only_the_very_same_array_is_taken(module: Any) -> None:
    """Warm, too: the class of the call is known, and the addresses are looked at."""
    memory = np.arange(500, dtype=np.float32)
    x, r = memory[:300], np.zeros(300, np.float32)
    for _ in range(2):
        module.add(x, x, r)
        for other in (memory[4:304], memory[100:400]):
            with pytest.raises(dsl.LaunchError, match="share memory"):
                module.add(x, other, r)
            with pytest.raises(dsl.LaunchError, match="share memory"):
                module.add(x, x, other)
    kernel = module.compile("rows")
    square = np.zeros((64, 64), np.float32)
    kernel(square, square)
    with pytest.raises(dsl.LaunchError, match="share memory"):
        module.wide(memory[:256], memory[:200])


def test_the_emulator_sees_one_array(module: Any) -> None:
    """A header that says what is not so is found: the array is there once."""
    from dsl.runtime import FindingError, Kernel

    ptx = module.compile("stencil").ptx.replace('"requires":', '"in_place":[["y","x"]],"requires":', 1)
    x = np.arange(256, dtype=np.float32)
    Kernel(ptx, device="emulator")(x.copy(), x)
    with pytest.raises(FindingError, match="race"):
        Kernel(ptx, device="emulator")(x, x)
    broken = ptx.replace('[["y","x"]]', '[["x","y"]]', 1)
    with pytest.raises(dsl.LaunchError, match="in_place"):
        Kernel(broken, device="emulator")


def test_samples_work_in_place() -> None:
    """Softmax, and a product that adds to its residual."""
    rng = np.random.default_rng(1)
    softmax, matmul = (dsl.load(SAMPLES / f"{name}.tile", device="emulator") for name in ("softmax", "matmul"))
    x = rng.standard_normal((8, 100)).astype(np.float32)
    wanted = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    softmax.softmax(x, x)
    assert np.allclose(x, wanted, atol=1e-6)
    a, b, r = (rng.standard_normal((32, 32)).astype(np.float16) for _ in range(3))
    wanted = r.astype(np.float32) + a.astype(np.float32) @ b.astype(np.float32)
    matmul.linear(r, a, b, None, None, r, 1.0, None, schedule="mma_sync")  # boxes leave later
    assert np.allclose(r, wanted, atol=3e-2)


def test_copies_that_run_by_themselves_are_refused() -> None:
    """A store by boxes reads shared memory later: who comes first is not told."""
    module = dsl.parse(TEXT + "\nschedule boxes of rows:\n    stage y: tma\n", device="emulator", arch="sm_90a")
    assert module.compile("rows", "boxes", n=128).header.in_place == ()
