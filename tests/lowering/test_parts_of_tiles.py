"""Parts of register tiles by constants: registers by another name, where the axis lies in them."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from tests.compile_and_run import compile_kernel, run

X = (np.arange(64 * 64, dtype=np.int32) * 37 % 1009).reshape(64, 64)
PARTS = [
    "[:, 16 : 32]",
    "[32 : 64]",
    "[8 : 16, 48 : 52]",
    "[5]",
    "[:, 7]",
    "[0 : 64, 63]",
    "[16 : 32, :]",
    "[2, 8 : 16]",
]
PINS = [
    "",
    "vector [1, 4], lanes [2, 16], warps [4, 1]",
    "vector [8, 1], lanes [8, 4], warps [1, 4]",
    "register [[0, 16], [32, 0], [0, 1], [0, 2], [0, 32]], lane [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], "
    "warp [[0, 4], [0, 8]]",
]


def text(lines: str, shape: tuple[int, ...], pin: str) -> str:
    dims, place = ", ".join(map(str, shape)), ", ".join(f"0 : {e}" for e in shape)
    pinned = f"    layout v: {pin}\n" if pin else ""
    return f"""
kernel k(y: s32[{dims}], x: s32[64, 64]):
    grid 1
    v = load(x[0 : 64, 0 : 64])
    {lines}
    store(y[{place}], r)
schedule s of k:
    warps = 4
{pinned}"""


@pytest.mark.parametrize("pin", PINS)
@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_what_numpy_takes(part: str, pin: str) -> None:
    wanted = eval(f"(2 * X){part}")
    y = np.zeros(wanted.shape, np.int32)
    run(text(f"r = (v * 2){part}", y.shape, pin), {"y": y, "x": X})
    assert np.array_equal(y, wanted)


@pytest.mark.parametrize("pin", PINS)
def test_parts_of_what_is_computed_anew(pin: str) -> None:
    y = np.zeros((64, 16), np.int32)
    lines = "c = (arange(64)[None, :] * arange(64)[:, None]).to(s32)\n    w = v + c"
    run(text(lines + "\n    r = w[:, 16 : 32] - c[:, 32 : 48]", y.shape, pin), {"y": y, "x": X})
    i, j = np.arange(64)[:, None], np.arange(16)
    assert np.array_equal(y, X[:, 16:32] + i * (j + 16) - i * (j + 32))


def test_parts_in_a_static_loop_sum_to_the_whole() -> None:
    y = np.zeros((64, 16), np.int32)
    lines = "r = zeros(s32[64, 16])\n    for static k in range(4):\n        r = r + v[:, 16 * k : 16 * k + 16]"
    run(text(lines, y.shape, ""), {"y": y, "x": X})
    assert np.array_equal(y, X.reshape(64, 4, 16).sum(1))


def test_parts_along_registers_move_nothing() -> None:
    lines = "r = zeros(s32[16, 64])\n    for static k in range(4):\n        r = r + v[16 * k : 16 * k + 16]"
    arrays = {"y": np.zeros((16, 64), np.int32), "x": X}
    pin = "register [[16, 0], [32, 0], [8, 0], [0, 32], [0, 16]], lane [[0, 1], [0, 2], [0, 4], [0, 8], [1, 0]], "
    source = text(lines, (16, 64), pin + "warp [[2, 0], [4, 0]]")
    assert "shared" not in compile_kernel(source, arrays).ptx
    run(source, arrays)
    assert np.array_equal(arrays["y"], X.reshape(4, 16, 64).sum(0))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("[:, 8 : 24]", "a part of 16 of a register tile's 64 begins at a multiple of 16, not at 8"),
        ("[64]", "index 64 of axis 0, which has 64 elements"),
        ("[:, 64 : 128]", "the slice 64 : 128 is not inside of axis 1, which has 64 elements"),
        ("[-1]", "index -1 of axis 0: indices count from 0"),
        ("[:, 60 : 68]", "the slice 60 : 68 is not inside of axis 1"),
        ("[:, 0 : 12]", "is a power of two; 12 is not"),
        ("[block(0)]", "is chosen by constants"),
        ("[3, 4]", "a part of a register tile is a tile"),
        ("[:, :, 0]", "has 2 axes"),
    ],
)
def test_other_parts_are_located_errors(part: str, message: str) -> None:
    with pytest.raises(TileError, match=message):
        compile_kernel(text(f"r = v{part}", (64, 64), ""), {"y": X.copy(), "x": X})


def test_a_product_takes_its_operand_in_parts() -> None:
    """Sums of a product are an operand of the next one, 16 columns at a time, and stay in registers."""
    body = """
kernel k(y: f32[64, 64], x: f16[64, 64], w: f16[64, 64]):
    grid 1
    shared s: f16[64, 64]
    s[:, :] = load(w[0 : 64, 0 : 64])
    p = (load(x[0 : 64, 0 : 64]) @ s[:, :]).to(f16)
    acc = zeros(f32[64, 64])
    for static k in range(4):
        acc = dot(p[:, 16 * k : 16 * k + 16], s[16 * k : 16 * k + 16, :], acc)
    store(y[0 : 64, 0 : 64], acc)
schedule s of k:
    warps = 4
"""
    rng = np.random.default_rng(1)
    x, w = (rng.integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(2))
    y = np.zeros((64, 64), np.float32)
    run(body, {"y": y, "x": x, "w": w})
    p = (x.astype(np.float32) @ w.astype(np.float32)).astype(np.float16).astype(np.float32)
    assert np.array_equal(y, p @ w.astype(np.float32))
