"""Shared tiles declared in loops, branches and functions: memory of their own, there for the whole kernel."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compile_and_run import compile_kernel, run

X = (np.arange(8 * 128, dtype=np.int32) * 37 % 1009).reshape(8, 128)
TURNED = "s[arange(128)] = v\nw = s[127 - arange(128)]"
BODIES = {
    "for i in range(n):\n    v = load(x[i, 0 : 128])\n    shared s: s32[128]\n    BODY\n    store(y[i, 0 : 128], w)":
        lambda: X[:, ::-1],
    "i = 0\nwhile i < n:\n    shared s: s32[128]\n    v = load(x[i, 0 : 128])\n    BODY\n    store(y[i, 0 : 128], w)\n"
    "    i = i + 1": lambda: X[:, ::-1],
    "for i in range(n):\n    v = load(x[i, 0 : 128])\n    if i % 2 == 0:\n        shared s: s32[128]\n        BODY\n"
    "        store(y[i, 0 : 128], w)\n    else:\n        shared s: s32[256]\n        BODY\n"
    "        store(y[i, 0 : 128], w + 1)": lambda: X[:, ::-1] + np.arange(8)[:, None] % 2,
    "for static i in range(8):\n    v = load(x[i, 0 : 128])\n    shared s: s32[128]\n    BODY\n"
    "    store(y[i, 0 : 128], w)": lambda: X[:, ::-1],
    "def turned(v):\n    shared s: s32[128]\n    BODY\n    return w\nfor i in range(n):\n"
    "    store(y[i, 0 : 128], turned(turned(turned(load(x[i, 0 : 128])))))": lambda: X[:, ::-1],
    "for i in range(n):\n    v = load(x[i, 0 : 128])\n    w = v\n    if v < 500:\n        shared s: s32[128]\n"
    "        s[arange(128)] = v * 2\n        w = s[arange(128)]\n    store(y[i, 0 : 128], w)":
        lambda: np.where(X < 500, 2 * X, X),
}  # fmt: skip


def text(body: str) -> str:
    lines = []
    for line in body.splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        lines += [indent + each for each in TURNED.splitlines()] if line.strip() == "BODY" else [line]
    return "kernel k(y: s32[n, 128], x: s32[n, 128]):\n    grid 1\n" + "\n".join("    " + line for line in lines) + "\n"


@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("body", BODIES)
def test_a_tile_of_its_own_wherever_it_is_declared(body: str, warps: int) -> None:
    if "if v < 500" in body and warps == 1:
        pytest.skip("a branch of threads takes an element a thread")
    y = np.zeros((8, 128), np.int32)
    run(text(body) + f"\nschedule s of k:\n    warps = {warps}\n", {"y": y, "x": X})
    assert np.array_equal(y, BODIES[body]())


def test_one_declaration_in_a_loop_is_one_tile() -> None:
    loop = next(iter(BODIES))
    kernel = compile_kernel(text(loop), {"y": X.copy(), "x": X})
    assert kernel.variant.function.attrs["shared_bytes"] == 512
