"""The instructions, one file for each family. Importing the files fills the table of instructions."""

from __future__ import annotations

from ..code import Code, Op
from ..reader import PtxInstruction
from . import (
    asynchronous,
    atomics,
    barrier,
    bulk_copy,
    cluster_copy,
    comparison,
    control,
    floating,
    integer,
    memory_access,
    movement,
    tensor,
    tensor_copy,
    tensor_map,
    video,
    warp,
    warpgroup,
)
from .registry import Row

FAMILIES = (
    asynchronous,
    atomics,
    barrier,
    bulk_copy,
    cluster_copy,
    comparison,
    control,
    floating,
    integer,
    memory_access,
    movement,
    tensor,
    tensor_copy,
    tensor_map,
    video,
    warp,
    warpgroup,
)


def build(code: Code, ins: PtxInstruction, row: Row) -> Op:
    """The closure of one instruction. Raises `PtxError` if the builder does not know the form."""
    try:
        return row.build(code, ins)
    # The table of legal forms refuses nearly all of these forms earlier. A form that it lets through must still end in
    # an error with a line number.
    except (IndexError, KeyError, StopIteration, ValueError) as error:
        raise code.error(f"unknown form ({error})") from error
