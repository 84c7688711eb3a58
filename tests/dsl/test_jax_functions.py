"""Functions of JAX: eager, under jit, grad and vmap, and what they refuse."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dsl

jax: Any = pytest.importorskip("jax")
jnp = jax.numpy
import dsl.jax  # noqa: E402 (needs jax)

ROOT = Path(__file__).parents[2]
Function = Any
BOUNDS = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}


@cache
def load(name: str, device: str) -> dsl.Module:
    return dsl.load(ROOT / "samples" / f"{name}.tile", device=device)


@cache
def functions(device: str, way: str | None = None) -> dict[str, Function]:
    op, norm = partial(dsl.jax.op, way=way), load("layer_norm", device)
    softmax, backward = load("softmax", device).softmax, load("softmax_backward", device).softmax_backward
    product = op(load("matmul", device).matmul, backward=lambda dc, a, b: (product(dc, b.T), product(a.T, dc)))
    return {
        "softmax": op(softmax, backward=backward, vmap="rows"),
        "one by one": op(softmax, backward=backward),
        "rmsnorm": op(load("rmsnorm", device).rmsnorm, backward=rms_backward, vmap="rows"),
        "layer_norm": op(
            norm.layer_norm,
            outputs=("y", "mean", "rstd"),
            backward=norm.layer_norm_backward,
            gradients={"w": "weight", "b": "bias"},
        ),
        "matmul": product,
    }


def rms_backward(dy: Any, x: Any, weight: Any, eps: Any) -> dict[str, Any]:
    v, g = x.astype("float32"), (dy * weight).astype("float32")
    r = jax.lax.rsqrt(jnp.square(v).mean(1, keepdims=True) + eps)
    dx = r * g - v * r**3 * (g * v).mean(1, keepdims=True)
    return {"x": dx.astype(x.dtype), "weight": (dy.astype("float32") * v * r).sum(0).astype(weight.dtype)}


def rms(x: Any, weight: Any, eps: float) -> Any:
    return (x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + eps) * weight).astype(x.dtype)


def layer(x: Any, eps: float, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.square(centred).mean(1, keepdims=True) + eps) * weight + bias


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), dtype)


def close(a: Any, b: Any, bound: float) -> bool:
    assert a.shape == b.shape and a.dtype == b.dtype
    return np.allclose(np.asarray(a, np.float64), np.asarray(b, np.float64), bound, bound)


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


CASES: dict[str, tuple[str, Any, tuple[Any, ...]]] = {
    "softmax": ("softmax", jax.nn.softmax, (normal(4, 33),)),
    "softmax bf16": ("softmax", jax.nn.softmax, (normal(4, 33, dtype="bfloat16"),)),
    "rmsnorm": ("rmsnorm", rms, (normal(5, 40), normal(40, seed=1), 1e-5)),
    "layer_norm": ("layer_norm", layer, (normal(6, 40), 1e-5, normal(40, seed=1), normal(40, seed=2))),
    "matmul": ("matmul", jnp.matmul, (normal(20, 24, dtype="float16"), normal(24, 16, dtype="float16"))),
}
"""Name → function, the same function in JAX, and arguments."""


@pytest.mark.parametrize("case", CASES)
def test_results_and_gradients_are_as_jax_s_own(case: str, device: str) -> None:
    name, theirs, args = CASES[case]
    ours, arrays = functions(device)[name], tuple(i for i, x in enumerate(args) if not isinstance(x, float))
    wanted = theirs(*args)
    g, bound = normal(*wanted.shape, dtype=wanted.dtype, seed=3), 2 * BOUNDS[str(wanted.dtype)]
    assert close(first(ours(*args)), wanted, bound) and close(first(jax.jit(ours)(*args)), wanted, bound)

    def loss(function: Any) -> Any:
        return jax.grad(lambda *args: (first(function(*args)) * g).astype("float32").sum(), arrays)

    right = loss(theirs)(*args)
    for found in (loss(ours)(*args), jax.jit(loss(ours))(*args), loss(jax.jit(ours))(*args)):
        assert all(close(a, b, 4 * bound) for a, b in zip(found, right, strict=True))


@pytest.mark.parametrize("name", ["softmax", "one by one"])
def test_vmap_folds_its_axis_or_launches_for_each_element(name: str, device: str) -> None:
    f, x, g = functions(device)[name], normal(3, 4, 33), normal(4, 33, seed=1)
    wanted = jax.nn.softmax(x)
    for axis in (0, 2):
        assert close(jax.vmap(f, axis, axis)(jnp.moveaxis(x, 0, axis)), jnp.moveaxis(wanted, 0, axis), 1e-6)
    assert close(jax.jit(jax.vmap(jax.vmap(f)))(x[None]), wanted[None], 1e-6)
    right = jax.vmap(jax.grad(lambda x: (jax.nn.softmax(x) * g).sum()))(x)
    assert close(jax.vmap(jax.grad(lambda x: (f(x) * g).sum()))(x), right, 1e-5)
    assert close(jax.grad(lambda x: (jax.vmap(f)(x) * g).sum())(x), right, 1e-5)


def test_vmap_launches_once_where_it_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    kind, launch = dsl.operators.spec.OperatorSpec, dsl.operators.spec.OperatorSpec.launch
    monkeypatch.setattr(kind, "launch", lambda *args: (counts.append(1), launch(*args))[1])
    x = normal(3, 4, 33)
    for name, count in (("softmax", 1), ("one by one", 3)):
        jax.block_until_ready(jax.vmap(functions("emulator")[name])(x))
        assert len(counts) == count
        counts.clear()


def test_vmap_shares_what_has_no_rows() -> None:
    x, w, rmsnorm = normal(3, 4, 33), normal(2, 33, seed=1), functions("emulator")["rmsnorm"]
    assert close(jax.vmap(lambda x: rmsnorm(x, w[0], 1e-5))(x), rms(x, w[0], 1e-5), 1e-5)
    with pytest.raises(RuntimeError, match="along 'weight', which has no 'rows'"):
        jax.vmap(lambda w: rmsnorm(x[0], w, 1e-5))(w)
    plain = dsl.jax.op(load("rmsnorm", "emulator").rmsnorm)
    assert close(jax.vmap(lambda w: plain(x[0], w, 1e-5))(w), jnp.stack([rms(x[0], v, 1e-5) for v in w]), 1e-5)


def test_gradients_of_gradients_need_a_python_function() -> None:
    def loss(f: Any) -> Any:
        return jax.grad(lambda a: jnp.square(jax.grad(lambda a: (f(a, a.T) ** 2).sum())(a)).sum())

    a = normal(4, 8, dtype="float16") / 8
    assert close(loss(functions("emulator")["matmul"])(a), loss(jnp.matmul)(a), 2e-2)


def test_pending_computations_and_eager_calls_do_not_wait_for_each_other() -> None:
    softmax, y = functions("emulator")["softmax"], normal(64, 2000)
    wanted, step = y, jax.jit(lambda y: functions("emulator")["softmax"](3 * y))
    for _ in range(5):
        y = softmax(step(y))
        wanted = jax.nn.softmax(jax.nn.softmax(3 * wanted))
    assert close(y, wanted, 1e-5)


def test_loops_call_it_and_differentiate_it() -> None:
    softmax, x, g = functions("emulator")["softmax"], normal(4, 33), normal(4, 33, seed=1)

    def loss(f: Any) -> Any:
        return jax.grad(lambda x: (jax.lax.scan(lambda c, _: (3 * f(c), None), x, None, length=3)[0] * g).sum())

    assert close(jax.jit(loss(softmax))(x), loss(jax.nn.softmax)(x), 1e-5)


def test_numbers_may_be_traced_unless_they_decide_a_shape() -> None:
    x, w, rmsnorm = normal(4, 33), normal(33, seed=1), functions("emulator")["rmsnorm"]
    assert close(jax.jit(rmsnorm)(x, w, 0.5), rms(x, w, 0.5), 1e-5)
    assert close(rmsnorm(x, weight=w, eps=jnp.float32(0.5)), rms(x, w, 0.5), 1e-5)
    with pytest.raises(RuntimeError, match="gives no gradient of 'eps', which requires one"):
        jax.grad(lambda eps: rmsnorm(x, w, eps).sum())(0.5)
    own = dsl.jax.op(load("rmsnorm", "emulator").rmsnorm, backward=lambda dy, eps: {"eps": 2 * eps})
    assert jax.grad(lambda eps: own(x, w, eps).sum())(0.5) == 1.0
    first_ones = dsl.jax.op(dsl.parse(FIRST, device="emulator").first)
    assert first_ones(x[0], 5).shape == (5,)
    assert jax.jit(first_ones, static_argnames="m")(x[0], m=5).shape == (5,)
    with pytest.raises(dsl.TileError, match="'m' decides the shape of an output of first") as caught:
        jax.jit(first_ones)(x[0], 5)
    assert caught.value.hint == "jax.jit(…, static_argnames='m')"


FIRST = """
kernel first(y: f32[k = m], x: f32[n], m: s32; B = 32):
    grid cdiv(k, B)
    i = block(0) * B
    y[i : i + B] = x[i : i + B]
"""
IN_PLACE = """
kernel twice(x: f32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    x[i : i + B] = x[i : i + B] * 2.0
"""


def test_only_gradients_that_are_needed_are_computed() -> None:
    op = functions("emulator")["layer_norm"]
    x, eps, w, b = CASES["layer_norm"][2]
    op.rule.compute.known.clear()
    jax.grad(lambda x: op(x, eps, w, b)[0].sum())(x)
    jax.grad(lambda x, w: op(x, eps, w, b)[0].sum(), (0, 1))(x, w)
    assert [*op.rule.compute.known] == [("dx",), ("dx", "w")]
    with pytest.raises(RuntimeError, match="takes no gradient of 'mean'"):
        jax.grad(lambda x: op(x, eps, w, b)[1].sum())(x)


def test_a_missing_gradient_is_an_error() -> None:
    """It would count as zero: what is before would be trained as if it were a constant."""
    rmsnorm, x, w = load("rmsnorm", "emulator").rmsnorm, normal(4, 33), normal(33)
    op = dsl.jax.op(rmsnorm, backward=lambda dy: {"x": dy})
    assert (jax.grad(lambda x: op(x, w, 1e-5).sum())(x) == 1).all()
    with pytest.raises(RuntimeError, match="gives no gradient of 'weight', which requires one"):
        jax.grad(lambda w: op(x, w, 1e-5).sum())(w)
    with pytest.raises(RuntimeError, match="rmsnorm has no gradient"):
        jax.grad(lambda x: dsl.jax.op(rmsnorm)(x, w, 1e-5).sum())(x)


def test_names_that_do_not_fit_are_errors() -> None:
    softmax = load("softmax", "emulator").softmax
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("writes no array 'z'", {"outputs": ("z",)}),
        ("no parameter, option or constant 'nix'", {"nix": 3}),
        ("takes 'q', which is neither an input nor an output", {"backward": lambda y, q: y}),
        ("gradients= maps the parameters of backward=", {"gradients": {"a": "y"}}),
        ("'cols' is no first dim of 'y'", {"vmap": "cols"}),
    ]
    for message, named in wrong:
        with pytest.raises(dsl.TileError, match=message):
            dsl.jax.op(softmax, **named)
    with pytest.raises(dsl.TileError, match="twice writes 'x'") as caught:
        dsl.jax.op(dsl.parse(IN_PLACE, device="emulator").twice)
    assert caught.value.hint and "arrays of JAX cannot be written" in caught.value.hint


def test_wrong_arguments_are_errors_of_the_trace() -> None:
    op = functions("emulator")["rmsnorm"]
    for call in (op, jax.jit(op)):
        with pytest.raises(dsl.TileError, match="'cols' is 33 in 'x', and 5 in 'weight'"):
            call(normal(4, 33), normal(5), 1e-5)
    with pytest.raises(dsl.TileError, match="takes 'x' as an array; got the list"):
        op([1.0], normal(5), 1e-5)


def test_a_plain_call_names_the_way_out() -> None:
    module, rmsnorm, x = load("softmax", "emulator"), load("rmsnorm", "emulator").rmsnorm, normal(4, 33)
    assert close(module.softmax(x), jax.nn.softmax(x), 1e-6)
    calls = [jax.jit(module.softmax), jax.vmap(module.softmax), jax.grad(lambda x: module.softmax(x).sum())]
    calls.append(jax.jit(lambda x: rmsnorm(np.ones((4, 33), "f4"), np.ones(33, "f4"), x[0, 0])))
    for call in calls:
        with pytest.raises(dsl.LaunchError, match="that JAX traces cannot be passed to a kernel") as caught:
            call(x)
        assert caught.value.hint and "dsl.jax.op(m.softmax)" in caught.value.hint


def test_the_examples_of_the_page_run() -> None:
    text = (ROOT / "docs" / "jax.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    run = subprocess.run([sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0 and len(blocks) > 1, run.stderr


UNSET = """
kernel total(y: f32[n = count], x: f32[m], count: s32; N):
    grid n
    y[block(0)] = sum(x[0 : 2 * N], axis=0)
"""


def test_mistakes_in_a_kernel_are_errors_of_the_trace() -> None:
    """Those of a callback are buried in XLA's own."""
    op = dsl.jax.op(dsl.parse(UNSET, device="emulator").total)
    with pytest.raises(dsl.TileError, match="constant 'N' is not set"):
        jax.jit(op, static_argnames="count")(jnp.ones(4), count=2)
    op = dsl.jax.op(dsl.parse(UNSET, device="emulator").total, N=2)
    assert jax.jit(op, static_argnames="count")(jnp.ones(4), count=2).tolist() == [4.0, 4.0]


def test_functions_can_be_copied_as_parts_of_a_network() -> None:
    op = functions("emulator")["softmax"]
    assert copy.deepcopy({"op": op})["op"] is op
