"""How often machine code runs: the emulator's counts of the PTX, by the line of each instruction's origin.

All instructions of a block run equally often. ptxas turns short branches into predicates, so that these instructions
are issued even if no lane executes them, and hoists invariant instructions out of loops. So a block is taken to run as
often as the median of its unpredicated instructions. ptxas unrolls no loop that LLVM leaves. A block that comes from a
single line, behind a branch of that line, is the slow path of an instruction, such as a division of large numbers: it
is taken not to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dsl.runtime.machine_code import ListedBlock, ListedInstruction, listed_blocks

SPECIAL = ("MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO")
"""Opcodes of the unit for exponentials (Nsight Compute, "Pipelines: XU")."""
SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS")


@dataclass(slots=True)
class Executed:
    """Counts of warps: issued instructions; those of the unit for exponentials; accesses of shared memory that take a
    wavefront although their predicate leaves no lane."""

    instructions: int = 0
    special: int = 0
    idle_accesses: int = 0


def executed(cubin: bytes, entry: str, runs: Mapping[int, int]) -> Executed:
    """Counts the machine code of one entry. runs: number of warps that ran each line of the PTX. Raises DeviceError
    `tool` without nvdisasm."""
    return executed_in(listed_blocks(cubin, entry), runs)


def executed_in(blocks: Sequence[ListedBlock], runs: Mapping[int, int]) -> Executed:
    found, calls = Executed(), Counter[int]()
    # The entry first: its calls say how often the functions run.
    for block in sorted(blocks, key=lambda each: each.function > 0):
        if block.function:  # code that ptxas adds has no line; called functions call no others
            times = calls[block.function]
        else:
            times = 0 if is_slow_way(block) else block_runs(block.instructions, runs)
        calls.update(dict.fromkeys(block.calls, times))
        found.instructions += times * len(block.instructions)
        for each in block.instructions:
            name = each.opcode.partition(".")[0]  # F2FP, which packs two, is another unit than F2F
            if name in SPECIAL:
                found.special += times
            elif name in SHARED and each.is_conditional:
                # Issued by warps that did not run its line: the predicate left no lane.
                found.idle_accesses += max(0, times - runs.get(each.ptx_line or 0, 0))
    return found


def block_runs(instructions: Sequence[ListedInstruction], runs: Mapping[int, int]) -> int:
    """How many warps run a block."""
    # Lines that no warp ran are missing.
    known = [each for each in instructions if each.ptx_line in runs]
    plain = [each for each in known if not each.is_conditional] or known
    ordered = sorted(runs[each.ptx_line] for each in plain if each.ptx_line is not None)
    return ordered[len(ordered) // 2] if ordered else 0


def is_slow_way(block: ListedBlock) -> bool:
    """Whether the block and the branch around it come from one line of PTX."""
    lines = {each.ptx_line for each in block.instructions}
    return len(lines) == 1 and block.behind is not None and block.behind.ptx_line in lines
