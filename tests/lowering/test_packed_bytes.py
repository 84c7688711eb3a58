"""Bytes that become f16 or bf16, two at a time: exact for all 256, in the words of any access."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from tests.compile_and_run import ARRAYS, compile_kernel, launch

BYTES, WIDE = ("s8", "u8", "e4m3", "e5m2"), ("f16", "bf16")
ALL = np.arange(256, dtype=np.uint8)
CONVERT = """
kernel convert(y: R[rows, 16], x: T[rows, 16]; T in s8|u8|e4m3|e5m2, R in f16|bf16):
    grid 1
    v = load(x[0 : 32, 0 : 16]).to(R)
    y[0 : 32, 0 : 16] = v

schedule s of convert:
    warps = 1
    layout v: vector {vector}, lanes {lanes}, warps [1, 1]
"""
OLD = re.compile(r"cvt\.\w+\.\w+\.[su]8\b|cvt\.rn\.b?f16\.[su](8|16|32)\b|cvt\.rn\.f32\.[su]\d+")


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal with the sign of zeros, but for the bits of NaN."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(
        np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)]
    )


@pytest.mark.parametrize("vector, lanes", [([1, 16], [32, 1]), ([4, 4], [8, 4])], ids=["row", "square"])
@pytest.mark.parametrize(("source", "to"), list(product(BYTES, WIDE)))
def test_all_256_bytes_become_exact_numbers(source: str, to: str, vector: list[int], lanes: list[int]) -> None:
    x = np.concatenate([ALL, ALL[::-1]]).reshape(32, 16).view(ARRAYS[source])
    args = {"x": x, "y": np.zeros((32, 16), ARRAYS[to])}
    text = CONVERT.format(vector=vector, lanes=lanes)
    kernel = compile_kernel(text, args, types={"T": source, "R": to})
    launch(kernel, args)
    assert same(args["y"], x)
    assert not OLD.search(kernel.ptx)
    # Two results of a register: none is made of one byte alone.
    packed = {"s8": "add.*f16x2", "u8": "add.*f16x2", "e4m3": "cvt.rn.f16x2.e4m3x2", "e5m2": "prmt"}[source]
    packed = "fma.rn.bf16x2" if to == "bf16" and source in ("s8", "u8") else packed
    assert len(re.findall(packed, kernel.ptx)) >= (16 if "fma" in packed else 8)
