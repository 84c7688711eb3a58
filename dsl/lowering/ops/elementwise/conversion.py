"""Declares conversions of values, reinterpretation of bits, and inline PTX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from dsl.lowering.ir.fold import constant_of, wrap
from dsl.lowering.ir.function import Op, Value
from dsl.lowering.ir.types import (
    BF16,
    F16,
    F32,
    F64,
    FP8,
    I1,
    S32,
    TF32,
    TileType,
    Type,
    int_range,
    nearest_number,
)
from dsl.lowering.known.facts import Analysis, Facts, fits, wrapped
from dsl.lowering.ops.spec import Algebra, ElementFacts, Makes, Mismatch, row

FLOATS = (F16, BF16, F32, F64)


def _infer_cast(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, to = operands[0].tile, attrs["to"]
    small = source.dtype in FP8 or to in FP8
    if small and {source.dtype, to} <= {F16, BF16, F32, *FP8}:
        return [source.with_dtype(to)]
    if small:
        made = f"{FP8[0]} and {FP8[1]} are made of f16, bf16 and f32"
        raise Mismatch(f"no conversion from {source.dtype} to {to}; {made}")
    if source.dtype.kind == "operand" or (to.kind == "operand" and (source.dtype, to) != (F32, TF32)):
        raise Mismatch(f"no conversion from {source.dtype} to {to}; bitcast(v, {to}) takes bits as they are")
    return [source.with_dtype(to)]


def _fold_cast(builder: Makes, operands: Sequence[Value], attrs: dict[str, Any]) -> Value | None:
    """Folds casts of constants that are exact, and those between integers."""
    (value,), to = operands, attrs["to"]
    source = value.dtype
    if source is to:
        return value
    number = constant_of(value)
    if number is not None and (source in FLOATS or source.is_int):
        exact = nearest_number(number, source) if source in FLOATS else number
        if to in FLOATS and nearest_number(exact, to) == exact:
            return builder.constant(exact, to, value.tile.shape)
        if to.is_int and int_range(to)[0] <= exact <= int_range(to)[1] and int(exact) == exact:
            return builder.constant(int(exact), to, value.tile.shape)
    if not to.is_int:
        return None
    # int(floor(x)) is one `cvt` with the rounding mode of `floor`.
    if attrs["rounding"] in (None, "rz") and value.op is not None and value.op.spec.algebra.rounds is not None:
        return builder.value("cast", value.op.operands[0], **attrs | {"rounding": value.op.spec.algebra.rounds})
    if source.is_float or source is I1 or attrs["saturate"]:
        return None
    number = None if number is None else wrap(int(number), to)
    return None if number is None else builder.constant(number, to, value.tile.shape)


def _cast_facts(an: Analysis, op: Op, shape: tuple[int, ...]) -> Facts:
    a = an.of(op.operands[0])
    source, to = op.operands[0].dtype, op.attrs["to"]
    ones = (1,) * len(shape)
    if source.is_float or to.is_float or to.kind == "bool":
        return Facts(1, ones, ones, a.same)
    if source.kind == "index" and an.function.index_bits == 64:
        known = fits(a.low, a.high, to) or (to.bits == 64 and to.is_signed)
    else:
        least, most = int_range(source)
        low, high = least if a.low is None else max(a.low, least), most if a.high is None else min(a.high, most)
        known = fits(low, high, to)
        a = replace(a, low=low, high=high) if known else a
    if known or (to.kind == "index" and an.function.index_bits == 64 and source.name != "u64"):
        return a
    if op.attrs["saturate"]:
        return Facts(1, ones, ones, a.same)
    facts = replace(a, low=None, high=None)
    return wrapped(facts, S32 if to.kind == "index" else to)


def _infer_bitcast(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, to = operands[0].tile, attrs["to"]
    if source.dtype.bits != to.bits:
        raise Mismatch(f"the bits of {source.dtype} ({source.dtype.bits}) are not those of {to} ({to.bits})")
    return [source.with_dtype(to)]


def _infer_join_bits(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    source, to = operands[0].tile, attrs["to"]
    if any(o.tile.shape != source.shape or o.dtype is not source.dtype for o in operands):
        raise Mismatch("operands of different shapes or types")
    if source.dtype.bits * len(operands) != to.bits or not to.is_int:
        raise Mismatch(f"{len(operands)} times the bits of {source.dtype} are not those of an integer {to}")
    return [source.with_dtype(to)]


def _infer_asm(operands: Sequence[Value], attrs: dict[str, Any]) -> list[Type]:
    shapes = {o.tile.shape for o in operands}
    if len(shapes) > 1:
        raise Mismatch("operands of different shapes")
    return [TileType(shapes.pop() if shapes else (), d) for d in attrs["types"]]


row(
    "cast", 1, _infer_cast, "to saturate rounding", elementwise=True,
    algebra=Algebra(fold=_fold_cast, keeps="number"),
    elements=ElementFacts(_cast_facts, lambda forms, op: forms.converted(op)),
)  # fmt: skip
row("bitcast", 1, _infer_bitcast, "to", elementwise=True, algebra=Algebra(keeps="bits"))
row("join_bits", (2, 8), _infer_join_bits, "to", elementwise=True)
row("asm", (0, 16), _infer_asm, "text types", elementwise=True, acts="runs text")
