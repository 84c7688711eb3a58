"""Tensor copies to several blocks of a cluster: each gets the box, slots are free when all have read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_copy_kernel import LOAD, kernel, map_of

from dsl.runtime import assemble
from dsl.runtime.emulator import Kind, Memory, PtxError, TensorMapArgument, emulate
from dsl.runtime.emulator.launch import program_of

ROUNDS, SIZE = 3, 1024
BODY = """
{init}
{fence}
{meet}
mov.u32 %r10, %cluster_ctarank;
mov.u32 %r11, 0;
setp.ge.u32 %p1, %r0, 32;
@%p1 bra READ;
@!%p0 bra END;
mov.b64 %rd1, map;
cvta.param.u64 %rd1, %rd1;
mad.lo.u32 %r12, %r10, 512, %r1;
mov.u16 %h1, {mask};
FILL:
not.b32 %r13, %r11;
and.b32 %r13, %r13, 1;
{wait}
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {bytes};
shl.b32 %r14, %r11, 1;
add.u32 %r14, %r14, %r10;
shl.b32 %r14, %r14, 2;
{load} [%r12], [%rd1, {{0, %r14}}], [%r2], %h1;
add.u32 %r11, %r11, 1;
setp.lt.u32 %p1, %r11, 3;
@%p1 bra FILL;
bra END;
READ:
ld.param.u64 %rd2, [out];
mov.u32 %r15, %ctaid.x;
mad.lo.u32 %r15, %r15, 3072, 0;
sub.u32 %r16, %r0, 32;
shl.b32 %r17, %r16, 2;
cvt.u64.u32 %rd3, %r15;
add.u64 %rd2, %rd2, %rd3;
cvt.u64.u32 %rd3, %r17;
add.u64 %rd2, %rd2, %rd3;
add.u32 %r17, %r17, %r1;
ROUND:
and.b32 %r13, %r11, 1;
FULL: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r13;
@!%p2 bra FULL;
mov.u32 %r18, 0;
COPY:
add.u32 %r19, %r17, %r18;
ld.shared.b32 %r20, [%r19];
cvt.u64.u32 %rd4, %r18;
add.u64 %rd4, %rd2, %rd4;
st.global.b32 [%rd4], %r20;
add.u32 %r18, %r18, 128;
setp.lt.u32 %p1, %r18, 1024;
@%p1 bra COPY;
add.u64 %rd2, %rd2, 1024;
fence.proxy.async.shared::cta;
bar.warp.sync -1;
add.u32 %r21, %r2, 8;
mapa.shared::cluster.u32 %r22, %r21, %r16;
setp.lt.u32 %p3, %r16, {arrivals};
{arrive}
add.u32 %r11, %r11, 1;
setp.lt.u32 %p1, %r11, 3;
@%p1 bra ROUND;
END:
bar.warp.sync -1;
{end}
"""
ARRIVE, WAIT = "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"
MULTICAST = ".multicast::cluster"
PARTS: dict[str, str] = {
    "init": "@%p0 mbarrier.init.shared::cta.b64 [%r2], 1;\n@%p0 mbarrier.init.shared::cta.b64 [%r2+8], 2;",
    "fence": "@%p0 fence.mbarrier_init.release.cluster;",
    "meet": "barrier.cluster.arrive.relaxed.aligned;\n" + WAIT,
    "wait": "FREE: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2+8], %r13;\n@!%p2 bra FREE;",
    "bytes": str(SIZE),
    "mask": "3",
    "load": LOAD.format(rank=2, to="shared::cluster", tile=".tile", hint=MULTICAST),
    "arrivals": "2",
    "arrive": "@%p3 mbarrier.arrive.shared::cluster.b64 _, [%r22];",
    "end": f"{ARRIVE}\n{WAIT}",
}


def run(parts: dict[str, str] | None = None, blocks: int = 4, **options: Any) -> tuple[Any, Any, list[Any]]:
    """What the blocks have read, what the array holds, and the findings; each block copies half of each box."""
    memory, array = Memory(), np.arange(ROUNDS * 8 * 32, dtype=np.int32).reshape(-1, 32)
    pointer, out = memory.allocate(array, "array"), memory.allocate(np.zeros(blocks * array.size, np.int32), "out")
    given = [TensorMapArgument(map_of(array, (32, 4)), pointer), out]
    text = kernel(BODY.format(**PARTS | (parts or {})), ("map",), ("out",), 64, SIZE)
    result = emulate(text, "kernel", blocks, 64, given, cluster=2, on_finding="collect", **options)
    return memory.read(out, np.int32, blocks * array.size).reshape(blocks, -1), array.reshape(-1), result.findings


@pytest.mark.parametrize("seed", range(4))
def test_each_block_gets_what_both_copy(seed: int) -> None:
    found, wanted, findings = run(seed=seed)
    assert findings == []
    assert (found == wanted).all()


def test_ptxas_takes_it_too() -> None:
    assemble(kernel(BODY.format(**PARTS), ("map",), ("out",), 64, SIZE), "sm_90a")


FAULTS: dict[str, tuple[dict[str, str], Kind, str]] = {
    "nobody tells the other block": ({"arrivals": "1"}, Kind.DEADLOCK, "2 of 2 arrivals are missing"),
    "a slot is filled that the other block reads": (
        {"init": PARTS["init"].replace("8], 2", "8], 1"), "arrive": "mbarrier.arrive.shared::cta.b64 _, [%r21];"
         .replace("mbarrier", "setp.eq.u32 %p3, %r16, 0;\n@%p3 mbarrier")},
        Kind.RACE, "writes shared memory",
    ),
    "nobody waits for the slot": ({"wait": ""}, Kind.BARRIER_MISUSE, "more arrivals at an mbarrier than it expects"),
    "half the bytes are expected": ({"bytes": "512"}, Kind.IN_FLIGHT, "that an asynchronous copy is still filling"),
    "more bytes than come": ({"bytes": "1040"}, Kind.DEADLOCK, "16 bytes are missing"),
    "a copy for this block alone": ({"mask": "1"}, Kind.DEADLOCK, "bytes are missing"),
    "a copy for nobody": ({"mask": "0"}, Kind.OUT_OF_BOUNDS, "a copy for no block of the cluster"),
    "a copy for a third block": ({"mask": "7"}, Kind.OUT_OF_BOUNDS, "a copy for the blocks 0x7, in a cluster of 2"),
    "a copy for no block": ({"mask": "0"}, Kind.OUT_OF_BOUNDS, "a copy for no block of the cluster: its mask is 0"),
    "a block ends early": ({"end": ""}, Kind.OUT_OF_BOUNDS, "of the cluster, which may have ended before"),
    "the other block has not begun": ({"meet": "bar.sync 0;"}, Kind.RACE, "that another thread has written"),
    "an init without a fence": ({"fence": ""}, Kind.RACE, "after its init"),
    "an arrival that orders nothing": (
        {"arrive": PARTS["arrive"].replace("arrive.", "arrive.relaxed.cluster.")}, Kind.RACE, "writes shared memory"
    ),
}  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", FAULTS)
def test_what_goes_wrong_is_found(name: str, seed: int) -> None:
    parts, kind, message = FAULTS[name]
    findings = run(parts, seed=seed, budget=1 << 20)[2]
    assert any(each.kind == kind and message in each.message for each in findings), findings
    assert kind != Kind.DEADLOCK or findings[0].kind == kind


def test_an_arrival_of_the_scope_of_the_cluster_is_more_than_enough() -> None:
    arrive = PARTS["arrive"].replace("arrive.", "arrive.release.cluster.")
    wait = PARTS["wait"].replace("parity.", "parity.acquire.cluster.")
    assert run({"arrive": arrive, "wait": wait})[2] == []


def test_a_mask_is_needed() -> None:
    with pytest.raises(PtxError, match="operands"):
        run({"load": LOAD.format(rank=2, to="shared::cluster", tile="", hint="")})


@pytest.mark.parametrize("mask", ["-1", "65536"])
def test_a_mask_that_is_a_constant_has_16_bits(mask: str) -> None:
    text = kernel(BODY.format(**PARTS), ("map",), ("out",), 64, SIZE)
    with pytest.raises(PtxError, match=f"the constant {mask} is not in 0 to 65535"):
        program_of(text.replace("[%r2], %h1;", f"[%r2], {mask};"), "kernel")
