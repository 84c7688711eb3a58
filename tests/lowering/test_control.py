"""Control flow and functions against Python: loops, branches, nested defs, asserts, prints, asm."""

from __future__ import annotations

import numpy as np
import pytest

from dsl.lowering.ir.location import TileError
from tests.compile_and_run import compile_kernel, launch, run

RANDOM = np.random.default_rng(9)
X = RANDOM.integers(-50, 50, 128).astype(np.int32)


def value_of(
    body: str, n: int = 5, x: np.ndarray = X, functions: str = "", extra: str = "", **request: object
) -> np.ndarray:
    """y[0 : 128] after a body that stores there; `n` is a scalar, `x` holds 128 integers."""
    y = np.zeros(128, np.int32)
    text = f"{functions}\nkernel k(y: s32[128], x: s32[128], n: s32{extra}):\n    grid 1\n    v = load(x[0 : 128])\n"
    text += "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    run(text, {"y": y, "x": x, "n": n}, **request)
    return y


STORE = "\nstore(y[0 : 128], full(s32[128], r))"


@pytest.mark.parametrize("n", [-3, 0, 1, 7])
@pytest.mark.parametrize(
    ("bounds", "python"),
    [
        ("n", lambda n: range(n)),
        ("2, n", lambda n: range(2, n)),
        ("n, 10, 3", lambda n: range(n, 10, 3)),
        ("n, -5, -2", lambda n: range(n, -5, -2)),
        ("10, n, -1", lambda n: range(10, n, -1)),
        ("0, 12, maximum(n, 1)", lambda n: range(0, 12, max(n, 1))),
    ],
)
@pytest.mark.parametrize("index_bits", [32, 64])
def test_for_counts_as_python_does(bounds: str, python, n: int, index_bits: int) -> None:
    want = 0
    for i in python(n):
        want = want * 3 + i
    body = f"r = n * 0\nfor i in range({bounds}):\n    r = r * 3 + i.to(s32)" + STORE
    assert (value_of(body, n, index_bits=index_bits) == np.int64(want).astype(np.int32)).all()


def test_for_carries_tiles_and_scalars_together() -> None:
    body = """
a = v
b = v * 0 + 1
i = n
for k in range(4):
    a, b = b, a + b
    i = i + k.to(s32)
    for j in range(k):
        i = i + 1
store(y[0 : 128], a * 1000 + b + i)
"""
    a, b, i = X.copy(), np.ones_like(X), 5
    for k in range(4):
        a, b, i = b, a + b, i + k + k
    assert (value_of(body) == a * 1000 + b + i).all()


@pytest.mark.parametrize("n", [0, 1, 4])
def test_loops_and_branches_carry_tuples(n: int) -> None:
    """Nested ones, with numbers in them, by `for`, `while` and `if`."""
    body = """
t = (v, v * 2), n * 0
for i in range(n):
    t = (t[0][1], t[0][0] + i.to(s32)), t[1] + 1
while t[1] < 10:
    t = t[0], t[1] + 3
if n > 2:
    t = (t[0][1], t[0][0]), t[1]
else:
    t = (t[0][0], t[0][1] * 5), 1
store(y[0 : 128], t[0][0] * 1000 + t[0][1] * 10 + t[1])
"""
    a, b, c = X.copy(), X * 2, 0
    for i in range(n):
        a, b, c = b, a + i, c + 1
    while c < 10:
        c += 3
    a, b, c = (b, a, c) if n > 2 else (a, b * 5, 1)
    assert (value_of(body, n) == a * 1000 + b * 10 + c).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("t = v, v\nfor i in range(n):\n    t = v, v, v", "'t' is a tuple of 2 before the loop and a tuple of 3 after"),
        ("t = v, v\nfor i in range(n):\n    t = v", "'t' is a tuple of 2 before the loop and a tile s32"),
        ("t = v, v\nif n > 0:\n    t = v, v, v", "'t' is a tuple of 3 in one branch and of 2 in the other"),
        (
            "t = v, v\nfor i in range(n):\n    t = v, v.to(f32)",
            r"'t' is s32\[128\] before the loop and f32\[128\] after",
        ),
    ],
)
def test_a_tuple_keeps_its_form(body: str, message: str) -> None:
    with pytest.raises(TileError, match=message):
        value_of(body + "\nstore(y[0 : 128], t[0])")


def test_behind_a_loop_the_thread_is_asked_for_again() -> None:
    """What follows from its number is not kept in registers through the loop; inside a branch it stays what it was."""
    body = """
for i in range(n):
    v = v + load(x[0 : 128])
store(y[0 : 128], v)
if n > 3:
    for i in range(2):
        v = v * 2
store(y[0 : 128], v)
"""
    assert (value_of(body, n=5) == X * 24).all() and (value_of(body, n=2) == X * 3).all()
    text = "kernel k(y: s32[128], x: s32[128], n: s32):\n    grid 1\n    v = load(x[0 : 128])\n"
    text += "".join(f"    {line}\n" for line in body.strip().split("\n"))
    kernel = compile_kernel(text, {"y": X.copy(), "x": X, "n": 5})
    assert kernel.ptx.count("%tid.x") == 2


def test_in_a_loop_with_loops_the_thread_is_asked_for_again_around_each() -> None:
    """At the head, at the head of the outer loop, behind the inner one, and behind the outer one."""
    body = """
for r in range(n):
    for i in range(2):
        v = v + load(x[0 : 128])
    store(y[0 : 128], v)
store(y[0 : 128], v)
"""
    assert (value_of(body, n=5) == X * 11).all() and (value_of(body, n=0) == X).all()
    text = "kernel k(y: s32[128], x: s32[128], n: s32):\n    grid 1\n    v = load(x[0 : 128])\n"
    text += "".join(f"    {line}\n" for line in body.strip().split("\n"))
    kernel = compile_kernel(text, {"y": X.copy(), "x": X, "n": 5})
    assert kernel.ptx.count("%tid.x") == 4


def test_masks_of_a_loop_that_counts_down() -> None:
    body = """
for i in range(n, -2, -1):
    store(y[i * 16 : i * 16 + 16], full(s32[16], i.to(s32) + 1))
"""
    assert (value_of(body, 9) == np.arange(128) // 16 + 1).all()


def test_for_static_unrolls() -> None:
    body = """
r = 0
for static i in range(4, -1, -2):
    for static j in range(2):
        r = r * 10 + i + j
store(y[0 : 128], full(s32[128], r))
"""
    assert (value_of(body) == 452301).all()


@pytest.mark.parametrize("n", [1, 6, 27])
def test_while_runs_until_its_condition_fails(n: int) -> None:
    body = """
steps = 0
k = n
while k != 1:
    k = where(k % 2 == 0, k // 2, 3 * k + 1)
    steps = steps + 1
store(y[0 : 128], full(s32[128], steps.to(s32)))
"""
    k, steps = n, 0
    while k != 1:
        k, steps = (k // 2 if k % 2 == 0 else 3 * k + 1), steps + 1
    assert (value_of(body, n) == steps).all()


def test_while_on_a_reduction_carries_a_tile() -> None:
    body = """
w = v
while max(w) > 0:
    w = w - 7
store(y[0 : 128], w)
"""
    iterations = max(0, -(-X.max() // 7))
    assert (value_of(body) == X - 7 * iterations).all()


@pytest.mark.parametrize("n", [-1, 0, 3, 9])
def test_if_on_scalars_merges_what_its_branches_bind(n: int) -> None:
    body = """
r = 1
t = v
if n < 0:
    r = n
elif n == 0:
    t = v * 2
    r = 7
else:
    if n > 5:
        t = v + n
    u = 5
    r = u + n
store(y[0 : 128], t + r.to(s32))
"""
    r, t = (n, X) if n < 0 else (7, X * 2) if n == 0 else (5 + n, X + n if n > 5 else X)
    assert (value_of(body, n) == t + r).all()


def test_if_merges_numbers_and_shapes() -> None:
    body = """
a = 1
b = 2.5
c = true
d = zeros(s32[128])
if n > 3:
    a = 2
    b = 3
    c = n > 100
    d = 4
store(y[0 : 128], where(c, 1, d) + a.to(s32) * 10 + b.to(s32) * 100)
"""
    with pytest.raises(TileError, match=r"4\.5 is no s32"):
        value_of(body.replace("d = 4", "d = 4.5"))
    assert (value_of(body, 5) == 324).all() and (value_of(body, 1) == 211).all()


def test_names_bound_in_one_branch_only_are_unknown_after_it() -> None:
    with pytest.raises(TileError, match="'u' has no value here"):
        value_of("if n > 3:\n    u = 1\nr = u" + STORE)


@pytest.mark.parametrize("warps", [4, 8])
def test_a_branch_of_threads(warps: int) -> None:
    """A real branch: what is inside is masked, what it binds is merged by element; the others are not touched."""
    body = """
k = arange(128)
w = v
total = 0
if v > 0:
    w = v * 2
    store(y[k], w + k.to(s32))
    for i in range(3):
        w = w + i.to(s32)
else:
    if v < -25:
        store(y[k], v * 0 - 1)
u = where(v > 0, w, 0)
"""
    want = np.where(X > 0, 2 * X + np.arange(128), np.where(X < -25, -1, 0))
    assert (value_of(body, constants={"warps": warps}) == want).all()


def test_a_branch_of_threads_binds_tiles() -> None:
    body = """
w = v
if v % 2 == 0:
    w = v * 2
    for i in range(3):
        w = w + i.to(s32)
elif v > 10:
    w = v // 2
store(y[0 : 128], w)
"""
    want = np.where(X % 2 == 0, 2 * X + 3, np.where(X > 10, X // 2, X))
    for warps in (1, 4, 8):
        assert (value_of(body, constants={"warps": warps}) == want).all()


FUNCTIONS = """
def twice(f, x):
    return f(f(x))

def scaled(x, by=3; SHIFT=0):
    return x * by + SHIFT

def both(a, b):
    return minimum(a, b), maximum(a, b)
"""


def test_functions_nest_capture_and_return_tuples() -> None:
    body = """
offset = n * 2
def shifted(x):
    return x + offset
def pick(flag):
    def inner(x):
        if flag:
            return shifted(x)
        return x
    return inner
low, high = both(v, -v)
pair = (low, high)
f = pick(true)
t = twice(f, high) + pair[0] * 0 + pick(false)(n)
store(y[0 : 128], t)
"""
    assert (value_of(body, functions=FUNCTIONS.replace("by=3; SHIFT=0", "by; SHIFT=0")) == np.abs(X) + 20 + 5).all()


def test_functions_take_constants_and_keywords() -> None:
    functions = FUNCTIONS.replace("by=3; SHIFT=0", "by; SHIFT=0")
    body = "store(y[0 : 128], scaled(v, 3) + scaled(by=2, x=v, SHIFT=7))"
    assert (value_of(body, functions=functions) == X * 5 + 7).all()
    with pytest.raises(TileError, match="no parameter 'SHFT'"):
        value_of(body.replace("SHIFT", "SHFT"), functions=functions)
    with pytest.raises(TileError, match="needs 'by'"):
        value_of("store(y[0 : 128], scaled(v))", functions=functions)


def test_functions_as_constants_of_the_kernel() -> None:
    functions = "def double(x):\n    return x * 2\ndef negate(x):\n    return -x\n"
    schedules = "schedule a of k:\n    F = double\nschedule b of k:\n    F = negate\n"
    for name, factor in (("a", 2), ("b", -1)):
        y = np.zeros(128, np.int32)
        text = (
            functions
            + "kernel k(y: s32[128], x: s32[128]; F):\n    grid 1\n    store(y[0 : 128], F(load(x[0 : 128])))\n"
            + schedules
        )
        run(text, {"y": y, "x": X}, schedule=name)
        assert (y == X * factor).all()


def test_a_def_that_calls_itself_is_a_located_error() -> None:
    with pytest.raises(TileError, match="cannot recurse"):
        value_of("store(y[0 : 128], f(v))", functions="def f(x):\n    return f(x)\n")


@pytest.mark.parametrize("assertion", ["v < 60", "v * 0 + arange(128).to(s32) < 127", "n < 5", "max(v) < 0"])
def test_a_failed_assert_leaves_its_place_in_the_record(assertion: str) -> None:
    holds = {"v < 60": True}.get(assertion, False)
    text = f"""
kernel k(y: s32[128], x: s32[128], n: s32):
    grid 3, 2
    v = load(x[0 : 128])
    m = n * 1
    if block(0) == 1:
        if block(1) == 1:
            assert {assertion.replace("n <", "m <")}
    store(y[0 : 128], v, mask=block(0) + block(1) == 0)
"""
    y, record = np.zeros(128, np.int32), np.zeros(8, np.uint32)
    kernel = compile_kernel(text, {"y": y, "x": X})
    launch(kernel, {"y": y, "x": X, "n": 5, "record": record})
    assert (y == X).all()
    if holds:
        assert not record.any()
        return
    assert list(record[:5]) == [1, 8, 1, 1, 0] and record[6] == record[7] == 0
    assert record[5] < 128 if "127" not in assertion else record[5] >= 96


def test_an_assert_of_dims_and_constants_is_the_hosts() -> None:
    text = "kernel k(y: s32[n]; N):\n    grid 1\n    assert n <= N\n    store(y[0 : N], zeros(s32[N]))\n"
    kernel = compile_kernel(text, {"y": np.zeros(8, np.int32)}, constants={"N": 8})
    assert kernel.count("assert") == 0 and next(c.text for c in kernel.variant.requires) == "n <= N"


def test_print_writes_scalars_once_and_tiles_by_element() -> None:
    text = """
kernel k(y: s32[128], x: s32[128], f: f16, u: u64):
    grid 1
    print("n = {}, half = {}, big = {}, flag = {}", x[3], f, u, f > 0.0)
    print("100%", arange(4) * 2)
"""
    result = run(text, {"y": np.zeros(128, np.int32), "x": X, "f": 1.5, "u": 2**63})
    lines = result.output.splitlines()
    assert lines[0] == f"n = {X[3]}, half = 1.5, big = {2**63}, flag = 1"
    assert sorted(lines[1:]) == [f"100% {2 * i}" for i in range(4)]


def test_print_in_a_branch_and_without_values() -> None:
    text = """
kernel k(y: s32[128], x: s32[128]):
    grid 2
    v = load(x[0 : 128])
    if block(0) == 1:
        print("here")
    if v == 49 and block(0) == 0:
        print("found {}", v)
"""
    result = run(text, {"y": np.zeros(128, np.int32), "x": np.where(np.arange(128) == 77, 49, 0).astype(np.int32)})
    assert sorted(result.output.splitlines()) == ["found 49", "here"]


def test_asm_for_each_element() -> None:
    body = """
s = asm("add.s32 {d}, {0}, {1};", s32, v, n)
q, r = asm("{{ div.s32 {d0}, {0}, {1}; rem.s32 {d1}, {0}, {1}; }}", (s32, s32), v, n)
h = asm("add.f16 {d}, {0}, {0};", f16, v.to(f16)).to(s32)
p = asm("and.pred {d}, {0}, {1};", i1, v > 0, v < 20)
store(y[0 : 128], s * 1000 + q * 100 + r + h + where(p, 1, 0))
""".replace("{{ ", "").replace(" }}", "")
    q = np.trunc(X / 5).astype(np.int32)
    want = (X + 5) * 1000 + q * 100 + (X - 5 * q) + 2 * X + ((X > 0) & (X < 20))
    assert (value_of(body) == want).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("r = 1\nfor i in range(0, 5, 0):\n    r = 2" + STORE, "step of a range is 0"),
        ("while true:\n    r = 1", "never ends"),
        ("for i in range(v):\n    r = 1", "scalar"),
        ("if n:\n    r = 1", "takes i1"),
        ("r = v\nfor i in range(3):\n    r = r.to(f32)", "before the loop"),
        ("if v > 0:\n    barrier()", "inside a tile 'if'"),
        ("r = asm(\"add.s32 {d}, {0}, {2};\", s32, v, n)", "does not use operand {1}"),
        ("for static i in range(n):\n    r = i", "must be a constant"),
        ("return 3", "only in a def"),
        ("grid 2", "first statement"),
        ("r = v(3)", "no function"),
        ("v.foo = 3", "foo"),
    ],
)  # fmt: skip
def test_mistakes_are_located(body: str, message: str) -> None:
    with pytest.raises(TileError) as caught:
        value_of(body)
    assert message in str(caught.value) and caught.value.loc is not None


def test_an_ellipsis_gives_the_callers_constants() -> None:
    """Those that the call does not name; a default where the caller has none; inner names hide outer ones."""
    functions = "def f(a; P, Q, R = 7, S = 9):\n    return a * P + Q * 10 + R * 100 + S * 1000\n"
    body = "r = f(n, Q=3, ...)\nS = 4\ndef g(b; P):\n    return f(b, ...)\nr = r * 100000 + g(n, P=2)" + STORE
    assert (value_of(body, 2, functions=functions, extra="; P = 5, Q = 6, R = 8") == 9840_04864).all()


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(n):\n    barrier()\n    if T % 2 == 0:\n        y[T] = v + i.to(s32)\n    else:\n"
        "        z[T] = v + i.to(s32)",
        "a = v\ni = n\nwhile i > 0:\n    store(s[0 : 128], a)\n    a = load(s[127 - T])\n    if v > 5:\n"
        "        a = a * 3 + load(x[T ^ 1])\n        y[T] = a\n    else:\n        z[T] = a + 1\n    i = i - 1",
    ],
)
def test_threads_that_took_both_sides_meet_before_the_next_round(body: str) -> None:
    """Each side may not jump to the loop's head, with its barrier, on its own."""
    text = "kernel k(y: s32[128], z: s32[128], x: s32[128], n: s32):\n    grid 1\n    shared s: s32[128]\n"
    text += "    T = arange(128)\n    v = load(x[0 : 128])\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    args = {"y": np.zeros(128, np.int32), "z": np.zeros(128, np.int32), "x": X, "n": 4}
    launch(compile_kernel(text, args), args)
    y, z, a, t = np.zeros(128, np.int32), np.zeros(128, np.int32), X.copy(), np.arange(128)
    for i in range(4):
        if body.startswith("for"):
            y[::2], z[1::2] = (X + i)[::2], (X + i)[1::2]
            continue
        a = a[127 - t]
        a = np.where(X > 5, a * 3 + X[t ^ 1], a)
        y, z = np.where(X > 5, a, y), np.where(X > 5, z, a + 1)
    assert (args["y"] == y).all() and (args["z"] == z).all()
