"""Implements `choose recompute.v: anew`: repeats the conversion that computes `v` at each use. So registers hold the
narrow value between the uses.

An example is a row of f16 that is used before and after a reduction. Two of its elements need two registers as f32, but
only one register as f16. LLVM and ptxas would merge equal conversions, so each conversion has the attribute `anew`,
which prevents this.
"""

from __future__ import annotations

from dsl.lowering.ir.function import Block, Function, Op, Value, walk
from dsl.lowering.ir.types import F32


def recompute(function: Function) -> None:
    """Repeats the chosen conversions of 16-bit floats to f32 at each use."""
    chosen: set[Value] = set()
    # Never by default: rows that fit into registers as f32 gain nothing. Rows that spill gain: softmax backward at
    # 32768 columns reaches 1.02 to 1.03 of the speed of a copy instead of 0.80 to 0.92 (docs/softmax.md).
    for op in walk(function.body):
        if is_widening(op):
            value = op.result
            name = value.name or f"{op.operands[0].name or 'value'}.{value.dtype}"
            if function.choices.choose("recompute", name, {"kept": False, "anew": True}, "kept", loc=op.loc):
                chosen.add(value)
    if chosen:
        _renew(function.body, chosen)


def is_widening(op: Op) -> bool:
    if op.spec.algebra.keeps != "number" or op.result.dtype is not F32:
        return False
    source = op.operands[0].dtype
    return source.is_float and source.bits == 16


def _renew(block: Block, chosen: set[Value]) -> None:
    """Inserts a conversion directly before each use of the values in `chosen`, and removes the original conversions."""
    ops: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _renew(region, chosen)
        for value in dict.fromkeys(o for o in op.operands if o in chosen):
            assert value.op is not None
            made = Op(value.op.spec, value.op.operands, [value.type], value.op.attrs | {"anew": True}, (), value.op.loc)
            made.result.stands_for(value)
            ops.append(made)
            op.operands = [made.result if o is value else o for o in op.operands]
        if not (op.results and op.results[0] in chosen):
            ops.append(op)
    block.ops = ops
