"""`recompute NAMES`: conversions made anew at each use, with the same result."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.compile_and_run import compile_kernel, run

CENTRED = """
kernel centred(y: T[m, n], x: T[m, n]; T in f16|bf16):
    grid 1
    v = load(x[0 : 16, 0 : 64]).to(f32)
    y[0 : 16, 0 : 64] = (v - max(v, axis=1, keepdims=true)).to(T)

schedule held of centred:
    layout v: vector [1, 8], lanes [4, 8], warps [4, 1]
schedule anew of centred:
    like held
    choose recompute.v: anew
"""
TYPES = {"f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16)}


@pytest.mark.parametrize("name", TYPES)
def test_the_result_is_the_same(name: str) -> None:
    x = np.random.default_rng(1).standard_normal((16, 64)).astype(TYPES[name])
    wanted = x.astype(np.float32) - x.astype(np.float32).max(axis=1, keepdims=True)
    for schedule in ("held", "anew"):
        y = np.zeros_like(x)
        run(CENTRED, {"y": y, "x": x}, schedule=schedule, types={"T": name})
        assert np.array_equal(y, wanted.astype(TYPES[name]))


def test_each_use_converts() -> None:
    """A thread holds 8 elements, used by a maximum and by a difference."""
    arrays = {"y": np.zeros((16, 64), np.float16), "x": np.zeros((16, 64), np.float16)}
    counts = [
        compile_kernel(CENTRED, arrays, schedule=s, types={"T": "f16"}).ptx.count("cvt.f32.f16")
        for s in ("held", "anew")
    ]
    assert counts == [8, 16]
