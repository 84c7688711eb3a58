"""Gives every shared tile its bytes in the block's dynamic shared memory."""

from __future__ import annotations

from lowering.ir import Function
from lowering.location import TileError
from lowering.shared_map import period
from lowering.targets import Target

ALIGN = 16


def place_shared(function: Function, target: Target) -> None:
    """Sets `offset` (bytes) on each `shared_alloc`, the function's `shared_bytes` and `shared_align`.

    A tile lies at a multiple of 16 bytes and of its swizzle's period: those of the longest period first, in order.
    """
    tiles = [op for op in function.body.ops if op.name == "shared_alloc"]
    align = {op: max(ALIGN, period(op.attrs["type"].swizzle)) for op in tiles}
    total = 0
    for op in sorted(tiles, key=lambda op: -align[op]):
        total = -(-total // align[op]) * align[op]
        op.attrs["offset"] = total
        total += op.attrs["type"].bytes
    largest = max(tiles, key=lambda op: op.attrs["type"].bytes, default=None)
    function.attrs["shared_bytes"] = total
    function.attrs["shared_align"] = max(align.values(), default=ALIGN)
    if largest is not None and total > target.shared:
        raise TileError(
            "shared",
            largest.loc,
            f"the kernel needs {total} bytes of shared memory; {target.arch} has {target.shared} a block",
            f"the largest tile is {largest.attrs['type']} with {largest.attrs['type'].bytes} bytes",
        )
