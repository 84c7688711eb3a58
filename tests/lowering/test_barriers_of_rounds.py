"""Accesses of earlier iterations, of one loop or of several around each other: each is remembered where it was, or
nowhere.

The emulator is the judge. Each kernel was wrong once: a barrier missed, or a compile that never ended.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.compile_and_run import Kernel, compile_kernel, launch

X = np.random.default_rng(7).standard_normal((16, 128)).astype(np.float32)
ZERO = "    for i in range(0, 16384, 128):\n        s[i + arange(128)] = zeros(f32[128])\n    barrier()\n"


def compiled(body: str) -> Kernel:
    text = f"kernel k(y: f32[128], x: f32[16, 128]):\n    grid 1{body}\nschedule s of k:\n    warps = 4\n"
    return compile_kernel(text, {"x": X, "y": X[0]})


def check(body: str, barriers: int, expected: np.ndarray) -> None:
    kernel = compiled(body)
    assert kernel.count("barrier", scope="block") == barriers
    for seed in (0, 1):
        y = np.zeros(128, np.float32)
        assert not launch(kernel, {"x": X, "y": y}, seed=seed, collect=True).findings
        assert (y == expected).all()


def test_a_slot_stays_known_where_offsets_do_not() -> None:
    """Behind the loop its counter has no name, and five stages back is still written by other threads."""
    check(
        """
    shared s: f32[16, 1024]
    at = 0
    for i in range(0, 8):
        s[at, i * 128 : i * 128 + 128] = load(x[i, 0 : 128])
        at = at + 1
    store(y[0 : 128], s[at - 5, 3 * 128 + 127 - arange(128)])
""", 1, X[3, ::-1])  # fmt: skip


def test_offsets_stay_known_where_a_slot_does_not() -> None:
    check(
        """
    shared s: f32[8, 1024]
    at = 0
    for i in range(0, 8):
        s[i, at : at + 128] = load(x[i, 0 : 128])
        at = at + 128
    store(y[0 : 128], s[3, at - 5 * 128 + 127 - arange(128)])
""", 1, X[3, ::-1])  # fmt: skip


def test_what_an_inner_loop_moved_is_moved_by_the_outer_loop_too() -> None:
    """Each inner iteration is 256 elements on, and each outer one 1152 more."""
    expected = sum((X[i - 1, ::-1] for i in range(1, 4)), np.zeros(128, np.float32))
    check(
        f"""
    shared s: f32[16384]
{ZERO}    t = zeros(f32[128])
    j = 4096
    for i in range(0, 4):
        t = t + s[j + 1152 * i - 1152 - 256 * 3 + 127 - arange(128)]
        barrier()
        for q in range(0, 4):
            s[j + 1152 * i + arange(128)] = load(x[i, 0 : 128])
            j = j + 256
    store(y[0 : 128], t)
""", 3, expected)  # fmt: skip


@pytest.mark.parametrize(
    "loops",
    [
        # What moves with the outer loop goes through another loop in each iteration.
        """
    for i in range(0, 8):
        s[i, 0 : 128] = v
        for j in range(0, 4):
            q[j, 0 : 128] = v
""",
        # Two that are exchanged and counted on.
        """
    a = 3
    b = 4
    for i in range(0, 8):
        s[a, 0 : 128] = v
        c = b + 1
        b = a + 1
        a = c
""",
        # One counter through two loops, and moved between them.
        """
    at = 0
    for r in range(0, 4):
        for i in range(0, 4):
            s[at, 0 : 128] = v
            at = at + 1
        at = at + 2
""",
        """
    at = 0
    for r in range(0, 4):
        for i in range(0, 4):
            s[at, 0 : 128] = v
            at = at + 1
""",
    ],
)
def test_places_that_always_move_on_are_given_up_after_a_few_rounds(loops: str) -> None:
    """Each thread comes back to its own elements, so no barrier ends what the pass has to remember."""
    head = "\n    shared s: f32[64, 128]\n    shared q: f32[64, 128]\n    v = load(x[0, 0 : 128])"
    check(f"{head}{loops}    store(y[0 : 128], s[3, 0 : 128])\n", 0, X[0])
