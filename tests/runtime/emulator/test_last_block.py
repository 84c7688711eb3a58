"""The last block to finish reads what all blocks have written and resets their counter.

It is right exactly if every block's atomic operation on the counter releases, and the last one acquires.  `y[0]` is the
counter and `y[64 + block]` what a block has written; `x[0]` gets the sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handwritten import run

from dsl.runtime.emulator import EmulatorError, Kind

FENCE = "fence.acq_rel.gpu;"
STORES = """
  mul.wide.u32 %rd10, %r7, 4;
  add.u64 %rd10, %rd10, %rd1;
  st.global.u32 [%rd10+256], %r7;"""
COUNTS = """
  mov.u32 %r10, 0;
  mov.u32 %r14, %nctaid.x;
  sub.u32 %r14, %r14, 1;
  setp.ne.u32 %p3, %r0, 0;
  @%p3 bra TOLD;
  {stores}
  {before}
  {count}
  {after}
  setp.eq.u32 %p4, %r10, {chosen};
  selp.u32 %r10, 1, 0, %p4;
  st.shared.u32 [%r2], %r10;
TOLD:
  bar.sync 0;
  ld.shared.u32 %r10, [%r2];
  setp.eq.u32 %p4, %r10, 0;
  @%p4 ret;"""
SUMS = """
  mov.u32 %r11, 0;
  mov.u32 %r12, %r0;
  add.u64 %rd11, %rd4, 256;
NEXT:
  setp.gt.u32 %p5, %r12, %r14;
  @%p5 bra SUMMED;
  ld.global.u32 %r13, [%rd11];  //! sum
  add.u32 %r11, %r11, %r13;
  add.u64 %rd11, %rd11, 256;
  add.u32 %r12, %r12, 64;
  bra NEXT;
SUMMED:
  red.relaxed.gpu.global.add.u32 [%rd0], %r11;"""
RESETS = """
  setp.eq.u32 %p3, %r0, 0;
  @%p3 st.global.u32 [%rd1], 0;  //! reset
"""


def counting(order: str) -> str:
    return f"atom{order}.gpu.global.add.u32 %r10, [%rd1], 1;"


def body(count: str, before: str = "", after: str = "", chosen: str = "%r14", stores: str = STORES, sums: str = SUMS):
    start = COUNTS.format(count=count, before=before, after=after, chosen=chosen, stores=stores)
    return start + sums + RESETS


def exchanging(order: str) -> str:
    """Counts by compare and swap, over which the lanes of a wave quarrel."""
    return f"""
  ld.relaxed.gpu.global.u32 %r10, [%rd1];
AGAIN:
  mov.u32 %r20, %r10;
  add.u32 %r21, %r20, 1;
  atom{order}.gpu.global.cas.b32 %r10, [%rd1], %r20, %r21;
  setp.ne.u32 %p6, %r10, %r20;
  @%p6 bra AGAIN;"""


ODD_ONE = """
  setp.eq.u32 %p6, %r7, 3;
  @%p6 atom{odd}.gpu.global.add.u32 %r10, [%rd1], 1;
  @!%p6 atom.acq_rel.gpu.global.add.u32 %r10, [%rd1], 1;"""

RIGHT = {
    "acq_rel": body(counting(".acq_rel")),
    "fences around a relaxed atomic": body(counting(".relaxed"), FENCE, FENCE),
    "fences around an atomic without an order": body(counting(""), "membar.gl;", "membar.gl;"),
    "release, then a fence": body(counting(".release"), "", FENCE),
    "a fence, then acquire": body(counting(".acquire"), FENCE),
    "compare and swap": body(exchanging(".acq_rel")),
    "only the counter": body(counting(".acq_rel"), stores="", sums=""),
    "only the counter, with fences": body(counting(".relaxed"), FENCE, FENCE, stores="", sums=""),
}
WRONG = {
    "relaxed": (body(counting(".relaxed")), "sum"),
    "no acquire": (body(counting(".release")), "sum"),
    "no release": (body(counting(".acquire")), "sum"),
    "no fence before": (body(counting(".relaxed"), "", FENCE), "sum"),
    "no fence after": (body(counting(".relaxed"), FENCE), "sum"),
    "one block relaxed": (body(ODD_ONE.format(odd=".relaxed")), "sum"),
    "one block only acquires": (body(ODD_ONE.format(odd=".acquire")), "sum"),
    "the first block instead": (body(counting(".acq_rel"), chosen="0"), "sum"),
    "compare and swap, relaxed": (body(exchanging(".relaxed")), "sum"),
    "a relaxed counter": (body(counting(".relaxed"), stores="", sums=""), "reset"),
    "a counter without acquire": (body(counting(".release"), stores="", sums=""), "reset"),
    "a counter that one block adds to in relaxed order": (
        body(ODD_ONE.format(odd=".relaxed"), stores="", sums=""),
        "reset",
    ),
    "the counter by the first block": (body(counting(".acq_rel"), chosen="0", stores="", sums=""), "reset"),
    "the counter by the first block, with fences": (
        body(counting(".relaxed"), FENCE, FENCE, "0", stores="", sums=""),
        "reset",
    ),
}
grids = pytest.mark.parametrize("grid", [7, 700])
seeds = pytest.mark.parametrize("seed", [0, 5])


def launch(text: str, grid: int, seed: int) -> tuple[Any, Any]:
    x, y = np.zeros(1024, np.uint32), np.zeros(1024, np.uint32)
    run(text, 64, grid, x=x, y=y, seed=seed)
    return x, y


@seeds
@grids
@pytest.mark.parametrize("name", RIGHT)
def test_released_and_acquired_is_clean(name: str, grid: int, seed: int) -> None:
    x, y = launch(RIGHT[name], grid, seed)
    assert y[0] == 0
    if "only the counter" not in name:
        assert x[0] == grid * (grid - 1) // 2


@seeds
@grids
@pytest.mark.parametrize("name", WRONG)
def test_a_missing_order_is_a_race(name: str, grid: int, seed: int) -> None:
    text, where = WRONG[name]
    with pytest.raises(EmulatorError) as caught:
        launch(text, grid, seed)
    lines = text.strip("\n").splitlines()
    line = next(number for number, each in enumerate(lines, 1) if each.endswith(f"//! {where}"))
    assert caught.value.finding.kind == Kind.RACE
    assert caught.value.finding.location is not None
    assert caught.value.finding.location.line == line


@seeds
def test_a_counter_of_several_words_for_each_block(seed: int) -> None:
    """A 64-bit counter in memory that is else used by words: each word of it is ordered."""
    text = body("atom.relaxed.gpu.global.add.u64 %rd12, [%rd1], 1;\n cvt.u32.u64 %r10, %rd12;", FENCE, FENCE)
    x, y = launch(text + "@%p3 st.global.u32 [%rd1+4], 0;", 7, seed)
    assert x[0] == 21
    assert not y[:2].any()


@seeds
def test_a_grid_barrier_orders_reads_by_all_blocks_before_a_write(seed: int) -> None:
    """All blocks read y[64], meet at a counter, and then one of them overwrites it."""
    meet = """
  ld.global.u32 %r12, [%rd1+256];
  {together}
  setp.ne.u32 %p3, %r0, 0;
  @%p3 bra MET;
  {count}
  mov.u32 %r14, %nctaid.x;
WAIT:
  ld.acquire.gpu.global.u32 %r10, [%rd1];
  setp.lt.u32 %p4, %r10, %r14;
  @%p4 bra WAIT;
MET:
  bar.sync 0;
  setp.eq.u32 %p5, %r9, 70;
  @%p5 st.global.u32 [%rd1+256], 9;  //! reset
"""
    release, relaxed = (f"red.{order}.gpu.global.add.u32 [%rd1], 1;" for order in ("release", "relaxed"))
    _, y = launch(meet.format(together="bar.sync 0;", count=release), 7, seed)
    assert y[64] == 9
    with pytest.raises(EmulatorError, match="read"):
        launch(meet.format(together="bar.sync 0;", count=relaxed), 7, seed)
    with pytest.raises(EmulatorError, match="read"):  # a release by one thread releases nothing of the others
        launch(meet.format(together="", count=release), 7, seed)
