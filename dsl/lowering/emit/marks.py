"""Emits marks for timelines: at each mark, lane 0 of a warp writes an event with the clock to the record of its warp.

The PTX register `dsl_at` contains the position of the next event, in bytes from the start of the timeline. The register
`dsl_end` contains the end of the warp's record. The asm of the first mark declares both registers for the whole
function, and LLVM does not see them. LLVM would keep a variable in local memory at optimisation level 0, and carry it
through loops at other levels. All lanes run the same code. If a lane records nothing, or if its record is full, then
`dsl_end` <= `dsl_at`. Both registers have 32 bits. With three 64-bit registers, ptxas 13.0 spilled 20 KB in a wgmma
kernel that uses all 255 registers.

`sideeffect` with a memory clobber keeps LLVM from moving memory accesses, barriers and other marks across a mark.
Arithmetic in registers may move.

docs/architecture.md describes the format of a record.
"""

from __future__ import annotations

from dsl.lowering.emit.rules import rule
from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op
from dsl.lowering.ir.targets import WARP
from dsl.lowering.passes.marks import LIFE

HEAD, RECORD = 16, 64
"""The number of bytes before the first record, and the number of bytes before the first event of a record."""
EVENT = 8
"""The number of bytes of an event, which has two words. The first word is 2 · the mark's number, plus 1 if the section
ends. The second word is the value of %clock."""

BEGIN_LIFE = f"""
.reg .b32 dsl_at, dsl_end;
{{
.reg .pred on;
.reg .b32 number, at, size, blocks, events;
.reg .b64 place, time;
ld.global.v2.u32 {{blocks, events}}, [$0];
mov.u32 number, %ctaid.z;
mov.u32 size, %nctaid.y;
mov.u32 at, %ctaid.y;
mad.lo.u32 number, number, size, at;
mov.u32 size, %nctaid.x;
mov.u32 at, %ctaid.x;
mad.lo.u32 number, number, size, at;
setp.lt.u32 on, number, blocks;
mov.u32 at, %tid.x;
and.b32 size, at, {WARP - 1};
setp.eq.and.u32 on, size, 0, on;
shr.u32 at, at, {WARP.bit_length() - 1};
mad.lo.u32 number, number, $1, at;
shl.b32 events, events, {EVENT.bit_length() - 1};
add.u32 size, events, {RECORD};
mad.lo.u32 dsl_at, number, size, {HEAD};
cvt.u64.u32 place, dsl_at;
add.u64 place, place, $0;
add.u32 dsl_at, dsl_at, {RECORD};
mov.b32 dsl_end, 0;
@on add.u32 dsl_end, dsl_at, events;
mov.u32 at, %smid;
@on st.global.u32 [place], at;
mov.u64 time, %globaltimer;
@on st.global.u64 [place+8], time;
mov.u64 time, %clock64;
@on st.global.u64 [place+16], time;
}}"""
END_LIFE = f"""
{{
.reg .pred on;
.reg .b32 at, used;
.reg .b64 place, time;
setp.ne.u32 on, dsl_end, 0;
ld.global.u32 at, [$0+4];
shl.b32 at, at, {EVENT.bit_length() - 1};
sub.u32 at, dsl_end, at;
sub.u32 at, at, {RECORD};
sub.u32 used, dsl_at, at;
cvt.u64.u32 place, at;
add.u64 place, place, $0;
mov.u64 time, %globaltimer;
@on st.global.u64 [place+24], time;
mov.u64 time, %clock64;
@on st.global.u64 [place+32], time;
@on st.global.u32 [place+40], used;
}}"""
EVENT_TEXT = f"""
{{
.reg .pred on;
.reg .b32 what, time;
.reg .b64 place;
mov.u32 time, %clock;
setp.lt.u32 on, dsl_at, dsl_end;
cvt.u64.u32 place, dsl_at;
add.u64 place, place, $0;
mov.b32 what, $1;
@on st.global.v2.b32 [place], {{what, time}};
add.u32 dsl_at, dsl_at, {EVENT};
}}"""


@rule("mark")
def _mark(w: Writer, op: Op) -> None:
    begins = op.attrs["begins"]
    if op.attrs["kind"] != LIFE:
        _asm(w, EVENT_TEXT, 2 * op.attrs["number"] + (not begins))
    elif begins:
        _asm(w, BEGIN_LIFE, w.function.launched // WARP)
    else:
        _asm(w, END_LIFE)


def _asm(w: Writer, text: str, *numbers: int) -> None:
    """Writes the asm of a mark. It is convergent (`#1`), so that LLVM neither duplicates it nor moves it into a
    branch."""
    lines = "\\0A".join(text.strip().splitlines())
    constraints = ",".join(["l", *("n" for _ in numbers), "~{memory}"])
    arguments = ", ".join(["ptr addrspace(1) %timeline", *(f"i32 {number}" for number in numbers)])
    w.do(f'call void asm sideeffect "{lines}", "{constraints}"({arguments}) #1')
