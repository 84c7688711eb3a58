"""Instructions that compute two f32 at once on sm_100 (`add.rn.f32x2`, …), and a rule that emits them.

The compiler has no rows for these instructions, and the emulator does not implement them. This file reads the rows
(packed.toml) and defines each instruction in numpy. The rule computes adjacent registers of a tile in pairs. LLVM
removes the packing between two such instructions.

    dsl verify FILE --arch sm_100 --plugin packed.py
    dsl compile FILE --arch sm_100 --plugin packed.py --emit sass
    dsl run FILE --arch sm_100 --plugin packed.py --choose rule=own
"""

from typing import Any

import numpy as np

from dsl.lowering.emit.writer import Writer
from dsl.lowering.ir.function import Op
from dsl.lowering.ir.targets import Target
from dsl.lowering.ir.types import F32
from dsl.plugin import instructions, rule, semantics

instructions("packed.toml")


def halves(*words: Any) -> list[Any]:
    """64-bit registers as pairs of f32."""
    return [np.ascontiguousarray(each).view(np.float32).reshape(-1, 2) for each in words]


def word(pairs: Any) -> Any:
    return np.ascontiguousarray(pairs, np.float32).view(np.uint64).reshape(-1)


@semantics("add.rn.f32x2 : =b64 b64 b64 : sm_100 8.6")
def added(a: Any, b: Any) -> Any:
    return word(np.add(*halves(a, b)))


@semantics("sub.rn.f32x2 : =b64 b64 b64 : sm_100 8.6")
def less(a: Any, b: Any) -> Any:
    return word(np.subtract(*halves(a, b)))


@semantics("mul.rn.f32x2 : =b64 b64 b64 : sm_100 8.6")
def times(a: Any, b: Any) -> Any:
    return word(np.multiply(*halves(a, b)))


def fits(op: Op, target: Target) -> bool:
    return target.number >= 100 and op.result.dtype is F32 and op.result.tile.shape != ()


@rule("add", when=fits, whole=True)
@rule("sub", when=fits, whole=True)
@rule("mul", when=fits, whole=True)
def packed(w: Writer, op: Op) -> None:
    a, b = (w.registers[operand] for operand in op.operands)
    out = [""] * len(a)
    left = w.needed.of(op.result, len(a))
    for i in left:
        if i % 2 == 0 and i + 1 in left:
            pairs = [joined(w, each[i], each[i + 1]) for each in (a, b)]
            (made,) = w.template(f"{op.name}.rn.f32x2", pairs, op)
            both = w.let(f"bitcast i64 {made} to <2 x float>")
            out[i], out[i + 1] = (w.let(f"extractelement <2 x float> {both}, i32 {k}") for k in (0, 1))
        elif not out[i]:
            out[i] = w.let(f"f{op.name} float {a[i]}, {b[i]}")
    w.registers[op.result] = out


def joined(w: Writer, low: str, high: str) -> str:
    one = w.let(f"insertelement <2 x float> poison, float {low}, i32 0")
    return w.let(f"bitcast <2 x float> {w.let(f'insertelement <2 x float> {one}, float {high}, i32 1')} to i64")
