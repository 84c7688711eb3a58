"""Barriers of blocks and clusters, used as the ISA forbids: found, where they were run as something else before."""

from typing import Any

import pytest
from handwritten import findings, kernel, run, words

from dsl.runtime.emulator import EmulatorError, Kind, emulate

CLUSTER = "mov.u32 %r20, %cluster_ctarank;"

MISUSE = {
    "barrier 17 is none": "bar.sync 17;  //!",
    "barrier 16 is none": "barrier.sync 16;  //!",
    "a negative barrier": "bar.sync -1;  //!",
    "a barrier from a register": "add.u32 %r10, %r7, 17;\nbar.sync %r10;  //!",
    "a barrier that each warp reckons": "shr.u32 %r10, %r0, 1;\nand.b32 %r10, %r10, 16;\nbar.sync %r10, 32;  //!",
    "an arrival at no barrier": "bar.arrive 99, 64;  //!",
    "a reduction at no barrier": "bar.red.popc.u32 %r10, 16, %p0;  //!",
    "48 threads": "mov.u32 %r10, 48;\nadd.u32 %r10, %r10, %r7;\nbar.sync 1, %r10;  //!",
    "more threads than the block has": "bar.sync 1, 96;  //!",
    "a negative number of threads": "bar.sync 1, -32;  //!",
    "no threads": "bar.sync 1, 0;  //!",
    "an arrival for no threads": "bar.arrive 1, %r7;  //!",
    "a reduction for 33 threads": "bar.red.or.pred %p2, 1, 33, %p0;  //!",
    "and meets popc": """
        @%p1 bra LOW;
        bar.red.popc.u32 %r10, 1, %p0;
        bra END;
        LOW:
        bar.red.and.pred %p2, 1, %p0;
        END:
        """,
    "or meets and": """
        @%p1 bra LOW;
        bar.red.or.pred %p2, 1, %p0;
        bra END;
        LOW:
        bar.red.and.pred %p2, 1, %p0;
        END:
        """,
    "a reduction meets bar.sync": """
        @%p1 bra LOW;
        bar.red.popc.u32 %r10, 1, 64, %p0;
        bra END;
        LOW:
        bar.sync 1, 64;
        END:
        """,
    "a reduction meets bar.arrive": """
        @%p1 bra LOW;
        bar.red.popc.u32 %r10, 1, 64, %p0;
        bra END;
        LOW:
        bar.arrive 1, 64;
        END:
        """,
    "two numbers of threads at one barrier": """
        @%p1 bra LOW;
        bar.sync 1, 64;
        bra END;
        LOW:
        bar.sync 1, 32;
        END:
        """,
    "two numbers of threads from one register": "shr.u32 %r10, %r0, 5;\nadd.u32 %r10, %r10, 1;\n"
    "shl.b32 %r10, %r10, 5;\nbar.sync 1, %r10;  //!",
    "all threads and 32 of them": """
        @%p1 bra LOW;
        bar.sync 1;
        bra END;
        LOW:
        bar.arrive 1, 32;
        END:
        """,
}


@pytest.mark.parametrize("name", MISUSE)
def test_a_barrier_that_the_isa_does_not_define_is_found(name: str) -> None:
    body = MISUSE[name]
    with pytest.raises(EmulatorError) as caught:
        run(body)
    finding = caught.value.finding
    assert finding.kind == Kind.BARRIER_MISUSE, str(finding)
    marked = [number for number, line in enumerate(body.strip("\n").splitlines(), 1) if "//!" in line]
    assert not marked or finding.line in marked


ALLOWED = {
    "all sixteen": "\n".join(f"bar.sync {number};" for number in range(16)),
    "sixteen by register, one warp each": "and.b32 %r10, %r0, 32;\nshr.u32 %r10, %r10, 5;\nbar.sync %r10, 32;",
    "one reduction of two places": """
        @%p1 bra LOW;
        bar.red.popc.u32 %r10, 1, %p0;
        bra END;
        LOW:
        bar.red.popc.u32 %r10, 1, 64, %p0;
        END:
        st.global.u32 [%rd4], %r10;
        """,
    "sync meets arrive": """
        @%p1 bra LOW;
        bar.sync 1, 64;
        bra END;
        LOW:
        bar.arrive 1, 64;
        END:
        """,
    "another kind once the first has completed": """
        bar.red.popc.u32 %r10, 1, %p0;
        bar.red.and.pred %p2, 1, %p0;
        bar.sync 1;
        @%p1 bra LOW;
        bar.sync 1, 32;
        LOW:
        bar.sync 1, 64;
        """,
}


@pytest.mark.parametrize("name", ALLOWED)
def test_a_barrier_that_the_isa_allows_is_none(name: str) -> None:
    assert findings(ALLOWED[name]) == []


def test_after_a_barrier_that_does_not_exist_a_launch_that_collects_goes_on() -> None:
    found = findings("bar.sync 17;\ntrap;")
    assert [each.kind for each in found] == [Kind.BARRIER_MISUSE, Kind.TRAP]


AROUND = {
    "one lane at the end": "@%p0 bar.sync 0;",
    "by a jump": "@!%p0 bra END;\nbar.sync 0;\nEND:",
    "the second of two": "@%p0 bar.sync 0;\n@%p0 bar.sync 1;",
    "with what does nothing behind": "@!%p0 bra END;\nbar.sync 0;\nmov.u32 %r10, 1;\nEND:",
    "half a warp": "setp.lt.u32 %p2, %r6, 16;\n@%p2 barrier.sync.aligned 0;",
    "a reduction": "@%p0 bar.red.popc.u32 %r10, 0, %p1;",
    "an arrival": "@%p0 bar.arrive 0, 64;\n",
    "a product": "@%p0 mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f0,%f1,%f2,%f3}, "
    "{%r0,%r0,%r0,%r0}, {%r0,%r0}, {%f0,%f1,%f2,%f3};",
    "a vote that is meant for all": "@%p0 ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r2];",
}


@pytest.mark.parametrize("name", AROUND)
def test_an_aligned_instruction_that_a_part_of_a_warp_meets_is_found(name: str) -> None:
    body = "mov.f32 %f0, 0f00000000;\nmov.f32 %f1, %f0;\nmov.f32 %f2, %f0;\nmov.f32 %f3, %f0;\n" + AROUND[name]
    body = "st.shared.u32 [%r3], %r0;\nbar.sync 0;\n" + body
    assert findings(body)[0].kind in {Kind.DIVERGENT_BARRIER, Kind.MISSING_LANE}
    assert findings(body.replace("bar.sync 0;", "bar.sync 2;")) != []


@pytest.mark.parametrize("instruction", ["barrier.sync 0;", "barrier.red.popc.u32 %r10, 0, %p1;"])
def test_a_barrier_that_is_not_aligned_may_be_met_by_a_part_of_a_warp(instruction: str) -> None:
    assert findings(f"@%p0 {instruction}") == []


def in_cluster(body: str, **options: Any) -> list[Any]:
    text = kernel(body)
    return emulate(text, "kernel", 2, 64, [words(), words()], cluster=2, on_finding="collect", **options).findings


ARRIVE, WAIT = "barrier.cluster.arrive.aligned;", "barrier.cluster.wait.aligned;"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"{ARRIVE}\n{ARRIVE}\n{WAIT}", "again"),
        (f"{WAIT}\n{ARRIVE}\n{WAIT}", "without having arrived"),
        (f"{ARRIVE}\n{WAIT}\n{WAIT}", "without having arrived"),
        (f"{ARRIVE}\n{WAIT}\nbarrier.cluster.arrive.relaxed;\nbarrier.cluster.arrive;\n{WAIT}", "again"),
    ],
)
def test_each_thread_arrives_at_the_clusters_barrier_and_then_waits(body: str, message: str) -> None:
    found = in_cluster(body)
    assert [each.kind for each in found] == [Kind.BARRIER_MISUSE] and message in found[0].message
    around = in_cluster(f"@%p0 {ARRIVE}\n@%p0 {WAIT}")
    assert Kind.DIVERGENT_BARRIER in [each.kind for each in around]
    assert in_cluster(f"{ARRIVE}\n{WAIT}\n{ARRIVE}\n{WAIT}\n{ARRIVE}") == []


ALIGNED = {
    "ldmatrix": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r2];",
    "stmatrix": "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r7};",
    "movmatrix": "movmatrix.sync.aligned.m8n8.trans.b16 %r20, %r7;",
    "mma": "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r20, %r21}, {%r7}, {%r7}, {%r7, %r7};",
    "wgmma": "wgmma.fence.sync.aligned;",
    "setmaxnreg": "setmaxnreg.dec.sync.aligned.u32 24;",
    "a map": "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.cta.sync.aligned "
    "[%rd0], [%r2], 128;",
    "under a condition": "setp.lt.u32 %p2, %r0, 40; @%p2 movmatrix.sync.aligned.m8n8.trans.b16 %r20, %r7;",
}


@pytest.mark.parametrize("name", ALIGNED)
def test_an_aligned_instruction_of_a_warp_with_less_than_32_lanes_is_found(name: str) -> None:
    """Found and gone on from, with the rest of the block: a block of 48 has a warp of 16."""
    text = kernel(f"st.shared.v4.u32 [%r3], {{%r7, %r7, %r7, %r7}}; bar.sync 0;\n{ALIGNED[name]}")
    for block in (1, 48):
        found = emulate(
            text.replace("sm_90", "sm_90a"), "kernel", 1, block, [words(), words()], on_finding="collect"
        ).findings
        lanes = [(each.kind, each.line, each.thread) for each in found if each.kind is Kind.MISSING_LANE]
        assert lanes == [(Kind.MISSING_LANE, 2, (block // 32 * 32, 0, 0))]
