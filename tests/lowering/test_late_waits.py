"""Waits for wgmma stand where accumulators are first used, while later products run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsl
from dsl.kernels.compile import compile_variant
from dsl.kernels.request import Request
from dsl.lowering.ir.function import Op, walk
from dsl.lowering.text.printer import printed
from dsl.lowering.text.reader import read
from tests.compile_and_run import compile_kernel, launch

KEYS = """
kernel keys(dq: f32[s, d], dk: f16[t, d], dv: f16[t, d], q: f16[s, d], k: f16[t, d], v: f16[t, d], g: f16[s, d];
            D = 128, TM = 64, TN = 128):
    grid cdiv(t, TN)
    j = block(0) * TN
    ks, vs = k[j : j + TN, 0 : D], v[j : j + TN, 0 : D]
    key, value = zeros(f32[TN, D]), zeros(f32[TN, D])
    for i in range(0, s, TM):
        qs, gs = q[i : i + TM, 0 : D], g[i : i + TM, 0 : D]
        x = dot(ks, qs.T)
        y = dot(vs, gs.T)
        dx = x * y
        value = dot(x.to(f16), gs, value)
        w = dx.to(f16)
        each = dot(ks.T, w)
        key = dot(w, qs, key)
        atomic_add(dq[i : i + TM, 0 : D], each.T)
    dk[j : j + TN, 0 : D] = key.to(f16)
    dv[j : j + TN, 0 : D] = value.to(f16)

schedule s of keys:
    warps = 8
    instruction x, y, key, value, each: wgmma
    stage k, v: shared
    stage dq: tma
    pipeline i: 2
"""


def arrays(s: int, t: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of KEYS, and what they become. Small whole numbers, of which few are not 0: all sums are exact."""
    random = np.random.default_rng(s + t)
    q, g = (random.integers(-1, 2, (s, 128)) * (random.random((s, 128)) < 0.2) for _ in range(2))
    k, v = (random.integers(-1, 2, (t, 128)) * (random.random((t, 128)) < 0.2) for _ in range(2))
    x, y = k @ q.T, v @ g.T
    w = x * y
    args = {name: each.astype(np.float16) for name, each in (("q", q), ("k", k), ("v", v), ("g", g))}
    args |= {
        "dq": np.ones((s, 128), np.float32),
        "dk": np.zeros((t, 128), np.float16),
        "dv": np.zeros((t, 128), np.float16),
    }
    return args, {"dq": 1 + w.T @ k, "dk": w @ q, "dv": x @ g}


def waits(kernel: Any) -> dict[str, int | None]:
    """How many later products run at the wait for each accumulator."""
    found: list[Op] = [op for op in walk(kernel.variant.function.body) if op.name == "wgmma_wait"]
    return {op.results[0].name or "": op.attrs.get("pending") for op in found}


@pytest.mark.long
@pytest.mark.parametrize(("s", "t"), [(320, 200), (72, 128)])
def test_products_run_beyond_the_waits_of_earlier_ones(s: int, t: int) -> None:
    """The wait for `value`, whose left operand lies in registers, stays ahead of the next product."""
    args, wanted = arrays(s, t)
    kernel = compile_kernel(KEYS, args, arch="sm_90")
    if s == 320:
        assert waits(kernel) == {"x": 1, "y": 1, "value": 0, "each": 1, "key": 0}
    launch(kernel, args)
    for name, made in wanted.items():
        assert np.array_equal(args[name], made), name


def test_a_kernel_with_computed_operands_is_read_again() -> None:
    """Its tiles of offsets have 13 bases of registers. Neither they nor `computed` could be read."""
    dims = {"s": 320, "t": 128, "d": 128}
    text = compile_variant(dsl.parse(KEYS).program, Request("keys", "s", dims=dims, arch="sm_90")).ir
    assert "computed=true" in text and printed(read(text, "k.ir")) == text


def test_a_schedule_may_wait_at_once() -> None:
    args, wanted = arrays(320, 128)
    lines = "".join(f"    choose late_wait.{name}: own\n" for name in ("x", "y", "value", "each", "key"))
    kernel = compile_kernel(KEYS + lines, args, arch="sm_90")
    assert set(waits(kernel).values()) == {None}
    launch(kernel, args)
    assert np.array_equal(args["dq"], wanted["dq"])


BESIDE = """
kernel twice(y: f32[m, k], z: f32[m, n], a: f16[m, k], b: f16[k, n], t: f32[m, k]; TM = 64, TN = 64, TK = 64):
    grid 1
    acc, w = zeros(f32[TM, TN]), b[0 : TK, 0 : TN] * 2.0
    {body}

schedule s of twice:
    warps = 4
    instruction {names}: wgmma
    stage a, b, z: registers
    stage y: tma
    unroll p: 1
"""
ADDED = "atomic_add(y[0 : TM, p : p + TK], t[0 : TM, p : p + TK])"
STORED = {
    "in an outer loop": f"""for j in range(0, n, TN):
        w = b[0 : TK, j : j + TN] * 2.0
        acc = zeros(f32[TM, TN])
        for p in range(0, k, TK):
            acc = dot(a[0 : TM, p : p + TK] * 2.0, w, acc)
            {ADDED}
        z[0 : TM, j : j + TN] = acc""",
    "for an earlier product of the sum": f"""for p in range(0, k, TK):
        v, left = b[p : p + TK, 0 : TN] * 2.0, a[0 : TM, p : p + TK] * 2.0
        acc = dot(left, v, acc)
        acc = dot(left, w, acc)
        {ADDED}
    z[0 : TM, 0 : TN] = acc""",
    "behind the loop, in the same bytes": f"""for p in range(0, k, TK):
        acc = dot(a[0 : TM, p : p + TK] * 2.0, w, acc)
        {ADDED}
    more = dot(a[0 : TM, 0 : TK] * 2.0, b[0 : TK, 0 : TN] * 3.0)
    z[0 : TM, 0 : TN] = acc + more""",
}


@pytest.mark.parametrize("place", STORED)
def test_a_wait_stays_ahead_of_barriers_if_threads_store_operands(place: str) -> None:
    """The barrier lets other warps store the next operand: the emulator would tell a race."""
    random, n = np.random.default_rng(0), 128 if "outer" in place else 64
    args = {name: random.standard_normal((64, 128)).astype(np.float16) for name in "a"}
    args |= {"b": random.standard_normal((128, n)).astype(np.float16), "t": np.ones((64, 128), np.float32)}
    args |= {"y": np.zeros((64, 128), np.float32), "z": np.zeros((64, n), np.float32)}
    text = BESIDE.format(body=STORED[place], names="acc, more" if "more" in STORED[place] else "acc")
    text += "    unroll j: 1\n" * ("outer" in place)
    launch(compile_kernel(text, args, arch="sm_90"), args)
    assert np.array_equal(args["y"], args["t"] * (n // 64)) and args["z"].all()
