"""What one thread knows of another, beyond the litmus tests: whole blocks, clusters, many threads at one word."""

from __future__ import annotations

import pytest
from handwritten import run

from dsl.runtime.emulator import EmulatorError, Kind

seeds = pytest.mark.parametrize("seed", [0, 5])
RELEASE = """
  setp.eq.u32 %p3, %r0, 0;
  setp.ne.u32 %p2, %r7, 0;
  @%p2 bra READER;
  st.global.u32 [%rd4+512], %r0;
  {before}
  @%p3 atom.release.gpu.global.add.u32 %r10, [%rd1], 1;
  ret;
READER:
  {one} bra ACQUIRED;
WAIT:
  ld.acquire.gpu.global.u32 %r10, [%rd1];
  setp.eq.u32 %p4, %r10, 0;
  @%p4 bra WAIT;
ACQUIRED:
  {after}
  xor.b32 %r12, %r1, 128;
  cvt.u64.u32 %rd10, %r12;
  add.u64 %rd10, %rd10, %rd1;
  ld.global.u32 %r11, [%rd10+512];
"""


@seeds
@pytest.mark.parametrize("one", ["@!%p3", "@!%p2"], ids=["one acquires", "all acquire"])
@pytest.mark.parametrize("before", ["", "bar.sync 0;"])
@pytest.mark.parametrize("after", ["", "bar.sync 0;"])
def test_a_block_stores_and_one_thread_releases(before: str, after: str, one: str, seed: int) -> None:
    text = RELEASE.format(before=before, after=after, one=one)
    if before and (after or one == "@!%p2"):
        run(text, 128, 2, seed=seed)
        return
    with pytest.raises(EmulatorError) as caught:
        run(text, 128, 2, seed=seed)
    assert caught.value.finding.kind == Kind.RACE


CLUSTERS = """
  setp.eq.u32 %p2, %r7, 0;
  @!%p2 bra READER;
  st.global.u32 [%rd1+64], 7;
  st.release.{scope}.global.u32 [%rd1], 1;
  bra END;
READER:
  setp.ne.u32 %p2, %r7, {reader};
  @%p2 bra END;
WAIT:
  ld.acquire.{scope}.global.u32 %r10, [%rd1];
  setp.eq.u32 %p3, %r10, 0;
  @%p3 bra WAIT;
  ld.global.u32 %r11, [%rd1+64];
END:
"""


@seeds
@pytest.mark.parametrize(("scope", "reader"), [("cta", 1), ("cta", 2), ("cluster", 1), ("cluster", 2), ("gpu", 2)])
def test_scopes_of_clusters(scope: str, reader: int, seed: int) -> None:
    text = CLUSTERS.format(scope=scope, reader=reader)
    if (scope, reader) in [("cluster", 1), ("gpu", 2)]:
        run(text, 1, 4, cluster=2, seed=seed)
        return
    with pytest.raises(EmulatorError) as caught:
        run(text, 1, 4, cluster=2, seed=seed)
    assert caught.value.finding.kind == Kind.RACE


SEVERAL = """
  setp.eq.u32 %p2, %r0, 40;
  setp.eq.u32 %p3, %r0, 41;
  setp.eq.u32 %p4, %r0, 3;
  or.pred %p5, %p3, %p4;
  red.relaxed.gpu.global.add.u32 [%rd1+64], 1;
  setp.ne.u32 %p6, %r7, 0;
  @%p6 ret;
  @%p2 red.relaxed.gpu.global.add.u32 [%rd1], 1;
  @%p5 red.relaxed.gpu.global.add.u32 [%rd1], 1;  // a thread of the same warp as before, and one of another
"""


@seeds
@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize("fence", ["", "fence.acq_rel.gpu;"])
def test_atomics_of_several_warps_at_one_word(fence: str, grid: int, seed: int) -> None:
    """Their stamps were joined to a level that means several blocks, of which nothing more was known."""
    more = f"{fence}\nred.relaxed.gpu.global.add.u32 [%rd1], 1;"
    _, y = run(SEVERAL + more, 64, grid, seed=seed)
    assert y[0] == 67
    with pytest.raises(EmulatorError) as caught:
        run(SEVERAL + f"{fence}\n@%p3 ld.global.u32 %r10, [%rd1];", 64, grid, seed=seed)
    assert caught.value.finding.kind == Kind.RACE


def test_a_histogram_of_many_threads() -> None:
    body = """
  mul.lo.u32 %r10, %r9, 0x9e3779b1;
  shr.u32 %r11, %r10, 27;
  mul.wide.u32 %rd10, %r11, 4;
  add.u64 %rd10, %rd10, %rd1;
  red.relaxed.gpu.global.add.u32 [%rd10], 1;
  mul.lo.u32 %r10, %r9, 0x85ebca6b;
  shr.u32 %r11, %r10, 27;
  mul.wide.u32 %rd10, %r11, 4;
  add.u64 %rd10, %rd10, %rd1;
  atom.relaxed.gpu.global.add.u32 %r12, [%rd10], 1;
  red.relaxed.gpu.global.max.u32 [%rd10+512], %r12;
"""
    _, y = run(body, 128, 16)
    assert y[:32].sum() == 2 * 128 * 16


@seeds
def test_threads_that_release_one_by_one(seed: int) -> None:
    """Lane 0 of each of two warps reads, then adds to a counter; the last to come overwrites what both have read."""
    body = """
  @!%p0 ret;
  ld.global.u32 %r11, [%rd1+64];
  {order}
  setp.ne.u32 %p3, %r10, 1;
  @%p3 ret;
  st.global.u32 [%rd1+64], 9;
"""
    counts = {"atom.acq_rel.gpu.global.add.u32 %r10, [%rd1], 1;": True}
    counts["fence.acq_rel.gpu;\natom.relaxed.gpu.global.add.u32 %r10, [%rd1], 1;\nfence.acq_rel.gpu;"] = True
    counts["atom.acquire.gpu.global.add.u32 %r10, [%rd1], 1;"] = False
    for order, right in counts.items():
        if right:
            run(body.format(order=order), 64, seed=seed)
        else:
            with pytest.raises(EmulatorError):
                run(body.format(order=order), 64, seed=seed)


@seeds
def test_lanes_of_one_instruction_acquire_what_lanes_before_them_release(seed: int) -> None:
    """A lane whose relaxed exchange comes after a fence publishes to those that act after it in the instruction."""
    body = """
  @%p0 st.global.u32 [%rd1+64], 7;
  @%p0 fence.acq_rel.gpu;
  atom.acquire.gpu.global.add.u32 %r10, [%rd1], 1;
  setp.eq.u32 %p3, %r10, 31;
  @%p3 ld.global.u32 %r11, [%rd1+64];
"""
    run(body, 32, seed=seed)
    with pytest.raises(EmulatorError):
        run(body.replace("@%p0 fence", "@!%p0 fence"), 32, seed=seed)
