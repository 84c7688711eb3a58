"""Every elementwise operation on every type it takes, at special values, against integers and exact fractions."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.lowering.emit import RULES
from dsl.lowering.ir.location import TileError
from dsl.lowering.ir.types import DTYPES, DType, int_range
from dsl.lowering.ops import CLASSES, OPS
from tests.compile_and_run import NUMPY, compile_kernel, launch, run

ARITHMETIC = [d for d in DTYPES.values() if d.kind not in ("index", "operand")]
FLOATS = {"f16": (11, -14, 15), "bf16": (8, -126, 127), "f32": (24, -126, 127), "f64": (53, -1022, 1023)}
INF, NAN = math.inf, math.nan


def specials(dtype: DType, count: int) -> np.ndarray:
    """Boundary values of a type first, then random ones, `count` in all."""
    random = np.random.default_rng(dtype.bits + len(dtype.name))
    if dtype.kind == "bool":
        return np.resize(np.array([False, True]), count)
    if dtype.is_float:
        precision, low, high = FLOATS[dtype.name]
        tiny, least = 2.0**low, 2.0 ** (low - precision + 1) if dtype.name != "f64" else 5e-324
        most = float((2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** high)
        values = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, tiny, -tiny, least, most, -most, 0.5, 1.5, -2.5, 3.0]
        values += [1 + 2.0 ** (1 - precision), 1 / 3, -7.25, 100.0, 0.1, 255.5, -128.5, 1023.0]
        more = random.standard_normal(max(0, count - len(values))) * 4.0 ** random.integers(
            -3, 4, max(0, count - len(values))
        )
    else:
        low, high = int_range(dtype)
        values = [0, 1, 2, 3, high, high - 1, low, low + 1, high // 2, 5, 7, dtype.bits, dtype.bits - 1, dtype.bits + 1]
        values += [-1, -2, -7, -8] if dtype.is_signed else [high - 7, high // 3]
        more = random.integers(low, high, max(0, count - len(values)), dtype=NUMPY[dtype.name], endpoint=True)
    to = NUMPY[dtype.name]
    first = np.array(values).astype(to) if dtype.is_float else np.array(values, to)
    return np.concatenate([first, np.asarray(more).astype(to)])[:count]


def rounded(value: Fraction, dtype: str, mode: str = "nearest") -> float:
    """`value` in the float type, rounded to nearest even, towards zero, up or down; overflow as IEEE 754 has it."""
    precision, low, high = FLOATS[dtype]
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > magnitude
    unit = Fraction(2) ** (max(exponent, low) - precision + 1)
    scaled = value / unit
    whole = {"nearest": round, "zero": math.trunc, "up": math.ceil, "down": math.floor}[mode](scaled)
    result = whole * unit
    limit = (2 - Fraction(2) ** (1 - precision)) * Fraction(2) ** high
    if abs(result) > limit:
        away = mode == "nearest" or (mode == "up" and value > 0) or (mode == "down" and value < 0)
        return (INF if away else float(limit)) * (1 if value > 0 else -1)
    return float(result) if result else 0.0 * (1 if value > 0 else -1)


def wrapped(value: int, dtype: DType) -> int:
    """`value` modulo 2^bits, in the type's range."""
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.is_signed and value >> (dtype.bits - 1) else value


def shifted(a: int, b: int, dtype: DType, left: bool) -> int:
    """A distance outside 0 … bits - 1 shifts everything out."""
    distance = b if 0 <= b < dtype.bits else dtype.bits
    return wrapped(a << distance, dtype) if left else a >> distance


def reversed_bits(a: int, dtype: DType) -> int:
    return wrapped(int(f"{a & ((1 << dtype.bits) - 1):0{dtype.bits}b}"[::-1], 2), dtype)


def ieee(finite: Callable[..., Fraction], other: Callable[..., Any]) -> Callable[..., float]:
    """`finite` rounded once; where operands or the result are not finite or 0, numpy's `other` in f64 says what."""

    def apply(*operands: float, dtype: DType) -> float:
        if all(map(math.isfinite, operands)):
            try:
                value = finite(*map(Fraction, operands))
            except ZeroDivisionError:
                value = Fraction(0)
            if value:
                return rounded(value, dtype.name)
        with np.errstate(all="ignore"):
            return float(other(*map(np.longdouble, operands)))  # its range has room for products of f64

    return apply


def root(x: float, dtype: DType) -> float:
    """The square root rounded once: an integer root of a scaled fraction, its remainder kept as a sticky bit."""
    if not x > 0 or math.isinf(x):
        return x if x == 0 or x == INF else NAN
    shift = 240
    scaled = Fraction(x) * Fraction(4) ** shift
    scale = 4 ** (600 if scaled.denominator > 1 else 0)
    whole = math.isqrt(int(scaled * scale))
    inexact = whole * whole != scaled * scale
    return rounded(Fraction(2 * whole + inexact, 2) / (2**shift * math.isqrt(scale)), dtype.name)


def larger(a: float, b: float, dtype: DType) -> float:
    return NAN if a != a or b != b else max(a, b, key=lambda v: (v, math.copysign(1, v)))


def smaller(a: float, b: float, dtype: DType) -> float:
    """-0 is smaller than 0 (PTX ISA, min; IEEE 754-2019, minimum)."""
    return NAN if a != a or b != b else min(a, b, key=lambda v: (v, math.copysign(1, v)))


def rounder(f: Callable[[float], float]) -> Callable[..., float]:
    return lambda x, dtype: math.copysign(float(f(x)), x) if math.isfinite(x) else x


# One row an operation: how a kernel writes it, then its meaning on integers (exact, then wrapped) and on floats.
ROWS: dict[str, tuple[str, Callable[..., Any] | None, Callable[..., Any] | None]] = {
    "add": ("a + b", lambda a, b, d: a + b, ieee(lambda a, b: a + b, np.add)),
    "sub": ("a - b", lambda a, b, d: a - b, ieee(lambda a, b: a - b, np.subtract)),
    "mul": ("a * b", lambda a, b, d: a * b, ieee(lambda a, b: a * b, np.multiply)),
    "div": ("a / b", None, ieee(lambda a, b: a / b, np.divide)),
    "floordiv": ("a // b", lambda a, b, d: a // b if b else None, None),
    "mod": ("a % b", lambda a, b, d: a % b if b else None, None),
    "minimum": ("minimum(a, b)", lambda a, b, d: min(a, b), smaller),
    "maximum": ("maximum(a, b)", lambda a, b, d: max(a, b), larger),
    "neg": ("-a", lambda a, d: -a, lambda a, dtype: -a),
    "abs": ("abs(a)", lambda a, d: abs(a), lambda a, dtype: math.fabs(a)),
    "fma": ("fma(a, b, c)", None, ieee(lambda a, b, c: a * b + c, lambda a, b, c: a * b + c)),
    "mulhi": ("mulhi(a, b)", lambda a, b, d: (a * b) >> d.bits, None),
    "and": ("a & b", lambda a, b, d: a & b, None),
    "or": ("a | b", lambda a, b, d: a | b, None),
    "xor": ("a ^ b", lambda a, b, d: a ^ b, None),
    "not": ("~a", lambda a, d: ~a, None),
    "shl": ("a << b", lambda a, b, d: shifted(a, b, d, left=True), None),
    "shr": ("a >> b", lambda a, b, d: shifted(a, b, d, left=False), None),
    "popc": ("popc(a)", lambda a, d: (a & ((1 << d.bits) - 1)).bit_count(), None),
    "clz": ("clz(a)", lambda a, d: d.bits - (a & ((1 << d.bits) - 1)).bit_length(), None),
    "brev": ("brev(a)", reversed_bits, None),
    "floor": ("floor(a)", None, rounder(math.floor)),
    "ceil": ("ceil(a)", None, rounder(math.ceil)),
    "round": ("round(a)", None, rounder(round)),
    "trunc": ("trunc(a)", None, rounder(math.trunc)),
    "sqrt": ("sqrt(a)", None, root),
    "copysign": ("copysign(a, b)", None, lambda a, b, dtype: math.copysign(a, b)),
    "eq": ("(a == b).to(s8)", lambda a, b, d: a == b, lambda a, b, dtype: a == b),
    "ne": ("(a != b).to(s8)", lambda a, b, d: a != b, lambda a, b, dtype: a != b),
    "lt": ("(a < b).to(s8)", lambda a, b, d: a < b, lambda a, b, dtype: a < b),
    "le": ("(a <= b).to(s8)", lambda a, b, d: a <= b, lambda a, b, dtype: a <= b),
    "gt": ("(a > b).to(s8)", lambda a, b, d: a > b, lambda a, b, dtype: a > b),
    "ge": ("(a >= b).to(s8)", lambda a, b, d: a >= b, lambda a, b, dtype: a >= b),
    "select": ("where(c == a, a, b)", lambda a, b, c, d: a if c == a else b, lambda a, b, c, dtype: a if c == a else b),
}
# Approximations: meaning in f64, operands, and the bound on the error: relative, absolute (PTX ISA, floating point).
APPROXIMATIONS: dict[str, tuple[Callable[..., Any], tuple[float, float], float, float]] = {
    "ex2": (np.exp2, (-126, 127), 2**-22, 0),
    "ex2.ftz": (np.exp2, (-126, 127), 2**-22, 0),
    "lg2": (np.log2, (1e-30, 1e30), 2**-21, 2**-21),
    "sin": (np.sin, (-3.1, 3.1), 0, 2**-20),
    "cos": (np.cos, (-3.1, 3.1), 0, 2**-20),
    "tanh": (np.tanh, (-5, 5), 2**-10.5, 0),
    "rcp": (lambda x: 1 / x, (1e-30, 1e30), 2**-22, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (1e-30, 1e30), 2**-21.5, 0),
    "sqrt": (np.sqrt, (1e-30, 1e30), 2**-21.5, 0),
}


def approximate(name: str) -> str:
    """The operation's name: "ex2.ftz" is ex2.approx.ftz."""
    opcode, *flush = name.split(".")
    return ".".join([opcode, "approx", *flush])


ELSEWHERE = {"cast", "bitcast", "join_bits", "asm"}  # tests of their own, below and in test_control.py


def takes(name: str, dtype: DType) -> bool:
    """Whether the operation's row takes the type."""
    from dsl.lowering.ir.function import Value
    from dsl.lowering.ir.types import I1, TileType
    from dsl.lowering.ops import Mismatch

    spec = OPS[name]
    operands = [Value(TileType((), dtype)) for _ in range(spec.arity)]  # type: ignore[arg-type]
    if name == "select":
        operands[0] = Value(TileType((), I1))
    try:
        spec.infer(operands, {})
    except Mismatch:
        return False
    return True


CASES = [(name, d.name) for name in ROWS for d in ARITHMETIC if takes(name, d)]


def test_every_operation_has_an_emission_rule_and_every_elementwise_one_a_test():
    assert not OPS.keys() - RULES.keys()
    elementwise = {n for n, s in OPS.items() if s.elementwise}
    assert elementwise == ROWS.keys() | {approximate(n) for n in APPROXIMATIONS} | ELSEWHERE
    assert all(any(accepts(d) for d in ARITHMETIC) for accepts in CLASSES.values())


def same(got: np.ndarray, want: list[Any], signed_zeros: bool = True) -> np.ndarray:
    """Element by element: equal to the bit, any NaN for a NaN."""
    if got.dtype.kind not in "iub":
        values, expected = got.astype(np.float64), np.array(want, np.float64)
        equal = (values == expected) | (np.isnan(values) & np.isnan(expected))
        return equal & ((np.signbit(values) == np.signbit(expected)) | np.isnan(expected) | (not signed_zeros))
    return np.array([int(g) == int(w) for g, w in zip(got, want, strict=True)])


def check(got: np.ndarray, want: list[Any], operands: list[np.ndarray], signed_zeros: bool = True) -> None:
    defined = np.array([w is not None for w in want])
    good = same(got, [0 if w is None else w for w in want], signed_zeros) | ~defined
    if not good.all():
        i = int(np.argmin(good))
        raise AssertionError(f"{(~good).sum()} differ; {[o[i] for o in operands]} gives {got[i]}, not {want[i]}")


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_operation(name: str, dtype: str) -> None:
    text, on_integers, on_floats = ROWS[name]
    kind = DTYPES[dtype]
    arity = 3 if name in ("fma", "select") else 2 if "b" in text.replace("abs", "").replace("brev", "") else 1
    side = 32 if arity == 2 else 8 if arity == 3 else 512
    values = specials(kind, 32 if arity == 2 else 16 if arity == 3 else 512)
    grids = np.meshgrid(*[values[: 16 if arity == 3 else side]] * arity, indexing="ij")
    operands = [np.ascontiguousarray(g.reshape(-1)) for g in grids]
    size = 1 << (operands[0].size - 1).bit_length()
    operands = [np.resize(o, size) for o in operands]
    compare = ".to(s8)" in text
    result = "s8" if compare else dtype
    names = "abc"[:arity]
    kernel = f"""
kernel k(out: {result}[N], {", ".join(f"{n}: {dtype}[N]" for n in names)}; N):
    grid 1
    {", ".join(names)} = {", ".join(f"load({n}[0 : N])" for n in names)}
    store(out[0 : N], {text})
"""
    out = np.zeros(size, NUMPY[result])
    run(kernel, {"out": out, **dict(zip(names, operands, strict=True))}, constants={"N": size})
    if kind.is_float:
        assert on_floats is not None
        want = [on_floats(*map(float, row), dtype=kind) for row in zip(*operands, strict=True)]
    else:
        assert on_integers is not None
        rows = zip(*[[int(v) for v in o] for o in operands], strict=True)
        want = [on_integers(*row, kind) for row in rows]
        to = DTYPES["s8"] if compare else kind
        want = [w if w is None else int(w) & 1 if to.kind == "bool" else wrapped(int(w), to) for w in want]
    check(out, want, operands)


@pytest.mark.parametrize("name", APPROXIMATIONS)
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_approximation(name: str, dtype: str) -> None:
    meaning, (low, high), relative, absolute = APPROXIMATIONS[name]
    if dtype != "f32":
        low, high = max(low, 1e-3 if low > 0 else -8), min(high, 8)
        relative, absolute = relative + 2.0 ** -(FLOATS[dtype][0]), absolute + 2.0**-24
    if low > 0:
        x = np.geomspace(low, high, 256).astype(NUMPY[dtype])
    else:
        x = np.linspace(low, high, 256).astype(NUMPY[dtype])
    y = np.zeros_like(x)
    call = f"{approximate(name)}(load(x[0 : 256]))"
    text = f"kernel k(y: {dtype}[256], x: {dtype}[256]):\n    grid 1\n    store(y[0 : 256], {call})\n"
    run(text, {"y": y, "x": x})
    want = meaning(x.astype(np.float64))
    assert (np.abs(y.astype(np.float64) - want) <= relative * np.abs(want) * 1.01 + absolute).all()


# ---- conversions ----


def converted(value: Any, source: DType, to: DType, saturate: bool = False, mode: str | None = None) -> Any:
    """What `.to` means: ints wrap or saturate, floats round, floats to ints truncate and saturate, NaN gives 0."""
    if to.kind == "bool":
        return value != 0
    if to.is_float:
        if source.is_float:
            value = float(value)
            if not math.isfinite(value) or value == 0:
                return value
        return rounded(Fraction(value), to.name, mode or "nearest")
    if source.is_float:
        value = float(value)
        low, high = int_range(to)
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return high if value > 0 else low
        whole = {"nearest": round, "zero": math.trunc, "up": math.ceil, "down": math.floor}[mode or "zero"](
            Fraction(value)
        )
        return min(max(whole, low), high)
    low, high = int_range(to)
    return min(max(int(value), low), high) if saturate else wrapped(int(value), to)


@pytest.mark.parametrize("source", [d.name for d in ARITHMETIC])
@pytest.mark.parametrize(
    "how", ["", ", saturate", ", rounding=nearest", ", rounding=zero", ", rounding=up", ", rounding=down"]
)
def test_conversion(source: str, how: str) -> None:
    mode = how.partition("=")[2] or None
    targets = [d for d in ARITHMETIC if not (how == ", saturate" and not d.is_int)]
    if mode:
        kind = DTYPES[source]
        targets = [d for d in targets if d.is_float or (d.is_int and kind.is_float)]
        if mode in ("up", "down"):
            targets = [d for d in targets if d.name != "bf16"]  # refused: see below
    x = specials(DTYPES[source], 512)
    if DTYPES[source].bits >= 32 and DTYPES[source].is_int:  # halfway cases of every float type
        ties = np.array([(2**k + 1) * 2**s + e for k in (7, 10, 23) for s in (1, 5) for e in (-1, 0, 1)], np.int64)
        x[100 : 100 + ties.size] = ties.astype(x.dtype)
    if source in ("s64", "u64"):
        ties = np.array([2**62 + 2**54, 2**62 + 2**54 + 1, 2**62 + 2**54 - 1, 2**62 + 2**55 + 2**54 + 1], np.int64)
        x[200:204] = ties.astype(x.dtype)
    outs = {f"y_{d.name}": np.zeros(512, NUMPY[d.name]) for d in targets}
    lines = "".join(f"    store(y_{d.name}[0 : 512], v.to({d.name}{how}))\n" for d in targets)
    params = ", ".join(f"y_{d.name}: {d.name}[512]" for d in targets)
    run(f"kernel k(x: {source}[512], {params}):\n    grid 1\n    v = load(x[0 : 512])\n{lines}", {"x": x, **outs})
    for d in targets:
        values = [v.item() if hasattr(v, "item") else v for v in x]
        want = [converted(v, DTYPES[source], d, how == ", saturate", mode) for v in values]
        try:
            check(outs[f"y_{d.name}"], want, [x])
        except AssertionError as error:
            raise AssertionError(f"to {d.name}: {error}") from None


SMALL: dict[str, Callable[[int], int]] = {
    "v % 1000": lambda v: v % 1000,
    "v & 65535": lambda v: v & 65535,
    "v.to(s16).to(s32)": lambda v: wrapped(v, DTYPES["s16"]),
    "maximum(minimum(v, 16777216), 0)": lambda v: max(min(v, 1 << 24), 0),
}
"""Integers that are known to be some of f32's."""


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("to", ["f16", "bf16"])
def test_integers_become_16_bits_in_one_rounding_without_f64(to: str, source: str, arch: str) -> None:
    """What f32 rounds is infinite in f16. Of bf16, what f32 has is converted by it too; the rest by the instruction of
    sm_90, or by three to f32."""
    ties = [(2**k + 1) * 2**s + e for k in (7, 10, 23) for s in (0, 1, 5, 6) for e in (-1, 0, 1)]
    ties += [65519, 65520, 65521, 2**24 + 1, 2**31 - 1, 2**30 + 2**22, 2**30 + 2**22 + 1]
    x = specials(DTYPES[source], 256)
    x[: len(ties)] = np.array(ties, x.dtype)
    ways = {"v": int, **SMALL}
    outs = {f"y{i}": np.zeros(256, NUMPY[to]) for i in range(len(ways))}
    params = ", ".join(f"{name}: {to}[256]" for name in outs)
    lines = "".join(f"    store({y}[0 : 256], ({v}).to({to}))\n" for y, v in zip(outs, ways, strict=True))
    text = f"kernel k(x: {source}[256], {params}):\n    grid 1\n    v = load(x[0 : 256])\n{lines}"
    kernel = compile_kernel(text, {"x": x, **outs}, arch=arch)
    launch(kernel, {"x": x, **outs})
    for y, way in zip(outs.values(), ways.values(), strict=True):
        check(y, [rounded(Fraction(way(int(v))), to) for v in x], [x])
    wide = to == "bf16"  # of 'v' alone: two elements a thread
    assert ".f64" not in kernel.ptx
    assert len(re.findall(r"cvt\.r[mpz]\.f32", kernel.ptx)) == (6 if wide and arch == "sm_80" else 0)
    assert kernel.ptx.count("cvt.rn.bf16.") == (2 if wide and arch == "sm_90" else 0)


@pytest.mark.parametrize(("function", "mode"), [("round", "rni"), ("floor", "rmi"), ("ceil", "rpi"), ("trunc", "rzi")])
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
@pytest.mark.parametrize("to", ["s8", "u8", "s32"])
def test_rounding_and_conversion_are_one_instruction(function: str, mode: str, source: str, to: str) -> None:
    """Four bytes at once leave a word that is stored as it is."""
    x, y = specials(DTYPES[source], 512), np.zeros(512, NUMPY[to])
    text = f"""
kernel k(x: {source}[512], y: {to}[512]):
    grid 1
    store(y[0 : 512], {function}(load(x[0 : 512])).to({to}))
"""
    args = {"x": x, "y": y}
    kernel = compile_kernel(text, args)
    launch(kernel, args)
    with np.errstate(invalid="ignore"):
        whole = np.nan_to_num(getattr(np, {"round": "rint"}.get(function, function))(x.astype(np.float64)))
    assert (y == np.clip(whole, *int_range(DTYPES[to]))).all()
    assert kernel.ptx.count(f"cvt.{mode}.") == 4 and f"cvt.{mode}.f" not in kernel.ptx
    packed = to != "s32" and source != "f64"
    assert kernel.ptx.count("cvt.pack.sat") == (2 if packed else 0)
    assert not packed or "prmt" not in kernel.ptx


@pytest.mark.parametrize("bits", [32, 64])
def test_index_converts_as_an_integer_of_its_width(bits: int) -> None:
    x = np.array([0, 1, -1, 2**31 - 1, -(2**31), 2**33 + 5, -(2**40), 77], np.int64)
    y, f = np.zeros(8, np.int64), np.zeros(8, np.float64)
    text = """
kernel k(y: s64[8], f: f64[8], x: s64[8]):
    grid 1
    i = load(x[0 : 8]).to(index)
    store(y[0 : 8], i.to(s64))
    store(f[0 : 8], i.to(f64))
"""
    run(text, {"y": y, "f": f, "x": x}, index_bits=bits)
    want = x if bits == 64 else x.astype(np.int32).astype(np.int64)
    assert (y == want).all() and (f == want.astype(np.float64)).all()


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_bitcast_keeps_the_bits(bits: int) -> None:
    kinds = [d for d in ARITHMETIC if d.bits == bits]
    x = np.random.default_rng(bits).integers(0, 1 << bits, 64, dtype=NUMPY[f"u{bits}"])
    for source in kinds:
        outs = {f"y_{d.name}": np.zeros(64, NUMPY[d.name]) for d in kinds}
        params = ", ".join(f"y_{d.name}: {d.name}[64]" for d in kinds)
        lines = "".join(f"    store(y_{d.name}[0 : 64], bitcast(v, {d.name}))\n" for d in kinds)
        text = f"kernel k(x: {source.name}[64], {params}):\n    grid 1\n    v = load(x[0 : 64])\n{lines}"
        run(text, {"x": x.view(NUMPY[source.name]), **outs})
        for out in outs.values():
            assert (out.view(x.dtype) == x).all()


LAYOUTS = [
    "",
    "    layout v: vector [1, 8], lanes [1, 32], warps [4, 1]\n",
    "    layout v: vector [1, 1], lanes [4, 8], warps [1, 4]\n",
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=["default", "neighbours", "apart"])
@pytest.mark.parametrize("to", ["u8", "s16", "f16", "u32", "f32", "f64"])
@pytest.mark.parametrize("source", ["s8", "u16", "bf16", "s32", "f32", "u64"])
def test_bitcast_to_another_size_keeps_the_bits_of_rows(source: str, to: str, layout: str) -> None:
    """As `view` does in numpy: the last axis counts the elements."""
    x = np.random.default_rng(0).integers(0, 256, (4, 256), dtype=np.uint8).view(NUMPY[source])
    y = np.zeros((4, 256), np.uint8).view(NUMPY[to])
    (m, n), (_, k) = x.shape, y.shape
    text = f"""
kernel k(y: {to}[{m}, {k}], x: {source}[{m}, {n}]):
    grid 1
    v = load(x[0 : {m}, 0 : {n}])
    store(y[0 : {m}, 0 : {k}], bitcast(v, {to}))

schedule s of k:
    warps = 4
{layout}"""
    run(text, {"y": y, "x": x})
    assert (y.view(np.uint8) == x.view(np.uint8)).all()


@pytest.mark.parametrize("source", ["s8", "u16", "f16", "bf16"])
def test_words_of_loaded_elements_are_not_packed_again(source: str) -> None:
    n = 1024 // DTYPES[source].bits
    text = f"kernel k(y: u32[32], x: {source}[{n}]):\n    grid 1\n    y[0 : 32] = bitcast(load(x[0 : {n}]), u32) + 1\n"
    kernel = compile_kernel(text, {"y": np.zeros(32, np.uint32), "x": np.zeros(n, NUMPY[source])})
    assert "or.b32" not in kernel.ptx and "prmt" not in kernel.ptx


def test_bitcast_of_too_few_neighbours_is_an_error() -> None:
    text = "kernel k(y: u32[4], x: u8[4, 2]):\n    grid 1\n    v = load(x[0 : 4, 0 : 2])\n    w = bitcast(v, u32)\n"
    with pytest.raises(TileError, match=r"4 elements of u8 make one of u32; a row of u8\[4, 2\] has 2"):
        compile_kernel(text, {"y": np.zeros(4, np.uint32), "x": np.zeros((4, 2), np.uint8)})


@pytest.mark.parametrize("dtype", ["s8", "s32", "s64", "u8", "u32"])
@pytest.mark.parametrize("by", [1, 2, 3, 7, 8, 100, -1, -3, -8])
def test_division_by_a_constant(dtype: str, by: int) -> None:
    if dtype.startswith("u") and by < 0:
        pytest.skip("no such number of this type")
    x = specials(DTYPES[dtype], 64)
    q, r = np.zeros_like(x), np.zeros_like(x)
    text = f"""
kernel k(q: {dtype}[64], r: {dtype}[64], x: {dtype}[64]):
    grid 1
    v = load(x[0 : 64])
    store(q[0 : 64], v // {by})
    store(r[0 : 64], v % {by})
"""
    run(text, {"q": q, "r": r, "x": x})
    assert [int(v) for v in q] == [wrapped(int(v) // by, DTYPES[dtype]) for v in x]
    assert [int(v) for v in r] == [int(v) % by for v in x]


@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_every_byte_as_a_float(dtype: str) -> None:
    """Of words of four, which take no conversion; of single ones, too."""
    x = np.arange(256).astype(np.uint8).view(NUMPY[dtype])
    y, single = np.zeros(256, np.float32), np.zeros(255, np.float32)
    text = f"""
kernel k(y: f32[256], single: f32[255], x: {dtype}[256]):
    grid 1
    store(y[0 : 256], load(x[0 : 256]).to(f32))
    store(single[0 : 256], load(x[arange(256) + 1], mask=arange(256) < 255).to(f32))
"""
    run(text, {"y": y, "single": single, "x": x})
    assert (y == x).all() and (single == x[1:]).all()


@pytest.mark.parametrize("dtype", ["s8", "u8", "s16", "u32", "s64"])
@pytest.mark.parametrize("by", [0, 1, 7, 8, 16, 31, 63, 100])
def test_shift_by_a_constant(dtype: str, by: int) -> None:
    x = specials(DTYPES[dtype], 64)
    left, right = np.zeros_like(x), np.zeros_like(x)
    text = f"""
kernel k(a: {dtype}[64], b: {dtype}[64], x: {dtype}[64]):
    grid 1
    v = load(x[0 : 64])
    store(a[0 : 64], v << {by})
    store(b[0 : 64], v >> {by})
"""
    run(text, {"a": left, "b": right, "x": x})
    kind = DTYPES[dtype]
    assert [int(v) for v in left] == [shifted(int(v), by, kind, left=True) for v in x]
    assert [int(v) for v in right] == [shifted(int(v), by, kind, left=False) for v in x]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_constants_round_once_and_keep_the_sign_of_zero(dtype: str) -> None:
    numbers = [
        0.0,
        -0.0,
        0.1,
        1 / 3,
        65519.0,
        65520.0,
        1e-7,
        3e-8,
        1.00390625,
        1.003906250000001,
        INF,
        -INF,
        NAN,
        1e39,
        5e-324,
    ]
    y = np.zeros(16, np.float64)
    text = "kernel k(y: f64[16]):\n    grid 1\n"
    for i, v in enumerate(numbers):  # a literal alone must fit; what is converted becomes infinite
        text += f"    store(y[{i} : {i + 1}], ({v!r}).to({dtype}).to(f64))\n"
    run(text, {"y": y})
    want = [rounded(Fraction(v), dtype) if math.isfinite(v) and v else v for v in numbers]
    check(y[: len(want)], want, [np.array(numbers)])


@pytest.mark.parametrize("dtype", ["u8", "s8"])
@pytest.mark.parametrize(("sign", "compare"), [("!=", np.not_equal), ("==", np.equal)])
def test_bytes_are_compared_with_zero_within_their_words(dtype: str, sign: str, compare: Any) -> None:
    """`and` with the byte's bits: it is not taken out of its word."""
    text = f"""
kernel k(y: u8[256], x: {dtype}[256]):
    grid 1
    v = load(x[0 : 256])
    store(y[0 : 256], where(v {sign} 0, 7, 9).to(u8))
schedule wide of k:
    warps = 1
    layout v: vector [8], lanes [32], warps [1]
"""
    x, y = (
        np.resize(np.array([0, 1, -128, 127, 0, 0, -1, 64], np.int8), 256).view(NUMPY[dtype]),
        np.zeros(256, np.uint8),
    )
    kernel = compile_kernel(text, {}, schedule="wide")
    launch(kernel, {"y": y, "x": x})
    assert y.tolist() == np.where(compare(x, 0), 7, 9).tolist()
    assert kernel.ptx.count("and.b32") >= 8 and "0x7771" not in kernel.ptx


def test_contraction_is_off_unless_the_schedule_allows_it() -> None:
    a = np.array([1 + 2**-12] * 32, np.float32)
    text = """
kernel k(y: f32[32], x: f32[32]):
    grid 1
    v = load(x[0 : 32])
    store(y[0 : 32], v * v - 1.00048828125)
schedule fast of k:
    contract fast
schedule exact of k:
    contract off
"""
    fast, plain = np.zeros(32, np.float32), np.zeros(32, np.float32)
    run(text, {"y": fast, "x": a}, schedule="fast")
    run(text, {"y": plain, "x": a}, schedule="exact")
    assert plain[0] == np.float32(a[0] * a[0]) - np.float32(1.00048828125) != fast[0]
    assert fast[0] == np.float32(2.0**-24)


def test_maxima_are_opaque_to_what_looks_through_sums() -> None:
    """512 cells of a table of dynamic programming took LLVM 16 s, and twice as many no end: frozen, they take 0.2 s."""
    text = """
kernel k(y: s32[n], x: s32[n]):
    grid 1
    c = load(x[0 : 32])
    h = tuple()
    for static k in range(16):
        h = append(h, zeros(s32[32]))
    corner = zeros(s32[32])
    for static s in range(32):
        above = shfl.up(h[15], 1, axis=0)
        diagonal, up, next = corner, above, tuple()
        for static k in range(16):
            v = maximum(maximum(up, h[k]), diagonal + where(c == k, 1, 0))
            diagonal, up, next = h[k], v, append(next, v)
        corner, h = above, next
    store(y[0 : 32], h[15])
schedule s of k:
    warps = 1
"""
    code = dsl.parse(text, device="emulator").compile("k", "s", n=32).llvm
    maxima = re.findall(r"(%[\w.]+) = call i32 @llvm\.smax\.i32", code)
    assert len(maxima) >= 2 * 512 and set(maxima) <= set(re.findall(r"freeze i32 (%[\w.]+)", code))
