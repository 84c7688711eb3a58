"""The operations of the tile IR, by family. There is no list of their names elsewhere."""

from __future__ import annotations

from lowering.ops import channels, control, elementwise, matrix, memory, shapes, threads
from lowering.ops.elementwise import CLASSES
from lowering.ops.memory import operand, space_of
from lowering.ops.spec import OPS, AccessEffect, Mismatch, OpSpec

__all__ = [
    "CLASSES", "OPS", "AccessEffect", "Mismatch", "OpSpec", "channels", "control", "elementwise", "matrix", "memory",
    "operand", "shapes", "space_of", "threads",
]  # fmt: skip
