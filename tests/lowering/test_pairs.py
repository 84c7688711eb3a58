"""Pairs of 16-bit elements: chosen and compared as words, with the result of one after another."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.compile_and_run import compile_kernel, launch

TYPES = {"f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16)}
WIDE = """
schedule wide of k:
    warps = 1
    layout v: vector [8], lanes [32], warps [1]
"""


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(("sign", "compare"), [("!=", np.not_equal), ("==", np.equal)])
def test_bytes_choose_between_pairs(name: str, sign: str, compare: np.ufunc) -> None:
    """Every bit is kept, of NaN too, and every byte but 0 counts."""
    text = f"""
kernel k(y: {name}[256], x: {name}[256], keep: u8[256]):
    grid 1
    v = where(load(keep[0 : 256]) {sign} 0, load(x[0 : 256]), -inf)
    store(y[0 : 256], v)
{WIDE}"""
    random = np.random.default_rng(3)
    x = random.integers(0, 1 << 16, 256).astype(np.uint16).view(TYPES[name])
    keep = np.resize(np.array([0, 1, 128, 0, 127, 255, 0, 0, 2], np.uint8), 256)
    y = np.zeros(256, TYPES[name])
    kernel = compile_kernel(text, {}, schedule="wide")
    launch(kernel, {"y": y, "x": x, "keep": keep})
    wanted = np.where(compare(keep, 0), x, TYPES[name].type(-np.inf))
    assert np.array_equal(y.view(np.uint16), wanted.view(np.uint16))
    assert kernel.ptx.count("prmt.b32") == 4 and "selp" not in kernel.ptx


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(("function", "reference"), [("maximum", np.maximum), ("minimum", np.minimum)])
def test_extremes_of_pairs(name: str, function: str, reference: np.ufunc) -> None:
    """NaN stays NaN; four instructions serve eight elements."""
    text = f"""
kernel k(y: {name}[256], x: {name}[256], z: {name}[256]):
    grid 1
    v = {function}(load(x[0 : 256]), load(z[0 : 256]))
    store(y[0 : 256], v)
{WIDE}"""
    random = np.random.default_rng(4)
    x, z = (random.standard_normal(256).astype(TYPES[name]) for _ in range(2))
    x[::5], z[::7], z[1::9] = np.nan, np.nan, np.inf
    y = np.zeros(256, TYPES[name])
    kernel = compile_kernel(text, {}, schedule="wide")
    launch(kernel, {"y": y, "x": x, "z": z})
    assert np.array_equal(y.astype(np.float32), reference(x.astype(np.float32), z.astype(np.float32)), equal_nan=True)
    assert kernel.ptx.count(f"{function[:3]}.NaN.{name}x2") == 4


def test_pairs_that_lie_apart_are_chosen_one_by_one() -> None:
    """The bytes that choose are of one word, the elements of two registers each."""
    text = """
kernel k(y: f16[128], x: f16[128], keep: u8[128]):
    grid 1
    v = where(load(keep[0 : 128]) != 0, load(x[0 : 128]), 0.0)
    store(y[0 : 128], v)
schedule narrow of k:
    warps = 1
    layout v: vector [1], lanes [32], warps [1]
"""
    x, keep = np.arange(128).astype(np.float16), (np.arange(128) % 3).astype(np.uint8)
    y = np.zeros(128, np.float16)
    kernel = compile_kernel(text, {}, schedule="narrow")
    launch(kernel, {"y": y, "x": x, "keep": keep})
    assert np.array_equal(y, np.where(keep != 0, x, 0))
    assert "prmt" not in kernel.ptx
