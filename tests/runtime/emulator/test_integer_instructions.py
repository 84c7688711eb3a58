"""Integer instructions as a kernel runs them, against Python integers: the wiring of operands, types and modes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from handwritten import kernel

from dsl.runtime.emulator import emulate

LANES = 256
EDGES = [
    0,
    1,
    2,
    3,
    5,
    7,
    15,
    16,
    31,
    32,
    33,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFF,
    0x800000,
]
EDGES += [0xFFFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63, (1 << 63) - 1, (1 << 64) - 1, 0x123456789ABCDEF0]
Model = Callable[[int, int, int], int]


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def clamp(value: int, bits: int) -> int:
    return min(max(value, -(1 << bits - 1)), (1 << bits - 1) - 1)


def quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def models(kind: str) -> dict[str, Model]:
    """What each instruction of a type computes from its sources, read as the type says."""
    bits = int(kind[1:])
    found: dict[str, Model] = {
        f"add.{kind}": lambda a, b, c: a + b,
        f"sub.{kind}": lambda a, b, c: a - b,
        f"mul.lo.{kind}": lambda a, b, c: a * b,
        f"mul.hi.{kind}": lambda a, b, c: a * b >> bits,
        f"mad.lo.{kind}": lambda a, b, c: a * b + c,
        f"mad.hi.{kind}": lambda a, b, c: (a * b >> bits) + c,
        f"sad.{kind}": lambda a, b, c: c + abs(a - b),
        f"min.{kind}": lambda a, b, c: min(a, b),
        f"max.{kind}": lambda a, b, c: max(a, b),
        f"div.{kind}": lambda a, b, c: quotient(a, b) if b else -1,
        f"rem.{kind}": lambda a, b, c: a - b * quotient(a, b) if b else -1,
    }
    if kind[0] == "s":
        found |= {f"abs.{kind}": lambda a, b, c: abs(a), f"neg.{kind}": lambda a, b, c: -a}
    if kind == "s32":
        found |= {
            "add.sat.s32": lambda a, b, c: clamp(a + b, 32),
            "sub.sat.s32": lambda a, b, c: clamp(a - b, 32),
            "mad.hi.sat.s32": lambda a, b, c: clamp((a * b >> 32) + c, 32),
            "mul24.lo.s32": lambda a, b, c: signed(a, 24) * signed(b, 24),
            "mul24.hi.s32": lambda a, b, c: signed(a, 24) * signed(b, 24) >> 16,
            "mad24.lo.s32": lambda a, b, c: signed(a, 24) * signed(b, 24) + c,
            "mad24.hi.s32": lambda a, b, c: (signed(a, 24) * signed(b, 24) >> 16) + c,
            "mad24.hi.sat.s32": lambda a, b, c: clamp((signed(a, 24) * signed(b, 24) >> 16) + c, 32),
            "min.relu.s32": lambda a, b, c: max(min(a, b), 0),
            "max.relu.s32": lambda a, b, c: max(a, b, 0),
        }
    if kind == "u32":
        low = (1 << 24) - 1
        found |= {
            "mul24.lo.u32": lambda a, b, c: (a & low) * (b & low),
            "mul24.hi.u32": lambda a, b, c: (a & low) * (b & low) >> 16,
            "mad24.lo.u32": lambda a, b, c: (a & low) * (b & low) + c,
            "mad24.hi.u32": lambda a, b, c: ((a & low) * (b & low) >> 16) + c,
            "popc.b32": lambda a, b, c: a.bit_count(),
            "clz.b32": lambda a, b, c: 32 - a.bit_length(),
            "brev.b32": lambda a, b, c: int(f"{a:032b}"[::-1], 2),
            "not.b32": lambda a, b, c: ~a,
            "cnot.b32": lambda a, b, c: int(a == 0),
            "and.b32": lambda a, b, c: a & b,
            "xor.b32": lambda a, b, c: a ^ b,
            "or.b32": lambda a, b, c: a | b,
            "shl.b32": lambda a, b, c: a << min(b, 32),
            "shr.u32": lambda a, b, c: a >> min(b, 32),
            "shr.s32": lambda a, b, c: signed(a, 32) >> min(b, 32),
            "shf.l.clamp.b32": lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32,
            "shf.r.clamp.b32": lambda a, b, c: (b << 32 | a) >> min(c, 32),
            "shf.l.wrap.b32": lambda a, b, c: (b << 32 | a) << (c & 31) >> 32,
            "shf.r.wrap.b32": lambda a, b, c: (b << 32 | a) >> (c & 31),
            "bmsk.clamp.b32": lambda a, b, c: ((1 << min(b, 32)) - 1) << min(a, 32),
            "bmsk.wrap.b32": lambda a, b, c: ((1 << (b & 31)) - 1) << (a & 31),
            "szext.wrap.u32": lambda a, b, c: a & ((1 << (b & 31)) - 1),
            "szext.clamp.s32": lambda a, b, c: a if b >= 32 else signed(a, b) if b else 0,
            "dp4a.u32.s32": lambda a, b, c: c + sum((a >> i & 255) * signed(b >> i, 8) for i in (0, 8, 16, 24)),
            "dp2a.hi.s32.u32": lambda a, b, c: (
                c + sum(signed(a >> 16 * i, 16) * (b >> 16 + 8 * i & 255) for i in (0, 1))
            ),
        }
    if bits < 64 and bits > 16:
        found |= {f"mul.wide.{kind}": lambda a, b, c: a * b}
    return found


def takes(name: str) -> int:
    root = name.split(".")[0]
    return {"abs": 1, "neg": 1, "popc": 1, "clz": 1, "brev": 1, "not": 1, "cnot": 1}.get(
        root, 3 if root in {"mad", "mad24", "sad", "shf", "dp4a", "dp2a"} else 2
    )


@pytest.mark.parametrize("constants", [False, True])
@pytest.mark.parametrize("kind", ["u16", "s16", "u32", "s32", "u64", "s64"])
def test_instructions_of_a_type(kind: str, constants: bool) -> None:
    bits = int(kind[1:])
    rng = np.random.default_rng(bits + constants)
    rows = rng.choice(np.array(EDGES, np.uint64), (LANES, 3))
    rows ^= (rng.integers(0, 4, rows.shape) == 0) * rng.integers(0, 1 << 64, rows.shape, np.uint64)
    fixed = int(rng.choice(np.array(EDGES, np.uint64))) & ((1 << bits) - 1)
    if constants:
        rows[:, 1] = fixed
    table = models(kind)
    register = {16: "%h", 32: "%r", 64: "%rd"}[bits]
    body = ["mad.lo.u32 %r30, %r0, 24, 0;", "cvt.u64.u32 %rd20, %r30;", "add.u64 %rd20, %rd20, %rd0;"]
    body += [f"ld.global.b{bits} {register}{10 + i}, [%rd20+{8 * i}];" for i in range(3)]
    sources = [f"{register}10", str(fixed) if constants else f"{register}11", f"{register}12"]
    for at, name in enumerate(table):
        wide = ".wide." in name
        target = "%rd13" if wide else f"{register}13"
        body.append(f"{name} {', '.join([target, *sources[: takes(name)]])};")
        size = 64 if wide else bits
        body += [
            f"mad.lo.u32 %r31, %r0, {8 * len(table)}, {8 * at};",
            "cvt.u64.u32 %rd21, %r31;",
            "add.u64 %rd21, %rd21, %rd1;",
            f"st.global.b{size} [%rd21], {target};",
        ]
    y = np.zeros((LANES, len(table)), np.uint64)
    emulate(kernel("\n".join(body)), "kernel", 1, LANES, [rows, y])
    for at, (name, model) in enumerate(table.items()):
        size = 64 if ".wide." in name else bits
        mask = (1 << size) - 1
        for lane in range(LANES):
            values = [int(value) & ((1 << bits) - 1) for value in rows[lane]]
            read = [signed(value, bits) for value in values] if kind[0] == "s" else values
            assert int(y[lane, at]) & mask == model(*read) & mask, (name, [hex(value) for value in values])
