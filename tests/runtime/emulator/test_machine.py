"""What the machine does around the arithmetic: control flow, memory, warps, barriers, counters."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from handwritten import findings, kernel, run, words

from dsl.runtime.emulator import EmulatorError, Kind, Memory, PtxError, emulate

T = np.arange(64, dtype=np.uint32)


def outcome(body: str, result: str = "%r10", block: int = 64, **options: Any) -> np.ndarray:
    """Runs a body on one block and returns a register of each thread."""
    _, y = run(f"{body}\nst.global.b32 [%rd4], {result};", block, **options)
    return y[:block]


# Reading


def test_one_value_may_stand_in_braces() -> None:
    loaded = "ld.global.b32 {%r11}, [%rd3];\nst.shared.b32 [%r3], {%r11};\nld.shared.b32 {%r12}, [%r3];\n"
    for move in ("mov.b32 {%r10}, %r12;", "mov.b32 %r10, {%r12};"):  # not both, says ptxas 13.5
        np.testing.assert_array_equal(outcome(loaded + move), T)


def test_an_unknown_instruction_is_named_with_its_line() -> None:
    with pytest.raises(PtxError, match=r"PTX line \d+: unknown instruction `frobnicate.u32 %r1"):
        run("frobnicate.u32 %r1, %r2;")


@pytest.mark.parametrize(
    "body",
    [
        "add.u32 %r1, %r2;",
        "add.u32 %q1, %r2, %r3;",
        "ld.global.u32 %r1, [%nowhere];",
        "bra NOWHERE;",
        "add.u99 %r1, %r2, %r3;",
        "ld.shared.frob.u32 %r1, [%r2];",
        "add.u32 %rd1, %r2, %r3;",
        "mov.u32 %r1, %nosuchregister;",
        "cvt.frob.u32.f32 %r1, %f1;",
        "lop3.b32 %r1, %r2, %r3, %r4, %r5;",
        "shfl.sync.bfly.b32 %r1;",
    ],
)
def test_what_is_not_ptx_is_a_located_error(body: str) -> None:
    with pytest.raises(PtxError, match=r"PTX line \d+"):
        run(body)


def test_scopes_have_registers_and_labels_of_their_own() -> None:
    body = """
    mov.u32 %r10, 5;
    { .reg .b32 %r10; .reg .pred p; mov.u32 %r10, 9; setp.eq.u32 p, %r0, 3; @p bra SKIP; add.u32 %r11, %r10, 1; SKIP: }
    { .reg .b32 t<3>; mov.u32 t1, 7; SKIP: add.u32 %r12, t1, %r10; }
    """
    np.testing.assert_array_equal(outcome(body, "%r12"), np.full(64, 12))


def test_comments_hexadecimal_and_float_constants() -> None:
    body = "/* one\n two */ mov.f32 %f1, 0f3FC00000; // three\nadd.f32 %f1, %f1, 2.5;\nmov.b32 %r10, %f1;"
    assert outcome(body)[0] == np.float32(4.0).view(np.uint32)


def test_module_variables_with_initial_values_and_pointers() -> None:
    module = """
    .global .align 4 .u32 numbers[4] = {10, 20, 30, 0x28};
    .global .align 8 .u64 where = numbers+4;
    .const .align 4 .f32 half = 0.5;
    """
    body = """
    ld.global.u64 %rd10, [where];
    and.b32 %r11, %r0, 1;
    mul.wide.u32 %rd11, %r11, 4;
    add.u64 %rd10, %rd10, %rd11;
    ld.global.u32 %r10, [%rd10];
    ld.const.f32 %f1, [half];
    cvt.rzi.u32.f32 %r12, %f1;
    add.u32 %r10, %r10, %r12;
    """
    np.testing.assert_array_equal(outcome(body, module=module), np.where(T & 1, 30, 20))


# Control flow


def test_brx_idx() -> None:
    body = """
    table: .branchtargets A, B, C;
    and.b32 %r11, %r0, 3;
    min.u32 %r11, %r11, 2;
    brx.idx %r11, table;
    A: mov.u32 %r10, 100;
    bra END;
    B: mov.u32 %r10, 200;
    bra END;
    C: mov.u32 %r10, 300;
    END:
    """
    np.testing.assert_array_equal(outcome(body), (np.minimum(T & 3, 2) + 1) * 100)


def test_loops_with_a_count_of_their_own_for_each_thread() -> None:
    body = """
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    OUTER: setp.ge.u32 %p2, %r11, %r0;
    @%p2 bra DONE;
    mov.u32 %r12, 0;
    INNER: add.u32 %r10, %r10, 1;
    add.u32 %r12, %r12, 1;
    setp.lt.u32 %p3, %r12, 3;
    @%p3 bra INNER;
    add.u32 %r11, %r11, 1;
    bra OUTER;
    DONE:
    """
    np.testing.assert_array_equal(outcome(body), 3 * T)


def test_guards_keep_what_they_do_not_write() -> None:
    body = """
    mov.u32 %r10, 1;
    and.b32 %r11, %r0, 1;
    setp.eq.u32 %p2, %r11, 0;
    @%p2 add.u32 %r10, %r10, 10;
    @!%p2 ld.global.u32 %r10, [%rd3];
    """
    np.testing.assert_array_equal(outcome(body), np.where(T & 1, T, 11))


def test_function_calls_are_inlined_with_their_parameters_and_locals() -> None:
    module = """
    .func (.param .b32 out) twice(.param .b32 in, .param .b64 where)
    {
      .local .align 4 .b8 depot[8];
      .reg .b32 %r<4>;
      .reg .b64 %rd<4>;
      .reg .pred %p<2>;
      ld.param.b32 %r1, [in];
      ld.param.b64 %rd1, [where];
      mov.u64 %rd2, depot;
      st.local.u32 [%rd2+4], %r1;
      setp.gt.u32 %p1, %r1, 40;
      @%p1 bra BIG;
      ld.local.u32 %r2, [%rd2+4];
      add.u32 %r3, %r2, %r1;
      st.param.b32 [out], %r3;
      ret;
    BIG:
      mov.u32 %r3, 0;
      st.param.b32 [out], %r3;
      ret;
    }
    """
    body = """
    { .param .b32 a; .param .b64 b; .param .b32 r;
    st.param.b32 [a], %r0;
    st.param.b64 [b], %rd0;
    call.uni (r), twice, (a, b);
    ld.param.b32 %r10, [r];
    }
    { .param .b32 a; .param .b64 b; .param .b32 r;
    st.param.b32 [a], %r10;
    st.param.b64 [b], %rd0;
    call.uni (r), twice, (a, b);
    ld.param.b32 %r10, [r];
    }
    """
    once = np.where(T > 40, 0, 2 * T)
    np.testing.assert_array_equal(outcome(body, module=module), np.where(once > 40, 0, 2 * once))


def test_special_registers_in_three_dimensions() -> None:
    body = """
    mov.u32 %r10, %tid.y;
    mov.u32 %r11, %tid.z;
    mov.u32 %r12, %tid.x;
    mov.u32 %r13, %ntid.x;
    mov.u32 %r14, %ntid.y;
    mov.u32 %r15, %ctaid.y;
    mad.lo.u32 %r16, %r11, %r14, %r10;
    mad.lo.u32 %r16, %r16, %r13, %r12;
    mov.u32 %r17, %ctaid.x;
    mov.u32 %r18, %nctaid.x;
    mad.lo.u32 %r19, %r15, %r18, %r17;
    mad.lo.u32 %r20, %r19, 24, %r16;
    mul.wide.u32 %rd10, %r20, 4;
    add.u64 %rd10, %rd10, %rd1;
    st.global.u32 [%rd10], %r20;
    """
    _, y = run(body, (4, 3, 2), (3, 2))
    np.testing.assert_array_equal(y[: 24 * 6], words(24 * 6))


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_spin_lock_among_all_threads_and_more_blocks_than_a_wave_has(seed: int) -> None:
    """Each thread takes the lock in turn: this ends only if the holder always gets to run."""
    body = """
    LOCK: atom.acquire.gpu.global.cas.b32 %r10, [%rd1], 0, 1;
    setp.ne.u32 %p2, %r10, 0;
    @%p2 bra LOCK;
    ld.global.u32 %r11, [%rd1+64];
    add.u32 %r11, %r11, 1;
    st.global.u32 [%rd1+64], %r11;
    atom.release.gpu.global.exch.b32 %r12, [%rd1], 0;
    """
    _, y = run(body, 8, 5, seed=seed)
    assert y[16] == 40


def test_blocks_that_wait_for_each_other_are_run_together() -> None:
    """Block 0 and the last block, which is not in its wave, meet."""
    body = """
    mov.u32 %r10, %nctaid.x;
    sub.u32 %r10, %r10, 1;
    setp.eq.u32 %p3, %r7, 0;
    @%p3 st.release.gpu.global.u32 [%rd1+8], 1;
    setp.ne.u32 %p2, %r7, %r10;
    @%p2 bra FIRST;
    MEET: ld.acquire.gpu.global.u32 %r11, [%rd1+8];
    setp.eq.u32 %p2, %r11, 0;
    @%p2 bra MEET;
    st.release.gpu.global.u32 [%rd1], 1;
    FIRST: @!%p3 exit;
    WAIT: ld.acquire.gpu.global.u32 %r11, [%rd1];
    setp.eq.u32 %p2, %r11, 0;
    @%p2 bra WAIT;
    setp.eq.u32 %p2, %r0, 0;
    @%p2 st.global.u32 [%rd1+4], 5;
    """
    _, y = run(body, 1024, 100)
    assert y[1] == 5


# Warps


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """PTX ISA "shfl.sync", written for one lane."""
    clamp, segment = c & 31, c >> 8 & 31
    highest = (lane & segment) | (clamp & ~segment & 31)
    lowest = lane & segment
    source = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": lowest | (b & ~segment & 31)}[mode]
    valid = source >= highest if mode == "up" else source <= highest
    return (source if valid else lane), valid


@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize(
    ("mode", "b", "c"),
    [
        *(("up", 3, 0), ("up", 1, 0x1800), ("down", 5, 31), ("down", 2, 0x181F), ("bfly", 16, 31), ("bfly", 5, 0x1007)),
        *(("idx", 7, 31), ("idx", 9, 0x181F), ("idx", 31, 15)),
    ],
)
def test_shfl(mode: str, b: int, c: int, in_registers: bool) -> None:
    step, clamp = ("%r20", "%r21") if in_registers else (str(b), str(c))
    body = f"""
    mul.lo.u32 %r20, %r7, 0;
    add.u32 %r21, %r20, {c};
    add.u32 %r20, %r20, {b};
    mul.lo.u32 %r11, %r0, 100;
    shfl.sync.{mode}.b32 %r12|%p2, %r11, {step}, {clamp}, 0xffffffff;
    selp.b32 %r10, 1, 0, %p2;
    add.u32 %r10, %r10, %r12;
    """
    expected = [100 * (32 * warp + source) + valid for warp in (0, 1) for source, valid in
                (shuffled(mode, lane, b, c) for lane in range(32))]  # fmt: skip
    np.testing.assert_array_equal(outcome(body), expected)


def test_shuffles_of_two_halves_of_a_warp_apart() -> None:
    body = """
    setp.lt.u32 %p2, %r6, 16;
    @%p2 bra LOW;
    shfl.sync.bfly.b32 %r10, %r0, 1, 31, 0xffff0000;
    bra END;
    LOW: shfl.sync.idx.b32 %r10, %r0, 0, 31, 0x0000ffff;
    END:
    """
    np.testing.assert_array_equal(outcome(body), np.where(T % 32 < 16, T // 32 * 32, T ^ 1))


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("vote.sync.ballot.b32 %r10, %p2, -1;", np.full(64, 0x00FF00FF)),
        ("vote.sync.ballot.b32 %r10, !%p2, -1;", np.full(64, 0xFF00FF00)),
        ("vote.sync.any.pred %p3, %p2, -1; selp.u32 %r10, 1, 0, %p3;", np.full(64, 1)),
        ("vote.sync.all.pred %p3, %p2, -1; selp.u32 %r10, 1, 0, %p3;", np.full(64, 0)),
        ("vote.sync.uni.pred %p3, %p1, -1; selp.u32 %r10, 1, 0, %p3;", np.full(64, 1)),
        ("match.any.sync.b32 %r10, %r11, -1;", np.where(T & 8, 0xFF00FF00, 0x00FF00FF)),
        ("match.all.sync.b32 %r10|%p3, %r11, -1;", np.full(64, 0)),
        ("match.all.sync.b32 %r10|%p3, %r7, -1;", np.full(64, 0xFFFFFFFF)),
        ("redux.sync.add.u32 %r10, %r0, -1;", np.where(T < 32, 496, 496 + 1024)),
        ("redux.sync.min.s32 %r10, %r12, -1;", np.where(T < 32, -31, -63).astype(np.uint32)),
        ("redux.sync.or.b32 %r10, %r0, -1;", np.where(T < 32, 31, 63)),
        ("elect.sync %r10|%p3, -1; @%p3 mov.u32 %r10, 77;", np.where(T % 32 == 0, 77, 0)),
        ("activemask.b32 %r10;", np.full(64, 0xFFFFFFFF)),
    ],
)
def test_warp_wide_operations(instruction: str, expected: np.ndarray) -> None:
    body = f"""
    and.b32 %r11, %r0, 8;
    setp.eq.u32 %p2, %r11, 0;
    neg.s32 %r12, %r0;
    {instruction}
    """
    np.testing.assert_array_equal(outcome(body), expected.astype(np.uint32))


def test_votes_of_teams_with_masks_of_their_own() -> None:
    body = """
    and.b32 %r11, %r6, 24;
    mov.u32 %r12, 255;
    shl.b32 %r12, %r12, %r11;
    and.b32 %r13, %r0, 1;
    setp.eq.u32 %p2, %r13, 0;
    vote.sync.ballot.b32 %r10, %p2, %r12;
    """
    np.testing.assert_array_equal(outcome(body), (0x55 << (T & 24)).astype(np.uint32))


# Barriers


def test_bar_red() -> None:
    body = """
    setp.lt.u32 %p2, %r0, 40;
    bar.red.popc.u32 %r10, 0, %p2;
    bar.red.and.pred %p3, 0, %p2;
    bar.red.or.pred %p4, 0, %p2;
    @%p3 add.u32 %r10, %r10, 1000;
    @%p4 add.u32 %r10, %r10, 100;
    """
    np.testing.assert_array_equal(outcome(body), np.full(64, 140))


def test_bar_red_of_warps_that_come_one_after_another() -> None:
    body = """
    setp.lt.u32 %p2, %r0, 40;
    @%p1 bra LOW;
    bar.red.popc.u32 %r10, 1, !%p2;
    bra END;
    LOW: bar.red.popc.u32 %r10, 1, !%p2;
    END:
    """
    np.testing.assert_array_equal(outcome(body), np.full(64, 24))


def test_producer_and_consumer_with_named_barriers() -> None:
    """Warp 0 fills a slot and arrives; warp 1 waits, reads it, and gives it back."""
    body = """
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    @%p1 bra PRODUCER;
    CONSUMER: bar.sync 1, 64;
    ld.shared.u32 %r12, [%r5];
    add.u32 %r10, %r10, %r12;
    bar.arrive 2, 64;
    add.u32 %r11, %r11, 1;
    setp.lt.u32 %p2, %r11, 5;
    @%p2 bra CONSUMER;
    bra END;
    PRODUCER: add.u32 %r12, %r0, %r11;
    st.shared.u32 [%r3], %r12;
    bar.arrive 1, 64;
    bar.sync 2, 64;
    add.u32 %r11, %r11, 1;
    setp.lt.u32 %p2, %r11, 5;
    @%p2 bra PRODUCER;
    END:
    """
    np.testing.assert_array_equal(outcome(body), np.where(T < 32, 0, 5 * (T - 32) + 10))


@pytest.mark.parametrize(
    "end", ["@%p1 ret;", "@%p1 exit;", "L: add.u32 %r0, %r0, 1;\nsetp.lt.u32 %p2, %r0, 9;\n@%p2 bra L;"]
)
def test_the_end_of_the_text_is_an_exit(end: str) -> None:
    text = kernel(f"st.global.u32 [%rd4], %r0;\n{end}").replace("\n  ret;\n}", "\n}")
    y = np.zeros(1024, np.uint32)
    emulate(text, "kernel", 1, 64, [words(), y])
    np.testing.assert_array_equal(y[:64], T)


def test_producer_and_consumer_with_mbarriers() -> None:
    body = """
    setp.eq.u32 %p2, %r0, 0;
    @%p2 mbarrier.init.shared.b64 [%r2+1024], 32;
    @%p2 mbarrier.init.shared.b64 [%r2+1032], 32;
    bar.sync 0;
    mov.u32 %r10, 0;
    mov.u32 %r11, 0;
    LOOP: and.b32 %r13, %r11, 1;
    @%p1 bra PRODUCER;
    FULL: mbarrier.try_wait.parity.shared.b64 %p3, [%r2+1024], %r13;
    @!%p3 bra FULL;
    ld.shared.u32 %r12, [%r5];
    add.u32 %r10, %r10, %r12;
    mbarrier.arrive.shared.b64 _, [%r2+1032];
    bra NEXT;
    PRODUCER: add.u32 %r12, %r0, %r11;
    st.shared.u32 [%r3], %r12;
    mbarrier.arrive.shared.b64 %rd10, [%r2+1024];
    EMPTY: mbarrier.test_wait.parity.shared.b64 %p3, [%r2+1032], %r13;
    @!%p3 bra EMPTY;
    NEXT: add.u32 %r11, %r11, 1;
    setp.lt.u32 %p4, %r11, 6;
    @%p4 bra LOOP;
    """
    np.testing.assert_array_equal(outcome(body), np.where(T < 32, 0, 6 * (T - 32) + 15))


# Memory


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        ("ld.global.u8 %r10, [%rd3];", T + 240 & 255),
        ("ld.global.s8 %r10, [%rd3];", (T + 240).astype(np.uint8).view(np.int8).astype(np.int32).view(np.uint32)),
        ("ld.global.s8 %h1, [%rd3]; cvt.s32.s16 %r10, %h1;", (T + 240).astype(np.uint8).view(np.int8).astype(np.int32)),
        ("ld.global.u16 %h1, [%rd3]; cvt.u32.u16 %r10, %h1;", T + 240),
        ("ld.b32 %r10, [%rd3];", T + 240),
        ("ld.global.nc.L1::no_allocate.L2::128B.b32 %r10, [%rd3];", T + 240),
        ("ld.volatile.global.u32 %r10, [%rd3+4];", T + 241),
        ("add.u64 %rd10, %rd3, %rd2; ld.global.v2.u32 {%r10, %r11}, [%rd10];", 2 * T + 240),
        ("add.u64 %rd10, %rd3, %rd2; ld.global.v2.u32 {_, %r10}, [%rd10];", 2 * T + 241),
        ("ld.global.v4.u8 {%h0, %h1, %h2, %h3}, [%rd3]; cvt.u32.u16 %r10, %h0;", T + 240 & 255),
        ("ld.global.b64 %rd10, [%rd0+8]; cvt.u32.u64 %r10, %rd10;", np.full(64, 242)),
    ],
)
def test_forms_of_loads(load: str, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(outcome(load, x=words() + 240), expected.astype(np.uint32))


def test_forms_of_stores() -> None:
    body = """
    shl.b32 %r10, %r1, 2;
    cvt.u64.u32 %rd10, %r10;
    add.u64 %rd10, %rd10, %rd1;
    cvt.u16.u32 %h1, %r0;
    st.global.v4.u16 [%rd10], {%h1, %h1, 3, %h1};
    st.global.u8 [%rd10+8], 0x1ff;
    st.u8 [%rd10+9], %r0;
    st.global.wt.b16 [%rd10+10], 7;
    st.global.f32 [%rd10+12], 0f3F800000;
    """
    _, y = run(body)
    rows = y[:256].view(np.uint8).reshape(64, 16)
    half = T.astype(np.uint16)
    np.testing.assert_array_equal(rows[:, :8].view(np.uint16), np.stack([half, half, half * 0 + 3, half], 1))
    np.testing.assert_array_equal(rows[:, 8], 255)
    np.testing.assert_array_equal(rows[:, 9], T)
    np.testing.assert_array_equal(rows[:, 10:12].view(np.uint16)[:, 0], 7)
    np.testing.assert_array_equal(rows[:, 12:].view(np.float32)[:, 0], 1.0)


def test_generic_addresses_of_shared_local_and_global_memory_in_one_instruction() -> None:
    body = """
    .local .align 4 .b8 own[4];
    mov.u64 %rd10, own;
    st.local.u32 [%rd10], 1000;
    cvta.local.u64 %rd10, %rd10;
    st.shared.u32 [%r3], 2000;
    cvt.u64.u32 %rd11, %r3;
    cvta.shared.u64 %rd11, %rd11;
    setp.lt.u32 %p2, %r0, 20;
    selp.b64 %rd12, %rd10, %rd11, %p2;
    setp.gt.u32 %p3, %r0, 50;
    selp.b64 %rd12, %rd3, %rd12, %p3;
    ld.u32 %r10, [%rd12];
    isspacep.shared %p4, %rd12;
    @%p4 add.u32 %r10, %r10, 1;
    """
    np.testing.assert_array_equal(outcome(body), np.where(T < 20, 1000, np.where(T > 50, T, 2001)))


def test_mov_packs_and_unpacks() -> None:
    body = """
    cvt.u16.u32 %h1, %r0;
    mov.b32 %r11, {%h1, %h1};
    mov.b64 %rd10, {%r11, %r0};
    mov.b64 {%r12, %r13}, %rd10;
    mov.b32 {%h2, %h3}, %r12;
    cvt.u32.u16 %r14, %h3;
    prmt.b32 %r15, %r12, %r13, 0x5410;
    add.u32 %r10, %r14, %r15;
    """
    np.testing.assert_array_equal(outcome(body), T + (T | T << 16))


def test_carries_chain_through_wide_additions() -> None:
    body = """
    add.cc.u32 %r11, %r0, 0xfffffff0;
    addc.u32 %r10, %r0, 0;
    """
    np.testing.assert_array_equal(outcome(body), T + (T >= 16))


ATOMICS = {
    "add": lambda old, b: old + b,
    "min": min,
    "max": max,
    "and": lambda old, b: old & b,
    "or": lambda old, b: old | b,
    "xor": lambda old, b: old ^ b,
    "exch": lambda old, b: b,
    "inc": lambda old, b: 0 if old >= b else old + 1,
    "dec": lambda old, b: b if old == 0 or old > b else old - 1,
}


@pytest.mark.parametrize("operation", ATOMICS)
def test_atomics_on_words_that_several_threads_share(operation: str) -> None:
    """Each group of five threads shares a word; lanes act in their order with seed 0."""
    kind = "b32" if operation in {"and", "or", "xor", "exch"} else "u32"
    body = f"""
    div.u32 %r11, %r0, 5;
    mul.wide.u32 %rd10, %r11, 4;
    add.u64 %rd10, %rd10, %rd0;
    mul.lo.u32 %r12, %r0, 37;
    and.b32 %r12, %r12, 63;
    atom.global.{operation}.{kind} %r10, [%rd10], %r12;
    """
    x = words() + 20
    expected_cells, expected = x.copy(), []
    for thread in range(64):
        expected.append(expected_cells[thread // 5])
        expected_cells[thread // 5] = ATOMICS[operation](int(expected_cells[thread // 5]), thread * 37 & 63)
    np.testing.assert_array_equal(outcome(body, x=x), expected)
    np.testing.assert_array_equal(x, expected_cells)


@pytest.mark.parametrize("seed", [0, 3])
def test_atomics_on_vectors_are_those_of_their_elements(seed: int) -> None:
    """Old values may go where operands came from; without results it is a `red`."""
    body = """
    mov.f32 %f1, 0f3F800000;
    mov.f32 %f2, 0f40000000;
    and.b32 %r10, %r0, 1;
    mul.wide.u32 %rd10, %r10, 8;
    add.u64 %rd10, %rd10, %rd0;
    red.global.add.v2.f32 [%rd10], {%f1, 0f40400000};
    atom.global.gpu.acq_rel.add.v2.f32 {%f2, _}, [%rd10], {%f1, %f2};
    st.global.f32 [%rd4], %f2;
    """
    x = np.zeros(4, np.float32)
    _, y = run(body, 64, x=x, seed=seed)
    np.testing.assert_array_equal(x, [64, 160, 64, 160])
    olds = y[:64].view(np.float32).reshape(32, 2).T
    np.testing.assert_array_equal(np.sort(olds, 1), [np.arange(32) + 32] * 2)


def test_atomics_on_vectors_of_halves() -> None:
    body = "mov.b32 %r10, 0x3c000000;\nmov.b32 %r11, 0x3c00;\nred.global.add.noftz.v2.f16x2 [%rd0], {%r10, %r11};\n" * 2
    x = np.zeros(4, np.float16)
    run(body, 32, x=x)
    np.testing.assert_array_equal(x, [0, 64, 64, 0])


def test_a_vector_of_atomics_is_aligned_as_a_whole() -> None:
    (found, *_) = findings("mov.f32 %f1, 0f00000000;\nred.global.add.v4.f32 [%rd0+8], {%f1, %f1, %f1, %f1};")
    assert found.kind == Kind.MISALIGNED


def test_atomics_on_floats_and_packed_halves() -> None:
    body = """
    mov.f32 %f1, 0f3F000000;
    red.global.add.f32 [%rd0], %f1;
    mov.b32 %r11, 0x40003C00;
    atom.global.add.noftz.f16x2 %r12, [%rd0+4], %r11;
    mov.f64 %fd, 0d3FF8000000000000;
    red.global.add.f64 [%rd0+8], %fd;
    cvt.u16.u32 %h1, %r0;
    """.replace("mov.f64 %fd", ".reg .f64 %fd;\nmov.f64 %fd")
    x = np.zeros(1024, np.uint32)
    run(body, x=x)
    assert x[:1].view(np.float32)[0] == 32
    np.testing.assert_array_equal(x[1:2].view(np.float16), [64, 128])
    assert x[2:4].view(np.float64)[0] == 96


def test_compare_and_swap_lets_one_thread_win() -> None:
    body = "add.u32 %r11, %r0, 5;\natom.global.cas.b32 %r10, [%rd0+4], 1, %r11;"
    x = words()
    result = outcome(body, x=x)
    assert x[1] == 5 and list(result[:3]) == [1, 5, 5]


@pytest.mark.parametrize(("count", "transposed"), list(itertools.product([1, 2, 4], [False, True])))
def test_ldmatrix_and_stmatrix_place_rows(count: int, transposed: bool) -> None:
    """Matrix m's row r holds 100 m + 10 r + c in column c; lane l gets columns 2 (l % 4), + 1 of row l / 4."""
    trans = ".trans" if transposed else ""
    registers = ", ".join(f"%r{20 + index}" for index in range(count))
    stores = "\n".join(f"st.global.u32 [%rd12+{128 * index}], %r{20 + index};" for index in range(count))
    body = f"""
    shl.b32 %r11, %r0, 4;
    add.u32 %r12, %r11, %r2;
    cvt.u64.u32 %rd10, %r11;
    add.u64 %rd10, %rd10, %rd0;
    ld.global.v4.u32 {{%r13, %r14, %r15, %r16}}, [%rd10];
    st.shared.v4.u32 [%r12], {{%r13, %r14, %r15, %r16}};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{registers}}}, [%r12];
    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%r12+1024], {{{registers}}};
    bar.warp.sync -1;
    setp.lt.u32 %p2, %r0, {8 * count};
    @%p2 ld.shared.v4.u32 {{%r13, %r14, %r15, %r16}}, [%r12+1024];
    add.u64 %rd10, %rd10, %rd1;
    sub.u64 %rd10, %rd10, %rd0;
    @%p2 st.global.v4.u32 [%rd10], {{%r13, %r14, %r15, %r16}};
    add.u64 %rd12, %rd4, 2048;
    {stores}
    """
    matrix, row, column = np.meshgrid(range(4), range(8), range(8), indexing="ij")
    values = (100 * matrix + 10 * row + column).astype(np.uint16)
    x = words()
    x[:128] = values.reshape(-1).view(np.uint32)
    _, y = run(body, block=32, x=x)
    np.testing.assert_array_equal(y[: 32 * count].view(np.uint16).reshape(count, 8, 8), values[:count])
    lane = np.arange(32)
    for index in range(count):
        got = y[512 + 32 * index : 512 + 32 * index + 32].view(np.uint16).reshape(32, 2)
        tile = values[index].T if transposed else values[index]
        columns = [tile[lane // 4, lane % 4 * 2 + side] for side in (0, 1)]
        np.testing.assert_array_equal(got, np.stack(columns, 1))


def test_cp_async_fills_with_zeros_what_its_source_lacks() -> None:
    body = """
    shl.b32 %r11, %r0, 4;
    add.u32 %r12, %r11, %r2;
    cvt.u64.u32 %rd10, %r11;
    add.u64 %rd11, %rd10, %rd0;
    add.u64 %rd12, %rd10, %rd1;
    and.b32 %r13, %r0, 3;
    mul.lo.u32 %r13, %r13, 5;
    min.u32 %r13, %r13, 16;
    cp.async.cg.shared.global [%r12], [%rd11], 16, %r13;
    setp.lt.u32 %p2, %r0, 10;
    cp.async.ca.shared.global [%r12+2048], [%rd11], 8, %p2;
    cp.async.wait_all;
    ld.shared.v4.u32 {%r14, %r15, %r16, %r17}, [%r12];
    ld.shared.v2.u32 {%r18, %r19}, [%r12+2048];
    st.global.v4.u32 [%rd12], {%r14, %r15, %r16, %r17};
    st.global.v2.u32 [%rd12+1024], {%r18, %r19};
    """
    x = np.random.default_rng(0).integers(0, 256, 4096, dtype=np.uint8)
    _, y = run(body, x=x)
    rows = x[:1024].reshape(64, 16)
    kept = np.arange(16) < np.minimum(T % 4 * 5, 16)[:, None]
    np.testing.assert_array_equal(y.view(np.uint8)[:1024].reshape(64, 16), np.where(kept, rows, 0))
    second = y.view(np.uint8)[1024:2048].reshape(64, 16)[:, :8]
    np.testing.assert_array_equal(second, np.where(T[:, None] < 10, 0, rows[:, :8]))


def test_cp_async_arrives_at_an_mbarrier() -> None:
    body = """
    setp.eq.u32 %p2, %r0, 0;
    @%p2 mbarrier.init.shared.b64 [%r2+1024], 64;
    bar.sync 0;
    cp.async.ca.shared.global [%r3], [%rd3], 4;
    cp.async.mbarrier.arrive.noinc.shared.b64 [%r2+1024];
    WAIT: mbarrier.try_wait.parity.shared.b64 %p3, [%r2+1024], 0;
    @!%p3 bra WAIT;
    ld.shared.u32 %r10, [%r5];
    """
    np.testing.assert_array_equal(outcome(body), T ^ 32)


# Counters


@pytest.mark.parametrize(
    ("access", "stride", "wavefronts", "ideal"),
    [
        ("st.shared.u32 [%r20], %r0;", 4, 1, 1),
        ("st.shared.u32 [%r20], %r0;", 8, 2, 1),
        ("st.shared.u32 [%r20], %r0;", 128, 32, 1),
        ("st.shared.u32 [%r20], %r0;", 132, 1, 1),
        ("st.shared.u8 [%r20], %r0;", 1, 1, 1),
        ("st.shared.u64 [%r20], %rd0;", 8, 2, 2),
        ("st.shared.u64 [%r20], %rd0;", 16, 4, 2),
        ("st.shared.v4.u32 [%r20], {%r0, %r0, %r0, %r0};", 16, 4, 4),
        ("st.shared.v4.u32 [%r20], {%r0, %r0, %r0, %r0};", 32, 8, 4),
        ("st.shared.v4.u32 [%r20], {%r0, %r0, %r0, %r0};", 144, 4, 4),
        ("cp.async.cg.shared.global [%r20], [%rd0], 16;", 128, 32, 4),
    ],
)
def test_bank_conflicts(access: str, stride: int, wavefronts: int, ideal: int) -> None:
    body = f"mad.lo.u32 %r20, %r0, {stride}, %r2;\n{access}"
    totals = emulate(kernel(body, shared=8192), "kernel", 1, 32, [words(), words()]).counters.totals
    assert (totals.shared_wavefronts, totals.shared_ideal) == (wavefronts, ideal)
    assert totals.bank_conflicts == wavefronts - ideal


@pytest.mark.parametrize(("row", "wavefronts"), [(16, 32), (32, 16), (64, 8), (128, 4), (512, 4)])
def test_a_copy_takes_a_pass_for_each_line_of_global_memory(row: int, wavefronts: int) -> None:
    """Rows 512 bytes apart, side by side in shared memory: no bank is met twice. Counted so on an H200, too
    (benchmarks/wavefronts.py)."""
    body = f"""
    shl.b32 %r20, %r0, 4;
    add.u32 %r21, %r20, %r2;
    div.u32 %r22, %r20, {row};
    rem.u32 %r23, %r20, {row};
    mad.lo.u32 %r24, %r22, 512, %r23;
    cvt.u64.u32 %rd10, %r24;
    add.u64 %rd10, %rd10, %rd0;
    cp.async.cg.shared.global [%r21], [%rd10], 16;
    """
    x = np.zeros(32 * 128, np.uint32)
    totals = emulate(kernel(body, shared=8192), "kernel", 1, 32, [x, words()]).counters.totals
    assert (totals.shared_wavefronts, totals.shared_ideal, totals.bank_conflicts) == (wavefronts, 4, 0)


def test_reading_one_word_is_one_wavefront_and_ldmatrix_one_for_each_matrix() -> None:
    body = """
    @%p0 st.shared.u32 [%r2], 1;
    bar.sync 0;
    ld.shared.u32 %r10, [%r2];
    mov.u32 %r11, 0;
    mad.lo.u32 %r12, %r0, 16, %r2;
    st.shared.v4.u32 [%r12], {%r11, %r11, %r11, %r11};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r13, %r14, %r15, %r16}, [%r12];
    """.replace("mad.lo.u32 %r12", "bar.sync 0;\n    mad.lo.u32 %r12")
    by_line = run(body, 32)[0].counters.by_line
    assert by_line[3].shared_wavefronts == 1
    assert by_line[9].shared_wavefronts == by_line[9].shared_ideal == 4


@pytest.mark.parametrize(
    ("stride", "offset", "sectors", "ideal"), [(4, 0, 4, 4), (4, 16, 5, 4), (8, 0, 8, 4), (32, 0, 32, 4), (0, 0, 1, 1)]
)
def test_sectors(stride: int, offset: int, sectors: int, ideal: int) -> None:
    body = f"""
    mul.lo.u32 %r20, %r0, {stride};
    cvt.u64.u32 %rd10, %r20;
    add.u64 %rd10, %rd10, %rd0;
    ld.global.u32 %r10, [%rd10+{offset}];
    """
    totals = run(body, 32)[0].counters.totals
    assert (totals.global_load_sectors, totals.global_ideal_sectors) == (sectors, ideal)
    assert totals.global_store_sectors == 0


def test_divergence_is_counted_for_each_warp() -> None:
    body = """
    setp.lt.u32 %p2, %r0, 16;
    @%p2 bra LOW;
    add.u32 %r10, %r0, 1;
    LOW:
    @%p1 bra END;
    add.u32 %r10, %r0, 1;
    END:
    """
    counters = run(body, 64)[0].counters
    assert (counters.by_line[2].branches, counters.by_line[2].divergent_branches) == (2, 1)
    assert (counters.by_line[5].branches, counters.by_line[5].divergent_branches) == (2, 0)
    assert counters.by_line[3].instructions == 2
    assert counters.by_line[3].thread_instructions == 48
    assert counters.by_line[3].active_lanes == 24
    assert counters.by_line[6].instructions == 1


def test_counters_add_and_become_dictionaries() -> None:
    first = run("bar.sync 0;\nadd.u32 %r10, %r0, 1;")[0].counters
    second = run("add.u32 %r10, %r0, 1;", 32)[0].counters
    both = first + second
    assert both.totals.instructions == first.totals.instructions + second.totals.instructions
    assert both.by_line[1].barriers == 2
    assert both.by_line[1].instructions == 2 + 2  # the second's line 1 has its add and its ret
    assert both.totals.barriers == 2


def test_threads_meet_again_after_long_loops_of_different_lengths() -> None:
    body = """
    mov.u32 %r10, 0;
    mad.lo.u32 %r11, %r0, 10, 1;
    AGAIN: add.u32 %r10, %r10, 1;
    setp.lt.u32 %p2, %r10, %r11;
    @%p2 bra AGAIN;
    add.u32 %r12, %r10, 1;
    """
    line = run(body)[0].counters.by_line
    assert line[6].instructions == 2 + 2  # with the ret
    assert line[3].instructions == 311 + 631


def test_reads_are_recorded_only_where_a_store_may_reach() -> None:
    """A pointer that goes through memory may be any: then reads of x are recorded, and a write to x is found."""
    body = """
    ld.global.u32 %r10, [%rd0];
    st.shared.b64 [%r2], %rd0;
    ld.shared.b64 %rd10, [%r2];
    add.u32 %r10, %r10, 1;
    st.global.u32 [%rd10], %r10;
    """
    run(body, 1)
    two = body.replace("[%r2]", "[%r10]").replace("st.shared", "mad.lo.u32 %r10, %r0, 8, %r2;\n    st.shared", 1)
    (found,) = findings(two.replace("st.global", "@%p0 st.global"), 2)
    assert found.kind is Kind.RACE


# Launches


def test_scalars_structs_and_pointers_are_converted_to_their_parameters() -> None:
    text = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry all(.param .u64 out, .param .f32 f, .param .s32 i, .param .align 4 .b8 s[8],
                    .param .u8 b, .param .f64 d)
{
  .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f<3>; .reg .f64 %d<3>;
  ld.param.u64 %rd0, [out];
  ld.param.f32 %f0, [f];
  ld.param.s32 %r1, [i];
  ld.param.v2.u32 {%r2, %r3}, [s];
  ld.param.u8 %r4, [b];
  ld.param.f64 %d0, [d];
  mov.b64 %rd2, s;
  ld.param.u32 %r5, [%rd2+4];
  cvt.rn.f32.f64 %f1, %d0;
  st.global.f32 [%rd0], %f0;
  st.global.v4.u32 [%rd0+16], {%r1, %r2, %r3, %r4};
  st.global.u32 [%rd0+4], %r5;
  st.global.f32 [%rd0+8], %f1;
  ret;
}"""
    out = np.zeros(8, np.uint32)
    emulate(text, "all", 1, 1, [out, 1.5, -2, np.array([7, 8], np.uint32).tobytes(), np.uint8(200), np.float64(0.25)])
    assert list(out[[0, 2]].view(np.float32)) == [1.5, 0.25]
    assert list(out[4:]) == [2**32 - 2, 7, 8, 200] and out[1] == 8


def test_arguments_are_checked() -> None:
    with pytest.raises(ValueError, match="takes 2 arguments"):
        emulate(kernel(""), "kernel", 1, 1, [words()])
    with pytest.raises(PtxError, match="no entry 'other'"):
        emulate(kernel(""), "other", 1, 1, [])
    with pytest.raises(ValueError, match="sm_90 does not run on sm_80"):
        emulate(kernel(""), "kernel", 1, 1, [words(), words()], arch="sm_80")
    with pytest.raises(ValueError, match="must be bytes"):
        emulate(kernel("").replace(".param .u64 y", ".param .b8 y[8]"), "kernel", 1, 1, [words(), 1])


def test_launches_share_a_memory_and_leave_nothing_behind() -> None:
    memory = Memory()
    x, y = memory.allocate(words(64)), memory.allocate(np.zeros(64, np.uint32))
    body = "ld.global.u32 %r10, [%rd3];\nadd.u32 %r10, %r10, 1;\nst.global.u32 [%rd4], %r10;"
    before = list(memory.allocations)
    emulate(kernel(body), "kernel", 1, 64, [x, y])
    emulate(kernel(body), "kernel", 1, 64, [y, x])
    np.testing.assert_array_equal(memory.read(x, np.uint32, 64), words(64) + 2)
    assert memory.allocations == before
    with pytest.raises(EmulatorError, match="past the end of array"):
        emulate(kernel(body), "kernel", 1, 65, [x, y])


def test_blocks_whose_size_is_not_a_multiple_of_a_warp() -> None:
    body = """
    st.shared.u32 [%r3], %r0;
    bar.sync 0;
    mov.u32 %r11, 44;
    sub.u32 %r11, %r11, %r0;
    mad.lo.u32 %r11, %r11, 4, %r2;
    ld.shared.u32 %r10, [%r11];
    st.global.u32 [%rd6], %r10;
    """
    _, y = run(body, 45, 3)
    np.testing.assert_array_equal(y[:135], np.tile(np.arange(45)[::-1], 3))


def test_a_launch_of_many_waves_is_the_same_with_another_seed() -> None:
    body = "mul.lo.u32 %r10, %r9, 3;\nst.global.u32 [%rd6], %r10;"
    for seed in (0, 3):
        y = np.zeros(300_000, np.uint32)
        run(body, 1000, 300, y=y, seed=seed)
        np.testing.assert_array_equal(y, 3 * words(300_000))


def test_the_kind_of_a_finding_reads_well() -> None:
    (found,) = findings("ld.shared.u32 %r10, [%r3];")
    assert found.kind is Kind.UNINITIALISED
    assert str(found).startswith("uninitialised read: reads shared memory that nobody has written\n  at kernel.src:1")


def test_directives_need_no_space_between_them_and_packed_set_gives_masks() -> None:
    body = """
    { .reg.b32 one, two; mov.b32 one, 0x40003C00; mov.b32 two, 0x3C003C00; set.gt.u32.f16x2 %r10, one, two; }
    """
    np.testing.assert_array_equal(outcome(body), np.full(64, 0xFFFF0000))


def test_empty_grids_and_empty_arrays() -> None:
    empty = np.zeros(0, np.uint32)
    assert emulate(kernel("trap;"), "kernel", 0, 32, [empty, empty]).counters.totals.instructions == 0
    with pytest.raises(EmulatorError, match="out of bounds"):
        emulate(kernel("ld.global.u32 %r10, [%rd3];"), "kernel", 1, 32, [empty, words()])


def test_a_block_has_at_most_1024_threads() -> None:
    with pytest.raises(ValueError, match="a block has 1 to 1024 threads"):
        run("", 1025)
