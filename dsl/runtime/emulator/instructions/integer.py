"""Implements integer arithmetic, logic, shifts and bit fields (PTX ISA 9.7.1, 9.7.2, 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import integers
from ..code import DTYPES, PACKED, Code, Op, Values
from ..reader import PtxInstruction, Register
from ..reductions import UFUNCS
from .floating import binary_float, float_divide, float_extreme, float_sign, fused
from .registry import computed, constant_of, instruction, into

# The condition code register CC.CF (PTX ISA 9.7.2). It is declared as a predicate register, so that it is tracked like
# other registers.
CARRY = "%carry"


def unsigned(type_name: str) -> str:
    return "u" + type_name[1:]


def wide(type_name: str) -> str:
    return type_name[0] + str(2 * int(type_name[1:]))


def reads(code: Code, ins: PtxInstruction, types: list[str]) -> list[int]:
    return [code.read(operand, name) for operand, name in zip(ins.operands[1:], types, strict=True)]


@instruction("add", "sub", "addc", "subc")
def add_sub(code: Code, ins: PtxInstruction) -> Op:
    is_sum, words = ins.opcode[0].startswith("add"), ins.opcode[1:]
    type_name = words[-1]
    if type_name[0] not in "su":
        return binary_float(code, ins)
    if ins.opcode[0][-1] == "c" or "cc" in words:
        return with_carry(code, ins, integers.addc if is_sum else integers.subc)
    seen = type_name if type_name in PACKED else unsigned(type_name)
    sources = reads(code, ins, [seen, seen])
    d = code.write(ins.operands[0], seen)
    if "sat" in words:
        return computed(partial(integers.add if is_sum else integers.sub, dtype=type_name, saturate=True), d, sources)
    return into(np.add if is_sum else np.subtract, d, *sources)


def with_carry(code: Code, ins: PtxInstruction, function: Callable[..., Any]) -> Op:
    """Builds an instruction that uses the carry flag. `addc`, `subc` and `madc` read the flag, and `.cc` writes it."""
    seen = unsigned(ins.opcode[-1])
    code.registers.setdefault(CARRY, "pred")
    sources = reads(code, ins, [seen] * (len(ins.operands) - 1))
    carry_in = code.read(Register(CARRY), "pred") if ins.opcode[0][-1] == "c" else None
    d = code.write(ins.operands[0], seen)
    carry_out = code.write(Register(CARRY), "pred") if "cc" in ins.opcode else None

    def run(v: Values, g: Any) -> None:
        result, carry = function(*[v[source] for source in sources], None if carry_in is None else v[carry_in])
        v[d][...] = result
        if carry_out is not None:
            v[carry_out][...] = carry

    return run


@instruction("mul", "mul24")
def mul(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    if type_name[0] not in "su":
        return binary_float(code, ins)
    mode = ins.opcode[1]
    if ins.opcode[0] == "mul24":
        sources = reads(code, ins, ["u32", "u32"])
        product = partial(product24, mode=mode, type_name=type_name)
        return computed(product, code.write(ins.operands[0], "u32"), sources)
    if mode == "lo":
        a, b = reads(code, ins, [type_name] * 2)
        return into(np.multiply, code.write(ins.operands[0], type_name), a, b)
    if mode == "wide":
        a, b = reads(code, ins, [type_name] * 2)
        d = code.write(ins.operands[0], wide(type_name))

        def widened(v: Values, g: Any) -> None:
            out = v[d]
            np.multiply(v[a], v[b], out=out, dtype=out.dtype)

        return widened
    seen = unsigned(type_name)
    sources = reads(code, ins, [seen, seen])
    return computed(partial(integers.mulhi, dtype=type_name), code.write(ins.operands[0], seen), sources)


def product24(a: Any, b: Any, mode: str, type_name: str) -> Any:
    """Multiplies the low 24 bits of the two operands. Returns the low or the high 32 bits of the 48-bit product (PTX
    ISA "mul24")."""
    if type_name == "s32":
        x, y = ((value.view(np.int32) << 8 >> 8).astype(np.int64) for value in (a, b))
    else:
        x, y = ((value & np.uint32(0xFFFFFF)).astype(np.int64) for value in (a, b))
    return (x * y >> (16 if mode == "hi" else 0)).astype(np.uint32)


@instruction("mad", "mad24", "madc")
def mad(code: Code, ins: PtxInstruction) -> Op:
    kind, words = ins.opcode[0], ins.opcode[1:]
    type_name = words[-1]
    if type_name[0] not in "su":
        return fused(code, ins)
    mode = words[0]
    if kind == "mad24":
        a, b, c = reads(code, ins, ["u32"] * 3)
        d = code.write(ins.operands[0], "u32")
        saturate = "sat" in words

        def sum24(x: Any, y: Any, z: Any) -> Any:
            return integers.add(product24(x, y, mode, type_name), z, type_name, saturate)

        return computed(sum24, d, [a, b, c])
    seen = unsigned(type_name)
    if kind == "madc" or "cc" in words:
        return with_carry(code, ins, partial(integers.madc, dtype=type_name, mode=mode))
    if mode == "hi":
        sources = reads(code, ins, [seen, seen, seen])
        function = partial(integers.mad_hi, dtype=type_name, saturate="sat" in words)
        return computed(function, code.write(ins.operands[0], seen), sources)
    result_type = wide(type_name) if mode == "wide" else type_name
    a, b, c = reads(code, ins, [type_name, type_name, result_type])
    d = code.write(ins.operands[0], result_type)
    dtype = np.dtype(DTYPES[result_type])

    def run(v: Values, g: Any) -> None:
        np.add(np.multiply(v[a], v[b], dtype=dtype), v[c], v[d])

    return run


@instruction("and", "or", "xor")
def logic(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    sources = reads(code, ins, [type_name, type_name])  # they may be predicates
    return into(UFUNCS[ins.opcode[0]], code.write(ins.operands[0], type_name), *sources)


@instruction("not")
def complement(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    (a,) = reads(code, ins, [type_name])
    return into(np.invert, code.write(ins.operands[0], type_name), a)


@instruction("shl", "shr")
def shift(code: Code, ins: PtxInstruction) -> Op:
    """Implements `shl` and `shr`. PTX clamps shift counts to the width. For a count of the width or more, numpy also
    returns 0 or copies of the sign bit."""
    left, type_name = ins.opcode[0] == "shl", ins.opcode[-1]
    seen = type_name if type_name[0] == "s" and not left else unsigned(type_name)
    width = int(type_name[1:])
    a = code.read(ins.operands[1], seen)
    operand = ins.operands[2]
    d = code.write(ins.operands[0], seen)
    function = np.left_shift if left else np.right_shift
    # A constant count is clamped when the closure is built. A count of 2 · width - 1 already shifts out all bits.
    fixed = code.fixed_value(operand)
    if fixed is not None:
        return into(function, d, a, code.constant(min(fixed & 0xFFFFFFFF, width * 2 - 1), seen))
    b = code.read(operand, "u32")
    wide_dtype = np.dtype(DTYPES[seen])
    if width == 32:

        def same_width(v: Values, g: Any) -> None:
            function(v[a], np.minimum(v[b], 63).view(wide_dtype), v[d])

        return same_width

    def run(v: Values, g: Any) -> None:
        function(v[a], np.minimum(v[b], 127).astype(wide_dtype), v[d])

    return run


@instruction("abs", "neg")
def sign(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    if type_name[0] != "s":
        return float_sign(code, ins)
    (a,) = reads(code, ins, [type_name])
    return into(np.absolute if ins.opcode[0] == "abs" else np.negative, code.write(ins.operands[0], type_name), a)


@instruction("min", "max")
def extreme(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    if type_name[0] not in "su":
        return float_extreme(code, ins)
    function = UFUNCS[ins.opcode[0]]
    a, b = reads(code, ins, [type_name, type_name])
    d = code.write(ins.operands[0], type_name)
    if "relu" in ins.opcode:
        return computed(lambda x, y: np.maximum(function(x, y), x.dtype.type(0)), d, [a, b])
    return into(function, d, a, b)


@instruction("div", "rem")
def divide(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    if type_name[0] not in "su":
        return float_divide(code, ins)
    function = integers.div if ins.opcode[0] == "div" else integers.rem
    a, b = reads(code, ins, [unsigned(type_name)] * 2)
    d = code.write(ins.operands[0], unsigned(type_name))

    def run(v: Values, g: Any) -> None:
        divisor = v[b]
        if not divisor.all():
            g.launch.divided = True  # a second run then tracks the quotient (`undefined.py`)
        v[d][...] = function(v[a], divisor, type_name)

    return run


# Instructions that compute one function. Each value contains the types of the sources, the type of the result, and a
# function from the words of the opcode to the numpy function. T is the unsigned type of the opcode's width.
COMPUTED: dict[str, tuple[str, str, Callable[[tuple[str, ...]], Callable[..., Any]]]] = {
    "popc": ("T", "u32", lambda words: integers.popc),
    "clz": ("T", "u32", lambda words: partial(integers.clz, dtype=words[-1])),
    "brev": ("T", "T", lambda words: integers.brev),
    "cnot": ("T", "T", lambda words: integers.cnot),
    "bfind": ("T", "u32", lambda words: partial(integers.bfind, dtype=words[-1], shiftamt="shiftamt" in words)),
    "sad": ("T T T", "T", lambda words: partial(integers.sad, dtype=words[-1])),
    "dp4a": ("u32 u32 u32", "u32", lambda words: partial(integers.dp4a, a_type=words[1], b_type=words[2])),
    "dp2a": (
        "u32 u32 u32",
        "u32",
        lambda words: partial(integers.dp2a, mode=words[1], a_type=words[2], b_type=words[3]),
    ),
    "bfe": ("T u32 u32", "T", lambda words: partial(integers.bfe, dtype=words[-1])),
    "bfi": ("T T u32 u32", "T", lambda words: partial(integers.bfi, dtype=words[-1])),
    "fns": ("u32 u32 u32", "u32", lambda words: integers.fns),
    "szext": ("u32 u32", "u32", lambda words: partial(integers.szext, mode=words[1], dtype=words[2])),
    "bmsk": ("u32 u32", "u32", lambda words: partial(integers.bmsk, mode=words[1])),
    "shf": ("u32 u32 u32", "u32", lambda words: partial(integers.shf, direction=words[1], mode=words[2])),
    "prmt": ("u32 u32 u32", "u32", lambda words: partial(integers.prmt, mode=words[2] if len(words) > 2 else None)),
}


@instruction(*COMPUTED)
def one_function(code: Code, ins: PtxInstruction) -> Op:
    types, result, function = COMPUTED[ins.opcode[0]]
    own = {"T": unsigned(ins.opcode[-1])}
    sources = reads(code, ins, [own.get(each, each) for each in types.split()])
    return computed(function(ins.opcode), code.write(ins.operands[0], own.get(result, result)), sources)


@instruction("lop3")
def lop3(code: Code, ins: PtxInstruction) -> Op:
    """Implements `lop3.b32 d, a, b, c, lut`. The form `lop3.{and,or}.b32 d|p, …, q` is not supported, since LLVM and
    nvcc do not emit it."""
    table = partial(integers.lop3, lut=constant_of(ins.operands[4]))
    sources = [code.read(operand, "u32") for operand in ins.operands[1:4]]
    return computed(table, code.write(ins.operands[0], "u32"), sources)
