"""Windows of images as boxes (`stage x: tma`): index tiles that are digits of the number of a pixel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dsl
from dsl.lowering.ir.location import TileError
from dsl.runtime import device_facts

TEXT = """
kernel pool(y: f32[n, p, q, c], x: T[n, h, w, c]; T in s8|f16|f32, TN, TC, R, S, SH, SW, PH, PW, DH, DW):
    grid cdiv(n * p * q, TN) * cdiv(c, TC)
    first, at = block(0) % cdiv(n * p * q, TN) * TN, block(0) // cdiv(n * p * q, TN) * TC
    pixel = first + arange(TN)
    image, spot = pixel // (p * q), pixel % (p * q)
    row, col, channel = spot // q * SH - PH, spot % q * SW - PW, at + arange(TC)
    total = zeros(f32[TN, TC])
    for t in range(R * S):
        i, j = row + t // S * DH, col + t % S * DW
        inside = ((image < n) & (0 <= i) & (i < h) & (0 <= j) & (j < w))[:, None] & (channel < c)[None, :]
        seen = load(x[image[:, None], i[:, None], j[:, None], channel[None, :]], mask=inside)
        total = total + seen.to(f32) * (t + 1).to(f32)
    reshape(y, [n * p * q, c])[first : first + TN, at : at + TC] = total

schedule boxes of pool:
    stage x: tma
    pipeline t: 3
    warps = 4
    specialize h, w, p, q, c
"""
TYPES = {"s8": np.int8, "f16": np.float16, "f32": np.float32}
DEVICES = ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)]


def skip_without_boxes(device: str) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")


def size(extent: int, taps: int, stride: int, pad: int, apart: int) -> int:
    return (extent + 2 * pad - (taps - 1) * apart - 1) // stride + 1


def pooled(x: Any, constants: dict[str, int]) -> Any:
    """Σ (t + 1) · what tap t sees."""
    k = constants
    n, h, w, c = x.shape
    p, q = size(h, k["R"], k["SH"], k["PH"], k["DH"]), size(w, k["S"], k["SW"], k["PW"], k["DW"])
    padded = np.zeros((n, h + 2 * k["PH"], w + 2 * k["PW"], c))
    padded[:, k["PH"] : k["PH"] + h, k["PW"] : k["PW"] + w] = x
    out = np.zeros((n, p, q, c))
    for t in range(k["R"] * k["S"]):
        i, j = t // k["S"] * k["DH"], t % k["S"] * k["DW"]
        rows, columns = slice(i, i + (p - 1) * k["SH"] + 1, k["SH"]), slice(j, j + (q - 1) * k["SW"] + 1, k["SW"])
        out += (t + 1) * padded[:, rows, columns]
    return out


def geometry(
    taps: tuple[int, int] = (3, 3),
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int] = (1, 1),
    apart: tuple[int, int] = (1, 1),
) -> dict[str, int]:
    names = ("R", "S", "SH", "SW", "PH", "PW", "DH", "DW")
    return dict(zip(names, (*taps, *strides, *pads, *apart), strict=True))


CASES: dict[str, tuple[str, tuple[int, ...], dict[str, int], int]] = {
    "as large as the image": ("s8", (3, 7, 5, 64), geometry(), 32),
    "two steps": ("f16", (2, 9, 8, 32), geometry(strides=(2, 2)), 32),
    "steps that differ": ("s8", (2, 11, 9, 32), geometry(strides=(3, 1), pads=(0, 2)), 64),
    "taps apart": ("f16", (2, 9, 9, 64), geometry(pads=(2, 3), apart=(2, 3)), 32),
    "one tap": ("s8", (5, 4, 3, 128), geometry((1, 1), pads=(0, 0)), 64),
    "one tap, two steps": ("s8", (5, 7, 7, 32), geometry((1, 1), (2, 2), (0, 0)), 32),
    "a row of results": ("s8", (9, 3, 6, 32), geometry(pads=(0, 1)), 32),
    "a column of results": ("f16", (9, 6, 3, 16), geometry(pads=(1, 0)), 16),
    "one result an image": ("s8", (40, 3, 3, 64), geometry(pads=(0, 0)), 16),
    "images of one pixel": ("s8", (40, 1, 1, 32), geometry(), 32),
    "more padding than image": ("f32", (2, 2, 2, 16), geometry((1, 1), pads=(3, 4)), 64),
    "long taps": ("f16", (1, 6, 12, 32), geometry((2, 7), pads=(1, 3)), 32),
    "the last step": ("s8", (1, 20, 20, 32), geometry((1, 2), (8, 8), (0, 0)), 16),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("case", CASES)
def test_windows_are_what_taps_see(case: str, parts: int, device: str) -> None:
    """Parts of a window begin at pixels further on: in a row, in another one, or in another image."""
    skip_without_boxes(device)
    dtype, shape, constants, pixels = CASES[case]
    x = np.random.default_rng(len(case)).integers(-9, 10, shape).astype(TYPES[dtype])
    wanted = pooled(x, constants)
    y = np.full(wanted.shape, np.nan, np.float32)
    channels = min(shape[-1], 64 // TYPES[dtype]().itemsize)
    module = dsl.parse(f"{TEXT}    subtile total: {pixels // min(parts, pixels // 8)}, TC\n", device=device)
    module.pool(y, x, TN=pixels, TC=channels, **constants)
    np.testing.assert_array_equal(y, wanted)
    kernel = module.compile("pool", **dims(shape, constants), TN=pixels, TC=channels, T=dtype, **constants)
    assert kernel.ptx.count(".im2col.") == (0 if wanted.shape[1:3] == (1, 1) else min(parts, pixels // 8))


def dims(shape: tuple[int, ...], constants: dict[str, int]) -> dict[str, int]:
    k, (n, h, w, c) = constants, shape
    p, q = size(h, k["R"], k["SH"], k["PH"], k["DH"]), size(w, k["S"], k["SW"], k["PW"], k["DW"])
    return {"n": n, "h": h, "w": w, "c": c, "p": p, "q": q}


@pytest.mark.parametrize("seed", range(24))
def test_windows_at_random(seed: int) -> None:
    """Extents of results that divide tiles, or are divided by them, are slices or windows too, or are refused."""
    random = np.random.default_rng(seed)
    h, w = (int(each) for each in random.choice([1, 2, 3, 4, 5, 8, 12, 16], 2))
    taps = [int(each) for each in random.integers(1, 4, 2)]
    pads = [int(each) for each in random.integers(0, 3, 2)]
    strides = [int(each) for each in random.choice([1, 1, 2, 3], 2)]
    pads = [max(pad, -((extent - n) // 2)) for pad, extent, n in zip(pads, (h, w), taps, strict=True)]
    constants = geometry((taps[0], taps[1]), (strides[0], strides[1]), (pads[0], pads[1]))
    x = random.integers(-9, 10, (int(random.integers(1, 6)), h, w, 32)).astype(np.int8)
    wanted = pooled(x, constants)
    y = np.full(wanted.shape, np.nan, np.float32)
    dsl.parse(TEXT, device="emulator").pool(y, x, TN=int(random.choice([16, 32, 64])), TC=32, **constants)
    np.testing.assert_array_equal(y, wanted)


NHWC = """kernel f(y: f32[n, p, q, c], x: s8[n, h, w, c]; TN, C):
    grid cdiv(n * p * q, TN)"""
VIEW = NHWC.replace("x:", "u:") + "\n    x = transpose(reshape(u, [n, h, w, 1, c]), [3, 1, 0, 2, 4])"
OTHERS: dict[str, tuple[str, str, str, tuple[int, ...], tuple[int, ...]]] = {
    "of blocks of channels": (
        NHWC.replace("q, c]", "q, b, 32]").replace("n, h, w, c]", "n, b, h, w, 32]"),
        "image, (at // 32), i, j, (at % 32)",
        "(at // 32), (at % 32)",
        (5, 4, 6, 7, 32),
        (0, 2, 3, 1, 4),
    ),
    "of columns first": (NHWC.replace("h, w, c]", "w, h, c]"), "image, j, i, at", "at", (4, 7, 6, 32), (0, 2, 1, 3)),
    "of rows of images": (NHWC.replace("n, h, w", "h, n, w"), "i, image, j, at", "at", (6, 4, 7, 32), (1, 0, 2, 3)),
    "of a view": (VIEW, "0, i, image, j, at", "at", (4, 6, 7, 32), (0, 1, 2, 3)),
}


def tiles(words: str) -> str:
    """Indices: channels along the tile's columns, the others along its rows."""
    each = [word.strip() for word in words.split(",")]
    return ", ".join(f"{w}[None, :]" if "at" in w else w if w == "0" else f"{w}[:, None]" for w in each)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("parts", ["TN, C", "8, C", "TN, 32"])
@pytest.mark.parametrize("case", OTHERS)
def test_windows_of_tensors_that_lie_otherwise(case: str, parts: str, device: str) -> None:
    skip_without_boxes(device)
    head, place, channels, shape, order = OTHERS[case]
    text = f"""
{head}
    pixel, at = block(0) * TN + arange(TN), arange(C)
    image, spot = pixel // (p * q), pixel % (p * q)
    total = zeros(f32[TN, C])
    for t in range(9):
        i, j = spot // q + t // 3 - 1, spot % q + t % 3 - 1
        inside = (j < w) & (image < n) & (0 <= i) & (i < h) & (0 <= j)
        seen = load(x[{tiles(place)}], mask=inside[:, None])
        total = total + seen.to(f32) * (t + 1).to(f32)
    there = (image < n)[:, None]
    store(y[image[:, None], (spot // q)[:, None], (spot % q)[:, None], {tiles(channels)}], total, mask=there)

schedule boxes of f:
    subtile total: {parts}
    stage {"u" if "u: s8" in head else "x"}: tma
    pipeline t: 3
    warps = 4
    specialize h, w, p, q, {"b" if "b, 32" in head else "c"}
"""
    x = np.random.default_rng(3).integers(-9, 10, shape).astype(np.int8)
    plain = x.transpose(order)
    wanted = pooled(plain.reshape(*plain.shape[:3], -1), geometry()).reshape(plain.shape)
    y = np.full(wanted.shape, np.nan, np.float32)
    dsl.parse(text, device=device).f(y, x, TN=32, C=plain[0, 0, 0].size)
    np.testing.assert_array_equal(y, wanted)


LINE = """
kernel f(y: f32[n, q, c], x: f16[n, w, c]; TN, C):
    grid cdiv(n * q, TN)
    pixel = block(0) * TN + arange(TN)
    total = zeros(f32[TN, C])
    for t in range(5):
        j = pixel % q * 2 + t * 3 - 4
        inside = (pixel // q < n) & (j >= 0) & (j < w)
        total = total + load(x[(pixel // q)[:, None], j[:, None], arange(C)[None, :]], mask=inside[:, None]).to(f32)
    reshape(y, [n * q, c])[block(0) * TN : block(0) * TN + TN, 0 : C] = total

schedule boxes of f:
    stage x: tma
    pipeline t: 2
    warps = 4
    specialize w, q, c
"""


@pytest.mark.parametrize("device", DEVICES)
def test_windows_of_one_axis(device: str) -> None:
    skip_without_boxes(device)
    x = np.random.default_rng(4).integers(-9, 10, (3, 23, 16)).astype(np.float16)
    padded = np.zeros((3, 23 + 16, 16), np.float32)
    padded[:, 4 : 4 + 23] = x
    wanted = sum(padded[:, 3 * t : 3 * t + 2 * 9 : 2] for t in range(5))
    y = np.full((3, 9, 16), np.nan, np.float32)
    module = dsl.parse(LINE, device=device)
    module.f(y, x, TN=16, C=16)
    np.testing.assert_array_equal(y, wanted)
    assert "tensor.3d.shared::cluster.global.im2col" in module.compile("f", n=3, q=9, w=23, c=16, TN=16, C=16).ptx


ROWS = """
kernel f(y: f32[r, m], x: f32[k, r, m]; TR, TM):
    grid cdiv(r, TR) * cdiv(m, TM)
    i, j = block(0) % cdiv(r, TR) * TR, block(0) // cdiv(r, TR) * TM
    total = zeros(f32[TR, TM])
    for p in range(k):
        total = total + x[p, i : i + TR, j : j + TM] * (p + 1).to(f32)
    y[i : i + TR, j : j + TM] = total

schedule boxes of f:
    stage x: tma
    pipeline p: 3
    warps = 4
"""


@pytest.mark.long
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [1, 2, 4, 8, 16])
def test_boxes_of_few_rows(rows: int, device: str) -> None:
    """A swizzle goes by addresses: it repeats after eight rows, and stages that are shorter have none. Such boxes are
    longer, or no multiples of 128 bytes, where they are refused."""
    skip_without_boxes(device)
    module = dsl.parse(ROWS, device=device)
    x = np.random.default_rng(5).integers(-9, 10, (7, 16, 260)).astype(np.float32)
    wanted = (x * np.arange(1, 8)[:, None, None]).sum(0)
    for columns in (8, 16, 32, 64, 256):
        y = np.full((16, 260), np.nan, np.float32)
        if rows * columns * 4 % 128:
            with pytest.raises(TileError, match="cannot be copied by TMA"):
                module.f(y, x, TR=rows, TM=columns)
            continue
        module.f(y, x, TR=rows, TM=columns)
        np.testing.assert_array_equal(y, wanted)


SUMS = """
kernel f(y: f32[h], x: f16[n, h, w]; TH=32, TW=128):
    grid cdiv(h, TH)
    i = block(0) * TH
    total = zeros(f32[TH])
    for p in range(n):
        v = x[p, i : i + TH, 0 : TW].to(f32)
        total = total + sum(v, axis=1)
    y[i : i + TH] = total

schedule boxes of f:
    {line}
    stage x: tma
    pipeline p: 3
    warps = 4
"""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("line", ["loop v, 1: static 32", "subtile total: 16", "align v: 8"])
def test_parts_of_boxes_are_boxes(line: str, device: str) -> None:
    skip_without_boxes(device)
    x = np.random.default_rng(6).integers(-9, 10, (5, 40, 120)).astype(np.float16)
    y = np.full(40, np.nan, np.float32)
    dsl.parse(SUMS.format(line=line), device=device).f(y, x)
    np.testing.assert_array_equal(y, x.astype(np.float32).sum((0, 2)))


@pytest.mark.parametrize(
    ("line", "message"),
    [("loop v, 1: 32", "its parts begin at places known only at run time"), ("align v: 16", "its rows begin anywhere")],
)
def test_parts_that_are_no_boxes_are_told(line: str, message: str) -> None:
    with pytest.raises(TileError, match=f"'x' cannot be copied by TMA: {message}") as told:
        dsl.parse(SUMS.format(line=line), device="emulator").compile("f", n=5, h=40, w=120)
    assert told.value.loc is not None and told.value.hint


MASK = "its mask says more than that elements are inside of it"
REFUSED = {
    "a mask that says more": ("(0 <= j)", "(1 <= j)", MASK),
    "a mask of something else": ("(0 <= j)", "(2 <= t)", MASK),
    "another extent": ("(j < w)", "(j < w - 1)", MASK),
    "masked the other way iteration": ("(j < w))[:, None]", "(j < w))[None, :]", MASK),
    "a missing edge": (" & (0 <= j)", "", "no mask says that its index along axis 2 is not ahead of the first"),
    "no image is behind": ("(image < n) & ", "", "no mask says that its index along axis 0 is not behind the last"),
    "channels of the next pixel": (
        " & (channel < c)[None, :]",
        "",
        "no mask says that its index along axis 3 is not b",
    ),
    "what is outside is one": ("mask=inside", "mask=inside, other=1.0", "something else than zeros"),
    "a pixel's number, and more": ("spot % q * SW", "(spot + 1) % q * SW", "its index along axis 2 does not follow"),
    "rows of other images": ("spot // q * SH", "pixel // q * SH", "not all digits of one number"),
    "twice the same": ("j[:, None],", "i[:, None],", MASK),
    "extents that are not known": (
        "specialize h, w, p, q, c",
        "specialize c",
        "its index along axis 0 does not follow",
    ),
    "extents of images alone": ("specialize h, w, p, q, c", "specialize p, q, c", "axis 2, which .* is no constant"),
    "several counts": ("at + arange(TC)", "at + arange(TC) + arange(TC)", "axis 3 is made of several counts"),
    "every other channel": (
        "at + arange(TC)",
        "at + arange(TC) * 2",
        "no slices, and not the digits of one number",
    ),
    "a view of other axes": (
        "x[image[:, None], i[:, None], j[:, None],",
        "reshape(x, [n, h / 2, w * 2, c])[image[:, None], i[:, None], j[:, None],",
        "a view that has other axes",
    ),
    "pixels of a view by a mask of rows": (
        "x[image[:, None], i[:, None], j[:, None],",
        "reshape(x, [n, h * w, c])[image[:, None], (i * w + j)[:, None],",
        "its mask says more than",
    ),
    "from right to left": ("+ t % S * DW", "- t % S * DW", "a tap whose distance is -2 to 0"),
    "steps too long": ("SW = 1", "SW = 9", "pixels 9 apart"),
    "far outside": ("PW = 1", "PW = 200", "from -200 to"),
    "taps that lie far": ("t // S * DH", "t * t * 4", "a tap whose distance is 0 to 256"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_window_is_told(name: str) -> None:
    old, new, message = REFUSED[name]
    constants = geometry()
    if old[:2] in constants and "=" in old:
        constants[old[:2]] = int(new.split()[-1])
        text = TEXT
    else:
        assert old in TEXT
        text = TEXT.replace(old, new)
    extents = dims((2, 40, 40, 64), constants)
    with pytest.raises(TileError, match=message) as told:
        dsl.parse(text, device="emulator").compile("pool", **extents, TN=32, TC=32, T="f16", **constants)
    assert told.value.loc is not None and told.value.hint


SPOTS = """
kernel f(y: f32[TN, c], x: s8[n, w, c], first: s32; TN=16):
    grid 1
    start = maximum(first, 0)
    pixel = start + arange(TN)
    one = (start + arange(1)) // 6 + zeros(s32[TN])
    total = zeros(f32[TN, c])
    for t in range(3):
        j = pixel % 6 + t - 1
        seen = load(x[one[:, None], j[:, None], arange(c)[None, :]], mask=((one < n) & (0 <= j) & (j < w))[:, None])
        total = total + seen.to(f32) * (t + 1).to(f32)
    y[0 : TN, 0 : c] = total

schedule boxes of f:
    stage x: tma
    pipeline t: 2
    warps = 4
    specialize w, c
"""


def test_what_is_repeated_counts_nothing() -> None:
    """All pixels here are of the image of the first one."""
    with pytest.raises(TileError, match="not all digits of one number"):
        dsl.parse(SPOTS, device="emulator").compile("f", n=9, w=6, c=32)


EDGES = """
kernel f(y: f32[32, 32], x: s8[n, h, 16, 32], s: s32):
    grid 1
    i, j = arange(32) // 16 + s, arange(32) % 16
    total = zeros(f32[32, 32])
    for t in range(n):
        total = total + load(x[t, i[:, None], j[:, None], arange(32)[None, :]], mask=(0 <= i) & (i < h)).to(f32)
    y[0 : 32, 0 : 32] = total

schedule boxes of f:
    stage x: tma
    pipeline t: 2
    warps = 4
"""


def test_a_mask_of_one_axis_is_that_of_columns() -> None:
    """It is repeated along rows, as numpy does it."""
    made = dsl.parse(EDGES.replace("mask=(0 <= i) & (i < h)", "mask=((0 <= i) & (i < h))[:, None]"), device="emulator")
    assert "cp.async.bulk.tensor" in made.compile("f", n=5, h=9).ptx
    with pytest.raises(TileError, match="its mask says more"):
        dsl.parse(EDGES, device="emulator").compile("f", n=5, h=9)


BLOCKS = """
kernel f(y: f32[16, 32], x: s8[n, b, w, B]; B):
    grid 1
    pixel, at = arange(16) + 8, arange(32)
    total = zeros(f32[16, 32])
    for t in range(3):
        j = pixel % w + t - 1
        i = pixel // w
        inside = (i < n) & (0 <= j) & (j < w)
        seen = load(x[i[:, None], (at // B)[None, :], j[:, None], (at % B)[None, :]], mask=inside[:, None])
        total = total + seen.to(f32)
    y[0 : 16, 0 : 32] = total

schedule boxes of f:
    stage x: tma
    pipeline t: 2
    warps = 4
    specialize b, w
"""


def test_rows_of_16_bytes_are_no_box() -> None:
    """Two blocks of them are rows of 32 bytes of the tile, which one box does not bring."""
    with pytest.raises(TileError, match="elements of 1 bytes"):
        dsl.parse(BLOCKS, device="emulator").compile("f", n=9, b=2, w=8, B=16)


def test_pixels_that_are_neighbours_in_memory_are_no_window() -> None:
    """The axis across is none of channels: those lie side by side."""
    text = """
kernel f(y: f32[32, 32], x: f16[n, k, w]):
    grid 1
    total = zeros(f32[32, 32])
    for t in range(3):
        pixel, row = 16 + arange(32), t + arange(32)
        inside = (row < k)[:, None] & (pixel // w < n)[None, :]
        total = total + load(x[(pixel // w)[None, :], row[:, None], (pixel % w)[None, :]], mask=inside).to(f32)
    y[0 : 32, 0 : 32] = total

schedule boxes of f:
    stage x: tma
    pipeline t: 2
    warps = 4
    specialize k, w
"""
    with pytest.raises(TileError, match="the channels of its pixels are no neighbours"):
        dsl.parse(text, device="emulator").compile("f", n=3, k=40, w=32)


def test_a_tensor_of_six_axes_has_no_boxes() -> None:
    text = ROWS.replace("f32[k, r, m]", "f32[1, 1, 1, k, r, m]").replace("x[p,", "x[0, 0, 0, p,")
    with pytest.raises(TileError, match="a box of a tensor of 6 axes"):
        dsl.parse(text, device="emulator").compile("f", k=4, r=16, m=64, TR=16, TM=32)


WALKED = """
kernel f(y: f32[16, 64], x: s8[n, b, w, 32], first: s32):
    grid 1
    pixel, at = maximum(first, 0) + arange(16), arange(64)
    total = zeros(f32[16, 64])
    for t in range(3):
        i, j = pixel // w + MORE, pixel % w + t - 1
        inside = (0 <= i) & (i < n) & (0 <= j) & (j < w)
        seen = load(x[i[:, None], (at // 32)[None, :], j[:, None], (at % 32)[None, :]], mask=inside[:, None])
        total = total + seen.to(f32)
    y[0 : 16, 0 : 64] = total

schedule boxes of f:
    stage x: tma
    pipeline t: 2
    warps = 4
    specialize b, w
"""


@pytest.mark.parametrize("parts", ["16, 64", "8, 32", "4, 64"])
@pytest.mark.parametrize("first", [0, 20, 40, 49, 100])
@pytest.mark.parametrize("more", [0, 5])
def test_images_behind_the_last_one_are_none(first: int, more: int, parts: str) -> None:
    """Where blocks of channels are the axis without ends, images are walked along: none of the next block comes behind
    the last one."""
    x = np.random.default_rng(first).integers(-9, 10, (4, 2, 8, 32)).astype(np.int8)
    y, wanted = np.full((16, 64), np.nan, np.float32), np.zeros((16, 64), np.float32)
    text = WALKED.replace("MORE", str(more)) + f"    subtile total: {parts}\n"
    dsl.parse(text, device="emulator").f(y, x, first)
    for row in range(16):
        i, j = (first + row) // 8 + more, (first + row) % 8
        if i < 4:
            wanted[row] = x[i, :, max(0, j - 1) : j + 2].astype(np.float32).sum(1).reshape(-1)
    np.testing.assert_array_equal(y, wanted)


def test_no_walk_begins_ahead_of_the_first_image() -> None:
    with pytest.raises(TileError, match="its images are not counted from 0 on"):
        dsl.parse(WALKED.replace("MORE", "(-1)"), device="emulator").compile("f", n=4, b=2, w=8)
