"""`x[…]` is what lies there when it is evaluated, in every place of an expression, whatever is stored meanwhile.

Each program stores between the text of a part and the use of it; numpy says what it means.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from tests.compile_and_run import compile_kernel, launch, run

B = 32
HEAD = """\
def twice(v):
    return v + v

kernel k(y: f32[n], x: f32[n], t: table f32[2]; B = 32):
    grid 1
    shared s: f32[2, B]
    def st():                                              # stores, and gives nothing to what it is in
        y[0 : B] = full(f32[B], 1000.0)
        y[B : 2 * B] = full(f32[B], 2000.0)
        return zeros(f32[B])
"""
Y = np.arange(1, 2 * B + 1, dtype=np.float32)
X = 0.5 * Y[::-1].copy()
LO, HI = Y[:B], Y[B:]

# What is in the first half of y afterwards, and in the second; `st` leaves 1000 and 2000 there.
PROGRAMS: dict[str, tuple[str, Callable[[], tuple[object, object]]]] = {
    "a def that stores to the tensor": (
        "def put(a, b):\n    y[0 : B] = a - b\n    y[B : 2 * B] = a + b\nput(y[0 : B], y[B : 2 * B])",
        lambda: (LO - HI, LO + HI),
    ),
    "arguments by name": (
        "def put(a, b):\n    y[0 : B] = a - b\n    y[B : 2 * B] = a + b\nput(b=y[0 : B], a=y[B : 2 * B])",
        lambda: (HI - LO, LO + HI),
    ),
    "an argument that is read twice": (
        "def f(a):\n    b = a\n    z = st()\n    return a - b + a\ny[0 : B] = f(y[0 : B])",
        lambda: (LO, 2000),
    ),
    "passed on": (
        "def g(a):\n    z = st()\n    return a * 3.0\ndef f(a):\n    z = st()\n    return g(a) + a\n"
        "y[0 : B] = f(y[0 : B])",
        lambda: (4 * LO, 2000),
    ),
    "a def in a def": (
        "def f(a):\n    def g():\n        return a + st()\n    return g() + a\ny[0 : B] = f(y[0 : B])",
        lambda: (2 * LO, 2000),
    ),
    "a def as an argument": (
        "def f(g, a):\n    z = st()\n    return g(a)\ny[0 : B] = f(twice, y[0 : B])",
        lambda: (2 * LO, 2000),
    ),
    "what a def returns": ("def f():\n    return y[0 : B]\nv = f()\nz = st()\ny[0 : B] = v", lambda: (LO, 2000)),
    "two that a def returns": (
        "def f():\n    return y[B : 2 * B], y[0 : B]\ny[0 : B], y[B : 2 * B] = f()",
        lambda: (HI, LO),
    ),
    "an argument that a def binds anew": (
        "def f(a):\n    a += 1.0\n    z = st()\n    return a\ny[0 : B] = f(y[0 : B])",
        lambda: (LO + 1, 2000),
    ),
    "an argument that a loop carries": (
        "def f(a):\n    for i in range(3):\n        a = a + st() + 1.0\n    return a\ny[0 : B] = f(y[0 : B])",
        lambda: (LO + 3, 2000),
    ),
    "an argument that a branch changes": (
        "def f(a):\n    if n > 5:\n        a = a + st() + 1.0\n    return a\ny[0 : B] = f(y[0 : B])",
        lambda: (LO + 1, 2000),
    ),
    "in a loop": (
        "def f(a):\n    z = st()\n    return a\n"
        "v = zeros(f32[B])\nfor i in range(3):\n    v = v + f(y[0 : B])\ny[0 : B] = v",
        lambda: (LO + 2000, 2000),
    ),
    "a swap": ("y[0 : B], y[B : 2 * B] = y[B : 2 * B], y[0 : B]", lambda: (HI, LO)),
    "a tuple": ("p = (y[0 : B], st())\ny[0 : B] = p[0] + p[1]", lambda: (LO, 2000)),
    "tuple(…)": ("p = tuple(y[0 : B], y[B : 2 * B])\nz = st()\ny[0 : B] = p[0] + p[1]", lambda: (LO + HI, 2000)),
    "append": ("p = append(tuple(), y[0 : B])\nz = st()\ny[0 : B] = p[0]", lambda: (LO, 2000)),
    "a sum": ("y[0 : B] = y[0 : B] + st()", lambda: (LO, 2000)),
    "a sum, the other way": ("y[0 : B] = st() + y[0 : B]", lambda: (1000, 2000)),
    "a sign": ("y[0 : B] = -y[0 : B] + st()", lambda: (-LO, 2000)),
    "a comparison": (
        "c = y[0 : B] < y[B : 2 * B] + st()\nd = y[0 : B] > 999.0\ny[0 : B] = where(c & d, 1.0, 0.0)",
        lambda: (1, 2000),
    ),
    "a chain of comparisons": (
        "y[0 : B] = where(y[0 : B] < st() + 16.0 <= y[0 : B], 1.0, 0.0)",
        lambda: (LO < 16, 2000),
    ),
    "maximum": ("y[0 : B] = maximum(y[0 : B], st(), y[B : 2 * B])", lambda: (2000, 2000)),
    "where": ("y[0 : B] = where(x[0 : B] < 9.0, y[0 : B], st())", lambda: (np.where(X[:B] < 9, LO, 0), 2000)),
    "fma": ("y[0 : B] = fma(y[0 : B], y[0 : B], st())", lambda: (LO * LO, 2000)),
    "clamp": ("y[0 : B] = clamp(y[0 : B] + 0.0, st() + 3.0, 8.0)", lambda: (np.clip(LO, 3, 8), 2000)),
    "clamp of parts": ("y[0 : B] = clamp(y[0 : B], x[0 : B], st() + 40.0)", lambda: (np.maximum(LO, X[:B]), 2000)),
    "polynomial": (
        "y[0 : B] = polynomial(y[0 : B], 1.0, y[B : 2 * B], 2.0 + st())",
        lambda: (1 + LO * (HI + 2 * LO), 2000),
    ),
    "a power": ("y[0 : B] = y[0 : B] ** 3 + st()", lambda: (LO**3, 2000)),
    "asm": ('y[0 : B] = asm("add.f32 {d}, {0}, {1};", f32, y[0 : B], st())', lambda: (LO, 2000)),
    "a method": ("y[0 : B] = y[0 : B].to(f16).to(f32) + st()", lambda: (LO, 2000)),
    "an axis more": ("y[0 : B] = reshape(y[0 : B][:, None] + st()[:, None], [B])", lambda: (LO, 2000)),
    "a place evaluated once, with an axis more": (
        "i = arange(B)\nv = sum(x[(atomic_add(x[0], 1.0) - X0).to(s32) + i][:, None], axis=1)\n"
        "y[0 : B] = v + st()\ny[B : 2 * B] = full(f32[B], x[0])".replace("X0", str(X[0])),
        lambda: ([X[0] + 1, *X[1:B]], X[0] + 1),
    ),
    "an axis more of a shared tile": (
        "s[1] = y[0 : B]\ny[0 : B] = sum(s[1][:, None] + st()[:, None], axis=1)",
        lambda: (LO, 2000),
    ),
    "a reduction": ("y[0 : B] = sum(y[0 : B]) + st()", lambda: (LO.sum(), 2000)),
    "reduce": ("v = reduce(maximum, y[0 : B])\nz = st()\ny[0 : B] = full(f32[B], v)", lambda: (B, 2000)),
    "stack": ("y[0 : B] = sum(stack(y[0 : B], st(), y[B : 2 * B], st()), axis=1)", lambda: (LO + 2000, 2000)),
    "reshape": ("v = reshape(y[0 : B], [4, 8])\nz = st()\ny[0 : B] = reshape(v, [B])", lambda: (LO, 2000)),
    "reshape in a def": (
        "def f(a):\n    store(a, x[0 : B])\n    return reshape(reshape(a, [4, 8]), [B])\ny[B : 2 * B] = f(y[0 : B])",
        lambda: (X[:B], LO),
    ),
    "a shared tile that a def sees in another shape": (
        "def f(a):\n    store(reshape(a, [4, 8]), zeros(f32[4, 8]))\n    return a\ns[0] = y[0 : B]\n"
        "y[B : 2 * B] = f(s[0])\ny[0 : B] = s[0]",
        lambda: (0, LO),
    ),
    "bitcast": ("v = bitcast(y[0 : B], u32)\nz = st()\ny[0 : B] = bitcast(v, f32)", lambda: (LO, 2000)),
    "full": ("y[0 : B] = full(f32[B], y[4]) + st()", lambda: (LO[4], 2000)),
    "an index": ("y[0 : B] = x[y[0 : B].to(s32)] + st()", lambda: (X[1 : B + 1], 2000)),
    "a bound of a slice": ("a = y[3].to(s32)\nv = y[a : a + B] + st()\ny[0 : B] = v", lambda: (Y[4 : 4 + B], 2000)),
    "a mask": (
        "y[0 : B] = load(x[0 : B], mask=y[0 : B] > 9.0, other=st()[0 : B])",
        lambda: (np.where(LO > 9, X[:B], 0), 2000),
    ),
    "what stands for what is off": (
        "v = load(x[0 : B], mask=x[0 : B] > 20.0, other=y[0 : B])\nz = st()\ny[0 : B] = v",
        lambda: (np.where(X[:B] > 20, X[:B], LO), 2000),
    ),
    "the value of a store": ("store(y[0 : B], y[B : 2 * B] + st())", lambda: (HI, 2000)),
    "the value of an atomic": (
        "v = atomic_add(x[0 : B], y[0 : B] + st())\ny[0 : B] = x[0 : B] - v",
        lambda: (LO, 2000),
    ),
    "a condition": ("if y[0] < 5.0:\n    z = st()\n    y[0 : B] = x[0 : B]", lambda: (X[:B], 2000)),
    "the bound of a loop": (
        "v = 0.0\nfor i in range(y[3].to(s32)):\n    z = st()\n    v = v + 1.0\ny[0 : B] = full(f32[B], v)",
        lambda: (4, 2000),
    ),
    "the condition of a loop, read anew": (
        "v = 0.0\nwhile y[0] < 4.0:\n    y[0 : B] = y[0 : B] + 1.0\n    v = v + 1.0\ny[B : 2 * B] = full(f32[B], v)",
        lambda: (LO + 3, 3),
    ),
    "an assignment with an operator": ("y[0 : B] += y[B : 2 * B] + st()", lambda: (LO + HI, 2000)),
    "a place evaluated once": (
        "y[atomic_add(x[0], 1.0).to(s32)] += 100.0\ny[B : 2 * B] = full(f32[B], x[0])",
        lambda: (LO + 100 * (np.arange(B) == X[0]), X[0] + 1),
    ),
    "a table": ("def f(a):\n    return a + t[1]\ny[0 : B] = full(f32[B], f(t[0]))", lambda: (12, HI)),
    "a part of a shared tile": (
        "s[0] = y[0 : B]\ndef f(a):\n    s[0] = full(f32[B], 7.0)\n    return a\ny[0 : B] = f(s[0]) + s[0]",
        lambda: (LO + 7, HI),
    ),
    "a swap of shared tiles": (
        "s[0] = y[0 : B]\ns[1] = y[B : 2 * B]\ns[0], s[1] = s[1], s[0]\ny[0 : B], y[B : 2 * B] = s[0], s[1]",
        lambda: (HI, LO),
    ),
    "a place that is stored to": (
        "def put(p, v):\n    store(p, v)\n    return p\ny[B : 2 * B] = put(y[0 : B], x[0 : B])",
        lambda: (X[:B], LO),
    ),
    "a place that is passed on": (
        "def put(p, v):\n    store(p, v)\ndef both(p, v):\n    put(p, v)\n    return atomic_add(p, v)\n"
        "y[B : 2 * B] = both(y[0 : B], x[0 : B])",
        lambda: (2 * X[:B], X[:B]),
    ),
    "a place that only the def masks": (
        "def add(p, v, m):\n    return atomic_add(p, v, mask=m)\ni = arange(B)\nz = add(y[i - 1], 100.0, i > 0)",
        lambda: (LO + 100 * (np.arange(B) < B - 1), HI),
    ),
    "a place that is copied": (
        "def fetch(to, part):\n    copy(to, part)\n    commit()\n    wait(0)\n"
        "fetch(s[1], x[0 : B])\ny[0 : B] = s[1] + s[1]",
        lambda: (2 * X[:B], HI),
    ),
    "a part of a place": (
        "s[1] = y[0 : B]\ndef f(p, i):\n    p[i : i + 8] = zeros(f32[8])\n    return p[i - 8 : i + 8]\n"
        "v = f(s[1], block(0) + 8)\ny[0 : B] = s[1]\ny[B : B + 16] = v",
        lambda: (np.where(np.arange(B) // 8 == 1, 0, LO), [*LO[:8], *[0] * 8, *HI[16:]]),
    ),
}


def indented(body: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in body.split("\n")) + "schedule one of k:\n    warps = 1\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_part_is_read_where_it_stands(name: str) -> None:
    body, meaning = PROGRAMS[name]
    args = {"y": Y.copy(), "x": X.copy(), "t": np.array([5, 7], np.float32)}
    run(indented(body), args)
    first, second = meaning()
    assert np.array_equal(args["y"], np.concatenate([np.broadcast_to(first, B), np.broadcast_to(second, B)]))


WHOLE = """
kernel k(y: f32[n], x: f32[n]; N = 1024):
    grid cdiv(n, N)
    i = block(0) * N
    y[i : i + N] = {call}
"""


@pytest.mark.parametrize("call", ["gelu({x})", "pow({x}, {x} + 1.0)", "sigmoid({x})"])
def test_a_function_of_the_language_reads_its_argument_once(call: str) -> None:
    """gelu read it three times, pow 17 times."""
    call = call.format(x="x[i : i + N]")
    args = {"x": np.linspace(0.1, 3, 1024, dtype=np.float32), "y": np.zeros(1024, np.float32)}
    kernel = compile_kernel(WHOLE.format(call=call), args)
    loads = call.count("x[")
    assert kernel.count("load") == loads
    assert launch(kernel, args).counters.totals.global_load_sectors == loads * 128


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_a_function_with_a_branch_takes_a_part_of_any_size(name: str) -> None:
    """Read inside of the branch, it needed one element a thread."""
    args = {"x": np.linspace(-300000, 300000, 1024, dtype=np.float32), "y": np.zeros(1024, np.float32)}
    launch(compile_kernel(WHOLE.format(call=f"{name}(x[i : i + N])"), args), args)
    assert np.allclose(args["y"], getattr(np, name)(args["x"].astype(np.float64)), 1e-4, 1e-4)


def test_a_place_that_a_def_reads_is_checked() -> None:
    """Indices of a part that a def gets may lie outside if the def masks them, and may not if it reads them."""
    body = "def add(p, m):\n    return p + atomic_add(p, 1.0, mask=m)\ni = arange(B)\nz = add(y[i - 1], i > 0)"
    with pytest.raises(TileError, match="index -1 of axis 0: indices count from 0"):
        compile_kernel(indented(body), {"y": Y, "x": X, "t": X[:2]})


def test_only_what_a_def_reads_is_asserted_to_lie_inside() -> None:
    """With --strict-bounds: a def that masks its part's indices reads none that lie outside."""
    body = "def add(p, m):\n    z = atomic_add(p, 1.0, mask=m)\nj = arange(B) * (n // 32)\nadd(y[j], j < n)"
    args = {"y": Y.copy(), "x": X, "t": X[:2]}
    kernel = compile_kernel(indented(body), args, strict_bounds=True)
    assert kernel.count("assert") == 1 and not kernel.count("load")
