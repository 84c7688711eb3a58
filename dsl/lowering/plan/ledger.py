"""Counts the bytes of shared memory that a block's tiles need, and the bytes that are left for a directive.

Directives decide one after the other which tiles are in shared memory, and how many stages a ring has. The ledger adds
up the tiles that are allocated so far. It also estimates the bytes that later passes need: for mbarriers with a TMA
ring, and for layout conversions with a ring of `cp.async`. `place_shared` computes the exact total at the end. If the
tiles do not fit, the kernel is built again with other options (`Choices.retreat`).
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from dsl.lowering.ir.function import Function, Value, walk
from dsl.lowering.ir.targets import RESERVED_SHARED, Target

OF_MBARRIERS = 1024
"""The bytes that a TMA ring leaves free, for two mbarriers of 8 bytes per stage and for alignment."""
OF_CONVERSIONS = 8
"""A ring of `cp.async` leaves one eighth of the shared memory free, for layout conversions."""


class Ledger:
    """The shared memory of a block of `function` on `target`. All numbers are bytes."""

    def __init__(self, function: Function, target: Target):
        self.function, self.target = function, target

    def fits(self, bytes: int) -> bool:
        """Whether the target allows `bytes` bytes of shared memory per block."""
        return bytes <= self.target.shared

    def taken(self, tiles: Collection[Value] | None = None) -> int:
        """Returns the number of bytes of these `tiles`, or of all shared tiles if `tiles` is None."""
        allocations = (op for op in walk(self.function.body) if op.spec.allocates)
        return sum(op.attrs["type"].bytes for op in allocations if tiles is None or op.result in tiles)

    def left(self) -> int:
        """Returns the number of bytes that are left beside all shared tiles. The number may be negative."""
        return self.target.shared - self.taken()

    def left_for_ring(self, others: int, stage: int, is_tma: bool) -> int:
        """Returns the maximum number of bytes of a ring, beside `others` bytes of other tiles. `stage` is the number of
        bytes of one stage. A TMA ring leaves room for the `blocks_per_sm` of the schedule, unless fewer than two stages
        would then fit."""
        if not is_tma:
            return self.target.shared - self.target.shared // OF_CONVERSIONS - others
        blocks = max(1, self.function.number("blocks_per_sm"))
        most = min(self.target.shared, self.target.shared_per_sm // blocks - RESERVED_SHARED)
        least = others + 2 * stage + OF_MBARRIERS
        return (most if most >= least else self.target.shared) - OF_MBARRIERS - others


def tile_bytes(value: Value) -> int:
    """Returns the number of bytes of a tile."""
    return prod(value.shape) * value.dtype.bytes
