"""Gathers within a tile: by shuffles where the axis lies within warps, else through shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compile_and_run import NUMPY, compile_kernel, launch

TAKE = """
kernel k(y: {t}[R, E], x: {t}[R, N], p: {i}[R, E]; R = {r}, N = {n}, E = {e}):
    grid 1
    v = load(x[0 : R, 0 : N])
    at = load(p[0 : R, 0 : E])
    w = gather(v, at, axis={axis})
    y[0 : R, 0 : E] = w
schedule s of k:
    warps = 2
    {lines}
"""


def taken(lines: str = "", t: str = "f32", i: str = "s32", r: int = 8, n: int = 32, e: int = 32, axis: int = 1) -> Any:
    """Runs a gather by indices that are negative or beyond the extent, too, and returns kernel and counters."""
    random = np.random.default_rng(1)
    p = random.integers(*((0, 256) if i[0] == "u" else (-128, 128)), (r, e)).astype(NUMPY[i])
    x = random.integers(0, 100, (r, n)).astype(NUMPY[t])
    args = {"y": np.zeros((r, e), NUMPY[t]), "x": x, "p": p}
    kernel = compile_kernel(TAKE.format(t=t, i=i, r=r, n=n, e=e, axis=axis, lines=lines), args)
    result = launch(kernel, args)
    assert (args["y"] == np.take_along_axis(x, p.astype(np.int64) % x.shape[axis], axis)).all()
    return kernel, result.counters.totals


BOTH = "layout v: {0}\n    layout w: {0}"
ROWS = BOTH.format("vector [1, 1], lanes [1, 32], warps [2, 1]")


@pytest.mark.parametrize(
    ("lines", "shuffles", "options"),
    [
        (ROWS, 4 * 2, {}),
        (
            BOTH.format("vector [1, 2], lanes [2, 16], warps [2, 1]"),
            4 * 2 * 2,
            {},
        ),  # an element in one of two registers
        (BOTH.format("vector [1, 32], lanes [32, 1], warps [2, 1]"), 0, {"r": 64}),  # in one of 32, of the same lane
        (BOTH.format("vector [2, 1], lanes [1, 32], warps [2, 1]"), 4 * 2, {}),
        (BOTH.format("vector [1, 1], lanes [4, 8], warps [2, 1]"), 2, {"n": 8, "e": 8}),
        (BOTH.format("vector [1, 1], lanes [8, 4], warps [1, 2]"), 2 * 2, {"axis": 0, "n": 16, "e": 16}),
        (ROWS, 4 * 2 * 2, {"t": "f64", "i": "s64"}),
        (ROWS, 4 * 2, {"t": "f16", "i": "u8"}),
        (ROWS, 4 * 2, {"t": "s8", "i": "s8"}),
        (ROWS, 16 * 2, {"e": 128}),  # more indices than elements
        ("layout w: vector [1, 1], lanes [1, 32], warps [1, 2]", 8 * 2, {"e": 64}),  # each warp has all elements
    ],
)
def test_lanes_gather_by_shuffles(lines: str, shuffles: int, options: dict[str, Any]) -> None:
    kernel, counters = taken(lines, **options)
    assert counters.shuffles == shuffles and kernel.count("shared_alloc") == 0


@pytest.mark.parametrize(
    ("lines", "options"),
    [
        (BOTH.format("vector [1, 1], lanes [1, 32], warps [1, 2]"), {"n": 64, "e": 64}),  # other warps have elements
        (BOTH.format("vector [1, 8], lanes [8, 4], warps [2, 1]"), {"r": 16}),  # eight shuffles an element
        (ROWS + "\n    choose gather.w: shared", {}),
        ("", {"axis": 0}),
        ("", {"axis": 0, "r": 64, "t": "f64"}),
        (ROWS.replace("lanes [1, 32]", "lanes [2, 16]", 1), {}),  # in the lanes of other rows
    ],
)
def test_other_gathers_go_through_shared_memory(lines: str, options: dict[str, Any]) -> None:
    kernel, counters = taken(lines, **options)
    assert counters.shuffles == 0 and kernel.count("shared_alloc") >= 1
    assert [c.taken for c in kernel.variant.function.choices.made if c.kind == "gather"] == ["shared"]


def test_flags_and_indices_are_gathered() -> None:
    """Indices are stored with the bits of the kernel's indices. A tile may be its own index."""
    text = """
kernel k(y: s32[64], z: s32[64]):
    grid 1
    i = arange(64)
    odd = gather(i % 2 == 1, 63 - i)
    j = gather(i * 3, 63 - i)
    y[0 : 64] = j.to(s32) + where(odd, 1, 0)
    z[0 : 64] = gather(load(z[0 : 64]), load(z[0 : 64]))
schedule s of k:
    {}
"""
    for lines in ("warps = 1", "warps = 2\n    choose gather.odd: shared\n    choose gather.j: shared"):
        args = {"y": np.zeros(64, np.int32), "z": (np.arange(64, dtype=np.int32) * 7 + 3) % 64}
        z, n = args["z"].copy(), np.arange(64)
        launch(compile_kernel(text.format(lines), args), args)
        assert (args["y"] == (63 - n) * 3 + (63 - n) % 2).all() and (args["z"] == z[z]).all()
