"""Numbers become floats by one rounding, wherever they come from; a literal that is too large is told."""

from __future__ import annotations

import struct
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dsl
from dsl.lowering.ir.types import BF16, F16, F32, DType, greatest, nearest_number
from dsl.runtime.dtypes import as_double, bf16_bits, in_type
from dsl.text.program import parse_program
from dsl.text.tree import Assign
from dsl.values.arrays import Arrays

TIE = 1 + 2**-8
"""In the middle between 1 and the next bf16."""
WIDE = 2**60 + 2**36
"""In the middle between 2^60 and the next f32; no double holds a little more."""
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
NUMBERS: list[Any] = [
    *(s * x for s in (1, -1) for x in (TIE, TIE + 2**-40, TIE - 2**-40, WIDE, WIDE + 1, WIDE - 1, 2**53 + 1)),
    *(2**60 + 2**52, 2**60 + 2**52 + 1, 2049, 2051, 65519.99, 1e-40, 5e-324, 0.1, 0.0, -0.0, 3.0e38),
    *(Fraction(1) + Fraction(1, 2**24) + Fraction(1, 2**60), Decimal(1) + Decimal(2) ** -8 + Decimal(2) ** -60),
]  # fmt: skip


def exactly(value: Any, dtype: DType) -> float:
    """The nearest of the numbers of a type around a double, by comparing exactly."""
    if dtype is F32:
        near = np.float32(float(value))
        found = [float(np.nextafter(near, np.float32(to))) for to in (-np.inf, np.inf)] + [float(near)]
    else:
        at = int(np.searchsorted(finite(dtype), float(value)))
        found = [float(x) for x in finite(dtype)[max(at - 2, 0) : at + 2]]
    distances = {x: abs(Fraction(x) - Fraction(value)) for x in found}
    least = min(distances.values())
    return min((x for x in found if distances[x] == least), key=lambda x: bits_of(x, dtype) & 1)


@cache
def finite(dtype: DType) -> np.ndarray:
    """All numbers of a type of 16 bits in order."""
    magnitude = np.arange(0x7C00 if dtype is F16 else 0x7F80, dtype=np.uint16).view(NUMPY[dtype.name])
    return np.unique(np.concatenate([magnitude, -magnitude]).astype(np.float64))


def bits_of(value: float, dtype: DType) -> int:
    code = {"f16": "e", "f32": "f", "bf16": "f"}[dtype.name]
    bits = int.from_bytes(struct.pack(f"<{code}", value), "little")
    return bits >> 16 if dtype is BF16 else bits


@pytest.mark.parametrize("dtype", [F32, BF16, F16], ids=str)
def test_a_number_is_rounded_once(dtype: DType) -> None:
    """By the compiler, of literals, and by a launch, of scalars. By way of f32, 1 + 2^-8 + 2^-40 as bf16 was 1."""
    for value in NUMBERS:
        if abs(value) > greatest(dtype):
            continue
        wanted = exactly(value, dtype)
        assert in_type(dtype.name, value) == wanted, value
        if isinstance(value, int | float):
            assert nearest_number(value, dtype) == wanted, value
    assert bf16_bits(TIE + 2**-40) == 0x3F81 and bf16_bits(-0.0) == 0x8000 and bf16_bits(float("nan")) == 0x7FC0
    assert np.signbit(nearest_number(-0.0, dtype)) and np.signbit(in_type(dtype.name, -0.0))
    assert as_double(np.int64(WIDE + 1), 4) > WIDE  # numpy's integers, too


SCALARS = """
kernel k(y: f64[n], s: {T}; B = 32):
    grid 1
    y[0 : B] = full(f64[B], ({e}).to(f64))

schedule run of k:
    warps = 1

schedule special of k:
    warps = 1
    specialize s
"""


def called(T: str, e: str, s: Any, schedule: str) -> float:
    y = np.zeros(32)
    dsl.parse(SCALARS.format(T=T, e=e), device="emulator").k(y, s, schedule=schedule)
    return float(y[0])


@pytest.mark.parametrize(
    ("T", "s", "e", "wanted"),
    [
        ("bf16", TIE + 2**-40, "s", 1.0078125),
        ("f32", WIDE + 1, "s", float(2**60 + 2**37)),
        ("f32", 0.1, "s * 3.0 - 0.3", float(np.float32(0.1) * np.float32(3) - np.float32(0.3))),
        ("f16", 65504.0, "s * 2.0", np.inf),
        ("u8", 255, "s + 1", 0.0),
        ("u8", 3, "s - 5", 254.0),
        ("u32", 5, "-s", float(2**32 - 5)),
        ("f32", 0.1, "where(s == 0.1, 1.0, 2.0)", 1.0),
        ("f32", float("nan"), "where(s != s, 1.0, 2.0)", 1.0),
    ],
)
def test_a_specialised_scalar_is_of_its_type(T: str, s: Any, e: str, wanted: float) -> None:
    """As a Python number, 255 of u8 and 1 were 256, and a bf16 was not rounded."""
    assert called(T, e, s, "run") == wanted
    if s == s:
        assert called(T, e, s, "special") == wanted


def test_conditions_of_a_launch_see_a_scalar_as_the_kernel_has_it() -> None:
    """0.9999 is 1 as bf16."""
    text = SCALARS.replace("grid 1", "grid 1\n    assert s < 1.0").format(T="bf16", e="s")
    function, y = dsl.parse(text, device="emulator").k, np.zeros(32)
    function(y, 0.99)
    with pytest.raises(dsl.LaunchError, match=r"requires s < 1.0 \(s = 1.0\)"):
        function(y, 0.9999)


@pytest.mark.parametrize(
    ("T", "fits", "not_"),
    [
        ("f16", "65519.99", "65520"),
        ("bf16", "3.39e38", "1e39"),
        ("f32", "3.4028235e38", "3.4028235677973366e+38"),
        ("f64", "1e308", "1" + "0" * 310),
        ("e4m3", "464", "464.1"),
        ("e5m2", "-61439", "-61440"),
    ],
)
def test_a_literal_that_is_too_large_is_told(T: str, fits: str, not_: str) -> None:
    """It was infinite, in kernels and on the host; inf itself may be written."""
    text = "kernel k(y: T[n]; T in {T}, B = 32):\n    grid 1\n    y[0 : B] = full(T[B], {number})\n"
    for number in (fits, "inf", "-inf"):
        dsl.parse(text.format(T=T, number=number)).compile("k", n=32)
    with pytest.raises(dsl.TileError, match=rf"does not fit {T} \("):
        dsl.parse(text.format(T=T, number=not_)).compile("k", n=32)
    evaluated(f"full({T}[4], {fits})"), evaluated(f"full({T}[4], inf)")
    with pytest.raises(dsl.TileError, match=rf"does not fit {T} \("):
        evaluated(f"full({T}[4], {not_})")


def evaluated(expression: str) -> Any:
    """On the host."""
    line = parse_program(f"example:\n    a = {expression}\n").examples[0].lines[0]
    assert isinstance(line, Assign)
    return Arrays({}, {})(line.value)


def test_numbers_saturate_to_fp8_as_values_do() -> None:
    """`.to(e4m3, saturate)` is what the hardware does in any case."""
    text = "kernel k(y: e4m3[n], x: f32[n]; B = 32):\n    grid 1\n    y[0 : B] = {e}\n"
    x = np.linspace(-1000, 1000, 32, dtype=np.float32)
    for e, wanted in (
        ("x[0 : B].to(e4m3, saturate)", np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn)),
        ("x[0 : B].to(e4m3)", np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn)),
        ("full(e4m3[B], (1000).to(e4m3, saturate))", np.full(32, 448)),
        ("full(e4m3[B], 1 + 2**-4 + 2**-40)", np.full(32, 1.125)),
    ):
        y = np.zeros(32, ml_dtypes.float8_e4m3fn)
        dsl.parse(text.format(e=e), device="emulator").k(y, x)
        assert (y.astype(np.float32) == wanted.astype(np.float32)).all(), e
