"""Boxes that overlap as one with its halo, and what is copied once for all tiles of a block (`unroll t: all`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import dsl
from dsl.kernels.variant import Request
from dsl.lowering.building.builder import Builder
from dsl.lowering.directives.halo import halo_of
from dsl.lowering.hopper.boxes import BoxAxis, CopiedBox
from dsl.lowering.ir.function import Block
from dsl.lowering.ir.location import Loc, Source, TileError
from dsl.runtime import Kernel, device_facts
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import few_blocks

TEXT = """
kernel conv(y: O[n, p, q, k], x: T[n, h, w, c], f: T[k, r, s, c];
            T in s8|f16, O in s32|f32, HIGH, TK, DH, DW, PH, PW):
    grid n * cdiv(p, HIGH) * cdiv(q, 8)
    high, wide = cdiv(p, HIGH), cdiv(q, 8)
    image, spot, place = block(0) // (high * wide), block(0) % (high * wide), arange(8 * HIGH)
    y_row, y_col, at, out = spot // wide * HIGH + place // 8, spot % wide * 8 + place % 8, arange(TK), arange(64)
    acc = zeros(O[8 * HIGH, 64])
    for c0 in range(0, c, TK):
        for t in range(r * s):
            i, j = y_row - PH + t // s * DH, y_col - PW + t % s * DW
            inside = (0 <= i) & (i < h) & (0 <= j) & (j < w)
            a = load(x[image, i[:, None], j[:, None], (c0 + at)[None, :]],
                     mask=inside[:, None] & (c0 + at < c)[None, :])
            b = load(f[out[:, None], t // s, t % s, (c0 + at)[None, :]],
                     mask=(out < k)[:, None] & (c0 + at < c)[None, :])
            acc = dot(a, b.T, acc)
    there = (y_row < p)[:, None] & (y_col < q)[:, None] & (out < k)[None, :]
    store(y[image, y_row[:, None], y_col[:, None], out[None, :]], acc, mask=there)

schedule taps of conv:
    warps = HIGH / 2
    instruction acc: wgmma
    unroll t: all
    stage x, f: tma
    stage y: registers
    pipeline c0: 2
    persistent 1
    specialize h, w, p, q, c, k, r, s
"""
STORED = TEXT.replace("    stage y: registers\n", "    stage y: tma\n")
DEVICES = ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)]
TYPES: dict[str, tuple[Any, str]] = {"s8": (np.int8, "s32"), "f16": (np.float16, "f32")}


def skip_without_products(device: str) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")


def convolved(x: Any, f: Any, pads: tuple[int, int], apart: tuple[int, int]) -> Any:
    (n, h, w, c), (k, r, s, _) = x.shape, f.shape
    padded = np.zeros((n, h + 2 * pads[0], w + 2 * pads[1], c))
    padded[:, pads[0] : pads[0] + h, pads[1] : pads[1] + w] = x
    p, q = h + 2 * pads[0] - (r - 1) * apart[0], w + 2 * pads[1] - (s - 1) * apart[1]
    out = np.zeros((n, p, q, k))
    for i in range(r):
        for j in range(s):
            seen = padded[:, i * apart[0] : i * apart[0] + p, j * apart[1] : j * apart[1] + q]
            out += seen @ f[:, i, j].T.astype(np.float64)
    return out


# type, (n, h, w, c), (k, r, s), padding, distance of taps, rows of a tile, channels an iteration
CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, int], tuple[int, int], int, int]] = {
    "3 x 3": ("s8", (2, 16, 16, 64), (64, 3, 3), (1, 1), (1, 1), 8, 64),
    "tiles beyond the image": ("s8", (3, 9, 13, 64), (48, 3, 3), (1, 1), (1, 1), 8, 64),
    "many tiles a block": ("s8", (70, 9, 8, 32), (64, 3, 3), (1, 1), (1, 1), 8, 32),
    "two groups of warps": ("s8", (2, 17, 9, 64), (64, 3, 3), (1, 1), (1, 1), 16, 64),
    "rows of 128 bytes": ("f16", (2, 12, 10, 64), (64, 3, 3), (1, 1), (1, 1), 8, 64),
    "a row of taps": ("s8", (2, 8, 20, 128), (64, 1, 5), (0, 2), (1, 1), 8, 128),
    "a column of taps": ("f16", (2, 20, 8, 32), (64, 5, 1), (2, 0), (1, 1), 8, 32),
    "taps apart": ("s8", (2, 12, 14, 64), (64, 3, 2), (2, 3), (2, 3), 8, 64),
    "no padding": ("s8", (2, 12, 14, 64), (64, 2, 2), (0, 0), (1, 1), 8, 64),
    "two iterations of channels": ("s8", (2, 9, 9, 128), (64, 3, 3), (1, 1), (1, 1), 8, 64),
}


def problem(name: str) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    """(arrays, the result as it should be, constants and dims)."""
    dtype, (n, h, w, c), (k, r, s), pads, apart, high, step = CASES[name]
    kind, sums = TYPES[dtype]
    random = np.random.default_rng(len(name))
    x, f = random.integers(-9, 10, (n, h, w, c)).astype(kind), random.integers(-9, 10, (k, r, s, c)).astype(kind)
    wanted = convolved(x, f, pads, apart)
    y = np.full(wanted.shape, 77, np.int32 if sums == "s32" else np.float32)
    constants = {"HIGH": high, "TK": step, "DH": apart[0], "DW": apart[1], "PH": pads[0], "PW": pads[1]}
    dims = dict(zip("nhwcpqkrs", (n, h, w, c, *wanted.shape[1:3], k, r, s), strict=True))
    return {"y": y, "x": x, "f": f}, wanted, {**constants, **dims, "T": dtype, "O": sums}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_taps_see_one_box(name: str, stored: bool, device: str) -> None:
    """Two blocks go through all tiles, with the filters that they have once."""
    skip_without_products(device)
    arrays, wanted, given = problem(name)
    made = dsl.parse(STORED if stored else TEXT, device=device, arch="sm_90a").compile("conv", "taps", **given)
    Kernel(few_blocks(made.ptx, 2), device=device)(*arrays.values())
    np.testing.assert_array_equal(arrays["y"], wanted)
    copies = made.ptx.count("cp.async.bulk.tensor.4d.shared::cluster")
    assert copies == 1 + given["r"] * given["s"]
    assert made.ptx.count("wgmma.wait_group") == 1
    assert ("bulk_group [" in made.ptx) == stored


@pytest.mark.long
@pytest.mark.parametrize("again", ["once", "always"])
@pytest.mark.parametrize("name", ["many tiles a block", "two iterations of channels"])
def test_all_stages_mean_the_same(name: str, again: str) -> None:
    arrays, _, given = problem(name)
    arrays = {key: each[:3] if key != "f" else each for key, each in arrays.items()}
    dims = {key: value for key, value in given.items() if key in "nhwcpqkrs"} | {"n": len(arrays["x"])}
    rest = {key: value for key, value in given.items() if key not in "nhwcpqkrsTO"}
    choose = f"    choose reload.f: {again}\n" if name == "many tiles a block" else ""
    program = parse_program(STORED + choose, "conv.tile")
    request = Request("conv", "taps", dims, {"T": given["T"], "O": given["O"]}, rest, arch="sm_90a")
    found = verify_kernel(program, request, arrays)
    assert found.divergence is None and found.undecided is None, str(found.divergence)


BLUR = """
kernel blur(y: f32[h, w, c], x: f32[h, w, c]; R = 8, W = 16, TC = 32):
    grid cdiv(h, R) * cdiv(w, W)
    wide, place = cdiv(w, W), arange(R * W)
    row, col = block(0) // wide * R + place // W, block(0) % wide * W + place % W
    for c0 in range(0, c, TC):
        at, total = c0 + arange(TC), zeros(f32[R * W, TC])
        for t in range(9):
            i, j = row + t // 3 - 1, col + t % 3 - 1
            inside = (0 <= i) & (i < h) & (0 <= j) & (j < w)
            total = total + load(x[i[:, None], j[:, None], at[None, :]], mask=inside[:, None] & (at < c)[None, :])
        there = (row < h)[:, None] & (col < w)[:, None] & (at < c)[None, :]
        store(y[row[:, None], col[:, None], at[None, :]], total, mask=there)

schedule boxes of blur:
    warps = 4
    unroll t: all
    stage x: tma
    pipeline c0: 2
    persistent 2
"""


@pytest.mark.parametrize("device", DEVICES)
def test_neighbours_are_added_from_one_box(device: str) -> None:
    """No products: threads read the windows, of tiles that reach beyond both edges, without conflicts."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")
    x = np.random.default_rng(1).integers(-9, 10, (21, 50, 64)).astype(np.float32)
    padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
    wanted = sum(padded[i : i + 21, j : j + 50] for i in range(3) for j in range(3))
    y = np.full_like(x, np.nan)
    made = dsl.parse(BLUR, device=device, arch="sm_90").compile("blur", h=21, w=50, c=64)
    result = Kernel(few_blocks(made.ptx, 2), device=device).run(y, x, counters=device == "emulator")
    np.testing.assert_array_equal(y, wanted)
    assert made.ptx.count("cp.async.bulk.tensor") == 1
    assert device == "cuda" or result.counters.totals.bank_conflicts == 0


def test_windows_can_be_copied_apart() -> None:
    arrays, wanted, given = problem("many tiles a block")
    made = dsl.parse(f"{TEXT}    choose halo.x: apart\n", device="emulator", arch="sm_90a").compile("conv", **given)
    Kernel(few_blocks(made.ptx, 3), device="emulator")(*arrays.values())
    np.testing.assert_array_equal(arrays["y"], wanted)
    assert made.ptx.count("cp.async.bulk.tensor.4d.shared::cluster") == 18


def test_threads_copy_no_halo(tmp_path: Path) -> None:
    """Warps of their own do, which `pipeline` makes: with a halo that pass is no choice."""
    _, _, given = problem("many tiles a block")
    file = tmp_path / "conv.tile"
    file.write_text(TEXT)
    module = dsl.load(file, "emulator", arch="sm_90a", choose={"pass.pipeline": "off"})
    module.compile("conv", **given)
    with pytest.raises(TileError, match=r"no choice has the key 'pass\.pipeline'"):
        module.asked.check()


@pytest.mark.long
@pytest.mark.parametrize(("again", "at_once"), [("once", 9), ("always", 0)])
def test_what_all_rounds_copy_is_copied_once(again: str, at_once: int) -> None:
    """Behind the first wait for a free stage, and ahead of the loops, stand those that are done once."""
    arrays, wanted, given = problem("many tiles a block")
    made = dsl.parse(f"{TEXT}    choose reload.f: {again}\n", device="emulator", arch="sm_90a").compile("conv", **given)
    Kernel(few_blocks(made.ptx, 3), device="emulator")(*arrays.values())
    np.testing.assert_array_equal(arrays["y"], wanted)
    assert made.ptx.count("mbarrier.arrive.expect_tx") == 1 + (at_once > 0)
    sizes = sorted(int(line.split()[-1].rstrip(";")) for line in made.ptx.splitlines() if is_size(line))
    box, filters = 10 * 10 * 32, 9 * 64 * 32
    assert sizes == ([box, filters] if at_once else [box + filters])


def is_size(line: str) -> bool:
    """Whether it sets how many bytes come: the only such numbers of these kernels."""
    return line.strip().startswith("mov.b32") and line.split()[-1].rstrip(";").isdigit() and len(line.split()[-1]) > 4


FIRST = Builder(Loc(Source("", ""), 0, 0))


def box(*starts: int, extents: tuple[int, ...] = (64, 8, 8), along: tuple[int, ...] = (1, 0, 0)) -> CopiedBox:
    """Of channels, columns and rows, at these places."""
    with FIRST.region(Block()):
        firsts = [FIRST.index(start) for start in starts]
    steps = {0: 1}
    axes = []
    for axis, (first, extent, where) in enumerate(zip(firsts, extents, along, strict=True)):
        axes.append(BoxAxis(len(extents) - axis, first, extent, where, steps.get(where, 1)))
        steps[where] = steps.get(where, 1) * extent
    return CopiedBox(tuple(axes))


def test_a_halo_is_what_all_see() -> None:
    halo = halo_of([box(0, 3 + j, 5 + i) for i in range(3) for j in range(3)])
    assert halo is not None
    assert [(axis.extent, axis.step) for axis in halo.box.axes] == [(64, 1), (10, 1), (10, 10)]
    assert [halo.window(number) for number in range(9)] == [(10 * i + j, 10) for i in range(3) for j in range(3)]


def test_rows_of_one_axis_lie_one_behind_the_other() -> None:
    rows = [box(0, start, extents=(64, 32), along=(1, 0)) for start in (4, 0, 2)]
    halo = halo_of(rows)
    assert halo is not None and [halo.window(number) for number in range(3)] == [(4, 8), (0, 8), (2, 8)]
    wide = halo_of([box(0, 0, 0, extents=(64, 16, 4)), box(0, 1, 0, extents=(64, 16, 4))])
    assert wide is not None and wide.window(0) is None, "from eight rows to the next eight are 8, then 9"


APART = {
    "one box": [box(0, 0, 0)],
    "boxes side by side": [box(0, 0, 0), box(0, 8, 0)],
    "boxes that are further apart": [box(0, 0, 0), box(0, 30, 0)],
    "other channels": [box(0, 0, 0), box(32, 1, 0)],
    "of other extents": [box(0, 0, 0), box(0, 1, 0, extents=(64, 16, 4))],
    "of other axes": [box(0, 0, 0), box(0, 0, extents=(64, 64), along=(1, 0))],
    "more than a box has": [box(0, 4 * i, 0, extents=(64, 250, 8)) for i in range(3)],
}


@pytest.mark.parametrize("name", APART)
def test_what_is_no_halo_stays_as_it_is(name: str) -> None:
    assert halo_of(APART[name]) is None


def test_places_that_are_no_constants_apart_are_no_halo() -> None:
    a, b = box(0, 0, 0), box(0, 1, 0)
    with FIRST.region(Block()):
        unknown = FIRST.value("block_id", axis=0)
        further = FIRST.value("add", unknown, FIRST.index(2))
    moved = [replace(each, axes=(*each.axes[:2], replace(each.axes[2], first=unknown))) for each in (a, b)]
    assert halo_of([a, moved[1]]) is None
    again = replace(b, axes=(*b.axes[:2], replace(b.axes[2], first=further)))
    halo = halo_of([moved[0], again])
    assert halo is not None and halo.starts == ((0, 0), (1, 2))


# ---- `unroll t: all` ----

LOOP = """
kernel k(y: s32[n, 32]; MANY = 3):
    grid n
    total = zeros(s32[32])
    for t in range({iterations}):
        total = total + arange(32).to(s32) * t
    y[block(0), 0 : 32] = total

schedule s of k:
    warps = 1
    {lines}
"""


@pytest.mark.parametrize("iterations", ["MANY", "2, 11, MANY", "5, 0, -2", "0"])
def test_all_rounds_are_written_out(iterations: str) -> None:
    y = np.full((2, 32), 7, np.int32)
    module = dsl.parse(LOOP.format(iterations=iterations, lines="unroll t: all"), device="emulator")
    module.k(y)
    turns = eval(f"range({iterations.replace('MANY', '3')})")
    assert np.array_equal(y, np.tile(np.arange(32) * sum(turns), (2, 1)))
    assert "for" not in {line.split()[0] for line in module.compile("k", n=2).ir.splitlines() if line.strip()}


LOOPS_REFUSED = {
    "as many iterations as the array has rows": ("n", "unroll t: all", "a number of iterations that is no constant"),
    "another loop": ("MANY", "unroll u: all", "no loop over 'u'"),
    "a word of another spelling": ("MANY", "unroll t: al", "unknown name 'al'"),
    "a loop that is gone": ("MANY", "unroll t: all\n    peel t", "no loop over 't'"),
    "too many": ("1000000", "unroll t: all", "unrolled iterations"),
}


@pytest.mark.parametrize("name", LOOPS_REFUSED)
def test_a_loop_that_cannot_be_written_out_is_told(name: str) -> None:
    iterations, lines, message = LOOPS_REFUSED[name]
    module = dsl.parse(LOOP.format(iterations=iterations, lines=lines), device="emulator")
    with pytest.raises(TileError, match=message) as caught:
        module.k(np.zeros((2, 32), np.int32))
    assert caught.value.loc is not None or caught.value.errors[0].loc is not None
