"""Offsets that look alike and are not: each kernel once missed a barrier, and the emulator found the race."""

from __future__ import annotations

import numpy as np

from tests.compile_and_run import compile_kernel, launch

X = np.random.default_rng(7).standard_normal(128).astype(np.float32)


def check(body: str, block: int, warp: int, expected: np.ndarray) -> None:
    text = f"kernel k(y: f32[128], x: f32[128], u: u8[1]):\n    grid 1{body}\nschedule s of k:\n    warps = 4\n"
    args = {"y": np.zeros(128, np.float32), "x": X, "u": np.array([100], np.uint8)}
    kernel = compile_kernel(text, args)
    assert (kernel.count("barrier", scope="block"), kernel.count("barrier", scope="warp")) == (block, warp)
    for seed in (0, 1):
        assert not launch(kernel, args, seed=seed, collect=True).findings
        assert (args["y"] == expected).all()


def test_two_listed_offsets_are_no_two_coefficients() -> None:
    """(3, 0) is a row's stride in the one store, and in the other the places of both elements."""
    expected = np.zeros(128, np.float32)
    expected[0], expected[3] = X[1] + 1, X[0] + 1
    check(
        """
    shared s: f32[128]
    s[0 : 128] = zeros(f32[128])
    barrier()
    r = arange(2) * 3
    v = load(x[0 : 2])
    s[r[:, None]] = v[:, None]
    s[(r ^ 3)[:, None]] = v[:, None] + 1.0
    store(y[0 : 128], s[0 : 128])
""", 1, 2, expected)  # fmt: skip


def test_sums_of_small_integers_wrap_before_they_are_offsets() -> None:
    """i + 200 - i + 100 of u8 is 44."""
    check(
        """
    shared s: f32[512]
    for q in range(0, 4):
        s[q * 128 + arange(128)] = zeros(f32[128])
    barrier()
    i = u[0]
    s[full(u8[128], i + 200 - i + 100).to(index) + arange(128)] = load(x[0 : 128])
    store(y[0 : 128], s[44 + 127 - arange(128)])
""", 2, 0, X[::-1])  # fmt: skip
