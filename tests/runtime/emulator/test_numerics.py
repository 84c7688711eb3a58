"""Float arithmetic against exact rational arithmetic."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ieee754 import (
    FORMATS,
    MODES,
    NAN_BITS,
    array,
    assert_bits,
    decode,
    encode,
    infinity_bits,
    number,
    patterns,
    reference_add,
    reference_div,
    reference_fma,
    reference_mul,
    specials,
    width,
)

from dsl.runtime.emulator import numerics
from dsl.runtime.emulator.approximations import approximate, div_approx, div_full
from dsl.runtime.emulator.conversions import convert
from tests.whole import draws

BINARY = {"add": reference_add, "mul": reference_mul, "div": reference_div}


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("operation", BINARY)
def test_binary_operations_on_all_pairs_of_special_values(operation, dtype):
    a, b = zip(*itertools.product(specials(dtype), repeat=2), strict=True)
    for mode in MODES:
        result = getattr(numerics, operation)(array(a, dtype), array(b, dtype), dtype, mode)
        expected = [BINARY[operation](x, y, dtype, mode) for x, y in zip(a, b, strict=True)]
        assert_bits(result, expected, dtype, (a, b))


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("operation", BINARY)
def test_binary_operations_on_random_patterns(operation, dtype):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(0, 1 << width(dtype), 600, dtype=np.uint64).tolist() for _ in range(2))
    b[:200] = [
        x ^ (1 << (width(dtype) - 1)) ^ int(low) for x, low in zip(a[:200], rng.integers(0, 8, 200), strict=True)
    ]
    for mode in MODES:
        result = getattr(numerics, operation)(array(a, dtype), array(b, dtype), dtype, mode)
        expected = [BINARY[operation](x, y, dtype, mode) for x, y in zip(a, b, strict=True)]
        assert_bits(result, expected, dtype, (a, b))


@pytest.mark.parametrize("dtype", FORMATS)
def test_sub_is_add_of_the_negated_operand(dtype):
    a, b = zip(*itertools.product(specials(dtype), repeat=2), strict=True)
    sign = 1 << (width(dtype) - 1)
    for mode in MODES:
        result = numerics.sub(array(a, dtype), array(b, dtype), dtype, mode)
        expected = [reference_add(x, y ^ sign, dtype, mode) for x, y in zip(a, b, strict=True)]
        assert_bits(result, expected, dtype, (a, b))


@pytest.mark.long
@pytest.mark.parametrize("dtype", FORMATS)
def test_fma_on_all_triples_of_special_values(dtype):
    values = specials(dtype)
    chosen = [values[i] for i in (0, 1, 3, 4, 7, 9, 12, 13, 14, 16, 17, 20, 25, 28, 29)]
    a, b, c = zip(*itertools.product(chosen, repeat=3), strict=True)
    for mode in MODES:
        result = numerics.fma(array(a, dtype), array(b, dtype), array(c, dtype), dtype, mode)
        expected = [reference_fma(x, y, z, dtype, mode) for x, y, z in zip(a, b, c, strict=True)]
        assert_bits(result, expected, dtype, (a, b, c))


def hard_triples(dtype, count):
    """Addends that cancel the product, are its neighbours, or are tiny beside a product that is a midpoint."""
    rng = np.random.default_rng(2)
    exponent_bits, fraction_bits, _ = FORMATS[dtype]
    sign = 1 << (width(dtype) - 1)
    middle = encode(Fraction(1), dtype, "rn")
    spread = (1 << fraction_bits) * (1 << (exponent_bits - 2)) // 2
    a, b, c = [], [], []
    for i in range(count):
        x, y = (int(middle + rng.integers(-spread, spread)) for _ in range(2))
        if i % 4 == 0:  # few bits: exact midpoints are frequent
            drop = fraction_bits // 2
            x, y = x >> drop << drop, (y >> drop << drop) | (1 << (drop - 1))
        product = decode(x, dtype)[0] * decode(y, dtype)[0]
        z = encode(-product, dtype, "rn") ^ int(rng.integers(0, 3))
        if i % 4 in (0, 1):
            z = int(rng.integers(1, 4 << fraction_bits)) | (sign if i % 8 < 4 else 0)
        if i % 4 == 2:
            z = encode(product / 2 ** int(rng.integers(1, 2 * fraction_bits)), dtype, "rn")
        a, b, c = [*a, x], [*b, y], [*c, z]
    return a, b, c


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FORMATS)
def test_fma_on_hard_triples(dtype, mode):
    a, b, c = hard_triples(dtype, 800)
    result = numerics.fma(array(a, dtype), array(b, dtype), array(c, dtype), dtype, mode)
    expected = [reference_fma(x, y, z, dtype, mode) for x, y, z in zip(a, b, c, strict=True)]
    assert_bits(result, expected, dtype, (a, b, c))


@pytest.mark.parametrize("dtype", FORMATS)
@settings(max_examples=draws(60), deadline=None)
@given(data=st.data(), mode=st.sampled_from(MODES))
def test_fma_rounds_once(dtype, data, mode):
    pattern = st.integers(0, (1 << width(dtype)) - 1)
    rows = data.draw(st.lists(st.tuples(pattern, pattern, pattern), min_size=1, max_size=8))
    a, b, c = zip(*rows, strict=True)
    result = numerics.fma(array(a, dtype), array(b, dtype), array(c, dtype), dtype, mode)
    assert_bits(result, [reference_fma(*row, dtype, mode) for row in rows], dtype, (a, b, c))


def test_f32_fma_where_rounding_twice_is_wrong():
    # 2^23 + 1.5 - 2^-41 lies below a midpoint of float32; float64 rounds it to that midpoint, whose even side is above.
    a, b, c = (np.array([v], np.float32) for v in (1 + 2.0**-20, 0.5 - 2.0**-21, 2.0**23 + 1))
    assert float(np.float32(np.float64(a[0]) * b[0] + c[0])) == 2.0**23 + 2
    assert numerics.fma(a, b, c, "f32").tolist() == [2.0**23 + 1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", FORMATS)
def test_square_root(dtype, mode):
    """r = sqrt(a) rounded: its neighbours' squares enclose a as the rounding mode says."""
    rng = np.random.default_rng(3)
    sign = 1 << (width(dtype) - 1)
    bits = [b for b in specials(dtype) if 0 < b < infinity_bits(dtype, False)]
    bits += rng.integers(1, infinity_bits(dtype, False), 400, dtype=np.uint64).tolist()
    bits += [encode(decode(b, dtype)[0] ** 2, dtype, "rn") for b in bits[20:200] if decode(b, dtype)[0] < 2**15]
    bits = [b for b in bits if 0 < b < infinity_bits(dtype, False)]
    for got, a in zip(patterns(numerics.sqrt(array(bits, dtype), dtype, mode), dtype), bits, strict=True):
        value, r = decode(a, dtype)[0], decode(got, dtype)[0]
        below, above = decode(got - 1, dtype)[0], decode(got + 1, dtype)[0]
        if mode == "rn":
            assert ((below + r) / 2) ** 2 <= value <= ((r + above) / 2) ** 2
        elif mode == "rp":
            assert below**2 < value <= r**2
        else:
            assert r**2 <= value < above**2
    exact = numerics.sqrt(array([0, sign, infinity_bits(dtype, False), sign | 1], dtype), dtype, mode)
    assert patterns(exact, dtype)[:3] == [0, sign, infinity_bits(dtype, False)]
    assert numerics.testp(exact, "notanumber", dtype).tolist() == [False, False, False, True]


def test_reciprocal_is_one_divided():
    a = specials("f32")
    one = encode(Fraction(1), "f32", "rn")
    for mode in MODES:
        expected = [reference_div(one, x, "f32", mode) for x in a]
        assert_bits(numerics.rcp(array(a, "f32"), "f32", mode), expected, "f32", (a,))


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_ftz_flushes_inputs_and_results_and_keeps_the_sign(dtype):
    normal, sign = 1 << FORMATS[dtype][1], 1 << (width(dtype) - 1)
    half, one = encode(Fraction(1, 2), dtype, "rn"), encode(Fraction(1), dtype, "rn")
    a = array([normal - 1, sign | 1, normal, sign | normal, one], dtype)
    zero = array([0], dtype)
    assert patterns(numerics.mul(a, array([one], dtype), dtype, ftz=True), dtype) == [
        0,
        sign,
        normal,
        sign | normal,
        one,
    ]
    assert patterns(numerics.mul(a, array([half], dtype), dtype, ftz=True), dtype) == [0, sign, 0, sign, half]
    assert patterns(numerics.fma(a, array([half], dtype), zero, dtype, ftz=True), dtype) == [0, 0, 0, sign, half]
    assert patterns(numerics.abs(a, dtype, ftz=True), dtype) == [0, 0, normal, normal, one]
    assert patterns(numerics.neg(a, dtype, ftz=True), dtype) == [sign, 0, sign | normal, normal, one | sign]
    assert numerics.compare(a, zero, "eq", dtype, ftz=True).tolist() == [True, True, False, False, False]
    assert patterns(numerics.maximum(a, zero, dtype, ftz=True), dtype) == [0, 0, normal, 0, one]


@pytest.mark.parametrize(("dtype", "mode"), [("f16", "rn"), *(("f32", mode) for mode in MODES)])
def test_ftz_flushes_what_only_gradual_underflow_rounds_up_to_a_normal_number(dtype, mode):
    """Measured on an H200: results are found subnormal after rounding with an unbounded exponent."""
    one, least = encode(Fraction(1), dtype, "rn"), 1 << FORMATS[dtype][1]
    sign = 1 << (width(dtype) - 1)
    a, b = array([one - 1, one - 1 | sign], dtype), array([least, least], dtype)
    assert patterns(numerics.mul(a, b, dtype, mode, ftz=True), dtype) == [0, sign]
    assert patterns(numerics.fma(a, b, array([0, sign], dtype), dtype, mode, ftz=True), dtype) == [0, sign]
    kept = patterns(numerics.mul(a, b, dtype, mode), dtype)
    assert kept[0] == (least - 1 if mode in ("rz", "rm") else least)
    above = numerics.fma(array([one + 2], dtype), b[:1], array([0], dtype), dtype, mode, ftz=True)
    assert patterns(above, dtype) == [least + 2]


@pytest.mark.parametrize("dtype", FORMATS)
def test_negation_and_magnitude(dtype):
    sign, infinity = 1 << (width(dtype) - 1), infinity_bits(dtype, False)
    bits = specials(dtype)
    nan, quiet = [b & ~sign > infinity for b in bits], 1 << (FORMATS[dtype][1] - 1)
    for operation, change in ((numerics.neg, lambda b: b ^ sign), (numerics.abs, lambda b: b & ~sign)):
        expected = [NAN_BITS.get(dtype, b | quiet) if n else change(b) for b, n in zip(bits, nan, strict=True)]
        assert patterns(operation(array(bits, dtype), dtype), dtype) == expected


@pytest.mark.parametrize("dtype", FORMATS)
def test_saturate_clamps_to_zero_and_one_and_relu_at_zero(dtype):
    one, sign = encode(Fraction(1), dtype, "rn"), 1 << (width(dtype) - 1)
    infinity = infinity_bits(dtype, False)
    a = array([0, sign, one + 1, one | sign, one - 1, infinity, infinity | sign, infinity + 1], dtype)
    got = numerics.fma(a, array([one], dtype), array([sign], dtype), dtype, saturate=True)
    assert patterns(got, dtype) == [0, 0, one, 0, one - 1, one, 0, 0]
    got = numerics.add(a, array([sign], dtype), dtype, saturate=True)
    assert patterns(got, dtype) == [0, 0, one, 0, one - 1, one, 0, 0]
    if dtype in ("f16", "bf16"):
        got = numerics.fma(a, array([one], dtype), array([sign], dtype), dtype, relu=True)
        assert patterns(got, dtype) == [0, 0, one + 1, 0, one - 1, infinity, 0, NAN_BITS[dtype]]


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize("xorsign", [False, True])
def test_minimum_and_maximum_on_all_pairs_of_special_values(dtype, nan, xorsign):
    sign = 1 << (width(dtype) - 1)
    canonical = NAN_BITS.get(dtype, 0x7FF8000000000000)
    pairs = list(itertools.product(specials(dtype), repeat=2))
    a, b = zip(*pairs, strict=True)
    for operation, choose in ((numerics.maximum, max), (numerics.minimum, min)):
        expected = []
        for x, y in pairs:
            flip = (x ^ y) & sign if xorsign else 0
            if xorsign:
                x, y = x & ~sign, y & ~sign
            numbers = [v for v in (x, y) if number(v, dtype) == number(v, dtype)]
            if not numbers or (nan and len(numbers) < 2):
                expected.append(canonical)
            else:
                expected.append(choose(numbers, key=lambda v: (number(v, dtype), v < sign)) | flip)
        got = operation(array(a, dtype), array(b, dtype), dtype, nan, xorsign)
        assert patterns(got, dtype) == expected


COMPARISONS = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


@pytest.mark.parametrize("dtype", FORMATS)
def test_comparisons_on_all_pairs_of_special_values(dtype):
    pairs = list(itertools.product(specials(dtype), repeat=2))
    a, b = (array(side, dtype) for side in zip(*pairs, strict=True))
    numbers = [(number(x, dtype), number(y, dtype)) for x, y in pairs]
    unordered = [x != x or y != y for x, y in numbers]
    for op, compare in COMPARISONS.items():
        ordered = [not u and compare(*xy) for u, xy in zip(unordered, numbers, strict=True)]
        assert numerics.compare(a, b, op, dtype).tolist() == ordered
        either = [u or o for u, o in zip(unordered, ordered, strict=True)]
        assert numerics.compare(a, b, op + "u", dtype).tolist() == either
    assert numerics.compare(a, b, "nan", dtype).tolist() == unordered
    assert numerics.compare(a, b, "num", dtype).tolist() == [not u for u in unordered]


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_testp(dtype):
    normal = 1 << FORMATS[dtype][1]
    infinity = infinity_bits(dtype, True)
    x = array([0, 1, normal, infinity - 1, infinity, infinity + 1], dtype)
    truths = {
        "finite": [1, 1, 1, 1, 0, 0],
        "infinite": [0, 0, 0, 0, 1, 0],
        "number": [1, 1, 1, 1, 1, 0],
        "notanumber": [0, 0, 0, 0, 0, 1],
        "normal": [1, 0, 1, 1, 0, 0],
        "subnormal": [0, 1, 0, 0, 0, 0],
    }
    for op, expected in truths.items():
        assert numerics.testp(x, op, dtype).tolist() == [bool(e) for e in expected]


def test_copysign_takes_the_sign_of_the_first_and_the_value_of_the_second():
    a, b = np.array([-0.0, 3.0, -np.inf], np.float32), np.array([2.0, -5.0, 7.0], np.float32)
    assert numerics.copysign(a, b, "f32").tolist() == [-2.0, 5.0, -7.0]


# Approximations: rounded once, which is within every bound of the ISA, and the special values of its tables.

RANGES = {
    "ex2": (-12, 15),
    "lg2": (2, 100),
    "rcp": (0.01, 100),
    "rsqrt": (0.01, 100),
    "sqrt": (0.01, 100),
    "tanh": (-5, 5),
    "sin": (0.5, 2.5),
    "cos": (-1, 1),
}
EXACT = {
    "ex2": lambda x: mpmath.power(2, x),
    "lg2": lambda x: mpmath.log(x, 2),
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "sqrt": mpmath.sqrt,
    "tanh": mpmath.tanh,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
}


@pytest.mark.parametrize("name", RANGES)
def test_approximations_are_the_exact_value_rounded_once(name):
    rng = np.random.default_rng(4)
    x = rng.uniform(*RANGES[name], 500).astype(np.float32)
    for dtype, relative in (("f32", 2.0**-23.9), ("f16", 2.0**-10.9), ("bf16", 2.0**-7.9)):
        operand = convert(x, "f32", dtype, "rn")
        values = convert(operand, dtype, "f64").tolist()
        got = convert(approximate(name, operand, dtype), dtype, "f64").tolist()
        for value, result in zip(values, got, strict=True):
            exact = EXACT[name](mpmath.mpf(value))
            assert abs(result - exact) <= relative * abs(exact) + (2.0**-25 if dtype == "f16" else 0)


INF, NAN = math.inf, math.nan
SPECIAL_TABLES = {  # -inf, -subnormal, -0, +0, +subnormal, +inf, NaN, with .ftz
    "ex2": [0.0, 1.0, 1.0, 1.0, 1.0, INF, NAN],
    "lg2": [NAN, -INF, -INF, -INF, -INF, INF, NAN],
    "sin": [NAN, -0.0, -0.0, 0.0, 0.0, NAN, NAN],
    "cos": [NAN, 1.0, 1.0, 1.0, 1.0, NAN, NAN],
    "tanh": [-1.0, -0.0, -0.0, 0.0, 0.0, 1.0, NAN],
    "rcp": [-0.0, -INF, -INF, INF, INF, 0.0, NAN],
    "rsqrt": [NAN, -INF, -INF, INF, INF, 0.0, NAN],
    "sqrt": [NAN, -0.0, -0.0, 0.0, 0.0, INF, NAN],
}


@pytest.mark.parametrize("name", SPECIAL_TABLES)
def test_approximations_of_special_values(name):
    x = array([0xFF800000, 0x80000001, 0x80000000, 0, 1, 0x7F800000, 0xFFC00001], "f32")
    got = approximate(name, x, "f32", ftz=True)
    expected = np.array(SPECIAL_TABLES[name], np.float32)
    expected.view(np.uint32)[np.isnan(expected)] = 0x7FFFFFFF
    assert patterns(got, "f32") == patterns(expected, "f32")


def test_approximations_without_ftz_keep_subnormals():
    tiny = array([1, 0x80000001, 0x00400000], "f32")
    assert approximate("lg2", tiny, "f32").tolist()[0] == -149.0
    assert patterns(approximate("sin", tiny, "f32"), "f32") == [1, 0x80000001, 0x00400000]
    assert patterns(approximate("ex2", np.array([-149.0, -127.0], np.float32), "f32"), "f32") == [1, 0x00400000]
    assert patterns(approximate("ex2", np.array([-149.0, -127.0], np.float32), "f32", ftz=True), "f32") == [0, 0]


def test_approximate_division():
    a = np.array([1, 6, INF, 1, -3, 0, 5, INF, -1], np.float32)
    b = np.array([3, 2, 2.0**127, 2.0**127, 2.0**126, 0, 0, INF, INF], np.float32)
    expected = [np.float32(1 / 3), 3, NAN, 0, -3 * 2.0**-126, NAN, INF, NAN, -0.0]
    for got, want in zip(div_approx(a, b, "f32").tolist(), expected, strict=True):
        assert got == want or (got != got and want != want)
    full = div_full(a, b, "f32").tolist()
    assert full[3] == 2.0**-127 and full[0] == np.float32(1 / 3)
    assert div_full(a, b, "f32", ftz=True).tolist()[3] == 0.0


def test_f64_reciprocals_use_the_upper_words():
    x = np.array([3.0, -7.0, 0.0, -0.0, np.inf, 2.0**-1040, 1e300])
    got = approximate("rcp", x, "f64", ftz=True)
    assert not (got.view(np.uint64) & np.uint64(0xFFFFFFFF)).any()
    assert got[2:6].tolist() == [np.inf, -np.inf, 0.0, np.inf]
    assert np.allclose(got[[0, 1, 6]] * x[[0, 1, 6]], 1, atol=2.0**-19, rtol=0)
    roots = approximate("rsqrt", np.array([4.0, 9.0, np.nan]), "f64", ftz=True)
    assert np.allclose(roots[:2], [0.5, 1 / 3], rtol=2.0**-19)
    assert roots.view(np.uint64)[2] == 0x7FFFFFFF00000000
    assert approximate("rsqrt", np.array([9.0]), "f64")[0] == 1 / 3
