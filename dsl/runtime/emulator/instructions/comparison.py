"""Implements comparison and selection: setp, set, selp, slct (PTX ISA 9.7.6, 9.7.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numerics
from ..code import PACKED, Code, Op, Values
from ..integers import UNSIGNED_ORDER
from ..numerics import COMPARISONS
from ..reader import Operand, Pair, PtxInstruction
from .registry import computed, instruction

BOOLEANS: dict[str, np.ufunc] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def comparison(type_name: str, test: str, ftz: bool) -> tuple[str, Callable[..., Any]]:
    """Returns the type as which the operands are read, and a function that compares two arrays and returns an array of
    bools."""
    if type_name[0] in "sub" and type_name not in {"bf16", "bf16x2"}:
        if test in UNSIGNED_ORDER:
            return "u" + type_name[1:], COMPARISONS[UNSIGNED_ORDER[test]]
        return type_name, COMPARISONS[test]
    dtype = type_name.removesuffix("x2")
    # These comparisons use numpy's ufunc. With a NaN operand, `ne` is true in numpy and false in PTX.
    if type_name in {"f32", "f64"} and not ftz and test in COMPARISONS and test != "ne":
        return type_name, COMPARISONS[test]
    return type_name, lambda a, b: numerics.compare(a, b, test, dtype, ftz)


def combined(code: Code, words: tuple[str, ...], operands: tuple[Operand, ...]) -> Callable[[Values, Any], Any]:
    """Returns a function that evaluates `CmpOp{.BoolOp}{.ftz}.type` on the operands `a, b{, c}`. It returns the
    predicate p, or the predicate q if its argument `negate` is true."""
    boolean = next((word for word in words if word in BOOLEANS), None)
    seen, compare = comparison(words[-1], words[0], "ftz" in words)
    a, b = (code.read(operand, seen) for operand in operands[:2])
    if boolean is None:
        return lambda v, negate: ~compare(v[a], v[b]) if negate else compare(v[a], v[b])
    c, negated = code.predicate(operands[2])
    join = BOOLEANS[boolean]

    def both(v: Values, negate: bool) -> Any:
        third = ~v[c] if negated else v[c]
        result = compare(v[a], v[b])
        if result.ndim > 1:
            third = third[:, None]  # c applies to both halves of a packed comparison
        return join(~result if negate else result, third)

    return both


@instruction("setp")
def setp(code: Code, ins: PtxInstruction) -> Op:
    """Implements `setp p|q`. q is the negated comparison, combined with c. A packed comparison gives one predicate for
    each half."""
    target = ins.operands[0]
    words = ins.opcode[1:]
    test = combined(code, words, ins.operands[1:])
    if isinstance(target, Pair):
        p, q = code.write(target.first, "pred"), code.write(target.second, "pred")
        is_packed = words[-1] in PACKED

        def pair(v: Values, g: Any) -> None:
            first, second = test(v, False).T if is_packed else (test(v, False), test(v, True))
            v[p][...] = first
            v[q][...] = second

        return pair
    d = code.write(target, "pred")
    if len(words) == 2:
        seen, compare = comparison(words[-1], words[0], ftz=False)
        a, b = (code.read(operand, seen) for operand in ins.operands[1:3])
        if isinstance(compare, np.ufunc):
            ufunc = compare

            def direct(v: Values, g: Any) -> None:
                ufunc(v[a], v[b], v[d])

            return direct

    def run(v: Values, g: Any) -> None:
        v[d][...] = test(v, False)

    return run


ONES = {"u32": 0xFFFFFFFF, "s32": -1, "f32": 1.0, "f16": 1.0, "bf16": 0x3F80, "u16": 0xFFFF, "s16": -1}


@instruction("set")
def set_value(code: Code, ins: PtxInstruction) -> Op:
    """Implements `set.CmpOp…dtype.stype`: if the comparison is true, writes all ones, or 1.0 to a float destination,
    and otherwise 0. Packed sources give one value for each half."""
    *words, result_type, source_type = ins.opcode[1:]
    if source_type in PACKED and result_type not in PACKED:
        # The integer result of a packed comparison has two halves, one for each half of the sources.
        result_type = "u16x2"
    test = combined(code, (*words, source_type), ins.operands[1:])
    kind = PACKED[result_type][0] if result_type in PACKED else result_type
    d = code.write(ins.operands[0], result_type)

    def run(v: Values, g: Any) -> None:
        out = v[d]
        out[...] = np.where(test(v, False), np.array(ONES[kind]).astype(out.dtype), out.dtype.type(0))

    return run


@instruction("selp")
def selp(code: Code, ins: PtxInstruction) -> Op:
    type_name = ins.opcode[-1]
    a, b = (code.read(operand, type_name) for operand in ins.operands[1:3])
    p, negated = code.predicate(ins.operands[3])
    if negated:
        a, b = b, a
    d = code.write(ins.operands[0], type_name)

    def run(v: Values, g: Any) -> None:
        v[d][...] = np.where(v[p], v[a], v[b])

    return run


@instruction("slct")
def slct(code: Code, ins: PtxInstruction) -> Op:
    """`slct` selects a if c >= 0, else b. NaN selects b, and -0 counts as 0 (PTX ISA "slct")."""
    type_name, test_type = ins.opcode[-2:]
    a, b = (code.read(operand, type_name) for operand in ins.operands[1:3])
    c = code.read(ins.operands[3], test_type)
    d = code.write(ins.operands[0], type_name)
    return computed(lambda x, y, test: np.where(test >= 0, x, y), d, [a, b, c])
