"""Properties of devices. The driver reports the properties of a GPU. A table in this file holds the properties of
emulated devices."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.runtime.errors import LaunchError


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Properties of one device. All sizes are in bytes.

    `memory_bandwidth` is in bytes per second and is computed from the memory clock and the bus width. `clock` is the
    highest clock of the multiprocessors in Hertz. An unknown bandwidth or clock is None. `reserved_shared` is the part
    of each block's shared memory that the driver takes."""

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


def emulated_facts(arch: str) -> DeviceFacts:
    """The chip that the emulator models for PTX of the architecture `arch`. For example, `sm_90a` has the chip of
    `sm_90`.

    If the table has no row for `arch`, a chip of the same family is used, since the multiprocessors of a family are
    equal. For example, `sm_121` has the chip of `sm_120`. If the family has no row either, the next newer chip is used,
    since PTX runs on every later device. For example, `sm_60` has the chip of `sm_80`. Raises LaunchError for a name
    that PTX does not have."""
    number = _number(arch)
    if number not in MACHINES:
        raise LaunchError("target", f"no emulated device has {arch}", f"there are {', '.join(EMULATED)}")
    rows = {_number(each): facts for each, facts in EMULATED.items()}
    below = [each for each in rows if each <= number and (each == number or _are_a_family(each, number))]
    above = [each for each in rows if each > number]
    return rows[max(below)] if below else rows[min(above)]


def emulated_arch(target: str) -> str:
    """The architecture for which ptxas assembles PTX of this target, to match the chip that the emulator models.

    The result is the architecture of the chip. If the chip is older than the target, the result is the target. A target
    with a letter is also kept, because its code does not run on every later chip."""
    chip = emulated_facts(target).arch
    return target if target[-1].isalpha() or _number(chip) < _number(target) else chip


def _number(arch: str) -> int:
    """The number in the name of an architecture, such as 90 for `sm_90a`. The result is 0 for any other text."""
    digits = arch.removeprefix("sm_").rstrip("af")
    return int(digits) if arch.startswith("sm_") and digits.isascii() and digits.isdecimal() and len(digits) < 5 else 0


def _are_a_family(one: int, other: int) -> bool:
    return one >= FIRST_FAMILY and one // 10 == other // 10


def most_blocks(facts: DeviceFacts, registers: int, threads: int, shared_bytes: int) -> dict[str, int]:
    """The number of blocks that each limit of a multiprocessor allows.

    `registers` are the registers of a thread. `shared_bytes` is the shared memory of a block. Each warp gets registers
    in units of 256 (CUDA occupancy calculator, compute capability 8.0 and later)."""
    warps = -(-threads // 32)
    warp_registers = -(-max(registers, 1) * 32 // 256) * 256
    return {
        "threads": facts.threads_per_sm // (warps * 32),
        "registers": facts.registers_per_sm // (warp_registers * warps),
        "shared memory": facts.shared_per_sm // (shared_bytes + facts.reserved_shared or 1),
        "blocks": facts.blocks_per_sm,
    }


def occupancy(facts: DeviceFacts, registers: int, threads: int, shared_bytes: int) -> tuple[float, str]:
    """The fraction of a multiprocessor's threads that are active, and the limit that determines this fraction."""
    limits = most_blocks(facts, registers, threads, shared_bytes)
    limited_by = min(limits, key=lambda name: limits[name])
    return limits[limited_by] * threads / facts.threads_per_sm, limited_by
