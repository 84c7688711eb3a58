"""A text of PTX for each fault of ptxas that `dsl/lowering/machine/ptxas_faults.py` writes around: its machine
code tells."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Version = tuple[int, int]
HEAD = """.version 8.0
.target sm_90a
.address_size 64
"""
KERNEL = """.visible .entry {name}(.param .u64 out)
.reqntid 128
{{
.reg .pred %p<4>;
.reg .b16 %h<4>;
.reg .b32 %r<16>, %s<16>, %a<16>;
.reg .f32 %f<16>;
.reg .b64 %rd<8>, %at;
ld.param.u64 %at, [out];
cvta.to.global.u64 %at, %at;
{body}
ret;
}}
"""


def entry(name: str, body: str) -> str:
    """A kernel, each statement of its body on a line of its own."""
    return KERNEL.format(name=name, body=re.sub(r"; *", ";\n", body).strip())


@dataclass(frozen=True)
class Fault:
    """What a text's machine code shows where an assembler of `versions`, the first and the last that are known, makes
    the fault, and what it does not show of the text that is mended."""

    body: str
    versions: tuple[Version, Version]
    shows: Callable[[str], bool]

    def is_known(self, version: Version) -> bool:
        return self.versions[0] <= version <= self.versions[1]


def has(pattern: str) -> Callable[[str], bool]:
    return lambda code: re.search(pattern, code) is not None


def products_in(code: str) -> int:
    """How many products of warp groups: what ends a group by itself, of RZ, is none."""
    return len(re.findall(r"\b[HIQ]GMMA\b(?!\S* RZ, gdesc\[URZ\])", code))


LOAD = "ld.global.b32 %r1, [%at]; ld.global.b32 %r2, [%at+4]; ld.global.b32 %r3, [%at+8]; "
FLOATS = "".join(f"ld.global.f32 %f{i}, [%at+{4 * i}]; " for i in range(4))
CLAMPED = "".join(f"max.f32 %f{i}, %f{i}, 0f00000000; cvt.rzi.s32.f32 %r{i}, %f{i}; " for i in range(4))
PACKED = "cvt.pack.sat.u8.s32.b32 %r4, %r1, %r0, 0; cvt.pack.sat.u8.s32.b32 %r5, %r3, %r2, %r4; "
ZERO = "max.s16 %h{i}, %h{i}, 0; setp.eq.s16 %p{i}, %h{i}, 0; selp.b32 %r{i}, 1, 0, %p{i}; "

# What stands in front of products of warp groups, and behind them.
OPENED = "".join(f"ld.global.f32 %f{i}, [%at+{4 * i}]; ld.global.b32 %s{i}, [%at+{4 * i}]; " for i in range(8))
OPENED += "".join(f"ld.global.b32 %a{i}, [%at+{4 * i}]; " for i in range(8))
OPENED += "".join(f"ld.global.b64 %rd{i}, [%at+{8 * i}]; " for i in range(4))
OPENED += "or.b64 %rd4, %rd0, 1; or.b64 %rd5, %rd1, 1; "
OPENED += "setp.eq.u32 %p0, 0, 0; setp.ne.u32 %p1, 0, 0; wgmma.fence.sync.aligned; "
CLOSED = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; "
CLOSED += "".join(f"st.global.f32 [%at+{4 * i}], %f{i}; st.global.b32 [%at+{32 + 4 * i}], %s{i}; " for i in range(8))


def product(
    types: str = "k16.f32.bf16.bf16",
    sums: str = "%f0, %f1, %f2, %f3",
    operands: str = "%rd0, %rd1",
    flag: str = "%p0",
    signs: str = ", 1, 1, 0, 0",
) -> str:
    return f"wgmma.mma_async.sync.aligned.m64n8{types} {{{sums}}}, {operands}, {flag}{signs}; "


def group(*products: str) -> str:
    return OPENED + "".join(products) + CLOSED


A, B = product(), product(operands="%rd2, %rd3")
OTHER_SUMS = product(sums="%f4, %f5, %f6, %f7")
INTEGERS = {"sums": "%s0, %s1, %s2, %s3", "signs": ""}
IN_REGISTERS = {"operands": "{%a0, %a1, %a2, %a3}, %rd1"}
FOUR_ROUNDS = "mov.b32 %r0, 0; $again: {}add.u32 %r0, %r0, 1; setp.ne.u32 %p2, %r0, 4; @%p2 bra $again; "
MADE = product(operands="%rd4, %rd5")
MOVED = "add.u64 %rd4, %rd4, 2; add.u64 %rd5, %rd5, 2; "
ALIKE: dict[str, tuple[str, int]] = {
    "two": (group(A, A), 2),
    "three": (group(A, A, A), 3),
    "eight": (group(*[A] * 8), 8),
    "from_zero": (group(product(flag="%p1"), A, A, A), 4),
    "in_turns": (group(A, B, A, B), 4),
    "of_two_sums": (group(A, OTHER_SUMS, A, OTHER_SUMS), 4),
    "there_and_back": (group(MADE, MOVED, MADE, MOVED.replace(", 2;", ", -2;"), MADE), 3),
    "copied": (group(A, "mov.b64 %rd6, %rd0; ", product(operands="%rd6, %rd1")), 2),
    "in_groups": (group(A, *["wgmma.commit_group.sync.aligned; " + A] * 2), 3),
    "of_what_was_loaded": (group(A, MOVED.replace("rd4", "rd0").replace("rd5", "rd1"), A), 2),
    "loaded_again": (group(A, "ld.global.b64 %rd0, [%at+64]; ", A), 2),
    "of_what_was_loaded_and_copied": (
        group("mov.b64 %rd6, %rd0; ", *["add.u64 %rd6, %rd6, 2; " + product(operands="%rd6, %rd1")] * 2),
        2,
    ),
    "of_other_signs": (group(A, product(signs=", -1, 1, 0, 0"), A), 3),
    "four_rounds": (group(FOUR_ROUNDS.format(A)), 4),
    "left_in_registers": (group(*[product(**IN_REGISTERS, signs=", 1, 1, 0")] * 3), 3),
    "f16": (group(*[product("k16.f16.f16.f16", "%s0, %s1")] * 3), 3),
    "tf32": (group(*[product("k8.f32.tf32.tf32", signs=", 1, 1")] * 3), 3),
    "e4m3": (group(*[product("k32.f32.e4m3.e5m2", signs=", 1, 1")] * 3), 3),
    "s8": (group(*[product("k32.s32.s8.s8", **INTEGERS)] * 3), 3),
    "u8_in_registers": (group(*[product("k32.s32.u8.u8", **INTEGERS, **IN_REGISTERS)] * 3), 3),
}
"""Products that are alike, and how many of them there are when the kernel runs."""
APART: dict[str, tuple[str, int]] = {
    "other_operands": (group(A, B), 2),
    "other_sums": (group(A, OTHER_SUMS), 2),
    "steps": (group(MADE, MOVED, MADE), 2),
    "fences": (group(*[A + "wgmma.fence.sync.aligned; "] * 3), 3),
    "waits": (group(*[A + "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1; "] * 3), 3),
    "loaded_elsewhere": (group(A, "ld.global.b64 %rd6, [%at+64]; ", product(operands="%rd6, %rd1")), 2),
}
"""Products that no version leaves out."""

FAULTS = {
    "signs": Fault(
        LOAD + "neg.s32 %r4, %r2; max.s32 %r5, %r1, %r4; max.s32 %r6, %r3, %r5; st.global.b32 [%at], %r6; ",
        ((12, 6), (13, 3)),
        lambda code: "VIMNMX3" in code and not re.search(r"\bIADD3?\b.* -R\d", code),
    ),
    "comparisons": Fault(
        LOAD + "min.s32 %r4, %r1, 255; max.s32 %r5, %r4, 0; setp.eq.s32 %p1, %r5, 255; selp.b32 %r6, 1, 0, %p1; "
        "st.global.b32 [%at], %r6; ",
        ((12, 5), (13, 3)),
        has(r"VIMNMX[.\w]*\.RELU \w+, P\d"),
    ),
    "halves": Fault(
        "ld.global.v2.b16 {%h1, %h2}, [%at]; " + ZERO.format(i=1) + ZERO.format(i=2) + "st.global.v2.b16 [%at], "
        "{%h1, %h2}; st.global.v2.b32 [%at+8], {%r1, %r2}; ",
        ((12, 8), (13, 3)),
        has(r"VIMNMX\.S16x2 \w+, P\d"),
    ),
    "conversions": Fault(
        FLOATS + CLAMPED + PACKED + "st.global.b32 [%at], %r5; ", ((12, 0), (13, 5)), has(r"F2IP\.U8\S*\.RELU")
    ),
    "products": Fault(ALIKE["three"][0], ((12, 0), (13, 5)), lambda code: products_in(code) < 3),
}


def kernels_of(code: str) -> dict[str, str]:
    """The machine code of each kernel of what `nvdisasm` shows."""
    parts: Sequence[str] = re.split(r"^\s*\.section\s+\.text\.([^,\s]+).*$", code, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
