"""Registers that nobody wrote: found where their values matter, and not where a compiler leaves them on purpose.

Of the registers below, %r20 and %rd20, %p9, %f9 are written by nobody; a `//!` marks the line of the finding.
"""

import numpy as np
import pytest
from handwritten import kernel, run

from dsl.runtime.emulator import EmulatorError, Kind
from dsl.runtime.emulator.launch import program_of

OUT = "st.global.u32 [%rd4], %r10;"

MATTERS = {
    "stored": "st.global.u32 [%rd4], %r20;  //!",
    "stored in shared memory": "st.shared.u32 [%r3], %r20;  //!",
    "one part of a vector": "add.u64 %rd11, %rd4, %rd2;\nst.global.v2.u32 [%rd11], {%r0, %r20};  //!",
    "moved and stored": "mov.u32 %r11, %r20;\nst.global.u32 [%rd4], %r11;  //!",
    "computed with": "add.u32 %r11, %r20, 1;\nmul.lo.u32 %r12, %r11, %r0;\nst.global.u32 [%rd4], %r12;  //!",
    "an address": "ld.global.u32 %r10, [%rd20];  //!",
    "an address of shared memory": "ld.shared.u32 %r10, [%r20+16];  //!",
    "a part of an address": "cvt.u64.u32 %rd11, %r20;\nadd.u64 %rd11, %rd11, %rd0;\nld.global.u32 %r10, [%rd11];  //!",
    "a branch": "@%p9 bra END;  //!\nadd.u32 %r10, %r0, 1;\nEND:",
    "a comparison decides a branch": "setp.eq.u32 %p5, %r20, 0;\n@%p5 bra END;  //!\nadd.u32 %r10, %r0, 1;\nEND:",
    "an exit": "@%p9 exit;  //!",
    "a switch": "T: .branchtargets A, B;\nbrx.idx %r20, T;  //!\nA: add.u32 %r10, %r0, 1;\nB:",
    "the guard of a store": "@%p9 st.global.u32 [%rd4], 1;  //!",
    "a guard whose result is stored": f"mov.u32 %r10, 0;\n@%p9 mov.u32 %r10, 1;\n{OUT}  //!",
    "selected by": f"selp.u32 %r10, 1, 2, %p9;\n{OUT}  //!",
    "what is selected": f"selp.u32 %r10, %r20, 2, %p1;\n{OUT}  //!",
    "the start of a sum": f"mov.u32 %r11, 0;\nL: add.u32 %r20, %r20, %r0;\nadd.u32 %r11, %r11, 1;\n"
    f"setp.lt.u32 %p5, %r11, 3;\n@%p5 bra L;\nmov.u32 %r10, %r20;\n{OUT}  //!",
    "a loop that may run no rounds": f"mov.u32 %r11, %r0;\nL: setp.eq.u32 %p5, %r11, 0;\n@%p5 bra END;\n"
    f"mov.u32 %r20, %r11;\nsub.u32 %r11, %r11, 1;\nbra L;\nEND: mov.u32 %r10, %r20;\n{OUT}  //!",
    "set where a guard holds": f"@%p1 mov.u32 %r20, 1;\nmov.u32 %r10, %r20;\n{OUT}  //!",
    "set on one side of a branch": f"@%p1 bra ON;\nmov.u32 %r20, 1;\nON: mov.u32 %r10, %r20;\n{OUT}  //!",
    "set to a constant later": f"mov.u32 %r10, %r21;\n{OUT}  //!\nmov.u32 %r21, 7;",
    "shuffled from a lane that has none": "@%p0 mov.u32 %r20, 5;\nshfl.sync.idx.b32 %r10, %r20, 1, 31, -1;\n"
    f"{OUT}  //!",
    "the lane of a shuffle": "shfl.sync.idx.b32 %r10, %r0, %r20, 31, -1;  //!",
    "a member mask": "bar.warp.sync %r20;  //!",
    "the mask of a shuffle": "shfl.sync.idx.b32 %r10, %r0, 0, 31, %r20;  //!",
    "a vote": "vote.sync.ballot.b32 %r10, %p9, -1;  //!",
    "a barrier": "bar.sync %r20;  //!",
    "a number of threads": "bar.sync 1, %r20;  //!",
    "what a barrier reduces": "bar.red.popc.u32 %r10, 0, %p9;  //!",
    "where an mbarrier is": "mbarrier.init.shared.b64 [%r20], 1;  //!",
    "an atomic": "red.global.add.u32 [%rd1], %r20;  //!",
    "a source of a copy": "cp.async.ca.shared.global [%r3], [%rd20], 4;  //!",
    "a product of a warp": "mov.u32 %r11, 0;\n"
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f0, %f1, %f2, %f3}, {%r11, %r20}, {%r11}, {%f4, %f4, %f4, %f4};"
    "\nst.global.f32 [%rd4], %f0;  //!",
    "a row's address of a matrix": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r20];  //!",
    "the carry that nobody made": f"addc.u32 %r10, %r0, %r0;\n{OUT}  //!",
    "half of a pair": f"mov.b64 %rd11, {{%r20, %r0}};\nmov.b64 {{%r10, %r12}}, %rd11;\n{OUT}  //!",
    "the upper half of a pair": f"mov.b64 %rd11, {{%r0, %r20}};\nmov.b64 {{%r12, %r10}}, %rd11;\n{OUT}  //!",
    "the low word of a pair": f"mov.b64 %rd11, {{%r20, %r0}};\ncvt.u32.u64 %r10, %rd11;\n{OUT}  //!",
    "a part of the upper word": "mov.b64 %rd11, {%r0, %r20};\nand.b64 %rd12, %rd11, 0x100000000;\n"
    "st.global.u64 [%rd0], %rd12;  //!",
    "one bit under a mask": f"xor.b32 %r11, %r20, %r0;\nand.b32 %r10, %r11, 4;\n{OUT}  //!",
    "a bit that a mask leaves in an address": "mov.b64 %rd11, {%r20, %r0};\nnot.b64 %rd11, %rd11;\n"
    "and.b64 %rd11, %rd11, 4;\nadd.s64 %rd11, %rd11, %rd0;\nld.global.u32 %r10, [%rd11];  //!",
    "a word that decides after a shift": "mov.b64 %rd11, {%r20, %r0};\nshl.b64 %rd12, %rd11, 32;\n"
    "setp.lt.s64 %p5, %rd12, 0;\n@%p5 bra END;  //!\nadd.u32 %r10, %r0, 1;\nEND:",
    "the carry out of an undefined word": "mov.b64 %rd11, {%r20, %r0};\nadd.s64 %rd12, %rd11, 1;\n"
    f"mov.b64 {{_, %r10}}, %rd12;\n{OUT}  //!",
    "the half that is stored": "cvt.u16.u32 %h1, %r0;\nmov.b32 %r11, {%h9, %h1};\ncvt.u16.u32 %h2, %r11;\n"
    "st.global.u16 [%rd4], %h2;  //!",
    "an address of which a word is stored": "mov.b64 {%r11, _}, %rd4;\nmov.b64 %rd11, {%r11, %r20};\n"
    "mov.b64 {%r12, _}, %rd11;\nst.global.u32 [%rd4], %r12;\nst.global.u8 [%rd11], %r12;  //!",
    "the upper word of an atomic": "mov.b64 %rd11, {%r0, %r20};\nred.global.add.u64 [%rd1], %rd11;  //!",
    "a shuffle of the other word": "mov.b64 %rd11, {%r20, %r0};\nmov.b64 {%r11, _}, %rd11;\n"
    f"shfl.sync.idx.b32 %r10, %r11, 1, 31, -1;\n{OUT}  //!",
    "a field from between": f"bfi.b32 %r11, %r0, %r20, 8, 8;\nbfe.u32 %r10, %r11, 4, 8;\n{OUT}  //!",
    "a pair that one side of a branch makes": f"@%p1 bra ON;\nmov.b64 %rd11, {{%r0, %r1}};\n"
    f"ON: cvt.u32.u64 %r10, %rd11;\n{OUT}  //!",
}


@pytest.mark.parametrize("name", MATTERS)
def test_a_value_that_nobody_wrote_is_found_where_it_matters(name: str) -> None:
    body = MATTERS[name]
    with pytest.raises(EmulatorError) as caught:
        run(body)
    finding = caught.value.finding
    assert finding.kind == Kind.UNINITIALISED and "nobody has written" in finding.message, str(finding)
    assert "//!" in body.splitlines()[finding.line - 1], str(finding)


T = np.arange(64, dtype=np.uint32)

HARMLESS = {
    "a word that a shuffle takes": (
        "mov.b64 %rd11, {%r20, %r0};\nmov.b64 {_, %r11}, %rd11;\nshfl.sync.idx.b32 %r10, %r11, 1, 31, -1;",
        T & ~np.uint32(31) | 1,
    ),
    "bits of a complement that are masked off": (
        "mov.b64 %rd11, {%r0, %r20};\nnot.b64 %rd11, %rd11;\nand.b64 %rd11, %rd11, 1;\ncvt.u32.u64 %r10, %rd11;",
        ~T & 1,
    ),
    "bits of a sum that are masked off": (
        "mov.b64 %rd11, {%r0, %r20};\nadd.s64 %rd11, %rd11, %rd2;\nand.b64 %rd11, %rd11, 7;\ncvt.u32.u64 %r10, %rd11;",
        5 * T & 7,
    ),
    "bits of a product that are shifted and masked off": (
        "mov.b64 %rd11, {%r0, %r20};\nmul.lo.s64 %rd11, %rd11, 12;\nshr.u64 %rd11, %rd11, 2;\n"
        "and.b64 %rd11, %rd11, 255;\ncvt.u32.u64 %r10, %rd11;",
        3 * T & 255,
    ),
    "bits that a register's zeros take": (
        "mov.b64 %rd11, {%r0, %r20};\nand.b64 %rd11, %rd11, %rd2;\ncvt.u32.u64 %r10, %rd11;\n"
        "shr.u64 %rd12, %rd11, 32;\ncvt.u32.u64 %r12, %rd12;\nadd.u32 %r10, %r10, %r12;",
        T & 4 * T,
    ),
    "a comparison of the upper word": (
        "mov.b64 %rd11, {%r20, %r0};\nand.b64 %rd12, %rd11, -4294967296;\nsetp.ne.b64 %p5, %rd12, 0;\n"
        "selp.u32 %r10, 1, 2, %p5;",
        np.where(T > 0, 1, 2),
    ),
    "a sign above what is undefined": (
        "sub.u32 %r11, %r0, 9;\nmov.b64 %rd11, {%r20, %r11};\nsetp.gt.s64 %p5, %rd11, -1;\n"
        "mov.u32 %r10, 2;\n@%p5 mov.u32 %r10, 1;",
        np.where(T < 9, 2, 1),
    ),
    "bytes above the one that is stored": (
        "bfi.b32 %r11, %r0, %r20, 0, 8;\nmov.u32 %r10, 0;\nst.global.u32 [%rd4], %r10;\n"
        "st.global.u8 [%rd4], %r11;\nld.global.u32 %r10, [%rd4];",
        T,
    ),
    "halves that a packed sum keeps apart": (
        "cvt.u16.u32 %h1, %r0;\nmov.b32 %r11, {%h1, %h9};\nadd.u16x2 %r12, %r11, %r11;\n"
        "mov.b32 {%h2, _}, %r12;\ncvt.u32.u16 %r10, %h2;",
        2 * T,
    ),
    "the other half of a pair": ("mov.b64 %rd11, {%r0, %r20};\nmov.b64 {%r10, %r12}, %rd11;", T),
    "the upper word of a pair that is masked off": (
        "mov.b64 %rd11, {%r0, %r20};\nand.b64 %rd12, %rd11, 255;\ncvt.u32.u64 %r10, %rd12;",
        T,
    ),
    "the upper word of a pair that is cut off": ("mov.b64 %rd11, {%r0, %r20};\ncvt.u32.u64 %r10, %rd11;", T),
    "moved and never used": ("mov.u32 %r11, %r20;\nadd.u32 %r12, %r11, %r20;\nmov.u32 %r10, 3;", 3),
    "set and used under one guard": (
        "@%p1 mov.u32 %r20, 5;\nmov.u32 %r10, 1;\n@%p1 mov.u32 %r10, %r20;",
        np.where(T < 32, 5, 1),
    ),
    "set under a guard and under its opposite": (
        "@%p1 mov.u32 %r10, 1;\n@!%p1 mov.u32 %r10, 2;",
        np.where(T < 32, 1, 2),
    ),
    "loaded under a guard, stored under it": (
        "@%p1 ld.global.u32 %r20, [%rd3];\n@%p1 st.shared.u32 [%r3], %r20;\nmov.u32 %r10, 0;",
        0,
    ),
    "selected away": ("@%p1 mov.u32 %r20, 5;\nselp.u32 %r10, %r20, 9, %p1;", np.where(T < 32, 5, 9)),
    "set on one way and used on that way": (
        "@%p1 bra ON;\nmov.u32 %r20, 1;\nON: mov.u32 %r11, %r20;\nmov.u32 %r10, 7;\n@%p1 bra END;\n"
        "mov.u32 %r10, %r11;\nEND:",
        np.where(T < 32, 7, 1),
    ),
    "a register with itself": ("xor.b32 %r10, %r20, %r20;\nsub.u32 %r11, %r20, %r20;\nadd.u32 %r10, %r10, %r11;", 0),
    "bytes of the other operand": ("prmt.b32 %r10, %r0, %r20, 0x3210;", T),
    "an operand that a table leaves out": ("lop3.b32 %r10, %r0, %r20, %r20, 0xf0;", T),
    "false and anything": (
        "setp.eq.u32 %p5, %r0, 99;\nand.pred %p6, %p5, %p9;\nselp.u32 %r10, 1, 2, %p6;",
        2,
    ),
    "true or anything": ("setp.ne.u32 %p5, %r0, 99;\nor.pred %p6, %p9, %p5;\nselp.u32 %r10, 1, 2, %p6;", 1),
    "one lane's value for the whole warp": (
        "@%p0 mov.u32 %r20, %r0;\nshfl.sync.idx.b32 %r10, %r20, 0, 31, -1;",
        T & ~np.uint32(31),
    ),
    "one lane's value, from a lane in a register": (
        "@%p0 mov.u32 %r20, %r0;\nmov.u32 %r12, 0;\nmov.u32 %r13, 31;\nmov.u32 %r14, -1;\n"
        "shfl.sync.idx.b32 %r10, %r20, %r12, %r13, %r14;",
        T & ~np.uint32(31),
    ),
    "the address of lanes that ldmatrix does not ask": (
        "st.shared.u32 [%r3], %r0;\nbar.sync 0;\nsetp.lt.u32 %p5, %r6, 8;\n@%p5 mov.u32 %r20, %r2;\n"
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r20];",
        T & 3,
    ),
    "set again in each round of a loop": (
        "mov.u32 %r10, 0;\nmov.u32 %r11, 0;\nL: setp.eq.u32 %p5, %r11, %r6;\n@!%p5 bra NEXT;\nmov.u32 %r20, %r0;\n"
        "NEXT: setp.lt.u32 %p6, %r11, %r6;\n@%p6 bra MORE;\nmax.u32 %r10, %r10, %r20;\nMORE: add.u32 %r11, %r11, 1;\n"
        "setp.lt.u32 %p5, %r11, 32;\n@%p5 bra L;",
        T,
    ),
    "exited before it is used": ("@%p1 mov.u32 %r20, 4;\n@!%p1 exit;\nmov.u32 %r10, %r20;", np.where(T < 32, 4, 0)),
    "a reduction that comes in parts": (
        "@%p1 bra LOW;\nbar.red.popc.u32 %r20, 0, %p1;\nbra END;\n"
        "LOW: bar.red.popc.u32 %r20, 0, %p1;\nEND: mov.u32 %r10, %r20;",
        32,
    ),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_value_that_does_not_matter_is_no_fault(name: str) -> None:
    body, expected = HARMLESS[name]
    np.testing.assert_array_equal(run(f"{body}\n{OUT}")[1][:64], np.broadcast_to(expected, 64))


def test_the_finding_names_the_register_that_nobody_wrote() -> None:
    with pytest.raises(EmulatorError, match="register %r20, which nobody has written") as caught:
        run("add.u32 %r11, %r0, %r20;\nadd.u32 %r12, %r0, %r11;\n@%p1 st.global.u32 [%rd4], %r12;")
    assert caught.value.finding.thread == (0, 0, 0)


def test_one_finding_does_not_lead_to_others() -> None:
    body = (
        "add.u32 %r11, %r20, 1;\nst.global.u32 [%rd4], %r11;\nst.global.u32 [%rd4], %r11;\nst.shared.u32 [%r3], %r11;"
    )
    assert len(run(body, on_finding="collect")[0].findings) == 1


@pytest.mark.parametrize("count", ["x1", "x4"])
def test_a_matrix_whose_rows_lie_nowhere_does_not_end_a_launch_that_collects(count: str) -> None:
    to = "%r10" if count == "x1" else "%r10, %r11, %r12, %r13"
    body = f"ldmatrix.sync.aligned.m8n8.{count}.shared.b16 {{{to}}}, [%r20];\nadd.u32 %r20, %r20, 4;\ntrap;"
    found = run(body, on_finding="collect")[0].findings
    assert [each.kind for each in found] == [Kind.UNINITIALISED, Kind.OUT_OF_BOUNDS, Kind.TRAP]


def test_a_register_of_a_called_function_is_named_as_in_its_text() -> None:
    function = """.func wrong()
    {
      .reg .b32 %a<4>;
      mov.b32 %a1, 1024;
      st.shared.u32 [%a1], %a2;
      ret;
    }"""
    with pytest.raises(EmulatorError, match="register %a2, which"):
        run("call wrong;", module=function)


PASSES = """.func (.param .b32 out) passes(.param .b32 given, .param .b32 used)
{
  .reg .b32 %a<4>;
  ld.param.b32 %a1, [given];
  ld.param.b32 %a2, [used];
  mov.b32 %a3, %a2;
  st.param.b32 [out], %a3;
  ret;
}
.func (.param .b32 out) forgets(.param .b32 given)
{
  .reg .b32 %a<4>;
  .reg .pred %q;
  ld.param.b32 %a1, [given];
  setp.ge.u32 %q, %a1, 32;
  @%q ret;
  st.param.b32 [out], %a1;
  ret;
}"""
CALL = """.param .b32 out0;
.param .b32 given0;
.param .b32 used0;
st.param.b32 [given0], {0};
st.param.b32 [used0], {1};
call (out0), {2}, ({3});
ld.param.b32 %r10, [out0];
"""


def test_an_argument_that_nobody_wrote_is_no_fault_until_it_matters() -> None:
    unused = CALL.format("%r20", "%r0", "passes", "given0, used0") + OUT
    np.testing.assert_array_equal(run(unused, module=PASSES)[1][:64], T)
    with pytest.raises(EmulatorError, match="register %r20, which"):
        run(CALL.format("%r0", "%r20", "passes", "given0, used0") + OUT, module=PASSES)


def test_a_result_that_a_function_does_not_set() -> None:
    body = CALL.format("%r0", "%r0", "forgets", "given0")
    with pytest.raises(EmulatorError, match="nobody has written"):
        run(body + OUT, module=PASSES)


def test_text_that_assigns_everything_costs_nothing() -> None:
    assert program_of(kernel("add.u32 %r10, %r0, 1;\n" + OUT), "kernel").undefined.names == []
