"""Declares functions of integers, and `abs`."""

from __future__ import annotations

from typing import Any

from dsl.lowering.ir.function import Op
from dsl.lowering.ir.types import DType
from dsl.lowering.ops.elementwise.declare import Writes, function, intrinsic
from dsl.lowering.ops.spec import Algebra


def _magnitude(w: Writes, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    if dtype.is_float:
        return intrinsic("fabs")(w, op, dtype, llvm, x)
    if not dtype.is_signed:
        return x[0]
    negative = w.let(f"sub {llvm} 0, {x[0]}")
    return w.intrinsic(f"llvm.smax.{llvm}", llvm, [(llvm, x[0]), (llvm, negative)])


function("abs", 1, "a number", "abs(x)", "magnitude; NaN stays", _magnitude, "abs", numbers=abs)


def _high_product(w: Writes, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    bits = w.bits(dtype)
    wide, extend = f"i{2 * bits}", "sext" if dtype.is_signed else "zext"
    a, b = (w.let(f"{extend} {llvm} {v} to {wide}") for v in x)
    product = w.let(f"mul {wide} {a}, {b}")
    high = w.let(f"lshr {wide} {product}, {bits}")
    return w.let(f"trunc {wide} {high} to {llvm}")


def _upper_half(dtype: DType, a: Any, b: Any) -> Any:
    import numpy as np

    a, b = np.asarray(a), np.asarray(b)
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.int64 if a.dtype.kind == "i" else np.uint64
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    product = a.astype(object) * b.astype(object)  # for scalars, this is an int
    return np.asarray(product >> 64, object).astype(a.dtype)


function(
    "mulhi", 2, "an integer", "mulhi(a, b)", "the upper half of a·b", _high_product, _upper_half,
    algebra=Algebra(commutes=True),
)  # fmt: skip


def _without_sign(x: Any) -> tuple[Any, int]:
    """Returns the bits of integers as unsigned numbers, and the number of bits."""
    import numpy as np

    x = np.asarray(x)
    return x.view(f"u{x.dtype.itemsize}"), x.dtype.itemsize * 8


def _bits_set(dtype: DType, x: Any) -> Any:
    import numpy as np

    return np.bitwise_count(_without_sign(x)[0]).astype(np.asarray(x).dtype)


def _leading_zeros(dtype: DType, x: Any) -> Any:
    import numpy as np

    rest, bits = _without_sign(x)
    for step in (1, 2, 4, 8, 16, 32)[: bits.bit_length() - 1]:
        rest = rest | (rest >> rest.dtype.type(step))
    return (bits - np.bitwise_count(rest)).astype(np.asarray(x).dtype)


def _count_zeros(w: Writes, op: Op, dtype: DType, llvm: str, x: list[str]) -> str:
    return w.intrinsic(f"llvm.ctlz.{llvm}", llvm, [(llvm, x[0]), ("i1", "false")])


def _reversed(dtype: DType, x: Any) -> Any:
    import numpy as np

    rest, bits = _without_sign(x)
    out = np.zeros_like(rest)
    one = rest.dtype.type(1)
    for i in range(bits):
        out = out | (((rest >> rest.dtype.type(i)) & one) << rest.dtype.type(bits - 1 - i))
    return out.view(np.asarray(x).dtype)


function("popc", 1, "an integer", "popc(x)", "set bits", intrinsic("ctpop"), _bits_set)
function("clz", 1, "an integer", "clz(x)", "leading zeros", _count_zeros, _leading_zeros)
function("brev", 1, "an integer", "brev(x)", "bits reversed", intrinsic("bitreverse"), _reversed)
