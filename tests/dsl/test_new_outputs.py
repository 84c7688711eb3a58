"""Outputs that a call makes are new memory: elements that no store reached are reported on the emulator, and kernels
that read them are refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import dsl
from dsl.runtime.new_outputs import UnwrittenOutput

TEXT = """
kernel first(y: f32[rows, cols], x: f32[rows, cols]; COLS):
    grid rows
    y[block(0), 0 : COLS] = x[block(0), 0 : COLS] + 1.0

kernel add(y: f32[n], x: f32[n]; N = 32):
    grid cdiv(n, N)
    i = block(0) * N
    y[i : i + N] += x[i : i + N]

kernel whole(y: f32[n], x: f32[n]; N = 32):
    grid cdiv(n, N)
    i = block(0) * N
    y[i : i + N] = x[i : i + N]

kernel half(y: f16[n], x: f32[n]; N = 32):
    grid cdiv(n, 2 * N)
    i = block(0) * 2 * N
    y[i : i + N] = x[i : i + N].to(f16)

dispatch both(y, x):
    whole(y, x)
    add(y, x)

dispatch partly(y, x):
    first(y, x) with COLS=32
    first(y, x) with COLS=64
"""


@pytest.fixture(scope="module")
def module() -> dsl.Module:
    return dsl.parse(TEXT, device="emulator")


def test_elements_that_no_store_reached_are_reported(module: dsl.Module) -> None:
    x = np.ones((3, 40), np.float32)
    with pytest.warns(
        UnwrittenOutput, match=r"first returns 'y' with 24 of 120 elements .* first at \[0, 32\]"
    ) as found:
        y = module.first(x, COLS=32)
    assert (y[:, :32] == 2).all()
    assert found[0].filename == __file__  # the call is named, not the frame that warns


def test_elements_of_two_bytes_are_counted(module: dsl.Module) -> None:
    with pytest.warns(UnwrittenOutput, match=r"half returns 'y' with 36 of 100 elements .* first at \[32\]"):
        module.half(np.ones(100, np.float32))


def test_whole_outputs_and_arrays_of_the_caller_are_not_reported(module: dsl.Module) -> None:
    x = np.ones((3, 40), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (module.first(x, COLS=64) == 2).all()
        assert (module.both(x[0]) == 2).all()  # its second launch reads what the first has written
        assert (module.partly(x) == 2).all()  # the launches together write all
        assert module.first(x[:, :0], COLS=32).shape == (3, 0)
        module.first(np.zeros_like(x), x, COLS=32)  # what the caller passes holds something


def test_what_a_kernel_reads_cannot_be_left_out(module: dsl.Module) -> None:
    with pytest.raises(dsl.TileError, match="'y' was not given, and add reads it") as caught:
        module.add(x=np.ones(32, np.float32))
    assert "zeros for a sum" in str(caught.value.hint)


def test_operators_of_torch_return_no_output_that_is_read(module: dsl.Module) -> None:
    """The operator makes it of new memory, so the sum would begin anywhere."""
    torch = pytest.importorskip("torch")
    import dsl.torch

    x = torch.ones(32)
    op = dsl.torch.op(module.add, "dsl_tests_new::add", outputs="y")
    with pytest.raises(dsl.TileError, match="'y' was not given, and add reads it"):
        op(x)
    both = dsl.torch.op(module.both, "dsl_tests_new::both", outputs="y")
    assert (both(x) == 2).all()
    first = dsl.torch.op(module.first, "dsl_tests_new::first", COLS=32)
    with pytest.warns(UnwrittenOutput, match="dsl_tests_new::first returns 'y' with 8 of 40") as found:
        first(torch.ones(1, 40))
    assert found[0].filename == __file__


def test_functions_of_jax_return_no_output_that_is_read(module: dsl.Module) -> None:
    jax = pytest.importorskip("jax")
    import dsl.jax

    x = jax.numpy.ones(32)
    op = dsl.jax.op(module.add, outputs="y")
    for call in (op, jax.jit(op)):
        with pytest.raises(dsl.TileError, match="'y' was not given, and add reads it"):
            call(x)
    assert (jax.jit(dsl.jax.op(module.both, outputs="y"))(x) == 2).all()
    with pytest.warns(UnwrittenOutput, match="first returns 'y' with 8 of 40"):
        dsl.jax.op(module.first, COLS=32)(jax.numpy.ones((1, 40)))
