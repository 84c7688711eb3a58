"""Stores by TMA (`stage c: tma`): a tile of results leaves shared memory by boxes, while its block goes on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from warpgroup_products import arrays, check, check_refused, text

import dsl
from dsl.kernels.variant import Request
from dsl.lowering.ir.location import TileError
from dsl.runtime import FindingError, Kernel, assemble, device_facts
from dsl.studies.verify import verify_kernel
from dsl.text.program import parse_program
from tests.compile_and_run import few_blocks

TMA, TILES, TWO = "stage a, b: tma", "persistent 1", "pipeline p: 2"
NAMED, SINGLE = "    instruction acc: wgmma\n", "by single warps"
SAMPLES = Path(__file__).parents[2] / "samples"
OUT = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "s32": np.int32, "s8": np.int8}
CASES: dict[str, tuple[str, str, tuple[int, ...], tuple[int, int, int], list[str]]] = {
    "f32, two atoms": ("f16", "f32", (64, 64, 64, 4), (192, 128, 128), [TMA, TILES, TWO]),
    "f16, odd edges": ("f16", "f16", (128, 128, 64, 8), (200, 136, 192), [TMA, TILES, TWO]),
    "a block a tile": ("f16", "f32", (64, 64, 64, 4), (70, 40, 128), [TMA, TWO]),
    "no roles": ("f16", "f16", (64, 64, 64, 4), (136, 264, 128), [TILES, "pipeline p: 3"]),
    "single warps": ("f16", "f16", (64, 64, 32, 4), (136, 72, 128), [TILES, "pipeline p: 3", SINGLE]),
    "single warps, roles": ("f16", "f32", (64, 64, 32, 4), (136, 72, 128), [TMA, TILES, TWO, SINGLE]),
    "bytes": ("s8", "s32", (64, 64, 128, 4), (70, 72, 160), [TMA, TILES, TWO]),
    "bytes to bytes": ("s8", "s8", (64, 64, 128, 4), (72, 80, 160), [TMA, TILES, TWO]),
    "e4m3 to bf16": ("e4m3", "bf16", (64, 64, 128, 4), (72, 80, 160), [TMA, TILES, TWO]),
    "two stages": ("s8", "s32", (64, 128, 128, 4), (136, 136, 160), [TMA, TILES, TWO, "subtile acc: 64, 32"]),
    "three parts": ("s8", "s32", (64, 96, 128, 4), (136, 200, 160), [TMA, TILES, TWO, "subtile acc: 64, 32"]),
    "one thread": ("f16", "f16", (64, 64, 64, 4), (136, 72, 128), [TMA, TILES, TWO, 'choose issue.c: "block"']),
    "clusters": ("f16", "f16", (64, 64, 64, 4), (192, 72, 192), [TMA, TWO, "cluster 2"]),
    "clusters, tiles": ("f16", "f16", (64, 64, 64, 4), (320, 72, 192), [TMA, TILES, TWO, "cluster 2"]),
    "shared among blocks": ("f16", "f32", (64, 64, 64, 4), (64, 64, 512), [TMA, TWO, "split p: 2"]),
    "equal shares": ("f16", "f32", (64, 64, 64, 4), (136, 136, 512), [TMA, TWO, "split p: stream"]),
}


def source(tiles: tuple[int, ...], lines: list[str]) -> str:
    """A schedule with c by TMA."""
    made = text(*tiles, "stage c: tma", *(line for line in lines if line != SINGLE)).replace(
        "f32|s32|f16", "f32|s32|f16|s8|bf16"
    )
    return made.replace(NAMED, "") if SINGLE in lines else made


def compiled(case: str, device: str) -> tuple[Any, Any, Any, Any, Any]:
    """The kernel of a case, c, a, b, and c as it should be."""
    dtype, out, tiles, (m, n, k), lines = CASES[case]
    _, a, b, wanted = arrays(dtype, m, n, k)
    made = dsl.parse(source(tiles, lines), device=device).compile("product", m=m, n=n, k=k, T=dtype, O=out)
    c = np.full((m, n), 77, OUT[out])
    return made, c, a, b, wanted.astype(np.int64).astype(OUT[out]) if c.dtype.kind == "i" else wanted


def near(found: Any, wanted: Any) -> None:
    if found.dtype.kind == "i":
        assert np.array_equal(found, wanted)
    else:
        most = {2: 2.0**-8, 4: 2.0**-10}[found.dtype.itemsize] * max(1.0, np.abs(wanted).max())
        assert np.abs(found.astype(np.float64) - wanted).max() <= most


@pytest.mark.long
@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("case", CASES)
def test_products_are_numpys(case: str, device: str) -> None:
    """Blocks of the emulator have several tiles each."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")
    made, c, a, b, wanted = compiled(case, device)
    Kernel(few_blocks(made.ptx), device=device)(c, a, b)
    near(c, wanted)
    assert "global.shared::cta.tile.bulk_group" in made.ptx


def faulty(case: str) -> tuple[list[str], Any, Any, Any]:
    made, c, a, b, _ = compiled(case, "emulator")
    return few_blocks(made.ptx, 2).splitlines(), c, a, b


def lines_with(lines: list[str], word: str) -> list[int]:
    return [i for i, line in enumerate(lines) if word in line]


def without(word: str, which: int) -> Callable[[list[str]], None]:
    def change(lines: list[str]) -> None:
        del lines[lines_with(lines, word)[which]]

    return change


def without_barrier(which: int) -> Callable[[list[str]], None]:
    """The barrier ahead of what is written in a stage, or of what reads it."""

    def change(lines: list[str]) -> None:
        first = lines_with(lines, "wait_group.read")[0]
        del lines[[i for i in lines_with(lines, "bar.warp.sync") if i > first][which]]

    return change


FAULTS: dict[str, tuple[Callable[[list[str]], None], str]] = {
    "a stage is written before it is read": (without("wait_group.read", 0), "is written before the copy is complete"),
    "others write before it is known to be read": (without_barrier(0), "that another thread has read"),
    "what is written is not fenced": (without("fence.proxy.async", 0), "written without a fence.proxy.async after it"),
    "others have not written": (without_barrier(1), "that another thread has written"),
    "no group is ended": (without("bulk.commit_group", 0), "is written before the copy is complete"),
    "a block ends early": (without("wait_group.read", -1), "the block may end before this copy has read"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_goes_wrong_is_found(name: str) -> None:
    """Each part of what a store becomes is needed: the emulator tells of what goes wrong without it."""
    change, message = FAULTS[name]
    lines, c, a, b = faulty("f32, two atoms")
    change(lines)
    with pytest.raises(FindingError, match=message):
        Kernel("\n".join(lines) + "\n", device="emulator")(c, a, b)


def test_a_warp_waits_for_no_other_one() -> None:
    """It stores the rows that it has made; one thread that stores for all meets them before and behind."""
    by_warps, by_one = (compiled(case, "emulator")[0].ptx for case in ("f16, odd edges", "one thread"))
    assert by_warps.count("bar.sync 1, 256;") == 0 and by_one.count("bar.sync 1, 128;") == 2
    assert by_warps.count("bulk_group [") == 2 and by_warps.count("stmatrix") > 0


def test_a_slot_is_waited_for_alone() -> None:
    """Of three parts in two stages, the third one waits for the first, and the next tile's for what was last there."""
    lines = compiled("three parts", "emulator")[0].ptx.splitlines()
    assert [lines[i].split()[-1] for i in lines_with(lines, "wait_group.read")] == ["0;", "2;", "1;", "0;"]


@pytest.mark.parametrize(("dtype", "out", "parts"), [("f16", "f16", ""), ("s8", "s32", "subtile acc: 128, 32")])
def test_nothing_spills(dtype: str, out: str, parts: str) -> None:
    size = {"f16": 64, "s8": 128}[dtype]
    lines = [TMA, TILES, "pipeline p: 3", *([parts] if parts else [])]
    module = dsl.parse(source((128, 256, size, 8), lines), device="emulator")
    made = assemble(module.compile("product", m=4096, n=4096, k=4096, T=dtype, O=out).ptx, "sm_90a")
    assert made.spill_stores == 0 and "C75" not in made.log, made.log


def test_all_stages_mean_the_same() -> None:
    dtype, out, tiles, (m, n, k), lines = CASES["three parts"]
    c, a, b, _ = arrays(dtype, m, n, k)
    types = {"T": dtype, "O": out}
    program = parse_program(source(tiles, lines), "stores.tile")
    found = verify_kernel(
        program, Request("product", "groups", {"m": m, "n": n, "k": k}, types), {"c": c, "a": a, "b": b}
    )
    assert found.divergence is None and found.undecided is None, str(found.divergence)


@pytest.mark.parametrize(("n", "leaves"), [(264, True), (268, False)])
def test_an_epilogue_of_the_sample(n: int, leaves: bool) -> None:
    """Bias, activation and residual; where rows of c begin anywhere, threads store them."""
    random = np.random.default_rng(0)
    m, k, kind = 136, 128, np.float16
    x, w, bias = (random.standard_normal(shape).astype(kind) for shape in ((m, k), (n, k), (n,)))
    residual, y = random.standard_normal((m, n)).astype(kind), np.zeros((m, n), kind)
    names = ("c", "a", "b", "scale", "bias", "residual", "gain", "row_scale")
    given = dict(zip(names, (y, x, w.T, None, bias, residual, 0.5, None), strict=True))
    text = (SAMPLES / "matmul.tile").read_text() + "\nschedule stored of product:\n    like wgmma\n    stage c: tma\n"
    module = dsl.parse(text, device="emulator")
    named = "stored" if leaves else "wgmma"
    module.product(*given.values(), schedule=named, ACT="relu")
    wanted = np.maximum(x.astype(np.float64) @ w.astype(np.float64).T + bias, 0) + 0.5 * residual
    near(y, wanted)
    (step,) = module.product.plan(module.product.facts(given), schedule=named, ACT="relu").steps
    assert ("global.shared::cta.tile.bulk_group" in module.variant(step.request).ptx) == leaves


PLAIN = source((64, 64, 64, 4), [TMA])
STORE = "    c[i : i + TM, j : j + TN] = acc.to(O)\n"


def changed(*changes: tuple[str, str]) -> str:
    made = PLAIN
    for old, new in changes:
        assert old in made
        made = made.replace(old, new)
    return made


REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "a target before": (source((64, 64, 64, 4), [SINGLE]), {"arch": "sm_80"}, "sm_80 has no TMA"),
    "rows that begin anywhere": (PLAIN, {"n": 1022}, "8 bytes of its rows are known to be aligned neighbours"),
    "a mask": (changed((STORE, STORE.replace("c[", "store(c[").replace("] = acc", "], acc").replace(
        "acc.to(O)", "acc.to(O), mask=arange(TN)[None, :] < 40)"))), {}, "its mask says more than that"),
    "a tensor that is read, too": (changed((STORE, "    acc = acc + c[i, j].to(f32)\n" + STORE)), {},
                                   "the kernel accesses it elsewhere, too in line"),
    "a tile of narrow rows": (source((64, 8, 64, 4), [TMA]), {"O": "f16"}, "a box of .* elements of 2 bytes"),
    "a tile that memory has not": (source((128, 256, 64, 8), [TMA, "pipeline p: 4"]), {},
                                   "the kernel needs .* bytes of shared memory"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_stored_so_is_told(name: str) -> None:
    check_refused(*REFUSED[name])


def test_a_call_whose_rows_begin_anywhere_takes_another_branch() -> None:
    """`fits` asks for the box of what is stored, too."""
    module = dsl.parse(
        PLAIN + "schedule plain of product:\n    TM, TN, TK, warps = 64, 64, 64, 4\n\n"
        "dispatch multiply(c, a, b):\n    if fits(product with groups): product with groups\n"
        "    else: product with plain\n",
        device="emulator",
    )
    for n, schedule in ((72, "groups"), (70, "plain")):
        c, a, b, wanted = arrays("f16", 64, n, 128)
        module.multiply(c, a, b)
        check(c, wanted)
        (step,) = module.multiply.plan(module.multiply.facts({"c": c, "a": a, "b": b})).steps
        assert step.request.schedule == schedule


SPREAD = """
kernel spread(y: T[n, p, q, c], x: T[n, p, q, c]; T in s8|f16, TN, TC):
    grid cdiv(n * p * q, TN) * cdiv(c, TC)
    first, at = block(0) // cdiv(c, TC) * TN, block(0) % cdiv(c, TC) * TC
    pixel, channel = first + arange(TN), at + arange(TC)
    image, spot = pixel // (p * q), pixel % (p * q)
    made = reshape(x, [n * p * q, c])[first : first + TN, at : at + TC]
    there = (image < n)[:, None] & (channel < c)[None, :]
    store(y[image[:, None], (spot // q)[:, None], (spot % q)[:, None], channel[None, :]], made + made, mask=there)

schedule boxes of spread:
    warps = 4
    persistent 1
    stage y: tma
    specialize p, q, c
"""
WHOLE = "y[image[:, None], (spot // q)[:, None], (spot % q)[:, None], channel[None, :]]"
ROWS = "reshape(y, [n, p * q, c])[image[:, None], spot[:, None], channel[None, :]]"
BEHIND = "transpose(reshape(y, [n, p * q, c, 1]), [0, 2, 1, 3])[image[:, None], channel[None, :], spot[:, None], 0]"
JOINED: dict[str, tuple[str, tuple[int, ...], int]] = {
    "images, rows, columns": (WHOLE, (3, 5, 7, 64), 32),
    "rows and columns are one already": (ROWS, (3, 5, 7, 64), 32),
    "channels ahead of pixels in a view": (BEHIND, (5, 3, 3, 80), 16),
    "tiles in an image": (WHOLE, (2, 8, 16, 64), 32),
    "a row an image": (WHOLE, (9, 1, 7, 64), 32),
    "a column an image": (WHOLE, (9, 7, 1, 64), 32),
    "a pixel an image": (WHOLE, (50, 1, 1, 64), 32),
    "one image": (ROWS, (1, 9, 9, 64), 64),
    "images in a tile": (WHOLE, (5, 4, 4, 64), 32),
}


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("case", JOINED)
def test_digits_of_a_number_are_one_axis(case: str, device: str) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")
    access, shape, pixels = JOINED[case]
    x = np.random.default_rng(len(case)).integers(-60, 60, shape).astype(np.int8)
    y, (n, p, q, c) = np.full(shape, 77, np.int8), shape
    module = dsl.parse(SPREAD.replace(WHOLE, access), device=device)
    made = module.compile("spread", T="s8", TN=pixels, TC=64, n=n, p=p, q=q, c=c)
    Kernel(few_blocks(made.ptx, 2), device=device)(y, x)
    np.testing.assert_array_equal(y, 2 * x)
    assert ".bulk_group [" in made.ptx


def test_all_stages_store_to_joined_axes() -> None:
    shape = dict(zip("npqc", (3, 5, 7, 64), strict=True))
    x, y = np.ones((3, 5, 7, 64), np.int8), np.zeros((3, 5, 7, 64), np.int8)
    program = parse_program(f"{SPREAD}    TN, TC = 32, 64\n", "spread.tile")
    found = verify_kernel(program, Request("spread", "boxes", shape, {"T": "s8"}), {"y": y, "x": x})
    assert found.divergence is None and found.undecided is None, str(found.divergence)


NOT_JOINED: dict[str, tuple[tuple[str, str], str]] = {
    "axes that lie apart": (("y: T[n, p, q, c]", "y: T[n, p, q, c; strided]"), "no slices, and not the digits of one"),
    "rows beyond": (("spot // q", "spot // q + 1"), "no mask says that its index along axis 1 is not behind"),
    "rows of others": (("y: T[n, p, q, c]", "y: T[n, 6, q, c]"), "no slices, and not the digits of one number"),
    "no mask of images": (("(image < n)[:, None] & ", ""), "no mask says that its index along axis 0 is not behind"),
    "a mask of fewer images": (("image < n", "image < n - 1"), "its mask says more than"),
    "extents that are not known": (
        ("specialize p, q, c", "specialize c"),
        "its index along axis 0 does not follow from",
    ),
}


@pytest.mark.parametrize("name", NOT_JOINED)
def test_what_is_no_run_of_pixels_is_told(name: str) -> None:
    change, message = NOT_JOINED[name]
    assert change[0] in SPREAD
    module = dsl.parse(SPREAD.replace(*change), device="emulator")
    strides = {"y": (10000, 1024, 64, 1)} if "strided" in change[1] else {}
    with pytest.raises(TileError, match=message) as caught:
        module.compile("spread", T="s8", TN=32, TC=64, n=3, p=5, q=7, c=64, strides=strides)
    assert caught.value.loc is not None


def test_results_of_a_convolution() -> None:
    """Pixels of several images, rows of 64 and 128 channels, what is added, and edges of both."""
    text = (SAMPLES / "int8_conv.tile").read_text()
    random = np.random.default_rng(1)
    x, f = random.integers(-9, 10, (3, 9, 9, 128), np.int8), random.integers(-9, 10, (160, 1, 1, 128), np.int8)
    bias, z = random.integers(-50, 50, 160).astype(np.float32), random.integers(-99, 99, (3, 5, 5, 160), np.int8)
    y = np.full(z.shape, 77, np.int8)
    module = dsl.parse(text, device="emulator")
    module.conv_nhwc(y, x, f, bias, z, 0.125, 1.0, 0.5, 6.0, 2, 2, 0, 0, 1, 1, schedule="tma")
    sums = x[:, ::2, ::2].astype(np.float64) @ f[:, 0, 0].T.astype(np.float64)
    np.testing.assert_array_equal(y, np.clip(np.rint(sums * 0.125 + bias + 0.5 * z), -128, 127))


def test_the_loop_over_tiles_stays_one_round() -> None:
    """A second tile of an iteration would be stored where the first one may still be read: no option says so."""
    module = dsl.parse(text(64, 64, 64, 4, TMA, TILES, TWO, "stage c: tma"), device="emulator")
    kernel = module.compile("product", m=256, n=256, k=128, T="f16", O="f16")
    made = kernel.compiled.variant.function.choices.keyed()
    assert made["unroll.tile"].options == ("1",)


VIEWS = """
kernel rows(o: T[m, n; strided], x: T[m, n; strided]; T in f16|f32|u8, TM = 64, TN = 64):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    o[i : i + TM, j : j + TN] = x[i : i + TM, j : j + TN] + 1

kernel line(o: T[n], x: T[n]; T in f16|f32|u8, TN = 512):
    grid cdiv(n, TN)
    j = block(0) * TN
    o[j : j + TN] = x[j : j + TN] + 1

schedule boxes of rows, line:
    warps = 4
    stage o: tma
"""
VIEWED: dict[str, tuple[str, tuple[int, ...], bool]] = {
    "rows": ("f2", (70, 61), False),
    "rows of 4 bytes": ("f4", (10, 130), False),
    "rows of bytes": ("u1", (66, 136), False),
    "whole rows": ("f2", (70, 72), True),
    "one row": ("f2", (1, 60), False),
    "columns": ("f2", (70, 64), False),
    "whole columns": ("f2", (72, 60), True),
    "a line": ("f2", (1001,), False),
    "a whole line": ("u1", (1008,), True),
}


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("case", VIEWED)
def test_what_lies_behind_rows_of_a_view_stays(case: str, device: str) -> None:
    """Boxes are stored in whole 16 bytes: rows that do not end at such go through shared memory by threads."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")
    dtype, shape, is_whole = VIEWED[case]
    long = -(-shape["columns" not in case and len(shape) - 1] // 64) * 64 + 64
    behind = np.full((*shape[::-1][:-1], long) if "columns" in case else (*shape[:-1], long), 77, dtype)
    o = behind[:, : shape[0]].T if "columns" in case else behind[..., : shape[-1]]
    x = np.random.default_rng(1).integers(0, 9, shape).astype(dtype)
    module, kernel = dsl.parse(VIEWS, device=device, arch="sm_90a"), "line" if len(shape) == 1 else "rows"
    strides = {"o": tuple(each // o.itemsize for each in o.strides)} if len(shape) > 1 else {}
    named = {"m": shape[0], "n": shape[-1]} if len(shape) > 1 else {"n": shape[0]}
    made = module.compile(kernel, "boxes", T={"f2": "f16", "f4": "f32", "u1": "u8"}[dtype], strides=strides, **named)
    made(o, x)
    np.testing.assert_array_equal(o, x + 1)
    assert (behind == 77).sum() == behind.size - o.size
    assert (".bulk_group [" in made.ptx) == is_whole


def test_a_store_that_is_none_in_bulk_is_told_at_the_line_that_asks() -> None:
    """By rule, and not by the schedule, which said otherwise: so `dsl why` and `dsl schedule` list it."""
    module = dsl.parse(VIEWS, device="emulator", arch="sm_90a")
    made = module.compile("rows", "boxes", T="f16", m=70, n=61, strides={"o": (128, 1)})
    choice = made.compiled.variant.function.choices.keyed()["stage.o"]
    assert (choice.taken, choice.by, choice.is_property) == ("shared", "rule", False)
    assert choice.because.startswith("not 'tma': ") and choice.because.endswith("'n' is no known multiple of 8")
    (line,) = [number for number, text in enumerate(VIEWS.splitlines(), 1) if "stage o: tma" in text]
    assert choice.loc is not None and choice.loc.line == line


ROUNDS = """
kernel iterations(o: f32[m, n], x: f32[m, n]):
    grid cdiv(m, 16)
    i = block(0) * 16
{body}
schedule boxes of iterations:
    warps = 4
    stage {staged}: tma
"""
BOX = "o[i : i + 16, {0} : {0} + 64] = x[i : i + 16, {0} : {0} + 64] * 2.0"
APART = {
    "iterations": ["for j in range(0, n, 64):", "    " + BOX.format("j")],
    "down": ["for j in range(192, -1, -64):", "    " + BOX.format("j")],
    "two an iteration": ["for j in range(0, n, 128):", *("    " + BOX.format(each) for each in ("j", "j + 64"))],
}
MEET = {
    "halves again": ["for j in range(0, n, 32):", "    " + BOX.format("j")],
    "one place": ["for j in range(0, n, 64):", "    " + BOX.format("0")],
    "every second iteration": ["for j in range(0, n, 64):", "    " + BOX.format("j % 128")],
    "behind one another": ["for j in range(0, n, 64):", "    " + BOX.format("j")] * 2,
    "all of it twice": ["for t in range(2):", "    for j in range(0, n, 64):", "        " + BOX.format("j")],
}


@pytest.mark.parametrize(("case", "staged"), [*((case, "o") for case in APART), ("iterations", "x, o")])
def test_boxes_of_rounds_that_have_nothing_in_common_need_no_order(case: str, staged: str) -> None:
    """Whatever the extents of the array are: boxes begin at multiples of theirs."""
    x = np.random.default_rng(1).integers(0, 9, (33, 200)).astype(np.float32)
    o = np.full_like(x, 77)
    body = "\n".join(f"    {line}" for line in APART[case])
    text = ROUNDS.format(body=body, staged=staged) + "    pipeline j: 2\n" * (staged == "x, o")
    dsl.parse(text, device="emulator", arch="sm_90a").iterations(o, x, schedule="boxes")
    np.testing.assert_array_equal(o, 2 * x)


ALONE = ROUNDS.replace("grid cdiv(m, 16)\n    i = block(0) * 16", "grid 1")
OF_ROWS = (
    "    for j in range(0, n, 64):\n            o[{0} : {0} + 16, j : j + 64] = x[{0} : {0} + 16, j : j + 64] * 2.0"
)
OF_COLUMNS = OF_ROWS.replace("for j in range(0, n, 64)", "for {0} in range(0, m, 16)")
ROWS_APART = {
    "rows, columns": ["for r in range(0, m, 16):", OF_ROWS.format("r")],
    "rows downwards": ["for r in range(32, -1, -16):", OF_ROWS.format("r")],
    "columns, rows": ["for j in range(0, n, 64):", OF_COLUMNS.format("r")],
    "two loops": ["for r in range(0, m, 32):", OF_ROWS.format("r"), OF_ROWS.format("r + 16")],
}
ROWS_MEET = {
    "halves of rows": ["for r in range(0, m, 8):", OF_ROWS.format("r")],
    "each second time": ["for r in range(4):", OF_ROWS.format("r % 2 * 16")],
    "what comes later": ["for r in range(0, m, 16):", OF_ROWS.format("r"), OF_ROWS.format("r + 32")],
    "one row again": ["for r in range(0, m, 16):", OF_ROWS.format("r"), OF_ROWS.format("32")],
    "rows and all of them": [
        "for r in range(0, m, 16):",
        OF_ROWS.format("r"),
        OF_COLUMNS.format("q").replace("j", "0"),
    ],
}


@pytest.mark.parametrize("case", ROWS_APART)
def test_boxes_of_nested_rounds_are_told_apart_along_one_axis(case: str) -> None:
    """Behind a loop over columns it is the row that is known of what is stored."""
    x = np.random.default_rng(1).integers(0, 9, (33, 200)).astype(np.float32)
    o = np.full_like(x, 77)
    text = ALONE.format(body="\n".join(f"    {line}" for line in ROWS_APART[case]), staged="o")
    dsl.parse(text, device="emulator", arch="sm_90a").iterations(o, x, schedule="boxes")
    np.testing.assert_array_equal(o, 2 * x)


@pytest.mark.parametrize("case", ROWS_MEET)
def test_boxes_of_nested_rounds_that_may_meet_are_told(case: str) -> None:
    text = ALONE.format(body="\n".join(f"    {line}" for line in ROWS_MEET[case]), staged="o")
    with pytest.raises(TileError, match=r"this stores to 'o' while the store of line .* may be in flight"):
        dsl.parse(text).compile("iterations", "boxes", m=33, n=200)


PART = "store(o[{0}], x[i : i + 16, 0 : 64] + 1.0, order=none{1})"
FIRST = {
    "columns": ["for j in range(0, n, 64):", "    " + PART.format("i : i + 16, j - 64 : j", "")],
    "rows": [PART.format("i - 16 : i, 0 : 64", "")],
    "by a mask": [
        "r, c = i + arange(16), i + arange(64) - 32",
        "inside = (c >= 0)[None, :] & (c < n)[None, :] & (r < m)[:, None]",
        PART.format("r[:, None], c[None, :]", ", mask=inside"),
    ],
}


@pytest.mark.parametrize("case", FIRST)
def test_boxes_that_may_begin_ahead_of_the_first_element_are_told(case: str) -> None:
    """Of boxes that go out they are an illegal instruction on a device."""
    module = dsl.parse(ROUNDS.format(body="\n".join(f"    {line}" for line in FIRST[case]), staged="o"))
    with pytest.raises(TileError, match="no box is stored that begins ahead of the first element") as caught:
        module.compile("iterations", "boxes", m=33, n=200)
    assert caught.value.hint == "stage o: shared"


@pytest.mark.parametrize("case", MEET)
def test_boxes_that_may_meet_are_told(case: str) -> None:
    module = dsl.parse(ROUNDS.format(body="\n".join(f"    {line}" for line in MEET[case]), staged="o"))
    with pytest.raises(TileError, match=r"this stores to 'o' while the store of line .* may be in flight") as caught:
        module.compile("iterations", "boxes", m=33, n=200)
    assert "order=none" in (caught.value.hint or "")


def test_parts_of_a_row_leave_one_after_another() -> None:
    """`loop static`, by the blocks of a persistent kernel: tiles of the row of one block, whatever row that is."""
    text = """
kernel rows(y: f32[m, n], x: f32[m, n]):
    grid m
    i = block(0)
    v = load(x[i : i + 1, 0 : 512])
    y[i : i + 1, 0 : 512] = v + max(v, axis=1, keepdims=true)
schedule boxes of rows:
    loop v, 1: static 128
    stage y: tma
    persistent 1
"""
    x = np.random.default_rng(1).integers(0, 9, (3, 512)).astype(np.float32)
    y = np.zeros_like(x)
    dsl.parse(text, device="emulator", arch="sm_90a").rows(y, x, schedule="boxes")
    np.testing.assert_array_equal(y, x + x.max(1, keepdims=True))


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_nothing_is_written_behind_heads_in_longer_rows(device: str) -> None:
    """Heads of 60 in rows of 128, by the sample's schedule for boxes."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("TMA is sm_90's")
    random, s, d = np.random.default_rng(1), 70, 60
    o = np.full((1, 1, s, 128), 77, np.float16)
    q, k, v = (random.standard_normal(o.shape).astype(np.float16)[..., :d] for _ in range(3))
    module = dsl.load(SAMPLES / "attention.tile", device=device, arch="sm_90a")
    module.attend(o[..., :d], q, k, v, 0.125, None, 0, None, schedule="attend_groups", CAUSAL=True)
    scores = np.where(np.tri(s, dtype=bool), (q[0, 0].astype(np.float64) @ k[0, 0].astype(np.float64).T) / 8, -np.inf)
    e = np.exp(scores - scores.max(1, keepdims=True))
    wanted = (e / e.sum(1, keepdims=True)) @ v[0, 0].astype(np.float64)
    assert np.abs(o[0, 0, :, :d] - wanted).max() < 4e-3 and (o[..., d:] == 77).all()


@pytest.mark.parametrize(("d", "leaves"), [(60, False), (64, True)])
def test_heads_leave_by_boxes_where_they_are_whole(d: int, leaves: bool) -> None:
    dims = {"batch": 1, "heads": 1, "kv_heads": 1, "s": 70, "t": 70, "d": d}
    strides = dict.fromkeys("oqkv", (8960, 8960, 128, 1))
    module = dsl.load(SAMPLES / "attention.tile", device="emulator", arch="sm_90a")
    made = module.compile("attend", "attend_groups", **dims, strides=strides, absent={"lse", "tiles"})
    assert (".bulk_group [" in made.ptx) == leaves
