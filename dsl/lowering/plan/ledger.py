"""The ledger of shared memory: how many bytes of a block are taken, and how many a directive may still take.

Directives decide one after the other which tiles are in shared memory and how many stages a ring has. The ledger counts
the tiles that are allocated so far. It estimates the bytes that later passes add: mbarriers beside a TMA ring, and
layout conversions beside any other ring. `place_shared` computes the exact total at the end. If the tiles do not fit
then, the kernel is built again with the next option (`Choices.retreat`).
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from dsl.lowering.ir.function import Function, Value, walk
from dsl.lowering.ir.targets import RESERVED_SHARED, Target

OF_MBARRIERS = 1024
"""Bytes that stay free beside a TMA ring, for two mbarriers of 8 bytes per stage and for alignment."""
OF_CONVERSIONS = 8
"""One eighth of the shared memory stays free beside a ring of `cp.async`, for layout conversions."""


class Ledger:
    """The shared memory of a block of `target`. All numbers are bytes."""

    def __init__(self, function: Function, target: Target):
        self.function, self.target = function, target

    def fits(self, bytes: int) -> bool:
        """Whether a block may have `bytes` bytes of shared memory."""
        return bytes <= self.target.shared

    def taken(self, tiles: Collection[Value] | None = None) -> int:
        """The bytes of these shared tiles, or of all shared tiles."""
        allocations = (op for op in walk(self.function.body) if op.spec.allocates)
        return sum(op.attrs["type"].bytes for op in allocations if tiles is None or op.result in tiles)

    def left(self) -> int:
        """The number of bytes that no tile takes."""
        return self.target.shared - self.taken()

    def left_for_ring(self, others: int, stage: int, is_tma: bool) -> int:
        """The bytes that a ring may have beside `others` bytes of other tiles. `stage` is the bytes of one stage. A TMA
        ring leaves room for the blocks that the schedule requests on an SM, if two stages then still fit."""
        if not is_tma:
            return self.target.shared - self.target.shared // OF_CONVERSIONS - others
        blocks = max(1, self.function.number("blocks_per_sm"))
        most = min(self.target.shared, self.target.shared_per_sm // blocks - RESERVED_SHARED)
        least = others + 2 * stage + OF_MBARRIERS
        return (most if most >= least else self.target.shared) - OF_MBARRIERS - others


def tile_bytes(value: Value) -> int:
    """The bytes of a tile."""
    return prod(value.shape) * value.dtype.bytes
