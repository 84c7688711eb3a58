"""What rounds add to numbers that a loop carries, where only the run knows it: barriers stay, and compiling ends."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compile_and_run import compile_kernel, run
from tests.work import at_most

X = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
TEXT = """
kernel k(y: f32[64], x: f32[16, 64], n: s32, m: s32):
    grid 1
    i = arange(64)
{lines}
schedule p of k:
    warps = 2
"""


def text(lines: str) -> str:
    return TEXT.format(lines="\n".join("    " + line for line in lines.strip().splitlines()))


SUMS = """
shared s: f32[{ring}24, 64]
for z in range(24):
    s[z] = zeros(f32[64])
barrier()
t = zeros(f32[64])
P = 0
Q = 0
for r in range(0, 4):
    t = t + s[P + 1, 63 - i]
    s[P + Q + n] = load(x[r, 0 : 64])
    P = P + Q
    Q = Q + n
store(y[0 : 64], t)
"""


@pytest.mark.parametrize("names", ["ab", "ba"])
@pytest.mark.parametrize("ring", ["", "ring "])
def test_two_numbers_of_which_one_adds_the_other(ring: str, names: str) -> None:
    """What one was stood for what the other has become, and a barrier was missing, by the order of their names."""
    lines = SUMS.format(ring=ring).replace("P", names[0]).replace("Q", names[1])
    source = text(lines)
    y = np.zeros(64, np.float32)
    run(source, {"y": y, "x": X, "n": 1, "m": 0})  # the emulator finds a race if one is missing
    tile, total, p, q = np.zeros((24, 64)), np.zeros(64), 0, 0
    for r in range(4):
        total += tile[p + 1, ::-1]
        tile[p + q + 1] = X[r]
        p, q = p + q, q + 1
    assert np.array_equal(y, total)


def test_a_number_that_each_round_moves_on_by_another_ends() -> None:
    """Places before the inner loop had one factor more in each round of the outer one: the pass never ended."""
    lines = """
shared s: f32[40, 64]
for z in range(40):
    s[z] = zeros(f32[64])
t = zeros(f32[64])
b = 2
a = m
for r in range(n):
    b = b + a
    for j in range(5, 0, -2):
        t = t + s[b + 2, i]
        b = b + r
store(y[0 : 64], t)
"""
    with at_most(calls=2_000_000):
        compile_kernel(text(lines), {"y": np.zeros(64, np.float32), "x": X, "n": 2, "m": 1})


@pytest.mark.parametrize("start", ["(n % 3) * 16", "n // 3", "(n % 4) * 8", "n.to(index) % 3"])
def test_the_start_of_shared_offsets_is_computed(start: str) -> None:
    """A remainder or a quotient among offsets in shared memory had no register: LLVM refused its text."""
    y = np.zeros(64, np.float32)
    lines = f"shared q: f32[2048]\nq[{start} + i] = load(x[0, 0 : 64])\nstore(y[0 : 64], q[{start} + i])"
    run(text(lines), {"y": y, "x": X, "n": 5, "m": 0})
    assert np.array_equal(y, X[0])


@pytest.mark.parametrize("start", ["(n % 3) * 16", "n // 3 * 16"])
def test_so_is_that_of_fragments(start: str) -> None:
    source = f"""
kernel k(y: f32[16, 64], x: f16[128, 64], w: f16[64, 64], n: s32):
    grid 1
    shared s: f16[128, 64]
    shared b: f16[64, 64]
    s[:, :] = load(x[0 : 128, 0 : 64])
    b[:, :] = load(w[0 : 64, 0 : 64])
    r = {start}
    store(y[0 : 16, 0 : 64], s[r : r + 16, :] @ b[:, :])
"""
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-2, 3, (rows, 64)).astype(np.float16) for rows in (128, 64))
    y = np.zeros((16, 64), np.float32)
    run(source, {"y": y, "x": x, "w": w, "n": 5})
    r = {"(n % 3) * 16": 32, "n // 3 * 16": 16}[start]
    assert np.array_equal(y, x[r : r + 16].astype(np.float32) @ w.astype(np.float32))
