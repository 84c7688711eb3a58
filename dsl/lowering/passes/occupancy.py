"""Tells ptxas how many blocks of a matrix product run on a multiprocessor at once.

ptxas does not see how much shared memory a launch gives to a block. So it aims at more blocks than there is room for,
and spills to have them: tiles of 64 x 64 got 96 registers and spilled 4 to 16 bytes, where four blocks of 48 KB leave
128 registers to a thread. With their number, four such products take 0.93 to 0.99 of the time (H200). If a thread has
all the registers that it can have beside so many blocks, their number forces nothing: f32 227 x 1108 x 197 with a.T
spilled 12 bytes for a fifth block, where shared memory has room for two. 512 threads with 96 accumulators each got 32
of their 128 registers, and spilled 10 KB.

Operands that are loaded by elements need a register for each of them. ptxas gave 80 registers to threads that load 64
elements for 8 accumulators, and spilled 16 bytes. With 96 such a product takes 0.73 of the time."""

from __future__ import annotations

from dsl.lowering.directives.prefetch_fragments import COPY_BYTES, sums_of_thread
from dsl.lowering.ir.fold import constant_of
from dsl.lowering.ir.function import Function, Op, walk
from dsl.lowering.ir.targets import MOST_REGISTERS, Target
from dsl.lowering.ops import space_of

LEAST = 128
"""The minimum number of registers that a thread must then have. With 80, 10 of 80 products spill that do not without
the number of blocks."""
OF_SUM = 4
"""The minimum number of registers for each accumulator. With fewer, tiles of 64 x 128 spill."""
BESIDES = 24
"""The number of registers for addresses and counters of a loop that loads by elements."""
AIMED = 80
"""ptxas itself gives so many registers to threads that need up to LEAST. It does not limit those that need more."""


def occupancy(function: Function, target: Target) -> None:
    """Sets `blocks_per_sm`, if a thread has enough registers beside so many blocks. Keeps the schedule's own limits.
    Loops that multiply by mma.sync and add up count: with copies of 16 bytes, or with loads by elements, or if a thread
    has all its registers anyway."""
    if function.number("blocks_per_sm") or function.number("maxnreg"):
        return
    ops = list(walk(function.body))
    loops = [op for op in ops if op.attrs.get("stepped")]
    most = target.blocks(function.number("shared_bytes"))
    given, all_given = (min(target.each(function.launched, blocks), MOST_REGISTERS) for blocks in (most, 1))
    if given == all_given and any(map(_adds_up, ops)):
        function.attrs["blocks_per_sm"] = most
    elif not loops:
        needed = max((_by_elements(op) for op in ops if op.spec.control.counters), default=0)
        if AIMED < needed <= LEAST and target.each(function.launched, most) < needed:
            fits = (blocks for blocks in range(most, 0, -1) if target.each(function.launched, blocks) >= needed)
            function.attrs["blocks_per_sm"] = next(fits, 1)
    elif all(op.attrs.get("bytes", COPY_BYTES) >= COPY_BYTES for op in ops if op.spec.in_flight):
        sums = max(sums_of_thread(function, loop) for loop in loops)
        if target.each(function.launched, most) >= max(LEAST, OF_SUM * sums):
            function.attrs["blocks_per_sm"] = most


def _adds_up(loop: Op) -> bool:
    """Whether a loop multiplies by mma.sync and adds up. In loops such as attention's, products begin at 0."""
    inner = loop.regions[0].ops if loop.spec.control.counters else ()
    products = [op for op in inner if op.spec.product and not op.spec.wgmma]
    return bool(products) and not any(constant_of(op.operands[-1]) == 0 for op in products)


def _by_elements(loop: Op) -> int:
    """Returns the number of registers that a thread needs for a loop that loads operands by elements from global
    memory, multiplies them by mma.sync, and adds up. Returns 0 for other loops."""
    body = loop.regions[0].ops
    products = [op for op in body if op.spec.product]
    accesses = [op for op in body if op.spec.access.touches or op.regions]
    if not accesses or not _adds_up(loop):
        return 0
    if not all(op.spec.access.kind == "read" and space_of(op.operands[0]) == "global" for op in accesses):
        return 0
    elements = sum(op.result.registers * 32 // op.result.dtype.bits for op in accesses)
    return BESIDES + elements + sum(op.result.registers for op in products)
