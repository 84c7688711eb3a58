"""Tensors with their axes in another order, and what `...` gives a def."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compile_and_run import compile_kernel, launch

VIEWS = {
    "x.T": "x.T[0 : 16, 0 : 32]",
    "transpose(x)": "transpose(x)[0 : 16, 0 : 32]",
    "twice": "transpose(transpose(x, [1, 0]), [0, 1])[0 : 16, 0 : 32]",
    "of a view": "transpose(reshape(x, [m, n, 1]), [2, 1, 0])[0, 0 : 16, 0 : 32]",
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize(("m", "n"), [(32, 16), (29, 11)])
def test_a_transposed_tensor_is_a_view(view: str, m: int, n: int) -> None:
    """Masked at the edges of its own axes."""
    text = f"""
kernel k(y: f32[n, m], x: f32[m, n]):
    grid 1
    y[0 : 16, 0 : 32] = {VIEWS[view]}

schedule s of k:
    warps = 2
"""
    args = {"x": np.random.default_rng(m).standard_normal((m, n)).astype(np.float32)}
    args["y"] = np.zeros((n, m), np.float32)
    launch(compile_kernel(text, args), args)
    assert np.array_equal(args["y"], args["x"].T)


def test_three_points_give_parameters_and_constants_of_the_caller() -> None:
    """Those behind the arguments that no keyword gives: numbers of the run as well as constants."""
    text = """
def added(v, n, m, scale; TM, MORE):
    return v * scale + (n * 100 + m * 10 + TM + MORE).to(f32)

kernel k(y: f32[n, m], x: f32[n, m], scale: f32; TM = 8):
    grid cdiv(n, TM)
    i = block(0) * TM
    y[i : i + TM, 0 : 16] = added(x[i : i + TM, 0 : 16], m=n, MORE=1, ...)

schedule s of k:
    warps = 1
"""
    args = {"x": np.ones((9, 13), np.float32), "y": np.zeros((9, 13), np.float32), "scale": 3.0}
    launch(compile_kernel(text, args), args)
    assert (args["y"] == 3 + 9 * 100 + 9 * 10 + 8 + 1).all()
