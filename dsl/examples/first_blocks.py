"""Some blocks of a launch on the emulator, which stand for all: what is counted beside a GPU's times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

COUNTED_BLOCKS = 64
COUNTED_BYTES = 1 << 30
"""What the emulator counts of a launch on a GPU: its first blocks, unless the arrays have more bytes."""
OF_A_PART = ("deadlock", "uninitialised read", "time limit", "instruction budget", "workspace not zero")
"""Kinds of findings that only the first blocks of a right launch may have: others write what those wait for."""


@dataclass(frozen=True, slots=True)
class FirstBlocks:
    """What the emulator says of `blocks` of the blocks of a launch. result: a `dsl.runtime.LaunchResult`."""

    result: Any
    blocks: int

    @property
    def times(self) -> float:
        """How many times as much all blocks do."""
        return prod(self.result.grid) / self.blocks if self.blocks else 1.0

    @property
    def findings(self) -> list[Any]:
        """Those that a right launch has not, whatever part of it runs."""
        return [each for each in self.result.findings if self.times == 1 or each.kind not in OF_A_PART]


def whole_launch(result: Any) -> FirstBlocks:
    """A launch of which all blocks ran."""
    return FirstBlocks(result, prod(result.grid))


def blocks_run(grid: Sequence[int], cluster: int, blocks: int | None) -> int:
    """How many blocks run where so many are asked for, all for None: whole clusters."""
    return prod(grid) if blocks is None else min(prod(grid), -(-blocks // cluster) * cluster)


def first_blocks(kernel: Any, values: Sequence[Any], blocks: int, **options: Any) -> FirstBlocks:
    """Runs so many of the first blocks, or of those in the middle with `from_middle=True`. kernel: a
    `dsl.runtime.Kernel` of any device; values: its arguments, arrays in host memory, which the blocks write.
    options: of `Kernel.run`. Findings are collected; what else goes wrong is raised."""
    from dsl.runtime import Kernel

    is_emulated = kernel.device == "emulator"
    emulated = kernel if is_emulated else Kernel(kernel.ptx, kernel.header.entry, "emulator")
    result = emulated.run(*values, blocks=blocks, on_finding="collect", **options)
    return FirstBlocks(result, blocks_run(result.grid, kernel.header.cluster, blocks))


def in_words(finding: Any) -> str:
    """A finding of the emulator in one line."""
    return f"{finding.kind}: {finding.message}" + ("" if finding.line is None else f" (line {finding.line})")
