"""Implements floating point arithmetic (PTX ISA 9.7.3, 9.7.4) with the functions of `numerics` and `approximations`."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from .. import numerics
from ..approximations import approximate, div_approx, div_full
from ..code import Code, Op, Values
from ..formats import to_f32
from ..reader import PtxInstruction
from .registry import computed, instruction, take_modifiers

ROUNDINGS = {"rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi"}
MODIFIERS = ROUNDINGS | {"ftz", "sat", "relu", "approx", "full", "NaN", "xorsign", "abs"}


def element(type_name: str) -> str:
    """Returns the element type of a type that may be packed: f16 for f16x2 and for f16."""
    return type_name.removesuffix("x2")


def split(ins: PtxInstruction) -> tuple[set[str], str, str]:
    """Returns the modifiers, the rounding mode (rn by default) and the type of a float instruction."""
    modifiers, types = take_modifiers(ins, MODIFIERS)
    return modifiers, next(iter(modifiers & ROUNDINGS), "rn"), types[0]


def narrow_sources(ins: PtxInstruction) -> str:
    """Returns the 16-bit source type of mixed instructions, f16 for `add.f32.f16 d, a, c`, and "" for other
    instructions. Only a, and for fma also b, has this type. It is widened to f32 (PTX ISA 8.6, sm_100)."""
    narrow = ins.opcode[-1]
    is_mixed = ins.opcode[0] in ("add", "sub", "fma") and ins.opcode[-2] == "f32" and narrow in ("f16", "bf16")
    return narrow if is_mixed else ""


def reads(code: Code, ins: PtxInstruction, type_name: str) -> list[int]:
    return [code.read(operand, type_name) for operand in ins.operands[1:]]


CANONICAL_NAN = np.array([0x7FFFFFFF], np.uint32).view(np.float32)


def plain_f32(function: np.ufunc, d: int, a: int, b: int) -> Op:
    """Builds add, sub or mul of f32, rounded to nearest. The ufunc writes directly to the destination. Then each NaN is
    replaced by the canonical NaN."""

    def run(v: Values, g: Any) -> None:
        out = v[d]
        function(v[a], v[b], out)
        nan = np.isnan(out)
        if nan.any():
            out[nan] = CANONICAL_NAN

    return run


def binary_float(code: Code, ins: PtxInstruction) -> Op:
    """Builds add, sub or mul of floats."""
    kind, narrow = ins.opcode[0], narrow_sources(ins)
    modifiers, rounding, type_name = split(ins)
    a, b = [code.read(o, t) for o, t in zip(ins.operands[1:], (narrow or type_name, type_name), strict=True)]
    d = code.write(ins.operands[0], type_name)
    if not narrow and type_name == "f32" and rounding == "rn" and not modifiers & {"ftz", "sat"}:
        return plain_f32({"add": np.add, "sub": np.subtract, "mul": np.multiply}[kind], d, a, b)
    function = {"add": numerics.add, "sub": numerics.sub, "mul": numerics.mul}[kind]
    dtype, ftz, saturate = element(type_name), "ftz" in modifiers, "sat" in modifiers
    return computed(lambda x, y: function(to_f32(x, narrow), y, dtype, rounding, ftz, saturate), d, [a, b])


@instruction("fma")
def fused(code: Code, ins: PtxInstruction) -> Op:
    modifiers, rounding, type_name = split(ins)
    narrow = narrow_sources(ins)
    types = (narrow or type_name, narrow or type_name, type_name)
    sources = [code.read(o, t) for o, t in zip(ins.operands[1:], types, strict=True)]
    d = code.write(ins.operands[0], type_name)
    dtype, ftz, saturate, relu = element(type_name), "ftz" in modifiers, "sat" in modifiers, "relu" in modifiers

    def sum_of_product(x: Any, y: Any, z: Any) -> Any:
        return numerics.fma(to_f32(x, narrow), to_f32(y, narrow), z, dtype, rounding, ftz, saturate, relu)

    return computed(sum_of_product, d, sources)


def float_divide(code: Code, ins: PtxInstruction) -> Op:
    modifiers, rounding, type_name = split(ins)
    sources = reads(code, ins, type_name)
    d = code.write(ins.operands[0], type_name)
    ftz = "ftz" in modifiers
    for word, function in (("approx", div_approx), ("full", div_full)):
        if word in modifiers:
            return computed(partial(function, dtype=type_name, ftz=ftz), d, sources)
    return computed(partial(numerics.div, dtype=type_name, rounding=rounding, ftz=ftz), d, sources)


@instruction("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", counts="special")
def special_function(code: Code, ins: PtxInstruction) -> Op:
    modifiers, rounding, type_name = split(ins)
    sources = reads(code, ins, type_name)
    d = code.write(ins.operands[0], type_name)
    name, dtype, ftz = ins.opcode[0], element(type_name), "ftz" in modifiers
    if "approx" in modifiers:
        return computed(lambda x: approximate(name, x, dtype, ftz), d, sources)
    exact = {"rcp": numerics.rcp, "sqrt": numerics.sqrt}[name]
    return computed(lambda x: exact(x, dtype, rounding, ftz), d, sources)


def float_extreme(code: Code, ins: PtxInstruction) -> Op:
    """Builds min or max of two or three sources."""
    modifiers, _, type_name = split(ins)
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
    """Builds abs or neg."""
    type_name, ftz = ins.opcode[-1], "ftz" in ins.opcode
    function = numerics.abs if ins.opcode[0] == "abs" else numerics.neg
    change = partial(function, dtype=element(type_name), ftz=ftz)
    return computed(change, code.write(ins.operands[0], type_name), reads(code, ins, type_name))


@instruction("copysign")
def copysign(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    copied = partial(numerics.copysign, dtype=type_name)
    return computed(copied, code.write(ins.operands[0], type_name), reads(code, ins, type_name))


@instruction("testp")
def testp(code: Code, ins: PtxInstruction) -> Op:
    _, test, type_name = ins.opcode
    tested = partial(numerics.testp, op=test, dtype=type_name)
    return computed(tested, code.write(ins.operands[0], "pred"), reads(code, ins, type_name))
