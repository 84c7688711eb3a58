"""Faults on purpose, each beside its corrected twin: the emulator finds it, at its line, and nothing in the twin.

A `//!` marks the line where the finding belongs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from handwritten import kernel, run, words

from dsl.runtime.emulator import EmulatorError, Finding, Kind, Location, Memory, emulate


@dataclass(frozen=True)
class Fault:
    name: str
    kind: Kind
    broken: str
    fixed: str
    block: Any = 64
    grid: Any = 1
    options: dict[str, Any] = field(default_factory=dict)


FAULTS = [
    Fault(
        "barrier dropped",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        ld.shared.u32 %r10, [%r5];  //!
        st.global.u32 [%rd4], %r10;
        """,
        """
        st.shared.u32 [%r3], %r0;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];
        st.global.u32 [%rd4], %r10;
        """,
    ),
    Fault(
        "write after read",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];
        st.shared.u32 [%r3], %r10;  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];
        bar.sync 0;
        st.shared.u32 [%r3], %r10;
        """,
    ),
    Fault(
        "one of many readers writes",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        bar.sync 0;
        ld.shared.u32 %r10, [%r2];
        setp.eq.u32 %p2, %r0, 63;
        @%p2 st.shared.u32 [%r2], %r10;  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        bar.sync 0;
        ld.shared.u32 %r10, [%r2];
        bar.sync 0;
        setp.eq.u32 %p2, %r0, 63;
        @%p2 st.shared.u32 [%r2], %r10;
        """,
    ),
    Fault(
        "warp-synchronous code without bar.warp.sync",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        ld.shared.u32 %r10, [%r4];  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        bar.warp.sync 0xffffffff;
        ld.shared.u32 %r10, [%r4];
        """,
    ),
    Fault(
        "a shuffle orders nothing",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        shfl.sync.bfly.b32 %r11|%p2, %r0, 1, 31, -1;
        ld.shared.u32 %r10, [%r4];  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        shfl.sync.bfly.b32 %r11|%p2, %r0, 1, 31, -1;
        bar.warp.sync -1;
        ld.shared.u32 %r10, [%r4];
        """,
    ),
    Fault(
        "bar.warp.sync does not reach another warp",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        bar.warp.sync -1;
        ld.shared.u32 %r10, [%r5];  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];
        """,
    ),
    Fault(
        "bar.warp.sync with a mask too small",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        shr.u32 %r11, %r6, 1;
        shl.b32 %r12, 1, %r11;
        and.b32 %r13, %r6, 30;
        shl.b32 %r14, 1, %r6;
        bar.warp.sync %r14;
        ld.shared.u32 %r10, [%r4];  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        shr.u32 %r11, %r6, 1;
        shl.b32 %r12, 1, %r11;
        and.b32 %r13, %r6, 30;
        shl.b32 %r14, 3, %r13;
        bar.warp.sync %r14;
        ld.shared.u32 %r10, [%r4];
        """,
    ),
    Fault(
        "all threads write one word",
        Kind.RACE,
        """
        st.shared.u32 [%r2], %r0;  //!
        """,
        """
        setp.ne.u32 %p2, %r0, 0;
        @!%p2 st.shared.u32 [%r2], %r0;
        """,
    ),
    Fault(
        "bytes of one granule are written by two threads",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        st.shared.u8 [%r4], %r0;  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        st.shared.u8 [%r3], %r0;
        """,
    ),
    Fault(
        "atomic against plain",
        Kind.RACE,
        """
        @%p0 st.shared.u32 [%r3], 0;
        bar.sync 0;
        and.b32 %r11, %r1, 0xffffff80;
        add.u32 %r11, %r11, %r2;
        atom.shared.add.u32 %r10, [%r11], 1;
        @%p0 ld.shared.u32 %r12, [%r11];  //!
        """,
        """
        @%p0 st.shared.u32 [%r3], 0;
        bar.sync 0;
        and.b32 %r11, %r1, 0xffffff80;
        add.u32 %r11, %r11, %r2;
        atom.shared.add.u32 %r10, [%r11], 1;
        bar.sync 0;
        @%p0 ld.shared.u32 %r12, [%r11];
        """,
    ),
    Fault(
        "plain store against a global atomic",
        Kind.RACE,
        """
        atom.global.add.u32 %r10, [%rd1], 1;
        @%p0 st.global.u32 [%rd1], %r0;  //!
        """,
        """
        atom.global.add.u32 %r10, [%rd1], 1;
        @%p0 st.relaxed.gpu.global.u32 [%rd1], %r0;
        """,
    ),
    Fault(
        "volatile against plain",
        Kind.RACE,
        """
        @%p0 st.shared.u32 [%r3], 1;
        @%p0 ld.volatile.shared.u32 %r10, [%r5];  //!
        """,
        """
        @%p0 st.volatile.shared.u32 [%r3], 1;
        bar.sync 0;
        @%p0 ld.volatile.shared.u32 %r10, [%r5];
        """,
    ),
    Fault(
        "a volatile read of what nothing orders",
        Kind.UNORDERED,
        """
        st.volatile.shared.u32 [%r3], %r0;
        ld.volatile.shared.u32 %r10, [%r4];  //!
        """,
        """
        st.volatile.shared.u32 [%r3], %r0;
        bar.warp.sync -1;
        ld.volatile.shared.u32 %r10, [%r4];
        """,
    ),
    Fault(
        "a volatile write over what nothing orders",
        Kind.UNORDERED,
        """
        st.volatile.shared.u32 [%r3], %r0;
        bar.warp.sync -1;
        ld.volatile.shared.u32 %r10, [%r4];
        st.volatile.shared.u32 [%r3], %r10;  //!
        """,
        """
        st.volatile.shared.u32 [%r3], %r0;
        bar.warp.sync -1;
        ld.volatile.shared.u32 %r10, [%r4];
        bar.warp.sync -1;
        st.volatile.shared.u32 [%r3], %r10;
        """,
    ),
    Fault(
        "a volatile flag that nobody waits for",
        Kind.UNORDERED,
        """
        st.volatile.shared.u32 [%r3], 1;
        ld.volatile.shared.u32 %r10, [%r5];  //!
        """,
        """
        st.volatile.shared.u32 [%r3], 1;
        WAIT:
        ld.volatile.shared.u32 %r10, [%r5];
        setp.eq.u32 %p3, %r10, 0;
        @%p3 bra WAIT;
        """,
    ),
    Fault(
        "blocks write one place",
        Kind.RACE,
        "st.global.u32 [%rd4], %r0;  //!",
        "st.global.u32 [%rd6], %r0;",
        grid=4,
    ),
    Fault(
        "a block reads what another wrote",
        Kind.RACE,
        """
        st.global.u32 [%rd6], %r0;
        mov.u32 %r10, %nctaid.x;
        sub.u32 %r10, %r10, %r7;
        sub.u32 %r10, %r10, 1;
        mad.lo.u32 %r10, %r10, %r8, %r0;
        mul.wide.u32 %rd10, %r10, 4;
        add.u64 %rd10, %rd10, %rd1;
        ld.global.u32 %r11, [%rd10];  //!
        """,
        """
        st.global.u32 [%rd6], %r0;
        mov.u32 %r10, %nctaid.x;
        sub.u32 %r10, %r10, %r7;
        sub.u32 %r10, %r10, 1;
        mad.lo.u32 %r10, %r10, %r8, %r0;
        mul.wide.u32 %rd10, %r10, 4;
        add.u64 %rd10, %rd10, %rd0;
        ld.global.u32 %r11, [%rd10];
        """,
        grid=4,
    ),
    Fault(
        "global memory between threads of a block, without a barrier",
        Kind.RACE,
        """
        st.global.u32 [%rd4], %r0;
        xor.b32 %r10, %r1, 128;
        cvt.u64.u32 %rd10, %r10;
        add.u64 %rd10, %rd10, %rd1;
        ld.global.u32 %r11, [%rd10];  //!
        """,
        """
        st.global.u32 [%rd4], %r0;
        xor.b32 %r10, %r1, 128;
        cvt.u64.u32 %rd10, %r10;
        add.u64 %rd10, %rd10, %rd1;
        bar.sync 0;
        ld.global.u32 %r11, [%rd10];
        """,
    ),
    Fault(
        "a flag without a fence",
        Kind.RACE,
        """
        setp.eq.u32 %p2, %r7, 0;
        @!%p2 bra READER;
        st.global.u32 [%rd1+64], 7;
        st.relaxed.gpu.global.u32 [%rd1], 1;
        bra END;
        READER:
        ld.acquire.gpu.global.u32 %r10, [%rd1];
        setp.eq.u32 %p3, %r10, 0;
        @%p3 bra READER;
        ld.global.u32 %r11, [%rd1+64];  //!
        END:
        """,
        """
        setp.eq.u32 %p2, %r7, 0;
        @!%p2 bra READER;
        st.global.u32 [%rd1+64], 7;
        st.release.gpu.global.u32 [%rd1], 1;
        bra END;
        READER:
        ld.acquire.gpu.global.u32 %r10, [%rd1];
        setp.eq.u32 %p3, %r10, 0;
        @%p3 bra READER;
        ld.global.u32 %r11, [%rd1+64];
        END:
        """,
        block=1,
        grid=2,
    ),
    Fault(
        "a fence on one side only",
        Kind.RACE,
        """
        setp.eq.u32 %p2, %r7, 0;
        @!%p2 bra READER;
        st.global.u32 [%rd1+64], 7;
        fence.acq_rel.gpu;
        st.relaxed.gpu.global.u32 [%rd1], 1;
        bra END;
        READER:
        ld.relaxed.gpu.global.u32 %r10, [%rd1];
        setp.eq.u32 %p3, %r10, 0;
        @%p3 bra READER;
        ld.global.u32 %r11, [%rd1+64];  //!
        END:
        """,
        """
        setp.eq.u32 %p2, %r7, 0;
        @!%p2 bra READER;
        st.global.u32 [%rd1+64], 7;
        fence.acq_rel.gpu;
        st.relaxed.gpu.global.u32 [%rd1], 1;
        bra END;
        READER:
        ld.relaxed.gpu.global.u32 %r10, [%rd1];
        setp.eq.u32 %p3, %r10, 0;
        @%p3 bra READER;
        fence.acq_rel.gpu;
        ld.global.u32 %r11, [%rd1+64];
        END:
        """,
        block=1,
        grid=2,
    ),
    Fault(
        "ld.global.nc of what the launch has written",
        Kind.READ_ONLY_ALIAS,
        """
        st.global.u32 [%rd4], %r0;
        ld.global.nc.u32 %r10, [%rd4];  //!
        """,
        """
        st.global.u32 [%rd4], %r0;
        ld.global.u32 %r10, [%rd4];
        """,
    ),
    Fault(
        "writing in place what ld.global.nc has read",
        Kind.READ_ONLY_ALIAS,
        """
        ld.global.nc.u32 %r10, [%rd3];
        st.global.u32 [%rd3], %r10;  //!
        """,
        """
        ld.global.nc.u32 %r10, [%rd3];
        st.global.u32 [%rd4], %r10;
        """,
    ),
    Fault(
        "global read out of bounds",
        Kind.OUT_OF_BOUNDS,
        "ld.global.u32 %r10, [%rd3+4096];  //!",
        "ld.global.u32 %r10, [%rd3+3840];",
    ),
    Fault(
        "global write before the start",
        Kind.OUT_OF_BOUNDS,
        """
        @%p0 st.global.u32 [%rd3+-4], %r0;  //!
        """,
        """
        @!%p0 st.global.u32 [%rd3+-4], %r0;
        """,
    ),
    Fault(
        "shared read out of bounds",
        Kind.OUT_OF_BOUNDS,
        "ld.shared.u32 %r10, [%r3+4096];  //!",
        """
        st.shared.u32 [%r3], 0;
        ld.shared.u32 %r10, [%r3];
        """,
    ),
    Fault(
        "generic address of nothing",
        Kind.OUT_OF_BOUNDS,
        """
        mov.u64 %rd10, 64;
        ld.u32 %r10, [%rd10];  //!
        """,
        """
        ld.u32 %r10, [%rd3];
        """,
    ),
    Fault(
        "store to constant memory",
        Kind.OUT_OF_BOUNDS,
        """
        mov.u64 %rd10, table;
        @%p0 st.global.u32 [%rd10], %r0;  //!
        """,
        """
        mov.u64 %rd10, table;
        ld.const.u32 %r10, [%rd10];
        """,
        options={"module": ".const .align 4 .u32 table[2] = {1, 2};"},
    ),
    Fault(
        "misaligned global access",
        Kind.MISALIGNED,
        "ld.global.v2.u32 {%r10, %r11}, [%rd3];  //!",
        """
        add.u64 %rd10, %rd3, %rd2;
        ld.global.v2.u32 {%r10, %r11}, [%rd10];
        """,
    ),
    Fault(
        "misaligned shared access",
        Kind.MISALIGNED,
        "st.shared.u64 [%r3+4], %rd0;  //!",
        """
        add.u32 %r10, %r3, %r1;
        st.shared.u64 [%r10+8], %rd0;
        """,
    ),
    Fault(
        "dynamic shared memory has only its declared alignment",
        Kind.MISALIGNED,
        """
        shl.b32 %r10, %r0, 4;
        mov.u32 %r11, dynamic;
        add.u32 %r10, %r10, %r11;
        st.shared.v4.u32 [%r10], {%r0, %r0, %r0, %r0};  //!
        """,
        """
        shl.b32 %r10, %r0, 4;
        mov.u32 %r11, dynamic;
        add.u32 %r10, %r10, %r11;
        st.shared.v2.u32 [%r10], {%r0, %r0};
        """,
        options={"module": ".extern .shared .align 8 .b8 dynamic[];", "shared_bytes": 1024},
    ),
    Fault(
        "uninitialised shared memory",
        Kind.UNINITIALISED,
        """
        @%p1 st.shared.u32 [%r3], %r0;
        bar.sync 0;
        ld.shared.u32 %r10, [%r3];  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        bar.sync 0;
        ld.shared.u32 %r10, [%r3];
        """,
    ),
    Fault(
        "uninitialised local memory",
        Kind.UNINITIALISED,
        """
        .local .align 4 .b8 own[16];
        mov.u64 %rd10, own;
        st.local.u32 [%rd10], %r0;
        ld.local.u32 %r10, [%rd10+4];  //!
        """,
        """
        .local .align 4 .b8 own[16];
        mov.u64 %rd10, own;
        st.local.u32 [%rd10], %r0;
        ld.local.u32 %r10, [%rd10];
        """,
    ),
    Fault(
        "copy read before it was waited for",
        Kind.IN_FLIGHT,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.commit_group;
        ld.shared.u32 %r10, [%r3];  //!
        """,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.u32 %r10, [%r3];
        """,
    ),
    Fault(
        "cp.async.wait_group waits for too few groups",
        Kind.IN_FLIGHT,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.commit_group;
        cp.async.ca.shared.global [%r3+1024], [%rd3], 4;
        cp.async.commit_group;
        cp.async.wait_group 2;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];  //!
        """,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.commit_group;
        cp.async.ca.shared.global [%r3+1024], [%rd3], 4;
        cp.async.commit_group;
        cp.async.wait_group 1;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];
        """,
    ),
    Fault(
        "copy never committed is not waited for by its group",
        Kind.IN_FLIGHT,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.wait_group 0;
        ld.shared.u32 %r10, [%r3];  //!
        """,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.wait_all;
        ld.shared.u32 %r10, [%r3];
        """,
    ),
    Fault(
        "wait without barrier",
        Kind.RACE,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.commit_group;
        cp.async.wait_group 0;
        ld.shared.u32 %r10, [%r5];  //!
        """,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.commit_group;
        cp.async.wait_group 0;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];
        """,
    ),
    Fault(
        "barrier without wait",
        Kind.IN_FLIGHT,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.commit_group;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];  //!
        """,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.commit_group;
        cp.async.wait_group 0;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];
        """,
    ),
    Fault(
        "a slot of a double buffer is filled while others still read it",
        Kind.RACE,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.wait_all;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];
        cp.async.ca.shared.global [%r3], [%rd3+256], 4;  //!
        cp.async.wait_all;
        """,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.wait_all;
        bar.sync 0;
        ld.shared.u32 %r10, [%r5];
        bar.sync 0;
        cp.async.ca.shared.global [%r3], [%rd3+256], 4;
        cp.async.wait_all;
        """,
    ),
    Fault(
        "the source of a copy changes before it is complete",
        Kind.SOURCE_CHANGED,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;  //!
        st.global.u32 [%rd3], 77;
        cp.async.wait_all;
        """,
        """
        cp.async.ca.shared.global [%r3], [%rd3], 4;
        cp.async.wait_all;
        st.global.u32 [%rd3], 77;
        """,
    ),
    Fault(
        "a lane is missing at a shuffle",
        Kind.MISSING_LANE,
        """
        setp.lt.u32 %p2, %r6, 16;
        @%p2 bra LOW;
        shfl.sync.bfly.b32 %r10, %r0, 1, 31, -1;
        bra END;
        LOW:
        shfl.sync.bfly.b32 %r10, %r0, 1, 31, -1;
        END:
        """.replace("shfl.sync.bfly.b32 %r10, %r0, 1, 31, -1;", "shfl.sync.bfly.b32 %r10, %r0, 1, 31, -1;  //!", 1),
        """
        setp.lt.u32 %p2, %r6, 16;
        @%p2 bra LOW;
        shfl.sync.bfly.b32 %r10, %r0, 1, 31, 0xffff0000;
        bra END;
        LOW:
        shfl.sync.bfly.b32 %r10, %r0, 1, 31, 0x0000ffff;
        END:
        """,
    ),
    Fault(
        "early exit before a shuffle",
        Kind.MISSING_LANE,
        """
        setp.ge.u32 %p2, %r6, 20;
        @%p2 exit;
        shfl.sync.bfly.b32 %r10, %r0, 16, 31, -1;  //!
        """,
        """
        setp.ge.u32 %p2, %r6, 20;
        shfl.sync.bfly.b32 %r10, %r0, 16, 31, -1;
        @%p2 exit;
        """,
    ),
    Fault(
        "source lane outside the mask",
        Kind.SOURCE_LANE,
        """
        setp.ge.u32 %p2, %r6, 16;
        @%p2 bra END;
        shfl.sync.idx.b32 %r10, %r0, 20, 31, 0xffff;  //!
        END:
        """,
        """
        setp.ge.u32 %p2, %r6, 16;
        @%p2 bra END;
        shfl.sync.idx.b32 %r10, %r0, 10, 31, 0xffff;
        END:
        """,
    ),
    Fault(
        "a lane is not in its own mask",
        Kind.MEMBER_MASK,
        "vote.sync.ballot.b32 %r10, %p0, 0x7fffffff;  //!",
        "vote.sync.ballot.b32 %r10, %p0, 0xffffffff;",
    ),
    Fault(
        "lanes name different masks",
        Kind.MEMBER_MASK,
        """
        setp.lt.u32 %p2, %r6, 16;
        selp.b32 %r10, 0xffff, 0xffffffff, %p2;
        redux.sync.add.u32 %r11, %r0, %r10;  //!
        """,
        """
        setp.lt.u32 %p2, %r6, 16;
        selp.b32 %r10, 0xffff, 0xffff0000, %p2;
        redux.sync.add.u32 %r11, %r0, %r10;
        """,
    ),
    Fault(
        "mma in part of a warp",
        Kind.MISSING_LANE,
        """
        setp.ge.u32 %p2, %r6, 16;
        @%p2 exit;
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r0}, {%r0}, {%f0,%f1,%f2,%f3};  //!
        """,
        """
        setp.ge.u32 %p2, %r6, 16;
        mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r0,%r0}, {%r0}, {%f0,%f1,%f2,%f3};
        @%p2 exit;
        """,
    ),
    Fault(
        "divergent bar.sync",
        Kind.DIVERGENT_BARRIER,
        """
        setp.lt.u32 %p2, %r6, 16;
        @!%p2 bra AFTER;
        bar.sync 0;  //!
        AFTER:
        st.global.u32 [%rd4], %r0;
        """,
        """
        setp.lt.u32 %p2, %r6, 16;
        bar.sync 0;
        @!%p2 bra AFTER;
        AFTER:
        st.global.u32 [%rd4], %r0;
        """,
    ),
    Fault(
        "the two sides of a warp at two barriers",
        Kind.DIVERGENT_BARRIER,
        """
        setp.lt.u32 %p2, %r6, 16;
        @%p2 bra LOW;
        bar.sync 0;  //!
        bra AFTER;
        LOW:
        bar.sync 0;
        AFTER:
        st.global.u32 [%rd4], %r0;
        """,
        """
        @%p1 bra LOW;
        bar.sync 0;
        bra AFTER;
        LOW:
        bar.sync 0;
        AFTER:
        st.global.u32 [%rd4], %r0;
        """,
    ),
    Fault(
        "warps at different barriers",
        Kind.DEADLOCK,
        """
        @%p1 bra LOW;
        bar.sync 1;
        bra AFTER;
        LOW:
        bar.sync 2;
        AFTER:
        st.global.u32 [%rd4], %r0;
        """.replace("bar.sync 1;", "bar.sync 1;  //!"),
        """
        @%p1 bra LOW;
        bar.sync 1;
        bra AFTER;
        LOW:
        bar.sync 1;
        AFTER:
        st.global.u32 [%rd4], %r0;
        """,
    ),
    Fault(
        "a named barrier for more threads than come",
        Kind.DEADLOCK,
        """
        @!%p1 bra AFTER;
        bar.sync 1, 64;  //!
        AFTER:
        st.global.u32 [%rd4], %r0;
        """,
        """
        @!%p1 bra AFTER;
        bar.sync 1, 32;
        AFTER:
        st.global.u32 [%rd4], %r0;
        """,
    ),
    Fault(
        "a named barrier orders only those who come",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        @!%p1 bra AFTER;
        bar.sync 1, 32;
        ld.shared.u32 %r10, [%r5];  //!
        AFTER:
        """,
        """
        st.shared.u32 [%r3], %r0;
        @!%p1 bra OTHER;
        bar.sync 1, 64;
        ld.shared.u32 %r10, [%r5];
        bra AFTER;
        OTHER:
        bar.arrive 1, 64;
        AFTER:
        """,
    ),
    Fault(
        "a named barrier lets a slot be reused too early",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        bar.sync 1, 64;
        ld.shared.u32 %r10, [%r2];
        @%p1 bar.sync 2, 32;
        setp.eq.u32 %p2, %r0, 0;
        @%p2 st.shared.u32 [%r3], %r10;  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        bar.sync 1, 64;
        ld.shared.u32 %r10, [%r2];
        bar.sync 2, 64;
        setp.eq.u32 %p2, %r0, 0;
        @%p2 st.shared.u32 [%r3], %r10;
        """,
    ),
    Fault(
        "a barrier count that is not a multiple of 32",
        Kind.BARRIER_MISUSE,
        "bar.sync 1, 40;  //!",
        "bar.sync 1, 64;",
    ),
    Fault(
        "more arrivals at an mbarrier than it expects",
        Kind.BARRIER_MISUSE,
        """
        setp.eq.u32 %p2, %r0, 0;
        @%p2 mbarrier.init.shared.b64 [%r2], 2;
        bar.sync 0;
        @%p2 mbarrier.arrive.shared.b64 %rd10, [%r2], 3;  //!
        """,
        """
        setp.eq.u32 %p2, %r0, 0;
        @%p2 mbarrier.init.shared.b64 [%r2], 2;
        bar.sync 0;
        @%p2 mbarrier.arrive.shared.b64 %rd10, [%r2], 2;
        """,
    ),
    Fault(
        "an mbarrier that nobody completes",
        Kind.DEADLOCK,
        """
        setp.eq.u32 %p2, %r0, 0;
        @%p2 mbarrier.init.shared.b64 [%r2], 65;
        bar.sync 0;
        mbarrier.arrive.shared.b64 %rd10, [%r2];
        AGAIN:
        mbarrier.try_wait.shared.b64 %p3, [%r2], %rd10;  //!
        @!%p3 bra AGAIN;
        """,
        """
        setp.eq.u32 %p2, %r0, 0;
        @%p2 mbarrier.init.shared.b64 [%r2], 64;
        bar.sync 0;
        mbarrier.arrive.shared.b64 %rd10, [%r2];
        AGAIN:
        mbarrier.try_wait.shared.b64 %p3, [%r2], %rd10;
        @!%p3 bra AGAIN;
        """,
    ),
    Fault(
        "reading behind an mbarrier without waiting",
        Kind.RACE,
        """
        setp.eq.u32 %p2, %r0, 0;
        @%p2 mbarrier.init.shared.b64 [%r2+2048], 64;
        bar.sync 0;
        st.shared.u32 [%r3], %r0;
        mbarrier.arrive.shared.b64 %rd10, [%r2+2048];
        ld.shared.u32 %r10, [%r5];  //!
        """,
        """
        setp.eq.u32 %p2, %r0, 0;
        @%p2 mbarrier.init.shared.b64 [%r2+2048], 64;
        bar.sync 0;
        st.shared.u32 [%r3], %r0;
        mbarrier.arrive.shared.b64 %rd10, [%r2+2048];
        AGAIN:
        mbarrier.try_wait.shared.b64 %p3, [%r2+2048], %rd10;
        @!%p3 bra AGAIN;
        ld.shared.u32 %r10, [%r5];
        """,
    ),
    Fault(
        "distributed shared memory without a cluster barrier",
        Kind.RACE,
        """
        st.shared.u32 [%r3], %r0;
        mov.u32 %r10, %cluster_ctarank;
        xor.b32 %r10, %r10, 1;
        mapa.shared::cluster.u32 %r11, %r3, %r10;
        ld.shared::cluster.u32 %r12, [%r11];  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        mov.u32 %r10, %cluster_ctarank;
        xor.b32 %r10, %r10, 1;
        mapa.shared::cluster.u32 %r11, %r3, %r10;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        ld.shared::cluster.u32 %r12, [%r11];
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        """,
        grid=2,
        options={"cluster": 2},
    ),
    Fault(
        "a block that may end before another has read its memory",
        Kind.OUT_OF_BOUNDS,
        """
        st.shared.u32 [%r3], %r0;
        mov.u32 %r10, %cluster_ctarank;
        xor.b32 %r10, %r10, 1;
        mapa.shared::cluster.u32 %r11, %r3, %r10;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        ld.shared::cluster.u32 %r12, [%r11];  //!
        """,
        """
        st.shared.u32 [%r3], %r0;
        mov.u32 %r10, %cluster_ctarank;
        xor.b32 %r10, %r10, 1;
        mapa.shared::cluster.u32 %r11, %r3, %r10;
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        ld.shared::cluster.u32 %r12, [%r11];
        barrier.cluster.arrive.aligned;
        barrier.cluster.wait.aligned;
        """,
        grid=2,
        options={"cluster": 2},
    ),
    Fault(
        "a loop without end",
        Kind.BUDGET,
        """
        FOREVER:
        add.u32 %r10, %r10, 1;
        bra FOREVER;  //!
        """,
        """
        mov.u32 %r10, 0;
        AGAIN:
        add.u32 %r10, %r10, 1;
        setp.lt.u32 %p2, %r10, 100;
        @%p2 bra AGAIN;
        """,
        options={"budget": 100_000},
    ),
    Fault(
        "trap",
        Kind.TRAP,
        """
        setp.gt.u32 %p2, %r0, 62;
        @%p2 trap;  //!
        """,
        """
        setp.gt.u32 %p2, %r0, 63;
        @%p2 trap;
        """,
    ),
]


def fault_line(body: str) -> int:
    return next(number for number, line in enumerate(body.strip("\n").splitlines(), 1) if "//!" in line)


def launch(body: str, fault: Fault, seed: int) -> None:
    run(body, fault.block, fault.grid, seed=seed, **fault.options)


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_fault_is_found_at_its_line(fault: Fault, seed: int) -> None:
    with pytest.raises(EmulatorError) as error:
        launch(fault.broken, fault, seed)
    finding = error.value.finding
    assert (finding.kind, finding.file, finding.line) == (fault.kind, "kernel.src", fault_line(fault.broken)), finding
    assert finding.block is not None and finding.thread is not None
    assert finding.ptx_line is not None


@pytest.mark.parametrize("seed", [0, 5])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_corrected_twin_is_clean(fault: Fault, seed: int) -> None:
    launch(fault.fixed, fault, seed)


def test_a_spent_budget_ends_a_launch_that_collects() -> None:
    result, _ = run("FOREVER: bra FOREVER;", on_finding="collect", budget=10_000)
    assert [finding.kind for finding in result.findings] == [Kind.BUDGET]


def test_a_race_names_the_last_writer() -> None:
    with pytest.raises(EmulatorError) as error:
        run("st.shared.u32 [%r3], %r0;\nld.shared.u32 %r10, [%r5];")
    finding = error.value.finding
    assert finding.thread == (0, 0, 0)
    assert finding.last_writer is not None
    assert finding.last_writer.startswith("written by thread (32, 0, 0) of block (0, 0, 0) at kernel.src:1")


def test_nothing_is_written_back_after_a_finding() -> None:
    y = np.zeros(1024, np.uint32)
    result, _ = run("st.global.u32 [%rd4], 1;\nst.global.u32 [%rd4+8192], 1;", y=y, on_finding="collect")
    assert [finding.kind for finding in result.findings] == [Kind.OUT_OF_BOUNDS]
    assert not y.any()


def test_collecting_goes_on_and_keeps_one_finding_for_each_place() -> None:
    body = """
    st.shared.u32 [%r3], %r0;
    ld.shared.u32 %r10, [%r5];
    ld.global.u32 %r11, [%rd3+8192];
    trap;
    """
    result, _ = run(body, on_finding="collect")
    assert [finding.kind for finding in result.findings] == [Kind.RACE, Kind.OUT_OF_BOUNDS, Kind.TRAP]
    assert [finding.line for finding in result.findings] == [2, 3, 4]


def test_two_arguments_that_alias_are_one_memory() -> None:
    """A kernel that reads x and writes y is right apart, and races with itself when y is x shifted by one word."""
    body = "ld.global.u32 %r10, [%rd3];\nst.global.u32 [%rd4], %r10;"
    apart = words(64), np.zeros(64, np.uint32)
    run(body, x=apart[0], y=apart[1])
    np.testing.assert_array_equal(*apart)
    whole = words(65)
    with pytest.raises(EmulatorError) as error:
        run(body, x=whole[:64], y=whole[1:])
    assert error.value.finding.kind is Kind.RACE
    memory = Memory()
    pointer = memory.allocate(words(65))
    with pytest.raises(EmulatorError):
        emulate(kernel(body), "kernel", 1, 64, [pointer, pointer + 4])


def test_early_exit_of_part_of_a_warp_does_not_hold_up_a_barrier() -> None:
    body = """
    setp.ge.u32 %p2, %r0, 40;
    @%p2 bra END;
    st.shared.u32 [%r3], %r0;
    bar.sync 0;
    ld.shared.u32 %r10, [%r2];
    st.global.u32 [%rd4], %r10;
    END:
    """
    run(body)


def test_inlined_code_is_reported_with_the_chain_of_its_calls() -> None:
    text = kernel("")
    inlined = """
  .loc 2 5 1, function_name $name, inlined_at 1 9 3
  ld.global.u32 %r10, [%rd3+8192];
  ret;
}"""
    text = text.replace('.file 1 "kernel.src"', '.file 1 "kernel.src"\n.file 2 "library.src"')
    text = text[: text.rindex("  ret;")] + inlined
    with pytest.raises(EmulatorError) as error:
        emulate(text, "kernel", 1, 32, [words(), words()])
    location = error.value.finding.location
    assert location is not None
    assert [(place.file, place.line) for place in location.chain()] == [("library.src", 5), ("kernel.src", 9)]


@pytest.mark.parametrize(("alignment", "fits"), [(8, False), (16, True), (1024, True)])
def test_dynamic_shared_memory_may_be_aligned_to_more(alignment: int, fits: bool) -> None:
    """By a driver, whatever the text declares."""
    (fault,) = (each for each in FAULTS if each.name.startswith("dynamic shared memory"))
    body = fault.broken.replace("v4.u32", "v2.u64").replace("{%r0, %r0, %r0, %r0}", "{%rd0, %rd0}")
    found = run(body, 64, on_finding="collect", shared_alignment=alignment, **fault.options)[0].findings
    assert [each.kind for each in found] == ([] if fits else [Kind.MISALIGNED])


@pytest.mark.parametrize("declared", [512, 1024, 2048, 4096])
@pytest.mark.parametrize("size", ["", "64"])
def test_shared_memory_has_no_more_than_1024_of_the_alignment_that_it_declares(declared: int, size: str) -> None:
    """An H200 has both kinds at 0x400 for .align 2048, 4096 and 8192; what relies on more is found here."""
    text = f"""
.version 8.0
.target sm_90
.address_size 64
{"" if size else ".extern "}.shared .align {declared} .b8 s[{size}];
.visible .entry kernel(.param .u64 y)
{{
  .reg .b32 %r<2>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [y];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, s;
  st.global.u32 [%rd2], %r1;
  ret;
}}
"""
    y = np.zeros(1, np.uint32)
    emulate(text, "kernel", 1, 1, [y], shared_bytes=0 if size else 64)
    assert y[0] % min(declared, 1024) == 0
    assert size or y[0] % (2 * min(declared, 1024)) != 0
    assert declared <= 1024 or y[0] % declared != 0


def test_a_finding_tells_the_lines_that_are_known_and_no_others() -> None:
    """A workspace that nobody wrote has neither."""
    place = Location("kernel.src", 7)
    assert str(Finding(Kind.TRAP, "it traps", location=place, ptx_line=9)).endswith("\n  at kernel.src:7 (PTX line 9)")
    assert str(Finding(Kind.TRAP, "it traps", ptx_line=9)).endswith("\n  at no source line (PTX line 9)")
    assert str(Finding(Kind.TRAP, "it traps", location=place)).endswith("\n  at kernel.src:7")
    assert str(Finding(Kind.NOT_ZERO, "a word is 3")) == "workspace not zero: a word is 3"
