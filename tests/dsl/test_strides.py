"""Strided tensors: as wide as their strides allow, and never wider than those of the call."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.examples.shapes import examine
from dsl.kernels.variant import stride_class
from dsl.runtime import LaunchError
from dsl.studies.check import planner_of
from dsl.text.program import parse_program

TEXT = """\
kernel copied(y: T[m, n; strided], x: T[m, n; strided]; T in f16|f32|u8):
    grid cdiv(m, 32), cdiv(n, 64)
    i, j = block(0) * 32, block(1) * 64
    store(y[i : i + 32, j : j + 64], load(x[i : i + 32, j : j + 64]))

schedule s of copied:
    warps = 4

kernel staged(y: T[m, n; strided], x: T[m, n; strided]; T in f16|f32|u8):
    grid cdiv(m, 32), cdiv(n, 64)
    shared s: T[32, 64]
    i, j = block(0) * 32, block(1) * 64
    copy(s[:, :], x[i : i + 32, j : j + 64])
    commit()
    wait(0)
    store(y[i : i + 32, j : j + 64], s[:, :])

schedule t of staged:
    warps = 4

dispatch either(y, x):
    copied(y, x)
"""
M, N = 64, 128


def space(dtype: Any, *shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 100, shape).astype(dtype)


VIEWS: dict[str, Any] = {
    "plain": lambda t: space(t, M, N),
    "padded": lambda t: space(t, M, N + 16)[:, :N],
    "padded to an odd pitch": lambda t: space(t, M, N + 3)[:, :N],
    "padded to a pitch of 4": lambda t: space(t, M, N + 4)[:, :N],
    "every other row": lambda t: space(t, 2 * M, N)[::2],
    "from below": lambda t: space(t, M, N)[::-1],
    "of three axes": lambda t: space(t, M, 3, N)[:, 1],
    "transposed": lambda t: space(t, N, M).T,
    "transposed and padded": lambda t: space(t, N, M + 3)[:, :M].T,
    "every other element": lambda t: space(t, M, 2 * N)[:, ::2],
    "broadcast": lambda t: np.broadcast_to(space(t, N), (M, N)),
}


@pytest.fixture
def module(device: str) -> Any:
    return dsl.parse(TEXT, device=device)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.uint8], ids=["f16", "f32", "u8"])
@pytest.mark.parametrize("kernel", ["copied", "staged", "either"])
def test_views_of_all_kinds_one_after_the_other(module: Any, kernel: str, dtype: Any) -> None:
    """Each call has the variant of its own strides, and not that of the call before."""
    for x in (make(dtype) for make in VIEWS.values()):
        for into in ("plain", "padded", "padded to an odd pitch", "transposed"):
            y = VIEWS[into](dtype)
            y[...] = 0
            getattr(module, kernel)(y, x)
            assert np.array_equal(y, x)


PACKED: dict[str, Any] = {
    "heads": lambda m: (m[:, :8], m[:, 8:16]),
    "taking turns": lambda m: (m[:, 1::2], m[:, ::2]),
    "rows from below": lambda m: (m[::-2], m[::2]),
    "columns": lambda m: (m[:, :8].T, m[:, 24:].T),
    "corner": lambda m: (m[:16, 16:], m[16:, :16]),
}
"""(y, x): views of one array of 32 rows and columns whose ranges meet, and no elements."""


@pytest.mark.parametrize("view", PACKED)
def test_views_of_one_array_without_a_common_element(module: Any, view: str) -> None:
    """They were refused by the ranges that they span: a model that works on its packed q and k had to copy them. What
    lies between the elements of the output, and is the input's, comes back as it was."""
    for start in (0, 0, 4):  # a class that is new, one that is known, other addresses
        memory = space(np.float16, 36 * 32)[start * 32 :][: 32 * 32].reshape(32, 32)
        y, x = PACKED[view](memory)
        wanted = memory.copy()
        PACKED[view](wanted)[0][...] = x
        module.copied(y, x)
        assert np.array_equal(memory, wanted)


def test_views_with_a_common_element_are_refused(module: Any) -> None:
    """Also where the class of the call is known, and only addresses tell, and of a bound launch."""
    memory = space(np.float16, 32, 32)
    for _ in range(2):
        module.copied(memory[:, :8], memory[:, 8:16])
        with pytest.raises(LaunchError, match="y and x share memory") as caught:
            module.copied(memory[:, :8], memory[:, 7:15])
        assert caught.value.code == "overlap" and "pass a copy of x" in str(caught.value)
        with pytest.raises(LaunchError, match="y and x share memory"):
            module.copied(memory[:, ::2], memory[:, 1:17])
    y, x = memory[:16, :8], memory[:16, 8:16]
    kernel = module.variant(module.copied.plan(module.copied.facts({"y": y, "x": x})).steps[0].request)
    y[...] = 0
    kernel.bind(y, x)()
    assert np.array_equal(y, x)
    with pytest.raises(LaunchError, match="share memory"):
        kernel.bind(y, memory[1:17, :8])()


def widest(module: Any, x: np.ndarray) -> int:
    """Bytes of the widest access of a copy of x to an array like it."""
    y = np.empty_like(x)
    module.copied(y, x)
    plan = module.copied.plan(module.copied.facts({"y": y, "x": x}))
    ptx = module.variant(plan.steps[0].request).ptx
    accesses = re.findall(r"ld\.global[.\w:]*?((?:\.v\d)?)\.[bsuf](\d+)", ptx)
    return max(int(bits) // 8 * int(vector[2:] or 1) for vector, bits in accesses)


@pytest.mark.parametrize(
    ("view", "bytes"),
    [("plain", 16), ("padded", 16), ("of three axes", 16), ("padded to a pitch of 4", 8), ("padded to an odd pitch", 2),
     ("every other element", 2), ("every other row", 16)],
)  # fmt: skip
def test_views_move_as_many_bytes_as_they_can(module: Any, view: str, bytes: int) -> None:
    """All of them moved 2 bytes at a time."""
    assert widest(module, VIEWS[view](np.float16)) == bytes


def test_a_transposed_view_moves_along_its_own_axis(module: Any) -> None:
    assert widest(module, VIEWS["transposed"](np.float16)) == 16


def test_views_of_one_class_share_a_variant() -> None:
    module = dsl.parse(TEXT, device="emulator")
    y = space(np.float16, M, N)
    for pitch in (N + 16, N + 32, N + 48, N + 64):
        module.copied(y, space(np.float16, M, pitch)[:, :N])
    assert len(list(module.variants)) == 1
    module.copied(y, space(np.float16, M, N + 1)[:, :N])
    assert len(list(module.variants)) == 2


def test_a_variant_of_known_strides_refuses_others() -> None:
    module = dsl.parse(TEXT, device="emulator")
    x, y = VIEWS["padded"](np.float16), space(np.float16, M, N)
    kernel = module.variant(module.copied.plan(module.copied.facts({"y": y, "x": x})).steps[0].request)
    kernel(y, x)
    with pytest.raises(LaunchError, match=r"requires x.stride0 % 16 == 0 \(x.stride0 = 131\)"):
        kernel(y, VIEWS["padded to an odd pitch"](np.float16))
    with pytest.raises(LaunchError, match=r"requires x.stride1 == 1 \(x.stride1 = 2\)"):
        kernel(y, VIEWS["every other element"](np.float16))


def test_the_classes_of_strides() -> None:
    assert stride_class((72, 1)) == (8, 1)
    assert stride_class((1, 40)) == (1, 8)
    assert stride_class((1, 1)) == (3, 1)
    assert stride_class((-64, 0)) == (-16, 16)


def test_arrays_of_an_example_are_row_major() -> None:
    """What `dsl check`, `compile` and `why` look at is the variant that `dsl run` has."""
    example = "\nexample:\n    x, y = ones(f32[64, 128]), empty(f32[64, 128])\n    copied(y, x)\n"
    program = parse_program(TEXT + example)
    (launch,) = examine(program, program.examples[0]).launches
    (step,) = planner_of(program, launch, "sm_90").plan().steps
    assert step.request.strides == {"y": (16, 1), "x": (16, 1)}


FAR = """\
kernel rows_of(y: u8[m, n], x: u8[m, n; strided]; N = 64):
    grid m
    y[block(0), 0 : N] = x[block(0), 0 : N]
"""
FAR_VIEWS: dict[str, tuple[int, tuple[int, int], int]] = {
    "near": (3, ((1 << 29) - 9, 1), 32),
    "far": (3, ((1 << 30) - 9, 1), 64),
    "far below": (3, (9 - (1 << 30), 1), 64),
    "far along both axes": (2, (1 << 30, 1 << 25), 64),
    "one row of a far pitch": (1, ((1 << 32) + 5, 1), 64),
    "one row of a far pitch below": (1, (-(1 << 40), 1), 64),
}


@pytest.mark.parametrize("view", FAR_VIEWS)
def test_views_whose_elements_are_far_apart_are_counted_in_64_bits(view: str) -> None:
    """They were refused; a far pitch of one row was no number of 32 bits. Nothing is launched: no memory is touched.
    y lies on the side of x's first element where x does not reach: behind it, it would lie between x's rows."""
    rows, strides, bits = FAR_VIEWS[view]
    memory = np.zeros(512, np.uint8)
    first, place = (memory[256:257], memory[:256]) if strides[0] > 0 else (memory[:1], memory[256:])
    x = np.lib.stride_tricks.as_strided(first, (rows, 60), strides)
    y = place[: rows * 60].reshape(rows, 60)
    module = dsl.parse(FAR, device="emulator")
    (kernel,) = module.rows_of.plan_for({"y": y, "x": x}, {}).kernels
    assert kernel.header.index_bits == bits
    assert kernel.grid(y, x) == (rows, 1, 1)
    assert module.compile("rows_of", m=rows, n=60, strides={"x": strides}).header.index_bits == bits


def test_a_far_pitch_after_a_near_one_is_another_class_of_calls() -> None:
    module = dsl.parse(FAR, device="emulator")
    memory = np.arange(64, dtype=np.uint8)
    for pitch in (64, 1 << 33, 64):
        x = np.lib.stride_tricks.as_strided(memory, (1, 60), (pitch, 1))
        np.testing.assert_array_equal(module.rows_of(x), x)


def test_a_variant_of_32_bits_names_the_choice_that_counts_farther() -> None:
    module = dsl.parse(FAR, device="emulator")
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.uint8), (3, 60), (1 << 30, 1))
    with pytest.raises(LaunchError, match=r"x reaches over 2147483708 elements(.|\n)*index.bits=64"):
        module.compile("rows_of")(np.zeros((3, 60), np.uint8), x)
