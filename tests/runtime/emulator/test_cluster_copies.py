"""Copies, stores and reductions into the shared memory of another block of the cluster, which an mbarrier completes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from on_device import launched
from tensor_copy_kernel import kernel, wait_for
from test_bulk_reductions import DTYPES, reduced, values

from dsl.runtime import assemble
from dsl.runtime.emulator import Finding, Kind, Memory, emulate

BYTES = 256
TO = "shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
MEET = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
PARTS = {
    "fence": "fence.proxy.async;",
    "init": "@%p0 mbarrier.init.shared::cta.b64 [%r2], 1;",
    "init_fence": "@%p0 fence.mbarrier_init.release.cluster;",
    "meet": MEET,
    "bytes": str(BYTES),
    "more": "",
    "do": f"@%p0 cp.async.bulk.{TO} [%r12], [%r1], 256, [%r13];",
    "meanwhile": "",
    "wait": wait_for("WAIT", "%r2", "0"),
    "then": "",
    "end": MEET,
}


def text_of(parts: dict[str, str] | None = None) -> str:
    """Each of two blocks brings 256 bytes of its part of x to the other, where those of y lie, and writes what it has
    then to y. %r1: x in shared memory; %r11: y there; %r12, %r13: y and the mbarrier of the other block."""
    given = PARTS | (parts or {})
    body = f"""
mov.u32 %r10, %cluster_ctarank;
shl.b32 %r3, %r0, 2;
mad.lo.u32 %r14, %r10, {BYTES}, %r3;
cvt.u64.u32 %rd1, %r14;
ld.param.u64 %rd2, [x];
ld.param.u64 %rd3, [y];
add.u64 %rd2, %rd2, %rd1;
add.u64 %rd3, %rd3, %rd1;
ld.global.b32 %r5, [%rd2];
ld.global.b32 %r6, [%rd3];
add.u32 %r4, %r1, %r3;
add.u32 %r11, %r1, {BYTES};
add.u32 %r15, %r11, %r3;
st.shared.b32 [%r4], %r5;
st.shared.b32 [%r15], %r6;
{given["fence"]}
{given["init"]}
{given["init_fence"]}
xor.b32 %r9, %r10, 1;
mapa.shared::cluster.u32 %r12, %r11, %r9;
mapa.shared::cluster.u32 %r13, %r2, %r9;
add.u32 %r16, %r12, %r3;
{given["meet"]}
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {given["bytes"]};
{given["more"]}
{given["do"]}
{given["meanwhile"]}
{given["wait"]}
{given["then"]}
ld.shared.b32 %r7, [%r15];
st.global.b32 [%rd3], %r7;
{given["end"]}"""
    return kernel(body, (), ("x", "y"), BYTES // 4, 2 * BYTES)


def exchanged(x: Any) -> Any:
    return np.concatenate([x[len(x) // 2 :], x[: len(x) // 2]])


STORES = {
    "a copy": PARTS["do"],
    "words": "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r16], %r5, [%r13];",
    "words, by generic addresses": "cvt.u64.u32 %rd6, %r16;\ncvta.shared::cluster.u64 %rd6, %rd6;\n"
    "cvt.u64.u32 %rd7, %r13;\n"
    "cvta.shared::cluster.u64 %rd7, %rd7;\nst.async.weak.mbarrier::complete_tx::bytes.u32 [%rd6], %r5, [%rd7];",
    "four words of each fourth thread": "bar.sync 0;\nand.b32 %r20, %r0, 3;\nsetp.eq.u32 %p4, %r20, 0;\n"
    "@%p4 ld.shared.v4.b32 {%r20, %r21, %r22, %r23}, [%r4];\n"
    "@%p4 st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r16], {%r20, %r21, %r22, %r23}, [%r13];",
}


@pytest.mark.parametrize("name", STORES)
@pytest.mark.parametrize("seed", [0, 1])
def test_blocks_exchange_words(name: str, seed: int, device: str) -> None:
    x, y = values("b32", BYTES // 2, 1), values("b32", BYTES // 2, 2)
    launched(text_of({"do": STORES[name]}), [x, y], device, 2, 64, 2, seed)
    np.testing.assert_array_equal(y, exchanged(x))


IN_BULK = {
    "add": "u32 s32 u64",
    "min": "u32 s32",
    "max": "u32 s32",
    "inc": "u32",
    "dec": "u32",
    **dict.fromkeys(("and", "or", "xor"), "b32"),
}
REDUCTIONS = [(name, kind) for name, kinds in IN_BULK.items() for kind in kinds.split()]


@pytest.mark.parametrize("is_bulk", [True, False])
@pytest.mark.parametrize(("operation", "kind"), REDUCTIONS)
def test_blocks_reduce_into_each_other(operation: str, kind: str, is_bulk: bool, device: str) -> None:
    """Twice, in one phase."""
    count = BYTES // np.dtype(DTYPES[kind]).itemsize
    x, y = values(kind, 2 * count, 1), values(kind, 2 * count, 2)
    once = f"@%p0 cp.reduce.async.bulk.{TO}.{operation}.{kind} [%r12], [%r1], 256, [%r13];"
    if not is_bulk:
        red = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation}.{kind}"
        once = f"{red} [%r16], %r5, [%r13];"
        if kind == "u64":
            once = (
                "setp.lt.u32 %p4, %r0, 32;\nadd.u32 %r17, %r4, %r3;\nadd.u32 %r16, %r16, %r3;\nbar.sync 0;\n"
                f"@%p4 ld.shared.u64 %rd5, [%r17];\n@%p4 {red} [%r16], %rd5, [%r13];\nsub.u32 %r16, %r16, %r3;"
            )
    text = text_of({"do": f"{once}\n{once}", "bytes": str(2 * BYTES)})
    wanted = reduced(operation, y, exchanged(x), 2)
    launched(text, [x, y], device, 2, 64, 2)
    np.testing.assert_array_equal(y, wanted)


RED = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r16], %r5, [%r13];"
BULK_ADD = f"@%p0 cp.reduce.async.bulk.{TO}.add.u32 [%r12], [%r1], 256, [%r13];"
STORE = STORES["words"]
MULTICAST = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"


def test_a_range_of_global_memory_goes_to_both_blocks(device: str) -> None:
    x, y = values("b32", BYTES // 2, 1), values("b32", BYTES // 2, 2)
    do = "mov.u16 %h1, 3;\nsetp.eq.u32 %p4, %r10, 0;\nand.pred %p4, %p4, %p0;\n"
    do += f"@%p4 {MULTICAST} [%r11], [%rd2], 256, [%r2], %h1;"
    launched(text_of({"do": do}), [x, y], device, 2, 64, 2)
    np.testing.assert_array_equal(y, np.concatenate([x[:64], x[:64]]))


def test_it_is_ptx() -> None:
    for do in (*STORES.values(), RED, BULK_ADD):
        assemble(text_of({"do": do}), "sm_90a")


def found_in(parts: dict[str, str], cluster: int = 2, **options: Any) -> list[Finding]:
    memory = Memory()
    given = [memory.allocate(np.arange(BYTES // 2, dtype=np.uint32) + each, name) for each, name in enumerate("xy")]
    result = emulate(
        text_of(parts), "kernel", 2, 64, given, cluster=cluster, on_finding="collect", budget=1 << 20, **options
    )
    assert result.notes == []
    return result.findings


HARMLESS = {
    "waited for by one warp, and a barrier follows": {
        "wait": f"setp.gt.u32 %p3, %r0, 31;\n@%p3 bra WAITED;\n{PARTS['wait']}\nWAITED:\nbar.sync 0;"
    },
    "a sum is set to zero behind the wait": {"do": RED, "then": "st.shared.b32 [%r15], 0;"},
    "atomics beside red.async": {
        "do": RED,
        "meanwhile": "red.relaxed.cluster.shared::cluster.add.u32 [%r16], 1;",
        "then": MEET,
        "more": "",
    },
    "no fence of the proxy for st.async": {"do": STORE, "fence": "", "init_fence": ""},
    "no fence of the proxy for red.async": {"do": RED, "fence": "", "init_fence": ""},
}


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_fault(name: str, seed: int) -> None:
    assert found_in(HARMLESS[name], seed=seed) == []


OWN = {"[%r12]": "[%r11]", "[%r16]": "[%r15]", "[%r13]": "[%r2]"}


def to_own(line: str) -> str:
    for other, own in OWN.items():
        line = line.replace(other, own)
    return line


FAULTS: dict[str, tuple[dict[str, str], Kind, str]] = {
    "nobody waits": ({"wait": ""}, Kind.IN_FLIGHT, "an asynchronous copy is still filling"),
    "nobody waits for words": ({"do": STORE, "wait": ""}, Kind.IN_FLIGHT, "an asynchronous copy is still filling"),
    "nobody waits for a sum": ({"do": RED, "wait": ""}, Kind.IN_FLIGHT, "an asynchronous reduction is still changing"),
    "nobody waits for a bulk sum": ({"do": BULK_ADD, "wait": ""}, Kind.IN_FLIGHT, "reduction is still changing"),
    "one warp waits for a sum": (
        {"do": RED, "wait": f"setp.gt.u32 %p3, %r0, 31;\n@%p3 bra WAITED;\n{PARTS['wait']}\nWAITED:"},
        Kind.IN_FLIGHT,
        "reduction is still changing",
    ),
    "a sum and atomics of the other proxy": (
        {"do": BULK_ADD, "meanwhile": "red.relaxed.cluster.shared::cluster.add.u32 [%r16], 1;"},
        Kind.IN_FLIGHT,
        "reduction is still changing",
    ),
    "words onto a sum": ({"do": f"{RED}\n{STORE}", "bytes": "512"}, Kind.IN_FLIGHT, "reduction is still changing"),
    "a sum onto words": ({"do": f"{STORE}\n{RED}", "bytes": "512"}, Kind.IN_FLIGHT, "copy is still filling"),
    "too few bytes": ({"bytes": "240"}, Kind.DEADLOCK, "16 bytes have come that nobody expected"),
    "too many bytes": ({"do": STORE, "bytes": "272"}, Kind.DEADLOCK, "16 bytes are missing"),
    "the other block has not begun": ({"meet": "bar.sync 0;"}, Kind.RACE, "another thread has"),
    "the source is written before it has come": (
        {"meanwhile": "@%p0 st.shared.b32 [%r1], 5;"},
        Kind.SOURCE_CHANGED,
        "source of an asynchronous copy",
    ),
    "the block ends before its copy has read": (
        {"end": ""},
        Kind.SOURCE_CHANGED,
        "the block may end before this copy to",
    ),
    "nothing fences the source": ({"fence": ""}, Kind.RACE, "without a fence.proxy.async"),
    "to its own block": ({"do": to_own(PARTS["do"])}, Kind.OUT_OF_BOUNDS, "writes to its own block"),
    "a sum to its own block": ({"do": to_own(RED)}, Kind.OUT_OF_BOUNDS, "`red.async.relaxed` writes to its own block"),
    "the mbarrier of this block": ({"do": PARTS["do"].replace("%r13", "%r2")}, Kind.BARRIER_MISUSE, "in another block"),
    "words at no multiple of 4": ({"do": STORE.replace("%r16]", "%r16+2]")}, Kind.MISALIGNED, "2 past a multiple of 4"),
    "a size of 24": (
        {"do": "mov.u32 %r20, 24;\n" + PARTS["do"].replace("256", "%r20")},
        Kind.MISALIGNED,
        "no multiple of 16",
    ),
    "past the end": (
        {"do": PARTS["do"].replace("%r12]", "%r12+1024]")},
        Kind.OUT_OF_BOUNDS,
        "writes 256 bytes at shared",
    ),
    "onto the mbarrier": ({"do": STORE.replace("[%r16]", "[%r13]")}, Kind.BARRIER_MISUSE, "holds an mbarrier"),
    "no mbarrier": ({"init": ""}, Kind.BARRIER_MISUSE, "no mbarrier"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_goes_wrong_is_found_at_its_line(name: str) -> None:
    parts, kind, message = FAULTS[name]
    found = found_in(parts)
    assert any(each.kind == kind and message in each.message and each.ptx_line for each in found), found


def test_a_cluster_of_one_block_has_no_other() -> None:
    do = to_own(STORE)
    found = found_in({"do": do, "end": "", "meet": "bar.sync 0;", "wait": ""}, cluster=1)
    assert found[0].kind is Kind.OUT_OF_BOUNDS and "a cluster of one block" in found[0].message, found
