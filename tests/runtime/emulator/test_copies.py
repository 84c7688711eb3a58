"""Asynchronous copies: what may not happen while they are in flight, and who knows that they have arrived."""

from dataclasses import dataclass

import numpy as np
import pytest
from handwritten import kernel, run
from on_device import launched

from dsl.runtime.emulator import EmulatorError, Kind, PtxError

COPY = "cp.async.ca.shared.global [%r3], [%rd3], 4;"
FIRST = "setp.eq.u32 %p2, %r0, 0;\n"
MADE = FIRST + "@%p2 mbarrier.init.shared.b64 [%r2+2048], 64;\nbar.sync 0;\n"
ARRIVE = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r2+2048];"
WAIT = "W: mbarrier.try_wait.parity.shared.b64 %p3, [%r2+2048], 0;\n@!%p3 bra W;"
KEPT = "\nst.global.u32 [%rd4], %r10;"


@dataclass(frozen=True)
class Fault:
    kind: Kind
    broken: str
    fixed: str


# The finding about a source belongs to the copy, whose source it is; the others to the access.
FAULTS = {
    "a store of the same value to the source": Fault(
        Kind.SOURCE_CHANGED,
        f"ld.global.u32 %r10, [%rd3];\n{COPY}  //!\nst.global.u32 [%rd3], %r10;\ncp.async.wait_all;",
        f"ld.global.u32 %r10, [%rd3];\n{COPY}\ncp.async.wait_all;\nst.global.u32 [%rd3], %r10;",
    ),
    "a store by another thread, which a barrier orders after the issue": Fault(
        Kind.SOURCE_CHANGED,
        f"{COPY}  //!\nbar.sync 0;\nxor.b32 %r11, %r1, 128;\ncvt.u64.u32 %rd11, %r11;\nadd.u64 %rd11, %rd0, %rd11;\n"
        "st.global.u32 [%rd11], 1;\ncp.async.wait_all;",
        f"{COPY}\ncp.async.wait_all;\nbar.sync 0;\nxor.b32 %r11, %r1, 128;\ncvt.u64.u32 %rd11, %r11;\n"
        "add.u64 %rd11, %rd0, %rd11;\nst.global.u32 [%rd11], 1;",
    ),
    "an atomic on the source": Fault(
        Kind.SOURCE_CHANGED,
        f"{COPY}  //!\nred.global.add.u32 [%rd3], 0;\ncp.async.wait_all;",
        f"{COPY}\ncp.async.wait_all;\nred.global.add.u32 [%rd3], 0;",
    ),
    "a store to a part of the source": Fault(
        Kind.SOURCE_CHANGED,
        f"{COPY}  //!\nst.global.u8 [%rd3+3], 0;\ncp.async.wait_all;",
        f"{COPY}\ncp.async.wait_all;\nst.global.u8 [%rd3+3], 0;",
    ),
    "a store to the source of a copy whose rest is zeros": Fault(
        Kind.SOURCE_CHANGED,
        "cp.async.ca.shared.global [%r3], [%rd3], 4, 2;  //!\nst.global.u16 [%rd3], %h0;\ncp.async.wait_all;".replace(
            "%h0", "0"
        ),
        "cp.async.ca.shared.global [%r3], [%rd3], 4, 2;\nst.global.u16 [%rd3+2], 0;\ncp.async.wait_all;",
    ),
    "a source longer than the copy": Fault(
        Kind.OUT_OF_BOUNDS,
        "mov.u32 %r10, %ntid.x;\ncp.async.ca.shared.global [%r3], [%rd3], 4, %r10;  //!\ncp.async.wait_all;",
        "shr.u32 %r10, %r8, 4;\ncp.async.ca.shared.global [%r3], [%rd3], 4, %r10;\ncp.async.wait_all;",
    ),
    "a store when an older group is complete only": Fault(
        Kind.SOURCE_CHANGED,
        f"{COPY}\ncp.async.commit_group;\ncp.async.ca.shared.global [%r3+1024], [%rd3+1024], 4;  //!\n"
        "cp.async.commit_group;\ncp.async.wait_group 1;\nst.global.u32 [%rd3+1024], 1;",
        f"{COPY}\ncp.async.commit_group;\ncp.async.ca.shared.global [%r3+1024], [%rd3+1024], 4;\n"
        "cp.async.commit_group;\ncp.async.wait_group 1;\nst.global.u32 [%rd3], 1;",
    ),
    "a store that nothing orders after the wait": Fault(
        Kind.RACE,
        f"{COPY}\nbar.sync 0;\ncp.async.wait_all;\nxor.b32 %r11, %r1, 128;\ncvt.u64.u32 %rd11, %r11;\n"
        "add.u64 %rd11, %rd0, %rd11;\nst.global.u32 [%rd11], 1;  //!",
        f"{COPY}\ncp.async.wait_all;\nbar.sync 0;\nxor.b32 %r11, %r1, 128;\ncvt.u64.u32 %rd11, %r11;\n"
        "add.u64 %rd11, %rd0, %rd11;\nst.global.u32 [%rd11], 1;",
    ),
    "an arrival at an mbarrier that nobody waits for": Fault(
        Kind.IN_FLIGHT,
        f"{MADE}{COPY}\n{ARRIVE}\nld.shared.u32 %r10, [%r3];  //!{KEPT}",
        f"{MADE}{COPY}\n{ARRIVE}\n{WAIT}\nld.shared.u32 %r10, [%r3];{KEPT}",
    ),
    "a barrier of the block in place of the mbarrier": Fault(
        Kind.IN_FLIGHT,
        f"{MADE}{COPY}\n{ARRIVE}\nbar.sync 0;\nld.shared.u32 %r10, [%r5];  //!{KEPT}",
        f"{MADE}{COPY}\n{ARRIVE}\n{WAIT}\nld.shared.u32 %r10, [%r5];{KEPT}",
    ),
    "one warp waits, and the other reads": Fault(
        Kind.IN_FLIGHT,
        f"{MADE}{COPY}\n{ARRIVE}\nbar.sync 0;\n@!%p1 bra READ;\n{WAIT}\nREAD: ld.shared.u32 %r10, [%r5];  //!{KEPT}",
        f"{MADE}{COPY}\n{ARRIVE}\n@!%p1 bra READ;\n{WAIT}\nREAD: bar.sync 0;\nld.shared.u32 %r10, [%r5];{KEPT}",
    ),
    "the thread that issued it does not wait": Fault(
        Kind.IN_FLIGHT,
        f"{MADE}{COPY}\n{ARRIVE}\n@!%p1 bra READ;\n{WAIT}\nREAD: ld.shared.u32 %r10, [%r3];  //!{KEPT}",
        f"{MADE}{COPY}\n{ARRIVE}\n@!%p1 bra ALL;\n{WAIT}\nALL: cp.async.wait_all;\nld.shared.u32 %r10, [%r3];{KEPT}",
    ),
    "a store after the arrival is not published with it": Fault(
        Kind.RACE,
        f"{MADE}{COPY}\n{ARRIVE}\nst.shared.u32 [%r3+1024], %r0;\n{WAIT}\nld.shared.u32 %r10, [%r5+1024];  //!{KEPT}",
        f"{MADE}st.shared.u32 [%r3+1024], %r0;\n{COPY}\n{ARRIVE}\n{WAIT}\nld.shared.u32 %r10, [%r5+1024];{KEPT}",
    ),
    "a copy that is issued after the arrival": Fault(
        Kind.IN_FLIGHT,
        f"{MADE}{ARRIVE}\n{COPY}\n{WAIT}\nld.shared.u32 %r10, [%r3];  //!{KEPT}",
        f"{MADE}{COPY}\n{ARRIVE}\n{WAIT}\nld.shared.u32 %r10, [%r3];{KEPT}",
    ),
    "the destination is filled again by the same copy": Fault(
        Kind.IN_FLIGHT,
        f"{MADE}{COPY}\n{ARRIVE}\n{WAIT}\nbar.sync 0;\nmov.u32 %r12, 0;\nL: {COPY}\nadd.u32 %r12, %r12, 1;\n"
        f"setp.lt.u32 %p4, %r12, 2;\nld.shared.u32 %r10, [%r3];  //!\n@%p4 bra L;{KEPT}",
        f"{MADE}{COPY}\n{ARRIVE}\n{WAIT}\nbar.sync 0;\nmov.u32 %r12, 0;\nL: {COPY}\nadd.u32 %r12, %r12, 1;\n"
        f"setp.lt.u32 %p4, %r12, 2;\ncp.async.wait_all;\nld.shared.u32 %r10, [%r3];\n@%p4 bra L;{KEPT}",
    ),
    "inval before the copies have arrived": Fault(
        Kind.BARRIER_MISUSE,
        f"{MADE}{COPY}\n{ARRIVE}\nbar.sync 0;\n@%p2 mbarrier.inval.shared.b64 [%r2+2048];  //!",
        f"{MADE}{COPY}\n{ARRIVE}\n{WAIT}\nbar.sync 0;\n@%p2 mbarrier.inval.shared.b64 [%r2+2048];",
    ),
    "one of the copies never arrives": Fault(
        Kind.DEADLOCK,
        f"{MADE}{COPY}\n@!%p2 {ARRIVE}\n" + WAIT.replace("0;\n", "0;  //!\n"),
        f"{MADE}{COPY}\n{ARRIVE}\n{WAIT}",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_found(name: str) -> None:
    fault = FAULTS[name]
    with pytest.raises(EmulatorError) as caught:
        run(fault.broken)
    finding = caught.value.finding
    assert finding.kind == fault.kind, str(finding)
    assert "//!" in fault.broken.splitlines()[finding.line - 1], str(finding)


@pytest.mark.parametrize("name", FAULTS)
def test_its_twin_is_clean(name: str) -> None:
    run(FAULTS[name].fixed)


@pytest.mark.parametrize("size", [0, -1, 1, 2, 17, 32])
def test_a_copy_has_one_of_three_sizes(size: int) -> None:
    with pytest.raises(PtxError, match="4, 8 or 16"):
        run(COPY.replace(", 4;", f", {size};"))


@pytest.mark.parametrize("groups", ["%r0", "-1"])
def test_the_groups_that_may_stay_are_a_constant(groups: str) -> None:
    with pytest.raises(PtxError, match="constant"):
        run(f"{COPY}\ncp.async.commit_group;\ncp.async.wait_group {groups};")


def test_an_arrival_that_is_not_counted_in_the_init_raises_the_pending_count() -> None:
    body = f"""{FIRST}@%p2 mbarrier.init.shared.b64 [%r2+2048], 64;
    bar.sync 0;
    {COPY}
    cp.async.mbarrier.arrive.shared.b64 [%r2+2048];
    mbarrier.arrive.shared.b64 %rd10, [%r2+2048];
    {WAIT}
    ld.shared.u32 %r10, [%r5];{KEPT}"""
    np.testing.assert_array_equal(run(body)[1][:64], np.arange(64) ^ 32)


def test_copies_arrive_where_threads_wait_already() -> None:
    body = f"""{FIRST}@%p2 mbarrier.init.shared.b64 [%r2+2048], 32;
    bar.sync 0;
    @%p1 bra FILL;
    {WAIT}
    ld.shared.u32 %r10, [%r5];{KEPT}
    bra END;
    FILL:
    {COPY}
    cp.async.mbarrier.arrive.shared.b64 [%r2+2048];
    mbarrier.arrive.shared.b64 %rd10, [%r2+2048];
    END:"""
    np.testing.assert_array_equal(run(body)[1][32:64], np.arange(32))


def test_a_ring_of_copies_between_two_warps() -> None:
    """Warp 0 fills two stages in turn, warp 1 reads them; each stage has an mbarrier for full and one for empty."""
    body = f"""{FIRST}@%p2 mbarrier.init.shared.b64 [%r2+2048], 32;
    @%p2 mbarrier.init.shared.b64 [%r2+2056], 32;
    @%p2 mbarrier.init.shared.b64 [%r2+2064], 32;
    @%p2 mbarrier.init.shared.b64 [%r2+2072], 32;
    bar.sync 0;
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    LOOP:
    and.b32 %r12, %r11, 1;
    shr.u32 %r13, %r11, 1;
    and.b32 %r13, %r13, 1;
    shl.b32 %r14, %r12, 3;
    add.u32 %r14, %r14, %r2;
    shl.b32 %r15, %r12, 10;
    @%p1 bra FILL;
    add.u32 %r16, %r5, %r15;
    FULL: mbarrier.try_wait.parity.shared.b64 %p3, [%r14+2048], %r13;
    @!%p3 bra FULL;
    ld.shared.u32 %r17, [%r16];
    add.u32 %r10, %r10, %r17;
    mbarrier.arrive.shared.b64 _, [%r14+2064];
    bra NEXT;
    FILL:
    xor.b32 %r18, %r13, 1;
    EMPTY: mbarrier.try_wait.parity.shared.b64 %p3, [%r14+2064], %r18;
    @!%p3 bra EMPTY;
    add.u32 %r16, %r3, %r15;
    shl.b32 %r19, %r11, 7;
    cvt.u64.u32 %rd11, %r19;
    add.u64 %rd11, %rd11, %rd3;
    cp.async.ca.shared.global [%r16], [%rd11], 4;
    cp.async.mbarrier.arrive.noinc.shared.b64 [%r14+2048];
    NEXT: add.u32 %r11, %r11, 1;
    setp.lt.u32 %p4, %r11, 30;
    @%p4 bra LOOP;
    st.global.u32 [%rd4], %r10;"""
    total = np.arange(30 * 32, dtype=np.uint32).reshape(30, 32).sum(0)
    np.testing.assert_array_equal(run(body)[1][:64], np.concatenate([np.zeros(32, np.uint32), total]))


@pytest.mark.parametrize("device", ["emulator", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize(("way", "size"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
def test_a_copy_reads_any_number_of_its_bytes(way: str, size: int, device: str) -> None:
    """Thread n reads n of them; the rest are zeros. Of none it reads nothing, wherever that is."""
    body = f"""
    mul.lo.u32 %r10, %r0, 16;
    add.u32 %r11, %r2, %r10;
    st.shared.v4.u32 [%r11], {{-1, -1, -1, -1}};
    min.u32 %r12, %r0, {size};
    setp.eq.u32 %p2, %r0, 0;
    selp.b64 %rd10, 4, %rd0, %p2;
    cp.async.{way}.shared.global [%r11], [%rd10], {size}, %r12;
    cp.async.wait_all;
    ld.shared.v4.u32 {{%r13, %r14, %r15, %r16}}, [%r11];
    cvt.u64.u32 %rd11, %r10;
    add.u64 %rd11, %rd1, %rd11;
    st.global.v4.u32 [%rd11], {{%r13, %r14, %r15, %r16}};
    """.replace("\n    ", "\n")
    x, y = np.arange(1, 17, dtype=np.uint8), np.zeros((32, 16), np.uint8)
    launched(kernel(body.strip()), [x, y], device, block=32)
    wanted = np.full((32, 16), 255, np.uint8)
    for thread, row in enumerate(wanted):
        row[:size] = np.where(np.arange(size) < thread, x[:size], 0)
    np.testing.assert_array_equal(y, wanted)
