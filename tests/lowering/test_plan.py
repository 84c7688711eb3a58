"""The plan of MMAs: kernels without a schedule use wgmma, TMA and persistent blocks where these fit."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_dtypes import bfloat16, float8_e4m3fn

import dsl
from dsl.kernels.compile import Compiled, compile_variant, settled
from dsl.kernels.variant import Request
from dsl.lowering.ir.function import walk
from dsl.lowering.ir.location import TileError
from dsl.runtime import device_facts
from dsl.studies.schedule_text import schedule_text
from tests.whole import some

PRODUCT = """
kernel product(c: O[m, n], a: T[m, k; strided], b: T[k, n; strided];
               T in f16|bf16|s8|e4m3, O in f16|bf16|f32|s32, TM, TN, TK):
    grid cdiv(m, TM), cdiv(n, TN)
    i, j = block(0) * TM, block(1) * TN
    acc = zeros(sum_type(T)[TM, TN])
    for p in range(0, k, TK):
        acc = dot(a[i : i + TM, p : p + TK], b[p : p + TK, j : j + TN], acc)
    c[i : i + TM, j : j + TN] = acc.to(O)
"""
APART = PRODUCT.replace("acc = dot(", "part = dot(").replace(", acc)", ")\n        acc = acc + part")
BYTES = {"T": "s8", "O": "s32"}
BY_HAND = """
schedule by_hand of product:
    warps = 8
    instruction acc: wgmma
    stage a, b, c: tma
    persistent 1
    l2_group 16
    pipeline p: 3
"""
ATTENTION = (Path(__file__).parents[2] / "benchmarks" / "peers" / "plain_attention.tile").read_text()
DEVICES = ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)]
NUMPY = {"f16": np.float16, "bf16": bfloat16, "s8": np.int8, "e4m3": float8_e4m3fn, "f32": np.float32, "s32": np.int32}


@cache
def module(text: str, device: str = "emulator") -> dsl.Module:
    return dsl.parse(text, device=device)


def compiled(text: str, kernel: str = "product", **more: Any) -> Compiled:
    """A variant for 4096 x 4096 x 4096, in tiles of 128 x 256 of f16 unless said."""
    options: dict[str, Any] = {
        "dims": dict.fromkeys(("m", "n", "k"), 4096),
        "types": {"T": "f16", "O": "f16"},
        "constants": {"TM": 128, "TN": 256, "TK": 64},
        "strides": {"a": (16, 1), "b": (1, 16)},
    }
    return compile_variant(module(text).program, Request(kernel, **(options | more)))


def taken(made: Compiled) -> dict[str, str]:
    return {key: choice.taken for key, choice in made.variant.function.choices.keyed().items()}


REASONS = {
    "acc = dot(a[i : i + TM, p : p + TK], (b[p : p + TK, j : j + TN].to(f32) * 2.0).to(T), acc)": "made by '*'",
    "acc = acc + dot(a[i : i + TM, p : p + TK] * a[i : i + TM, p : p + TK], full(T[TK, TN], 1.0))": "'broadcast'",
    "acc = dot(full(T[TM, 8], 1.0), full(T[8, TN], 1.0), acc)": "16 bytes along k are no multiple of 32",
}


@pytest.mark.parametrize(
    ("tm", "tn", "lines", "warps", "parts"),
    [
        (256, 128, "", "16", None),  # four warp groups of 64 rows
        (256, 128, "    warps = 8\n", None, "128, 128"),
        (384, 96, "", "8", "128, 32"),
        (96, 384, "", "8", "128, 32"),  # transposed
        (128, 128, "    warps = 4\n", None, "64, 128"),
    ],
)
def test_warps_with_fewer_rows_than_the_tile_compute_it_in_parts(
    tm: int, tn: int, lines: str, warps: str | None, parts: str | None
) -> None:
    text = PRODUCT + f"schedule own of product:\n    TM = {tm}\n{lines}"
    found = taken(compiled(text, schedule="own", constants={"TN": tn, "TK": 64}))
    assert found["route.acc"] == "wgmma" and found.get("block.warps") == warps and found.get("subtile.acc") == parts


def test_parts_need_registers_for_all_their_accumulators() -> None:
    text = PRODUCT + "schedule own of product:\n    warps = 8\n"
    with pytest.raises(TileError, match=r"256 of 'acc'.*; there are 255") as told:
        compiled(text, schedule="own", constants={"TM": 256, "TN": 256, "TK": 64})
    assert told.value.hint == "more warps, or smaller tiles"


def test_a_shared_tile_of_the_kernels_own_is_told_as_such() -> None:
    plain = "acc = dot(a[i : i + TM, p : p + TK], b[p : p + TK, j : j + TN], acc)"
    own = "s[0] = b[p : p + TK, j : j + TN]\n        acc = dot(a[i : i + TM, p : p + TK], s[0], acc)"
    text = PRODUCT.replace(plain, own).replace("    acc = zeros", "    shared s: T[1, TK, TN]\n    acc = zeros")
    made = compiled(text, constants={"TM": 64, "TN": 64, "TK": 32})
    route = made.variant.function.choices.keyed()["route.acc"]
    assert "a shared tile of the kernel's own" in str(route.because)


@pytest.mark.parametrize("line", REASONS)
def test_a_product_that_is_no_wgmma_says_why(line: str) -> None:
    plain = "acc = dot(a[i : i + TM, p : p + TK], b[p : p + TK, j : j + TN], acc)"
    made = compiled(PRODUCT.replace(plain, line), constants={"TM": 64, "TN": 64, "TK": 32})
    (route,) = [c for key, c in made.variant.function.choices.keyed().items() if key.startswith("route.")]
    assert (route.taken, [*route.options]) == ("mma.sync", ["mma.sync"]) and REASONS[line] in str(route.because)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("layout acc: warps [2, 2]", "a line 'layout acc', and wgmma has a layout of its own"),
        ("prefetch_fragments p: early", "a line 'prefetch_fragments', which loads fragments of mma.sync"),
        ("instruction acc: mma.sync", None),
    ],
)
def test_a_line_that_needs_mma_sync_is_the_reason(line: str, why: str | None) -> None:
    text = PRODUCT + f"schedule own of product:\n    {line}\n"
    made = compiled(text, schedule="own", constants={"TM": 64, "TN": 64, "TK": 32})
    routes = [str(c.because) for c in made.variant.function.choices.keyed().values() if c.kind == "route"]
    assert (not routes) if why is None else why in routes[0]
    printed = schedule_text(module(text).program, made.variant, "all", [])
    assert printed.startswith(f"# acc is mma.sync: {routes[0]}" if routes else "schedule all of product:")


def test_the_printed_schedule_has_the_warps_and_the_reasons_against_wgmma() -> None:
    def text(kernel: str, **more: Any) -> str:
        return schedule_text(module(kernel).program, compiled(kernel, **more).variant, "all", [])

    planned, by_threads = text(PRODUCT), text(PRODUCT, constants={"TM": 48, "TN": 32, "TK": 32})
    assert "    warps = 8  # a warp of a warp group has 16 rows" in planned and "block.warps" not in planned
    assert by_threads.startswith("# acc is mma.sync: 48 rows and 32 columns are none of wgmma")
    assert "    warps = 4  # 4 by default" in by_threads


def test_a_tile_of_few_rows_is_wgmma_unless_another_product_of_the_kernel_is_not() -> None:
    """Of 48 x 128 the columns are the rows of instructions."""
    plain = "acc = dot(a[i : i + TM, p : p + TK], b[p : p + TK, j : j + TN], acc)"
    sizes = {"TM": 48, "TN": 128, "TK": 32}
    (route,) = (
        c for c in compiled(PRODUCT, constants=sizes).variant.function.choices.keyed().values() if c.kind == "route"
    )
    assert route.taken == "wgmma" and "64 columns for each four warps" in str(route.because)
    more = "\n        low = dot(a[i : i + TM, p : p + TK] * a[i : i + TM, p : p + TK], full(T[TK, 16], 1.0), low)"
    text = PRODUCT.replace(plain, plain + more).replace("    for p", "    low = zeros(f32[TM, 16])\n    for p")
    text = text.replace("    c[i", "    c[i : i + TM, 0:16] = low.to(O)\n    c[i", 1)
    routes = compiled(text, constants=sizes).variant.function.choices.keyed()
    assert routes["route.acc"].taken == "mma.sync" and "another product" in str(routes["route.acc"].because)


def test_products_of_a_kernel_share_their_warps() -> None:
    both = "acc = dot(a[i : i + TM, p : p + TK], b[p : p + TK, j : j + TN], acc)"
    more = "\n        low = dot(a[i : i + 64, p : p + TK], b[p : p + TK, j : j + TN], low)"
    text = PRODUCT.replace(both, both + more).replace("    for p", "    low = zeros(f32[64, TN])\n    for p")
    text = text.replace("    c[i", "    c[i : i + 64, j : j + TN] = low.to(O)\n    c[i", 1)
    routes = {
        key: str(c.because)
        for key, c in compiled(text, constants={"TM": 128, "TN": 64, "TK": 32}).variant.function.choices.keyed().items()
        if key.startswith("route.")
    }
    assert [*routes] == ["route.acc", "route.low"] and all("64 and 128 rows" in why for why in routes.values())


def test_a_plain_product_is_the_one_with_all_lines_written() -> None:
    plain, by_hand = compiled(PRODUCT), compiled(PRODUCT + BY_HAND, schedule="by_hand")
    assert plain.body == by_hand.body and "wgmma.mma_async" in plain.body and ".target sm_90a" in plain.body
    assert plain.header.threads == (8 + 4) * 32


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100"])
def test_other_targets_have_no_wgmma(arch: str) -> None:
    made = compiled(PRODUCT, arch=arch, constants={"TM": 128, "TN": 128, "TK": 32})
    assert "mma.sync" in made.body and "route.acc" not in taken(made)


LINES = {
    "instruction acc: mma.sync": {"route.acc": None, "stage.a[0]": "shared"},
    "stage a: registers": {"route.acc": "mma.sync"},
    "stage b: shared": {"route.acc": "wgmma", "stage.a": "shared", "stage.b": "shared"},
    "stage c: registers": {"route.acc": "wgmma", "stage.c": "registers", "pipeline.p": "4"},
    "persistent 0": {"route.acc": "wgmma", "persistent.grid": None, "stage.c": "shared"},
    "warps = 16": {"route.acc": "mma.sync"},
    "subtile acc: 128, 64": {"route.acc": "wgmma", "subtile.acc": "128, 64"},
    "barriers manual": {"route.acc": None},
    "pipeline p: 2": {"route.acc": "wgmma", "pipeline.p": "2"},
    "choose route.acc: mma.sync": {"route.acc": "mma.sync"},
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_takes_another_way(line: str) -> None:
    text = PRODUCT + f"schedule other of product:\n    {line}\n"
    now = taken(compiled(text.replace(": mma.sync", ': "mma.sync"') if "choose" in line else text, schedule="other"))
    assert {key: now.get(key) for key in LINES[line]} == LINES[line]


def test_warps_follow_the_tile() -> None:
    for tile, warps in (((64, 128), 4), ((128, 128), 8), ((256, 64), 16)):
        made = compiled(PRODUCT, constants={"TM": tile[0], "TN": tile[1], "TK": 64})
        assert made.variant.function.warps == warps and "wgmma" in made.body


def test_mma_sync_gets_warps_for_its_registers() -> None:
    """A tile of 128 x 256 was refused with four warps, since a thread had 256 accumulators."""
    made = compiled(PRODUCT, arch="sm_80", constants={"TM": 128, "TN": 256, "TK": 32})
    assert made.variant.function.warps == 8 and "mma.sync" in made.body


@pytest.mark.parametrize("types", [{"T": "s8", "O": "s32"}, {"T": "e4m3", "O": "f32"}])
def test_threads_load_bytes_across_k(types: dict[str, str]) -> None:
    """wgmma reads bytes in shared memory along k alone, and left operands in registers, too. So one operand may lie
    across k. If both do, `mma.sync` multiplies."""
    rows, columns = (16, 1), (1, 16)
    for a, b, way in (
        (rows, columns, ""),
        (rows, rows, "wgmma"),
        (columns, columns, "wgmma"),
        (columns, rows, "mma.sync"),
    ):
        made = compiled(PRODUCT, constants={"TM": 128, "TN": 256, "TK": 128}, strides={"a": a, "b": b}, types=types)
        assert (way or "wgmma") in made.body and ("ldmatrix" in made.body) == bool(way)
        assert made.variant.function.warps == 8


def test_sums_that_are_added_apart_have_two_groups() -> None:
    """Four groups have no registers for both sums: mma.sync took 406 us in place of 103 (e4m3, 4096, H200)."""
    made = compiled(APART, constants={"TM": 256, "TN": 128, "TK": 128}, types={"T": "e4m3", "O": "f32"})
    assert "wgmma" in made.body and made.variant.function.warps == 8


@pytest.mark.parametrize(
    ("lines", "way", "warps"),
    [
        ("instruction acc: mma.sync", "mma.sync", 4),
        ("instruction acc: wgmma", "wgmma", 8),
        ("instruction acc: wgmma\n    subtile acc: 64, 128", "wgmma", 4),
    ],
)
def test_lines_may_name_sums_that_are_added_apart(lines: str, way: str, warps: int) -> None:
    """The plan knew such a product by its own name only. So it planned TMA and 8 warps for the line with mma.sync, and
    threads copied operands in place of TMA for the last one."""
    text = f"{APART}schedule own of product:\n    {lines}\n"
    made = compiled(text, schedule="own", constants={"TM": 128, "TN": 128, "TK": 64})
    assert way in made.body and ("cp.async.bulk.tensor" in made.body) == (way == "wgmma")
    assert made.variant.function.warps == warps
    assert not [key for key in taken(made) if key.startswith("route.")]


def test_a_named_product_of_sums_apart_is_refused_for_its_own_reason() -> None:
    text = f"{APART}schedule own of product:\n    instruction acc: wgmma\n"
    both = {"a": (1, 16), "b": (16, 1)}
    with pytest.raises(TileError, match="both operands lie across k"):
        compiled(text, schedule="own", constants={"TN": 128, "TM": 128, "TK": 64}, strides=both, types=BYTES)


def test_products_of_a_kernel_share_the_fewest_warps() -> None:
    """Sums that are added apart have two groups, and others of 256 rows four: both products have two then."""
    also = "acc = acc + part\n        more = dot(a[i : i + TM, p : p + TK], b[p : p + TK, j : j + TN], more)"
    text = APART.replace("acc = acc + part", also).replace(
        "    for p", "    more = zeros(sum_type(T)[TM, TN])\n    for p"
    )
    made = compiled(text.replace("acc.to(O)", "(acc + more).to(O)"), constants={"TM": 256, "TN": 64, "TK": 64})
    assert "mma.sync" not in made.body and made.variant.function.warps == 8


@pytest.mark.parametrize(
    ("tile", "strides", "why"),
    [
        ((192, 80), {}, "192 rows are neither 64 nor a multiple of 128"),
        (
            (128, 128),
            {"a": (1, 16), "b": (16, 1)},
            "both operands lie across k, and of elements that have not 16 bits, one must",
        ),
        ((48, 128), {"a": (1, 16)}, "its left operand, on the right of the transposed product, lies across k"),
        ((128, 128), {"a": (32, 2)}, "its left operand has no neighbours along k in memory"),
    ],
)
def test_reasons_tell_operands_and_rows(tile: tuple[int, int], strides: dict[str, Any], why: str) -> None:
    constants, lie = {"TM": tile[0], "TN": tile[1], "TK": 64}, {"a": (16, 1), "b": (1, 16)} | strides
    made = compiled(PRODUCT, constants=constants, strides=lie, types=BYTES)
    assert str(made.variant.function.choices.keyed()["route.acc"].because).startswith(why)


@pytest.mark.parametrize("adds", ["fma(part, gain, acc)", "acc + part * gain"])
@pytest.mark.parametrize(("tm", "tn"), [(256, 128), (48, 128)])
def test_sums_with_scales_are_turned_and_cut(adds: str, tm: int, tn: int) -> None:
    """They were turned back for each addition, so a tile of 256 x 128 was not cut into subtiles, and mma.sync spilled
    532 bytes; one of 48 x 128 was refused. 16 warps spilled 308 bytes with bytes along k."""
    text = APART.replace("acc + part", adds).replace("strided];\n", "strided], gain: f32;\n")
    constants, types = {"TM": tm, "TN": tn, "TK": 128}, {"T": "e4m3", "O": "f32"}
    along = compiled(text, constants=constants, types=types)
    made = compiled(text, constants=constants, types=types, strides={"a": (16, 1), "b": (16, 1)})
    assert "wgmma" in made.body and {each.variant.function.warps for each in (made, along)} == {8}
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(float8_e4m3fn) for shape in ((tm + 16, 272), (272, tn + 16)))
    c = np.zeros((tm + 16, tn + 16), np.float32)
    module(text).product(c, a, b, 0.5, **constants)
    wanted = 0.5 * a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(c - wanted).max() <= 2.0**-10 * np.abs(wanted).max()


@pytest.mark.parametrize("start", ["row[None, :]", "column[:, None]"])
@pytest.mark.parametrize("adds", ["part + acc", "acc + part * row[None, :]", "acc - part * column[:, None]"])
def test_turned_sums_begin_at_rows_and_columns(start: str, adds: str) -> None:
    """A row was taken for one of the transposed tile: results of 64 x 64 were wrong, and those of 64 x 128 refused."""
    lines = f"row, column = v[j : j + TN], w[i : i + TM]\n    acc = zeros(sum_type(T)[TM, TN]) + {start}"
    text = APART.replace("acc = zeros(sum_type(T)[TM, TN])", lines).replace("acc + part", adds)
    text = text.replace("strided];\n", "strided], v: s32[n], w: s32[m];\n")
    random = np.random.default_rng(0)
    a, b, row, column = (random.integers(-9, 9, shape) for shape in ((64, 64), (64, 64), (64,), (64, 1)))
    c, given = np.zeros((64, 64), np.int32), [each.astype(np.int8) for each in (a, b)]
    module(text).product(c, *given, row.astype(np.int32), column[:, 0].astype(np.int32), TM=64, TN=64, TK=64)
    scales = {"part + acc": 1, "acc + part * row[None, :]": row, "acc - part * column[:, None]": -column}
    assert np.array_equal(c, (row if start.startswith("row") else column) + a @ b * scales[adds])


def test_wide_tiles_have_two_groups() -> None:
    """16 warps leave a thread no registers for 192 columns: mma.sync spilled, in 14.9 ms in place of 0.2 (H200)."""
    made = compiled(PRODUCT, constants={"TM": 256, "TN": 192, "TK": 64})
    assert "wgmma" in made.body and made.variant.function.warps == 8


REFUSED = """
kernel k(c: f32[m, n], a: f16[m, d], b: f16[n, d], rows: s32[r]; TM, TN, D):
    grid cdiv(m, TM), 1
    i = block(0) * TM
    acc = zeros(f32[TM, TN])
    for p in range(0, r):
        at = load(rows[p], cache=volatile)
        acc = dot(a[i : i + TM, 0 : D], b[at : at + TN, 0 : D].T, acc)
    c[i : i + TM, 0 : TN] = acc
"""


def test_what_a_pass_refuses_is_planned_again() -> None:
    """The place of b may change until the loop reads it, so no copy can run ahead: mma.sync, with the reason."""
    constants = {"TM": 64, "TN": 64, "D": 64}
    made = compiled(REFUSED, "k", constants=constants, types={}, strides={}, dims={"m": 64, "n": 512, "d": 64, "r": 4})
    (route,) = [c for c in made.variant.function.choices.made if c.kind == "route"]
    assert route.taken == "mma.sync" and route.because.startswith("not 'wgmma': ") and not route.is_pinned
    again = settled(module(REFUSED).program, made.variant.request)
    assert again.retreats.keys() == {"route"}


IN_A_BRANCH = PRODUCT.replace(
    "    for p in range(0, k, TK):\n        acc", "    if i <= j:\n        for p in range(0, k, TK):\n            acc"
)
STORED_TWICE = PRODUCT + "    c[i : i + TM, j : j + TN] = (acc * 2.0).to(O)\n"


def test_products_in_branches_have_copies_by_threads() -> None:
    """Producer warps copy for loops that count alone."""
    now = taken(compiled(IN_A_BRANCH))
    assert (now["route.acc"], now["stage.a"], now["stage.b"]) == ("wgmma", "shared", "shared")
    assert "persistent.grid" not in now


def test_a_result_that_is_stored_twice_leaves_by_threads() -> None:
    """Two TMA stores to one place are not ordered, so the hazard that a pass finds takes the choice back."""
    c, a, b = (np.full(shape, 3, np.float16) for shape in ((64, 128), (64, 64), (128, 64)))
    module(STORED_TWICE).product(c, a, b.T, TM=64, TN=128, TK=64)
    assert (c == 2 * 9 * 64).all()
    made = compiled(STORED_TWICE)
    stage = next(each for each in made.variant.function.choices.made if each.stem == "stage.c")
    assert stage.taken == "shared" and stage.because.startswith("not 'tma': ")


def test_an_error_of_the_user_stays_one() -> None:
    """A tile that fits no machine: the message is about the kernel, and not about what was planned."""
    with pytest.raises(TileError) as caught:
        compiled(PRODUCT, constants={"TM": 512, "TN": 512, "TK": 64})
    assert caught.value.code in ("registers", "shared")


def rounded(x: Any, dtype: str) -> Any:
    return x.astype(NUMPY[dtype])


SHAPES = {
    "ragged": (200, 264, 136),
    "even": (256, 512, 256),
    "few iterations": (130, 264, 40),
    "long": (128, 256, 1032),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("types", ["f16 f16", "bf16 f32", "s8 s32", "e4m3 bf16"])
@pytest.mark.parametrize("shape", some(SHAPES, 2))
@pytest.mark.parametrize("tile", [(128, 256), (64, 96), (256, 64)])
def test_plain_products(device: str, types: str, shape: str, tile: tuple[int, int]) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90's")
    (m, n, k), (t, o) = SHAPES[shape], types.split()
    k = k + 8 if np.dtype(NUMPY[t]).itemsize == 1 else k  # rows of 16 bytes
    rng = np.random.default_rng(m)
    a, b = (rounded(rng.integers(-3, 4, extents), t) for extents in ((m, k), (n, k)))
    c = np.full((m, n), 77, NUMPY[o])
    constants = {"TM": tile[0], "TN": tile[1], "TK": 64}
    module(PRODUCT, device).product(c, a, b.T, **constants)
    wanted = a.astype(np.float64) @ b.T.astype(np.float64)
    assert np.array_equal(c.astype(np.float64), rounded(wanted, o).astype(np.float64))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("atoms", ["shared", "apart"])
@pytest.mark.parametrize("other", ["along k", "across k"])
@pytest.mark.parametrize("tile", [(64, 144), (128, 80), (64, 96), (112, 64)])
def test_parts_of_short_rows_share_atoms(device: str, atoms: str, other: str, tile: tuple[int, int]) -> None:
    """Subtiles of 16 or 32 columns of an operand that lies across k: TMA copies them in rows of 128 bytes, past the
    columns of the tile. With the choice `apart`, each has rows of its own."""
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90's")
    (m, n, k), rng = (200, 328, 136), np.random.default_rng(7)
    a, b = (rng.integers(-3, 4, extents).astype(np.float16) for extents in ((m, k), (k, n)))
    wanted, c = a.astype(np.float64) @ b.astype(np.float64), np.full((m, n), 77, np.float16)
    cut = "a" if tile[1] == 64 else "b"  # the columns of the instruction: the tile of 112 rows is computed transposed
    a = np.asarray(a, order="F" if cut == "a" or other == "across k" else "C")
    b = np.asarray(b, order="C" if cut == "b" or other == "across k" else "F")
    program = dsl.Module(module(PRODUCT).program, device, choose={f"atoms.{cut}": atoms})
    program.product(c, a, b, TM=tile[0], TN=tile[1], TK=64)
    assert np.array_equal(c.astype(np.float64), wanted)


def test_parts_of_short_rows_are_one_wgmma() -> None:
    """Nine subtiles of 16 columns are three atoms of 64 columns, and one instruction of 144."""
    given = {"TM": 128, "TN": 144, "TK": 64}
    made = compiled(PRODUCT, constants=given, strides={"a": (512, 1), "b": (512, 1)})
    assert taken(made)["atoms.b"] == "shared"
    assert set(re.findall(r"m64n\d+k16", made.ptx)) == {"m64n144k16"}
    assert '"box":[64,64],"swizzle":128' in made.ptx


@pytest.mark.parametrize(("depth", "atoms"), [(4, "shared"), (5, "apart"), (6, "apart")])
def test_a_named_depth_keeps_short_rows_apart_if_the_wider_atoms_do_not_fit(depth: int, atoms: str) -> None:
    """64 x 80 x 128 of f16: 36 KB a stage, and 48 KB with rows of 128 bytes."""
    lines = ("instruction acc: wgmma", "stage a, b: tma", f"pipeline p: {depth}")
    text = f"{PRODUCT}\nschedule deep of product:\n" + "".join(f"    {line}\n" for line in lines)
    given = {"TM": 64, "TN": 80, "TK": 128}
    request = {"dims": dict.fromkeys("mnk", 512), "types": {"T": "f16", "O": "f16"}, "constants": given}
    made = compile_variant(
        module(text).program, Request("product", "deep", **request, strides={"a": (512, 1), "b": (512, 1)})
    )
    assert taken(made)["atoms.b"] == atoms


@pytest.mark.parametrize("device", DEVICES)
def test_no_iteration_gives_zeros(device: str) -> None:
    """No tensor map describes an array without elements, so the plan leaves such calls to mma.sync."""
    a, b, c = np.zeros((64, 0), np.float16), np.zeros((128, 0), np.float16), np.full((64, 128), 77, np.float16)
    module(PRODUCT, device).product(c, a, b.T, TM=64, TN=128, TK=64)
    assert not c.any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("d", [64, 128])
def test_plain_attention(device: str, causal: bool, d: int) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90's")
    heads, s = 2, 200
    rng = np.random.default_rng(d)
    q, k, v = (rng.standard_normal((heads, s, d)).astype(np.float16) for _ in range(3))
    o = np.full((heads, s, d), np.nan, np.float16)
    module(ATTENTION, device).attend(o, q, k, v, d**-0.5, D=d, TM=128, TN=128, CAUSAL=causal)
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) * d**-0.5
    scores = np.where(np.tri(s, dtype=bool) | (not causal), scores, -np.inf)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    wanted = weights / weights.sum(2, keepdims=True) @ v.astype(np.float64)
    assert np.abs(o - wanted).max() < 2e-3


def test_plain_attention_is_planned_as_the_sample() -> None:
    options = {"dims": {"heads": 32, "s": 4096, "t": 4096, "d": 128}, "types": {"T": "f16"}, "strides": {}}
    now = taken(compiled(ATTENTION, "attend", constants={"D": 128, "TM": 128, "TN": 128}, **options))
    wanted = {"pipeline.tile": "2", "pipeline.j": "2", "delay.acc": "on", "stage.q": "tma", "stage.o": "tma"}
    assert {key: now.get(key) for key in wanted} == wanted
    assert any(re.fullmatch(r"peel\.\w+", key) and option == "on" for key, option in now.items())


def test_equal_computations_with_two_sums_keep_them_in_registers_of_their_own() -> None:
    """ptxas merges them if one product overwrites the registers of another, and drops that one: c was 0 on an H200."""
    for update, count in (("acc + part * 2.0", 0), ("acc + part", 1)):
        text = PRODUCT.replace("acc = dot(", "part = dot(").replace(", acc)", f")\n        acc = {update}")
        made = compiled(text, types={"T": "f16", "O": "f32"})
        products = [op for op in walk(made.variant.function.body) if op.spec.wgmma]
        assert len(products) == 2 and sum(bool(op.attrs.get("from_zero")) for op in products) == count
