"""Properties of devices, such as the number of multiprocessors. The driver reports the properties of a GPU. A table in
this file contains those of emulated devices."""

from __future__ import annotations

from functools import cache

from msgspec import Struct

from dsl.runtime.errors import LaunchError


class DeviceFacts(Struct, frozen=True):
    """Properties of one device. All sizes are in bytes.

    `memory_bandwidth` is in bytes per second and is computed from the memory clock and the bus width. `clock` is the
    highest clock frequency of the multiprocessors in Hertz. An unknown bandwidth or clock is None. `reserved_shared` is
    the shared memory that the driver adds to that of each block."""

    name: str
    arch: str
    sms: int
    shared_per_block: int
    shared_per_sm: int
    reserved_shared: int
    registers_per_sm: int
    threads_per_sm: int
    blocks_per_sm: int
    l2_bytes: int
    memory_bytes: int
    memory_bandwidth: float | None
    clock: float | None


def _row(
    arch: str,
    name: str,
    sms: int,
    shared_kib: int,
    threads: int,
    blocks: int,
    l2_mib: int,
    gib: int,
    tb_s: float,
    ghz: float | None,
):
    return DeviceFacts(
        name=f"emulated {name}",
        arch=arch,
        sms=sms,
        # A block can use all shared memory of a multiprocessor except the KiB that the driver reserves.
        shared_per_block=(shared_kib - 1) << 10,
        shared_per_sm=shared_kib << 10,
        reserved_shared=1 << 10,
        # The number is the same from sm_80 to sm_120.
        registers_per_sm=65536,
        threads_per_sm=threads,
        blocks_per_sm=blocks,
        l2_bytes=l2_mib << 20,
        memory_bytes=gib << 30,
        memory_bandwidth=tb_s * 1e12,
        clock=None if ghz is None else ghz * 1e9,
    )


EMULATED = {
    facts.arch: facts
    for facts in (
        _row("sm_80", "A100", 108, 164, 2048, 32, 40, 80, 2.04, 1.41),
        _row("sm_86", "RTX 3090", 82, 100, 1536, 16, 6, 24, 0.94, 1.695),
        _row("sm_89", "RTX 4090", 128, 100, 1536, 24, 72, 24, 1.01, 2.52),
        _row("sm_90", "H200", 132, 228, 2048, 32, 60, 141, 4.92, 1.98),
        _row("sm_100", "B200", 148, 228, 2048, 32, 126, 192, 8.0, None),
        _row("sm_120", "RTX 5090", 170, 100, 1536, 24, 96, 32, 1.79, 2.407),
    )
}
"""One chip for each architecture.

The limits come from the CUDA programming guide, "Technical specifications per compute capability". Multiprocessors, L2,
memory and clocks come from NVIDIA's papers and datasheets. The values of the H200 are those that its driver reports.

The compiler has its own table (`dsl/lowering/ir/targets.py`). The emulator judges the compiler's code, so the compiler
and the emulator share no data. A test checks that the two tables agree."""


MACHINES = (10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90,
            100, 101, 103, 107, 110, 120, 121)  # fmt: skip
"""The numbers of all past and present PTX targets."""
FIRST_FAMILY = 100
"""From this number on, targets that differ only in the last digit form a family: `sm_103` runs code for `sm_100f`."""


@cache  # each call with new extents asks
def emulated_facts(arch: str) -> DeviceFacts:
    """Returns the properties of the chip that the emulator models for PTX of the architecture `arch`. For `sm_90a`,
    this is the chip of `sm_90`.

    If the table has no row for `arch`, the result is a chip of the same family, since its multiprocessors are equal.
    For `sm_121`, it is the chip of `sm_120`. If the family has no row either, the result is the next newer chip, since
    PTX runs on every later device. For `sm_60`, it is the chip of `sm_80`. Raises LaunchError if `arch` is not a target
    of PTX."""
    number = _number(arch)
    if number not in MACHINES:
        raise LaunchError("target", f"no emulated device has {arch}", f"there are {', '.join(EMULATED)}")
    rows = {_number(each): facts for each, facts in EMULATED.items()}
    below = [each for each in rows if each <= number and (each == number or _are_a_family(each, number))]
    above = [each for each in rows if each > number]
    return rows[max(below)] if below else rows[min(above)]


def emulated_arch(target: str) -> str:
    """Returns the architecture for which ptxas must assemble PTX of `target`, so that the machine code suits the
    emulated chip.

    The result is usually the architecture of the chip. It is `target` itself if the chip is older. It is also `target`
    if this name ends with a letter, because such code does not run on every later chip."""
    chip = emulated_facts(target).arch
    return target if target[-1].isalpha() or _number(chip) < _number(target) else chip


def _number(arch: str) -> int:
    """Returns the number in the name of an architecture: 90 for `sm_90a`, and 0 for any other text."""
    digits = arch.removeprefix("sm_").rstrip("af")
    return int(digits) if arch.startswith("sm_") and digits.isascii() and digits.isdecimal() and len(digits) < 5 else 0


def _are_a_family(one: int, other: int) -> bool:
    return one >= FIRST_FAMILY and one // 10 == other // 10


def most_blocks(facts: DeviceFacts, registers: int, threads: int, shared_bytes: int) -> dict[str, int]:
    """Returns how many blocks each resource of a multiprocessor allows, by the resource's name.

    `registers` is the number of registers of a thread. `shared_bytes` is the shared memory of a block. The hardware
    allocates registers to a warp in units of 256 (CUDA occupancy calculator, compute capability 8.0 and later)."""
    warps = -(-threads // 32)
    warp_registers = -(-max(registers, 1) * 32 // 256) * 256
    return {
        "threads": facts.threads_per_sm // (warps * 32),
        "registers": facts.registers_per_sm // (warp_registers * warps),
        "shared memory": facts.shared_per_sm // (shared_bytes + facts.reserved_shared or 1),
        "blocks": facts.blocks_per_sm,
    }


def occupancy(facts: DeviceFacts, registers: int, threads: int, shared_bytes: int) -> tuple[float, str]:
    """Returns the occupancy and the name of the resource that limits it. The occupancy is the number of active threads
    divided by the maximum."""
    limits = most_blocks(facts, registers, threads, shared_bytes)
    limited_by = min(limits, key=lambda name: limits[name])
    return limits[limited_by] * threads / facts.threads_per_sm, limited_by
