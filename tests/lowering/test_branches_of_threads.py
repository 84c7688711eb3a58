"""Branches of single threads under layouts that a schedule pins: who takes a branch has the elements inside."""

from __future__ import annotations

import numpy as np
import pytest

from lowering.location import TileError
from tests.compile_and_run import run

MIXED = "register [], lane [[28], [32], [16], [1], [2]], warp [[64], [8]]"
PLAIN = "vector [1], lanes [32], warps [4]"
A = (np.arange(128) * 37 % 64).astype(np.int32)
B = (np.arange(128) * 53 % 64 + 1).astype(np.int32)
PINS = [[("t", MIXED)], [("u", MIXED)], [("t", MIXED), ("u", PLAIN)], [("t", PLAIN), ("u", MIXED)]]
BODIES = [
    ("store(y[arange(128)], u)", lambda: (np.where(A < 30, B, 0), B)),
    ("atomic_add(y[127 - arange(128)], u)", lambda: (np.where(A < 30, B, 0)[::-1], B)),
    ("s[arange(128)] = u", lambda: (np.zeros(128), B)),
    ("u = u * 2", lambda: (np.zeros(128), np.where(A < 30, 2 * B, B))),
    ("if u > 20:\n            store(y[arange(128)], u + t)", lambda: (np.where((A < 30) & (B > 20), A + B, 0), B)),
    ("for i in range(3):\n            u = u + i\n        store(y[arange(128)], u)",
     lambda: (np.where(A < 30, B + 3, 0), np.where(A < 30, B + 3, B))),
    ("v = load(b[t])\n        store(y[arange(128)], v - u)", lambda: (np.where(A < 30, B[A] - B, 0), B)),
]  # fmt: skip


def branch(body: str, pins: list[tuple[str, str]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a branch on `t < 30` stores and binds, and what it leaves in shared memory."""
    y, after, shared = (np.zeros(128, np.int32) for _ in range(3))
    text = f"""
kernel k(a: s32[128], b: s32[128], y: s32[128], after: s32[128], shared_after: s32[128], z: s32[128, 2]):
    grid 1
    shared s: s32[128]
    t = load(a[0 : 128])
    u = load(b[0 : 128])
    s[arange(128)] = t
    if t < 30:
        {body}
    store(after[0 : 128], u)
    store(shared_after[0 : 128], s[0 : 128])

schedule s of k:
    warps = 4
"""
    text += "".join(f"    layout {name}: {pin}\n" for name, pin in pins)
    z = np.zeros((128, 2), np.int32)
    run(text, {"a": A, "b": B, "y": y, "after": after, "shared_after": shared, "z": z})
    return y, after, shared


@pytest.mark.parametrize("pins", PINS)
@pytest.mark.parametrize(("body", "wanted"), BODIES)
def test_the_condition_and_what_it_decides_may_be_pinned_apart(body: str, wanted, pins) -> None:
    y, after, shared = branch(body, pins)
    stored, bound = wanted()
    assert np.array_equal(y, stored) and np.array_equal(after, bound)
    assert np.array_equal(shared, np.where(A < 30, B, A) if body.startswith("s[") else A)


@pytest.mark.parametrize("pin", [MIXED, PLAIN])
def test_what_a_branch_binds_may_be_pinned(pin: str) -> None:
    """The value inside has the pinned layout; the condition comes to it, and what stands around is not touched."""
    y, _, _ = branch("w = u * 3\n        store(y[arange(128)], w)", [("w", pin), ("t", MIXED)])
    assert np.array_equal(y, np.where(A < 30, 3 * B, 0))


def test_two_pins_in_one_branch_that_differ_are_a_located_error() -> None:
    with pytest.raises(TileError, match="'x' lies in another layout than 'w', and a branch of threads holds both"):
        branch("w = u * 3\n        x = w + t\n        store(y[arange(128)], x)", [("w", PLAIN), ("x", MIXED)])
