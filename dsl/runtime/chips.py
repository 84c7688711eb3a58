"""Facts of devices: a GPU's come from its driver, an emulated one's from this table."""

from __future__ import annotations

from dataclasses import dataclass

from dsl.runtime.errors import LaunchError


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Sizes in bytes; `memory_bandwidth` in bytes a second, from clock and bus width; `clock` of multiprocessors in
    Hertz, the highest (both None if unknown). `reserved_shared`: the part of each block's shared memory that the driver
    takes."""

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
        # All but the driver's reserved KiB of a multiprocessor.
        shared_per_block=(shared_kib - 1) << 10,
        shared_per_sm=shared_kib << 10,
        reserved_shared=1 << 10,
        # The same from sm_80 to sm_120.
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
"""One chip for each architecture: CUDA programming guide, "Technical specifications per compute capability", and
NVIDIA's papers and datasheets for multiprocessors, L2, memory and clocks (the H200's as its driver reports them). The
compiler has a table of its own (`dsl/lowering/ir/targets.py`), so that the emulator, which judges its code, shares none
with it; a test checks that both agree."""


MACHINES = (10, 11, 12, 13, 20, 21, 30, 32, 35, 37, 50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90,
            100, 101, 103, 107, 110, 120, 121)  # fmt: skip
"""Numbers of all targets that PTX has or had."""
FIRST_FAMILY = 100
"""From this number on, targets with the same tens are a family: `sm_103` takes what is made for `sm_100f`."""


def emulated_facts(arch: str) -> DeviceFacts:
    """The chip that the emulator models for PTX of this architecture (`sm_90` for `sm_90a`). Without a row: that of its
    family, whose multiprocessors are equal (`sm_120` for `sm_121`), else the next newer one, since PTX runs on every
    later device (`sm_80` for `sm_60`). LaunchError for a name that PTX does not have."""
    number = _number(arch)
    if number not in MACHINES:
        raise LaunchError("target", f"no emulated device has {arch}", f"there are {', '.join(EMULATED)}")
    rows = {_number(each): facts for each, facts in EMULATED.items()}
    below = [each for each in rows if each <= number and (each == number or _are_a_family(each, number))]
    above = [each for each in rows if each > number]
    return rows[max(below)] if below else rows[min(above)]


def emulated_arch(target: str) -> str:
    """The architecture for which a text is assembled on its emulated chip: the chip's if it is no older than the
    target; for a target with a letter, which runs on no other chip, the target."""
    chip = emulated_facts(target).arch
    return target if target[-1].isalpha() or _number(chip) < _number(target) else chip


def _number(arch: str) -> int:
    """90 of `sm_90a`; 0 for a text that is no architecture."""
    digits = arch.removeprefix("sm_").rstrip("af")
    return int(digits) if arch.startswith("sm_") and digits.isascii() and digits.isdecimal() and len(digits) < 5 else 0


def _are_a_family(one: int, other: int) -> bool:
    return one >= FIRST_FAMILY and one // 10 == other // 10


def most_blocks(facts: DeviceFacts, registers: int, threads: int, shared_bytes: int) -> dict[str, int]:
    """How many blocks a multiprocessor holds by each limit, from registers a thread and shared bytes a block.

    Registers are allocated by warp in units of 256 (CUDA occupancy calculator, compute capability 8.0 and later)."""
    warps = -(-threads // 32)
    warp_registers = -(-max(registers, 1) * 32 // 256) * 256
    return {
        "threads": facts.threads_per_sm // (warps * 32),
        "registers": facts.registers_per_sm // (warp_registers * warps),
        "shared memory": facts.shared_per_sm // (shared_bytes + facts.reserved_shared or 1),
        "blocks": facts.blocks_per_sm,
    }


def occupancy(facts: DeviceFacts, registers: int, threads: int, shared_bytes: int) -> tuple[float, str]:
    """The share of a multiprocessor's threads that blocks of a kernel occupy, and the limit that decides it."""
    limits = most_blocks(facts, registers, threads, shared_bytes)
    limited_by = min(limits, key=lambda name: limits[name])
    return limits[limited_by] * threads / facts.threads_per_sm, limited_by
