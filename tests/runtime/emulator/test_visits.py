"""What a thread does to the shared memory of another block of its cluster comes when that block has surely begun.

In all bodies %r10 is the block, %r11 the other one, %r12 the thread's own word there, %r13 the mbarrier there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from handwritten import kernel, words

from dsl.runtime.emulator import Finding, Kind, emulate

MEET = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
RELAXED = "barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;"
BODY = """
mov.u32 %r10, %cluster_ctarank;
xor.b32 %r11, %r10, 1;
mapa.shared::cluster.u32 %r12, %r3, %r11;
mapa.shared::cluster.u32 %r13, %r2, %r11;
setp.eq.u32 %p2, %r0, 0;
setp.eq.u32 %p3, %r10, 0;
{first}
{access}
{last}"""


def found(first: str, access: str, last: str = MEET, **options: Any) -> list[Finding]:
    text = kernel(BODY.format(first=first, access=access, last=last))
    options = {"cluster": 2, "on_finding": "collect", "budget": 1 << 20, **options}
    return emulate(text, "kernel", 2, 64, [words(), np.zeros(4096, np.uint32)], **options).findings


ACCESSES = {
    "a store": "st.shared::cluster.u32 [%r12+1024], %r0;",
    "a strong store": "st.relaxed.cluster.shared::cluster.u32 [%r12+1024], %r0;",
    "of one lane": "@%p0 st.shared::cluster.u32 [%r12+1024], %r0;",
    "a generic address": "cvt.u64.u32 %rd10, %r12;\ncvta.shared.u64 %rd10, %rd10;\nst.u32 [%rd10+1024], %r0;",
}


@pytest.mark.parametrize("name", ACCESSES)
def test_an_access_to_a_block_that_may_not_have_begun(name: str) -> None:
    """Whatever the block has done by itself shows nothing of the other."""
    own = "st.shared.u32 [%r3+2048], 1;\nbar.sync 0;\nfence.acq_rel.cluster;"
    (finding,) = found(own, ACCESSES[name], "bar.sync 0;\n" + MEET)
    assert finding.kind is Kind.OUT_OF_BOUNDS and "which may not have begun" in finding.message, finding


INIT = "@%p2 mbarrier.init.shared::cta.b64 [%r2], 1;\n@%p2 fence.mbarrier_init.release.cluster;\n"
TO = "mbarrier::complete_tx::bytes"
# Where the block must have written first, a mbarrier's init or a value, more is wrong.
ARRIVALS = {
    "an atomic": "atom.relaxed.cluster.shared::cluster.exch.b32 %r14, [%r12+1024], %r0;",
    "a reduction": "red.relaxed.cluster.shared::cluster.max.u32 [%r12+1024], %r0;",
    "an arrival": "@%p2 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r13];",
    "words": f"@%p2 st.async.shared::cluster.{TO}.b32 [%r12+1024], %r0, [%r13];",
    "a bulk copy": f"@%p2 cp.async.bulk.shared::cluster.shared::cta.{TO} [%r12+1024], [%r3+2048], 16, [%r13];",
    "a copy for both": "mov.u16 %h1, 3;\n"
    f"@%p2 cp.async.bulk.shared::cluster.global.{TO}.multicast::cluster [%r2+1024], [%rd0], 16, [%r2], %h1;",
}


@pytest.mark.parametrize("name", ARRIVALS)
def test_what_arrives_at_a_block_that_may_not_have_begun(name: str) -> None:
    first = f"{INIT}st.shared.u32 [%r3+1024], %r0;\nbar.sync 0;"
    kinds = {Kind.RACE, Kind.BARRIER_MISUSE, Kind.UNINITIALISED}
    assert found(first, ARRIVALS[name])[0].kind in kinds


UNTIL = "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [%r2], 0;\n@!%p4 bra WAIT;\n"
KNOWN = {
    "by a barrier of the cluster": MEET,
    "by one that orders nothing": RELAXED,
    "by an arrival, and a wait later on": "barrier.cluster.arrive;\nbar.sync 0;\nbarrier.cluster.wait;",
    "by what another thread has waited for": "barrier.cluster.arrive;\n@!%p1 bra MET;\nbarrier.cluster.wait;\n"
    "MET: bar.sync 0;\n@%p1 bra ALL;\nbarrier.cluster.wait;\nALL:",
    "by a flag in global memory": """@%p3 bra FIRST;
    @%p2 st.release.gpu.global.u32 [%rd1+2048], 1;
    FLAG: ld.acquire.gpu.global.u32 %r20, [%rd1+2052];
    setp.eq.u32 %p5, %r20, 0;
    @%p5 bra FLAG;
    bra BOTH;
    FIRST: ld.acquire.gpu.global.u32 %r20, [%rd1+2048];
    setp.eq.u32 %p5, %r20, 0;
    @%p5 bra FIRST;
    bar.sync 0;
    @%p2 st.release.gpu.global.u32 [%rd1+2052], 1;
    BOTH:""",
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("access", ["a store", "of one lane"])
def test_who_knows_that_the_other_block_has_begun(name: str, access: str) -> None:
    assert found(KNOWN[name], ACCESSES[access]) == []


@pytest.mark.parametrize("arrive", ["release.cluster.", "relaxed.cluster.", ""])
def test_an_arrival_from_the_other_block_shows_that_it_runs(arrive: str) -> None:
    """Block 1 waits for the cluster's barrier, block 0 for the arrival alone."""
    arrival = f"@%p2 mbarrier.arrive.{arrive}shared::cluster.b64 _, [%r13];"
    first = f"""{INIT}bar.sync 0;
    barrier.cluster.arrive.release.aligned;
    @%p3 bra WAIT;
    barrier.cluster.wait.acquire.aligned;
    {arrival}
    bra END;
    {UNTIL}"""
    last = f"barrier.cluster.wait.aligned;\n{MEET}\nbra DONE;\nEND: {MEET}\nDONE:"
    assert found(first, ACCESSES["a store"], last) == []


def test_the_other_block_may_have_ended() -> None:
    (finding,) = found(MEET, ACCESSES["a store"], "")
    assert finding.kind is Kind.OUT_OF_BOUNDS and "which may have ended before" in finding.message


@pytest.mark.parametrize("arrive", ["release.cluster.", "relaxed.cluster.", ""])
@pytest.mark.parametrize("waits", [True, False])
def test_an_arrival_is_over_when_a_thread_of_the_block_has_waited_for_it(arrive: str, waits: bool) -> None:
    """A wait shows it whatever the scope of the arrival: blocks of CUTLASS end after such waits."""
    arrival = f"@%p2 mbarrier.arrive.{arrive}shared::cluster.b64 _, [%r13];"
    findings = found(f"{INIT}{MEET}", arrival, UNTIL if waits else "")
    assert [each.kind for each in findings] == [] if waits else [Kind.OUT_OF_BOUNDS], findings
    assert waits or "which may have ended before" in findings[0].message


def test_a_wait_shows_nothing_of_what_its_arrival_did_not_release() -> None:
    access = f"{ACCESSES['a store']}\n@%p2 mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%r13];"
    (finding,) = found(f"{INIT}{MEET}", access, UNTIL)
    assert finding.kind is Kind.OUT_OF_BOUNDS and "which may have ended before" in finding.message


def test_the_low_half_of_a_generic_address_of_another_block() -> None:
    """`mapa.u32` ended in an error of numpy: the window of shared memory begins beyond 32 bits."""
    body = """
mov.u32 %r10, %cluster_ctarank;
xor.b32 %r11, %r10, 1;
cvt.u64.u32 %rd10, %r3;
cvta.shared.u64 %rd10, %rd10;
cvt.u32.u64 %r12, %rd10;
mapa.u64 %rd11, %rd10, %r11;
mapa.u32 %r13, %r12, %r11;
cvt.u32.u64 %r14, %rd11;
sub.u32 %r15, %r13, %r14;
add.u32 %r15, %r15, 7;
cvta.to.global.u64 %rd12, %rd1;
mul.wide.u32 %rd13, %r0, 4;
add.u64 %rd12, %rd12, %rd13;
setp.eq.u32 %p3, %r10, 0;
@%p3 st.global.u32 [%rd12], %r15;
"""
    out = np.zeros(4096, np.uint32)
    emulate(kernel(body), "kernel", 2, 64, [words(), out], cluster=2, budget=1 << 20)
    assert (out[:64] == 7).all()


def test_an_address_of_32_bits_outside_shared_memory() -> None:
    """`ld.param` by a register ended in an error of numpy where the register has 32 bits, which ptxas takes."""
    options: dict[str, Any] = {"on_finding": "collect", "budget": 1 << 20}
    found = emulate(kernel("ld.param.u64 %rd10, [%r3];"), "kernel", 1, 64, [words(), words()], **options).findings
    assert found and all(each.kind is Kind.OUT_OF_BOUNDS for each in found)
