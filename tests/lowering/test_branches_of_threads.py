"""Branches of single threads under layouts that a schedule pins: who takes a branch has the elements inside."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
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
    ("store(reshape(y, [128, 1])[arange(128)[:, None], arange(1)[None, :]], u[:, None])",
     lambda: (np.where(A < 30, B, 0), B)),
    ("store(reshape(y, [4, 32])[0 : 4, 0 : 32], reshape(u, [4, 32]))", lambda: (np.where(A < 30, B, 0), B)),
    ("store(y[arange(128)], reshape(reshape(u, [1, 128]).T, [128]))", lambda: (np.where(A < 30, B, 0), B)),
    ("c = 1\n    u = u + c", lambda: (np.zeros(128), B + (A < 30))),
    ("c = 1\n    else:\n        c = 2\n    u = u + c", lambda: (np.zeros(128), B + np.where(A < 30, 1, 2))),
    ("r = reshape(u, [4, 32]) * 2\n    else:\n        r = reshape(u, [4, 32])\n    u = reshape(r, [128])",
     lambda: (np.zeros(128), np.where(A < 30, 2 * B, B))),
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
    h = load(b[0 : 64])
    c = 0
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


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("store(y[arange(64)], h)", "store of 64 elements in a branch of threads that decide about 128"),
        ("store(z[arange(128)[:, None], arange(2)[None, :]], stack(u, t))", "store of 256 elements"),
        ("s[arange(1)] = full(s32[1], 3)", "store of 1 element in a branch of threads that decide about 128"),
        ("atomic_add(y[arange(64)], h)", "atomic of 64 elements"),
        ('print("{}", h)', "print of 64 elements"),
        ("assert h > 0", "assert of 64 elements"),
        ("if h < 30:\n            store(y[arange(64)], h)", "store of 64 elements"),
        ("h = h + 1\n    store(y[0 : 64], h)", "'h' has no value here: it has one only in a branch of threads"),
        ("atomic_add(y[0], 1)", "atomic_add of a scalar inside a tile 'if'"),
        ("y[0] = 1", "a scalar is stored by one thread"),
    ],
)  # fmt: skip
def test_what_only_a_layout_could_decide_is_a_located_error(body: str, message: str) -> None:
    """With more or fewer elements than the condition, those stored were of the threads that a layout chose."""
    for pin in (PLAIN, MIXED):
        with pytest.raises(TileError, match=message):
            branch(body, [("t", pin)])


def test_names_of_another_shape_may_be_used_inside() -> None:
    y, _, _ = branch("d = h * 2\n    else:\n        d = h * 3\n    store(y[0 : 64], h)", [("t", MIXED)])
    assert (y[:64] == B[:64]).all()
