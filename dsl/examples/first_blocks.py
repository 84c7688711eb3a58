"""Runs the first blocks of a launch on the emulator, as a sample of all blocks. Their counters are shown beside a GPU's
times."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from msgspec import Struct

COUNTED_BLOCKS = 64
COUNTED_BYTES = 1 << 30
"""For a launch on a GPU, the emulator counts up to COUNTED_BLOCKS blocks. It counts no blocks if the arrays of the
launch exceed COUNTED_BYTES."""
OF_A_PART = ("deadlock", "uninitialised read", "time limit", "instruction budget", "workspace not zero")
"""Kinds of findings that do not show a mistake if only the first blocks of a launch run. These blocks may wait for data
that other blocks write."""


class FirstBlocks(Struct, frozen=True):
    """The result of running `blocks` blocks of a launch on the emulator. `result` is a `dsl.runtime.LaunchResult`."""

    result: Any
    blocks: int

    @property
    def times(self) -> float:
        """The factor by which counters of these blocks are multiplied to estimate the whole grid."""
        return prod(self.result.grid) / self.blocks if self.blocks else 1.0

    @property
    def findings(self) -> list[Any]:
        """The findings that show a mistake of the kernel. If only some blocks ran, findings of the kinds in `OF_A_PART`
        are left out."""
        return [each for each in self.result.findings if self.times == 1 or each.kind not in OF_A_PART]


def whole_launch(result: Any) -> FirstBlocks:
    """Wraps the result of a launch whose blocks all ran."""
    return FirstBlocks(result, prod(result.grid))


def blocks_run(grid: Sequence[int], cluster: int, blocks: int | None) -> int:
    """Returns the number of blocks that run if `blocks` are requested, rounded up to whole clusters. None requests all
    blocks."""
    return prod(grid) if blocks is None else min(prod(grid), -(-blocks // cluster) * cluster)


def first_blocks(kernel: Any, values: Sequence[Any], blocks: int, **options: Any) -> FirstBlocks:
    """Runs the first blocks of a launch on the emulator. With `from_middle=True`, blocks from the middle of the grid
    run instead.

    `kernel` is a `dsl.runtime.Kernel` of any device. `values` are the kernel's arguments. Arrays among `values` are in
    host memory, and the blocks may write to them. `options` are those of `Kernel.run`. The emulator's findings are
    collected in the result, and other errors are raised."""
    from dsl.runtime import Kernel

    is_emulated = kernel.device == "emulator"
    # The emulator runs the same PTX as the GPU.
    emulated = kernel if is_emulated else Kernel(kernel.ptx, kernel.header.entry, "emulator")
    result = emulated.run(*values, blocks=blocks, on_finding="collect", **options)
    return FirstBlocks(result, blocks_run(result.grid, kernel.header.cluster, blocks))


def in_words(finding: Any) -> str:
    """Formats a finding of the emulator on one line."""
    return f"{finding.kind}: {finding.message}" + ("" if finding.line is None else f" (line {finding.line})")
