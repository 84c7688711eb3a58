"""The language's mathematical functions, run on the emulator, against numpy's long doubles and mpmath.

Errors are in units in the last place of the exact result, rounded to the type. The bounds are stated in `ULPS`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mpmath
import numpy as np
import pytest

from dsl.kernels.variant import Request, build_variant
from dsl.lowering.emit import emit
from dsl.lowering.emit.codegen import to_ptx
from dsl.lowering.ir.location import TileError
from dsl.lowering.passes import run_passes
from dsl.runtime.emulator import emulate
from dsl.text.program import parse_program
from dsl.values.fast_math import FAST
from tests.philox import philox

LONG = np.longdouble
TYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": np.uint16, "u32": np.uint32, "s32": np.int32}
SEED = 20240601


def run(
    expression: str,
    dtype: str,
    *arrays: np.ndarray,
    result: str | None = None,
    extent: int = 4096,
    lines: Sequence[str] = (),
) -> np.ndarray:
    """`expression` over xv, yv, … elementwise; `lines` stand in the schedule."""
    result = result or dtype
    names = "xyz"[: len(arrays)]
    text = "\n".join(
        [
            f"kernel k(o: {result}[n], {', '.join(f'{c}: {dtype}[n]' for c in names)}; N):",
            "    grid cdiv(n, N)",
            "    i = block(0) * N",
            *(f"    {c}v = load({c}[i : i + N])" for c in names),
            f"    store(o[i : i + N], {expression})",
            "",
            "schedule s of k:",
            f"    N = {extent}",
            "    warps = 4",
            *(f"    {line}" for line in lines),
            "",
        ]
    )
    size = len(arrays[0])
    padded = [np.concatenate([a, np.resize(a[:1], -size % 16)]) for a in arrays]
    out = np.zeros(len(padded[0]), TYPES[result])
    blocks = -(-len(out) // extent)
    emulate(ptx_of(text, {"n": 16}), "k", (blocks, 1, 1), (128, 1, 1), [out, *padded, np.int32(len(out))])
    return out[:size]


def ptx_of(text: str, dims: dict[str, int]) -> str:
    """The kernel `k` under its schedule `s`."""
    variant = build_variant(parse_program(text), Request("k", "s", dims=dims))
    run_passes(variant.function, variant.target)
    module, version = emit(variant.function, variant.target)
    return to_ptx(module, variant.target, version)


def exactly(function):
    """An mpmath function on an array, as long doubles."""

    def apply(x: np.ndarray) -> np.ndarray:
        with mpmath.workprec(1200 if np.abs(x[np.isfinite(x)]).max() > 1e6 else 120):
            return np.array([LONG(mpmath.nstr(function(mpmath.mpf(float(v))), 25)) for v in x])

    return apply


def with_specials(function, specials: dict[float, float]):
    """An mpmath function that answers for finite arguments other than 0; `specials` are the others."""
    inner = exactly(function)

    def apply(x: np.ndarray) -> np.ndarray:
        out = np.empty(len(x), LONG)
        plain = np.isfinite(x) & (x != 0)
        out[plain] = inner(x[plain])
        for i in np.flatnonzero(~plain):
            out[i] = next((v for k, v in specials.items() if k == x[i]), np.nan)
            if x[i] == 0 and out[i] == 0:
                out[i] = x[i]
        return out

    return apply


def error_function(complement: bool):
    specials = {0.0: 1.0, math.inf: 0.0, -math.inf: 2.0} if complement else {0.0: 0.0, math.inf: 1.0, -math.inf: -1.0}
    inner = with_specials(mpmath.erfc if complement else mpmath.erf, specials)
    return lambda x: inner(np.where(np.isfinite(x), np.clip(x, -40, 40), x))


normal_tail = exactly(lambda v: v * mpmath.erfc(-v / mpmath.sqrt(2)) / 2)


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def tanh_gelu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(LONG(2) * np.sqrt(LONG(2) / LONG(np.pi)) * (x + LONG("0.044715") * x**3))


SINES = {0.0: 0.0}
# name: (reference on long doubles, range of the dense values in f32, in f64)
FUNCTIONS = {
    "exp": (np.exp, (-106, 90), (-750, 712)),
    "exp2": (np.exp2, (-151, 130), (-1080, 1030)),
    "expm1": (np.expm1, (-20, 90), (-40, 712)),
    "log": (np.log, (0, 4), (0, 4)),
    "log2": (np.log2, (0, 4), (0, 4)),
    "log10": (np.log10, (0, 4), (0, 4)),
    "log1p": (np.log1p, (-1, 4), (-1, 4)),
    "sin": (with_specials(mpmath.sin, SINES), (-2e5, 2e5), (-4e9, 4e9)),
    "cos": (with_specials(mpmath.cos, {0.0: 1.0}), (-2e5, 2e5), (-4e9, 4e9)),
    "tan": (with_specials(mpmath.tan, SINES), (-2e5, 2e5), (-4e9, 4e9)),
    "sinh": (np.sinh, (-91, 91), (-712, 712)),
    "cosh": (np.cosh, (-91, 91), (-712, 712)),
    "tanh": (np.tanh, (-10, 10), (-20, 20)),
    "asin": (np.arcsin, (-1, 1), (-1, 1)),
    "acos": (np.arccos, (-1, 1), (-1, 1)),
    "atan": (np.arctan, (-9, 9), (-9, 9)),
    "erf": (error_function(False), (-4.5, 4.5), (-6.5, 6.5)),
    "erfc": (error_function(True), (-5, 10.5), (-6, 27.5)),
    "rsqrt": (lambda x: 1 / np.sqrt(x), (0, 9), (0, 9)),
    "sigmoid": (sigmoid, (-110, 90), (-750, 700)),
    "softplus": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), (-110, 90), (-750, 700)),
}
ULPS = dict.fromkeys(FUNCTIONS, 4.0) | {"exp": 2.0, "erfc": 5.0}
SLOW = {"sin", "cos", "tan", "erf", "erfc"}  # references by mpmath


def values(dtype: str, low: float, high: float, count: int) -> np.ndarray:
    """Special, random (every exponent), moderate and dense values."""
    t = TYPES[dtype]
    limits = np.finfo(t)
    random = np.random.default_rng(SEED)
    patterns = random.integers(0, 1 << limits.bits, count, dtype=np.uint64).astype(f"u{limits.bits // 8}").view(t)
    special = [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, np.inf, -np.inf, np.nan, limits.max, -limits.max, limits.tiny]
    special += [limits.smallest_subnormal, -limits.smallest_subnormal, np.pi, np.pi / 2, np.nextafter(t(1), t(0))]
    parts = [patterns, random.normal(0, 1, count), random.uniform(low, high, count), np.linspace(low, high, count)]
    parts += [np.exp(random.uniform(-20, 5, count)), np.array(special)]
    return np.concatenate([p.astype(t) for p in parts])


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in units of `want`; infinite where one alone is NaN or infinite, or a zero's sign differs."""
    t = got.dtype.type
    with np.errstate(all="ignore"):
        rounded = want.astype(t)
        unit = np.spacing(np.where(np.isfinite(rounded), np.abs(rounded), np.finfo(t).max)).astype(LONG)
        error = np.abs(got.astype(LONG) - want) / unit
    limit = np.finfo(t).max * (1 - 4 * np.finfo(t).eps)
    overflow = np.isinf(got) & (np.abs(want) > limit) & (np.sign(got) == np.sign(want))
    error = np.where(overflow | (got == rounded) & ~np.isfinite(error) | np.isnan(got) & np.isnan(want), 0, error)
    error = np.where(np.isnan(error) | (np.isfinite(got) != np.isfinite(rounded)) & ~overflow, np.inf, error)
    return np.where((got == 0) & (rounded == 0) & (np.signbit(got) != np.signbit(want)), np.inf, error)


def check(x: np.ndarray | tuple, got: np.ndarray, want: np.ndarray, bound: float) -> None:
    error = ulps(got, want)
    worst = int(np.argmax(error))
    where = [a[worst] for a in (x if isinstance(x, tuple) else (x,))]
    assert error[worst] <= bound, f"{error[worst]} ulp at {where}: {got[worst]!r} for {want[worst]}; seed {SEED}"


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_bound(name: str, dtype: str) -> None:
    reference, range32, range64 = FUNCTIONS[name]
    low, high = range32 if dtype == "f32" else range64
    count = (150 if name in SLOW else 1500) * (2 if dtype == "f32" else 1)
    x = values(dtype, low, high, count)
    with np.errstate(all="ignore"):
        want = reference(x.astype(LONG))
    check(x, run(f"{name}(xv)", dtype, x), want, ULPS[name])


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_next_to_multiples_of_a_right_angle(name: str, dtype: str) -> None:
    """Where the reduced argument is smallest: all its leading bits cancel."""
    random = np.random.default_rng(SEED)
    with mpmath.workprec(200):
        multiples = random.integers(1, 2**40, 150)
        x = np.array([float(int(k) * mpmath.pi / 2) for k in [*range(1, 50), *multiples]]).astype(TYPES[dtype])
    worst = [16367173 * 2.0**72, 6381956970095103 * 2.0**797]  # the closest of all f32 and f64 (Kahan; Muller)
    x = np.concatenate([x, np.array(worst[:1] if dtype == "f32" else worst, TYPES[dtype])])
    check(x, run(f"{name}(xv)", dtype, x), FUNCTIONS[name][0](x.astype(LONG)), 4.0)


@pytest.mark.long
@pytest.mark.parametrize("name", [*FUNCTIONS, "silu", "gelu", "gelu_tanh"])
def test_all_f16(name: str) -> None:
    """Within 0.51 of all 2^16 values for one rounding of a good f32; 1 where the f32 is good in absolute terms only."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    double = x.astype(np.float64)
    reference = {"silu": lambda v: v * sigmoid(v), "gelu_tanh": tanh_gelu, "gelu": normal_half}.get(name)
    with np.errstate(all="ignore"):
        if name in SLOW:
            want = np.array([_double(name, v) for v in double])
        else:
            want = (reference or FUNCTIONS[name][0])(double)
        check(x, run(f"{name}(xv)", "f16", x, extent=8192), want.astype(LONG), 1.0 if name == "gelu_tanh" else 0.51)


def _double(name: str, x: float) -> float:
    try:
        return getattr(math, name)(x)
    except ValueError:
        return math.nan


def normal_half(x: np.ndarray) -> np.ndarray:
    return np.array([v * math.erfc(-v / math.sqrt(2)) / 2 for v in x])


@pytest.mark.long
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sin", "gelu"])
def test_bf16(name: str) -> None:
    """bf16 is f32, computed and rounded: every value gives what the f32 function gives, where the schedule keeps it."""
    lines = [f"math {name}: exact"] if name in FAST else []
    x = np.arange(1 << 16, dtype=np.uint16)
    wide = (x.astype(np.uint32) << 16).view(np.float32)
    got = run(f"{name}(xv)", "bf16", x, extent=8192, lines=lines)
    want = run(f"{name}(xv)", "f32", wide, extent=8192)
    bits = want.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)
    differs = (got != rounded) & ~np.isnan(want)
    assert not differs.any(), hex(x[np.argmax(differs)])
    assert ((got[np.isnan(want)] & 0x7FFF) > 0x7F80).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_the_fast_exp_of_16_bits(dtype: str) -> None:
    """By itself a kernel whose floats all have 16 bits takes it: half an ulp of them and 0.005 more; 0 below 2^-126."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    wide = bits.view(np.float16).astype(np.float32)
    if dtype == "bf16":
        wide = (bits.astype(np.uint32) << 16).view(np.float32)
    got = run("exp(xv)", dtype, bits.view(TYPES[dtype]), extent=8192)
    assert (
        got.tobytes() == run("exp(xv)", dtype, bits.view(TYPES[dtype]), extent=8192, lines=["math exp: fast"]).tobytes()
    )
    value = (
        got.astype(np.float64) if dtype == "f16" else (got.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    )
    with np.errstate(all="ignore"):
        want = np.exp(wide.astype(np.float64))
        off = np.abs(value - want)
    digits, least, most = (10, -14, 65504.0) if dtype == "f16" else (7, -126, 3.38e38)
    ulp = np.exp2(np.maximum(np.floor(np.log2(np.maximum(want, 1e-300))), least) - digits)
    inside = want < most
    flushed = (value == 0) & (want < 2.0**-126)
    assert ((off <= 0.505 * ulp) | flushed)[inside].all()
    assert np.isinf(value[want > most + ulp]).all() and np.isnan(value[np.isnan(want)]).all()


@pytest.mark.parametrize("name", sorted(FAST))
def test_a_schedule_takes_the_approximation(name: str) -> None:
    """The same bits as the function of that name gives, and not those of the exact one."""
    x = values("f32", -6, 6, 200) if name in ("exp", "tanh") else np.linspace(0.1, 40, 999, dtype=np.float32)
    fast = run(f"{name}(xv)", "f32", x, lines=[f"math {name}: fast"])
    assert fast.tobytes() == run(f"{name}.approx(xv)", "f32", x).tobytes()
    assert fast.tobytes() != run(f"{name}(xv)", "f32", x).tobytes()


def test_the_approximation_is_of_the_kernels_own_calls() -> None:
    """`sigmoid` of the library keeps the exact `exp` that its bound counts on."""
    x = values("f32", -6, 6, 200)
    assert run("sigmoid(xv)", "f32", x).tobytes() == run("sigmoid(xv)", "f32", x, lines=["math exp: fast"]).tobytes()


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_products_with_a_sigmoid(dtype: str) -> None:
    """silu and gelu_tanh: the exponent's rounding is relative to the exponent, so the bound grows with it."""
    x = values(dtype, -12, 12, 1000)
    x = x[np.isfinite(x) & (np.abs(x) < 80)]
    wide = x.astype(LONG)
    check(x, run("silu(xv)", dtype, x), wide * sigmoid(wide), 4.0)
    got, want = run("gelu_tanh(xv)", dtype, x), tanh_gelu(wide)
    exponent = np.abs(1.6 * (wide + 0.045 * wide**3))
    normal = np.abs(want) > np.finfo(x.dtype).tiny
    assert (ulps(got, want) <= 4 + 2 * exponent)[normal].all()
    assert np.all(np.abs(got - want)[~normal] <= np.finfo(x.dtype).tiny)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_gelu(dtype: str) -> None:
    x = values(dtype, -14, 8, 200) if dtype == "f32" else values(dtype, -38, 9, 200)
    x = x[(np.abs(x) < 1000) & (x != 0)]
    want = normal_tail(x)
    error, normal = ulps(run("gelu(xv)", dtype, x), want), np.abs(want) > np.finfo(x.dtype).tiny
    assert error[normal].max() <= 6 and error[~normal].max() <= 64  # a subnormal erfc, times x


SPECIAL = [s * v for v in (0.0, 1, 2, 0.5, 3, np.inf, 1e30, 1e-40, 2.5, 16777215) for s in (1, -1)] + [np.nan]


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    t = TYPES[dtype]
    random = np.random.default_rng(SEED)
    n = 2000
    a, b = np.meshgrid(np.array(SPECIAL, t), np.array(SPECIAL, t))
    x = [a.ravel(), np.exp(random.uniform(-20, 20, n)), np.exp(random.normal(0, 0.1, n)), -random.integers(1, 50, n)]
    y = [b.ravel(), random.uniform(-6, 6, n), random.normal(0, 500, n), random.integers(-20, 20, n)]
    return np.concatenate([p.astype(t) for p in x]), np.concatenate([p.astype(t) for p in y])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_pow(dtype: str) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        want = np.power(x.astype(LONG), y.astype(LONG))
    check((x, y), run("xv ** yv", dtype, x, y), want, 4.0)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_atan2(dtype: str) -> None:
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        check((x, y), run("atan2(xv, yv)", dtype, x, y), np.arctan2(x.astype(LONG), y.astype(LONG)), 4.0)


def test_constant_exponents_multiply() -> None:
    x = values("f32", -9, 9, 200)
    with np.errstate(all="ignore"):
        for exponent in (0, 1, 2, 3, 7, -1, -2):
            check(x, run(f"xv ** {exponent}", "f32", x), x.astype(LONG) ** exponent, 5.0)
        check(x, run("2.0 ** xv", "f32", x), LONG(2) ** x.astype(LONG), 2.0)
    i = np.arange(-50, 50, dtype=np.int32)
    assert (run("xv ** 3", "s32", i) == i**3).all()


@pytest.mark.parametrize("exponent", ["xv", "-1", "2.5", "17"])
def test_exponents_of_integers_are_small_constants(exponent: str) -> None:
    with pytest.raises(TileError, match="exponent of an integer"):
        run(f"xv ** {exponent}", "s32", np.arange(16, dtype=np.int32))


def test_arguments_are_refused_where_the_user_wrote_them() -> None:
    with pytest.raises(TileError) as caught:
        run("tanh(xv)", "s32", np.arange(16, dtype=np.int32))
    error = caught.value.errors[0]
    assert "tanh does not take a tile s32[4096]" in str(error)
    assert error.loc.source.text[error.loc.start :].startswith("tanh(xv)")


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_simple_functions(dtype: str) -> None:
    x = values(dtype, -9, 9, 200)
    np.testing.assert_array_equal(run("relu(xv)", dtype, x), np.maximum(x, 0))
    np.testing.assert_array_equal(run("sign(xv)", dtype, x), np.sign(x))
    finite = run("where(isfinite(xv), 1, 0).to(s32)", dtype, x, result="s32")
    np.testing.assert_array_equal(finite.astype(bool), np.isfinite(x))


def test_hardware_approximations() -> None:
    """2^-21 of the exponent (exp), or of the result or 1 (log): what the units and one product lose."""
    x = np.linspace(-20, 20, 2000, dtype=np.float32)
    e = np.exp(x.astype(np.float64))
    assert np.all(np.abs(run("exp.approx(xv)", "f32", x) - e) <= e * 2.0**-21 * np.maximum(1, np.abs(x)))
    positive = np.exp(x)
    for name, reference in (("log", np.log), ("log2", np.log2), ("log10", np.log10)):
        want = reference(positive.astype(np.float64))
        got = run(f"{name}.approx(xv)", "f32", positive)
        assert np.all(np.abs(got - want) <= 2.0**-21 * np.maximum(1, np.abs(want)))


def test_philox() -> None:
    assert philox(0, 0) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # the authors' known answer
    offsets = np.arange(64, dtype=np.uint32) * np.uint32(67108859)
    for seed, word in ((0, 3), (0xFEDCBA9876543210, 0), (0xFEDCBA9876543210, 1), (0xFEDCBA9876543210, 2)):
        got = run(f"philox({seed}, xv)[{word}]", "u32", offsets, extent=128)
        assert got.tolist() == [philox(seed, int(o))[word] for o in offsets]
    u = run("uniform(philox(7, xv)[0])", "u32", np.arange(20000, dtype=np.uint32), result="f32")
    assert u.min() >= 0 and u.max() < 1 and abs(u.mean() - 0.5) < 0.01


def test_a_name_of_the_user_does_not_reach_into_the_library() -> None:
    """`tanh` of f64 calls exp: the language's, whatever the file calls exp."""
    text = """
def exp(x):
    return x

kernel k(o: f64[n], x: f64[n]):
    grid 1
    store(o[0 : 128], tanh(load(x[0 : 128])) + exp(0.0))

schedule s of k:
    warps = 4
"""
    x, out = np.linspace(-3, 3, 128), np.zeros(128)
    emulate(ptx_of(text, {}), "k", (1, 1, 1), (128, 1, 1), [out, x, np.int32(128)])
    np.testing.assert_allclose(out, np.tanh(x), rtol=1e-15)


@pytest.mark.parametrize("extent", [128, 1024])
def test_a_branch_of_elements(extent: int) -> None:
    """One element a thread is a branch of threads; several are a branch that some element takes, and a choice."""
    text = """
kernel k(o: f32[n], x: f32[n]; N):
    grid cdiv(n, N)
    i = block(0) * N
    v = load(x[i : i + N])
    w = v + 1.0
    if v > 0.5:
        if v > 2.0:
            w = v * v
        else:
            w = -v
        v = 3.0 * v
    elif v < -1.0:
        w = v - w * v
    store(o[i : i + N], w + v)

schedule s of k:
    N = EXTENT
    warps = 4
""".replace("EXTENT", str(extent))
    x = np.random.default_rng(SEED).normal(0, 2, 4096).astype(np.float32)
    x[:1024] = 0  # warps in which no element takes a branch
    out = np.zeros_like(x)
    emulate(ptx_of(text, {"n": 16}), "k", (4096 // extent, 1, 1), (128, 1, 1), [out, x, np.int32(4096)])
    inner = np.where(x > 2, x * x, -x) + 3 * x
    want = np.where(x > 0.5, inner, np.where(x < -1, x - (x + 1) * x + x, x + 1 + x))
    np.testing.assert_allclose(out, want, rtol=1e-6, atol=1e-6)


def test_a_branch_of_several_elements_has_no_effects() -> None:
    text = """
kernel k(o: f32[n]; N):
    grid 1
    i = arange(N)
    if i > 3:
        o[i] = 1.0

schedule s of k:
    N = 1024
    warps = 4
"""
    with pytest.raises(TileError, match="needs one element a thread"):
        ptx_of(text, {"n": 1024})
