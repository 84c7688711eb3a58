"""Operators of torch: schema, gradients, fake outputs, compiled graphs with fixed and dynamic shapes, export, vmap."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import dsl
from dsl.examples.shapes import UNKNOWN, examine
from dsl.runtime.dtypes import DTYPES
from dsl.values.facts import ArrayFacts

torch = pytest.importorskip("torch")
opcheck = torch.library.opcheck
import torch._dynamo.testing  # noqa: E402 (no attribute of torch until it is imported)

import dsl.torch  # noqa: E402

ROOT = Path(__file__).parents[2]
F = torch.nn.functional
Op = Any


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@cache
def load(name: str, device: str) -> dsl.Module:
    return dsl.load(ROOT / "samples" / f"{name}.tile", device=device)


def rms_backward(dy: Any, x: Any, weight: Any, eps: float) -> dict[str, Any]:
    v, g = x.float(), (dy * weight).float()
    r = torch.rsqrt(v.square().mean(1, keepdim=True) + eps)
    dx = r * g - v * r**3 * (g * v).mean(1, keepdim=True)
    return {"x": dx.to(x.dtype), "weight": (dy.float() * v * r).sum(0).to(weight.dtype)}


@cache
def operators(device: str) -> dict[str, Op]:
    """The operators of this file, on a device."""
    op, space = dsl.torch.op, f"dsl_tests_{device}"
    norm, products = load("layer_norm", device), load("matmul", device)
    attention, backward = load("attention", device).attention, load("attention_backward", device).attention_backward
    matmul = op(products.matmul, f"{space}::matmul", backward=lambda dc, a, b: (matmul(dc, b.T), matmul(a.T, dc)))

    def linear_backward(dc: Any, a: Any, b: Any, bias: Any) -> dict[str, Any]:
        return {"a": matmul(dc, b.T), "b": matmul(a.T, dc), "bias": dc.sum(0), "residual": dc}

    epilogue = {"scale": None, "row_scale": None, "gain": 1.0}
    gradients = {"w": "weight", "b": "bias"}
    softmax_backward = load("softmax_backward", device).softmax_backward
    return {
        "softmax": op(load("softmax", device).softmax, f"{space}::softmax", backward=softmax_backward, vmap="rows"),
        "rmsnorm": op(load("rmsnorm", device).rmsnorm, f"{space}::rmsnorm", backward=rms_backward, vmap="rows"),
        "layer_norm": op(
            norm.layer_norm,
            f"{space}::layer_norm",
            outputs=("y", "mean", "rstd"),
            backward=norm.layer_norm_backward,
            gradients=gradients,
        ),
        "matmul": matmul,
        "linear": op(products.linear, f"{space}::linear", backward=linear_backward, **epilogue),
        "silu": op(products.linear, f"{space}::silu", residual=None, ACT="silu", O="f32", **epilogue),
        "attention": op(
            attention,
            f"{space}::attention",
            outputs=("o", "lse"),
            backward=backward,
            gradients={"g": "o"},
            vmap="batch",
            CAUSAL=True,
        ),
    }


def where(device: str) -> str:
    return "cpu" if device == "emulator" else "cuda"


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def scaled_attention(q: Any, k: Any, v: Any, scale: float) -> Any:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=True)


def half(*shape: int) -> Any:
    return torch.randn(shape).half()


CASES: dict[str, tuple[str, Callable[..., Any], Callable[[], tuple[Any, ...]], float]] = {
    "softmax": ("softmax", lambda x: torch.softmax(x, 1), lambda: (torch.randn(4, 33),), 1e-6),
    "softmax bf16": ("softmax", lambda x: torch.softmax(x, 1), lambda: (torch.randn(4, 33).bfloat16(),), 2e-2),
    "rmsnorm": (
        "rmsnorm",
        lambda x, w, eps: F.rms_norm(x, x.shape[1:], w, eps),
        lambda: (torch.randn(5, 40), torch.randn(40), 1e-5),
        1e-5,
    ),
    "layer_norm": (
        "layer_norm",
        lambda x, eps, w, b: F.layer_norm(x, x.shape[1:], w, b, eps),
        lambda: (torch.randn(6, 40), 1e-5, torch.randn(40), torch.randn(40)),
        1e-5,
    ),
    "layer_norm plain": (
        "layer_norm",
        lambda x, eps: F.layer_norm(x, x.shape[1:], None, None, eps),
        lambda: (torch.randn(6, 40), 1e-5),
        1e-5,
    ),
    "matmul": ("matmul", torch.matmul, lambda: (half(20, 24), half(24, 16)), 2e-2),
    "linear": (
        "linear",
        lambda a, b, bias, residual: a @ b + bias + residual,
        lambda: (half(20, 24), half(24, 16), half(16), half(20, 16)),
        2e-2,
    ),
    "attention": (
        "attention",
        scaled_attention,
        lambda: (half(1, 2, 16, 16), half(1, 1, 16, 16), half(1, 1, 16, 16), 0.25),
        1e-2,
    ),
}
"""Name → operator, the same function of torch, arguments, and bound of the differences."""


def arguments(case: str, device: str) -> tuple[Any, ...]:
    made = CASES[case][2]()
    return tuple(x.to(where(device)).requires_grad_() if isinstance(x, torch.Tensor) else x for x in made)


def check_gradients(ours: Callable[..., Any], theirs: Callable[..., Any], args: tuple[Any, ...], bound: float) -> None:
    """Results and the gradients of all tensors are as torch's own."""
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    y, wanted = first(ours(*args)), theirs(*args)
    g = torch.randn_like(wanted)
    assert y.dtype == wanted.dtype and torch.allclose(y, wanted, bound, bound)
    for found, right in zip(torch.autograd.grad(y, tensors, g), torch.autograd.grad(wanted, tensors, g), strict=True):
        assert found.dtype == right.dtype and torch.allclose(found, right, bound, 4 * bound)


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_as_torch_s_own(case: str, device: str) -> None:
    name, theirs, _, bound = CASES[case]
    check_gradients(operators(device)[name], theirs, arguments(case, device), bound)


@pytest.mark.parametrize("case", CASES)
def test_torch_s_own_check_of_operators_passes(case: str, device: str) -> None:
    results = opcheck(operators(device)[CASES[case][0]], arguments(case, device))
    assert {*results.values()} == {"SUCCESS"} and len(results) == 4


@pytest.mark.parametrize("case", CASES)
def test_whole_graphs_are_compiled_with_their_backward_passes(case: str, device: str) -> None:
    name, theirs, _, bound = CASES[case]
    op = operators(device)[name]
    compiled = torch.compile(lambda *args: first(op(*args)) * 2, fullgraph=True, backend="aot_eager")
    check_gradients(compiled, lambda *args: theirs(*args) * 2, arguments(case, device), 2 * bound)


def shapes(case: str, by: int) -> tuple[Any, ...]:
    """The arguments with other extents: each extent of 16 and more grows."""
    return tuple(
        x.new_empty([n + by if n >= 16 else n for n in x.shape]).normal_() if isinstance(x, torch.Tensor) else x
        for x in CASES[case][2]()
    )


@pytest.mark.parametrize("case", [case for case in CASES if case != "layer_norm plain"])
def test_one_graph_serves_all_shapes(case: str) -> None:
    name, theirs, _, bound = CASES[case]
    op, counter = operators("emulator")[name], torch._dynamo.testing.CompileCounter()
    compiled = torch.compile(lambda *args: first(op(*args)), fullgraph=True, dynamic=True, backend=counter)
    for by in (0, 8, 24):
        args = shapes(case, by)
        assert torch.allclose(compiled(*args), theirs(*args), bound, bound)
    assert counter.frame_count == 1


@pytest.mark.parametrize("case", CASES)
def test_operators_are_exported_with_dynamic_shapes(case: str) -> None:
    name, theirs, _, bound = CASES[case]
    op = operators("emulator")[name]

    class Net(torch.nn.Module):
        def forward(self, *args: Any) -> Any:
            return first(op(*args))

    args, auto = CASES[case][2](), torch.export.Dim.AUTO
    dims = [{i: auto for i, n in enumerate(x.shape) if n > 1} if isinstance(x, torch.Tensor) else None for x in args]
    exported = torch.export.export(Net(), args, dynamic_shapes=(tuple(dims),))
    other = shapes(case, 8)
    assert torch.allclose(exported.module()(*other), theirs(*other), bound, bound)


@pytest.mark.filterwarnings("ignore:Input #0 requires gradient and is not a double")
def test_gradients_are_the_differences_of_results() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    assert torch.autograd.gradcheck(operators("emulator")["softmax"], (x,), eps=1e-2, atol=1e-3, rtol=1e-2)


def test_an_epilogue_and_a_type_are_fixed(device: str) -> None:
    silu = operators(device)["silu"]
    a, b, bias = (x.to(where(device)) for x in (half(20, 24), half(24, 16), half(16)))
    y = silu(a, b, bias)
    assert y.dtype == torch.float32
    assert torch.allclose(y, F.silu(a.float() @ b.float() + bias), 1e-2, 1e-2)
    assert {*opcheck(silu, (a, b, bias)).values()} == {"SUCCESS"}
    assert str(silu._opoverload._schema).endswith("silu(Tensor a, Tensor b, Tensor? bias=None) -> Tensor")


def saved_by(op: Op, *args: Any) -> list[Any]:
    found: list[Any] = []

    def keep(x: Any) -> Any:
        found.append(x)
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        op(*args)
    return found


def test_what_the_backward_function_names_is_saved_and_nothing_else() -> None:
    made = operators("emulator")
    (x,) = arguments("softmax", "emulator")
    (y,) = saved_by(made["softmax"], x)
    assert torch.allclose(y, torch.softmax(x, 1))
    x, w, eps = arguments("rmsnorm", "emulator")
    assert [each.shape for each in saved_by(made["rmsnorm"], x, w, eps)] == [x.shape, w.shape]
    a, b, bias, residual = arguments("linear", "emulator")
    assert [each.shape for each in saved_by(made["linear"], a, b, bias, residual)] == [a.shape, b.shape, bias.shape]


def test_only_gradients_that_are_needed_are_computed() -> None:
    """Sums over rows for weight and bias took as long as the gradient of x."""
    op = operators("emulator")["layer_norm"]
    x, eps, w, b = arguments("layer_norm", "emulator")
    asked: list[str] = []
    with Recorder(asked):
        op(x, eps, w.detach(), b.detach())[0].sum().backward()
        op(x, eps, w, b.detach())[0].sum().backward()
        op(x, eps, w, b)[0].sum().backward()
    names = [name.partition("::")[2] for name in asked if "backward" in name]
    assert names == ["layer_norm_backward_dx", "layer_norm_backward_dx_w", "layer_norm_backward"]


def test_backward_operators_are_known_before_a_backward_pass() -> None:
    """A graph from the cache of torch.compile names them, and is run first."""
    norms = load("layer_norm", "emulator")
    outputs, gradients = ("y", "mean", "rstd"), {"w": "weight", "b": "bias"}
    dsl.torch.op(
        norms.layer_norm, "dsl_tests_early::norm", outputs=outputs, backward=norms.layer_norm_backward,
        gradients=gradients,
    )  # fmt: skip
    names = {f"norm_backward{end}" for end in ("", "_dx", "_dx_w", "_dx_b")}
    assert all(hasattr(torch.ops.dsl_tests_early, name) for name in names)


class Recorder(torch.utils._python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """Records the names of the operators of this file that are called."""

    def __init__(self, asked: list[str]):
        super().__init__()
        self.asked = asked

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace.startswith("dsl_tests"):
            self.asked.append(func._schema.name)
        return func(*args, **(kwargs or {}))


# ---- vmap ----


def test_vmap_folds_its_axis_into_rows(device: str) -> None:
    made, place = operators(device), where(device)
    x, w = torch.randn(3, 4, 33, device=place), torch.randn(33, device=place)
    wanted = torch.softmax(x, 2)
    for axis in range(3):
        found = torch.vmap(made["softmax"], in_dims=axis, out_dims=axis)(x.movedim(0, axis))
        assert torch.allclose(found.movedim(axis, 0), wanted)
    found = torch.vmap(lambda x: made["rmsnorm"](x, w, 1e-5))(x)
    assert torch.allclose(found, F.rms_norm(x, (33,), w, 1e-5), 1e-5, 1e-5)
    a, b = half(3, 4, 8).to(place), half(8, 4).to(place)
    product = dsl.torch.op(load("matmul", device).matmul, "dsl_tests::folded", vmap="m")
    assert torch.allclose(torch.vmap(lambda a: product(a, b))(a), a @ b, 1e-2, 1e-2)
    assert torch.vmap(made["softmax"])(x[:, :0]).shape == (3, 0, 33)
    q, k = (half(3, 1, n, 16, 16).to(place) for n in (2, 1))
    found, _ = torch.vmap(lambda q: made["attention"](q, k[0], k[0], 0.25))(q)  # k is the same for all
    assert torch.allclose(found, torch.stack([scaled_attention(each, k[0], k[0], 0.25) for each in q]), 1e-2, 1e-2)


def test_vmap_along_what_has_no_rows_is_an_error() -> None:
    x, w = torch.randn(4, 33), torch.randn(3, 33)
    with pytest.raises(RuntimeError, match="along 'weight', which has no 'rows'"):
        torch.vmap(lambda w: operators("emulator")["rmsnorm"](x, w, 1e-5))(w)
    softmax = load("softmax", "emulator").softmax
    with pytest.raises(dsl.TileError, match="'cols' is no first dim of 'y'"):
        dsl.torch.op(softmax, "dsl_tests::wrong", vmap="cols")
    with pytest.raises(dsl.TileError, match="the output 'y' has no 'cols'"):
        dsl.torch.op(load("reduce", "emulator").rows, "dsl_tests::wrong", vmap="cols")


# ---- memory ----

IN_PLACE = """
kernel twice(x: f32[n]; B = 32):
    grid cdiv(n, B)
    i = block(0) * B
    x[i : i + B] = x[i : i + B] * 2.0
"""


def test_written_inputs_are_in_the_schema(device: str) -> None:
    module = dsl.parse(IN_PLACE, device=device)
    with pytest.raises(dsl.TileError, match="twice writes 'x'") as caught:
        dsl.torch.op(module.twice, "dsl_tests::twice")
    assert caught.value.hint == "to write an array that the caller passes, name it in mutates=('x',)"
    twice = dsl.torch.op(module.twice, "dsl_tests::twice", mutates=("x",))
    assert str(twice._opoverload._schema) == "dsl_tests::twice(Tensor(a0!) x) -> ()"
    x = torch.ones(40, device=where(device))
    before = x._version
    assert twice(x) is None and (x == 2).all() and x._version > before
    assert {*opcheck(twice, (x,)).values()} == {"SUCCESS"}
    compiled = torch.compile(lambda x: (twice(x), x + 1)[1], fullgraph=True, backend="aot_eager")
    assert (compiled(x) == 5).all() and (x == 4).all()
    with pytest.raises(dsl.TileError, match="in place, so it has no gradient"):
        dsl.torch.op(module.twice, "dsl_tests::twice", mutates=("x",), backward=lambda x: x)


def test_inputs_are_copied_only_if_that_is_asked(device: str) -> None:
    softmax, x = load("softmax", device).softmax, torch.randn(33, 4, device=where(device)).T
    with pytest.raises(dsl.LaunchError, match="not row-major"):
        dsl.torch.op(softmax, "dsl_tests::rows_only")(x)
    copying = dsl.torch.op(softmax, "dsl_tests::copying", contiguous=True)
    assert torch.allclose(copying(x), torch.softmax(x, 1))
    a = half(24, 20).to(where(device)).T  # a strided parameter takes the view as it is
    assert operators(device)["matmul"](a, a.T).shape == (20, 20)


def test_gradients_that_torch_expands_are_taken() -> None:
    """That of a sum is one element with strides of 0: a function of a module gets a copy, unless it takes views."""
    x = torch.randn(4, 33, requires_grad=True)
    operators("emulator")["softmax"](x).sum().backward()
    assert x.grad is not None and x.grad.abs().max() < 1e-6
    a, b = (half(*shape).requires_grad_() for shape in ((4, 8), (8, 4)))
    found = torch.autograd.grad(operators("emulator")["matmul"](a, b).sum(), (a, b))
    assert all(map(torch.equal, found, torch.autograd.grad((a @ b).sum(), (a, b))))


def test_heads_of_a_packed_array_are_taken_as_they_lie() -> None:
    x = half(1, 16, 2, 16).requires_grad_()
    heads = x.transpose(1, 2)
    o, _ = operators("emulator")["attention"](heads, heads, heads, 0.25)
    wanted = scaled_attention(heads, heads, heads, 0.25)
    (found,), (right,) = (torch.autograd.grad(y.sum(), x) for y in (o, wanted))
    assert torch.allclose(o, wanted, 1e-2, 1e-2) and torch.allclose(found, right, 1e-2, 2e-2)


def test_outputs_of_known_shapes_are_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shapes of outputs took 80 us of each call."""
    softmax = load("softmax", "emulator").softmax
    op = dsl.torch.op(softmax, "dsl_tests::known")
    x = torch.randn(4, 33)
    wanted = op(x)
    monkeypatch.setattr(type(softmax), "outputs_of", lambda *_: pytest.fail("asked again"))
    assert torch.equal(op(x), wanted)
    with pytest.raises(pytest.fail.Exception, match="asked again"):
        op(torch.randn(4, 34))


def test_all_functions_of_the_samples_are_operators_with_shapes() -> None:
    """29 of 54 launches of their examples had right fakes: types and shapes of outputs did not follow."""
    operator_of, count = {}, 0
    for path in sorted((ROOT / "samples").glob("*.tile")):
        module = load(path.stem, "emulator")
        for launch in (
            each for example in module.program.examples for each in examine(module.program, example).launches
        ):
            function, given = module[launch.line.name], launch.arguments
            if any(given.get(p) is UNKNOWN for p in function.params):
                continue
            if (name := f"dsl_tests_all::{path.stem}_{function.name}") not in operator_of:
                operator_of[name] = dsl.torch.op(function, name)
            names = [each.name for each in operator_of[name]._opoverload._schema.arguments]
            found = operator_of[name](*(meta(given.get(p)) for p in names))
            wanted = [given[p].shape for p in function.signature.outputs]
            assert [tuple(y.shape) for y in (found if isinstance(found, tuple) else (found,))] == wanted, name
            count += 1
    assert count > 50 and len(operator_of) > 35


def meta(value: Any) -> Any:
    if not isinstance(value, ArrayFacts):
        return value
    return torch.empty(value.shape, dtype=getattr(torch, DTYPES[value.dtype].numpy), device="meta")


# ---- what is not there ----


def test_a_missing_gradient_is_an_error() -> None:
    """It would count as zero: what is before would be trained as if it were a constant."""
    rmsnorm = load("rmsnorm", "emulator").rmsnorm
    op = dsl.torch.op(rmsnorm, "dsl_tests::partial", backward=lambda dy, x: {"x": dy})
    x, w = torch.randn(4, 16, requires_grad=True), torch.randn(16)
    op(x, w, 1e-5).sum().backward()
    with pytest.raises(RuntimeError, match="gives no gradient of 'weight', which requires one"):
        op(x, w.requires_grad_(), 1e-5).sum().backward()
    op = dsl.torch.op(rmsnorm, "dsl_tests::partial", backward=lambda dy: dy)
    with pytest.raises(RuntimeError, match="gives 1 gradient for 2 arrays: x, weight"):
        op(x, w, 1e-5).sum().backward()
    with pytest.raises(RuntimeError, match="dsl_tests::without has no gradient: dsl"):
        dsl.torch.op(rmsnorm, "dsl_tests::without")(x, w, 1e-5).sum().backward()
    lse = operators("emulator")["attention"](*arguments("attention", "emulator"))[1]
    assert not lse.requires_grad


def test_names_that_do_not_fit_are_errors() -> None:
    softmax, op = load("softmax", "emulator").softmax, dsl.torch.op
    backward = load("attention_backward", "emulator").attention_backward
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("writes no array 'z'", {"outputs": ("z",)}),
        ("no parameter, option or constant 'nix'", {"nix": 3}),
        ("takes 'q', which is neither an input nor an output", {"backward": lambda y, q: y}),
        ("gives 'dq', which is neither", {"backward": backward}),
        ("has no parameter 'a'", {"backward": lambda y, dy: y, "gradients": {"a": "y"}}),
        ("gradients= maps the parameters of backward=", {"gradients": {"a": "y"}}),
    ]
    for message, named in wrong:
        with pytest.raises(dsl.TileError, match=message):
            op(softmax, "dsl_tests::wrong", **named)
    with pytest.raises(dsl.TileError, match="no name like 'softmax'"):
        op(softmax, "softmax")
    with pytest.raises(dsl.TileError, match="takes a function of a module"):
        op(load("softmax", "emulator"), "dsl_tests::wrong")  # type: ignore[arg-type]


def test_wrong_shapes_are_errors_of_the_trace() -> None:
    rmsnorm = operators("emulator")["rmsnorm"]
    x, w = torch.randn(4, 16), torch.randn(15)
    with pytest.raises(dsl.TileError, match="'cols' is 16 in 'x', and 15 in 'weight'"):
        rmsnorm(x.to("meta"), w.to("meta"), 1e-5)
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="'cols' is 16 in 'x', and 15 in 'weight'"):
        torch.compile(lambda x, w: rmsnorm(x, w, 1e-5), fullgraph=True, backend="eager")(x, w)


def test_a_network_that_holds_a_function_is_copied() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.softmax, self.layer = load("softmax", "emulator").softmax, torch.nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            return self.softmax(self.layer(x).detach())

    net, x = Net(), torch.randn(2, 4)
    other = copy.deepcopy(net)
    assert torch.equal(other(x), net(x)) and other.softmax.module is not net.softmax.module


# ---- a plain call in a compiled function ----


def test_a_plain_call_breaks_the_graph() -> None:
    module = dsl.load(ROOT / "samples" / "softmax.tile", device="emulator")
    x, counters = torch.randn(4, 33), torch._dynamo.utils.counters
    counters.clear()
    compiled = torch.compile(lambda x: module.softmax(x * 2) + 1, backend="eager")
    for _ in range(2):
        assert torch.allclose(compiled(x), torch.softmax(x * 2, 1) + 1)
    assert counters["frames"]["total"] < 12  # of 706, numpy's among them
    with pytest.raises(torch._dynamo.exc.Unsupported, match=r"dsl\.torch\.op"):
        torch.compile(lambda x: module.softmax(x * 2) + 1, backend="eager", fullgraph=True)(x)


# ---- the page ----


def test_the_examples_of_the_pages_run() -> None:
    for page in ("torch.md", "python.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        code = "import os, torch\nx = torch.randn(4, 50)\n" + "\n".join(blocks)
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
        assert run.returncode == 0 and len(blocks) > 1, run.stderr


@pytest.mark.gpu
def test_a_graph_gives_the_bits_of_its_calls_after_10000_replays() -> None:
    """Layers with workspaces, aligned copies of odd operands, several launches and TMA, in one captured graph."""
    made = operators("cuda")
    torch.manual_seed(3)
    x, odd = torch.randn(256, 512, device="cuda").half(), torch.randn(512, 387, device="cuda").half()
    w, b, weight = (torch.randn(each, device="cuda").half() for each in ((512,), (512,), (512, 1536)))

    def layers() -> tuple[Any, ...]:
        y = made["layer_norm"](x, 1e-5, w, b)[0]
        q, k, v = made["matmul"](y, weight / 23).view(1, 256, 3, 8, 64).permute(2, 0, 3, 1, 4)
        o = made["attention"](q, k, v, 0.125)[0].transpose(1, 2).reshape(256, 512)
        return o, made["softmax"](made["matmul"](o, odd))

    layers()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        found = layers()
    for _ in range(20):
        x.normal_()
        for _ in range(500):
            graph.replay()
        for result, wanted in zip(found, layers(), strict=True):
            assert torch.isfinite(result).all() and torch.equal(result, wanted)


def test_names_of_outputs_may_be_one_text() -> None:
    module = load("layer_norm", "emulator")
    x = torch.randn(3, 20)
    one = dsl.torch.op(module.layer_norm, "dsl_tests::one_name", outputs="mean", y=torch.empty(3, 20))
    assert torch.allclose(one(x, 1e-5, None, None), x.mean(1), atol=1e-6)
    with pytest.raises(dsl.TileError, match="writes no array 'men'"):
        dsl.torch.op(module.layer_norm, "dsl_tests::one_name", outputs="men")


def test_a_gradient_of_no_input_is_an_error() -> None:
    """A misspelt name is not dropped, also where the other names suffice."""
    op = dsl.torch.op(
        load("rmsnorm", "emulator").rmsnorm, "dsl_tests::misspelt", backward=lambda dy: {"x": dy, "w": dy}
    )
    with pytest.raises(RuntimeError, match="gives a gradient of 'w'; its inputs are x, weight, eps"):
        op(torch.randn(4, 16, requires_grad=True), torch.randn(16), 1e-5).sum().backward()


def test_forward_mode_is_refused() -> None:
    """Torch hides the tangents of `torch.func.jvp` from an operator, and would return zeros."""
    op = operators("emulator")["softmax"]
    x = torch.randn(3, 8)
    for transform in (lambda: torch.func.jvp(op, (x,), (x,)), lambda: torch.func.jacfwd(op)(x)):
        with pytest.raises(NotImplementedError, match="has no forward mode"):
            transform()
    with torch.autograd.forward_ad.dual_level(), pytest.raises(dsl.LaunchError, match="cannot be passed"):
        op(torch.autograd.forward_ad.make_dual(x, x))
    assert torch.allclose(op(x), torch.softmax(x, 1), atol=1e-6)


def test_networks_that_hold_an_operator_can_be_copied() -> None:
    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.norm = torch.nn.Parameter(torch.ones(16)), operators("emulator")["rmsnorm"]

        def forward(self, x: Any) -> Any:
            return self.norm(x, self.weight, 1e-5)

    network = Network()
    again = copy.deepcopy(network)
    assert again.norm is network.norm and again.weight is not network.weight
    again.load_state_dict(network.state_dict())
    x = torch.randn(4, 16)
    assert torch.equal(again(x), network(x))


def test_messages_name_what_the_caller_passed() -> None:
    module = load("rmsnorm", "emulator")
    with pytest.raises(dsl.TileError, match="'T' is f16 in 'x', and f32 in 'weight'") as caught:
        module.rmsnorm(torch.ones(2, 16).half(), torch.ones(16), 1e-5)
    assert "a type of its own" in str(caught.value.hint)
    folded = operators("emulator")["softmax"]
    with pytest.raises(dsl.TileError, match="has rank 2; each element of the vmap has rank 1"):
        torch.vmap(folded)(torch.randn(4, 8))
