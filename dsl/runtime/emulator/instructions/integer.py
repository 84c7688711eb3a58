"""Integer arithmetic, logic, shifts and bit fields (PTX ISA 9.7.1, 9.7.2, 9.7.8)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import integers
from ..code import PACKED, Code, Op, Values
from ..reader import PtxInstruction, Register
from .floating import binary_float, float_divide, float_extreme, float_sign, fused
from .registry import computed, instruction, into

# The condition code register CC.CF (PTX ISA 9.7.2). It is a named predicate, so that it is tracked like other
# registers.
CARRY = "%carry"


def unsigned(type_name: str) -> str:
    return "u" + type_name[1:]


def wide(type_name: str) -> str:
    return type_name[0] + str(2 * int(type_name[1:]))


def reads(code: Code, ins: PtxInstruction, types: list[str]) -> list[int]:
    return [code.read(operand, name) for operand, name in zip(ins.operands[1:], types, strict=True)]


@instruction("add", "sub")
def add_sub(code: Code, ins: PtxInstruction) -> Op:
    kind, words = ins.opcode[0], ins.opcode[1:]
    type_name = words[-1]
    if type_name[0] not in "su":
        return binary_float(code, ins)
    if type_name in PACKED:
        a, b = reads(code, ins, [type_name] * 2)
        return into(np.add if kind == "add" else np.subtract, code.write(ins.operands[0], type_name), a, b)
    seen = unsigned(type_name)
    a, b = reads(code, ins, [seen, seen])
    d = code.write(ins.operands[0], seen)
    if "cc" in words:
        function = integers.addc if kind == "add" else integers.subc
        return with_carry(code, function, d, a, b, type_name, carries_in=False, carries_out=True)
    if "sat" in words:
        saturating = integers.add if kind == "add" else integers.sub
        return computed(lambda x, y: saturating(x, y, type_name, saturate=True), d, [a, b])
    return into(np.add if kind == "add" else np.subtract, d, a, b)


def with_carry(
    code: Code, function: Any, d: int, a: int, b: int, type_name: str, *, carries_in: bool, carries_out: bool
) -> Op:
    """An addition or subtraction that uses the condition code register. Only `.cc` writes that register."""
    code.registers.setdefault(CARRY, "pred")
    carry_in = code.read(Register(CARRY), "pred") if carries_in else None
    carry_out = code.write(Register(CARRY), "pred") if carries_out else None

    def run(v: Values, g: Any) -> None:
        result, carry = function(v[a], v[b], None if carry_in is None else v[carry_in], type_name)
        v[d][...] = result
        if carry_out is not None:
            v[carry_out][...] = carry

    return run


@instruction("addc", "subc")
def add_with_carry(code: Code, ins: PtxInstruction) -> Op:
    seen = unsigned(ins.opcode[-1])
    a, b = reads(code, ins, [seen, seen])
    d = code.write(ins.operands[0], seen)
    function = integers.addc if ins.opcode[0] == "addc" else integers.subc
    carries_out = "cc" in ins.opcode
    return with_carry(code, function, d, a, b, ins.opcode[-1], carries_in=True, carries_out=carries_out)


@instruction("mul", "mul24")
def mul(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    if type_name[0] not in "su":
        return binary_float(code, ins)
    mode = ins.opcode[1]
    if ins.opcode[0] == "mul24":
        return mul24(code, ins, mode, type_name)
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
    a, b = reads(code, ins, [seen, seen])
    return computed(lambda x, y: integers.mulhi(x, y, type_name), code.write(ins.operands[0], seen), [a, b])


def product24(a: Any, b: Any, mode: str, type_name: str) -> Any:
    """The low or high 32 bits of the 48-bit product of two 24-bit integers (PTX ISA "mul24"). Each integer is the low
    24 bits of its operand."""
    if type_name == "s32":
        x, y = ((value.view(np.int32) << 8 >> 8).astype(np.int64) for value in (a, b))
    else:
        x, y = ((value & np.uint32(0xFFFFFF)).astype(np.int64) for value in (a, b))
    return (x * y >> (16 if mode == "hi" else 0)).astype(np.uint32)


def mul24(code: Code, ins: PtxInstruction, mode: str, type_name: str) -> Op:
    a, b = reads(code, ins, ["u32", "u32"])
    return computed(lambda x, y: product24(x, y, mode, type_name), code.write(ins.operands[0], "u32"), [a, b])


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
    result_type = wide(seen) if mode == "wide" else seen
    if kind == "madc" or "cc" in words:
        return mad_with_carry(code, ins, mode, type_name, seen)
    if mode == "hi":
        a, b, c = reads(code, ins, [seen, seen, seen])
        saturate = "sat" in words
        d = code.write(ins.operands[0], seen)
        return computed(lambda x, y, z: integers.mad(x, y, z, type_name, mode, saturate), d, [a, b, c])
    a, b, c = reads(code, ins, [type_name, type_name, wide(type_name) if mode == "wide" else type_name])
    d = code.write(ins.operands[0], wide(type_name) if mode == "wide" else type_name)
    dtype = np.dtype(("int" if type_name[0] == "s" else "uint") + result_type[1:])

    def run(v: Values, g: Any) -> None:
        np.add(np.multiply(v[a], v[b], dtype=dtype), v[c], v[d])

    return run


def mad_with_carry(code: Code, ins: PtxInstruction, mode: str, type_name: str, seen: str) -> Op:
    carries_in, carries_out = ins.opcode[0] == "madc", "cc" in ins.opcode
    code.registers.setdefault(CARRY, "pred")
    a, b, c = reads(code, ins, [seen, seen, seen])
    carry_in = code.read(Register(CARRY), "pred") if carries_in else None
    d = code.write(ins.operands[0], seen)
    carry_out = code.write(Register(CARRY), "pred") if carries_out else None

    def run(v: Values, g: Any) -> None:
        carry = None if carry_in is None else v[carry_in]
        result, carry = integers.madc(v[a], v[b], v[c], carry, type_name, mode)
        v[d][...] = result
        if carry_out is not None:
            v[carry_out][...] = carry

    return run


LOGIC: dict[str, np.ufunc] = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}


@instruction("and", "or", "xor")
def logic(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    function = LOGIC[ins.opcode[0]]  # on predicates too
    a, b = reads(code, ins, [type_name, type_name])
    return into(function, code.write(ins.operands[0], type_name), a, b)


@instruction("not")
def complement(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    (a,) = reads(code, ins, [type_name])
    return into(np.invert, code.write(ins.operands[0], type_name), a)


@instruction("shl", "shr")
def shift(code: Code, ins: PtxInstruction) -> Op:
    """`shl` or `shr`. PTX clamps counts to the width. numpy gives the same results: 0 or the sign bits for counts past
    the width."""
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
    wide_dtype = np.dtype(("int" if seen[0] == "s" else "uint") + str(width))
    if width == 32:

        def same_width(v: Values, g: Any) -> None:
            function(v[a], np.minimum(v[b], 63).view(wide_dtype), v[d])

        return same_width

    def run(v: Values, g: Any) -> None:
        function(v[a], np.minimum(v[b], 127).astype(wide_dtype), v[d])

    return run


ONE_SOURCE = {
    "popc": integers.popc,
    "clz": integers.clz,
    "brev": integers.brev,
    "cnot": integers.cnot,
}


@instruction("popc", "clz", "brev", "cnot")
def one_source(code: Code, ins: PtxInstruction) -> Op:
    function, type_name = ONE_SOURCE[ins.opcode[0]], ins.opcode[-1]
    (a,) = reads(code, ins, [unsigned(type_name)])
    result = unsigned(type_name) if ins.opcode[0] in {"brev", "cnot"} else "u32"
    return computed(lambda x: function(x, type_name), code.write(ins.operands[0], result), [a])


@instruction("abs", "neg")
def sign(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    if type_name[0] != "s":
        return float_sign(code, ins)
    (a,) = reads(code, ins, [type_name])
    return into(np.absolute if ins.opcode[0] == "abs" else np.negative, code.write(ins.operands[0], type_name), a)


@instruction("bfind")
def bfind(code: Code, ins: PtxInstruction) -> Op:
    type_name, shiftamt = ins.opcode[-1], "shiftamt" in ins.opcode
    (a,) = reads(code, ins, [unsigned(type_name)])
    return computed(lambda x: integers.bfind(x, type_name, shiftamt), code.write(ins.operands[0], "u32"), [a])


EXTREMES: dict[str, np.ufunc] = {"min": np.minimum, "max": np.maximum}


@instruction("min", "max")
def extreme(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    if type_name[0] not in "su":
        return float_extreme(code, ins)
    function = EXTREMES[ins.opcode[0]]
    a, b = reads(code, ins, [type_name, type_name])
    d = code.write(ins.operands[0], type_name)
    if "relu" in ins.opcode:
        return computed(lambda x, y: np.maximum(function(x, y), x.dtype.type(0)), d, [a, b])
    return into(function, d, a, b)


TWO_SOURCES = {"div": integers.div, "rem": integers.rem}


@instruction("div", "rem")
def divide(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    if type_name[0] not in "su":
        return float_divide(code, ins)
    function = TWO_SOURCES[ins.opcode[0]]
    a, b = reads(code, ins, [unsigned(type_name)] * 2)
    d = code.write(ins.operands[0], unsigned(type_name))

    def run(v: Values, g: Any) -> None:
        divisor = v[b]
        if not divisor.all():
            g.launch.divided = True  # a second run then tracks the quotient (`undefined.py`)
        v[d][...] = function(v[a], divisor, type_name)

    return run


@instruction("sad")
def sad(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    sources = reads(code, ins, [unsigned(type_name)] * 3)
    d = code.write(ins.operands[0], unsigned(type_name))
    return computed(lambda x, y, z: integers.sad(x, y, z, type_name), d, sources)


@instruction("dp4a", "dp2a")
def dot_product(code: Code, ins: PtxInstruction) -> Op:
    *mode, a_type, b_type = ins.opcode[1:]
    sources = reads(code, ins, ["u32"] * 3)
    d = code.write(ins.operands[0], "u32")
    if ins.opcode[0] == "dp4a":
        return computed(lambda x, y, z: integers.dp4a(x, y, z, a_type, b_type), d, sources)
    return computed(lambda x, y, z: integers.dp2a(x, y, z, a_type, b_type, mode[0]), d, sources)


@instruction("bfe")
def bfe(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    sources = reads(code, ins, [unsigned(type_name), "u32", "u32"])
    d = code.write(ins.operands[0], unsigned(type_name))
    return computed(lambda x, y, z: integers.bfe(x, y, z, type_name), d, sources)


@instruction("bfi")
def bfi(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    sources = reads(code, ins, [type_name, type_name, "u32", "u32"])
    d = code.write(ins.operands[0], type_name)
    return computed(lambda a, b, c, e: integers.bfi(a, b, c, e, type_name), d, sources)


@instruction("fns")
def fns(code: Code, ins: PtxInstruction) -> Op:
    return computed(integers.fns, code.write(ins.operands[0], "u32"), reads(code, ins, ["u32"] * 3))


@instruction("szext")
def szext(code: Code, ins: PtxInstruction) -> Op:
    _, mode, type_name = ins.opcode
    sources = reads(code, ins, ["u32", "u32"])
    return computed(lambda x, y: integers.szext(x, y, type_name, mode), code.write(ins.operands[0], "u32"), sources)


@instruction("bmsk")
def bmsk(code: Code, ins: PtxInstruction) -> Op:
    mode = ins.opcode[1]
    sources = reads(code, ins, ["u32", "u32"])
    return computed(lambda x, y: integers.bmsk(x, y, mode), code.write(ins.operands[0], "u32"), sources)


@instruction("shf")
def funnel(code: Code, ins: PtxInstruction) -> Op:
    direction, mode = ins.opcode[1:3]
    sources = reads(code, ins, ["u32"] * 3)
    d = code.write(ins.operands[0], "u32")
    return computed(lambda a, b, c: integers.shf(a, b, c, direction, mode), d, sources)


@instruction("prmt")
def prmt(code: Code, ins: PtxInstruction) -> Op:
    mode = ins.opcode[2] if len(ins.opcode) > 2 else None
    sources = reads(code, ins, ["u32"] * 3)
    return computed(lambda a, b, c: integers.prmt(a, b, c, mode), code.write(ins.operands[0], "u32"), sources)


@instruction("lop3")
def lop3(code: Code, ins: PtxInstruction) -> Op:
    """`lop3.b32 d, a, b, c, lut`. The form `lop3.{and,or}.b32 d|p, …, q` is not supported, as LLVM and nvcc do not emit
    it."""
    if len(ins.opcode) != 2:
        raise code.error("lop3 with a predicate result is not supported")
    lut = getattr(ins.operands[4], "value", None)
    if lut is None:
        raise code.error("the table of lop3 must be a constant")
    sources = [code.read(operand, "u32") for operand in ins.operands[1:4]]
    return computed(lambda a, b, c: integers.lop3(a, b, c, lut), code.write(ins.operands[0], "u32"), sources)
