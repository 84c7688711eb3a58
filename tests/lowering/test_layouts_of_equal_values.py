"""A layout that the schedule gives to one name is that of no other value which is only equal to it."""

from __future__ import annotations

import numpy as np
import pytest

import dsl
from dsl.kernels.variant import Request, build_variant
from dsl.lowering.ir.function import walk
from dsl.lowering.layouts.layout import Layout
from tests.compile_and_run import compile_kernel, launch

N = 64
X = np.random.default_rng(3).standard_normal((N, N)).astype(np.float32)
HEAD = """kernel k(y: f32[64, 64], x: f32[rows, 64], z: f32[64, 64]):
    grid 1
    i, j = arange(64), arange(64)
"""
PRODUCT = """    acc = zeros(f32[64, 64])
    for t in range(0, rows, 64):
        ok = ((t + i < rows) & (i >= 0))[:, None]
        w = load(x[(t + i)[:, None], j[None, :]], mask=ok, other=OTHER)
        z[i[:, None], j[None, :]] = w
        u = z[i[:, None], j[None, :]].to(f16)
        acc = dot(u, u, acc)
    store(y[0 : 64, 0 : 64], acc)
schedule p of k:
    layout acc: warps [2, 2]
"""


def layouts_of_loads(text: str, args: dict) -> list[Layout]:
    variant = compile_kernel(text, args)
    launch(variant, args)
    return [op.result.tile.layout for op in variant.ops if op.name == "load"]


def arguments() -> dict:
    return {"y": np.zeros((N, N), np.float32), "x": X, "z": np.zeros((N, N), np.float32)}


def test_what_a_masked_load_gives_instead_is_not_tied_to_a_sum_that_starts_with_it() -> None:
    """It took the layout of the product, was read in pairs, and exchanged through shared memory in each iteration."""
    args, same = arguments(), arguments()
    found = layouts_of_loads(HEAD + PRODUCT.replace("OTHER", "0"), args)
    assert found == layouts_of_loads(HEAD + PRODUCT.replace("OTHER", "1"), same)
    assert np.array_equal(args["y"], same["y"])


PINNED = "layout a: vector [1, 1], lanes [1, 32], warps [4, 1]"
OTHER_PIN = "layout b: vector [4, 1], lanes [16, 2], warps [1, 4]"
EQUAL = {
    "constants": ("zeros(f32[64, 64])", "zeros(f32[64, 64])"),
    "sums": ("v + 1.0", "v + 1.0"),
    "one name of another": ("v + 1.0", "a"),
    "indices": ("(i[:, None] + j[None, :]).to(f32)", "(i[:, None] + j[None, :]).to(f32)"),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_values_lie_as_each_name_says(name: str) -> None:
    first, second = EQUAL[name]
    text = f"""{HEAD}    v = load(x[0 : 64, 0 : 64])
    a = {first}
    b = {second}
    store(y[0 : 64, 0 : 64], a)
    store(z[0 : 64, 0 : 64], b)
schedule p of k:
    {PINNED}
    {OTHER_PIN}
"""
    args = arguments()
    variant = compile_kernel(text, args)
    lie = {
        r.name: (r.tile.layout.register, r.tile.layout.lane)
        for op in variant.ops
        for r in op.results
        if r.name in ("a", "b")
    }
    assert lie.keys() == {"a", "b"} and lie["a"] != lie["b"]
    launch(variant, args)
    assert np.array_equal(args["y"], args["z"])


def test_a_pinned_index_says_nothing_of_slices_with_the_same_numbers() -> None:
    text = f"""{HEAD}    q = arange(64)
    s = sum(load(x[q[:, None], q[None, :]]), axis=1)
    store(y[0, 0 : 64], s)
    store(z[0 : 64, 0 : 64], load(x[0 : 64, 0 : 64]))
schedule p of k:
"""
    plain = compile_kernel(text + "    warps = 4\n", arguments())
    pinned = compile_kernel(text + "    layout q: vector [1], lanes [32], warps [4]\n", arguments())
    last = [[op for op in v.ops if op.name == "store"][-1] for v in (plain, pinned)]
    assert last[0].operands[1].tile.layout == last[1].operands[1].tile.layout


TWO = """
def both(x, y, z, p, q):
    s = dot(x, y, p)
    return s, dot(x, z, q)

kernel f(c: f32[m, n], d: f32[m, n], a: f16[m, k], b: f16[n, k], e: f16[n, k]):
    grid cdiv(m, 64), cdiv(n, 64)
    i, j = block(0) * 64, block(1) * 64
    p, q = zeros(f32[64, 64]), zeros(f32[64, 64])
    for t in range(0, k, 64):
        x, y, z = a[i : i + 64, t : t + 64], b[j : j + 64, t : t + 64].T, e[j : j + 64, t : t + 64].T
        {line}
    c[i : i + 64, j : j + 64] = p
    d[i : i + 64, j : j + 64] = q

schedule s of f:
    instruction p, q: mma.sync.m16n8k16
"""


@pytest.mark.parametrize("line", ["p, q = dot(x, y, p), dot(x, z, q)", "p, q = both(x, y, z, p, q)"])
def test_two_products_of_one_line_are_those_of_two_lines(line: str) -> None:
    """Each was there twice until layouts were chosen, so that the loop was none of products that are staged alone."""
    lines = "p = dot(x, y, p)\n        q = dot(x, z, q)"
    module, apart = (dsl.parse(TWO.format(line=each), device="emulator") for each in (line, lines))
    extents = {"m": 64, "n": 64, "k": 1024}
    built = build_variant(module.program, Request("f", "s", extents, {}, {}, extents, arch="sm_90"))
    assert sum(op.spec.product for op in walk(built.function.body)) == 2
    one, two = (each.compile("f", **extents).ptx for each in (module, apart))
    for word in ("mma.sync", "ldmatrix", "cp.async", "bar.sync"):
        assert one.count(word) == two.count(word) > 0
    a, b, e = (np.random.default_rng(i).integers(-4, 5, (64, 1024)).astype(np.float16) for i in range(3))
    c, d = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    module.f(c, d, a, b, e)
    for found, right in ((c, b), (d, e)):
        assert np.array_equal(found, a.astype(np.float32) @ right.T.astype(np.float32))
