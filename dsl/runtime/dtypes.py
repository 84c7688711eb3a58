"""Defines the element types of arrays and scalars, and converts Python numbers to these types."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any

from msgspec import Struct

from dsl.runtime.errors import LaunchError
from dsl.runtime.numbers import is_masked, item_of


class ElementType(Struct, frozen=True):
    """An element type.

    `bytes` is the size of an element in memory. `code` is the format character of the `struct` module. `numpy` is the
    name of the type in numpy, JAX and torch, or in ml_dtypes for bfloat16 and 8-bit floats."""

    name: str
    bytes: int
    code: str
    numpy: str

    @property
    def is_float(self) -> bool:
        return self.name.lstrip("b")[0] == "f"


DTYPES = {
    row.name: row
    for row in (
        ElementType("i1", 1, "?", "bool"),
        ElementType("s8", 1, "b", "int8"),
        ElementType("s16", 2, "h", "int16"),
        ElementType("s32", 4, "i", "int32"),
        ElementType("s64", 8, "q", "int64"),
        ElementType("u8", 1, "B", "uint8"),
        ElementType("u16", 2, "H", "uint16"),
        ElementType("u32", 4, "I", "uint32"),
        ElementType("u64", 8, "Q", "uint64"),
        ElementType("f16", 2, "e", "float16"),
        ElementType("bf16", 2, "H", "bfloat16"),
        ElementType("f32", 4, "f", "float32"),
        ElementType("f64", 8, "d", "float64"),
        ElementType("e4m3", 1, "B", "float8_e4m3fn"),
        ElementType("e5m2", 1, "B", "float8_e5m2"),
    )
}

BIT_FIELDS = {"bf16": "uint16", "e4m3": "uint8", "e5m2": "uint8"}
"""Type that numpy and the CUDA array interface lack → the integer type of the same width."""

NAME_OF_NUMPY = {row.numpy: row.name for row in DTYPES.values()}
"""Name of a type in numpy, JAX and torch (`float16`, `bool`, `bfloat16`, …) → our name."""


def numpy_dtype(dtype: str) -> Any:
    """Returns the numpy dtype of the element type named `dtype`. For a type in BIT_FIELDS, such as `bf16`, it is a
    dtype of ml_dtypes."""
    import numpy

    if dtype not in BIT_FIELDS:
        return numpy.dtype(DTYPES[dtype].numpy)
    try:
        import ml_dtypes
    except ImportError:
        raise LaunchError("array", f"numpy has no {dtype} without ml_dtypes", "pip install ml_dtypes") from None
    return numpy.dtype(getattr(ml_dtypes, DTYPES[dtype].numpy))


def bf16_bits(value: float) -> int:
    """Returns the 16 bits of the bfloat16 that is nearest to `value`. Ties round to even.

    The function rounds first to f32 and then to bf16. The first step rounds to odd, so the result is the same as if
    `value` were rounded once."""
    if value != value:
        # Every NaN becomes this quiet NaN.
        return 0x7FC0
    packed = struct.pack("<f", value)
    bits, single = struct.unpack("<I", packed)[0], struct.unpack("<f", packed)[0]
    if single != value:
        bits = bits - (abs(single) > abs(value)) | 1
    # Add half the weight of the last bit that is kept, or one less if that bit is 0.
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    # A finite number must not round up to infinity. `struct` refuses this for f16 and f32, too.
    if rounded & 0x7FFF == 0x7F80 and value not in (float("inf"), float("-inf")):
        raise OverflowError("float too large for bf16")
    return rounded


def as_double(value: Any, bytes: int) -> float:
    """Converts a number to a double, which the caller then rounds to a float of `bytes` bytes.

    If no double equals the number and `bytes` is less than 8, the result is the neighbouring double whose last bit is
    1. Rounding this double to the float gives the same result as rounding the number directly. Raises OverflowError if
    the number is too large for a double."""
    number = float(value)
    # `float` turns a huge Decimal into infinity without an error.
    if isinstance(value, Decimal) and math.isinf(number) and value.is_finite():
        raise OverflowError("too large for a double")
    # A Python float is exact already.
    if bytes == 8 or type(value) is float or not isinstance(value, Rational | Decimal) or not math.isfinite(number):
        return number
    exact = Fraction(int(value) if isinstance(value, Integral) else value)
    if number == exact or struct.pack("<d", number)[0] & 1:
        return number
    return math.nextafter(number, math.inf if number < exact else -math.inf)


def in_type(dtype: str, value: int | float | bool) -> int | float | bool:
    """Returns the value that a kernel gets for the scalar `value` of the type `dtype`. A float is rounded to this type.

    Raises OverflowError if a float is too large for the type."""
    row = DTYPES[dtype]
    if not row.is_float or isinstance(value, bool):
        return value
    if dtype == "bf16":
        return struct.unpack("<f", struct.pack("<I", bf16_bits(as_double(value, 2)) << 16))[0]
    return struct.unpack(f"<{row.code}", struct.pack(f"<{row.code}", as_double(value, row.bytes)))[0]


def converter(dtype: str, name: str) -> Callable[[object], int | float | bool]:
    """Returns a function that converts a Python or numpy number to the value that `struct` packs as `dtype`.

    The function raises LaunchError `type` if its argument is no number, or does not fit the type. `name` is the
    parameter's name in messages."""
    row = DTYPES[dtype]
    if row.bytes == 1 and row.name[0] == "e":
        raise LaunchError("type", f"{name}: a scalar cannot be {dtype}", "a kernel takes it as f32 and converts it")

    def refuse(value: object, why: str) -> LaunchError:
        return LaunchError("type", f"{name} takes {dtype}: {value!r} {why}")

    def boolean(value: object) -> bool:
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            return bool(value)
        raise refuse(value, "is not a truth value")

    def integer(value: object) -> int:
        value = item_of(value)
        if isinstance(value, bool):
            # In Python True is an int. A bool that is passed as a number is probably a mistake.
            raise refuse(value, "is a truth value")
        try:
            number = operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            raise refuse(value, "is not an integer") from None
        low, high = (-1 << row.bytes * 8 - 1, 1 << row.bytes * 8 - 1) if row.name[0] == "s" else (0, 1 << row.bytes * 8)
        if not low <= number < high:
            raise refuse(value, "does not fit")
        return number

    def floating(value: object) -> float | int:
        if type(value) is not float:
            value = item_of(value)
        if isinstance(value, (bool, str, bytes)) or (type(value) is not float and is_masked(value)):
            raise refuse(value, "is not a number")
        try:
            number = as_double(value, row.bytes)
            if row.name == "bf16":
                return bf16_bits(number)
            struct.pack(f"<{row.code}", number)
        except (TypeError, ValueError):  # a signalling Decimal raises these
            raise refuse(value, "is not a number") from None
        except OverflowError:
            raise refuse(value, "does not fit") from None
        return number

    return boolean if row.name == "i1" else floating if row.is_float else integer
