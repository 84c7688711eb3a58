"""`cvt` against tables of all values of the small formats and exact rational arithmetic for the large ones."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from ieee754 import FORMATS, MODES, array, decode, encode, number, patterns, specials, width

from dsl.runtime.emulator.conversions import convert
from tests.whole import some

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

INF = math.inf
ALL16 = np.arange(65536, dtype=np.uint16)


def table(dtype):
    """(values, bits) of all finite non-negative 16-bit or fp8 numbers, in order, as float64."""
    kind = {
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "e4m3": ml_dtypes.float8_e4m3fn,
        "e5m2": ml_dtypes.float8_e5m2,
    }
    bits = ALL16[:0x8000] if dtype in ("f16", "bf16") else np.arange(128, dtype=np.uint8)
    values = bits.view(kind[dtype]).astype(np.float64)
    return values[np.isfinite(values)], bits[np.isfinite(values)]


def reference_narrow(x, dtype, mode, saturating=False):
    """Bits of float64 `x` in a 16-bit or fp8 format, looked up among all its values."""
    values, bits = table(dtype)
    magnitude = np.abs(x)
    negative = np.signbit(x)
    low = np.clip(np.searchsorted(values, magnitude, side="right") - 1, 0, len(values) - 1)
    ulp = values[-1] - values[-2]
    upper_value = np.append(values, values[-1] + ulp)[low + 1]
    exact = values[low] == magnitude
    if mode == "rn":
        below, above = magnitude - values[low], upper_value - magnitude
        up = (above < below) | ((above == below) & (low % 2 == 1))
    elif mode == "rz":
        up = np.zeros(x.shape, bool)
    else:
        up = ~exact & (negative == (mode == "rm"))
    code = low + up
    if saturating:
        code = np.minimum(code, len(values) - 1)
    else:
        code[np.isinf(x)] = len(values)
    width = bits.dtype.itemsize * 8
    result = code.astype(bits.dtype) | (negative.astype(bits.dtype) << bits.dtype.type(width - 1))
    result[np.isnan(x)] = 0x7FFF if width == 16 else 0x7F
    return result


def around_midpoints(dtype, source):
    """Values of the format, midpoints, and their neighbours in `source`, with both signs, infinities and NaN."""
    values, _ = table(dtype)
    points = np.concatenate(
        [values, (values[:-1] + values[1:]) / 2, [values[-1] * 1.0001, values[-1] * 2, np.inf, np.nan]]
    )
    points = points.astype(source)
    points = np.concatenate([points, np.nextafter(points, source(0)), np.nextafter(points, source(np.inf))])
    return np.concatenate([points, -points])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dst", ["f16", "bf16"])
@pytest.mark.parametrize("src", ["f32", "f64"])
def test_narrowing_to_16_bits_around_every_value_and_midpoint(src, dst, mode):
    x = around_midpoints(dst, FORMATS[src][2])
    got = convert(x, src, dst, mode).view(np.uint16)
    np.testing.assert_array_equal(got, reference_narrow(x.astype(np.float64), dst, mode))
    clamped = convert(x, src, dst, mode, satfinite=True).view(np.uint16)
    finite = reference_narrow(x.astype(np.float64), dst, mode, saturating=True)
    np.testing.assert_array_equal(clamped, finite)
    relu = convert(x, src, dst, mode, relu=True).view(np.uint16)
    np.testing.assert_array_equal(relu, np.where(got >= 0x8000, 0, got))


@pytest.mark.parametrize("mode", MODES)
def test_all_16_bit_floats_to_the_other_16_bit_format(mode):
    f16, bf16 = ALL16.view(np.float16).astype(np.float64), ALL16.view(ml_dtypes.bfloat16).astype(np.float64)
    got = convert(ALL16.view(np.float16), "f16", "bf16", mode)
    np.testing.assert_array_equal(got, reference_narrow(f16, "bf16", mode))
    got = convert(ALL16, "bf16", "f16", mode).view(np.uint16)
    np.testing.assert_array_equal(got, reference_narrow(bf16, "f16", mode))


@pytest.mark.parametrize("dst", ["e4m3", "e5m2"])
def test_all_f16_and_midpoints_of_f32_to_fp8(dst):
    got = convert(ALL16.view(np.float16), "f16", dst, "rn")
    wide = ALL16.view(np.float16).astype(np.float64)
    np.testing.assert_array_equal(got, reference_narrow(wide, dst, "rn", saturating=True))
    x = around_midpoints(dst, np.float32)
    got = convert(x, "f32", dst, "rn")
    expected = reference_narrow(x.astype(np.float64), dst, "rn", saturating=True)
    np.testing.assert_array_equal(got, expected)
    relu = convert(x, "f32", dst, "rn", relu=True)
    np.testing.assert_array_equal(relu, np.where(expected >= 0x80, 0, expected))


@pytest.mark.parametrize("src", ["e4m3", "e5m2"])
def test_all_fp8_to_f16(src):
    code = np.arange(256, dtype=np.uint8)
    kind = ml_dtypes.float8_e4m3fn if src == "e4m3" else ml_dtypes.float8_e5m2
    expected = code.view(kind).astype(np.float16).view(np.uint16)
    expected[(expected & 0x7FFF) > 0x7C00] = 0x7FFF
    np.testing.assert_array_equal(convert(code, src, "f16", "rn").view(np.uint16), expected)


def test_all_16_bit_floats_widen_exactly():
    for src, kind in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        x = ALL16.view(FORMATS[src][2])
        for dst, wide in (("f32", np.float32), ("f64", np.float64)):
            expected = ALL16.view(kind).astype(wide)
            got = convert(x, src, dst)
            nan = np.isnan(expected)
            np.testing.assert_array_equal(np.isnan(got), nan)
            np.testing.assert_array_equal(patterns(got[~nan], dst), patterns(expected[~nan], dst))


INTEGERS = [sign + bits for sign in "su" for bits in ("8", "16", "32", "64")]
INTEGRAL = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}


def integer_range(dtype):
    bits = int(dtype[1:])
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if dtype[0] == "s" else (0, (1 << bits) - 1)


def reference_to_integer(x, dst, mode, from_f64):
    low, high = integer_range(dst)
    bits = int(dst[1:])
    if math.isnan(x):
        return 1 << (bits - 1) if from_f64 or bits == 64 else 0
    if math.isinf(x):
        return (high if x > 0 else low) % (1 << bits)
    return min(max(INTEGRAL[mode](x), low), high) % (1 << bits)


@pytest.mark.parametrize("mode", INTEGRAL)
@pytest.mark.parametrize("src", ["f16", "bf16"])
def test_all_16_bit_floats_to_integers(src, mode):
    x = ALL16.view(FORMATS[src][2])
    values = convert(x, src, "f64").tolist()
    for dst in some(("s8", "u8", "u16", "s16", "s32", "u32", "u64", "s64"), 2):
        expected = [reference_to_integer(v, dst, mode, False) for v in values]
        assert convert(x, src, dst, mode).tolist() == expected


@pytest.mark.parametrize("mode", INTEGRAL)
@pytest.mark.parametrize("dst", INTEGERS)
@pytest.mark.parametrize("src", ["f32", "f64"])
def test_floats_to_integers_at_the_ends_of_the_range(src, dst, mode):
    kind = FORMATS[src][2]
    ends = np.array([float(e) for e in integer_range(dst)], kind)
    steps = np.array([-1.5, -1, -0.5, -0.25, 0, 0.25, 0.5, 1, 1.5, 2.5], kind)
    x = np.concatenate([(ends[:, None] + steps).ravel(), steps, np.array([np.inf, -np.inf, np.nan], kind)])
    x = np.concatenate([x, np.nextafter(x, kind(0)), np.nextafter(x, kind(np.inf))])
    expected = [reference_to_integer(v, dst, mode, src == "f64") for v in x.tolist()]
    assert convert(x, src, dst, mode).tolist() == expected


def test_ftz_of_an_input_shows_in_rounding_up():
    tiny = array([1, 0x80000001], "f32")
    assert convert(tiny, "f32", "s32", "rpi").tolist() == [1, 0]
    assert convert(tiny, "f32", "s32", "rpi", ftz=True).tolist() == [0, 0]
    assert patterns(convert(np.array([2.0**-130]), "f64", "f32", "rn", ftz=True), "f32") == [0]


@pytest.mark.parametrize("mode", INTEGRAL)
@pytest.mark.parametrize("dtype", FORMATS)
def test_rounding_to_an_integral_float(dtype, mode):
    for bits in specials(dtype) + [encode(Fraction(n, 4), dtype, "rn") for n in range(-30, 30)]:
        got = patterns(convert(array([bits], dtype), dtype, dtype, mode), dtype)[0]
        value = number(bits, dtype)
        if value != value or value in (INF, -INF):
            continue
        negative = bits >> (width(dtype) - 1) == 1
        assert got == encode(Fraction(INTEGRAL[mode](value)), dtype, "rn", negative)
    with pytest.raises(ValueError, match="keeps the type"):
        convert(array([0], dtype), dtype, "f32" if dtype != "f32" else "f64", "rni")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dst", FORMATS)
@pytest.mark.parametrize("src", INTEGERS)
def test_integers_to_floats(src, dst, mode):
    low, high = integer_range(src)
    bits = int(src[1:])
    rng = np.random.default_rng(5)
    values = [
        low,
        low + 1,
        high,
        high - 1,
        0,
        1,
        min(high, 65504),
        min(high, 65505),
        min(high, 65519),
        min(high, 65520),
    ]
    for _ in range(150):
        v = int(rng.integers(0, 1 << 63)) >> int(rng.integers(0, 63))
        values += [max(min(v, high), low), max(min(-v, high), low)]
    for power in range(8, bits - 1):
        values += [
            max(min((1 << power) + (1 << max(power - p, 0)) + d, high), low)
            for p in (8, 11, 24, 53)
            for d in (-1, 0, 1)
        ]
    unsigned = np.array([v % (1 << bits) for v in values], f"u{bits // 8}")
    expected = [encode(Fraction(v), dst, mode) for v in values]
    assert patterns(convert(unsigned, src, dst, mode), dst) == expected


@pytest.mark.parametrize("src", ["s16", "u16"])
@pytest.mark.parametrize("mode", MODES)
def test_all_16_bit_integers_to_16_bit_floats(src, mode):
    values = ALL16.view(np.int16 if src == "s16" else np.uint16).astype(np.float64)
    for dst in ("f16", "bf16"):
        got = convert(ALL16, src, dst, mode).view(np.uint16)
        np.testing.assert_array_equal(got, reference_narrow(values, dst, mode))


@pytest.mark.parametrize("mode", MODES)
def test_f64_to_f32(mode):
    rng = np.random.default_rng(6)
    bits = [b for b in specials("f32") if decode(b, "f32")[0] not in (INF,) and number(b, "f32") == number(b, "f32")]
    bits += rng.integers(0, 0x7F800000, 300).tolist()
    points = []
    for b in bits:
        value = number(b, "f32")
        beside = number(b + 1, "f32") if (b + 1) & 0x7F800000 != 0x7F800000 else value * 2
        for target in (value, (value + beside) / 2):
            near = float(target)
            points += [near, math.nextafter(near, INF), math.nextafter(near, -INF)]
    points += [5e-324, -5e-324, 1e300, -1e300]
    values = [Fraction(p) for p in points]
    got = patterns(convert(np.array(points), "f64", "f32", mode), "f32")
    expected = [encode(v, "f32", mode, math.copysign(1, p) < 0) for v, p in zip(values, points, strict=True)]
    assert got == expected


def test_f32_to_tf32():
    x = np.array([1.0, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 + 2.0**-23, -1 - 2.0**-11, 2.0**-149], np.float32)
    one = 0x3F800000
    nearest = patterns(convert(x, "f32", "tf32", "rn"), "f32")
    assert nearest == [one, one, one + 0x4000, one + 0x2000, one | 1 << 31, 0]
    away = patterns(convert(x, "f32", "tf32", "rna"), "f32")
    assert away == [one, one + 0x2000, one + 0x4000, one + 0x2000, one + 0x2000 | 1 << 31, 0]
    zero = patterns(convert(x, "f32", "tf32", "rz"), "f32")
    assert zero == [one, one, one + 0x2000, one, one | 1 << 31, 0]
    ends = array([0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000], "f32")
    assert patterns(convert(ends, "f32", "tf32", "rna"), "f32")[:3] == [0x7F800000, 0x7F800000, 0xFF800000]
    clamped = patterns(convert(ends, "f32", "tf32", "rna", satfinite=True), "f32")
    assert clamped[:3] == [0x7F7FE000, 0x7F7FE000, 0xFF7FE000]
    assert patterns(convert(ends, "f32", "tf32", "rn", relu=True), "f32")[2:] == [0, 0x7FFFE000]
    with pytest.raises(ValueError, match="tf32"):
        convert(x, "f32", "tf32", "rp")


@pytest.mark.parametrize("src", INTEGERS)
@pytest.mark.parametrize("dst", INTEGERS)
def test_integers_to_integers(src, dst):
    source_bits, bits = int(src[1:]), int(dst[1:])
    low, high = integer_range(src)
    values = sorted(
        {v for v in (low, low + 1, -1, 0, 1, 127, 128, 255, 256, 40000, high - 1, high) if low <= v <= high}
    )
    x = np.array([v % (1 << source_bits) for v in values], f"u{source_bits // 8}")
    assert convert(x, src, dst).tolist() == [v % (1 << bits) for v in values]
    least, most = integer_range(dst)
    clamped = [min(max(v, least), most) % (1 << bits) for v in values]
    assert convert(x, src, dst, saturate=True).tolist() == clamped


def test_saturating_conversion_to_floats_clamps_to_one():
    x = np.array([-3, 0, 1, 70000], np.int32)
    assert convert(x, "s32", "f16", "rn", saturate=True).tolist() == [0, 0, 1, 1]
    assert convert(np.array([0.5, -0.5, np.nan, 9]), "f64", "f32", "rn", saturate=True).tolist() == [
        0.5,
        0,
        0,
        1,
    ]


def test_narrowing_with_ftz_finds_subnormals_before_gradual_underflow():
    below = np.array([(1 - 2.0**-24) * 2.0**-126, (1 - 2.0**-26) * 2.0**-126, -(1 - 2.0**-24) * 2.0**-126])
    assert convert(below, "f64", "f32", "rn").tolist() == [2.0**-126, 2.0**-126, -(2.0**-126)]
    assert convert(below, "f64", "f32", "rn", ftz=True).tolist() == [0, 2.0**-126, 0]


def test_float_to_integer_needs_an_integer_rounding():
    with pytest.raises(ValueError, match="rni"):
        convert(np.zeros(1, np.float32), "f32", "s32", "rn")
