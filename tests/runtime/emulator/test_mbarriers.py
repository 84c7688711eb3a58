"""mbarriers used as the ISA forbids are found, each beside a twin in which they are used well.

A `//!` marks the line of the finding.  In all bodies %p2 is thread 0 and the object lies at %r2.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from handwritten import kernel, run, words

from dsl.runtime.emulator import EmulatorError, Kind, emulate

FIRST = "setp.eq.u32 %p2, %r0, 0;\n"
MADE = FIRST + "@%p2 mbarrier.init.shared.b64 [%r2], 64;\nbar.sync 0;\n"
INIT = "@%p2 mbarrier.init.shared.b64"
PHASE = """mbarrier.arrive.shared.b64 %rd10, [%r2];
W{0}: mbarrier.try_wait.shared.b64 %p3, [%r2], %rd10;
@!%p3 bra W{0};
"""


@dataclass(frozen=True)
class Misuse:
    kind: Kind
    words: str
    broken: str
    fixed: str


MISUSES = {
    "used with nothing after its init": Misuse(
        Kind.RACE,
        "nothing to order",
        FIRST + f"{INIT} [%r2], 64;\nmbarrier.arrive.shared.b64 %rd10, [%r2];  //!",
        FIRST + f"{INIT} [%r2], 64;\nbar.sync 0;\nmbarrier.arrive.shared.b64 %rd10, [%r2];",
    ),
    "waited for with nothing after its init": Misuse(
        Kind.RACE,
        "nothing to order",
        FIRST + f"{INIT} [%r2], 64;\nW: mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 1;  //!",
        FIRST + f"{INIT} [%r2], 64;\nbar.sync 0;\nW: mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 1;",
    ),
    "a fence of the other thread is not enough": Misuse(
        Kind.RACE,
        "nothing to order",
        FIRST + f"{INIT} [%r2], 64;\nfence.acq_rel.cta;\nmbarrier.arrive.shared.b64 %rd10, [%r2];  //!",
        FIRST + f"{INIT} [%r2], 64;\nbar.sync 0;\nmbarrier.arrive.shared.b64 %rd10, [%r2];",
    ),
    "misaligned": Misuse(
        Kind.MISALIGNED, "8 bytes", FIRST + f"{INIT} [%r2+4], 64;  //!", FIRST + f"{INIT} [%r2+8], 64;"
    ),
    "an arrival misaligned": Misuse(
        Kind.MISALIGNED, "8 bytes", MADE + "mbarrier.arrive.shared.b64 %rd10, [%r2+4];  //!", MADE
    ),
    "behind the block's shared memory": Misuse(
        Kind.OUT_OF_BOUNDS, "shared address", FIRST + f"{INIT} [%r2+4096], 64;  //!", FIRST + f"{INIT} [%r2+4088], 64;"
    ),
    "before the block's shared memory": Misuse(
        Kind.OUT_OF_BOUNDS,
        "shared address",
        MADE + "mov.u32 %r9, 8;\nmbarrier.test_wait.parity.shared.b64 %p3, [%r9], 0;  //!",
        MADE + "mbarrier.test_wait.parity.shared.b64 %p3, [%r2], 0;",
    ),
    "in global memory": Misuse(
        Kind.BARRIER_MISUSE,
        "shared memory",
        FIRST + "@%p2 mbarrier.init.b64 [%rd1], 64;  //!",
        FIRST + "cvt.u64.u32 %rd11, %r2;\ncvta.shared.u64 %rd11, %rd11;\n@%p2 mbarrier.init.b64 [%rd11], 64;",
    ),
    "a wait in global memory": Misuse(
        Kind.BARRIER_MISUSE,
        "shared memory",
        "mbarrier.try_wait.parity.b64 %p3, [%rd1], 0;  //!",
        MADE + "cvt.u64.u32 %rd11, %r2;\ncvta.shared.u64 %rd11, %rd11;\nmbarrier.try_wait.parity.b64 %p3, [%rd11], 1;",
    ),
    "overwritten by a store": Misuse(
        Kind.BARRIER_MISUSE,
        "holds an mbarrier",
        MADE + "@%p2 st.shared.u32 [%r2+4], 0;  //!",
        MADE + "@%p2 mbarrier.inval.shared.b64 [%r2];\n@%p2 st.shared.u32 [%r2+4], 0;",
    ),
    "read by a load": Misuse(
        Kind.BARRIER_MISUSE,
        "holds an mbarrier",
        MADE + "ld.shared.u64 %rd11, [%r2];  //!",
        MADE + "@%p2 st.shared.u64 [%r2+8], 0;\n@%p2 ld.shared.u64 %rd11, [%r2+8];",
    ),
    "overwritten by an atomic": Misuse(
        Kind.BARRIER_MISUSE,
        "holds an mbarrier",
        MADE + "atom.shared.add.u32 %r10, [%r2], 1;  //!",
        MADE + "@%p2 st.shared.u32 [%r2+8], 0;\nbar.sync 0;\natom.shared.add.u32 %r10, [%r2+8], 1;",
    ),
    "overwritten by a copy": Misuse(
        Kind.BARRIER_MISUSE,
        "holds an mbarrier",
        MADE + "cp.async.ca.shared.global [%r3], [%rd3], 4;  //!",
        MADE + "cp.async.ca.shared.global [%r3+8], [%rd3], 4;",
    ),
    "initialised twice": Misuse(
        Kind.BARRIER_MISUSE,
        "valid already",
        MADE + f"{INIT} [%r2], 64;  //!",
        MADE + f"@%p2 mbarrier.inval.shared.b64 [%r2];\n{INIT} [%r2], 64;",
    ),
    "for nobody": Misuse(
        Kind.BARRIER_MISUSE,
        "1 to 1048575",
        FIRST + "mov.u32 %r10, 0;\n@%p2 mbarrier.init.shared.b64 [%r2], %r10;  //!",
        FIRST + "mov.u32 %r10, 1;\n@%p2 mbarrier.init.shared.b64 [%r2], %r10;",
    ),
    "for too many": Misuse(
        Kind.BARRIER_MISUSE,
        "1 to 1048575",
        FIRST + f"mov.u32 %r10, 1048576;\n{INIT} [%r2], %r10;  //!",
        FIRST + f"{INIT} [%r2], 1048575;",
    ),
    "no arrivals at once": Misuse(
        Kind.BARRIER_MISUSE,
        "1 to 1048575",
        MADE + "mbarrier.arrive.shared.b64 %rd10, [%r2], %r7;  //!",
        MADE + "mbarrier.arrive.shared.b64 %rd10, [%r2], 1;",
    ),
    "more bytes than can be counted": Misuse(
        Kind.BARRIER_MISUSE,
        "0 to 1048575",
        MADE + "@%p2 mbarrier.arrive.expect_tx.shared.b64 %rd10, [%r2], 1048576;  //!",
        MADE + "@%p2 mbarrier.arrive.expect_tx.shared.b64 %rd10, [%r2], 1048575;",
    ),
    "bytes that add up to more": Misuse(
        Kind.BARRIER_MISUSE,
        "can count",
        MADE + "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r2], 20000;  //!",
        MADE + "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r2], 10000;",
    ),
    "more arrivals than expected": Misuse(
        Kind.BARRIER_MISUSE,
        "more arrivals",
        MADE + "mbarrier.arrive.shared.b64 %rd10, [%r2], 3;  //!",
        MADE + "mbarrier.arrive.shared.b64 %rd10, [%r2], 2;",
    ),
    "more arrivals dropped than expected": Misuse(
        Kind.BARRIER_MISUSE,
        "more arrivals",
        FIRST
        + f"{INIT} [%r2], 4;\n@%p2 mbarrier.arrive_drop.shared.b64 %rd10, [%r2], 3;\n"
        + "@%p2 mbarrier.arrive.shared.b64 %rd10, [%r2], 1;\n"
        + "@%p2 mbarrier.arrive_drop.shared.b64 %rd10, [%r2], 2;  //!",
        FIRST
        + f"{INIT} [%r2], 4;\n@%p2 mbarrier.arrive_drop.shared.b64 %rd10, [%r2], 3;\n"
        + "@%p2 mbarrier.arrive.shared.b64 %rd10, [%r2], 1;\n@%p2 mbarrier.arrive_drop.shared.b64 %rd10, [%r2], 1;",
    ),
    "arrivals of copies beyond what it can count": Misuse(
        Kind.BARRIER_MISUSE,
        "can count",
        FIRST + f"{INIT} [%r2], 1048575;\nbar.sync 0;\ncp.async.mbarrier.arrive.shared.b64 [%r2];  //!",
        FIRST + f"{INIT} [%r2], 1048575;\nbar.sync 0;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r2];",
    ),
    "noComplete completes": Misuse(
        Kind.BARRIER_MISUSE,
        "noComplete",
        MADE + "@%p2 mbarrier.arrive.noComplete.shared.b64 %rd10, [%r2], 64;  //!",
        MADE + "@%p2 mbarrier.arrive.noComplete.shared.b64 %rd10, [%r2], 63;",
    ),
    "a state two phases back": Misuse(
        Kind.BARRIER_MISUSE,
        "2 phases back",
        MADE
        + PHASE.format(1)
        + "mov.b64 %rd12, %rd10;\n"
        + PHASE.format(2)
        + "mbarrier.test_wait.shared.b64 %p3, [%r2], %rd12;  //!",
        MADE
        + PHASE.format(1)
        + "mov.b64 %rd12, %rd10;\n"
        + PHASE.format(2)
        + "mbarrier.test_wait.shared.b64 %p3, [%r2], %rd10;",
    ),
    "a state of another object": Misuse(
        Kind.BARRIER_MISUSE,
        "no arrival at it returned",
        FIRST
        + f"{INIT} [%r2], 64;\n{INIT} [%r2+8], 64;\nbar.sync 0;\nmbarrier.arrive.shared.b64 %rd10, [%r2];\n"
        + "mbarrier.test_wait.shared.b64 %p3, [%r2+8], %rd10;  //!",
        FIRST
        + f"{INIT} [%r2], 64;\n{INIT} [%r2+8], 64;\nbar.sync 0;\nmbarrier.arrive.shared.b64 %rd10, [%r2];\n"
        + "mbarrier.test_wait.shared.b64 %p3, [%r2], %rd10;",
    ),
    "a state that is none": Misuse(
        Kind.BARRIER_MISUSE,
        "no arrival at it returned",
        MADE + "mov.b64 %rd10, 0;\nmbarrier.try_wait.shared.b64 %p3, [%r2], %rd10;  //!",
        MADE + "mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 1;",
    ),
    "inval while threads wait": Misuse(
        Kind.BARRIER_MISUSE,
        "at which threads wait",
        MADE
        + "@%p2 bra INVAL;\nW: mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;\n@!%p3 bra W;\nbra END;\n"
        + "INVAL: mbarrier.inval.shared.b64 [%r2];  //!\nEND:",
        MADE
        + "mbarrier.arrive.shared.b64 %rd10, [%r2];\nW: mbarrier.try_wait.shared.b64 %p3, [%r2], %rd10;\n"
        + "@!%p3 bra W;\nbar.sync 0;\n@%p2 mbarrier.inval.shared.b64 [%r2];",
    ),
    "written after an inval with nothing between": Misuse(
        Kind.RACE,
        "nothing to order",
        MADE + "@%p2 mbarrier.inval.shared.b64 [%r2];\nsetp.eq.u32 %p5, %r0, 40;\n@%p5 st.shared.u32 [%r2], 1;  //!",
        MADE + "@%p2 mbarrier.inval.shared.b64 [%r2];\nbar.sync 0;\nsetp.eq.u32 %p5, %r0, 40;\n"
        "@%p5 st.shared.u32 [%r2], 1;",
    ),
    "used after inval": Misuse(
        Kind.BARRIER_MISUSE,
        "no mbarrier",
        MADE
        + "@%p2 mbarrier.inval.shared.b64 [%r2];\nbar.sync 0;\n"
        + "mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;  //!",
        MADE + "@%p2 mbarrier.inval.shared.b64 [%r2];",
    ),
    "a relaxed arrival publishes nothing": Misuse(
        Kind.RACE,
        "nothing to order",
        MADE
        + "st.shared.u32 [%r3+1024], %r0;\n"
        + PHASE.format(1).replace("arrive", "arrive.relaxed.cta")
        + "ld.shared.u32 %r10, [%r5+1024];  //!",
        MADE + "st.shared.u32 [%r3+1024], %r0;\n" + PHASE.format(1) + "ld.shared.u32 %r10, [%r5+1024];",
    ),
    "a relaxed wait learns nothing": Misuse(
        Kind.RACE,
        "nothing to order",
        MADE
        + "st.shared.u32 [%r3+1024], %r0;\n"
        + PHASE.format(1).replace("try_wait", "try_wait.relaxed.cta")
        + "ld.shared.u32 %r10, [%r5+1024];  //!",
        MADE + "st.shared.u32 [%r3+1024], %r0;\n" + PHASE.format(1) + "ld.shared.u32 %r10, [%r5+1024];",
    ),
}


@pytest.mark.parametrize("name", MISUSES)
def test_the_misuse_of_an_mbarrier_is_found(name: str) -> None:
    misuse = MISUSES[name]
    with pytest.raises(EmulatorError) as caught:
        run(misuse.broken)
    finding = caught.value.finding
    assert (finding.kind, misuse.words in finding.message) == (misuse.kind, True), str(finding)
    assert "//!" in misuse.broken.splitlines()[finding.line - 1], str(finding)


@pytest.mark.parametrize("name", MISUSES)
def test_its_twin_is_clean(name: str) -> None:
    run(MISUSES[name].fixed)


@pytest.mark.parametrize("name", MISUSES)
def test_a_launch_that_collects_ends(name: str) -> None:
    result, _ = run(MISUSES[name].broken, on_finding="collect", budget=1 << 20)
    assert Kind.BUDGET not in [each.kind for each in result.findings]


def test_an_inval_with_nothing_after_others_have_used_it_is_noted() -> None:
    used = MADE + "mbarrier.arrive.shared.b64 %rd10, [%r2];\n"
    end = "@%p2 mbarrier.inval.shared.b64 [%r2];"
    assert ["another thread has used" in each.message for each in run(used + end)[0].notes] == [True]
    assert run(used + "bar.sync 0;\n" + end)[0].notes == []


IN_OTHER_BLOCK = """
    setp.eq.u32 %p2, %r0, 0;
    @%p2 mbarrier.init.shared.b64 [%r2], 1;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mov.u32 %r20, %cluster_ctarank;
    xor.b32 %r21, %r20, {0};
    mapa.shared::cluster.u32 %r22, %r2, %r21;
    {1}
    barrier.cluster.arrive;
    barrier.cluster.wait;
"""


@pytest.mark.parametrize(
    ("instruction", "ok"),
    [
        ("mbarrier.init.shared.b64 [%r22+8], 1;", False),
        ("mbarrier.inval.shared.b64 [%r22];", False),
        ("mbarrier.test_wait.parity.shared.b64 %p3, [%r22], 1;", False),
        ("mbarrier.try_wait.parity.shared.b64 %p3, [%r22], 1;", False),
        ("mbarrier.arrive.shared.b64 %rd10, [%r22];", False),
        ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r22];", True),
    ],
)
def test_only_arrivals_reach_an_mbarrier_of_another_block(instruction: str, ok: bool) -> None:
    def found(other: int) -> list[Any]:
        text = kernel(IN_OTHER_BLOCK.format(other, "@%p2 " + instruction))
        options: dict[str, Any] = {"cluster": 2, "on_finding": "collect", "budget": 1 << 20}
        return emulate(text, "kernel", 2, 64, [words(), words()], **options).findings

    assert found(0) == []
    assert [each.kind for each in found(1)] == ([] if ok else [Kind.BARRIER_MISUSE])


def in_two_blocks(middle: str, start: str = "barrier.cluster.arrive;") -> list[Any]:
    """Thread 0 of block 0 waits at its mbarrier for thread 0 of block 1, which has written to block 0's memory."""
    body = f"""
    setp.eq.u32 %p2, %r0, 0;
    @%p2 mbarrier.init.shared.b64 [%r2], 1;
    {start}
    barrier.cluster.wait;
    @!%p2 bra END;
    mov.u32 %r20, %cluster_ctarank;
    setp.eq.u32 %p5, %r20, 0;
    mapa.shared::cluster.u32 %r22, %r2, 0;
    {middle}
    END:
    barrier.cluster.arrive;
    barrier.cluster.wait;"""
    options: dict[str, Any] = {"cluster": 2, "on_finding": "collect", "budget": 1 << 20}
    return emulate(kernel(body), "kernel", 2, 64, [words(), words()], **options).findings


SEND = """@%p5 bra WAIT;
    st.shared::cluster.u32 [%r22+64], 5;
    {0}
    bra END;
    WAIT: {1}
    @!%p3 bra WAIT;
    {2}
    ld.shared.u32 %r10, [%r2+64];
    st.global.u32 [%rd4], %r10;"""
ARRIVES = "mbarrier.arrive{0}.shared::cluster.b64 _, [%r22];"
WAITS = "mbarrier.try_wait.parity{0}.shared::cta.b64 %p3, [%r2], 0;"


@pytest.mark.parametrize(
    ("arrives", "waits", "fences", "ok"),
    [
        (".release.cluster", ".acquire.cluster", "", True),
        ("", ".acquire.cluster", "", False),
        (".release.cluster", "", "", False),
        (".release.cluster", ".relaxed.cluster", "", False),
        (".relaxed.cluster", ".acquire.cluster", "", False),
        (".relaxed.cluster", ".relaxed.cluster", "fence.acq_rel.cluster;", True),
        (".relaxed.cluster", ".relaxed.cluster", "fence.acq_rel.cta;", False),
    ],
)
def test_scopes_count_between_the_blocks_of_a_cluster(arrives: str, waits: str, fences: str, ok: bool) -> None:
    found = in_two_blocks(SEND.format(fences + ARRIVES.format(arrives), WAITS.format(waits), fences))
    assert [each.kind for each in found] == ([] if ok else [Kind.RACE]), found


@pytest.mark.parametrize(
    ("start", "ok"),
    [
        ("barrier.cluster.arrive;", True),
        ("barrier.cluster.arrive.relaxed;", False),
        ("fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed;", True),
        ("fence.acq_rel.cluster;\nbarrier.cluster.arrive.relaxed;", True),
        ("fence.acq_rel.cta;\nbarrier.cluster.arrive.relaxed;", False),
    ],
)
def test_an_init_reaches_the_other_blocks_by_a_fence(start: str, ok: bool) -> None:
    found = in_two_blocks("@!%p5 " + ARRIVES.format(".release.cluster"), start)
    assert [each.kind for each in found] == ([] if ok else [Kind.RACE]), found


def test_the_state_of_an_arrival_tells_the_pending_count() -> None:
    body = (
        MADE + "mbarrier.arrive.shared.b64 %rd10, [%r2];\nmbarrier.pending_count.b64 %r10, %rd10;\n"
        "st.global.u32 [%rd4], %r10;"
    )
    np.testing.assert_array_equal(run(body)[1][:64], 64 - np.arange(64))


def test_a_drop_lowers_what_the_next_phases_expect_by_its_count() -> None:
    body = f"""{FIRST}{INIT} [%r2], 3;
    @!%p2 bra END;
    mbarrier.arrive_drop.shared.b64 %rd10, [%r2], 2;
    mbarrier.arrive.shared.b64 %rd10, [%r2];
    mbarrier.arrive.shared.b64 %rd10, [%r2];
    W: mbarrier.test_wait.shared.b64 %p3, [%r2], %rd10;
    @!%p3 bra W;
    st.global.u32 [%rd4], 1;
    END:"""
    assert run(body)[1][0] == 1
