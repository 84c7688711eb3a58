"""Converts elements to and from the types of asm operands. For example, asm receives a byte in a 16-bit register."""

from __future__ import annotations

from dsl.lowering.emit.text import Text
from dsl.lowering.ir.types import DType


def into_carrier(text: Text, x: str, dtype: DType, carrier: str) -> str:
    llvm = text.llvm(dtype)
    if llvm == carrier:
        return x
    if dtype.is_float:
        return text.let(f"bitcast {llvm} {x} to {carrier}")
    return text.let(f"{'sext' if dtype.is_signed else 'zext'} {llvm} {x} to {carrier}")


def from_carrier(text: Text, x: str, dtype: DType, carrier: str) -> str:
    llvm = text.llvm(dtype)
    if llvm == carrier:
        return x
    if dtype.is_float:
        return text.let(f"bitcast {carrier} {x} to {llvm}")
    return text.let(f"trunc {carrier} {x} to {llvm}")
