"""What is computed when compiling is what the run computes: folded operations, numbers, functions of both."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from test_elementwise import ROWS, specials, wrapped

import dsl.values.functions  # noqa: F401 (the rows)
from dsl.kernels.variant import Request, build_variant
from dsl.lowering.building.builder import Builder
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import Loc, Source
from dsl.lowering.ir.types import DTYPES, int_range
from dsl.text.program import parse_program
from dsl.values import table
from dsl.values.arithmetic import ConstantError, call
from tests.compile_and_run import NUMPY, compile_kernel, launch, run

INTEGERS = [d for d in DTYPES.values() if d.is_int and d.kind != "index"]
FOLDED = [n for n, (_, on_integers, _) in ROWS.items() if on_integers and n != "select"]
INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_a_folded_operation_is_what_the_run_makes_of_it(dtype) -> None:
    """Against the table that the emulator is held to: whatever of two constants becomes a constant."""
    values = [int(v) for v in specials(dtype, 24)]
    builder, folded = Builder(Loc(Source("test", ""), 0, 0)), set()
    for name in FOLDED:
        text, meaning, _ = ROWS[name]
        binary = name not in ("neg", "not", "abs", "popc", "clz", "brev")
        for a in values:
            for b in values if binary else [0]:
                operands = [builder.constant(v, dtype) for v in ((a, b) if binary else (a,))]
                got = constant_of(builder.value(name, *operands))
                want = meaning(*((a, b) if binary else (a,)), dtype)
                if got is None or want is None:  # left to the run, or without a meaning
                    continue
                folded.add(name)
                result = bool(want) if ".to(s8)" in text else wrapped(int(want), dtype)
                assert got == result, f"{name} of {a} and {b}: {got}, not {result}"
    assert {"add", "mul", "floordiv", "mod", "shl", "shr", "neg", "lt", "minimum"} <= folded


def test_floats_are_folded_where_nothing_is_rounded() -> None:
    """Whole numbers whose result the type holds, as in the square of 0. Signs of zeros are left to the run."""
    builder = Builder(Loc(Source("test", ""), 0, 0))
    for name, operands, dtype, wanted in (
        ("mul", (0.0, 0.0), "f32", 0.0), ("mul", (3.0, -5.0), "bf16", -15.0), ("add", (2.0, 3.0), "f16", 5.0),
        ("sub", (2.0, 2.0), "f64", 0.0), ("neg", (7.0,), "f32", -7.0), ("maximum", (-3.0, 2.0), "f32", 2.0),
        ("mul", (17.0, 17.0), "bf16", None), ("mul", (2048.0, 32.0), "f16", None), ("add", (0.5, 0.5), "f32", None),
        ("mul", (-0.0, 1.0), "f32", None), ("mul", (INF, 0.0), "f32", None), ("add", (NAN, 1.0), "f32", None),
    ):  # fmt: skip
        made = [builder.constant(number, DTYPES[dtype]) for number in operands]
        assert constant_of(builder.value(name, *made)) == wanted, (name, operands, dtype)


def test_a_cast_of_a_float_is_folded_where_it_is_exact() -> None:
    """Rounding is left to the run, that of a literal in its own type included."""
    builder = Builder(Loc(Source("test", ""), 0, 0))

    def cast(value: float, source: str, to: str) -> Any:
        made = builder.constant(value, DTYPES[source])
        return constant_of(builder.value("cast", made, to=DTYPES[to], saturate=False, rounding=None))

    for value, source, to, wanted in (
        (0.0, "f16", "f32", 0.0), (-0.0, "bf16", "f64", -0.0), (-INF, "f16", "f64", -INF),
        (65504.0, "f32", "f16", 65504.0),
        (0.1, "f16", "f32", float(np.float16(0.1))), (-128, "s8", "f32", -128.0), (2**24, "s32", "f32", 2.0**24),
        (2**24 + 1, "s32", "f32", None), (0.1, "f64", "f32", None), (1e6, "f32", "f16", None),
        (0.1, "f32", "e4m3", None), (-2.0, "f64", "s8", -2), (2.5, "f32", "s32", None), (-INF, "f32", "s32", None),
    ):  # fmt: skip
        got = cast(value, source, to)
        assert got == wanted and (wanted is None or math.copysign(1, got) == math.copysign(1, wanted)), (value, to)


@pytest.mark.parametrize(
    ("rows", "wanted"), [("1", True), ("2", False), ("n", False)], ids=["one row", "two rows", "any rows"]
)
def test_the_last_row_is_the_first_one_where_there_is_one(rows: str, wanted: bool) -> None:
    """`minimum(block(0), rows - 1)` is 0, so what is read in its place needs no address of its own."""
    text = f"""
kernel k(y: f32[{rows}, m], x: f32[{rows}, m]):
    grid {rows}
    r = minimum(block(0), {rows} - 1)
    y[block(0), 0 : 32] = x[r, 0 : 32]
"""
    variant = build_variant(parse_program(text), Request("k", None, {"n": 3, "m": 32} if rows == "n" else {"m": 32}))
    (load,) = [op for op in walk(variant.function.body) if op.name == "load"]
    taken = {op.name for op in walk(variant.function.body)}
    assert ("minimum" not in taken) == wanted and load.result.tile.shape == (32,)


@pytest.mark.parametrize("name", ["u8", "s8", "s16", "u32", "s32", "s64", "u64"])
def test_cdiv_rounds_up_everywhere(name: str) -> None:
    """Of all pairs of 8 bits, of special numbers else; also with divisors that are known."""
    dtype = DTYPES[name]
    low, high = int_range(dtype)
    values = range(low, high + 1) if dtype.bits == 8 else [int(v) for v in specials(dtype, 64)]
    pairs = [(a, b) for a in values for b in values]
    size = 1 << (len(pairs) - 1).bit_length()
    a, b = (np.resize(np.array(side, NUMPY[name]), size) for side in zip(*pairs, strict=True))
    block = min(size, 8192)
    text = f"""
kernel k(y: {name}[n], seven: {name}[n], a: {name}[n], b: {name}[n]; BLOCK):
    grid n // BLOCK
    i = block(0) * BLOCK
    v = load(a[i : i + BLOCK])
    store(y[i : i + BLOCK], cdiv(v, load(b[i : i + BLOCK])))
    store(seven[i : i + BLOCK], cdiv(v, 7))
"""
    args = {"y": np.zeros_like(a), "seven": np.zeros_like(a), "a": a, "b": b}
    launch(compile_kernel(text, args, constants={"BLOCK": block}), args)
    for divisor, got in ((b.tolist(), args["y"]), ([7] * size, args["seven"])):
        met = zip(a.tolist(), divisor, got.tolist(), strict=True)
        assert not [(x, by, g) for x, by, g in met if by and g != -(-x // by) and g != wrapped(-(-x // by), dtype)]


def test_cdiv_of_indices_near_the_last() -> None:
    y = np.zeros(4, np.int64)
    text = """
kernel k(y: s64[4], n: s32):
    grid 1
    i = n.to(index)
    y[0] = cdiv(i, 64).to(s64)
    y[1] = cdiv(i, i).to(s64)
    y[2] = cdiv(-i, 1000).to(s64)
    y[3] = cdiv((250).to(u8), (7).to(u8)).to(s64)
"""
    n = (1 << 31) - 1
    run(text, {"y": y, "n": n}, index_bits=32)
    assert y.tolist() == [-(-n // 64), 1, -(n // 1000), 36]


NUMBERS = [0.0, -0.0, 1.0, -2.5, INF, -INF, NAN]


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_extremes_of_numbers_are_those_of_values(name: str) -> None:
    """NaN propagates, and -0 is smaller than 0, whichever stands first."""
    pairs = [(a, b) for a in NUMBERS for b in NUMBERS]
    x, z = (np.resize(np.array(side), 64) for side in zip(*pairs, strict=True))
    y = np.zeros(64)
    text = f"""
kernel k(y: f64[64], x: f64[64], z: f64[64]):
    grid 1
    store(y[0 : 64], {name}(load(x[0 : 64]), load(z[0 : 64])))
"""
    run(text, {"y": y, "x": x, "z": z})
    for (a, b), of_run in zip(pairs, y.tolist(), strict=False):
        got = call(name, table.ROWS[name].numbers, [a, b])
        same = got == of_run and math.copysign(1, got) == math.copysign(1, of_run)
        assert same or (got != got and of_run != of_run), (a, b)


@pytest.mark.parametrize("how", ["", ", rounding=nearest", ", rounding=zero", ", rounding=up", ", rounding=down"])
def test_numbers_convert_as_values_do(how: str) -> None:
    """Floats saturate and round as they are told; NaN is 0."""
    numbers = [2.5, -2.5, 3.5, 0.1, -0.1, 300.7, -300.7, 1e30, -1e30, 1e-9, 65504.0, 70000.0]
    special = ["inf", "-inf", "nan"]
    texts = [f"({v!r})" if v >= 0 else f"(-{-v!r})" for v in numbers] + [f"({v})" for v in special]
    values = np.array([*numbers, INF, -INF, NAN])
    types = ["s8", "u8", "s32", "u64", "f16", "f32", "f64"]
    lines = [f"    a_{t}[{i}] = {v}.to({t}{how})\n" for t in types for i, v in enumerate(texts)]
    lines += [f"    b_{t}[{i}] = x[{i}].to({t}{how})\n" for t in types for i in range(len(texts))]
    params = ", ".join(f"{side}_{t}: {t}[15]" for side in "ab" for t in types)
    args = {f"{side}_{t}": np.zeros(15, NUMPY[t]) for side in "ab" for t in types}
    run(f"kernel k({params}, x: f64[15]):\n    grid 1\n{''.join(lines)}", {**args, "x": values})
    for t in types:
        assert np.array_equal(args[f"a_{t}"], args[f"b_{t}"], equal_nan=t[0] == "f"), t


def test_functions_of_numbers_that_have_no_value() -> None:
    for name, numbers in (("round", [INF]), ("next_pow2", [INF]), ("floor", [NAN]), ("cdiv", [1, 0])):
        with pytest.raises(ConstantError):
            call(name, table.ROWS[name].numbers, numbers)


REDUCED = """
def less(a, b):
    return a - b

def last(a, b):
    return where(b != 0, b, a)

def mean(m, n, p, q):
    return (m * n + p * q) / (n + q), n + q

kernel k(y: s32[4, 128], z: f32[128], rows: s32[4, 32], x: s32[128], f: f32[128]):
    grid 1
    v = load(x[0 : 128])
    store(y[0, 0 : 128], full(s32[128], reduce(less, v)))
    store(y[1, 0 : 128], full(s32[128], reduce(last, v)))
    w = reshape(v, [4, 32])
    store(rows[0 : 4, 0 : 32], reduce(less, w, axis=1, keepdims=true) + zeros(s32[4, 32]))
    m, n = reduce(mean, (load(f[0 : 128]), full(f32[128], 1.0)))
    store(z[0 : 128], full(f32[128], m))
schedule s of k:
    warps = {warps}
    layout v: vector [{vector}], lanes [32], warps [{warps}]
"""


@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("warps", [1, 4])
def test_a_function_that_does_not_commute_gives_all_threads_one_result(warps: int, vector: int) -> None:
    if warps * vector > 4:
        pytest.skip("more threads than elements")
    random = np.random.default_rng(1)
    x = random.integers(-99, 99, 128).astype(np.int32)
    f = random.standard_normal(128).astype(np.float32)
    args = {"y": np.zeros((4, 128), np.int32), "z": np.zeros(128, np.float32), "rows": np.zeros((4, 32), np.int32),
            "x": x, "f": f}  # fmt: skip
    text = REDUCED.replace("{warps}", str(warps)).replace("{vector}", str(vector))
    launch(compile_kernel(text, args), args)
    assert len(set(args["y"][0])) == len(set(args["y"][1])) == len(set(args["z"].view(np.int32))) == 1
    assert args["y"][1][0] in x and abs(args["z"][0] - f.mean()) < 1e-5
    assert all(len(set(row)) == 1 for row in args["rows"])


def test_functions_that_commute_take_no_more_exchanges() -> None:
    text = """
def join(m, s, n, t):
    high = maximum(m, n)
    return high, s * exp(m - high) + t * exp(n - high)

kernel k(y: f32[4], x: f32[32]):
    grid 1
    v = load(x[0 : 32])
    y[0] = sum(v)
    y[1] = max(v)
    m, z = reduce(join, (v, v * 2.0))
    y[2] = z
    y[3] = argmax(v).to(f32)
schedule s of k:
    warps = 1
"""
    kernel = compile_kernel(text, {})
    assert kernel.ptx.count("shfl.sync") == 5 * (1 + 1 + 2 + 2)


@pytest.mark.parametrize("by", [1, 4, 7, 64, -3, -8])
@pytest.mark.parametrize("name", ["s8", "u16", "s32", "u64"])
def test_what_is_left_over_is_taken_away(name: str, by: int) -> None:
    """`v - v % n` is `v // n * n`, at the ends of the type too."""
    if name.startswith("u") and by < 0:
        pytest.skip("no such number of this type")
    x = np.resize(np.array([int(v) for v in specials(DTYPES[name], 64)], NUMPY[name]), 64)
    y = np.zeros_like(x)
    body = f"v = load(x[0 : 64])\n    y[0 : 64] = v - v % ({by})\n"
    text = f"kernel k(y: {name}[64], x: {name}[64]):\n    grid 1\n    {body}"
    kernel = compile_kernel(text, {"y": y, "x": x})
    assert kernel.count("mod") == 0
    launch(kernel, {"y": y, "x": x})
    assert (y == np.array([wrapped(int(v) - int(v) % by, DTYPES[name]) for v in x], NUMPY[name])).all()


def test_a_start_without_what_is_left_over_is_aligned() -> None:
    """`base - base % 4` was read 4 bytes at a time: 3.96 times the sectors of `base // 4 * 4`."""
    text = """
kernel k(y: f32[n], x: f32[n], base: s32):
    grid 1
    i = base - base % 4 + arange(512)
    store(y[i], load(x[i]))
schedule s of k:
    warps = 4
    layout i: vector [4], lanes [32], warps [4]
"""
    x = np.arange(1024, dtype=np.float32)
    args = {"y": np.zeros_like(x), "x": x, "base": 9}
    kernel = compile_kernel(text, args)
    assert "ld.global.v4" in kernel.ptx and "st.global.v4" in kernel.ptx
    launch(kernel, args)
    assert (args["y"][8:520] == x[8:520]).all() and not args["y"][:8].any()
