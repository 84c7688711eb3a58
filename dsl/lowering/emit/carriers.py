"""Converts elements to and from the types of asm operands. For example, asm receives a byte in a 16-bit register."""

from __future__ import annotations

from dsl.lowering.emit.text import Text
from dsl.lowering.ir.types import I1, DType


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


def into_word(text: Text, x: str, dtype: DType, bits: int = 32) -> str:
    """Converts an element to an integer of `bits` bits, at least as many as it has. Upper bits are zeros."""
    own = text.bits(dtype)
    raw = x if dtype is I1 else into_carrier(text, x, dtype, f"i{own}")
    return raw if own == bits else text.let(f"zext i{own} {raw} to i{bits}")


def from_word(text: Text, word: str, dtype: DType, bits: int = 32) -> str:
    """Reverses `into_word`."""
    if dtype is I1:
        return text.let(f"icmp ne i{bits} {word}, 0")
    own = text.bits(dtype)
    raw = word if own == bits else text.let(f"trunc i{bits} {word} to i{own}")
    return from_carrier(text, raw, dtype, f"i{own}")
