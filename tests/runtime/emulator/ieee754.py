"""IEEE 754 on Python's rational numbers: what the tests of float arithmetic compare with."""

import math
from fractions import Fraction

import numpy as np

# name: (exponent bits, fraction bits, numpy storage)
FORMATS = {
    "f16": (5, 10, np.float16),
    "bf16": (8, 7, np.uint16),
    "f32": (8, 23, np.float32),
    "f64": (11, 52, np.float64),
}
MODES = ("rn", "rz", "rm", "rp")
NAN_BITS = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}


def width(dtype):
    return 1 + FORMATS[dtype][0] + FORMATS[dtype][1]


def array(bits, dtype):
    """An array of the format from a list of bit patterns."""
    return np.array(bits, dtype=f"u{width(dtype) // 8}").view(FORMATS[dtype][2])


def patterns(x, dtype):
    return x.view(f"u{width(dtype) // 8}").tolist()


def decode(bits, dtype):
    """A Fraction, or a float infinity or NaN; the sign apart, because of zeros."""
    exponent_bits, fraction_bits, _ = FORMATS[dtype]
    negative = bits >> (exponent_bits + fraction_bits) == 1
    exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    if exponent == (1 << exponent_bits) - 1:
        return (math.nan if fraction else math.inf), negative
    bias = (1 << (exponent_bits - 1)) - 1
    significand = fraction + ((1 << fraction_bits) if exponent else 0)
    return Fraction(significand) * Fraction(2) ** (max(exponent, 1) - bias - fraction_bits), negative


def encode(value, dtype, mode, negative_zero=False):
    """The bits of a rational number rounded to the format, from the definition of each rounding mode."""
    exponent_bits, fraction_bits, _ = FORMATS[dtype]
    sign = 1 << (exponent_bits + fraction_bits)
    bias = (1 << (exponent_bits - 1)) - 1
    if value == 0:
        return sign if negative_zero else 0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > magnitude
    quantum = Fraction(2) ** (max(exponent, 1 - bias) - fraction_bits)
    ratio = magnitude / quantum
    steps = {
        "rn": round(ratio),
        "rz": math.floor(ratio),
        "rm": math.ceil(ratio) if value < 0 else math.floor(ratio),
        "rp": math.floor(ratio) if value < 0 else math.ceil(ratio),
    }[mode]
    largest = (2 - Fraction(1, 1 << fraction_bits)) * Fraction(2) ** bias
    infinity = ((1 << exponent_bits) - 1) << fraction_bits
    if steps * quantum > largest:
        towards_zero = mode == "rz" or mode == ("rp" if value < 0 else "rm")
        code = infinity - 1 if towards_zero else infinity
    elif steps < 1 << fraction_bits:
        code = steps
    else:
        power = steps.bit_length() - 1 - fraction_bits
        quantum_exponent = quantum.numerator.bit_length() - quantum.denominator.bit_length()
        biased = quantum_exponent + power + fraction_bits + bias
        code = (biased << fraction_bits) + (steps >> power) - (1 << fraction_bits)
    return code | (sign if value < 0 else 0)


def infinity_bits(dtype, negative):
    exponent_bits, fraction_bits, _ = FORMATS[dtype]
    return ((1 << exponent_bits) - 1) << fraction_bits | (negative << (exponent_bits + fraction_bits))


def reference_fma(a, b, c, dtype, mode):
    """Bits of a * b + c, "nan" for NaN: IEEE 754 on Fractions."""
    (x, x_negative), (y, y_negative), (z, z_negative) = (decode(v, dtype) for v in (a, b, c))
    product_negative = x_negative != y_negative
    values = (x, y, z)
    if any(isinstance(v, float) and math.isnan(v) for v in values):
        return "nan"
    infinite = [isinstance(v, float) for v in values]
    if infinite[0] or infinite[1]:
        if x == 0 or y == 0 or (infinite[2] and z_negative != product_negative):
            return "nan"
        return infinity_bits(dtype, product_negative)
    if infinite[2]:
        return infinity_bits(dtype, z_negative)
    product = -x * y if product_negative else x * y
    exact = product + (-z if z_negative else z)
    same_sign = product_negative == z_negative
    return encode(exact, dtype, mode, product_negative if same_sign else mode == "rm")


def reference_add(a, b, dtype, mode):
    one = encode(Fraction(1), dtype, "rn")
    return reference_fma(a, one, b, dtype, mode)


def reference_mul(a, b, dtype, mode):
    (x, x_negative), (y, y_negative) = decode(a, dtype), decode(b, dtype)
    negative = x_negative != y_negative
    if x != x or y != y:
        return "nan"
    if isinstance(x, float) or isinstance(y, float):
        return "nan" if x == 0 or y == 0 else infinity_bits(dtype, negative)
    return encode(-x * y if negative else x * y, dtype, mode, negative)


def reference_div(a, b, dtype, mode):
    (x, x_negative), (y, y_negative) = decode(a, dtype), decode(b, dtype)
    negative = x_negative != y_negative
    x_infinite, y_infinite = isinstance(x, float), isinstance(y, float)
    if x != x or y != y or (x_infinite and y_infinite) or (x == 0 and y == 0):
        return "nan"
    if x_infinite or y == 0:
        return infinity_bits(dtype, negative)
    if y_infinite:
        return encode(Fraction(0), dtype, mode, negative)
    return encode(-x / y if negative else x / y, dtype, mode, negative)


def assert_bits(result, expected, dtype, operands):
    nan_code = infinity_bits(dtype, False)
    mask = (1 << (width(dtype) - 1)) - 1
    for i, (got, want) in enumerate(zip(patterns(result, dtype), expected, strict=True)):
        if want == "nan" and dtype == "f64":
            good = got & mask > nan_code
        else:
            good = got == (NAN_BITS[dtype] if want == "nan" else want)
        shown = [hex(operand[i]) for operand in operands]
        assert good, f"{shown} gives {got:#x}, expected {want if want == 'nan' else hex(want)}"


def specials(dtype):
    """Zeros, subnormals, the ends of the range, neighbours of one, infinities, a quiet and a signalling NaN."""
    exponent_bits, fraction_bits, _ = FORMATS[dtype]
    one = encode(Fraction(1), dtype, "rn")
    infinity = infinity_bits(dtype, False)
    normal = 1 << fraction_bits
    positive = [0, 1, 3, normal - 1, normal, normal + 1, one >> 1, one - 1, one, one + 1, one + normal // 2]
    positive += [(one + infinity) >> 1, infinity - 1, infinity, infinity + normal // 2 + 1, infinity + 1]
    return positive + [p | (1 << (exponent_bits + fraction_bits)) for p in positive]


def number(bits, dtype):
    value, negative = decode(bits, dtype)
    return -value if negative else value
