"""Gives every shared tile its bytes in the block's dynamic shared memory."""

from __future__ import annotations

from lowering.ir import Function
from lowering.location import TileError
from lowering.targets import Target

ALIGN = 16


def place_shared(function: Function, target: Target) -> None:
    """Sets `offset` (bytes) on each `shared_alloc` and the function's `shared_bytes`: in order, 16-byte aligned."""
    total = 0
    largest = None
    for op in function.body.ops:
        if op.name != "shared_alloc":
            continue
        total = -(-total // ALIGN) * ALIGN
        op.attrs["offset"] = total
        total += op.attrs["type"].bytes
        if largest is None or op.attrs["type"].bytes > largest.attrs["type"].bytes:
            largest = op
    function.attrs["shared_bytes"] = total
    if largest is not None and total > target.shared:
        raise TileError(
            "shared",
            largest.loc,
            f"the kernel needs {total} bytes of shared memory; {target.arch} has {target.shared} a block",
            f"the largest tile is {largest.attrs['type']} with {largest.attrs['type'].bytes} bytes",
        )
