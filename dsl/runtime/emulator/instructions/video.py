"""Implements the scalar video instructions (PTX ISA 9.7.18). Each computes one operation on bytes or halves of
registers. It may then combine the result with c, or insert it into c."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..code import Code, Op, Values
from ..reader import Operand, Part, PtxInstruction
from ..reductions import UFUNCS
from .registry import instruction

OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vabsdiff": lambda a, b: np.absolute(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
    "vshl": np.left_shift,
    "vshr": np.right_shift,
}


def field(part: str) -> tuple[int, int]:
    """Returns (first bit, width) of a part of a register: b0 to b3, h0 or h1."""
    width = 8 if part[0] == "b" else 16
    return int(part[1]) * width, width


def limits(signed: bool, width: int) -> tuple[int, int]:
    return (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)


def extended(bits: Any, signed: bool, width: int) -> Any:
    """Sign- or zero-extends the low `width` bits to int64."""
    bits = bits.astype(np.int64) & ((1 << width) - 1)
    return (bits ^ 1 << (width - 1)) - (1 << (width - 1)) if signed else bits


def part_reader(code: Code, operand: Operand, type_name: str) -> Callable[[Values], Any]:
    """Returns a function that reads a source register, or a part of it, and extends it to int64 according to its
    type."""
    start, width = field(operand.part) if isinstance(operand, Part) else (0, 32)
    entry = code.read(operand.register if isinstance(operand, Part) else operand, "u32")
    signed = type_name[0] == "s"
    return lambda v: extended(v[entry] >> np.uint32(start), signed, width)


@instruction(*OPERATIONS)
def video(code: Code, ins: PtxInstruction) -> Op:
    """Builds a video instruction. The first operation is exact. `.sat` clamps its result to the width of d, or of the
    part of d that receives the result."""
    d_type, a_type, b_type = ins.opcode[1:4]
    operation, words = OPERATIONS[ins.opcode[0]], ins.opcode[4:]
    target = ins.operands[0]
    a, b = part_reader(code, ins.operands[1], a_type), part_reader(code, ins.operands[2], b_type)
    c = code.read(ins.operands[3], "u32") if len(ins.operands) > 3 else None
    signed, second = d_type[0] == "s", next((word for word in words if word in UFUNCS), None)
    start, width = field(target.part) if isinstance(target, Part) else (0, 32)
    low, high = limits(signed, width)
    mask = np.uint32(((1 << width) - 1) << start)
    d = code.write(target.register if isinstance(target, Part) else target, "u32")

    def run(v: Values, g: Any) -> None:
        count = b(v)
        if "wrap" in words:
            count = count & 31
        elif "clamp" in words:
            count = np.minimum(count, 32)
        found = operation(a(v), count)
        if "sat" in words:
            found = np.clip(found, low, high)
        if second is not None and c is not None:
            found = UFUNCS[second](extended(found, signed, 32), extended(v[c], signed, 32))
        result = (found & 0xFFFFFFFF).astype(np.uint32)
        if c is not None and width < 32:
            result = (v[c] & ~mask) | ((result << np.uint32(start)) & mask)
        v[d][...] = result

    return run
