"""Two products by wgmma whose results meet: threads load the left operand of one of them, since it lies across k."""

from __future__ import annotations

import numpy as np
import pytest

import dsl
from dsl.runtime import assemble
from dsl.values.facts import ArrayFacts

PAIR = """
kernel pair(c: f32[m, n], a: s8[m, k], g: s8[{g}], u: s8[{u}]; TM = 128, TN = 128, TK = 64):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    gate = zeros(s32[TM, TN])
    up = zeros(s32[TM, TN])
    for p in range(0, k, TK):
        x = a[i : i + TM, p : p + TK]
        {first}
        {second}
    c[i : i + TM, j : j + TN] = (gate * up).to(f32)
"""
LOADS = {"k, n": "{0}[p : p + TK, j : j + TN]", "n, k": "{0}[j : j + TN, p : p + TK].T"}
SUMS = {"apart": "{0} = {0} + dot({1}, {2})", "added": "{0} = dot({1}, {2}, {0})"}


def pair(g: str, u: str, sums: str = "added") -> str:
    first = SUMS[sums].format("gate", "x", LOADS[g].format("g"))
    second = SUMS[sums].format("up", "x", LOADS[u].format("u"))
    return PAIR.format(g=g, u=u, first=first, second=second)


@pytest.mark.parametrize("sums", SUMS)
@pytest.mark.parametrize(("g", "u"), [("k, n", "n, k"), ("n, k", "k, n"), ("k, n", "k, n"), ("n, k", "n, k")])
def test_operands_may_lie_either_way(g: str, u: str, sums: str) -> None:
    """Both products are transposed if one is: otherwise they have other rows, and both were mma.sync."""
    m, n, k = 136, 272, 160
    random = np.random.default_rng(0)
    a, *both = (random.integers(-9, 10, shape).astype("int8") for shape in ((m, k), (n, k), (n, k)))
    c = np.zeros((m, n), "float32")
    stored = [each if lies == "n, k" else np.ascontiguousarray(each.T) for each, lies in zip(both, (g, u), strict=True)]
    module = dsl.parse(pair(g, u, sums), device="emulator", arch="sm_90a")
    module.pair(c, a, *stored)
    gate, up = (a.astype("int64") @ each.T.astype("int64") for each in both)
    assert (c == gate * up).all()
    kernel = module.compile("pair", m=m, n=n, k=k)
    assert "wgmma" in kernel.ptx and "mma.sync" not in kernel.ptx
    assert assemble(kernel.ptx, "sm_90a").spill_stores == 0


# The left operands lie either way, and none is transposed: the accumulators have one layout.
LEFT = """
def factor(v; T):
    if T == f32:
        return bitcast(v, tf32)
    return v

kernel pair(c: f32[m, n], g: T[k, m], u: T[m, k], b: T[n, k]; T in s8|f32, TM = 128, TN = 64, TK = 128 / size(T)):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    gate = zeros(sum_type(T)[TM, TN])
    up = zeros(sum_type(T)[TM, TN])
    for p in range(0, k, TK):
        x = factor(b[j : j + TN, p : p + TK], T=T).T
        {0}
        {1}
    c[i : i + TM, j : j + TN] = (gate * up).to(f32)
"""
LINES = [
    "gate = dot(factor(g[p : p + TK, i : i + TM], T=T).T, x, gate)",
    "up = dot(factor(u[i : i + TM, p : p + TK], T=T), x, up)",
]


@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("lines", [LINES, LINES[::-1]], ids=["across first", "along first"])
def test_accumulators_that_meet_have_the_same_rows(lines: list[str], dtype: str) -> None:
    """A left operand that threads load across k gives a thread rows 2 r and 2 r + 1, and one in shared memory r and
    r + 8. Their product was wrong."""
    m, n, k = 128, 64, 128
    random = np.random.default_rng(1)
    g, u, b = (random.integers(-9, 10, shape).astype(dtype) for shape in ((k, m), (m, k), (n, k)))
    c = np.zeros((m, n), "float32")
    module = dsl.parse(LEFT.format(*lines), device="emulator", arch="sm_90a")
    module.pair(c, g, u, b)
    gate, up = (left.astype("int64") @ b.T.astype("int64") for left in (g.T, u))
    assert (c == gate * up).all()
    assert "mma.sync" not in module.compile("pair", m=m, n=n, k=k, T="s8" if dtype == "int8" else "f32").ptx


@pytest.mark.parametrize("g", LOADS)
def test_two_products_that_set_no_tile_spill_nothing(g: str) -> None:
    """128 x 256 by 16 warps had 128 accumulators for 128 registers of a thread, and spilled 8,748 bytes."""
    text = pair(g, "n, k", "apart").replace("s8", "e4m3").replace("s32", "f32")
    module = dsl.parse(text.replace("TM = 128, TN = 128, TK = 64", "TM, TN, TK"), device="emulator", arch="sm_90a")
    shapes = {"c": (4096, 4096), "a": (4096, 128), "g": (4096, 128) if g == "n, k" else (128, 4096), "u": (4096, 128)}
    facts = {name: ArrayFacts(shape, "f32" if name == "c" else "e4m3") for name, shape in shapes.items()}
    (step,) = module.pair.plan(facts).steps
    kernel = module.variant(step.request)
    assert assemble(kernel.ptx, "sm_90a").spill_stores == 0 and "wgmma" in kernel.ptx


@pytest.mark.parametrize(
    ("left", "right", "tile", "why"),
    [
        ("m, k", "k, n", 128, "'b' does not lie along k, so threads load it to registers, as the left operand of the"),
        ("k, m", "n, k", 128, "'a' does not lie along k, so threads load it to registers"),
        ("k, m", "k, n", 128, "both operands lie across k"),
        ("m, k", "k, n", 192, "192 rows are neither 64 nor a multiple of 128"),
    ],
)
def test_the_reason_says_who_loads_an_operand_across_k(left: str, right: str, tile: int, why: str) -> None:
    x = "a[i : i + TM, p : p + TK]" if left == "m, k" else "a[p : p + TK, i : i + TM].T"
    text = f"""
kernel product(c: s32[m, n], a: s8[{left}], b: s8[{right}]; TM = 128, TN = {tile}, TK = 64):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(s32[TM, TN])
    for p in range(0, k, TK):
        acc = dot({x}, {LOADS[right].format("b")}, acc)
    c[i : i + TM, j : j + TN] = acc
"""
    kernel = dsl.parse(text, device="emulator", arch="sm_90a").compile("product", m=4096, n=4096, k=4096)
    choices = kernel.compiled.variant.function.choices.keyed()
    assert why in str(choices["route.acc"].because)
    loaded = "b" if right == "k, n" else "a"
    if "threads load" in why:
        assert "threads read it in shared memory" in str(choices[f"stage.{loaded}"].because)
