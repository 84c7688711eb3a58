"""Tells ptxas how many blocks of a matrix product run on a multiprocessor at once.

ptxas does not see how much shared memory a launch gives to a block. So it aims at more blocks than there is room for,
and spills to have them: tiles of 64 x 64 got 96 registers and spilled 4 to 16 bytes, where four blocks of 48 KB leave
128 registers to a thread. With their number, four such products take 0.93 to 0.99 of the time (H200)."""

from __future__ import annotations

from dsl.lowering.directives.prefetch_fragments import COPY_BYTES, sums_of_thread
from dsl.lowering.ir.function import Function, walk
from dsl.lowering.ir.targets import Target

LEAST = 128
"""The minimum number of registers that a thread must then have. With 80, 10 of 80 products spill that do not without
the number of blocks."""
OF_SUM = 4
"""The minimum number of registers for each accumulator. With fewer, tiles of 64 x 128 spill."""


def occupancy(function: Function, target: Target) -> None:
    """Sets `blocks_per_sm` to the number of blocks for which shared memory has room, if a thread then has enough
    registers. Keeps the schedule's own limits. Only loops of products alone count, with copies of 16 bytes: others need
    registers for more."""
    narrow = any(op.attrs.get("bytes", COPY_BYTES) < COPY_BYTES for op in walk(function.body) if op.spec.in_flight)
    loops = [op for op in walk(function.body) if op.attrs.get("stepped")]
    shared = function.number("shared_bytes")
    if narrow or not loops or not shared or function.number("blocks_per_sm") or function.number("maxnreg"):
        return
    blocks = target.blocks(shared)
    sums = max(sums_of_thread(function, loop) for loop in loops)
    if target.each(function.launched, blocks) >= max(LEAST, OF_SUM * sums):
        function.attrs["blocks_per_sm"] = blocks
