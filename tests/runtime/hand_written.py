"""PTX written by hand, with headers, for the tests and for `benchmarks/launch.py` to launch without a compiler."""

from __future__ import annotations

from typing import Any

from dsl.runtime.header import (
    Argument,
    Header,
    HeaderTable,
    HeaderTensor,
    Requirement,
    Scalar,
    SourceRecord,
    write,
)

BODY = """
.version 7.1
.target sm_80
.address_size 64

.visible .entry {entry}(
{parameters}
)
{{
{code}
}}
"""


def header(**changes: Any) -> Header:
    """The header of `scale`: y[i] = alpha · x[i] for i < n, one thread an element."""
    fields: dict[str, Any] = {
        "entry": "scale",
        "kernel": "scale",
        "schedule": None,
        "source": SourceRecord("scale.tile", "0" * 64),
        "arch": "sm_80",
        "constants": {"BLOCK": 128, "T": "f32"},
        "threads": 128,
        "cluster": 1,
        "shared_bytes": 0,
        "maxnreg": None,
        "dims": ("n",),
        "params": (
            HeaderTensor("y", "f32", ("n",), strided=False, access="w", align=4),
            HeaderTensor("x", "f32", ("n",), strided=False, access="r", align=4),
            Scalar("alpha", "f32"),
        ),
        "arguments": (
            Argument("pointer", "y"),
            Argument("pointer", "x"),
            Argument("dim", "n"),
            Argument("scalar", "alpha"),
        ),
        "grid": (["cdiv", "n", "BLOCK"], 1, 1),
        "index_bits": 32,
        "requires": (Requirement(["<=", "n", 1 << 20], "n <= 1048576", 3, "use the streamed schedule"),),
        "moves": ["*", 8, "n"],
    }
    return Header(**{**fields, **changes})


def text(about: Header, parameters: str, code: str) -> str:
    """PTX text: header line, then an entry with these `.param`s and this body."""
    return write(about) + BODY.format(entry=about.entry, parameters=parameters, code=code)


ELEMENT = """
    .reg .pred %p; .reg .b32 %i, %n, %t, %b; .reg .b64 %x, %y, %o; .reg .f32 %v, %a;
    ld.param.u64 %y, [{entry}_0]; ld.param.u64 %x, [{entry}_1]; ld.param.u32 %n, [{entry}_2];
    cvta.to.global.u64 %y, %y; cvta.to.global.u64 %x, %x;
    mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mad.lo.s32 %i, %b, 128, %t;
    setp.ge.s32 %p, %i, %n; @%p bra DONE;
    mul.wide.s32 %o, %i, 4; add.s64 %x, %x, %o; add.s64 %y, %y, %o;
    ld.global.f32 %v, [%x];
"""
POINTERS = ".param .u64 {entry}_0, .param .u64 {entry}_1, .param .u32 {entry}_2"


def scale(**changes: Any) -> str:
    """y[i] = alpha · x[i]."""
    code = "    ld.param.f32 %a, [scale_3]; mul.rn.f32 %v, %v, %a;\n    st.global.f32 [%y], %v;\nDONE: ret;"
    parameters = POINTERS.format(entry="scale") + ", .param .f32 scale_3"
    return text(header(**changes), parameters, ELEMENT.format(entry="scale") + code)


def copy(**changes: Any) -> str:
    """y[i] = x[i]: two tensors and no scalar, what `benchmarks/launch.py` launches."""
    base = header()
    about = {"entry": "copy", "kernel": "copy", "params": base.params[:2], "arguments": base.arguments[:3]}
    code = "    st.global.f32 [%y], %v;\nDONE: ret;"
    return text(header(**{**about, **changes}), POINTERS.format(entry="copy"), ELEMENT.format(entry="copy") + code)


def strided(**changes: Any) -> str:
    """y[i, j] = x[i, j] + delta[j] for a table of 4 columns; x has any strides. A block a row, a thread a column."""
    about = header(
        entry="strided",
        kernel="strided",
        schedule="rows",
        threads=32,
        dims=("rows",),
        params=(
            HeaderTensor("y", "s32", ("rows", 4), strided=False, access="w", align=16),
            HeaderTensor("x", "s32", ("rows", 4), strided=True, access="r", align=4),
            HeaderTensor("bias", "s32", (4,), strided=False, access="r", align=4, optional=True, present=False),
            HeaderTable("delta", "s32", 4),
        ),
        arguments=(
            Argument("pointer", "y"),
            Argument("pointer", "x"),
            Argument("stride", "x", 0),
            Argument("stride", "x", 1),
            Argument("table", "delta"),
            Argument("record"),
        ),
        grid=("rows", 1, 1),
        index_bits=64,
        requires=(),
        moves=None,
        **changes,
    )
    parameters = (
        ".param .u64 s_0, .param .u64 .ptr .global .align 4 s_1, .param .u64 s_2, .param .u64 s_3, "
        ".param .align 4 .b8 s_4[16], .param .u64 s_5"
    )
    code = """
    .reg .pred %p; .reg .b32 %t, %b, %v, %d, %old; .reg .b64 %x, %y, %o, %row, %col, %s0, %s1, %r, %table;
    mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x;
    setp.ge.u32 %p, %t, 4; @%p bra DONE;
    ld.param.u64 %y, [s_0]; ld.param.u64 %x, [s_1]; ld.param.u64 %s0, [s_2]; ld.param.u64 %s1, [s_3];
    cvt.u64.u32 %row, %b; cvt.u64.u32 %col, %t;
    mul.lo.s64 %o, %row, %s0; mad.lo.s64 %o, %col, %s1, %o; shl.b64 %o, %o, 2; add.s64 %x, %x, %o;
    ld.global.u32 %v, [%x];
    setp.ge.s32 %p, %v, 0; @%p bra FINE;
    ld.param.u64 %r, [s_5];
    atom.global.cas.b32 %old, [%r], 0, 1;
    setp.ne.s32 %p, %old, 0; @%p bra DONE;
    st.global.u32 [%r+4], 17; st.global.u32 [%r+8], %b; st.global.u32 [%r+12], 0; st.global.u32 [%r+16], 0;
    st.global.u32 [%r+20], %t;
    bra DONE;
FINE:
    mov.u64 %table, s_4; shl.b64 %o, %col, 2; add.s64 %table, %table, %o; ld.param.u32 %d, [%table];
    add.s32 %v, %v, %d;
    mad.lo.s64 %o, %row, 4, %col; shl.b64 %o, %o, 2; add.s64 %y, %y, %o; st.global.u32 [%y], %v;
DONE: ret;"""
    return text(about, parameters, code)
