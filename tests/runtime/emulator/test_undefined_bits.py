"""Which bits of a result are undefined, against all the values that the undefined bits of the operands can have.

Each thread runs the instruction with one filling of some undefined bits; a bit of the result that differs between the
fillings must be among those that the emulator takes for undefined, and where a row says so it takes no others.
"""

import os
from typing import Any

import numpy as np
import pytest
from handwritten import kernel

from dsl.runtime.emulator import emulate
from dsl.runtime.emulator.code import REGISTER_DTYPE, Code, seen_as
from dsl.runtime.emulator.launch import program_of
from dsl.runtime.emulator.step import RegisterStep
from dsl.runtime.emulator.undefined_bits import transfer

CASES = int(os.environ.get("UNDEFINED_BITS_CASES", "24"))
UNDEFINED = 6  # bits of a case that are undefined
INPUTS = {f"%{kind}{20 + i}": (kind, i) for kind in ("r", "rd") for i in range(3)}
INPUTS |= {f"%{kind}{7 + i}": (kind, i) for kind in ("h", "p") for i in range(3)}
WIDTH = {"r": 32, "rd": 64, "h": 16, "p": 1}
LOAD = {
    "r": "ld.global.b32 {0}, [%rd11+{1}];",
    "rd": "ld.global.b64 {0}, [%rd11+{1}];",
    "h": "ld.global.b16 {0}, [%rd11+{1}];",
    "p": "ld.global.b32 %r11, [%rd11+{1}];\nsetp.ne.b32 {0}, %r11, 0;",
}
STORE = {
    "r": "st.global.b32 [%rd13+{1}], {0};",
    "rd": "st.global.b64 [%rd13+{1}], {0};",
    "h": "st.global.b16 [%rd13+{1}], {0};",
    "p": "selp.b32 %r12, 1, 0, {0};\nst.global.b32 [%rd13+{1}], %r12;",
}
OUTPUTS = {"%r30": "r", "%rd28": "rd", "%h12": "h", "%p12": "p", "%r31": "r", "%h13": "h", "%p13": "p"}

EXACT = """
mov.b64 %rd28, {%r20, %r21}
mov.b64 {%r30, %r31}, %rd20
mov.b64 {_, %r30}, %rd20
mov.b32 %r30, {%h7, %h8}
mov.b32 {%h12, %h13}, %r20
and.b32 %r30, %r20, %r21
and.b64 %rd28, %rd20, -4294967296
or.b64 %rd28, %rd20, %rd21
or.b16 %h12, %h7, 255
xor.b32 %r30, %r20, %r21
xor.b32 %r30, %r20, %r20
and.b32 %r30, %r20, %r20
not.b64 %rd28, %rd20
and.pred %p12, %p7, %p8
or.pred %p12, %p7, %p8
not.pred %p12, %p7
lop3.b32 %r30, %r20, %r21, %r22, 0xe8
lop3.b32 %r30, %r20, %r21, %r20, 0x3c
selp.b32 %r30, %r20, %r21, %p7
selp.b64 %rd28, %rd20, 3, %p7
shl.b32 %r30, %r20, 5
shr.u64 %rd28, %rd20, 32
shr.s32 %r30, %r20, 3
shr.s64 %rd28, %rd20, 90
shr.s16 %h12, %h7, 4
shf.l.wrap.b32 %r30, %r20, %r21, 9
shf.r.clamp.b32 %r30, %r20, %r21, 40
bfe.u32 %r30, %r20, 3, 9
bfe.s64 %rd28, %rd20, 30, 9
bfi.b32 %r30, %r20, %r21, 8, 11
bfi.b64 %rd28, %rd20, %rd21, 32, 32
brev.b32 %r30, %r20
prmt.b32 %r30, %r20, %r21, 0x7610
prmt.b32 %r30, %r20, %r21, 0x9d4a
cvt.u32.u64 %r30, %rd20
cvt.s64.s32 %rd28, %r20
cvt.u64.u32 %rd28, %r20
cvt.u16.u64 %h12, %rd20
cvt.s32.s8 %r30, %r20
cvt.s16.s8 %h12, %h7
cvt.u32.u16 %r30, %h7
add.u32 %r30, %r20, %r21
add.s64 %rd28, %rd20, %rd21
add.s16 %h12, %h7, 77
sub.u64 %rd28, %rd20, %rd21
sub.u32 %r30, 100, %r20
sub.s32 %r30, %r20, %r20
mov.u32 %r30, %r20
mov.pred %p12, %p7
selp.b32 %r30, %r20, %r20, %p7
selp.b16 %h12, 256, 257, %p7
szext.wrap.s32 %r30, %r20, 7
szext.clamp.u32 %r30, %r20, 40
bfi.b32 %r30, %r20, -1, 30, 8
neg.s32 %r30, %r20
setp.eq.u32 %p12, %r20, %r21
setp.ne.b64 %p12, %rd20, %rd21
setp.lt.s32 %p12, %r20, %r21
setp.ge.u32 %p12, %r20, %r21
setp.le.s64 %p12, %rd20, %rd21
setp.gt.s64 %p12, %rd20, -1
setp.hi.u16 %p12, %h7, %h8
setp.lt.u16 %p12, %h7, 256
"""

SAFE = """
shl.b32 %r30, %r20, %r21
shr.s32 %r30, %r20, %r21
bfe.s32 %r30, %r20, %r21, %r22
prmt.b32 %r30, %r20, %r21, %r22
prmt.b32.f4e %r30, %r20, %r21, %r22
mul.lo.u32 %r30, %r20, %r21
mul.lo.s64 %rd28, %rd20, 48
mul.lo.s16 %h12, %h7, 205
mul.wide.s32 %rd28, %r20, %r21
mul.wide.u32 %rd28, %r20, 12
mul.wide.s16 %r30, %h7, %h8
mul.hi.u32 %r30, %r20, %r21
mad.lo.s32 %r30, %r20, %r21, %r22
mad.lo.s64 %rd28, %rd20, 6, %rd21
mad.wide.u32 %rd28, %r20, 5, %rd20
mad.wide.s32 %rd28, %r20, %r21, %rd20
min.u32 %r30, %r20, %r21
max.s64 %rd28, %rd20, %rd21
min.s16 %h12, %h7, %h8
abs.s32 %r30, %r20
div.u32 %r30, %r20, 7
rem.s32 %r30, %r20, %r21
popc.b64 %r30, %rd20
clz.b32 %r30, %r20
sad.u32 %r30, %r20, %r21, %r22
cvt.sat.s16.s32 %h12, %r20
cvt.rn.f32.u16 %r30, %h7
cvt.rn.f16x2.f32 %r30, %r20, %r21
min.u16x2 %r30, %r20, %r21
add.u16x2 %r30, %r20, %r21
add.rn.f16x2 %r30, %r20, %r21
fma.rn.bf16x2 %r30, %r20, %r21, %r22
neg.f16x2 %r30, %r20
cvt.rn.bf16x2.f32 %r30, %r20, %r21
cvt.rn.satfinite.e4m3x2.f32 %h12, %r20, %r21
cvt.rn.satfinite.e5m2x2.f16x2 %h12, %r20
cvt.rn.f16x2.e4m3x2 %r30, %h7
cnot.b32 %r30, %r20
shf.l.clamp.b32 %r30, %r20, %r21, %r22
add.sat.s32 %r30, %r20, %r21
max.s32 %r30, %r20, 0
max.relu.s32 %r30, %r20, %r21
bfind.u64 %r30, %rd20
dp4a.u32.s32 %r30, %r20, %r21, %r22
mul24.lo.u32 %r30, %r20, %r21
fma.rn.f32 %r30, %r20, %r21, %r22
set.lt.u32.u32 %r30, %r20, %r21
setp.lt.and.u32 %p12|%p13, %r20, %r21, %p7
"""


def lines(text: str) -> list[str]:
    return [f"{line};" for line in text.strip().splitlines()]


def registers(text: str, names: Any) -> list[str]:
    words = text.replace(",", " ").replace(";", " ").replace("{", " ").replace("}", " ").replace("|", " ").split()
    return [name for name in names if name in words]


def drawn(random: np.random.Generator, width: int) -> int:
    """Values near zero, near each other, of one block of ones, and any."""
    any_value = int(random.integers(0, 1 << 63)) << 1 | int(random.integers(0, 2))
    shapes = (any_value, any_value & 3, -int(random.integers(1, 4)), any_value & 0xFF << 8 * int(random.integers(0, 8)))
    return shapes[int(random.integers(0, len(shapes)))] & (1 << width) - 1


def cases(given: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """[cases] values and [cases] undefined bits of each input; half of the masks are one run of bits."""
    random = np.random.default_rng(len(given))
    values: dict[str, list[int]] = {name: [] for name in given}
    masks: dict[str, list[int]] = {name: [] for name in given}
    for case in range(CASES):
        places = [(name, bit) for name in given for bit in range(WIDTH[INPUTS[name][0]])]
        start = int(random.integers(0, len(places)))
        run = [(start + i) % len(places) for i in range(min(UNDEFINED, len(places)))]
        chosen = run if case % 2 else random.choice(len(places), len(run), replace=False)
        for name in given:
            values[name].append(drawn(random, WIDTH[INPUTS[name][0]]))
            masks[name].append(sum(1 << places[at][1] for at in chosen if places[at][0] == name))
    return ({n: np.array(v, np.uint64) for n, v in each.items()} for each in (values, masks))  # type: ignore[return-value]


def filled(values: dict[str, Any], masks: dict[str, Any]) -> dict[str, Any]:
    """[cases, fillings] of each input."""
    result = {name: np.repeat(values[name][:, None], 1 << UNDEFINED, 1) for name in values}
    for case in range(CASES):
        bits = [(name, bit) for name in values for bit in range(64) if int(masks[name][case]) >> bit & 1]
        for filling in range(1 << UNDEFINED):
            for place, (name, bit) in enumerate(bits):
                if filling >> place & 1:
                    result[name][case, filling] ^= np.uint64(1 << bit)
    return result


def frame(code: Code, step: RegisterStep, values: dict[str, Any]) -> dict[int, Any]:
    """What the instruction sees of its registers, one thread for each case."""
    found = {}
    for name, entry in step.entries.items():
        if name in values:
            held = code.bytes_of(name)
            found[entry] = seen_as(values[name].astype(REGISTER_DTYPE[held]), code.entries[entry].type, held)
    return found


@pytest.mark.parametrize("exact, line", [*((True, i) for i in lines(EXACT)), *((False, i) for i in lines(SAFE))])
def test_the_undefined_bits_are_those_that_differ_between_fillings(exact: bool, line: str) -> None:
    given, results = registers(line, INPUTS), registers(line, OUTPUTS)
    assert given and results
    values, masks = cases(given)
    fillings = filled(values, masks)
    ahead = ["mul.wide.u32 %rd10, %r9, 48;", "add.u64 %rd11, %rd0, %rd10;", "add.u64 %rd13, %rd1, %rd10;"]
    loads = [LOAD[INPUTS[name][0]].format(name, 8 * place) for place, name in enumerate(given)]
    stores = [STORE[OUTPUTS[name]].format(name, 8 * place) for place, name in enumerate(results)]
    text = kernel("\n".join([*ahead, *loads, line, *stores])).replace(".version 8.0", ".version 8.1")
    threads = CASES << UNDEFINED
    x, y = np.zeros((threads, 6), np.uint64), np.zeros((threads, 6), np.uint64)
    for place, name in enumerate(given):
        x[:, place] = fillings[name].reshape(-1)
    emulate(text, "kernel", threads // 64, 64, [x, y])
    program = program_of(text, "kernel")
    wanted = line.rstrip(";").split()[0]
    at = next(
        step
        for segment in program.segments
        for step in segment.steps
        if step.ins.name == wanted and set(results) & set(step.writes)
    )
    found = transfer(at)(
        frame(program.code, at, values),  # type: ignore[arg-type]
        lambda name: masks.get(name, np.zeros(1, np.uint64)),
    )
    for place, name in enumerate(results):
        outcomes = y[:, place].reshape(CASES, -1)
        differ = np.bitwise_or.reduce(outcomes ^ outcomes[:, :1], axis=1)
        cut = np.uint64((1 << WIDTH[OUTPUTS[name]]) - 1)
        undefined = np.broadcast_to(found.get(name, found.get("")) & cut, CASES)
        np.testing.assert_array_equal(differ & ~undefined, 0, err_msg="taken for defined")
        if exact:
            np.testing.assert_array_equal(undefined, differ, err_msg="taken for undefined")
