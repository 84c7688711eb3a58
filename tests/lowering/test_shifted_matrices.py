"""Matrix loads and stores whose rows begin where the run says: a swizzle that does not move along is computed there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compile_and_run import NUMPY, run

TEXT = """
kernel k(y: {sum}[32, {width}], x: {type}[4, 64, 64], w: {type}[64, 64], n: s32):
    grid 1
    shared s: {type}[{ring}4, 64, 64]
    shared t: {type}[64, 64]
    for static e in range(4):
        copy(s[e, 0 : 64, 0 : 64], x[e, 0 : 64, 0 : 64])
    copy(t[0 : 64, 0 : 64], w[0 : 64, 0 : 64])
    commit()
    wait(0)
    r = n % 7
    store(y[:, :], {product})
schedule p of k:
    warps = 4
"""
PRODUCTS = {  # of x from row r on, and w
    "a": ("s[r % 4, r : r + 32, :] @ t[:, :]", lambda x, w: x @ w),
    "b": ("t[0 : 32, 0 : 32] @ s[r % 4, r : r + 32, :]", lambda x, w: w[:32, :32] @ x),
    "b.T": ("t[0 : 32, :] @ s[r % 4, r : r + 32, :].T", lambda x, w: w[:32] @ x.T),
}


@pytest.mark.parametrize("ring", ["", "ring "], ids=["part", "ring"])
@pytest.mark.parametrize("name", ["f16", "s8"])
@pytest.mark.parametrize("product", PRODUCTS)
def test_operands_from_a_row_that_the_run_knows(product: str, name: str, ring: str) -> None:
    """An `ldmatrix` of 8 rows from row 3 on ended in an assertion, since the tile's swizzle repeats every 8 rows."""
    lines, meaning = PRODUCTS[product]
    random = np.random.default_rng(0)
    x, w = (random.integers(-4, 5, shape).astype(NUMPY[name]) for shape in ((4, 64, 64), (64, 64)))
    total = "f32" if name == "f16" else "s32"
    for n in (0, 3, 5, 13):
        r = n % 7
        wanted = meaning(x[r % 4, r : r + 32].astype(np.int64), w.astype(np.int64))
        text = TEXT.format(type=name, sum=total, ring=ring, width=wanted.shape[1], product=lines)
        y = np.zeros(wanted.shape, NUMPY[total])
        run(text, {"y": y, "x": x, "w": w, "n": n})
        assert (y == wanted).all()


def test_results_to_a_row_that_the_run_knows() -> None:
    text = """
kernel k(y: f16[64, 64], x: f16[32, 64], w: f16[64, 64], n: s32):
    grid 1
    shared s: f16[64, 64]
    a = load(x[:, :])
    s = full(f16[64, 64], 0)
    r = n % 7
    stmatrix(s[r : r + 32, :], (a @ load(w[:, :])).to(f16))
    store(y[:, :], s[:, :])
schedule p of k:
    warps = 4
"""
    random = np.random.default_rng(0)
    x, w = (random.integers(-2, 3, shape).astype(np.float16) for shape in ((32, 64), (64, 64)))
    for n in (0, 3, 5):
        y = np.zeros((64, 64), np.float16)
        run(text, {"y": y, "x": x, "w": w, "n": n}, arch="sm_90")
        wanted = np.zeros((64, 64), np.float16)
        wanted[n : n + 32] = x @ w
        assert (y == wanted).all()
