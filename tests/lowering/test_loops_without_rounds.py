"""Loops without a round (`range(128, 64, 128)`), around products of warp groups above all: what ptxas finds to be dead,
its releases 12.9 to 13.1 make wrong machine code of."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import dsl
from dsl.runtime import assemble, device_facts
from dsl.runtime.tools import sass

PRODUCT = """
kernel k(c: s32[m, n], a: s8[m, k], b: s8[n, k], q: s32):
    grid cdiv(m, 64), cdiv(n, 128)
    i, j = block(0) * 64, block(1) * 128
    acc = zeros(s32[64, 128])
{lines}
        acc = dot(a[i : i + 64, p : p + 128], b[j : j + 128, p : p + 128].T, acc)
    v = acc
    c[i : i + 64, j : j + 128] = v

schedule s of k:
    warps = 4
    instruction acc: wgmma
    pipeline p: 2
    specialize k
{schedule}
"""
TMA = ("stage a, b: tma", "stage c: tma")
KNOWN: dict[str, tuple[str, tuple[str, ...]]] = {
    "constants": (
        "for p in range(128, 64, 128):",
        (*TMA, "choose tile_columns.grid: 2", "choose tile_order.grid: descending"),
    ),
    "a specialised dim": ("for p in range(64, k, 128):", (*TMA, "persistent 1")),
    "of a range": ("for p in range(0, minimum(k, 0), 128):", ("stage a, b: tma", "stage c: shared")),
    "copies of threads": ("for p in range(128, 64, 128):", ("stage c: tma", "subtile acc: 64, 32")),
    "blocks share it": ("for p in range(128, 64, 128):", ("stage a, b: tma", "split p: 2")),
    "in a loop": ("for u in range(q.to(index)):\n      for p in range(64, k, 128):", TMA),
    "around a loop": ("for u in range(0, minimum(k, 0)):\n      for p in range(0, k, 128):", TMA),
}
UNKNOWN: dict[str, tuple[str, tuple[str, ...]]] = {
    "equal ends": ("z = q.to(index)\n    for p in range(z, z, 128):", ("stage a, b: shared",)),
    "bits": ("for p in range(0, ((q & 7) >> 3).to(index), 128):", ("stage a, b: tma", "split p: 2")),
    "what cancels": ("for p in range(0, (block(0) * 2 // 2 - block(0)) * 128, 128):", ("stage a, b: tma",)),
    "a difference": ("for p in range(0, (q ^ q).to(index), 128):", ("stage a, b: shared", "stage c: tma")),
}
"""What is not known here, and to ptxas."""


def source(lines: str, schedule: tuple[str, ...]) -> str:
    return PRODUCT.format(lines=f"    {lines}", schedule="".join(f"    {line}\n" for line in schedule))


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("case", [*KNOWN, *UNKNOWN])
def test_sums_stay_what_they_begin_as(case: str, device: str) -> None:
    if device == "cuda" and not device_facts("cuda").arch.startswith("sm_90"):
        pytest.skip("wgmma is sm_90a's")
    random = np.random.default_rng(1)
    a, b = (random.integers(-9, 10, (rows, 64)).astype(np.int8) for rows in (128, 256))
    c = np.full((128, 256), 77, np.int32)
    module = dsl.parse(source(*(KNOWN | UNKNOWN)[case]), device=device, arch="sm_90a")
    module.k(c, a, b, 3, schedule="s")
    np.testing.assert_array_equal(c, 0)


def compiled(lines: str, schedule: tuple[str, ...]) -> Any:
    return dsl.parse(source(lines, schedule), device="emulator", arch="sm_90a").compile("k", "s", m=128, n=256, k=64)


@pytest.mark.parametrize("case", KNOWN)
def test_a_loop_that_is_known_to_have_no_round_is_not_written(case: str) -> None:
    assert "wgmma" not in compiled(*KNOWN[case]).ptx


@pytest.mark.parametrize("case", UNKNOWN)
def test_the_assembler_does_not_find_products_dead(case: str) -> None:
    """Else it keeps one of the sums that begin alike, and vectors are stored from registers that nobody has written."""
    assert "IGMMA" in sass(assemble(compiled(*UNKNOWN[case]).ptx, "sm_90a").cubin)


def test_the_assembler_does_not_find_shares_of_nothing_dead() -> None:
    """Blocks that share range(k, k) have bounds that it finds to be equal: 768 of 7,680 sums were wrong on an H200."""
    text = source("for p in range(k, k, 128):", ("stage a, b: tma", "split p: 5")).replace("    specialize k\n", "")
    made = dsl.parse(text, device="emulator", arch="sm_90a").compile("k", "s", m=128, n=256, k=128)
    assert "IGMMA" in sass(assemble(made.ptx, "sm_90a").cubin)


def test_a_loop_that_may_have_rounds_is_written_as_it_is() -> None:
    """What hangs on a dim the assembler cannot decide."""
    text = source("for p in range(0, k, 128):", TMA).replace("    specialize k\n", "")
    made = dsl.parse(text, device="emulator", arch="sm_90a").compile("k", "s", m=128, n=256, k=64)
    assert "wgmma" in made.ptx and not re.search(r"shr\.u32\s.*, 31;", made.ptx)
