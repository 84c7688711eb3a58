"""Estimates the work of a launch: bytes, accesses, instructions and matrix products. The estimate uses the emulator's
counters for some blocks, and the machine code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from dsl.examples.first_blocks import FirstBlocks, first_blocks

if TYPE_CHECKING:
    from dsl.runtime.chips import DeviceFacts

COUNTED_SECONDS = 6.0
"""The greatest number of seconds that the emulator spends on a launch that runs on a GPU. A block of a 4096 x 4096 x
4096 matrix product takes 4 s."""
FEW_BLOCKS = 4
"""At most this many blocks per multiprocessor count as few. Persistent kernels do not have more."""
SECTOR, LINE = 32, 128
"""The bytes of a sector of global memory, and of a wavefront over all banks of shared memory."""
STOPPED = ("deadlock", "time limit", "instruction budget")
"""Kinds of findings after which the counters cover only a part of a block."""
PRODUCT = re.compile(r"\b(mma|wgmma)\.\S*?\.m(\d+)n(\d+)k(\d+)((?:\.\w+)*)")
ORDERS = ("row", "col")


class Work(Struct):
    """The work of a launch.

    `bytes` are bytes of global memory, each counted once: the size of the arrays or of the accessed sectors, whichever
    is less. `wavefronts` are those of shared memory. Each shuffle, and each 128 bytes that `wgmma` reads, counts as one
    wavefront. `instructions` and `special` are numbers of warp instructions: all, and exponentials, roots and the like.
    They are counted in the machine code if `of_machine_code` is True, and otherwise in the PTX without moves.

    `products` is explained in `Counters`. `by_warp_groups` is True if `wgmma` computes the products. `blocks` is the
    number of blocks in the grid. `counted` is the number of counted blocks, and 0 if only bytes are known.
    `multiply_adds` maps an operand type to two numbers. The first is the number of multiply-adds of the tensor cores.
    The second is the same work in the unit of `products`, 16-bit multiply-adds."""

    bytes: float = 0.0
    wavefronts: float = 0.0
    instructions: float = 0.0
    products: float = 0.0
    special: float = 0.0
    blocks: int = 1
    counted: int = 0
    of_machine_code: bool = False
    by_warp_groups: bool = False
    multiply_adds: dict[str, list[float]] = field(default_factory=dict)

    @property
    def operations(self) -> float:
        """The number of arithmetic operations. Each multiply-add of the tensor cores counts as two. In kernels without
        tensor cores, each lane of an instruction counts as one."""
        return 2 * sum(count for count, _ in self.multiply_adds.values()) or 32 * self.instructions


def counted_work(kernel: Any, values: list[Any], grid: Sequence[int], facts: DeviceFacts, seconds: float) -> Work:
    """Estimates the work of a launch on a GPU by running one cluster of its blocks on the emulator. `kernel` and
    `values` are as in `first_blocks`."""
    from dsl.runtime import assemble
    from dsl.runtime.errors import RuntimeFault

    header, count = kernel.header, prod(grid)
    unknown = Work(moved_bytes(header, values), blocks=count)
    # If each multiprocessor has few blocks, the first cluster is used, because it has the most work. If each has many
    # blocks, a cluster in the middle of the grid is used, because such a cluster has no edge.
    options = {"from_middle": count > FEW_BLOCKS * facts.sms, "time_limit": seconds, "ptx_lines": True}
    try:
        part = first_blocks(kernel, values, header.cluster, grid=tuple(grid), **options)
    except RuntimeFault:
        return unknown
    if any(finding.kind in STOPPED for finding in part.result.findings):
        return unknown
    cubin = None
    with suppress(RuntimeFault):
        cubin = assemble(kernel.ptx, header.arch, header.entry, header.maxnreg).cubin
    return work_of(kernel, values, part, cubin)


def work_of(kernel: Any, values: list[Any], part: FirstBlocks, cubin: bytes | None) -> Work:
    """Estimates the work of a launch from `part`, some blocks that the emulator has run with counters by line of PTX.
    `cubin` is the machine code, or None. The machine code is ignored if nvdisasm is missing."""
    from dsl.runtime.errors import DeviceError
    from dsl.runtime.executed import Executed, executed

    header, blocks, counters = kernel.header, prod(part.result.grid), part.result.counters
    if counters is None or not part.blocks:
        return Work(moved_bytes(header, values), blocks=blocks)
    totals, whole = counters.totals, part.times
    done, is_known = Executed(totals.instructions - totals.moves, totals.special), False
    with suppress(DeviceError):
        if cubin is not None:
            done, is_known = executed(cubin, header.entry, counters.runs_of_ptx_lines), True
    return Work(
        # A kernel that reads 4 KB of a 16 MB table does not move the whole table.
        min(moved_bytes(header, values), SECTOR * totals.sectors * whole),
        (totals.shared_wavefronts + totals.shuffles + totals.operand_bytes / LINE + done.idle_accesses) * whole,
        done.instructions * whole,
        totals.products * whole,
        done.special * whole,
        blocks,
        part.blocks,
        is_known,
        "wgmma.mma_async" in kernel.ptx,
        multiply_adds_of(kernel.ptx, counters.by_ptx_line, whole),
    )


def multiply_adds_of(ptx: str, by_line: Mapping[int, Any], times: float) -> dict[str, list[float]]:
    """Returns `Work.multiply_adds`, computed from counters by line of PTX and multiplied by `times`."""
    lines = ptx.splitlines()
    found: dict[str, list[float]] = {}
    for number, counters in by_line.items():
        if counters.products and (form := PRODUCT.search(lines[number - 1])):
            m, n, k = map(int, form.group(2, 3, 4))
            rows = m // 4 if form[1] == "wgmma" else m  # a counter counts each warp, and four warps share a wgmma
            types = [word for word in form[5].split(".")[1:] if word not in ORDERS]  # types of D, A, B, C
            # Keyed by the type of A, because D has the accumulator's type.
            counts = found.setdefault(types[1], [0.0, 0.0])
            counts[0] += counters.mma * rows * n * k * times
            counts[1] += counters.products * times
    return found


def moved_bytes(header: Any, values: Sequence[Any]) -> float:
    """Returns the bytes of the arrays that a launch reads, plus the bytes of the arrays that it writes. An array that
    is passed twice counts once."""
    from dsl.runtime import describe
    from dsl.runtime.header import HeaderTensor

    found: dict[tuple[int, str], int] = {}
    for param, value in zip(header.params, values, strict=True):
        if isinstance(param, HeaderTensor) and value is not None:
            array = describe(value)
            for way in param.access:
                key = (array.pointer, way)
                found[key] = max(found.get(key, 0), array.size * array.itemsize)
    return float(sum(found.values()))
