"""Two loads of a word that another thread writes may differ, though the threads of a block run in lockstep here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handwritten import run

from dsl.runtime.emulator import EmulatorError, Kind

seeds = pytest.mark.parametrize("seed", [0, 1, 2])
WRITER = """
  setp.ne.u32 %p2, %r7, 0;
  setp.eq.u32 %p3, %r0, 0;
  @%p2 bra WAIT;
  @%p3 st.volatile.global.u32 [%rd1], 1;
  ret;
"""
EACH = """
WAIT:
  {load}
  bar.sync 0;
  setp.eq.u32 %p4, %r10, 0;
  @%p4 bra WAIT;
  {after}
"""
ONE = """
WAIT:
  @%p3 {load}
  @%p3 st.shared.u32 [%r2], %r10;
  bar.sync 0;
  ld.shared.u32 %r11, [%r2];
  bar.sync 0;
  setp.eq.u32 %p4, %r11, 0;
  @%p4 bra WAIT;
  {after}
"""
LOADS = {
    "volatile": "ld.volatile.global.u32 %r10, [%rd1];",
    "relaxed": "ld.relaxed.gpu.global.u32 %r10, [%rd1];",
    "acquire": "ld.acquire.gpu.global.u32 %r10, [%rd1];",
    "generic": "ld.relaxed.sys.u32 %r10, [%rd1];",
    "vector": "ld.volatile.global.v2.u32 {%r10, %r12}, [%rd1];",
    "atomic": "atom.relaxed.gpu.global.or.b32 %r10, [%rd1], 0;",
    "compare and swap": "atom.relaxed.gpu.global.cas.b32 %r10, [%rd1], 7, 8;",
}
AFTER = {
    "nothing": "",
    "a store": "st.global.u32 [%rd3], 7;",
    "a barrier": "bar.sync 0;",
    "a barrier and a store": "bar.sync 0;\nst.global.u32 [%rd3], 7;",
    "part of the threads": "@!%p1 exit;\nbar.sync 0;",
}
loads = pytest.mark.parametrize("load", LOADS)
afters = pytest.mark.parametrize("after", AFTER)


@seeds
@afters
@loads
def test_a_loop_with_a_barrier_decided_by_each_thread(load: str, after: str, seed: int) -> None:
    with pytest.raises(EmulatorError) as caught:
        run(WRITER + EACH.format(load=LOADS[load], after=AFTER[after]), 128, 2, seed=seed)
    assert caught.value.finding.kind in {Kind.DIVERGENT_BARRIER, Kind.DEADLOCK}


@seeds
@afters
@loads
def test_one_thread_loads_and_shares_it(load: str, after: str, seed: int) -> None:
    run(WRITER + ONE.format(load=LOADS[load], after=AFTER[after]), 128, 2, seed=seed)


@seeds
def test_warps_that_each_have_a_leader(seed: int) -> None:
    """Lane 0 of each warp loads the flag, and its warp gets it by a shuffle: warps may leave the loop apart."""
    body = """
WAIT:
  @%p0 ld.volatile.global.u32 %r10, [%rd1];
  shfl.sync.idx.b32 %r10, %r10, 0, 31, -1;
  bar.sync 0;
  setp.eq.u32 %p4, %r10, 0;
  @%p4 bra WAIT;
  bar.sync 1;
"""
    with pytest.raises(EmulatorError) as caught:
        run(WRITER + "mov.u32 %r10, 0;" + body, 128, 2, seed=seed)
    assert caught.value.finding.kind == Kind.DEADLOCK


@seeds
def test_a_flag_in_shared_memory(seed: int) -> None:
    body = """
  setp.eq.u32 %p3, %r0, 0;
  @%p3 st.shared.u32 [%r2], 0;
  bar.sync 0;
  @%p3 st.volatile.shared.u32 [%r2], 1;
WAIT:
  ld.volatile.shared.u32 %r10, [%r2];
  bar.sync 0;
  setp.eq.u32 %p4, %r10, 0;
  @%p4 bra WAIT;
  bar.sync 0;
"""
    with pytest.raises(EmulatorError) as caught:
        run(body, 128, seed=seed)
    assert caught.value.finding.kind == Kind.DIVERGENT_BARRIER


CLEAN = {
    "each waits for itself, then a barrier": """
WAIT:
  ld.acquire.gpu.global.u32 %r10, [%rd1];
  setp.eq.u32 %p4, %r10, 0;
  @%p4 bra WAIT;
  bar.sync 0;
  st.global.u32 [%rd3], %r10;
""",
    "seen by one thread, which all then know by a barrier": """
WAIT:
  mov.u32 %r10, 1;
  @%p3 ld.relaxed.gpu.global.u32 %r10, [%rd1];
  setp.eq.u32 %p4, %r10, 0;
  @%p4 bra WAIT;
  bar.sync 0;
  ld.relaxed.gpu.global.u32 %r10, [%rd1];
  st.global.u32 [%rd3], %r10;
""",
    "seen by an atomic, which all then know by a barrier": """
WAIT:
  mov.u32 %r10, 1;
  @%p3 atom.relaxed.gpu.global.add.u32 %r10, [%rd1], 0;
  setp.eq.u32 %p4, %r10, 0;
  @%p4 bra WAIT;
  bar.sync 0;
  ld.relaxed.gpu.global.u32 %r10, [%rd1];
  st.global.u32 [%rd3], %r10;
""",
}


@seeds
@pytest.mark.parametrize("name", CLEAN)
def test_what_a_thread_must_see_is_not_late(name: str, seed: int) -> None:
    x: Any = np.zeros(1024, np.uint32)
    run(WRITER + CLEAN[name], 128, 2, x=x, seed=seed)
    assert (x[:128] == 1).all()


@seeds
def test_an_acquire_that_gets_the_earlier_value_acquires_that(seed: int) -> None:
    """The flag rises twice: who still reads 1 knows what came before the first release."""
    body = """
  setp.ne.u32 %p2, %r7, 0;
  setp.eq.u32 %p3, %r0, 0;
  @%p2 bra WAIT;
  @!%p3 ret;
  st.global.u32 [%rd1+64], 5;
  st.release.gpu.global.u32 [%rd1], 1;
  st.global.u32 [%rd1+128], 6;
  st.release.gpu.global.u32 [%rd1], 2;
  ret;
WAIT:
  ld.acquire.gpu.global.u32 %r10, [%rd1];
  setp.eq.u32 %p4, %r10, 0;
  @%p4 bra WAIT;
  ld.global.u32 %r11, [%rd1+64];
  setp.eq.u32 %p4, %r10, 2;
  @%p4 ld.global.u32 %r12, [%rd1+128];
  st.global.u32 [%rd3], %r10;
"""
    x: Any = np.zeros(1024, np.uint32)
    run(body, 128, 2, x=x, seed=seed)
    assert set(x[:128]) == {1, 2}
