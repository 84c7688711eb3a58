"""Products whose operands are bytes that become f16 or bf16: threads load words of bytes, wherever they are
neighbours."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from dsl.kernels.compile import Lowered
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import PASSES
from dsl.lowering.text.printer import printed
from dsl.lowering.text.reader import read
from dsl.text.program import parse_program
from tests.compile_and_run import ARRAYS, Kernel, compile_kernel, launch

BYTES, WIDE = ("s8", "u8", "e4m3", "e5m2"), ("f16", "bf16")
ALL = np.arange(256, dtype=np.uint8)
ONE_BYTE = re.compile(r"ld\.shared\.[usb](8|16)\b")
OLD = re.compile(r"cvt\.\w+\.\w+\.[su]8\b|cvt\.rn\.b?f16\.[su](8|16|32)\b|cvt\.rn\.f32\.[su]\d+")


MULTIPLY = """
kernel multiply(c: f32[m, n], a: A[{a}], b: B[{b}];
                A in {types}, B in {types}, R in f16|bf16, TM = 32, TN = 64, TK = 32):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(f32[TM, TN])
    for p in range(0, k, TK):
        left, right = a[{of_a}]{turn_a}, b[{of_b}]{turn_b}
        acc = dot(left.to(R), right.to(R), acc)
    c[i : i + TM, j : j + TN] = acc

schedule s of multiply:
    warps = 2
    instruction acc: mma.sync
    stage a, b: shared
    pipeline p: 2
    {line}
"""
LEFT = {"k": ("m, k", "i : i + TM, p : p + TK", ""), "m": ("k, m", "p : p + TK, i : i + TM", ".T")}
RIGHT = {"k": ("n, k", "j : j + TN, p : p + TK", ".T"), "n": ("k, n", "p : p + TK, j : j + TN", "")}


def multiplied(
    left: str, right: str, types: tuple[str, str], to: str, line: str = ""
) -> tuple[Kernel, dict[str, np.ndarray], np.ndarray]:
    """A kernel with its arrays, and what it is to compute: all finite numbers, if b alone has bytes. NaN and inf have
    columns of their own, as such a column of the product has only NaN."""
    random = np.random.default_rng(1)
    m, n, k = 64, 128, 64
    made = []
    for type, shape in ((types[0], (m, k)), (types[1], (k, n))):
        if type in WIDE:
            made.append(random.integers(-3, 4, shape).astype(ARRAYS[type]))
            continue
        x = np.resize(ALL, m * k if shape == (m, k) else k * n).view(ARRAYS[type])
        x = random.permutation(x).reshape(shape)
        # Products of large numbers are not exact in f32: they stay in one factor.
        near = np.abs(x.astype(np.float32)) <= (8 if shape == (m, k) or types[0] not in WIDE else 2.0**40)
        made.append(np.where(near, x, ARRAYS[type].type(1)))
    a, b = made
    if types[0] in WIDE and types[1] in BYTES:
        a = np.zeros_like(a)
        a[np.arange(m), np.arange(m) % k] = 1  # so that each element of b is an element of the result
        if types[1] in ("e4m3", "e5m2"):
            b[5, 1:3] = np.nan, -np.nan
        if types[1] == "e5m2":
            b[6, 3:5] = np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        exact = a.astype(np.float64) @ b.astype(np.float64)
    a, b = (np.ascontiguousarray(x.T if turned else x) for x, turned in ((a, left == "m"), (b, right == "k")))
    (dims_a, of_a, turn_a), (dims_b, of_b, turn_b) = LEFT[left], RIGHT[right]
    text = MULTIPLY.format(
        a=dims_a, b=dims_b, of_a=of_a, of_b=of_b, turn_a=turn_a, turn_b=turn_b, line=line, types="|".join(BYTES + WIDE)
    )
    args = {"a": a, "b": b, "c": np.zeros((m, n), np.float32)}
    return compile_kernel(text, args, types={"A": types[0], "B": types[1], "R": to}), args, exact


@pytest.mark.parametrize("to", WIDE)
@pytest.mark.parametrize(
    "types", [("{to}", t) for t in BYTES] + [(t, "{to}") for t in BYTES] + [("s8", "e4m3")], ids="-".join
)
@pytest.mark.parametrize(("left", "right"), list(product(LEFT, RIGHT)))
def test_operands_of_bytes_are_loaded_in_words(left: str, right: str, types: tuple[str, str], to: str) -> None:
    both = (types[0].format(to=to), types[1].format(to=to))
    kernel, args, exact = multiplied(left, right, both, to)
    result = launch(kernel, args)
    within = 0.0 if both[0] in WIDE and both[1] in BYTES else 1e-6
    assert np.allclose(args["c"], exact, rtol=within, atol=1e3 * within, equal_nan=True)
    assert not ONE_BYTE.search(kernel.ptx) and not OLD.search(kernel.ptx)
    loads = [op for op in kernel.ops if op.name in ("load", "ldmatrix") and op.operands[0].dtype.name in BYTES]
    ways = {
        op.operands[0].name: way != "k"
        for op in loads
        for name, way in (("sa", left), ("sb", right))
        if op.operands[0].name == name
    }
    assert len(ways) == sum(t in BYTES for t in both)
    assert all(op.name == "ldmatrix" and op.attrs["trans"] == ways[op.operands[0].name] for op in loads)
    assert result.counters.totals.bank_conflicts == 0


CHAIN = """
kernel chain(o: f32[m, d], q: R[m, d], keys: C[n, d], values: C[{values}];
             R in f16|bf16, C in s8|e4m3, TM = 64, TN = 32, D = 64):
    grid cdiv(m, TM)
    i = block(0) * TM
    acc, own = zeros(f32[TM, D]), q[i : i + TM, 0 : D]
    for j in range(0, n, TN):
        x = dot(own, keys[j : j + TN, 0 : D].to(R).T)
        acc = dot(x.to(R), values[{of_values}].to(R){turned}, acc)
    o[i : i + TM, 0 : D] = acc

schedule s of chain:
    warps = 4
    layout acc: warps [4, 1]
    layout x: warps [4, 1]
    stage keys, values: shared
    pipeline j: 2
"""


@pytest.mark.parametrize("source", ["s8", "e4m3"])
@pytest.mark.parametrize("to", WIDE)
@pytest.mark.parametrize("way", ["rows of keys", "columns of keys"])
def test_a_product_is_the_operand_of_the_next_in_its_registers(way: str, to: str, source: str) -> None:
    """Whatever order of k the second product takes, the first one gives its columns in it."""
    random = np.random.default_rng(2)
    m, n, d, turned = 64, 64, 64, way == "columns of keys"
    text = CHAIN.format(
        values="d, n" if turned else "n, d",
        of_values="0 : D, j : j + TN" if turned else "j : j + TN, 0 : D",
        turned=".T" if turned else "",
    )
    q, keys, values = (random.integers(-1, 2, shape) for shape in ((m, d), (n, d), (n, d)))
    args = {"o": np.zeros((m, d), np.float32), "q": q.astype(ARRAYS[to]), "keys": keys.astype(ARRAYS[source])}
    args["values"] = np.ascontiguousarray(values.T if turned else values).astype(ARRAYS[source])
    kernel = compile_kernel(text, args, types={"R": to, "C": source})
    result = launch(kernel, args)
    assert np.array_equal(args["o"], (q @ keys.T) @ values)
    assert {op.result.name for op in kernel.ops if op.name == "shared_alloc"} == {"skeys", "svalues"}
    assert not ONE_BYTE.search(kernel.ptx) and result.counters.totals.bank_conflicts == 0


SHARED = """
kernel both(c: f32[16, n], e: f32[16, n], q: f16[16, k], a: s8[n, k], b: f16[n, k];
            K, N):
    grid 1
    own = q[0 : 16, 0 : K]
    c[0 : 16, 0 : N] = dot(own, a[0 : N, 0 : K].to(f16).T)
    e[0 : 16, 0 : N] = dot(own, b[0 : N, 0 : K].T)

schedule s of both:
    K, N = 32, 32
    warps = 1
"""


def test_products_that_share_an_operand_take_it_in_one_order() -> None:
    """Otherwise, `own` would pass through shared memory."""
    random = np.random.default_rng(3)
    args = {name: np.zeros((16, 32), np.float32) for name in "ce"}
    args |= {name: random.integers(-4, 5, (rows, 32)).astype(np.float16) for name, rows in (("q", 16), ("b", 32))}
    args["a"] = random.integers(-128, 128, (32, 32)).astype(np.int8)
    kernel = compile_kernel(SHARED, args)
    launch(kernel, args)
    for out, operand in (("c", "a"), ("e", "b")):
        assert np.array_equal(args[out], args["q"].astype(np.float32) @ args[operand].astype(np.float32).T)
    assert {op.attrs["instruction"].near for op in kernel.ops if op.name == "dot"} == {"k"}
    assert not any(op.name == "shared_alloc" and op.result.name == "scratch" for op in kernel.ops)


BATCH = """
kernel batch(c: f32[4, 16, 32], a: f16[4, 16, 32], b: s8[{b}]):
    grid 1
    c[0 : 4, 0 : 16, 0 : 32] = dot(a[0 : 4, 0 : 16, 0 : 32], {load}, zeros(f32[4, 16, 32]))

schedule s of batch:
    warps = 2
"""


@pytest.mark.parametrize("way", ["k", "n"])
def test_a_batch_of_products_has_bytes(way: str) -> None:
    random = np.random.default_rng(4)
    b = random.integers(-128, 128, (4, 32, 32)).astype(np.int8)
    loads = {
        "k": "transpose(b[0 : 4, 0 : 32, 0 : 32].to(f16), [0, 2, 1])",
        "n": "b[0 : 4, 0 : 32, 0 : 32].to(f16)",
    }
    args = {"a": random.integers(-4, 5, (4, 16, 32)).astype(np.float16), "c": np.zeros((4, 16, 32), np.float32)}
    args["b"] = np.ascontiguousarray(b.transpose(0, 2, 1)) if way == "k" else b
    kernel = compile_kernel(BATCH.format(b="4, 32, 32", load=loads[way]), args)
    launch(kernel, args)
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ b.astype(np.float32))
    (dot,) = (op for op in kernel.ops if op.name == "dot")
    assert dot.attrs["instruction"].near == way


def test_plain_is_right_and_takes_bytes_singly() -> None:
    line = "choose words.acc: plain"
    kernel, args, exact = multiplied("k", "n", ("f16", "s8"), "f16", line)
    launch(kernel, args)
    assert np.array_equal(args["c"], exact)
    assert ONE_BYTE.search(kernel.ptx) and OLD.search(kernel.ptx)


def test_the_text_of_ir_says_where_bytes_are_neighbours() -> None:
    variant = multiplied("k", "n", ("f16", "s8"), "f16")[0].variant
    program = parse_program(BATCH.format(b="4, 32, 32", load="b[0 : 4, 0 : 32, 0 : 32].to(f16)"))
    text = printed(Lowered(variant, {}, [row.name for row in PASSES]).level(program))
    named = 'mma("mma.sync.m16n8k16.f32.f16.f16.f32", "n")'
    assert named in text and printed(read(text, "k.ir")) == text
    with pytest.raises(TileError, match="takes no bytes that are neighbours along 'q'"):
        read(text.replace(named, named.replace('"n"', '"q"')), "k.ir")
    s8 = 'mma("mma.sync.m16n8k32.s32.s8.s8.s32", "n")'
    with pytest.raises(TileError, match="takes no bytes that are neighbours along 'n'"):
        read(text.replace(named, s8), "k.ir")


BY_HAND = """
kernel by_hand(c: O[16, 32], a: f16[16, 32], b: s8[{b}]; O in f16|f32):
    grid 1
    shared sa: f16[16, 32]
    shared sb: s8[{b}]
    sa = a[0 : 16, 0 : 32]
    sb = b[0 : 32, 0 : 32]
    c[0 : 16, 0 : 32] = dot(ldmatrix(sa[:, :]), {load}, zeros(O[16, 32]))

schedule s of by_hand:
    warps = 1
"""


@pytest.mark.parametrize("sums", ["f16", "f32"])
@pytest.mark.parametrize("load", ["load(sb[:, :]).to(f16).T", "load(sb[:, :]).to(f16)", "ldmatrix(sb[:, :]).to(f16)"])
def test_ldmatrix_of_the_kernel_leaves_the_order_of_k(load: str, sums: str) -> None:
    random = np.random.default_rng(6)
    args = {"a": random.integers(-1, 2, (16, 32)).astype(np.float16), "c": np.zeros((16, 32), ARRAYS[sums])}
    args["b"] = random.integers(-8, 9, (32, 32)).astype(np.int8)
    kernel = compile_kernel(BY_HAND.format(b="32, 32", load=load), args, types={"O": sums})
    launch(kernel, args)
    b = args["b"].T if load.endswith(".T") else args["b"]
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ b.astype(np.float32))
    (dot,) = (op for op in kernel.ops if op.name == "dot")
    assert dot.attrs["instruction"].near == ("" if load.endswith(".T") else "n")


MASKED = """
kernel masked(c: f32[16, 32], a: f16[16, 32], b: f16[32, 32], kept: u8[32, 32]):
    grid 1
    flags = kept[0 : 32, 0 : 32] != 0
    right = where(flags, b[0 : 32, 0 : 32], 0.0)
    c[0 : 16, 0 : 32] = dot(a[0 : 16, 0 : 32], right.T, zeros(f32[16, 32]))

schedule s of masked:
    warps = 1
"""


def test_bytes_that_only_decide_are_no_operands() -> None:
    random = np.random.default_rng(7)
    args = {name: random.integers(-3, 4, (rows, 32)).astype(np.float16) for name, rows in (("a", 16), ("b", 32))}
    args |= {"c": np.zeros((16, 32), np.float32), "kept": random.integers(0, 2, (32, 32)).astype(np.uint8)}
    kernel = compile_kernel(MASKED, args)
    launch(kernel, args)
    right = np.where(args["kept"] != 0, args["b"], 0).astype(np.float32)
    assert np.array_equal(args["c"], args["a"].astype(np.float32) @ right.T)
    assert [op.attrs["instruction"].near for op in kernel.ops if op.name == "dot"] == [""]
