"""An iteration starts a product of the one before, which tensor cores compute beside the next operand (`delay`)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.location import TileError
from tests.compile_and_run import compile_kernel, launch

TEXT = """
kernel attend(o: f16[heads, s, d], q: f16[heads, s, d], k: f16[t, d], v: f16[t, d], n: s32; D, TM = 64, TN = 64):
    grid cdiv(s, TM), heads
    i, head = block(0) * TM, block(1)
    qs = q[head, i : i + TM, 0 : D]
    m, l, acc = full(f32[TM], -3e38), zeros(f32[TM]), zeros(f32[TM, D])
    for j in range(0, n, TN):
        x = dot(qs, k[j : j + TN, 0 : D].T)
        seen = j + arange(TN)[None, :] < n
        x = where(seen, x, -inf)
        top = maximum(m, max(x, axis=1))
        e, shrink = exp(x - top[:, None]), exp(m - top)
        m, l = top, l * shrink + sum(e, axis=1)
        acc = dot(e.to(f16), v[j : j + TN, 0 : D], acc * shrink[:, None])
    o[head, i : i + TM, 0 : D] = (acc / maximum(l, 1e-30)[:, None]).to(f16)

schedule s of attend:
    D, warps = next_pow2(d), TM / 16
    instruction x, acc: wgmma
"""


def arrays(s: int, n: int, d: int) -> tuple[dict[str, Any], np.ndarray]:
    """The arguments, with 200 keys of which n are seen, and the result."""
    random = np.random.default_rng(s + n)
    q, k, v = (random.standard_normal(shape).astype(np.float16) for shape in ((2, s, d), (200, d), (200, d)))
    args = {"o": np.full_like(q, np.nan), "q": q / np.float16(8), "k": k, "v": v, "n": n}
    e = np.exp(args["q"].astype(np.float64) @ k[:n].T.astype(np.float64))
    return args, e @ v[:n] / np.maximum(e.sum(-1, keepdims=True), 1e-30)


def products_of_loops(function: Function) -> list[list[str]]:
    """The products in each loop, in order."""
    loops = [op.regions[0] for op in walk(function.body) if op.spec.control.counters]
    return [names for body in loops if (names := [op.result.name or "" for op in body.ops if op.spec.wgmma])]


MORE = {
    "two groups": "    TM = 128\n",
    "blocks that go on": "    persistent 1\n",
    "one stage": "    pipeline j: 1\n",
    "a cluster": "    cluster 2\n",
    "with masks for all": "    choose pass.peel: off\n",
}


@pytest.mark.parametrize(("n", "more"), [(0, ""), (40, ""), (64, ""), (130, ""), *((200, name) for name in MORE)])
def test_results_are_numpys_after_any_number_of_iterations(n: int, more: str) -> None:
    args, wanted = arrays(140, n, 128)
    kernel = compile_kernel(TEXT + "    delay acc\n" + MORE.get(more, ""), args, arch="sm_90a")
    launch(kernel, args)
    assert np.abs(args["o"] - wanted).max() < 2e-3
    assert ["x", "acc"] in products_of_loops(kernel.variant.function)


@pytest.mark.parametrize("n", [0, 40, 130])
def test_loops_may_count_down(n: int) -> None:
    args, wanted = arrays(64, n, 128)
    text = TEXT.replace("range(0, n, TN)", "range((n - 1) // TN * TN, -1, 0 - TN)") + "    delay acc\n"
    launch(compile_kernel(text, args, arch="sm_90a"), args)
    assert np.abs(args["o"] - wanted).max() < 2e-3


NEST = """
kernel nest(o: f32[s, d], q: f16[s, d], k: f16[t, d], v: f16[t, d], w: f16[u, d], z: f16[u, t]; D = 64, TN = 64):
    grid 1
    qs, acc = q[0 : 64, 0 : D], zeros(f32[64, D])
    for j in range(0, t, TN):
        x, y = dot(qs, k[j : j + TN, 0 : D].T), zeros(f32[64, TN])
        for p in range(0, u, TN):
            h = dot(qs, w[p : p + TN, 0 : D].T)
            y = dot(maximum(h, 0.0).to(f16), z[p : p + TN, j : j + TN], y)
        e = x * y
        acc = dot(e.to(f16), v[j : j + TN, 0 : D], acc)
    o[0 : 64, 0 : D] = acc

schedule s of nest:
    warps = 4
    instruction x, h, y, acc: wgmma
    stage q: shared
"""


def nest(more: str) -> Function:
    """Checks the result of a loop within a loop, both of which have a product to delay."""
    random, f = np.random.default_rng(0), np.float64
    shapes = {"q": (64, 64), "k": (192, 64), "v": (192, 64), "w": (128, 64), "z": (128, 192)}
    args: dict[str, Any] = {n: (random.standard_normal(each) / 4).astype(np.float16) for n, each in shapes.items()}
    args["o"] = np.zeros((64, 64), np.float32)
    kernel = compile_kernel(NEST + more, args, arch="sm_90a")
    launch(kernel, args)
    h = np.maximum(args["q"].astype(f) @ args["w"].T.astype(f), 0)
    wanted = (args["q"].astype(f) @ args["k"].T.astype(f)) * (h @ args["z"].astype(f)) @ args["v"].astype(f)
    assert np.abs(args["o"] - wanted).max() < 2e-2
    return kernel.variant.function


def test_a_loop_within_a_delayed_loop_may_be_delayed_too() -> None:
    """The first iteration of the outer loop stands in a branch: it has a loop of its own."""
    delayed = nest("    delay acc, y\n    pipeline j, p: 2\n")
    assert products_of_loops(delayed).count(["h", "y"]) == 2


def test_the_only_stage_is_not_kept_while_a_loop_inside_copies() -> None:
    """Deadlock: the producer would wait for the stage of `v`, ahead of copies of `w`. The consumer would wait for `w`
    ahead of the delayed product, which reads `v`."""
    assert "delay.acc" not in {choice.stem for choice in nest("    pipeline j: 1\n").choices.made}
    with pytest.raises(TileError, match="a loop inside has copies, too, and the pipeline has one stage"):
        nest("    pipeline j: 1\n    delay acc\n")


@pytest.mark.parametrize(("d", "is_delayed"), [(64, False), (128, True), (256, True)])
def test_products_of_wide_heads_are_delayed_by_themselves(d: int, is_delayed: bool) -> None:
    args, wanted = arrays(64, 130, d)
    kernel = compile_kernel(TEXT, args, arch="sm_90a")
    (made,) = [choice for choice in kernel.variant.function.choices.made if choice.kind == "delay"]
    assert (made.taken == "on") == is_delayed
    launch(kernel, args)
    assert np.abs(args["o"] - wanted).max() < 2e-3


def test_exponentials_stand_ahead_of_the_wait_for_the_delayed_product() -> None:
    """A second `mbarrier.try_wait` keeps ptxas from moving that wait ahead of them."""
    kernel = compile_kernel(TEXT, arrays(64, 130, 128)[0], arch="sm_90a")
    loop = kernel.ptx[: kernel.ptx.rindex("wgmma.wait_group.sync.aligned 1")]
    steps = re.findall(r"wait_group\.sync\.aligned \d|ex2|try_wait", kernel.ptx[len(loop) :])
    assert steps[0] == "wait_group.sync.aligned 1"
    assert steps[1 : steps.index("wait_group.sync.aligned 0")] == ["ex2"] * (steps.count("ex2")) + ["try_wait"]


def test_the_delayed_product_starts_ahead_of_another_one_of_the_operand() -> None:
    """Behind it, no product would run while warps compute the operand."""
    args, wanted = arrays(64, 130, 128)
    product = "acc = dot(e.to(f16), v[j : j + TN, 0 : D], acc * shrink[:, None])"
    more = product.replace("acc", "more").replace("v[", "u[")
    text = TEXT.replace(product, f"{product}\n        {more}").replace("x, acc:", "x, acc, more:")
    text = text.replace("m, l, acc = ", "more = zeros(f32[TM, D])\n    m, l, acc = ")
    text = text.replace("(acc /", "((acc + more) /")
    args["u"] = -args["v"] / 2
    kernel = compile_kernel(text.replace("v: f16[t, d]", "v: f16[t, d], u: f16[t, d]"), args, arch="sm_90a")
    assert ["x", "more", "acc"] in products_of_loops(kernel.variant.function)
    launch(kernel, args)
    assert np.abs(args["o"] - wanted / 2).max() < 2e-3


SHARED = {
    "x = dot(qs, k[j : j + TN, 0 : D].T)": "w = k[j : j + TN, 0 : D]; x = dot(qs, w.T)",
    "v[j : j + TN, 0 : D]": "w",
}
CANNOT = "'{}' cannot start in the next iteration: "


@pytest.mark.parametrize(
    ("changes", "name", "message"),
    [
        ({}, "x", CANNOT + "its left operand is computed from no other product of the iteration"),
        ({}, "nothing", "kernel 'attend' has no value '{}'"),
        (SHARED, "acc", CANNOT + "something else reads its right operand"),
        ({"wgmma": "mma.sync.m16n8k16"}, "acc", CANNOT + "it is no wgmma in a loop with TMA copies"),
    ],
)
def test_what_cannot_be_delayed_is_an_error_at_its_line(changes: dict[str, str], name: str, message: str) -> None:
    text = f"{TEXT}    delay {name}\n"
    for old, new in changes.items():
        text = text.replace(old, new.replace("; ", "\n        "))
    with pytest.raises(TileError, match=message.format(name)) as caught:
        compile_kernel(text, arrays(64, 130, 128)[0], arch="sm_90a")
    assert caught.value.loc is not None and text.splitlines()[caught.value.loc.line - 1] == f"    delay {name}"


INSIDE = """
kernel k(o: f32[h, s, 128], q: f16[h, s, 128], k: f16[h, t, 128], v: f16[h, t, 128]):
    grid cdiv(s, 128)
    i = block(0) * 128
    for z in range(h):
        qs, acc = q[z, i : i + 128, 0 : 128], zeros(f32[128, 128])
        for j in range(0, t, 32):
            x = dot(qs, k[z, j : j + 32, 0 : 128].T)
            acc = dot(clamp(x, -4, 4).to(f16), v[z, j : j + 32, 0 : 128], acc)
        o[z, i : i + 128, 0 : 128] = acc

schedule s of k:
    warps = 8
    stage k, v: tma
    stage q: shared
    instruction x, acc: wgmma
    pipeline j: 1
    pipeline z: 3
    persistent 1
"""


def test_loops_that_share_stages_delay_nothing() -> None:
    """`pipeline z` with copies by threads makes two loops over j, whose boxes are one producer's."""
    random = np.random.default_rng(0)
    q, k, v = (random.integers(-1, 2, (2, rows, 128)).astype(np.float16) for rows in (100, 96, 96))
    args = {"o": np.zeros((2, 100, 128), np.float32), "q": q, "k": k, "v": v}
    launch(compile_kernel(INSIDE, args, arch="sm_90a"), args)
    wanted = np.clip(q.astype(int) @ k.astype(int).transpose(0, 2, 1), -4, 4) @ v.astype(int)
    assert np.array_equal(args["o"], wanted)
