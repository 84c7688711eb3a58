"""Products whose results are stored: a thread holds as many neighbours of a row as one store takes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compile_and_run import Kernel, compile_kernel, launch

TEXT = """
kernel k(c: O[m, n], a: T[m, k], b: T[{b}]; T in f16|s8, O in f32|f16|s32|s8, TM = 32, TN = 128, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros({sum}[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], {load}, acc)
    c[i : i + TM, j : j + TN] = {result}

schedule s of k:
    warps = 2
"""
WAYS = {
    "along k": ("n, k", "b[j : j + TN, p : p + TK].T"),
    "along n": ("k, n", "b[p : p + TK, j : j + TN]"),
}
NUMPY = {"f16": np.float16, "f32": np.float32, "s8": np.int8, "s32": np.int32}


def product(way: str, type: str, out: str, n: int) -> tuple[Kernel, dict[str, np.ndarray], np.ndarray]:
    random = np.random.default_rng(0)
    b, load = WAYS[way]
    result = f"acc.to({out})" if out != "s8" else "acc.to(s8, saturate)"
    text = TEXT.format(b=b, load=load, sum="s32" if type == "s8" else "f32", result=result)
    shape = (n, 64) if b == "n, k" else (64, n)
    args = {"a": random.integers(-3, 4, (40, 64)).astype(NUMPY[type]), "c": np.zeros((40, n), NUMPY[out])}
    args["b"] = random.integers(-3, 4, shape).astype(NUMPY[type])
    wide = args["b"].astype(np.int32)
    exact = args["a"].astype(np.int32) @ (wide.T if b == "n, k" else wide)
    return compile_kernel(text, args, types={"T": type, "O": out}), args, exact


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("type", "out", "count"), [("f16", "f16", 8), ("f16", "f32", 4), ("s8", "s32", 4), ("s8", "s8", 16)]
)
def test_a_thread_stores_sixteen_bytes_at_once(way: str, type: str, out: str, count: int) -> None:
    """8 columns of f16 instead of 2: half the sectors of a product whose b lies along k. Of a b that lies along n,
    bytes are transposed 4 columns at a time, which a thread has then; halves go through shared memory."""
    kernel, args, exact = product(way, type, out, 128)
    made = kernel.variant.function.choices.keyed()
    across = "1, 4" if type == "s8" else None
    found = made["contiguous.acc"].taken if "contiguous.acc" in made else None
    assert found == (f"1, {count}" if way == "along k" else across)
    staged = made["stage.c"].taken if "stage.c" in made else None
    assert staged == ("shared" if way == "along n" and out == "f16" else None)
    launch(kernel, args)
    assert np.array_equal(args["c"], np.clip(exact, -128, 127) if out == "s8" else exact)


@pytest.mark.parametrize("n", [1, 36, 65])
def test_rows_that_are_no_multiple_of_them(n: int) -> None:
    kernel, args, exact = product("along k", "f16", "f16", n)
    launch(kernel, args)
    assert np.array_equal(args["c"], exact)
