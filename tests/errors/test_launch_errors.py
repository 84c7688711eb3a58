"""What a launch with wrong arguments is told: by the dispatch, which has a place in the file, or by the header."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsl
from dsl.lowering.ir.location import TileError
from dsl.runtime import DeviceAssertError, LaunchError

TEXT = """\
kernel scaled(y: T[rows, cols], x: T[rows, cols], w: f32[cols, 4]?, alpha: f32; T in f16|f32, ROWS = 4, COLS):
    grid cdiv(rows, ROWS)
    assert cols >= 4, "at least four columns"
    r = block(0) * ROWS
    v = x[r : r + ROWS, 0 : COLS].to(f32) * alpha
    if given(w):
        v = v + w[0 : COLS, 0]
    y[r : r + ROWS, 0 : COLS] = v.to(T)

schedule rows of scaled:
    COLS = next_pow2(cols)

kernel checked(y: f32[n], x: f32[n]; BLOCK = 128):
    grid cdiv(n, BLOCK)
    i = block(0) * BLOCK
    v = x[i : i + BLOCK]
    assert all(v >= 0.0)
    y[i : i + BLOCK] = sqrt(v)

dispatch scale(y, x, alpha):
    option MODE in 1, 2
    require rows < 1000
    if cols <= 64: scaled(y, x, alpha=alpha) with rows
"""


def zeros(*shape: int, dtype: str = "float32") -> Any:
    return np.zeros(shape, dtype)


@pytest.fixture(scope="module")
def module() -> Any:
    return dsl.parse(TEXT, device="emulator")


X = zeros(8, 16)
Y = zeros(8, 16)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((zeros(8, 17), X, 1.0), "shape", "'cols' is 17 in 'y', and 16 in 'x'"),
        ((zeros(4, 16), X, 1.0), "shape", "'rows' is 4 in 'y', and 8 in 'x'"),
        ((zeros(16), X, 1.0), "shape", "'y' has rank 2; the array has shape [16]"),
        ((Y, X.astype("float16"), 1.0), "type", "'T' is f32 in 'y', and f16 in 'x'"),
        ((Y.astype("int32"), X, 1.0), "type", "'y' is s32; 'T' is one of f16, f32"),
        ((Y, X, X), "call", "'alpha' of 'scaled' is a scalar; got an array f32[8, 16]"),
        ((Y, 3, 1.0), "call", "'x' is an array; the int 3 is no array that a kernel takes"),
        ((zeros(1000, 16), zeros(1000, 16), 1.0), "requires", "'scale' requires rows < 1000"),
        ((zeros(8, 65), zeros(8, 65), 1.0), "dispatch", "no branch of 'scale' serves this call"),
        ((Y, X, 1.0, 2.0), "call", "scale takes 3 arguments; got 4"),
    ],
)
def test_a_dispatch_refuses(module: Any, arguments: tuple, code: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        module.scale(*arguments)
    assert (caught.value.code, caught.value.message) == (code, message)


def test_an_option_has_listed_values(module: Any) -> None:
    with pytest.raises(TileError, match="option 'MODE' is one of 1, 2; not 3"):
        module.scale(Y, X, 1.0, MODE=3)
    with pytest.raises(TileError, match=r"no parameter, option or constant 'MOOD'.*\n.*did you mean 'MODE'"):
        module.scale(Y, X, 1.0, MOOD=1)


@pytest.fixture(scope="module")
def kernel(module: Any) -> Any:
    """One variant: rows and cols of 16 and 4 bytes, COLS = 16, without `w`."""
    return module.compile("scaled", absent={"w"}, rows=8, cols=16, T="f32")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((zeros(8, 17), X, None, 1.0), "shape", ["cols"]),
        ((zeros(128), X, None, 1.0), "shape", ["y", "[rows, cols]"]),
        ((Y, X.astype("float16"), None, 1.0), "type", ["x", "f32", "f16"]),
        ((zeros(8, 48), zeros(8, 48), None, 1.0), "requires", ["COLS == next_pow2(cols)"]),
        ((zeros(8, 2), zeros(8, 2), None, 1.0), "requires", ["cols"]),
        ((X, X, None, 1.0), "overlap", ["y", "x"]),
        ((Y, X, None, "one"), "type", ["alpha", "f32"]),
        ((Y, X, None), "call", ["alpha"]),
        ((Y, X, zeros(16, 4), 1.0), "call", ["w"]),
        ((Y, X[:, ::-1], None, 1.0), "array", ["x"]),
        ((Y, "x", None, 1.0), "array", ["array"]),
    ],
)
def test_a_kernel_refuses(kernel: Any, arguments: tuple, code: str, words: list[str]) -> None:
    with pytest.raises(LaunchError) as caught:
        kernel(*arguments)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert caught.value.code == code


def test_a_false_assert_names_its_line(module: Any) -> None:
    with pytest.raises(DeviceAssertError) as caught:
        module.checked(zeros(300), np.full(300, -1, np.float32))
    assert TEXT.split("\n")[caught.value.line - 1].strip() == "assert all(v >= 0.0)"


def test_devices_and_targets_are_known_ones(module: Any) -> None:
    with pytest.raises(LaunchError, match="is no device"):
        dsl.parse(TEXT, device="gpu").scale(Y, X, 1.0)
    with pytest.raises(TileError, match="unknown target 'sm_70'"):
        module.compile("scaled", arch="sm_70", rows=8, cols=16)


def test_a_target_has_less_shared_memory(module: Any) -> None:
    text = """\
kernel large(y: f32[n], x: f32[n]; BLOCK = 32768):
    grid cdiv(n, BLOCK)
    shared a: f32[BLOCK]
    a[0 : 128] = x[0 : 128]
    y[0 : 128] = a[0 : 128]
"""
    parsed = dsl.parse(text, device="emulator")
    parsed.compile("large", arch="sm_90", n=128)
    with pytest.raises(TileError) as caught:
        parsed.compile("large", arch="sm_86", n=128)
    assert "needs 131072 bytes of shared memory; sm_86 has 101376" in caught.value.message
    assert caught.value.loc is not None and caught.value.loc.line == 3


def test_values_of_a_variant_are_known_names(module: Any) -> None:
    with pytest.raises(TileError, match="no dim, constant or scalar 'row'"):
        module.compile("scaled", row=8)
    with pytest.raises(TileError, match="kernel 'scaled' has no schedule 'row'") as caught:
        module.compile("scaled", schedule="row", rows=8, cols=16)
    assert caught.value.hint == "did you mean 'rows'?"
    with pytest.raises(TileError, match="dim 'rows' is a count"):
        module.compile("scaled", rows=-1, cols=16)
    with pytest.raises(AttributeError, match="scaled"):
        module.scald(Y, X, 1.0)


def test_an_array_that_begins_inside_an_element() -> None:
    """It was a misaligned access of the kernel's."""
    x = np.zeros(64 * 4 + 1, np.uint8)[1:].view(np.float32)
    with pytest.raises(LaunchError, match="x begins inside an element: its address is no multiple of 4"):
        dsl.parse(TEXT, device="emulator").checked(np.zeros(64, np.float32), x)
