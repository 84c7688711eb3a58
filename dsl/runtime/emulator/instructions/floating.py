"""Floating point arithmetic (PTX ISA 9.7.3, 9.7.4): closures that call the functions of `numerics`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import numerics
from ..code import Code, Op, Values
from ..formats import to_f32
from ..reader import PtxInstruction
from .registry import instruction, take_modifiers

ROUNDINGS = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"}
MODIFIERS = ROUNDINGS | {"ftz", "sat", "relu", "approx", "full", "NaN", "xorsign", "abs", "oob", "noftz"}
SPECIAL_FUNCTIONS = {
    "ex2": numerics.ex2_approx,
    "lg2": numerics.lg2_approx,
    "sin": numerics.sin_approx,
    "cos": numerics.cos_approx,
    "tanh": numerics.tanh_approx,
}


def element(type_name: str) -> str:
    """The element type of a type that may be packed."""
    return type_name.removesuffix("x2")


def split(code: Code, ins: PtxInstruction) -> tuple[set[str], str, str]:
    """The modifiers, the rounding and the type of a float instruction."""
    modifiers, types = take_modifiers(ins, MODIFIERS)
    if narrow_sources(ins):
        types = types[:1]
    if len(types) != 1 or element(types[0]) not in {"f16", "bf16", "f32", "f64"}:
        raise code.error("unknown form of a floating point instruction")
    rounding = next(iter(modifiers & ROUNDINGS), "rn")
    return modifiers, rounding, types[0]


def narrow_sources(ins: PtxInstruction) -> str:
    """The 16-bit type of the narrow sources of `add.f32.f16 d, a, c` and similar instructions. It is empty for other
    instructions. The narrow sources are a, and for fma also b. They are widened to f32 (PTX ISA 8.6, sm_100)."""
    narrow = ins.opcode[-1]
    is_mixed = ins.opcode[0] in ("add", "sub", "fma") and ins.opcode[-2] == "f32" and narrow in ("f16", "bf16")
    return narrow if is_mixed else ""


def reads(code: Code, ins: PtxInstruction, type_name: str) -> list[int]:
    return [code.read(operand, type_name) for operand in ins.operands[1:]]


CANONICAL_NAN = np.array([0x7FFFFFFF], np.uint32).view(np.float32)


def plain_f32(function: np.ufunc, d: int, a: int, b: int) -> Op:
    """add, sub or mul of f32, rounded to nearest. The ufunc writes straight into the destination, then NaN results
    become canonical."""

    def run(v: Values, g: Any) -> None:
        out = v[d]
        function(v[a], v[b], out)
        nan = np.isnan(out)
        if nan.any():
            out[nan] = CANONICAL_NAN

    return run


def binary_float(code: Code, ins: PtxInstruction) -> Op:
    """add, sub or mul of floats."""
    kind, narrow = ins.opcode[0], narrow_sources(ins)
    modifiers, rounding, type_name = split(code, ins)
    a, b = [code.read(o, t) for o, t in zip(ins.operands[1:], (narrow or type_name, type_name), strict=True)]
    d = code.write(ins.operands[0], type_name)
    if not narrow and type_name == "f32" and rounding == "rn" and not modifiers & {"ftz", "sat"}:
        return plain_f32({"add": np.add, "sub": np.subtract, "mul": np.multiply}[kind], d, a, b)
    function = {"add": numerics.add, "sub": numerics.sub, "mul": numerics.mul}[kind]
    dtype, ftz, saturate = element(type_name), "ftz" in modifiers, "sat" in modifiers

    def run(v: Values, g: Any) -> None:
        left = to_f32(v[a], narrow)
        v[d][...] = function(left, v[b], dtype, rounding, ftz, saturate)

    return run


@instruction("fma")
def fused(code: Code, ins: PtxInstruction) -> Op:
    modifiers, rounding, type_name = split(code, ins)
    narrow = narrow_sources(ins)
    types = (narrow or type_name, narrow or type_name, type_name)
    a, b, c = [code.read(o, t) for o, t in zip(ins.operands[1:], types, strict=True)]
    d = code.write(ins.operands[0], type_name)
    dtype, ftz, saturate, relu = element(type_name), "ftz" in modifiers, "sat" in modifiers, "relu" in modifiers

    def run(v: Values, g: Any) -> None:
        left, right = to_f32(v[a], narrow), to_f32(v[b], narrow)
        v[d][...] = numerics.fma(left, right, v[c], dtype, rounding, ftz, saturate, relu=relu)

    return run


def float_divide(code: Code, ins: PtxInstruction) -> Op:
    modifiers, rounding, type_name = split(code, ins)
    a, b = reads(code, ins, type_name)
    d = code.write(ins.operands[0], type_name)
    ftz = "ftz" in modifiers

    def run(v: Values, g: Any) -> None:
        if "approx" in modifiers:
            v[d][...] = numerics.div_approx(v[a], v[b], type_name, ftz)
        elif "full" in modifiers:
            v[d][...] = numerics.div_full(v[a], v[b], type_name, ftz)
        else:
            v[d][...] = numerics.div(v[a], v[b], type_name, rounding, ftz)

    return run


@instruction("rcp", "sqrt", "rsqrt", counts="special")
def root(code: Code, ins: PtxInstruction) -> Op:
    modifiers, rounding, type_name = split(code, ins)
    (a,) = reads(code, ins, type_name)
    d = code.write(ins.operands[0], type_name)
    ftz = "ftz" in modifiers
    if "approx" in modifiers:
        approximate = {"rcp": numerics.rcp_approx, "sqrt": numerics.sqrt_approx, "rsqrt": numerics.rsqrt_approx}
        function = approximate[ins.opcode[0]]

        def run(v: Values, g: Any) -> None:
            v[d][...] = function(v[a], type_name, ftz)

        return run
    if ins.opcode[0] == "rsqrt":
        raise code.error("rsqrt needs .approx")
    exact = {"rcp": numerics.rcp, "sqrt": numerics.sqrt}[ins.opcode[0]]

    def run_exact(v: Values, g: Any) -> None:
        v[d][...] = exact(v[a], type_name, rounding, ftz)

    return run_exact


@instruction("ex2", "lg2", "sin", "cos", "tanh", counts="special")
def special_function(code: Code, ins: PtxInstruction) -> Op:
    modifiers, _, type_name = split(code, ins)
    (a,) = reads(code, ins, type_name)
    d = code.write(ins.operands[0], type_name)
    function, dtype, ftz = SPECIAL_FUNCTIONS[ins.opcode[0]], element(type_name), "ftz" in modifiers

    def run(v: Values, g: Any) -> None:
        v[d][...] = function(v[a], dtype, ftz)

    return run


def float_extreme(code: Code, ins: PtxInstruction) -> Op:
    """min or max of two or three sources."""
    modifiers, _, type_name = split(code, ins)
    sources = reads(code, ins, type_name)
    d = code.write(ins.operands[0], type_name)
    function = numerics.minimum if ins.opcode[0] == "min" else numerics.maximum
    dtype, nan, xorsign, ftz = element(type_name), "NaN" in modifiers, "xorsign" in modifiers, "ftz" in modifiers

    def run(v: Values, g: Any) -> None:
        result = v[sources[0]]
        for source in sources[1:]:
            result = function(result, v[source], dtype, nan, xorsign, ftz)
        v[d][...] = result

    return run


def float_sign(code: Code, ins: PtxInstruction) -> Op:
    """abs or neg. `abs` is the opcode here, not a modifier."""
    type_name, ftz = ins.opcode[-1], "ftz" in ins.opcode
    (a,) = reads(code, ins, type_name)
    d = code.write(ins.operands[0], type_name)
    function, dtype = numerics.abs if ins.opcode[0] == "abs" else numerics.neg, element(type_name)

    def run(v: Values, g: Any) -> None:
        v[d][...] = function(v[a], dtype, ftz)

    return run


@instruction("copysign")
def copysign(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    a, b = reads(code, ins, type_name)
    d = code.write(ins.operands[0], type_name)

    def run(v: Values, g: Any) -> None:
        v[d][...] = numerics.copysign(v[a], v[b], type_name)

    return run


@instruction("testp")
def testp(code: Code, ins: PtxInstruction) -> Op:
    _, test, type_name = ins.opcode
    a = code.read(ins.operands[1], type_name)
    d = code.write(ins.operands[0], "pred")

    def run(v: Values, g: Any) -> None:
        v[d][...] = numerics.testp(v[a], test, type_name)

    return run
