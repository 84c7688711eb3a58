"""How often machine code runs: what the emulator counts of the PTX, by the line that each instruction came from.

All instructions of a block run equally often. ptxas makes short branches into conditions of instructions, which are
issued then though no lane does them, and takes out of loops what stays the same. So a block runs as often as the middle
one of its instructions that have no condition. Of loops that LLVM leaves ptxas unrolls none. A block that one line has
all of, behind a branch of that line, is the slow way of an instruction, as of a division of large numbers: it does not
run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dsl.runtime.machine_code import ListedBlock, ListedInstruction, listed_blocks

SPECIAL = ("MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO")
"""The unit of exponentials does these (Nsight Compute, "Pipelines: XU")."""
SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS")


@dataclass(slots=True)
class Executed:
    """Of warps: instructions that are issued; those of the unit of exponentials; accesses of shared memory that take a
    wavefront though their condition lets no lane do them."""

    instructions: int = 0
    special: int = 0
    idle_accesses: int = 0


def executed(cubin: bytes, entry: str, runs: Mapping[int, int]) -> Executed:
    """The machine code of one entry. runs: warps that ran each line of the PTX. Raises DeviceError `tool` without
    nvdisasm."""
    return executed_in(listed_blocks(cubin, entry), runs)


def executed_in(blocks: Sequence[ListedBlock], runs: Mapping[int, int]) -> Executed:
    found, calls = Executed(), Counter[int]()
    for block in sorted(blocks, key=lambda each: each.function > 0):
        if block.function:  # what ptxas adds has no line; called functions call none
            times = calls[block.function]
        else:
            times = 0 if is_slow_way(block) else block_runs(block.instructions, runs)
        calls.update(dict.fromkeys(block.calls, times))
        found.instructions += times * len(block.instructions)
        for each in block.instructions:
            name = each.opcode.partition(".")[0]  # F2FP, which packs two, is none of F2F
            if name in SPECIAL:
                found.special += times
            elif name in SHARED and each.is_conditional:
                found.idle_accesses += max(0, times - runs.get(each.ptx_line or 0, 0))
    return found


def block_runs(instructions: Sequence[ListedInstruction], runs: Mapping[int, int]) -> int:
    """How many warps run a block."""
    known = [each for each in instructions if each.ptx_line in runs]
    plain = [each for each in known if not each.is_conditional] or known
    ordered = sorted(runs[each.ptx_line] for each in plain if each.ptx_line is not None)
    return ordered[len(ordered) // 2] if ordered else 0


def is_slow_way(block: ListedBlock) -> bool:
    """Whether one line of PTX has the block and the branch that leads around it."""
    lines = {each.ptx_line for each in block.instructions}
    return len(lines) == 1 and block.behind is not None and block.behind.ptx_line in lines
