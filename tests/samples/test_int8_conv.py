"""Convolutions of every kind at small sizes on the emulator, exact against integers; their conflicts and refusals."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
import pytest

import dsl
from dsl.values.reference import conv2d

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
        kind = {"s8": np.int8, "u8": np.int8, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}[p.dtype]

        def numbers(*extents: int) -> np.ndarray:
            return random.integers(low, high, extents).astype(kind)

        x, f = numbers(p.n, p.c, *p.image), numbers(p.k, p.c // p.groups, *p.filter)
        z, self.bias = numbers(p.n, p.k, *p.output), random.integers(-5, 5, p.k).astype(np.float32)
        self.alpha, self.beta, self.gamma = 2.0 ** -(9 if p.dtype == "s8" else 5), 2.0, 0.5
        sums = self.sums = conv2d(x.astype(np.int64), f.astype(np.int64), None, p.stride, p.pad, p.dilation, p.groups)
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


# ---- geometry: 108 of 324 problems ----

SMALL = {"PM": 1, "PN": 1, "TM": 32, "SIZE": 32, "warps": 1, "SLOTS": 3, "PARTS": 1}
FILTERS = [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (1, 3), (3, 1), (1, 7), (7, 1), (2, 5)]
STRIDES, DILATIONS, PADS = [(1, 1), (2, 2), (3, 1)], [(1, 1), (2, 1), (2, 3)], ["half", (0, 0), (1, 2)]


def odd_extent(taps: int, stride: int, pad: int, dilation: int) -> int:
    """An odd extent with an odd number of outputs, if there is one: images of one class, which share a variant."""
    reach = dilation * (taps - 1) + 1
    fits = [e for e in range(5, 40, 2) if e + 2 * pad >= reach]
    return next((e for e in fits if ((e + 2 * pad - reach) // stride + 1) % 2), fits[0])


def geometry(taps: Any, stride: Any, dilation: Any, pad: Any) -> Problem:
    if pad == "half":
        pad = tuple(d * (r - 1) // 2 for d, r in zip(dilation, taps, strict=True))
    image = tuple(odd_extent(*each) for each in zip(taps, stride, pad, dilation, strict=True))
    act, z = list(ACTIVATIONS)[FILTERS.index(taps) % 4], FILTERS.index(taps) % 3 == 0
    c = 32 if taps[0] * taps[1] > 9 else 64
    return Problem(image, taps, 2, c, 32, 1, stride, pad, dilation, act, z)


EVERY = [*product(enumerate(FILTERS), enumerate(STRIDES), enumerate(DILATIONS), enumerate(PADS))]
GEOMETRIES = [geometry(*(each for _, each in all)) for all in EVERY if sum(place for place, _ in all) % 3 == 0]
"""Any three of the four are combined in all ways: one problem in three suffices, and CI has two cores."""
WAYS = [(True, False), (True, True), (False, True), (False, False)]
"""Whether any image is served, and whether channels are innermost."""


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(GEOMETRIES)))
def test_geometry(emulated, number):
    """Each by one of the ways, in turn."""
    any_image, nhwc = WAYS[(number // 9 + number) % len(WAYS)]
    problem = GEOMETRIES[number]
    run(emulated, problem, nhwc, ANY_IMAGE=any_image, ACT=problem.act, **SMALL)


# ---- what else may differ ----


@pytest.mark.parametrize("nhwc", [False, True])
@pytest.mark.parametrize("any_image", [False, True])
@pytest.mark.parametrize(("groups", "c", "k"), [(2, 128, 64), (3, 96, 192)])
def test_groups(emulated, nhwc, any_image, groups, c, k):
    """Of 32 to 64 channels, tiles that reach behind a group's last channel included."""
    problem = Problem(n=2, c=c, k=k, groups=groups, z=True)
    run(emulated, problem, nhwc, ANY_IMAGE=any_image, **{**SMALL, "TM": 64})


@pytest.mark.parametrize("nhwc", [False, True])
@pytest.mark.parametrize(("size", "n"), [((1, 1), 1), ((2, 1), 3), ((7, 9), 1), ((6, 11), 2)])
def test_edges_by_the_dispatch_alone(emulated, nhwc, size, n):
    """Pixels that fill no tile; what the dispatch chooses for few of them, sums in parts among that."""
    run(emulated, Problem(size, n=n, c=160, k=96, z=n == 3), nhwc)
    run(emulated, Problem(size, filter=(1, 1), pad=(0, 0), n=n, c=512, k=32), nhwc)


@pytest.mark.parametrize("act", ACTIVATIONS)
@pytest.mark.parametrize("nhwc", [False, True])
def test_epilogues(emulated, act, nhwc):
    for z in (False, True):
        run(emulated, Problem(act=act, z=z, filter=(1, 1), pad=(0, 0)), nhwc, ACT=act, **SMALL)


def launch_blocked(module: dsl.Module, problem: Problem, any_image: bool, **constants: Any) -> tuple[Any, Any]:
    """One variant of `conv`: the kernel, and its counters. The result is checked."""
    arrays, block = Arrays(problem, False), BLOCKS[problem.dtype]
    (h, w), (p, q), (r, s), (sh, sw) = problem.image, problem.output, problem.filter, problem.stride
    (ph, pw), (dh, dw) = problem.pad, problem.dilation
    dims = {"n": problem.n, "k": problem.k, "h": h, "w": w, "p": p, "q": q, "r": r, "s": s}
    dims |= {"cb": problem.c // block, "cg": problem.c // problem.groups // block, "kb": problem.k // block}
    scalars = {"sh": sh, "sw": sw, "ph": ph, "pw": pw, "dh": dh, "dw": dw}
    absent = set() if problem.z else {"z"}
    constants["ANY_IMAGE"] = any_image
    kernel = module.compile("conv", "blocks", absent=absent, T=problem.dtype, **dims, **scalars, **constants)
    result = kernel.run(*arrays.arguments)
    arrays.check()
    return kernel, result.counters.totals


@pytest.mark.parametrize("any_image", [False, True])
@pytest.mark.parametrize(("extent", "dtype"), [(64, "u8"), (128, "s8")])
@pytest.mark.parametrize("z", [False, True])
def test_blocks_of_channels_have_no_conflicts_and_one_barrier_a_round(emulated, any_image, extent, dtype, z):
    """Copies of 16 bytes, in the main loop and in the epilogue; s4 as pairs in bytes."""
    problem = Problem((7, 9), n=2, c=4 * BLOCKS[dtype], k=128, z=z, dtype=dtype)
    tile = {"PM": 1, "PN": 1, "TM": extent, "SIZE": extent, "warps": 4, "BYTES": 64, "SLOTS": 3, "PARTS": 1}
    kernel, counters = launch_blocked(emulated, problem, any_image, **tile)
    assert counters.bank_conflicts == 0
    copies = re.findall(r"cp\.async\.c[ag]\.shared\.global.*", kernel.ptx)
    assert copies and all(", 16" in copy for copy in copies)
    assert "ldmatrix.sync.aligned.m8n8.x4" in kernel.ptx
    iterations, blocks = 2 * 9, -(-2 * 7 * 9 // extent) * (128 // extent)
    if dtype == "s8":  # products of s4 do not go step by step; one more is for the bias
        assert counters.barriers == blocks * 4 * (iterations + 2)


@pytest.mark.long
@pytest.mark.parametrize(
    "tile",
    [
        {"PM": 2, "PN": 3, "TM": 128, "SIZE": 64, "warps": 4, "SLOTS": 3},
        {"PM": 2, "PN": 5, "TM": 64, "SIZE": 64, "warps": 4, "SLOTS": 4},
        {"PM": 1, "PN": 3, "TM": 128, "SIZE": 64, "warps": 4, "SLOTS": 2},
        {"PM": 2, "PN": 1, "TM": 128, "SIZE": 128, "warps": 8, "SLOTS": 3},
    ],
)
def test_tiles_of_parts(emulated, tile):
    """Numbers of pixels and of channels that fill no tile; no conflicts."""
    problem = Problem((9, 7), n=3, c=96, k=96, z=True)
    _, counters = launch_blocked(emulated, problem, False, **tile)
    assert counters.bank_conflicts == 0


@pytest.mark.parametrize("dtype", ["s8", "f16", "f32"])
@pytest.mark.parametrize("any_image", [False, True])
@pytest.mark.parametrize("bytes", [32, 64])
def test_tiles_of_parts_with_channels_innermost(emulated, dtype, any_image, bytes):
    tile = {"PM": 2, "PN": 3, "TM": 64, "SIZE": 32, "warps": 4, "SLOTS": 2, "BYTES": bytes, "PARTS": 1}
    problem = Problem((9, 7), n=3, c=64, k=72, dtype=dtype, z=True)
    run(emulated, problem, True, ANY_IMAGE=any_image, **tile)


@pytest.mark.parametrize(("dtype", "tm"), [("s8", 128), ("s8", 96), ("bf16", 64)])
@pytest.mark.parametrize("geometry", [{}, {"stride": (2, 1), "filter": (3, 2)}, {"dilation": (2, 1), "pad": (2, 1)}])
def test_tiles_of_256_pixels(emulated, dtype, tm, geometry):
    """By boxes of pixels. Two warp groups compute such a tile in two parts."""
    problem = Problem((17, 13), n=2, c=64, k=104, dtype=dtype, z=True, **geometry)
    run(emulated, problem, True, schedule="tma", TN=256, TM=tm, TK=64 if dtype == "s8" else 32, AT_ONCE=1)


def test_the_seeds_instruction():
    """m8n8k16 in place of the largest."""
    head = "schedule blocks of conv:\n"
    text = SAMPLE.read_text().replace(head, head + "    instruction acc: mma.sync.m8n8k16\n")
    module = dsl.parse(text, "int8_conv.tile", device="emulator")
    kernel, counters = launch_blocked(module, Problem(z=True), False, **SMALL)
    assert "m8n8k16" in kernel.ptx and "m16n8k32" not in kernel.ptx and counters.bank_conflicts == 0


@pytest.mark.parametrize("dtype", ["u8", "f16", "bf16", "f32"])
@pytest.mark.parametrize("any_image", [False, True])
@pytest.mark.parametrize("taps", [(1, 1), (3, 2)])
def test_other_operands(emulated, dtype, any_image, taps):
    """s4 in blocks of 64; f16, bf16 and tf32 with channels innermost. Sums are exact."""
    pad = (taps[0] // 2, taps[1] // 2)
    problem = Problem((7, 6), taps, 2, 64, 64, pad=pad, dtype=dtype, act="rectified", z=any_image)
    run(emulated, problem, dtype != "u8", ANY_IMAGE=any_image, ACT="rectified", **{**SMALL, "TM": 64})


@pytest.mark.long
@pytest.mark.parametrize(("c", "k"), [(32, 8), (96, 40), (160, 33), (64, 1)])
def test_any_number_of_channels_out_if_they_are_innermost(emulated, c, k):
    run(emulated, Problem(n=2, c=c, k=k, z=True), True)


@pytest.mark.parametrize("nhwc", [False, True])
@pytest.mark.parametrize("parts", [2, 3, 4])
def test_sums_of_many_channels_in_parts_are_exact(emulated, nhwc, parts):
    """Blocks share the iterations of a tile, some of them have fewer; once more with the workspace that is there."""
    problem = Problem((3, 3), n=1, c=288, k=64)
    for _ in range(2):
        run(emulated, problem, nhwc, **{**SMALL, "PARTS": parts})


def test_what_does_not_fit_is_refused(emulated):
    good = Arrays(Problem(), False).arguments
    with pytest.raises(dsl.TileError, match="literal dim 32"):
        x = np.zeros((1, 2, 6, 5, 16), np.int8)  # blocks of 16 channels
        emulated.conv2d(good[0], x, *good[2:])
    with pytest.raises(dsl.TileError, match="this assertion does not hold") as caught:
        emulated.conv2d(*good[:9], 2, *good[10:])  # another stride
    assert caught.value.loc.text == "p = (h + 2 * ph - dh * (r - 1) - 1) // sh + 1"
    with pytest.raises(dsl.TileError, match="requires cb % cg"):
        x = np.zeros((1, 3, 6, 5, 32), np.int8)
        emulated.conv2d(good[0], x, *good[2:])
    y, _x, _f, *rest = Arrays(Problem(), True).arguments
    with pytest.raises(dsl.TileError, match=r"requires cg % \(32 / size\(T\)\)"):
        emulated.conv2d_nhwc(y, np.zeros((1, 6, 5, 48), np.int8), np.zeros((64, 3, 3, 48), np.int8), *rest)
