"""The operations of the tile IR. Each file declares one family of operations in table rows. There is no other list."""

from __future__ import annotations

from dsl.lowering.ops import (  # noqa: F401 (the rows)
    control,
    elementwise,
    gather,
    matrix,
    memory,
    pipelines,
    shapes,
    threads,
)
from dsl.lowering.ops.elementwise import CLASSES
from dsl.lowering.ops.memory import operand, required, space_of
from dsl.lowering.ops.spec import OPS, Mismatch

__all__ = ["CLASSES", "OPS", "Mismatch", "operand", "required", "space_of"]
