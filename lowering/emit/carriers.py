"""Elements as the integers that instructions take in their place: bits of a float, a byte in a wider register."""

from __future__ import annotations

from lowering.emit.writer import Writer
from lowering.types import DType


def into_carrier(w: Writer, x: str, dtype: DType, carrier: str) -> str:
    llvm = w.llvm(dtype)
    if llvm == carrier:
        return x
    if dtype.is_float:
        return w.let(f"bitcast {llvm} {x} to {carrier}")
    return w.let(f"{'sext' if dtype.is_signed else 'zext'} {llvm} {x} to {carrier}")


def from_carrier(w: Writer, x: str, dtype: DType, carrier: str) -> str:
    llvm = w.llvm(dtype)
    if llvm == carrier:
        return x
    if dtype.is_float:
        return w.let(f"bitcast {carrier} {x} to {llvm}")
    return w.let(f"trunc {carrier} {x} to {llvm}")
