"""Boxes that a load's mask cuts: TMA copies them whole, and threads set what the mask excludes to 0."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import TileError
from tests.compile_and_run import Kernel, compile_kernel, launch

TEXT = """
kernel product(c: {sum}[m, n], a: {type}[{dims_a}], b: {type}[{dims_b}], first: s32, last: s32; TM, TN, TK):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j, low, high = block(0) * TM, block(1) * TN, first.to(index), last.to(index)
    acc = zeros({sum}[TM, TN])
    for p in range(0, k, TK):
        of_a, of_b, row = {mask_a}, {mask_b}, i + arange(TM)
        x = load({a}, mask=of_a{column_a})
        y = load({b}, mask=of_b{column_b})
        acc = dot({left}, {right}, acc)
    c[i : i + TM, j : j + TN] = acc

schedule s of product:
    TM, TN, TK, warps = 64, 64, {tk}, 4
    stage a, b: tma
    instruction acc: wgmma
"""
ALL = "p + arange(TK) < k"
ENDS, STARTS = "p + arange(TK) < high", "low <= p + arange(TK)"
WINDOW = f"({ENDS}) & ({STARTS})"
A = {"along": ("m, k", "a[i : i + TM, p : p + TK]", "[None, :]", "x"),
     "across": ("k, m", "a[p : p + TK, i : i + TM]", "[:, None]", "x.T")}  # fmt: skip
B = {"along": ("n, k", "b[j : j + TN, p : p + TK]", "[None, :]", "y.T"),
     "across": ("k, n", "b[p : p + TK, j : j + TN]", "[:, None]", "y")}  # fmt: skip
"""How operands lie in memory: along K or across it."""
KINDS = {"f16": np.float16, "s8": np.int8, "e4m3": ml_dtypes.float8_e4m3fn}


def text(a: str = "along", b: str = "across", masks: tuple[str, str] = (ALL, ENDS), type: str = "f16") -> str:
    (dims_a, of_a, column_a, left), (dims_b, of_b, column_b, right) = A[a], B[b]
    return TEXT.format(
        type=type, sum="s32" if type == "s8" else "f32", tk=64 if type == "f16" else 128, mask_a=masks[0],
        mask_b=masks[1], dims_a=dims_a, dims_b=dims_b, a=of_a, b=of_b, column_a=column_a, column_b=column_b,
        left=left, right=right,
    )  # fmt: skip


def seen(mask: str, k: int, first: int, last: int) -> np.ndarray:
    """The places along K that a mask includes."""
    p = np.arange(k)
    return {ALL: p < k, ENDS: p < last, STARTS: first <= p, WINDOW: (first <= p) & (p < last)}[mask]


def arrays(
    m: int, n: int, k: int, first: int, last: int, a: str = "along", b: str = "across",
    masks: tuple[str, str] = (ALL, ENDS), type: str = "f16",
) -> tuple[dict[str, Any], np.ndarray]:  # fmt: skip
    """The arguments, with NaN in place of what masks exclude, and the product."""
    random, kind = np.random.default_rng(m + n + k), KINDS[type]
    x, y = (random.integers(-8, 8, shape).astype(kind) for shape in ((m, k), (n, k)))
    of_x, of_y = (np.broadcast_to(seen(mask, k, first, last), z.shape) for mask, z in zip(masks, (x, y), strict=True))
    wanted = np.where(of_x, x.astype(float), 0) @ np.where(of_y, y.astype(float), 0).T
    other = np.array(99 if type == "s8" else np.nan).astype(kind)
    x, y = np.where(of_x, x, other), np.where(of_y, y, other)
    x, y = (np.ascontiguousarray(z.T) if lies == "across" else z for z, lies in ((x, a), (y, b)))
    return {
        "c": np.zeros((m, n), np.int32 if type == "s8" else np.float32),
        "a": x,
        "b": y,
        "first": first,
        "last": last,
    }, wanted


def clearing(kernel: Kernel) -> list[str]:
    """The names of tiles that threads clear in a loop, for each loop with products."""
    loops = [op.regions[0] for op in walk(kernel.variant.function.body) if op.spec.control.counters]
    loops = [body for body in loops if any(op.spec.product for op in walk(body))]
    stores = [[op for op in body.ops if op.name == "store" and op.attrs.get("clears")] for body in loops]
    return [" ".join(sorted({store.operands[0].name or "" for store in each})) for each in stores]


def check(
    source: str, *lines: str, shape: tuple[int, int, int] = (64, 64, 256), first: int = 70, last: int = 150, **more: Any
) -> Kernel:
    args, wanted = arrays(*shape, first, last, **more)
    kernel = compile_kernel(source + "".join(f"    {line}\n" for line in lines), args, arch="sm_90a")
    launch(kernel, args)
    np.testing.assert_allclose(args["c"].astype(float), wanted)
    return kernel


OPERANDS: dict[str, dict[str, Any]] = {
    "the right one": {},
    "the left one, along K": {"masks": (ENDS, ALL)},
    "the left one, across K": {"a": "across", "masks": (WINDOW, ALL)},
    "both": {"b": "along", "masks": (ENDS, ENDS)},
    "both, in opposite iterations": {"a": "across", "masks": (STARTS, ENDS)},
    "bytes": {"type": "s8", "b": "along", "masks": (ENDS, ENDS)},
    "bytes that threads load": {"type": "e4m3", "a": "across", "b": "along", "masks": (STARTS, ENDS)},
}


@pytest.mark.parametrize("case", OPERANDS)
def test_products_leave_out_what_masks_exclude(case: str) -> None:
    more = OPERANDS[case]
    shape = (64, 64, 256 if more.get("type", "f16") == "f16" else 512)
    kernel = check(text(**more), shape=shape, **more)
    cut = [name for name, mask in zip(("sa", "sb"), more.get("masks", (ALL, ENDS)), strict=True) if mask is not ALL]
    assert {name for each in clearing(kernel) for name in each.split()} == {*cut}
    assert clearing(kernel).count("") == 2  # the loop over tiles, and one over K


LINES = {
    "persistent": (("persistent 1",), (200, 136, 256)),
    "one stage": (("pipeline p: 1",), (64, 64, 256)),
    "shared among blocks": (("split p: 2",), (64, 64, 512)),
    "in equal shares": (("split p: stream",), (128, 64, 512)),
    "a cluster": (("cluster 2",), (256, 64, 256)),
    "mma.sync": (("instruction acc: mma.sync",), (64, 64, 256)),
    "masks for all": (("choose pass.peel: off",), (64, 64, 256)),
}


@pytest.mark.parametrize("more", LINES)
def test_a_window_of_k(more: str) -> None:
    masks, (lines, shape) = (ALL, WINDOW), LINES[more]
    source = text(masks=masks)
    if more == "mma.sync":
        source, lines = source.replace("acc: wgmma", "acc: mma.sync"), ()
    check(source, *lines, shape=shape, masks=masks)


@pytest.mark.parametrize(("first", "last"), [(0, 0), (-3, 1000), (300, 400), (200, 100), (255, 256)])
def test_windows_may_have_no_element_or_all(first: int, last: int) -> None:
    check(text(masks=(ALL, WINDOW)), first=first, last=last, masks=(ALL, WINDOW))


def test_no_box_that_threads_clear_is_resident() -> None:
    """All iterations copy the same box, but the mask excludes other elements of it in each."""
    source = text(masks=(ALL, STARTS)).replace("b[p : p + TK,", "b[0 : TK,") + "    persistent 0\n"
    args, _ = arrays(64, 64, 256, 70, 0)
    args["b"] = np.ones((64, 64), np.float16)
    kernel = compile_kernel(source.replace("b: f16[k, n]", "b: f16[64, n]"), args, arch="sm_90a")
    launch(kernel, args)
    wanted = np.where(np.arange(256) >= 70, args["a"], 0).sum(1, keepdims=True)
    np.testing.assert_array_equal(args["c"], np.broadcast_to(wanted, (64, 64)))


OTHER = """
    for e in range(0, 64, 64):
        of_e = e + arange(64) < high - 1000
        acc = where(of_e[None, :], acc + 1.0, acc)
"""


@pytest.mark.parametrize(
    ("line", "to", "lines"),
    [
        ("acc = dot", "z = row[:, None] * (p + arange(TK))[None, :] < 100000\n        acc = dot", ()),
        ("acc = dot(x, y, acc)", "if first < 1000:\n            acc = dot(x, y, acc)", ()),
        ("acc = dot", "acc = dot", ("peel e: of_e",)),
    ],
    ids=["beside a flag that changes in any way", "in a branch", "beside a named loop"],
)
def test_iterations_without_excluded_elements_clear_none(line: str, to: str, lines: tuple[str, ...]) -> None:
    source = text().replace(line, to).replace("dot(x, y", "dot(where(z, x, 0.0), y" if "z =" in to else "dot(x, y")
    if lines:  # a loop that changes nothing
        source = source.replace("    c[i", OTHER + "    c[i")
    kernel = check(source, *lines)
    assert clearing(kernel) == ["", "", "sb"]


def test_blocks_at_edges_clear_nothing_more() -> None:
    """TMA sets elements outside of the tensor to 0, whether or not the mask excludes them."""
    args, wanted = arrays(70, 72, 400, 0, 300)
    edges = "((j + arange(TN))[None, :] < n) & (p + arange(TK) < k)[:, None]"
    more = text().replace("mask=of_b[:, None]", f"mask={edges} & of_b[:, None]")
    counted = []
    for source in (text(), more):
        counted.append(launch(compile_kernel(source, args, arch="sm_90a"), args).counters.totals.barriers)
        np.testing.assert_allclose(args["c"], wanted)
    assert counted[0] == counted[1]


def test_waits_are_deferred_where_no_element_is_excluded() -> None:
    kernel = check(text(), shape=(64, 64, 1024), last=700)
    assert clearing(kernel) == ["", "", "sb"]  # the loop over tiles, and two over K
    loops = [op.regions[0] for op in walk(kernel.variant.function.body) if op.spec.control.counters]
    assert [any(op.name == "wgmma_wait_group" for op in body.ops) for body in loops].count(True) == 1


ATTENTION = """
kernel attend(o: f16[s, d], q: f16[s, d], k: f16[t, d], v: f16[t, d], first: s32, last: s32; D, TM = 64, TN = 64):
    grid cdiv(s, TM)
    i, low, high = block(0) * TM, first.to(index), last.to(index)
    qs, l, acc = q[i : i + TM, 0 : D], zeros(f32[TM]), zeros(f32[TM, D])
    for j in range(0, high, TN):
        column = j + arange(TN)
        seen = (low <= column) & (column < high)
        x = dot(qs, load(k[j : j + TN, 0 : D], mask={of_k}[:, None]).T)
        e = where(seen[None, :], exp(x), 0.0)
        l = l + sum(e, axis=1)
        acc = dot(e.to(f16), load(v[j : j + TN, 0 : D], mask={of_v}[:, None]), acc)
    o[i : i + TM, 0 : D] = (acc / maximum(l, 1e-30)[:, None]).to(f16)

schedule s of attend:
    D, warps = next_pow2(d), TM / 16
    instruction x, acc: wgmma
"""
DELAYED = {
    "both": ("seen", "seen", "delay acc"),
    "the delayed one": ("(column < t)", "seen", "delay acc"),
    "the other one": ("seen", "(column < t)", "delay acc"),
    "both, one stage": ("seen", "seen", "delay acc", "pipeline j: 1"),
    "both, masks for all": ("seen", "seen", "delay acc", "choose pass.peel: off"),
    "both, in turns": ("seen", "seen", "TM = 128", "pingpong e"),
}


@pytest.mark.parametrize("case", DELAYED)
def test_delayed_products_leave_out_what_masks_exclude(case: str) -> None:
    random, first, last = np.random.default_rng(7), 70, 200
    q, k, v = (random.standard_normal(shape).astype(np.float16) for shape in ((130, 64), (300, 64), (300, 64)))
    q, e = q / np.float16(8), np.exp(q.astype(float) / 8 @ k[first:last].T.astype(float))
    wanted = e @ v[first:last] / e.sum(1, keepdims=True)
    of_k, of_v, *lines = DELAYED[case]
    for array, mask in ((k, of_k), (v, of_v)):
        array[: first if mask == "seen" else 0] = array[last if mask == "seen" else 300 :] = np.nan
    args = {"o": np.zeros_like(q), "q": q, "k": k, "v": v, "first": first, "last": last}
    source = ATTENTION.format(of_k=of_k, of_v=of_v) + "".join(f"    {line}\n" for line in lines)
    launch(compile_kernel(source, args, arch="sm_90a"), args)
    np.testing.assert_allclose(args["o"].astype(float), wanted, atol=2e-3)


REFUSED = {
    "single elements": ("(p + arange(TK)) % 2 == 0", ALL, "its mask says more .* not only at the ends of its loop"),
    "no counter": (ALL, "arange(TK) < high", "its mask says more .* not only at the ends of its loop"),
    "within 16 bytes": (STARTS, ALL, "its mask excludes elements within 16 bytes of a row"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_masks_are_refused(case: str) -> None:
    of_a, of_b, why = REFUSED[case]
    with pytest.raises(TileError, match=f"cannot be copied by TMA: {why}"):
        compile_kernel(text(masks=(of_a, of_b)), arrays(64, 64, 256, 0, 0)[0], arch="sm_90a")
