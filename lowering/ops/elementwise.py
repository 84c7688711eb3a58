"""Operations of which register i of the result comes from register i of the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lowering.ir import Value
from lowering.ops.spec import Infer, Mismatch, row
from lowering.types import BF16, F16, F32, FP8, I1, TF32, DType, TileType, Type

CLASSES: dict[str, Callable[[DType], bool]] = {
    "a number": lambda d: d.kind not in ("bool", "operand"),
    "an integer": lambda d: d.is_int,
    "an integer or i1": lambda d: d.is_int or d is I1,
    "a float": lambda d: d.is_float,
    "f32": lambda d: d is F32,
    "a number or i1": lambda d: d.kind != "operand",
    "s32 or u32": lambda d: d.name in ("s32", "u32"),
}


def _elementwise(of: str, result: DType | None = None) -> Infer:
    """All operands of one type in class `of`; the result has that type or `result`."""
    accepts = CLASSES[of]

    def infer(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
        first = operands[0].tile
        for operand in operands:
            if operand.tile.dtype is not first.dtype:
                raise Mismatch(f"operands of different types: {', '.join(str(o.dtype) for o in operands)}")
            if operand.tile.shape != first.shape:
                raise Mismatch(f"operands of different shapes: {', '.join(str(list(o.shape)) for o in operands)}")
        if not accepts(first.dtype):
            raise Mismatch(f"needs {of}; got {first.dtype}")
        return [first.with_dtype(result) if result else first]

    return infer


for _name, _arity, _class in (
    ("add", 2, "a number"),
    ("sub", 2, "a number"),
    ("mul", 2, "a number"),
    ("div", 2, "a float"),
    ("floordiv", 2, "an integer"),
    ("mod", 2, "an integer"),
    ("minimum", 2, "a number or i1"),
    ("maximum", 2, "a number or i1"),
    ("neg", 1, "a number"),
    ("abs", 1, "a number"),
    ("fma", 3, "a float"),
    ("mulhi", 2, "an integer"),
    ("and", 2, "an integer or i1"),
    ("or", 2, "an integer or i1"),
    ("xor", 2, "an integer or i1"),
    ("not", 1, "an integer or i1"),
    ("shl", 2, "an integer"),
    ("shr", 2, "an integer"),
    ("popc", 1, "an integer"),
    ("clz", 1, "an integer"),
    ("brev", 1, "an integer"),
    ("floor", 1, "a float"),
    ("ceil", 1, "a float"),
    ("round", 1, "a float"),  # to nearest, ties to even
    ("trunc", 1, "a float"),
    ("sqrt", 1, "a float"),  # correctly rounded
    ("copysign", 2, "a float"),
    ("ex2.approx", 1, "f32"),
    ("ex2.approx.ftz", 1, "f32"),
    ("lg2.approx", 1, "f32"),
    ("sin.approx", 1, "f32"),
    ("cos.approx", 1, "f32"),
    ("tanh.approx", 1, "f32"),
    ("rcp.approx", 1, "f32"),
    ("rsqrt.approx", 1, "f32"),
    ("sqrt.approx", 1, "f32"),
):
    row(_name, _arity, _elementwise(_class), elementwise=True)

for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    row(_name, 2, _elementwise("a number or i1", I1), elementwise=True)


def _infer_select(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    condition, yes, no = (o.tile for o in operands)
    if condition.dtype is not I1:
        raise Mismatch(f"the condition is {condition.dtype}, not i1")
    if yes.dtype is not no.dtype or not (condition.shape == yes.shape == no.shape):
        raise Mismatch(f"cannot choose between {yes} and {no}")
    return [yes]


def _infer_cast(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, to = operands[0].tile, attrs["to"]
    small = source.dtype in FP8 or to in FP8
    if small and {source.dtype, to} <= {F16, BF16, F32, *FP8}:
        return [source.with_dtype(to)]
    if small:
        raise Mismatch(
            f"no conversion from {source.dtype} to {to}; {FP8[0]} and {FP8[1]} are made of f16, bf16 and f32"
        )
    if source.dtype.kind == "operand" or (to.kind == "operand" and (source.dtype, to) != (F32, TF32)):
        raise Mismatch(f"no conversion from {source.dtype} to {to}; bitcast(v, {to}) takes bits as they are")
    return [source.with_dtype(to)]


def _infer_bitcast(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, to = operands[0].tile, attrs["to"]
    if source.dtype.bits != to.bits:
        raise Mismatch(f"the bits of {source.dtype} ({source.dtype.bits}) are not those of {to} ({to.bits})")
    return [source.with_dtype(to)]


def _infer_asm(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    shapes = {o.tile.shape for o in operands}
    if len(shapes) > 1:
        raise Mismatch("operands of different shapes")
    return [TileType(shapes.pop() if shapes else (), d) for d in attrs["types"]]


row("select", 3, _infer_select, elementwise=True)
row("cast", 1, _infer_cast, "to saturate rounding", elementwise=True)
row("bitcast", 1, _infer_bitcast, "to", elementwise=True)
row("asm", (0, 16), _infer_asm, "text types", elementwise=True, keep=True)
