"""Estimates how often machine instructions run, from the emulator's counts of PTX lines.

ptxas compiles each machine instruction from a line of the PTX, and the emulator counts how often this line runs. All
instructions of a basic block run equally often, but the counts of their PTX lines may differ for two reasons. First,
ptxas turns short branches into predicates. Warps issue a predicated instruction even if no lane executes it. Second,
ptxas hoists invariant instructions out of loops. So the estimate for a block is the median count of its unpredicated
instructions.

The estimate relies on the observation that ptxas does not unroll the loops that LLVM leaves in the PTX. Some PTX
instructions compile to a fast path and a slow path, such as a division with its case for large numbers. A slow path is
a block that comes from the same PTX line as the branch around it. Slow paths are assumed not to run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from dsl.runtime.machine_code import ListedBlock, ListedInstruction, listed_blocks

SPECIAL = ("MUFU", "I2F", "F2I", "F2F", "FRND", "POPC", "FLO")
"""Opcodes that run on the unit for exponentials, the XU (Nsight Compute, "Pipelines: XU")."""
SHARED = ("LDS", "STS", "LDSM", "STSM", "ATOMS")


class Executed(Struct):
    """Estimated instruction counts, summed over all warps.

    `instructions` counts the issued instructions. `special` counts the instructions that run on the unit for
    exponentials (XU). `idle_accesses` counts the accesses to shared memory whose predicate is false in all lanes. Such
    an access still costs a wavefront."""

    instructions: int = 0
    special: int = 0
    idle_accesses: int = 0


def executed(cubin: bytes, entry: str, runs: Mapping[int, int]) -> Executed:
    """Estimates the instruction counts for one entry of `cubin`. `runs` maps each line of the PTX to the number of
    warps that ran the line. Raises DeviceError `tool` if nvdisasm is missing or fails."""
    return executed_in(listed_blocks(cubin, entry), runs)


def executed_in(blocks: Sequence[ListedBlock], runs: Mapping[int, int]) -> Executed:
    found, calls = Executed(), Counter[int]()
    # The blocks of the entry come first, because their calls tell how often the functions run.
    for block in sorted(blocks, key=lambda each: each.function > 0):
        if block.function:  # ptxas added this function: it has no PTX lines, and calls no other functions
            times = calls[block.function]
        else:
            times = 0 if is_slow_way(block) else block_runs(block.instructions, runs)
        calls.update(dict.fromkeys(block.calls, times))
        found.instructions += times * len(block.instructions)
        for each in block.instructions:
            name = each.opcode.partition(".")[0]  # F2FP, which packs two numbers, does not run on the unit of F2F
            if name in SPECIAL:
                found.special += times
            elif name in SHARED and each.is_conditional:
                # Some warps issue the access without running its PTX line: their predicate is false in all lanes.
                found.idle_accesses += max(0, times - runs.get(each.ptx_line or 0, 0))
    return found


def block_runs(instructions: Sequence[ListedInstruction], runs: Mapping[int, int]) -> int:
    """Estimates how often warps run the basic block with these instructions. `runs` is as for `executed`."""
    # `runs` lacks lines that no warp ran.
    known = [each for each in instructions if each.ptx_line in runs]
    plain = [each for each in known if not each.is_conditional] or known
    ordered = sorted(runs[each.ptx_line] for each in plain if each.ptx_line is not None)
    return ordered[len(ordered) // 2] if ordered else 0


def is_slow_way(block: ListedBlock) -> bool:
    """Returns whether a block is a slow path: the block and the branch around it come from the same PTX line."""
    lines = {each.ptx_line for each in block.instructions}
    return len(lines) == 1 and block.behind is not None and block.behind.ptx_line in lines
