"""What a function of a module says of its calls without a launch: signature, outputs, what is written."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pytest

import dsl

sys.path.insert(0, str(Path(__file__).resolve().parent))
from declared_kernels import RULES

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.fixture(scope="module")
def rules() -> dsl.Module:
    return dsl.parse(RULES, device="emulator")


@pytest.fixture(scope="module")
def sample() -> Callable[[str], dsl.Module]:
    return lambda name: dsl.load(SAMPLES / f"{name}.tile", device="emulator")


def output(name: str, shape: tuple[int, ...], dtype: str) -> tuple[str, tuple[int, ...], str]:
    return name, shape, dtype


def said(found: Any) -> list[tuple[str, tuple[int, ...], str]]:
    return [(each.name, each.shape, each.dtype) for each in found]


# ---- outputs ----


def test_outputs_take_arrays_shapes_and_outputs(sample: Any) -> None:
    softmax = sample("softmax").softmax
    wanted = [output("y", (8, 100), "f16")]
    for x in ("f16[8, 100]", np.zeros((8, 100), np.float16), SimpleNamespace(shape=(8, 100), dtype="f16")):
        assert said(softmax.outputs(x)) == wanted
    assert said(softmax.outputs(*softmax.outputs("f16[8, 100]", schedule="lanes"))) == wanted
    assert softmax.outputs("f16[8, 100]", "f16[8, 100]") == () and said(softmax.outputs(x=x)) == wanted
    assert softmax.module.variants and not list(softmax.module.variants)  # nothing was compiled
    matmul = sample("matmul").matmul
    assert said(matmul.outputs("s8[8, 64]", "s8[64, 16]")) == [output("c", (8, 16), "s32")]
    assert said(matmul.outputs("bf16[8, 64]", "bf16[64, 16]", O="f32")) == [output("c", (8, 16), "f32")]


BAD: dict[str, tuple[str, str, tuple[Any, ...], dict[str, Any]]] = {
    "'cols' is 100 in 'y', and 101 in 'x'": ("softmax", "softmax", ("f16[8, 100]", "f16[8, 101]"), {}),
    "'x' is f64; 'T' is one of": ("softmax", "softmax", ("f64[8, 100]",), {}),
    "'x' has rank 2": ("softmax", "softmax", ("f16[8]",), {}),
    "takes 2 arguments; got 3": ("softmax", "softmax", ("f16[8]", "f16[8]", "f16[8]"), {}),
    "no parameter, option or constant 'nix'": ("softmax", "softmax", ("f16[8, 100]",), {"nix": 3}),
    "'softmax' has no schedule 'nix'": ("softmax", "softmax", ("f16[8, 100]",), {"schedule": "nix"}),
    "'eps' is a number": ("rmsnorm", "rmsnorm", ("f16[8, 16]", "f16[16]", "abc"), {}),
    "'cols' is 16 in 'x', and 15 in 'weight'": ("rmsnorm", "rmsnorm", ("f16[8, 16]", "f16[15]", 1e-5), {}),
    "'k' is 64 in 'a', and 65 in 'b'": ("matmul", "matmul", ("f16[8, 64]", "f16[65, 8]"), {}),
    "requires d <= 256": ("attention", "attention", (*["f16[1, 2, 8, 512]"] * 3, 0.1), {}),
    "heads % kv_heads == 0": ("attention", "attention", ("f16[1, 2, 8, 64]", *["f16[1, 3, 8, 64]"] * 2, 0.1), {}),
    "scale > 0.0": ("attention", "attention", (*["f16[1, 2, 8, 64]"] * 3, -0.1), {}),
}


@pytest.mark.parametrize("message", BAD)
def test_outputs_raise_the_errors_of_the_call(sample: Any, message: str) -> None:
    file, name, arguments, named = BAD[message]
    with pytest.raises(dsl.TileError) as caught:
        sample(file)[name].outputs(*arguments, **named)
    assert message in caught.value.message


def test_conditions_on_what_a_dispatch_calculates_are_checked_for_numbers(rules: dsl.Module) -> None:
    assert said(rules.chosen.outputs("f32[8]", 3, O="f16")) == [output("y", (8,), "f16")]
    for x, k, condition in (("f32[9]", 3, "n % 2 == 0"), ("f32[8]", 0, "k > 0"), ("f32[8]", 4, "half > k")):
        with pytest.raises(dsl.TileError, match="requires") as caught:
            rules.chosen.outputs(x, k, O="f16")
        assert condition in caught.value.message


class Symbol:
    """An extent that is not known yet, as a tracer has it. It records the questions that it answers."""

    asked: ClassVar[list[str]] = []

    def __init__(self, text: str, value: int):
        self.text, self.value = text, value

    def __index__(self) -> int:
        raise AssertionError(f"{self.text} was made a number")

    def __sub__(self, other: int) -> Symbol:
        return Symbol(f"({self.text} - {other})", self.value - other)

    def __eq__(self, other: Any) -> bool:
        if other is not self:
            self.asked.append(f"{self.text} == {getattr(other, 'text', other)}")
        return self.value == getattr(other, "value", other)

    __hash__ = None  # type: ignore[assignment]


def like(*shape: Any, dtype: str = "f32") -> Any:
    return SimpleNamespace(shape=shape, dtype=dtype)


def test_extents_may_be_symbols(rules: dsl.Module, sample: Any) -> None:
    """Only what a condition asks becomes a guard. The extents of outputs are made of those of inputs."""
    m, n = Symbol("m", 80), Symbol("n", 70)
    with patch.object(Symbol, "asked", []) as asked:
        ((_, shape, dtype),) = said(sample("softmax").softmax.outputs(like(m, n, dtype="bf16")))
        assert shape[0] is m and shape[1] is n and dtype == "bf16" and asked == []
        ((_, (rest,), _),) = said(rules.shorter.outputs(like(m)))
        assert rest.text == "(m - 2)" and {*asked} <= {"(m - 2) == (m - 2)"}
        q, k = like(1, 4, m, 64, dtype="f16"), like(1, 2, n, Symbol("d", 64), dtype="f16")
        asked.clear()
        (found,) = sample("attention").attention.outputs(q, k, k, 0.1)
        assert found.shape[2] is m and {*asked} == {"d == 64"}
        with pytest.raises(dsl.TileError, match="'n' is"):
            rules.any_type.outputs(like(m), like(n))


def test_a_convolution_makes_its_result_without_an_addend(sample: Any) -> None:
    m, numbers = sample("int8_conv"), (1.0, 1.0, 0.5, 6.0, 2, 2, 1, 1, 1, 1)
    found = m.conv2d_nhwc.outputs("s8[2, 14, 14, 64]", "s8[64, 3, 3, 64]", "f32[64]", None, *numbers)
    assert said(found) == [output("y", (2, 7, 7, 64), "s8")]
    with pytest.raises(dsl.TileError, match="requires p = "):
        m.conv2d_nhwc.outputs("s8[2, 14, 14, 64]", "s8[2, 14, 14, 64]", "s8[64, 3, 3, 64]", "f32[64]", None, *numbers)


def test_a_declared_extent_is_checked_without_a_launch(rules: dsl.Module) -> None:
    with pytest.raises(dsl.TileError, match="requires n = m - 2"):
        rules.shorter.outputs("f32[33]", "f32[34]")


# ---- signatures ----


def test_a_signature_tells_what_a_function_takes(sample: Any, rules: dsl.Module) -> None:
    found = sample("layer_norm").layer_norm.signature
    assert str(found).startswith("layer_norm(y: T[rows, cols], x: T[rows, cols], eps: f32, weight: T[cols]?")
    assert (found.outputs, found.writes) == (("y",), ("y", "mean", "rstd"))
    p = found.parameters
    assert (p["eps"].kind, p["eps"].type, p["weight"].optional, p["weight"].written) == ("number", "f32", True, False)
    assert (p["mean"].dims, p["mean"].written, p["mean"].read) == (("rows",), True, False)
    attention = sample("attention").attention
    assert attention.signature.parameters["q"].strided and attention.signature.options == {"CAUSAL": (False, True)}
    assert attention.writes == ("o", "lse") and rules.twice.writes == ("x",) and rules.twice.signature.outputs == ()
    assert sample("matmul").linear.writes == ("c",)  # residual and the like are only read


def test_python_knows_the_signature(sample: Any, rules: dsl.Module) -> None:
    found = inspect.signature(sample("attention").attention)
    names = ["q", "k", "v", "scale", "lse", "o", "CAUSAL", "T", "schedule", "constants"]
    assert list(found.parameters) == names and found.parameters["CAUSAL"].default is False
    assert found.parameters["lse"].default is None and found.parameters["scale"].default is inspect.Parameter.empty
    found.bind(1, 2, 3, 0.5, CAUSAL=True, o=4, TM=64)
    linear = inspect.signature(sample("matmul").linear)
    assert linear.parameters["bias"].default is inspect.Parameter.empty  # a required parameter is behind it
    assert rules.twice.__doc__ == "twice(x)\n\nDoubles x where it lies." and rules.twice.__name__ == "twice"
    assert "Softmax and log-softmax" in (sample("softmax").softmax.__doc__ or "")


def test_arrays_that_disagree_are_told_by_the_names_of_the_call() -> None:
    text = "kernel k(y: T[n], x: T[n], w: T[n]; T in f16|f32):\n    grid 1\n    y[0 : 32] = x[0 : 32] + w[0 : 32]\n"
    module, x = dsl.parse(text, device="emulator"), np.ones(32, np.float32)
    with pytest.raises(dsl.TileError, match="'T' is f32 in 'x', and f16 in 'w'"):
        module.k(x, x.astype(np.float16))
    with pytest.raises(dsl.TileError, match="'n' is 32 in 'x', and 31 in 'w'"):
        module.k(x, x[:31])
    assert (module.k(x, x) == 2).all()
