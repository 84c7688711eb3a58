"""PTX that is right and that ptxas makes wrong machine code of, written so that it does not.

Both faults are of ptxas 13.0 from sm_90 on, where it knows minima and maxima of three operands, and of halves (VIMNMX3,
VIMNMX.S16x2). Random programs showed them: right on the emulator, wrong on an H200 (2 of 6,000).
"""

from __future__ import annotations

import re

NEGATION = re.compile(r"^([ \t]*)neg\.s(16|32)[ \t]+(%\w+), (%\w+);$", re.M)
SIGNED_EXTREME = re.compile(r"\b(?:min|max)\.s32\b")
HALF_EXTREME = re.compile(r"^([ \t]*)(min|max)\.([su])16[ \t]+(%\w+), (%\w+), (%\w+|-?\d+);$", re.M)


def avoid_faults(ptx: str) -> str:
    """The same text in other words."""
    return keep_signs(widen_extremes(ptx))


def widen_extremes(ptx: str) -> str:
    """Minima and maxima of 16-bit integers are taken in 32 bits.

    `setp.eq.b16 p, m, 0` behind `max.s16 m, x, 0` becomes the predicate that says which operand was taken, and of the
    two halves of a register the wrong one says it last: SASS `VIMNMX.S16x2 R, P0, P0, …`.
    """

    def widened(found: re.Match[str]) -> str:
        indent, name, sign, d, a, b = found.groups()
        lines = [".reg .b32 \t%wide_a, %wide_b;", f"cvt.{sign}32.{sign}16 \t%wide_a, {a};"]
        if b.startswith("%"):
            lines.append(f"cvt.{sign}32.{sign}16 \t%wide_b, {b};")
        else:
            number = int(b) & 0xFFFF
            lines.append(f"mov.b32 \t%wide_b, {number - (1 << 16) if sign == 's' and number >> 15 else number};")
        lines += [f"{name}.{sign}32 \t%wide_a, %wide_a, %wide_b;", f"cvt.u16.u32 \t{d}, %wide_a;"]
        return "\n".join([f"{indent}{{", *(indent + line for line in lines), f"{indent}}}"])

    return HALF_EXTREME.sub(widened, ptx)


def keep_signs(ptx: str) -> str:
    """Negations are written as ~x + 1 where a text takes two signed minima or maxima, or more.

    Of `max.s32(c, max.s32(a, neg.s32 b))` ptxas makes one instruction and leaves the sign of b out. Additions it keeps.
    """
    if len(SIGNED_EXTREME.findall(ptx)) < 2:
        return ptx
    return NEGATION.sub(r"\1not.b\2 \t\3, \4;\n\1add.s\2 \t\3, \3, 1;", ptx)
