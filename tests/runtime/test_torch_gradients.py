"""A kernel has no gradient: torch is told what was written, and no tensor is passed while torch records it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import dsl
from dsl import runtime

sys.path.insert(0, str(Path(__file__).resolve().parent))
import hand_written
from fake_cuda import FakeCuda, Gradients

TEXT = """
kernel squared(y: f32[n], x: f32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    v = load(x[i : i + B])
    y[i : i + B] = v * v

kernel twice(x: f32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    x[i : i + B] = x[i : i + B] * 2.0

kernel scaled(y: f32[n], t: table f32[2]; C, B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    y[i : i + B] = full(f32[B], C * t[1])
"""


# ---- with tensors that are like torch's, on a driver that launches nothing ----


@pytest.fixture
def cuda() -> Iterator[FakeCuda]:
    with FakeCuda() as made, patch.object(Gradients, "on", True):
        yield made


def test_versions_of_written_tensors_are_counted_up_by_each_way_of_a_launch(cuda: FakeCuda) -> None:
    """Nothing told torch: a backward pass took what a kernel had overwritten."""
    kernel, (y, x) = cuda.kernel(), cuda.pair("torch")
    kernel(y, x)
    assert (y.version, x.version) == (1, 0)
    assert kernel._classes.ways[0]((y, x)) and y.version == 2  # the warm way
    kernel(x=x, y=y)
    kernel.bind(y, x)()
    assert (y.version, x.version) == (4, 0)
    other = cuda.pair("torch", 1)
    kernel(*other)
    assert [each.version for each in other] == [1, 0] and len(cuda.driver.launches) == 5
    kernel(*cuda.pair("cupy"))  # who is not told
    assert {each.changed for each in kernel._classes.values() if "cupy" in str(each.call.arrays)} == {None}


def test_no_launch_takes_a_tensor_that_torch_records(cuda: FakeCuda) -> None:
    """Inputs, and outputs that are changed in place: cold, warm, prepared, and behind a call that was right."""
    kernel, (y, x) = cuda.kernel(), cuda.pair("torch")
    for warm in (False, True):
        for tensor in (x, y):
            tensor.requires_grad = True
            for launch in (kernel, kernel.bind, kernel.run):
                with pytest.raises(runtime.LaunchError, match="requires a gradient") as caught:
                    launch(y, x)
                assert "no_grad" in (caught.value.hint or "")
            with patch.object(Gradients, "on", False):
                kernel(y, x)
            with pytest.raises(runtime.LaunchError, match="requires a gradient"):
                kernel(y, x)
            tensor.requires_grad = False
        if not warm:
            kernel(y, x)
    assert len(cuda.driver.launches) == 5 and y.version == 5


def test_an_operator_s_own_code_may_launch(cuda: FakeCuda) -> None:
    """Its gradient is the operator's: torch says that what records is above."""
    kernel, (y, x) = cuda.kernel(), cuda.pair("torch")
    x.requires_grad = True
    core: Any = sys.modules["torch"]._C
    core.DispatchKey = type("DispatchKey", (), {"AutogradFunctionality": "autograd"})
    core._dispatch_tls_is_dispatch_key_excluded = lambda key: key == "autograd"
    kernel(y, x)
    core._dispatch_tls_is_dispatch_key_excluded = lambda key: False
    with pytest.raises(runtime.LaunchError, match="requires a gradient"):
        runtime.Kernel(hand_written.copy(), device="cuda")(y, x)


# ---- with torch's own, on the emulator ----

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@needs_torch
def test_a_call_of_torch_s_own_tensors_is_refused_where_it_records() -> None:
    import torch

    m = dsl.parse(TEXT, device="emulator")
    x = torch.arange(40.0, requires_grad=True)
    for wrong in (x, x * 2, x[:20], x.view(40)):
        with pytest.raises(dsl.LaunchError, match="requires a gradient"):
            m.squared(wrong)
        with pytest.raises(dsl.LaunchError, match="requires a gradient"):
            m.twice(wrong)
    with torch.no_grad():
        assert torch.equal(m.squared(x), x * x)
    with pytest.raises(dsl.LaunchError, match="requires a gradient"):
        m.squared(x)
    assert torch.equal(m.squared(x.detach()), (x * x).detach())
    with torch.inference_mode():
        m.twice(torch.zeros(40))


@needs_torch
def test_numbers_that_torch_records_are_refused() -> None:
    """As constants and in tables they lost their gradients without a word."""
    import torch

    m = dsl.parse(TEXT, device="emulator")
    y, number = torch.empty(40), torch.tensor(2.0, requires_grad=True)
    pair = torch.tensor([1.0, 2.0], requires_grad=True)
    kernel = m.compile("scaled", C=3.0)
    for launch in (
        lambda: m.scaled(y, (1.0, 3.0), C=number),
        lambda: m.scaled(y, (1.0, number), C=3.0),
        lambda: m.scaled(y, pair, C=3.0),
        lambda: kernel(y, (1.0, number)),
        lambda: kernel(y, pair),
    ):
        with pytest.raises(dsl.LaunchError, match="requires a gradient"):
            launch()
        with torch.no_grad():
            launch()
        assert y[0] == 6.0
        y.zero_()


@needs_torch
def test_a_class_that_was_met_without_gradients_is_refused_with_them() -> None:
    """torch's own check of a class knows whether a tensor requires a gradient, but not whether torch records."""
    import torch

    from dsl.runtime.frameworks.torch import Torch, guards_work

    x = torch.zeros(40, requires_grad=True)
    with torch.no_grad():
        recognise = Torch().recogniser([x])
        assert recognise(x) is guards_work()
        assert not recognise(torch.zeros(40))
    assert not recognise(x)
    plain = Torch().recogniser([torch.zeros(40)])
    assert plain(torch.zeros(40)) is guards_work() and not plain(x)


@needs_torch
def test_what_a_kernel_overwrites_torch_finds_in_a_backward_pass() -> None:
    import torch

    m = dsl.parse(TEXT, device="emulator")
    for change in (lambda x: m.twice(x.detach()), lambda x: m.compile("twice").bind(x.detach())()):
        x = torch.arange(40.0, requires_grad=True)
        result = (x * x).sum()
        change(x)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()
    x, y = torch.ones(40), torch.empty(40)
    before = x._version, y._version
    for _ in range(3):
        m.squared(y, x)
    assert (x._version, y._version) == (before[0], before[1] + 3)


@needs_torch
def test_operators_with_a_gradient_call_kernels() -> None:
    import torch

    m = dsl.parse(TEXT, device="emulator")

    class Squared(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return m.squared(x)

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            return 2 * ctx.saved_tensors[0] * gradient

    x = torch.arange(40.0, requires_grad=True)
    Squared.apply(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, 2 * x.detach())

    schema = "(Tensor x) -> Tensor"
    squared = torch.library.custom_op("dsl_tests::squared", m.squared, mutates_args=(), schema=schema)

    squared.register_autograd(
        lambda ctx, gradient: 2 * ctx.saved_tensors[0] * gradient,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    x.grad = None
    squared(x.detach())
    squared(x).sum().backward()
    assert x.grad is not None and torch.equal(x.grad, 2 * x.detach())


@needs_torch
def test_forward_gradients_are_refused() -> None:
    import torch
    import torch.autograd.forward_ad as forward

    m = dsl.parse(TEXT, device="emulator")
    m.squared(torch.ones(40))
    with forward.dual_level():
        with pytest.raises(dsl.LaunchError, match="requires a gradient"):
            m.squared(forward.make_dual(torch.ones(40), torch.ones(40)))
        m.squared(torch.ones(40))
