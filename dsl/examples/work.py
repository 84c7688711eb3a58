"""The work of a launch (bytes, accesses, instructions, matrix products), from the emulator's counters of some of its
blocks and from the machine code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any

from dsl.examples.first_blocks import FirstBlocks, first_blocks

if TYPE_CHECKING:
    from dsl.runtime.chips import DeviceFacts

COUNTED_SECONDS = 6.0
"""The most seconds that the emulator counts a launch on a GPU: a block of a 4096 x 4096 x 4096 matrix product takes 4
s."""
FEW_BLOCKS = 4
"""Blocks of a multiprocessor: persistent kernels have at most so few."""
SECTOR, LINE = 32, 128
"""Bytes of a sector of global memory, and of a wavefront over all banks of shared memory."""
STOPPED = ("deadlock", "time limit", "instruction budget")
"""Kinds of findings after which the counters cover only a part of a block."""
PRODUCT = re.compile(r"\b(mma|wgmma)\.\S*?\.m(\d+)n(\d+)k(\d+)((?:\.\w+)*)")
ORDERS = ("row", "col")


@dataclass(slots=True)
class Work:
    """The work of a launch. bytes: of global memory, each once: of the arrays, or of the sectors if these are fewer.
    wavefronts: of shared memory; each shuffle, and each 128 bytes that `wgmma` reads, counts as one. instructions,
    special: of warps, by the machine code if `of_machine_code`, else of the PTX without moves. products: see
    `Counters`; by `wgmma` if `by_warp_groups`. blocks: of the grid. counted: blocks that were counted, 0 if only bytes
    are known. multiply_adds: of tensor cores, by operand type: their number, and the number of 16-bit ones that they
    stand for in `products`."""

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
        """Two for each multiply-add of the tensor cores; in kernels without these, one for each lane of an
        instruction."""
        return 2 * sum(count for count, _ in self.multiply_adds.values()) or 32 * self.instructions


def counted_work(kernel: Any, values: list[Any], grid: Sequence[int], facts: DeviceFacts, seconds: float) -> Work:
    """The work of a launch on a GPU, from one cluster on the emulator. kernel, values: as for `first_blocks`."""
    from dsl.runtime import assemble
    from dsl.runtime.errors import RuntimeFault

    header, count = kernel.header, prod(grid)
    unknown = Work(moved_bytes(header, values), blocks=count)
    # With few blocks a multiprocessor, the first cluster has the most to do; among many, one in the middle has no edge.
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
    """The work of a launch of which the emulator ran a part, with counters by line of PTX. cubin: the machine code, or
    None. Without nvdisasm it is not used."""
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
        # A kernel that reads 4 KB of a table of 16 MB does not move the table.
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
    """The `multiply_adds` of `Work`: counters of the lines of PTX, multiplied by `times`."""
    lines = ptx.splitlines()
    found: dict[str, list[float]] = {}
    for number, counters in by_line.items():
        if counters.products and (form := PRODUCT.search(lines[number - 1])):
            m, n, k = map(int, form.group(2, 3, 4))
            rows = m // 4 if form[1] == "wgmma" else m  # counters are of warps, and four warps share a wgmma
            types = [word for word in form[5].split(".")[1:] if word not in ORDERS]  # of D, A, B, C
            # By the type of A: that of D is the accumulator's.
            counts = found.setdefault(types[1], [0.0, 0.0])
            counts[0] += counters.mma * rows * n * k * times
            counts[1] += counters.products * times
    return found


def moved_bytes(header: Any, values: Sequence[Any]) -> float:
    """Bytes of the arrays of a launch that are read, plus bytes of those that are written. An array that is given twice
    counts once."""
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
