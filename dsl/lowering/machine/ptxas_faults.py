"""Workarounds for faults of ptxas, which assembles some correct PTX to wrong machine code. This file rewrites that PTX.

| fault | first target | versions of ptxas |
|---|---|---|
| signs: a minimum or maximum of three operands drops the sign of one operand (VIMNMX3) | sm_90 | 12.6 to 13.3 |
| comparisons of a value clamped at 0 use the predicate of other values (VIMNMX.RELU) | sm_90 | 12.5 to 13.3 |
| halves: minima and maxima of two halves swap their predicates (VIMNMX.S16x2) | sm_90 | 12.8 to 13.3 |
| conversions of four floats >= 0 to bytes become an illegal instruction (F2IP.U8.F32.RELU) | sm_89 | 12.0 to 13.5 |
| of equal wgmma products, all but one or two are dropped (HGMMA) | sm_90a | 12.0 to 13.5 |

Versions 12.0 to 13.5 were examined. On sm_120, only the fourth fault occurs. `tests/lowering/ptxas_texts.py` contains
PTX that triggers each fault. `python -m tests.ptxas_versions` assembles this PTX with each version and examines the
machine code. The driver contains its own assembler. Driver 580.159.04 (on an H200) shows all five faults with the
original PTX, and none after the rewrites of this file. Random programs revealed the first four faults: 4 of 24,000
programs gave correct results on the emulator and wrong results on a device.
"""

from __future__ import annotations

import re
from typing import Any

# These are compiled at their first use, which `re` caches: few kernels need any, and all take 1 ms to compile.
NEGATION = r"(?m)^([ \t]*)neg\.s(16|32)[ \t]+(%\w+), (%\w+);$"
RELU = r"(?m)^[ \t]*(min|max)\.relu\.s32[ \t]+(%\w+), (%\w+), (%\w+|-?\d+);$"
AT_LEAST_0 = r"max\.s32[ \t]+(%\w+), (%\w+), 0;"
MINIMUM = r"min\.s32[ \t]+(%\w+)"
COMPARED = r"setp\.[\w.]+[ \t]+[%\w|]+, (%?[-\w]+), (%?[-\w]+)"
PASSED_ON = r"\b(?:mov|cvt|and)\.[\w.]+[ \t]+(%\w+), (%\w+)"
HALF_EXTREME = r"(?m)^([ \t]*)(min|max)\.([su])16[ \t]+(%\w+), (%\w+), (%\w+|-?\d+);$"
AT_LEAST_ZERO = r"(?:max(?:\.\w+)*\.f32[ \t]+(%\w+), %\w+, 0f[08]0{7};|selp\.f32[ \t]+(%\w+), .*\b0f[08]0{7}\b.*;)"
ROUNDED = r"(?:mov\.[bf]32|cvt\.r\wi\.(?:ftz\.)?f32\.f32)[ \t]+(%\w+), (%\w+);"
TO_INTEGER = r"(?m)^([ \t]*)(cvt\.r\wi\.(?:ftz\.)?s32\.f32)[ \t]+(%\w+), (%\w+);"
PRODUCT = "wgmma.mma_async"
BETWEEN = r"(wgmma\.(?:fence|wait_group)\b[^;]*;)"
LOADED = r"\bld\.(?!param)[\w.:]*64\s+(%\w+),"
COPIED = r"\bmov\.[bu]64\s+(\w+|%\w+), (%\w+);"
TARGET = r"\bbra(?:\.uni)?\s+([$\w]+)"
STATEMENT = r"//.*|(?P<label>[$\w]+):(?!:)|(?P<guard>@!?[%$\w]+\s+)?(?P<name>[a-z][\w.:]*)\s+(?P<operands>[^;]*);"
NAMES = r"[%$]?[\w-]+"
UNKNOWN = ("ld", "atom", "shfl", "vote", "mbarrier", "match", "redux", "activemask", "call", "elect")
"""Instructions that may return a different value each time they run."""
HALVES = ("min.s16", "min.u16", "max.s16", "max.u16")


def avoid_faults(ptx: str) -> str:
    """Rewrites PTX so that ptxas assembles it correctly."""
    return keep_products(keep_signs(keep_comparisons(keep_conversions(widen_extremes(ptx)))))


def keep_products(ptx: str) -> str:
    """Inserts a fence between wgmma products with equal operands and equal accumulator registers.

    ptxas treats the accumulator of `wgmma.mma_async` only as a result, not as an input. So it drops all but one or two
    of several equal products. This happened with three equal products in sequence, with products A, B, A, B, and in a
    loop of four iterations. A commit between the products does not prevent the fault, but a fence or a wait does. If a
    descriptor register was loaded from memory, ptxas 13.3 to 13.5 do not notice that the register changes.

    The compiler's own code contains a fence before the products of each stage, and these products differ. So this
    function changes only PTX from instructions of plug-ins. On an H200, 17 of 32 PTX texts with sequences of products
    gave wrong results, both with ptxas 13.0 and with the driver.
    """
    if PRODUCT not in ptx:
        return ptx
    targets, loaded = set(re.findall(TARGET, ptx)), set(re.findall(LOADED, ptx))
    while more := {d for d, source in re.findall(COPIED, ptx) if source in loaded} - loaded if loaded else ():
        loaded |= more
    return "".join(apart(part, targets, loaded) if PRODUCT in part else part for part in re.split(BETWEEN, ptx))


def apart(part: str, targets: set[str], loaded: set[str]) -> str:
    """Rewrites a `part` of the PTX between two fences or waits. Inserts a fence before each product that may equal an
    earlier product. `targets` are branch targets, and `loaded` are registers loaded from memory."""
    if part.count(PRODUCT) < 2 and not any(f"{target}:" in part for target in targets):
        return part
    values: dict[str, Any] = {}  # maps a register to its value, if the value changed since the start of the part
    done: set[Any] = set()
    made, behind, again = [], 0, False
    for found in re.finditer(STATEMENT, part):
        # a branch target may start a loop, and then the next product may equal itself in the previous iteration
        if found["label"] in targets:
            again = True
        elif (name := found["name"] or "").startswith(PRODUCT):
            sums, rest = found["operands"].split("}", 1)
            product = name, sums, *(values.get(each, each) for each in re.findall(NAMES, rest))
            if again or product in done:
                made += [part[behind : found.start()], "wgmma.fence.sync.aligned; "]
                behind, again = found.start(), False
                done.clear()
            done.add(product)
        elif name:
            to, *given = re.findall(NAMES, found["operands"]) or [""]
            taken = [values.get(each, each) for each in given]
            other = found["guard"] or name.startswith(UNKNOWN)
            value = ("other", found.start()) if other else value_of(name, taken)
            values[to] = to if to in loaded and not is_copy(name, taken) else value
    return "".join([*made, part[behind:]])


def is_copy(name: str, taken: list[Any]) -> bool:
    return name.startswith("mov.") and len(taken) == 1


def value_of(name: str, taken: list[Any]) -> Any:
    """Describes the value that an instruction computes, so that equal descriptions mean equal values. The description
    is the value of a copied register, a base plus a number, or the instruction with its operands."""
    if is_copy(name, taken):
        return taken[0]
    if name.startswith(("add.s64", "add.u64")) and str(taken[1]).lstrip("-").isdigit():
        base, before = taken[0][1:] if isinstance(taken[0], tuple) and taken[0][0] == "sum" else (taken[0], 0)
        number = before + int(taken[1])
        return ("sum", base, number) if number else base
    return (name, *taken)


def widen_extremes(ptx: str) -> str:
    """Computes minima and maxima of 16-bit integers in 32 bits.

    For `max.s16 m, x, 0` followed by `setp.eq.b16 p, m, 0`, ptxas emits no comparison. It uses the predicate of the
    maximum, which indicates the selected operand. But both halves of a register write the same predicate, and the wrong
    half writes it last: SASS `VIMNMX.S16x2 R, P0, P0, …`.
    """

    if not any(name in ptx for name in HALVES):  # the regular expression below takes longer than all other code here
        return ptx

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

    return re.sub(HALF_EXTREME, widened, ptx)


def keep_comparisons(ptx: str) -> str:
    """Clamps a minimum or maximum at 0 by a shift instead of another maximum, if the clamped value is compared.

    For `setp.eq.s32 min.relu.s32(x, c), c`, ptxas emits no comparison, but uses the predicate of VIMNMX.RELU. For some
    x, that predicate differs from the comparison.
    """
    # Search for plain strings first, because the regular expressions take ten times as long.
    if ".relu.s32" not in ptx and ("min.s32" not in ptx or "max.s32" not in ptx):
        return ptx
    minima = set(re.findall(MINIMUM, ptx))
    clamped = {d for _, d, _, _ in re.findall(RELU, ptx)} | {d for d, a in re.findall(AT_LEAST_0, ptx) if a in minima}
    wrong = clamped & compared(ptx) if clamped else clamped
    if not wrong:
        return ptx

    def shifted(first: str, made: str, d: str) -> str:
        sign = f"shr.s32 %sign, {made}, 31; not.b32 %sign, %sign;"
        return f"{{ .reg .b32 %low, %sign; {first}{sign} and.b32 {d}, {made}, %sign; }}"

    def at_once(found: re.Match[str]) -> str:
        name, d, a, b = found.groups()
        return shifted(f"{name}.s32 %low, {a}, {b}; ", "%low", d) if d in wrong else found[0]

    def apart(found: re.Match[str]) -> str:
        d, a = found.groups()
        return shifted("", a, d) if d in wrong and a in minima else found[0]

    return re.sub(RELU, at_once, re.sub(AT_LEAST_0, apart, ptx))


def keep_conversions(ptx: str) -> str:
    """Adds -0, which changes nothing, to floats that are at least 0 and are converted to a byte of a packed word.

    For conversions of `max.f32(x, 0)` followed by `cvt.pack.sat.u8`, as in `relu(x).to(u8)`, ptxas emits
    F2IP.U8.F32.RELU. This is an illegal instruction on an H200. The instruction for s8 exists.
    """
    if "cvt.pack.sat.u8.s32" not in ptx:
        return ptx
    found = {d or e for d, e in re.findall(AT_LEAST_ZERO, ptx)}
    if not found:
        return ptx
    passed_on = re.findall(ROUNDED, ptx)
    while more := {d for d, source in passed_on if source in found} - found:
        found |= more

    def apart(match: re.Match[str]) -> str:
        indent, convert, d, source = match.groups()
        if source not in found:
            return match[0]
        return f"{indent}{{ .reg .f32 %kept; add.f32 %kept, {source}, 0f80000000; {convert} {d}, %kept; }}"

    return re.sub(TO_INTEGER, apart, ptx)


def compared(ptx: str) -> set[str]:
    """Returns the registers that are compared, and the registers from which they were copied or converted."""
    found = {operand for pair in re.findall(COMPARED, ptx) for operand in pair}
    sources: dict[str, list[str]] = {}
    for to, source in re.findall(PASSED_ON, ptx):
        sources.setdefault(to, []).append(source)
    work = [*found]
    while work:
        for source in sources.get(work.pop(), ()):
            if source not in found:
                found.add(source)
                work.append(source)
    return found


def keep_signs(ptx: str) -> str:
    """Replaces negations by ~x + 1 if the PTX contains two or more signed minima or maxima.

    ptxas combines `max.s32(c, max.s32(a, neg.s32 b))` into one instruction, and drops the negation of b. It never drops
    the addition in ~b + 1.
    """
    if ptx.count("min.s32") + ptx.count("max.s32") < 2 or "neg.s" not in ptx:
        return ptx
    return re.sub(NEGATION, r"\1not.b\2 \t\3, \4;\n\1add.s\2 \t\3, \3, 1;", ptx)
