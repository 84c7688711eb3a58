"""What the ISA or ptxas refuses, the emulator refuses when it reads the text, with the line and one plain sentence."""

from __future__ import annotations

import random
import re
import subprocess
from typing import Any

import pytest
from handwritten import findings, kernel, run, words
from ptx_mutations import generated, legal_lines

from dsl.runtime.emulator import Kind, PtxError, emulate
from dsl.runtime.emulator.launch import program_of
from dsl.runtime.errors import LaunchError
from dsl.runtime.tools import assemble, find
from tests.work import at_most

REFUSED = """
shfl.sync.rot.b32 %r10, %r11, 1, 31, -1;                 the nearest is shfl.sync
shfl.sync.idx.u32 %r10, %r11, 1, 31, -1;                 no form
shfl.idx.b32 %r10, %r11, 1, 31;                          no form
div.f32 %f1, %f2, %f3;                                   no form that the emulator knows; the nearest are div
rcp.f32 %f1, %f2;                                        no form
sqrt.f32 %f1, %f2;                                       no form
ex2.f32 %f1, %f2;                                        no form
mad.f32 %f1, %f2, %f3, %f4;                              no form
fma.f32 %f1, %f2, %f3, %f4;                              no form
fma.rn.oob.f16 %h1, %h2, %h3, %h4;                       no form
add.relu.f32 %f1, %f2, %f3;                              no form
add.rn.rz.f32 %f1, %f2, %f3;                             no form
add.sat.u32 %r10, %r11, %r12;                            no form
add.u8 %r10, %r11, %r12;                                 no form
add.f32 %f1, %f2, 1;                                     the integer 1 is no constant of type .f32
add.u32 %r10, %r11, 1.5;                                 the constant 1.5 is no .u32
add.u32 %f1, %r11, %r12;                                 register %f1 of type .f32 does not fit .u32
add.u32 %r10, %r11, %rd1;                                register %rd1 of type .b64 does not fit .u32
add.u32 %r10, %r11, %tid.x;                              the special register %tid.x is read by mov only
add.u64 %rd10, %rd11, buffer;                            buffer is an address, not a register
add.u32 _, %r11, %r12;                                   cannot drop its result
add.f16 %h1, %h2, 1.0;                                   is not a register of type .f16
mul.u32 %r10, %r11, %r12;                                no form
neg.u32 %r10, %r11;                                      no form
selp.b32 %r10, %r11, %r12, %r13;                         register %r13 of type .b32 does not fit .pred
setp.lo.s32 %p2, %r10, %r11;                             no form
setp.lt.b32 %p2, %r10, %r11;                             no form
setp.eq.f16 %p2|%p3, %h1, %h2;                           no source|is not a register
cvt.u32.f32 %r10, %f1;                                   no form
cvt.f32.u32 %f1, %r10;                                   no form
cvt.sat.u32.u16 %r10, %h1;                               no form
mov.u32 %r10, {31};                                      no form|is not a vector|cannot stand
mov.u32 {%r10}, %tid.x;                                  no form|is not a register
mov.f32 %f1, {%f2};                                      no form|is not a vector|cannot stand
st.shared.u32 {[%r10]}, %r11;                            an address stands in no list
.param .align 8 .b8 q[8]; mov.u64 %rd10, q;              q is a parameter of a call, which has no address
.param .f16x2 q;                                         a parameter is no .f16x2
.param .b32 q.5;                                         expected the name of a variable
mov.b32 {%h1, %h2}, {%r10};                              the destination {%h1, %h2} is not a register
mov.b32 {%r10}, {%r11};                                  no form|is not a register|cannot stand
cvt.u64.u32 %rd10, buffer;                               buffer is an address
cvta.global.u64 %rd10, buffer;                           buffer lies in .shared, not in .global
cvta.global.u64 %rd10, kernel;                           kernel is a function
cvta.global.u64 %rd10, %clock64;                         the special register %clock64 is read by mov only
cvt.sat.s16.s32 %h1, buffer;                             buffer is an address
cvt.pack.sat.s8.s32.b32 %f1, %r10, %r11, %r12;           register %f1 of type .f32 does not fit .i32
cvt.rz.bf16.u32 %r10, %r11;                              register %r10 of type .b32 does not fit .bf16
cvt.rz.ftz.f32.f64 %rd10, %rd11;                         register %rd10 of type .b64 does not fit .f32
cvt.rna.tf32.f32 %f1, %f2;                               register %f1 of type .f32 does not fit .tf32
cvt.u64.u32 %rd10, %h1;                                  register %h1 of type .b16 does not fit .u32
mov.u64 %rd10, %tid.x;                                   the special register %tid.x does not fit .u64
mov.b32 %r10, {%h1, %h2, %h3};                           cannot stand for a .b32
add.u32 %r10, {%r11}, %r12;                              cannot stand for a .u32
ld.shared.v2.u32 {%r10}, [%r2];                          not
atom.shared.add.v2.f32 {%f1, %f2}, [%r2], {%f1, %f2};    no form
red.global.add.v8.f32 [%rd3], {%f1, %f1, %f1, %f1, %f1, %f1, %f1, %f1}; no form
atom.global.add.v2.u32 {%r10, %r11}, [%rd3], {%r12, %r13}; no form
mov.u64 {%r10, %r11}, %rd1;                              not a register
ld.shared.f16 %h1, [%r2];                                no form
ld.shared.u32 %f1, [%r2];                                register %f1 of type .f32 does not fit .u32
ld.global.u32 %r10, [%r2];                               too narrow for an address
ld.u32 %r10, [%h1];                                      holds no address
ld.shared.u32 %r10, [%h1];                               register %h1 of type .b16 holds no address
ld.global.u32 %r10, [buffer];                            buffer lies in .shared, not in .global
ld.const.u32 %r10, [16];                                 a number is an address in .local only
ld.shared.u32 %r10, %r2;                                 not an address in brackets
ld.param.u64 %rd10, [x+8];                               8 bytes at 8 are past the end of x, of 8 bytes
ld.param.u32 %r10, [x+6];                                past the end
ld.param.v2.u64 {%rd10, %rd11}, [x];                     past the end
ld.nc.u32 %r10, [%rd3];                                  no form
ld.volatile.const.u32 %r10, [%rd3];                      no form
ld.relaxed.u32 %r10, [%rd3];                             no form
ld.global.v4.u64 {%rd10, %rd11, %rd12, %rd13}, [%rd3];   wider than 16 bytes|needs .target
ld.global.v8.u32 {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, [%rd3];  it needs .target sm_100 or later
ld.shared.v2.u32 {%r10, %rd10}, [%r2];                   several widths
ld.shared.v4.u32 {%r10, %r11}, [%r2];                    is not a vector of 4
st.param.b64 [x], %rd1;                                  the parameter x can only be read
st.const.u32 [%rd3], %r10;                               no form
st.shared.f32 [%r2], 1;                                  the integer 1 is no constant
atom.add.s64 %rd10, [%rd3], 1;                           no form
atom.exch.u32 %r10, [%rd3], 1;                           no form
atom.local.add.u32 %r10, [%rd3], 1;                      no form
red.acquire.gpu.add.u32 [%rd3], 1;                       no form
cp.async.ca.shared.global [%r2], [%rd3], 32;             the constant 32 is not 4, 8 or 16
cp.async.cg.shared.global [%r2], [%rd3], 4;              the constant 4 is not 16
cp.async.ca.shared.global [%r2], [%rd3], 8, 9;           the constant 9 is not in 0 to 8
cp.async.ca.shared.global [%r2], [%rd3], 16, %rd10;      does not fit
cp.async.ca.global.shared [%r2], [%rd3], 16;             no form
cp.async.ca.shared.global [%r2], [buffer], 16;           lies in .shared
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f16 [%rd0], [%r2], 16;  no form
cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%rd0], [%r2], 16;  no form
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s64 [%rd0], [%r2], 16;  no form
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd0], [%r2], 16, %rd0;  it takes 3 operands, not 4
cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.im2col_no_offs.bulk_group [%rd0, {%r0, %r0}], [%r2];  no form
cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd0], [%r2], 16, %h1;  no form
cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 24;  a multiple of 16 bytes from 0 to 1048560, not 24
cp.async.bulk.prefetch.L2.global [%rd0], 1048576;        a multiple of 16 bytes from 0 to 1048560, not 1048576
st.async.shared::cluster.mbarrier::complete_tx::bytes.b16 [%r2], %h1, [%r2];  no form
st.async.shared::cluster.b32 [%r2], %r1, [%r2];          no form
red.async.relaxed.gpu.global.add.u32 [%rd0], %r1;        no form
fence.proxy.tensormap::generic.acquire.gpu [%rd0], 64;   the constant 64 is not 128
tensormap.replace.tile.rank.b1024.b32 [%rd0], 1;         it needs .target sm_90a
tensormap.replace.tile.swizzle_atomicity.b1024.b32 [%rd0], 0;  no form
multimem.red.relaxed.gpu.global.add.u32 [%rd0], %r1;     multimem is for the memory of several devices
lop3.b32 %r10, %r11, %r12, %r13;                         it takes 5 operands, not 4
bfe.u32 %r10, %r11, 300, 5;                              the constant 300 is not in 0 to 255
bra.foo NEAR;                                            no form
bra NOWHERE;                                             unknown label NOWHERE
bra %r10;                                                unknown label
@%r10 bra NEAR;                                          the guard %r10 is not a predicate
exit.uni;                                                no form
mma.sync.aligned.m16n8k8.col.row.f32.f16.f16.f32 {%f0,%f1,%f2,%f3}, {%r10,%r11}, {%r14}, {%f0,%f1,%f2,%f3}; no form
ldmatrix.sync.aligned.m8n8.x1.shared.b16 %r10, [%r2];    is not a vector of 1
redux.sync.add.b32 %r10, %r11, -1;                       no form
redux.sync.xor.b32 %f1, %r10, -1;                        register %f1 of type .f32 does not fit .i32
bar.warp.sync %f1;                                       register %f1 of type .f32 does not fit .i32
vote.sync.ballot.b32 %r10, %p0, 0f3f800000;              the constant 1.0 is no .i32
bar.arrive 1, 0;                                         0 are none
mbarrier.init.shared.b64 [%r2], 0;                       an mbarrier counts 1 to 1048575 arrivals, not 0
mbarrier.init.shared.b64 [%r2], 1048576;                 an mbarrier counts 1 to 1048575 arrivals, not 1048576
mbarrier.arrive.shared.b64 %rd10, [%r2], -1;             an mbarrier counts 1 to 1048575 arrivals, not -1
mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 2;      the constant 2 is not 0 or 1
createpolicy.fractional.L2::evict_first.b64 %rd10, 1.5;  the fraction 1.5 is not above 0 and at most 1
movmatrix.sync.aligned.m8n8.trans.b16 %r10, 0;           0 is not a register
stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {0};     has no register
ldmatrix.sync.aligned.m8n8.x1.shared.b16 {_}, [%r2];     drops the whole result
ld.global.v2.u32 {_, _}, [%rd3];                         drops the whole result
.reg .f16x2 q; shl.b32 %r10, %r11, q;                    register q of type .f16x2 does not fit .u32
elect.sync %r10, -1;                                     two destinations
call (%r10), nothing, (%r11);                            is no function of the module
call (%r10), 5, (%r11);                                  is no function of the module
call 5;                                                  is no function of the module
mov.f32 %f1, -0f3f800000;                                has its sign in its bits
mov.u32 %r10, 99999999999999999999;                      is not an integer of 64 bits
mov.u32 %r10, 08;                                        is not an integer
ld.shared.u32 %r10, [%r2-4];                             expected ']'
mov.u32 %r10, %r11, ;                                    among the operands
NEAR:                                                    the label NEAR is declared twice
NEAR: .branchtargets NOWHERE;                            unknown label|unknown
.reg .b32 %r10;                                          %r10 is declared twice
.reg .f99 q;                                             cannot be .f99
.reg .b32 q<-1>;                                         0 to 100000 registers
.reg .v4 .f64 q;                                         16 bytes at most
.reg .b32 q[4];                                          expected
.shared .align 3 .b8 q[4];                               a power of two, and here at most 65536, not 3
.shared .align 0 .b8 q[4];                               a power of two, and here at most 65536, not 0
.shared .align 1073741824 .b8 q[4];                      at most 65536, not 1073741824
.shared .b8 q[0];                                        no extent
.shared .b8 q[-4];                                       no extent
.shared .b8 q[];                                         no size
.shared .b32 q = 5;                                      cannot have an initial value
.shared .pred q;                                         a predicate cannot lie in .shared
.shared .b8 q[1099511627776];                            at most
.frobnicate 5;                                           unknown directive
.pragma nounroll;                                        expected a string
;                                                        expected an instruction
"""


def rows() -> list[tuple[str, str]]:
    found = []
    for line in REFUSED.strip().splitlines():
        body, reason = (
            re.split(r"(?<=[;:\w])\s{1,}(?=[^;]*$)", line, maxsplit=1)
            if "  " not in line
            else re.split(r"\s{2,}", line, maxsplit=1)
        )
        found.append((body, reason))
    return found


@pytest.mark.parametrize(("body", "reason"), rows())
def test_what_the_isa_refuses_is_refused_with_its_line(body: str, reason: str) -> None:
    with pytest.raises(PtxError, match=rf"(?s)PTX line \d+: .*({'|'.join(map(re.escape, reason.split('|')))})"):
        run(f"bra END;\nNEAR:\n{body}\nEND:")


MODULES = """
.global .align 3 .b8 q[4];                     a power of two
.global .b8 q[2] = {1, 2, 3};                  more initial values than elements
.global .b8 q[2][2] = {1, 2, 3, 4};            expected '{'
.global .b8 q[4] = {1, 2,};                    expected a constant
.global .f32 q = 1;                            is no value of type .f32
.global .u32 q = 1.0;                          is no value of type .u32
.global .f16 q = 1.0;                          cannot have an initial value
.global .u64 q = q;                            is no variable
.global .u64 q = nowhere;                      is no variable
.global .u32 q = nowhere;                      does not fit
.global .b32 q; .global .b32 q;                declared twice
.global .b32 kernel;                           declared twice
.reg .b32 q;                                   unknown directive
.local .b32 q;                                 unknown directive
.visible .visible .global .b32 q;              unknown directive
.extern .global .b32 q;                        of another module
.func f() { L: L: ret; }                       is declared twice
.func f() { add.relu.f32 %f1, %f1, %f1; ret; } no form
.func f(.param .b32 a, .param .b32 a) { ret; } two parameters a
.func (.param .b32 r) f(.param .b32 a) { .reg .b32 q; ld.param.b32 q, [r]; ret; } can only be written
.func f(.param .b32 a) { st.param.b32 [a], 1; ret; } can only be read
.func f();                                     has no body
.func f() { ret; } .func f() { ret; }          declared twice
.func f(.param .b32 a); .func f() { ret; }     other parameters
.entry f(.reg .b32 a) { ret; }                 cannot lie in .reg
.entry f(.param .b8 a[32765]) { ret; }         at most
.entry f(.param .b32 a,) { ret; }              expected a parameter
.entry f() .maxntid 0 { ret; }                 one to three sizes
.entry f() .maxntid 8 .reqntid 8 { ret; }      both
.entry f() .minnctapersm 0 { ret; }            from 1 on
.entry f() .frob 3 { ret; }                    unexpected
.version 8.0                                   unknown directive
.alias f, g;                                   not supported
"""


MATRICES = """
m16n8k8.row.col.f32.tf32.tf32.f32 F F rr F    register %f0 of type .f32 does not fit .tf32
m16n8k8.row.col.f32.bf16.bf16.f32 F rr i F    0 is not a register of type .bf16x2
m16n8k16.row.col.f32.f16.f16.f32 F R ii F     0 is not a register of type .f16x2
m16n8k16.row.col.f32.f16.f16.f32 _ R rr F     drops the whole result
m16n8k32.row.col.f16.e5m2.e5m2.f16 rr R rr m  register %f1 of type .f32 does not fit .f16x2
m16n8k32.row.col.s32.s8.s8.s32 R R ii I       {0, 0} has no register
"""
VECTORS = {"F": "{%f0, %f1, %f2, %f3}", "R": "{%r0, %r1, %r2, %r3}", "rr": "{%r0, %r1}", "i": "{0}", "ii": "{0, 0}"}
VECTORS |= {"I": "{0, 0, 0, 0}", "_": "{_, _, _, _}", "m": "{%f1, %r1}"}


@pytest.mark.parametrize("line", MATRICES.strip().splitlines())
def test_operands_of_matrices_that_are_none(line: str) -> None:
    name, d, a, b, c, reason = line.split(maxsplit=5)
    with pytest.raises(PtxError, match="|".join(map(re.escape, reason.split("|")))):
        run(f"mma.sync.aligned.{name} {', '.join(VECTORS[each] for each in (d, a, b, c))};")


@pytest.mark.parametrize(
    "line",
    [
        "m16n8k16.row.col.f32.f16.f16.f32 F R m F",  # registers of several types are bits
        "m16n8k32.row.col.s32.s8.s8.s32 R R rr I",
    ],
)
def test_operands_of_matrices_that_ptxas_takes(line: str) -> None:
    name, *operands = line.split()
    program_of(kernel(f"mma.sync.aligned.{name} {', '.join(VECTORS[each] for each in operands)};"), "kernel")


@pytest.mark.parametrize("line", MODULES.strip().splitlines())
def test_declarations_that_are_none(line: str) -> None:
    text, reason = (
        re.split(r"\s{2,}", line, maxsplit=1)
        if "  " in line
        else (
            line[: line.rindex("}") + 1],
            line[line.rindex("}") + 2 :],
        )
    )
    with pytest.raises(PtxError, match=rf"(?s)PTX line \d+: .*{re.escape(reason)}"):
        run("", module=text)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((".version 8.6\n", ""), "expected .version"),
        ((".version 8.6", ".version 8"), "no version"),
        ((".version 8.6", ".version 7.0"), "sm_90 needs PTX .version 7.8"),
        ((".target sm_90", ".target sm_91"), "no target sm_91"),
        ((".target sm_90", ".target sm_90, frob"), "no option frob"),
        ((".address_size 64", ".address_size 32"), "64 bits"),
    ],
)
def test_headers_that_are_none(change: tuple[str, str], reason: str) -> None:
    with pytest.raises(PtxError, match=reason):
        emulate(kernel("").replace(*change), "kernel", 1, 32, [words(), words()])


def test_instructions_need_their_target_and_version() -> None:
    copies = "cp.async.ca.shared.global [%r2], [%rd0], 16;"
    for old, new, message in (
        (".target sm_90", ".target sm_70", "sm_80 or later"),
        (".version 8.6\n.target sm_90", ".version 6.5\n.target sm_75", "sm_80 or later"),
    ):
        with pytest.raises(PtxError, match=message):
            program_of(kernel(copies).replace(old, new), "kernel")
    with pytest.raises(PtxError, match=r"8\.3"):
        program_of(kernel("ld.param::entry.u64 %rd10, [x];").replace(".version 8.6", ".version 8.0"), "kernel")
    for name in ("arrive", "arrive_drop"):
        relaxed = kernel(f"mbarrier.{name}.relaxed.cta.shared.b64 %rd10, [%r2], 2;").replace("8.6", "8.5")
        with pytest.raises(PtxError, match=r"8\.6 or later"):
            program_of(relaxed, "kernel")
    bulk = "[%rd0], [%r2], 16;"
    for line, version in (
        (f"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 {bulk}", "8.0"),
        ("cp.async.bulk.prefetch.L2.global [%rd0], 16;", "8.0"),
        ("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r2], %r1, [%r2];", "8.1"),
        ("fence.proxy.tensormap::generic.release.cta;", "8.3"),
    ):
        program_of(kernel(line).replace("8.6", version), "kernel")
        with pytest.raises(PtxError, match=rf"{re.escape(version)} or later"):
            program_of(kernel(line).replace("8.6", "7.8"), "kernel")
        with pytest.raises(PtxError, match="sm_90 or later"):
            program_of(kernel(line).replace("sm_90", "sm_89"), "kernel")
    with pytest.raises(PtxError, match="sm_90a"):
        program_of(kernel("setmaxnreg.inc.sync.aligned.u32 64;"), "kernel")


def test_shared_memory_of_a_kernel_is_48_kib_at_most() -> None:
    emulate(kernel("@%p0 st.shared.u32 [%r2], 1;", shared=48 << 10), "kernel", 1, 32, [words(), words()])
    with pytest.raises(PtxError, match=r"49168 bytes of .shared memory, of 49152 at most; declare more as .extern"):
        program_of(kernel("", shared=(48 << 10) + 16), "kernel")
    with pytest.raises(PtxError, match=r"of \.const memory"):
        program_of(kernel("", ".const .b8 big[65537];"), "kernel")


@pytest.mark.parametrize(
    ("target", "module", "body", "taken"),
    [
        ("sm_90", "", ".shared .b8 a[49152];", False),  # beside the kernel's own, whether it is used or not
        ("sm_90", ".shared .b8 a[65536];", "", True),  # nobody names it
        ("sm_90", ".shared .b8 a[65536];", "mov.u32 %r10, a;", False),
        ("sm_90", ".entry other() { .shared .b8 a[65536]; ret; }", "", False),
        ("sm_90a", "", ".shared .b8 a[65536];", True),  # launched on an H200
        ("sm_90a", "", ".shared .b8 a[232448];", False),
        ("sm_100f", "", ".shared .b8 a[65536];", False),
        ("sm_120a", "", ".shared .b8 a[65536];", True),
        ("sm_120a", "", ".shared .b8 a[102400];", False),
    ],
)
def test_static_shared_memory_is_what_ptxas_takes(target: str, module: str, body: str, taken: bool) -> None:
    text = kernel(f"{body}\n@%p0 st.shared.u32 [%r2], 1;", module).replace("sm_90", target).replace("8.6", "9.0")
    try:
        assemble(text, target)
    except LaunchError as error:
        assert not taken and "too much shared data" in str(error)
    else:
        assert taken
    try:
        program_of(text, "kernel")
    except PtxError as error:
        assert not taken and "bytes of .shared memory" in str(error)
    else:
        assert taken


@pytest.mark.parametrize(
    ("directive", "block", "reason"),
    [
        (".reqntid 32", 64, r"blocks of \(32, 1, 1\), not \(64, 1, 1\)"),
        (".reqntid 8, 8", 64, r"blocks of \(8, 8, 1\)"),
        (".maxntid 32", 64, "at most 32 threads, not 64"),
        (".maxntid 8, 4", (8, 8), "at most 32 threads, not 64"),
        (".reqntid 8, 8", (8, 8), ""),
        (".maxntid 8, 8", 64, ""),
    ],
)
def test_the_launch_fits_the_kernel(directive: str, block: Any, reason: str) -> None:
    text = kernel("").replace(".param .u64 y)\n", f".param .u64 y) {directive}\n")
    assert directive in text
    if reason:
        with pytest.raises(ValueError, match=reason):
            emulate(text, "kernel", 1, block, [words(), words()])
    else:
        emulate(text, "kernel", 1, block, [words(), words()])


def test_a_uniform_branch_that_diverges_is_found() -> None:
    body = """
    setp.lt.u32 %p2, %r0, 40;
    @%p2 bra.uni END;
    mov.u32 %r10, 1;
    END:
    """
    (found,) = findings(body)
    assert found.kind is Kind.DIVERGENT_BRANCH and found.line == 2 and found.thread == (40, 0, 0)
    assert not findings(body.replace("40", "32")), "warps may go apart"
    assert [each.kind for each in findings("@%p0 ret.uni;\nmov.u32 %r10, 1;")] == [Kind.DIVERGENT_BRANCH]


def test_a_switch_beyond_its_targets_is_found() -> None:
    body = """
    table: .branchtargets A, B;
    and.b32 %r11, %r0, 3;
    min.u32 %r11, %r11, 2;
    brx.idx %r11, table;
    A:
    B:
    """
    (found,) = findings(body)
    assert found.kind is Kind.BRANCH_TARGET and found.line == 4 and found.thread == (2, 0, 0)


def test_all_forms_of_the_table_are_ptx_and_are_read(tmp_path: Any) -> None:
    """Two instructions of each form of the table, with modifiers at random."""
    for target in ("sm_80", "sm_90", "sm_90a", "sm_100", "sm_120a"):
        text = generated(target, legal_lines(target, random.Random(target), 2))
        program_of(text, "kernel")
        path = tmp_path / f"{target}.ptx"
        path.write_text(text)
        command = [find("ptxas"), "-O0", f"-arch={target}", str(path), "-o", str(tmp_path / "out")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[:2000]


def doubling(depth: int) -> str:
    """Functions of which each calls the one before twice."""
    functions = [".func f0() { ret; }"]
    functions += [f".func f{each}() {{ call f{each - 1}; call f{each - 1}; ret; }}" for each in range(1, depth)]
    return "\n".join(functions)


BOMBS = {
    "registers": (lambda: run(".reg .b32 q<100000000>;"), "0 to 100000 registers"),
    "many registers": (lambda: run("\n".join(f".reg .b32 q{each}<50000>;" for each in range(3))), "registers"),
    "braces": (lambda: run("{" * 100_000 + "}" * 100_000), "braces in braces"),
    "open braces": (lambda: run("{" * 100_000), "braces in braces"),
    "brackets": (lambda: run("mov.b32 %r10, " + "[" * 100_000), "in an address"),
    "vectors": (lambda: run("mov.b32 %r10, " + "{" * 100_000), "among the operands"),
    "signs": (lambda: run("mov.b32 %r10, " + "-" * 100_000 + "5;"), "among the operands"),
    "digits": (lambda: run("mov.b32 %r10, " + "9" * 100_000 + ";"), "64 bits"),
    "calls": (lambda: run("call f39;", module=doubling(40)), "instructions"),
    "recursion": (lambda: run("call f;", module=".func f() { call f; ret; }"), "recursive"),
    "shared": (lambda: run(f".shared .b8 q[{1 << 40}];"), "at most"),
    "global": (lambda: run("", module=f".global .b8 q[{1 << 40}];"), "at most"),
    "extents": (lambda: run("", module=".global .b8 q" + "[2]" * 20_000 + ";"), "no extent"),
    "values": (lambda: run("", module=".global .b8 q[4] = " + "{" * 100_000), "expected"),
    "strings": (lambda: run("", module='"' + "\\" * 400_000), "a string without an end"),
    "comments": (lambda: run("", module="/* \n" * 200_000), "a comment without an end"),
    "constants": (lambda: run("mov.b32 %r10, " + "1 ? 1 : " * 100_000), "signs and brackets in each other"),
    "text": (lambda: run("//" + "x" * (65 << 20)), "characters"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_soon(name: str) -> None:
    action, message = BOMBS[name]
    with at_most(calls=8_000_000), pytest.raises(PtxError, match=message):
        action()


def test_blanks_at_the_end_are_read_soon() -> None:
    with at_most(calls=8_000_000):
        program_of(kernel("") + " " * 1_000_000, "kernel")


def test_a_text_that_ends_anywhere_is_no_internal_error() -> None:
    text = kernel("add.u32 %r10, %r11, 1;").rstrip()
    for end in range(text.index(".loc"), len(text)):
        with pytest.raises(PtxError):
            program_of(text[:end], "kernel")


def test_many_braces_side_by_side_are_read() -> None:
    with at_most(calls=8_000_000):
        program_of(kernel("{ mov.u32 %r10, 1; }\n" * 3_000), "kernel")


PRINT = """
.extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 buffer);
.global .align 1 .b8 text[4] = {37, 115, 10, 0};
"""


@pytest.mark.parametrize("arguments", ["5, 6", "text, 0", "%rd0, 1.5", "text, %rd9"])
def test_calls_of_the_driver_with_addresses_that_are_none(arguments: str) -> None:
    body = f"""
    mov.u64 %rd9, 0;
    {{ .param .b32 r; call (r), vprintf, ({arguments}); }}
    """
    try:
        found = findings(body, 32, module=PRINT)
    except PtxError:
        return
    assert {each.kind for each in found} <= {Kind.OUT_OF_BOUNDS}


@pytest.mark.parametrize("options", [{"shared_bytes": 1 << 40}, {"shared_bytes": 228 << 10}])
def test_a_launch_has_the_shared_memory_of_a_device_at_most(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="bytes of shared memory"):
        emulate(kernel(""), "kernel", 1, 32, [words(), words()], **options)


def test_local_memory_of_many_threads_is_limited() -> None:
    text = kernel(".local .b8 own[500000];\nst.local.b8 [own], 1;")
    emulate(text, "kernel", 1, 32, [words(), words()])
    with pytest.raises(ValueError, match="bytes of local memory"):
        emulate(text, "kernel", 1, 1024, [words(), words()])
