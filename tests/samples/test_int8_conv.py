"""Convolutions of every kind at small sizes on the emulator, exact against integers; their conflicts and refusals."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import dsl
from dsl.reference import conv2d

SAMPLE = Path(__file__).parents[2] / "samples" / "int8_conv.tile"
RANGES = {"s8": (-128, 128), "u8": (-8, 8), "f16": (-4, 4), "bf16": (-4, 4), "f32": (-4, 4)}
"""Of the operands. u8 holds pairs of s4. Products and sums of such floats are exact in f32."""
BLOCKS = {"s8": 32, "u8": 64}
"""Channels of a block of 32 bytes."""
SIX = 96.0


def hswish(v: np.ndarray) -> np.ndarray:
    return v * np.clip(v + SIX / 2, 0, SIX) / SIX


ACTIVATIONS = {
    "identity": lambda v: v,
    "rectified": lambda v: np.maximum(v, 0),
    "clamped": lambda v: np.clip(v, 0, SIX),
    "hswish": hswish,
}


@dataclass(frozen=True)
class Problem:
    """A convolution. Pairs are (height, width)."""

    image: tuple[int, int] = (6, 5)
    filter: tuple[int, int] = (3, 3)
    n: int = 1
    c: int = 64
    k: int = 64
    groups: int = 1
    stride: tuple[int, int] = (1, 1)
    pad: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    act: str = "identity"
    z: bool = False
    dtype: str = "s8"

    @property
    def output(self) -> tuple[int, int]:
        h, w = (
            (e + 2 * p - d * (r - 1) - 1) // s + 1
            for e, p, d, r, s in zip(self.image, self.pad, self.dilation, self.filter, self.stride, strict=True)
        )
        return h, w


@pytest.fixture(scope="module")
def emulated() -> dsl.Module:
    return dsl.load(SAMPLE, device="emulator")


def paired(x: np.ndarray) -> np.ndarray:
    """Neighbours of the last axis as one byte, the first in its lower bits."""
    return ((x[..., 0::2] & 15) | (x[..., 1::2] << 4)).astype(np.uint8)


def blocked(x: np.ndarray, dtype: str) -> np.ndarray:
    n, c, h, w = x.shape
    size = BLOCKS[dtype]
    y = np.ascontiguousarray(x.reshape(n, c // size, size, h, w).transpose(0, 1, 3, 4, 2))
    return paired(y) if dtype == "u8" else y


def blocked_filters(f: np.ndarray, dtype: str) -> np.ndarray:
    k, c, r, s = f.shape
    size = BLOCKS[dtype]
    y = np.ascontiguousarray(f.reshape(k, c // size, size, r, s).transpose(1, 3, 4, 0, 2))
    return paired(y) if dtype == "u8" else y


def innermost(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


class Arrays:
    """Operands of a problem, in both orders of channels, and the result. All sums are exact in f32."""

    def __init__(self, problem: Problem, nhwc: bool):
        p = self.problem = problem
        random = np.random.default_rng(crc32(repr(problem).encode()))
        low, high = RANGES[p.dtype]
        kind = "int8" if p.dtype in BLOCKS else "float16" if p.dtype == "f16" else "float32"

        def numbers(*extents: int) -> np.ndarray:
            return random.integers(low, high, extents).astype(kind)

        x, f = numbers(p.n, p.c, *p.image), numbers(p.k, p.c // p.groups, *p.filter)
        z, self.bias = numbers(p.n, p.k, *p.output), random.integers(-5, 5, p.k).astype(np.float32)
        self.alpha, self.beta, self.gamma = 2.0 ** -(9 if p.dtype == "s8" else 5), 2.0, 0.5
        sums = conv2d(x.astype(np.int64), f.astype(np.int64), None, p.stride, p.pad, p.dilation, p.groups)
        v = self.alpha * sums + self.beta * self.bias[None, :, None, None] + (self.gamma * z if p.z else 0)
        v = ACTIVATIONS[p.act](v)
        wanted = (np.rint(v).clip(low, high - 1) if p.dtype in BLOCKS else v).astype(kind)
        if nhwc:
            self.x, self.f, self.z, self.wanted = map(innermost, (x, f, z, wanted))
        else:
            self.x, self.z, self.wanted = (blocked(a, p.dtype) for a in (x, z, wanted))
            self.f = blocked_filters(f, p.dtype)
        self.y = np.full_like(self.wanted, 77)

    @property
    def arguments(self) -> tuple[Any, ...]:
        p = self.problem
        z = self.z if p.z else None
        scalars = (self.alpha, self.beta, self.gamma, SIX, *p.stride, *p.pad, *p.dilation)
        return (self.y, self.x, self.f, self.bias, z, *scalars)

    def check(self) -> None:
        assert np.array_equal(self.y, self.wanted), f"{np.mean(self.y != self.wanted):.2%} differ"


def run(module: dsl.Module, problem: Problem, nhwc: bool = False, **call: Any) -> None:
    arrays = Arrays(problem, nhwc)
    (module.conv2d_nhwc if nhwc else module.conv2d)(*arrays.arguments, **call)
    arrays.check()


# ---- geometry: 324 problems ----

SMALL = {"TM": 32, "TN": 32, "WARPS": 1, "DEPTH": 3}
FILTERS = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (1, 3), (3, 1), (1, 7), (7, 1), (2, 5)]
STRIDES, DILATIONS, PADS = [(1, 1), (2, 2), (3, 1)], [(1, 1), (2, 1), (2, 3)], ["half", (0, 0), (1, 2)]


def odd_extent(taps: int, stride: int, pad: int, dilation: int) -> int:
    """An odd extent with an odd number of outputs, if there is one: images of one class, which share a variant."""
    reach = dilation * (taps - 1) + 1
    fits = [e for e in range(5, 40, 2) if e + 2 * pad >= reach]
    return next((e for e in fits if ((e + 2 * pad - reach) // stride + 1) % 2), fits[0])


def geometry(number: int, taps: Any, stride: Any, dilation: Any, pad: Any) -> Problem:
    if pad == "half":
        pad = tuple(d * (r - 1) // 2 for d, r in zip(dilation, taps, strict=True))
    image = tuple(odd_extent(*each) for each in zip(taps, stride, pad, dilation, strict=True))
    act, z = list(ACTIVATIONS)[FILTERS.index(taps) % 4], FILTERS.index(taps) % 3 == 0
    c = 32 if taps[0] * taps[1] > 9 else 64
    return Problem(image, taps, 2, c, 32, 1, stride, pad, dilation, act, z)


GEOMETRIES = [geometry(i, *each) for i, each in enumerate(product(FILTERS, STRIDES, DILATIONS, PADS))]
WAYS = [("table", False), ("table", True), ("table", False), ("table", True), ("folded", False), ("folded", True)]


@pytest.mark.parametrize("number", range(len(GEOMETRIES)))
def test_geometry(emulated, number):
    """Each by one of the ways, in turn."""
    schedule, nhwc = WAYS[(number // 5 + number) % len(WAYS)]
    problem = GEOMETRIES[number]
    run(emulated, problem, nhwc, schedule=schedule, ACT=problem.act, **SMALL)
