"""Constants in the syntax of LLVM IR."""

from __future__ import annotations

import struct

from dsl.lowering.ir.types import BF16, DType, nearest_number


def constant(value: int | float | bool, dtype: DType) -> str:
    if dtype.is_float:
        return float_constant(float(value), dtype.llvm)
    if dtype.kind == "bool":
        return "true" if value else "false"
    number = int(value)
    if dtype.kind == "unsigned" and number >= 1 << (dtype.bits - 1):
        number -= 1 << dtype.bits
    return str(number)


def float_constant(value: float, llvm: str) -> str:
    """Rounds a float to the LLVM type `llvm`, and returns it in the syntax of LLVM IR."""
    # The syntax is hexadecimal, because LLVM rejects decimal text whose value the type cannot represent exactly. Even a
    # `float` is written as the bits of the double with the same value.
    if llvm == "double":
        return f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"
    try:
        single = struct.unpack(">f", struct.pack(">f", value))[0]
    except OverflowError:
        single = float("inf") if value > 0 else float("-inf")
    if llvm == "float":
        return f"0x{struct.unpack('>Q', struct.pack('>d', single))[0]:016X}"
    if llvm == "bfloat":
        return f"0xR{struct.unpack('>I', struct.pack('>f', nearest_number(value, BF16)))[0] >> 16:04X}"
    try:
        return f"0xH{struct.unpack('>H', struct.pack('>e', value))[0]:04X}"
    except OverflowError:
        return "0xH7C00" if value > 0 else "0xHFC00"
